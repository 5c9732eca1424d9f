//! Add an item to a claim or take one out. The deadline stays what the first grant made it.

use std::sync::Arc;

use super::held::{look, own_claim};
use crate::draft::Draft;
use crate::{Claim, Fact, ItemId, Policy, Refusal, Reply, Rows, Text};

pub(crate) fn add_item(
    draft: &mut Draft<'_>,
    policy: &Policy,
    number: u64,
    id: &ItemId,
) -> Result<Reply, Refusal> {
    let claim = own_claim_in_first_phase(draft, policy, number)?;
    if claim.items.contains(id) {
        return Err(Refusal::invalid("item", "is already in the claim"));
    }
    if claim.items.len() >= policy.max_items {
        return Err(Refusal::Limit { limit: Text::from("max_items"), max: policy.max_items as u64 });
    }
    let item = look(draft, policy, id)?.map_err(|item| Refusal::unavailable(vec![item]))?;
    draft.record(Fact::ItemAdded { claim: number, item });
    Ok(Reply::Claim { claim: draft.claim(draft.key, number).expect("an amended claim is there") })
}

pub(crate) fn remove_item(
    draft: &mut Draft<'_>,
    policy: &Policy,
    number: u64,
    id: &ItemId,
) -> Result<Reply, Refusal> {
    let claim = own_claim_in_first_phase(draft, policy, number)?;
    if !claim.items.contains(id) {
        return Err(Refusal::not_found("item", id));
    }
    if claim.items.len() == 1 {
        return Err(Refusal::invalid("item", "is the claim's last; release or cancel the claim instead"));
    }
    draft.record(Fact::ItemRemoved { claim: number, item: id.clone() });
    Ok(Reply::Claim { claim: draft.claim(draft.key, number).expect("an amended claim is there") })
}

/// What a claim holds is settled once it has left its first phase: it is being paid for.
fn own_claim_in_first_phase(
    draft: &mut Draft<'_>,
    policy: &Policy,
    number: u64,
) -> Result<Arc<Claim>, Refusal> {
    let claim = own_claim(draft, policy, number, None)?;
    if claim.phase != policy.first_phase().name {
        return Err(Refusal::WrongPhase { phase: claim.phase.clone() });
    }
    Ok(claim)
}
