//! A world to try the rules in: rows in plain maps, a clock that is moved by hand, and an audit of
//! every decision that shares no code with what it judges.

use std::collections::BTreeSet;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use tenure_core::command::{Acquire, Complete, How, NotRenewed, PutItem};
use tenure_core::{
    Claim, CollectionKey, Command, Decision, Expect, Fact, Guard, Hash, Item, ItemId, ItemWrite, Json,
    Policy, Principal, Refusal, Reply, Rows, Sealed, SessionId, Status, Text, Verb, decide, fold,
};

use crate::memory::Memory;

/// When every world begins. Not zero, so that a forgotten time shows.
pub(crate) const START_MS: i64 = 1_000_000;

/// A time, counted from the world's beginning.
pub(crate) fn t(offset_ms: i64) -> i64 {
    START_MS + offset_ms
}

/// A person: `ana` is called Ana.
pub(crate) fn person(id: &str) -> Principal {
    if id == "system" {
        return Principal::system();
    }
    let name = id[..1].to_uppercase() + &id[1..];
    Principal::new(id, name).expect("a test's person is valid")
}

pub(crate) fn item_id(id: &str) -> ItemId {
    ItemId::new(id).expect("a test's item is valid")
}

pub(crate) fn status(word: &str) -> Status {
    Status::new(word).expect("a test's status is valid")
}

pub(crate) fn json(text: &str) -> Json {
    Json::parse(text, "data").expect("a test's document is valid")
}

/// An acquire of these items and nothing else said.
pub(crate) fn items(ids: &[&str]) -> Acquire {
    Acquire { items: ids.iter().map(|id| item_id(id)).collect(), ..Acquire::default() }
}

/// An acquire in a tab.
pub(crate) fn in_tab(tab: &str, ids: &[&str]) -> Acquire {
    Acquire { session: Some(SessionId::new(tab).expect("a test's session is valid")), ..items(ids) }
}

/// An acquire for another TTL than the policy's.
pub(crate) fn for_ms(ttl_ms: i64, ids: &[&str]) -> Acquire {
    Acquire { ttl_ms: Some(ttl_ms), ..items(ids) }
}

/// A write that leaves what it does not name.
pub(crate) fn write(id: &str, status_word: Option<&str>, data: Option<&str>) -> ItemWrite {
    ItemWrite { item: item_id(id), status: status_word.map(status), data: data.map(json) }
}

/// A put of a document, whatever is there.
pub(crate) fn put(id: &str, data: &str) -> PutItem {
    PutItem { write: write(id, None, Some(data)), expect: Expect::Any, guard: None }
}

/// A put of a status, whatever is there.
pub(crate) fn put_status(id: &str, word: &str) -> PutItem {
    PutItem { write: write(id, Some(word), None), expect: Expect::Any, guard: None }
}

/// Only under this claim, with its newest token.
pub(crate) fn under(claim: &Claim) -> Guard {
    Guard::Claim { claim: claim.number, token: claim.token }
}

/// Finish a claim: all its items get the status.
pub(crate) fn complete(claim: &Claim, word: &str) -> Complete {
    let token = Some(claim.token);
    Complete { claim: claim.number, token, status: Some(status(word)), data: None, items: Vec::new() }
}

/// Something that is done to a claim.
pub(crate) type Deed = fn(&mut World, &Claim);

/// Something that is tried on a claim.
pub(crate) type Try = fn(&mut World, &Claim) -> Outcome;

/// One collection, a clock and everything that happened.
pub(crate) struct World {
    pub(crate) rows: Memory,
    pub(crate) now_ms: i64,
    pub(crate) key: CollectionKey,
    pub(crate) log: Vec<(CollectionKey, Arc<Sealed>)>,
    /// Rows from events and heartbeats, as after a restart.
    replayed: Memory,
    /// Rows from events alone.
    folded: Memory,
}

impl World {
    /// An empty world that will speak of `kind/here`.
    pub(crate) fn empty(kind: &str) -> Self {
        let key = CollectionKey::from_parts(kind, "here").expect("a test's kind is valid");
        let (rows, replayed, folded) = Default::default();
        Self { rows, now_ms: START_MS, key, log: Vec::new(), replayed, folded }
    }

    /// A collection of a built-in kind, with free items.
    pub(crate) fn of(kind: &str, ids: &[&str]) -> Self {
        Self::empty(kind).with(ids)
    }

    /// A collection with this policy and free items.
    pub(crate) fn under(policy: Policy, ids: &[&str]) -> Self {
        let mut w = Self::empty("custom");
        w.set_policy(policy);
        w.with(ids)
    }

    fn with(mut self, ids: &[&str]) -> Self {
        self.run("root", Verb::CreateCollection).granted();
        for id in ids {
            let write = write(id, None, None);
            self.put("root", PutItem { write, expect: Expect::Absent, guard: None }).granted();
        }
        self
    }

    /// Moves the clock to this long after the beginning.
    pub(crate) fn at(&mut self, offset_ms: i64) -> &mut Self {
        assert!(t(offset_ms) >= self.now_ms, "time never runs backwards");
        self.now_ms = t(offset_ms);
        self
    }

