//! Several nodes over one PostgreSQL: each an engine of its own, with a clock of its own.

use std::collections::BTreeMap;
use std::time::Duration;

use tenure_core::{ClaimState, Fact};
use tenure_engine::{Clock, Delivery, Engine, From, Options, Subscription, SystemClock};
use tenure_store::conformance::{Cut, Proxy, Server};
use tenure_store::postgres::{self, Postgres};

use crate::common::{Ask, LOCKS, acquire, claim_of, code, item, key, release};

/// Nobody's clock is right, and no two are wrong alike.
struct Skewed(SystemClock, i64);

impl Clock for Skewed {
    fn now_ms(&self) -> i64 {
        self.0.now_ms() + self.1
    }
}

const HOUR_MS: i64 = 3_600_000;

fn node(url: &str, skew_ms: i64) -> Engine {
    node_with(url, skew_ms, Options::default())
}

fn node_with(url: &str, skew_ms: i64, options: Options) -> Engine {
    let store = Postgres::open(url, &postgres::Options::default()).expect("opens");
    let lanes = vec![store.another(), store.another(), store];
    Engine::start_lanes(lanes, Skewed(SystemClock::new(), skew_ms), options).expect("starts")
}

/// Three nodes, their clocks an hour apart.
fn nodes(url: &str) -> [Engine; 3] {
    [node(url, 0), node(url, HOUR_MS), node(url, -HOUR_MS)]
}

/// What a test waits for comes, or the test fails: real time passes here, and machines are slow.
pub(crate) async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_mins(1), what).await.expect("it comes")
}

