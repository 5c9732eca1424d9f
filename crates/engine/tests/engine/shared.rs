//! Turns by hand over one database that several nodes share, at a time that the test moves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use tenure_core::ClaimState;
use tenure_engine::{Clock, Engine};
use tenure_store::ClaimFilter;
use tenure_store::conformance::{Proxy, Server};
use tenure_store::postgres::{Options, Postgres, TestClock};

use crate::common::*;

/// The clock of the database's host.
#[derive(Clone)]
struct HostClock(Arc<AtomicI64>);

impl HostClock {
    fn new() -> Self {
        Self(Arc::new(AtomicI64::new(START_MS)))
    }

    fn set(&self, now_ms: i64) {
        self.0.store(now_ms, Ordering::SeqCst);
    }

    fn store(&self, url: &str) -> Postgres {
        let clock = self.0.clone();
        let clock = Some(TestClock(Arc::new(move || clock.load(Ordering::SeqCst))));
        Postgres::open(url, &Options { clock, ..Options::default() }).expect("opens")
    }

    fn node(&self, url: &str) -> Desk<Postgres> {
        self.node_with(url, || {})
    }

    /// With an errand that is done whenever the time is read: in a load, after everything else of it.
    fn node_with(&self, url: &str, errand: impl Fn() + Send + Sync + 'static) -> Desk<Postgres> {
        let clock = self.0.clone();
        let read = move || {
            errand();
            clock.load(Ordering::SeqCst)
        };
        let clock = Some(TestClock(Arc::new(read)));
        let store = Postgres::open(url, &Options { clock, ..Options::default() }).expect("opens");
        Desk::open(store, START_MS)
    }
}

impl Clock for HostClock {
    fn now_ms(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }
}

const TEN_MINUTES_MS: i64 = 600_000;

/// One collection is ahead of the clock. A node that worked there judges the others by their own time.
#[test]
fn i04_a_collection_that_is_ahead_ends_nothing_in_another() {
    let server = Server::shared();
    let url = server.database();
    let name = url.rsplit('/').next().expect("a name");
    let clock = HostClock::new();
    let (mut a, mut b) = (clock.node(&url), clock.node(&url));
    assert_eq!(code(&a.ask(acquire("ana", &["one"]).of("lock/ahead"))), "ok");
    server.run(name, &format!("UPDATE tenure.collections SET at_ms = at_ms + {TEN_MINUTES_MS}"));
    let ahead = a.ask(acquire("ana", &["two"]).of("lock/ahead"));
    assert_eq!(ahead.server_time_ms, START_MS + TEN_MINUTES_MS, "its own time goes on from there");
    let held = claim_of(&b.ask(acquire("ana", &["one"]).of("lock/other")));
    assert_eq!(held.expires_at_ms, START_MS + TTL_MS);
    clock.set(START_MS + 1_000);
    let rival = a.ask(acquire("ben", &["one"]).of("lock/other"));
    assert_eq!(code(&rival), "held");
    assert_eq!(rival.server_time_ms, START_MS + 1_000);
    // In one batch with it, too.
    let both = [
        a.put(acquire("ben", &["three"]).of("lock/ahead")),
        a.put(acquire("ben", &["one"]).of("lock/other")),
    ];
    a.run();
    assert_eq!(both.map(|slip| code(&a.answer(&slip))), ["ok", "held"]);
    let at = |collection: &str| {
        let asked = format!("SELECT at_ms FROM tenure.collections WHERE collection = '{collection}'");
        server.ask(name, &asked).expect("a row").parse::<i64>().expect("a number")
    };
    assert_eq!(at("lock/ahead"), START_MS + TEN_MINUTES_MS);
    assert!(at("lock/other") <= START_MS + 1_000, "and nothing of it was written elsewhere");
    clock.set(held.expires_at_ms);
    assert_eq!(code(&a.ask(acquire("ben", &["one"]).of("lock/other"))), "ok", "and it ends when it ends");
}

