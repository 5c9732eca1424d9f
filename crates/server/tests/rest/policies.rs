//! Policies: presets, own ones, bad ones.

use serde_json::json;

use crate::server::Server;

/// T21
#[tokio::test]
async fn t21_presets_are_shown_and_own_policies_take_their_place() {
    let s = Server::new();
    let task = s.get("root", "/v1/policies/task").await.status(200).json();
    assert_eq!((&task["kind"], &task["source"]), (&json!("task"), &json!("preset")));
    assert_eq!(
        task["policy"]["phases"],
        json!([{"name": "editing", "ttl_ms": 180_000, "renew": true, "at_end": "release", "side": false}])
    );
    let mut policy = task["policy"].clone();
    policy["heartbeat_ms"] = json!(5_000);
    let expected = json!({"kind": "task", "source": "own", "policy": policy});
    s.put("root", "/v1/policies/task", policy.clone()).await.is(200, expected.clone());
    s.get("root", "/v1/policies/task").await.is(200, expected);
    s.get("root", "/v1/policies/mine").await.refuses(404, "not_found", json!({"what": "kind", "id": "mine"}));
    s.put("root", "/v1/policies/mine", policy).await.status(200);
    let all = s.get("root", "/v1/policies").await.status(200).json();
    let rows = all["policies"].as_array().expect("rows").iter();
    let rows: Vec<_> = rows
        .map(|row| {
            format!("{}:{}", row["kind"].as_str().expect("kind"), row["source"].as_str().expect("source"))
        })
        .collect();
    assert_eq!(
        rows,
        ["analysis:preset", "image:preset", "lock:preset", "mine:own", "raffle:preset", "task:own"]
    );
    s.collection("mine/x", &["a"]).await;
    s.post("ana", "/v1/claims", json!({"collection": "mine/x", "items": ["a"]})).await.status(201);
}

#[tokio::test]
async fn a_policy_that_cannot_work_is_422_that_names_the_field() {
    let s = Server::new();
    let good = s.get("root", "/v1/policies/lock").await.json()["policy"].clone();
    let bad = |field: &str, value: serde_json::Value| {
        let mut policy = good.clone();
        policy[field] = value;
        policy
    };
    s.put("root", "/v1/policies/mine", bad("max_items", json!(0))).await.invalid("max_items");
    s.put("root", "/v1/policies/mine", bad("phases", json!([]))).await.invalid("phases");
    s.put("root", "/v1/policies/mine", bad("phases", json!([{"name": 1}]))).await.invalid("phases[0].name");
    s.put("root", "/v1/policies/mine", bad("surprise", json!(1))).await.invalid("surprise");
    s.put("root", "/v1/policies/mine", json!({})).await.invalid("phases");
    s.put("root", "/v1/policies/Mine", good.clone()).await.invalid("kind");
    s.put("ana", "/v1/policies/mine", good).await.code(403, "forbidden");
    s.get("ana", "/v1/policies").await.code(403, "forbidden");
    s.get("ana", "/v1/policies/lock").await.code(403, "forbidden");
}
