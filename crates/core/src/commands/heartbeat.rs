//! Keep a claim alive.

use super::held::own_claim;
use crate::command::NotRenewed;
use crate::draft::Draft;
use crate::timer::{is_renewable, renewed_deadline_ms};
use crate::{Beat, Policy, Refusal, Reply, Rows};

pub(crate) fn heartbeat(
    draft: &mut Draft<'_>,
    policy: &Policy,
    number: u64,
    token: u64,
    idle_ms: Option<i64>,
) -> Result<Reply, Refusal> {
    if idle_ms.is_some_and(|idle_ms| idle_ms < 0) {
        return Err(Refusal::invalid("idle_ms", "must not be negative"));
    }
    let claim = own_claim(draft, policy, number, Some(token))?;
    let unchanged = |reason| Reply::Beat { renewed: false, reason: Some(reason), claim: claim.clone() };
    if !is_renewable(policy, &claim) {
        return Ok(unchanged(NotRenewed::FixedPhase));
    }
    if let (Some(guard_ms), Some(idle_ms)) = (policy.idle_guard_ms, idle_ms)
        && idle_ms >= guard_ms
    {
        // The times stay; only the reason is noted, for when it runs out.
        if !claim.idle {
            draft.beat(&Beat {
                claim: number,
                heartbeat_at_ms: claim.heartbeat_at_ms,
                expires_at_ms: claim.expires_at_ms,
                idle: true,
            });
        }
        return Ok(unchanged(NotRenewed::Idle));
    }
    let expires_at_ms = renewed_deadline_ms(policy, draft.now_ms, claim.ttl_ms, claim.acted_at_ms);
    // The cap was reached by an earlier heartbeat: no heartbeat can move it any more. Two heartbeats
    // within one millisecond also move nothing, but are renewals all the same.
    if expires_at_ms <= claim.expires_at_ms && expires_at_ms < draft.now_ms + claim.ttl_ms {
        return Ok(unchanged(NotRenewed::MaxHold));
    }
    draft.beat(&Beat {
        claim: number,
        heartbeat_at_ms: draft.now_ms,
        // A policy may have become stricter since; a heartbeat never takes time away.
        expires_at_ms: expires_at_ms.max(claim.expires_at_ms),
        idle: false,
    });
    let claim = draft.claim(draft.key, number).expect("a renewed claim is there");
    Ok(Reply::Beat { renewed: true, reason: None, claim })
}
