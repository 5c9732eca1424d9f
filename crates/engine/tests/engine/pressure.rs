//! Back-pressure, a full disk, a broken store, a graceful stop: everyone is answered, nothing is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tenure_core::{ClaimState, Fact};
use tenure_engine::{
    Answer, Engine, From, ManualClock, Observer, Options, QUEUE_MAX, Refused, ReplyTo, Report,
};
use tenure_store::Error;
use tokio::sync::oneshot;

use crate::common::*;

#[derive(Default)]
struct Hears {
    answered: AtomicUsize,
    failures: Mutex<Vec<String>>,
}

impl Observer for Hears {
    fn turn(&self, report: &Report) {
        self.answered.fetch_add(report.answered, Ordering::SeqCst);
    }

    fn failed(&self, error: &Error) {
        self.failures.lock().push(error.to_string());
    }
}

fn start(probe: &Probe, clock: &ManualClock) -> (Engine, Arc<Hears>) {
    let hears = Arc::new(Hears::default());
    let options = Options { observer: hears.clone(), ..Options::default() };
    (Engine::start(probe.store(), clock.clone(), options).expect("starts"), hears)
}

fn submit(engine: &Engine, ask: Ask) -> oneshot::Receiver<Answer> {
    let (sender, receiver) = oneshot::channel();
    engine.submit(ask.into(), ReplyTo::Once(sender));
    receiver
}

fn answer(receiver: oneshot::Receiver<Answer>) -> Answer {
    receiver.blocking_recv().expect("every request is answered")
}

#[test]
fn a_full_queue_refuses_at_once_and_loses_nobody_who_is_in_it() {
    let probe = Probe::default();
    let (engine, _) = start(&probe, &ManualClock::at(START_MS));
    let hold = probe.hold();
    let opener = submit(&engine, acquire("ana", &["opener"]));
    probe.wait_held();
    let queued: Vec<_> = (0..QUEUE_MAX).map(|_| submit(&engine, heartbeat("ana", 2))).collect();
    let mut refused = submit(&engine, heartbeat("ana", 2));
    let refused = refused.try_recv().expect("answered while the loop is busy");
    assert_eq!(refused.outcome, Err(Refused::Overloaded));
    assert_eq!(refused.server_time_ms, START_MS);
    assert_eq!(engine.queued(), QUEUE_MAX);
    drop(hold);
    assert_eq!(code(&answer(opener)), "ok");
    for receiver in queued {
        assert_eq!(code(&answer(receiver)), "ok");
    }
    assert_eq!(code(&engine.execute_blocking(heartbeat("ana", 2))), "ok", "and it goes on");
}

#[test]
fn no_room_refuses_everyone_in_the_turn_leaves_no_trace_and_passes() {
    let (mut desk, probe) = Desk::probed();
    let held = claim_of(&desk.ask(acquire("ana", &["a"])));
    let before = events(&*desk.reader(), LOCKS).len();
    probe.fail(&[Fail::Full]);
    let slips = [
        desk.put(acquire("ben", &["b"])),
        desk.put(heartbeat("ana", held.number)),
        desk.put(acquire("cleo", &["a"])),
    ];
    desk.run();
    for slip in &slips {
        assert_eq!(desk.answer(slip).outcome, Err(Refused::NoRoom));
    }
    assert_eq!(events(&*desk.reader(), LOCKS).len(), before);
    assert!(desk.reader().item(&key(LOCKS), &item("b")).expect("reads go on").is_none());
    assert_eq!(code(&desk.ask(acquire("cleo", &["b"]))), "ok");
}

#[test]
fn r23_an_expiry_that_found_no_room_happens_when_there_is() {
    let (mut desk, probe) = Desk::probed();
    let claim = claim_of(&desk.ask(acquire("ana", &["a"]))).number;
    let waiters = ["ben", "cleo"].map(|who| desk.put(acquire(who, &["a"]).wait(60_000)));
    desk.run();
    probe.fail(&[Fail::Full, Fail::Full]);
    assert_eq!(desk.tick(TTL_MS).expired, 0, "nothing happened");
    assert_eq!(desk.answer(&waiters[0]).outcome, Err(Refused::NoRoom), "its grant did not happen either");
    let row = |desk: &Desk<_>| desk.reader().claim(&key(LOCKS), claim).expect("readable").expect("there");
    assert_eq!(row(&desk).state, ClaimState::Active, "as last committed");
    desk.tick(1_000);
    assert_eq!(desk.answer(&waiters[1]).outcome, Err(Refused::NoRoom));
    let report = desk.tick(1_000);
    assert_eq!((report.expired, report.expiry_lag_ms), (1, 2_000));
    assert_eq!(row(&desk).state, ClaimState::Expired);
    assert_eq!(code(&desk.ask(acquire("dan", &["a"]))), "ok");
}

