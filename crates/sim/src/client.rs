//! One client: a small state machine like a real one. It claims, keeps, works and lets go; it retries
//! with the same key when it had no answer; it may be paused for longer than its claims last, or leave.

use std::sync::Arc;

use tenure_core::command::{Acquire, Complete, PutItem};
use tenure_core::{
    Claim, ClaimState, CollectionKey, Command, Expect, Guard, ItemId, ItemWrite, Json, Principal, Reply,
    SessionId, Status, Text, Verb,
};
use tenure_engine::{Answer, Refused};
use tenure_store::Reader;

use crate::rng::Rng;
use crate::world::{Place, World, random_policy, status};

/// What a client knows of a claim of its own.
#[derive(Clone, Debug)]
pub(crate) struct Holding {
    pub(crate) collection: CollectionKey,
    pub(crate) claim: u64,
    pub(crate) token: u64,
    pub(crate) items: Vec<ItemId>,
}

/// The request that a client waits for.
#[derive(Clone, Debug)]
pub(crate) struct Outstanding {
    pub(crate) request: u64,
    pub(crate) command: Command,
    pub(crate) key: Option<Text>,
    pub(crate) until_ms: i64,
    pub(crate) tries: u32,
}

#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) principal: Principal,
    sessions: Vec<SessionId>,
    pub(crate) is_admin: bool,
    pub(crate) holdings: Vec<Holding>,
    pub(crate) outstanding: Option<Outstanding>,
    pub(crate) paused_until_ms: i64,
    /// A key that was used before, to be misused once in a while.
    pub(crate) used_key: Option<Text>,
}

/// What everyone can see on their screens.
pub(crate) struct Sight<'a> {
    pub(crate) world: &'a World,
    pub(crate) reader: Option<&'a dyn Reader>,
    /// Claims that were seen, with their tokens, alive or not.
    pub(crate) known: &'a [(CollectionKey, u64, u64)],
}

impl Client {
    pub(crate) fn new(index: usize, rng: &mut Rng) -> Self {
        let principal = Principal::new(format!("h{index}"), format!("Holder {index}")).expect("a plain name");
        let sessions = (0..=rng.index(2))
            .map(|session| SessionId::new(format!("h{index}-{session}")).expect("a plain name"))
            .collect();
        Self {
            principal,
            sessions,
            is_admin: index == 0,
            holdings: Vec::new(),
            outstanding: None,
            paused_until_ms: 0,
            used_key: None,
        }
    }

    /// What it does next.
    pub(crate) fn next(&mut self, rng: &mut Rng, sight: &Sight<'_>) -> Command {
        if self.is_admin && rng.chance(400) {
            return self.administer(rng, sight);
        }
        if !self.holdings.is_empty() && rng.chance(700) {
            return self.work(rng, sight);
        }
        let place = rng.pick(&sight.world.places);
        let verb = match rng.weighted(&[70, 8, 6, 6, 6]) {
            0 => self.acquire(rng, place),
            1 => put(rng, place, sight, None),
            2 => return self.meddle(rng, sight, place),
            3 => self.group(rng, place, sight),
            _ => Verb::DeleteItem {
                item: rng.pick(&place.items).clone(),
                expect: expect(rng, sight, place),
                guard: None,
            },
        };
        self.ask(&place.key, verb)
    }

    /// An answer came: learn from it.
    pub(crate) fn learn(&mut self, command: &Command, answer: &Answer) {
        match &answer.outcome {
            Ok(reply) => self.learn_reply(&command.collection, reply),
            Err(Refused::Rule(refusal)) if refusal.code() == "lost" || refusal.code() == "not_found" => {
                let lost = match &command.verb {
                    Verb::Heartbeat { claim, .. }
                    | Verb::AddItem { claim, .. }
                    | Verb::RemoveItem { claim, .. }
                    | Verb::Advance { claim }
                    | Verb::Enter { claim, .. }
                    | Verb::Cancel { claim }
                    | Verb::Release { claim } => *claim,
                    Verb::Complete(complete) => complete.claim,
                    _ => return,
                };
                self.forget(&command.collection, lost);
            }
            Err(_) => {}
        }
    }

    fn learn_reply(&mut self, collection: &CollectionKey, reply: &Reply) {
        match reply {
            Reply::Acquired { claim, .. } | Reply::Claim { claim } | Reply::Beat { claim, .. }
                if claim.holder.id == self.principal.id =>
            {
                self.learn_claim(collection, claim);
            }
            Reply::Group(replies) => replies.iter().for_each(|reply| self.learn_reply(collection, reply)),
            _ => {}
        }
    }

    fn learn_claim(&mut self, collection: &CollectionKey, claim: &Claim) {
        self.forget(collection, claim.number);
        if claim.state == ClaimState::Active {
            self.holdings.push(Holding {
                collection: collection.clone(),
                claim: claim.number,
                token: claim.token,
                items: claim.items.to_vec(),
            });
        }
    }

