//! A thousand buyers on three nodes behind nginx, over PostgreSQL and Redis, while everything that can
//! break does: nothing is sold twice, nothing that was promised is lost, and nobody who watches misses an
//! event or sees one twice.

mod buyer;
pub(crate) mod proxy;
mod record;
mod watcher;

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use tenure_client::Client;
use tenure_core::{Policy, Status};
use tenure_redis::testing::Server as Redis;
use tenure_store::conformance::{Server as Database, times};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::nginx::Nginx;
use crate::process::{ADMIN, ALONE, Server, send, tenure};
use buyer::{Buyer, SECRET, Told};
use proxy::{Fault, Proxy};
use record::judge;
use watcher::{Shared, Way, watch};

const BUYERS: u64 = 1_000;
/// Some at the nodes themselves, and some by way of nginx.
const WATCHERS: usize = 12;
const BY_NGINX: usize = 4;
/// How soon somebody is served by another node, on a machine that has the time for it.
const ELSEWHERE: Duration = Duration::from_secs(5);
/// What never comes: on a machine with too much to do everything else does.
const NEVER: Duration = Duration::from_mins(3);
/// Buyers that go on while each of them is looked at. All thousand share two cores with three nodes and a database, and
/// would be served in less than that time by nobody.
const LOOKED_AT: u64 = 60;
const COMMITS_CUT: usize = 50;
const DATABASE_KILLS: usize = 5;

