//! What Tenure asks of itself: policies, expiry, the clock after a pause, a restore.

use std::sync::Arc;

use crate::draft::Draft;
use crate::limits::{EPOCH_NUMBERS, RESTORE_STEP};
use crate::names::{SYSTEM_KIND, check_kind};
use crate::timer::{settle, settle_as_of};
use crate::{Fact, Policy, Principal, Refusal, Reply, Rows, Text};

pub(crate) fn set_policy(draft: &mut Draft<'_>, kind: &Text, policy: &Arc<Policy>) -> Result<Reply, Refusal> {
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

/// Claims are settled as they stood when the server went away, so that each of those that are left
/// was alive then and gets the whole time back.
pub(crate) fn resume(draft: &mut Draft<'_>, policy: &Policy, shift_ms: i64) -> Reply {
    if shift_ms <= 0 {
        return Reply::Done;
    }
    let paused_at_ms = draft.now_ms - shift_ms;
    for number in draft.active_claims(draft.key) {
        if let Some(claim) = draft.claim(draft.key, number) {
            settle_as_of(draft, policy, claim, paused_at_ms);
        }
    }
    if !draft.active_claims(draft.key).is_empty() {
        draft.record_as_system(Fact::Resumed { shift_ms });
    }
    Reply::Done
}

pub(crate) fn restore(draft: &mut Draft<'_>, epoch: u64) -> Reply {
    let from_seq = draft.next_seq() - 1;
    let first = epoch.saturating_mul(EPOCH_NUMBERS);
    let seq = if first > from_seq { first } else { from_seq + RESTORE_STEP };
    draft.record_at(seq, draft.actor.clone(), Fact::Restored { epoch, from_seq });
    Reply::Done
}

/// A collection that is made after a restore may have been made before it too, and been lost: it begins
/// with the epoch's numbers, so that no token repeats.
pub(crate) fn begin_collection(draft: &mut Draft<'_>) {
    let epoch = draft.epoch();
    if epoch > 1 {
        let fact = Fact::Restored { epoch, from_seq: 0 };
        draft.record_at(epoch.saturating_mul(EPOCH_NUMBERS), Principal::system(), fact);
    }
    draft.record(Fact::CollectionCreated);
}
