//! What Tenure asks of itself: policies, the clock after a pause, a restore; and its own kind.

use std::sync::Arc;

use tenure_core::limits::{EPOCH_NUMBERS, RESTORE_STEP};
use tenure_core::{
    ClaimState, CollectionKey, EndReason, Expect, Fact, Phase, Policy, Principal, Refusal, Reply, Text, Verb,
};

use crate::world::{World, complete, item_id, items, person, put, t};

#[test]
fn a_collection_is_made_once() {
    let mut w = World::empty("image");
    w.at(3);
    let first = w.run("ana", Verb::CreateCollection).granted();
    let Reply::Collection { collection, created: true } = first.reply else { panic!("{:?}", first.reply) };
    assert_eq!((collection.seq, collection.created_at_ms), (1, t(3)));
    let second = w.at(4).run("beto", Verb::CreateCollection).granted();
    let Reply::Collection { collection, created: false } = second.reply else { panic!("{:?}", second.reply) };
    assert_eq!((collection.seq, second.events.len()), (1, 0));
}

/// R4
#[test]
fn r04_every_command_needs_its_collection() {
    let mut w = World::empty("raffle");
    let claim = 1;
    let item = item_id("1");
    let reason: Text = Text::from("because");
    let verbs = [
        Verb::Acquire(items(&["1"])),
        Verb::Heartbeat { claim, token: 1, idle_ms: None },
        Verb::AddItem { claim, item: item.clone() },
        Verb::RemoveItem { claim, item: item.clone() },
        Verb::Advance { claim },
        Verb::Cancel { claim },
        Verb::Release { claim },
        Verb::ForceRelease { item: item.clone(), reason: reason.clone() },
        Verb::ForceClaim { item: item.clone(), reason, session: None },
        Verb::Nudge { claim, message: None },
        Verb::PutItem(put("1", "1")),
        Verb::DeleteItem { item, expect: Expect::Any, guard: None },
        Verb::Expire { claim },
        Verb::Resume { shift_ms: 1 },
    ];
    for verb in verbs {
        let refusal = w.run("ana", verb.clone()).refused();
        assert_eq!(refusal, Refusal::not_found("collection", "raffle/here"), "{verb:?}");
    }
}

#[test]
fn an_unknown_kind_is_not_found_until_it_has_a_policy() {
    let mut w = World::empty("custom");
    assert_eq!(w.run("ana", Verb::CreateCollection).refused(), Refusal::not_found("kind", "custom"));
    w.set_policy(Policy::image());
    assert_eq!(w.run("ana", Verb::CreateCollection).code(), "ok");
}

#[test]
fn tenures_own_kind_takes_documents_and_no_claims_and_its_policies_neither() {
    let mut w = World::of("image", &["a"]);
    let documents = [Verb::PutItem(put("a", "1")), Verb::CreateCollection];
    let others = [
        Verb::Acquire(items(&["a"])),
        Verb::Expire { claim: 1 },
        Verb::Resume { shift_ms: 1 },
        Verb::Group(vec![Verb::Acquire(items(&["a"]))]),
    ];
    let (policies, keys) = (CollectionKey::policies(), CollectionKey::new("tenure/keys").unwrap());
    for verb in documents.iter().chain(&others) {
        assert_eq!(w.run_in(policies.clone(), "root", verb.clone()).code(), "invalid", "{verb:?}");
    }
    for verb in &documents {
        assert_eq!(w.run_in(keys.clone(), "root", verb.clone()).code(), "ok", "{verb:?}");
    }
    for verb in &others {
        assert_eq!(w.run_in(keys.clone(), "root", verb.clone()).code(), "invalid", "{verb:?}");
    }
}

