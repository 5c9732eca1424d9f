//! Damage to the journal: a torn end is taken back, anything else is named and nothing starts.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use support::fault_disk::FaultDisk;
use support::{FOLDER, FaultStore, expected, look, open, small, step};
use tenure_store::embedded::archive::MemoryArchive;
use tenure_store::embedded::{Faults, Fold, Options};
use tenure_store::{Batch, Error, Store};

const PAGE: usize = 4096;

fn segment(id: u64) -> PathBuf {
    Path::new(FOLDER).join("journal").join(format!("{id:016}.journal"))
}

fn roomy() -> Options {
    Options { segment_bytes: 64 * PAGE as u64, ..small() }
}

/// A store with so many steps, none of them folded, and closed by a crash.
fn written(options: &Options, steps: u64) -> (FaultDisk, MemoryArchive) {
    let (disk, archive) = (FaultDisk::default(), MemoryArchive::default());
    let mut store = open(&disk, &archive, options).unwrap();
    for number in 0..steps {
        step(&mut store, number).unwrap();
    }
    drop(store);
    (disk, archive)
}

fn corrupt_detail(opened: Result<FaultStore, Error>) -> String {
    match opened.map(|_| ()) {
        Err(Error::Corrupt { path, detail }) => format!("{}: {detail}", path.display()),
        other => panic!("expected corruption, found {other:?}"),
    }
}

#[test]
fn a_torn_last_record_is_taken_back_wherever_it_tore() {
    let steps = 8;
    let seen = expected(steps);
    let (disk, archive) = written(&roomy(), steps);
    let last = 8 * PAGE;
    let length = disk.bytes(&segment(1))[last + 8..last + 12].try_into().map(u32::from_le_bytes).unwrap();
    let record = 20 + length as usize;
    assert!(record < PAGE, "one page holds it");
    for at in 0..=record {
        let torn = disk.after_kill();
        // Everything from there on never arrived; or, the other way round, everything before it.
        torn.damage(&segment(1), |bytes| bytes[last + at..last + PAGE].fill(0));
        let mut store = open(&torn, &archive, &roomy()).unwrap();
        let whole = at == record;
        assert_eq!(look(&mut store, steps), seen[if whole { 8 } else { 7 }], "torn at {at}");
        drop(store);
        let torn = disk.after_kill();
        torn.damage(&segment(1), |bytes| bytes[last..last + at].fill(0));
        let mut store = open(&torn, &archive, &roomy()).unwrap();
        assert_eq!(look(&mut store, steps), seen[if at == 0 { 8 } else { 7 }], "torn before {at}");
        // And the journal goes on from there.
        for number in if at == 0 { 8..9 } else { 7..9 } {
            step(&mut store, number).unwrap();
        }
        drop(store);
        let mut store = open(&torn, &archive, &roomy()).unwrap();
        assert_eq!(look(&mut store, 9), expected(9)[9]);
    }
}

#[test]
fn a_flipped_bit_before_the_last_record_is_corruption() {
    let (disk, archive) = written(&roomy(), 6);
    // All of the header that means something, and all of each record but the last, padding included.
    let header = 0..56;
    let records = PAGE..6 * PAGE;
    for at in header.chain(records).step_by(7) {
        let damaged = disk.after_kill();
        damaged.damage(&segment(1), |bytes| bytes[at] ^= 1 << (at % 8));
        match open(&damaged, &archive, &roomy()).map(|_| ()) {
            Err(Error::Corrupt { path, detail }) => {
                assert_eq!(path, segment(1));
                let place = if at < PAGE { 0 } else { at / PAGE * PAGE };
                assert!(detail.contains(&format!("offset {place}")), "byte {at}: {detail}");
            }
            Err(Error::Newer { .. }) => assert!((8..12).contains(&at), "byte {at}"),
            other => panic!("byte {at}: {other:?}"),
        }
    }
}

#[test]
fn a_hole_is_corruption_even_if_the_record_after_it_is_torn() {
    let (disk, archive) = written(&roomy(), 6);
    disk.damage(&segment(1), |bytes| {
        bytes[5 * PAGE..6 * PAGE].fill(0);
        bytes[6 * PAGE + 100] ^= 1;
    });
    let detail = corrupt_detail(open(&disk, &archive, &roomy()));
    assert!(detail.contains("batch 5 at offset 20480") && detail.contains("batch 6 follows"), "{detail}");
}

