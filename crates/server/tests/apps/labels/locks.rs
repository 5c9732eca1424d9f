//! One annotator per image.

use axum::http::Method;
use serde_json::json;

use super::{PROJECT, image, lock, patch, server};
use crate::server::{Call, NOW, at, person};

/// L3: a free image is locked, the own lock refreshed, and another's told with 200 and `success: false`.
#[tokio::test]
async fn l03_locking_tells_whose_lock_it_is() {
    let s = server().await;
    let image = image(&s).await;
    let free = lock(&s, "ana", "acquire", &image).await.status(200).json();
    let token = free["token"].as_u64().expect("a token");
    assert_eq!(
        free,
        json!({"success": true, "locked_by": "ana", "locked_by_name": "Ana", "locked_at": NOW,
            "expires_at": at(300_000), "expires_in_ms": 300_000, "token": token, "heartbeat_ms": 120_000,
            "server_time": NOW})
    );
    s.pass(1_000);
    let held = json!({"success": false, "locked_by": "ana", "locked_by_name": "Ana", "locked_at": NOW,
        "expires_at": at(300_000), "expires_in_ms": 299_000, "heartbeat_ms": 120_000,
        "server_time": at(1_000)});
    lock(&s, "bea", "acquire", &image).await.is(200, held);
    let again = lock(&s, "ana", "acquire", &image).await.status(200).json();
    assert_eq!((&again["locked_at"], &again["expires_at"]), (&json!(NOW), &json!(at(301_000))));
    assert_eq!(again["token"], token);
}

/// L4: only the own lock is released; a heartbeat of a lost one is 410.
#[tokio::test]
async fn l04_only_the_own_lock_is_released_and_a_lost_one_is_gone() {
    let s = server().await;
    let image = image(&s).await;
    lock(&s, "ana", "acquire", &image).await.status(200);
    let beat = lock(&s, "ana", "heartbeat", &image).await.status(200).json();
    assert_eq!((&beat["success"], &beat["expires_at"]), (&json!(true), &json!(at(300_000))));
    lock(&s, "bea", "release", &image).await.refuses(403, "not_holder", json!({"holder": person("ana")}));
    let lost = json!({"what": "image", "id": image, "holder": person("ana")});
    lock(&s, "bea", "heartbeat", &image).await.refuses(410, "lost", lost);
    s.pass(300_000);
    let over = json!({"reason": "expired", "ended_at": at(300_000), "holder": null});
    lock(&s, "ana", "heartbeat", &image).await.refuses(410, "lost", over);
    lock(&s, "bea", "acquire", &image).await.status(200);
    let taken = json!({"what": "image", "id": image, "holder": person("bea")});
    lock(&s, "ana", "heartbeat", &image).await.refuses(410, "lost", taken);
    lock(&s, "bea", "release", &image).await.is(200, json!({"success": true, "server_time": at(300_000)}));
    lock(&s, "ana", "release", &image).await.refuses(409, "not_held", json!({"item": image}));
}

/// L5: who has which image, by id; expired ones left out.
#[tokio::test]
async fn l05_the_locks_of_a_project_are_those_that_hold() {
    let s = server().await;
    let (one, two) = (image(&s).await, image(&s).await);
    let path = format!("{PROJECT}/locks");
    s.get("vera:viewer", &path).await.is(200, json!({}));
    lock(&s, "ana", "acquire", &one).await.status(200);
    s.pass(100_000);
    lock(&s, "bea", "acquire", &two).await.status(200);
    let locked = |who: &str, name: &str, since| json!({"user_id": who, "user_name": name, "locked_at": at(since), "expires_at": at(since + 300_000)});
    let bea = locked("bea", "Bea", 100_000);
    s.get("vera:viewer", &path).await.is(200, json!({&one: locked("ana", "Ana", 0), &two: bea}));
    s.pass(200_000);
    s.get("vera:viewer", &path).await.is(200, json!({two: bea}));
    s.get("ana", "/api/v1/projects/none/locks").await.code(404, "not_found");
}

/// L6: the list says who has each image, and which is the caller's.
#[tokio::test]
async fn l06_the_list_shows_locks_as_the_caller_sees_them() {
    let s = server().await;
    let one = image(&s).await;
    lock(&s, "ana", "acquire", &one).await.status(200);
    let path = format!("{PROJECT}/images");
    let shown = async |who: &str| s.get(who, &path).await.status(200).json()["images"][0]["lock"].clone();
    let held = |mine| {
        json!({"state": "locked", "locked_by": person("ana"), "locked_at": NOW, "heartbeat_at": NOW,
            "expires_at": at(300_000), "expires_in_ms": 300_000, "mine": mine})
    };
    assert_eq!(shown("ana").await, held(true));
    assert_eq!(shown("bea").await, held(false));
    assert_eq!(s.get("bea", &format!("{path}?locked=false")).await.json()["images"], json!([]));
    s.pass(300_000);
    assert_eq!(shown("bea").await["state"], "free");
}

/// L7: everyone who follows the project hears of a lock and of its end.
#[tokio::test]
async fn l07_a_lock_is_an_event_of_the_project() {
    let s = server().await;
    let one = image(&s).await;
    lock(&s, "ana", "acquire", &one).await.status(200);
    lock(&s, "ana", "release", &one).await.status(200);
    let events = s.get("vera:viewer", "/v1/collections/image/streets/events").await.status(200).json();
    let actions: Vec<_> =
        events["events"].as_array().expect("events").iter().map(|event| &event["type"]).collect();
    assert_eq!(actions[actions.len() - 2..], [&json!("claim_granted"), &json!("claim_released")]);
}

#[tokio::test]
async fn what_is_archived_unknown_or_malformed_is_not_locked() {
    let s = server().await;
    let one = image(&s).await;
    for verb in ["acquire", "release", "heartbeat"] {
        lock(&s, "ana", verb, "image-none").await.code(404, "not_found");
        let path = format!("/api/v1/locks/{verb}");
        let nowhere = json!({"project_id": "none", "image_id": one});
        s.post("ana", &path, nowhere).await.refuses(
            404,
            "not_found",
            json!({"what": "project", "id": "none"}),
        );
        s.post("ana", &path, json!({"project_id": "streets"})).await.invalid("image_id");
        let more = json!({"project_id": "streets", "image_id": one, "ttl": 1});
        s.post("ana", &path, more).await.invalid("ttl");
    }
    patch(&s, "ana", &format!("{PROJECT}/images/{one}"), json!({"status": "archived"})).await.status(200);
    lock(&s, "ana", "acquire", &one).await.code(409, "finished");
}

/// E4: a retried lock gets the first answer, also where that was another's.
#[tokio::test]
async fn e04_a_retried_lock_gets_the_first_answer() {
    let s = server().await;
    let one = image(&s).await;
    lock(&s, "bea", "acquire", &one).await.status(200);
    let body = json!({"project_id": "streets", "image_id": one});
    let call = || Call::new("ana", Method::POST, "/api/v1/locks/acquire").json(&body).key("k-1");
    let first = s.send(call()).await.status(200).json();
    assert_eq!(first["success"], false);
    lock(&s, "bea", "release", &one).await.status(200);
    s.send(call()).await.is(200, first);
}
