//! Random people doing random things under random policies while the clock moves. What they do is
//! judged by [`Judge`], which knows the promises and none of the code that keeps them; the world
//! itself checks the chain, the fold and that refusals leave no trace.

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use tenure_core::command::{Acquire, Complete, How, PutItem};
use tenure_core::{
    AtEnd, Claim, ClaimId, CollectionKey, Event, Expect, Guard, ItemId, ItemWrite, Json, Phase, Policy,
    Reply, SessionId, Status, Verb,
};

use crate::judge::Judge;
use crate::world::{World, item_id, json, person, status};

const PEOPLE: [&str; 3] = ["ana", "beto", "carla"];
const ITEMS: [&str; 4] = ["a", "b", "c", "d"];
const STATUSES: [&str; 4] = ["open", "busy", "done", "odd"];

/// One thing that happens.
#[derive(Clone, Debug)]
enum Step {
    /// Time passes.
    Wait(i64),
    /// Time passes up to about the deadline of a claim.
    WaitFor { pick: usize, by: i64 },
    /// Somebody asks; with `own`, whoever holds the claim that it is about.
    Ask { who: usize, own: bool, ask: Ask },
    /// Somebody asks several things, all or nothing.
    Together { who: usize, asks: Vec<Ask> },
    /// The kind gets another policy.
    SetPolicy(Box<Policy>),
    /// The server is away.
    Pause(i64),
    /// The data comes from a backup.
    Restore,
}

/// What can be asked. Claims are picked among the newest.
#[derive(Clone, Debug)]
enum Ask {
    Acquire { items: Vec<usize>, session: Option<bool>, ttl_ms: Option<i64> },
    Beat { pick: usize, off: i8, idle_ms: Option<i64> },
    Add { pick: usize, item: usize },
    Remove { pick: usize, item: usize },
    Advance { pick: usize },
    Complete { pick: usize, status: Option<usize>, single: Option<usize> },
    Cancel { pick: usize },
    Release { pick: usize },
    ForceRelease { item: usize },
    ForceClaim { item: usize },
    Nudge { pick: usize },
    Put { item: usize, status: Option<usize>, version: Option<u64>, guard: Option<(usize, bool)> },
    Delete { item: usize },
    Expire { pick: usize },
}

fn a_policy() -> impl Strategy<Value = Policy> {
    let phase = (2_000..10_000i64, any::<bool>(), any::<bool>());
    let phases = vec(phase, 1..4);
    let guards = (option::of(1_000..5_000i64), option::of(0..10_000i64));
    let limits = (1..4usize, option::of(1..4usize), prop_oneof![3 => Just(0i64), 1 => 1..5_000i64]);
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), option::of(0..2usize));
    (phases, guards, limits, flags, (0..1_000i64, 0..5_000i64)).prop_map(
        |(
            phases,
            (idle, rolling),
            (max_items, max_claims, delay),
            (create, session, exclusive, on_claim),
            ttl,
        )| {
            let last = phases.len() - 1;
            let phases: Vec<Phase> = phases
                .into_iter()
                .enumerate()
                .map(|(index, (ttl_ms, renew, advance))| {
                    let at_end = if advance && index < last { AtEnd::Advance } else { AtEnd::Release };
                    Phase { name: format!("p{index}").into(), ttl_ms, renew, at_end, side: false }
                })
                .collect();
            let first_ms = phases[0].ttl_ms;
            let longest_ms = phases.iter().filter(|phase| phase.renew).map(|phase| phase.ttl_ms).max();
            Policy {
                idle_guard_ms: idle.filter(|_| longest_ms.is_some()),
                rolling_ms: longest_ms.and_then(|ms| Some(ms.max(first_ms + ttl.1) + rolling?)),
                phases,
                heartbeat_ms: 500,
                max_items,
                claimable: vec![status("open"), status("busy")],
                finished: vec![status("done")],
                status_on_claim: on_claim.map(|index| status(STATUSES[index])),
                create_on_claim: create,
                one_claim_per_session: session,
                session_exclusive: exclusive,
                max_claims_per_holder: max_claims,
                max_wait_ms: 1_000,
                lock_delay_ms: delay,
                ttl_ms_min: first_ms - ttl.0,
                ttl_ms_max: first_ms + ttl.1,
            }
        },
    )
}

