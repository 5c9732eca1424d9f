//! The working paper of one decision: it reads through to the rows, keeps every change to itself, and
//! is thrown away whole when the command is refused.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::{
    Beat, Claim, ClaimState, Collection, CollectionKey, Event, Fact, Item, ItemId, Policy, Principal, Rows,
    RowsMut, Sealed, fold,
};

/// Rows as they would be if the decision were committed.
pub(crate) struct Draft<'a> {
    rows: &'a dyn Rows,
    pub(crate) key: &'a CollectionKey,
    pub(crate) actor: &'a Principal,
    pub(crate) now_ms: i64,
    pub(crate) collection: Option<Arc<Collection>>,
    pub(crate) items: BTreeMap<ItemId, Option<Arc<Item>>>,
    pub(crate) claims: BTreeMap<u64, Arc<Claim>>,
    pub(crate) policies: Vec<(Arc<str>, Arc<Policy>)>,
    pub(crate) events: Vec<Arc<Sealed>>,
    /// The claims that a heartbeat changed.
    beaten: Vec<u64>,
}

impl<'a> Draft<'a> {
    pub(crate) fn new(rows: &'a dyn Rows, key: &'a CollectionKey, actor: &'a Principal, now_ms: i64) -> Self {
        Self {
            rows,
            key,
            actor,
            now_ms,
            collection: None,
            items: BTreeMap::new(),
            claims: BTreeMap::new(),
            policies: Vec::new(),
            events: Vec::new(),
            beaten: Vec::new(),
        }
    }

    /// The number that the next event will have.
    pub(crate) fn next_seq(&self) -> u64 {
        self.collection(self.key).map_or(0, |collection| collection.seq) + 1
    }

    /// The fact happened, by the command's actor.
    pub(crate) fn record(&mut self, fact: Fact) {
        self.record_at(self.next_seq(), self.actor.clone(), fact);
    }

    /// The fact happened by itself.
    pub(crate) fn record_as_system(&mut self, fact: Fact) {
        self.record_at(self.next_seq(), Principal::system(), fact);
    }

    /// The fact happened under this number. Only a restore chooses its own.
    pub(crate) fn record_at(&mut self, seq: u64, actor: Principal, fact: Fact) {
        let previous = self.collection(self.key).map(|collection| collection.hash).unwrap_or_default();
        let sealed = Sealed::new(&previous, Event { seq, at_ms: self.now_ms, actor, fact });
        let key = self.key;
        fold::apply(self, key, &sealed.event, sealed.hash);
        self.events.push(Arc::new(sealed));
    }

    /// A heartbeat changed a claim.
    pub(crate) fn beat(&mut self, beat: &Beat) {
        let key = self.key;
        fold::apply_beat(self, key, beat);
        if !self.beaten.contains(&beat.claim) {
            self.beaten.push(beat.claim);
        }
    }

    /// The heartbeats as they stand at the end, one for each claim: a store replays a decision's
    /// events first and its heartbeats after them, and must not bring back what an event changed.
    pub(crate) fn final_beats(&self) -> Vec<Beat> {
        let claims = self.beaten.iter().filter_map(|number| self.claims.get(number));
        let beats = claims.map(|claim| Beat {
            claim: claim.number,
            heartbeat_at_ms: claim.heartbeat_at_ms,
            expires_at_ms: claim.expires_at_ms,
            idle: claim.idle,
        });
        beats.collect()
    }
}

impl Rows for Draft<'_> {
    fn policy(&self, kind: &str) -> Option<Arc<Policy>> {
        let changed = self.policies.iter().rev().find(|(changed, _)| &**changed == kind);
        changed.map(|(_, policy)| policy.clone()).or_else(|| self.rows.policy(kind))
    }

    fn collection(&self, key: &CollectionKey) -> Option<Arc<Collection>> {
        self.collection.clone().or_else(|| self.rows.collection(key))
    }

    fn item(&self, key: &CollectionKey, id: &ItemId) -> Option<Arc<Item>> {
        match self.items.get(id) {
            Some(changed) => changed.clone(),
            None => self.rows.item(key, id),
        }
    }

    fn claim(&self, key: &CollectionKey, number: u64) -> Option<Arc<Claim>> {
        self.claims.get(&number).cloned().or_else(|| self.rows.claim(key, number))
    }

    fn claims_of(&self, key: &CollectionKey, holder_id: &str) -> Vec<Arc<Claim>> {
        let untouched = self.rows.claims_of(key, holder_id);
        let untouched = untouched.into_iter().filter(|claim| !self.claims.contains_key(&claim.number));
        let changed = self
            .claims
            .values()
            .filter(|claim| claim.state == ClaimState::Active && &*claim.holder.id == holder_id);
        let mut claims: Vec<_> = untouched.chain(changed.cloned()).collect();
        claims.sort_by_key(|claim| claim.number);
        claims
    }

    fn active_claims(&self, key: &CollectionKey) -> Vec<u64> {
        let untouched = self.rows.active_claims(key);
        let untouched = untouched.into_iter().filter(|number| !self.claims.contains_key(number));
        let changed = self.claims.values().filter(|claim| claim.state == ClaimState::Active);
        let mut numbers: Vec<_> = untouched.chain(changed.map(|claim| claim.number)).collect();
        numbers.sort_unstable();
        numbers
    }
}

impl RowsMut for Draft<'_> {
    fn put_policy(&mut self, kind: &str, policy: Arc<Policy>) {
        self.policies.push((Arc::from(kind), policy));
    }

    fn put_collection(&mut self, _key: &CollectionKey, collection: Arc<Collection>) {
        self.collection = Some(collection);
    }

    fn put_item(&mut self, _key: &CollectionKey, item: Arc<Item>) {
        self.items.insert(item.id.clone(), Some(item));
    }

    fn remove_item(&mut self, _key: &CollectionKey, id: &ItemId) {
        self.items.insert(id.clone(), None);
    }

    fn put_claim(&mut self, _key: &CollectionKey, claim: Arc<Claim>) {
        self.claims.insert(claim.number, claim);
    }
}