fn node(url: &str, redis: &str) -> Server {
    let mut command = tenure();
    command.args(["serve", "--listen", "127.0.0.1:0"]);
    for (name, value) in [
        ("DATABASE_URL", url),
        ("REDIS", redis),
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
    let is_so = || told.count.load(Ordering::SeqCst) >= wanted;
    if !in_time(is_so).await {
        let (count, refused) = (told.count.load(Ordering::SeqCst), told.refusals.lock());
        panic!("never: buyers get on {what}, {count} answers of {wanted}, refused {refused:?}");
    }
}

fn newest(seen: &Shared) -> u64 {
    seen.lock().events.last().map_or(0, |event| event["seq"].as_u64().expect("a number"))
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    assert!(in_time(is_so).await, "never: {what}");
}

async fn in_time(is_so: impl Fn() -> bool) -> bool {
    // Not all the time: the machine is busy enough.
    let mut looks = tokio::time::interval(Duration::from_millis(10));
    let coming = async {
        while !is_so() {
            looks.tick().await;
        }
    };
    timeout(NEVER, coming).await.is_ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e09_r20_a_thousand_buyers_on_three_nodes_outlive_whatever_breaks() {
    let _alone = ALONE.lock().await;
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
    // The first one's way to Redis, and everybody's to the last one.
    let to_redis = Proxy::to(redis.port()).await;
    for nth in 0..3 {
        let proxy = Proxy::to(database.port()).await;
        let by_proxy = proxy.instead_of(database.port(), &url);
        let redis = if nth == 0 { format!("redis://127.0.0.1:{}", to_redis.port) } else { redis.url() };
        nodes.push(tokio::task::block_in_place(|| node(&by_proxy, &redis)));
        proxies.push(proxy);
    }
    let mut urls: Vec<String> = nodes.iter().map(|node| node.url.clone()).collect();
    let port = urls[2].rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
    let to_node = Proxy::to(port).await;
    urls[2] = format!("http://127.0.0.1:{}", to_node.port);
    let urls: Arc<[String]> = urls.into();
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
        watching.spawn(watch(way, "ticket/hall", seen.clone()));
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
        println!("{:?}: {fault:?} before a node's database is over", begun.elapsed());
    }
    redis.start_again();
    for fault in [Fault::Slow(Duration::from_millis(20)), Fault::Cut, Fault::HalfOpen] {
        for proxy in [&to_node, &to_redis] {
            proxy.set(fault);
        }
        progress(&told, 150, "with a node out of reach, and Redis out of another's").await;
        for proxy in [&to_node, &to_redis] {
            proxy.set(Fault::None);
        }
        progress(&told, 50, "after it").await;
        println!("{:?}: {fault:?} before a node and before Redis is over", begun.elapsed());
    }
    for nth in 0..DATABASE_KILLS {
        tokio::task::block_in_place(|| {
            if nth % 2 == 0 {
                database.crash();
            } else {
                database.kill();
            }
            database.start_again();
        });
        println!("{:?}: PostgreSQL is there again", begun.elapsed());
        progress(&told, 100, "after PostgreSQL was killed").await;
    }
    println!("{:?}: PostgreSQL was killed {DATABASE_KILLS} times", begun.elapsed());

    told.first_to_rest.store(LOOKED_AT, Ordering::SeqCst);
    until("the others rest", || told.resting.load(Ordering::SeqCst) == BUYERS - LOOKED_AT).await;
    until("everybody watches", || watchers.iter().all(|seen| seen.lock().node.is_some())).await;
    // How long this machine takes for all of them while nothing is wrong.
    let (asked_at, seen_before): (_, Vec<usize>) =
        (Instant::now(), watchers.iter().map(|seen| seen.lock().events.len()).collect());
    let is_told = |(seen, before): (&Shared, &usize)| seen.lock().events.len() > *before;
    until("everybody is told", || watchers.iter().zip(&seen_before).all(is_told)).await;
    let is_asked = |number: u64| told.served.lock().get(&number).is_some_and(|(_, at)| *at > asked_at);
    until("everybody is served", || (0..LOOKED_AT).all(is_asked)).await;
    let most = ELSEWHERE.max(3 * asked_at.elapsed());
    // Whoever found its node gone went on with the next, so they may all be elsewhere.
    let of =
        |node: usize| watchers.iter().filter(move |seen| seen.lock().node.is_some_and(|(at, _)| at == node));
    let buyers_of = |node: usize| -> Vec<u64> {
        let served = told.served.lock();
        let by_node = served.iter().filter(|(number, served)| **number < LOOKED_AT && served.0 == node);
        by_node.map(|(number, _)| *number).collect()
    };
    // One that has both: nginx seldom asks a node that has many sockets already.
    let found = RefCell::new(None);
    let find = || {
        let nodes = (0..nodes.len()).map(|node| (node, of(node).count(), buyers_of(node)));
        let fit = nodes.filter(|(_, watchers, buyers)| *watchers > 0 && buyers.len() >= 5);
        *found.borrow_mut() = fit.max_by_key(|(_, watchers, _)| *watchers);
        found.borrow().is_some()
    };
    until("a node has watchers and buyers", find).await;
    let (killed, _, buyers_of_it) = found.take().expect("found");
    let of_the_killed: Vec<&Shared> = of(killed).collect();
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
    until("watchers go on elsewhere", || of_the_killed.iter().zip(&before).all(is_back)).await;
    let watchers_took = killed_at.elapsed();
    // Each of them, and not only the first: served is who has an answer by another node.
    let is_served = |number: &u64| {
        told.served.lock().get(number).is_some_and(|(node, at)| *node != killed && *at > killed_at)
    };
    until("buyers go on elsewhere", || buyers_of_it.iter().all(is_served)).await;
    let buyers_took = killed_at.elapsed();
    println!(
        "{:?}: of the killed node, {} watchers went on within {watchers_took:?} and {} buyers within {buyers_took:?}",
        begun.elapsed(),
        of_the_killed.len(),
        buyers_of_it.len(),
    );
    assert!(watchers_took < most && buyers_took < most, "{watchers_took:?} {buyers_took:?} of {most:?}");
    told.first_to_rest.store(u64::MAX, Ordering::SeqCst);
    progress(&told, 200, "after it").await;

    told.over.store(true, Ordering::SeqCst);
    buying.join_all().await;
    let left = &urls[(killed + 1) % nodes.len()];
    let reader = Client::new(left, ADMIN).expect("a client");
    let head = reader.newest("ticket/hall").await.expect("reads");
    until("everybody has seen all", || watchers.iter().all(|seen| newest(seen) >= head)).await;
    for seen in &watchers {
        let numbers: Vec<u64> =
            seen.lock().events.iter().map(|event| event["seq"].as_u64().expect("a number")).collect();
        assert!(numbers.iter().copied().eq(1..=head), "missed or doubled: {numbers:?}");
    }
    while watching.try_join_next().is_some_and(|joined| {
        joined.expect("no watcher failed");
        true
    }) {}
    let events = watchers[0].lock().events.clone();
    let sold = judge(&told, &events);
    println!(
        "{:?}: {head} events, {sold} sold, {} granted, refused {:?}",
        begun.elapsed(),
        told.granted.lock().len(),
        told.refusals.lock()
    );
}
