//! Against a real Redis.

use std::time::Duration;

use tenure_redis::testing::Server;
use tenure_redis::{Address, Count, Counted, Counts, Redis};

/// What a test waits for comes, or the test fails.
async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), what).await.expect("it comes")
}

async fn until(mut is_so: impl AsyncFnMut() -> bool) {
    soon(async {
        while !is_so().await {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

fn count(key: &str, period: Duration, burst: u32, count: u32) -> Count {
    Count { key: key.to_owned(), period, burst, count }
}

#[tokio::test]
async fn e09_what_one_says_all_hear_in_order() {
    let server = Server::with_password("a pass@word");
    let wrong = Redis::new(Address::parse(&format!("redis://127.0.0.1:{}", server.port())).expect("read"));
    assert!(wrong.speaker().await.expect("no one looks yet").say("tenure", "x").await.is_err());
    let redis = Redis::new(
        Address::parse(&format!("redis://:a%20pass%40word@127.0.0.1:{}/2", server.port())).expect("read"),
    );
    let mut ears = [redis.listener("tenure").await.expect("in"), redis.listener("tenure").await.expect("in")];
    let mut speaker = redis.speaker().await.expect("in");
    for text in ["one", "two\nlines", ""] {
        assert_eq!(speaker.say("tenure", text).await.expect("said"), 2);
        for ear in &mut ears {
            assert_eq!(soon(ear.hear()).await.expect("heard"), text);
        }
    }
    server.kill();
    assert!(soon(ears[0].hear()).await.is_err());
    assert!(soon(speaker.say("tenure", "x")).await.is_err());
}

#[tokio::test]
async fn e09_two_nodes_count_one_allowance() {
    let server = Server::start();
    let nodes = [server.redis(), server.redis()];
    let counts = [Counts::start(&nodes[0]), Counts::start(&nodes[1])];
    until(async || nodes.iter().all(|node| node.counts().is_there())).await;
    let hour = Duration::from_hours(1);
    let ask = |node: usize, many: u32| counts[node].count(count("ana", hour, 5, many));
    for (node, left) in [(0, 4), (1, 3), (0, 2), (1, 1)] {
        assert_eq!(ask(node, 1).await, Some(Counted::Allowed { left }));
    }
    // Too many at once are not counted at all.
    let Some(Counted::Refused { wait }) = ask(0, 2).await else { panic!("there is one left") };
    assert!(wait <= hour && wait + Duration::from_mins(1) > hour, "{wait:?}");
    assert_eq!(ask(1, 1).await, Some(Counted::Allowed { left: 0 }));
    assert!(matches!(ask(0, 1).await, Some(Counted::Refused { .. })));
    assert_eq!(counts[0].count(count("ben", hour, 5, 5)).await, Some(Counted::Allowed { left: 0 }));
    // What is refilled in a millisecond is forgotten as soon.
    let moment = Duration::from_millis(1);
    assert!(matches!(counts[0].count(count("cid", moment, 1, 1)).await, Some(Counted::Allowed { .. })));
    until(async || {
        matches!(counts[1].count(count("cid", moment, 1, 1)).await, Some(Counted::Allowed { .. }))
    })
    .await;
}

#[tokio::test]
async fn e09_without_redis_nobody_waits_and_with_it_counting_goes_on() {
    let server = Server::start();
    let redis = server.redis();
    let counts = Counts::start(&redis);
    until(async || redis.counts().is_there()).await;
    let hour = Duration::from_hours(1);
    server.kill();
    // By two clocks of one runtime: where both are over because nobody had a processor, its own comes first.
    let told = tokio::time::timeout(Duration::from_secs(1), counts.count(count("ana", hour, 5, 1))).await;
    assert_eq!(told.expect("it was told within its time"), None);
    until(async || !redis.counts().is_there()).await;
    assert_eq!(counts.count(count("ana", hour, 5, 1)).await, None);
    server.start_again();
    until(async || counts.count(count("ana", hour, 5, 1)).await.is_some()).await;
    assert!(redis.counts().is_there());
}

/// A Redis that is stopped, but whose connections nobody closes.
#[tokio::test]
async fn e09_a_silent_redis_is_found_out() {
    let server = Server::start();
    let redis = server.redis();
    let counts = Counts::start(&redis);
    until(async || redis.counts().is_there()).await;
    server.pause();
    assert_eq!(counts.count(count("ana", Duration::from_hours(1), 5, 1)).await, None);
    until(async || !redis.counts().is_there()).await;
    server.go_on();
    until(async || redis.counts().is_there()).await;
}
