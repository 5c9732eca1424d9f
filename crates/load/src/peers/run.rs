//! The run: everything is measured once in each round, one after the other.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use tenure_load::row_locks::{Load, RowLocks, Sent};
use tenure_load::{Measured, Result, quiet};
use tokio::runtime::{Builder, Runtime};
use tokio::task::LocalSet;

use super::Options;
use super::cells::{Design, Fsync, MAIN, Peers};
use super::drive::drive;
use super::etcd::Etcd;
use super::place::{Place, Running};
use super::postgres::Postgres;
use super::redis::{How, Locks, Redis};
use super::table::{Line, QUANTILES, Table};
use super::tenure::{Claims, Tenure};

/// The shim that slows syncs down, compiled where it is used.
const SHIM: &str = include_str!("sync_delay.c");
/// Connections along which scaling is drawn.
const SCALE: [usize; 5] = [1, 4, 16, 64, 256];
/// Microseconds that a sync takes longer; the first are next to none.
const DELAYS: [u64; 4] = [10, 100, 1_000, 5_000];
/// A measurement that is not over by then, beyond its time, never will be.
const HANGS: Duration = Duration::from_mins(1);
/// What Tenure has left behind is folded by then, on any machine that is worth measuring.
const SETTLES_MAX: Duration = Duration::from_mins(2);
/// Before anything is measured.
const NO_MS: [f64; QUANTILES.len()] = [0.0; QUANTILES.len()];
/// Items in PostgreSQL's tables: a share for each of the most callers.
const ROWS: u64 = 300_000;
/// Who is drawn beside Tenure where something is changed step by step.
const DRAWN: [Design; 4] =
    [Design::Http, Design::Redis(Fsync::Always, How::OneByOne), Design::RowLocks, Design::Etcd];

struct Run<'a> {
    options: &'a Options,
    /// One thread for whoever is spoken to by hand, two for PostgreSQL's library.
    one: Runtime,
    two: Runtime,
    table: Table,
    time: Duration,
}

pub(crate) fn run(options: &Options) -> Result<Table> {
    let place = Place::new(&std::env::current_dir()?)?;
    let mut run = Run {
        options,
        one: Builder::new_current_thread().enable_all().build()?,
        two: Builder::new_multi_thread().worker_threads(2).enable_all().build()?,
        table: Table::default(),
        time: Duration::from_millis(options.millis),
    };
    let peers = run.start(&place, "main")?;
    run.main(&peers)?;
    run.half_load(&peers);
    if !options.main_only {
        run.scaling(&peers);
        run.held(&peers)?;
        drop(peers);
        run.sockets(&place);
        run.slow_disk(place)?;
    }
    Ok(run.table)
}

