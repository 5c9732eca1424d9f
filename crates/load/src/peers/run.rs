//! The run: everything is measured once in each round, one after the other. What fails is named and left out;
//! what was measured is written down after each part.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use tenure_load::row_locks::{Load, RowLocks, Sent};
use tenure_load::{Measured, Result, quiet};
use tokio::runtime::{Builder, Runtime};
use tokio::task::LocalSet;

use super::Options;
use super::cells::{Design, Fsync, MAIN, Peers};
use super::drive::drive;
use super::etcd::Etcd;
use super::place::Place;
use super::postgres::Postgres;
use super::redis::{How, Redis};
use super::summary;
use super::table::{Line, QUANTILES, Table};
use super::tenure::Tenure;

/// A measurement that is not over by then, beyond its time, never will be.
pub(super) const HANGS: Duration = Duration::from_mins(1);
/// What Tenure has left behind is folded by then, on any machine that is worth measuring.
const SETTLES_MAX: Duration = Duration::from_mins(2);
/// Before anything is measured.
pub(super) const NO_MS: [f64; QUANTILES.len()] = [0.0; QUANTILES.len()];
/// Who is drawn beside Tenure where something is changed step by step.
pub(super) const DRAWN: [Design; 4] =
    [Design::Http, Design::Redis(Fsync::Always, How::OneByOne), Design::RowLocks, Design::Etcd];

pub(super) struct Run<'a> {
    pub(super) options: &'a Options,
    /// One thread for whoever is spoken to by hand, two for PostgreSQL's library.
    pub(super) one: Runtime,
    two: Runtime,
    pub(super) table: Table,
    pub(super) time: Duration,
}

/// Measures and writes everything; answers the summary.
pub(crate) fn run(options: &Options) -> Result<String> {
    let place = Place::new(&std::env::current_dir()?)?;
    let mut run = Run {
        options,
        one: Builder::new_current_thread().enable_all().build()?,
        two: Builder::new_multi_thread().worker_threads(2).enable_all().build()?,
        table: Table::default(),
        time: Duration::from_millis(options.millis),
    };
    let peers = run.start(&place, "main")?;
    run.main(&peers);
    run.write()?;
    run.half_load(&peers);
    run.write()?;
    if !options.main_only {
        run.scaling(&peers);
        run.write()?;
        run.held(&peers);
        run.write()?;
        drop(peers);
        run.sockets(&place);
        run.write()?;
        run.slow_disk(place);
    }
    run.table.is_over = true;
    run.write()
}

impl Run<'_> {
    fn write(&self) -> Result<String> {
        summary::write(self.options, &self.table)
    }

    /// Starts everyone, on a slower disk only who is drawn. Who cannot be started is named and left out; Tenure is
    /// what is measured.
    pub(super) fn start(&mut self, place: &Place, name: &str) -> Result<Peers> {
        let tenure = Tenure::start(place, &self.options.tenure, name)?;
        let has_all = place.slow.is_none();
        let mut redis = |fsync: Fsync, is_wanted: bool| {
            is_wanted.then(|| self.there("Redis", Redis::start(place, fsync.word()))).flatten()
        };
        Ok(Peers {
            tenure,
            always: redis(Fsync::Always, true),
            everysec: redis(Fsync::Everysec, has_all),
            no: redis(Fsync::No, has_all),
            etcd: self.there("etcd", Etcd::start(place, self.options.etcd.as_ref())),
            postgres: self.there("PostgreSQL", Postgres::start(place)),
        })
    }

    /// What there is, or a line about what there is not.
    pub(super) fn there<T>(&mut self, what: &str, result: Result<T>) -> Option<T> {
        result.inspect_err(|error| self.leave_out(format!("{what}: {error}"))).ok()
    }

    fn leave_out(&mut self, what: String) {
        eprintln!("without {what}");
        self.table.leave_out(what);
    }

    /// Row locks, with a pool of so many connections.
    fn row_locks(&self, peers: &Peers, connections: usize) -> Result<RowLocks> {
        let postgres = peers.postgres.as_ref().ok_or("no PostgreSQL")?;
        let rows = self.options.size().rows;
        self.two.block_on(async {
            let made = RowLocks::make(&postgres.url, rows, connections);
            tokio::time::timeout(SETTLES_MAX, made).await.map_err(|_| "its tables are not filled in time")?
        })
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
    pub(super) fn settle(&self, peers: &Peers) {
        if !self.options.size().waits {
            return;
        }
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

    pub(super) fn note(
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
    pub(super) fn keep<T>(&mut self, line: Line, measured: Result<T>, with: impl FnOnce(Line, T) -> Line) {
        let what = format!("{} of {} at {}", line.part, line.design, line.at);
        if let Some(measured) = self.there(&what, measured) {
            self.table.lines.push(with(line, measured));
        }
    }

    fn main(&mut self, peers: &Peers) {
        let connections = usize::from(self.options.connections);
        let rows = peers.postgres.as_ref().map(|_| self.row_locks(peers, connections));
        let rows = rows.and_then(|rows| self.there("row locks", rows));
        let wanted = |design: Design, per_claim| self.options.asks_for(&design.name(per_claim));
        let there = MAIN.iter().filter(|(design, _)| match design {
            Design::RowLocks | Design::Ticketing => peers.has(*design) && rows.is_some(),
            _ => peers.has(*design),
        });
        let cells: Vec<_> = there.filter(|(design, per_claim)| wanted(*design, *per_claim)).collect();
        let letter = self.letter(peers);
        let steps = cells.len() + letter.len();
        let progress = bar("throughput", steps as u64 * u64::from(self.options.rounds));
        for round in 0..self.options.rounds {
            for (design, per_claim) in &cells {
                let measured = if let (Design::RowLocks, Some(rows)) = (design, &rows) {
                    self.transactions(peers, rows, connections, *per_claim)
                } else {
                    self.closed(peers, (*design, *per_claim, round), connections, None)
                };
                let cell = ("throughput", *design, *per_claim);
                self.note(cell, connections as u64, connections, round, measured);
                progress.inc(1);
            }
            for sort in &letter {
                self.by_the_letter(peers, sort, round);
                progress.inc(1);
            }
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
        let scale = self.options.size().scale;
        let progress = bar("scaling", (designs.len() * scale.len()) as u64 * u64::from(self.options.rounds));
        for round in 0..self.options.rounds {
            for connections in scale {
                for design in &designs {
                    let measured = self.once(peers, *design, *connections, round);
                    self.note(("scaling", *design, 1), *connections as u64, *connections, round, measured);
                    progress.inc(1);
                }
            }
        }
        progress.finish_and_clear();
    }

    pub(super) fn once(
        &self,
        peers: &Peers,
        design: Design,
        connections: usize,
        round: u16,
    ) -> Result<Measured> {
        if design == Design::RowLocks {
            let rows = self.row_locks(peers, connections)?;
            return self.transactions(peers, &rows, connections, 1);
        }
        self.closed(peers, (design, 1, round), connections, None)
    }
}

/// Without a terminal it is silent.
pub(super) fn bar(message: &'static str, total: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg:24} {wide_bar} {human_pos}/{human_len} {eta:>4}");
    let bar = ProgressBar::new(total).with_message(message);
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