#[test]
fn a_hole_at_a_segments_end_is_corruption() {
    // Four records in each segment; segment 2 follows.
    let (disk, archive) = written(&small(), 6);
    disk.damage(&segment(1), |bytes| bytes[4 * PAGE..].fill(0));
    let detail = corrupt_detail(open(&disk, &archive, &small()));
    assert!(detail.contains("batch 4 at offset 16384") && detail.contains("batch 5 follows"), "{detail}");
}

#[test]
fn a_missing_or_cut_segment_is_corruption() {
    let (disk, archive) = written(&small(), 14);
    for id in 1..=3 {
        let damaged = disk.after_kill();
        damaged.remove_behind(&segment(id));
        corrupt_detail(open(&damaged, &archive, &small()));
        let damaged = disk.after_kill();
        damaged.damage(&segment(id), |bytes| bytes.truncate(3 * PAGE));
        let detail = corrupt_detail(open(&damaged, &archive, &small()));
        assert!(detail.contains("12288 bytes long instead of 20480"), "{detail}");
    }
}

#[test]
fn a_journal_that_is_gone_or_behind_its_archive_is_corruption() {
    let (disk, archive) = written(&roomy(), 6);
    let store = open(&disk, &archive, &roomy()).unwrap();
    store.fold_now(u64::MAX).unwrap();
    drop(store);
    let damaged = disk.after_kill();
    damaged.remove_behind(&segment(1));
    let detail = corrupt_detail(open(&damaged, &archive, &roomy()));
    assert!(detail.contains("no segments"), "{detail}");
    disk.damage(&segment(1), |bytes| bytes[4 * PAGE..].fill(0));
    let detail = corrupt_detail(open(&disk, &archive, &roomy()));
    assert!(detail.contains("ends with batch 3, but the archive has batch 6"), "{detail}");
    let (disk, archive) = written(&small(), 14);
    disk.remove_behind(&segment(1));
    let detail = corrupt_detail(open(&disk, &archive, &small()));
    assert!(detail.contains("begins with batch 5"), "{detail}");
}

#[test]
fn records_of_a_files_earlier_life_are_never_replayed() {
    let (disk, archive) = (FaultDisk::default(), MemoryArchive::default());
    let mut store = open(&disk, &archive, &small()).unwrap();
    let mut number = 0;
    while !disk.log().iter().any(|line| line.starts_with("rename 0000000000000003")) {
        step(&mut store, number).unwrap();
        store.fold_now(u64::MAX).unwrap();
        number += 1;
    }
    // The newest segment has one record of its own and three of an earlier life behind it.
    let newest = disk.names().into_iter().next_back().unwrap();
    assert!(disk.bytes(&newest)[2 * PAGE..].iter().any(|byte| *byte != 0), "there are leftovers");
    drop(store);
    let mut store = open(&disk, &archive, &small()).unwrap();
    assert_eq!(look(&mut store, number), expected(number)[usize::try_from(number).unwrap()]);
    // An earlier life's record with the very number that comes next is none either.
    let mut forged = disk.bytes(&newest)[2 * PAGE..3 * PAGE].to_vec();
    forged[..8].copy_from_slice(&(number + 1).to_le_bytes());
    drop(store);
    disk.damage(&newest, |bytes| bytes[2 * PAGE..3 * PAGE].copy_from_slice(&forged));
    let mut store = open(&disk, &archive, &small()).unwrap();
    assert_eq!(store.last_batch(), number);
    step(&mut store, number).unwrap();
}

#[test]
fn a_torn_record_cannot_come_back_when_the_next_one_is_torn_too() {
    let (disk, archive) = written(&roomy(), 3);
    let mut store = open(&disk, &archive, &roomy()).unwrap();
    let end = 4 * PAGE;
    store.commit(Batch { at_ms: support::START_MS + 500, entries: Vec::new() }).unwrap();
    drop(store);
    let whole = disk.bytes(&segment(1));
    disk.damage(&segment(1), |bytes| bytes[end + 20] ^= 1);
    let store = open(&disk, &archive, &roomy()).unwrap();
    assert_eq!(store.last_batch(), 3, "it is taken back");
    drop(store);
    // Now the missing byte arrives after all, as a page of a later record could bring it.
    disk.damage(&segment(1), |bytes| bytes[end + 20] = whole[end + 20]);
    let store = open(&disk, &archive, &roomy()).unwrap();
    assert_eq!(store.last_batch(), 3, "and it stays taken back");
}