    /// Asks anything of this world's collection.
    pub(crate) fn run(&mut self, who: &str, verb: Verb) -> Outcome {
        let key = self.key.clone();
        self.run_in(key, who, verb)
    }

    /// Asks anything of any collection, and audits the decision.
    pub(crate) fn run_in(&mut self, collection: CollectionKey, who: &str, verb: Verb) -> Outcome {
        let command = Command { collection, actor: person(who), verb };
        let before = self.rows.clone();
        let result = decide(&self.rows, &command, self.now_ms);
        let again = decide(&self.rows, &command, self.now_ms);
        assert_eq!(format!("{result:?}"), format!("{again:?}"), "the same question has one answer");
        assert_eq!(self.rows, before, "deciding changes nothing");
        if let Ok(decision) = &result {
            self.commit(&command.collection, decision);
        }
        Outcome(result)
    }

    fn commit(&mut self, key: &CollectionKey, decision: &Decision) {
        self.check_chain(key, &decision.events);
        self.rows.take(key, decision.changed.clone());
        for sealed in &decision.events {
            fold::apply(&mut self.replayed, key, &sealed.event, sealed.hash);
            fold::apply(&mut self.folded, key, &sealed.event, sealed.hash);
            self.log.push((key.clone(), sealed.clone()));
        }
        for beat in &decision.beats {
            fold::apply_beat(&mut self.replayed, key, beat);
        }
        assert_eq!(self.replayed, self.rows, "replaying events, then heartbeats, gives the rows");
        let (folded, rows) = (self.folded.without_heartbeats(), self.rows.without_heartbeats());
        assert_eq!(folded, rows, "folding the events gives the rows, heartbeat times aside");
        self.check_holds();
    }

    /// E2, E3: numbers without gaps, and each hash over the one before it.
    fn check_chain(&self, key: &CollectionKey, events: &[Arc<Sealed>]) {
        let head = self.rows.collection(key);
        let (mut seq, mut hash) = head.map_or((0, [0; 32]), |head| (head.seq, head.hash.0));
        for sealed in events {
            if let Fact::Restored { from_seq, .. } = sealed.event.fact {
                assert_eq!(from_seq, seq, "a restore says from where it jumps");
                assert!(sealed.event.seq > seq, "and jumps ahead");
            } else {
                assert_eq!(sealed.event.seq, seq + 1, "numbers have no gaps");
            }
            seq = sealed.event.seq;
            assert_eq!(sealed.event.at_ms, self.now_ms, "an event happens when it is decided");
            assert_eq!(sealed.bytes, postcard::to_stdvec(&sealed.event).expect("encodes"));
            let previous = Hash(hash);
            hash = Sha256::new().chain_update(hash).chain_update(&sealed.bytes).finalize().into();
            assert_eq!(sealed.hash.0, hash, "the chain verifies");
            assert_eq!(Sealed::read(&previous, sealed.bytes.clone()).as_ref(), Ok(&**sealed));
        }
    }

    /// No item is held twice, and who holds an item is what the item itself says.
    fn check_holds(&self) {
        let mut held = BTreeSet::new();
        for (key, claim) in self.rows.all_active() {
            if self.now_ms >= claim.expires_at_ms {
                continue;
            }
            assert!(!claim.items.is_empty(), "a claim holds at least one item");
            for id in claim.items.iter() {
                assert!(held.insert((key, id)), "{id} is held twice");
                let item = self.rows.item(key, id).expect("a held item is there");
                assert_eq!(item.claim, claim.number, "the item knows its claim");
                assert!(item.fence >= claim.number && item.fence <= claim.token, "the fence is the grant's");
            }
        }
    }

    /// The number of the collection's newest event.
    pub(crate) fn newest_seq(&self) -> u64 {
        self.rows.collection(&self.key).map_or(0, |collection| collection.seq)
    }

    pub(crate) fn item(&self, id: &str) -> Arc<Item> {
        self.rows.item(&self.key, &item_id(id)).expect("the item is there")
    }

    pub(crate) fn claim(&self, number: u64) -> Arc<Claim> {
        self.rows.claim(&self.key, number).expect("the claim is there")
    }

