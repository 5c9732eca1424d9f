//! The rows of a turn: what was loaded, with the turn's own decisions on top. Thrown away when the
//! commit fails.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;

use tenure_core::{Changed, Claim, ClaimState, Collection, CollectionKey, Item, ItemId, Policy, Rows};
use tenure_store::{Kept, ReplyKey, View};

pub(crate) struct Overlay<'v, V> {
    view: &'v V,
    policies: HashMap<Arc<str>, Arc<Policy>>,
    layers: Vec<(CollectionKey, Layer)>,
    places: HashMap<CollectionKey, usize>,
    /// The layer that was looked at last: a decision asks a dozen times for the same one.
    last: Cell<usize>,
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
        Self {
            view,
            policies: HashMap::new(),
            layers: Vec::new(),
            places: HashMap::new(),
            last: Cell::new(0),
            kept: HashMap::new(),
        }
    }

    /// A decision holds for the rest of the turn.
    pub(crate) fn take(&mut self, key: &CollectionKey, changed: &Changed) {
        for (kind, policy) in &changed.policies {
            self.policies.insert(kind.clone(), policy.clone());
        }
        if self.layer(key).is_none() {
            self.last.set(self.layers.len());
            self.places.insert(key.clone(), self.layers.len());
            self.layers.push((key.clone(), Layer::default()));
        }
        let (_, layer) = &mut self.layers[self.last.get()];
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

    /// What this turn changed in a collection.
    fn layer(&self, key: &CollectionKey) -> Option<&Layer> {
        if let Some((known, layer)) = self.layers.get(self.last.get())
            && known == key
        {
            return Some(layer);
        }
        let place = *self.places.get(key)?;
        self.last.set(place);
        Some(&self.layers[place].1)
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
        let changed = self.layer(key).and_then(|layer| layer.head.clone());
        changed.or_else(|| self.view.collection(key))
    }

    fn item(&self, key: &CollectionKey, id: &ItemId) -> Option<Arc<Item>> {
        match self.layer(key).and_then(|layer| layer.items.get(id)) {
            Some(changed) => changed.clone(),
            None => self.view.item(key, id),
        }
    }

    fn claim(&self, key: &CollectionKey, number: u64) -> Option<Arc<Claim>> {
        let changed = self.layer(key).and_then(|layer| layer.claims.get(&number));
        changed.cloned().or_else(|| self.view.claim(key, number))
    }

    fn claims_of(&self, key: &CollectionKey, holder_id: &str) -> Vec<Arc<Claim>> {
        let mut claims = self.view.claims_of(key, holder_id);
        let Some(layer) = self.layer(key) else { return claims };
        let Some(numbers) = layer.by_holder.get(holder_id) else { return claims };
        claims.retain(|claim| !layer.claims.contains_key(&claim.number));
        let changed = numbers.iter().filter_map(|number| layer.claims.get(number));
        claims.extend(changed.filter(|claim| claim.state == ClaimState::Active).cloned());
        claims.sort_by_key(|claim| claim.number);
        claims
    }

    fn active_claims(&self, key: &CollectionKey) -> Vec<u64> {
        let mut numbers = self.view.active_claims(key);
        let Some(layer) = self.layer(key) else { return numbers };
        numbers.retain(|number| !layer.claims.contains_key(number));
        let changed = layer.claims.values().filter(|claim| claim.state == ClaimState::Active);
        numbers.extend(changed.map(|claim| claim.number));
        numbers.sort_unstable();
        numbers
    }
}
