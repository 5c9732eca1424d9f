//! Pages that watch the crowd, and note when they hear of what.

use std::collections::BTreeMap;
use std::time::Instant;

use tokio::task::JoinHandle;

use crate::client::{ADMIN, Running};

const PAGES: usize = 5;

/// When a page heard of each event that gave numbers to somebody, by the event's number.
pub(crate) type Heard = BTreeMap<u64, Instant>;

pub(crate) struct Watchers(Vec<JoinHandle<Heard>>);

impl Watchers {
    pub(crate) async fn open(server: &Running) -> Self {
        let mut pages = Vec::new();
        for _ in 0..PAGES {
            let mut page = server.open(ADMIN, "/raffles/navidad/ws").await;
            page.next_of("snapshot").await;
            pages.push(tokio::spawn(async move {
                let mut heard = Heard::new();
                loop {
                    let message = page.next().await;
                    // The last message about an event carries its number.
                    if message["type"] == "number_update" && message["status"] == "reserved" {
                        heard.insert(message["seq"].as_u64().unwrap(), Instant::now());
                    }
                    if message["type"] == "raffle_update" && message["status"] == "paused" {
                        return heard;
                    }
                }
            }));
        }
        Self(pages)
    }

    /// What each page heard, when the raffle is paused.
    pub(crate) async fn heard(self) -> Vec<Heard> {
        let mut all = Vec::new();
        for page in self.0 {
            all.push(page.await.unwrap());
        }
        all
    }
}