    fn forget(&mut self, collection: &CollectionKey, claim: u64) {
        self.holdings.retain(|holding| holding.claim != claim || holding.collection != *collection);
    }

    fn ask(&self, collection: &CollectionKey, verb: Verb) -> Command {
        Command { collection: collection.clone(), actor: self.principal.clone(), verb }
    }

    fn acquire(&mut self, rng: &mut Rng, place: &Place) -> Verb {
        let count = 1 + rng.weighted(&[70, 20, 10]);
        let mut items: Vec<ItemId> = Vec::new();
        for _ in 0..count {
            let item = rng.pick(&place.items);
            if !items.contains(item) || rng.chance(20) {
                items.push(item.clone());
            }
        }
        Verb::Acquire(Acquire {
            items,
            session: rng.chance(600).then(|| rng.pick(&self.sessions).clone()),
            ttl_ms: rng.chance(250).then(|| *rng.pick(&[1_000, 2_000, 3_000, 10_000, 60_000])),
            wait_ms: rng.chance(550).then(|| *rng.pick(&[1, 300, 2_000, 5_000, 30_000])),
            data: rng.chance(100).then(|| document(rng)),
        })
    }

    /// Something with a claim of its own, which may be over by now.
    fn work(&mut self, rng: &mut Rng, sight: &Sight<'_>) -> Command {
        let holding = rng.pick(&self.holdings).clone();
        let Holding { collection, claim, token, items } = &holding;
        let (claim, mut token) = (*claim, *token);
        if rng.chance(15) {
            token = token.wrapping_sub(1 + rng.below(2));
        }
        let place = sight.world.places.iter().find(|place| place.key == *collection);
        let Some(place) = place else { return self.ask(collection, Verb::Release { claim }) };
        let guard = Some(if rng.chance(600) {
            Guard::Claim { claim, token }
        } else {
            Guard::Holds { item: rng.pick(items).clone(), token: rng.chance(500).then_some(token) }
        });
        let verb = match rng.weighted(&[36, 8, 6, 8, 6, 3, 12, 10, 8, 3]) {
            0 => {
                let idle_ms = rng.chance(300).then(|| rng.range(0, 8_000));
                Verb::Heartbeat { claim, token, idle_ms }
            }
            1 => Verb::AddItem { claim, item: rng.pick(&place.items).clone() },
            2 => Verb::RemoveItem { claim, item: rng.pick(items).clone() },
            3 if rng.chance(500) => Verb::Advance { claim },
            3 => {
                let phase = Text::from(format!("p{}", rng.index(4)));
                Verb::Enter { claim, phase, ttl_ms: rng.chance(500).then(|| rng.range(1, 5_000)) }
            }
            4 => Verb::Complete(complete(rng, place, &holding, token)),
            5 => Verb::Cancel { claim },
            6 => Verb::Release { claim },
            7 => put(rng, place, sight, guard),
            8 => Verb::Acquire(Acquire {
                items: items.clone(),
                ttl_ms: rng.chance(300).then_some(1_000),
                ..Acquire::default()
            }),
            _ => Verb::Group(vec![
                put(rng, place, sight, guard.clone()),
                Verb::RemoveItem { claim, item: rng.pick(items).clone() },
                Verb::Heartbeat { claim, token, idle_ms: None },
            ]),
        };
        self.ask(collection, verb)
    }

    /// With somebody else's claim.
    fn meddle(&mut self, rng: &mut Rng, sight: &Sight<'_>, place: &Place) -> Command {
        if sight.known.is_empty() {
            return self.ask(&place.key, nudge(rng, 1));
        }
        let recent = sight.known.len().saturating_sub(20);
        let (key, claim, token) = rng.pick(&sight.known[recent..]).clone();
        let verb = match rng.below(6) {
            0..3 => nudge(rng, claim),
            3 => Verb::Release { claim },
            4 => Verb::Heartbeat { claim, token, idle_ms: None },
            _ => {
                let item = place.items[0].clone();
                Verb::AddItem { claim, item }
            }
        };
        self.ask(&key, verb)
    }

    /// Several at once, all or nothing.
    fn group(&mut self, rng: &mut Rng, place: &Place, sight: &Sight<'_>) -> Verb {
        let mut verbs = vec![put(rng, place, sight, None), self.acquire(rng, place)];
        if rng.chance(500) {
            verbs.push(put(rng, place, sight, None));
        }
        if rng.chance(300) {
            verbs.insert(0, Verb::CreateCollection);
        }
        Verb::Group(verbs)
    }

