//! The rows in memory: what the memory store is, and what the embedded store keeps beside its journal.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::Arc;

use tenure_core::{
    Beat, Changed, Claim, ClaimState, Collection, CollectionKey, Item, ItemId, Policy, Rows, RowsMut, Sealed,
    Text, fold,
};

use crate::{ClaimFilter, ClaimRow, HeldItem, ItemFilter, Map, Page, Snapshot, Stats};

/// All rows.
#[derive(Clone, Debug, Default)]
pub struct State {
    policies: Map<Text, Arc<Policy>>,
    collections: Map<CollectionKey, CollectionState>,
    /// The keys of `collections`, in order.
    keys: BTreeSet<CollectionKey>,
    active_claims: u64,
}

/// One collection's rows. Items are found by hash, since a decision looks each of them up several times;
/// their ids are kept in order beside it, so that lists page without sorting.
#[derive(Clone, Debug, Default)]
struct CollectionState {
    head: Option<Arc<Collection>>,
    items: Map<ItemId, Arc<Item>>,
    order: BTreeSet<ItemId>,
    /// Claims that are active, or that ended with a lock delay: all that decides who gets an item, and little beside what
    /// ended, so that it stays near.
    barring: Map<u64, Arc<Claim>>,
    /// Those that ended and bar nobody, in order: they come at one end and are forgotten at the other.
    over: BTreeMap<u64, Arc<Claim>>,
    /// The numbers of the active ones.
    active: BTreeSet<u64>,
    by_holder: Map<Text, BTreeSet<u64>>,
}

impl State {
    /// Takes over the rows that a decision changed.
    pub fn take(&mut self, key: &CollectionKey, changed: &Changed) {
        let Changed { collection, items, claims, policies } = changed;
        for (kind, policy) in policies {
            self.policies.insert(kind.clone(), policy.clone());
        }
        if collection.is_none() && items.is_empty() && claims.is_empty() {
            return;
        }
        let active_claims = &mut self.active_claims;
        let state = collection_mut(&mut self.collections, &mut self.keys, key);
        if collection.is_some() {
            state.head.clone_from(collection);
        }
        for (id, item) in items {
            match item {
                Some(item) => state.put_item(item.clone()),
                None => state.remove_item(id),
            }
        }
        for claim in claims {
            state.put_claim(claim.clone(), active_claims);
        }
    }

    /// Sets a collection's items, given in the order of their ids: much faster than one at a time.
    pub fn fill_items(&mut self, key: &CollectionKey, items: Vec<Arc<Item>>) {
        let state = self.collection_mut(key);
        state.order = items.iter().map(|item| item.id.clone()).collect();
        state.items = items.into_iter().map(|item| (item.id.clone(), item)).collect();
    }

    /// Replays an event, as after a restart.
    pub fn replay(&mut self, key: &CollectionKey, sealed: &Sealed) {
        fold::apply(self, key, &sealed.event, sealed.hash);
    }

    /// Replays a heartbeat.
    pub fn replay_beat(&mut self, key: &CollectionKey, beat: &Beat) {
        fold::apply_beat(self, key, beat);
    }

    /// Forgets an ended claim, which is kept elsewhere. An active one stays, and one whose lock delay is not over at this
    /// time: it decides who gets its items. Of the latter it answers the delay's end: ask again then.
    pub fn forget_claim(&mut self, key: &CollectionKey, number: u64, now_ms: i64) -> Option<i64> {
        let state = self.collections.get_mut(key)?;
        if state.over.remove(&number).is_some() {
            return None;
        }
        let claim = state.barring.get(&number).filter(|claim| claim.state != ClaimState::Active)?;
        let until_ms = claim.blocked_until_ms;
        if until_ms > now_ms {
            return Some(until_ms);
        }
        state.barring.remove(&number);
        None
    }

    /// Claims that ended with a lock delay and are in memory, each with the delay's end.
    pub fn delayed(&self) -> impl Iterator<Item = (&CollectionKey, u64, i64)> {
        let barring = self
            .collections
            .iter()
            .flat_map(|(key, state)| state.barring.values().map(move |claim| (key, claim)));
        let ended = barring.filter(|(_, claim)| claim.state != ClaimState::Active);
        ended.map(|(key, claim)| (key, claim.number, claim.blocked_until_ms))
    }

    /// All policies, in no order.
    pub fn policies(&self) -> impl Iterator<Item = (Text, Arc<Policy>)> {
        self.policies.iter().map(|(kind, policy)| (kind.clone(), policy.clone()))
    }

    /// Collections in order, after a key.
    pub fn collections(
        &self,
        after: Option<&CollectionKey>,
        limit: usize,
    ) -> Page<(CollectionKey, Arc<Collection>)> {
        let rows = self.keys.range::<CollectionKey, _>((after.map_or(Unbounded, Excluded), Unbounded));
        let rows = rows.filter_map(|key| Some((key.clone(), self.collections.get(key)?.head.clone()?)));
        page(rows, limit)
    }

