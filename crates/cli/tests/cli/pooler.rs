//! Two `tenure serve` behind a PgBouncer in transaction mode, with a direct connection for hints.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tenure_store::conformance::{Pooler, Server as Database};

use crate::http::{Listener, ask};
use crate::nodes::node_with;
use crate::process::{ALONE, Server, until};

/// Claims whose way is measured.
const ROUNDS: usize = 15;
const COLLECTION: &str = "lock/pooled";
/// Far below the quarter of a second after which a node looks by itself. Each round begins when the one before it was
/// heard, so that without hints nearly all of them would take that long.
const BY_HINT: Duration = Duration::from_millis(125);
/// Claims of each node before its pooler is killed, and after.
const CLAIMS: usize = 20;
/// From the pooler's return to the next claim on each node.
const RESUMED: Duration = Duration::from_secs(10);

fn claim(node: &Server, item: &str) -> Option<(u16, Value)> {
    let body = json!({"collection": COLLECTION, "items": [item], "ttl_ms": 3_600_000});
    ask(&node.url, "POST", "/v1/claims", &format!("once-{item}"), &body)
}

/// How often a median is taken before it counts that hints are late: the machine may be busy for a while.
const TRIES: usize = 5;

/// Claims on one node, heard of on the other, until they come by hint: the best median, and how many claims that took.
fn hints_to_stream(from: &Server, to: &Listener, word: &str) -> (Duration, usize) {
    let mut best = Duration::MAX;
    for nth in 1..=TRIES {
        best = best.min(hint_to_stream(from, to, &format!("{word}-{nth}")));
        if best < BY_HINT {
            return (best, nth * ROUNDS);
        }
    }
    (best, TRIES * ROUNDS)
}

/// The median of some.
fn hint_to_stream(from: &Server, to: &Listener, word: &str) -> Duration {
    let mut times = Vec::new();
    for round in 0..ROUNDS {
        let heard = to.events().len();
        let begun = Instant::now();
        let (status, said) = claim(from, &format!("{word}-{round}")).expect("an answer");
        assert_eq!(status, 201, "{said}");
        times.push(to.until(heard + 1).duration_since(begun));
    }
    times.sort_unstable();
    times[times.len() / 2]
}

#[test]
fn e09_two_nodes_behind_a_pooler_hear_of_each_other_at_once_and_lose_nothing_when_it_dies() {
    let _alone = ALONE.blocking_lock();
    let database = Database::start();
    let url = database.database();
    let pooler = Pooler::before(&database);
    // One person's writes are not limited here.
    let direct = [("TENURE_DATABASE_DIRECT_URL", &*url), ("TENURE_RATES_WRITE_PER_SECOND", "0")];
    let nodes = [node_with(&pooler.url(&url), &direct), node_with(&pooler.url(&url), &direct)];
    let (status, said) = claim(&nodes[0], "first").expect("an answer");
    assert_eq!(status, 201, "{said}");
    let listeners = [Listener::on(&nodes[0].url, COLLECTION), Listener::on(&nodes[1].url, COLLECTION)];
    // One event for the collection itself, and one for each claim.
    let mut events = 2;
    for listener in &listeners {
        listener.until(events);
    }
    let (before, claims) = hints_to_stream(&nodes[0], &listeners[1], "before");
    events += claims;

    let (over, done, refused) =
        (AtomicBool::new(false), [0, 0].map(AtomicUsize::new), [0, 0].map(AtomicUsize::new));
    let count = |counts: &[AtomicUsize; 2], least: usize| {
        counts.iter().all(|count| count.load(Ordering::SeqCst) >= least)
    };
    let (acknowledged, resumed) = std::thread::scope(|scope| {
        let (over, done, refused, nodes) = (&over, &done, &refused, &nodes);
        let claiming = [0, 1].map(|node| {
            scope.spawn(move || {
                let mut acknowledged = Vec::new();
                for number in 0.. {
                    let item = format!("crowd-{node}-{number}");
                    // Under one key, as often as it takes.
                    let claimed = loop {
                        match claim(&nodes[node], &item) {
                            Some((201, claimed)) => break claimed,
                            Some((500.., _)) | None => refused[node].fetch_add(1, Ordering::SeqCst),
                            Some(other) => panic!("{item}: {other:?}"),
                        };
                    };
                    acknowledged.push((item, claimed["token"].as_u64().expect("a token")));
                    done[node].fetch_add(1, Ordering::SeqCst);
                    if over.load(Ordering::SeqCst) {
                        break;
                    }
                }
                acknowledged
            })
        });
        until("claims", || count(done, CLAIMS));
        pooler.kill();
        until("both are without their database", || count(refused, 5));
        pooler.start_again();
        let begun = Instant::now();
        let already = done.each_ref().map(|count| count.load(Ordering::SeqCst));
        let gone_on = || (0..2).all(|node| done[node].load(Ordering::SeqCst) > already[node]);
        until("both go on", gone_on);
        let resumed = begun.elapsed();
        until("more claims", || {
            (0..2).all(|node| done[node].load(Ordering::SeqCst) >= already[node] + CLAIMS)
        });
        over.store(true, Ordering::SeqCst);
        (claiming.map(|claiming| claiming.join().expect("claims")).concat(), resumed)
    });

    events += acknowledged.len();
    for listener in &listeners {
        listener.until(events);
    }
    let (after, claims) = hints_to_stream(&nodes[1], &listeners[0], "after");
    events += claims;
    for listener in &listeners {
        listener.until(events);
        let heard = listener.events();
        let seqs: Vec<_> = heard.iter().map(|(_, event)| event["seq"].as_u64()).collect();
        let all: Vec<_> = (1..=events as u64).map(Some).collect();
        assert_eq!(seqs, all, "no event is missed, and none comes twice");
        for (item, token) in &acknowledged {
            let event = &heard[usize::try_from(*token - 1).expect("a number")].1;
            assert_eq!(
                (&event["type"], &event["items"][0]),
                (&json!("claim_granted"), &json!(item)),
                "{event}"
            );
        }
    }
    println!(
        "behind PgBouncer: request to stream of the other node, median {before:?}, after its death {after:?}; \
         {} claims, back after {resumed:?}",
        acknowledged.len()
    );
    assert!(before < BY_HINT && after < BY_HINT, "{before:?} {after:?}");
    assert!(resumed < RESUMED, "{resumed:?}");
}