/// The next events, up to one that is looked for. Nothing else may be delivered.
pub(crate) async fn until(feed: &mut Subscription, wanted: impl Fn(&Fact) -> bool) -> Vec<(u64, i64, Fact)> {
    let mut seen = Vec::new();
    loop {
        match soon(feed.next()).await.expect("reads") {
            Delivery::Events(events) => {
                let events = events.iter().map(|sealed| &sealed.event);
                seen.extend(events.map(|event| (event.seq, event.at_ms, event.fact.clone())));
            }
            Delivery::Snapshot(_) => {}
            other => panic!("{other:?}"),
        }
        if seen.iter().any(|(_, _, fact)| wanted(fact)) {
            return seen;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn e09_nodes_with_clocks_an_hour_apart_agree_on_who_holds_and_until_when() {
    let [a, b, c] = nodes(&Server::shared().database());
    let first = soon(a.execute(acquire("ana", &["one"]))).await;
    let claim = claim_of(&first);
    for other in [&b, &c] {
        assert_eq!(code(&soon(other.execute(acquire("ben", &["one"]))).await), "held");
        assert!((other.now_ms() - a.now_ms()).abs() < 10_000, "they tell one time");
    }
    let beat = Ask::new(
        "ana",
        tenure_core::Verb::Heartbeat { claim: claim.number, token: claim.token, idle_ms: None },
    );
    let renewed = claim_of(&soon(c.execute(beat)).await);
    assert!((claim.expires_at_ms..claim.expires_at_ms + 60_000).contains(&renewed.expires_at_ms));
    assert_eq!(code(&soon(b.execute(release("ana", claim.number))).await), "ok");
    let next = claim_of(&soon(c.execute(acquire("cid", &["one"]))).await);
    assert!(next.token > claim.token);
}

#[tokio::test(flavor = "multi_thread")]
async fn e09_a_crowd_on_three_nodes_never_holds_one_thing_twice() {
    let nodes = nodes(&Server::shared().database());
    let mut crowd = tokio::task::JoinSet::new();
    for person in 0..12_usize {
        let engine = nodes[person % 3].clone();
        crowd.spawn(async move {
            let (who, mut had) = (format!("person-{person}"), 0);
            for round in 0..8 {
                let items = [format!("item-{}", round % 3), format!("item-{}", 3 + (person + round) % 2)];
                let items = [&*items[0], &*items[1]];
                // Among nodes nobody promises an order, so patience may end before one's turn comes.
                let claim = loop {
                    let answer = soon(engine.execute(acquire(&who, &items).wait(20_000))).await;
                    if code(&answer) != "held" {
                        break claim_of(&answer);
                    }
                };
                had += 1;
                assert_eq!(code(&soon(engine.execute(release(&who, claim.number))).await), "ok");
            }
            had
        });
    }
    let had: usize = crowd.join_all().await.into_iter().sum();
    assert_eq!(had, 12 * 8, "everyone had everything in the end");
    let page = nodes[0].reader().events(&key(LOCKS), 0, 1_000_000).expect("reads");
    let tenure_store::EventPage::Events(events) = page else { panic!("all are there") };
    let mut holds: BTreeMap<String, u64> = BTreeMap::new();
    for (seq, sealed) in (1..).zip(&events) {
        assert_eq!(sealed.event.seq, seq);
        match &sealed.event.fact {
            Fact::Granted(grant) => {
                for granted in &grant.items {
                    assert_eq!(holds.insert(granted.id.to_string(), seq), None, "{} was held", granted.id);
                }
            }
            Fact::Ended(end) => end.items.iter().for_each(|id| {
                holds.remove(id.as_str());
            }),
            _ => {}
        }
    }
    assert_eq!(events.len(), 1 + 2 * 12 * 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn e09_any_node_ends_what_has_run_out_once_and_within_a_second() {
    let url = Server::shared().database();
    let [a, b, c] = nodes(&url);
    let mut feed = b.subscribe(&key(LOCKS), From::Snapshot).expect("subscribes");
    for name in ["one", "two", "three"] {
        assert_eq!(code(&soon(a.execute(acquire(name, &[name]).ttl(2_000))).await), "ok");
    }
    // The node that granted them is gone.
    a.stop().expect("stops");
    drop(a);
    let mut seen = Vec::new();
    while seen.iter().filter(|(_, _, fact)| matches!(fact, Fact::Ended(_))).count() < 3 {
        seen.extend(until(&mut feed, |fact| matches!(fact, Fact::Ended(_))).await);
    }
    for (seq, at_ms, fact) in &seen {
        if let Fact::Ended(end) = fact {
            assert_eq!(end.reason.state(), ClaimState::Expired);
            let late_ms = at_ms - end.ended_at_ms;
            assert!((0..1_000).contains(&late_ms), "event {seq} came {late_ms} ms late");
        }
    }
    // A last one, so that whatever else there may be has come before it.
    assert_eq!(code(&soon(c.execute(acquire("zoe", &["last"]))).await), "ok");
    let is_last = |fact: &Fact| matches!(fact, Fact::Granted(grant) if grant.items[0].id == item("last"));
    seen.extend(until(&mut feed, is_last).await);
    assert_eq!(seen.iter().filter(|(_, _, fact)| matches!(fact, Fact::Ended(_))).count(), 3, "each once");
    let numbers: Vec<u64> = seen.iter().map(|(seq, ..)| *seq).collect();
    assert_eq!(numbers, (1..=8).collect::<Vec<u64>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn e09_who_waits_on_one_node_gets_what_another_gives_back() {
    let [a, b, c] = nodes(&Server::shared().database());
    let claim = claim_of(&soon(a.execute(acquire("ana", &["one"]))).await);
    let waiting = tokio::spawn({
        let b = b.clone();
        async move { b.execute(acquire("ben", &["one"]).wait(50_000)).await }
    });
    soon(async {
        while b.waiting(&key(LOCKS), &item("one")) == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(code(&soon(c.execute(release("ana", claim.number))).await), "ok");
    let got = claim_of(&soon(waiting).await.expect("no panic"));
    assert_eq!(&*got.holder.id, "ben");
    // And what nobody gives back, but what runs out.
    let short = soon(a.execute(acquire("ana", &["two"]).ttl(1_000))).await;
    let got = soon(b.execute(acquire("ben", &["two"]).wait(50_000))).await;
    assert!(claim_of(&got).since_ms >= claim_of(&short).expires_at_ms);
}

#[tokio::test(flavor = "multi_thread")]
async fn e09_a_feed_on_one_node_has_every_event_of_all_in_order() {
    let nodes = nodes(&Server::shared().database());
    let mut feeds: Vec<Subscription> = nodes
        .iter()
        .map(|node| node.subscribe(&key(LOCKS), From::Event { epoch: 1, seq: 0 }).expect("subscribes"))
        .collect();
    let mut work = tokio::task::JoinSet::new();
    for (number, node) in nodes.iter().cloned().enumerate() {
        work.spawn(async move {
            for round in 0..30 {
                let who = format!("person-{number}");
                let answer = soon(node.execute(acquire(&who, &[&format!("{number}-{round}")]))).await;
                let nudge = tenure_core::Verb::Nudge { claim: claim_of(&answer).number, message: None };
                assert_eq!(code(&soon(node.execute(Ask::new("eve", nudge))).await), "ok");
            }
        });
    }
    work.join_all().await;
    assert_eq!(code(&soon(nodes[1].execute(acquire("zoe", &["last"]))).await), "ok");
    let is_last = |fact: &Fact| matches!(fact, Fact::Granted(grant) if grant.items[0].id == item("last"));
    for feed in &mut feeds {
        let numbers: Vec<u64> = until(feed, is_last).await.into_iter().map(|(seq, ..)| seq).collect();
        assert_eq!(numbers, (1..=182).collect::<Vec<u64>>());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn e09_one_idempotency_key_on_three_nodes_is_one_request() {
    let nodes = nodes(&Server::shared().database());
    let mut asked = tokio::task::JoinSet::new();
    for round in 0..12_usize {
        let node = nodes[round % 3].clone();
        asked.spawn(async move { soon(node.execute(acquire("ana", &["one"]).keyed("k", 1))).await });
    }
    let answers = asked.join_all().await;
    let tokens: Vec<u64> = answers.iter().map(|answer| claim_of(answer).token).collect();
    assert!(tokens.iter().all(|token| *token == tokens[0]), "{tokens:?}");
    assert_eq!(answers.iter().filter(|answer| !answer.replayed).count(), 1, "one was decided");
    let other = soon(nodes[2].execute(acquire("ana", &["two"]).keyed("k", 2))).await;
    assert_eq!(code(&other), "key_reused");
}

#[tokio::test(flavor = "multi_thread")]
async fn e09_a_commit_lost_on_the_wire_is_decided_anew_or_found() {
    let server = Server::shared();
    let url = server.database();
    let proxy = Proxy::to(server.port());
    let engine = node(&proxy.url(url.rsplit('/').next().expect("a name")), 0);
    for round in 0..10_u64 {
        let name = format!("item-{round}");
        proxy.cut(if round % 2 == 0 { Cut::AfterCommit } else { Cut::BeforeCommit });
        let answer = soon(engine.execute(acquire("ana", &[&name]))).await;
        assert_eq!(code(&answer), "ok", "{round}");
        assert!(!answer.replayed);
        assert_eq!(proxy.cuts(), round + 1, "it was cut");
    }
    let head = engine.reader().collection(&key(LOCKS)).expect("reads").expect("is there");
    assert_eq!(head.seq, 11, "each happened once");
}

/// A conflict that the database finds is decided anew, a few times, and then told; what was refused left nothing.
#[tokio::test(flavor = "multi_thread")]
async fn e09_serialization_failures_are_decided_anew_and_not_for_ever() {
    let server = Server::shared();
    let url = server.database();
    let engine = node(&url, 0);
    let name = url.rsplit('/').next().expect("a name");
    server.run(
        name,
        "CREATE SEQUENCE conflicts; CREATE FUNCTION conflict() RETURNS trigger LANGUAGE plpgsql AS \
         $$ BEGIN IF nextval('conflicts') <= 3 THEN RAISE EXCEPTION 'again' USING ERRCODE = '40001'; END IF; \
         RETURN new; END $$; \
         CREATE TRIGGER conflict BEFORE INSERT ON tenure.batches FOR EACH ROW EXECUTE FUNCTION conflict()",
    );
    let answer = soon(engine.execute(acquire("ana", &["one"]))).await;
    assert_eq!(code(&answer), "ok");
    let newest = || engine.reader().collection(&key(LOCKS)).expect("reads").expect("is there").seq;
    assert_eq!(newest(), 2, "it happened once");
    server
        .run(name, "SELECT setval('conflicts', 1); ALTER SEQUENCE conflicts INCREMENT BY -1 MINVALUE -1000");
    let answer = soon(engine.execute(acquire("ana", &["two"]))).await;
    assert_eq!(code(&answer), "away");
    assert_eq!(newest(), 2, "what was refused left nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn e09_a_database_that_is_away_is_told_of_and_comes_back() {
    let server = Server::start();
    let engine = node(&server.database(), 0);
    let claim = claim_of(&soon(engine.execute(acquire("ana", &["one"]))).await);
    let mut feed = engine.subscribe(&key(LOCKS), From::Snapshot).expect("reads");
    soon(feed.next()).await.expect("a snapshot");
    server.kill();
    assert_eq!(code(&soon(engine.execute(acquire("ben", &["two"]))).await), "away");
    assert!(soon(feed.next()).await.is_err(), "readers are not left without a word");
    server.start_again();
    let until = std::time::Instant::now() + Duration::from_mins(1);
    loop {
        let answer = soon(engine.execute(release("ana", claim.number))).await;
        if code(&answer) == "ok" {
            break;
        }
        assert!(std::time::Instant::now() < until, "{answer:?}");
    }
}

/// A caller that waits on one node, gives up and asks again on another is one caller.
#[tokio::test(flavor = "multi_thread")]
async fn e09_a_retry_on_another_node_and_the_request_that_still_waits_get_one_answer() {
    let [a, b, c] = nodes(&Server::shared().database());
    let claim = claim_of(&soon(a.execute(acquire("ana", &["one"]))).await);
    let ask = || acquire("ben", &["one"]).wait(50_000).keyed("k", 1);
    let waiting = [&b, &c].map(|node| {
        let (node, ask) = (node.clone(), ask());
        tokio::spawn(async move { node.execute(ask).await })
    });
    soon(async {
        while [&b, &c].iter().any(|node| node.waiting(&key(LOCKS), &item("one")) == 0) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(code(&soon(a.execute(release("ana", claim.number))).await), "ok");
    let mut answers = Vec::new();
    for waiting in waiting {
        answers.push(soon(waiting).await.expect("no panic"));
    }
    assert_eq!(claim_of(&answers[0]), claim_of(&answers[1]));
    assert_eq!(answers.iter().filter(|answer| answer.replayed).count(), 1, "one of them was decided");
    let head = a.reader().collection(&key(LOCKS)).expect("reads").expect("is there");
    assert_eq!(head.seq, 4, "made, granted, released, granted");
}

/// One node that hears of everything by hints alone, and one by looking alone: neither misses anything.
#[tokio::test(flavor = "multi_thread")]
async fn e09_hints_bring_news_and_looking_does_without_them() {
    let url = Server::shared().database();
    let never = Duration::from_hours(1);
    let writer = node(&url, 0);
    let by_hints = node_with(&url, 0, Options { pulse: never, ..Options::default() });
    let by_looking = node_with(&url, 0, Options { hints: false, ..Options::default() });
    let start = From::Event { epoch: 1, seq: 0 };
    let mut feeds =
        [&by_hints, &by_looking].map(|node| node.subscribe(&key(LOCKS), start).expect("subscribes"));
    for round in 0..20 {
        let id = format!("item-{round}");
        assert_eq!(code(&soon(writer.execute(acquire("ana", &[&id]))).await), "ok");
        let is_it = |fact: &Fact| matches!(fact, Fact::Granted(grant) if grant.items[0].id == item(&id));
        for feed in &mut feeds {
            until(feed, is_it).await;
            assert_eq!(feed.cursor(), round + 2);
        }
    }
}

/// Nobody asks anything of this node, and one of the collections is hours ahead: what is old goes, by the
/// database's own clock, and what is needed stays.
#[tokio::test(flavor = "multi_thread")]
async fn i11_what_is_old_by_the_databases_clock_is_deleted_and_nothing_else() {
    let server = Server::shared();
    let url = server.database();
    let name = url.rsplit('/').next().expect("a name");
    let writer = node(&url, 0);
    for collection in ["lock/ahead", "lock/other"] {
        let asked = acquire("ana", &["one"]).of(collection).keyed("k", 1);
        assert_eq!(code(&soon(writer.execute(asked)).await), "ok");
    }
    let ahead = "UPDATE tenure.collections SET at_ms = at_ms + 90000000 WHERE collection = 'lock/ahead'";
    server.run(name, ahead);
    let tidy = Duration::from_millis(1);
    let tidying = node_with(&url, 0, Options { tidy, ..Options::default() });
    let busy = acquire("ana", &["two"]).of("lock/ahead");
    assert_eq!(code(&soon(tidying.execute(busy)).await), "ok");
    // More than one slice of each, and last of all the marks by which it is known that it was there.
    server.run(
        name,
        "INSERT INTO tenure.batches SELECT 'lock/old', decode(to_hex(n), 'escape'), n \
         FROM generate_series(1000, 13000) n; \
         INSERT INTO tenure.replies SELECT 'lock/old', 'ana', n::text, n, '' FROM generate_series(1, 12001) n",
    );
    let left = "SELECT (SELECT count(*) FROM tenure.batches WHERE collection = 'lock/old') + \
                (SELECT count(*) FROM tenure.replies WHERE collection = 'lock/old')";
    soon(async {
        while server.ask(name, left).as_deref() != Some("0") {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(server.ask(name, "SELECT count(*) FROM tenure.batches").as_deref(), Some("3"));
    assert_eq!(server.ask(name, "SELECT count(*) FROM tenure.replies").as_deref(), Some("2"));
    let latest =
        "SELECT max(at_ms) - floor(extract(epoch FROM clock_timestamp()) * 1000) <= 0 FROM tenure.batches";
    assert_eq!(server.ask(name, latest).as_deref(), Some("t"), "a batch is as old as it is");
}

/// An event that this node cannot read: those of other collections arrive, and so does what is decided by keys.
#[tokio::test(flavor = "multi_thread")]
async fn e09_a_collection_that_cannot_be_read_keeps_nobody_from_the_others() {
    let server = Server::shared();
    let url = server.database();
    let name = url.rsplit('/').next().expect("a name");
    let (a, b) = (node(&url, 0), node(&url, 0));
    let names = ["lock/a", "lock/b"];
    for name in names {
        assert_eq!(code(&soon(a.execute(acquire("ana", &["one"]).of(name))).await), "ok");
    }
    let start = From::Event { epoch: 1, seq: 0 };
    let mut feeds = names.map(|name| b.subscribe(&key(name), start).expect("subscribes"));
    let granted = |id: &'static str| move |fact: &Fact| matches!(fact, Fact::Granted(grant) if grant.items[0].id == item(id));
    for feed in &mut feeds {
        until(feed, granted("one")).await;
    }
    server.run(
        name,
        "INSERT INTO tenure.events SELECT collection, seq + 1, at_ms, actor, action, items, hash, '\\xff' \
         FROM tenure.events WHERE collection = 'lock/a' AND seq = 2; \
         UPDATE tenure.collections SET seq = 3 WHERE collection = 'lock/a'",
    );
    for round in ["two", "three"] {
        assert_eq!(code(&soon(a.execute(acquire("ana", &[round]).of("lock/b"))).await), "ok");
        until(&mut feeds[1], granted(round)).await;
    }
}

/// A node that only reads has nothing to say, and still hears again after its connection for hints was lost.
#[tokio::test(flavor = "multi_thread")]
async fn e09_a_node_that_only_reads_hears_again_after_its_connection_was_lost() {
    let server = Server::shared();
    let url = server.database();
    let name = url.rsplit('/').next().expect("a name");
    let reads = node_with(&url, 0, Options { pulse: Duration::from_hours(1), ..Options::default() });
    let mut feed = reads.subscribe(&key(LOCKS), From::Event { epoch: 1, seq: 0 }).expect("subscribes");
    let listening =
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'";
    let pid = soon(async {
        loop {
            match server.ask(name, listening) {
                Some(pid) => break pid,
                None => tokio::task::yield_now().await,
            }
        }
    })
    .await;
    let writer = node(&url, 0);
    let granted = |id: &'static str| move |fact: &Fact| matches!(fact, Fact::Granted(grant) if grant.items[0].id == item(id));
    assert_eq!(code(&soon(writer.execute(acquire("ana", &["one"]))).await), "ok");
    until(&mut feed, granted("one")).await;
    assert_eq!(server.ask(name, &format!("SELECT pg_terminate_backend({pid})")).as_deref(), Some("t"));
    assert_eq!(code(&soon(writer.execute(acquire("ana", &["two"]))).await), "ok");
    until(&mut feed, granted("two")).await;
}
