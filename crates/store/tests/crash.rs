//! The power goes at every possible moment, and what was answered is there. The same test must notice
//! each planted bug: that is the proof that it looks.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::collections::HashMap;

use support::fault_disk::{EIO, ENOSPC, FaultDisk};
use support::{Seen, expected, look, open, small, step};
use tenure_store::conformance::times;
use tenure_store::embedded::archive::MemoryArchive;
use tenure_store::embedded::{Faults, Options};

const STEPS: u64 = 40;
/// Steps that use a segment again, for what is done very often.
const FEW: u64 = 22;

/// Runs the workload until the power goes; answers how many steps were confirmed.
fn run_until_stop(disk: &FaultDisk, archive: &MemoryArchive, options: &Options, from: u64) -> u64 {
    let Ok(mut store) = open(disk, archive, options) else { return from };
    for number in from..STEPS {
        if step(&mut store, number).is_err() {
            return number;
        }
        // Folds lag behind by a few batches, as with a thread.
        if number % 4 == 3 && store.fold_now(3).is_err() {
            return number + 1;
        }
    }
    STEPS
}

/// Opens what a crash left, checks that it is what was confirmed (or one step more, whose answer was
/// lost), and answers how many steps that is.
fn check_after(
    disk: &FaultDisk,
    archive: &MemoryArchive,
    options: &Options,
    confirmed: u64,
    seen: &[Seen],
) -> Result<u64, String> {
    let mut store = open(disk, archive, options).map_err(|error| format!("did not open: {error}"))?;
    let found = look(&mut store, seen.len() as u64 - 1);
    let steps = [confirmed, confirmed + 1];
    let matches = steps.into_iter().find(|steps| seen.get(usize::try_from(*steps).unwrap()) == Some(&found));
    matches.ok_or_else(|| format!("after {confirmed} confirmed steps it says {found:?}"))
}

/// Stops at every operation in turn, with a few different fates for what was not synced; goes on after
/// it, and stops again. Answers how many crashes that were.
fn crash_everywhere(options: &Options, seeds: u64) -> Result<u64, String> {
    let mut crashes = 0;
    let seen = expected(STEPS);
    let disk = FaultDisk::default();
    assert_eq!(run_until_stop(&disk, &MemoryArchive::default(), &small(), 0), STEPS);
    let operations = disk.operations();
    for stop in 0..operations + 2 {
        for seed in 0..seeds {
            let (disk, archive) = (FaultDisk::default(), MemoryArchive::default());
            disk.stop_at(stop);
            let confirmed = run_until_stop(&disk, &archive, options, 0);
            let disk = disk.after_crash(stop * 31 + seed);
            let reached = check_after(&disk, &archive, options, confirmed, &seen)
                .map_err(|problem| format!("stop {stop}, seed {seed}: {problem}"))?;
            // The same disk goes on, through another crash that comes soon.
            disk.stop_at(disk.operations() + 1 + (stop * 7 + seed) % 23);
            let confirmed = run_until_stop(&disk, &archive, options, reached);
            let disk = disk.after_crash(stop * 17 + seed);
            check_after(&disk, &archive, options, confirmed, &seen)
                .map_err(|problem| format!("stop {stop}, seed {seed}, second: {problem}"))?;
            crashes += 2;
        }
    }
    Ok(crashes)
}

/// Takes the steps on a disk whose nth call fails, once. A failed sync ends the store and is never tried again; a full disk
/// refuses, and the same step is then taken. What was confirmed is there afterwards. Answers how often that was looked at,
/// or nothing where there is no such call.
fn fail_once(before: u64, nth: u64, error: i32, seeds: u64, seen: &[Seen]) -> Option<u64> {
    let (disk, archive) = (FaultDisk::default(), MemoryArchive::default());
    let mut store = open(&disk, &archive, &small()).unwrap();
    (0..before).for_each(|number| step(&mut store, number).unwrap());
    drop(store);
    disk.fail_call(nth, error);
    let (mut confirmed, mut has_ended) = (before, false);
    let opened = open(&disk, &archive, &small());
    let has_opened = opened.is_ok();
    if let Ok(mut store) = opened {
        for number in before..FEW {
            if let Err(refused) = step(&mut store, number) {
                assert!(look(&mut store, FEW) == seen[usize::try_from(number).unwrap()], "{refused}");
                let operations = disk.operations();
                let again = step(&mut store, number);
                has_ended = again.is_err();
                if has_ended {
                    assert!(refused.is_fatal() && again.is_err_and(|error| error.is_fatal()), "{refused}");
                    assert_eq!(disk.operations(), operations, "it was tried again after {refused}");
                    break;
                }
            }
            confirmed = number + 1;
            if number % 4 == 3 {
                store.fold_now(3).unwrap();
            }
        }
    }
    let what = disk.failed()?;
    let name = format!("call {nth} ({what}) after {before} steps says {error}");
    let is_sync = ["sync", "sync dir"].contains(&&*what);
    assert!(
        has_ended || !has_opened || (confirmed == FEW && !is_sync),
        "{name}: {confirmed} steps, it goes on"
    );
    assert!(!has_ended || is_sync || error == EIO, "{name}: it has ended");
    let crashed = (0..seeds).map(|seed| disk.after_crash(nth * 31 + seed));
    for disk in crashed.chain([disk.after_kill()]) {
        check_after(&disk, &archive, &small(), confirmed, seen)
            .unwrap_or_else(|problem| panic!("{name}: {problem}"));
    }
    Some(seeds + 1)
}

