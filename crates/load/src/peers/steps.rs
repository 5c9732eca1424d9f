//! The parts that take long and come late: more and more held items, very many sockets, a slower disk.

use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use indicatif::ProgressBar;
use tenure_load::{Result, quiet};
use tokio::task::LocalSet;

use super::Options;
use super::cells::{Design, Fsync, Peers};
use super::place::{Place, Running};
use super::redis::{How, Locks};
use super::run::{DRAWN, HANGS, NO_MS, Run, bar};
use super::slow::{self, Delayed, Slow};
use super::table::{Line, QUANTILES};
use super::tenure::Claims;

/// The longest that items are made to be held before a step: nine million, at fifteen thousand a second.
const FILLS_MAX: Duration = Duration::from_mins(10);
/// Items that are asked for at once.
const CHUNK: u64 = 10_000;

impl Run<'_> {
    /// What more and more held items cost those who claim others. A design that cannot be filled any further
    /// goes no further.
    pub(super) fn held(&mut self, peers: &Peers) {
        let connections = usize::from(self.options.connections);
        let designs = [Design::Http, Design::Redis(Fsync::Always, How::OneByOne)];
        let mut designs: Vec<_> = designs.into_iter().filter(|design| peers.has(*design)).collect();
        let progress = bar("held items", self.options.held * designs.len() as u64);
        let (mut held, mut step) = (0, 1_000);
        while step <= self.options.held {
            designs.retain(|design| {
                let filled = LocalSet::new().block_on(&self.one, async {
                    let late = |_| format!("not held after {} s", FILLS_MAX.as_secs());
                    let fill = fill(peers, *design, held..step, &progress);
                    tokio::time::timeout(FILLS_MAX, fill).await.map_err(late)?
                });
                self.there(&format!("{step} held items of {}", design.name(1)), filled).is_some()
            });
            for round in 0..self.options.rounds {
                for design in &designs {
                    let measured = self.once(peers, *design, connections, round);
                    self.note(("held items", *design, 1), step, connections, round, measured);
                }
            }
            held = step;
            step *= 10;
        }
        progress.finish_and_clear();
    }

    /// From a change to each of very many who listen.
    pub(super) fn sockets(&mut self, place: &Place) {
        let Options { sockets: at, rounds, .. } = *self.options;
        let connections = usize::try_from(at).unwrap_or(usize::MAX);
        let size = self.options.size();
        let progress = bar("sockets", u64::from(rounds));
        for round in 0..rounds {
            if size.waits {
                quiet::wait();
            }
            let heard = audience(&self.options.tenure, place.path(), at, size.events);
            let (part, design) = ("sockets", "tenure sockets".to_owned());
            let line = Line { part, design, at, connections, per_claim: 1, round, rate: 0.0, ms: NO_MS };
            self.keep(line, heard, |line, ms| Line { ms, ..line });
            progress.inc(1);
        }
        progress.finish_and_clear();
    }

    /// Who is drawn, again, on a disk whose syncs take longer. Without a proof that they did, nothing is drawn.
    pub(super) fn slow_disk(&mut self, mut place: Place) {
        let shim = slow::compile(&place);
        let Some(shim) = self.there("a slower disk", shim) else { return };
        let connections = usize::from(self.options.connections);
        let (rounds, delays) = (self.options.rounds, self.options.size().delays);
        let progress = bar("slower disk", (delays.len() * DRAWN.len()) as u64 * u64::from(rounds));
        for delay in delays {
            place.slow = Some(Slow { shim: shim.clone(), micros: *delay });
            let started = self.start(&place, &format!("delay-{delay}"));
            let Some(peers) = self.there(&format!("a disk slower by {delay} µs"), started) else { continue };
            for round in 0..rounds {
                for design in DRAWN.into_iter().filter(|design| peers.has(*design)) {
                    let before = peers.delayed(design);
                    let measured = self.once(&peers, design, connections, round).and_then(|measured| {
                        let delayed = peers.delayed(design) - before;
                        if slow::is_proved(delayed, measured.commands, connections) {
                            return Ok(measured);
                        }
                        Err("its syncs were not delayed, or not all of them".into())
                    });
                    self.note(("slower disk", design, 1), *delay, connections, round, measured);
                    progress.inc(1);
                }
            }
        }
        progress.finish_and_clear();
    }
}

/// Holds items that nobody else asks for.
async fn fill(peers: &Peers, design: Design, items: Range<u64>, progress: &ProgressBar) -> Result {
    let mut claims = Claims::connect(&peers.tenure.target).await?;
    let mut locks = match (&peers.always, design) {
        (Some(redis), Design::Redis(..)) => Some(Locks::connect(redis.port, How::OneByOne).await?),
        _ => None,
    };
    let mut first = items.start;
    while first < items.end {
        let last = items.end.min(first + CHUNK);
        let chunk: Vec<String> = (first..last).map(|item| format!("held-{item}")).collect();
        match &mut locks {
            Some(locks) => locks.hold(&chunk).await?,
            None => claims.hold(&chunk).await?,
        }
        progress.inc(last - first);
        first = last;
    }
    Ok(())
}

/// What `tenure bench http` says of so many sockets, as the other times are: it knows fewer of them.
fn audience(tenure: &Path, folder: &Path, sockets: u64, events: &str) -> Result<[f64; QUANTILES.len()]> {
    let mut bench = tenure_load::tenure(tenure);
    bench.args(["bench", "http", "--json", "--connections", "0", "--sockets", &sockets.to_string()]);
    let said = folder.join("sockets.json");
    bench.args(["--events", events]).arg("--data").arg(folder).stdout(File::create(&said)?);
    Running { child: bench.spawn()?, delayed: Delayed::Not }.ends_within(HANGS)?;
    let figures: serde_json::Value = serde_json::from_slice(&std::fs::read(&said)?)?;
    let of = |name: &str| {
        let mut figures = figures.as_array().into_iter().flatten();
        figures.find(|figure| figure["name"] == name).and_then(|figure| figure["value"].as_f64())
    };
    let (p50, p99) = of("fan-out, p50").zip(of("fan-out, p99")).ok_or("it says nothing of its sockets")?;
    Ok([p50, f64::NAN, p99, f64::NAN, f64::NAN])
}
