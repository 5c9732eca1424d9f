//! `store` KEEPS: rows, events and replies. It loads what a batch names and commits what was decided,
//! all of it or none. It never decides who holds.
//!
//! A store has two faces. [`Store`] is the writer: one engine owns it and calls [`Store::load`] and
//! [`Store::commit`] in turn. [`Reader`] is shared by everyone who only looks; it sees committed state
//! and nothing else.

mod batch;
mod check;
mod claims_only;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod embedded;
mod error;
pub mod limits;
pub mod memory;
pub mod moving;
pub mod postgres;
mod read;
mod state;

use std::sync::Arc;

use tenure_core::{CollectionKey, ItemId, Rows, Text};

pub use batch::{Batch, Entry, Kept, ReplyKey, encoded_bytes};
pub use error::Error;
pub use read::{
    AuditFilter, ClaimFilter, ClaimRow, Due, EventPage, Heard, HeldItem, Hints, ItemFilter, Page, Pulse,
    Reader, Snapshot, Stats,
};
pub use state::State;

/// A map for what every decision looks up. Its hash is several times faster than the standard library's;
/// the seed is random, so that nobody can choose names that collide.
pub type Map<K, V> = std::collections::HashMap<K, V, foldhash::fast::RandomState>;

/// Deletes some of what nobody needs any more, by the store's own clock and beside all other work. Answers
/// whether there may be more.
pub type Tidier = Box<dyn FnMut() -> Result<bool, Error> + Send>;

/// Called by whoever makes a batch safe, when that is over.
pub type Done = Arc<dyn Fn() + Send + Sync>;

/// The writer's face.
pub trait Store: Send {
    /// What a batch of decisions reads.
    type View<'a>: View
    where
        Self: 'a;

    /// Makes the rows that `wants` names readable, as they were last committed. A store may show more, and a shared one
    /// less: it leaves collections out that somebody else keeps for longer than it waits ([`View::covers`]).
    fn load(&mut self, wants: &[Want]) -> Result<Self::View<'_>, Error>;

    /// Makes a batch durable, then visible to readers: all of it, or on an error none of it. When this
    /// returns, no crash takes it back.
    fn commit(&mut self, batch: Batch) -> Result<(), Error>;

    /// Begins to commit a batch, where the store can do so beside whoever asks (see [`Store::overlaps`]): `done` is
    /// called when the disk has it. It is durable, visible and over when [`Store::complete`] has returned, and not
    /// before. One at a time; on an error nothing has begun.
    fn begin(&mut self, batch: Batch, done: Done) -> Result<(), Error> {
        let begun = self.commit(batch);
        done();
        begun
    }

    /// Waits for what was begun. On an error none of it is there.
    fn complete(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// What is begun is made safe beside whoever asks, so that the next batch can be decided meanwhile.
    fn overlaps(&self) -> bool {
        false
    }

    /// Nothing came of what was loaded: lets go of whatever a load has locked. An error says that something
    /// could not be read, so that whatever was decided on it, a refusal too, may be wrong.
    fn abandon(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// The store reads rows only when a batch names them. Otherwise `wants` names kept replies alone.
    fn wants_rows(&self) -> bool {
        false
    }

    /// Other nodes work on the same data, so time went on while this one was away.
    fn is_shared(&self) -> bool {
        false
    }

    /// What deletes what nobody needs any more, where a store does not do so by itself.
    fn tidier(&self) -> Option<Tidier> {
        None
    }

    /// The highest time ever committed. Time never runs behind it.
    fn high_water_ms(&self) -> i64;

    /// Raised by each restore, so that a cursor from before it is recognised.
    fn epoch(&self) -> u64;

    /// The readers' face.
    fn reader(&self) -> Arc<dyn Reader>;

    /// The same for the engine's own looks, which wait for nobody's lists.
    fn follower(&self) -> Arc<dyn Reader> {
        self.reader()
    }

    /// Everything committed is where a next start finds it fastest. Called on a graceful stop.
    fn close(&mut self) -> Result<(), Error>;
}

/// Rows, and the replies that are kept for retries.
pub trait View: Rows {
    /// The store's own clock, where it has one (a database's, read under the collections' locks).
    fn clock_ms(&self) -> Option<i64> {
        None
    }

    /// A collection's time, over such a store: that of the clock, but never before what was committed there.
    /// It is decided by nothing else, since a time that came from another collection could end claims early.
    fn now_ms(&self, collection: &CollectionKey) -> Option<i64> {
        let _ = collection;
        self.clock_ms()
    }

    /// A load has made this collection ready to be decided in. Of any other nothing may be read or written.
    fn covers(&self, collection: &CollectionKey) -> bool {
        let _ = collection;
        true
    }

    /// The reply that was kept under a key, if it is still kept.
    fn kept(&self, key: &ReplyKey) -> Option<Arc<Kept>>;
}

impl Want {
    /// A collection, and nothing of it that is known before.
    pub fn of(collection: &CollectionKey) -> Self {
        let (items, claims) = (Vec::new(), Vec::new());
        Self { collection: collection.clone(), items, claims, holder: None, reply: None }
    }
}

/// What a command will read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Want {
    /// The collection.
    pub collection: CollectionKey,
    /// Items, each with the claim that last took it and whatever that claim holds.
    pub items: Vec<ItemId>,
    /// Claims by number, each with its items and theirs.
    pub claims: Vec<u64>,
    /// All active claims of this holder.
    pub holder: Option<Text>,
    /// A kept reply.
    pub reply: Option<ReplyKey>,
}
