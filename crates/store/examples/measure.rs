//! Measures the embedded store on this machine, in the system's folder for temporary files:
//! `cargo run --release --example measure -p tenure-store -- [claims|collections|restart]`.
#![expect(clippy::cast_precision_loss, reason = "figures for people")]

use std::time::{Duration, Instant};

use tenure_core::command::{Acquire, PutItem};
use tenure_core::{Command, Expect, ItemId, ItemWrite, Text, Verb, decide};
use tenure_store::conformance::{Overlay, command};
use tenure_store::embedded::{Embedded, Fold, Options};
use tenure_store::memory::Memory;
use tenure_store::{Batch, Error, Store};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const PER_BATCH: usize = 64;

const COMMANDS: usize = 320_000;

fn main() -> Result<(), Error> {
    let only = std::env::args().nth(1);
    let wanted = |name: &str| only.as_deref().is_none_or(|only| only == name);
    if wanted("claims") {
        for items in [1_000, 100_000, 1_000_000] {
            println!("claims and releases of {items} items:");
            let mut reference = Memory::default();
            let puts = put_items(&mut reference, items);
            claims(&puts, &claims_and_releases(&mut reference, items, 1))?;
        }
    }
    if wanted("collections") {
        for collections in [100, 10_000] {
            println!("claims and releases in {collections} collections:");
            claims(&[], &claims_and_releases(&mut Memory::default(), 1_000_000, collections))?;
        }
    }
    if wanted("restart") { restart() } else { Ok(()) }
}

/// Commits to the bare journal, folds, and then does both at once.
fn claims(first: &[Batch], batches: &[Batch]) -> Result<(), Error> {
    let dir = tempfile::tempdir().expect("a folder");
    let options = Options { fold: Fold::Manual, ..Options::default() };
    let mut store = Embedded::open(dir.path(), &options)?;
    commit_all(&mut store, first)?;
    while store.fold_now(u64::MAX)? > 0 {}
    let (journal, journal_cpu) = timed(|| commit_all(&mut store, batches))?;
    let (fold, fold_cpu) = timed(|| {
        while store.fold_now(u64::MAX)? > 0 {}
        Ok(())
    })?;
    println!("  journal   {:>9.0} commands/s, {:.2} us CPU each", rate(journal), per(journal_cpu));
    println!("  fold      {:>9.0} commands/s, {:.2} us CPU each", rate(fold), per(fold_cpu));
    drop(store);
    let dir = tempfile::tempdir().expect("a folder");
    let mut store = Embedded::open(dir.path(), &Options::default())?;
    commit_all(&mut store, first)?;
    while store.fold_now(u64::MAX)? > 0 {}
    let (both, both_cpu) = timed(|| {
        commit_all(&mut store, batches)?;
        store.close()
    })?;
    println!("  together  {:>9.0} commands/s, {:.2} us CPU each", rate(both), per(both_cpu));
    Ok(())
}

/// Opens with a million items, and then with a full segment of unfolded batches as well.
fn restart() -> Result<(), Error> {
    let dir = tempfile::tempdir().expect("a folder");
    let options = Options { fold: Fold::Manual, ..Options::default() };
    let mut reference = Memory::default();
    let mut store = Embedded::open(dir.path(), &options)?;
    commit_all(&mut store, &put_items(&mut reference, 1_000_000))?;
    store.close()?;
    drop(store);
    let before = resident();
    let start = Instant::now();
    let mut store = Embedded::open(dir.path(), &options)?;
    let bytes = (resident() - before) / 1_000_000;
    println!("open with 1,000,000 items: {:.2?}, {bytes} bytes of memory per item", start.elapsed());
    let (mut round, mut journal_bytes) = (0, 0);
    while journal_bytes < options.segment_bytes {
        let batch =
            decide_batch(&mut reference, &claim_round(round, 1_000_000, 1), 1_800_000_000_000 + ms(round));
        let payload =
            batch.entries.iter().flat_map(|entry| &entry.events).map(|sealed| sealed.bytes.len() + 24);
        journal_bytes += (payload.sum::<usize>() as u64).next_multiple_of(4096);
        store.commit(batch)?;
        round += 1;
    }
    drop((store, reference));
    let start = Instant::now();
    drop(Embedded::open(dir.path(), &options)?);
    println!(
        "and a tail of {} MiB, {} commands: {:.2?}",
        journal_bytes >> 20,
        round * PER_BATCH,
        start.elapsed()
    );
    Ok(())
}

