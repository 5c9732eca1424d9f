//! The auditor: it never drives anything and shares no decision with `core`. It sees what a suspicious
//! outsider could see (requests and when they were sent, answers, committed events, rows, crashes),
//! keeps its own books, and says which promise of SAFETY.md was broken.
//!
//! Two independent readings stand side by side. [`ledger`] keeps books from the events alone and knows
//! no rules. [`rules`] knows what each command must answer and which events it must leave, so that every
//! answer is compared with a serial execution in the order in which the answers left (I12).

mod beliefs;
mod books;
mod chain;
mod compare;
mod feeds;
mod keys;
mod ledger;
mod recovery;
mod rules;
mod space;
mod time;
mod turn;
mod waiting;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use tenure_core::{Claim, ClaimState, CollectionKey, Command};
use tenure_engine::{Answer, Idempotency};
use tenure_store::{AuditFilter, EventPage, Reader};

use beliefs::Beliefs;
use books::Books;
use chain::Log;
use feeds::Feeds;
use recovery::Unknown;
use time::Time;

/// Tenure's own id as an actor.
pub(crate) const SYSTEM_ID: &str = "system";

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The invariant's number in SAFETY.md, or a word: `time`, `fcfs`, `resume`.
    pub invariant: &'static str,
    /// What was seen.
    pub detail: String,
}

impl Violation {
    /// What was seen, and which promise it breaks.
    pub fn new(invariant: &'static str, detail: String) -> Self {
        Self { invariant, detail }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.detail)
    }
}

/// Nothing was broken, or something was.
pub type Check = Result<(), Violation>;

fn violation(invariant: &'static str, detail: String) -> Check {
    Err(Violation::new(invariant, detail))
}

/// A request as a client sent it.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The sender's own number for it.
    pub id: u64,
    /// When it was sent, in real time.
    pub real_ms: i64,
    /// When its key was first used: a retry reads the first answer, with the time of that one, so its
    /// client counts from the first try.
    pub first_real_ms: i64,
    /// What was asked.
    pub command: Command,
    /// Under which key.
    pub idempotency: Option<Idempotency>,
}

/// What one turn of the server looked like from outside.
#[derive(Debug)]
pub struct Seen {
    /// Real time.
    pub real_ms: i64,
    /// What the server's clock said.
    pub server_ms: i64,
    /// Deliveries that reached it, in order, each with the request that it carries.
    pub delivered: Vec<(u64, u64)>,
    /// Deliveries whose caller had left before the turn.
    pub gone: Vec<u64>,
    /// Answers in the order in which they left.
    pub answers: Vec<(u64, Answer)>,
    /// The server died of this turn: what it did is unknown.
    pub died: bool,
    /// A fault was injected: answers may say that there is no room, and nobody need be in time.
    pub fault: bool,
    /// All faults have stopped: everything must happen in time.
    pub quiet: bool,
}

/// Figures about what was judged, so that nobody can think it was nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Answers compared with the auditor's own.
    pub answers: u64,
    /// Of these, refusals.
    pub refusals: u64,
    /// Of these, answers from memory to a retry.
    pub replays: u64,
    /// Committed events.
    pub events: u64,
    /// Claims granted.
    pub grants: u64,
    /// Claims that ran out.
    pub expiries: u64,
    /// Waiters that were granted what they waited for.
    pub waited: u64,
    /// Batches of unknown outcome that turned out to be there, and not.
    pub unknown: [u64; 2],
    /// Deadlines that clients worked out for themselves.
    pub beliefs: u64,
    /// Deliveries to followers of a feed.
    pub feed: u64,
}

/// The auditor.
#[derive(Default)]
pub struct Auditor {
    books: Books,
    log: Log,
    time: Time,
    beliefs: Beliefs,
    feeds: Feeds,
    asked: BTreeMap<u64, Arc<Asked>>,
    unknown: Option<Unknown>,
    retained: Option<u64>,
    figures: Figures,
}

impl Auditor {
    /// An auditor of a server that keeps so many events of each collection (or all), and may forget
    /// claims that ended.
    pub fn new(retained: Option<u64>, forgets: bool) -> Self {
        let mut auditor = Self { retained, ..Self::default() };
        auditor.books.forgets = forgets;
        auditor
    }

