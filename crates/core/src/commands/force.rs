//! An administrator frees or takes an item, whoever holds it. The whole claim ends, never half of one.

use super::acquire::{Terms, grant, renew};
use super::held::{active_claim, check_text, granted, is_holder, look};
use crate::command::How;
use crate::draft::Draft;
use crate::event::Forced;
use crate::refusal::{Unavailable, Why};
use crate::timer::end_of;
use crate::{EndReason, Fact, ItemId, Policy, Refusal, Reply, Rows, SessionId, Text};

pub(crate) fn force_release(
    draft: &mut Draft<'_>,
    policy: &Policy,
    id: &ItemId,
    reason: &Text,
) -> Result<Reply, Refusal> {
    check_text("reason", reason, true)?;
    let item = draft.item(draft.key, id).ok_or_else(|| Refusal::not_found("item", id))?;
    let Some(claim) = active_claim(draft, policy, &item) else {
        return Ok(Reply::Freed { claim: None });
    };
    let end = end_of(draft, policy, &claim, EndReason::ForceReleased, Some(reason.clone()));
    draft.record(Fact::Ended(end));
    Ok(Reply::Freed { claim: draft.claim(draft.key, claim.number) })
}

pub(crate) fn force_claim(
    draft: &mut Draft<'_>,
    policy: &Policy,
    id: &ItemId,
    reason: &Text,
    session: Option<&SessionId>,
) -> Result<Reply, Refusal> {
    check_text("reason", reason, true)?;
    let found = draft.item(draft.key, id);
    let current = found.as_ref().and_then(|item| active_claim(draft, policy, item));
    let mut previous = None;
    if let Some(claim) = current {
        if is_holder(draft, policy, &claim, session) {
            return Ok(renew(draft, policy, &claim, None, Some(reason.clone())));
        }
        previous = Some(claim.holder.clone());
        let end = end_of(draft, policy, &claim, EndReason::TakenOver, Some(reason.clone()));
        draft.record(Fact::Ended(end));
    }
    let item = match (look(draft, policy, id)?, &found) {
        (Ok(item), _) => item,
        // The lock delay protects from other people, not from an administrator.
        (Err(Unavailable { why: Why::Delayed { .. }, .. }), Some(item)) => granted(policy, item),
        (Err(item), _) => return Err(Refusal::unavailable(vec![item])),
    };
    let forced = Some(Forced { reason: reason.clone(), previous });
    let ttl_ms = policy.first_phase().ttl_ms;
    let terms = Terms { session: session.cloned(), ttl_ms, data: None, forced };
    let claim = grant(draft, policy, vec![item], terms);
    Ok(Reply::Acquired { claim, how: How::New })
}
