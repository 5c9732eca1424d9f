//! Deadlines. A claim is what its deadline says it is, whether or not anyone has swept it: every
//! decision settles the claims that it touches before it looks at them.

use std::sync::Arc;

use crate::draft::Draft;
use crate::event::End;
use crate::{AtEnd, Claim, ClaimState, EndReason, Fact, Phase, Policy, Rows, Text, fold};

/// The claim as it is at this time, for a reader: phases that ended by themselves have advanced, and past
/// its last deadline it has expired, although no event says so yet.
pub fn seen_at(claim: &Claim, policy: &Policy, now_ms: i64) -> Claim {
    let mut seen = claim.clone();
    while let Some(fact) = overdue(policy, &seen, now_ms, now_ms) {
        fold::change_by_deadline(&mut seen, &fact);
    }
    seen
}

/// When others can have the claim's items, should its holder give no further sign of life.
pub fn frees_at_ms(claim: &Claim, policy: &Policy) -> i64 {
    let over = seen_at(claim, policy, i64::MAX);
    over.ended_at_ms.unwrap_or(over.expires_at_ms).max(over.blocked_until_ms)
}

/// The claim as it is now: phases that ended by themselves have advanced, and past its last deadline
/// it has expired. Does nothing to a claim whose time is not up.
pub(crate) fn settle(draft: &mut Draft<'_>, policy: &Policy, claim: Arc<Claim>) -> Arc<Claim> {
    let now_ms = draft.now_ms;
    settle_as_of(draft, policy, claim, now_ms)
}

/// The claim as it was at this time, now or earlier.
pub(crate) fn settle_as_of(
    draft: &mut Draft<'_>,
    policy: &Policy,
    mut claim: Arc<Claim>,
    at_ms: i64,
) -> Arc<Claim> {
    while let Some(fact) = overdue(policy, &claim, at_ms, draft.now_ms) {
        draft.record_as_system(fact);
        claim = draft.claim(draft.key, claim.number).expect("a settled claim stays");
    }
    claim
}

/// What the claim's deadline has made of it by this time; `None` while its time is not up.
fn overdue(policy: &Policy, claim: &Claim, at_ms: i64, now_ms: i64) -> Option<Fact> {
    if claim.state != ClaimState::Active || at_ms < claim.expires_at_ms {
        return None;
    }
    let next = policy.phase(&claim.phase).and_then(|(phase, next)| match phase.at_end {
        AtEnd::Advance => next,
        AtEnd::Release => None,
    });
    Some(match next {
        // The next phase begins where this one ended, not when somebody looked.
        Some(next) => enter(claim, next, claim.expires_at_ms),
        None => Fact::Ended(end_at(policy, claim, why_over(policy, claim), None, now_ms)),
    })
}

/// The claim enters a phase at this time.
pub(crate) fn enter(claim: &Claim, next: &Phase, since_ms: i64) -> Fact {
    Fact::Advanced {
        claim: claim.number,
        from: claim.phase.clone(),
        phase: next.name.clone(),
        since_ms,
        ttl_ms: next.ttl_ms,
        expires_at_ms: since_ms + next.ttl_ms,
    }
}

/// The claim ends for this reason, now or (an expiry) at its deadline.
pub(crate) fn end_of(
    draft: &Draft<'_>,
    policy: &Policy,
    claim: &Claim,
    reason: EndReason,
    note: Option<Text>,
) -> End {
    end_at(policy, claim, reason, note, draft.now_ms)
}

fn end_at(policy: &Policy, claim: &Claim, reason: EndReason, note: Option<Text>, now_ms: i64) -> End {
    let ended_at_ms = claim.expires_at_ms.min(now_ms);
    let delay_ms = if reason.is_unclean() { policy.lock_delay_ms } else { 0 };
    End {
        claim: claim.number,
        reason,
        holder: claim.holder.clone(),
        items: claim.items.clone(),
        ended_at_ms,
        blocked_until_ms: if delay_ms > 0 { ended_at_ms + delay_ms } else { 0 },
        note,
        writes: Vec::new(),
    }
}

/// The deadline that a sign of life sets: `min(now + ttl, acted_at + rolling)`.
pub(crate) fn renewed_deadline_ms(policy: &Policy, now_ms: i64, ttl_ms: i64, acted_at_ms: i64) -> i64 {
    let lease_end_ms = now_ms + ttl_ms;
    policy.rolling_ms.map_or(lease_end_ms, |rolling_ms| lease_end_ms.min(acted_at_ms + rolling_ms))
}

/// Whether the phase that the claim is in can be renewed.
pub(crate) fn is_renewable(policy: &Policy, claim: &Claim) -> bool {
    policy.phase(&claim.phase).is_some_and(|(phase, _)| phase.renew)
}

fn why_over(policy: &Policy, claim: &Claim) -> EndReason {
    let rolled_over =
        || policy.rolling_ms.is_some_and(|rolling_ms| claim.expires_at_ms >= claim.acted_at_ms + rolling_ms);
    if !is_renewable(policy, claim) {
        EndReason::Expired
    } else if claim.idle {
        EndReason::Idle
    } else if rolled_over() {
        EndReason::MaxHold
    } else {
        EndReason::Expired
    }
}
