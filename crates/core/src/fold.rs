//! How an event changes the rows. This is the only code that does: a decision folds its own events
//! into its draft, and a store replays a journal with the same function, so the rows are what the
//! events say by construction.

use std::sync::Arc;

use crate::event::{Acted, Grant, GrantedItem, Written};
use crate::{
    Beat, Claim, ClaimState, Collection, CollectionKey, Event, Fact, Hash, Item, ItemId, Principal, RowsMut,
    Status,
};

/// Applies one event and sets the collection's head to it.
pub fn apply(rows: &mut impl RowsMut, key: &CollectionKey, event: &Event, hash: Hash) {
    let created_at_ms = rows.collection(key).map_or(event.at_ms, |collection| collection.created_at_ms);
    rows.put_collection(key, Arc::new(Collection { seq: event.seq, hash, created_at_ms }));
    match &event.fact {
        Fact::CollectionCreated | Fact::Nudged { .. } | Fact::Restored { .. } => {}
        Fact::Granted(grant) => grant_claim(rows, key, event, grant),
        Fact::Renewed { claim, ttl_ms, expires_at_ms, .. } => change(rows, key, *claim, |claim| {
            claim.ttl_ms = *ttl_ms;
            claim.expires_at_ms = *expires_at_ms;
            claim.heartbeat_at_ms = event.at_ms;
            claim.acted_at_ms = event.at_ms;
            claim.idle = false;
        }),
        Fact::ItemAdded { claim, item } => {
            grant_item(rows, key, event, item, *claim);
            change(rows, key, *claim, |claim| {
                claim.items = claim.items.iter().chain([&item.id]).cloned().collect();
                claim.token = event.seq;
                claim.acted_at_ms = event.at_ms;
                claim.idle = false;
            });
        }
        Fact::ItemRemoved { claim, item } => {
            if let Some(found) = rows.item(key, item) {
                rows.put_item(key, Arc::new(Item { claim: 0, ..(*found).clone() }));
            }
            change(rows, key, *claim, |claim| {
                claim.items = claim.items.iter().filter(|held| *held != item).cloned().collect();
                claim.acted_at_ms = event.at_ms;
                claim.idle = false;
            });
        }
        Fact::Advanced { claim, .. } => {
            let by_holder = event.actor != Principal::system();
            change(rows, key, *claim, |claim| {
                change_by_deadline(claim, &event.fact);
                if by_holder {
                    claim.acted_at_ms = event.at_ms;
                    claim.heartbeat_at_ms = event.at_ms;
                }
            });
        }
        Fact::Ended(end) => {
            for completed in &end.writes {
                put_document(rows, key, event, &completed.write);
            }
            change(rows, key, end.claim, |claim| change_by_deadline(claim, &event.fact));
        }
        Fact::ItemPut { write, under, .. } => {
            put_document(rows, key, event, write);
            act(rows, key, event, under.as_ref());
        }
        Fact::ItemDeleted { before, under } => {
            rows.remove_item(key, &before.id);
            act(rows, key, event, under.as_ref());
        }
        Fact::PolicySet { kind, policy, .. } => rows.put_policy(kind, policy.clone()),
        Fact::Resumed { shift_ms } => {
            // Those that had run out before the pause were ended before this event.
            for number in rows.active_claims(key) {
                change(rows, key, number, |claim| {
                    claim.expires_at_ms += shift_ms;
                    claim.acted_at_ms += shift_ms;
                });
            }
        }
    }
}

/// Applies a heartbeat.
pub fn apply_beat(rows: &mut impl RowsMut, key: &CollectionKey, beat: &Beat) {
    change(rows, key, beat.claim, |claim| {
        claim.heartbeat_at_ms = beat.heartbeat_at_ms;
        claim.expires_at_ms = beat.expires_at_ms;
        claim.idle = beat.idle;
    });
}

/// What a deadline (or an end before it) changes in the claim itself.
pub(crate) fn change_by_deadline(claim: &mut Claim, fact: &Fact) {
    match fact {
        Fact::Advanced { phase, since_ms, ttl_ms, expires_at_ms, .. } => {
            claim.phase = phase.clone();
            claim.phase_since_ms = *since_ms;
            claim.ttl_ms = *ttl_ms;
            claim.expires_at_ms = *expires_at_ms;
            claim.idle = false;
        }
        Fact::Ended(end) => {
            claim.state = end.reason.state();
            claim.reason = Some(end.reason);
            claim.ended_at_ms = Some(end.ended_at_ms);
            claim.blocked_until_ms = end.blocked_until_ms;
        }
        _ => unreachable!("a deadline advances or ends a claim"),
    }
}

fn grant_claim(rows: &mut impl RowsMut, key: &CollectionKey, event: &Event, grant: &Grant) {
    for item in &grant.items {
        grant_item(rows, key, event, item, event.seq);
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
    rows.put_claim(key, Arc::new(claim));
}

fn grant_item(
    rows: &mut impl RowsMut,
    key: &CollectionKey,
    event: &Event,
    granted: &GrantedItem,
    claim: u64,
) {
    let item = match rows.item(key, &granted.id) {
        Some(found) => {
            let mut item = (*found).clone();
            if let Some(status) = &granted.status {
                item.status = status.clone();
                item.version += 1;
                item.updated_at_ms = event.at_ms;
                item.updated_by = event.actor.id.clone();
            }
            Item { fence: event.seq, claim, ..item }
        }
        None => new_item(&granted.id, granted.status.clone(), event, claim),
    };
    rows.put_item(key, Arc::new(item));
}

fn new_item(id: &ItemId, status: Option<Status>, event: &Event, claim: u64) -> Item {
    Item {
        id: id.clone(),
        status: status.expect("a grant that creates an item names its status"),
        version: 1,
        data: None,
        fence: event.seq,
        claim,
        updated_at_ms: event.at_ms,
        updated_by: event.actor.id.clone(),
    }
}

fn put_document(rows: &mut impl RowsMut, key: &CollectionKey, event: &Event, write: &Written) {
    let (fence, claim) = rows.item(key, &write.id).map_or((0, 0), |item| (item.fence, item.claim));
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
    rows.put_item(key, Arc::new(item));
}

fn act(rows: &mut impl RowsMut, key: &CollectionKey, event: &Event, under: Option<&Acted>) {
    if let Some(acted) = under {
        change(rows, key, acted.claim, |claim| {
            claim.acted_at_ms = event.at_ms;
            claim.expires_at_ms = acted.expires_at_ms;
            claim.idle = false;
        });
    }
}

fn change(rows: &mut impl RowsMut, key: &CollectionKey, number: u64, edit: impl FnOnce(&mut Claim)) {
    if let Some(mut claim) = rows.claim(key, number) {
        edit(Arc::make_mut(&mut claim));
        rows.put_claim(key, claim);
    }
}
