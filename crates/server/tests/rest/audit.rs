//! The audit log and its proof.

use serde_json::json;

use crate::faulty::Fault;
use crate::server::{START_MS, Server, at, person};

/// E3: who, what, when, why, before, after; found by each of them.
#[tokio::test]
async fn e03_the_log_is_found_by_actor_action_collection_item_and_time() {
    let s = Server::new();
    s.lock("ana", "a").await;
    s.pass(1_000);
    s.lock("beto", "b").await;
    s.pass(1_000);
    s.put("ana", "/v1/collections/task/mine", json!({})).await.status(201);
    let found = async |query: &str| {
        let page = s.get("root", &format!("/v1/audit{query}")).await.status(200).json();
        let rows = page["rows"].as_array().expect("rows").iter();
        rows.map(|row| format!("{}#{}", row["collection"].as_str().expect("key"), row["seq"]))
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(found("").await, "task/mine#1 lock/jobs#3 lock/jobs#2 lock/jobs#1");
    assert_eq!(found("?actor=beto").await, "lock/jobs#3");
    assert_eq!(found("?action=claim_granted").await, "lock/jobs#3 lock/jobs#2");
    assert_eq!(found("?collection=lock/jobs&item=a").await, "lock/jobs#2");
    assert_eq!(found(&format!("?from={}", at(1_000))).await, "task/mine#1 lock/jobs#3");
    assert_eq!(found(&format!("?from={}&to={}", at(1_000), at(2_000))).await, "lock/jobs#3");
    assert_eq!(found("?actor=nobody").await, "");
    let row = s.get("root", "/v1/audit?item=b").await.json()["rows"][0].clone();
    assert_eq!(
        (&row["actor"], &row["type"], &row["at"]),
        (&person("beto"), &json!("claim_granted"), &json!(at(1_000)))
    );
    assert_eq!(row["hash"].as_str().map(str::len), Some(64));
}

#[tokio::test]
async fn e03_the_log_is_read_a_page_at_a_time() {
    let s = Server::new();
    for item in ["a", "b", "c"] {
        s.lock("ana", item).await;
    }
    let mut seen = Vec::new();
    let mut query = "?limit=3".to_owned();
    for pages in 1.. {
        let page = s.get("root", &format!("/v1/audit{query}")).await.status(200).json();
        seen.extend(page["rows"].as_array().expect("rows").iter().map(|row| row["seq"].as_u64()));
        let Some(next) = page["next"].as_str() else {
            assert_eq!(pages, 2);
            break;
        };
        query = format!("?limit=3&cursor={next}");
    }
    assert_eq!(seen, [Some(4), Some(3), Some(2), Some(1)]);
    for cursor in ["x", "1~lock~jobs", "1~lock~jobs~x", "1~LOCK~jobs~1", "1~lock~jobs~1~1"] {
        s.get("root", &format!("/v1/audit?cursor={cursor}")).await.invalid("cursor");
    }
    s.get("root", "/v1/audit?from=yesterday").await.invalid("from");
    s.get("root", "/v1/audit?to=1").await.invalid("to");
    s.get("root", "/v1/audit?collection=x").await.invalid("collection");
    s.get("ana", "/v1/audit").await.code(403, "forbidden");
}

/// E3: a policy's change is in the log, Tenure's own documents are not.
#[tokio::test]
async fn e03_a_policys_change_is_in_the_log_with_before_and_after() {
    let s = Server::new();
    let mut policy = s.get("root", "/v1/policies/lock").await.json()["policy"].clone();
    policy["max_items"] = json!(3);
    s.put("root", "/v1/policies/lock", policy).await.status(200);
    let row = s.get("root", "/v1/audit").await.json()["rows"][0].clone();
    assert_eq!((&row["type"], &row["kind"]), (&json!("policy_set"), &json!("lock")));
    assert_eq!((&row["before"]["max_items"], &row["after"]["max_items"]), (&json!(100), &json!(3)));
}

/// E3, I17
#[tokio::test]
async fn e03_verifying_walks_every_chain_and_says_so_in_words_and_numbers() {
    let s = Server::new();
    for number in 0..1_200 {
        s.engine_lock(number).await;
    }
    s.collection("raffle/x", &["1"]).await;
    s.get("root", "/v1/audit/verify").await.is(
        200,
        json!({
            "verified": true, "summary": "1203 events in 2 collections: every link holds", "collections": 2,
            "events": 1_203, "shortened": 0, "broken": 0, "breaks": [], "server_time": at(0),
        }),
    );
    assert_eq!(START_MS % 1_000, 678);
    let eve = s.get("eve:admin:raffle", "/v1/audit/verify").await.status(200).json();
    assert_eq!(eve["summary"], "2 events in 1 collection: every link holds");
    s.get("ana", "/v1/audit/verify").await.code(403, "forbidden");
}

/// E3, I17: a changed, a dropped and a moved event show, and are named.
#[tokio::test]
async fn e03_a_chain_that_was_tampered_with_does_not_verify() {
    let s = Server::new();
    for item in ["a", "b", "c"] {
        s.lock("ana", item).await;
    }
    let table = [
        (Fault::Changed(2), 4, 2, "the event does not hash to what was kept"),
        (Fault::CutAt(4), 3, 3, "the events end before the collection's head"),
        (Fault::OtherHead, 4, 4, "the collection's head is not the end of its chain"),
    ];
    for (fault, events, seq, what) in table {
        s.fail(fault);
        let found = s.get("root", "/v1/audit/verify").await.status(200).json();
        assert_eq!((&found["verified"], &found["broken"]), (&json!(false), &json!(1)), "{found}");
        assert_eq!(found["breaks"], json!([{"collection": "lock/jobs", "seq": seq, "what": what}]));
        assert_eq!(found["summary"], format!("{events} events in 1 collection: 1 break found"));
    }
}

#[tokio::test]
async fn e03_a_chain_whose_beginning_is_not_retained_is_walked_from_there() {
    let s = Server::new();
    for item in ["a", "b", "c"] {
        s.lock("ana", item).await;
    }
    s.fail(Fault::From(3));
    let found = s.get("root", "/v1/audit/verify").await.status(200).json();
    assert_eq!(
        (&found["verified"], &found["events"], &found["shortened"]),
        (&json!(true), &json!(2), &json!(1))
    );
    let resync = s.get("ana", "/v1/collections/lock/jobs/events?since=1").await;
    resync.refuses(410, "resync", json!({"epoch": 1, "first": 3, "last": 4}));
}

impl Server {
    async fn engine_lock(&self, number: u32) {
        self.lock("ana", &format!("i{number}")).await;
    }
}
