//! Deadlines: noticed by themselves, never early, in bounded portions.

use tenure_core::{ClaimState, EndReason, Fact, Verb};
use tenure_engine::{Delivery, Engine, From, ManualClock, Options};

use crate::common::*;

fn ended(fact: &Fact) -> bool {
    matches!(fact, Fact::Ended(_))
}

/// R23: without a command that would have noticed.
#[test]
fn r23_a_claim_ends_by_itself_at_its_deadline_and_the_lag_is_reported() {
    let mut desk = Desk::new();
    let claim = claim_of(&desk.ask(acquire("ana", &["a", "b"])));
    let early = desk.tick(TTL_MS - 1);
    assert_eq!((early.expired, count(&events(&*desk.reader(), LOCKS), ended)), (0, 0));
    assert_eq!(desk.turn.next_ms(), Some(claim.expires_at_ms), "the loop wakes for it");
    let report = desk.tick(251);
    assert_eq!((report.expired, report.expiry_lag_ms), (1, 250));
    let last = events(&*desk.reader(), LOCKS).pop().expect("events");
    let Fact::Ended(end) = &last.event.fact else { panic!("{last:?}") };
    assert_eq!((end.reason, end.ended_at_ms, end.items.len()), (EndReason::Expired, claim.expires_at_ms, 2));
    assert_eq!(last.event.actor.id.as_str(), "system");
    assert_eq!(desk.tick(600_000).expired, 0, "once");
}

#[test]
fn heartbeats_keep_a_claim_from_expiring_early() {
    let mut desk = Desk::new();
    let claim = claim_of(&desk.ask(acquire("ana", &["a"]))).number;
    for _ in 0..10 {
        desk.clock_ms += TTL_MS - 1;
        assert_eq!(code(&desk.ask(heartbeat("ana", claim))), "ok");
    }
    assert_eq!(count(&events(&*desk.reader(), LOCKS), ended), 0);
    assert_eq!(desk.tick(TTL_MS).expired, 1, "and it ends once they stop");
}

#[test]
fn a_deadline_that_moved_earlier_is_met() {
    let mut desk = Desk::new();
    for ask in raffle("raffle/r", &["1"]) {
        desk.ask(ask);
    }
    let claim = claim_of(&desk.ask(acquire("ana", &["1"]).of("raffle/r")));
    assert_eq!(claim.expires_at_ms, START_MS + 600_000);
    desk.ask(Ask::new("ana", Verb::Advance { claim: claim.number }).of("raffle/r"));
    let mark_ms = desk.turn.next_ms().expect("a claim is active");
    assert!(mark_ms < START_MS + 300_000, "only to mark the time");
    assert_eq!(desk.tick(299_999).expired, 0);
    assert_eq!(desk.turn.next_ms(), Some(START_MS + 300_000));
    assert_eq!(desk.tick(1).expired, 1);
}

/// T4: however often it is renewed, a claim has one timer's worth of work.
#[test]
fn t04_renewing_again_and_again_leaves_no_pile_of_timers() {
    let mut desk = Desk::new();
    let slips: Vec<Slip> = (0..10_000).map(|_| desk.put(in_session("ana", "w-1", &["a"]))).collect();
    desk.run();
    for slip in &slips {
        desk.answer(slip);
    }
    desk.clock_ms += 20_000;
    desk.ask(in_session("ana", "w-1", &["a"]));
    // All timers of the first 10,000 are due now; the claim is not.
    desk.tick(10_000);
    assert!(desk.turn.next_ms() > Some(desk.clock_ms), "one turn was enough to look at them");
    // The claim's end is one expiry, and no turn is due after it.
    assert_eq!(desk.tick(20_000).expired, 1);
    assert_eq!(desk.turn.next_ms(), None);
}

#[test]
fn r08_r09_selection_advances_by_itself_and_checkout_expires_with_all_numbers() {
    let mut desk = Desk::new();
    for ask in raffle("raffle/r", &["1", "2"]) {
        assert_eq!(code(&desk.ask(ask)), "ok");
    }
    let claim = claim_of(&desk.ask(acquire("ana", &["1", "2"]).of("raffle/r")));
    assert_eq!(&*claim.phase, "selection");
    let advanced = desk.tick(600_000);
    assert_eq!(advanced.expired, 0, "a claim that goes on has not run out");
    let now = desk.reader().claim(&key("raffle/r"), claim.number).expect("readable").expect("there");
    assert_eq!((&*now.phase, now.state), ("checkout", ClaimState::Active));
    assert_eq!(now.expires_at_ms, START_MS + 900_000);

    let report = desk.tick(300_000);
    assert_eq!((report.expired, report.expiry_lag_ms), (1, 0));
    let last = events(&*desk.reader(), "raffle/r").pop().expect("events");
    let Fact::Ended(end) = &last.event.fact else { panic!("{last:?}") };
    assert_eq!(*end.items, [item("1"), item("2")], "one event with all its numbers");
    assert_eq!(code(&desk.ask(acquire("ben", &["1", "2"]).of("raffle/r"))), "ok");
}

