//! E7: the server's time is the only time. It never runs back, and a pause gives time back.

use tenure_core::{ClaimState, Fact, Policy};
use tenure_engine::{Clock, Engine, MARK_MS, ManualClock, Options, SystemClock};
use tenure_store::Store;

use crate::common::*;

#[test]
fn e7_time_never_runs_back_when_the_clock_does() {
    let mut desk = Desk::new();
    desk.clock_ms = START_MS + 10_000;
    let claim = claim_of(&desk.ask(acquire("ana", &["a"])));
    desk.clock_ms = START_MS - 3_600_000;
    let answer = desk.ask(acquire("ben", &["a"]));
    assert_eq!(answer.server_time_ms, START_MS + 10_000);
    assert_eq!(holders(&answer), ["ana"]);
    desk.clock_ms = claim.expires_at_ms - 1;
    assert_eq!(code(&desk.ask(acquire("ben", &["a"]))), "held", "not a millisecond early");
    desk.clock_ms = claim.expires_at_ms;
    assert_eq!(code(&desk.ask(acquire("ben", &["a"]))), "ok", "T5: the deadline itself is past");
}

#[test]
fn e7_time_goes_on_from_the_highest_committed_after_a_restart_with_an_earlier_clock() {
    let mut desk = Desk::new();
    desk.clock_ms = START_MS + 50_000;
    let claim = claim_of(&desk.ask(acquire("ana", &["a"])));
    let (mut desk, _) = desk.restart(START_MS - 1_000_000_000);
    assert_eq!(desk.turn.now_ms(), START_MS + 50_000);
    assert_eq!(desk.turn.next_ms(), Some(desk.clock_ms + MARK_MS), "in the clock's own terms");
    // The claim keeps what it had, and ends when that has passed on the new clock.
    desk.tick(TTL_MS - 1);
    assert_eq!(holders(&desk.ask(acquire("ben", &["a"]))), ["ana"]);
    desk.tick(1);
    assert_eq!(code(&desk.ask(acquire("ben", &["a"]))), "ok");
    let ended = desk.reader().claim(&key(LOCKS), claim.number).expect("readable").expect("there");
    assert_eq!(ended.ended_at_ms, Some(claim.expires_at_ms));
}

#[test]
fn e7_a_pause_gives_a_live_claim_the_time_back_that_it_had_left() {
    let mut desk = Desk::new();
    let claim = claim_of(&desk.ask(acquire("ana", &["a"])));
    desk.clock_ms += 20_000;
    desk.ask(heartbeat("nobody", 99));
    desk.ask(acquire("ben", &["b"]));
    // Ten seconds were left at the last commit; the server is away for a day.
    let mut desk = desk.crash(START_MS + 86_400_000);
    let resumed = desk.reader().claim(&key(LOCKS), claim.number).expect("readable").expect("there");
    assert_eq!(resumed.expires_at_ms, START_MS + 86_400_000 + 10_000);
    desk.tick(9_999);
    assert_eq!(holders(&desk.ask(acquire("cleo", &["a"]))), ["ana"]);
    desk.tick(1);
    assert_eq!(code(&desk.ask(acquire("cleo", &["a"]))), "ok");
    assert_eq!(count(&events(&*desk.reader(), LOCKS), |fact| matches!(fact, Fact::Resumed { .. })), 1);
}

#[test]
fn a_claim_that_was_over_before_the_pause_stays_void() {
    let mut desk = Desk::new();
    let claim = claim_of(&desk.ask(acquire("ana", &["a"]).ttl(1_000)));
    desk.clock_ms += 1_000;
    // Time moves on in another collection's commit, but nobody sweeps: the crash comes in between.
    let store = desk.turn.store_mut();
    store.commit(tenure_store::Batch { at_ms: START_MS + 1_000, entries: Vec::new() }).expect("commits");
    let mut desk = desk.crash(START_MS + 500_000);
    assert_eq!(code(&desk.ask(heartbeat("ana", claim.number))), "lost");
    let ended = desk.reader().claim(&key(LOCKS), claim.number).expect("readable").expect("there");
    assert_eq!((ended.state, ended.ended_at_ms), (ClaimState::Expired, Some(claim.expires_at_ms)));
}

#[test]
fn a_start_without_a_pause_or_without_claims_records_nothing() {
    let mut desk = Desk::new();
    desk.ask(acquire("ana", &["a"]));
    let (desk, _) = desk.restart(START_MS);
    assert_eq!(events(&*desk.reader(), LOCKS).len(), 2);

    let mut idle = Desk::new();
    let claim = claim_of(&idle.ask(acquire("ana", &["a"])));
    idle.ask(release("ana", claim.number));
    let (idle, _) = idle.restart(START_MS + 60_000);
    assert_eq!(events(&*idle.reader(), LOCKS).len(), 3);
    assert_eq!(idle.turn.now_ms(), START_MS + 60_000);
}