    fn administer(&mut self, rng: &mut Rng, sight: &Sight<'_>) -> Command {
        let place = rng.pick(&sight.world.places);
        let item = rng.pick(&place.items).clone();
        let reason: Text = Text::from("needed elsewhere");
        let verb = match rng.weighted(&[10, 8, 25, 14, 3, 2, 14]) {
            0 => Verb::ForceRelease { item, reason },
            1 => {
                let session = rng.chance(500).then(|| self.sessions[0].clone());
                Verb::ForceClaim { item, reason, session }
            }
            2 => {
                // Makes what is missing, so that others find something to claim.
                let write = ItemWrite { item, status: None, data: rng.chance(300).then(|| document(rng)) };
                Verb::PutItem(PutItem { write, expect: Expect::Absent, guard: None })
            }
            3 => Verb::DeleteItem { item, expect: Expect::Any, guard: None },
            4 => return self.set_policy(rng),
            5 => Verb::CreateCollection,
            _ => {
                // What is finished can be worked on once more, where an administrator says so.
                let reset = match place.key.kind() {
                    "task" => "ready",
                    "analysis" => "QUEUED",
                    "image" => "new",
                    "own" | "other" => "open",
                    _ => {
                        return self
                            .ask(&place.key, Verb::DeleteItem { item, expect: Expect::Any, guard: None });
                    }
                };
                let write = ItemWrite { item, status: Some(status(reset)), data: None };
                Verb::PutItem(PutItem { write, expect: Expect::Any, guard: None })
            }
        };
        self.ask(&place.key, verb)
    }

    fn set_policy(&mut self, rng: &mut Rng) -> Command {
        let mut policy = random_policy(rng);
        match rng.below(12) {
            0 => policy.phases.clear(),
            1 => policy.phases[0].ttl_ms = 10,
            2 => policy.max_items = 0,
            _ => {}
        }
        let kind = Text::from(*rng.pick(&["own", "other"]));
        self.ask(&CollectionKey::policies(), Verb::SetPolicy { kind, policy: Arc::new(policy) })
    }
}

fn complete(rng: &mut Rng, place: &Place, holding: &Holding, token: u64) -> Complete {
    let words: &[&str] = match place.key.kind() {
        "task" => &["ready", "partially_completed", "completed", "ready"],
        "raffle" => &["available", "sold", "available"],
        "analysis" => &["QUEUED", "READY", "QUEUED"],
        "image" => &["done", "in_progress"],
        "lock" => &["open"],
        _ => &["open", "done", "again", "open"],
    };
    let mut complete = Complete {
        claim: holding.claim,
        token: rng.chance(600).then_some(token),
        status: rng.chance(800).then(|| status(rng.pick::<&str>(words))),
        data: rng.chance(300).then(|| document(rng)),
        items: Vec::new(),
    };
    if rng.chance(200) {
        let item = rng.pick(&holding.items).clone();
        complete.items.push(ItemWrite { item, status: Some(status(rng.pick::<&str>(words))), data: None });
    }
    complete
}

fn nudge(rng: &mut Rng, claim: u64) -> Verb {
    Verb::Nudge { claim, message: rng.chance(500).then(|| Text::from("please")) }
}

fn put(rng: &mut Rng, place: &Place, sight: &Sight<'_>, guard: Option<Guard>) -> Verb {
    let item = rng.pick(&place.items).clone();
    let words: &[&str] = match place.key.kind() {
        "task" => &["ready", "processing", "completed", "odd"],
        "analysis" => &["QUEUED", "READY"],
        "image" => &["new", "archived"],
        "own" | "other" => &["open", "again", "done", "odd"],
        // Numbers are sold by completing a claim, and by nothing else.
        _ => &[],
    };
    let named: Option<Status> =
        (!words.is_empty() && rng.chance(120)).then(|| status(rng.pick::<&str>(words)));
    let guard = guard.or_else(|| rng.chance(150).then(|| on_another(rng, place)));
    let write = ItemWrite { item, status: named, data: Some(document(rng)) };
    Verb::PutItem(PutItem { write, expect: expect(rng, sight, place), guard })
}

/// A guard that looks at another item than the one that is written.
fn on_another(rng: &mut Rng, place: &Place) -> Guard {
    let item = rng.pick(&place.items).clone();
    if rng.chance(200) {
        // Versions are small for a while; a wrong guess is a refusal to be judged, too.
        return Guard::Unchanged { item, version: rng.below(5) };
    }
    if rng.chance(300) { Guard::Holds { item, token: None } } else { Guard::NotHeldByOther { item } }
}

/// Mostly what the item looks like now; by the time it arrives that may be over.
fn expect(rng: &mut Rng, sight: &Sight<'_>, place: &Place) -> Expect {
    match rng.below(10) {
        0..4 => Expect::Any,
        4 => Expect::Absent,
        5 => Expect::Version(1 + rng.below(4)),
        _ => {
            let item = rng.pick(&place.items);
            let row = sight.reader.and_then(|reader| reader.item(&place.key, item).ok().flatten());
            row.map_or(Expect::Absent, |row| Expect::Version(row.version))
        }
    }
}

fn document(rng: &mut Rng) -> Json {
    Json::parse(&format!("{{\"n\":{}}}", rng.below(1_000)), "data").expect("it is JSON")
}