impl Run<'_> {
    /// Starts everyone. Who cannot be started is named and left out.
    fn start(&self, place: &Place, name: &str) -> Result<Peers> {
        fn there<T>(name: &str, started: Result<T>) -> Option<T> {
            started.inspect_err(|error| eprintln!("without {name}: {error}")).ok()
        }
        Ok(Peers {
            tenure: Tenure::start(place, &self.options.tenure, name)?,
            always: there("Redis", Redis::start(place, "always")),
            everysec: there("Redis", Redis::start(place, "everysec")),
            no: there("Redis", Redis::start(place, "no")),
            etcd: there("etcd", Etcd::start(place, self.options.etcd.as_ref())),
            postgres: there("PostgreSQL", Postgres::start(place)),
        })
    }

    /// Row locks, with a pool of so many connections.
    fn row_locks(&self, peers: &Peers, connections: usize) -> Result<Option<RowLocks>> {
        let Some(postgres) = &peers.postgres else { return Ok(None) };
        self.two.block_on(RowLocks::make(&postgres.url, ROWS, connections)).map(Some)
    }

    fn closed(
        &self,
        peers: &Peers,
        (design, per_claim, round): (Design, u64, u16),
        connections: usize,
        pace: Option<f64>,
    ) -> Result<Measured> {
        self.settle(peers);
        LocalSet::new().block_on(&self.one, async {
            self.in_time(async {
                let callers = peers.callers(design, connections, (per_claim, round)).await?;
                drive(callers, self.time, pace).await
            })
            .await
        })
    }

    /// What one measurement leaves behind is not measured as the next one's.
    fn settle(&self, peers: &Peers) {
        let settled = async { tokio::time::timeout(SETTLES_MAX, peers.tenure.settle()).await };
        match self.one.block_on(settled) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => eprintln!("Tenure does not say whether it has folded everything: {error}"),
            Err(_) => eprintln!("Tenure still folds after {} s", SETTLES_MAX.as_secs()),
        }
        quiet::wait();
    }

    async fn in_time(&self, measured: impl Future<Output = Result<Measured>>) -> Result<Measured> {
        let late = |_| "it does not answer any more";
        tokio::time::timeout(self.time + HANGS, measured).await.map_err(late)?
    }

    /// A transaction is half a cycle, which is what everything is counted in.
    fn transactions(
        &self,
        peers: &Peers,
        rows: &RowLocks,
        in_flight: usize,
        per_claim: u64,
    ) -> Result<Measured> {
        self.settle(peers);
        let load = Load { in_flight, per_claim: usize::try_from(per_claim)?, time: self.time };
        let mut measured = self.two.block_on(self.in_time(rows.run(load, Sent::OneByOne)))?;
        measured.commands /= 2;
        Ok(measured)
    }

    fn note(
        &mut self,
        cell: (&'static str, Design, u64),
        at: u64,
        connections: usize,
        round: u16,
        measured: Result<Measured>,
    ) {
        let (part, design, per_claim) = cell;
        let design = design.name(per_claim);
        let line = Line { part, design, at, connections, per_claim, round, rate: 0.0, ms: NO_MS };
        self.keep(line, measured, |line, measured| line.measured(&measured));
    }

    /// What could not be measured is named and left out: the others are not in vain.
    fn keep<T>(&mut self, line: Line, measured: Result<T>, with: impl FnOnce(Line, T) -> Line) {
        match measured {
            Ok(measured) => self.table.0.push(with(line, measured)),
            Err(error) => eprintln!("{}, round {}, without {}: {error}", line.part, line.round, line.design),
        }
    }

    fn main(&mut self, peers: &Peers) -> Result {
        let connections = usize::from(self.options.connections);
        let rows = self.row_locks(peers, connections)?;
        let wanted = |design: Design, per_claim| self.options.asks_for(&design.name(per_claim));
        let there = MAIN.iter().filter(|(design, _)| peers.has(*design));
        let cells: Vec<_> = there.filter(|(design, per_claim)| wanted(*design, *per_claim)).collect();
        let progress = bar("throughput", cells.len() as u64 * u64::from(self.options.rounds));
        for round in 0..self.options.rounds {
            for (design, per_claim) in &cells {
                let measured = if let (Design::RowLocks, Some(rows)) = (design, &rows) {
                    self.transactions(peers, rows, connections, *per_claim)
                } else {
                    self.closed(peers, (*design, *per_claim, round), connections, None)
                };
                self.note(
                    ("throughput", *design, *per_claim),
                    connections as u64,
                    connections,
                    round,
                    measured,
                );
                progress.inc(1);
            }
        }
        progress.finish_and_clear();
        Ok(())
    }

    /// From a change to each of very many who listen.
    fn sockets(&mut self, place: &Place) {
        let Options { sockets: at, rounds, quick, .. } = *self.options;
        let (connections, events) =
            (usize::try_from(at).unwrap_or(usize::MAX), if quick { "20" } else { "100" });
        let progress = bar("sockets", u64::from(rounds));
        for round in 0..rounds {
            quiet::wait();
            let heard = audience(&self.options.tenure, place.path(), at, events);
            let (part, design) = ("sockets", "tenure sockets".to_owned());
            let line = Line { part, design, at, connections, per_claim: 1, round, rate: 0.0, ms: NO_MS };
            self.keep(line, heard, |line, ms| Line { ms, ..line });
            progress.inc(1);
        }
        progress.finish_and_clear();
    }

    /// Each at half of what it can do.
    fn half_load(&mut self, peers: &Peers) {
        let connections = usize::from(self.options.connections);
        let designs = [Design::Http, Design::Redis(Fsync::Always, How::OneByOne)];
        let designs: Vec<_> = designs.into_iter().filter(|design| peers.has(*design)).collect();
        let progress = bar("half load", designs.len() as u64 * u64::from(self.options.rounds));
        for round in 0..self.options.rounds {
            for design in &designs {
                let name = design.name(1);
                let Some((rate, _)) = self.table.rate("throughput", &name, connections as u64) else {
                    continue;
                };
                let measured = self.closed(peers, (*design, 1, round), connections, Some(rate / 2.0));
                self.note(("half load", *design, 1), connections as u64, connections, round, measured);
                progress.inc(1);
            }
        }
        progress.finish_and_clear();
    }

    fn scaling(&mut self, peers: &Peers) {
        let designs: Vec<_> = DRAWN.into_iter().filter(|design| peers.has(*design)).collect();
        let progress = bar("scaling", (designs.len() * SCALE.len()) as u64 * u64::from(self.options.rounds));
        for round in 0..self.options.rounds {
            for connections in SCALE {
                for design in &designs {
                    let measured = self.once(peers, *design, connections, round);
                    self.note(("scaling", *design, 1), connections as u64, connections, round, measured);
                    progress.inc(1);
                }
            }
        }
        progress.finish_and_clear();
    }

    fn once(&self, peers: &Peers, design: Design, connections: usize, round: u16) -> Result<Measured> {
        if design == Design::RowLocks {
            let rows = self.row_locks(peers, connections)?.ok_or("no PostgreSQL")?;
            return self.transactions(peers, &rows, connections, 1);
        }
        self.closed(peers, (design, 1, round), connections, None)
    }

    /// What more and more held items cost those who claim others.
    fn held(&mut self, peers: &Peers) -> Result {
        let connections = usize::from(self.options.connections);
        let designs = [Design::Http, Design::Redis(Fsync::Always, How::OneByOne)];
        let designs: Vec<_> = designs.into_iter().filter(|design| peers.has(*design)).collect();
        let progress = bar("held items", self.options.held * designs.len() as u64);
        let (mut held, mut step) = (0, 1_000);
        while step <= self.options.held {
            for design in &designs {
                let fill = self.fill(peers, *design, held..step, &progress);
                LocalSet::new().block_on(&self.one, fill)?;
            }
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
        Ok(())
    }

    async fn fill(
        &self,
        peers: &Peers,
        design: Design,
        items: std::ops::Range<u64>,
        progress: &ProgressBar,
    ) -> Result {
        let items: Vec<String> = items.map(|item| format!("held-{item}")).collect();
        let mut claims = Claims::connect(&peers.tenure.target).await?;
        let mut locks = match (&peers.always, design) {
            (Some(redis), Design::Redis(..)) => Some(Locks::connect(redis.port, How::OneByOne).await?),
            _ => None,
        };
        for chunk in items.chunks(10_000) {
            match &mut locks {
                Some(locks) => locks.hold(chunk).await?,
                None => claims.hold(chunk).await?,
            }
            progress.inc(chunk.len() as u64);
        }
        Ok(())
    }

    /// Everyone again, on a disk whose syncs take longer.
    fn slow_disk(&mut self, mut place: Place) -> Result {
        let Some(shim) = compile_shim(&place) else {
            eprintln!("without a slower disk: it takes a C compiler (cc)");
            return Ok(());
        };
        let connections = usize::from(self.options.connections);
        let rounds = self.options.rounds;
        let progress = bar("slower disk", (DELAYS.len() * DRAWN.len()) as u64 * u64::from(rounds));
        for delay in DELAYS {
            place.shim = Some((shim.clone(), delay));
            let peers = self.start(&place, &format!("delay-{delay}"))?;
            for round in 0..rounds {
                for design in DRAWN.into_iter().filter(|design| peers.has(*design)) {
                    let measured = self.once(&peers, design, connections, round);
                    self.note(("slower disk", design, 1), delay, connections, round, measured);
                    progress.inc(1);
                }
            }
        }
        progress.finish_and_clear();
        Ok(())
    }
}

/// What `tenure bench http` says of so many sockets, as the other times are: it knows fewer of them.
fn audience(tenure: &Path, folder: &Path, sockets: u64, events: &str) -> Result<[f64; QUANTILES.len()]> {
    let mut bench = tenure_load::tenure(tenure);
    bench.args(["bench", "http", "--json", "--connections", "0", "--sockets", &sockets.to_string()]);
    let said = folder.join("sockets.json");
    bench.args(["--events", events]).arg("--data").arg(folder).stdout(File::create(&said)?);
    let mut running = Running(bench.spawn()?);
    let started = Instant::now();
    let status = loop {
        if let Some(status) = running.0.try_wait()? {
            break status;
        }
        if started.elapsed() > HANGS {
            return Err("it does not end".into());
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    if !status.success() {
        return Err(format!("it ended with {status}").into());
    }
    let figures: serde_json::Value = serde_json::from_slice(&std::fs::read(&said)?)?;
    let of = |name: &str| {
        let mut figures = figures.as_array().into_iter().flatten();
        figures.find(|figure| figure["name"] == name).and_then(|figure| figure["value"].as_f64())
    };
    let (p50, p99) = of("fan-out, p50").zip(of("fan-out, p99")).ok_or("it says nothing of its sockets")?;
    Ok([p50, f64::NAN, p99, f64::NAN, f64::NAN])
}

fn compile_shim(place: &Place) -> Option<PathBuf> {
    let (source, shim) = (place.path().join("sync_delay.c"), place.path().join("sync_delay.so"));
    std::fs::write(&source, SHIM).ok()?;
    let mut compile = Command::new("cc");
    compile.args(["-O2", "-shared", "-fPIC", "-o"]).arg(&shim).arg(&source).arg("-ldl");
    compile.status().is_ok_and(|status| status.success()).then_some(shim)
}

/// Without a terminal it is silent.
fn bar(message: &'static str, total: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg:24} {wide_bar} {human_pos}/{human_len} {eta:>4}");
    let bar = ProgressBar::new(total).with_message(message);
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
