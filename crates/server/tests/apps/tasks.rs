//! `/tasks` and `/inventory`.

use serde_json::{Value, json};

use crate::server::{NOW, Server, at, person};

/// A task that can be processed; gives its path.
async fn ready(s: &Server, lines: Value) -> String {
    let made = s.post("ana", "/tasks", json!({"title": "Delivery", "lines": lines})).await.status(201);
    let path = made.header("location").to_owned();
    s.post("ana", &format!("{path}/ready"), json!({})).await.status(200);
    path
}

/// T1, T7: everyone who can read sees the lock.
#[tokio::test]
async fn t01_processing_locks_it_for_everyone_to_see() {
    let s = Server::new();
    let path = ready(&s, json!([])).await;
    s.post("ana", &format!("{path}/process"), json!({})).await.status(200);
    let task = s.get("vera:viewer", &path).await.status(200).json();
    let lock = json!({"state": "locked", "locked_by": person("ana"), "locked_at": NOW, "heartbeat_at": NOW,
        "expires_at": at(180_000), "expires_in_ms": 180_000, "mine": false});
    assert_eq!((&task["status"], &task["lock"]), (&json!("processing"), &lock));
    s.post("bea", &format!("{path}/process"), json!({})).await.code(409, "held");
}
