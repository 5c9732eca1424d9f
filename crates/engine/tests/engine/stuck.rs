//! A database that says nothing any more, and a collection that somebody keeps: who has nothing to do with it goes on, and
//! who has is told in time.

use std::time::{Duration, Instant};

use tenure_core::Fact;
use tenure_engine::{Engine, From, Options, Subscription, SystemClock};
use tenure_store::conformance::{Holding, Proxy, Server};
use tenure_store::postgres::{self, Postgres};

use crate::common::{LOCKS, acquire, code, key};
use crate::nodes::{soon, until};

/// As long as a batch waits for a collection, in these tests: much longer than one takes that waits for nobody, on a slow
/// machine too.
const LOCK_MS: u64 = 5_000;

fn node(url: &str, lanes: usize) -> Engine {
    let options = postgres::Options { lock_ms: LOCK_MS, ..postgres::Options::default() };
    let store = Postgres::open(url, &options).expect("opens");
    let mut stores: Vec<Postgres> = (1..lanes).map(|_| store.another()).collect();
    stores.push(store);
    Engine::start_lanes(stores, SystemClock::new(), Options::default()).expect("starts")
}

/// A network that has lost the database's machine closes no connection and answers nothing. More follow than there are
/// connections to read by: none of them waits for a read that will not be answered.
#[tokio::test(flavor = "multi_thread")]
async fn e09_a_database_that_falls_silent_is_told_of_within_seconds() {
    let server = Server::shared();
    let url = server.database();
    let proxy = Proxy::to(server.port());
    let engine = node(&proxy.url(url.rsplit('/').next().expect("a name")), 1);
    assert_eq!(code(&soon(engine.execute(acquire("ana", &["one"]))).await), "ok");
    let mut feeds: Vec<Subscription> = Vec::new();
    for number in 0..12 {
        let mut feed = engine.subscribe(&key(LOCKS), From::Snapshot).expect("subscribes");
        soon(feed.next()).await.expect("a snapshot");
        // The first one looks into the store when nobody answers any more.
        if number > 0 {
            assert!(feed.try_next().expect("reads").is_none(), "nothing else has happened");
        }
        feeds.push(feed);
    }
    proxy.fall_silent();
    let since = Instant::now();
    for mut feed in feeds {
        assert!(soon(feed.next()).await.is_err(), "it is told");
    }
    assert!(since.elapsed() < Duration::from_secs(7), "{:?}", since.elapsed());
    // Nor does anyone who comes now wait for long.
    assert!(engine.subscribe(&key(LOCKS), From::Snapshot).is_err());
    assert!(since.elapsed() < Duration::from_secs(8), "{:?}", since.elapsed());
    proxy.speak_again();
    soon(async {
        while engine.subscribe(&key(LOCKS), From::Snapshot).is_err() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// A database that answers, but later than a look waits at first, and than readers may go on without knowing: they are
/// told, and go on once there is an answer.
#[tokio::test(flavor = "multi_thread")]
async fn e09_a_database_that_is_slow_is_seen_again() {
    let server = Server::shared();
    let url = server.database();
    let engine = node(&url, 1);
    assert_eq!(code(&soon(engine.execute(acquire("ana", &["one"]))).await), "ok");
    let mut feed = engine.subscribe(&key(LOCKS), From::Snapshot).expect("subscribes");
    soon(feed.next()).await.expect("a snapshot");
    // What every look reads, and nobody else who reads here.
    server.run(
        url.rsplit('/').next().expect("a name"),
        "ALTER TABLE tenure.meta RENAME TO fast; \
         CREATE VIEW tenure.meta AS SELECT fast.* FROM tenure.fast, pg_sleep(6)",
    );
    soon(async { while feed.next().await.is_ok() {} }).await;
    soon(async {
        while engine.subscribe(&key(LOCKS), From::Snapshot).is_err() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// Somebody keeps one collection's head. Who asks there is refused; who asks elsewhere is not, and waits at the most as
/// long as a lock is waited for: in the same lane once, in another not at all.
#[tokio::test(flavor = "multi_thread")]
async fn e09_a_collection_that_somebody_keeps_refuses_nobody_elsewhere() {
    const OTHERS: usize = 8;
    let url = Server::shared().database();
    let place = |number: usize| format!("lock/other-{number}");
    let (lone, wide) = (node(&url, 1), node(&url, 2));
    for engine in [&lone, &wide] {
        for name in (0..OTHERS).map(place).chain(["lock/kept".to_owned()]) {
            let asked = acquire("ana", &["first"]).of(&name);
            assert_eq!(code(&soon(engine.execute(asked)).await), "ok", "{name}");
        }
    }
    let keeper = Holding::begin(&url);
    let kept = "SELECT collection FROM tenure.collections WHERE collection = 'lock/kept' FOR UPDATE";
    assert_eq!(keeper.rows(kept).len(), 1);
    for (round, engine) in [(0, &wide), (1, &lone), (2, &lone)] {
        let begun = Instant::now();
        let stuck = tokio::spawn({
            let (engine, asked) = (engine.clone(), acquire("ben", &["one"]).of("lock/kept"));
            async move { code(&engine.execute(asked).await) }
        });
        // Most probably in one batch with it, and in any case behind it.
        let mut others = tokio::task::JoinSet::new();
        for number in 0..OTHERS {
            let (engine, item) = (engine.clone(), format!("item-{round}-{number}"));
            let asked = acquire("ben", &[&item]).of(&place(number));
            others.spawn(async move { (code(&engine.execute(asked).await), begun.elapsed()) });
        }
        let others = soon(others.join_all()).await;
        assert_eq!(soon(stuck).await.expect("no panic"), "away", "{round}");
        assert!(others.iter().all(|(code, _)| *code == "ok"), "{round}: {others:?}");
        let once = Duration::from_millis(LOCK_MS);
        let limit = if round == 2 { once } else { 2 * once };
        assert!(others.iter().all(|(_, took)| *took < limit), "{round}: {others:?}");
        if round == 0 {
            let soonest = others.iter().filter(|(_, took)| *took < once).count();
            assert!(soonest > 0, "another lane waits for nobody: {others:?}");
        }
    }
    keeper.end();
    for engine in [&lone, &wide] {
        let free = soon(engine.execute(acquire("ben", &["two"]).of("lock/kept"))).await;
        assert_eq!(code(&free), "ok");
    }
}

/// Deadlines and those who wait are of the same batches as what is asked.
#[tokio::test(flavor = "multi_thread")]
async fn i18_a_collection_that_somebody_keeps_holds_up_no_deadline_elsewhere() {
    // Time enough to lock what they are in before they come.
    const TTL_MS: i64 = 8_000;
    let url = Server::shared().database();
    let engine = node(&url, 1);
    let mut feeds = Vec::new();
    for name in ["lock/kept", "lock/other"] {
        let asked = acquire("ana", &["one"]).of(name).ttl(TTL_MS);
        assert_eq!(code(&soon(engine.execute(asked)).await), "ok");
        feeds.push(engine.subscribe(&key(name), From::Snapshot).expect("subscribes"));
    }
    let keeper = Holding::begin(&url);
    let kept = "SELECT collection FROM tenure.collections WHERE collection = 'lock/kept' FOR UPDATE";
    assert_eq!(keeper.rows(kept).len(), 1);
    let waits =
        |who: &str, name: &str, wait_ms| engine.execute(acquire(who, &["one"]).of(name).wait(wait_ms));
    let (impatient, patient) =
        tokio::join!(soon(waits("ben", "lock/kept", 1_000)), soon(waits("ben", "lock/other", 50_000)));
    assert_eq!((code(&impatient), code(&patient)), ("away", "ok"));
    let ended = until(&mut feeds[1], |fact| matches!(fact, Fact::Ended(_))).await;
    let late_ms = ended.iter().find_map(|(_, at_ms, fact)| match fact {
        Fact::Ended(end) => Some(at_ms - end.ended_at_ms),
        _ => None,
    });
    // A lock is waited for once at the most.
    let limit_ms = 2 * i64::try_from(LOCK_MS).expect("small");
    assert!(late_ms.is_some_and(|late_ms| late_ms < limit_ms), "{late_ms:?}");
    keeper.end();
    until(&mut feeds[0], |fact| matches!(fact, Fact::Ended(_))).await;
}