fn an_ask() -> impl Strategy<Value = Ask> {
    let pick = 0..4usize;
    let item = 0..ITEMS.len();
    let word = || 0..STATUSES.len();
    prop_oneof![
        6 => (vec(item.clone(), 0..4), option::weighted(0.3, any::<bool>()), option::weighted(0.2, 1_500..12_000i64))
            .prop_map(|(items, session, ttl_ms)| Ask::Acquire { items, session, ttl_ms }),
        4 => (pick.clone(), -1..2i8, option::of(0..6_000i64))
            .prop_map(|(pick, off, idle_ms)| Ask::Beat { pick, off, idle_ms }),
        2 => (pick.clone(), item.clone()).prop_map(|(pick, item)| Ask::Add { pick, item }),
        2 => (pick.clone(), item.clone()).prop_map(|(pick, item)| Ask::Remove { pick, item }),
        2 => pick.clone().prop_map(|pick| Ask::Advance { pick }),
        2 => (pick.clone(), option::of(word()), option::of(item.clone()))
            .prop_map(|(pick, status, single)| Ask::Complete { pick, status, single }),
        1 => pick.clone().prop_map(|pick| Ask::Cancel { pick }),
        2 => pick.clone().prop_map(|pick| Ask::Release { pick }),
        1 => item.clone().prop_map(|item| Ask::ForceRelease { item }),
        1 => item.clone().prop_map(|item| Ask::ForceClaim { item }),
        1 => pick.clone().prop_map(|pick| Ask::Nudge { pick }),
        3 => (item.clone(), option::of(word()), option::of(0..4u64), option::of((0..4usize, any::<bool>())))
            .prop_map(|(item, status, version, guard)| Ask::Put { item, status, version, guard }),
        1 => item.prop_map(|item| Ask::Delete { item }),
        2 => pick.prop_map(|pick| Ask::Expire { pick }),
    ]
}

fn a_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..3_000i64).prop_map(Step::Wait),
        3 => (0..4usize, -1..2i64).prop_map(|(pick, by)| Step::WaitFor { pick, by }),
        20 => (0..3usize, prop::bool::weighted(0.7), an_ask()).prop_map(|(who, own, ask)| Step::Ask { who, own, ask }),
        2 => (0..3usize, vec(an_ask(), 1..4)).prop_map(|(who, asks)| Step::Together { who, asks }),
        1 => a_policy().prop_map(|policy| Step::SetPolicy(Box::new(policy))),
        1 => (0..20_000i64).prop_map(Step::Pause),
        1 => Just(Step::Restore),
    ]
}

/// The newest claims, newest first; a claim that never was where there are fewer.
fn picked(w: &World, pick: usize) -> Claim {
    let never = || Claim {
        number: 1,
        token: 1,
        items: [].into(),
        holder: person("nobody"),
        session: None,
        state: tenure_core::ClaimState::Released,
        reason: None,
        ended_at_ms: None,
        blocked_until_ms: 0,
        phase: "".into(),
        phase_since_ms: 0,
        ttl_ms: 0,
        since_ms: 0,
        heartbeat_at_ms: 0,
        acted_at_ms: 0,
        expires_at_ms: 0,
        idle: false,
        data: None,
    };
    let mut claims: Vec<_> = w.rows.claims().collect();
    claims.reverse();
    claims.get(pick).map_or_else(never, |claim| (***claim).clone())
}