/// Another database takes over whose clock is behind: collections that nobody wrote to lately go by it at once,
/// on nodes that were there before it as on one that came after.
#[test]
fn i04_a_clock_that_is_set_back_by_a_failover_ends_nothing_and_holds_nothing_up() {
    let url = Server::shared().database();
    let clock = HostClock::new();
    let mut before = clock.node(&url);
    assert_eq!(code(&before.ask(acquire("ana", &["old"]).of("lock/quiet"))), "ok");
    clock.set(START_MS + TEN_MINUTES_MS);
    assert_eq!(code(&before.ask(acquire("ana", &["one"]).of("lock/busy"))), "ok");
    let start_ms = START_MS + 2 * TTL_MS;
    clock.set(start_ms);
    let mut after = clock.node(&url);
    let held = claim_of(&after.ask(acquire("ana", &["one"]).of("lock/quiet")));
    assert_eq!(held.expires_at_ms, start_ms + TTL_MS);
    clock.set(start_ms + 1_000);
    before.clock_ms = START_MS + TEN_MINUTES_MS + 1_000;
    assert_eq!(code(&before.ask(acquire("ben", &["one"]).of("lock/quiet"))), "held");
    // Patience is measured by the node's own clock, whatever the database's does.
    let waiter = before.put(acquire("ben", &["one"]).of("lock/quiet").wait(2_000));
    before.run();
    assert!(before.waits(&waiter));
    clock.set(START_MS);
    before.tick(2_000);
    assert_eq!(code(&before.answer(&waiter)), "held");
    clock.set(held.expires_at_ms);
    assert_eq!(code(&before.ask(acquire("ben", &["one"]).of("lock/quiet"))), "ok", "not later either");
}

/// The wire breaks after a load: what a waiter's last try asks for cannot be read. That is no "not found".
#[test]
fn i11_what_could_not_be_read_is_not_refused_as_if_it_were_not_there() {
    let server = Server::shared();
    let url = server.database();
    let proxy = Arc::new(Proxy::to(server.port()));
    let (clock, armed) = (HostClock::new(), Arc::new(AtomicBool::new(false)));
    let mut desk = clock.node_with(&proxy.url(url.rsplit('/').next().expect("a name")), {
        let (proxy, armed) = (proxy.clone(), armed.clone());
        move || {
            if armed.swap(false, Ordering::SeqCst) {
                proxy.cut_all();
            }
        }
    });
    desk.ask(set_policy("seat", |policy| policy.create_on_claim = false));
    for made in raffle("seat/hall", &["042"]) {
        assert_eq!(code(&desk.ask(made)), "ok");
    }
    let seat = |who: &str| acquire(who, &["042"]).of("seat/hall");
    assert_eq!(code(&desk.ask(seat("ana"))), "ok");
    let waiter = desk.put(seat("ben").wait(1_000));
    desk.run();
    assert!(desk.waits(&waiter));
    // What is still there from before cannot be relied on: somebody else was in the collection.
    let mut other = clock.node(&url);
    assert_eq!(code(&other.ask(put_item("043").of("seat/hall"))), "ok");
    armed.store(true, Ordering::SeqCst);
    desk.tick(1_000);
    assert!(!armed.load(Ordering::SeqCst), "it was cut");
    assert_eq!(code(&desk.answer(&waiter)), "away");
    assert_eq!(code(&desk.ask(seat("ben"))), "held", "and is there when it can be read");
}

/// Many claims end at one moment, and a node looks once: it ends them all.
#[tokio::test(flavor = "multi_thread")]
async fn i18_a_crowd_that_ends_at_once_is_seen_in_one_look() {
    let url = Server::shared().database();
    let clock = HostClock::new();
    let never = Duration::from_hours(1);
    let options =
        || tenure_engine::Options { pulse: never, hints: false, ..tenure_engine::Options::default() };
    let first = Engine::start(clock.store(&url), clock.clone(), options()).expect("starts");
    let asked =
        (0..1_500).map(|number| acquire(&format!("person-{number}"), &[&format!("item-{number}")]).into());
    let answers = first.execute_all(asked.collect()).await;
    assert!(answers.iter().all(|answer| code(answer) == "ok"));
    first.stop().expect("stops");
    clock.set(START_MS + TTL_MS);
    let second = Engine::start(clock.store(&url), clock.clone(), options()).expect("starts");
    let active = ClaimFilter { state: Some(ClaimState::Active), ..ClaimFilter::default() };
    let all_ended = async {
        while !second.reader().claims(&active, 1).expect("reads").rows.is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), all_ended).await.expect("all end");
    assert_eq!(events(&**second.reader(), LOCKS).len(), 1 + 2 * 1_500, "each once");
}
