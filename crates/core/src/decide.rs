//! The one function that decides.

use std::sync::Arc;

use crate::commands;
use crate::draft::Draft;
use crate::limits::GROUP_MAX;
use crate::names::SYSTEM_KIND;
use crate::{
    Beat, Claim, Collection, Command, Item, ItemId, Policy, Refusal, Reply, Rows, Sealed, Text, Verb,
};

/// What a granted command did. Nothing of it is true until it is committed, and then all of it is.
#[derive(Clone, Debug)]
pub struct Decision {
    /// The answer.
    pub reply: Reply,
    /// What happened, in order.
    pub events: Vec<Arc<Sealed>>,
    /// The heartbeats, at most one for a claim. Replayed after the events.
    pub beats: Vec<Beat>,
    /// The rows after it.
    pub changed: Changed,
}

/// The rows that a decision changed, as they are after it.
#[derive(Clone, Debug, Default)]
pub struct Changed {
    /// The collection's head.
    pub collection: Option<Arc<Collection>>,
    /// Items; `None` for a deleted one.
    pub items: Vec<(ItemId, Option<Arc<Item>>)>,
    /// Claims.
    pub claims: Vec<Arc<Claim>>,
    /// Policies by kind.
    pub policies: Vec<(Text, Arc<Policy>)>,
}

/// Decides a command at a time. Pure: the same rows, command and time give the same decision.
///
/// A refusal leaves nothing behind, not even the expiry of a claim whose time was up: that is void by
/// its deadline and the timer will say so.
pub fn decide(rows: &dyn Rows, command: &Command, now_ms: i64) -> Result<Decision, Refusal> {
    let mut draft = Draft::new(rows, &command.collection, &command.actor, now_ms);
    let reply = match &command.verb {
        Verb::Group(verbs) => decide_group(&mut draft, verbs)?,
        verb => decide_verb(&mut draft, verb)?,
    };
    let beats = draft.final_beats();
    let Draft { head, head_changed, items, claims, policies, events, .. } = draft;
    let changed = Changed { collection: head.filter(|_| head_changed), items, claims, policies };
    Ok(Decision { reply, events, beats, changed })
}

fn decide_group(draft: &mut Draft<'_>, verbs: &[Verb]) -> Result<Reply, Refusal> {
    if verbs.is_empty() || verbs.len() > GROUP_MAX {
        return Err(Refusal::invalid("commands", "a group has 1 to 1,000 commands"));
    }
    let mut replies = Vec::with_capacity(verbs.len());
    for (index, verb) in verbs.iter().enumerate() {
        let reply = decide_verb(draft, verb)
            .map_err(|refusal| Refusal::InGroup { index, refusal: Box::new(refusal) })?;
        replies.push(reply);
    }
    Ok(Reply::Group(replies))
}

fn decide_verb(draft: &mut Draft<'_>, verb: &Verb) -> Result<Reply, Refusal> {
    if let Verb::SetPolicy { kind, policy } = verb {
        if !draft.key.is_policies() {
            return Err(Refusal::invalid("collection", "a policy is set in tenure/policies"));
        }
        return commands::set_policy(draft, kind, policy);
    }
    if let Verb::Restore { epoch } = verb {
        return Ok(commands::restore(draft, *epoch));
    }
    // Tenure keeps documents of its own (API keys, sessions) as anyone does; nothing there is claimed,
    // and the server lets nobody name the kind.
    let documents = matches!(verb, Verb::CreateCollection | Verb::PutItem(_) | Verb::DeleteItem { .. });
    if draft.key.kind() == SYSTEM_KIND && (!documents || draft.key.is_policies()) {
        return Err(Refusal::invalid("collection", "the kind tenure is Tenure's own"));
    }
    let kind = draft.key.kind();
    let policy = draft
        .policy(kind)
        .or_else(|| Policy::preset(kind))
        .ok_or_else(|| Refusal::not_found("kind", kind))?;
    if let Verb::CreateCollection = verb {
        return Ok(create_collection(draft));
    }
    if draft.collection(draft.key).is_none() {
        match verb {
            Verb::Acquire(_) if policy.create_on_claim => drop(create_collection(draft)),
            Verb::PutItem(_) if kind == SYSTEM_KIND => drop(create_collection(draft)),
            _ => return Err(Refusal::not_found("collection", draft.key)),
        }
    }
    match verb {
        Verb::Acquire(acquire) => commands::acquire(draft, &policy, acquire),
        Verb::Heartbeat { claim, token, idle_ms } => {
            commands::heartbeat(draft, &policy, *claim, *token, *idle_ms)
        }
        Verb::AddItem { claim, item } => commands::add_item(draft, &policy, *claim, item),
        Verb::RemoveItem { claim, item } => commands::remove_item(draft, &policy, *claim, item),
        Verb::Advance { claim } => commands::advance(draft, &policy, *claim),
        Verb::Enter { claim, phase, ttl_ms } => commands::enter(draft, &policy, *claim, phase, *ttl_ms),
        Verb::Complete(complete) => commands::complete(draft, &policy, complete),
        Verb::Cancel { claim } => commands::cancel(draft, &policy, *claim),
        Verb::Release { claim } => commands::release(draft, &policy, *claim),
        Verb::ForceRelease { item, reason } => commands::force_release(draft, &policy, item, reason),
        Verb::ForceClaim { item, reason, session } => {
            commands::force_claim(draft, &policy, item, reason, session.as_ref())
        }
        Verb::Nudge { claim, message } => commands::nudge(draft, &policy, *claim, message.as_ref()),
        Verb::PutItem(put) => commands::put_item(draft, &policy, put),
        Verb::DeleteItem { item, expect, guard } => {
            commands::delete_item(draft, &policy, item, *expect, guard.as_ref())
        }
        Verb::Expire { claim } => Ok(commands::expire(draft, &policy, *claim)),
        Verb::Resume { shift_ms } => Ok(commands::resume(draft, &policy, *shift_ms)),
        Verb::Group(_) => Err(Refusal::invalid("commands", "a group holds no groups")),
        Verb::CreateCollection | Verb::SetPolicy { .. } | Verb::Restore { .. } => {
            unreachable!("answered above")
        }
    }
}

fn create_collection(draft: &mut Draft<'_>) -> Reply {
    let created = draft.collection(draft.key).is_none();
    if created {
        commands::begin_collection(draft);
    }
    let collection = draft.collection(draft.key).expect("a created collection is there");
    Reply::Collection { collection, created }
}