fn verb_of(w: &World, ask: &Ask) -> (Option<Claim>, Verb) {
    let id = |index: usize| item_id(ITEMS[index]);
    let of = |pick: usize, verb: &dyn Fn(&Claim) -> Verb| {
        let claim = picked(w, pick);
        let verb = verb(&claim);
        (Some(claim), verb)
    };
    match ask.clone() {
        Ask::Acquire { items, session, ttl_ms } => {
            let session = session.map(|second| if second { "s2" } else { "s1" });
            let session = session.map(|name| SessionId::new(name).expect("valid"));
            let items = items.into_iter().map(id).collect();
            (None, Verb::Acquire(Acquire { items, session, ttl_ms, wait_ms: None, data: Some(json("{}")) }))
        }
        Ask::Beat { pick, off, idle_ms } => of(pick, &|claim| Verb::Heartbeat {
            claim: claim.number,
            token: claim.token.saturating_add_signed(i64::from(off)),
            idle_ms,
        }),
        Ask::Add { pick, item } => of(pick, &|c| Verb::AddItem { claim: c.number, item: id(item) }),
        Ask::Remove { pick, item } => of(pick, &|c| Verb::RemoveItem { claim: c.number, item: id(item) }),
        Ask::Advance { pick } => of(pick, &|claim| Verb::Advance { claim: claim.number }),
        Ask::Complete { pick, status: word, single } => of(pick, &|claim| {
            let word = word.map(|index| status(STATUSES[index]));
            let single = single.map(|item| ItemWrite { item: id(item), status: None, data: Some(json("7")) });
            Verb::Complete(Complete {
                claim: claim.number,
                token: Some(claim.token),
                status: word,
                data: None,
                items: single.into_iter().collect(),
            })
        }),
        Ask::Cancel { pick } => of(pick, &|claim| Verb::Cancel { claim: claim.number }),
        Ask::Release { pick } => of(pick, &|claim| Verb::Release { claim: claim.number }),
        Ask::ForceRelease { item } => (None, Verb::ForceRelease { item: id(item), reason: "because".into() }),
        Ask::ForceClaim { item } => {
            (None, Verb::ForceClaim { item: id(item), reason: "because".into(), session: None })
        }
        Ask::Nudge { pick } => of(pick, &|claim| Verb::Nudge { claim: claim.number, message: None }),
        Ask::Put { item, status: word, version, guard } => {
            let (claim, guard) = match guard {
                None => (None, None),
                Some((index, false)) if index % 2 == 0 => {
                    (None, Some(Guard::Holds { item: id(index), token: None }))
                }
                Some((index, false)) => (None, Some(Guard::NotHeldByOther { item: id(index) })),
                Some((pick, true)) => {
                    let claim = picked(w, pick);
                    let guard = Guard::Claim { claim: claim.number, token: claim.token };
                    (Some(claim), Some(guard))
                }
            };
            let expect = version.map_or(Expect::Any, Expect::Version);
            let word = word.map(|index| status(STATUSES[index]));
            let write = ItemWrite { item: id(item), status: word, data: Some(json("[1]")) };
            (claim, Verb::PutItem(PutItem { write, expect, guard }))
        }
        Ask::Delete { item } => (None, Verb::DeleteItem { item: id(item), expect: Expect::Any, guard: None }),
        Ask::Expire { pick } => of(pick, &|claim| Verb::Expire { claim: claim.number }),
    }
}

/// Takes a step, and notes what it met with.
fn take(w: &mut World, judge: &mut Judge, met: &mut BTreeSet<&'static str>, step: Step) {
    let (who, verb) = match step {
        Step::Wait(ms) => {
            w.now_ms += ms;
            return;
        }
        Step::WaitFor { pick, by } => {
            w.now_ms = w.now_ms.max(picked(w, pick).expires_at_ms + by);
            return;
        }
        Step::SetPolicy(policy) => return w.set_policy(*policy),
        Step::Pause(shift_ms) => {
            w.now_ms += shift_ms;
            ("system".to_owned(), Verb::Resume { shift_ms })
        }
        Step::Restore => ("root".to_owned(), Verb::Restore { epoch: 2 }),
        Step::Ask { who, own, ask } => {
            let (claim, verb) = verb_of(w, &ask);
            let holder = claim.filter(|_| own).map(|claim| claim.holder.id.to_string());
            (holder.unwrap_or_else(|| PEOPLE[who].to_owned()), verb)
        }
        Step::Together { who, asks } => {
            let verbs = asks.iter().map(|ask| verb_of(w, ask).1).collect();
            (PEOPLE[who].to_owned(), Verb::Group(verbs))
        }
    };
    let asked = match &verb {
        Verb::Acquire(acquire) => acquire.items.clone(),
        _ => Vec::new(),
    };
    match w.run(&who, verb).0 {
        Ok(decision) => {
            if let Reply::Acquired { claim, how: How::New } = &decision.reply {
                assert!(asked.is_empty() || *claim.items == asked, "all that was asked for, or nothing");
            }
            judge.hear(&decision, &w.rows, w.now_ms);
            both_forms(&decision.reply);
            for sealed in &decision.events {
                both_forms(&sealed.event);
                met.insert(sealed.event.fact.action());
            }
        }
        Err(refusal) => drop(met.insert(refusal.code())),
    }
}

