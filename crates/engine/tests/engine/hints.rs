//! Hints between nodes: they make news fast, and nothing depends on them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tenure_core::{Fact, Verb};
use tenure_engine::{Engine, From, Options, Subscription, SystemClock};
use tenure_redis::Redis;
use tenure_redis::testing::Server as RedisServer;
use tenure_store::conformance::Server;
use tenure_store::postgres::{self, Postgres};

use crate::common::{Ask, LOCKS, acquire, claim_of, code, item, key, release};
use crate::nodes::{soon, until};

const NEVER: Duration = Duration::from_hours(1);

fn node(url: &str, redis: Option<Redis>, options: Options) -> Engine {
    let store = Postgres::open(url, &postgres::Options { redis, ..postgres::Options::default() });
    let store = store.expect("opens");
    Engine::start_lanes(vec![store.another(), store], SystemClock::new(), options).expect("starts")
}

fn by_hints_alone() -> Options {
    Options { pulse: NEVER, ..Options::default() }
}

fn from_the_start(node: &Engine) -> Subscription {
    node.subscribe(&key(LOCKS), From::Event { epoch: 1, seq: 0 }).expect("subscribes")
}

async fn grant(node: &Engine, id: &str) {
    assert_eq!(code(&soon(node.execute(acquire("ana", &[id]))).await), "ok");
}

fn is_grant(id: &str) -> impl Fn(&Fact) -> bool {
    let id = item(id);
    move |fact| matches!(fact, Fact::Granted(grant) if grant.items[0].id == id)
}

