//! A store that lies or fails on demand: a changed event, a shortened chain, a store that is away or full.

use std::sync::Arc;

use parking_lot::Mutex;
use tenure_core::{Claim, Collection, CollectionKey, Hash, Item, ItemId, Policy, Sealed};
use tenure_store::{
    AuditFilter, ClaimFilter, ClaimRow, Error, EventPage, HeldItem, ItemFilter, Page, Reader, Snapshot, Stats,
};

/// What is wrong with the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing.
    #[default]
    None,
    /// The event of this number has another byte.
    Changed(u64),
    /// The events of this number and later are gone.
    CutAt(u64),
    /// The events before this number are not retained.
    From(u64),
    /// The head's hash is another.
    OtherHead,
    /// The store cannot be reached.
    Away,
    /// The store's data is damaged.
    Corrupt,
    /// There is no room to write.
    Full,
    /// Writing does not end.
    Stuck,
}

pub(crate) struct Faulty {
    pub(crate) inner: Arc<dyn Reader>,
    pub(crate) fault: Arc<Mutex<Fault>>,
}

impl Faulty {
    fn honest(&self) -> Result<&dyn Reader, Error> {
        match *self.fault.lock() {
            Fault::Away => Err(Error::Away { detail: "secret-host refused".to_owned() }),
            Fault::Corrupt => Err(Error::Corrupt { path: "secret.db".into(), detail: "torn".to_owned() }),
            _ => Ok(&*self.inner),
        }
    }

    fn other_head(&self, mut head: Arc<Collection>) -> Arc<Collection> {
        if *self.fault.lock() == Fault::OtherHead {
            Arc::make_mut(&mut head).hash = Hash([7; 32]);
        }
        head
    }
}

impl Reader for Faulty {
    fn epoch(&self) -> u64 {
        self.inner.epoch()
    }

    fn policy(&self, kind: &str) -> Result<Option<Arc<Policy>>, Error> {
        self.honest()?.policy(kind)
    }

    fn collection(&self, key: &CollectionKey) -> Result<Option<Arc<Collection>>, Error> {
        self.honest()?.collection(key)
    }

    fn collections(
        &self,
        after: Option<&CollectionKey>,
        limit: usize,
    ) -> Result<Page<(CollectionKey, Arc<Collection>)>, Error> {
        let page = self.honest()?.collections(after, limit)?;
        let rows = page.rows.into_iter().map(|(key, head)| (key, self.other_head(head)));
        Ok(Page { rows: rows.collect(), more: page.more })
    }

    fn item(&self, key: &CollectionKey, id: &ItemId) -> Result<Option<Arc<Item>>, Error> {
        self.honest()?.item(key, id)
    }

    fn items(
        &self,
        key: &CollectionKey,
        filter: &ItemFilter,
        limit: usize,
    ) -> Result<Page<Arc<Item>>, Error> {
        self.honest()?.items(key, filter, limit)
    }

    fn held_item(&self, key: &CollectionKey, id: &ItemId) -> Result<Option<HeldItem>, Error> {
        self.honest()?.held_item(key, id)
    }

    fn held_items(
        &self,
        key: &CollectionKey,
        filter: &ItemFilter,
        limit: usize,
    ) -> Result<Page<HeldItem>, Error> {
        self.honest()?.held_items(key, filter, limit)
    }

    fn claim(&self, key: &CollectionKey, number: u64) -> Result<Option<Arc<Claim>>, Error> {
        self.honest()?.claim(key, number)
    }

    fn claims(&self, filter: &ClaimFilter, limit: usize) -> Result<Page<ClaimRow>, Error> {
        self.honest()?.claims(filter, limit)
    }

    fn events(&self, key: &CollectionKey, since: u64, limit: usize) -> Result<EventPage, Error> {
        let page = self.honest()?.events(key, since, limit)?;
        let fault = *self.fault.lock();
        if let (Fault::From(first), EventPage::Events(events)) = (fault, &page)
            && since + 1 < first
        {
            let last = events.last().map_or(since, |sealed| sealed.event.seq);
            return Ok(EventPage::Resync { first, last });
        }
        let EventPage::Events(mut events) = page else { return Ok(page) };
        match fault {
            Fault::Changed(number) => {
                for sealed in events.iter_mut().filter(|sealed| sealed.event.seq == number) {
                    let sealed = Arc::make_mut(sealed);
                    if let Some(byte) = sealed.bytes.last_mut() {
                        *byte ^= 1;
                    }
                }
            }
            Fault::CutAt(number) => events.retain(|sealed| sealed.event.seq < number),
            _ => {}
        }
        Ok(EventPage::Events(events))
    }

    fn audit(&self, filter: &AuditFilter, limit: usize) -> Result<Page<(CollectionKey, Arc<Sealed>)>, Error> {
        self.honest()?.audit(filter, limit)
    }

    fn snapshot(&self, key: &CollectionKey) -> Result<Option<Snapshot>, Error> {
        self.honest()?.snapshot(key)
    }

    fn stats(&self) -> Stats {
        self.inner.stats()
    }
}
