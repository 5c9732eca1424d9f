//! Requests in few words.

use std::sync::Arc;

use tenure_core::command::{Acquire, Complete, Expect, PutItem};
use tenure_core::{Command, Hash, ItemWrite, Json, Policy, SessionId, Status, Text, Verb};
use tenure_engine::{Idempotency, Request};

use super::{LOCKS, item, key, person};

/// A request under construction.
#[derive(Clone)]
pub(crate) struct Ask(Request);

impl From<Ask> for Request {
    fn from(ask: Ask) -> Self {
        ask.0
    }
}

impl Ask {
    pub(crate) fn new(who: &str, verb: Verb) -> Self {
        let command = Command { collection: key(LOCKS), actor: person(who), verb };
        Self(Request { command, idempotency: None })
    }

    /// In another collection.
    pub(crate) fn of(mut self, collection: &str) -> Self {
        self.0.command.collection = key(collection);
        self
    }

    /// With an idempotency key; `body` stands for everything that is hashed.
    pub(crate) fn keyed(mut self, key: &str, body: u8) -> Self {
        self.0.idempotency = Some(Idempotency { key: Text::from(key), fingerprint: Hash([body; 32]) });
        self
    }

    pub(crate) fn wait(self, wait_ms: i64) -> Self {
        self.edit(|acquire| acquire.wait_ms = Some(wait_ms))
    }

    pub(crate) fn ttl(self, ttl_ms: i64) -> Self {
        self.edit(|acquire| acquire.ttl_ms = Some(ttl_ms))
    }

    pub(crate) fn data(self, data: Json) -> Self {
        self.edit(|acquire| acquire.data = Some(data))
    }

    pub(crate) fn session(self, session: &str) -> Self {
        self.edit(|acquire| acquire.session = Some(SessionId::new(session).expect("a test's session")))
    }

    fn edit(mut self, edit: impl FnOnce(&mut Acquire)) -> Self {
        let Verb::Acquire(acquire) = &mut self.0.command.verb else { panic!("only an acquire") };
        edit(acquire);
        self
    }
}

pub(crate) fn acquire(who: &str, items: &[&str]) -> Ask {
    let items = items.iter().map(|id| item(id)).collect();
    Ask::new(who, Verb::Acquire(Acquire { items, ..Acquire::default() }))
}

/// A worker that comes again gets its claim back.
pub(crate) fn in_session(who: &str, session: &str, items: &[&str]) -> Ask {
    let items = items.iter().map(|id| item(id)).collect();
    let session = Some(SessionId::new(session).expect("a test's session is valid"));
    Ask::new(who, Verb::Acquire(Acquire { items, session, ..Acquire::default() }))
}

pub(crate) fn release(who: &str, claim: u64) -> Ask {
    Ask::new(who, Verb::Release { claim })
}

pub(crate) fn heartbeat(who: &str, claim: u64) -> Ask {
    Ask::new(who, Verb::Heartbeat { claim, token: claim, idle_ms: None })
}

pub(crate) fn add_item(who: &str, claim: u64, id: &str) -> Ask {
    Ask::new(who, Verb::AddItem { claim, item: item(id) })
}

pub(crate) fn remove_item(who: &str, claim: u64, id: &str) -> Ask {
    Ask::new(who, Verb::RemoveItem { claim, item: item(id) })
}

pub(crate) fn complete(who: &str, claim: u64, status: &str) -> Ask {
    let status = Some(Status::new(status).expect("a test's status"));
    Ask::new(who, Verb::Complete(Complete { claim, token: None, status, data: None, items: Vec::new() }))
}

pub(crate) fn put_item(id: &str) -> Ask {
    let write = ItemWrite { item: item(id), status: None, data: None };
    Ask::new("admin", Verb::PutItem(PutItem { write, expect: Expect::Any, guard: None }))
}

pub(crate) fn create(collection: &str) -> Ask {
    Ask::new("admin", Verb::CreateCollection).of(collection)
}

/// A kind like `lock` but for what the edit changes.
pub(crate) fn set_policy(kind: &str, edit: impl FnOnce(&mut Policy)) -> Ask {
    let mut policy = Policy::lock();
    edit(&mut policy);
    let verb = Verb::SetPolicy { kind: Text::from(kind), policy: Arc::new(policy) };
    Ask::new("admin", verb).of("tenure/policies")
}

/// A raffle with these numbers, as a list of requests.
pub(crate) fn raffle(collection: &str, numbers: &[&str]) -> Vec<Ask> {
    let numbers = numbers.iter().map(|number| put_item(number).of(collection));
    std::iter::once(create(collection)).chain(numbers).collect()
}
