//! Callers of every sort, driven alike: as fast as they can, or at a pace.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tenure_load::row_locks::Seller;
use tenure_load::{Dice, Measured, Result, micros, new_histogram};

use super::etcd::Leases;
use super::redis::Locks;
use super::tenure::{Claims, Pipeline};

/// Commands of one connection under way, where they are pipelined.
pub(crate) const DEPTH: usize = 32;

/// One connection, or what stands for one.
pub(crate) enum Way {
    Http(Claims),
    Socket(Pipeline),
    Redis(Locks),
    RedisPipelined(Locks),
    Etcd(Leases),
    /// The classic ticketing stack: locks in Redis, the sale in PostgreSQL.
    Ticketing(Locks, Box<Seller>),
}

/// A caller claims items of its own share and releases them, again and again.
pub(crate) struct Caller {
    pub(crate) way: Way,
    pub(crate) number: u64,
    pub(crate) per_claim: u64,
    pub(crate) dice: Dice,
    count: u64,
}

/// Items that each caller chooses from.
const SHARE: u64 = 1_000;

impl Caller {
    pub(crate) fn new(way: Way, number: u64, per_claim: u64) -> Self {
        Self { way, number, per_claim, dice: Dice::new(number + 1), count: 0 }
    }

    fn keys(&mut self, count: u64) -> Vec<String> {
        let first = self.dice.below(SHARE - count);
        (first..first + count).map(|item| format!("c{}-{item}", self.number)).collect()
    }

    /// Claims and releases once. Answers how long the claim took; several claims at once took as long each.
    async fn cycle(&mut self) -> io::Result<(Duration, u64)> {
        // Making names costs as much as asking for one: none that nobody asks for.
        let is_pipelined = matches!(self.way, Way::Socket(_) | Way::RedisPipelined(_));
        let per_claim = self.per_claim;
        let keys = self.keys(if is_pipelined { DEPTH as u64 } else { per_claim });
        self.count += 1;
        let value = format!("v{}-{}", self.number, self.count);
        let asked = Instant::now();
        let took;
        match &mut self.way {
            Way::Http(claims) => {
                claims.claim(&keys).await?;
                took = asked.elapsed();
                claims.release().await?;
            }
            Way::Redis(locks) => {
                locks.claim(keys, value).await?;
                took = asked.elapsed();
                locks.release().await?;
            }
            Way::Etcd(leases) => {
                leases.claim(&keys, &value).await?;
                took = asked.elapsed();
                leases.release().await?;
            }
            Way::Ticketing(locks, seller) => {
                locks.claim(keys, value.clone()).await?;
                let first = self.number * SHARE + self.count * per_claim % (SHARE - per_claim);
                seller
                    .sell(&value, first, per_claim)
                    .await
                    .map_err(|error| io::Error::other(error.to_string()))?;
                took = asked.elapsed();
                locks.release().await?;
            }
            Way::Socket(pipeline) => {
                pipeline.pipeline(&keys).await?;
                return Ok((asked.elapsed() / 2, DEPTH as u64));
            }
            Way::RedisPipelined(locks) => {
                locks.pipeline(&keys, &value).await?;
                return Ok((asked.elapsed() / 2, DEPTH as u64));
            }
        }
        Ok((took, 1))
    }
}

/// Runs callers as fast as they can be answered, or at so many cycles a second together. A cycle is a claim
/// and its release. At a pace a claim's time counts from when it was due, whatever held it up.
pub(crate) async fn drive(callers: Vec<Caller>, time: Duration, pace: Option<f64>) -> Result<Measured> {
    let (stop, cycles) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(0)));
    let latency = Rc::new(RefCell::new(new_histogram()));
    let count = u32::try_from(callers.len())?;
    // Each caller has its turn once in this time.
    let every = pace.map(|pace| Duration::from_secs_f64(f64::from(count) / pace));
    let started = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for (place, mut caller) in (0..count).zip(callers) {
        let (stop, cycles, latency) = (stop.clone(), cycles.clone(), latency.clone());
        tasks.spawn_local(async move {
            let mut own = new_histogram();
            let mut due = every.map(|every| started + every * place / count);
            while !stop.get() {
                let mut late = Duration::ZERO;
                if let (Some(at), Some(every)) = (due, every) {
                    // Late is what was answered late; that timers are coarse is nobody's fault.
                    late = Instant::now().saturating_duration_since(at);
                    tokio::time::sleep_until(at.into()).await;
                    due = Some(at + every);
                }
                let (took, done) = caller.cycle().await?;
                own.saturating_record_n(micros(took + late), done);
                cycles.set(cycles.get() + done);
            }
            latency.borrow_mut().add(&own).map_err(io::Error::other)?;
            Ok::<_, io::Error>(())
        });
    }
    while started.elapsed() < time || cycles.get() == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
        if let Some(failed) = tasks.try_join_next() {
            failed??;
        }
    }
    stop.set(true);
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    // To the last answer: what is slow would otherwise lose what it had under way.
    let (elapsed, commands) = (started.elapsed(), cycles.get());
    let latency = latency.borrow().clone();
    Ok(Measured { commands, elapsed, latency })
}