#[test]
fn the_planted_bug_that_accepts_holes_loses_answered_batches() {
    let faults = Faults { stop_at_first_bad_record_silently: true, ..Faults::default() };
    let careless = Options { faults, ..small() };
    let (disk, archive) = written(&small(), 9);
    disk.damage(&segment(1), |bytes| bytes[3 * PAGE + 30] ^= 1);
    corrupt_detail(open(&disk.after_kill(), &archive, &small()));
    let store = open(&disk, &archive, &careless).unwrap();
    assert_eq!(store.last_batch(), 2);
}

#[test]
fn a_newer_journal_is_left_alone() {
    let (disk, archive) = written(&roomy(), 2);
    disk.damage(&segment(1), |bytes| bytes[8] = 2);
    let opened = open(&disk, &archive, &roomy()).map(|_| ());
    assert!(matches!(opened, Err(Error::Newer { found: 2, known: 1, .. })), "{opened:?}");
}

#[test]
fn a_batch_larger_than_a_segment_is_refused_and_a_smaller_one_goes_through() {
    let (disk, archive) = (FaultDisk::default(), MemoryArchive::default());
    let mut store = open(&disk, &archive, &small()).unwrap();
    step(&mut store, 0).unwrap();
    let mut entries = Vec::new();
    for number in 0..400 {
        let kept = tenure_store::Kept {
            fingerprint: tenure_core::Hash::default(),
            at_ms: support::START_MS,
            outcome: Ok(tenure_core::Reply::Done),
        };
        entries.push(tenure_store::Entry {
            collection: support::collection(),
            events: Vec::new(),
            beats: Vec::new(),
            changed: tenure_core::Changed::default(),
            kept: Some((support::reply_key(number), std::sync::Arc::new(kept))),
        });
    }
    let batch = Batch { at_ms: support::START_MS, entries };
    let error = store.commit(batch.clone()).unwrap_err();
    assert!(matches!(error, Error::TooLarge { max: 16384, .. }) && !error.is_fatal(), "{error}");
    let smaller = Batch { entries: batch.entries[..150].to_vec(), ..batch };
    store.commit(smaller).unwrap();
    step(&mut store, 1).unwrap();
}

#[test]
fn without_room_for_a_segment_nothing_is_written_until_there_is() {
    let (disk, archive) = (FaultDisk::default(), MemoryArchive::default());
    let mut store = open(&disk, &archive, &small()).unwrap();
    disk.set_room(Some(0));
    for number in 0..4 {
        step(&mut store, number).unwrap();
    }
    for _ in 0..3 {
        let error = step(&mut store, 4).unwrap_err();
        assert!(matches!(error, Error::Full { .. }) && !error.is_fatal(), "{error}");
        assert_eq!(look(&mut store, 8), expected(8)[4], "reads go on");
    }
    disk.set_room(None);
    for number in 4..8 {
        step(&mut store, number).unwrap();
    }
    drop(store);
    let mut store = open(&disk, &archive, &small()).unwrap();
    assert_eq!(look(&mut store, 8), expected(8)[8]);
}

#[test]
fn a_next_segment_that_the_disk_did_not_confirm_is_thrown_away_and_made_anew() {
    let (disk, archive) = (FaultDisk::default(), MemoryArchive::default());
    let mut store = open(&disk, &archive, &small()).unwrap();
    disk.fail_next_allocate();
    for number in 0..4 {
        step(&mut store, number).unwrap();
    }
    assert!(!disk.names().contains(&next_segment()), "nobody uses it");
    for number in 4..8 {
        step(&mut store, number).unwrap();
    }
    drop(store);
    let mut store = open(&disk.after_crash(5), &archive, &small()).unwrap();
    assert_eq!(look(&mut store, 8), expected(8)[8]);
}

fn next_segment() -> PathBuf {
    Path::new(FOLDER).join("journal").join("next.tmp")
}

