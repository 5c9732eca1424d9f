//! `Idempotency-Key`: a retry gets the first answer.

use std::sync::Arc;

use axum::http::Method;
use serde_json::{Value, json};
use tenure_engine::{Engine, ManualClock, Options};
use tenure_store::embedded::{self, Embedded};

use crate::server::{Call, START_MS, Server};

fn post(who: &str, path: &str, body: &Value) -> Call {
    Call::new(who, Method::POST, path).key("k-1").json(body)
}

/// E4, I13, on every POST: same status and bytes, with the first answer's time; another body is 422.
#[tokio::test]
async fn e04_a_retry_of_any_post_gets_the_first_answer_byte_for_byte() {
    let item = "/v1/collections/raffle/x/items/2";
    let posts: [(&str, &str, String, Value, Value); 9] = [
        (
            "ana",
            "claim",
            "/v1/claims".into(),
            json!({"collection": "raffle/x", "items": ["2"]}),
            json!({"collection": "raffle/x", "items": ["3"]}),
        ),
        (
            "ana",
            "heartbeat",
            "/v1/claims/raffle~x~5/heartbeat".into(),
            json!({"token": 5}),
            json!({"token": 6}),
        ),
        ("ana", "items", "/v1/claims/raffle~x~5/items".into(), json!({"item": "2"}), json!({"item": "3"})),
        ("ana", "advance", "/v1/claims/raffle~x~5/advance".into(), json!({}), json!(null)),
        ("ana", "complete", "/v1/claims/raffle~x~5/complete".into(), json!({"status": "sold"}), json!({})),
        ("ana", "cancel", "/v1/claims/raffle~x~5/cancel".into(), json!({}), json!(null)),
        (
            "ana",
            "nudge",
            "/v1/claims/raffle~x~5/nudge".into(),
            json!({"message": "a"}),
            json!({"message": "b"}),
        ),
        (
            "root",
            "force-release",
            "/v1/collections/raffle/x/items/1/force-release".into(),
            json!({"reason": "a"}),
            json!({"reason": "b"}),
        ),
        (
            "root",
            "force-claim",
            format!("{item}/force-claim"),
            json!({"reason": "a"}),
            json!({"reason": "b"}),
        ),
    ];
    for (who, name, path, body, other) in posts {
        let s = Server::new();
        s.collection("raffle/x", &["1", "2", "3"]).await;
        s.post("ana", "/v1/claims", json!({"collection": "raffle/x", "items": ["1"]})).await.status(201);
        let first = s.send(post(who, &path, &body)).await;
        assert!(first.status.is_success(), "{name}: {first:?}");
        assert_eq!(first.header("idempotency-replayed"), "");
        s.pass(10_000);
        let newest = s.get("ana", "/v1/collections/raffle/x").await.json()["seq"].clone();
        let s = s.restart();
        let again = s.send(post(who, &path, &body)).await;
        assert_eq!((again.status, &again.bytes), (first.status, &first.bytes), "{name}");
        assert_eq!(again.header("idempotency-replayed"), "true");
        if !other.is_null() {
            s.send(post(who, &path, &other)).await.code(422, "key_reused");
        }
        let events = s.get("ana", &format!("/v1/collections/raffle/x/events?since={newest}")).await.json();
        let types: Vec<_> =
            events["events"].as_array().expect("events").iter().map(|event| &event["type"]).collect();
        assert!(types.iter().all(|word| **word == "resumed"), "{name}: a retry changed something: {types:?}");
    }
}

