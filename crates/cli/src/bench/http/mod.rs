//! `tenure bench http`: what a server does over the network, durably. The targets are a bare prototype's
//! figures on two cores that also run the generator, less what names, rules, an audit log, limits and
//! figures may cost.

mod audience;
mod claims;
pub(super) mod listen;
mod run;
pub(super) mod server;
mod sockets;

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;

use super::Result;
use super::load::{Measured, as_f64};
use super::report::{self, Figure};
use crate::progress::bar;
use crate::remote::read_key;
use audience::Audience;
use claims::{Batches, Claims};
use server::{Own, allow_connections};
use sockets::Pipeline;
use tenure_load::wire::Target;

/// What may be missing to the prototype.
const SHARE: f64 = 0.6;
/// The fan-out's targets: to each of so many sockets within so long, with so much memory.
const FANNED: (f64, f64, f64) = (10_000.0, 75.0, 300.0);
/// Connections with batches: the engine takes 16,384 commands ahead.
const BATCHING: usize = 8;
/// Sockets with commands: each has 256 in flight.
const PIPELINING: usize = 16;

/// Against which server, and how much.
#[derive(Args)]
pub(crate) struct HttpBench {
    /// A server that runs. It should have no rates. Without it one is started, in a folder of its own.
    #[arg(long, env = "TENURE_URL", value_name = "URL")]
    server: Option<String>,
    /// A file with the API key to it. Without it the key is taken from TENURE_KEY.
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Keep-alive connections; without any, only sockets are measured.
    #[arg(long, default_value_t = 64)]
    connections: u16,
    /// Sockets that hear every event.
    #[arg(long, default_value_t = 1_000)]
    sockets: u64,
    /// Events for them, ten a second.
    #[arg(long, default_value_t = 100)]
    events: u64,
    /// Milliseconds of each measurement.
    #[arg(long, default_value_t = 3_000)]
    millis: u64,
    /// Where to put the data of a server that is started; a temporary folder in the working directory if
    /// not given.
    #[arg(long)]
    data: Option<PathBuf>,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

impl HttpBench {
    pub(crate) fn run(self) -> Result {
        let connections = self.sockets + 2 * u64::from(self.connections) + 64;
        allow_connections(connections)?;
        let parent = self.data.clone().unwrap_or_else(|| PathBuf::from("."));
        // The server of our own ends before its folder is gone.
        let (_folder, own, target);
        if let Some(url) = &self.server {
            (_folder, own) = (None, None);
            target = server::target(url, read_key(self.key_file.as_deref())?)?;
        } else {
            // Not in the system's temporary folder: that may be memory, where a sync costs nothing.
            let folder = tempfile::Builder::new().prefix("tenure-bench-").tempdir_in(parent)?;
            let started = Own::start(folder.path(), connections)?;
            target = started.target()?;
            (_folder, own) = (Some(folder), Some(started));
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let tasks = tokio::task::LocalSet::new();
        let figures = runtime.block_on(tasks.run_until(Bench { own, target, sizes: &self }.measure()))?;
        report::print(&figures, self.json)
    }
}

struct Bench<'a> {
    own: Option<Own>,
    target: Target,
    sizes: &'a HttpBench,
}

impl Bench<'_> {
    async fn measure(&self) -> Result<Vec<Figure>> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis();
        // Nothing of an earlier run: a snapshot of its items would be measured, too.
        let place = format!("lock/bench-{since}");
        let (target, time) = (&self.target, Duration::from_millis(self.sizes.millis));
        let mut figures = Vec::new();
        // First: the memory of a server that has been under load says nothing about its sockets.
        if self.sizes.sockets > 0 {
            self.fan_out(&format!("{place}-fan"), &mut figures).await?;
        }
        if self.sizes.connections == 0 {
            return Ok(figures);
        }
        for (what, per_claim, prototype) in
            [("claims of one item", 1, 85_000.0), ("claims of ten items", 10, 65_000.0)]
        {
            let mut callers = Vec::new();
            for caller in 0..usize::from(self.sizes.connections) {
                callers.push(Claims::connect(target, &place, caller, per_claim).await?);
            }
            let busy_ns = self.busy_ns()?;
            let measured = run::run(what, callers, time).await?;
            self.tell(&mut figures, (what, "requests/s"), &measured, prototype, busy_ns)?;
        }
        let mut callers = Vec::new();
        for caller in 0..BATCHING.min(self.sizes.connections.into()) {
            callers.push(Batches::connect(target, &place, caller).await?);
        }
        let busy_ns = self.busy_ns()?;
        let what = "batches of 1,000";
        let measured = run::run(what, callers, time).await?;
        self.tell(&mut figures, (what, "commands/s"), &measured, 750_000.0, busy_ns)?;
        let mut callers = Vec::new();
        for caller in 0..PIPELINING.min(self.sizes.connections.into()) {
            callers.push(Pipeline::connect(target, &place, caller).await?);
        }
        let busy_ns = self.busy_ns()?;
        let what = "pipelined on sockets";
        let measured = run::run(what, callers, time).await?;
        self.tell(&mut figures, (what, "commands/s"), &measured, 830_000.0, busy_ns)?;
        Ok(figures)
    }

    /// A claim and its release are two requests, or two commands.
    fn tell(
        &self,
        figures: &mut Vec<Figure>,
        (what, unit): (&'static str, &'static str),
        measured: &Measured,
        prototype: f64,
        busy_ns: Option<u64>,
    ) -> Result {
        figures.push(Figure::at_least(what, measured.per_second(), unit, prototype * SHARE));
        for (quantile, word) in [(0.5, "p50"), (0.99, "p99")] {
            let ms = as_f64(measured.latency.value_at_quantile(quantile)) / 1_000.0;
            figures.push(Figure::plain(format!("{what}, {word}"), ms, "ms"));
        }
        self.tell_busy(figures, what, measured.commands, busy_ns)
    }

    fn tell_busy(&self, figures: &mut Vec<Figure>, what: &str, done: u64, before: Option<u64>) -> Result {
        if let (Some(before), Some(after)) = (before, self.busy_ns()?) {
            let each_us = as_f64(after - before) / 1_000.0 / as_f64(done.max(1));
            figures.push(Figure::plain(format!("{what}, the server computes for each"), each_us, "µs"));
        }
        Ok(())
    }

    async fn fan_out(&self, place: &str, figures: &mut Vec<Figure>) -> Result {
        let HttpBench { sockets, events, .. } = *self.sizes;
        let before = self.resident_bytes()?;
        let progress = bar("opening sockets", sockets);
        let audience = Audience::open(&self.target, place, (sockets, events), &progress).await?;
        progress.finish_and_clear();
        let busy_ns = self.busy_ns()?;
        let progress = bar("fan-out", events);
        let fanned = audience.tell(&self.target, &progress).await?;
        progress.finish_and_clear();
        let (many, most_ms, most_mb) = FANNED;
        let scale = as_f64(sockets) / many;
        figures.push(Figure::plain("fan-out, sockets that hear ten events a second", as_f64(sockets), ""));
        let ms = |quantile| as_f64(fanned.latency.value_at_quantile(quantile)) / 1_000.0;
        figures.push(Figure::plain("fan-out, p50", ms(0.5), "ms"));
        figures.push(Figure::at_most("fan-out, p99", ms(0.99), "ms", most_ms * scale.max(0.1)));
        self.tell_busy(figures, "fan-out", fanned.deliveries, busy_ns)?;
        if let (Some(before), Some(after)) = (before, self.resident_bytes()?) {
            let mb = as_f64(after.saturating_sub(before)) / 1e6;
            figures.push(Figure::at_most(
                "fan-out, memory for the sockets",
                mb,
                "MB",
                most_mb * scale.max(0.1),
            ));
        }
        Ok(())
    }

    fn busy_ns(&self) -> Result<Option<u64>> {
        self.own.as_ref().map(Own::busy_ns).transpose()
    }

    fn resident_bytes(&self) -> Result<Option<u64>> {
        self.own.as_ref().map(Own::resident_bytes).transpose()
    }
}
