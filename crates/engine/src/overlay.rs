//! The rows of a turn: what was loaded, with the turn's own decisions on top. Thrown away when the
//! commit fails.

use std::cell::Cell;
use std::sync::Arc;

use tenure_core::{Changed, Claim, ClaimState, Collection, CollectionKey, Item, ItemId, Policy, Rows, Text};
use tenure_store::{Kept, Map, ReplyKey, View};

/// Layers that are kept for the next turn.
const SPARE_LAYERS_MAX: usize = 16;
/// Rows that a kept layer has room for.
const SPARE_ROWS_MAX: usize = 16_384;

pub(crate) struct Overlay<'v, V> {
    view: &'v V,
    changes: &'v mut Changes,
}

/// The same, to be read only: what a commit that is under way is about to change lies beneath the next turn's own.
pub(crate) struct Beneath<'v, V> {
    view: &'v V,
    changes: &'v Changes,
}

impl<V: View> Overlay<'_, Beneath<'_, V>> {
    /// One of the forms that a claim has, and in which it may bar others, is such: as is committed, as what is under way
    /// leaves it, as this turn does.
    pub(crate) fn any_of(&self, key: &CollectionKey, number: u64, is: impl Fn(&Claim) -> bool) -> bool {
        let changed = |changes: &Changes| {
            changes.layer(key).and_then(|layer| layer.claims.get(&number)).is_some_and(|claim| is(claim))
        };
        changed(self.changes)
            || changed(self.view.changes)
            || self.view.view.barring(key, number).is_some_and(|claim| is(&claim))
    }
}

/// A turn's own decisions. Emptied and used again by the next one, so that its tables need not grow anew.
#[derive(Default)]
pub(crate) struct Changes {
    policies: Map<Text, Arc<Policy>>,
    /// The first `used` are this turn's.
    layers: Vec<(CollectionKey, Layer)>,
    used: usize,
    places: Map<CollectionKey, usize>,
    /// The layer that was looked at last: a decision asks a dozen times for the same one.
    last: Cell<usize>,
    kept: Map<ReplyKey, Arc<Kept>>,
}

#[derive(Default)]
struct Layer {
    head: Option<Arc<Collection>>,
    items: Map<ItemId, Option<Arc<Item>>>,
    claims: Map<u64, Arc<Claim>>,
    /// The numbers of `claims`, by holder.
    by_holder: Map<Text, Vec<u64>>,
}

impl<'v, V: View> Overlay<'v, V> {
    pub(crate) fn new(view: &'v V, changes: &'v mut Changes) -> Self {
        Self { view, changes }
    }

    fn read(&self) -> Beneath<'_, V> {
        Beneath { view: self.view, changes: self.changes }
    }

    /// A decision holds for the rest of the turn.
    pub(crate) fn take(&mut self, key: &CollectionKey, changed: &Changed) {
        for (kind, policy) in &changed.policies {
            self.changes.policies.insert(kind.clone(), policy.clone());
        }
        let layer = self.changes.layer_mut(key);
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

    /// The turn can decide in this collection.
    pub(crate) fn covers(&self, key: &CollectionKey) -> bool {
        self.view.covers(key)
    }

    /// The collection's own time, where the store keeps one.
    pub(crate) fn now_ms(&self, key: &CollectionKey) -> Option<i64> {
        self.view.now_ms(key)
    }

    pub(crate) fn keep(&mut self, key: ReplyKey, kept: Arc<Kept>) {
        self.changes.kept.insert(key, kept);
    }

    pub(crate) fn kept(&self, key: &ReplyKey) -> Option<Arc<Kept>> {
        self.read().kept(key)
    }
}

impl Changes {
    fn layer(&self, key: &CollectionKey) -> Option<&Layer> {
        if self.used == 0 {
            return None;
        }
        if let Some((known, layer)) = self.layers[..self.used].get(self.last.get())
            && known == key
        {
            return Some(layer);
        }
        let place = *self.places.get(key)?;
        self.last.set(place);
        Some(&self.layers[place].1)
    }

    fn layer_mut(&mut self, key: &CollectionKey) -> &mut Layer {
        if self.layer(key).is_none() {
            let place = self.used;
            match self.layers.get_mut(place) {
                Some((spare, _)) => *spare = key.clone(),
                None => self.layers.push((key.clone(), Layer::default())),
            }
            self.used += 1;
            self.places.insert(key.clone(), place);
            self.last.set(place);
        }
        &mut self.layers[self.last.get()].1
    }

    /// Whatever it held is committed, or never will be.
    pub(crate) fn clear(&mut self) {
        self.policies.clear();
        self.kept.clear();
        self.places.clear();
        self.used = 0;
        // One large turn must not keep its tables for ever.
        self.layers.truncate(SPARE_LAYERS_MAX);
        for (_, layer) in &mut self.layers {
            layer.clear();
        }
    }
}