/// E4: also across a restart, from disk.
#[tokio::test]
async fn e04_a_retry_after_a_restart_gets_the_first_answer_from_disk() {
    let folder = tempfile::tempdir().expect("a folder");
    let clock = ManualClock::at(START_MS);
    let open = || {
        let store = Embedded::open(folder.path(), &embedded::Options::default()).expect("opens");
        Server::around(
            Engine::start(store, clock.clone(), Options::default()).expect("starts"),
            clock.clone(),
        )
    };
    let body = json!({"collection": "lock/jobs", "items": ["nightly"], "data": {"n": 1.50}});
    let s = open();
    let first = s.send(post("ana", "/v1/claims", &body)).await.status(201);
    let batch = json!({"commands": [{"op": "acquire", "collection": "lock/jobs", "items": ["b"]}, {"op": "release", "claim": "lock~jobs~3"}]});
    let answers = s.send(post("ana", "/v1/batch", &batch)).await.status(200);
    s.engine.stop().expect("stops");
    drop(s);
    clock.advance(5_000);
    let s = open();
    let again = s.send(post("ana", "/v1/claims", &body)).await;
    assert_eq!((again.status, &again.bytes), (first.status, &first.bytes));
    let again = s.send(post("ana", "/v1/batch", &batch)).await;
    assert_eq!((again.status, &again.bytes), (answers.status, &answers.bytes));
    s.send(post("ana", "/v1/claims", &json!({"collection": "lock/jobs", "items": ["x"]})))
        .await
        .code(422, "key_reused");
    let verified = s.get("root", "/v1/audit/verify").await.status(200).json();
    assert_eq!((&verified["verified"], &verified["shortened"]), (&json!(true), &json!(0)));
    s.engine.stop().expect("stops");
}

/// E4: a refusal too is kept, with its time.
#[tokio::test]
async fn e04_a_refusal_is_repeated_although_time_went_on() {
    let s = Server::new();
    s.lock("ana", "nightly").await;
    let body = json!({"collection": "lock/jobs", "items": ["nightly"]});
    let first = s.send(post("beto", "/v1/claims", &body)).await.code(409, "held");
    s.pass(60_000);
    let again = s.send(post("beto", "/v1/claims", &body)).await.code(409, "held");
    assert_eq!(first.bytes, again.bytes);
    assert_eq!((first.header("retry-after"), again.header("retry-after")), ("30", "30"));
    let fresh = Call::new("beto", Method::POST, "/v1/claims").key("k-2").json(&body);
    s.send(fresh).await.status(201);
    // The same key of another person is another key.
    s.send(post("cora", "/v1/claims", &body)).await.code(409, "held");
}

/// E4: while the first request waits, its retry is told so.
#[tokio::test]
async fn e04_a_retry_while_the_first_still_waits_is_409_in_progress() {
    let s = Arc::new(Server::new());
    s.lock("ana", "nightly").await;
    let body = json!({"collection": "lock/jobs", "items": ["nightly"], "wait_ms": 60_000});
    for (path, body) in [
        ("/v1/claims", body.clone()),
        ("/v1/batch", {
            let mut command = body.clone();
            command["op"] = json!("acquire");
            json!({"commands": [command]})
        }),
    ] {
        let (server, call) = (s.clone(), post("beto", path, &body));
        let first = tokio::spawn(async move { server.send(call).await });
        while s.waiting("lock/jobs", "nightly") == 0 {
            tokio::task::yield_now().await;
        }
        let retry = s.send(post("beto", path, &body)).await.code(409, "in_progress");
        assert_eq!(retry.header("retry-after"), "1");
        first.abort();
        while s.waiting("lock/jobs", "nightly") > 0 {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn e04_a_key_has_1_to_256_visible_characters_and_stands_once() {
    let s = Server::new();
    let body = json!({"collection": "lock/jobs", "items": ["a"]});
    let call = || Call::new("ana", Method::POST, "/v1/claims").json(&body);
    s.send(call().key("")).await.invalid("Idempotency-Key");
    s.send(call().key(&"k".repeat(257))).await.invalid("Idempotency-Key");
    s.send(call().key("a").key("b")).await.invalid("Idempotency-Key");
    s.send(call().key("a b")).await.invalid("Idempotency-Key");
    s.send(call().key("über")).await.invalid("Idempotency-Key");
    s.send(call().key(&"k".repeat(256))).await.status(201);
}
