//! How claims end: release, complete, cancel.

use serde_json::json;

use crate::server::{Server, at, person};

/// T14
#[tokio::test]
async fn t14_release_is_204_also_twice_and_anothers_is_403_unchanged() {
    let s = Server::new();
    let (id, _) = s.lock("ana", "nightly").await;
    let path = format!("/v1/claims/{id}");
    s.delete("beto", &path).await.refuses(403, "not_holder", json!({"holder": person("ana")}));
    assert_eq!(s.get("ana", &path).await.json()["state"], "active");
    let released = s.delete("ana", &path).await.status(204);
    assert!(released.bytes.is_empty());
    s.delete("ana", &path).await.status(204);
    let claim = s.get("ana", &path).await.json();
    assert_eq!((&claim["state"], &claim["reason"]), (&json!("released"), &json!("released")));
    s.delete("ana", "/v1/claims/lock~jobs~99").await.code(404, "not_found");
}

#[tokio::test]
async fn releasing_what_ran_out_is_410() {
    let s = Server::new();
    let (id, _) = s.lock("ana", "nightly").await;
    s.pass(30_000);
    let lost = json!({"reason": "expired", "ended_at": at(30_000), "holder": null});
    s.delete("ana", &format!("/v1/claims/{id}")).await.refuses(410, "lost", lost);
}

/// J8, R11
#[tokio::test]
async fn j08_completing_writes_the_items_and_ends_the_claim_in_one_commit() {
    let s = Server::new();
    s.collection("analysis/x", &["a"]).await;
    let claim = json!({"collection": "analysis/x", "items": ["a"]});
    let (id, token) = s.post("wim", "/v1/claims", claim.clone()).await.claim();
    let path = format!("/v1/claims/{id}/complete");
    s.post("beto", &path, json!({"status": "READY"})).await.code(403, "not_holder");
    s.post("wim", &path, json!({"status": "READY", "token": 1})).await.code(403, "stale_token");
    s.post("wim", &path, json!({"status": "nonsense"})).await.invalid("status");
    s.post("wim", &path, json!({"items": [{"item": "b"}]})).await.invalid("items[0]");
    let body = json!({"status": "READY", "data": {"result": 42}, "token": token});
    let done = s.post("wim", &path, body).await.status(200).json();
    assert_eq!(
        (&done["state"], &done["reason"], &done["ended_at"]),
        (&json!("completed"), &json!("completed"), &json!(at(0)))
    );
    let item = s.get("wim", "/v1/collections/analysis/x/items/a").await.json();
    assert_eq!(
        (&item["status"], &item["data"], &item["claim"]),
        (&json!("READY"), &json!({"result": 42}), &json!(null))
    );
    s.post("wim", &path, json!({"status": "FAILED"})).await.code(410, "lost");
    s.post("wim", "/v1/claims", claim).await.code(409, "finished");
    s.post("wim", "/v1/claims/analysis~x~99/complete", json!({})).await.code(404, "not_found");
}

#[tokio::test]
async fn completing_can_make_something_else_of_single_items() {
    let s = Server::new();
    s.collection("raffle/x", &["1", "2"]).await;
    let claim = json!({"collection": "raffle/x", "items": ["1", "2"]});
    let (id, _) = s.post("ana", "/v1/claims", claim).await.claim();
    let body = json!({"status": "sold", "items": [{"item": "2", "status": "available", "data": 7}]});
    s.post("ana", &format!("/v1/claims/{id}/complete"), body).await.status(200);
    let status = async |item: &str| {
        let item = s.get("ana", &format!("/v1/collections/raffle/x/items/{item}")).await.json();
        (item["status"].clone(), item["data"].clone())
    };
    assert_eq!(status("1").await, (json!("sold"), json!(null)));
    assert_eq!(status("2").await, (json!("available"), json!(7)));
}

/// R10
#[tokio::test]
async fn r10_cancelling_frees_the_items() {
    let s = Server::new();
    s.collection("raffle/x", &["1"]).await;
    let claim = json!({"collection": "raffle/x", "items": ["1"]});
    let (id, _) = s.post("ana", "/v1/claims", claim.clone()).await.claim();
    let path = format!("/v1/claims/{id}/cancel");
    s.post("beto", &path, json!({})).await.code(403, "not_holder");
    let gone = s.post("ana", &path, json!({})).await.status(200).json();
    assert_eq!((&gone["state"], &gone["reason"]), (&json!("cancelled"), &json!("cancelled")));
    s.post("beto", "/v1/claims", claim).await.status(201);
    s.delete("ana", &format!("/v1/claims/{id}")).await.code(410, "lost");
    s.post("ana", "/v1/claims/raffle~x~99/cancel", json!({})).await.code(404, "not_found");
}