#[test]
fn what_was_answered_survives_a_crash_between_any_two_operations() {
    let crashes = crash_everywhere(&small(), times(4, 40)).unwrap();
    assert!(crashes >= times(200, 10_000), "{crashes} crashes");
}

#[test]
fn a_call_that_fails_once_loses_nothing_and_a_failed_sync_ends_the_store() {
    let seen = expected(FEW);
    let mut looks = 0;
    for error in [EIO, ENOSPC] {
        for before in [0, 9] {
            looks += (1..).map_while(|nth| fail_once(before, nth, error, times(2, 20), &seen)).sum::<u64>();
        }
    }
    assert!(looks >= times(200, 10_000), "{looks} looks");
}

#[test]
fn the_workload_uses_segments_again_and_gives_some_back() {
    let disk = FaultDisk::default();
    run_until_stop(&disk, &MemoryArchive::default(), &small(), 0);
    let mut counts: HashMap<String, usize> = HashMap::new();
    for line in disk.log() {
        *counts.entry(line.split(' ').next().unwrap().to_owned()).or_default() += 1;
    }
    assert!(counts["allocate"] <= 4, "{counts:?}");
    assert!(counts["rename"] > 2 * counts["allocate"], "{counts:?}");
}

#[test]
fn each_planted_bug_is_noticed() {
    let bugs = [
        ("skip_sync", Faults { skip_sync: true, ..Faults::default() }),
        ("skip_dir_sync", Faults { skip_dir_sync: true, ..Faults::default() }),
        ("fold_before_sync", Faults { fold_before_sync: true, ..Faults::default() }),
        ("forget_beats_on_replay", Faults { forget_beats_on_replay: true, ..Faults::default() }),
        ("lose_kept_on_replay", Faults { lose_kept_on_replay: true, ..Faults::default() }),
        ("ignore_crc", Faults { ignore_crc: true, ..Faults::default() }),
    ];
    for (name, faults) in bugs {
        let options = Options { faults, ..small() };
        // A panic is a way to notice too: the planted bug may feed nonsense to the replay.
        let noticed = std::panic::catch_unwind(|| crash_everywhere(&options, 4));
        assert!(!matches!(noticed, Ok(Ok(_))), "{name} went unnoticed");
    }
}

#[test]
fn a_commit_that_failed_is_seen_by_nobody() {
    for planted in [false, true] {
        let (disk, archive) = (FaultDisk::default(), MemoryArchive::default());
        let faults = Faults { show_before_sync: planted, ..Faults::default() };
        let mut store = open(&disk, &archive, &Options { faults, ..small() }).unwrap();
        step(&mut store, 0).unwrap();
        disk.fail_next_sync();
        step(&mut store, 1).unwrap_err();
        assert_eq!(look(&mut store, 2) == expected(2)[1], !planted);
    }
}

#[test]
fn a_batch_whose_sync_failed_is_made_safe_before_anybody_hears_of_it() {
    let (disk, archive) = (FaultDisk::default(), MemoryArchive::default());
    let mut store = open(&disk, &archive, &small()).unwrap();
    for number in 0..5 {
        step(&mut store, number).unwrap();
    }
    disk.fail_next_sync();
    let error = step(&mut store, 5).unwrap_err();
    assert!(matches!(error, tenure_store::Error::SyncFailed { .. }), "{error}");
    let error = step(&mut store, 5).unwrap_err();
    assert!(matches!(error, tenure_store::Error::Stopped { .. }), "never tried again: {error}");
    drop(store);
    // The process starts again; the system still shows the bytes, which are not on the disk.
    let disk = disk.after_kill();
    let seen = expected(6);
    let mut store = open(&disk, &archive, &small()).unwrap();
    assert_eq!(look(&mut store, 6), seen[6], "the system still has it");
    drop(store);
    for seed in 0..8 {
        let mut store = open(&disk.after_crash(seed), &archive, &small()).unwrap();
        assert_eq!(look(&mut store, 6), seen[6], "what a reader has seen is there after a crash");
    }
}
