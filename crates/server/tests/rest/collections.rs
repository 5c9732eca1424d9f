//! Collections: create, read, list; kinds that the caller does not cover.

use serde_json::json;

use crate::server::{NOW, Server};

#[tokio::test]
async fn a_collection_is_created_once_and_read_back() {
    let s = Server::new();
    let path = "/v1/collections/raffle/navidad";
    let head = json!({
        "collection": "raffle/navidad", "kind": "raffle", "name": "navidad", "seq": 1, "created_at": NOW, "epoch": 1,
    });
    s.get("ana", path).await.refuses(404, "not_found", json!({"what": "collection", "id": "raffle/navidad"}));
    s.put("ana", path, json!({})).await.is(201, head.clone());
    s.put("ana", path, json!({})).await.is(200, head.clone());
    s.get("ana", path).await.is(200, head);
    let missing = json!({"what": "kind", "id": "unknown"});
    s.put("ana", "/v1/collections/unknown/x", json!({})).await.refuses(404, "not_found", missing);
}

#[tokio::test]
async fn collections_are_listed_by_kind_a_page_at_a_time() {
    let s = Server::new();
    for key in ["raffle/b", "lock/a", "raffle/a", "task/z"] {
        s.put("ana", &format!("/v1/collections/{key}"), json!({})).await.status(201);
    }
    let keys = async |who: &str, query: &str| {
        let page = s.get(who, &format!("/v1/collections{query}")).await.status(200).json();
        let keys = page["collections"].as_array().expect("rows").iter().map(|row| row["collection"].clone());
        (keys.collect::<Vec<_>>(), page["next"].clone())
    };
    assert_eq!(
        keys("ana", "").await,
        (["lock/a", "raffle/a", "raffle/b", "task/z"].map(|key| json!(key)).to_vec(), json!(null))
    );
    assert_eq!(keys("ana", "?kind=raffle&limit=1").await, (vec![json!("raffle/a")], json!("raffle/a")));
    assert_eq!(keys("ana", "?kind=raffle&limit=1&after=raffle/a").await.0, [json!("raffle/b")]);
    s.get("ana", "/v1/collections?kind=Raffle").await.invalid("kind");
}

/// E8, I19: nothing crosses a kind that the key does not cover.
#[tokio::test]
async fn e08_a_caller_of_some_kinds_sees_and_touches_those_alone() {
    let s = Server::new();
    s.collection("raffle/x", &["1"]).await;
    let (id, _) = s.lock("ana", "nightly").await;
    let eve = "eve:admin:raffle";
    for path in [
        "/v1/collections/lock/jobs",
        "/v1/collections/lock/jobs/items",
        "/v1/collections/lock/jobs/items/nightly",
        "/v1/collections/lock/jobs/items/nightly/explain",
        "/v1/collections/lock/jobs/events",
        "/v1/collections?kind=lock",
        "/v1/claims?collection=lock/jobs",
        "/v1/audit?collection=lock/jobs",
        "/v1/policies/lock",
        &format!("/v1/claims/{id}"),
    ] {
        s.get(eve, path).await.code(403, "forbidden");
    }
    let claim = json!({"collection": "lock/jobs", "items": ["other"]});
    s.post(eve, "/v1/claims", claim.clone()).await.code(403, "forbidden");
    s.post(eve, &format!("/v1/claims/{id}/nudge"), json!({})).await.code(403, "forbidden");
    s.put(eve, "/v1/collections/lock/more", json!({})).await.code(403, "forbidden");
    s.put(eve, "/v1/collections/lock/jobs/items/a", json!({})).await.code(403, "forbidden");
    let mut command = claim;
    command["op"] = json!("acquire");
    let batch = s.post(eve, "/v1/batch", json!({"commands": [command]})).await.status(200).json();
    assert_eq!(batch["answers"][0]["status"], 403);
    for path in ["/v1/claims", "/v1/audit", "/v1/collections", "/v1/policies"] {
        let text = s.get(eve, path).await.status(200).text().to_owned();
        assert!(!text.contains("lock/") && !text.contains("\"lock\""), "{path}: {text}");
        assert!(path == "/v1/claims" || text.contains("raffle"), "{path}: {text}");
    }
}

/// Tenure's own kind is nobody's, not even an administrator's.
#[tokio::test]
async fn tenures_own_kind_cannot_be_seen_or_touched() {
    let s = Server::new();
    let policy = s.get("root", "/v1/policies/lock").await.json()["policy"].clone();
    s.put("root", "/v1/policies/own", policy.clone()).await.status(200);
    let list = s.get("root", "/v1/collections").await.status(200).json();
    assert_eq!(list["collections"], json!([]));
    for path in
        ["/v1/collections/tenure/policies", "/v1/collections/tenure/policies/events", "/v1/policies/tenure"]
    {
        s.get("root", path).await.code(403, "forbidden");
    }
    s.put("root", "/v1/policies/tenure", policy).await.code(403, "forbidden");
    s.put("root", "/v1/collections/tenure/keys/items/k", json!({})).await.code(403, "forbidden");
    s.get("root", "/v1/audit?collection=tenure/policies").await.code(403, "forbidden");
}
