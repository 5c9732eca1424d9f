//! Collections that somebody else keeps for longer than a shared store waits: a load leaves them out, and only what is
//! asked there is refused. Their deadlines are put off, since as many as one turn names may be theirs alone.

use std::collections::BTreeSet;

use tenure_core::CollectionKey;
use tenure_store::{View, Want};

use crate::limits::HELD_UP_MS;
use crate::timers::Timers;

/// What was left out lately.
#[derive(Debug, Default)]
pub(super) struct HeldUp {
    collections: BTreeSet<CollectionKey>,
    /// Until then their deadlines name them no more.
    until_ms: i64,
}

impl HeldUp {
    /// A turn begins: what is due there waits, or is tried again.
    pub(super) fn put_off(&mut self, now_ms: i64, timers: &mut Timers) {
        // A clock that was set back would make it last for as long as that.
        if now_ms >= self.until_ms || self.until_ms - now_ms > HELD_UP_MS {
            self.collections.clear();
        }
        if !self.collections.is_empty() {
            timers.put_off(now_ms, self.until_ms, &self.collections);
        }
    }

    /// Something was loaded: answers what is wanted and not there.
    pub(super) fn note(
        &mut self,
        wants: &[Want],
        view: &impl View,
        now_ms: i64,
        timers: &mut Timers,
    ) -> BTreeSet<CollectionKey> {
        let wanted = || wants.iter().map(|want| &want.collection);
        let left_out: BTreeSet<_> = wanted().filter(|key| !view.covers(key)).cloned().collect();
        self.collections.retain(|key| !view.covers(key));
        if !left_out.is_empty() {
            // The same time for all of a second, so that what is told of again and again is put off to one time.
            self.until_ms = (now_ms / HELD_UP_MS + 1) * HELD_UP_MS;
            self.collections.extend(left_out.iter().cloned());
            timers.put_off(now_ms, self.until_ms, &self.collections);
        }
        left_out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timers::Timer;

    #[test]
    fn i18_what_is_put_off_does_not_wait_for_a_clock_that_was_set_back() {
        const HOUR_MS: i64 = 3_600_000;
        let collection = CollectionKey::new("lock/x").unwrap();
        let mut held_up =
            HeldUp { collections: BTreeSet::from([collection.clone()]), until_ms: 2 * HOUR_MS + HELD_UP_MS };
        let due_at = |held_up: &mut HeldUp, now_ms: i64| {
            let mut timers = Timers::told();
            timers.set_anyway(Timer { at_ms: now_ms - 1, claim: 1, collection: collection.clone() });
            held_up.put_off(now_ms, &mut timers);
            timers.next_ms()
        };
        assert_eq!(due_at(&mut held_up, 2 * HOUR_MS), Some(2 * HOUR_MS + HELD_UP_MS), "it waits");
        assert_eq!(due_at(&mut held_up, HOUR_MS), Some(HOUR_MS - 1), "and not for an hour");
    }
}
