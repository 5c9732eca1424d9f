//! Whether what callers saw is one serial history (I12). The server says where each change stands: a claim's number is
//! the number of its event, and a document's version names the event that wrote it. So nothing has to be searched for:
//! the record must replay, every answer must stand in it once, and whatever was answered before something else was asked
//! must stand before it. What has no place of its own (a refusal, a read) must be true of some moment between asking and
//! answer.
//!
//! `book` replays the record, `deadline` says when claims are over, `window` puts answers in order, `judge` compares.

mod book;
mod deadline;
mod judge;
#[cfg(test)]
mod tests;
mod window;

use std::time::Duration;

use serde_json::Value;

use book::Book;
use judge::Judge;

/// How late an expiry may be noticed while the server is up: I18, and as much again for a machine that is busy with
/// other things.
pub const LATE: Duration = Duration::from_secs(2);
/// The same in the short run, which shares its machine: one that stands still for two seconds is no promise broken. What is
/// never noticed still shows.
pub const LATE_SHORT: Duration = Duration::from_secs(5);

/// Something that a caller asked for, over all its attempts.
#[derive(Clone, Debug)]
pub struct Op {
    /// When it was first asked, on the caller's clock.
    pub asked: u64,
    /// When its answer came; the end of time while there is none.
    pub answered: u64,
    /// Sent more than once, since answers got lost.
    pub is_repeated: bool,
    /// What.
    pub asks: Asks,
    /// What came of it.
    pub got: Got,
}

/// What a caller asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asks {
    /// A claim on items, in a session that nobody else uses.
    Claim {
        /// The session: it names this one claim.
        session: String,
        /// Its items.
        items: Vec<String>,
    },
    /// More time for a claim of its own.
    Beat(u64),
    /// The end of a claim of its own.
    Release(u64),
    /// The end of a claim of its own, which leaves a mark on each item.
    Complete {
        /// The claim.
        claim: u64,
        /// What nobody else writes.
        mark: String,
    },
    /// A mark on an item.
    Write {
        /// The item.
        item: String,
        /// The version that it must have.
        version: u64,
        /// The claim that must hold.
        under: Option<u64>,
        /// What nobody else writes.
        mark: String,
    },
    /// An item as it is.
    ReadItem(String),
    /// A claim as it is.
    ReadClaim(u64),
}

/// What came of it. Times are the server's, in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Got {
    /// Nobody knows, yet or ever.
    Nothing,
    /// The claim with this number.
    Claim(u64),
    /// Somebody else holds items: which, and in which session.
    Held(Vec<(String, String)>),
    /// More time.
    Beaten {
        /// When that was decided.
        at_ms: i64,
        /// The new deadline.
        until_ms: i64,
    },
    /// The claim ended by this very request.
    Released,
    /// The same, with marks on its items.
    Completed,
    /// The claim had ended before.
    Lost {
        /// Why.
        reason: String,
        /// When.
        ended_at_ms: i64,
    },
    /// The item's new version.
    Written(u64),
    /// The item has this version, which is another one.
    Conflict(u64),
    /// An item as it was.
    Item(SeenItem),
    /// A claim as it was.
    Seen(SeenClaim),
    /// There is no room on the disk.
    Full,
}

/// An item as somebody read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenItem {
    /// Its version.
    pub version: u64,
    /// Its newest grant.
    pub fence: u64,
    /// The mark on it.
    pub mark: Option<String>,
    /// Who holds it.
    pub claim: Option<u64>,
    /// When, by the server's time.
    pub at_ms: i64,
}

/// A claim as somebody read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenClaim {
    /// Its deadline.
    pub until_ms: i64,
    /// Why and when it ended, if it has.
    pub ended: Option<(String, i64)>,
    /// When it was read, by the server's time.
    pub at_ms: i64,
}

/// How much was compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// Claims that were granted and answered.
    pub grants: usize,
    /// Changes that nobody heard of.
    pub unheard: usize,
    /// Claims that were prolonged.
    pub beats: usize,
    /// Claims that were released or completed, and answered.
    pub ends: usize,
    /// Documents that were written.
    pub writes: usize,
    /// Answers that name somebody else, or another version.
    pub refusals: usize,
    /// Answers that the claim is over.
    pub losses: usize,
    /// Items and claims that were read.
    pub reads: usize,
    /// Claims that ended by their deadline.
    pub expiries: usize,
}

impl Compared {
    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            grants: self.grants + other.grants,
            unheard: self.unheard + other.unheard,
            beats: self.beats + other.beats,
            ends: self.ends + other.ends,
            writes: self.writes + other.writes,
            refusals: self.refusals + other.refusals,
            losses: self.losses + other.losses,
            reads: self.reads + other.reads,
            expiries: self.expiries + other.expiries,
        }
    }

    /// Something of each was compared. A drill in which nothing was refused, lost or read has judged none of it.
    #[must_use]
    pub fn is_of_all(&self) -> bool {
        let Self { grants, unheard: _, beats, ends, writes, refusals, losses, reads, expiries } = *self;
        [grants, beats, ends, writes, refusals, losses, reads, expiries].iter().all(|count| *count > 0)
    }
}

/// Checks what callers saw against the collection's record. Expiries may be noticed so late; where nobody could write
/// them down, that is not judged.
pub fn check(ops: &[Op], record: &[Value], late: Option<Duration>) -> Result<Compared, String> {
    Judge::new(ops, Book::replay(record)?)?.compare(late)
}
