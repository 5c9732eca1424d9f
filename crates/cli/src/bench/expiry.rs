//! A million deadlines within ten seconds, beside other work: how late is the latest noticed?

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;
use parking_lot::Mutex;
use tenure_core::command::Acquire;
use tenure_core::{Command, Principal, Verb};
use tenure_engine::{Engine, Observer, Report};

use super::Result;
use super::load::{Items, as_f64, new_histogram};

/// Hears how late each turn's expiries were.
pub(crate) struct Lag {
    histogram: Mutex<Histogram<u64>>,
    expired: AtomicU64,
}

impl Lag {
    pub(crate) fn new() -> Self {
        Self { histogram: Mutex::new(new_histogram()), expired: AtomicU64::new(0) }
    }
}

impl Observer for Lag {
    fn turn(&self, report: &Report) {
        if report.expired > 0 {
            // Every expiry of the turn counts as late as its latest: too strict rather than too kind.
            let lag_ms = u64::try_from(report.expiry_lag_ms).unwrap_or(0).max(1);
            let expired = report.expired as u64;
            self.histogram.lock().saturating_record_n(lag_ms, expired);
            self.expired.fetch_add(expired, Ordering::Relaxed);
        }
    }
}

/// What was measured.
pub(crate) struct Expiry {
    pub(crate) lag_p99_ms: f64,
    pub(crate) beside_per_second: f64,
}

/// Claims every item with deadlines spread over ten seconds, then waits for the last.
pub(crate) fn run(
    engine: &Engine,
    lag: &Lag,
    items: &Items,
    beside: u64,
    mut progress: impl FnMut(u64),
) -> Result<Expiry> {
    let actor = Principal::new("expiry", "Expiry")?;
    let count = items.ids.len() as u64;
    let spread_ms: u64 = 10_000;
    // Time to make all the claims before the first of them ends.
    let first_ms = engine.now_ms() + 5_000 + i64::try_from(count / 50)?;
    for (index, chunk) in items.ids.chunks(1_000).enumerate() {
        let now_ms = engine.now_ms();
        let acquire = |(offset, item): (usize, &tenure_core::ItemId)| {
            let place = (index * 1_000 + offset) as u64;
            let ahead_ms = i64::try_from(place * spread_ms / count).unwrap_or(0);
            let ttl_ms = (first_ms + ahead_ms - now_ms).max(1_000);
            Verb::Acquire(Acquire { items: vec![item.clone()], ttl_ms: Some(ttl_ms), ..Acquire::default() })
        };
        let verb = Verb::Group(chunk.iter().enumerate().map(acquire).collect());
        let command = Command { collection: items.collection.clone(), actor: actor.clone(), verb };
        engine.execute_blocking(command).outcome?;
        progress(chunk.len() as u64);
    }
    let stop = Arc::new(AtomicBool::new(false));
    let pace = {
        let (engine, stop) = (engine.clone(), stop.clone());
        std::thread::spawn(move || super::steady::commands(&engine, beside, &stop))
    };
    let started = std::time::Instant::now();
    let give_up = started + Duration::from_mins(2) + Duration::from_millis(count / 50);
    while lag.expired.load(Ordering::Relaxed) < count && std::time::Instant::now() < give_up {
        std::thread::sleep(Duration::from_millis(20));
    }
    stop.store(true, Ordering::Relaxed);
    let answered = pace.join().map_err(|_| "the load beside it failed")?;
    let seconds = started.elapsed().as_secs_f64();
    if lag.expired.load(Ordering::Relaxed) < count {
        return Err("not every claim expired in time".into());
    }
    let lag_p99_ms = as_f64(lag.histogram.lock().value_at_quantile(0.99));
    Ok(Expiry { lag_p99_ms, beside_per_second: as_f64(answered) / seconds })
}
