//! How long a start takes after a crash, and how much memory the items need. Both in processes of their
//! own: one that stops without closing, one whose memory is nothing but the store.

use std::path::{Path, PathBuf};
use std::process::Command as Process;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use serde::{Deserialize, Serialize};
use tenure_engine::{Engine, SystemClock};
use tenure_store::Store;
use tenure_store::embedded::{Embedded, Fold, Options};

use super::Result;
use super::load::{self, Items, as_f64};
use super::report::Figure;

/// What a segment holds.
const TAIL_BYTES: u64 = 64 * 1024 * 1024;
/// `item-0000000`.
const KEY_BYTES: f64 = 12.0;

/// Opens a folder and tells what that took.
#[derive(Args)]
pub(crate) struct OpenBench {
    data: PathBuf,
}

/// Fills a segment and stops without folding it.
#[derive(Args)]
pub(crate) struct TailBench {
    data: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct Opened {
    seconds: f64,
    items: u64,
    resident_bytes: u64,
    replayed_batches: u64,
}

/// Crashes with a full segment, starts again.
pub(crate) fn measure(data: &Path, figures: &mut Vec<Figure>) -> Result {
    // Before the crash: what is in memory is then the items, and not a journal's tail beside them.
    let idle: Opened = serde_json::from_slice(&run("open", data)?)?;
    run("tail", data)?;
    let opened: Opened = serde_json::from_slice(&run("open", data)?)?;
    if opened.replayed_batches == 0 {
        return Err("the restart had nothing to replay".into());
    }
    let per_item = as_f64(idle.resident_bytes) / as_f64(idle.items) - KEY_BYTES;
    figures.push(Figure::at_most("restart with a 64 MiB journal tail", opened.seconds, "s", 3.0));
    figures.push(Figure::at_most("memory per idle item, besides its key", per_item, "bytes", 500.0));
    Ok(())
}

impl TailBench {
    pub(crate) fn run(self) -> Result {
        let options = Options { fold: Fold::Manual, ..Options::default() };
        let store = Embedded::open(&self.data, &options)?;
        let (folded, reader) = (store.folded_through(), store.reader());
        let items = Arc::new(Items::new(reader.stats().items));
        let engine = Engine::start(store, SystemClock::new(), tenure_engine::Options::default())?;
        let full = reader.stats().journal_bytes + TAIL_BYTES;
        while reader.stats().journal_bytes < full {
            load::claims(&engine, &items, 64, 1, Duration::from_millis(200));
        }
        eprintln!("{folded} batches were folded before");
        // As a crash would: nothing is folded, nothing is closed.
        std::process::exit(0);
    }
}

impl OpenBench {
    pub(crate) fn run(self) -> Result {
        let before = resident_bytes("self")?;
        let started = Instant::now();
        let store = Embedded::open(&self.data, &Options { fold: Fold::Manual, ..Options::default() })?;
        let seconds = started.elapsed().as_secs_f64();
        let opened = Opened {
            seconds,
            items: store.reader().stats().items,
            resident_bytes: resident_bytes("self")?.saturating_sub(before),
            replayed_batches: store.last_batch() - store.folded_through(),
        };
        println!("{}", serde_json::to_string(&opened)?);
        Ok(())
    }
}

fn run(what: &str, data: &Path) -> Result<Vec<u8>> {
    let output = Process::new(std::env::current_exe()?).args(["bench", what]).arg(data).output()?;
    if output.status.success() {
        Ok(output.stdout)
    } else {
        Err(String::from_utf8_lossy(&output.stderr).trim().to_owned().into())
    }
}

/// The memory of a process: `self`, or its number.
pub(crate) fn resident_bytes(process: &str) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).ok_or("no VmRSS in /proc")?;
    let kibibytes: u64 = line.split_whitespace().nth(1).ok_or("no figure in VmRSS")?.parse()?;
    Ok(kibibytes * 1_024)
}
