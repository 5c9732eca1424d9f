//! The rows of a turn: what was loaded, with the turn's own decisions on top. Thrown away when the
//! commit fails.

use std::collections::HashMap;
use std::sync::Arc;

use tenure_core::{Changed, Claim, ClaimState, Collection, CollectionKey, Item, ItemId, Policy, Rows};
use tenure_store::{Kept, ReplyKey, View};

pub(crate) struct Overlay<'v, V> {
    view: &'v V,
    policies: HashMap<Arc<str>, Arc<Policy>>,
    collections: HashMap<CollectionKey, Layer>,
    kept: HashMap<ReplyKey, Arc<Kept>>,
}

#[derive(Default)]
struct Layer {
    head: Option<Arc<Collection>>,
    items: HashMap<ItemId, Option<Arc<Item>>>,
    claims: HashMap<u64, Arc<Claim>>,
    /// The numbers of `claims`, by holder.
    by_holder: HashMap<Arc<str>, Vec<u64>>,
}

impl<'v, V: View> Overlay<'v, V> {
    pub(crate) fn new(view: &'v V) -> Self {
        Self { view, policies: HashMap::new(), collections: HashMap::new(), kept: HashMap::new() }
    }

    /// A decision holds for the rest of the turn.
    pub(crate) fn take(&mut self, key: &CollectionKey, changed: &Changed) {
        for (kind, policy) in &changed.policies {
            self.policies.insert(kind.clone(), policy.clone());
        }
        if !self.collections.contains_key(key) {
            self.collections.insert(key.clone(), Layer::default());
        }
        let layer = self.collections.get_mut(key).expect("just inserted");
        if let Some(head) = &changed.collection {
            layer.head = Some(head.clone());
        }
        for (id, item) in &changed.items {
            layer.items.insert(id.clone(), item.clone());
        }
        for claim in &changed.claims {
            if layer.claims.insert(claim.number, claim.clone()).is_none() {
                layer.by_holder.entry(claim.holder.id.clone()).or_default().push(claim.number);
            }
        }
    }

    pub(crate) fn keep(&mut self, key: ReplyKey, kept: Arc<Kept>) {
        self.kept.insert(key, kept);
    }

    pub(crate) fn kept(&self, key: &ReplyKey) -> Option<Arc<Kept>> {
        self.kept.get(key).cloned().or_else(|| self.view.kept(key))
    }
}

impl<V: View> Rows for Overlay<'_, V> {
    fn policy(&self, kind: &str) -> Option<Arc<Policy>> {
        self.policies.get(kind).cloned().or_else(|| self.view.policy(kind))
    }

    fn collection(&self, key: &CollectionKey) -> Option<Arc<Collection>> {
        let changed = self.collections.get(key).and_then(|layer| layer.head.clone());
        changed.or_else(|| self.view.collection(key))
    }

    fn item(&self, key: &CollectionKey, id: &ItemId) -> Option<Arc<Item>> {
        match self.collections.get(key).and_then(|layer| layer.items.get(id)) {
            Some(changed) => changed.clone(),
            None => self.view.item(key, id),
        }
    }

    fn claim(&self, key: &CollectionKey, number: u64) -> Option<Arc<Claim>> {
        let changed = self.collections.get(key).and_then(|layer| layer.claims.get(&number));
        changed.cloned().or_else(|| self.view.claim(key, number))
    }

    fn claims_of(&self, key: &CollectionKey, holder_id: &str) -> Vec<Arc<Claim>> {
        let mut claims = self.view.claims_of(key, holder_id);
        let Some(layer) = self.collections.get(key) else { return claims };
        let Some(numbers) = layer.by_holder.get(holder_id) else { return claims };
        claims.retain(|claim| !layer.claims.contains_key(&claim.number));
        let changed = numbers.iter().filter_map(|number| layer.claims.get(number));
        claims.extend(changed.filter(|claim| claim.state == ClaimState::Active).cloned());
        claims.sort_by_key(|claim| claim.number);
        claims
    }

    fn active_claims(&self, key: &CollectionKey) -> Vec<u64> {
        let mut numbers = self.view.active_claims(key);
        let Some(layer) = self.collections.get(key) else { return numbers };
        numbers.retain(|number| !layer.claims.contains_key(number));
        let changed = layer.claims.values().filter(|claim| claim.state == ClaimState::Active);
        numbers.extend(changed.map(|claim| claim.number));
        numbers.sort_unstable();
        numbers
    }
}
