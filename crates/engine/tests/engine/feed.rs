//! E2: every committed event, in order, without gaps; a reader that can't be served is told so.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use tenure_core::Sealed;
use tenure_engine::{Delivery, Engine, FEED_RING_MAX, From, ManualClock, Options, ReplyTo, Subscription};
use tokio::sync::oneshot;

use crate::common::*;

const EPOCH: u64 = 1;

#[track_caller]
fn delivered(subscription: &mut Subscription) -> Vec<Arc<Sealed>> {
    match subscription.try_next().expect("readable") {
        Some(Delivery::Events(events)) => events,
        other => panic!("no events: {other:?}"),
    }
}

#[track_caller]
fn nothing(subscription: &mut Subscription) {
    let delivery = subscription.try_next().expect("readable");
    assert!(delivery.is_none(), "{delivery:?}");
}

/// Everything up to now, which must follow on `after` without a gap.
#[track_caller]
fn drain(subscription: &mut Subscription, after: u64) -> Vec<Arc<Sealed>> {
    let mut events = Vec::new();
    while let Some(delivery) = subscription.try_next().expect("readable") {
        match delivery {
            Delivery::Events(page) => events.extend(page),
            Delivery::Lagging { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    assert_gap_free(&events, after);
    events
}

fn start(probe: &Probe) -> Engine {
    Engine::start(probe.store(), ManualClock::at(START_MS), Options::default()).expect("starts")
}

#[test]
fn e2_a_snapshot_comes_first_and_then_what_happens_after_it() {
    let mut desk = Desk::new();
    let claim = claim_of(&desk.ask(acquire("ana", &["a"])));
    let mut feed = desk.subscribe(LOCKS, From::Snapshot);
    let Some(Delivery::Snapshot(snapshot)) = feed.try_next().expect("readable") else { panic!("a snapshot") };
    assert_eq!((snapshot.head.seq, snapshot.items.len(), snapshot.claims.len()), (2, 1, 1));
    assert_eq!((snapshot.epoch, feed.cursor()), (EPOCH, 2));
    nothing(&mut feed);
    desk.ask(release("ana", claim.number));
    let events = delivered(&mut feed);
    assert_gap_free(&events, 2);
    assert_eq!(actions(&events), ["claim_released"]);
    nothing(&mut feed);
}

#[test]
fn e2_a_reader_resumes_from_any_number() {
    let mut desk = Desk::new();
    for number in 0..20 {
        desk.ask(acquire("ana", &[&format!("i{number}")]));
    }
    for seq in 0..=21 {
        let mut feed = desk.subscribe(LOCKS, From::Event { epoch: EPOCH, seq });
        assert_eq!(drain(&mut feed, seq).len() as u64, 21 - seq);
        assert_eq!(feed.cursor(), 21);
    }
}

/// I15
#[test]
fn a_number_that_was_never_reached_or_another_epoch_is_told_to_start_anew_and_stays_told() {
    let mut desk = Desk::new();
    desk.ask(acquire("ana", &["a"]));
    for from in [
        From::Event { epoch: EPOCH, seq: 3 },
        From::Event { epoch: EPOCH + 1, seq: 1 },
        From::Event { epoch: EPOCH - 1, seq: 2 },
    ] {
        let mut feed = desk.subscribe(LOCKS, from);
        for _ in 0..3 {
            let delivery = feed.try_next().expect("readable");
            assert!(matches!(delivery, Some(Delivery::Resync)), "{from:?}: {delivery:?}");
        }
    }
    desk.ask(acquire("ana", &["b"]));
}

#[test]
fn an_unknown_collection_has_no_events_until_its_first() {
    let mut desk = Desk::new();
    let mut from_snapshot = desk.subscribe("lock/new", From::Snapshot);
    let mut from_zero = desk.subscribe("lock/new", From::Event { epoch: EPOCH, seq: 0 });
    nothing(&mut from_snapshot);
    nothing(&mut from_zero);
    desk.ask(acquire("ana", &["a"]).of("lock/new"));
    for feed in [&mut from_snapshot, &mut from_zero] {
        assert_eq!(actions(&drain(feed, 0)), ["collection_created", "claim_granted"]);
    }
}

#[test]
fn a_reader_hears_its_own_collection_only() {
    let mut desk = Desk::new();
    desk.ask(create("lock/a"));
    let mut feed = desk.subscribe("lock/a", From::Event { epoch: EPOCH, seq: 1 });
    nothing(&mut feed);
    let slips =
        ["lock/b", "lock/a", "lock/b"].map(|collection| desk.put(acquire("ana", &["x"]).of(collection)));
    desk.run();
    drop(slips);
    assert_eq!(actions(&drain(&mut feed, 1)), ["claim_granted"]);
}

#[test]
fn two_readers_do_not_take_from_each_other() {
    let mut desk = Desk::new();
    let mut first = desk.subscribe(LOCKS, From::Snapshot);
    let mut second = desk.subscribe(LOCKS, From::Snapshot);
    assert_eq!(desk.feed.followed(), 1);
    desk.ask(acquire("ana", &["a"]));
    assert_eq!(drain(&mut first, 0).len(), 2);
    desk.ask(acquire("ana", &["b"]));
    assert_eq!(drain(&mut first, 2).len(), 1);
    assert_eq!(drain(&mut second, 0).len(), 3);
    drop((first, second));
    assert_eq!(desk.feed.followed(), 0, "nothing is kept for readers who left");
}

#[test]
fn a_lagging_reader_is_told_and_then_gets_everything_from_the_store() {
    let mut desk = Desk::new();
    desk.ask(create(LOCKS));
    let mut slow = desk.subscribe(LOCKS, From::Event { epoch: EPOCH, seq: 1 });
    let mut fast = desk.subscribe(LOCKS, From::Event { epoch: EPOCH, seq: 1 });
    nothing(&mut slow);
    let total = FEED_RING_MAX + 100;
    for number in 0..total {
        let slip = desk.put(acquire("ana", &[&format!("i{number}")]));
        if number % 1_000 == 0 {
            desk.run();
            let cursor = fast.cursor();
            drain(&mut fast, cursor);
        }
        drop(slip);
    }
    desk.run();
    let cursor = fast.cursor();
    assert_eq!(drain(&mut fast, cursor).last().expect("events").event.seq, total as u64 + 1);

    let delivery = slow.try_next().expect("readable");
    let Some(Delivery::Lagging { cursor, newest }) = delivery else { panic!("{delivery:?}") };
    assert_eq!((cursor, newest), (1, total as u64 + 1));
    assert_eq!(drain(&mut slow, 1).len(), total);
    desk.ask(acquire("ben", &["last"]));
    assert_eq!(delivered(&mut slow).len(), 1, "and is live again, without another word about lagging");
}

/// E2: no event for something that was not committed.
#[test]
fn a_commit_that_fails_tells_nobody_anything() {
    let (mut desk, probe) = Desk::probed();
    desk.ask(create(LOCKS));
    let mut feed = desk.subscribe(LOCKS, From::Event { epoch: EPOCH, seq: 1 });
    nothing(&mut feed);
    probe.fail(&[Fail::Full, Fail::Away]);
    assert_eq!(code(&desk.ask(acquire("ana", &["a"]))), "no_room");
    assert_eq!(code(&desk.ask(acquire("ana", &["a"]))), "away");
    nothing(&mut feed);
    desk.ask(acquire("ben", &["a"]));
    let events = drain(&mut feed, 1);
    assert_eq!(events[0].event.actor.id.as_str(), "ben", "the number went to who got it");
}

/// E2: events and answers come only once the commit has returned.
#[test]
fn nothing_is_heard_before_the_commit() {
    let probe = Probe::default();
    let engine = start(&probe);
    engine.execute_blocking(create(LOCKS));
    let mut feed = engine.subscribe(&key(LOCKS), From::Event { epoch: EPOCH, seq: 1 }).expect("subscribes");
    nothing(&mut feed);
    let hold = probe.hold();
    let (sender, mut receiver) = oneshot::channel();
    engine.submit(acquire("ana", &["a"]).into(), ReplyTo::Once(sender));
    probe.wait_held();
    nothing(&mut feed);
    assert!(receiver.try_recv().is_err());
    drop(hold);
    assert_eq!(code(&receiver.blocking_recv().expect("answered")), "ok");
    assert_eq!(delivered(&mut feed).len(), 1);
}

/// A reader that subscribes while a commit is under way finds it neither in the store nor, later, in
/// the ring: it must hear of it all the same, and at once.
#[tokio::test]
async fn e2_a_reader_that_comes_during_a_commit_hears_of_it_without_a_further_event() {
    for live_already in [false, true] {
        let probe = Probe::default();
        let engine = start(&probe);
        engine.execute(create(LOCKS)).await;
        let other = live_already.then(|| engine.subscribe(&key(LOCKS), From::Snapshot).expect("subscribes"));
        let hold = probe.hold();
        let (sender, receiver) = oneshot::channel();
        engine.submit(acquire("ana", &["a"]).into(), ReplyTo::Once(sender));
        probe.wait_held();
        let mut feed =
            engine.subscribe(&key(LOCKS), From::Event { epoch: EPOCH, seq: 1 }).expect("subscribes");
        nothing(&mut feed);
        drop(hold);
        receiver.await.expect("answered");
        let delivery = soon(feed.next()).await.expect("readable");
        let Delivery::Events(events) = delivery else { panic!("{delivery:?}") };
        assert_eq!(actions(&events), ["claim_granted"]);
        nothing(&mut feed);
        drop(other);
    }
}

struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn cancelling_next_loses_nothing() {
    let mut desk = Desk::new();
    desk.ask(create(LOCKS));
    let mut feed = desk.subscribe(LOCKS, From::Event { epoch: EPOCH, seq: 1 });
    let wakes = Arc::new(Wakes(AtomicUsize::new(0)));
    let waker = Waker::from(wakes.clone());
    let mut context = Context::from_waker(&waker);
    for round in 0..10_usize {
        {
            let mut next = std::pin::pin!(feed.next());
            assert!(next.as_mut().poll(&mut context).is_pending());
            desk.ask(acquire("ana", &[&format!("i{round}")]));
            assert_eq!(wakes.0.load(Ordering::SeqCst), round + 1, "woken once");
            // Dropped here, woken but not polled again.
        }
        let mut next = std::pin::pin!(feed.next());
        let Poll::Ready(Ok(Delivery::Events(events))) = next.as_mut().poll(&mut context) else {
            panic!("the event is there")
        };
        assert_gap_free(&events, 1 + round as u64);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e2_snapshot_and_events_have_no_gap_under_concurrent_writes() {
    let probe = Probe::default();
    let engine = start(&probe);
    engine.execute(create(LOCKS)).await;
    let total = 2_000_u64;
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let engine = engine.clone();
            tokio::spawn(async move {
                for number in 0..total / 4 {
                    let answer = engine.execute(acquire("ana", &[&format!("w{writer}-{number}")])).await;
                    assert_eq!(code(&answer), "ok");
                }
            })
        })
        .collect();
    let readers: Vec<_> = (0..20)
        .map(|_| {
            let engine = engine.clone();
            tokio::spawn(async move {
                let mut feed = engine.subscribe(&key(LOCKS), From::Snapshot).expect("subscribes");
                let first = feed.next().await.expect("readable");
                let Delivery::Snapshot(snapshot) = first else { panic!("{first:?}") };
                assert_eq!(snapshot.claims.len() as u64, snapshot.head.seq - 1, "of one moment");
                let mut cursor = snapshot.head.seq;
                while cursor < total + 1 {
                    match feed.next().await.expect("readable") {
                        Delivery::Events(events) => {
                            assert_gap_free(&events, cursor);
                            cursor = feed.cursor();
                        }
                        Delivery::Lagging { .. } => {}
                        other => panic!("{other:?}"),
                    }
                }
            })
        })
        .collect();
    for task in writers.into_iter().chain(readers) {
        soon(task).await.expect("no panic");
    }
}