    /// A client sends a request. A retry is a request of its own, with the same key.
    pub fn asked(&mut self, asked: Asked) {
        self.beliefs.asked(&asked);
        self.asked.insert(asked.id, Arc::new(asked));
    }

    /// An answer reached its client, who works out how long it may rely on its claim.
    pub fn learned(&mut self, real_ms: i64, request: u64, answer: &Answer) -> Check {
        let Some(asked) = self.asked.get(&request) else { return Ok(()) };
        self.figures.beliefs += 1;
        self.beliefs.learned(real_ms, asked, answer, &self.books, &self.time)
    }

    /// What was judged so far.
    pub fn figures(&self) -> Figures {
        self.figures
    }

    /// The end: everything that was ever committed is still there, and readable in every way.
    pub fn finish(&mut self, reader: &dyn Reader) -> Check {
        let keys: Vec<CollectionKey> = self.log.keys().cloned().collect();
        for key in &keys {
            self.books.compare_rows(key, reader)?;
            self.finish_events(key, reader)?;
            if self.retained.is_some() {
                // The audit log and old claims live as long as the events.
                continue;
            }
            let filter = AuditFilter { collection: Some(key.clone()), ..AuditFilter::default() };
            let rows = reader.audit(&filter, usize::MAX >> 1).map_err(|error| broken(&error))?.rows;
            let mut audited: Vec<_> = rows.into_iter().map(|(_, sealed)| sealed).collect();
            audited.sort_by_key(|sealed| sealed.event.seq);
            if audited != self.log.of(key) {
                return violation("I17", format!("{key}: the audit log is not one row for each event"));
            }
            for claim in self.books.space(key).claims.values() {
                let row = reader.claim(key, claim.number).map_err(|error| broken(&error))?;
                if claim.state != ClaimState::Active
                    && !row.as_deref().is_some_and(|row| same_end(row, claim))
                {
                    return violation(
                        "I14",
                        format!("{key}: claim {} reads {row:?}, must be {claim:?}", claim.number),
                    );
                }
            }
        }
        self.feeds.finish(&self.log)
    }

    /// All events are there, or a reader from the first is told that they are not (I15).
    fn finish_events(&self, key: &CollectionKey, reader: &dyn Reader) -> Check {
        let log = self.log.of(key);
        match reader.events(key, 0, usize::MAX >> 1).map_err(|error| broken(&error))? {
            EventPage::Events(events) if events == log => Ok(()),
            EventPage::Events(events) => violation(
                "I14",
                format!("{key}: {} events are read at the end, {} happened", events.len(), log.len()),
            ),
            EventPage::Resync { first, last } => {
                let retained = self.retained.unwrap_or(u64::MAX).min(log.len() as u64);
                let kept = last == self.log.last_seq(key) && last - first + 1 >= retained;
                if !kept {
                    return violation(
                        "I15",
                        format!("{key}: events {first} to {last} are retained, not {retained}"),
                    );
                }
                let page = reader.events(key, first - 1, usize::MAX >> 1).map_err(|error| broken(&error))?;
                let from = log.partition_point(|sealed| sealed.event.seq < first);
                match page {
                    EventPage::Events(events) if events == log[from..] => Ok(()),
                    _ => violation("I14", format!("{key}: the retained events are not those that happened")),
                }
            }
        }
    }

    /// Every claim has run out and every delay is over: nothing may be left behind (I18).
    pub fn all_over(&self) -> Check {
        for (key, space) in self.books.spaces() {
            if let Some(number) = space.active.first() {
                return violation(
                    "I18",
                    format!("{key}: claim {number} is still active long after its deadline"),
                );
            }
        }
        Ok(())
    }
}

/// An ended claim as its events tell it: heartbeats are not among them, so their times may be lost.
fn same_end(row: &Claim, claim: &Claim) -> bool {
    let without_beats = |claim: &Claim| Claim {
        heartbeat_at_ms: 0,
        acted_at_ms: 0,
        expires_at_ms: 0,
        idle: false,
        ..claim.clone()
    };
    without_beats(row) == without_beats(claim)
}

/// A reader failed although no fault was injected.
fn broken(error: &tenure_store::Error) -> Violation {
    Violation::new("I11", format!("what was committed cannot be read: {error}"))
}
