//! Write and delete items: version checks, and guards that tie a write to a claim.

use super::held::{acted, active_claim, check_token, held_by, own_claim};
use crate::command::{Expect, Guard, PutItem};
use crate::draft::Draft;
use crate::event::{Acted, Written};
use crate::refusal::Unavailable;
use crate::{Claim, Fact, Item, ItemId, Policy, Refusal, Reply, Rows};

pub(crate) fn put_item(draft: &mut Draft<'_>, policy: &Policy, put: &PutItem) -> Result<Reply, Refusal> {
    let id = &put.write.item;
    let found = draft.item(draft.key, id);
    let under = check_guard(draft, policy, put.guard.as_ref())?;
    if let Some(item) = &found {
        refuse_if_held_by_other(draft, policy, item)?;
    }
    check_version(id, put.expect, found.as_deref())?;
    let status = match (&put.write.status, &found) {
        (Some(status), _) => policy.intern(status),
        (None, Some(item)) => item.status.clone(),
        (None, None) => policy.initial_status().clone(),
    };
    let data = put.write.data.clone().or_else(|| found.as_ref().and_then(|item| item.data.clone()));
    let version = found.as_ref().map_or(0, |item| item.version) + 1;
    let before = found.as_deref().map(Written::of);
    let created = before.is_none();
    draft.record(Fact::ItemPut { write: Written { id: id.clone(), version, status, data }, before, under });
    let item = draft.item(draft.key, id).expect("a written item is there");
    Ok(Reply::Item { item, created })
}

pub(crate) fn delete_item(
    draft: &mut Draft<'_>,
    policy: &Policy,
    id: &ItemId,
    expect: Expect,
    guard: Option<&Guard>,
) -> Result<Reply, Refusal> {
    let item = draft.item(draft.key, id).ok_or_else(|| Refusal::not_found("item", id))?;
    let under = check_guard(draft, policy, guard)?;
    // Whoever holds it, even the actor: a claim holds all its items or none.
    if let Some(claim) = active_claim(draft, policy, &item) {
        return Err(held(policy, &item, &claim));
    }
    check_version(id, expect, Some(&item))?;
    draft.record(Fact::ItemDeleted { before: Written::of(&item), under });
    Ok(Reply::Done)
}

impl Written {
    /// The item's document as it is.
    pub(crate) fn of(item: &Item) -> Self {
        Self {
            id: item.id.clone(),
            version: item.version,
            status: item.status.clone(),
            data: item.data.clone(),
        }
    }
}

fn check_guard(
    draft: &mut Draft<'_>,
    policy: &Policy,
    guard: Option<&Guard>,
) -> Result<Option<Acted>, Refusal> {
    match guard {
        None => Ok(None),
        Some(Guard::Claim { claim, token }) => {
            let claim = own_claim(draft, policy, *claim, Some(*token))?;
            Ok(Some(acted(draft, policy, &claim)))
        }
        Some(Guard::NotHeldByOther { item }) => {
            let item = draft.item(draft.key, item).ok_or_else(|| Refusal::not_found("item", item))?;
            refuse_if_held_by_other(draft, policy, &item)?;
            Ok(None)
        }
        Some(Guard::Holds { item, token }) => {
            let item = draft.item(draft.key, item).ok_or_else(|| Refusal::not_found("item", item))?;
            refuse_if_held_by_other(draft, policy, &item)?;
            let claim = active_claim(draft, policy, &item)
                .ok_or_else(|| Refusal::NotHeld { item: item.id.clone() })?;
            check_token(&claim, *token)?;
            Ok(Some(acted(draft, policy, &claim)))
        }
        Some(Guard::Unchanged { item, version }) => {
            let found = draft.item(draft.key, item);
            check_version(item, Expect::Version(*version), found.as_deref())?;
            Ok(None)
        }
    }
}

fn refuse_if_held_by_other(draft: &mut Draft<'_>, policy: &Policy, item: &Item) -> Result<(), Refusal> {
    match active_claim(draft, policy, item) {
        Some(claim) if claim.holder.id != draft.actor.id => Err(held(policy, item, &claim)),
        _ => Ok(()),
    }
}

fn held(policy: &Policy, item: &Item, claim: &Claim) -> Refusal {
    Refusal::unavailable(vec![Unavailable { item: item.id.clone(), why: held_by(policy, claim) }])
}

fn check_version(id: &ItemId, expect: Expect, found: Option<&Item>) -> Result<(), Refusal> {
    let current = found.map_or(0, |item| item.version);
    let expected = match expect {
        Expect::Present if found.is_none() => return Err(Refusal::not_found("item", id)),
        Expect::Any | Expect::Present => return Ok(()),
        Expect::Absent => 0,
        Expect::Version(version) => version,
    };
    if expected == current { Ok(()) } else { Err(Refusal::Conflict { expected, current }) }
}
