//! Both stores behave like the reference.

use std::cell::RefCell;
use std::sync::Arc;

use tempfile::TempDir;
use tenure_store::embedded::archive::MemoryArchive;
use tenure_store::embedded::disk::RealDisk;
use tenure_store::embedded::{Embedded, Fold, Options};
use tenure_store::memory::Memory;
use tenure_store::{Store, conformance};

#[test]
fn the_reference_agrees_with_itself() {
    conformance::run(Memory::default);
}

/// Folds at once, forgets ended claims at once, keeps few answers: so that every answer that can come
/// from the archive does.
fn eager() -> Options {
    Options {
        segment_bytes: 256 << 10,
        fold_bytes: 1,
        ended_claims_max: 2,
        kept_values_max: 1,
        ..Options::default()
    }
}

fn check_embedded(options: &Options, close: bool) {
    let dirs = RefCell::new(Vec::<TempDir>::new());
    let make = || {
        let dir = tempfile::tempdir().expect("a folder");
        let store = Embedded::open(dir.path(), options).expect("opens");
        dirs.borrow_mut().push(dir);
        store
    };
    conformance::run_durable(make, |mut store| {
        let dir = store.dir().to_owned();
        if close {
            store.close().expect("closes");
        }
        drop(store);
        Embedded::open(&dir, options).expect("opens again")
    });
}

#[test]
fn embedded_folding_at_once() {
    check_embedded(&eager(), true);
}

#[test]
fn embedded_stopped_without_closing() {
    check_embedded(&Options { fold: Fold::Manual, ..eager() }, false);
}

#[test]
fn embedded_closed_and_never_folded_before() {
    check_embedded(&Options { fold: Fold::Manual, segment_bytes: 1 << 20, ..Options::default() }, true);
}

#[test]
fn embedded_with_its_archive_in_memory() {
    let dirs = RefCell::new(Vec::<TempDir>::new());
    let archives = RefCell::new(Vec::<MemoryArchive>::new());
    let options = Options { fold: Fold::Manual, ..eager() };
    let open = |dir: &std::path::Path, archive: MemoryArchive| {
        Embedded::open_with(Arc::new(RealDisk), dir, &options, |_| Ok(archive)).expect("opens")
    };
    let make = || {
        let (dir, archive) = (tempfile::tempdir().expect("a folder"), MemoryArchive::default());
        archives.borrow_mut().push(archive.clone());
        let store = open(dir.path(), archive);
        dirs.borrow_mut().push(dir);
        store
    };
    conformance::run_durable(make, |store| {
        let dir = store.dir().to_owned();
        store.fold_now(5).expect("folds");
        drop(store);
        let archive = archives.borrow().last().expect("made above").clone();
        open(&dir, archive)
    });
}