/// R8: nobody looked for the whole of both phases.
#[test]
fn r08_two_phases_that_ended_unseen_end_at_their_own_times() {
    let mut desk = Desk::new();
    for ask in raffle("raffle/r", &["1"]) {
        desk.ask(ask);
    }
    let claim = claim_of(&desk.ask(acquire("ana", &["1"]).of("raffle/r"))).number;
    let report = desk.tick(5_000_000);
    assert_eq!((report.expired, report.expiry_lag_ms), (1, 5_000_000 - 900_000));
    let ended = desk.reader().claim(&key("raffle/r"), claim).expect("readable").expect("there");
    assert_eq!(ended.ended_at_ms, Some(START_MS + 900_000));
}

#[test]
fn r23_availability_does_not_depend_on_the_timer() {
    let mut desk = Desk::new();
    desk.ask(acquire("ana", &["a"]));
    desk.clock_ms += TTL_MS;
    assert_eq!(code(&desk.ask(acquire("ben", &["a"]))), "ok");
}

#[test]
fn ten_thousand_deadlines_at_once_are_met_in_portions_with_commands_in_between() {
    let mut desk = Desk::new();
    let claims = 10_000;
    let slips: Vec<Slip> =
        (0..claims).map(|number| desk.put(acquire("ana", &[&format!("i{number}")]))).collect();
    desk.run();
    for slip in &slips {
        assert_eq!(code(&desk.answer(slip)), "ok");
    }
    desk.clock_ms += TTL_MS;
    let (mut expired, mut turns) = (0, 0);
    while expired < claims {
        let id = format!("new{turns}");
        let command = desk.put(acquire("ben", &[&id]).ttl(3_600_000));
        let report = desk.run();
        assert_eq!(code(&desk.answer(&command)), "ok", "a command is not held up by the backlog");
        assert!((1..=2_048).contains(&report.expired), "{}", report.expired);
        expired += report.expired;
        turns += 1;
        if expired < claims {
            assert!(desk.turn.next_ms() <= Some(desk.clock_ms), "the next turn is due at once");
        }
    }
    assert_eq!(turns, 5);
    assert_eq!(count(&events(&*desk.reader(), LOCKS), ended), claims);
}

#[test]
fn e7_deadlines_are_found_again_after_a_restart() {
    let mut desk = Desk::new();
    desk.ask(acquire("ana", &["a"]));
    desk.ask(acquire("ben", &["b"]).ttl(10_000));
    let (mut desk, _) = desk.restart(START_MS);
    assert_eq!(desk.tick(10_000).expired, 1);
    assert_eq!(desk.tick(20_000).expired, 1);
    assert_eq!(desk.reader().stats().active_claims, 0);
}

#[test]
fn an_engine_whose_clock_was_moved_expires_on_a_tick() {
    let clock = ManualClock::at(START_MS);
    let engine = Engine::start(Probe::default().store(), clock.clone(), Options::default()).expect("starts");
    let claim = claim_of(&engine.execute_blocking(acquire("ana", &["a"]))).number;
    clock.advance(TTL_MS);
    engine.tick();
    // A command of another collection: its turn is the tick's or a later one.
    engine.execute_blocking(acquire("ana", &["a"]).of("lock/other"));
    let ended = engine.reader().claim(&key(LOCKS), claim).expect("readable").expect("there");
    assert_eq!(ended.state, ClaimState::Expired);
}

/// No tick: the clock stands a millisecond before the deadline when the loop goes to sleep.
#[tokio::test]
async fn r23_the_running_engine_wakes_for_a_deadline_by_itself() {
    let clock = ManualClock::at(START_MS);
    let engine = Engine::start(Probe::default().store(), clock.clone(), Options::default()).expect("starts");
    engine.execute(acquire("ana", &["a"]).ttl(1_000)).await;
    let mut feed = engine.subscribe(&key(LOCKS), From::Event { epoch: 1, seq: 2 }).expect("subscribes");
    clock.advance(999);
    engine.execute(acquire("ben", &["b"]).of("lock/other")).await;
    clock.advance(1);
    let delivery = soon(feed.next()).await.expect("readable");
    let Delivery::Events(events) = delivery else { panic!("{delivery:?}") };
    assert_eq!(actions(&events), ["claim_expired"]);
}

/// Timers of ended claims are swept out. An end that was not committed is none.
#[test]
fn i18_a_claim_whose_end_found_no_room_keeps_its_timer() {
    let (mut desk, probe) = Desk::probed();
    let short = claim_of(&desk.ask(acquire("ana", &["short"]).ttl(1_000))).number;
    // As many ended claims as are not worth a sweep, but for a few.
    for turn in 0..10 {
        let names: Vec<String> = (0..999).map(|number| format!("{turn}-{number}")).collect();
        let seq = desk.reader().collection(&key(LOCKS)).expect("readable").expect("there").seq;
        for name in &names {
            desk.put(acquire("ben", &[name]).ttl(3_600_000));
        }
        for number in 0..999 {
            desk.put(release("ben", seq + 1 + number));
        }
        desk.run();
    }
    assert_eq!(desk.reader().stats().active_claims, 1);
    for number in 0..100 {
        desk.put(acquire("ben", &[&format!("last-{number}")]).ttl(3_600_000));
    }
    desk.put(release("ana", short));
    probe.fail(&[Fail::Full]);
    desk.run();
    let ended = desk.tick(1_000).expired;
    assert_eq!(ended, 1);
}
