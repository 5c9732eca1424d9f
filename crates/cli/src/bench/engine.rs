//! `tenure bench engine`: the figures of the engine alone, each against its floor or its rival in the
//! same run, since machines differ and are shared.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::Args;
use tenure_core::CollectionKey;
use tenure_engine::{Engine, Observer, Options, Report, SystemClock};
use tenure_store::EventPage;
use tenure_store::embedded::Embedded;

use super::expiry::{self, Lag};
use super::load::{self, Items, as_f64};
use super::report::{self, Figure, median};
use super::{Result, bare, restart, rows};
use crate::progress::bar;

/// Commands in flight, and so the batch of the floor and the rival.
const IN_FLIGHT: usize = 64;

/// Sizes and times.
#[derive(Args)]
pub(crate) struct EngineBench {
    /// Items in the collection.
    #[arg(long, default_value_t = 1_000_000)]
    items: u64,
    /// Milliseconds of each measurement: short, so that what is compared shares the machine's mood.
    #[arg(long, default_value_t = 700)]
    millis: u64,
    /// Rounds; the medians of their ratios count.
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// Where to put the data; a temporary folder in the working directory if not given.
    #[arg(long)]
    data: Option<PathBuf>,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

impl EngineBench {
    pub(crate) fn run(self) -> Result {
        let parent = self.data.clone().unwrap_or_else(|| PathBuf::from("."));
        // Not in the system's temporary folder: that may be memory, where a sync costs nothing.
        let folder = tempfile::Builder::new().prefix("tenure-bench-").tempdir_in(parent)?;
        let mut figures = Vec::new();
        self.throughput(folder.path(), &mut figures)?;
        restart::measure(&folder.path().join("data"), &mut figures)?;
        self.expiry(folder.path(), &mut figures)?;
        report::print(&figures, self.json)
    }

    fn throughput(&self, folder: &Path, figures: &mut Vec<Figure>) -> Result {
        let time = Duration::from_millis(self.millis);
        let items = Arc::new(Items::new(self.items));
        let commits = Arc::new(Commits::default());
        let engine = start(folder, Options { observer: commits.clone(), ..Options::default() })?;
        create(&engine, &items);
        commits.reset();
        let progress = bar("throughput", self.rounds as u64);
        let mut rounds = Vec::new();
        let mut latency = load::new_histogram();
        for _ in 0..self.rounds {
            commits.reset();
            let measured = load::claims(&engine, &items, IN_FLIGHT, 1, time);
            latency.add(&measured.latency)?;
            let (batch, commit_ms) = (commits.batch(), commits.millis());
            let bytes = record_bytes(&engine, &items.collection)?;
            let bare = bare::journal(folder, bytes, IN_FLIGHT, time)?;
            let ten = load::claims(&engine, &items, IN_FLIGHT, 10, time).per_second();
            let rows = rows::sqlite(folder, self.items, IN_FLIGHT, time)?;
            rounds.push(Round { single: measured.per_second(), bare, ten, rows, batch, commit_ms });
            progress.inc(1);
        }
        progress.finish_and_clear();
        engine.stop()?;
        let of = |figure: fn(&Round) -> f64| median(rounds.iter().map(figure).collect());
        let percentile = |quantile| as_f64(latency.value_at_quantile(quantile)) / 1_000.0;
        figures.extend([
            Figure::plain("bare journal, 64 records a batch", of(|round| round.bare), "records/s"),
            Figure::plain("SQLite rows, 64 commands a batch", of(|round| round.rows), "commands/s"),
            Figure::plain("engine, claim and release, 64 in flight", of(|round| round.single), "commands/s"),
            Figure::at_least("engine / bare journal", of(|round| round.single / round.bare), "×", 0.5),
            Figure::at_least("engine / SQLite rows", of(|round| round.single / round.rows), "×", 4.0),
            Figure::plain("commands in a commit", of(|round| round.batch), ""),
            Figure::plain("a commit takes", of(|round| round.commit_ms), "ms"),
            Figure::plain("latency p50", percentile(0.5), "ms"),
            Figure::plain("latency p99", percentile(0.99), "ms"),
            // A ten-item command is a claim or its release, so half of them are claims.
            Figure::plain("ten-item claims, each with its release", of(|round| round.ten / 2.0), "claims/s"),
            Figure::at_least(
                "ten-item claims / bare journal",
                of(|round| round.ten / 2.0 / round.bare),
                "×",
                60_000.0 / 400_000.0,
            ),
        ]);
        Ok(())
    }

    fn expiry(&self, folder: &Path, figures: &mut Vec<Figure>) -> Result {
        let lag = Arc::new(Lag::new());
        let options = Options { observer: lag.clone(), ..Options::default() };
        let engine = start(folder, options)?;
        let items = Items::new(self.items);
        let progress = bar("claims that will expire", self.items);
        let expiry = expiry::run(&engine, &lag, &items, 20_000, |done| progress.inc(done))?;
        progress.finish_and_clear();
        engine.stop()?;
        figures.push(Figure::plain("commands beside the expiries", expiry.beside_per_second, "commands/s"));
        figures.push(Figure::at_most(
            "expiry lag p99, all items within 10 s",
            expiry.lag_p99_ms,
            "ms",
            100.0,
        ));
        Ok(())
    }
}

/// One round: everything that is compared was measured within seconds of each other.
struct Round {
    single: f64,
    bare: f64,
    ten: f64,
    rows: f64,
    batch: f64,
    commit_ms: f64,
}

/// How the commits of a load look.
#[derive(Default)]
struct Commits {
    turns: AtomicU64,
    commands: AtomicU64,
    micros: AtomicU64,
}

impl Commits {
    fn reset(&self) {
        for counter in [&self.turns, &self.commands, &self.micros] {
            counter.store(0, Ordering::Relaxed);
        }
    }

    fn batch(&self) -> f64 {
        as_f64(self.commands.load(Ordering::Relaxed)) / as_f64(self.turns.load(Ordering::Relaxed))
    }

    fn millis(&self) -> f64 {
        as_f64(self.micros.load(Ordering::Relaxed)) / as_f64(self.turns.load(Ordering::Relaxed)) / 1_000.0
    }
}

impl Observer for Commits {
    fn turn(&self, report: &Report) {
        if report.committed > 0 {
            self.turns.fetch_add(1, Ordering::Relaxed);
            self.commands.fetch_add(report.committed as u64, Ordering::Relaxed);
            self.micros.fetch_add(load::micros(report.commit), Ordering::Relaxed);
        }
    }
}

fn start(folder: &Path, options: Options) -> Result<Engine> {
    let store = Embedded::open(&folder.join("data"), &tenure_store::embedded::Options::default())?;
    Ok(Engine::start(store, SystemClock::new(), options)?)
}

fn create(engine: &Engine, items: &Items) {
    let progress = bar("creating items", items.ids.len() as u64);
    items.create(engine, |done| progress.inc(done));
    progress.finish_and_clear();
}

/// The size of a record in the journal: an event of this load, its collection's key and lengths.
fn record_bytes(engine: &Engine, collection: &CollectionKey) -> Result<usize> {
    let reader = engine.reader();
    let last = reader.collection(collection)?.map_or(0, |head| head.seq);
    let EventPage::Events(events) = reader.events(collection, last.saturating_sub(1_000), 1_000)? else {
        return Err("the newest events are not retained".into());
    };
    let bytes: usize = events.iter().map(|sealed| sealed.bytes.len()).sum();
    Ok(bytes / events.len().max(1) + collection.as_str().len() + 8)
}