    /// Items in order.
    pub fn items(&self, key: &CollectionKey, filter: &ItemFilter, limit: usize) -> Page<Arc<Item>> {
        self.listed(key, filter, limit, |_, item| item.clone())
    }

    /// One item with its claim.
    pub fn held_item(&self, key: &CollectionKey, id: &ItemId) -> Option<HeldItem> {
        let state = self.collections.get(key)?;
        Some(state.held(state.items.get(id)?))
    }

    /// Items in order, each with its claim.
    pub fn held_items(&self, key: &CollectionKey, filter: &ItemFilter, limit: usize) -> Page<HeldItem> {
        self.listed(key, filter, limit, CollectionState::held)
    }

    fn listed<T>(
        &self,
        key: &CollectionKey,
        filter: &ItemFilter,
        limit: usize,
        show: impl Fn(&CollectionState, &Arc<Item>) -> T,
    ) -> Page<T> {
        let Some(state) = self.collections.get(key) else {
            return Page { rows: Vec::new(), more: false };
        };
        let from = filter.after.as_ref().map_or(Unbounded, Excluded);
        let ids = state.order.range::<ItemId, _>((from, Unbounded));
        let rows = ids.filter_map(|id| state.items.get(id));
        let rows = rows.filter(|item| filter.status.as_ref().is_none_or(|status| item.status == *status));
        let rows = rows.filter(|item| {
            filter.held.is_none_or(|(held, now_ms)| {
                let claim = state.barring.get(&item.claim);
                claim.is_some_and(|claim| claim.holds_at(now_ms)) == held
            })
        });
        page(rows.map(|item| show(state, item)), limit)
    }

    /// Claims in order, those that are in memory. A page costs what is on it, not what was before it.
    pub fn claims(&self, filter: &ClaimFilter, limit: usize) -> Page<ClaimRow> {
        let mut rows = Vec::new();
        let after = filter.after.as_ref();
        let from = filter.collection.as_ref().max(after.map(|(key, _)| key));
        for key in self.keys.range::<CollectionKey, _>((from.map_or(Unbounded, Included), Unbounded)) {
            if filter.collection.as_ref().is_some_and(|only| only != key) {
                break;
            }
            let Some(state) = self.collections.get(key) else { continue };
            let after = after.filter(|(after, _)| after == key).map_or(0, |(_, number)| *number);
            let room = limit.saturating_add(1) - rows.len();
            for claim in state.claims_after(after, filter, room) {
                rows.push(ClaimRow { collection: key.clone(), claim: claim.clone() });
            }
            if rows.len() > limit {
                rows.pop();
                return Page { rows, more: true };
            }
        }
        Page { rows, more: false }
    }

    /// One collection at this moment.
    pub fn snapshot(&self, key: &CollectionKey, epoch: u64) -> Option<Snapshot> {
        let state = self.collections.get(key)?;
        let head = state.head.clone()?;
        let items = state.order.iter().filter_map(|id| state.items.get(id)).cloned().collect();
        let claims = state.active.iter().filter_map(|number| state.barring.get(number)).cloned().collect();
        Some(Snapshot { epoch, head, items, claims })
    }

    /// How much there is.
    pub fn stats(&self) -> Stats {
        Stats {
            collections: self.collections.len() as u64,
            items: self.collections.values().map(|state| state.items.len() as u64).sum(),
            active_claims: self.active_claims,
            ..Stats::default()
        }
    }
}

impl State {
    fn collection_mut(&mut self, key: &CollectionKey) -> &mut CollectionState {
        collection_mut(&mut self.collections, &mut self.keys, key)
    }
}

impl CollectionState {
    /// The first claims after a number that a filter lets through, in order.
    fn claims_after(&self, after: u64, filter: &ClaimFilter, limit: usize) -> Vec<&Arc<Claim>> {
        let wanted = |claim: &&Arc<Claim>| {
            filter.holder.as_ref().is_none_or(|holder| claim.holder.id == *holder)
                && filter.state.is_none_or(|wanted| claim.state == wanted)
        };
        let active = match (&filter.holder, filter.state) {
            (Some(holder), Some(ClaimState::Active)) => self.by_holder.get(holder),
            (None, Some(ClaimState::Active)) => Some(&self.active),
            _ => {
                // The others are in no order; only those that are shown are sorted.
                let barring = self.barring.values().filter(|claim| claim.number > after).filter(wanted);
                let over = self.over.range((Excluded(after), Unbounded)).map(|(_, claim)| claim);
                let mut found: Vec<_> = barring.chain(over.filter(wanted).take(limit)).collect();
                if found.len() > limit {
                    found.select_nth_unstable_by_key(limit, |claim| claim.number);
                    found.truncate(limit);
                }
                found.sort_unstable_by_key(|claim| claim.number);
                return found;
            }
        };
        let numbers = active.into_iter().flat_map(|numbers| numbers.range((Excluded(after), Unbounded)));
        numbers.filter_map(|number| self.barring.get(number)).take(limit).collect()
    }

