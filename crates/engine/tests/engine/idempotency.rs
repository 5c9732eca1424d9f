//! E4: a retry with the same key gets the first answer, also across a restart.

use tenure_core::Verb;
use tenure_engine::{Engine, ManualClock, Options, Refused};
use tenure_store::Kept;
use tenure_store::embedded::{Embedded, Options as StoreOptions};

use crate::common::*;

#[test]
fn e4_the_same_key_and_body_get_the_same_answer_and_no_second_effect() {
    let mut desk = Desk::new();
    let first = desk.ask(acquire("ana", &["a"]).keyed("k", 1));
    desk.clock_ms += 1_000;
    let again = desk.ask(acquire("ana", &["a"]).keyed("k", 1));
    assert!(!first.replayed && again.replayed);
    assert_eq!(first.outcome, again.outcome, "word for word, the deadline of then included");
    assert_eq!(
        again.server_time_ms, first.server_time_ms,
        "the time of then, so that what is left reads the same"
    );
    assert_eq!(events(&*desk.reader(), LOCKS).len(), 2);
}

#[test]
fn e4_a_retry_in_the_same_turn_sees_the_first() {
    let (mut desk, probe) = Desk::probed();
    let first = desk.put(acquire("ana", &["a"]).keyed("k", 1));
    let again = desk.put(acquire("ana", &["a"]).keyed("k", 1));
    desk.run();
    let (first, again) = (desk.answer(&first), desk.answer(&again));
    assert!(!first.replayed && again.replayed);
    assert_eq!(first.outcome, again.outcome);
    assert_eq!(probe.batches(), [1], "the reply is kept in the entry of what it tells");
}

/// I13
#[test]
fn the_same_key_with_another_body_is_refused_and_is_no_replay() {
    let mut desk = Desk::new();
    desk.ask(acquire("ana", &["a"]).keyed("k", 1));
    let other = desk.ask(acquire("ana", &["b"]).keyed("k", 2));
    assert_eq!(other.outcome, Err(Refused::KeyReused));
    assert!(!other.replayed, "this request had not been answered before");
    assert!(desk.ask(acquire("ana", &["a"]).keyed("k", 1)).replayed, "the first stays");
}

#[test]
fn a_key_belongs_to_its_principal_and_its_collection() {
    let mut desk = Desk::new();
    desk.ask(acquire("ana", &["a"]).keyed("k", 1));
    let ben = desk.ask(acquire("ben", &["b"]).keyed("k", 2));
    let elsewhere = desk.ask(acquire("ana", &["a"]).of("lock/other").keyed("k", 3));
    assert_eq!((code(&ben), code(&elsewhere)), ("ok", "ok"));
    assert!(!ben.replayed && !elsewhere.replayed);
}

#[test]
fn e4_a_refusal_is_kept_like_any_answer() {
    let mut desk = Desk::new();
    let held = claim_of(&desk.ask(acquire("ana", &["a"])));
    assert_eq!(holders(&desk.ask(acquire("ben", &["a"]).keyed("k", 1))), ["ana"]);
    desk.ask(release("ana", held.number));
    let again = desk.ask(acquire("ben", &["a"]).keyed("k", 1));
    assert!(again.replayed);
    assert_eq!(holders(&again), ["ana"], "also when the item is free by now");
    assert_eq!(code(&desk.ask(acquire("ben", &["a"]).keyed("k2", 1))), "ok");
}

#[test]
fn a_malformed_request_is_not_kept_alone_or_in_a_group() {
    let mut desk = Desk::new();
    desk.ask(create(LOCKS));
    assert_eq!(code(&desk.ask(acquire("ana", &[]).keyed("k", 1))), "invalid");
    assert_eq!(code(&desk.ask(acquire("ana", &["a"]).keyed("k", 2))), "ok", "the key is still free");

    let malformed =
        Ask::new("ana", Verb::Group(vec![Verb::Heartbeat { claim: 2, token: 2, idle_ms: Some(-1) }]));
    assert_eq!(code(&desk.ask(malformed.keyed("g", 1))), "invalid");
    assert_eq!(code(&desk.ask(acquire("ana", &["b"]).keyed("g", 2))), "ok");
}

#[test]
fn an_impossible_key_is_refused_before_anything_happens() {
    let mut desk = Desk::new();
    for bad in [String::new(), "x".repeat(257)] {
        assert_eq!(code(&desk.ask(acquire("ana", &["a"]).keyed(&bad, 1))), "invalid");
    }
    assert_eq!(code(&desk.ask(acquire("ben", &["a"]).keyed(&"x".repeat(256), 1))), "ok");
}

#[test]
fn while_the_first_waits_a_retry_is_told_so_and_afterwards_gets_its_answer() {
    let mut desk = Desk::new();
    let held = claim_of(&desk.ask(acquire("ana", &["a"])));
    let first = desk.put(acquire("ben", &["a"]).wait(10_000).keyed("k", 1));
    let retry = desk.put(acquire("ben", &["a"]).wait(10_000).keyed("k", 1));
    desk.run();
    assert!(desk.waits(&first));
    assert_eq!(desk.answer(&retry).outcome, Err(Refused::InProgress));
    desk.ask(release("ana", held.number));
    let granted = desk.answer(&first);
    let again = desk.ask(acquire("ben", &["a"]).wait(10_000).keyed("k", 1));
    assert!(again.replayed);
    assert_eq!(again.outcome, granted.outcome);
}

