//! Claims from their events, where nothing else of a collection is at hand.

use std::sync::Arc;

use tenure_core::{
    Claim, ClaimState, Collection, CollectionKey, Item, ItemId, Policy, Rows, RowsMut, Status, Text,
};

use crate::Map;

/// Rows in which only claims matter, or only one of them. Every item seems to be there, and no change to one
/// is kept.
#[derive(Debug, Default)]
pub(crate) struct ClaimsOnly {
    only: Option<u64>,
    claims: Map<u64, Arc<Claim>>,
}

impl ClaimsOnly {
    /// Only one claim matters.
    pub(crate) fn only(number: u64) -> Self {
        Self { only: Some(number), claims: Map::default() }
    }

    /// Takes out a claim that has ended, as its events tell it.
    pub(crate) fn take_ended(&mut self, number: u64) -> Option<Arc<Claim>> {
        if self.claims.get(&number)?.state == ClaimState::Active {
            return None;
        }
        let mut claim = self.claims.remove(&number)?;
        if claim.state == ClaimState::Expired {
            // It ended at its deadline, wherever heartbeats had moved that.
            let claim = Arc::make_mut(&mut claim);
            claim.expires_at_ms = claim.ended_at_ms.unwrap_or(claim.expires_at_ms);
        }
        Some(claim)
    }
}

impl Rows for ClaimsOnly {
    fn policy(&self, _kind: &str) -> Option<Arc<Policy>> {
        None
    }

    fn collection(&self, _key: &CollectionKey) -> Option<Arc<Collection>> {
        None
    }

    fn item(&self, _key: &CollectionKey, id: &ItemId) -> Option<Arc<Item>> {
        Some(Arc::new(Item {
            id: id.clone(),
            status: Status::new("any").expect("a valid status"),
            version: 0,
            data: None,
            fence: 0,
            claim: 0,
            updated_at_ms: 0,
            updated_by: Text::from(""),
        }))
    }

    fn claim(&self, _key: &CollectionKey, number: u64) -> Option<Arc<Claim>> {
        self.claims.get(&number).cloned()
    }

    fn claims_of(&self, _key: &CollectionKey, _holder_id: &str) -> Vec<Arc<Claim>> {
        Vec::new()
    }

    fn active_claims(&self, _key: &CollectionKey) -> Vec<u64> {
        let active = self.claims.values().filter(|claim| claim.state == ClaimState::Active);
        active.map(|claim| claim.number).collect()
    }
}

impl RowsMut for ClaimsOnly {
    fn put_policy(&mut self, _kind: &str, _policy: Arc<Policy>) {}

    fn put_collection(&mut self, _key: &CollectionKey, _collection: Arc<Collection>) {}

    fn put_item(&mut self, _key: &CollectionKey, _item: Arc<Item>) {}

    fn remove_item(&mut self, _key: &CollectionKey, _id: &ItemId) {}

    fn put_claim(&mut self, _key: &CollectionKey, claim: Arc<Claim>) {
        if self.only.is_none_or(|only| only == claim.number) {
            self.claims.insert(claim.number, claim);
        }
    }
}
