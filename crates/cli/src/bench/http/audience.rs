//! One collection's events to very many sockets.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use indicatif::ProgressBar;
use tokio::task::JoinSet;

use super::listen::Listening;
use crate::bench::Result;
use tenure_load::wire::Target;

/// Sockets that are opened at the same time.
const OPENING: usize = 128;
/// Between events: ten a second.
const EVENT_EVERY: Duration = Duration::from_millis(100);
/// An event that is not there after so long is lost.
const LOST_AFTER: Duration = Duration::from_secs(20);

/// What a fan-out measured.
pub(crate) struct Fanned {
    /// Microseconds from sending the command to the event's arrival, at each socket.
    pub(crate) latency: Histogram<u64>,
    pub(crate) deliveries: u64,
}

/// Sockets on one collection.
pub(crate) struct Audience {
    listening: Listening,
    collection: String,
    sockets: u64,
    events: u64,
}

impl Audience {
    /// Opens so many sockets, which will hear so many events.
    pub(crate) async fn open(
        target: &Target,
        collection: &str,
        (sockets, events): (u64, u64),
        bar: &ProgressBar,
    ) -> Result<Self> {
        let listening = Listening::start(events)?;
        let mut opening = JoinSet::new();
        let mut left = sockets;
        loop {
            while left > 0 && opening.len() < OPENING {
                let (target, collection) = (target.clone(), collection.to_owned());
                opening.spawn_local(async move { target.open_socket(&collection).await });
                left -= 1;
            }
            let Some(opened) = opening.join_next().await else { break };
            let (stream, before) = opened??.into_parts();
            listening.add(stream.into_std()?, before)?;
            bar.inc(1);
        }
        Ok(Self { listening, collection: collection.to_owned(), sockets, events })
    }

    /// Lets the events happen and waits until each socket has heard each.
    pub(crate) async fn tell(&self, target: &Target, bar: &ProgressBar) -> Result<Fanned> {
        let mut wire = target.connect().await?;
        let mut pace = tokio::time::interval(EVENT_EVERY);
        pace.tick().await;
        for number in 0..self.events {
            pace.tick().await;
            let body = format!(r#"{{"collection":"{}","items":["event-{number}."]}}"#, self.collection);
            let request = target.request("POST", "/v1/claims", &body);
            self.listening.note_sent(number);
            wire.send(&request).await?;
            wire.answer().await?.expect(201)?;
            bar.inc(1);
        }
        let (all, last) = (self.sockets * self.events, Instant::now());
        loop {
            let heard = self.listening.heard()?;
            if heard >= all {
                break;
            }
            if last.elapsed() > LOST_AFTER {
                return Err(format!("only {heard} of {all} events arrived").into());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(Fanned { latency: self.listening.latency(), deliveries: all })
    }
}
