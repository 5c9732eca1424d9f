//! The order of deadlines. Entries are hints: one that comes too early is put back, one for a claim
//! that has ended is dropped, so what moves a deadline later never touches this. Each active claim has
//! one at its deadline or before.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tenure_core::CollectionKey;

#[derive(Debug, Default)]
pub(crate) struct Timers(BinaryHeap<Reverse<Timer>>);

/// Look at this claim at this time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Timer {
    pub(crate) at_ms: i64,
    pub(crate) claim: u64,
    pub(crate) collection: CollectionKey,
}

impl Timers {
    pub(crate) fn set(&mut self, timer: Timer) {
        self.0.push(Reverse(timer));
    }

    /// The next one, if its time has come. Several for the same claim and time are one.
    pub(crate) fn pop_due(&mut self, now_ms: i64) -> Option<Timer> {
        if self.0.peek()?.0.at_ms > now_ms {
            return None;
        }
        let Reverse(timer) = self.0.pop()?;
        while self.0.peek().is_some_and(|Reverse(next)| *next == timer) {
            self.0.pop();
        }
        Some(timer)
    }

    pub(crate) fn next_ms(&self) -> Option<i64> {
        self.0.peek().map(|Reverse(timer)| timer.at_ms)
    }
}
