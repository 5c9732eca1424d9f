//! A thousand buyers on three nodes behind nginx, over PostgreSQL and Redis, while everything that can
//! break does: nothing is sold twice, nothing that was promised is lost, and nobody who watches misses an
//! event or sees one twice.

mod buyer;
mod proxy;
mod watcher;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use serde_json::Value;
use tenure_client::Client;
use tenure_core::{Policy, Status};
use tenure_redis::testing::Server as Redis;
use tenure_store::conformance::{Server as Database, times};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::nginx::Nginx;
use crate::process::{ADMIN, Server, send, tenure};
use buyer::{Buyer, SECRET, Told};
use proxy::{Fault, Proxy};
use watcher::{Shared, Way, watch};

const BUYERS: u64 = 1_000;
/// Some at the nodes themselves, and some by way of nginx.
const WATCHERS: usize = 12;
const BY_NGINX: usize = 4;
/// How soon somebody is served by another node.
const ELSEWHERE: Duration = Duration::from_secs(5);
const COMMITS_CUT: usize = 50;
const DATABASE_KILLS: usize = 5;

fn node(url: &str, redis: &Redis) -> Server {
    let mut command = tenure();
    command.args(["serve", "--listen", "127.0.0.1:0"]);
    for (name, value) in [
        ("DATABASE_URL", url),
        ("REDIS", &redis.url()),
        ("ADMIN_KEY", ADMIN),
        ("SECRET", &"s".repeat(64)),
        ("NETWORK_TRUSTED_PROXIES", "127.0.0.1"),
        ("JWT_ALGORITHM", "HS256"),
        ("JWT_SECRET", SECRET),
        ("JWT_ISSUER", "tests"),
        ("JWT_AUDIENCE", "tenure"),
    ] {
        command.env(format!("TENURE_{name}"), value);
    }
    Server::of(command)
}

/// A connection for each buyer, here and in what is started here.
fn allow_files() {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(8_192, |most| most.min(8_192));
    if limit.current.is_some_and(|now| now < wanted) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), ..limit }).expect("set");
    }
}

/// Waits until so many more answers have come. Everything goes on: that is what is proved.
async fn progress(told: &Told, count: u64, what: &str) {
    let wanted = told.count.load(Ordering::SeqCst) + count;
    until(&format!("buyers get on {what}"), || told.count.load(Ordering::SeqCst) >= wanted).await;
}

