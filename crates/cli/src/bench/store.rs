//! `tenure bench store`: nodes over one PostgreSQL against the usual design on the same one, which is a
//! transaction with `SELECT … FOR UPDATE` for each request. Each round measures everything once, one after
//! the other, since machines differ and are shared; ratios are taken within a round.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tenure_engine::{Engine, Options, SystemClock};
use tenure_load::row_locks::{Load, RowLocks, Sent};
use tenure_load::scratch::Scratch;
use tenure_load::spread;
use tenure_store::postgres::{self, Postgres};

use super::load::{Items, Measured, spread_claims};
use super::report::{self, Figure, median};
use super::{Result, across, hints};
use crate::progress::bar;
use crate::serve::lanes_over;

/// Requests under way.
const IN_FLIGHT: [usize; 2] = [64, 256];
/// Items of a claim, and how many times the usual design's rate is aimed at.
const SIZES: [(usize, f64); 2] = [(1, 4.0), (10, 6.0)];
/// Items of each caller's own, where all of them are in one collection: a claim of ten, and some to choose from.
const ITEMS_EACH: u64 = 20;
/// From a commit on one node to the event on another.
const HINT_MS: f64 = 100.0;

/// Where, and how much.
#[derive(Args)]
pub(crate) struct StoreBench {
    /// A PostgreSQL whose user may create databases: it gets one of its own there, and drops it afterwards.
    #[arg(long, env = "TENURE_DATABASE_URL", value_name = "URL", hide_env_values = true)]
    database_url: Option<String>,
    /// A Redis, to measure hints over it, too.
    #[arg(long, env = "TENURE_REDIS", value_name = "URL", hide_env_values = true)]
    redis: Option<String>,
    /// Items, over all collections.
    #[arg(long, default_value_t = 100_000)]
    items: u64,
    /// Collections that they lie in: work in one waits for its other work, as every order does.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..=256))]
    collections: u64,
    /// Connections of the usual design. Tenure's nodes have the ones that `serve` gives them.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=200))]
    connections: u16,
    /// Milliseconds of each measurement.
    #[arg(long, default_value_t = 3_000)]
    millis: u64,
    /// Rounds; their medians count.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=50))]
    rounds: u16,
    /// Events for the latency between nodes.
    #[arg(long, default_value_t = 300)]
    events: u64,
    /// Tenure prepares no statement by name, as behind a pooler.
    #[arg(long)]
    unprepared: bool,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

impl StoreBench {
    pub(crate) fn run(self) -> Result {
        let Some(url) = &self.database_url else {
            return Err(
                "which database? Name it with --database-url postgres://user@host/database, or better in \
                        TENURE_DATABASE_URL, which not everyone on the machine can read"
                    .into(),
            );
        };
        let least = self.collections * IN_FLIGHT[1] as u64 * ITEMS_EACH;
        if self.items < least {
            return Err(
                format!("--items: at least {least}, so that callers don't wait for each other").into()
            );
        }
        // Both sides talk to the database with two threads.
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let scratch = runtime.block_on(Scratch::make(url)).map_err(|error| error.to_string())?;
        let scratch = Leaving(&runtime, Some(scratch));
        let figures = self.measure(&runtime, scratch.url())?;
        drop(scratch);
        report::print(&figures, self.json)
    }

    fn measure(&self, runtime: &tokio::runtime::Runtime, url: &str) -> Result<Vec<Figure>> {
        let failed = |error: Box<dyn std::error::Error + Send + Sync>| error.to_string();
        let usual = RowLocks::make(url, self.items, self.connections.into());
        let usual = runtime.block_on(usual).map_err(failed)?;
        let nodes = [self.start(url)?, self.start(url)?];
        let places = self.places(&nodes[0]);
        let time = Duration::from_millis(self.millis);
        let mut cells = cells();
        let progress = bar("throughput", cells.len() as u64 * u64::from(self.rounds));
        for _ in 0..self.rounds {
            for cell in &mut cells {
                let Cell { in_flight, per_claim, .. } = *cell;
                let measured = match cell.design {
                    Design::Usual(sent) => {
                        let load = Load { in_flight, per_claim, time };
                        runtime.block_on(usual.run(load, sent)).map_err(failed)?
                    }
                    Design::Nodes(count) => {
                        spread_claims(&nodes[..count], &places, in_flight, per_claim, time)
                    }
                    Design::OnePlace(count) => {
                        spread_claims(&nodes[..count], &places[..1], in_flight, per_claim, time)
                    }
                };
                cell.rounds.push(measured);
                progress.inc(1);
            }
        }
        progress.finish_and_clear();
        let mut figures = tell(&cells)?;
        let mut lags = vec![("node to node", hints::measure(&nodes, &places, self.events)?)];
        let (keys, beside) = (across::Keys::make()?, (&nodes[..], &places[..]));
        lags.push(("server to socket, by NOTIFY", across::measure((url, None), &keys, beside, self.events)?));
        if let Some(redis) = self.redis.as_deref() {
            lags.push((
                "server to socket, by Redis",
                across::measure((url, Some(redis)), &keys, beside, self.events)?,
            ));
        }
        for (way, lags) in lags {
            for (what, lag) in [("quiet", &lags.quiet), ("beside 64 in flight", &lags.busy)] {
                let ms = |quantile| super::load::as_f64(lag.value_at_quantile(quantile)) / 1_000.0;
                figures.push(Figure::plain(format!("{way}, {what}, p50"), ms(0.5), "ms"));
                figures.push(Figure::at_most(format!("{way}, {what}, p99"), ms(0.99), "ms", HINT_MS));
            }
        }
        for node in nodes {
            node.stop()?;
        }
        Ok(figures)
    }

