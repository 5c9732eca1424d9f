//! `tenure bench engine`: the figures of the engine alone, each against its floor or its rival in the
//! same run, since machines differ and are shared.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tenure_core::CollectionKey;
use tenure_engine::{Engine, Options, SystemClock};
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
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 4)]
    seconds: u64,
    /// Rounds; the medians count.
    #[arg(long, default_value_t = 3)]
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
        let time = Duration::from_secs(self.seconds);
        let items = Arc::new(Items::new(self.items));
        let engine = start(folder, Options::default())?;
        create(&engine, &items);
        let progress = bar("throughput", self.rounds as u64 * 4);
        let (mut floor, mut floor10, mut single, mut ten, mut rival) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut latency = load::new_histogram();
        for _ in 0..self.rounds {
            let measured = load::claims(&engine, &items, IN_FLIGHT, 1, time);
            latency.add(&measured.latency)?;
            single.push(measured.per_second());
            let bytes = record_bytes(&engine, &items.collection)?;
            floor.push(bare::journal(folder, bytes, IN_FLIGHT, time)?);
            progress.inc(1);
            ten.push(load::claims(&engine, &items, IN_FLIGHT, 10, time).per_second());
            let bytes = record_bytes(&engine, &items.collection)?;
            floor10.push(bare::journal(folder, bytes, IN_FLIGHT, time)?);
            progress.inc(1);
            rival.push(rows::sqlite(folder, self.items, IN_FLIGHT, time)?);
            progress.inc(2);
        }
        progress.finish_and_clear();
        engine.stop()?;
        let (floor, floor10, single, ten, rival) =
            (median(floor), median(floor10), median(single), median(ten), median(rival));
        let percentile = |quantile| as_f64(latency.value_at_quantile(quantile)) / 1_000.0;
        figures.extend([
            Figure::plain("bare journal, 64 records a batch", floor, "records/s"),
            Figure::plain("SQLite rows, 64 commands a batch", rival, "commands/s"),
            Figure::plain("engine, claim and release, 64 in flight", single, "commands/s"),
            Figure::at_least("engine / bare journal", single / floor, "×", 0.5),
            Figure::at_least("engine / SQLite rows", single / rival, "×", 4.0),
            Figure::plain("latency p50", percentile(0.5), "ms"),
            Figure::plain("latency p99", percentile(0.99), "ms"),
            Figure::plain("bare journal, records of ten-item claims", floor10, "records/s"),
            // A ten-item command is a claim or its release; a claim is both.
            Figure::at_least(
                "ten-item claims (each with its release)",
                ten / 2.0,
                "claims/s",
                60_000.0 * floor / 400_000.0,
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