fn ms(round: usize) -> i64 {
    i64::try_from(round).expect("a small number")
}

fn claims_and_releases(reference: &mut Memory, items: usize, collections: usize) -> Vec<Batch> {
    let rounds = 0..COMMANDS / PER_BATCH;
    let decide = |round| {
        decide_batch(reference, &claim_round(round, items, collections), 1_700_000_001_000 + ms(round))
    };
    rounds.map(decide).collect()
}

/// Even rounds claim, odd rounds release what the round before claimed.
fn claim_round(round: usize, items: usize, collections: usize) -> Vec<Command> {
    (0..PER_BATCH)
        .map(|index| {
            let number = (round / 2 * PER_BATCH + index).wrapping_mul(0x9e37_79b1) % items;
            let collection = format!(
                "lock/{}",
                if collections == 1 { "a".to_owned() } else { format!("c{}", number % collections) }
            );
            let item = ItemId::new(format!("item-{number:07}")).expect("valid");
            let actor = format!("user-{}", number % 1_000);
            let acquire = Verb::Acquire(Acquire { items: vec![item.clone()], ..Acquire::default() });
            let verb = if round.is_multiple_of(2) {
                acquire
            } else {
                Verb::ForceRelease { item, reason: Text::from("x") }
            };
            command(&collection, &actor, verb)
        })
        .collect()
}

fn put_items(reference: &mut Memory, items: usize) -> Vec<Batch> {
    let at_ms = 1_700_000_000_000;
    let create = decide_batch(reference, &[command("lock/c0", "ana", Verb::CreateCollection)], at_ms);
    let rounds = (0..items).collect::<Vec<_>>();
    let puts = rounds.chunks(1_000).map(|numbers| {
        let puts = numbers.iter().map(|number| {
            let item = ItemId::new(format!("item-{number:07}")).expect("valid");
            let write = ItemWrite { item, status: None, data: None };
            command("lock/c0", "ana", Verb::PutItem(PutItem { write, expect: Expect::Any, guard: None }))
        });
        decide_batch(reference, &puts.collect::<Vec<_>>(), at_ms)
    });
    let puts: Vec<_> = puts.collect();
    std::iter::once(create).chain(puts).collect()
}

fn decide_batch(reference: &mut Memory, commands: &[Command], at_ms: i64) -> Batch {
    let mut batch = Batch { at_ms, entries: Vec::new() };
    {
        let view = reference.load(&[]).expect("loads");
        let mut overlay = Overlay::new(&view);
        for command in commands {
            let decided = decide(&overlay, command, at_ms);
            batch.entries.extend(overlay.take(command, None, decided, at_ms).1);
        }
    }
    reference.commit(batch.clone()).expect("commits");
    batch
}

fn commit_all(store: &mut Embedded, batches: &[Batch]) -> Result<(), Error> {
    batches.iter().try_for_each(|batch| store.commit(batch.clone()))
}

/// The time and the CPU time that some work took.
fn timed(work: impl FnOnce() -> Result<(), Error>) -> Result<(Duration, Duration), Error> {
    let (start, cpu_start) = (Instant::now(), cpu());
    work()?;
    Ok((start.elapsed(), cpu().saturating_sub(cpu_start)))
}

fn rate(time: Duration) -> f64 {
    COMMANDS as f64 / time.as_secs_f64()
}

fn per(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6 / COMMANDS as f64
}

fn cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).expect("below a second"))
}

fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("a number") * 4096
}
