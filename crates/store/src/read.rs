//! What readers can ask of a store. They see what is committed and nothing else.

use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;
use tenure_core::{
    Claim, ClaimState, Collection, CollectionKey, Event, Fact, Item, ItemId, Policy, Sealed, Status, Text,
};

use crate::Error;

/// The readers' face of a store.
pub trait Reader: Send + Sync {
    /// The store's epoch.
    fn epoch(&self) -> u64;
    /// The store answers, whatever others ask of it meanwhile.
    fn ready(&self) -> Result<(), Error> {
        self.collection(&CollectionKey::policies()).map(drop)
    }
    /// A kind's own policy, if somebody set one.
    fn policy(&self, kind: &str) -> Result<Option<Arc<Policy>>, Error>;
    /// The head of a collection.
    fn collection(&self, key: &CollectionKey) -> Result<Option<Arc<Collection>>, Error>;
    /// Collections in order of their keys, after one.
    fn collections(
        &self,
        after: Option<&CollectionKey>,
        limit: usize,
    ) -> Result<Page<(CollectionKey, Arc<Collection>)>, Error>;
    /// One item.
    fn item(&self, key: &CollectionKey, id: &ItemId) -> Result<Option<Arc<Item>>, Error>;
    /// Items of a collection in order of their ids.
    fn items(&self, key: &CollectionKey, filter: &ItemFilter, limit: usize)
    -> Result<Page<Arc<Item>>, Error>;
    /// One item with its claim, both of one moment: read one after the other they may be what never was at once.
    fn held_item(&self, key: &CollectionKey, id: &ItemId) -> Result<Option<HeldItem>, Error>;
    /// The same of many: the whole page is of one moment.
    fn held_items(
        &self,
        key: &CollectionKey,
        filter: &ItemFilter,
        limit: usize,
    ) -> Result<Page<HeldItem>, Error>;
    /// One claim, active or ended.
    fn claim(&self, key: &CollectionKey, number: u64) -> Result<Option<Arc<Claim>>, Error>;
    /// Claims in order of collection and number.
    fn claims(&self, filter: &ClaimFilter, limit: usize) -> Result<Page<ClaimRow>, Error>;
    /// Events after a number, oldest first, at most `limit`. A page may end sooner once it has
    /// [`crate::limits::EVENT_PAGE_BYTES`].
    fn events(&self, key: &CollectionKey, since: u64, limit: usize) -> Result<EventPage, Error>;
    /// Events of all collections that match, newest first.
    fn audit(&self, filter: &AuditFilter, limit: usize) -> Result<Page<(CollectionKey, Arc<Sealed>)>, Error>;
    /// A collection's head, items and active claims, all of one moment.
    fn snapshot(&self, key: &CollectionKey) -> Result<Option<Snapshot>, Error>;
    /// Figures for the operator.
    fn stats(&self) -> Stats;
    /// Begins to hear from other nodes which collections changed, and to tell them. What is heard is a hint:
    /// late, twice, or never.
    fn hints(&self, heard: Heard) -> Option<Arc<dyn Hints>> {
        let _ = heard;
        None
    }
    /// The same, which answers by then or refuses with [`Error::Away`]: for whoever has others to tell that it hears
    /// nothing. `None` where the store is never far away.
    fn by(&self, until: Instant) -> Option<Arc<dyn Reader>> {
        let _ = until;
        None
    }
    /// What other nodes may have done, for a store that is shared: how far these collections are, and at
    /// most `limit` active claims whose deadlines are past or come within a time, the earliest first.
    fn pulse(&self, watched: &[CollectionKey], ahead_ms: i64, limit: usize) -> Result<Pulse, Error> {
        let _ = (watched, ahead_ms, limit);
        Ok(Pulse::default())
    }
}

/// Called with the collections that changed elsewhere; `None` when it may be any.
pub type Heard = Arc<dyn Fn(Option<&[CollectionKey]>) + Send + Sync>;

/// Tells other nodes which collections changed.
pub trait Hints: Send + Sync {
    /// These did. Never waits.
    fn tell(&self, changed: Vec<CollectionKey>);
}

/// What goes on elsewhere.
#[derive(Clone, Debug, Default)]
pub struct Pulse {
    /// The store's own time, where it has one.
    pub now_ms: Option<i64>,
    /// The newest number of each collection that was asked for and is there.
    pub heads: Vec<(CollectionKey, u64)>,
    /// Deadlines that are near.
    pub due: Vec<Due>,
}

