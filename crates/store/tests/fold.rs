//! An archive that fails: without room it is tried again, and damaged it ends the store. And how a fold gives way.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use rustix::process::getpriority_process;
use support::fault_disk::FaultDisk;
use support::{FOLDER, expected, look, small, step};
use tenure_store::embedded::archive::{Archive, Group, KeptPlace, Loaded, MemoryArchive};
use tenure_store::embedded::{Embedded, Fold, Options};
use tenure_store::limits::FOLD_NICE;
use tenure_store::{Error, Store};

const GOOD: u8 = 0;
const FULL: u8 = 1;
const DAMAGED: u8 = 2;
const PANICS: u8 = 3;

#[derive(Clone, Default)]
struct Flaky {
    archive: MemoryArchive,
    mode: Arc<AtomicU8>,
    /// Is told how much the thread of each fold gives way, and whether it was said to.
    told: Option<Sender<(i32, bool)>>,
}

impl Flaky {
    fn set(&self, mode: u8) {
        self.mode.store(mode, Ordering::SeqCst);
    }
}

impl Archive for Flaky {
    type Reader = MemoryArchive;

    fn load(&mut self, kept: &mut dyn FnMut(KeptPlace, &[u8])) -> Result<Loaded, Error> {
        self.archive.load(kept)
    }

    fn fold(&mut self, group: &Group) -> Result<(), Error> {
        if let Some(told) = &self.told {
            told.send((getpriority_process(None).unwrap(), group.aside)).unwrap();
        }
        match self.mode.load(Ordering::SeqCst) {
            GOOD => self.archive.fold(group),
            FULL => Err(Error::Full { path: "archive.db".into() }),
            DAMAGED => Err(Error::Corrupt { path: "archive.db".into(), detail: "a page is gone".to_owned() }),
            _ => panic!("a planted panic"),
        }
    }

    fn reader(&self) -> MemoryArchive {
        self.archive.clone()
    }

    fn close(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

fn open(disk: &FaultDisk, archive: &Flaky, fold: Fold) -> Embedded<FaultDisk, Flaky> {
    let fold_bytes = if fold == Fold::Thread { 1 } else { 1 << 20 };
    open_as(disk, archive, &Options { fold, fold_bytes, ..small() })
}

fn open_as(disk: &FaultDisk, archive: &Flaky, options: &Options) -> Embedded<FaultDisk, Flaky> {
    Embedded::open_with(Arc::new(disk.clone()), Path::new(FOLDER), options, |_| Ok(archive.clone())).unwrap()
}

/// Steps until the journal is full; answers how many went through and the error.
fn fill(store: &mut Embedded<FaultDisk, Flaky>, from: u64) -> (u64, Error) {
    (from..)
        .find_map(|number| step(store, number).err().map(|error| (number, error)))
        .expect("a journal has an end")
}

#[test]
fn an_archive_without_room_stops_commits_only_when_the_journal_is_full() {
    for fold in [Fold::Manual, Fold::Thread] {
        let (disk, archive) = (FaultDisk::default(), Flaky::default());
        archive.set(FULL);
        let mut store = open(&disk, &archive, fold);
        let (steps, error) = fill(&mut store, 0);
        assert!(matches!(error, Error::Full { .. }), "{fold:?}: {error}");
        assert_eq!(steps, 16, "four segments of four records");
        let (again, _) = fill(&mut store, steps);
        assert_eq!(again, steps, "still none");
        assert_eq!(look(&mut store, 20), expected(20)[16], "reads go on, and nothing of it was written");
        archive.set(GOOD);
        for number in steps..40 {
            step(&mut store, number).unwrap();
        }
        store.close().unwrap();
        assert_eq!(store.folded_through(), 40);
        drop(store);
        let mut store = open(&disk, &archive, fold);
        assert_eq!(look(&mut store, 40), expected(40)[40]);
    }
}

#[test]
fn a_damaged_archive_ends_the_store_and_loses_nothing() {
    for (mode, word) in [(DAMAGED, "a page is gone"), (PANICS, "panic")] {
        let (disk, archive) = (FaultDisk::default(), Flaky::default());
        archive.set(mode);
        let mut store = open(&disk, &archive, Fold::Thread);
        let (steps, error) = fill(&mut store, 0);
        assert!(matches!(error, Error::Stopped { .. }) && error.is_fatal(), "{error}");
        assert!(error.to_string().contains(word), "{error}");
        drop(store);
        archive.set(GOOD);
        let mut store = open(&disk, &archive, Fold::Thread);
        assert_eq!(look(&mut store, 20), expected(20)[usize::try_from(steps).unwrap()]);
    }
}

#[test]
fn the_lag_is_told() {
    let (disk, archive) = (FaultDisk::default(), Flaky::default());
    let mut store = open(&disk, &archive, Fold::Manual);
    for number in 0..4 {
        step(&mut store, number).unwrap();
    }
    let stats = store.reader().stats();
    let at_ms = stats.unfolded_at_ms.expect("something is not folded");
    assert_eq!(stats.fold_lag_batches, 4);
    assert_eq!(store.fold_now(3).unwrap(), 3);
    let stats = store.reader().stats();
    assert_eq!((stats.fold_lag_batches, stats.unfolded_at_ms), (1, Some(at_ms + 30)));
    assert_eq!(store.fold_now(3).unwrap(), 1);
    assert_eq!(store.fold_now(3).unwrap(), 0);
    let stats = store.reader().stats();
    assert_eq!((stats.fold_lag_batches, stats.unfolded_at_ms), (0, None));
}

/// A store whose folds nobody waits for, until its journal is full.
fn unhurried() -> (Embedded<FaultDisk, Flaky>, Flaky, Receiver<(i32, bool)>) {
    let (tell, told) = channel();
    let archive = Flaky { told: Some(tell), ..Flaky::default() };
    let options = Options { fold: Fold::Thread, fold_bytes: 1 << 30, fold_after_ms: 0, ..small() };
    (open_as(&FaultDisk::default(), &archive, &options), archive, told)
}

#[test]
fn a_fold_gives_way_while_nobody_waits_for_it() {
    let own = getpriority_process(None).unwrap();
    let (mut store, archive, told) = unhurried();
    step(&mut store, 0).unwrap();
    assert_eq!(told.recv().unwrap(), ((own + FOLD_NICE).min(19), true));
    // What finds no room stays, and the journal fills up: from then on a commit waits.
    archive.set(FULL);
    let (_, error) = fill(&mut store, 1);
    assert!(matches!(error, Error::Full { .. }), "{error}");
    let mut told = std::iter::from_fn(|| told.recv_timeout(Duration::from_secs(20)).ok());
    assert!(told.any(|how| how == (own, false)), "a commit waited for a fold that gave way");
    archive.set(GOOD);
    store.close().unwrap();
}

#[test]
fn a_panic_of_a_fold_that_gives_way_ends_the_store() {
    let (mut store, archive, _told) = unhurried();
    archive.set(PANICS);
    let (_, error) = fill(&mut store, 0);
    assert!(error.is_fatal() && error.to_string().contains("panic"), "{error}");
}
