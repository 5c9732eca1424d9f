//! Where an application works: it reads documents, judges locks at the engine's time, and asks the engine
//! for one commit at a time. It decides nothing.

use std::sync::Arc;

use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tenure_core::command::PutItem;
use tenure_core::{
    Claim, CollectionKey, Command, Expect, Guard, Item, ItemId, ItemWrite, Json, Policy, Refusal as Rule,
    Reply, Status, Verb, seen_at,
};
use tenure_engine::{Engine, HeldItem, Idempotency, ItemFilter, Page, Reader, Request};

use crate::limits::ATTEMPTS_MAX;
use crate::{Actor, Family, Refusal, Result};

/// The engine as an application uses it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Desk {
    engine: Engine,
    /// What the newest id was made of.
    newest: Arc<Mutex<Made>>,
}

/// A time, and what follows it in an id.
#[derive(Clone, Copy, Debug, Default)]
struct Made {
    at_ms: u64,
    tail: u64,
}

/// An item whose document was read as the application's type.
#[derive(Clone, Debug)]
pub struct Document<T> {
    /// The row.
    pub item: Arc<Item>,
    /// What its data says.
    pub data: T,
}

/// What came of a change: the engine's reply, or what the application shows of it.
#[derive(Clone, Debug)]
pub struct Done<T = Reply> {
    /// It.
    pub value: T,
    /// The server's time at the decision.
    pub at_ms: i64,
    /// The request had been carried out before; nothing happened now.
    pub replayed: bool,
}

impl Made {
    const TAIL_MAX: u64 = (1 << 25) - 1;

    /// What comes after it at this time: always something larger.
    fn next(self, now_ms: u64, random: u32) -> Self {
        let random = u64::from(random) & Self::TAIL_MAX;
        if now_ms > self.at_ms {
            return Self { at_ms: now_ms, tail: random };
        }
        // By a random step: nobody can tell the next from the one before.
        match self.tail + 1 + (random & 0xFFFF) {
            tail @ ..=Self::TAIL_MAX => Self { tail, ..self },
            _ => Self { at_ms: self.at_ms + 1, tail: random },
        }
    }
}

impl Desk {
    /// The step of a request that makes one change, or its last one where it makes several.
    pub const OWN_STEP: &'static str = "";

    /// On a running engine.
    pub fn new(engine: Engine) -> Self {
        Self { engine, newest: Arc::default() }
    }

    /// The server's time.
    pub fn now_ms(&self) -> i64 {
        self.engine.now_ms()
    }

    /// Committed rows.
    pub fn reader(&self) -> &Arc<dyn Reader> {
        self.engine.reader()
    }