#[test]
fn every_collection_with_claims_gets_its_time_back() {
    let mut desk = Desk::new();
    let slips: Vec<Slip> =
        (0..2_500).map(|number| desk.put(acquire("ana", &["a"]).of(&format!("lock/c{number}")))).collect();
    desk.run();
    let number = claim_of(&desk.answer(&slips[0])).number;
    let desk = desk.crash(START_MS + 100_000);
    for collection in 0..2_500 {
        let claim = desk.reader().claim(&key(&format!("lock/c{collection}")), number);
        let claim = claim.expect("readable").expect("there");
        assert_eq!(claim.expires_at_ms, START_MS + 100_000 + TTL_MS);
    }
}

#[test]
fn the_time_is_marked_while_claims_are_active() {
    let (mut desk, probe) = Desk::probed();
    desk.ask(acquire("ana", &["a"]));
    assert_eq!(desk.turn.next_ms(), Some(START_MS + MARK_MS));
    desk.tick(MARK_MS - 1);
    assert_eq!(probe.batches(), [1], "not before it is due");
    desk.tick(1);
    assert_eq!(probe.batches(), [1, 0], "an empty batch that only moves the time");
    assert_eq!(desk.turn.store().high_water_ms(), START_MS + MARK_MS);
    for _ in 0..3 {
        desk.clock_ms = desk.turn.next_ms().expect("marks go on");
        desk.run();
    }
    assert_eq!(probe.batches(), [1, 0, 0, 0, 0]);
}

#[test]
fn nothing_is_marked_and_no_turn_is_due_when_nothing_is_active() {
    let (mut desk, probe) = Desk::probed();
    let claim = claim_of(&desk.ask(acquire("ana", &["a"]).ttl(3_600_000)));
    desk.ask(release("ana", claim.number));
    for _ in 0..10 {
        desk.tick(MARK_MS);
    }
    assert_eq!(probe.batches(), [1, 1], "a claim that was released needs no time");
    let next_ms = desk.turn.next_ms();
    assert!(next_ms.is_none_or(|next_ms| next_ms >= START_MS + 3_600_000), "{next_ms:?}");
}

/// The bound that the mark gives: a crash never makes a claim live more than that too long.
#[test]
fn after_a_crash_a_claim_lives_at_most_one_mark_too_long() {
    let mut desk = Desk::new();
    desk.ask(acquire("ana", &["a"]));
    while desk.clock_ms < START_MS + 17_000 {
        desk.tick(1_000);
    }
    let desk = desk.crash(START_MS + 17_000);
    let claim = desk.reader().claim(&key(LOCKS), 2).expect("readable").expect("there");
    let too_long_ms = claim.expires_at_ms - (START_MS + TTL_MS);
    assert!((0..MARK_MS).contains(&too_long_ms), "{too_long_ms}");
}

#[test]
fn t10_a_pause_moves_the_rolling_timeout_too() {
    let mut desk = Desk::new();
    desk.ask(create("task/t"));
    desk.ask(put_item("a").of("task/t"));
    let claim = claim_of(&desk.ask(acquire("ana", &["a"]).of("task/t"))).number;
    let mut desk = desk.crash(START_MS + 1_000_000);
    let beat = claim_of(&desk.ask(heartbeat("ana", claim).of("task/t")));
    let ttl_ms = Policy::task().first_phase().ttl_ms;
    assert_eq!(beat.expires_at_ms, START_MS + 1_000_000 + ttl_ms);
}

#[test]
fn the_handle_tells_the_same_time_as_the_decisions() {
    let clock = ManualClock::at(START_MS);
    let engine = Engine::start(Probe::default().store(), clock.clone(), Options::default()).expect("starts");
    clock.advance(5_000);
    let answer = engine.execute_blocking(acquire("ana", &["a"]));
    assert_eq!(answer.server_time_ms, START_MS + 5_000);
    clock.set(0);
    assert_eq!(engine.now_ms(), START_MS + 5_000, "never earlier than what was answered");
}

#[test]
fn the_systems_clock_goes_forward_and_is_near_the_walls() {
    let clock = SystemClock::new();
    let (first, second) = (clock.now_ms(), clock.now_ms());
    assert!(first <= second);
    let wall = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    let wall_ms = i64::try_from(wall.as_millis()).expect("fits");
    assert!((wall_ms - second).abs() < 60_000);
}

/// A start that is cut off has told some collections of the pause and others not.
#[test]
fn e7_time_does_not_run_back_over_a_start_that_was_cut_off() {
    let (mut desk, probe) = Desk::probed();
    let names: Vec<String> = (0..1_200).map(|number| format!("lock/c{number}")).collect();
    for name in &names {
        desk.put(acquire("ana", &["a"]).of(name));
    }
    desk.run();
    let store = desk.turn.store().clone();
    probe.fail(&[Fail::Not, Fail::Full]);
    drop(Desk::try_open(store.clone(), START_MS + 1_000_000));
    probe.heal();
    let mut desk = Desk::open(store, START_MS + 500);
    for name in &names {
        desk.put(release("ana", 2).of(name));
    }
    desk.run();
    for name in &names {
        let times: Vec<i64> = events(&*desk.reader(), name).iter().map(|sealed| sealed.event.at_ms).collect();
        assert!(times.is_sorted(), "{name}: {times:?}");
    }
}