    /// The names of everything that happened to this collection so far.
    pub(crate) fn actions(&self) -> Vec<&'static str> {
        let here = self.log.iter().filter(|(key, _)| *key == self.key);
        here.map(|(_, sealed)| sealed.event.fact.action()).collect()
    }

    /// The newest fact.
    pub(crate) fn last_fact(&self) -> &Fact {
        &self.log.last().expect("something happened").1.event.fact
    }

    pub(crate) fn acquire(&mut self, who: &str, ids: &[&str]) -> Outcome {
        self.run(who, Verb::Acquire(items(ids)))
    }

    pub(crate) fn acquire_as(&mut self, who: &str, acquire: Acquire) -> Outcome {
        self.run(who, Verb::Acquire(acquire))
    }

    pub(crate) fn beat(&mut self, who: &str, claim: &Claim) -> Outcome {
        self.run(who, Verb::Heartbeat { claim: claim.number, token: claim.token, idle_ms: None })
    }

    pub(crate) fn beat_idle(&mut self, who: &str, claim: &Claim, idle_ms: i64) -> Outcome {
        self.run(who, Verb::Heartbeat { claim: claim.number, token: claim.token, idle_ms: Some(idle_ms) })
    }

    pub(crate) fn add(&mut self, who: &str, claim: &Claim, id: &str) -> Outcome {
        self.run(who, Verb::AddItem { claim: claim.number, item: item_id(id) })
    }

    pub(crate) fn remove(&mut self, who: &str, claim: &Claim, id: &str) -> Outcome {
        self.run(who, Verb::RemoveItem { claim: claim.number, item: item_id(id) })
    }

    pub(crate) fn advance(&mut self, who: &str, claim: &Claim) -> Outcome {
        self.run(who, Verb::Advance { claim: claim.number })
    }

    pub(crate) fn complete(&mut self, who: &str, how: Complete) -> Outcome {
        self.run(who, Verb::Complete(how))
    }

    pub(crate) fn cancel(&mut self, who: &str, claim: &Claim) -> Outcome {
        self.run(who, Verb::Cancel { claim: claim.number })
    }

    pub(crate) fn release(&mut self, who: &str, claim: &Claim) -> Outcome {
        self.run(who, Verb::Release { claim: claim.number })
    }

    pub(crate) fn force_release(&mut self, who: &str, id: &str) -> Outcome {
        self.run(who, Verb::ForceRelease { item: item_id(id), reason: Text::from("gone home") })
    }

    pub(crate) fn force_claim(&mut self, who: &str, id: &str) -> Outcome {
        let (item, reason) = (item_id(id), Text::from("urgent"));
        self.run(who, Verb::ForceClaim { item, reason, session: None })
    }

    pub(crate) fn nudge(&mut self, who: &str, claim: &Claim, message: Option<&str>) -> Outcome {
        self.run(who, Verb::Nudge { claim: claim.number, message: message.map(Text::from) })
    }

    pub(crate) fn put(&mut self, who: &str, put: PutItem) -> Outcome {
        self.run(who, Verb::PutItem(put))
    }

    pub(crate) fn delete(&mut self, who: &str, id: &str) -> Outcome {
        self.run(who, Verb::DeleteItem { item: item_id(id), expect: Expect::Any, guard: None })
    }

    pub(crate) fn expire(&mut self, claim: &Claim) -> Outcome {
        self.run("system", Verb::Expire { claim: claim.number })
    }

    /// Gives this world's kind a policy.
    pub(crate) fn set_policy(&mut self, policy: Policy) {
        let kind = Text::from(self.key.kind());
        let verb = Verb::SetPolicy { kind, policy: Arc::new(policy) };
        self.run_in(CollectionKey::policies(), "root", verb).granted();
    }
}

/// What came of a command, and the questions that tests ask of it.
pub(crate) struct Outcome(pub(crate) Result<Decision, Refusal>);

impl Outcome {
    #[track_caller]
    pub(crate) fn granted(self) -> Decision {
        self.0.unwrap_or_else(|refusal| panic!("refused: {refusal:?}"))
    }

    #[track_caller]
    pub(crate) fn refused(self) -> Refusal {
        match self.0 {
            Err(refusal) => refusal,
            Ok(decision) => panic!("granted: {:?}", decision.reply),
        }
    }

    /// `ok`, or the refusal's code.
    pub(crate) fn code(&self) -> &'static str {
        self.0.as_ref().map_or_else(Refusal::code, |_| "ok")
    }

    /// The claim that the answer shows.
    #[track_caller]
    pub(crate) fn claim(self) -> Claim {
        match self.granted().reply {
            Reply::Acquired { claim, .. }
            | Reply::Claim { claim }
            | Reply::Beat { claim, .. }
            | Reply::Freed { claim: Some(claim) } => (*claim).clone(),
            other => panic!("no claim in {other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn how(self) -> How {
        match self.granted().reply {
            Reply::Acquired { how, .. } => how,
            other => panic!("not an acquire: {other:?}"),
        }
    }

    /// Whether a heartbeat renewed, and why not.
    #[track_caller]
    pub(crate) fn renewed(self) -> Result<i64, NotRenewed> {
        match self.granted().reply {
            Reply::Beat { renewed: true, reason: None, claim } => Ok(claim.expires_at_ms),
            Reply::Beat { renewed: false, reason: Some(reason), .. } => Err(reason),
            other => panic!("not a heartbeat: {other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn item(self) -> Item {
        match self.granted().reply {
            Reply::Item { item, .. } => (*item).clone(),
            other => panic!("no item in {other:?}"),
        }
    }

    /// The names of what happened.
    #[track_caller]
    pub(crate) fn actions(self) -> Vec<&'static str> {
        self.granted().events.iter().map(|sealed| sealed.event.fact.action()).collect()
    }
}
