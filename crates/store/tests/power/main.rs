//! The power goes while the real store is at work: the real journal, the real archive, the real calls. A process is
//! recorded call by call, each moment of the record is a disk that the power may leave behind, and what was confirmed
//! before that moment must be there when it is opened.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod disk;
mod errors;
mod life;
mod losses;
mod trace;

#[path = "../support/mod.rs"]
mod support;

use std::path::Path;
use std::sync::OnceLock;

use life::{Folding, Planted, data_bytes, options};
use support::{Seen, expected_of, look, step_of};
use tempfile::TempDir;
use tenure_store::Store;
use tenure_store::embedded::Embedded;
use tenure_store::embedded::check::{Report, check};

/// More than any record has.
const STEPS: u64 = 260;
/// Steps that are taken after a loss, to see that it goes on.
const AFTER: u64 = 4;

/// What is to be seen after each number of steps.
fn expected() -> &'static [Seen] {
    static EXPECTED: OnceLock<Vec<Seen>> = OnceLock::new();
    EXPECTED.get_or_init(|| expected_of(STEPS, data_bytes))
}

/// A folder in memory, where there is a place for that: what is opened there has been lost already, and its syncs would only
/// take time.
fn beside_the_disk() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Opens what is left. All that was confirmed is there (or one step more, whose answer was lost), it verifies, and it goes
/// on as if nothing had been: so no token is given twice.
fn survives(folder: &Path, confirmed: u64) -> Result<(), String> {
    // The folders come before all that is in them: without them there was no start.
    let is_unmade = folder.join("journal").is_dir() && verifies(folder)?.is_unmade;
    let options = options(Folding::Often, Planted::Nothing);
    let open = || Embedded::open(folder, &options).map_err(|error| format!("did not open: {error}"));
    let mut store = open()?;
    let steps = store.last_batch();
    if ![confirmed, confirmed + 1].contains(&steps) {
        return Err(format!("{confirmed} steps were confirmed, and {steps} are there"));
    }
    if is_unmade && steps > 0 {
        return Err(format!("it was called unmade, with {steps} steps in it"));
    }
    is_expected(&mut store, steps)?;
    for number in steps..steps + AFTER {
        step_of(&mut store, number, data_bytes(number)).map_err(|error| format!("goes not on: {error}"))?;
    }
    // Now and then to the end, since that takes as long again.
    if steps % 4 == 0 {
        store.close().map_err(|error| format!("does not close: {error}"))?;
        drop(store);
        if verifies(folder)?.is_unmade {
            return Err("what was closed is called unmade".to_owned());
        }
        is_expected(&mut open()?, steps + AFTER)?;
    }
    Ok(())
}

fn is_expected(store: &mut Embedded, steps: u64) -> Result<(), String> {
    let wanted = &expected()[usize::try_from(steps).unwrap()];
    if look(store, STEPS) == *wanted { Ok(()) } else { Err(format!("it is not what {steps} steps make")) }
}

/// As `tenure check` says.
fn verifies(folder: &Path) -> Result<Report, String> {
    let report = check(folder, &mut |_, _| {}).map_err(|error| format!("could not be checked: {error}"))?;
    if report.is_good() { Ok(report) } else { Err(format!("does not verify: {:?}", report.problems)) }
}
