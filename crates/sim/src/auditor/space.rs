//! The auditor's own rows and its own fold: what a collection must look like after the events that
//! were committed. Written from the meaning of the facts, not from `core`'s fold; `core`'s row types
//! are used as plain data, so that they can be compared.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tenure_core::event::{Acted, Grant, GrantedItem, Written};
use tenure_core::{Claim, ClaimState, EndReason, Event, Fact, Hash, Item, ItemId};

/// One collection as the auditor believes it to be.
#[derive(Clone, Debug, Default)]
pub(crate) struct Space {
    pub(crate) exists: bool,
    pub(crate) seq: u64,
    pub(crate) hash: Hash,
    pub(crate) created_at_ms: i64,
    pub(crate) items: BTreeMap<ItemId, Arc<Item>>,
    pub(crate) claims: BTreeMap<u64, Arc<Claim>>,
    pub(crate) active: BTreeSet<u64>,
}

impl Space {
    pub(crate) fn claim(&self, number: u64) -> Option<&Claim> {
        self.claims.get(&number).map(|claim| &**claim)
    }

    /// The event happened.
    pub(crate) fn fold(&mut self, event: &Event) {
        if !self.exists {
            self.exists = true;
            self.created_at_ms = event.at_ms;
        }
        self.seq = event.seq;
        match &event.fact {
            Fact::CollectionCreated
            | Fact::Nudged { .. }
            | Fact::Restored { .. }
            | Fact::PolicySet { .. } => {}
            Fact::Granted(grant) => self.fold_grant(event, grant),
            Fact::Renewed { claim, ttl_ms, expires_at_ms, note: _ } => self.edit(*claim, |claim| {
                claim.ttl_ms = *ttl_ms;
                claim.expires_at_ms = *expires_at_ms;
                claim.acted_at_ms = event.at_ms;
                claim.heartbeat_at_ms = event.at_ms;
                claim.idle = false;
            }),
            Fact::ItemAdded { claim, item } => {
                self.fold_granted_item(event, item, *claim);
                self.edit(*claim, |claim| {
                    claim.token = event.seq;
                    claim.items = claim.items.iter().chain([&item.id]).cloned().collect();
                    claim.acted_at_ms = event.at_ms;
                    claim.idle = false;
                });
            }
            Fact::ItemRemoved { claim, item } => {
                self.edit_item(item, |item| item.claim = 0);
                self.edit(*claim, |claim| {
                    claim.acted_at_ms = event.at_ms;
                    claim.idle = false;
                    claim.items = claim.items.iter().filter(|held| *held != item).cloned().collect();
                });
            }
            Fact::Advanced { claim, from: _, phase, since_ms, ttl_ms, expires_at_ms } => {
                let by_itself = &*event.actor.id == super::SYSTEM_ID;
                self.edit(*claim, |claim| {
                    claim.phase = phase.clone();
                    claim.phase_since_ms = *since_ms;
                    claim.ttl_ms = *ttl_ms;
                    claim.expires_at_ms = *expires_at_ms;
                    claim.idle = false;
                    if !by_itself {
                        claim.heartbeat_at_ms = event.at_ms;
                        claim.acted_at_ms = event.at_ms;
                    }
                });
            }
            Fact::Ended(end) => {
                for completed in &end.writes {
                    self.fold_write(event, &completed.write);
                }
                self.edit(end.claim, |claim| {
                    claim.state = state_after(end.reason);
                    claim.reason = Some(end.reason);
                    claim.ended_at_ms = Some(end.ended_at_ms);
                    claim.blocked_until_ms = end.blocked_until_ms;
                });
                self.active.remove(&end.claim);
            }
            Fact::ItemPut { write, before: _, under } => {
                self.fold_write(event, write);
                self.fold_action(event, under.as_ref());
            }
            Fact::ItemDeleted { before, under } => {
                self.items.remove(&before.id);
                self.fold_action(event, under.as_ref());
            }
            Fact::Resumed { shift_ms } => {
                for number in self.active.clone() {
                    self.edit(number, |claim| {
                        claim.expires_at_ms += shift_ms;
                        claim.acted_at_ms += shift_ms;
                    });
                }
            }
        }
    }