#[test]
fn a_retry_takes_over_from_a_waiter_that_has_left() {
    let mut desk = Desk::new();
    let held = claim_of(&desk.ask(acquire("ana", &["a"])));
    let first = desk.put(acquire("ben", &["a"]).wait(10_000).keyed("k", 1));
    desk.run();
    first.leave();
    let retry = desk.put(acquire("ben", &["a"]).wait(10_000).keyed("k", 1));
    desk.run();
    assert!(desk.waits(&retry));
    assert_eq!(desk.waiting(LOCKS, "a"), 1);
    desk.ask(release("ana", held.number));
    assert_eq!(code(&desk.answer(&retry)), "ok");
    assert!(desk.waits(&first));
}

#[test]
fn the_refusal_of_a_wait_that_ended_is_kept() {
    let mut desk = Desk::new();
    desk.ask(acquire("ana", &["a"]));
    let waiter = desk.put(acquire("ben", &["a"]).wait(1_000).keyed("k", 1));
    desk.run();
    desk.tick(1_000);
    assert_eq!(holders(&desk.answer(&waiter)), ["ana"]);
    assert!(desk.ask(acquire("ben", &["a"]).wait(1_000).keyed("k", 1)).replayed);
}

#[test]
fn a_key_is_kept_for_a_day_and_then_free_for_another_body() {
    let mut desk = Desk::new();
    desk.ask(acquire("ana", &["a"]).keyed("k", 1));
    desk.clock_ms = START_MS + Kept::KEEP_MS - 1;
    assert!(desk.ask(acquire("ana", &["a"]).keyed("k", 1)).replayed);
    desk.clock_ms += 1;
    let fresh = desk.ask(acquire("ana", &["b"]).keyed("k", 2));
    assert_eq!((code(&fresh), fresh.replayed), ("ok", false));
    assert!(desk.ask(acquire("ana", &["b"]).keyed("k", 2)).replayed, "and it is kept anew");
}

#[test]
fn e4_a_retry_after_a_restart_or_a_crash_gets_the_first_answer() {
    let mut desk = Desk::new();
    let first = desk.ask(acquire("ana", &["a"]).keyed("k", 1));
    let mut desk = desk.crash(START_MS + 5_000);
    let again = desk.ask(acquire("ana", &["a"]).keyed("k", 1));
    assert!(again.replayed);
    assert_eq!(again.outcome, first.outcome);
    let (mut desk, _) = desk.restart(START_MS + 9_000);
    assert!(desk.ask(acquire("ana", &["a"]).keyed("k", 1)).replayed);
}

/// I11: what failed to commit was not kept either.
#[test]
fn a_request_whose_commit_failed_can_be_retried_with_its_key() {
    let (mut desk, probe) = Desk::probed();
    probe.fail(&[Fail::Full]);
    let ask = || acquire("ana", &["a"]).keyed("k", 1);
    assert_eq!(desk.ask(ask()).outcome, Err(Refused::NoRoom));
    let second = desk.ask(ask());
    assert_eq!((code(&second), second.replayed), ("ok", false));
}

/// What the loop has forgotten is answered as what it knows: letting go twice is letting go, and only its holder may.
#[test]
fn i06_a_claim_that_only_the_archive_knows_is_answered_as_one_in_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = |ended_claims_max| StoreOptions { ended_claims_max, ..StoreOptions::default() };
    let asks = |claim: u64| {
        [
            release("ana", claim),
            heartbeat("ana", claim),
            Ask::new("ana", Verb::Cancel { claim }),
            release("ben", claim),
            heartbeat("ben", claim),
            Ask::new("ben", Verb::Nudge { claim, message: None }),
            release("ana", 99),
        ]
    };
    let start = |ended_claims_max| {
        let store = Embedded::open(folder.path(), &options(ended_claims_max)).expect("the store opens");
        Engine::start(store, ManualClock::at(START_MS), Options::default()).expect("the engine starts")
    };
    let engine = start(10);
    let claim = claim_of(&engine.execute_blocking(acquire("ana", &["a"]))).number;
    engine.execute_blocking(release("ana", claim));
    let known: Vec<_> = asks(claim).map(|ask| code(&engine.execute_blocking(ask))).into();
    assert_eq!(known, ["ok", "lost", "lost", "not_holder", "not_holder", "lost", "not_found"]);
    engine.stop().expect("it stops");
    let engine = start(0);
    let forgotten: Vec<_> = asks(claim).map(|ask| code(&engine.execute_blocking(ask))).into();
    assert_eq!(forgotten, known);
    engine.stop().expect("it stops");
}

/// A claim that the loop has forgotten is explained from the store, also to a retry.
#[test]
fn a_lost_claim_is_lost_with_its_reason_through_the_handle() {
    let engine = Engine::start(Probe::default().store(), ManualClock::at(START_MS), Options::default())
        .expect("the engine starts");
    let claim = claim_of(&engine.execute_blocking(acquire("ana", &["a"]))).number;
    engine.execute_blocking(release("ana", claim));
    assert_eq!(code(&engine.execute_blocking(heartbeat("ana", claim))), "lost");
    assert_eq!(code(&engine.execute_blocking(heartbeat("ana", 99))), "not_found");
}
