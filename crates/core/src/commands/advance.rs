//! Go to the next phase.

use super::held::own_claim;
use crate::draft::Draft;
use crate::timer::enter;
use crate::{Policy, Refusal, Reply, Rows};

pub(crate) fn advance(draft: &mut Draft<'_>, policy: &Policy, number: u64) -> Result<Reply, Refusal> {
    let claim = own_claim(draft, policy, number, None)?;
    let Some((_, Some(next))) = policy.phase(&claim.phase) else {
        return Err(Refusal::WrongPhase { phase: claim.phase.clone() });
    };
    draft.record(enter(&claim, next, draft.now_ms));
    Ok(Reply::Claim { claim: draft.claim(draft.key, number).expect("an advanced claim is there") })
}