#[test]
fn without_room_the_loop_does_not_spin() {
    let (mut desk, probe) = Desk::probed();
    desk.ask(acquire("ana", &["a"]));
    probe.fail(&[Fail::Full, Fail::Away]);
    for _ in 0..2 {
        desk.tick(TTL_MS);
        let next_ms = desk.turn.next_ms().expect("it tries again");
        assert!(next_ms > desk.clock_ms, "an overdue timer that can't be kept is not retried at once");
        assert!(next_ms <= desk.clock_ms + 1_000, "but within a second of there being room");
    }
    desk.clock_ms = desk.turn.next_ms().expect("it tries again");
    assert_eq!(desk.run().expired, 1);
}

/// Nobody may be left waiting for a claim that was never granted.
#[test]
fn a_caller_who_began_to_wait_in_a_turn_that_failed_is_refused_with_it() {
    let (mut desk, probe) = Desk::probed();
    desk.ask(create(LOCKS));
    probe.fail(&[Fail::Full]);
    let ana = desk.put(acquire("ana", &["a"]));
    let ben = desk.put(acquire("ben", &["a"]).wait(60_000).keyed("k", 1));
    desk.run();
    assert_eq!(desk.answer(&ana).outcome, Err(Refused::NoRoom));
    assert_eq!(desk.answer(&ben).outcome, Err(Refused::NoRoom));
    assert_eq!(desk.waiting(LOCKS, "a"), 0);
    assert_eq!(code(&desk.ask(acquire("ben", &["a"]).wait(60_000).keyed("k", 1))), "ok");
}

#[test]
fn a_store_that_is_away_refuses_the_turn_and_keeps_the_waiters() {
    let (mut desk, probe) = Desk::probed();
    let held = claim_of(&desk.ask(acquire("ana", &["a"])));
    let ben = desk.put(acquire("ben", &["a"]).wait(60_000));
    desk.run();
    probe.fail_loads(&[Fail::Away]);
    assert_eq!(desk.ask(release("ana", held.number)).outcome, Err(Refused::Away));
    assert!(desk.turn.next_ms() > Some(desk.clock_ms));
    assert!(desk.waits(&ben));
    desk.ask(release("ana", held.number));
    assert_eq!(code(&desk.answer(&ben)), "ok");
}

#[test]
fn the_running_engine_recovers_from_a_full_disk() {
    let probe = Probe::default();
    let clock = ManualClock::at(START_MS);
    let (engine, hears) = start(&probe, &clock);
    engine.execute_blocking(acquire("ana", &["a"]));
    probe.fail(&[Fail::Full; 3]);
    for _ in 0..3 {
        assert_eq!(engine.execute_blocking(acquire("ben", &["b"])).outcome, Err(Refused::NoRoom));
        assert!(engine.reader().item(&key(LOCKS), &item("a")).expect("reads go on").is_some());
    }
    assert_eq!(code(&engine.execute_blocking(acquire("ben", &["b"]))), "ok");
    assert!(hears.failures.lock().is_empty(), "nothing that the process must end for");
    engine.stop().expect("stops");
}

#[test]
fn a_fatal_error_stops_the_engine_for_everyone_and_the_observer_is_told() {
    let probe = Probe::default();
    let (engine, hears) = start(&probe, &ManualClock::at(START_MS));
    engine.execute_blocking(acquire("ana", &["a"]));
    let waiter = submit(&engine, acquire("ben", &["a"]).wait(60_000));
    engine.execute_blocking(heartbeat("ana", 2));
    let hold = probe.hold();
    probe.fail(&[Fail::Sync]);
    let (tagged, mut tags) = tokio::sync::mpsc::unbounded_channel();
    engine.submit(acquire("eve", &["a"]).wait(60_000).into(), ReplyTo::Tagged(1, tagged.clone()));
    let in_flight = submit(&engine, acquire("cleo", &["c"]));
    probe.wait_held();
    let queued = submit(&engine, acquire("dan", &["d"]));
    engine.submit(acquire("dan", &["e"]).into(), ReplyTo::Tagged(2, tagged.clone()));
    drop(hold);
    let stopped = |receiver: oneshot::Receiver<Answer>| {
        receiver.blocking_recv().map_or(Err(Refused::Stopped), |answer| answer.outcome)
    };
    assert_eq!(stopped(in_flight), Err(Refused::Stopped));
    assert_eq!(stopped(waiter), Err(Refused::Stopped));
    assert_eq!(stopped(queued), Err(Refused::Stopped));
    assert!(matches!(engine.stop(), Err(Error::SyncFailed { .. })));
    // A pipelined caller keeps its own sender: only an answer can tell it.
    let mut told = Vec::new();
    while let Ok((tag, answer)) = tags.try_recv() {
        assert_eq!(answer.outcome, Err(Refused::Stopped));
        told.push(tag);
    }
    told.sort_unstable();
    assert_eq!(told, [1, 2]);

    assert_eq!(engine.execute_blocking(acquire("eve", &["e"])).outcome, Err(Refused::Stopped));
    assert_eq!(hears.failures.lock().len(), 1);
    assert_eq!(probe.closed(), 0, "a store that failed is not closed as if all were well");
}