    /// Reads what may take a while, away from the threads that answer everyone.
    pub async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Self) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let desk = self.clone();
        tokio::task::spawn_blocking(move || read(&desk)).await.unwrap_or_else(|error| {
            tracing::error!(%error, "a read did not end");
            Err(Refusal::Broken)
        })
    }

    /// One document, if it is there.
    pub fn find<T: DeserializeOwned>(
        &self,
        collection: &CollectionKey,
        id: &ItemId,
    ) -> Result<Option<Document<T>>> {
        self.reader().item(collection, id)?.map(Document::of).transpose()
    }

    /// The same with the claim that holds it at this time.
    pub fn find_held<T: DeserializeOwned>(
        &self,
        collection: &CollectionKey,
        id: &ItemId,
        now_ms: i64,
    ) -> Result<Option<(Document<T>, Option<Claim>)>> {
        let found = self.held(collection, id, now_ms)?;
        found.map(|(item, claim)| Ok((Document::of(item)?, claim))).transpose()
    }

    /// An item with the claim that holds it at this time, whether or not anyone has swept.
    pub(crate) fn held(
        &self,
        collection: &CollectionKey,
        id: &ItemId,
        now_ms: i64,
    ) -> Result<Option<(Arc<Item>, Option<Claim>)>> {
        let found = self.reader().held_item(collection, id)?;
        Ok(self.judged(collection, found.into_iter().collect(), now_ms)?.pop())
    }

    /// A page of items, each with the claim that holds it now.
    pub(crate) fn held_items(
        &self,
        collection: &CollectionKey,
        filter: &ItemFilter,
        limit: usize,
    ) -> Result<Page<(Arc<Item>, Option<Claim>)>> {
        let Page { rows, more } = self.reader().held_items(collection, filter, limit)?;
        Ok(Page { rows: self.judged(collection, rows, self.now_ms())?, more })
    }

    fn judged(
        &self,
        collection: &CollectionKey,
        rows: Vec<HeldItem>,
        now_ms: i64,
    ) -> Result<Vec<(Arc<Item>, Option<Claim>)>> {
        // What nobody has needs no judging.
        let is_any = rows.iter().any(|row| row.claim.is_some());
        let policy = if is_any { self.policy(collection.kind())? } else { None };
        let seen = |claim: Arc<Claim>| match &policy {
            Some(policy) => seen_at(&claim, policy, now_ms),
            None => (*claim).clone(),
        };
        let holding = |claim: Option<Arc<Claim>>| claim.map(seen).filter(|claim| claim.holds_at(now_ms));
        Ok(rows.into_iter().map(|HeldItem { item, claim }| (item, holding(claim))).collect())
    }

    /// The policy that a kind has now.
    pub fn policy(&self, kind: &str) -> Result<Option<Arc<Policy>>> {
        Ok(self.reader().policy(kind)?.or_else(|| Policy::preset(kind)))
    }

    /// A new id: ordered by time, those of one desk also within a millisecond, and not to be guessed into a clash.
    pub fn fresh_id(&self, prefix: &str) -> String {
        let mut random = [0; 4];
        getrandom::fill(&mut random).expect("the system gives randomness");
        let made = {
            let mut newest = self.newest.lock();
            *newest = newest.next(u64::try_from(self.now_ms()).unwrap_or(0), u32::from_le_bytes(random));
            *newest
        };
        let digits =
            |value: u64, places: u32| (0..places).rev().map(move |place| digit(value >> (5 * place)));
        format!("{prefix}{}", digits(made.at_ms, 9).chain(digits(made.tail, 5)).collect::<String>())
    }

    /// Makes one change, in one commit. `plan` reads what is there and says what to ask; when somebody else
    /// was faster, so that a version it had read is no longer there, it plans anew.
    ///
    /// A retry under the actor's key gets the first decision of this step, whatever a plan would be now. A
    /// request has one [`Self::OWN_STEP`]; the names of others only have to differ.
    pub async fn change(
        &self,
        actor: &Actor,
        collection: &CollectionKey,
        step: &str,
        mut plan: impl FnMut() -> Result<Verb>,
    ) -> Result<Done> {
        let done = self.change_if(actor, collection, step, || plan().map(Some)).await?;
        done.ok_or(Refusal::Broken)
    }

    /// The same, where the plan is based on what the actor says, and not only on what it reads: of the
    /// engine's refusals only those that `is_race` knows as a race are planned anew.
    pub(crate) async fn change_unless_raced(
        &self,
        (actor, collection, step): (&Actor, &CollectionKey, &str),
        is_race: impl Fn(&Refusal) -> bool,
        mut plan: impl FnMut() -> Result<Verb>,
    ) -> Result<Done> {
        let is_race = |refusal: &Refusal| is_raced(refusal) && is_race(refusal);
        let done = self.attempt((actor, collection, step), is_race, || plan().map(Some)).await?;
        done.ok_or(Refusal::Broken)
    }

    /// The same, asked once: whatever the engine refuses is the answer.
    pub(crate) async fn change_once(
        &self,
        actor: &Actor,
        collection: &CollectionKey,
        step: &str,
        plan: impl FnMut() -> Result<Verb>,
    ) -> Result<Done> {
        self.change_unless_raced((actor, collection, step), |_| false, plan).await
    }

    /// The same, where a plan may find that there is nothing to do.
    pub async fn change_if(
        &self,
        actor: &Actor,
        collection: &CollectionKey,
        step: &str,
        plan: impl FnMut() -> Result<Option<Verb>>,
    ) -> Result<Option<Done>> {
        self.attempt((actor, collection, step), is_raced, plan).await
    }

    /// The same, where the application itself says which refusals are races: the plan is made anew then.
    pub(crate) async fn attempt(
        &self,
        (actor, collection, step): (&Actor, &CollectionKey, &str),
        is_race: impl Fn(&Refusal) -> bool,
        mut plan: impl FnMut() -> Result<Option<Verb>>,
    ) -> Result<Option<Done>> {
        for attempt in 0..ATTEMPTS_MAX {
            let key = actor.key.as_ref().map(|key| key.step(step, attempt));
            let outcome = match self.kept(actor, collection, key.as_ref()).await {
                Some(outcome) => outcome,
                None => match plan()? {
                    Some(verb) => self.ask(actor, collection, verb, key).await,
                    None => return Ok(None),
                },
            };
            match outcome {
                Err(refusal) if is_race(&refusal) && attempt + 1 < ATTEMPTS_MAX => {}
                outcome => return outcome.map(Some),
            }
        }
        Err(Refusal::Broken)
    }

    /// What an earlier request under the actor's key came to in this step, if there was one.
    pub async fn decided(
        &self,
        actor: &Actor,
        collection: &CollectionKey,
        step: &str,
    ) -> Result<Option<Done>> {
        self.decided_unless((actor, collection, step), is_raced).await
    }

    /// The same for a step that [`Self::attempt`] took: what that planned anew was no decision.
    pub(crate) async fn decided_unless(
        &self,
        (actor, collection, step): (&Actor, &CollectionKey, &str),
        is_race: impl Fn(&Refusal) -> bool,
    ) -> Result<Option<Done>> {
        for attempt in 0..ATTEMPTS_MAX {
            let key = actor.key.as_ref().map(|key| key.step(step, attempt));
            match self.kept(actor, collection, key.as_ref()).await {
                None => return Ok(None),
                Some(Err(refusal)) if is_race(&refusal) => {}
                Some(outcome) => return outcome.map(Some),
            }
        }
        Ok(None)
    }

    /// What was decided under this key, if anything was.
    async fn kept(
        &self,
        actor: &Actor,
        collection: &CollectionKey,
        key: Option<&Idempotency>,
    ) -> Option<Result<Done>> {
        let key = key?;
        // An empty group is malformed, so that nothing happens and nothing is kept of it: only an answer
        // that is already kept under the key can come back.
        let asked = self.ask(actor, collection, Verb::Group(Vec::new()), Some(key.clone())).await;
        match asked {
            Err(refusal) if matches!(refusal.rule(), Some(Rule::Invalid { .. })) => None,
            outcome => Some(outcome),
        }
    }

    async fn ask(
        &self,
        actor: &Actor,
        collection: &CollectionKey,
        verb: Verb,
        idempotency: Option<Idempotency>,
    ) -> Result<Done> {
        let command = Command { collection: collection.clone(), actor: actor.principal.clone(), verb };
        let answer = self.engine.execute(Request { command, idempotency }).await;
        let at_ms = answer.server_time_ms;
        match answer.outcome {
            Ok(value) => Ok(Done { value, at_ms, replayed: answer.replayed }),
            Err(refused) => Err(Refusal::engine(refused, at_ms)),
        }
    }
}

