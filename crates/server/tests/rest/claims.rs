//! Claims: take, keep, amend, look.

use axum::http::Method;
use serde_json::json;

use crate::server::{Call, NOW, Server, at, person};

/// E1, T1, T7
#[tokio::test]
async fn t07_a_new_claim_is_201_with_holder_token_times_and_where_it_is() {
    let s = Server::new();
    let body =
        json!({"collection": "lock/jobs", "items": ["nightly"], "session": "tab-1", "data": {"n": 1.50}});
    let answer = s.post("ana", "/v1/claims", body).await;
    assert_eq!(answer.header("location"), "/v1/claims/lock~jobs~2");
    assert_eq!(answer.header("cache-control"), "no-store");
    assert!(answer.text().contains(r#""data":{"n":1.5}"#), "{}", answer.text());
    answer.is(
        201,
        json!({
            "id": "lock~jobs~2", "collection": "lock/jobs", "items": ["nightly"], "holder": person("ana"),
            "session": "tab-1", "state": "active", "phase": "held", "token": 2, "since": NOW,
            "heartbeat_at": NOW, "expires_at": at(30_000), "expires_in_ms": 30_000, "server_time": NOW,
            "data": {"n": 1.5},
        }),
    );
}

/// T4
#[tokio::test]
async fn t04_claiming_again_is_200_and_renews_keeping_since_and_token() {
    let s = Server::new();
    let body = json!({"collection": "lock/jobs", "items": ["nightly"], "session": "w-1"});
    s.post("ana", "/v1/claims", body.clone()).await.status(201);
    s.pass(10_000);
    let again = s.post("ana", "/v1/claims", body).await.status(200);
    assert_eq!(again.header("location"), "");
    let claim = again.json();
    assert_eq!((claim["since"].as_str(), claim["token"].as_u64()), (Some(NOW), Some(2)));
    assert_eq!((&claim["expires_at"], &claim["server_time"]), (&json!(at(40_000)), &json!(at(10_000))));
}

/// T2, T6: the others learn who won, and when to try again.
#[tokio::test]
async fn t02_a_held_item_is_409_that_names_the_holder_and_when_to_try_again() {
    let s = Server::new();
    s.lock("ana", "nightly").await;
    s.pass(500);
    let body = json!({"collection": "lock/jobs", "items": ["nightly", "other"]});
    let held = s.post("beto", "/v1/claims", body).await;
    assert_eq!(held.header("retry-after"), "30");
    let item = json!({
        "item": "nightly", "why": "held", "holder": person("ana"), "session": null, "since": NOW,
        "expires_at": at(30_000),
    });
    held.refuses(409, "held", json!({"items": [item], "retry_after": 30}));
    s.get("ana", "/v1/collections/lock/jobs/items/other").await.code(404, "not_found");
}

/// J4: workers that share a key are kept apart by their sessions, where the policy says so.
#[tokio::test]
async fn j04_another_session_of_the_same_key_is_409_that_names_the_session() {
    let s = Server::new();
    let body = |session: &str| json!({"collection": "lock/jobs", "items": ["nightly"], "session": session});
    s.post("ana", "/v1/claims", body("w-1")).await.status(201);
    let item = json!({
        "item": "nightly", "why": "held", "holder": person("ana"), "session": "w-1", "since": NOW,
        "expires_at": at(30_000),
    });
    let held = s.post("ana", "/v1/claims", body("w-2")).await;
    held.refuses(409, "held", json!({"items": [item], "retry_after": 30}));
    let nameless = json!({"collection": "lock/jobs", "items": ["nightly"]});
    s.post("ana", "/v1/claims", nameless).await.code(409, "held");
    let mut policy = s.get("root", "/v1/policies/lock").await.status(200).json()["policy"].clone();
    assert_eq!(policy["session_exclusive"], true);
    policy["session_exclusive"] = json!(false);
    s.put("root", "/v1/policies/lock", policy).await.status(200);
    s.post("ana", "/v1/claims", body("w-2")).await.status(200);
}

/// T3, J2
#[tokio::test]
async fn t03_statuses_that_cannot_be_claimed_are_409_with_the_status() {
    let s = Server::new();
    s.collection("task/mine", &["t"]).await;
    let item = "/v1/collections/task/mine/items/t";
    let claim = json!({"collection": "task/mine", "items": ["t"]});
    s.put("ana", item, json!({"status": "draft", "version": 1})).await.status(200);
    let row = json!({"item": "t", "why": "not_claimable", "status": "draft"});
    s.post("ana", "/v1/claims", claim.clone()).await.refuses(409, "not_claimable", json!({"items": [row]}));
    s.put("ana", item, json!({"status": "completed", "version": 2})).await.status(200);
    let row = json!({"item": "t", "why": "finished", "status": "completed"});
    s.post("ana", "/v1/claims", claim).await.refuses(409, "finished", json!({"items": [row]}));
}

#[tokio::test]
async fn r01_r04_unknown_things_are_404_and_too_many_items_409() {
    let s = Server::new();
    let claim = |collection: &str, items: &[&str]| json!({"collection": collection, "items": items});
    let missing = |what: &str, id: &str| json!({"what": what, "id": id});
    let post = |body| s.post("ana", "/v1/claims", body);
    post(claim("unknown/x", &["a"])).await.refuses(404, "not_found", missing("kind", "unknown"));
    post(claim("raffle/x", &["a"])).await.refuses(404, "not_found", missing("collection", "raffle/x"));
    s.collection("raffle/x", &["1"]).await;
    post(claim("raffle/x", &["9"])).await.refuses(404, "not_found", missing("item", "9"));
    let eleven: Vec<_> = (0..11).map(|number| number.to_string()).collect();
    let eleven: Vec<_> = eleven.iter().map(String::as_str).collect();
    post(claim("raffle/x", &eleven)).await.refuses(409, "limit", json!({"limit": "max_items", "max": 10}));
    post(claim("raffle/x", &[])).await.invalid("items");
    post(claim("raffle/x", &["1", "1"])).await.invalid("items");
    post(json!({"collection": "lock/x", "items": ["a"], "ttl_ms": 1})).await.invalid("ttl_ms");
    post(json!({"collection": "lock/x", "items": ["a"], "wait_ms": -1})).await.invalid("wait_ms");
}

/// T8, R23
#[tokio::test]
async fn t08_a_heartbeat_moves_the_deadline() {
    let s = Server::new();
    let (id, token) = s.lock("ana", "nightly").await;
    s.pass(10_000);
    let beat = s.post("ana", &format!("/v1/claims/{id}/heartbeat"), json!({"token": token})).await;
    beat.is(
        200,
        json!({
            "renewed": true, "expires_at": at(40_000), "expires_in_ms": 30_000, "server_time": at(10_000),
        }),
    );
}

/// T9, R7: what moves nothing says why.
#[tokio::test]
async fn t09_a_heartbeat_that_renews_nothing_says_why() {
    let s = Server::new();
    s.collection("task/mine", &["t"]).await;
    let (id, token) =
        s.post("ana", "/v1/claims", json!({"collection": "task/mine", "items": ["t"]})).await.claim();
    s.pass(1_000);
    let beat = json!({"token": token, "idle_ms": 120_000});
    s.post("ana", &format!("/v1/claims/{id}/heartbeat"), beat).await.is(
        200,
        json!({
            "renewed": false, "reason": "idle", "expires_at": at(180_000), "expires_in_ms": 179_000,
            "server_time": at(1_000),
        }),
    );
    s.collection("raffle/x", &["1"]).await;
    let (id, token) =
        s.post("ana", "/v1/claims", json!({"collection": "raffle/x", "items": ["1"]})).await.claim();
    let fixed = s.post("ana", &format!("/v1/claims/{id}/heartbeat"), json!({"token": token})).await;
    assert_eq!(fixed.json()["reason"], "fixed_phase");
}

/// T11, L4, T12
#[tokio::test]
async fn l04_a_lost_claims_heartbeat_is_410_with_the_reason_and_the_new_holder() {
    let s = Server::new();
    let (id, token) = s.lock("ana", "nightly").await;
    let path = format!("/v1/claims/{id}/heartbeat");
    s.post("beto", &path, json!({"token": token})).await.refuses(
        403,
        "not_holder",
        json!({"holder": person("ana")}),
    );
    let stale = s.post("ana", &path, json!({"token": 99})).await;
    stale.refuses(403, "stale_token", json!({"given": 99, "current": 2}));
    s.pass(30_000);
    let lost = json!({"reason": "expired", "ended_at": at(30_000), "holder": null});
    s.post("ana", &path, json!({"token": token})).await.refuses(410, "lost", lost);
    s.lock("beto", "nightly").await;
    let lost = json!({"reason": "expired", "ended_at": at(30_000), "holder": person("beto")});
    s.post("ana", &path, json!({"token": token})).await.refuses(410, "lost", lost);
    s.post("ana", "/v1/claims/lock~jobs~99/heartbeat", json!({"token": 1})).await.code(404, "not_found");
}

/// R6
#[tokio::test]
async fn r06_items_join_and_leave_a_claim_and_the_deadline_stays() {
    let s = Server::new();
    s.collection("raffle/x", &["1", "2", "3"]).await;
    let (id, token) =
        s.post("ana", "/v1/claims", json!({"collection": "raffle/x", "items": ["1"]})).await.claim();
    s.post("beto", "/v1/claims", json!({"collection": "raffle/x", "items": ["3"]})).await.status(201);
    s.pass(1_000);
    let items = format!("/v1/claims/{id}/items");
    let grown = s.post("ana", &items, json!({"item": "2"})).await.status(200).json();
    assert_eq!((&grown["items"], &grown["expires_in_ms"]), (&json!(["1", "2"]), &json!(599_000)));
    assert!(grown["token"].as_u64() > Some(token), "E1: a grant raises the token");
    s.post("ana", &items, json!({"item": "3"})).await.code(409, "held");
    s.post("ana", &items, json!({"item": "2"})).await.invalid("item");
    s.post("beto", &items, json!({"item": "2"})).await.code(403, "not_holder");
    let shrunk = s.delete("ana", &format!("{items}/1")).await.status(200).json();
    assert_eq!(shrunk["items"], json!(["2"]));
    s.delete("ana", &format!("{items}/2")).await.invalid("item");
    s.delete("ana", &format!("{items}/9")).await.code(404, "not_found");
    s.delete("beto", &format!("{items}/2")).await.code(403, "not_holder");
    let advance = format!("/v1/claims/{id}/advance");
    s.post("ana", &advance, json!({})).await.status(200);
    s.post("ana", &items, json!({"item": "1"})).await.refuses(
        409,
        "wrong_phase",
        json!({"phase": "checkout"}),
    );
    s.delete("ana", &format!("{items}/2")).await.code(409, "wrong_phase");
}

/// R7
#[tokio::test]
async fn r07_advancing_begins_the_next_phase_once() {
    let s = Server::new();
    s.collection("raffle/x", &["1"]).await;
    let (id, _) =
        s.post("ana", "/v1/claims", json!({"collection": "raffle/x", "items": ["1"]})).await.claim();
    s.pass(1_000);
    let path = format!("/v1/claims/{id}/advance");
    s.post("beto", &path, json!({})).await.code(403, "not_holder");
    let claim = s.send(Call::new("ana", Method::POST, &path)).await.status(200).json();
    assert_eq!((&claim["phase"], &claim["expires_in_ms"]), (&json!("checkout"), &json!(300_000)));
    s.post("ana", &path, json!({})).await.refuses(409, "wrong_phase", json!({"phase": "checkout"}));
    s.pass(300_000);
    s.post("ana", &path, json!({})).await.code(410, "lost");
}

/// R23, T5: nobody swept; the claim reads as what it is.
#[tokio::test]
async fn r23_a_claim_reads_as_what_its_deadline_says_before_anyone_swept() {
    let s = Server::new();
    s.collection("raffle/x", &["1"]).await;
    let (id, _) =
        s.post("ana", "/v1/claims", json!({"collection": "raffle/x", "items": ["1"]})).await.claim();
    let path = format!("/v1/claims/{id}");
    s.pass(600_000);
    let claim = s.get("beto", &path).await.status(200).json();
    assert_eq!((&claim["state"], &claim["phase"]), (&json!("active"), &json!("checkout")));
    assert_eq!(claim["expires_at"], at(900_000));
    s.pass(300_000);
    let claim = s.get("beto", &path).await.status(200).json();
    assert_eq!((&claim["state"], &claim["reason"]), (&json!("expired"), &json!("expired")));
    assert_eq!((&claim["ended_at"], &claim["expires_in_ms"]), (&json!(at(900_000)), &json!(0)));
    let item = s.get("beto", "/v1/collections/raffle/x/items/1").await.status(200).json();
    assert_eq!(item["claim"], json!(null));
    s.get("ana", "/v1/claims/raffle~x~99").await.refuses(
        404,
        "not_found",
        json!({"what": "claim", "id": "raffle~x~99"}),
    );
}

#[tokio::test]
async fn a_claim_that_is_not_there_is_refused_by_the_id_that_was_asked_for() {
    let s = Server::new();
    s.lock("ana", "a").await;
    let there_is_none = |problem: &serde_json::Value| {
        assert_eq!(problem["detail"], "there is no claim lock~jobs~99");
        assert_eq!((&problem["what"], &problem["id"]), (&json!("claim"), &json!("lock~jobs~99")));
    };
    let beat = s.post("ana", "/v1/claims/lock~jobs~99/heartbeat", json!({"token": 99})).await;
    there_is_none(&beat.code(404, "not_found").json());
    there_is_none(&s.delete("ana", "/v1/claims/lock~jobs~99").await.code(404, "not_found").json());
    let release = json!([{"op": "release", "claim": "lock~jobs~99"}]);
    for atomic in [false, true] {
        let batch = json!({"commands": release, "atomic": atomic});
        let answer = s.post("ana", "/v1/batch", batch).await.json();
        there_is_none(if atomic { &answer } else { &answer["answers"][0]["body"] });
    }
}

#[tokio::test]
async fn claims_are_listed_by_collection_holder_and_state_a_page_at_a_time() {
    let s = Server::new();
    for (who, item) in [("ana", "a"), ("beto", "b"), ("ana", "c")] {
        s.lock(who, item).await;
    }
    let (gone, _) = s.lock("ana", "d").await;
    s.delete("ana", &format!("/v1/claims/{gone}")).await.status(204);
    s.post("ana", "/v1/claims", json!({"collection": "lock/other", "items": ["a"]})).await.status(201);
    let ids = async |query: &str| {
        let page = s.get("ana", &format!("/v1/claims{query}")).await.status(200).json();
        let ids = page["claims"].as_array().expect("claims").iter().map(|claim| claim["id"].clone());
        (ids.collect::<Vec<_>>(), page["next"].clone())
    };
    let all =
        ["lock~jobs~2", "lock~jobs~3", "lock~jobs~4", "lock~jobs~5", "lock~other~2"].map(|id| json!(id));
    assert_eq!(ids("").await, (all.to_vec(), json!(null)));
    assert_eq!(
        ids("?collection=lock/jobs&holder=ana&state=active").await.0,
        [&all[0], &all[2]].map(Clone::clone)
    );
    assert_eq!(ids("?state=released").await.0, [all[3].clone()]);
    assert_eq!(ids("?limit=2").await, (all[..2].to_vec(), all[1].clone()));
    assert_eq!(ids("?limit=2&after=lock~jobs~3").await, (all[2..4].to_vec(), all[3].clone()));
    assert_eq!(ids("?limit=2&after=lock~jobs~5").await, (all[4..].to_vec(), json!(null)));
    s.pass(30_000);
    assert_eq!(ids("?state=active").await.0, [json!(null); 0]);
    assert_eq!(
        ids("?state=expired&limit=2").await,
        ([&all[0], &all[1]].map(Clone::clone).to_vec(), all[1].clone())
    );
}

/// T18
#[tokio::test]
async fn t18_a_nudge_changes_no_claim_and_reaches_the_events() {
    let s = Server::new();
    let (id, token) = s.lock("ana", "nightly").await;
    let path = format!("/v1/claims/{id}/nudge");
    let claim = s.post("beto", &path, json!({"message": "please"})).await.status(200).json();
    assert_eq!((&claim["holder"], &claim["token"]), (&person("ana"), &json!(token)));
    let page = s.get("ana", "/v1/collections/lock/jobs/events?since=2").await.status(200).json();
    let nudge = &page["events"][0];
    assert_eq!((&nudge["type"], &nudge["message"]), (&json!("release_requested"), &json!("please")));
    s.post("beto", &path, json!({"message": "x".repeat(2_001)})).await.invalid("message");
    s.delete("ana", &format!("/v1/claims/{id}")).await.status(204);
    s.post("beto", &path, json!({})).await.code(410, "lost");
    s.post("beto", "/v1/claims/lock~jobs~99/nudge", json!({})).await.code(404, "not_found");
}
