//! The same way as in `hints`, as a page and a caller see it: from an HTTP request to one `tenure serve` to the message
//! on a WebSocket of another, over one database. Once with hints over `NOTIFY`, and over Redis where there is one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use parking_lot::Mutex;
use tenure_engine::Engine;
use tenure_load::wire::{Target, Wire};

use super::Result;
use super::hints::{EVERY, LOST_AFTER, Lags};
use super::http::listen::event_of;
use super::http::server::Own;
use super::load::{Items, micros, new_histogram, spread_claims};
use crate::progress::bar;

/// What servers over one database share, for as long as it is there.
pub(crate) struct Keys {
    secret: String,
    key: String,
}

impl Keys {
    pub(crate) fn make() -> Result<Self> {
        Ok(Self { secret: secret()?, key: secret()? })
    }
}

/// Two servers, in a folder that is gone afterwards. Engines beside them keep the database busy.
pub(crate) fn measure(
    (url, redis): (&str, Option<&str>),
    Keys { secret, key }: &Keys,
    (engines, places): (&[Engine], &[Arc<Items>]),
    events: u64,
) -> Result<Lags> {
    let folders = [tempfile::tempdir()?, tempfile::tempdir()?];
    let servers = [
        Own::start_node(folders[0].path(), (url, redis), (secret, key))?,
        Own::start_node(folders[1].path(), (url, redis), (secret, key))?,
    ];
    let (near, far) = (servers[0].target()?, servers[1].target()?);
    let carrier = if redis.is_some() { "redis" } else { "notify" };
    let progress = bar("server to socket", 2 * events);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let follow = |place: &str| {
        let place = format!("lock/{carrier}-{place}");
        runtime.block_on(follow((&near, &far), &place, events, || progress.inc(1)))
    };
    let quiet = follow("quiet")?;
    let stop = AtomicBool::new(false);
    let busy = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                spread_claims(engines, places, 64, 1, Duration::from_millis(200));
            }
        });
        let busy = follow("busy");
        stop.store(true, Ordering::Relaxed);
        busy
    })?;
    progress.finish_and_clear();
    Ok(Lags { quiet, busy })
}

/// Claims at the first, one after the other, and reads of each at the second.
async fn follow(
    (near, far): (&Target, &Target),
    place: &str,
    events: u64,
    mut told: impl FnMut(),
) -> Result<Histogram<u64>> {
    let mut socket = far.open_socket(place).await?;
    // Its first look has been taken once the snapshot is there.
    while socket.message().is_none() {
        within(socket.more()).await?;
    }
    let asked: Mutex<Vec<Option<Instant>>> = Mutex::default();
    let mut wire = near.connect().await?;
    let asking = async {
        for number in 0..events {
            let body = format!(r#"{{"collection":"{place}","items":["event-{number}."]}}"#);
            let request = near.request("POST", "/v1/claims", &body);
            asked.lock().push(Some(Instant::now()));
            wire.send(&request).await?;
            within(wire.answer()).await?.expect(201)?;
            told();
            tokio::time::sleep(EVERY).await;
        }
        Ok(())
    };
    let ((), lags) = tokio::try_join!(asking, hear(&mut socket, events, &asked))?;
    Ok(lags)
}

async fn hear(socket: &mut Wire, events: u64, asked: &Mutex<Vec<Option<Instant>>>) -> Result<Histogram<u64>> {
    let mut lags = new_histogram();
    while lags.len() < events {
        while let Some(message) = socket.message() {
            // A claim may be told in several messages: the first counts.
            let since = event_of(message).and_then(|number| asked.lock().get_mut(number)?.take());
            if let Some(since) = since {
                lags.saturating_record(micros(since.elapsed()));
            }
        }
        if lags.len() < events {
            within(socket.more()).await?;
        }
    }
    Ok(lags)
}

async fn within<T>(coming: impl Future<Output = std::io::Result<T>>) -> Result<T> {
    let came = tokio::time::timeout(LOST_AFTER, coming).await;
    Ok(came.map_err(|_| "an event did not arrive at the other server")??)
}

/// Known to nobody else.
fn secret() -> Result<String> {
    let mut bytes = [0; 32];
    std::io::Read::read_exact(&mut std::fs::File::open("/dev/urandom")?, &mut bytes)?;
    Ok(bytes.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}")))
}