    /// A heartbeat was granted. `None`: it was only noted that the holder is idle.
    pub(crate) fn beat(&mut self, number: u64, renewed: Option<(i64, i64)>) {
        self.edit(number, |claim| match renewed {
            Some((now_ms, expires_at_ms)) => {
                claim.heartbeat_at_ms = now_ms;
                claim.expires_at_ms = expires_at_ms;
                claim.idle = false;
            }
            None => claim.idle = true,
        });
    }

    fn fold_grant(&mut self, event: &Event, grant: &Grant) {
        for item in &grant.items {
            self.fold_granted_item(event, item, event.seq);
        }
        let claim = Claim {
            number: event.seq,
            token: event.seq,
            items: grant.items.iter().map(|item| item.id.clone()).collect(),
            holder: grant.holder.clone(),
            session: grant.session.clone(),
            state: ClaimState::Active,
            reason: None,
            ended_at_ms: None,
            blocked_until_ms: 0,
            phase: grant.phase.clone(),
            phase_since_ms: event.at_ms,
            ttl_ms: grant.ttl_ms,
            since_ms: event.at_ms,
            heartbeat_at_ms: event.at_ms,
            acted_at_ms: event.at_ms,
            expires_at_ms: grant.expires_at_ms,
            idle: false,
            data: grant.data.clone(),
        };
        self.claims.insert(event.seq, Arc::new(claim));
        self.active.insert(event.seq);
    }

    fn fold_granted_item(&mut self, event: &Event, granted: &GrantedItem, claim: u64) {
        let by = event.actor.id.clone();
        if let Some(item) = self.items.get_mut(&granted.id) {
            let item = Arc::make_mut(item);
            item.fence = event.seq;
            item.claim = claim;
            if let Some(status) = &granted.status {
                item.status = status.clone();
                item.version += 1;
                item.updated_at_ms = event.at_ms;
                item.updated_by = by;
            }
        } else if let Some(status) = &granted.status {
            let item = Item {
                id: granted.id.clone(),
                status: status.clone(),
                version: 1,
                data: None,
                fence: event.seq,
                claim,
                updated_at_ms: event.at_ms,
                updated_by: by,
            };
            self.items.insert(granted.id.clone(), Arc::new(item));
        }
    }

    fn fold_write(&mut self, event: &Event, write: &Written) {
        let (fence, claim) = self.items.get(&write.id).map_or((0, 0), |item| (item.fence, item.claim));
        let item = Item {
            id: write.id.clone(),
            status: write.status.clone(),
            version: write.version,
            data: write.data.clone(),
            fence,
            claim,
            updated_at_ms: event.at_ms,
            updated_by: event.actor.id.clone(),
        };
        self.items.insert(write.id.clone(), Arc::new(item));
    }

    fn fold_action(&mut self, event: &Event, under: Option<&Acted>) {
        let Some(acted) = under else { return };
        self.edit(acted.claim, |claim| {
            claim.acted_at_ms = event.at_ms;
            claim.expires_at_ms = acted.expires_at_ms;
            claim.idle = false;
        });
    }

    fn edit(&mut self, number: u64, edit: impl FnOnce(&mut Claim)) {
        if let Some(claim) = self.claims.get_mut(&number) {
            edit(Arc::make_mut(claim));
        }
    }

    fn edit_item(&mut self, id: &ItemId, edit: impl FnOnce(&mut Item)) {
        if let Some(item) = self.items.get_mut(id) {
            edit(Arc::make_mut(item));
        }
    }
}

/// The drawing in `rows.rs`, read by another pair of eyes.
pub(crate) fn state_after(reason: EndReason) -> ClaimState {
    match reason {
        EndReason::Released => ClaimState::Released,
        EndReason::Completed => ClaimState::Completed,
        EndReason::Cancelled => ClaimState::Cancelled,
        EndReason::Expired | EndReason::Idle | EndReason::MaxHold => ClaimState::Expired,
        EndReason::ForceReleased | EndReason::TakenOver => ClaimState::Revoked,
    }
}

/// Ran out, for whatever reason.
pub(crate) fn ran_out(reason: EndReason) -> bool {
    state_after(reason) == ClaimState::Expired
}
