//! The rows in plain maps, and nothing clever.

use std::collections::BTreeMap;
use std::sync::Arc;

use tenure_core::{
    Changed, Claim, ClaimState, Collection, CollectionKey, Item, ItemId, Policy, Rows, RowsMut,
};

/// The rows, as simply as can be.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Memory {
    policies: BTreeMap<String, Arc<Policy>>,
    collections: BTreeMap<CollectionKey, Arc<Collection>>,
    items: BTreeMap<(CollectionKey, ItemId), Arc<Item>>,
    claims: BTreeMap<(CollectionKey, u64), Arc<Claim>>,
}

impl Memory {
    /// Takes over what a decision changed.
    pub(crate) fn take(&mut self, key: &CollectionKey, changed: Changed) {
        for (kind, policy) in changed.policies {
            self.put_policy(&kind, policy);
        }
        if let Some(collection) = changed.collection {
            self.put_collection(key, collection);
        }
        for (id, item) in changed.items {
            match item {
                Some(item) => self.put_item(key, item),
                None => self.remove_item(key, &id),
            }
        }
        for claim in changed.claims {
            self.put_claim(key, claim);
        }
    }

    /// The rows without what heartbeats alone change.
    pub(crate) fn without_heartbeats(&self) -> Self {
        let mut rows = self.clone();
        for claim in rows.claims.values_mut() {
            let claim = Arc::make_mut(claim);
            (claim.heartbeat_at_ms, claim.expires_at_ms, claim.idle) = (0, 0, false);
        }
        rows
    }

    pub(crate) fn claims(&self) -> impl Iterator<Item = &Arc<Claim>> {
        self.claims.values()
    }

    /// Every collection's claims that are not over.
    pub(crate) fn all_active(&self) -> impl Iterator<Item = (&CollectionKey, &Arc<Claim>)> {
        let claims = self.claims.iter().map(|((key, _), claim)| (key, claim));
        claims.filter(|(_, claim)| claim.state == ClaimState::Active)
    }

    pub(crate) fn items(&self) -> impl Iterator<Item = &Arc<Item>> {
        self.items.values()
    }

    fn active(&self, key: &CollectionKey) -> impl Iterator<Item = &Arc<Claim>> {
        let here = self.claims.iter().filter(move |((at, _), _)| at == key);
        here.map(|(_, claim)| claim).filter(|claim| claim.state == ClaimState::Active)
    }
}

impl Rows for Memory {
    fn policy(&self, kind: &str) -> Option<Arc<Policy>> {
        self.policies.get(kind).cloned()
    }

    fn collection(&self, key: &CollectionKey) -> Option<Arc<Collection>> {
        self.collections.get(key).cloned()
    }

    fn item(&self, key: &CollectionKey, id: &ItemId) -> Option<Arc<Item>> {
        self.items.get(&(key.clone(), id.clone())).cloned()
    }

    fn claim(&self, key: &CollectionKey, number: u64) -> Option<Arc<Claim>> {
        self.claims.get(&(key.clone(), number)).cloned()
    }

    fn claims_of(&self, key: &CollectionKey, holder_id: &str) -> Vec<Arc<Claim>> {
        self.active(key).filter(|claim| &*claim.holder.id == holder_id).cloned().collect()
    }

    fn active_claims(&self, key: &CollectionKey) -> Vec<u64> {
        self.active(key).map(|claim| claim.number).collect()
    }
}

impl RowsMut for Memory {
    fn put_policy(&mut self, kind: &str, policy: Arc<Policy>) {
        self.policies.insert(kind.to_owned(), policy);
    }

    fn put_collection(&mut self, key: &CollectionKey, collection: Arc<Collection>) {
        self.collections.insert(key.clone(), collection);
    }

    fn put_item(&mut self, key: &CollectionKey, item: Arc<Item>) {
        self.items.insert((key.clone(), item.id.clone()), item);
    }

    fn remove_item(&mut self, key: &CollectionKey, id: &ItemId) {
        self.items.remove(&(key.clone(), id.clone()));
    }

    fn put_claim(&mut self, key: &CollectionKey, claim: Arc<Claim>) {
        self.claims.insert((key.clone(), claim.number), claim);
    }
}
