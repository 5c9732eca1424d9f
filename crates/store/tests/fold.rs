//! An archive that fails: without room it is tried again, and damaged it ends the store.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use support::fault_disk::FaultDisk;
use support::{FOLDER, expected, look, small, step};
use tenure_store::embedded::archive::{Archive, Group, KeptPlace, Loaded, MemoryArchive};
use tenure_store::embedded::{Embedded, Fold, Options};
use tenure_store::{Error, Store};

const GOOD: u8 = 0;
const FULL: u8 = 1;
const DAMAGED: u8 = 2;
const PANICS: u8 = 3;

#[derive(Clone, Default)]
struct Flaky {
    archive: MemoryArchive,
    mode: Arc<AtomicU8>,
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
    let options = Options { fold, fold_bytes, ..small() };
    Embedded::open_with(Arc::new(disk.clone()), Path::new(FOLDER), &options, |_| Ok(archive.clone())).unwrap()
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
    assert_eq!((stats.fold_lag_batches, stats.fold_lag_ms), (4, 30));
    assert_eq!(store.fold_now(3).unwrap(), 3);
    let stats = store.reader().stats();
    assert_eq!((stats.fold_lag_batches, stats.fold_lag_ms), (1, 0));
    assert_eq!(store.fold_now(3).unwrap(), 1);
    assert_eq!(store.fold_now(3).unwrap(), 0);
    assert_eq!(store.reader().stats().fold_lag_batches, 0);
}
