//! Force-release and force-claim, and explaining an item.

use serde_json::json;

use crate::server::{NOW, Server, at, person};

const ITEM: &str = "/v1/collections/lock/jobs/items/nightly";

/// T16
#[tokio::test]
async fn t16_force_release_frees_whoever_holds_is_idempotent_and_audited() {
    let s = Server::new();
    let (id, token) = s.lock("ana", "nightly").await;
    let path = format!("{ITEM}/force-release");
    let freed = s.post("root", &path, json!({"reason": "gone home"})).await.status(200).json();
    assert_eq!((&freed["claim"]["id"], &freed["claim"]["state"]), (&json!(id), &json!("revoked")));
    assert_eq!(freed["claim"]["reason"], "force_released");
    s.post("root", &path, json!({"reason": "again"}))
        .await
        .is(200, json!({"claim": null, "server_time": NOW}));
    let lost = s.post("ana", &format!("/v1/claims/{id}/heartbeat"), json!({"token": token})).await;
    lost.refuses(410, "lost", json!({"reason": "force_released", "ended_at": NOW, "holder": null}));
    let rows = s.get("root", "/v1/audit?action=LOCK_FORCE_RELEASE").await.status(200).json();
    let row = &rows["rows"][0];
    assert_eq!((&row["actor"], &row["previous_holder"]), (&person("root"), &person("ana")));
    assert_eq!(
        (&row["reason"], &row["at"], &row["items"]),
        (&json!("gone home"), &json!(NOW), &json!(["nightly"]))
    );
    s.post("root", &path, json!({})).await.invalid("reason");
    s.post("root", &path, json!({"reason": "  "})).await.invalid("reason");
    let missing = "/v1/collections/lock/jobs/items/none/force-release";
    s.post("root", missing, json!({"reason": "x"})).await.code(404, "not_found");
}

/// T17
#[tokio::test]
async fn t17_force_claim_takes_or_renews_and_is_audited() {
    let s = Server::new();
    let (old, old_token) = s.lock("ana", "nightly").await;
    let path = format!("{ITEM}/force-claim");
    s.pass(1_000);
    let taken = s.post("root", &path, json!({"reason": "urgent", "session": "tab"})).await.status(201);
    assert_eq!(taken.header("location"), "/v1/claims/lock~jobs~4");
    let claim = taken.json();
    assert_eq!((&claim["holder"], &claim["session"]), (&person("root"), &json!("tab")));
    assert!(claim["token"].as_u64() > Some(old_token));
    s.post("root", &path, json!({"reason": "still", "session": "tab"})).await.status(200);
    let lost = s.post("ana", &format!("/v1/claims/{old}/heartbeat"), json!({"token": old_token})).await;
    lost.refuses(
        410,
        "lost",
        json!({"reason": "taken_over", "ended_at": at(1_000), "holder": person("root")}),
    );
    let rows = s.get("root", "/v1/audit?action=LOCK_FORCE_CLAIM").await.status(200).json();
    let row = &rows["rows"][1];
    assert_eq!((&row["reason"], &row["previous_holder"]), (&json!("urgent"), &person("ana")));
    assert_eq!(rows["rows"][0]["reason"], "still");
    s.collection("raffle/x", &["1"]).await;
    s.put("root", "/v1/collections/raffle/x/items/1", json!({"status": "sold", "version": 1}))
        .await
        .status(200);
    let force = "/v1/collections/raffle/x/items/1/force-claim";
    s.post("root", force, json!({"reason": "x"})).await.code(409, "finished");
    s.put("root", "/v1/collections/raffle/x/items/1", json!({"status": "odd", "version": 2}))
        .await
        .status(200);
    s.post("root", force, json!({"reason": "x"})).await.code(409, "not_claimable");
    s.post("root", "/v1/collections/raffle/x/items/9/force-claim", json!({"reason": "x"}))
        .await
        .code(404, "not_found");
}

#[tokio::test]
async fn explaining_tells_holder_queue_history_refusal_and_when_it_frees() {
    let s = Server::new();
    s.collection("raffle/x", &["1"]).await;
    let claim = json!({"collection": "raffle/x", "items": ["1"]});
    let (first, _) = s.post("ana", "/v1/claims", claim.clone()).await.claim();
    s.pass(1_000);
    s.delete("ana", &format!("/v1/claims/{first}")).await.status(204);
    let (second, _) = s.post("beto", "/v1/claims", claim).await.claim();
    s.pass(1_000);
    let path = "/v1/collections/raffle/x/items/1/explain";
    let explained = s.get("ana", path).await.status(200).json();
    assert_eq!(explained["holder"], person("beto"));
    assert_eq!((&explained["claim"]["id"], &explained["status"]), (&json!(second), &json!("available")));
    assert_eq!((&explained["queue"], &explained["claimable"]), (&json!({"waiting": 0}), &json!(false)));
    assert_eq!(
        (&explained["refusal"]["code"], &explained["refusal"]["status"]),
        (&json!("held"), &json!(409))
    );
    // Selection and then checkout, if nobody does anything.
    assert_eq!((&explained["frees_at"], &explained["frees_in_ms"]), (&json!(at(901_000)), &json!(899_000)));
    let history = json!([
        {"claim": second, "holder": person("beto"), "since": at(1_000), "ended_at": null, "reason": null},
        {"claim": first, "holder": person("ana"), "since": at(0), "ended_at": at(1_000), "reason": "released"},
    ]);
    assert_eq!(explained["history"], history);
}

#[tokio::test]
async fn explaining_a_free_or_unknown_item() {
    let s = Server::new();
    s.collection("raffle/x", &["1"]).await;
    let explained = s.get("ana:viewer", "/v1/collections/raffle/x/items/1/explain").await.status(200).json();
    assert_eq!((&explained["claimable"], &explained["refusal"]), (&json!(true), &json!(null)));
    assert_eq!((&explained["holder"], &explained["frees_at"]), (&json!(null), &json!(null)));
    s.get("ana", "/v1/collections/raffle/x/items/9/explain").await.code(404, "not_found");
    s.get("ana", "/v1/collections/raffle/y/items/1/explain").await.code(404, "not_found");
    // Claiming would create it.
    let explained = s.get("ana", "/v1/collections/lock/new/items/a/explain").await.status(200).json();
    assert_eq!((&explained["claimable"], &explained["status"]), (&json!(true), &json!(null)));
}