#[test]
fn the_next_segment_is_made_before_it_is_needed_and_the_store_waits_for_it_to_the_end() {
    for fold in [Fold::Manual, Fold::Thread] {
        let options = Options { fold, fold_bytes: 1 << 30, fold_after_ms: 1 << 30, ..roomy() };
        let (disk, archive) = (FaultDisk::default(), MemoryArchive::default());
        let mut store = open(&disk, &archive, &options).unwrap();
        let is_made = || disk.names().contains(&next_segment());
        for number in 0..47 {
            step(&mut store, number).unwrap();
        }
        assert!(!is_made(), "{fold:?}: a quarter of the first is empty");
        for number in 47..50 {
            step(&mut store, number).unwrap();
        }
        drop(store);
        let bytes = disk.bytes(&next_segment());
        assert_eq!(bytes, vec![0; 64 * PAGE], "{fold:?}: whole, also when the store was closed at once");
        // A start throws it away, and it is made anew.
        let mut store = open(&disk, &archive, &options).unwrap();
        assert!(!is_made());
        for number in 50..90 {
            step(&mut store, number).unwrap();
        }
        drop(store);
        let mut store = open(&disk.after_crash(3), &archive, &options).unwrap();
        assert_eq!(look(&mut store, 90), expected(90)[90], "{fold:?}");
    }
}

#[test]
fn what_a_burst_needed_is_given_back_and_no_commit_waits_for_that() {
    let gone = Path::new(FOLDER).join("journal").join("gone.tmp");
    for fold in [Fold::Manual, Fold::Thread] {
        let options =
            Options { fold, fold_bytes: 1 << 30, fold_after_ms: 1 << 30, segments_max: 8, ..small() };
        let (disk, archive) = (FaultDisk::default(), MemoryArchive::default());
        let mut store = open(&disk, &archive, &options).unwrap();
        let segments = || {
            disk.names().iter().filter(|name| name.extension().is_some_and(|end| end == "journal")).count()
        };
        for number in 0..24 {
            step(&mut store, number).unwrap();
        }
        assert_eq!(segments(), 6, "{fold:?}");
        store.fold_now(u64::MAX).unwrap();
        let gate = disk.gate();
        let closed = (fold == Fold::Thread).then(|| gate.lock());
        for number in 24..48 {
            step(&mut store, number).unwrap();
            store.fold_now(u64::MAX).unwrap();
        }
        // One at a time: while one is being removed, the others are used again.
        assert_eq!(
            (segments(), disk.names().contains(&gone)),
            if closed.is_some() { (6, true) } else { (3, false) }
        );
        let killed = disk.after_kill();
        drop(closed);
        drop(store);
        assert!(!disk.names().contains(&gone), "{fold:?}: it is waited for");
        let mut store = open(&killed, &archive, &options).unwrap();
        assert!(!killed.names().contains(&gone), "{fold:?}: what was left of it is removed at the start");
        assert_eq!(look(&mut store, 48), expected(48)[48], "{fold:?}");
    }
}

#[test]
fn without_room_for_the_next_segment_the_present_one_is_filled_and_an_old_one_used_again() {
    let (disk, archive) = (FaultDisk::default(), MemoryArchive::default());
    let mut store = open(&disk, &archive, &small()).unwrap();
    for number in 0..5 {
        step(&mut store, number).unwrap();
    }
    disk.set_room(Some(0));
    for number in 5..8 {
        step(&mut store, number).unwrap();
    }
    assert!(!disk.names().contains(&next_segment()), "what was made of it is given back");
    store.fold_now(u64::MAX).unwrap();
    for number in 8..30 {
        step(&mut store, number).unwrap();
        store.fold_now(u64::MAX).unwrap();
    }
    assert_eq!(look(&mut store, 30), expected(30)[30]);
}

#[test]
fn a_full_journal_is_folded_by_the_commit_that_finds_it_full() {
    let (disk, archive) = (FaultDisk::default(), MemoryArchive::default());
    let mut store = open(&disk, &archive, &small()).unwrap();
    for number in 0..40 {
        step(&mut store, number).unwrap();
    }
    assert!(store.folded_through() > 0, "nobody else folds here");
    assert!(store.reader().stats().journal_bytes <= 4 * 5 * PAGE as u64);
    drop(store);
    let mut store = open(&disk, &archive, &small()).unwrap();
    assert_eq!(look(&mut store, 40), expected(40)[40]);
}

