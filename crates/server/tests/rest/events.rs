//! Events, a page at a time.

use axum::http::Method;
use serde_json::{Value, json};

use crate::server::{Call, NOW, Server, at, person};

async fn events(s: &Server, key: &str) -> Vec<Value> {
    let page = s.get("ana", &format!("/v1/collections/{key}/events")).await.status(200).json();
    page["events"].as_array().expect("events").clone()
}

/// E2: numbered without gaps, with what a reader needs to follow.
#[tokio::test]
async fn e02_every_change_is_an_event_with_its_own_fields() {
    let s = Server::new();
    s.collection("analysis/x", &["a"]).await;
    let (id, _) = s
        .post("wim", "/v1/claims", json!({"collection": "analysis/x", "items": ["a"], "data": 7}))
        .await
        .claim();
    s.pass(10);
    s.post("wim", &format!("/v1/claims/{id}/complete"), json!({"status": "READY", "data": [1]}))
        .await
        .status(200);
    let document =
        |version: u64, status: &str, data: Value| json!({"version": version, "status": status, "data": data});
    let base = |seq: u64, at: String, kind: &str, who: &str| json!({"seq": seq, "at": at, "type": kind, "actor": person(who), "collection": "analysis/x"});
    let with = |mut event: Value, more: Value| {
        event.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        event
    };
    let expected = vec![
        base(1, at(0), "collection_created", "root"),
        with(
            base(2, at(0), "item_put", "root"),
            json!({"items": ["a"], "before": null, "after": document(1, "QUEUED", json!(null))}),
        ),
        with(
            base(3, at(0), "claim_granted", "wim"),
            json!({
                "claim": id, "items": ["a"], "holder": person("wim"), "session": null, "phase": "running", "token": 3,
                "ttl_ms": 300_000, "expires_at": at(300_000), "data": 7,
                "changes": [{"item": "a", "before": {"status": "QUEUED"}, "after": {"status": "RUNNING"}}],
            }),
        ),
        with(
            base(4, at(10), "claim_completed", "wim"),
            json!({
                "claim": id, "items": ["a"], "holder": person("wim"), "state": "completed", "reason": "completed",
                "ended_at": at(10),
                "changes": [{"item": "a", "before": document(2, "RUNNING", json!(null)), "after": document(3, "READY", json!([1]))}],
            }),
        ),
    ];
    assert_eq!(events(&s, "analysis/x").await, expected);
}

#[tokio::test]
async fn e02_phases_amendments_and_expiries_read_as_events() {
    let s = Server::new();
    s.collection("raffle/x", &["1", "2"]).await;
    let (id, _) =
        s.post("ana", "/v1/claims", json!({"collection": "raffle/x", "items": ["1"]})).await.claim();
    s.post("ana", &format!("/v1/claims/{id}/items"), json!({"item": "2"})).await.status(200);
    s.delete("ana", &format!("/v1/claims/{id}/items/1")).await.status(200);
    s.pass(900_000);
    s.post("beto", "/v1/claims", json!({"collection": "raffle/x", "items": ["2"]})).await.status(201);
    s.delete("root", "/v1/collections/raffle/x/items/1?version=1").await.status(204);
    let all = events(&s, "raffle/x").await;
    let types: Vec<_> = all.iter().map(|event| event["type"].as_str().expect("a type")).collect();
    let expected = [
        "collection_created",
        "item_put",
        "item_put",
        "claim_granted",
        "item_added",
        "item_removed",
        "claim_advanced",
        "claim_expired",
        "claim_granted",
        "item_deleted",
    ];
    assert_eq!(types, expected);
    assert_eq!((&all[4]["token"], &all[4]["items"]), (&json!(5), &json!(["2"])));
    assert_eq!(
        (&all[6]["from"], &all[6]["phase"], &all[6]["since"]),
        (&json!("selection"), &json!("checkout"), &json!(at(600_000)))
    );
    assert_eq!(
        (&all[7]["reason"], &all[7]["ended_at"], &all[7]["actor"]["id"]),
        (&json!("expired"), &json!(at(900_000)), &json!("system"))
    );
    assert_eq!((&all[9]["after"], &all[9]["before"]["version"]), (&json!(null), &json!(1)));
}

#[tokio::test]
async fn e02_a_page_goes_on_from_any_number() {
    let s = Server::new();
    s.collection("raffle/x", &["1", "2"]).await;
    let path = "/v1/collections/raffle/x/events";
    let page = async |query: &str| {
        let page = s.get("ana:viewer", &format!("{path}{query}")).await.status(200).json();
        let numbers: Vec<_> =
            page["events"].as_array().expect("events").iter().map(|event| event["seq"].clone()).collect();
        (numbers, page["first"].clone(), page["last"].clone(), page["newest"].clone(), page["epoch"].clone())
    };
    let n = |number: u64| json!(number);
    assert_eq!(page("?limit=2").await, (vec![n(1), n(2)], n(1), n(2), n(3), n(1)));
    assert_eq!(page("?since=2&epoch=1").await, (vec![n(3)], n(3), n(3), n(3), n(1)));
    assert_eq!(page("?since=3").await, (vec![], json!(null), n(3), n(3), n(1)));
}

/// I15: a number outside of what is there says so; it never skips.
#[tokio::test]
async fn e02_a_number_outside_of_what_is_retained_is_410_resync() {
    let s = Server::new();
    s.collection("raffle/x", &["1"]).await;
    let path = "/v1/collections/raffle/x/events";
    s.get("ana", &format!("{path}?since=3")).await.refuses(
        410,
        "resync",
        json!({"epoch": 1, "first": 1, "last": 2}),
    );
    s.get("ana", &format!("{path}?since=1&epoch=2")).await.refuses(
        410,
        "resync",
        json!({"epoch": 1, "first": null, "last": 2}),
    );
    s.get("ana", "/v1/collections/raffle/none/events").await.code(404, "not_found");
    s.get("ana", &format!("{path}?since=-1")).await.invalid("since");
    s.get("ana", &format!("{path}?limit=0")).await.invalid("limit");
    s.get("ana", &format!("{path}?limit=1001")).await.invalid("limit");
    let stream = |path: &str| Call::new("ana", Method::GET, path).header("accept", "text/event-stream");
    s.send(stream(&format!("{path}?limit=1"))).await.invalid("limit");
    s.send(stream(path).header("last-event-id", "3")).await.invalid("Last-Event-ID");
}

/// T10: a policy's own change is seen in the audit log alone.
#[tokio::test]
async fn a_renewal_by_claiming_again_is_an_event_and_a_heartbeat_is_not() {
    let s = Server::new();
    let body = json!({"collection": "lock/jobs", "items": ["nightly"], "session": "w-1"});
    let (id, token) = s.post("ana", "/v1/claims", body.clone()).await.status(201).claim();
    s.post("ana", &format!("/v1/claims/{id}/heartbeat"), json!({"token": token})).await.status(200);
    s.post("ana", "/v1/claims", body).await.status(200);
    let all = events(&s, "lock/jobs").await;
    let last = all.last().expect("events");
    let expected = json!({
        "seq": 3, "at": NOW, "type": "claim_renewed", "actor": person("ana"), "collection": "lock/jobs",
        "claim": id, "ttl_ms": 30_000, "expires_at": at(30_000),
    });
    assert_eq!(*last, expected);
}
