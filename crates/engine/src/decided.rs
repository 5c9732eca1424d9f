//! What is decided and not yet committed.
//!
//! ```text
//!            decide (again and again)        begin                    complete
//!  requests ────────────────────► Decided ─────────► Flight ─────────────────► answers, the feed
//!                                    ▲                 │ fails
//!                                    │                 ▼
//!                       decided on top of it      both refused: nothing of either happened
//! ```

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use tenure_store::Entry;

use crate::Ticket;
use crate::feed::{News, Told};
use crate::limits::{BATCH_BYTES_MAX, BATCH_MAX};
use crate::timers::Timer;
use crate::turn::{Answered, Report};
use crate::waiters::Freed;

/// The next commit, as far as it is decided.
pub(crate) struct Decided<T> {
    pub(crate) entries: Vec<Entry>,
    pub(crate) answers: Vec<Answered<T>>,
    pub(crate) report: Report,
    /// Timers that were taken out: put back after a failure.
    pub(crate) due: Vec<Timer>,
    /// From this number on callers began to wait in it: refused after a failure.
    pub(crate) first_joined: Option<u64>,
    /// What was owed to those who wait when it began: owed again after a failure.
    pub(crate) owed: Freed,
    /// How many more claims are active after a success.
    pub(crate) active: i64,
    /// Bytes of the events and kept replies so far.
    pub(crate) bytes: usize,
}

impl<T> Default for Decided<T> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            answers: Vec::new(),
            report: Report::default(),
            due: Vec::new(),
            first_joined: None,
            owed: Freed::new(),
            active: 0,
            bytes: 0,
        }
    }
}

impl<T: Ticket> Decided<T> {
    /// So many requests will be decided.
    pub(crate) fn reserve(&mut self, requests: usize) {
        self.entries.reserve(requests);
        self.answers.reserve(requests);
    }

    /// What is decided fills a commit; the rest must wait for the next.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes >= BATCH_BYTES_MAX
    }

    /// More can be decided for the same commit.
    pub(crate) fn has_room(&self) -> bool {
        !self.is_full() && self.answers.len() < BATCH_MAX
    }
}

/// A commit that is under way: its batch is the store's, its answers wait.
pub(crate) struct Flight<T> {
    /// Without its entries.
    pub(crate) decided: Decided<T>,
    /// `None` where nothing is to be committed.
    pub(crate) told: Option<Told>,
    pub(crate) told_of: Vec<News>,
    pub(crate) started: Instant,
    /// When a thread of the store's own was done, where one has it.
    pub(crate) ended: Option<Arc<OnceLock<Instant>>>,
}
