//! What an answer must be: the auditor's own reading of DESIGN.md, written without `core`'s decisions.
//! A command is tried on a copy of the auditor's rows; what it would answer and which events it would
//! leave are then compared with what the server did.

mod claims;
mod documents;
mod timers;

use std::collections::BTreeMap;
use std::sync::Arc;

use tenure_core::{
    Claim, ClaimState, Collection, CollectionKey, Command, Event, Fact, Item, ItemId, Policy, Principal,
    Refusal, Reply, Text, Verb,
};

use super::space::Space;

/// Policies that were set, by kind.
pub(crate) type Policies = BTreeMap<Text, Arc<Policy>>;

/// What a command must lead to.
#[derive(Clone, Debug)]
pub(crate) struct Prediction {
    pub(crate) outcome: Result<Reply, Refusal>,
    /// The events that it must leave, in order. Empty for a refusal.
    pub(crate) events: Vec<Event>,
    /// The collection after it, without its chain's hash.
    pub(crate) space: Space,
    /// A heartbeat changed a claim.
    pub(crate) beat: bool,
    pub(crate) policies: Vec<(Text, Arc<Policy>)>,
}

/// A command being tried.
pub(crate) struct Trial<'a> {
    pub(crate) space: Space,
    pub(crate) policy: Arc<Policy>,
    pub(crate) key: &'a CollectionKey,
    pub(crate) actor: &'a Principal,
    pub(crate) now_ms: i64,
    pub(crate) events: Vec<Event>,
    pub(crate) beat: bool,
}

/// The policy that a kind has.
pub(crate) fn policy_of(policies: &Policies, kind: &str) -> Option<Arc<Policy>> {
    policies.get(kind).cloned().or_else(|| Policy::preset(kind))
}

/// Tries a command at a time.
pub(crate) fn predict(space: &Space, policies: &Policies, command: &Command, now_ms: i64) -> Prediction {
    let kind = command.collection.kind();
    let refused = |refusal| Prediction {
        outcome: Err(refusal),
        events: Vec::new(),
        space: space.clone(),
        beat: false,
        policies: Vec::new(),
    };
    if command.collection.as_str() == "tenure/policies" {
        return predict_policy(space, policies, command, now_ms, &refused);
    }
    let Some(policy) = policy_of(policies, kind) else { return refused(Refusal::not_found("kind", kind)) };
    let mut trial = Trial {
        space: space.clone(),
        policy,
        key: &command.collection,
        actor: &command.actor,
        now_ms,
        events: Vec::new(),
        beat: false,
    };
    match trial.run(&command.verb) {
        Err(refusal) => refused(refusal),
        Ok(reply) => Prediction {
            outcome: Ok(reply),
            events: trial.events,
            space: trial.space,
            beat: trial.beat,
            policies: Vec::new(),
        },
    }
}

fn predict_policy(
    space: &Space,
    policies: &Policies,
    command: &Command,
    now_ms: i64,
    refused: &dyn Fn(Refusal) -> Prediction,
) -> Prediction {
    let Verb::SetPolicy { kind, policy } = &command.verb else {
        return refused(Refusal::invalid("collection", "only policies live here"));
    };
    if let Some(field) = wrong_field(policy) {
        return refused(Refusal::invalid(field, "cannot work"));
    }
    let fact =
        Fact::PolicySet { kind: kind.clone(), policy: policy.clone(), before: policy_of(policies, kind) };
    let event = Event { seq: space.seq + 1, at_ms: now_ms, actor: command.actor.clone(), fact };
    let mut space = space.clone();
    space.fold(&event);
    Prediction {
        outcome: Ok(Reply::Done),
        events: vec![event],
        space,
        beat: false,
        policies: vec![(kind.clone(), policy.clone())],
    }
}

/// The ways in which the workload breaks a policy; it builds all others to work.
fn wrong_field(policy: &Policy) -> Option<&'static str> {
    if policy.phases.is_empty() {
        Some("phases")
    } else if policy.phases[0].ttl_ms < 1_000 {
        Some("phases[0].ttl_ms")
    } else if policy.max_items == 0 {
        Some("max_items")
    } else {
        None
    }
}