/// A deadline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due {
    /// Where.
    pub collection: CollectionKey,
    /// The claim's number.
    pub claim: u64,
    /// When.
    pub at_ms: i64,
}

/// Part of a list.
#[derive(Clone, Debug)]
pub struct Page<T> {
    /// The rows.
    pub rows: Vec<T>,
    /// There are more.
    pub more: bool,
}

/// An item with the claim that it points at, if that is active, as last committed. It points at its last claim for good;
/// one that ended long ago costs nobody anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldItem {
    /// It.
    pub item: Arc<Item>,
    /// Its claim. Whether that still holds is for whoever knows the time.
    pub claim: Option<Arc<Claim>>,
}

/// A claim with where it lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimRow {
    /// Where.
    pub collection: CollectionKey,
    /// It.
    pub claim: Arc<Claim>,
}

/// Which items.
#[derive(Clone, Debug, Default)]
pub struct ItemFilter {
    /// Only held (or only free) ones, at this time.
    pub held: Option<(bool, i64)>,
    /// Only of this status.
    pub status: Option<Status>,
    /// Only after this id.
    pub after: Option<ItemId>,
}

/// Which claims.
#[derive(Clone, Debug, Default)]
pub struct ClaimFilter {
    /// Only of this collection.
    pub collection: Option<CollectionKey>,
    /// Only of this holder.
    pub holder: Option<Text>,
    /// Only in this state, as last committed.
    pub state: Option<ClaimState>,
    /// Only after this one.
    pub after: Option<(CollectionKey, u64)>,
}

/// Which audit rows.
#[derive(Clone, Debug, Default)]
pub struct AuditFilter {
    /// By this actor's id.
    pub actor: Option<Text>,
    /// With this action.
    pub action: Option<Text>,
    /// In this collection.
    pub collection: Option<CollectionKey>,
    /// About this item.
    pub item: Option<ItemId>,
    /// At this time or later.
    pub from_ms: Option<i64>,
    /// Before this time.
    pub to_ms: Option<i64>,
    /// Older than this one: the last row of the page before.
    pub before: Option<(i64, CollectionKey, u64)>,
}

/// Events of one collection after a number.
#[derive(Clone, Debug)]
pub enum EventPage {
    /// In order, without gaps. Empty when there is none yet.
    Events(Vec<Arc<Sealed>>),
    /// The number is older than what is retained, or was never reached: start anew from a snapshot.
    Resync {
        /// The oldest number that is retained.
        first: u64,
        /// The newest.
        last: u64,
    },
}

/// A collection at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The store's epoch.
    pub epoch: u64,
    /// Its head; events after `head.seq` continue from here.
    pub head: Arc<Collection>,
    /// Its items, in order.
    pub items: Vec<Arc<Item>>,
    /// Its claims whose state is active, in order.
    pub claims: Vec<Arc<Claim>>,
}

/// Figures for the operator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// Collections.
    pub collections: u64,
    /// Items.
    pub items: u64,
    /// Claims whose state is active.
    pub active_claims: u64,
    /// Bytes of journal on disk.
    pub journal_bytes: u64,
    /// Batches committed but not yet folded into the archive.
    pub fold_lag_batches: u64,
    /// When the oldest such batch was committed.
    pub unfolded_at_ms: Option<i64>,
}

impl AuditFilter {
    /// Whether an event belongs to the answer.
    pub fn matches(&self, key: &CollectionKey, event: &Event) -> bool {
        self.actor.as_ref().is_none_or(|actor| event.actor.id == *actor)
            && self.action.as_ref().is_none_or(|action| event.fact.action() == &**action)
            && self.collection.as_ref().is_none_or(|collection| collection == key)
            && self.item.as_ref().is_none_or(|item| event.fact.items().contains(&item))
            && self.from_ms.is_none_or(|from_ms| event.at_ms >= from_ms)
            && self.to_ms.is_none_or(|to_ms| event.at_ms < to_ms)
            && self.before.as_ref().is_none_or(|(at_ms, collection, seq)| {
                (event.at_ms, key, event.seq) < (*at_ms, collection, *seq)
            })
    }
}

/// Whether an event is the next one after a number. After a restore the next one is far ahead, and a
/// number from the time that was lost is followed by nothing.
pub(crate) fn follows(event: &Event, since: u64) -> bool {
    match event.fact {
        Fact::Restored { from_seq, .. } => from_seq == since,
        _ => event.seq == since.saturating_add(1),
    }
}
