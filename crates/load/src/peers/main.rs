//! Tenure side by side with what people would use instead, each in a process of its own on loopback: what
//! `cargo xtask bench` builds and runs.

mod cells;
mod drive;
mod etcd;
mod letter;
mod place;
mod plot;
mod postgres;
mod redis;
mod resp;
mod run;
mod setup;
mod slow;
mod steps;
mod summary;
mod table;
mod tenure;

use std::path::PathBuf;

use clap::Parser;
use tenure_load::Result;

/// How much is measured.
#[derive(Parser, Debug)]
#[command(
    about = "Measures Tenure beside Redis, etcd, PostgreSQL row locks and the classic ticketing stack."
)]
pub(crate) struct Options {
    /// The program `tenure`, built for release.
    #[arg(long)]
    tenure: PathBuf,
    /// Where what was measured goes: setup.md, raw.csv, summary.md and plots.
    #[arg(long)]
    out: PathBuf,
    /// The program `etcd`, where it is not on the path.
    #[arg(long)]
    etcd: Option<PathBuf>,
    /// Connections to each.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=200))]
    connections: u16,
    /// Milliseconds of each measurement.
    #[arg(long, default_value_t = 2_000)]
    millis: u64,
    /// Rounds; their medians count.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=20))]
    rounds: u16,
    /// The most items that are held beside what is measured.
    #[arg(long, default_value_t = 10_000_000)]
    held: u64,
    /// Sockets that hear every event, of a server of their own.
    #[arg(long, default_value_t = 10_000)]
    sockets: u64,
    /// A short look: some five minutes, and less to rely on.
    #[arg(long)]
    quick: bool,
    /// Next to nothing of everything, for a test of the benchmark itself: its figures mean nothing.
    #[arg(long, hide = true)]
    smoke: bool,
    /// Only the main part and the half load.
    #[arg(long)]
    main_only: bool,
    /// Only designs whose name has one of these in it, for a profile or a first look.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
}

/// What no option names: how much there is of what is measured, beside rounds and their time.
#[derive(Clone, Copy, Debug)]
struct Size {
    /// Connections along which scaling is drawn.
    scale: &'static [usize],
    /// Microseconds that a sync takes longer; the first are next to none.
    delays: &'static [u64],
    /// Items in PostgreSQL's tables: a share for each of the most callers.
    rows: u64,
    /// Events that sockets hear.
    events: &'static str,
    /// Whether the machine is to be quiet before anything is measured.
    waits: bool,
}

impl Options {
    fn size(&self) -> Size {
        if self.smoke {
            return Size { scale: &[1, 4], delays: &[1_000], rows: 8_000, events: "5", waits: false };
        }
        let events = if self.quick { "20" } else { "100" };
        let (scale, delays) = (&[1, 4, 16, 64, 256], &[10, 100, 1_000, 5_000]);
        Size { scale, delays, rows: 300_000, events, waits: true }
    }

    /// Whether a design is asked for.
    fn asks_for(&self, design: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|word| design.contains(word.as_str()))
    }
}

fn main() -> Result {
    let mut options = Options::parse();
    if options.quick {
        options.millis = options.millis.min(500);
        options.held = options.held.min(100_000);
        options.sockets = options.sockets.min(1_000);
    }
    if options.smoke {
        options = Options { connections: 4, millis: 50, rounds: 1, held: 1_000, sockets: 20, ..options };
    }
    println!("{}", run::run(&options)?);
    println!("written to {}", options.out.display());
    Ok(())
}
