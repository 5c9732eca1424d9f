//! From a request on one node to its event at a subscriber of another: the commit, the hint, the look that
//! it makes the other node take.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use parking_lot::Mutex;
use tenure_core::command::Acquire;
use tenure_core::{CollectionKey, Command, Fact, ItemId, Principal, Verb};
use tenure_engine::{Delivery, Engine, From, Subscription};

use super::Result;
use super::load::{Items, micros, new_histogram, spread_claims};
use crate::progress::bar;

/// Between two events: longer than hints are held back, so that each has one of its own.
pub(super) const EVERY: Duration = Duration::from_millis(15);
/// An event that is not there after so long is lost.
pub(super) const LOST_AFTER: Duration = Duration::from_secs(20);

/// Microseconds.
pub(crate) struct Lags {
    /// While nothing else happens.
    pub(crate) quiet: Histogram<u64>,
    /// While both nodes have 64 requests under way, in other collections.
    pub(crate) busy: Histogram<u64>,
}

pub(crate) fn measure(nodes: &[Engine; 2], places: &[Arc<Items>], events: u64) -> Result<Lags> {
    let progress = bar("node to node", 2 * events);
    let quiet = follow(nodes, "lock/hints-quiet", events, || progress.inc(1))?;
    let stop = AtomicBool::new(false);
    let busy = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                spread_claims(nodes, places, 64, 1, Duration::from_millis(200));
            }
        });
        let busy = follow(nodes, "lock/hints-busy", events, || progress.inc(1));
        stop.store(true, Ordering::Relaxed);
        busy
    })?;
    progress.finish_and_clear();
    Ok(Lags { quiet, busy })
}

/// Claims on the first node, one after the other, and hears of each on the second.
fn follow(nodes: &[Engine; 2], place: &str, events: u64, mut told: impl FnMut()) -> Result<Histogram<u64>> {
    let [near, far] = nodes;
    let collection = CollectionKey::new(place)?;
    let actor = Principal::new("hints", "Hints")?;
    let ask = |verb| {
        let command = Command { collection: collection.clone(), actor: actor.clone(), verb };
        near.execute_blocking(command).outcome
    };
    ask(Verb::CreateCollection)?;
    let mut feed = far.subscribe(&collection, From::Snapshot)?;
    let asked: Mutex<Vec<Instant>> = Mutex::default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    // Its first look has been taken once the snapshot is there.
    runtime.block_on(next(&mut feed))?;
    std::thread::scope(|scope| {
        let heard = scope
            .spawn(|| runtime.block_on(hear(&mut feed, events, &asked)).map_err(|error| error.to_string()));
        for number in 0..events {
            let item = ItemId::new(format!("event-{number}"))?;
            asked.lock().push(Instant::now());
            ask(Verb::Acquire(Acquire { items: vec![item], ..Acquire::default() }))?;
            told();
            std::thread::sleep(EVERY);
        }
        Ok(heard.join().map_err(|_| "the subscriber failed")??)
    })
}

async fn hear(feed: &mut Subscription, events: u64, asked: &Mutex<Vec<Instant>>) -> Result<Histogram<u64>> {
    let mut lags = new_histogram();
    while lags.len() < events {
        let Delivery::Events(delivered) = next(feed).await? else { continue };
        let now = Instant::now();
        for sealed in delivered {
            let Fact::Granted(grant) = &sealed.event.fact else { continue };
            let number =
                grant.items.first().and_then(|item| item.id.as_str().strip_prefix("event-")?.parse().ok());
            let since: Option<Instant> = number.and_then(|number: usize| asked.lock().get(number).copied());
            lags.saturating_record(micros(now - since.ok_or("an event that nobody asked for")?));
        }
    }
    Ok(lags)
}

async fn next(feed: &mut Subscription) -> Result<Delivery> {
    let next = tokio::time::timeout(LOST_AFTER, feed.next()).await;
    Ok(next.map_err(|_| "an event did not arrive at the other node")??)
}
