//! Whether it is there: a figure, and one line in the log for each change.

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use crate::limits::{RETRY_FIRST, RETRY_MOST};

const UNKNOWN: u8 = 0;
const THERE: u8 = 1;
const AWAY: u8 = 2;

/// Whether something works over Redis.
#[derive(Debug)]
pub struct State {
    now: AtomicU8,
    there: &'static str,
    away: &'static str,
}

impl State {
    pub(crate) fn new(there: &'static str, away: &'static str) -> Self {
        Self { now: AtomicU8::new(UNKNOWN), there, away }
    }

    /// It works.
    pub fn is_there(&self) -> bool {
        self.now.load(Ordering::Relaxed) == THERE
    }

    /// It works now.
    pub fn came(&self) {
        if self.now.swap(THERE, Ordering::Relaxed) != THERE {
            tracing::info!("{}", self.there);
        }
    }

    /// It does not.
    pub fn left(&self, error: &std::io::Error) {
        if self.now.swap(AWAY, Ordering::Relaxed) != AWAY {
            tracing::warn!(%error, "{}", self.away);
        }
    }
}

/// How long to wait before the next try: longer each time.
#[derive(Debug)]
pub struct Pause(Duration);

impl Default for Pause {
    fn default() -> Self {
        Self(RETRY_FIRST)
    }
}

impl Pause {
    /// Waits.
    pub async fn wait(&mut self) {
        tokio::time::sleep(self.0).await;
        self.0 = (self.0 * 2).min(RETRY_MOST);
    }

    /// It worked: the next failure is the first again.
    pub fn reset(&mut self) {
        self.0 = RETRY_FIRST;
    }
}
