//! Measures the embedded store on this machine: `cargo run --release --example measure -p tenure-store`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tenure_core::command::{Acquire, PutItem};
use tenure_core::{Command, Expect, ItemId, ItemWrite, Verb, decide};
use tenure_store::conformance::{Overlay, command, key};
use tenure_store::embedded::{Embedded, Fold, Options};
use tenure_store::memory::Memory;
use tenure_store::{Batch, Error, Store};

const PER_BATCH: usize = 64;

fn main() -> Result<(), Error> {
    let commands = 640_000;
    for items in [1_000, 100_000, 1_000_000] {
        let batches = claims_and_releases(items, commands, 1);
        let events: usize = batches.iter().flat_map(|batch| &batch.entries).map(|entry| entry.events.len()).sum();
        let dir = tempfile::tempdir().expect("a folder");
        let options = Options { fold: Fold::Manual, ..Options::default() };
        let mut store = Embedded::open(dir.path(), &options)?;
        let journal = timed(|| commit_all(&mut store, batches.clone()))?;
        let before = cpu();
        let fold = timed(|| {
            while store.fold_now(u64::MAX)? > 0 {}
            Ok(())
        })?;
        let fold_cpu = cpu() - before;
        println!(
            "{items:>9} items: journal {:>9.0} commands/s, fold {:.2} us and {:.2} us CPU per event",
            rate(commands, journal),
            per(fold, events),
            per(fold_cpu, events),
        );
        drop(store);
        let dir = tempfile::tempdir().expect("a folder");
        let mut store = Embedded::open(dir.path(), &Options::default())?;
        let both = timed(|| commit_all(&mut store, batches))?;
        println!("{:>15}: with the fold beside it {:>9.0} commands/s", "", rate(commands, both));
    }
    for collections in [100, 10_000] {
        let batches = claims_and_releases(1_000, commands, collections);
        let dir = tempfile::tempdir().expect("a folder");
        let options = Options { fold: Fold::Manual, ..Options::default() };
        let mut store = Embedded::open(dir.path(), &options)?;
        commit_all(&mut store, batches)?;
        let before = cpu();
        while store.fold_now(u64::MAX)? > 0 {}
        println!("{collections:>9} collections: fold {:.2} us CPU per event", per(cpu() - before, commands));
    }
    restart()
}

/// Open with a million items and a 64 MiB tail.
fn restart() -> Result<(), Error> {
    let dir = tempfile::tempdir().expect("a folder");
    let options = Options { fold: Fold::Manual, ..Options::default() };
    let mut store = Embedded::open(dir.path(), &options)?;
    let puts = put_items(1_000_000);
    commit_all(&mut store, puts)?;
    store.close()?;
    drop(store);
    let before = resident();
    let mut store = None;
    let idle = timed(|| {
        store = Some(Embedded::open(dir.path(), &options)?);
        Ok(())
    })?;
    let bytes = (resident() - before) / 1_000_000;
    println!("open with 1,000,000 items: {:.2} s, {bytes} bytes of memory per item", idle.as_secs_f64());
    let mut store = store.expect("opened");
    let mut events = 0;
    let mut round = 0;
    // Batches as the engine makes them, until a segment is full.
    let reader = store.reader();
    let head = reader.collection(&key("lock/a"))?.expect("it is there");
    let mut reference = Memory::default();
    reference.commit(Batch {
        at_ms: 1,
        entries: vec![tenure_store::Entry {
            collection: key("lock/a"),
            events: Vec::new(),
            beats: Vec::new(),
            changed: tenure_core::Changed { collection: Some(head), ..Default::default() },
            kept: None,
        }],
    })?;
    while store.reader().stats().journal_bytes == stats_at_start(&options) || round == 0 {
        let batch = decide_batch(&mut reference, claim_round(round, 1_000_000, 1), 1_800_000_000_000 + round as i64);
        events += batch.entries.iter().map(|entry| entry.events.len()).sum::<usize>();
        store.commit(batch)?;
        round += 1;
        if round > 3_500 {
            break;
        }
    }
    drop(store);
    let opened = timed(|| Embedded::open(dir.path(), &options).map(drop))?;
    println!("open with a tail of {round} batches and {events} events as well: {:.2} s", opened.as_secs_f64());
    Ok(())
}

fn stats_at_start(options: &Options) -> u64 {
    options.segment_bytes * 5
}

fn claims_and_releases(items: usize, commands: usize, collections: usize) -> Vec<Batch> {
    let mut reference = Memory::default();
    (0..commands / PER_BATCH)
        .map(|round| decide_batch(&mut reference, claim_round(round, items, collections), 1_700_000_000_000 + round as i64))
        .collect()
}

/// Even rounds claim, odd rounds release what the round before claimed.
fn claim_round(round: usize, items: usize, collections: usize) -> Vec<Command> {
    (0..PER_BATCH)
        .map(|index| {
            let number = (round / 2 * PER_BATCH + index).wrapping_mul(0x9e37_79b1) % items;
            let collection = format!("lock/{}", if collections == 1 { "a".to_owned() } else { format!("c{}", number % collections) });
            let item = ItemId::new(format!("item-{number:07}")).expect("valid");
            let actor = format!("user-{}", number % 1_000);
            let acquire = Verb::Acquire(Acquire { items: vec![item.clone()], ..Acquire::default() });
            let verb = if round % 2 == 0 { acquire } else { Verb::ForceRelease { item, reason: Arc::from("x") } };
            command(&collection, &actor, verb)
        })
        .collect()
}

fn put_items(items: usize) -> Vec<Batch> {
    let mut reference = Memory::default();
    let at_ms = 1_700_000_000_000;
    let create = decide_batch(&mut reference, vec![command("lock/a", "ana", Verb::CreateCollection)], at_ms);
    let rounds = (0..items).collect::<Vec<_>>();
    let puts = rounds.chunks(1_000).map(|numbers| {
        let puts = numbers.iter().map(|number| {
            let item = ItemId::new(format!("item-{number:07}")).expect("valid");
            let write = ItemWrite { item, status: None, data: None };
            command("lock/a", "ana", Verb::PutItem(PutItem { write, expect: Expect::Any, guard: None }))
        });
        decide_batch(&mut reference, puts.collect(), at_ms)
    });
    let puts: Vec<_> = puts.collect();
    std::iter::once(create).chain(puts).collect()
}

fn decide_batch(reference: &mut Memory, commands: Vec<Command>, at_ms: i64) -> Batch {
    let mut batch = Batch { at_ms, entries: Vec::new() };
    {
        let view = reference.load(&[]).expect("loads");
        let mut overlay = Overlay::new(&view);
        for command in &commands {
            let decided = decide(&overlay, command, at_ms);
            batch.entries.extend(overlay.take(command, None, decided, at_ms).1);
        }
    }
    reference.commit(batch.clone()).expect("commits");
    batch
}

fn commit_all(store: &mut Embedded, batches: Vec<Batch>) -> Result<(), Error> {
    batches.into_iter().try_for_each(|batch| store.commit(batch))
}

fn timed(work: impl FnOnce() -> Result<(), Error>) -> Result<Duration, Error> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed())
}

fn rate(count: usize, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64()
}

fn per(time: Duration, count: usize) -> f64 {
    time.as_secs_f64() * 1e6 / count as f64
}

fn cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).expect("below a second"))
}

fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("a number") * 4096
}
