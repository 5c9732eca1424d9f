//! The holder ends a claim: release, cancel, complete.

use std::sync::Arc;

use super::held::own_claim;
use crate::command::{Complete, OfClaim};
use crate::draft::Draft;
use crate::event::{Completed, End, Written};
use crate::timer::end_of;
use crate::{Claim, EndReason, Fact, Item, Policy, Principal, Refusal, Reply, Rows, Status};

pub(crate) fn release(draft: &mut Draft<'_>, policy: &Policy, number: u64) -> Result<Reply, Refusal> {
    end(draft, policy, number, EndReason::Released)
}

pub(crate) fn cancel(draft: &mut Draft<'_>, policy: &Policy, number: u64) -> Result<Reply, Refusal> {
    end(draft, policy, number, EndReason::Cancelled)
}

pub(crate) fn complete(
    draft: &mut Draft<'_>,
    policy: &Policy,
    complete: &Complete,
) -> Result<Reply, Refusal> {
    let known = |status: &Status| policy.finished.contains(status) || policy.claimable.contains(status);
    let statuses =
        complete.status.iter().chain(complete.items.iter().filter_map(|write| write.status.as_ref()));
    for status in statuses {
        if !known(status) {
            let detail =
                format!("{status} is not a status of this kind, so nobody could ever claim it again");
            return Err(Refusal::invalid("status", detail));
        }
    }
    let claim = own_claim(draft, policy, complete.claim, complete.token)?;
    for (index, write) in complete.items.iter().enumerate() {
        if !claim.items.contains(&write.item) {
            return Err(Refusal::invalid(format!("items[{index}]"), "is not in the claim"));
        }
        if complete.items[..index].iter().any(|earlier| earlier.item == write.item) {
            return Err(Refusal::invalid(format!("items[{index}]"), "stands twice"));
        }
    }
    let writes = claim.items.iter().filter_map(|id| {
        let item = draft.item(draft.key, id)?;
        completed(policy, complete, &item)
    });
    let writes = writes.collect();
    let end = End { writes, ..end_of(draft, policy, &claim, EndReason::Completed, None) };
    draft.record(Fact::Ended(end));
    ended(draft, &claim)
}

/// What completing makes of an item; `None` where it leaves the item as it is.
fn completed(policy: &Policy, complete: &Complete, item: &Item) -> Option<Completed> {
    let own = complete.items.iter().find(|write| write.item == item.id);
    let status = own.and_then(|write| write.status.as_ref()).or(complete.status.as_ref());
    let data = own.and_then(|write| write.data.as_ref()).or(complete.data.as_ref());
    if status.is_none() && data.is_none() {
        return None;
    }
    let before = Written::of(item);
    let write = Written {
        id: item.id.clone(),
        version: item.version + 1,
        status: status.map_or_else(|| item.status.clone(), |status| policy.intern(status)),
        data: data.or(item.data.as_ref()).cloned(),
    };
    Some(Completed { write, before })
}

fn end(draft: &mut Draft<'_>, policy: &Policy, number: u64, reason: EndReason) -> Result<Reply, Refusal> {
    let claim = match own_claim(draft, policy, number, None) {
        Ok(claim) => claim,
        // Letting go twice is letting go: a retry must not look like a loss.
        Err(Refusal::Lost { reason: earlier, .. }) if earlier == reason => {
            let claim = draft.claim(draft.key, number).ok_or_else(|| Refusal::not_found("claim", number))?;
            return Ok(Reply::Claim { claim });
        }
        Err(refusal) => return Err(refusal),
    };
    let end = end_of(draft, policy, &claim, reason, None);
    draft.record(Fact::Ended(end));
    ended(draft, &claim)
}

/// What a command comes to whose claim ended so long ago that it is not among the rows any more: the same as if it were,
/// but for who came after it.
pub fn after_end(claim: &Arc<Claim>, actor: &Principal, asked: OfClaim) -> Result<Reply, Refusal> {
    let not_found = || Refusal::not_found("claim", claim.number);
    let (reason, ended_at_ms) = claim.reason.zip(claim.ended_at_ms).ok_or_else(not_found)?;
    if asked != OfClaim::Anyones && claim.holder.id != actor.id {
        return Err(Refusal::NotHolder { holder: claim.holder.clone() });
    }
    match asked {
        OfClaim::End(wanted) if wanted == reason => Ok(Reply::Claim { claim: claim.clone() }),
        _ => Err(Refusal::Lost { reason, ended_at_ms, holder: None }),
    }
}

fn ended(draft: &Draft<'_>, claim: &Claim) -> Result<Reply, Refusal> {
    let claim =
        draft.claim(draft.key, claim.number).ok_or_else(|| Refusal::not_found("claim", claim.number))?;
    Ok(Reply::Claim { claim })
}
