//! Whether what other nodes do can be seen, over a store that they share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tenure_store::Error;

use crate::limits::{LOOK_MS_MIN, STALE_MS};

/// When the store last answered whoever looks, and whether readers were told that it does not.
#[derive(Debug, Default)]
pub(crate) struct Sight {
    /// When it answered, or readers were last told. `None` where nobody looks.
    seen: Mutex<Option<Instant>>,
    lost: AtomicBool,
}

impl Sight {
    /// The store has answered.
    pub(crate) fn seen(&self) {
        *self.seen.lock() = Some(Instant::now());
        self.lost.store(false, Ordering::Release);
    }

    /// Readers are told that it does not.
    pub(crate) fn lose(&self) {
        *self.seen.lock() = Some(Instant::now());
        self.lost.store(true, Ordering::Release);
    }

    /// It has not answered for so long that readers are to be told.
    pub(crate) fn is_stale(&self) -> bool {
        self.seen.lock().is_some_and(|seen| seen.elapsed() >= Duration::from_millis(STALE_MS))
    }

    /// By when a read has to be answered, so that a reader is told in time: a network that has lost the store says nothing,
    /// and whoever waits for it as long as for a statement leaves them without a word.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let seen = (*self.seen.lock())?;
        let least = Instant::now() + Duration::from_millis(LOOK_MS_MIN);
        Some((seen + Duration::from_millis(STALE_MS)).max(least))
    }

    /// Readers were told. A read would only take long to say the same.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.lost.load(Ordering::Acquire) {
            return Err(Error::Away { detail: "it has not answered for a while".to_owned() });
        }
        Ok(())
    }
}
