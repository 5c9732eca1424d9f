//! A store whose documents cannot be looked for, on demand, while everything else goes on: so is a node that loses its
//! database at the wrong moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use tenure_core::{Claim, Collection, CollectionKey, Item, ItemId, Policy, Sealed};
use tenure_store::conformance::{AnyStore, AnyView};
use tenure_store::{
    AuditFilter, Batch, ClaimFilter, ClaimRow, Error, EventPage, Heard, HeldItem, Hints, ItemFilter, Page,
    Pulse, Reader, Snapshot, Stats, Store, Want,
};

/// On while documents cannot be looked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Switch(Arc<AtomicBool>);

impl Switch {
    pub(crate) fn set(&self, on: bool) {
        self.0.store(on, Ordering::SeqCst);
    }
}

pub(crate) struct Away {
    store: AnyStore,
    switch: Switch,
}

impl Away {
    pub(crate) fn from(store: AnyStore) -> (Self, Switch) {
        let switch = Switch::default();
        (Self { store, switch: switch.clone() }, switch)
    }
}

impl Store for Away {
    type View<'a> = AnyView<'a>;

    fn load(&mut self, wants: &[Want]) -> Result<AnyView<'_>, Error> {
        self.store.load(wants)
    }

    fn commit(&mut self, batch: Batch) -> Result<(), Error> {
        self.store.commit(batch)
    }

    fn abandon(&mut self) -> Result<(), Error> {
        self.store.abandon()
    }

    fn wants_rows(&self) -> bool {
        self.store.wants_rows()
    }

    fn is_shared(&self) -> bool {
        self.store.is_shared()
    }

    fn high_water_ms(&self) -> i64 {
        self.store.high_water_ms()
    }

    fn epoch(&self) -> u64 {
        self.store.epoch()
    }

    fn follower(&self) -> Arc<dyn Reader> {
        self.store.follower()
    }

    fn reader(&self) -> Arc<dyn Reader> {
        Arc::new(Looking { inner: self.store.reader(), switch: self.switch.clone() })
    }

    fn close(&mut self) -> Result<(), Error> {
        self.store.close()
    }
}

struct Looking {
    inner: Arc<dyn Reader>,
    switch: Switch,
}

impl Reader for Looking {
    fn epoch(&self) -> u64 {
        self.inner.epoch()
    }

    fn policy(&self, kind: &str) -> Result<Option<Arc<Policy>>, Error> {
        self.inner.policy(kind)
    }

    fn collection(&self, key: &CollectionKey) -> Result<Option<Arc<Collection>>, Error> {
        self.inner.collection(key)
    }

    fn collections(
        &self,
        after: Option<&CollectionKey>,
        limit: usize,
    ) -> Result<Page<(CollectionKey, Arc<Collection>)>, Error> {
        self.inner.collections(after, limit)
    }

    fn item(&self, key: &CollectionKey, id: &ItemId) -> Result<Option<Arc<Item>>, Error> {
        // Tickets are found: what they were made with is not.
        if self.switch.0.load(Ordering::SeqCst) && matches!(key.name(), "keys" | "sessions") {
            return Err(Error::Away { detail: "cut off".to_owned() });
        }
        self.inner.item(key, id)
    }

    fn items(
        &self,
        key: &CollectionKey,
        filter: &ItemFilter,
        limit: usize,
    ) -> Result<Page<Arc<Item>>, Error> {
        self.inner.items(key, filter, limit)
    }

    fn claim(&self, key: &CollectionKey, number: u64) -> Result<Option<Arc<Claim>>, Error> {
        self.inner.claim(key, number)
    }

    fn held_item(&self, key: &CollectionKey, id: &ItemId) -> Result<Option<HeldItem>, Error> {
        self.inner.held_item(key, id)
    }

    fn held_items(
        &self,
        key: &CollectionKey,
        filter: &ItemFilter,
        limit: usize,
    ) -> Result<Page<HeldItem>, Error> {
        self.inner.held_items(key, filter, limit)
    }

    fn claims(&self, filter: &ClaimFilter, limit: usize) -> Result<Page<ClaimRow>, Error> {
        self.inner.claims(filter, limit)
    }

    fn events(&self, key: &CollectionKey, since: u64, limit: usize) -> Result<EventPage, Error> {
        self.inner.events(key, since, limit)
    }

    fn audit(&self, filter: &AuditFilter, limit: usize) -> Result<Page<(CollectionKey, Arc<Sealed>)>, Error> {
        self.inner.audit(filter, limit)
    }

    fn snapshot(&self, key: &CollectionKey) -> Result<Option<Snapshot>, Error> {
        self.inner.snapshot(key)
    }

    fn stats(&self) -> Stats {
        self.inner.stats()
    }

    fn ready(&self) -> Result<(), Error> {
        self.inner.ready()
    }

    fn hints(&self, heard: Heard) -> Option<Arc<dyn Hints>> {
        self.inner.hints(heard)
    }

    fn by(&self, until: Instant) -> Option<Arc<dyn Reader>> {
        self.inner.by(until)
    }

    fn pulse(&self, watched: &[CollectionKey], ahead_ms: i64, limit: usize) -> Result<Pulse, Error> {
        self.inner.pulse(watched, ahead_ms, limit)
    }
}