#[test]
fn a_fatal_error_on_loading_stops_too() {
    let (mut desk, probe) = Desk::probed();
    probe.fail_loads(&[Fail::Sync]);
    let slip = desk.put(acquire("ana", &["a"]));
    assert!(desk.try_run().is_err());
    assert_eq!(desk.answer(&slip).outcome, Err(Refused::Stopped));
}

#[test]
fn a_panic_in_the_store_hangs_nobody_and_is_told() {
    let probe = Probe::default();
    let (engine, hears) = start(&probe, &ManualClock::at(START_MS));
    engine.execute_blocking(acquire("ana", &["a"]));
    let waiter = submit(&engine, acquire("ben", &["a"]).wait(60_000));
    engine.execute_blocking(heartbeat("ana", 2));
    let hold = probe.hold();
    probe.fail(&[Fail::Panic]);
    let in_flight = submit(&engine, acquire("cleo", &["c"]));
    probe.wait_held();
    let queued = submit(&engine, acquire("dan", &["d"]));
    drop(hold);
    for receiver in [in_flight, waiter, queued] {
        let outcome = receiver.blocking_recv().map_or(Err(Refused::Stopped), |answer| answer.outcome);
        assert_eq!(outcome, Err(Refused::Stopped));
    }
    assert_eq!(engine.execute_blocking(acquire("eve", &["e"])).outcome, Err(Refused::Stopped));
    drop(engine);
    let failures = hears.failures.lock();
    assert!(failures.len() == 1 && failures[0].contains("panicked"), "the process must end: {failures:?}");
}

#[test]
fn a_graceful_stop_answers_everything_taken_tells_the_waiters_and_closes_the_store() {
    let probe = Probe::default();
    let (engine, _) = start(&probe, &ManualClock::at(START_MS));
    engine.execute_blocking(acquire("ana", &["a"]));
    let waiter = submit(&engine, acquire("ben", &["a"]).wait(60_000));
    engine.execute_blocking(heartbeat("ana", 2));
    let hold = probe.hold();
    let opener = submit(&engine, acquire("opener", &["o"]));
    probe.wait_held();
    let queued: Vec<_> =
        (0..3_000).map(|number| submit(&engine, acquire("cleo", &[&format!("i{number}")]))).collect();
    let stopping = std::thread::spawn({
        let engine = engine.clone();
        move || engine.stop()
    });
    drop(hold);
    stopping.join().expect("no panic").expect("stops");
    assert_eq!(code(&answer(opener)), "ok");
    for receiver in queued {
        assert_eq!(code(&answer(receiver)), "ok", "taken is answered, also beyond one batch");
    }
    assert_eq!(answer(waiter).outcome, Err(Refused::Stopped));
    assert_eq!(probe.closed(), 1);
    assert_eq!(engine.execute_blocking(acquire("dan", &["d"])).outcome, Err(Refused::Stopped));
    assert!(engine.reader().item(&key(LOCKS), &item("i2999")).expect("reads go on").is_some());
    engine.stop().expect("stopping twice is stopping");
    assert_eq!(probe.closed(), 1);
}

#[test]
fn dropping_the_last_handle_finishes_what_was_taken() {
    let probe = Probe::default();
    let (engine, hears) = start(&probe, &ManualClock::at(START_MS));
    let clone = engine.clone();
    let receivers: Vec<_> =
        (0..100).map(|number| submit(&engine, acquire("ana", &[&format!("i{number}")]))).collect();
    drop(engine);
    assert_eq!(code(&clone.execute_blocking(acquire("ana", &["more"]))), "ok", "one handle is left");
    drop(clone);
    assert_eq!(probe.closed(), 1);
    for receiver in receivers {
        assert_eq!(code(&answer(receiver)), "ok");
    }
    assert_eq!(hears.answered.load(Ordering::SeqCst), 101);
}

#[test]
fn a_reader_of_the_feed_outlives_the_engine() {
    let probe = Probe::default();
    let (engine, _) = start(&probe, &ManualClock::at(START_MS));
    let mut feed = engine.subscribe(&key(LOCKS), From::Snapshot).expect("subscribes");
    engine.execute_blocking(acquire("ana", &["a"]));
    drop(engine);
    let delivery = feed.try_next().expect("readable");
    let Some(tenure_engine::Delivery::Events(events)) = delivery else { panic!("{delivery:?}") };
    assert_eq!(count(&events, |fact| matches!(fact, Fact::Granted(_))), 1);
}