    /// A node as `serve` starts it.
    fn start(&self, url: &str) -> Result<Engine> {
        let options = postgres::Options { prepare: !self.unprepared, ..postgres::Options::default() };
        let store = Postgres::open(url, &options)?;
        Ok(Engine::start_lanes(lanes_over(store), SystemClock::new(), Options::default())?)
    }

    fn places(&self, node: &Engine) -> Vec<Arc<Items>> {
        let progress = bar("creating items", self.items);
        let each = self.items / self.collections;
        let place = |number| {
            let items = Items::of(&format!("lock/bench-{number}"), each);
            items.create(node, |done| progress.inc(done));
            Arc::new(items)
        };
        let places = (0..self.collections).map(place).collect();
        progress.finish_and_clear();
        places
    }
}

/// Whatever happens: the benchmark's database does not stay behind.
struct Leaving<'a>(&'a tokio::runtime::Runtime, Option<Scratch>);

impl Leaving<'_> {
    fn url(&self) -> &str {
        self.1.as_ref().map_or("", |scratch| &scratch.url)
    }
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if let Some(Err(error)) = self.1.take().map(|scratch| self.0.block_on(scratch.drop())) {
            eprintln!("{error}");
        }
    }
}

/// What is measured in one place of a round.
struct Cell {
    design: Design,
    in_flight: usize,
    per_claim: usize,
    rounds: Vec<Measured>,
}

#[derive(Clone, Copy, PartialEq)]
enum Design {
    /// This many nodes, over all collections.
    Nodes(usize),
    /// The same, all in one collection.
    OnePlace(usize),
    Usual(Sent),
}

impl Design {
    const ALL: [Self; 6] = [
        Self::Usual(Sent::OneByOne),
        Self::Nodes(1),
        Self::OnePlace(1),
        Self::Usual(Sent::Pipelined),
        Self::Nodes(2),
        Self::OnePlace(2),
    ];

    fn words(self) -> &'static str {
        match self {
            Self::Nodes(1) => "one node",
            Self::Nodes(_) => "two nodes",
            Self::OnePlace(1) => "one node, one collection",
            Self::OnePlace(_) => "two nodes, one collection",
            Self::Usual(Sent::OneByOne) => "the usual design",
            Self::Usual(Sent::Pipelined) => "the usual design, pipelined",
        }
    }
}

/// What is compared lies beside each other.
fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for (per_claim, _) in SIZES {
        for in_flight in IN_FLIGHT {
            let cell = |design| Cell { design, in_flight, per_claim, rounds: Vec::new() };
            cells.extend(Design::ALL.map(cell));
        }
    }
    cells
}

fn tell(cells: &[Cell]) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for (per_claim, target) in SIZES {
        for in_flight in IN_FLIGHT {
            let alike =
                || cells.iter().filter(|cell| (cell.per_claim, cell.in_flight) == (per_claim, in_flight));
            let what = if per_claim == 1 { "one item" } else { "ten items" };
            let rates = |design| {
                let cell = alike().find(|cell| cell.design == design).ok_or("a design was not measured")?;
                Ok::<Vec<f64>, &str>(cell.rounds.iter().map(Measured::per_second).collect())
            };
            let (usual, pipelined) =
                (rates(Design::Usual(Sent::OneByOne))?, rates(Design::Usual(Sent::Pipelined))?);
            for cell in alike() {
                let rates: Vec<f64> = cell.rounds.iter().map(Measured::per_second).collect();
                let name = format!("{what}, {in_flight} in flight, {}", cell.design.words());
                let apart = 100.0 * spread(&rates);
                figures.push(Figure::plain(
                    format!("{name} (±{:.0} %)", apart / 2.0),
                    median(rates.clone()),
                    "commands/s",
                ));
                let p99 = median(cell.rounds.iter().map(|round| round.quantile_ms(0.99)).collect());
                figures.push(Figure::plain(format!("{name}, p99"), p99, "ms"));
                if let Design::Usual(_) = cell.design {
                    continue;
                }
                let over = |others: &[f64]| {
                    median(rates.iter().zip(others).map(|(one, other)| one / other).collect())
                };
                figures.push(Figure::at_least(
                    format!("{name}, against the usual design"),
                    over(&usual),
                    "×",
                    target,
                ));
                figures.push(Figure::plain(format!("{name}, against it pipelined"), over(&pipelined), "×"));
            }
        }
    }
    Ok(figures)
}