#[test]
fn a_policy_is_set_in_its_own_place_for_a_kind_that_may_have_one() {
    let mut w = World::of("image", &["a"]);
    let set = |kind: &str| Verb::SetPolicy { kind: kind.into(), policy: Arc::new(Policy::lock()) };
    let mut check = |key: CollectionKey, kind: &str, named: &str| {
        let Refusal::Invalid { field, .. } = w.run_in(key, "root", set(kind)).refused() else { panic!() };
        assert_eq!(&*field, named);
    };
    check(CollectionKey::new("image/here").unwrap(), "image", "collection");
    check(CollectionKey::new("tenure/other").unwrap(), "image", "collection");
    check(CollectionKey::policies(), "tenure", "kind");
    check(CollectionKey::policies(), "No", "kind");
}

/// T21, E3
#[test]
fn t21_a_policy_is_an_audited_change_and_applies_from_the_next_command() {
    let mut w = World::of("image", &["a", "b"]);
    w.acquire("ana", &["a"]).granted();
    let longer = Policy {
        phases: vec![Phase { ttl_ms: 600_000, ..Policy::image().phases[0].clone() }],
        ttl_ms_max: 600_000,
        ..Policy::image()
    };
    w.set_policy(longer.clone());
    let Fact::PolicySet { kind, policy, before } = w.last_fact() else { panic!() };
    assert_eq!((&**kind, &**policy), ("image", &longer));
    assert_eq!(before.as_deref(), Some(&Policy::image()), "the preset counts as the one before");
    assert_eq!(w.acquire("beto", &["b"]).claim().expires_at_ms, t(600_000));
    w.set_policy(Policy::lock());
    let Fact::PolicySet { before, .. } = w.last_fact() else { panic!() };
    assert_eq!(before.as_deref(), Some(&longer));
}

#[test]
fn an_invalid_policy_is_refused_and_the_old_one_stays() {
    let mut w = World::of("image", &["a"]);
    let policy = Arc::new(Policy { max_items: 0, ..Policy::image() });
    let before = w.rows.clone();
    let verb = Verb::SetPolicy { kind: "image".into(), policy };
    assert_eq!(w.run_in(CollectionKey::policies(), "root", verb).code(), "invalid");
    assert_eq!(w.rows, before);
}

/// E7, DESIGN §4: a live claim keeps at least the time it had left.
#[test]
fn e07_after_a_pause_live_claims_get_the_time_back_and_void_ones_stay_void() {
    let mut w = World::of("image", &["a", "b", "c"]);
    let void = w.acquire("ana", &["a"]).claim();
    let live = w.at(200_000).acquire("beto", &["b"]).claim();
    let ended = w.acquire("carla", &["c"]).claim();
    w.release("carla", &ended).granted();
    // The last commit was at 310 s; the server was away for an hour.
    w.at(310_000 + 3_600_000);
    let decision = w.run("system", Verb::Resume { shift_ms: 3_600_000 }).granted();
    let actions: Vec<_> = decision.events.iter().map(|sealed| sealed.event.fact.action()).collect();
    assert_eq!(actions, ["claim_expired", "resumed"]);
    assert!(decision.events.iter().all(|sealed| sealed.event.actor == Principal::system()));
    let void = w.claim(void.number);
    assert_eq!((void.reason, void.ended_at_ms), (Some(EndReason::Expired), Some(t(300_000))));
    let live = w.claim(live.number);
    assert_eq!((live.expires_at_ms, live.acted_at_ms), (t(4_100_000), t(3_800_000)));
    assert_eq!(live.since_ms, t(200_000));
    assert_eq!(w.claim(ended.number).ended_at_ms, Some(t(200_000)));
    assert_eq!(w.acquire("dora", &["b"]).code(), "held");
    assert_eq!(w.acquire("dora", &["a"]).code(), "ok");
}

#[test]
fn e07_a_claim_whose_deadline_is_the_moment_of_the_pause_is_void() {
    let mut w = World::of("image", &["a"]);
    let claim = w.acquire("ana", &["a"]).claim();
    w.at(300_000 + 1_000);
    assert_eq!(w.run("system", Verb::Resume { shift_ms: 1_000 }).actions(), ["claim_expired"]);
    assert_eq!(w.claim(claim.number).state, ClaimState::Expired);
}

