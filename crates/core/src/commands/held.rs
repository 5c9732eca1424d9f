//! Who holds an item, whether a claim is the actor's, and the granting of items: shared by the commands.

use std::sync::Arc;

use crate::draft::Draft;
use crate::event::{Acted, GrantedItem};
use crate::limits::TEXT_BYTES_MAX;
use crate::refusal::{Unavailable, Why};
use crate::timer::{is_renewable, renewed_deadline_ms, settle};
use crate::{Claim, ClaimState, Item, ItemId, Policy, Refusal, Rows, SessionId};

/// The claim that last took the item, settled, if it may still matter to the item. It may be over.
fn last_claim(draft: &mut Draft<'_>, policy: &Policy, item: &Item) -> Option<Arc<Claim>> {
    let claim = draft.barring(draft.key, item.claim)?;
    Some(settle(draft, policy, claim))
}

/// The claim that holds the item now.
pub(crate) fn active_claim(draft: &mut Draft<'_>, policy: &Policy, item: &Item) -> Option<Arc<Claim>> {
    last_claim(draft, policy, item).filter(|claim| claim.state == ClaimState::Active)
}

/// Who holds it, in the words of a refusal: with the session where that is part of who.
pub(crate) fn held_by(policy: &Policy, claim: &Claim) -> Why {
    Why::Held {
        holder: claim.holder.clone(),
        session: claim.session.clone().filter(|_| policy.session_exclusive),
        since_ms: claim.since_ms,
        until_ms: claim.expires_at_ms,
    }
}

/// Whether the actor, in this session, is the claim's holder asking again.
pub(crate) fn is_holder(
    draft: &Draft<'_>,
    policy: &Policy,
    claim: &Claim,
    session: Option<&SessionId>,
) -> bool {
    claim.holder.id == draft.actor.id && (!policy.session_exclusive || claim.session.as_ref() == session)
}

/// The actor's own active claim, with the right token if one is given.
pub(crate) fn own_claim(
    draft: &mut Draft<'_>,
    policy: &Policy,
    number: u64,
    token: Option<u64>,
) -> Result<Arc<Claim>, Refusal> {
    let claim = any_claim(draft, policy, number)?;
    if claim.holder.id != draft.actor.id {
        return Err(Refusal::NotHolder { holder: claim.holder.clone() });
    }
    require_active(draft, policy, &claim)?;
    check_token(&claim, token)?;
    Ok(claim)
}

/// Refuses a token that is not the claim's, if one is given.
pub(crate) fn check_token(claim: &Claim, token: Option<u64>) -> Result<(), Refusal> {
    match token {
        // A claim that gained an item has a newer token; the older ones still name this very hold.
        Some(given) if given < claim.number || given > claim.token => {
            Err(Refusal::StaleToken { given, current: claim.token })
        }
        _ => Ok(()),
    }
}

/// Anybody's claim, settled.
pub(crate) fn any_claim(draft: &mut Draft<'_>, policy: &Policy, number: u64) -> Result<Arc<Claim>, Refusal> {
    let claim = draft.claim(draft.key, number).ok_or_else(|| Refusal::not_found("claim", number))?;
    Ok(settle(draft, policy, claim))
}

/// Refuses an ended claim with its end and who came after it.
pub(crate) fn require_active(draft: &mut Draft<'_>, policy: &Policy, claim: &Claim) -> Result<(), Refusal> {
    let Some(reason) = claim.reason else { return Ok(()) };
    let mut holder = None;
    for id in claim.items.iter() {
        let Some(item) = draft.item(draft.key, id) else { continue };
        if let Some(current) = active_claim(draft, policy, &item) {
            holder = Some(current.holder.clone());
            break;
        }
    }
    Err(Refusal::Lost { reason, ended_at_ms: claim.ended_at_ms.unwrap_or(draft.now_ms), holder })
}

/// The item as a grant would take it, or why it cannot be had. `Err` only where it does not exist.
pub(crate) fn look(
    draft: &mut Draft<'_>,
    policy: &Policy,
    id: &ItemId,
) -> Result<Result<GrantedItem, Unavailable>, Refusal> {
    let Some(item) = draft.item(draft.key, id) else {
        if !policy.create_on_claim {
            return Err(Refusal::not_found("item", id));
        }
        let status = policy.status_on_claim.as_ref().unwrap_or(policy.initial_status()).clone();
        return Ok(Ok(GrantedItem { id: id.clone(), status: Some(status), before: None }));
    };
    let unavailable = |why| Ok(Err(Unavailable { item: id.clone(), why }));
    if policy.finished.contains(&item.status) {
        return unavailable(Why::Finished { status: item.status.clone() });
    }
    if !policy.claimable.contains(&item.status) {
        return unavailable(Why::NotClaimable { status: item.status.clone() });
    }
    match last_claim(draft, policy, &item) {
        Some(claim) if claim.state == ClaimState::Active => unavailable(held_by(policy, &claim)),
        Some(claim) if draft.now_ms < claim.blocked_until_ms => {
            unavailable(Why::Delayed { holder: claim.holder.clone(), until_ms: claim.blocked_until_ms })
        }
        _ => Ok(Ok(granted(policy, &item))),
    }
}

/// The item as a grant takes it.
pub(crate) fn granted(policy: &Policy, item: &Item) -> GrantedItem {
    let status = policy.status_on_claim.as_ref().filter(|status| **status != item.status).cloned();
    GrantedItem { id: item.id.clone(), status, before: Some(item.status.clone()) }
}

/// A real action under the claim: in a renewable phase it renews as a heartbeat would.
pub(crate) fn acted(draft: &Draft<'_>, policy: &Policy, claim: &Claim) -> Acted {
    let expires_at_ms = if is_renewable(policy, claim) {
        renewed_deadline_ms(policy, draft.now_ms, claim.ttl_ms, draft.now_ms).max(claim.expires_at_ms)
    } else {
        claim.expires_at_ms
    };
    Acted { claim: claim.number, expires_at_ms }
}

/// Checks a text that people write for people.
pub(crate) fn check_text(field: &'static str, text: &str, required: bool) -> Result<(), Refusal> {
    if required && text.trim().is_empty() {
        return Err(Refusal::invalid(field, "must not be empty"));
    }
    if text.len() > TEXT_BYTES_MAX {
        return Err(Refusal::invalid(field, "has more than 2,000 bytes"));
    }
    Ok(())
}
