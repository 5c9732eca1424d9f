//! What Tenure asks of itself: policies, expiry, the clock after a pause, a restore.

use std::sync::Arc;

use crate::draft::Draft;
use crate::limits::RESTORE_STEP;
use crate::names::{SYSTEM_KIND, check_kind};
use crate::timer::settle;
use crate::{Fact, Policy, Refusal, Reply, Rows};

pub(crate) fn set_policy(
    draft: &mut Draft<'_>,
    kind: &Arc<str>,
    policy: &Arc<Policy>,
) -> Result<Reply, Refusal> {
    check_kind(kind).map_err(|detail| Refusal::invalid("kind", detail))?;
    if &**kind == SYSTEM_KIND {
        return Err(Refusal::invalid("kind", "tenure is Tenure's own"));
    }
    policy.validate()?;
    let before = draft.policy(kind).or_else(|| Policy::preset(kind));
    draft.record(Fact::PolicySet { kind: kind.clone(), policy: policy.clone(), before });
    Ok(Reply::Done)
}

/// A spurious or early call does nothing.
pub(crate) fn expire(draft: &mut Draft<'_>, policy: &Policy, number: u64) -> Reply {
    match draft.claim(draft.key, number) {
        Some(claim) => Reply::Claim { claim: settle(draft, policy, claim) },
        None => Reply::Done,
    }
}

pub(crate) fn resume(draft: &mut Draft<'_>, shift_ms: i64) -> Reply {
    if shift_ms > 0 && !draft.active_claims(draft.key).is_empty() {
        draft.record_as_system(Fact::Resumed { shift_ms });
    }
    Reply::Done
}

pub(crate) fn restore(draft: &mut Draft<'_>, epoch: u64) -> Reply {
    let from_seq = draft.next_seq() - 1;
    draft.record_at(from_seq + RESTORE_STEP, draft.actor.clone(), Fact::Restored { epoch, from_seq });
    Reply::Done
}