/// A digit of an id: 32 of them, none that reads like another.
pub(crate) fn digit(value: u64) -> char {
    const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    char::from(DIGITS[usize::try_from(value & 31).unwrap_or(0)])
}

/// Somebody else changed what a plan was based on. A plan reads what it names, so an item that is not there
/// was there a moment ago.
pub(crate) fn is_raced(refusal: &Refusal) -> bool {
    match refusal.rule() {
        Some(Rule::Conflict { .. }) => true,
        Some(Rule::NotFound { what, .. }) => &**what == "item",
        _ => false,
    }
}

impl Done {
    /// The item of this family that the change wrote, from the engine's reply: a retry shows what the first
    /// one did.
    pub fn written(&self, family: Family) -> Result<Arc<Item>> {
        let replies = match &self.value {
            Reply::Group(replies) => replies,
            reply => std::slice::from_ref(reply),
        };
        let mut items = replies.iter().filter_map(|reply| match reply {
            Reply::Item { item, .. } if family.has(item.id.as_str()) => Some(item.clone()),
            _ => None,
        });
        items.next().ok_or(Refusal::Broken)
    }
}

impl<T> Done<T> {
    /// The same, shown otherwise.
    pub fn show<U>(self, value: U) -> Done<U> {
        Done { value, at_ms: self.at_ms, replayed: self.replayed }
    }
}

impl<T: DeserializeOwned> Document<T> {
    /// Reads an item's document.
    pub fn of(item: Arc<Item>) -> Result<Self> {
        let read = item.data.as_ref().map(Json::read::<T>);
        match read {
            Some(Ok(data)) => Ok(Self { item, data }),
            Some(Err(error)) => {
                tracing::error!(item = item.id.as_str(), %error, "a document cannot be read");
                Err(Refusal::Broken)
            }
            None => {
                tracing::error!(item = item.id.as_str(), "a document is missing");
                Err(Refusal::Broken)
            }
        }
    }
}

impl<T> Document<T> {
    /// The claim that last took the item. The engine says whether it still holds, and whose it is.
    pub fn last_claim(&self) -> Result<u64> {
        match self.item.claim {
            0 => Err(Rule::NotHeld { item: self.item.id.clone() }.into()),
            claim => Ok(claim),
        }
    }
}

impl<T: Serialize> Document<T> {
    /// Writes the document over the version that was read, in this status.
    pub fn put(&self, status: &Status, data: &T, guard: Option<Guard>) -> Result<Verb> {
        put(&self.item.id, status, data, Expect::Version(self.item.version), guard)
    }
}

/// Writes a document: what it becomes, what must be there, and under whose hold.
pub fn put(
    item: &ItemId,
    status: &Status,
    data: &impl Serialize,
    expect: Expect,
    guard: Option<Guard>,
) -> Result<Verb> {
    let write = ItemWrite { item: item.clone(), status: Some(status.clone()), data: Some(Json::of(data)?) };
    Ok(Verb::PutItem(PutItem { write, expect, guard }))
}

/// A status of an application's own.
pub(crate) fn status(word: &'static str) -> Status {
    Status::new(word).expect("the application's statuses are valid")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_go_on_within_a_millisecond_and_when_the_clock_does_not() {
        let mut made = Made::default();
        let mut all = Vec::new();
        for (now_ms, random) in [(7, u32::MAX), (7, 0), (7, 5), (3, 5), (7, 0xFFFF), (9, 1), (9, u32::MAX)] {
            made = made.next(now_ms, random);
            all.push((made.at_ms, made.tail));
        }
        assert!(all.is_sorted_by(|one, next| one < next), "{all:?}");
        assert!(all.iter().all(|(_, tail)| *tail <= Made::TAIL_MAX), "{all:?}");
        assert_eq!((all[0], all[1]), ((7, Made::TAIL_MAX), (8, 0)), "what has no room left borrows");
        assert_eq!(all[5], (9, 1));
    }
}
