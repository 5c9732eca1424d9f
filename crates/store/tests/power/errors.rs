//! A call of the real store fails, once. A sync that failed is never tried again, and nothing is confirmed after it; a full
//! disk refuses, and it goes on; nothing that was confirmed is lost.

use tenure_store::conformance::times;

use crate::disk::{Fate, PowerDisk};
use crate::life::{Folding, Life, Planted, Trouble, record, write_files};
use crate::support::fault_disk::Dice;
use crate::trace::Files;
use crate::{beside_the_disk, survives};

const STEPS: u64 = 20;
/// The calls that fail, and how many of each a life has at least.
const CALLS: [(&str, u64); 5] =
    [("pwrite64", 200), ("fdatasync", 30), ("fsync", 25), ("rename", 6), ("ftruncate", 6)];

/// A short life in which this happens, and what is left of it then.
fn fail(call: &'static str, nth: u64, error: &'static str) {
    let trouble = Some(Trouble::Fail(call, nth, error));
    let life =
        Life { through: STEPS, folding: Folding::Often, closes: true, planted: Planted::Nothing, trouble };
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("data");
    let moments = record(&folder, life, 0);
    let mut disk = PowerDisk::with(&Files::new(), 0);
    for moment in &moments {
        disk.take(moment);
    }
    let name = format!("{call} {nth} says {error}");
    assert_eq!(disk.confirmed_after_failure, None, "{name}: confirmed after a sync that failed");
    let is_full = call == "pwrite64" && error == "ENOSPC";
    assert!(
        !is_full || [0, STEPS].contains(&disk.confirmed),
        "{name}: it has ended after {}",
        disk.confirmed
    );
    let parent = beside_the_disk();
    for fate in [Fate::Everything, Fate::Nothing, Fate::Parts(512)] {
        let left = parent.path().join(format!("{fate:?}"));
        write_files(&left, &disk.after_loss(fate, &mut Dice(nth)));
        survives(&left, disk.confirmed).unwrap_or_else(|problem| panic!("{name}, {fate:?}: {problem}"));
    }
}

#[test]
fn a_call_that_fails_once_costs_nothing_that_was_confirmed() {
    let mut failures = Vec::new();
    for (call, count) in CALLS {
        for error in ["EIO", "ENOSPC"] {
            // Of the store's own syncs more: those of the journal, of its folders and of the archive's log are among them.
            let tries = times(if call == "fdatasync" { 6 } else { 2 }, count);
            failures.extend((0..tries).map(|index| (call, 1 + (index * 2 + 1) * count / (tries * 2), error)));
        }
    }
    assert!(failures.len() as u64 >= times(28, 400), "{} failures", failures.len());
    std::thread::scope(|scope| {
        for half in failures.chunks(failures.len().div_ceil(2)) {
            scope.spawn(move || half.iter().for_each(|(call, nth, error)| fail(call, *nth, error)));
        }
    });
}
