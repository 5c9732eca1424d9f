//! A disk in memory that can be stopped between any two operations, and a workload whose every state is
//! known.
#![allow(dead_code, unreachable_pub, clippy::allow_attributes, reason = "each test uses its own part of it")]

pub mod fault_disk;

use std::path::Path;
use std::sync::Arc;

use fault_disk::FaultDisk;
use tenure_core::command::Acquire;
use tenure_core::{CollectionKey, Hash, ItemId, Json, Text, Verb, decide};
use tenure_store::conformance::{Overlay, command, key, wants_of};
use tenure_store::embedded::archive::MemoryArchive;
use tenure_store::embedded::{Embedded, Fold, Options};
use tenure_store::{Batch, Error, Kept, ReplyKey, Store, View};

pub type FaultStore = Embedded<FaultDisk, MemoryArchive>;

pub const START_MS: i64 = 1_700_000_000_000;
pub const FOLDER: &str = "/data";
/// What a claim carries: large enough that a record has several sectors, of which a crash can take some.
const DATA_BYTES: usize = 1_000;

/// Small segments, so that a short workload fills and recycles several.
pub fn small() -> Options {
    Options {
        segment_bytes: 5 * 4096,
        segments_max: 4,
        segments_kept: 2,
        fold: Fold::Manual,
        ..Options::default()
    }
}

pub fn open(disk: &FaultDisk, archive: &MemoryArchive, options: &Options) -> Result<FaultStore, Error> {
    Embedded::open_with(Arc::new(disk.clone()), Path::new(FOLDER), options, |_| Ok(archive.clone()))
}

pub fn collection() -> CollectionKey {
    key("lock/a")
}

pub fn reply_key(step: u64) -> ReplyKey {
    let (principal, key) = (Text::from("ana"), Text::from(format!("step-{step}")));
    ReplyKey { collection: collection(), principal, key }
}

/// One batch of the workload. Its decisions depend only on the step and on what is committed: an
/// acquire, a heartbeat and a release in turn, each with a kept reply.
pub fn step<S: Store>(store: &mut S, step: u64) -> Result<(), Error> {
    step_of(store, step, DATA_BYTES)
}

/// The same with a claim that carries so much.
pub fn step_of<S: Store>(store: &mut S, step: u64, data_bytes: usize) -> Result<(), Error> {
    let now_ms = START_MS + i64::try_from(step).unwrap() * 10;
    let item = ItemId::new(format!("item-{}", (step / 3) % 5)).unwrap();
    let data = Json::of(&format!("{step} {}", "x".repeat(data_bytes))).ok();
    let acquire = Verb::Acquire(Acquire { items: vec![item], data, ..Acquire::default() });
    let reply = reply_key(step);
    let want = wants_of(&command("lock/a", "ana", acquire.clone()), Some(reply.clone()));
    let entry = {
        let view = store.load(&[want])?;
        let claim = tenure_core::Rows::active_claims(&view, &collection()).last().copied().unwrap_or(0);
        let verb = match step % 3 {
            0 => acquire,
            1 => Verb::Heartbeat { claim, token: claim, idle_ms: None },
            _ => Verb::Release { claim },
        };
        let command = command("lock/a", "ana", verb);
        let mut overlay = Overlay::new(&view);
        let decided = decide(&overlay, &command, now_ms);
        let (outcome, entry) = overlay.take(&command, Some(&reply), decided, now_ms);
        outcome.unwrap_or_else(|refusal| panic!("step {step} is always granted: {refusal}"));
        entry
    };
    store.commit(Batch { at_ms: now_ms, entries: entry.into_iter().collect() })
}

/// All that a store says of the workload, in a form that two stores can be compared by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    head: Option<(u64, Hash)>,
    items: Vec<String>,
    claims: Vec<String>,
    high_water_ms: i64,
    kept: Vec<Option<Arc<Kept>>>,
    events: usize,
}

pub fn look<S: Store>(store: &mut S, steps: u64) -> Seen {
    let reader = store.reader();
    let snapshot = reader.snapshot(&collection()).unwrap();
    let kept = (0..steps).map(|step| {
        let want = wants_of(&command("lock/a", "ana", Verb::CreateCollection), Some(reply_key(step)));
        store.load(&[want]).unwrap().kept(&reply_key(step))
    });
    let kept = kept.collect();
    let events = match reader.events(&collection(), 0, 100_000).unwrap() {
        tenure_store::EventPage::Events(events) => events.len(),
        tenure_store::EventPage::Resync { .. } => usize::MAX,
    };
    Seen {
        head: snapshot.as_ref().map(|snapshot| (snapshot.head.seq, snapshot.head.hash)),
        items: snapshot.iter().flat_map(|found| &found.items).map(|item| format!("{item:?}")).collect(),
        claims: snapshot.iter().flat_map(|found| &found.claims).map(|claim| format!("{claim:?}")).collect(),
        high_water_ms: store.high_water_ms(),
        kept,
        events,
    }
}

/// What is to be seen after each number of steps, from the reference store.
pub fn expected(steps: u64) -> Vec<Seen> {
    expected_of(steps, |_| DATA_BYTES)
}

/// The same where each step's claim carries so much.
pub fn expected_of(steps: u64, data_bytes: impl Fn(u64) -> usize) -> Vec<Seen> {
    let mut reference = tenure_store::memory::Memory::default();
    let mut seen = vec![look(&mut reference, steps)];
    for number in 0..steps {
        step_of(&mut reference, number, data_bytes(number)).unwrap();
        seen.push(look(&mut reference, steps));
    }
    seen
}
