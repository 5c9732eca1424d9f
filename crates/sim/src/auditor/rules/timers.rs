//! What time alone does to a claim.

use tenure_core::event::End;
use tenure_core::{AtEnd, Claim, ClaimState, EndReason, Fact, Phase, Policy, Text};

use crate::auditor::space::{Space, ran_out};

/// The phase the claim is in, and its place; none if the policy has forgotten it.
pub(super) fn phase_of<'p>(policy: &'p Policy, claim: &Claim) -> Option<(usize, &'p Phase)> {
    policy.phases.iter().enumerate().find(|(_, phase)| phase.name == claim.phase)
}

/// The next phase of the walk, which side phases are no part of.
pub(super) fn after(policy: &Policy, index: usize) -> Option<&Phase> {
    let mut later = policy.phases.iter().skip(index + 1);
    if policy.phases[index].side { None } else { later.find(|phase| !phase.side) }
}

pub(super) fn renewable(policy: &Policy, claim: &Claim) -> bool {
    phase_of(policy, claim).is_some_and(|(_, phase)| phase.renew)
}

/// `min(now + ttl, acted_at + rolling)`.
pub(super) fn lease_end(policy: &Policy, now_ms: i64, ttl_ms: i64, acted_at_ms: i64) -> i64 {
    match policy.rolling_ms {
        Some(rolling_ms) => std::cmp::min(now_ms + ttl_ms, acted_at_ms + rolling_ms),
        None => now_ms + ttl_ms,
    }
}

pub(super) fn overdue(space: &Space, policy: &Policy, number: u64, now_ms: i64) -> Option<Fact> {
    let claim = space.claim(number)?;
    if claim.state != ClaimState::Active || now_ms < claim.expires_at_ms {
        return None;
    }
    if let Some((index, phase)) = phase_of(policy, claim)
        && phase.at_end == AtEnd::Advance
        && let Some(next) = after(policy, index)
    {
        return Some(enters(claim, next, claim.expires_at_ms));
    }
    let reason = if !renewable(policy, claim) {
        EndReason::Expired
    } else if claim.idle {
        EndReason::Idle
    } else if policy
        .rolling_ms
        .is_some_and(|rolling_ms| claim.acted_at_ms + rolling_ms <= claim.expires_at_ms)
    {
        EndReason::MaxHold
    } else {
        EndReason::Expired
    };
    Some(Fact::Ended(ends(policy, claim, reason, claim.expires_at_ms, None)))
}

pub(super) fn enters(claim: &Claim, next: &Phase, since_ms: i64) -> Fact {
    Fact::Advanced {
        claim: claim.number,
        from: claim.phase.clone(),
        phase: next.name.clone(),
        since_ms,
        ttl_ms: next.ttl_ms,
        expires_at_ms: since_ms + next.ttl_ms,
    }
}

/// An end, with the lock delay where the holder did not end it itself.
pub(super) fn ends(
    policy: &Policy,
    claim: &Claim,
    reason: EndReason,
    ended_at_ms: i64,
    note: Option<Text>,
) -> End {
    let unclean = ran_out(reason) || reason == EndReason::ForceReleased;
    let blocked_until_ms =
        if unclean && policy.lock_delay_ms > 0 { ended_at_ms + policy.lock_delay_ms } else { 0 };
    End {
        claim: claim.number,
        reason,
        holder: claim.holder.clone(),
        items: claim.items.clone(),
        ended_at_ms,
        blocked_until_ms,
        note,
        writes: Vec::new(),
    }
}