async fn until_so(is_so: impl Fn() -> bool) {
    soon(async {
        while !is_so() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// The node that listens never looks by itself: without Redis nothing would reach it.
#[tokio::test(flavor = "multi_thread")]
async fn e09_hints_over_redis_bring_news_and_its_death_fails_nothing() {
    let (url, server) = (Server::shared().database(), RedisServer::with_password("not-for-logs"));
    let (near, far) = (server.redis(), server.redis());
    let writer = node(&url, Some(near.clone()), Options::default());
    let by_hints = node(&url, Some(far.clone()), by_hints_alone());
    let looking = node(&url, Some(server.redis()), Options::default());
    until_so(|| near.hints().is_there() && far.hints().is_there()).await;
    let (mut feed, mut looks) = (from_the_start(&by_hints), from_the_start(&looking));
    for round in 0..10 {
        let id = format!("item-{round}");
        grant(&writer, &id).await;
        until(&mut feed, is_grant(&id)).await;
        until(&mut looks, is_grant(&id)).await;
    }
    server.kill();
    for round in 10..20 {
        let id = format!("item-{round}");
        let begun = Instant::now();
        grant(&writer, &id).await;
        until(&mut looks, is_grant(&id)).await;
        assert!(begun.elapsed() < Duration::from_secs(5), "nothing waits for Redis");
    }
    until_so(|| !near.hints().is_there() && !far.hints().is_there()).await;
    server.start_again();
    // What was said while nobody listened is looked up by whoever listens again.
    until(&mut feed, is_grant("item-19")).await;
    until_so(|| near.hints().is_there() && far.hints().is_there()).await;
    grant(&writer, "after").await;
    until(&mut feed, is_grant("after")).await;
    assert_eq!((feed.cursor(), looks.cursor()), (22, 21));
}

/// What is said in one Redis comes out of the other: a third of it never, a third twice, and in any order.
async fn unreliable(from: Redis, to: Redis, passed: Arc<AtomicU64>) {
    let mut ears = from.listener("tenure").await.expect("hears");
    let mut mouth = to.speaker().await.expect("speaks");
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut kept: Vec<String> = Vec::new();
    loop {
        let text = ears.hear().await.expect("hears");
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let times = random % 3;
        kept.extend((0..times).map(|_| text.clone()));
        if random.is_multiple_of(4) {
            for text in kept.drain(..).rev() {
                mouth.say("tenure", &text).await.expect("says");
                passed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// Readers read all along, while two nodes write and their hints get lost, come twice, late or are nonsense.
#[tokio::test(flavor = "multi_thread")]
async fn e09_hints_that_are_lost_doubled_or_late_lose_no_event() {
    const ROUNDS: u64 = 40;
    let server = Server::shared();
    let url = server.database();
    let redis = [RedisServer::start(), RedisServer::start()];
    let passed = Arc::new(AtomicU64::new(0));
    let mut relays = tokio::task::JoinSet::new();
    relays.spawn(unreliable(redis[0].redis(), redis[1].redis(), passed.clone()));
    relays.spawn(unreliable(redis[1].redis(), redis[0].redis(), passed.clone()));
    let first = node(&url, Some(redis[0].redis()), Options::default());
    let second = node(&url, Some(redis[1].redis()), Options::default());
    let third = node(&url, None, Options::default());
    let nodes = [first, second, third];
    let mut readers = tokio::task::JoinSet::new();
    for node in &nodes {
        let mut feed = from_the_start(node);
        readers.spawn(async move {
            let seen = until(&mut feed, is_grant("last")).await;
            seen.into_iter().map(|(seq, ..)| seq).collect::<Vec<u64>>()
        });
    }
    // The third one hears only nonsense: of what did not change, of what it knows, of nothing at all.
    let over = Arc::new(AtomicBool::new(false));
    let nonsense = std::thread::spawn({
        let (database, over) = (url.rsplit('/').next().expect("a name").to_owned(), over.clone());
        move || {
            for text in ["", "x", "x\nlock/main\nlock/main", "x\n*", "x\nlock/other", "x\n//"].iter().cycle()
            {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                server
                    .run(&database, &format!("SELECT pg_notify('tenure', E'{}')", text.replace('\n', "\\n")));
            }
        }
    });
    let mut writers = tokio::task::JoinSet::new();
    for (number, node) in nodes.iter().take(2).cloned().enumerate() {
        writers.spawn(async move {
            for round in 0..ROUNDS {
                grant(&node, &format!("{number}-{round}")).await;
            }
        });
    }
    writers.join_all().await;
    grant(&nodes[0], "last").await;
    let expected: Vec<u64> = (1..=2 * ROUNDS + 2).collect();
    for seen in readers.join_all().await {
        assert_eq!(seen, expected);
    }
    over.store(true, Ordering::Relaxed);
    nonsense.join().expect("no panic");
    assert!(passed.load(Ordering::Relaxed) > 0, "some hints came through");
}

/// A node that never looks by itself and hears nothing finds out by its own commits that it has missed
/// something, and its readers never hear of one event before another.
#[tokio::test(flavor = "multi_thread")]
async fn e09_what_a_node_commits_is_not_told_before_what_others_did() {
    let url = Server::shared().database();
    let quiet = || Options { pulse: NEVER, hints: false, ..Options::default() };
    let (here, elsewhere) = (node(&url, None, quiet()), node(&url, None, quiet()));
    let mut feed = from_the_start(&here);
    grant(&here, "first").await;
    until(&mut feed, is_grant("first")).await;
    for round in 0..10_u64 {
        grant(&elsewhere, &format!("theirs-{round}")).await;
        let ours = format!("ours-{round}");
        grant(&here, &ours).await;
        // Anything but events, "you lag" for one, is refused there.
        let seen = until(&mut feed, is_grant(&ours)).await;
        let numbers: Vec<u64> = seen.iter().map(|(seq, ..)| *seq).collect();
        assert_eq!(numbers, [2 * round + 3, 2 * round + 4]);
    }
}

/// Without a single hint: with the next look, and so within a second, since a look comes four times in one. Here they come
/// so seldom that a slow machine needs no second one.
#[tokio::test(flavor = "multi_thread")]
async fn e09_a_wait_ends_and_a_nudge_arrives_across_nodes_within_a_second() {
    const PULSE: Duration = Duration::from_secs(3);
    assert!(2 * Options::default().pulse < Duration::from_secs(1));
    let url = Server::shared().database();
    let deaf = || Options { hints: false, pulse: PULSE, ..Options::default() };
    let nodes = [node(&url, None, deaf()), node(&url, None, deaf()), node(&url, None, Options::default())];
    let [a, b, c] = nodes;
    let mut feed = from_the_start(&b);
    let claim = claim_of(&soon(a.execute(acquire("ana", &["one"]))).await);
    until(&mut feed, is_grant("one")).await;
    let nudge = Verb::Nudge { claim: claim.number, message: None };
    let begun = Instant::now();
    assert_eq!(code(&soon(c.execute(Ask::new("eve", nudge))).await), "ok");
    until(&mut feed, |fact| matches!(fact, Fact::Nudged { .. })).await;
    assert!(begun.elapsed() < 2 * PULSE, "{:?}", begun.elapsed());
    let waiting = tokio::spawn({
        let b = b.clone();
        async move { b.execute(acquire("ben", &["one"]).wait(50_000)).await }
    });
    until_so(|| b.waiting(&key(LOCKS), &item("one")) == 1).await;
    // Who has just begun to wait is decided anew at the first look. That is over when two more events have
    // come one after the other: the second was seen by a look that began with the waiter there.
    for id in ["two", "three"] {
        grant(&c, id).await;
        until(&mut feed, is_grant(id)).await;
    }
    let begun = Instant::now();
    assert_eq!(code(&soon(a.execute(release("ana", claim.number))).await), "ok");
    assert_eq!(&*claim_of(&soon(waiting).await.expect("no panic")).holder.id, "ben");
    assert!(begun.elapsed() < 2 * PULSE, "{:?}", begun.elapsed());
}

/// Several collections in a commit, several items in a claim, three nodes with two lanes each, all at once:
/// nobody ever waits for somebody who waits for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e09_overlapping_claims_of_many_items_on_three_nodes_never_deadlock() {
    const CALLERS: u64 = 192;
    const CLAIMS: u64 = 100_000;
    let server = Server::start();
    let url = server.database();
    let nodes = [(); 3].map(|()| node(&url, None, Options::default()));
    let next = Arc::new(AtomicU64::new(0));
    let mut callers = tokio::task::JoinSet::new();
    for caller in 0..CALLERS {
        let (node, next) = (nodes[usize::try_from(caller % 3).expect("small")].clone(), next.clone());
        callers.spawn(async move {
            let (who, mut granted) = (format!("caller-{caller}"), 0_u64);
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= CLAIMS {
                    return granted;
                }
                let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16;
                let place = format!("lock/place-{}", mixed % 24);
                // Four of twelve, in an order of their own.
                let step = [1, 5, 7, 11][usize::try_from(mixed >> 20 & 3).expect("small")];
                let items: Vec<String> =
                    (0..4).map(|nth| format!("item-{}", (mixed / 24 + nth * step) % 12)).collect();
                let items: Vec<&str> = items.iter().map(String::as_str).collect();
                let answer = node.execute(acquire(&who, &items).of(&place)).await;
                match code(&answer) {
                    "held" => {}
                    "ok" => {
                        granted += 1;
                        let back = release(&who, claim_of(&answer).number).of(&place);
                        assert_eq!(code(&node.execute(back).await), "ok");
                    }
                    other => panic!("{other}: {answer:?}"),
                }
            }
        });
    }
    let granted: u64 = callers.join_all().await.into_iter().sum();
    assert!(granted > CLAIMS / 20, "{granted} of {CLAIMS} were granted");
    for node in nodes {
        node.stop().expect("stops");
    }
    assert_eq!(server.deadlocks(&url), 0);
}
