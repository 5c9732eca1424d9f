//! Runs commands on the store under test and on the reference: load, decide each on an overlay, commit.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tenure_core::command::{Acquire, Complete};
use tenure_core::{
    Claim, ClaimState, Collection, CollectionKey, Command, Decision, Guard, Hash, Item, ItemId, Policy,
    Principal, Refusal, Reply, Rows, Text, Verb, decide,
};

use super::compare;
use crate::memory::Memory;
use crate::{Batch, Entry, Kept, Reader, ReplyKey, State, Store, View, Want};

/// Two stores that must not differ.
pub struct Harness<'a, S: Store> {
    store: Option<S>,
    reference: Memory,
    reopen: &'a dyn Fn(S) -> S,
    /// The time of the next batch. Cases move it by hand.
    pub now_ms: i64,
    /// Every key under which a reply was kept.
    pub(super) reply_keys: Vec<ReplyKey>,
}

/// What came of a command.
pub type Outcome = Result<Reply, Refusal>;

impl<'a, S: Store> Harness<'a, S> {
    pub(super) fn new(store: S, reopen: &'a dyn Fn(S) -> S) -> Self {
        let now_ms = store.high_water_ms().max(1_700_000_000_000);
        Self { store: Some(store), reference: Memory::default(), reopen, now_ms, reply_keys: Vec::new() }
    }

    /// The store under test.
    pub fn store(&mut self) -> &mut S {
        self.store.as_mut().expect("a store is open")
    }

    /// Its readers' face.
    pub fn reader(&mut self) -> Arc<dyn Reader> {
        self.store().reader()
    }

    /// Opens the store again, as after a restart. A store that forgets is left as it is.
    pub fn reopen(&mut self) {
        let store = self.store.take().expect("a store is open");
        self.store = Some((self.reopen)(store));
    }

    /// One command in a batch of its own.
    pub fn run(&mut self, command: Command) -> Outcome {
        self.batch(vec![(command, None)]).remove(0)
    }

    /// A command that must be granted.
    #[track_caller]
    pub fn grant(&mut self, command: Command) -> Reply {
        match self.run(command) {
            Ok(reply) => reply,
            Err(refusal) => panic!("refused: {refusal}"),
        }
    }

    /// Several commands in one batch, each with the key under which its reply is kept.
    pub fn batch(&mut self, commands: Vec<(Command, Option<&str>)>) -> Vec<Outcome> {
        let now_ms = self.now_ms;
        let commands: Vec<(Command, Option<ReplyKey>)> = commands
            .into_iter()
            .map(|(command, key)| {
                let key = key.map(|key| reply_key(&command.collection, &command.actor.id, key));
                (command, key)
            })
            .collect();
        self.reply_keys.extend(commands.iter().filter_map(|(_, key)| key.clone()));
        let store = self.store.as_mut().expect("a store is open");
        let outcomes = run_batch(store, &commands, now_ms);
        let expected = run_batch(&mut self.reference, &commands, now_ms);
        assert_eq!(outcomes.len(), expected.len());
        for (outcome, expected) in outcomes.iter().zip(&expected) {
            assert!(is_same(outcome, expected), "decided on other rows:\n{outcome:?}\n{expected:?}");
        }
        self.now_ms += 1;
        outcomes
    }

    /// Everything that readers can see is the same in both.
    #[track_caller]
    pub fn compare(&mut self) {
        let reference = self.reference.reader();
        let reader = self.reader();
        compare::readers(&*reader, &*reference);
        assert_eq!(self.store().high_water_ms(), self.reference.high_water_ms(), "high water");
        for key in self.reply_keys.clone() {
            let (ours, theirs) = (self.kept(&key), self.kept_in_reference(&key));
            let same = match (&ours, &theirs) {
                (Some(ours), Some(theirs)) => {
                    ours.at_ms == theirs.at_ms && is_same(&ours.outcome, &theirs.outcome)
                }
                (ours, theirs) => ours.is_none() && theirs.is_none(),
            };
            assert!(same, "kept under {key:?}:\n{ours:?}\n{theirs:?}");
        }
    }

    /// The reply that the store kept under a key, while it is kept.
    pub fn kept(&mut self, key: &ReplyKey) -> Option<Arc<Kept>> {
        let now_ms = self.now_ms;
        let store = self.store.as_mut().expect("a store is open");
        kept_in(store, key).filter(|kept| kept.is_kept_at(now_ms))
    }