/// What is written as JSON or in the kept form reads back the same.
fn both_forms<T>(value: &T)
where
    T: serde::Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug,
{
    let text = serde_json::to_string(value).expect("writes JSON");
    assert_eq!(serde_json::from_str::<T>(&text).as_ref().ok(), Some(value), "{text}");
    let bytes = postcard::to_stdvec(value).expect("writes bytes");
    assert_eq!(postcard::from_bytes::<T>(&bytes).as_ref(), Ok(value));
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config(3_000))]

    /// I1–I4, I6–I8, I10, I14, I17: whatever people do, the promises hold, and in the end an item can
    /// be had exactly if the judge says that it is free.
    #[test]
    fn whatever_people_do_the_promises_hold(policy in a_policy(), steps in vec(a_step(), 1..60)) {
        let mut w = World::under(policy, &["a", "b", "c"]);
        let mut judge = Judge::default();
        for step in steps {
            take(&mut w, &mut judge, &mut BTreeSet::new(), step);
        }
        for id in ITEMS {
            let expected = judge.would_grant(&w, &item_id(id));
            let outcome = w.acquire("zoe", &[id]);
            prop_assert_eq!(outcome.code(), expected, "{} at {}", id, w.now_ms);
            if let Ok(decision) = outcome.0 {
                judge.hear(&decision, &w.rows, w.now_ms);
            }
            // So that zoe's own limits do not count.
            let claim = w.rows.claims().last().filter(|claim| &*claim.holder.id == "zoe").cloned();
            if let Some(claim) = claim {
                let decision = w.release("zoe", &claim).granted();
                judge.hear(&decision, &w.rows, w.now_ms);
            }
        }
    }
}

/// A random test that never gets anywhere proves nothing.
#[test]
fn random_people_meet_with_every_fact_and_every_refusal() {
    let mut runner = TestRunner::deterministic();
    let mut met = BTreeSet::new();
    for _ in 0..300 {
        let lives = (a_policy(), vec(a_step(), 60)).new_tree(&mut runner).expect("a life can be drawn");
        let (policy, steps) = lives.current();
        let (mut w, mut judge) = (World::under(policy, &["a", "b", "c"]), Judge::default());
        for step in steps {
            take(&mut w, &mut judge, &mut met, step);
        }
    }
    let facts = "claim_granted LOCK_FORCE_CLAIM claim_renewed item_added item_removed claim_advanced \
        claim_released claim_completed claim_expired claim_cancelled LOCK_FORCE_RELEASE claim_taken_over \
        release_requested item_put item_deleted resumed restored";
    let refusals = "held finished not_claimable not_found limit lost not_held not_holder stale_token conflict \
        wrong_phase invalid";
    let expected: BTreeSet<_> = facts.split(' ').chain(refusals.split(' ')).collect();
    assert_eq!(met, expected);
}

proptest! {
    #![proptest_config(config(256))]

    #[test]
    fn a_policy_that_can_work_is_accepted_and_comes_back_the_same(policy in a_policy()) {
        prop_assert_eq!(policy.validate(), Ok(()));
        both_forms(&policy);
    }

    #[test]
    fn any_text_is_a_name_or_refused_and_a_name_comes_back_the_same(text in "\\PC{0,40}|[a-z]{1,3}[/~][a-z.]{1,3}[/~]?[0-9]{0,3}") {
        macro_rules! check {
            ($($type:ty),*) => {$(
                if let Ok(name) = text.parse::<$type>() {
                    prop_assert_eq!(name.to_string(), text.as_str());
                    both_forms(&name);
                }
            )*};
        }
        check!(CollectionKey, ItemId, Status, SessionId, ClaimId);
    }

    #[test]
    fn any_text_is_a_document_or_refused(text in "[\\[\\]{}\",:0-9a-z \\\\.-]{0,20}") {
        let kept = Json::parse(&text, "data");
        prop_assert_eq!(kept.is_ok(), serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok());
        if let Ok(document) = kept {
            both_forms(&document);
        }
    }

    #[test]
    fn any_bytes_are_an_event_or_an_error(bytes in vec(any::<u8>(), 0..200)) {
        if let Ok(event) = postcard::from_bytes::<Event>(&bytes) {
            both_forms(&event);
        }
        if let Ok(reply) = postcard::from_bytes::<Reply>(&bytes) {
            both_forms(&reply);
        }
    }
}