fn newest(seen: &Shared) -> u64 {
    seen.lock().events.last().map_or(0, |event| event["seq"].as_u64().expect("a number"))
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    // Not all the time: the machine is busy enough.
    let mut looks = tokio::time::interval(Duration::from_millis(10));
    let coming = async {
        while !is_so() {
            looks.tick().await;
        }
    };
    assert!(timeout(Duration::from_mins(1), coming).await.is_ok(), "never: {what}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e09_r20_a_thousand_buyers_on_three_nodes_outlive_whatever_breaks() {
    for _ in 0..times(1, 20) {
        outlive_whatever_breaks().await;
    }
}

async fn outlive_whatever_breaks() {
    let begun = Instant::now();
    allow_files();
    let folder = tempfile::tempdir().expect("a folder");
    let (database, redis) = (Database::start(), Redis::start());
    let url = database.database();
    let mut proxies = Vec::new();
    let mut nodes = Vec::new();
    for _ in 0..3 {
        let proxy = Proxy::to(database.port()).await;
        let by_proxy = proxy.instead_of(database.port(), &url);
        nodes.push(tokio::task::block_in_place(|| node(&by_proxy, &redis)));
        proxies.push(proxy);
    }
    let urls: Arc<[String]> = nodes.iter().map(|node| node.url.clone()).collect();
    let nginx = Nginx::start(folder.path(), &urls.iter().map(String::as_str).collect::<Vec<_>>());
    let nginx = Arc::new(nginx);
    let status = |text: &str| Status::new(text).expect("a status");
    let policy = Policy { finished: vec![status("sold")], session_exclusive: false, ..Policy::lock() };
    let admin = Client::new(&urls[0], ADMIN).expect("a client");
    admin.set_policy("ticket", &policy).await.expect("set");

    let watchers: Vec<Shared> = (0..WATCHERS).map(|_| Shared::default()).collect();
    let mut watching = JoinSet::new();
    for (nth, seen) in watchers.iter().enumerate() {
        let way = if nth < BY_NGINX { Way::Nginx(nginx.clone()) } else { Way::Nodes(urls.clone(), nth % 3) };
        watching.spawn(watch(way, seen.clone()));
    }
    let told = Arc::new(Told::default());
    let mut buying = JoinSet::new();
    for number in 0..BUYERS {
        let (nginx, told) = (nginx.clone(), told.clone());
        buying.spawn(Buyer { nginx, told, number }.run());
    }
    progress(&told, 300, "at the start").await;
    println!("{:?}: buying", begun.elapsed());

    for round in 0..COMMITS_CUT {
        let proxy = &proxies[round % 3];
        proxy.set(Fault::CutAfterCommit);
        assert!(timeout(Duration::from_secs(20), proxy.is_over()).await.is_ok(), "nobody commits");
    }
    progress(&told, 100, "after lost answers").await;
    println!("{:?}: {COMMITS_CUT} commits were cut from their answers", begun.elapsed());

    redis.kill();
    progress(&told, 200, "without Redis").await;
    for fault in [Fault::Slow(Duration::from_millis(20)), Fault::Cut, Fault::HalfOpen] {
        proxies[1].set(fault);
        progress(&told, 150, "with a node in trouble").await;
        proxies[1].set(Fault::None);
        progress(&told, 50, "after it").await;
        println!("{:?}: {fault:?} is over", begun.elapsed());
    }
    redis.start_again();
    for _ in 0..DATABASE_KILLS {
        tokio::task::block_in_place(|| {
            database.kill();
            database.start_again();
        });
        progress(&told, 100, "after PostgreSQL was killed").await;
    }
    println!("{:?}: PostgreSQL was killed {DATABASE_KILLS} times", begun.elapsed());

    until("everybody watches", || watchers.iter().all(|seen| seen.lock().node.is_some())).await;
    // Whoever found its node gone went on with the next, so they may all be elsewhere.
    let of =
        |node: usize| watchers.iter().filter(move |seen| seen.lock().node.is_some_and(|(at, _)| at == node));
    let killed = (0..nodes.len()).max_by_key(|node| of(*node).count()).expect("there are nodes");
    let of_the_killed: Vec<&Shared> = of(killed).collect();
    assert!(!of_the_killed.is_empty(), "somebody watches a node itself");
    let before: Vec<usize> = of_the_killed.iter().map(|seen| seen.lock().events.len()).collect();
    send(&nodes[killed].child, Signal::KILL);
    nodes[killed].child.wait().expect("ends");
    let killed_at = Instant::now();
    let is_back = |(seen, before): (&&Shared, &usize)| {
        let seen = seen.lock();
        seen.events.len() > *before
            && seen.node.is_some_and(|(node, since)| node != killed && since > killed_at)
            && seen.at.last().is_some_and(|at| *at > killed_at)
    };
    until("they go on elsewhere", || of_the_killed.iter().zip(&before).all(is_back)).await;
    let took = killed_at.elapsed();
    assert!(took < ELSEWHERE, "{took:?}");
    progress(&told, 1, "after a node was killed").await;
    assert!(killed_at.elapsed() < ELSEWHERE, "buyers: {:?}", killed_at.elapsed());
    progress(&told, 200, "after it").await;
    println!(
        "{:?}: {} watchers of the killed node went on within {took:?}",
        begun.elapsed(),
        of_the_killed.len()
    );

    told.over.store(true, Ordering::SeqCst);
    buying.join_all().await;
    let head = Client::new(&urls[(killed + 1) % nodes.len()], ADMIN)
        .expect("a client")
        .newest("ticket/hall")
        .await
        .expect("reads");
    until("everybody has seen all", || watchers.iter().all(|seen| newest(seen) >= head)).await;
    while watching.try_join_next().is_some_and(|joined| {
        joined.expect("no watcher failed");
        true
    }) {}
    for seen in &watchers {
        let numbers: Vec<u64> =
            seen.lock().events.iter().map(|event| event["seq"].as_u64().expect("a number")).collect();
        assert!(numbers.iter().copied().eq(1..=head), "missed or doubled: {numbers:?}");
    }
    let events = watchers[0].lock().events.clone();
    let sold = judge(&told, &events);
    println!(
        "{:?}: {head} events, {} sold, {} granted, refused {:?}",
        begun.elapsed(),
        sold,
        told.granted.lock().len(),
        told.refusals.lock()
    );
}

/// Judges the record against what everybody was told; how many numbers were sold.
fn judge(told: &Told, events: &[Value]) -> usize {
    let mut held: BTreeMap<&str, &str> = BTreeMap::new();
    let mut sold: BTreeMap<&str, &str> = BTreeMap::new();
    let mut granted: BTreeMap<&str, (&str, BTreeSet<&str>)> = BTreeMap::new();
    let mut ended: BTreeMap<&str, &str> = BTreeMap::new();
    for event in events {
        let (sort, claim) = (event["type"].as_str().expect("a type"), event["claim"].as_str().unwrap_or(""));
        let items = event["items"].as_array().into_iter().flatten().filter_map(Value::as_str);
        match sort {
            "claim_granted" => {
                for item in items.clone() {
                    assert_eq!(held.insert(item, claim), None, "held twice: {event}");
                    assert_eq!(sold.get(item), None, "sold and held: {event}");
                }
                let holder = event["actor"]["id"].as_str().expect("a holder");
                assert_eq!(granted.insert(claim, (holder, items.collect())), None, "granted twice: {event}");
            }
            "claim_completed" | "claim_cancelled" | "claim_expired" => {
                for item in items {
                    assert_eq!(held.remove(item), Some(claim), "{event}");
                    if sort == "claim_completed" {
                        assert_eq!(sold.insert(item, claim), None, "sold twice: {event}");
                    }
                }
                assert_eq!(ended.insert(claim, sort), None, "ended twice: {event}");
            }
            _ => {}
        }
    }
    for (claim, (holder, items)) in told.granted.lock().iter() {
        let items: BTreeSet<&str> = items.iter().map(String::as_str).collect();
        assert_eq!(granted.get(&**claim), Some(&(&**holder, items)), "{claim} was granted and is lost");
    }
    for claim in told.sold.lock().keys() {
        assert_eq!(ended.get(&**claim), Some(&"claim_completed"), "{claim} was sold and is lost");
    }
    for claim in told.released.lock().iter() {
        assert_eq!(ended.get(&**claim), Some(&"claim_cancelled"), "{claim} was given back and is not");
    }
    // Everybody asks until there is an answer: what nobody was told has not happened.
    assert_eq!(granted.len(), told.granted.lock().len(), "granted to nobody");
    let acknowledged: usize = told.sold.lock().values().map(Vec::len).sum();
    assert_eq!(sold.len(), acknowledged, "sold to nobody");
    assert!(!sold.is_empty(), "nothing was sold");
    sold.len()
}