    fn kept_in_reference(&mut self, key: &ReplyKey) -> Option<Arc<Kept>> {
        kept_in(&mut self.reference, key).filter(|kept| kept.is_kept_at(self.now_ms))
    }
}

/// Two outcomes are the same, or one is about a claim that ended and that the writer no longer knows:
/// how long it does is the store's own choice.
fn is_same(ours: &Outcome, theirs: &Outcome) -> bool {
    let forgotten = match ours {
        Err(Refusal::NotFound { what, .. }) => &**what == "claim",
        Ok(reply) => *reply == Reply::Done,
        Err(_) => false,
    };
    let ended = match theirs {
        Ok(Reply::Claim { claim }) => claim.state != ClaimState::Active,
        Err(Refusal::Lost { .. } | Refusal::NotHolder { .. }) => true,
        _ => false,
    };
    ours == theirs || (forgotten && ended)
}

fn kept_in<S: Store>(store: &mut S, key: &ReplyKey) -> Option<Arc<Kept>> {
    let want = Want {
        collection: key.collection.clone(),
        items: Vec::new(),
        claims: Vec::new(),
        holder: None,
        reply: Some(key.clone()),
    };
    let view = store.load(&[want]).expect("the store loads");
    view.kept(key)
}

fn run_batch<S: Store>(store: &mut S, commands: &[(Command, Option<ReplyKey>)], now_ms: i64) -> Vec<Outcome> {
    let wants: Vec<Want> = commands.iter().map(|(command, key)| wants_of(command, key.clone())).collect();
    let mut batch = Batch { at_ms: now_ms, entries: Vec::new() };
    let mut outcomes = Vec::new();
    {
        let view = store.load(&wants).expect("the store loads");
        let mut overlay = Overlay::new(&view);
        for (command, key) in commands {
            let decided = decide(&overlay, command, now_ms);
            let (outcome, entry) = overlay.take(command, key.as_ref(), decided, now_ms);
            outcomes.push(outcome);
            batch.entries.extend(entry);
        }
    }
    store.commit(batch).expect("the store commits");
    outcomes
}

/// The rows as they will be when the batch is committed.
pub struct Overlay<'a> {
    base: &'a dyn Rows,
    changed: HashMap<CollectionKey, Changes>,
    policies: State,
}

#[derive(Default)]
struct Changes {
    head: Option<Arc<Collection>>,
    items: BTreeMap<ItemId, Option<Arc<Item>>>,
    claims: BTreeMap<u64, Arc<Claim>>,
}

impl<'a> Overlay<'a> {
    /// Nothing is changed yet.
    pub fn new(base: &'a dyn Rows) -> Self {
        Self { base, changed: HashMap::new(), policies: State::default() }
    }

    /// Takes over a decision; answers what to say and what to commit.
    pub fn take(
        &mut self,
        command: &Command,
        key: Option<&ReplyKey>,
        decided: Result<Decision, Refusal>,
        now_ms: i64,
    ) -> (Outcome, Option<Entry>) {
        let keep = |outcome: &Outcome| {
            let kept = Kept { fingerprint: Hash([7; 32]), at_ms: now_ms, outcome: outcome.clone() };
            key.map(|key| (key.clone(), Arc::new(kept)))
        };
        match decided {
            Ok(Decision { reply, events, beats, changed }) => {
                let changes = self.changed.entry(command.collection.clone()).or_default();
                changes.head = changed.collection.clone().or_else(|| changes.head.take());
                changes.items.extend(changed.items.iter().cloned());
                changes.claims.extend(changed.claims.iter().map(|claim| (claim.number, claim.clone())));
                self.policies.take(
                    &command.collection,
                    &tenure_core::Changed { policies: changed.policies.clone(), ..Default::default() },
                );
                let outcome = Ok(reply);
                let kept = keep(&outcome);
                let entry = Entry { collection: command.collection.clone(), events, beats, changed, kept };
                (outcome, Some(entry))
            }
            Err(refusal) => {
                let outcome = Err(refusal);
                // A refusal leaves no trace but the reply that a retry will get again.
                let entry = keep(&outcome).map(|kept| Entry {
                    collection: command.collection.clone(),
                    events: Vec::new(),
                    beats: Vec::new(),
                    changed: tenure_core::Changed::default(),
                    kept: Some(kept),
                });
                (outcome, entry)
            }
        }
    }
}

