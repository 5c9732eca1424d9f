//! The reference store: everything in memory, nothing survives. The other stores must behave like it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::{RwLock, RwLockReadGuard};
use tenure_core::{Claim, Collection, CollectionKey, Item, ItemId, Policy, Rows, Sealed};

use crate::read::follows;
use crate::{
    AuditFilter, Batch, ClaimFilter, ClaimRow, Error, EventPage, HeldItem, ItemFilter, Kept, Page, Reader,
    ReplyKey, Snapshot, State, Stats, Store, View, Want,
};

/// A store that forgets when it is dropped. Clones share what they hold, so that one which a simulator
/// keeps survives the process.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    shared: Arc<RwLock<Shared>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: State,
    events: BTreeMap<CollectionKey, Vec<Arc<Sealed>>>,
    kept: HashMap<ReplyKey, Arc<Kept>>,
    high_water_ms: i64,
}

/// What a batch reads: the rows under a read lock, so that readers go on beside it.
#[derive(Debug)]
pub struct MemoryView<'a>(RwLockReadGuard<'a, Shared>);

impl Store for Memory {
    type View<'a> = MemoryView<'a>;

    fn load(&mut self, _wants: &[Want]) -> Result<MemoryView<'_>, Error> {
        Ok(MemoryView(self.shared.read()))
    }

    fn commit(&mut self, batch: Batch) -> Result<(), Error> {
        let mut shared = self.shared.write();
        shared.high_water_ms = shared.high_water_ms.max(batch.at_ms);
        for entry in batch.entries {
            let events = shared.events.entry(entry.collection.clone()).or_default();
            events.extend(entry.events);
            shared.state.take(&entry.collection, &entry.changed);
            if let Some((key, kept)) = entry.kept {
                shared.kept.insert(key, kept);
            }
        }
        Ok(())
    }

    fn high_water_ms(&self) -> i64 {
        self.shared.read().high_water_ms
    }

    fn epoch(&self) -> u64 {
        1
    }

    fn reader(&self) -> Arc<dyn Reader> {
        Arc::new(MemoryReader(self.shared.clone()))
    }

    fn close(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

impl Rows for MemoryView<'_> {
    fn policy(&self, kind: &str) -> Option<Arc<Policy>> {
        self.0.state.policy(kind)
    }

    fn collection(&self, key: &CollectionKey) -> Option<Arc<Collection>> {
        self.0.state.collection(key)
    }

    fn item(&self, key: &CollectionKey, id: &ItemId) -> Option<Arc<Item>> {
        self.0.state.item(key, id)
    }

    fn claim(&self, key: &CollectionKey, number: u64) -> Option<Arc<Claim>> {
        self.0.state.claim(key, number)
    }

    fn barring(&self, key: &CollectionKey, number: u64) -> Option<Arc<Claim>> {
        self.0.state.barring(key, number)
    }

    fn claims_of(&self, key: &CollectionKey, holder_id: &str) -> Vec<Arc<Claim>> {
        self.0.state.claims_of(key, holder_id)
    }

    fn active_claims(&self, key: &CollectionKey) -> Vec<u64> {
        self.0.state.active_claims(key)
    }
}

impl View for MemoryView<'_> {
    fn kept(&self, key: &ReplyKey) -> Option<Arc<Kept>> {
        self.0.kept.get(key).cloned()
    }
}

struct MemoryReader(Arc<RwLock<Shared>>);

impl Reader for MemoryReader {
    fn epoch(&self) -> u64 {
        1
    }

    fn policy(&self, kind: &str) -> Result<Option<Arc<Policy>>, Error> {
        Ok(self.0.read().state.policy(kind))
    }

    fn collection(&self, key: &CollectionKey) -> Result<Option<Arc<Collection>>, Error> {
        Ok(self.0.read().state.collection(key))
    }

    fn collections(
        &self,
        after: Option<&CollectionKey>,
        limit: usize,
    ) -> Result<Page<(CollectionKey, Arc<Collection>)>, Error> {
        Ok(self.0.read().state.collections(after, limit))
    }

    fn item(&self, key: &CollectionKey, id: &ItemId) -> Result<Option<Arc<Item>>, Error> {
        Ok(self.0.read().state.item(key, id))
    }

    fn items(
        &self,
        key: &CollectionKey,
        filter: &ItemFilter,
        limit: usize,
    ) -> Result<Page<Arc<Item>>, Error> {
        Ok(self.0.read().state.items(key, filter, limit))
    }

    fn held_item(&self, key: &CollectionKey, id: &ItemId) -> Result<Option<HeldItem>, Error> {
        Ok(self.0.read().state.held_item(key, id))
    }

    fn held_items(
        &self,
        key: &CollectionKey,
        filter: &ItemFilter,
        limit: usize,
    ) -> Result<Page<HeldItem>, Error> {
        Ok(self.0.read().state.held_items(key, filter, limit))
    }

    fn claim(&self, key: &CollectionKey, number: u64) -> Result<Option<Arc<Claim>>, Error> {
        Ok(self.0.read().state.claim(key, number))
    }

    fn claims(&self, filter: &ClaimFilter, limit: usize) -> Result<Page<ClaimRow>, Error> {
        Ok(self.0.read().state.claims(filter, limit))
    }

    fn events(&self, key: &CollectionKey, since: u64, limit: usize) -> Result<EventPage, Error> {
        let shared = self.0.read();
        let events = shared.events.get(key).map_or(&[][..], Vec::as_slice);
        let last = events.last().map_or(0, |sealed| sealed.event.seq);
        let start = events.partition_point(|sealed| sealed.event.seq <= since);
        if since > last || events.get(start).is_some_and(|next| !follows(&next.event, since)) {
            return Ok(EventPage::Resync {
                first: events.first().map_or(0, |sealed| sealed.event.seq),
                last,
            });
        }
        let page = events[start..].iter().take(limit).cloned().collect();
        Ok(EventPage::Events(page))
    }

    fn audit(&self, filter: &AuditFilter, limit: usize) -> Result<Page<(CollectionKey, Arc<Sealed>)>, Error> {
        let shared = self.0.read();
        let mut rows: Vec<_> = shared
            .events
            .iter()
            .flat_map(|(key, events)| events.iter().map(move |sealed| (key, sealed)))
            .filter(|(key, sealed)| filter.matches(key, &sealed.event))
            .map(|(key, sealed)| (key.clone(), sealed.clone()))
            .collect();
        rows.sort_by(|(a_key, a), (b_key, b)| {
            (b.event.at_ms, b_key, b.event.seq).cmp(&(a.event.at_ms, a_key, a.event.seq))
        });
        let more = rows.len() > limit;
        rows.truncate(limit);
        Ok(Page { rows, more })
    }

    fn snapshot(&self, key: &CollectionKey) -> Result<Option<Snapshot>, Error> {
        Ok(self.0.read().state.snapshot(key, 1))
    }

    fn stats(&self) -> Stats {
        self.0.read().state.stats()
    }
}
