//! Claim 1..n items, all or nothing.

use std::sync::Arc;

use super::held::{active_claim, is_holder, look};
use crate::command::{Acquire, How};
use crate::draft::Draft;
use crate::event::{Forced, Grant, GrantedItem};
use crate::timer::{is_renewable, renewed_deadline_ms, settle};
use crate::{Claim, ClaimState, Fact, ItemId, Policy, Refusal, Reply, Rows, SessionId, Text};

pub(crate) fn acquire(draft: &mut Draft<'_>, policy: &Policy, acquire: &Acquire) -> Result<Reply, Refusal> {
    check(policy, acquire)?;
    if let Some(claim) = claim_of_session(draft, policy, acquire) {
        return Ok(Reply::Acquired { claim, how: How::Existing });
    }
    if let Some(claim) = own_claim_on_all(draft, policy, acquire)
        && !names_finished(draft, policy, acquire)
    {
        return Ok(renew(draft, policy, &claim, acquire.ttl_ms, None));
    }
    let mut granted = Vec::with_capacity(acquire.items.len());
    let mut unavailable = Vec::new();
    for id in &acquire.items {
        match look(draft, policy, id)? {
            Ok(item) => granted.push(item),
            Err(item) => unavailable.push(item),
        }
    }
    if !unavailable.is_empty() {
        return Err(Refusal::unavailable(unavailable));
    }
    check_holder_limit(draft, policy)?;
    let ttl_ms = acquire.ttl_ms.unwrap_or(policy.first_phase().ttl_ms);
    let terms = Terms { session: acquire.session.clone(), ttl_ms, data: acquire.data.clone(), forced: None };
    Ok(Reply::Acquired { claim: grant(draft, policy, granted, terms), how: How::New })
}

/// How a claim is granted.
pub(crate) struct Terms {
    pub(crate) session: Option<SessionId>,
    pub(crate) ttl_ms: i64,
    pub(crate) data: Option<crate::Json>,
    pub(crate) forced: Option<Forced>,
}

/// Grants the items to the actor. The caller has found them free.
pub(crate) fn grant(
    draft: &mut Draft<'_>,
    policy: &Policy,
    items: Vec<GrantedItem>,
    terms: Terms,
) -> Arc<Claim> {
    let phase = policy.first_phase();
    let expires_at_ms = if phase.renew {
        renewed_deadline_ms(policy, draft.now_ms, terms.ttl_ms, draft.now_ms)
    } else {
        draft.now_ms + terms.ttl_ms
    };
    let number = draft.next_seq();
    draft.record(Fact::Granted(Grant {
        items,
        holder: draft.actor.clone(),
        session: terms.session,
        phase: phase.name.clone(),
        ttl_ms: terms.ttl_ms,
        expires_at_ms,
        data: terms.data,
        forced: terms.forced,
    }));
    draft.claim(draft.key, number).expect("a granted claim is there")
}

/// The holder asks again for what it holds: renewed where the phase allows, else as it was.
pub(crate) fn renew(
    draft: &mut Draft<'_>,
    policy: &Policy,
    claim: &Arc<Claim>,
    ttl_ms: Option<i64>,
    note: Option<Text>,
) -> Reply {
    if !is_renewable(policy, claim) {
        return Reply::Acquired { claim: claim.clone(), how: How::Existing };
    }
    let ttl_ms = ttl_ms.unwrap_or(claim.ttl_ms);
    // A shorter TTL or a stricter policy takes no time away: the holder's other tab may count on it.
    let expires_at_ms =
        renewed_deadline_ms(policy, draft.now_ms, ttl_ms, draft.now_ms).max(claim.expires_at_ms);
    draft.record(Fact::Renewed { claim: claim.number, ttl_ms, expires_at_ms, note });
    let claim = draft.claim(draft.key, claim.number).expect("a renewed claim is there");
    Reply::Acquired { claim, how: How::Renewed }
}

fn check(policy: &Policy, acquire: &Acquire) -> Result<(), Refusal> {
    if acquire.items.is_empty() {
        return Err(Refusal::invalid("items", "must name at least one item"));
    }
    if acquire.items.len() > policy.max_items {
        return Err(Refusal::Limit { limit: Text::from("max_items"), max: policy.max_items as u64 });
    }
    if acquire.items.len() > 1 && names_one_twice(&acquire.items) {
        return Err(Refusal::invalid("items", "names an item twice"));
    }
    if acquire.ttl_ms.is_some_and(|ttl_ms| !(policy.ttl_ms_min..=policy.ttl_ms_max).contains(&ttl_ms)) {
        let detail = format!("must be {} to {} for this kind", policy.ttl_ms_min, policy.ttl_ms_max);
        return Err(Refusal::invalid("ttl_ms", detail));
    }
    if acquire.wait_ms.is_some_and(|wait_ms| !(0..=policy.max_wait_ms).contains(&wait_ms)) {
        let detail = format!("must be 0 to {} for this kind", policy.max_wait_ms);
        return Err(Refusal::invalid("wait_ms", detail));
    }
    Ok(())
}

fn names_one_twice(items: &[ItemId]) -> bool {
    let mut sorted: Vec<&ItemId> = items.iter().collect();
    sorted.sort_unstable();
    sorted.windows(2).any(|pair| pair[0] == pair[1])
}

/// A kind with one claim per session gives the session's own one back, its timer untouched.
fn claim_of_session(draft: &mut Draft<'_>, policy: &Policy, acquire: &Acquire) -> Option<Arc<Claim>> {
    if !policy.one_claim_per_session || acquire.session.is_none() {
        return None;
    }
    for claim in draft.claims_of(draft.key, &draft.actor.id) {
        if claim.session == acquire.session {
            let claim = settle(draft, policy, claim);
            if claim.state == ClaimState::Active {
                return Some(claim);
            }
        }
    }
    None
}

/// One claim of the actor's that holds everything that is asked for.
fn own_claim_on_all(draft: &mut Draft<'_>, policy: &Policy, acquire: &Acquire) -> Option<Arc<Claim>> {
    let item = draft.item(draft.key, acquire.items.first()?)?;
    let claim = active_claim(draft, policy, &item)?;
    let covers = is_holder(draft, policy, &claim, acquire.session.as_ref())
        && acquire.items.iter().all(|id| claim.items.contains(id));
    covers.then_some(claim)
}

/// What is finished is never claimed again, not even by the one who finished it and still holds it.
fn names_finished(draft: &Draft<'_>, policy: &Policy, acquire: &Acquire) -> bool {
    let mut items = acquire.items.iter().filter_map(|id| draft.item(draft.key, id));
    items.any(|item| policy.finished.contains(&item.status))
}

fn check_holder_limit(draft: &mut Draft<'_>, policy: &Policy) -> Result<(), Refusal> {
    let Some(max) = policy.max_claims_per_holder else { return Ok(()) };
    let claims = draft.claims_of(draft.key, &draft.actor.id);
    let mut active = 0;
    for claim in claims {
        if settle(draft, policy, claim).state == ClaimState::Active {
            active += 1;
        }
    }
    if active >= max {
        return Err(Refusal::Limit { limit: Text::from("max_claims_per_holder"), max: max as u64 });
    }
    Ok(())
}