/// A reservation that was in checkout by itself, unswept, when the server stopped.
#[test]
fn e07_a_phase_that_had_begun_by_itself_before_the_pause_keeps_its_time_too() {
    let mut w = World::of("raffle", &["1"]);
    let claim = w.acquire("ana", &["1"]).claim();
    w.at(700_000 + 3_600_000);
    let actions = w.run("system", Verb::Resume { shift_ms: 3_600_000 }).actions();
    assert_eq!(actions, ["claim_advanced", "resumed"]);
    let resumed = w.claim(claim.number);
    assert_eq!((&*resumed.phase, resumed.expires_at_ms), ("checkout", t(900_000 + 3_600_000)));
    assert_eq!(w.complete("ana", complete(&claim, "sold")).code(), "ok");
}

/// The rolling timeout counts time that the server was there.
#[test]
fn e07_after_a_pause_heartbeats_go_on_as_if_it_had_not_been() {
    let mut w = World::of("task", &["a"]);
    let claim = w.acquire("ana", &["a"]).claim();
    w.at(100_000).beat("ana", &claim).granted();
    w.at(200_000 + 2_000_000);
    w.run("system", Verb::Resume { shift_ms: 2_000_000 }).granted();
    assert_eq!(w.claim(claim.number).expires_at_ms, t(2_280_000));
    assert_eq!(w.beat("ana", &claim).renewed(), Ok(t(2_380_000)));
}

#[test]
fn e07_a_pause_of_nothing_or_for_nobody_is_no_event() {
    let mut w = World::of("image", &["a"]);
    assert_eq!(w.run("system", Verb::Resume { shift_ms: 5_000 }).actions(), [""; 0]);
    w.acquire("ana", &["a"]).granted();
    for shift_ms in [0, -5_000] {
        assert_eq!(w.run("system", Verb::Resume { shift_ms }).actions(), [""; 0]);
    }
}

/// E1, I2: a backup may have lost grants whose tokens are already out there.
#[test]
fn e01_a_restore_jumps_ahead_so_that_no_token_repeats() {
    let mut w = World::of("image", &["a"]);
    let before = w.acquire("ana", &["a"]).claim();
    w.release("ana", &before).granted();
    let from_seq = w.newest_seq();
    w.run("root", Verb::Restore { epoch: 2 }).granted();
    assert_eq!(*w.last_fact(), Fact::Restored { epoch: 2, from_seq });
    assert_eq!(w.newest_seq(), 2 * EPOCH_NUMBERS);
    let after = w.acquire("beto", &["a"]).claim();
    assert_eq!(after.token, 2 * EPOCH_NUMBERS + 1);
    assert_eq!(w.item("a").fence, after.token);
    // An epoch whose numbers are used up.
    w.run("root", Verb::Restore { epoch: 2 }).granted();
    assert_eq!(w.newest_seq(), after.token + RESTORE_STEP);
}

#[test]
fn e01_a_restore_reaches_the_policies_too_and_leaves_claims_alone() {
    let mut w = World::of("image", &["a"]);
    w.set_policy(Policy::image());
    let claim = w.acquire("ana", &["a"]).claim();
    w.run_in(CollectionKey::policies(), "root", Verb::Restore { epoch: 2 }).granted();
    w.run("root", Verb::Restore { epoch: 2 }).granted();
    assert_eq!(*w.claim(claim.number), claim);
    assert!(w.beat("ana", &claim).renewed().is_ok());
    assert_eq!(w.claim(claim.number).holder, person("ana"));
}

#[test]
fn an_epoch_of_the_year_2500_fits_into_a_javascript_integer() {
    const { assert!(530 * 365 * 86_400_000 * EPOCH_NUMBERS < 1 << 53) };
}
