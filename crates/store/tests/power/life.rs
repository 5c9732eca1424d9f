//! The process whose calls are recorded: this program once more, with a store that it works on. It says what it has
//! confirmed, by a call that stands in the record too.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use tenure_store::embedded::{Embedded, Faults, Fold, Options};
use tenure_store::{Error, Store};

use crate::support::step_of;
use crate::trace::{self, Files, Moment};

const FOLDER: &str = "TENURE_POWER_FOLDER";
const LIFE: &str = "TENURE_POWER_LIFE";

/// What a process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Life {
    /// The last step that it takes.
    pub(crate) through: u64,
    pub(crate) folding: Folding,
    /// It ends as it should.
    pub(crate) closes: bool,
    pub(crate) planted: Planted,
    /// What happens to one of its calls.
    pub(crate) trouble: Option<Trouble>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Folding {
    /// By a thread, beside the commits.
    Beside,
    /// By hand, every few steps.
    Often,
    /// Only when a commit finds the journal full.
    Seldom,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Planted {
    Nothing,
    SkipSync,
    SkipDirSync,
    SkipLogSync,
    FoldBeforeSync,
}

/// The nth call of a name, as each thread counts its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// It is not done, and the process is killed at it.
    Kill(&'static str, u64),
    /// It fails, this once.
    Fail(&'static str, u64, &'static str),
}

/// Small segments, folds and logs: a short life uses all of them again.
pub(crate) fn options(folding: Folding, planted: Planted) -> Options {
    let mut faults = Faults::default();
    match planted {
        Planted::Nothing => {}
        Planted::SkipSync => faults.skip_sync = true,
        Planted::SkipDirSync => faults.skip_dir_sync = true,
        Planted::SkipLogSync => faults.skip_log_sync = true,
        Planted::FoldBeforeSync => faults.fold_before_sync = true,
    }
    Options {
        segment_bytes: 6 * 4096,
        segments_max: 4,
        segments_kept: 2,
        fold: if folding == Folding::Beside { Fold::Thread } else { Fold::Manual },
        fold_bytes: 8 << 10,
        fold_after_ms: 2,
        checkpoint_pages: 60,
        faults,
        ..Options::default()
    }
}

/// Most records are one page, some are two.
pub(crate) fn data_bytes(step: u64) -> usize {
    if step % 9 == 6 { 2_600 } else { 600 }
}

/// Not a test of its own: the process that the tests record.
#[test]
fn a_life_that_is_recorded() {
    let (Ok(folder), Ok(life)) = (std::env::var(FOLDER), std::env::var(LIFE)) else { return };
    live(Path::new(&folder), life.parse().unwrap());
}

fn live(folder: &Path, life: Life) {
    let opened = Embedded::open(folder, &options(life.folding, life.planted));
    let Ok(mut store) = opened.inspect_err(|error| println!("not opened: {error}")) else { return };
    // Readers see it from here on.
    println!("confirmed {}", store.last_batch());
    let mut tries = 0;
    let mut number = store.last_batch();
    while number < life.through && tries < 4 {
        match step_of(&mut store, number, data_bytes(number)) {
            Ok(()) => {
                number += 1;
                println!("confirmed {number}");
            }
            // It is asked again, also where nothing may come of it.
            Err(error) => {
                tries += 1;
                println!("not confirmed: {error}");
            }
        }
        // Folds lag behind by a few batches, as with a thread.
        if life.folding == Folding::Often && number % 4 == 3 {
            let _ = store.fold_now(3).inspect_err(|error: &Error| println!("not folded: {error}"));
        }
    }
    if life.closes {
        let _ = store.close().inspect_err(|error| println!("not closed: {error}"));
    } else {
        // As if it were killed: nothing is put away.
        std::process::exit(0);
    }
}

/// Has a life lived in a folder and recorded, and answers what happened.
pub(crate) fn record(folder: &Path, life: Life, first: usize) -> Vec<Moment> {
    let log = folder.with_extension("trace");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-xx", "-s", "100000000", "-e", "signal=none", "-e", trace::CALLS]);
    strace.arg("-o").arg(&log);
    if !matches!(life.trouble, Some(Trouble::Kill(..))) {
        // Faster, and no signal comes through it.
        strace.arg("--seccomp-bpf");
    }
    match life.trouble {
        Some(Trouble::Kill(call, nth)) => {
            strace.arg("-e").arg(format!("inject={call}:signal=SIGKILL:when={nth}"));
        }
        Some(Trouble::Fail(call, nth, error)) => {
            strace.arg("-e").arg(format!("inject={call}:error={error}:when={nth}"));
        }
        None => {}
    }
    strace.arg(std::env::current_exe().unwrap()).args([
        "life::a_life_that_is_recorded",
        "--exact",
        "--nocapture",
    ]);
    let output =
        strace.env(FOLDER, folder).env(LIFE, life.to_string()).output().expect("strace is installed");
    let was_killed = matches!(life.trouble, Some(Trouble::Kill(..)));
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.success(), !was_killed, "{life:?} ended with {}: {said}", output.status);
    let text = std::fs::read_to_string(&log).unwrap();
    let has_failed = matches!(life.trouble, Some(Trouble::Fail(..)));
    assert_eq!(text.contains("(INJECTED)"), has_failed, "{life:?}: there is no such call");
    let mut moments = trace::read(&text, folder, first);
    moments.push(Moment::Dies(read_files(folder).into()));
    moments
}

/// All files of a data folder.
pub(crate) fn read_files(folder: &Path) -> Files {
    let mut files = Files::new();
    for part in ["", "journal"] {
        for entry in std::fs::read_dir(folder.join(part)).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_file() {
                files.insert(
                    PathBuf::from(part).join(path.file_name().unwrap()),
                    std::fs::read(&path).unwrap(),
                );
            }
        }
    }
    files
}

/// Makes a data folder of them. Where there is a file both folders are safe: they are made first.
pub(crate) fn write_files(folder: &Path, files: &Files) {
    std::fs::create_dir_all(if files.is_empty() { folder.to_owned() } else { folder.join("journal") })
        .unwrap();
    for (path, bytes) in files {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
}

impl fmt::Display for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?} {} {:?}", self.through, self.folding, self.closes, self.planted)
    }
}

impl FromStr for Life {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let [through, folding, closes, planted] = text.split(' ').collect::<Vec<_>>()[..] else {
            return Err(format!("{text} is no life"));
        };
        let foldings = [Folding::Beside, Folding::Often, Folding::Seldom];
        let all = [
            Planted::Nothing,
            Planted::SkipSync,
            Planted::SkipDirSync,
            Planted::SkipLogSync,
            Planted::FoldBeforeSync,
        ];
        Ok(Self {
            through: through.parse().unwrap(),
            folding: foldings.into_iter().find(|one| format!("{one:?}") == folding).unwrap(),
            closes: closes.parse().unwrap(),
            planted: all.into_iter().find(|one| format!("{one:?}") == planted).unwrap(),
            trouble: None,
        })
    }
}