impl Layer {
    fn clear(&mut self) {
        self.head = None;
        if self.items.capacity() > SPARE_ROWS_MAX {
            *self = Self::default();
        }
        self.items.clear();
        self.claims.clear();
        self.by_holder.clear();
    }
}

impl<V: View> Rows for Overlay<'_, V> {
    fn epoch(&self) -> u64 {
        self.read().epoch()
    }

    fn policy(&self, kind: &str) -> Option<Arc<Policy>> {
        self.read().policy(kind)
    }

    fn collection(&self, key: &CollectionKey) -> Option<Arc<Collection>> {
        self.read().collection(key)
    }

    fn item(&self, key: &CollectionKey, id: &ItemId) -> Option<Arc<Item>> {
        self.read().item(key, id)
    }

    fn claim(&self, key: &CollectionKey, number: u64) -> Option<Arc<Claim>> {
        self.read().claim(key, number)
    }

    fn barring(&self, key: &CollectionKey, number: u64) -> Option<Arc<Claim>> {
        self.read().barring(key, number)
    }

    fn claims_of(&self, key: &CollectionKey, holder_id: &str) -> Vec<Arc<Claim>> {
        self.read().claims_of(key, holder_id)
    }

    fn active_claims(&self, key: &CollectionKey) -> Vec<u64> {
        self.read().active_claims(key)
    }
}

impl<'v, V: View> Beneath<'v, V> {
    pub(crate) fn new(view: &'v V, changes: &'v Changes) -> Self {
        Self { view, changes }
    }
}

impl<V: View> View for Beneath<'_, V> {
    fn clock_ms(&self) -> Option<i64> {
        self.view.clock_ms()
    }

    fn now_ms(&self, collection: &CollectionKey) -> Option<i64> {
        self.view.now_ms(collection)
    }

    fn covers(&self, collection: &CollectionKey) -> bool {
        self.view.covers(collection)
    }

    fn kept(&self, key: &ReplyKey) -> Option<Arc<Kept>> {
        self.changes.kept.get(key).cloned().or_else(|| self.view.kept(key))
    }
}

impl<V: View> Rows for Beneath<'_, V> {
    fn epoch(&self) -> u64 {
        self.view.epoch()
    }

    fn policy(&self, kind: &str) -> Option<Arc<Policy>> {
        self.changes.policies.get(kind).cloned().or_else(|| self.view.policy(kind))
    }

    fn collection(&self, key: &CollectionKey) -> Option<Arc<Collection>> {
        let changed = self.changes.layer(key).and_then(|layer| layer.head.clone());
        changed.or_else(|| self.view.collection(key))
    }

    fn item(&self, key: &CollectionKey, id: &ItemId) -> Option<Arc<Item>> {
        match self.changes.layer(key).and_then(|layer| layer.items.get(id)) {
            Some(changed) => changed.clone(),
            None => self.view.item(key, id),
        }
    }

    fn claim(&self, key: &CollectionKey, number: u64) -> Option<Arc<Claim>> {
        let changed = self.changes.layer(key).and_then(|layer| layer.claims.get(&number));
        changed.cloned().or_else(|| self.view.claim(key, number))
    }

    fn barring(&self, key: &CollectionKey, number: u64) -> Option<Arc<Claim>> {
        let changed = self.changes.layer(key).and_then(|layer| layer.claims.get(&number));
        changed.cloned().or_else(|| self.view.barring(key, number))
    }

    fn claims_of(&self, key: &CollectionKey, holder_id: &str) -> Vec<Arc<Claim>> {
        let mut claims = self.view.claims_of(key, holder_id);
        let Some(layer) = self.changes.layer(key) else { return claims };
        let Some(numbers) = layer.by_holder.get(holder_id) else { return claims };
        claims.retain(|claim| !layer.claims.contains_key(&claim.number));
        let changed = numbers.iter().filter_map(|number| layer.claims.get(number));
        claims.extend(changed.filter(|claim| claim.state == ClaimState::Active).cloned());
        claims.sort_by_key(|claim| claim.number);
        claims
    }

    fn active_claims(&self, key: &CollectionKey) -> Vec<u64> {
        let mut numbers = self.view.active_claims(key);
        let Some(layer) = self.changes.layer(key) else { return numbers };
        numbers.retain(|number| !layer.claims.contains_key(number));
        let changed = layer.claims.values().filter(|claim| claim.state == ClaimState::Active);
        numbers.extend(changed.map(|claim| claim.number));
        numbers.sort_unstable();
        numbers
    }
}
