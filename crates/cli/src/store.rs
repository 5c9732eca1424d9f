//! `tenure backup`, `restore`, `check`: what an operator does with a data folder.

use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use indicatif::ProgressBar;
use tenure_apps::files::Folder;
use tenure_engine::{Clock, SystemClock};
use tenure_store::embedded::backup::{backup, restore};
use tenure_store::embedded::check::{check, unmade_sentence};

use crate::bench::Result;
use crate::out::say;
use crate::progress::bar;

/// Where the data is, unless somebody says otherwise.
const DATA: &str = "./tenure-data";

/// What a backup leaves out, since it would open what the backup only holds.
const NOT_COPIED: [(&str, &str); 2] = [
    ("secret.key", "without which no raffle that is open can be drawn"),
    ("secrets", "with the keys of payment gateways"),
];

/// What to copy where.
#[derive(Args)]
pub(crate) struct Backup {
    /// The new folder. It must not exist, or be empty.
    target: PathBuf,
    /// The data folder.
    #[arg(long, env = "TENURE_DATA", default_value = DATA)]
    data: PathBuf,
}

/// What to make a data folder of.
#[derive(Args)]
pub(crate) struct Restore {
    /// The backup.
    backup: PathBuf,
    /// The new data folder. It must not exist, or be empty.
    #[arg(long, env = "TENURE_DATA", default_value = DATA)]
    data: PathBuf,
    /// Restore it although `tenure check` finds something wrong with it.
    #[arg(long)]
    damaged: bool,
}

/// What to verify.
#[derive(Args)]
pub(crate) struct Check {
    /// The data folder, or a backup.
    #[arg(default_value = DATA)]
    data: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Backup {
    pub(crate) fn run(self) -> Result {
        let progress = bar("backing up", 0);
        let mut damaged = Vec::new();
        let mut copy = |target: &Path| copy_files(&self.data, target, &mut damaged);
        let last =
            backup(&self.data, &self.target, &mut copy, &mut |done, total| show(&progress, done, total))?;
        progress.finish_and_clear();
        say!("{} holds everything up to batch {last}.", self.target.display());
        for (name, why) in NOT_COPIED {
            if self.data.join(name).exists() {
                say!("Not in it: {name}, {why}. Keep a copy elsewhere.");
            }
        }
        without(&damaged)
    }
}

impl Restore {
    pub(crate) fn run(self) -> Result {
        if !self.damaged {
            let progress = bar("checking", 0);
            let report = check(&self.backup, &mut |done, total| show(&progress, done, total))?;
            progress.finish_and_clear();
            if let Some(problem) = report.problems.first() {
                let path = self.backup.display();
                return Err(format!(
                    "{path} is damaged: {problem}, and {} more. `tenure check {path}` names them; \
                     --damaged restores it all the same",
                    report.problem_count - 1
                )
                .into());
            }
        }
        let progress = bar("restoring", 0);
        let now_ms = SystemClock::new().now_ms();
        let mut damaged = Vec::new();
        let mut copy = |target: &Path| copy_files(&self.backup, target, &mut damaged);
        let mut show = |done, total| show(&progress, done, total);
        let epoch = restore(&self.backup, &self.data, now_ms, &mut copy, &mut show)?;
        progress.finish_and_clear();
        say!("{} is ready, in epoch {epoch}.", self.data.display());
        without(&damaged)
    }
}

impl Check {
    pub(crate) fn run(self) -> Result {
        let progress = bar("checking", 0);
        let mut report = check(&self.data, &mut |done, total| show(&progress, done, total))?;
        let files = files_of(&self.data).check(|problem| report.problem(problem))?;
        progress.finish_and_clear();
        if self.json {
            say!("{}", serde_json::to_string_pretty(&report)?);
        } else {
            for problem in &report.problems {
                say!("{problem}");
            }
        }
        if !self.json && report.is_unmade {
            say!("{}.", unmade_sentence(&self.data));
        } else if !self.json {
            say!(
                "In the archive: {} collections, {} events, {} items. In the journal after it: {} events, up to batch {}. \
                 Files: {files}. Together: {}.",
                report.collections,
                report.events,
                report.items,
                report.journal_events,
                report.last_batch,
                if report.is_good() {
                    "all is well".to_owned()
                } else {
                    format!("{} problems", report.problem_count)
                },
            );
        }
        if report.is_good() { Ok(()) } else { Err("the data is damaged; restore a backup".into()) }
    }
}

/// The uploaded files of a data folder. Those of a folder that `files.dir` names are somebody else's to copy.
fn copy_files(from: &Path, to: &Path, damaged: &mut Vec<String>) -> io::Result<()> {
    files_of(from).copy_to(&files_of(to), |problem| damaged.push(problem)).map(drop)
}

/// It was made all the same: all else is worth having.
fn without(damaged: &[String]) -> Result {
    if damaged.is_empty() {
        return Ok(());
    }
    for problem in damaged {
        say!("{problem}");
    }
    Err(format!("made, but without {} uploaded files, which are damaged", damaged.len()).into())
}

fn files_of(data: &Path) -> Folder {
    Folder::new(data.join("files"))
}

fn show(progress: &ProgressBar, done: u64, total: u64) {
    progress.set_length(total);
    progress.set_position(done);
}
