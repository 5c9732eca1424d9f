//! Commands on a socket.

use std::collections::BTreeSet;

use serde_json::json;
use tenure_server::{Rate, config::Config};

use crate::client::{ADMIN, Running, eventually};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e2_a_thousand_pipelined_commands_are_answered_each_once() {
    let server = Running::start().await;
    server.create("lock/jobs").await;
    let mut socket = server.open(ADMIN, "lock/jobs/ws").await;
    for number in 0..1_000 {
        let command = json!({"op": "acquire", "collection": "lock/jobs", "items": [format!("i{number}")]});
        socket.command(json!(number), command).await;
    }
    let (mut answers, mut events) = (BTreeSet::new(), 0);
    while answers.len() < 1_000 || events < 1_000 {
        let message = socket.next().await;
        match message["type"].as_str().unwrap() {
            "reply" => {
                assert_eq!(message["status"], 201, "{message}");
                assert!(answers.insert(message["id"].as_u64().unwrap()));
            }
            "event" => events += 1,
            _ => {}
        }
    }
    assert_eq!(answers.len(), 1_000);
}

#[tokio::test]
async fn e2_a_command_reads_as_its_route_does() {
    let server = Running::start().await;
    let mut socket = server.open(ADMIN, "lock/jobs/ws").await;
    let (status, claim) =
        socket.ask(json!({"op": "acquire", "collection": "lock/jobs", "items": ["nightly"]})).await;
    assert_eq!((status, &claim["state"]), (201, &json!("active")));
    let beat = json!({"op": "heartbeat", "claim": claim["id"], "token": claim["token"]});
    assert_eq!(socket.ask(beat.clone()).await.0, 200);
    assert_eq!(socket.ask(json!({"op": "release", "claim": claim["id"]})).await, (204, json!(null)));
    let (status, problem) = socket.ask(beat).await;
    assert_eq!((status, &problem["code"], &problem["reason"]), (410, &json!("lost"), &json!("released")));
}

#[tokio::test]
async fn e2_a_retry_with_the_same_key_gets_the_first_answer() {
    let server = Running::start().await;
    let mut socket = server.open(ADMIN, "lock/jobs/ws").await;
    let command = json!({"op": "acquire", "collection": "lock/jobs", "items": ["nightly"]});
    let message = json!({"id": "a", "command": command, "idempotency_key": "k"}).to_string();
    socket.send(message.clone()).await;
    let first = socket.next_of("reply").await;
    socket.send(message).await;
    assert_eq!(socket.next_of("reply").await, first);
    let other = json!({"op": "acquire", "collection": "lock/jobs", "items": ["daily"]});
    socket.send(json!({"id": "a", "command": other, "idempotency_key": "k"}).to_string()).await;
    assert_eq!(socket.next_of("reply").await["body"]["code"], "key_reused");
}

#[tokio::test]
async fn e2_who_leaves_leaves_the_queue() {
    let server = Running::start().await;
    let mut holder = server.open(ADMIN, "lock/jobs/ws").await;
    let (_, claim) = holder.ask(json!({"op": "acquire", "collection": "lock/jobs", "items": ["a"]})).await;
    let (key, _) = server.key("editor").await;
    let mut waiter = server.open(&key, "lock/jobs/ws").await;
    let wait = json!({"op": "acquire", "collection": "lock/jobs", "items": ["a"], "wait_ms": 20_000});
    waiter.command(json!(1), wait).await;
    let (place, item) =
        (tenure_core::CollectionKey::new("lock/jobs").unwrap(), tenure_core::ItemId::new("a").unwrap());
    eventually(|| server.engine.waiting(&place, &item) == 1).await;
    drop(waiter);
    eventually(|| server.engine.waiting(&place, &item) == 0).await;
    assert_eq!(holder.ask(json!({"op": "release", "claim": claim["id"]})).await.0, 204);
}

#[tokio::test]
async fn e2_commands_are_counted_like_requests() {
    let mut config = Config::default();
    config.rates.write = Rate { per_second: 1, burst: 3 };
    let server = Running::with(config).await;
    let mut socket = server.open(ADMIN, "lock/jobs/ws").await;
    let command = json!({"op": "create_collection", "collection": "lock/jobs"});
    let mut statuses = Vec::new();
    for _ in 0..5 {
        statuses.push(socket.ask(command.clone()).await.0);
    }
    assert_eq!(statuses[..3], [201, 200, 200]);
    assert!(statuses[3..].contains(&429), "{statuses:?}");
}
