//! Whether what other nodes do can be seen, over a store that they share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tenure_store::Error;

use crate::limits::{LOOK_MS, LOOK_MS_MAX, LOOK_MS_MIN, STALE_MS};

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

    /// By when a look has to be answered, if it takes as long as this. Readers who were told already wait for nothing else
    /// than an answer, however late it comes.
    pub(crate) fn look_until(&self, patience: &Patience) -> Instant {
        let longest = Instant::now() + patience.0;
        if self.lost.load(Ordering::Acquire) {
            return longest;
        }
        self.deadline().map_or(longest, |until| until.min(longest))
    }

    /// Readers were told. A read would only take long to say the same.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.lost.load(Ordering::Acquire) {
            return Err(Error::Away { detail: "it has not answered for a while".to_owned() });
        }
        Ok(())
    }
}

/// How long a look waits for an answer. A store that has fallen silent is asked again soon, over another connection; one
/// that answers, but not as soon, would never be seen if every look gave up after the same time.
#[derive(Debug)]
pub(crate) struct Patience(Duration);

impl Default for Patience {
    fn default() -> Self {
        Self(Duration::from_millis(LOOK_MS))
    }
}

impl Patience {
    /// The answer took this long, and the next may as well.
    pub(crate) fn answered(&mut self, took: Duration) {
        self.0 = (2 * took).clamp(Duration::from_millis(LOOK_MS), Duration::from_millis(LOOK_MS_MAX));
    }

    /// There was none in time: the next look has twice as long, up to what a statement may take, and then begins anew.
    pub(crate) fn was_in_vain(&mut self) {
        let most = Duration::from_millis(LOOK_MS_MAX);
        *self = if self.0 == most { Self::default() } else { Self(most.min(2 * self.0)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e09_a_look_waits_longer_each_time_and_begins_anew() {
        let mut patience = Patience::default();
        let mut seconds = Vec::new();
        for _ in 0..6 {
            seconds.push(patience.0.as_secs());
            patience.was_in_vain();
        }
        assert_eq!(seconds, [3, 6, 12, 15, 3, 6]);
        for (took, expected) in [(0, 3), (2, 4), (9, 15)] {
            patience.answered(Duration::from_secs(took));
            assert_eq!(patience.0.as_secs(), expected, "after {took}");
        }
    }

    #[test]
    fn e09_only_readers_who_were_told_let_a_look_take_its_time() {
        let (sight, patience) = (Sight::default(), Patience(Duration::from_millis(LOOK_MS_MAX)));
        sight.seen();
        let told_by = Instant::now() + Duration::from_millis(STALE_MS);
        assert!(sight.look_until(&patience) <= told_by);
        sight.lose();
        assert!(sight.look_until(&patience) > told_by);
        sight.seen();
        let told_by = Instant::now() + Duration::from_millis(STALE_MS);
        assert!(sight.look_until(&patience) <= told_by);
    }
}
