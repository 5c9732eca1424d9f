//! Waiting for a held item.

use std::sync::Arc;

use serde_json::json;

use crate::server::{Server, person};

fn claim(wait_ms: i64) -> serde_json::Value {
    json!({"collection": "lock/jobs", "items": ["nightly"], "wait_ms": wait_ms})
}

/// Until so many wait.
async fn until_waiting(s: &Server, count: usize) {
    while s.waiting("lock/jobs", "nightly") != count {
        tokio::task::yield_now().await;
    }
}

/// E5: first come, first served.
#[tokio::test]
async fn e05_who_waits_is_served_in_order_without_polling() {
    let s = Arc::new(Server::new());
    let (id, _) = s.lock("ana", "nightly").await;
    let mut waiters = Vec::new();
    for (index, who) in ["beto", "cora"].into_iter().enumerate() {
        let server = s.clone();
        waiters.push(tokio::spawn(async move { server.post(who, "/v1/claims", claim(60_000)).await }));
        until_waiting(&s, index + 1).await;
    }
    let path = "/v1/collections/lock/jobs/items/nightly/explain";
    assert_eq!(s.get("ana", path).await.json()["queue"], json!({"waiting": 2}));
    s.delete("ana", &format!("/v1/claims/{id}")).await.status(204);
    let cora = waiters.pop().expect("two");
    let served = waiters.pop().expect("two").await.expect("served").status(201);
    assert_eq!(served.json()["holder"], person("beto"));
    s.delete("beto", &format!("/v1/claims/{}", served.claim().0)).await.status(204);
    assert_eq!(cora.await.expect("served").status(201).json()["holder"], person("cora"));
}

/// E5: leave the queue by disconnecting.
#[tokio::test]
async fn e05_who_disconnects_leaves_the_queue() {
    let s = Arc::new(Server::new());
    let (id, _) = s.lock("ana", "nightly").await;
    let server = s.clone();
    let gone = tokio::spawn(async move { server.post("beto", "/v1/claims", claim(60_000)).await });
    until_waiting(&s, 1).await;
    gone.abort();
    until_waiting(&s, 0).await;
    s.delete("ana", &format!("/v1/claims/{id}")).await.status(204);
    let item = s.get("ana", "/v1/collections/lock/jobs/items/nightly").await.json();
    assert_eq!(item["claim"], json!(null));
}

/// E5: with a limit.
#[tokio::test]
async fn e05_patience_ends_with_409_held() {
    let s = Arc::new(Server::new());
    let body = json!({"collection": "lock/jobs", "items": ["nightly"], "ttl_ms": 600_000});
    s.post("ana", "/v1/claims", body).await.status(201);
    let server = s.clone();
    let waiter = tokio::spawn(async move { server.post("beto", "/v1/claims", claim(5_000)).await });
    until_waiting(&s, 1).await;
    s.pass(5_000);
    s.engine.tick();
    waiter.await.expect("answered").code(409, "held");
    s.post("beto", "/v1/claims", claim(600_000)).await.invalid("wait_ms");
}