#[test]
fn a_folder_is_owned_once() {
    let (disk, archive) = written(&small(), 1);
    let store = open(&disk, &archive, &small()).unwrap();
    let second = open(&disk, &archive, &small()).map(|_| ());
    assert!(matches!(second, Err(Error::Owned { .. })), "{second:?}");
    drop(store);
    open(&disk, &archive, &small()).unwrap();
}

#[test]
fn segments_of_another_size_are_replayed_and_replaced() {
    let (disk, archive) = written(&small(), 10);
    let mut store = open(&disk, &archive, &roomy()).unwrap();
    for number in 10..100 {
        step(&mut store, number).unwrap();
    }
    drop(store);
    let mut store = open(&disk, &archive, &small()).unwrap();
    assert_eq!(look(&mut store, 100), expected(100)[100]);
}

/// A batch whose record another thread writes, and what tells that it is over.
fn begin(store: &mut FaultStore, at_ms: i64) -> (Result<(), Error>, Receiver<()>) {
    let (tell, told) = channel();
    let done = Arc::new(move || tell.send(()).expect("somebody waits"));
    (store.begin(Batch { at_ms, entries: Vec::new() }, done), told)
}

#[test]
fn what_another_thread_writes_counts_when_it_is_complete_and_not_before() {
    let options = Options { fold: Fold::Thread, ..roomy() };
    let (disk, archive) = (FaultDisk::default(), MemoryArchive::default());
    let mut store = open(&disk, &archive, &options).unwrap();
    for at_ms in [7, 9] {
        let before_ms = store.high_water_ms();
        let (begun, told) = begin(&mut store, at_ms);
        begun.unwrap();
        told.recv().unwrap();
        assert_eq!(store.high_water_ms(), before_ms, "it is safe, and nobody has waited for it");
        store.complete().unwrap();
        assert_eq!((store.high_water_ms(), store.last_batch()), (at_ms, if at_ms == 7 { 1 } else { 2 }));
    }
    // By hand again, with the same journal.
    store.commit(Batch { at_ms: 11, entries: Vec::new() }).unwrap();
    drop(store);
    assert_eq!(open(&disk.after_crash(1), &archive, &options).unwrap().high_water_ms(), 11);
}

#[test]
fn nobody_waits_for_a_writer_that_panicked() {
    let options = Options { fold: Fold::Thread, ..roomy() };
    let (disk, archive) = (FaultDisk::default(), MemoryArchive::default());
    let mut store = open(&disk, &archive, &options).unwrap();
    disk.panic_at_next_sync();
    let (begun, told) = begin(&mut store, 7);
    begun.unwrap();
    told.recv().expect("it is told that it is over");
    assert!(store.complete().unwrap_err().is_fatal());
    assert!(begin(&mut store, 9).0.unwrap_err().is_fatal());
    assert!(store.commit(Batch::default()).unwrap_err().is_fatal());
}

#[test]
fn a_first_start_without_room_leaves_nothing_behind() {
    let (disk, archive) = (FaultDisk::default(), MemoryArchive::default());
    disk.set_room(Some(0));
    assert!(matches!(open(&disk, &archive, &small()).map(|_| ()), Err(Error::Full { .. })));
    assert!(!disk.names().contains(&next_segment()), "it takes room that somebody needs");
    disk.set_room(None);
    step(&mut open(&disk, &archive, &small()).unwrap(), 0).unwrap();
}

/// Connections may take every descriptor; what a commit needs it has from the start.
#[test]
fn a_next_segment_needs_no_descriptor_for_the_folder() {
    let (disk, archive) = (FaultDisk::default(), MemoryArchive::default());
    let mut store = open(&disk, &archive, &small()).unwrap();
    disk.refuse_folders();
    let steps = 40;
    for number in 0..steps {
        step(&mut store, number).unwrap();
    }
    assert!(!disk.names().contains(&segment(1)), "it was used again");
    drop(store);
    let mut store = open(&disk.after_crash(9), &archive, &small()).unwrap();
    assert_eq!(look(&mut store, steps), expected(steps)[40]);
}
