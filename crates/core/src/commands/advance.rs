//! Go to the next phase, or to one by its name.

use super::held::own_claim;
use crate::draft::Draft;
use crate::timer;
use crate::{Claim, Phase, Policy, Refusal, Reply, Rows};

pub(crate) fn advance(draft: &mut Draft<'_>, policy: &Policy, number: u64) -> Result<Reply, Refusal> {
    let claim = own_claim(draft, policy, number, None)?;
    let Some((_, Some(next))) = policy.phase(&claim.phase) else {
        return Err(Refusal::WrongPhase { phase: claim.phase.clone() });
    };
    Ok(go(draft, &claim, next))
}

/// A side phase stands beside the walk: from a phase of the walk into it, from it into another or back.
pub(crate) fn enter(
    draft: &mut Draft<'_>,
    policy: &Policy,
    number: u64,
    name: &str,
    ttl_ms: Option<i64>,
) -> Result<Reply, Refusal> {
    let Some((phase, _)) = policy.phase(name) else {
        return Err(Refusal::invalid("phase", "is not a phase of this kind"));
    };
    let ttl_ms = ttl_ms.unwrap_or(phase.ttl_ms);
    if !(1..=phase.ttl_ms).contains(&ttl_ms) {
        return Err(Refusal::invalid("ttl_ms", format!("must be 1 to {} for this phase", phase.ttl_ms)));
    }
    let claim = own_claim(draft, policy, number, None)?;
    let aside = policy.phase(&claim.phase).is_none_or(|(current, _)| current.side);
    if claim.phase == phase.name || !(phase.side || aside) {
        return Err(Refusal::WrongPhase { phase: claim.phase.clone() });
    }
    Ok(go(draft, &claim, &Phase { ttl_ms, ..phase.clone() }))
}

fn go(draft: &mut Draft<'_>, claim: &Claim, next: &Phase) -> Reply {
    draft.record(timer::enter(claim, next, draft.now_ms));
    Reply::Claim { claim: draft.claim(draft.key, claim.number).expect("an advanced claim is there") }
}
