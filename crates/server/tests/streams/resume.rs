//! Snapshot, replay and live events: no gap, no double.

use futures_util::SinkExt;
use serde_json::json;

use crate::client::{ADMIN, Running, eventually};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e2_a_snapshot_is_followed_by_every_event_while_others_write() {
    let server = Running::start().await;
    server.create("task/board").await;
    let writers = async {
        for number in 0..300 {
            server.put("task/board", &format!("i{}", number % 7), json!(number)).await;
        }
    };
    let readers = async {
        for _ in 0..10 {
            let mut socket = server.open(ADMIN, "task/board/ws").await;
            let snapshot = socket.next().await;
            assert_eq!(snapshot["type"], "snapshot");
            assert_eq!(snapshot["epoch"], 1);
            let mut seq = snapshot["seq"].as_u64().unwrap();
            let until = (seq + 40).min(301);
            while seq < until {
                let event = socket.next().await;
                assert_eq!((&event["type"], &event["seq"]), (&json!("event"), &json!(seq + 1)));
                assert_eq!((&event["event"]["seq"], &event["epoch"]), (&json!(seq + 1), &json!(1)));
                seq += 1;
            }
        }
    };
    tokio::join!(writers, readers);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r14_a_resume_from_any_number_loses_nothing_and_doubles_nothing() {
    let server = Running::start().await;
    server.create("task/board").await;
    for number in 0..60 {
        server.put("task/board", "one", json!(number)).await;
    }
    for since in 0..=61 {
        let mut socket = server.open(ADMIN, &format!("task/board/ws?since={since}&epoch=1")).await;
        for seq in since + 1..=61 {
            assert_eq!(socket.next().await["seq"], seq);
        }
    }
    let mut socket = server.open(ADMIN, "task/board/ws?since=61").await;
    server.put("task/board", "one", json!("live")).await;
    assert_eq!(socket.next().await["seq"], 62);
    assert!(server.figure("tenure_resumes_total{outcome=\"replayed\"}") >= 60.0);
}

#[tokio::test]
async fn e2_another_epoch_or_an_unknown_number_says_resync_and_gives_a_snapshot() {
    let server = Running::start().await;
    server.create("task/board").await;
    for (query, reason) in [("since=1&epoch=9", "other_epoch"), ("since=50&epoch=1", "not_retained")] {
        let mut socket = server.open(ADMIN, &format!("task/board/ws?{query}")).await;
        assert_eq!(socket.next().await, json!({"type": "resync", "reason": reason}));
        let snapshot = socket.next().await;
        assert_eq!((&snapshot["type"], &snapshot["seq"]), (&json!("snapshot"), &json!(1)));
    }
    assert!((server.figure("tenure_resumes_total{outcome=\"resync\"}") - 2.0).abs() < 0.1);
    assert_eq!(
        server
            .try_open("task/board/ws?epoch=1", &[("authorization", &format!("Bearer {ADMIN}"))])
            .await
            .err(),
        Some(422)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e2_a_large_snapshot_comes_as_one_message_with_items_and_claims() {
    let server = Running::start().await;
    server.create("task/board").await;
    for number in 0..200 {
        server.put("task/board", &format!("i{number:03}"), json!("ä".repeat(1_000))).await;
    }
    let mut socket = server.open(ADMIN, "task/board/ws").await;
    assert_eq!(socket.next().await["items"].as_array().unwrap().len(), 200);
    let (status, claim) =
        socket.ask(json!({"op": "acquire", "collection": "task/board", "items": ["i007"]})).await;
    assert_eq!(status, 201, "{claim}");
    let mut other = server.open(ADMIN, "task/board/ws").await;
    let snapshot = other.next().await;
    assert_eq!(snapshot["claims"][0]["id"], claim["id"]);
    assert_eq!(snapshot["items"][7]["data"], "ä".repeat(1_000));
}

#[tokio::test]
async fn e2_a_collection_that_nobody_made_is_empty_and_begins_with_its_first_event() {
    let server = Running::start().await;
    let mut socket = server.open(ADMIN, "task/new/ws").await;
    let snapshot = socket.next().await;
    assert_eq!((&snapshot["seq"], &snapshot["items"]), (&json!(0), &json!([])));
    server.create("task/new").await;
    assert_eq!(socket.next().await["event"]["type"], "collection_created");
}

#[tokio::test]
async fn r13_everything_is_cleaned_up_on_close() {
    let server = Running::start().await;
    server.create("task/board").await;
    let mut sockets = Vec::new();
    for _ in 0..20 {
        let mut socket = server.open(ADMIN, "task/board/ws").await;
        socket.next().await;
        sockets.push(socket);
    }
    assert!((server.figure("tenure_sockets{sort=\"ws\"}") - 20.0).abs() < 0.1);
    for (number, mut socket) in sockets.into_iter().enumerate() {
        // Some say goodbye and some do not.
        if number % 2 == 0 {
            socket.0.close(None).await.unwrap();
        } else {
            let _ = socket.0.flush().await;
        }
    }
    eventually(|| server.figure("tenure_sockets{sort=\"ws\"}").abs() < 0.1).await;
}