impl Rows for Overlay<'_> {
    fn epoch(&self) -> u64 {
        self.base.epoch()
    }

    fn policy(&self, kind: &str) -> Option<Arc<Policy>> {
        self.policies.policy(kind).or_else(|| self.base.policy(kind))
    }

    fn collection(&self, key: &CollectionKey) -> Option<Arc<Collection>> {
        let changed = self.changed.get(key).and_then(|changes| changes.head.clone());
        changed.or_else(|| self.base.collection(key))
    }

    fn item(&self, key: &CollectionKey, id: &ItemId) -> Option<Arc<Item>> {
        match self.changed.get(key).and_then(|changes| changes.items.get(id)) {
            Some(item) => item.clone(),
            None => self.base.item(key, id),
        }
    }

    fn claim(&self, key: &CollectionKey, number: u64) -> Option<Arc<Claim>> {
        let changed = self.changed.get(key).and_then(|changes| changes.claims.get(&number));
        changed.cloned().or_else(|| self.base.claim(key, number))
    }

    fn claims_of(&self, key: &CollectionKey, holder_id: &str) -> Vec<Arc<Claim>> {
        let numbers = self.active_claims(key);
        let claims = numbers.into_iter().filter_map(|number| self.claim(key, number));
        claims.filter(|claim| &*claim.holder.id == holder_id).collect()
    }

    fn active_claims(&self, key: &CollectionKey) -> Vec<u64> {
        let mut numbers = self.base.active_claims(key);
        if let Some(changes) = self.changed.get(key) {
            numbers.retain(|number| !changes.claims.contains_key(number));
            let active = changes.claims.values().filter(|claim| claim.state == ClaimState::Active);
            numbers.extend(active.map(|claim| claim.number));
            numbers.sort_unstable();
        }
        numbers
    }
}

/// What a command reads.
pub fn wants_of(command: &Command, reply: Option<ReplyKey>) -> Want {
    let mut want = Want {
        collection: command.collection.clone(),
        items: Vec::new(),
        claims: Vec::new(),
        holder: Some(command.actor.id.clone()),
        reply,
    };
    want_verb(&command.verb, &mut want);
    want
}

fn want_verb(verb: &Verb, want: &mut Want) {
    match verb {
        Verb::Acquire(Acquire { items, .. }) => want.items.extend(items.iter().cloned()),
        Verb::AddItem { claim, item } | Verb::RemoveItem { claim, item } => {
            want.claims.push(*claim);
            want.items.push(item.clone());
        }
        Verb::Complete(Complete { claim, items, .. }) => {
            want.claims.push(*claim);
            want.items.extend(items.iter().map(|write| write.item.clone()));
        }
        Verb::Heartbeat { claim, .. }
        | Verb::Advance { claim }
        | Verb::Enter { claim, .. }
        | Verb::Cancel { claim }
        | Verb::Release { claim }
        | Verb::Nudge { claim, .. }
        | Verb::Expire { claim } => want.claims.push(*claim),
        Verb::ForceRelease { item, .. } | Verb::ForceClaim { item, .. } => want.items.push(item.clone()),
        Verb::PutItem(put) => {
            want.items.push(put.write.item.clone());
            want_guard(put.guard.as_ref(), want);
        }
        Verb::DeleteItem { item, guard, .. } => {
            want.items.push(item.clone());
            want_guard(guard.as_ref(), want);
        }
        Verb::Group(verbs) => verbs.iter().for_each(|verb| want_verb(verb, want)),
        Verb::CreateCollection | Verb::SetPolicy { .. } | Verb::Resume { .. } | Verb::Restore { .. } => {}
    }
}

fn want_guard(guard: Option<&Guard>, want: &mut Want) {
    match guard {
        Some(Guard::Claim { claim, .. }) => want.claims.push(*claim),
        Some(Guard::NotHeldByOther { item } | Guard::Holds { item, .. } | Guard::Unchanged { item, .. }) => {
            want.items.push(item.clone());
        }
        None => {}
    }
}

/// A collection's key.
pub fn key(text: &str) -> CollectionKey {
    CollectionKey::new(text).expect("a valid key")
}

/// A command by a person of that name.
pub fn command(collection: &str, actor: &str, verb: Verb) -> Command {
    let actor = Principal::new(actor, actor.to_uppercase()).expect("a valid actor");
    Command { collection: key(collection), actor, verb }
}

pub(super) fn reply_key(collection: &CollectionKey, principal: &str, key: &str) -> ReplyKey {
    ReplyKey { collection: collection.clone(), principal: Text::from(principal), key: Text::from(key) }
}
