//! The working paper of one decision: it reads through to the rows, keeps every change to itself, and
//! is thrown away whole when the command is refused.

use std::sync::Arc;

use crate::{
    Beat, Claim, ClaimState, Collection, CollectionKey, Event, Fact, Item, ItemId, Policy, Principal, Rows,
    RowsMut, Sealed, Text, fold,
};

/// Rows as they would be if the decision were committed.
pub(crate) struct Draft<'a> {
    rows: &'a dyn Rows,
    pub(crate) key: &'a CollectionKey,
    pub(crate) actor: &'a Principal,
    pub(crate) now_ms: i64,
    /// The collection's head, read once: every decision needs it several times.
    pub(crate) head: Option<Arc<Collection>>,
    pub(crate) head_changed: bool,
    /// Changed items in order of their ids, few: a sorted list needs one allocation.
    pub(crate) items: Vec<(ItemId, Option<Arc<Item>>)>,
    /// Changed claims in order of their numbers.
    pub(crate) claims: Vec<Arc<Claim>>,
    pub(crate) policies: Vec<(Text, Arc<Policy>)>,
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
            head: rows.collection(key),
            head_changed: false,
            items: Vec::new(),
            claims: Vec::new(),
            policies: Vec::new(),
            events: Vec::new(),
            beaten: Vec::new(),
        }
    }

    /// The number that the next event will have.
    pub(crate) fn next_seq(&self) -> u64 {
        self.head.as_ref().map_or(0, |head| head.seq) + 1
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
        let previous = self.head.as_ref().map(|head| head.hash).unwrap_or_default();
        let sealed = Arc::new(Sealed::new(&previous, Event { seq, at_ms: self.now_ms, actor, fact }));
        let key = self.key;
        fold::apply(self, key, &sealed.event, sealed.hash);
        self.events.push(sealed);
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
        let claims = self.beaten.iter().filter_map(|number| self.changed_claim(*number));
        let beats = claims.map(|claim| Beat {
            claim: claim.number,
            heartbeat_at_ms: claim.heartbeat_at_ms,
            expires_at_ms: claim.expires_at_ms,
            idle: claim.idle,
        });
        beats.collect()
    }

    fn changed_claim(&self, number: u64) -> Option<&Arc<Claim>> {
        let index = self.claims.binary_search_by_key(&number, |claim| claim.number).ok()?;
        Some(&self.claims[index])
    }

    fn change_item(&mut self, id: &ItemId, item: Option<Arc<Item>>) {
        match self.items.binary_search_by(|(changed, _)| changed.cmp(id)) {
            Ok(index) => self.items[index].1 = item,
            Err(index) => self.items.insert(index, (id.clone(), item)),
        }
    }
}

impl Rows for Draft<'_> {
    fn epoch(&self) -> u64 {
        self.rows.epoch()
    }

    fn policy(&self, kind: &str) -> Option<Arc<Policy>> {
        let changed = self.policies.iter().rev().find(|(changed, _)| &**changed == kind);
        changed.map(|(_, policy)| policy.clone()).or_else(|| self.rows.policy(kind))
    }

    fn collection(&self, key: &CollectionKey) -> Option<Arc<Collection>> {
        debug_assert_eq!(key, self.key, "a decision stays in its collection");
        self.head.clone()
    }

    fn item(&self, key: &CollectionKey, id: &ItemId) -> Option<Arc<Item>> {
        match self.items.binary_search_by(|(changed, _)| changed.cmp(id)) {
            Ok(index) => self.items[index].1.clone(),
            Err(_) => self.rows.item(key, id),
        }
    }

    fn claim(&self, key: &CollectionKey, number: u64) -> Option<Arc<Claim>> {
        self.changed_claim(number).cloned().or_else(|| self.rows.claim(key, number))
    }

    fn barring(&self, key: &CollectionKey, number: u64) -> Option<Arc<Claim>> {
        self.changed_claim(number).cloned().or_else(|| self.rows.barring(key, number))
    }

    fn claims_of(&self, key: &CollectionKey, holder_id: &str) -> Vec<Arc<Claim>> {
        let untouched = self.rows.claims_of(key, holder_id);
        let untouched = untouched.into_iter().filter(|claim| self.changed_claim(claim.number).is_none());
        let changed = self
            .claims
            .iter()
            .filter(|claim| claim.state == ClaimState::Active && &*claim.holder.id == holder_id);
        let mut claims: Vec<_> = untouched.chain(changed.cloned()).collect();
        claims.sort_by_key(|claim| claim.number);
        claims
    }

    fn active_claims(&self, key: &CollectionKey) -> Vec<u64> {
        let untouched = self.rows.active_claims(key);
        let untouched = untouched.into_iter().filter(|number| self.changed_claim(*number).is_none());
        let changed = self.claims.iter().filter(|claim| claim.state == ClaimState::Active);
        let mut numbers: Vec<_> = untouched.chain(changed.map(|claim| claim.number)).collect();
        numbers.sort_unstable();
        numbers
    }
}

impl RowsMut for Draft<'_> {
    fn put_policy(&mut self, kind: &str, policy: Arc<Policy>) {
        self.policies.push((Text::from(kind), policy));
    }

    fn put_collection(&mut self, _key: &CollectionKey, collection: Arc<Collection>) {
        self.head = Some(collection);
        self.head_changed = true;
    }

    fn put_item(&mut self, _key: &CollectionKey, item: Arc<Item>) {
        let id = item.id.clone();
        self.change_item(&id, Some(item));
    }

    fn remove_item(&mut self, _key: &CollectionKey, id: &ItemId) {
        self.change_item(id, None);
    }

    fn put_claim(&mut self, _key: &CollectionKey, claim: Arc<Claim>) {
        match self.claims.binary_search_by_key(&claim.number, |changed| changed.number) {
            Ok(index) => self.claims[index] = claim,
            Err(index) => self.claims.insert(index, claim),
        }
    }
}