impl Trial<'_> {
    fn run(&mut self, verb: &Verb) -> Result<Reply, Refusal> {
        let Verb::Group(verbs) = verb else { return self.run_one(verb) };
        if verbs.is_empty() {
            return Err(Refusal::invalid("commands", "empty"));
        }
        let mut replies = Vec::new();
        for (index, verb) in verbs.iter().enumerate() {
            match self.run_one(verb) {
                Ok(reply) => replies.push(reply),
                Err(refusal) => return Err(Refusal::InGroup { index, refusal: Box::new(refusal) }),
            }
        }
        Ok(Reply::Group(replies))
    }

    fn run_one(&mut self, verb: &Verb) -> Result<Reply, Refusal> {
        let may_create = matches!(verb, Verb::Acquire(_)) && self.policy.create_on_claim;
        if let Verb::CreateCollection = verb {
            let created = !self.space.exists;
            if created {
                self.happens(Fact::CollectionCreated);
            }
            return Ok(Reply::Collection { collection: Arc::new(self.head()), created });
        }
        if !self.space.exists {
            if !may_create {
                return Err(Refusal::not_found("collection", self.key));
            }
            self.happens(Fact::CollectionCreated);
        }
        match verb {
            Verb::Acquire(acquire) => self.acquire(acquire),
            Verb::Heartbeat { claim, token, idle_ms } => self.heartbeat(*claim, *token, *idle_ms),
            Verb::AddItem { claim, item } => self.add_item(*claim, item),
            Verb::RemoveItem { claim, item } => self.remove_item(*claim, item),
            Verb::Advance { claim } => self.advance(*claim),
            Verb::Enter { claim, phase, ttl_ms } => self.enter(*claim, phase, *ttl_ms),
            Verb::Complete(complete) => self.complete(complete),
            Verb::Cancel { claim } => self.let_go(*claim, tenure_core::EndReason::Cancelled),
            Verb::Release { claim } => self.let_go(*claim, tenure_core::EndReason::Released),
            Verb::ForceRelease { item, reason } => self.force_release(item, reason),
            Verb::ForceClaim { item, reason, session } => self.force_claim(item, reason, session.as_ref()),
            Verb::Nudge { claim, message } => self.nudge(*claim, message.as_ref()),
            Verb::PutItem(put) => self.put_item(put),
            Verb::DeleteItem { item, expect, guard } => self.delete_item(item, *expect, guard.as_ref()),
            _ => Err(Refusal::invalid("verb", "the workload never asks this")),
        }
    }

    /// By the one who asks.
    pub(crate) fn happens(&mut self, fact: Fact) {
        let event = Event { seq: self.space.seq + 1, at_ms: self.now_ms, actor: self.actor.clone(), fact };
        self.space.fold(&event);
        self.events.push(event);
    }

    /// By itself.
    pub(crate) fn happens_by_itself(&mut self, fact: Fact) {
        let event = Event { seq: self.space.seq + 1, at_ms: self.now_ms, actor: system(), fact };
        self.space.fold(&event);
        self.events.push(event);
    }

    pub(crate) fn item(&self, id: &ItemId) -> Option<Arc<Item>> {
        self.space.items.get(id).cloned()
    }

    /// The claim as it stands once time has had its say.
    pub(crate) fn settled(&mut self, number: u64) -> Option<Arc<Claim>> {
        while let Some(fact) = timers::overdue(&self.space, &self.policy, number, self.now_ms) {
            self.happens_by_itself(fact);
        }
        self.space.claims.get(&number).cloned()
    }

    /// Who has the item now.
    pub(crate) fn holder_of(&mut self, item: &Item) -> Option<Arc<Claim>> {
        self.settled(item.claim).filter(|claim| claim.state == ClaimState::Active)
    }

    fn head(&self) -> Collection {
        Collection {
            seq: self.space.seq,
            // The chain is checked elsewhere; replies are compared without it.
            hash: self.space.hash,
            created_at_ms: self.space.created_at_ms,
        }
    }
}

/// The next thing that time alone does to a claim, if it is due.
pub(crate) fn overdue(space: &Space, policy: &Policy, number: u64, now_ms: i64) -> Option<Fact> {
    timers::overdue(space, policy, number, now_ms)
}

/// Tenure itself.
pub(crate) fn system() -> Principal {
    Principal { id: Text::from(super::SYSTEM_ID), name: Text::from("Tenure") }
}