    fn held(&self, item: &Arc<Item>) -> HeldItem {
        let claim = self.barring.get(&item.claim).filter(|claim| claim.state == ClaimState::Active);
        HeldItem { item: item.clone(), claim: claim.cloned() }
    }

    fn put_item(&mut self, item: Arc<Item>) {
        if let Some(known) = self.items.get_mut(&item.id) {
            *known = item;
        } else {
            self.order.insert(item.id.clone());
            self.items.insert(item.id.clone(), item);
        }
    }

    fn remove_item(&mut self, id: &ItemId) {
        self.items.remove(id);
        self.order.remove(id);
    }

    fn put_claim(&mut self, claim: Arc<Claim>, active_claims: &mut u64) {
        let number = claim.number;
        if claim.state == ClaimState::Active {
            if self.active.insert(number) {
                *active_claims += 1;
                self.by_holder.entry(claim.holder.id.clone()).or_default().insert(number);
            }
        } else if self.active.remove(&number) {
            *active_claims -= 1;
            if let Some(numbers) = self.by_holder.get_mut(&claim.holder.id) {
                numbers.remove(&number);
                if numbers.is_empty() {
                    self.by_holder.remove(&claim.holder.id);
                }
            }
        }
        if claim.state == ClaimState::Active || claim.blocked_until_ms > 0 {
            self.barring.insert(number, claim);
        } else {
            self.barring.remove(&number);
            self.over.insert(number, claim);
        }
    }
}

impl Rows for State {
    fn policy(&self, kind: &str) -> Option<Arc<Policy>> {
        self.policies.get(kind).cloned()
    }

    fn collection(&self, key: &CollectionKey) -> Option<Arc<Collection>> {
        self.collections.get(key)?.head.clone()
    }

    fn item(&self, key: &CollectionKey, id: &ItemId) -> Option<Arc<Item>> {
        self.collections.get(key)?.items.get(id).cloned()
    }

    fn claim(&self, key: &CollectionKey, number: u64) -> Option<Arc<Claim>> {
        let state = self.collections.get(key)?;
        state.barring.get(&number).or_else(|| state.over.get(&number)).cloned()
    }

    fn barring(&self, key: &CollectionKey, number: u64) -> Option<Arc<Claim>> {
        self.collections.get(key)?.barring.get(&number).cloned()
    }

    fn claims_of(&self, key: &CollectionKey, holder_id: &str) -> Vec<Arc<Claim>> {
        let Some(state) = self.collections.get(key) else { return Vec::new() };
        let numbers = state.by_holder.get(holder_id).into_iter().flatten();
        numbers.filter_map(|number| state.barring.get(number)).cloned().collect()
    }

    fn active_claims(&self, key: &CollectionKey) -> Vec<u64> {
        self.collections.get(key).map_or_else(Vec::new, |state| state.active.iter().copied().collect())
    }
}

impl RowsMut for State {
    fn put_policy(&mut self, kind: &str, policy: Arc<Policy>) {
        self.policies.insert(Text::from(kind), policy);
    }

    fn put_collection(&mut self, key: &CollectionKey, collection: Arc<Collection>) {
        self.collection_mut(key).head = Some(collection);
    }

    fn put_item(&mut self, key: &CollectionKey, item: Arc<Item>) {
        self.collection_mut(key).put_item(item);
    }

    fn remove_item(&mut self, key: &CollectionKey, id: &ItemId) {
        self.collection_mut(key).remove_item(id);
    }

    fn put_claim(&mut self, key: &CollectionKey, claim: Arc<Claim>) {
        collection_mut(&mut self.collections, &mut self.keys, key).put_claim(claim, &mut self.active_claims);
    }
}

/// The collection's rows, without making a key anew for one that is there.
fn collection_mut<'a>(
    collections: &'a mut Map<CollectionKey, CollectionState>,
    keys: &mut BTreeSet<CollectionKey>,
    key: &CollectionKey,
) -> &'a mut CollectionState {
    if !collections.contains_key(key) {
        keys.insert(key.clone());
        collections.insert(key.clone(), CollectionState::default());
    }
    collections.get_mut(key).expect("just inserted")
}

fn page<T>(rows: impl Iterator<Item = T>, limit: usize) -> Page<T> {
    let mut rows: Vec<T> = rows.take(limit.saturating_add(1)).collect();
    let more = rows.len() > limit;
    rows.truncate(limit);
    Page { rows, more }
}
