//! R1–R11, R23 over HTTP.

use axum::http::Method;
use serde_json::json;

use super::{becomes, grid, raffle, reserve, reserved, sell, server};
use crate::server::{Call, NOW, Server, at};

const CHECKOUT_MS: i64 = 300_000;
const SELECTION_MS: i64 = 600_000;

#[tokio::test]
async fn r01_r05_a_reservation_reads_as_documented() {
    let s = server().await;
    let made = reserve(&s, "ana", &[7, 41, 42]).await.status(201);
    let body = made.json();
    let id = body["id"].as_str().expect("an id").to_owned();
    assert_eq!(made.header("location"), format!("/reservations/{id}"));
    assert_eq!(
        body,
        json!({"id": id, "raffle_id": "navidad", "user_id": "ana", "session_id": "tab-of-ana",
            "numbers": [7, 41, 42], "phase": "selection", "status": "pending", "price_minor": 100_000,
            "total_minor": 300_000, "currency": "CRC", "selection_started_at": NOW,
            "checkout_started_at": null, "expires_at": at(SELECTION_MS), "expires_in_ms": SELECTION_MS,
            "server_time": NOW})
    );
    s.get("ana", &format!("/reservations/{id}")).await.is(200, body.clone());
    let mine = s.get("ana", "/reservations?mine").await.status(200).json();
    assert_eq!(mine["reservations"], json!([body]));
    s.get("ana", "/reservations?mine=no").await.invalid("mine");
    assert_eq!(s.get("bea", "/reservations").await.status(200).json()["reservations"], json!([]));
    reserve(&s, "bea", &[]).await.invalid("number_ids");
    reserve(&s, "bea", &[1, 1]).await.invalid("number_ids[1]");
    reserve(&s, "bea", &[101]).await.invalid("number_ids[0]");
    let eleven: Vec<u32> = (1..=11).collect();
    reserve(&s, "bea", &eleven).await.invalid("number_ids");
}

#[tokio::test]
async fn r02_a_refusal_names_what_was_not_available_and_nobody() {
    let s = server().await;
    reserved(&s, "ana", &[3, 5]).await;
    let refused = reserve(&s, "bea", &[2, 3, 4, 5]).await;
    assert_eq!(refused.header("retry-after"), "600");
    let refused = refused.refuses(409, "held", json!({"unavailable": [3, 5], "retry_after": 600}));
    assert!(!refused.text().to_lowercase().contains("ana"), "{}", refused.text());
    assert_eq!(grid(&s, "bea").await[..6], *"--r-r-");
    sell(&s, &reserved(&s, "root", &[9]).await).await;
    reserve(&s, "bea", &[9]).await.refuses(409, "finished", json!({"unavailable": [9]}));
    // Waiting for the one does not help with the other.
    reserve(&s, "bea", &[3, 9]).await.refuses(409, "finished", json!({"unavailable": [3, 9]}));
}

#[tokio::test]
async fn r03_the_session_gets_its_reservation_back_with_200() {
    let s = server().await;
    let id = reserved(&s, "ana", &[1]).await;
    let again = reserve(&s, "ana", &[2]).await.status(200);
    assert_eq!((again.json()["id"].clone(), again.json()["numbers"].clone()), (json!(id), json!([1])));
    assert_eq!(again.header("location"), "");
    let body = json!({"raffle_id": "navidad", "number_ids": [5], "session_id": "tab-2"});
    let call = || Call::new("ana", Method::POST, "/reservations").json(&body).key("k-1");
    let first = s.send(call()).await.status(201);
    let retry = s.send(call()).await.status(201);
    assert_eq!((first.json(), retry.header("idempotency-replayed")), (retry.json(), "true"));
}

#[tokio::test]
async fn r04_unknown_is_404_and_not_active_is_409() {
    let s = Server::new();
    s.post("root", "/raffles", raffle()).await.status(201);
    reserve(&s, "ana", &[1]).await.refuses(
        409,
        "wrong_status",
        json!({"what": "raffle", "id": "navidad", "item_status": "draft"}),
    );
    let body = json!({"raffle_id": "easter", "number_ids": [1], "session_id": "t"});
    s.post("ana", "/reservations", body).await.refuses(
        404,
        "not_found",
        json!({"what": "raffle", "id": "easter"}),
    );
    s.get("ana", "/raffles/easter").await.code(404, "not_found");
    s.get("ana", "/raffles/easter/numbers").await.code(404, "not_found");
    s.get("ana", "/raffles/easter/ws/stats").await.code(404, "not_found");
    becomes(&s, "active").await.status(200);
    reserve(&s, "ana", &[1]).await.status(201);
}

#[tokio::test]
async fn r06_numbers_are_added_and_removed() {
    let s = server().await;
    let id = reserved(&s, "ana", &[1]).await;
    let numbers = format!("/reservations/{id}/numbers");
    s.pass(1_000);
    let added = s.post("ana", &numbers, json!({"number_id": 2})).await.status(200).json();
    assert_eq!((&added["numbers"], &added["total_minor"]), (&json!([1, 2]), &json!(200_000)));
    assert_eq!(added["expires_at"], at(SELECTION_MS), "set by the first number");
    s.post("ana", &numbers, json!({"number_id": 2})).await.invalid("number_id");
    s.post("ana", &numbers, json!({"number_id": 0})).await.invalid("number_id");
    reserved(&s, "bea", &[9]).await;
    s.post("ana", &numbers, json!({"number_id": 9})).await.code(409, "held");
    let removed = s.delete("ana", &format!("{numbers}/1")).await.status(200).json();
    assert_eq!(removed["numbers"], json!([2]));
    for wrong in ["1", "x", "02", "4294967296"] {
        s.delete("ana", &format!("{numbers}/{wrong}")).await.code(404, "not_found");
    }
    s.delete("ana", &format!("{numbers}/2")).await.invalid("number_id");
    s.pass(SELECTION_MS);
    s.post("ana", &numbers, json!({"number_id": 3})).await.refuses(
        409,
        "wrong_phase",
        json!({"phase": "checkout"}),
    );
}

#[tokio::test]
async fn r07_r08_r09_checkout_by_hand_by_itself_and_its_end() {
    let s = server().await;
    let id = reserved(&s, "ana", &[1, 2]).await;
    let go = format!("/reservations/{id}/move-to-checkout");
    s.pass(1_000);
    let moved = s.post("ana", &go, json!({})).await.status(200).json();
    assert_eq!((&moved["phase"], &moved["expires_in_ms"]), (&json!("checkout"), &json!(CHECKOUT_MS)));
    assert_eq!(moved["checkout_started_at"], at(1_000));
    s.post("ana", &go, json!({})).await.refuses(409, "wrong_phase", json!({"phase": "checkout"}));
    let other = reserved(&s, "bea", &[3]).await;
    s.pass(CHECKOUT_MS);
    let ended = s.get("ana", &format!("/reservations/{id}")).await.status(200).json();
    assert_eq!((&ended["status"], &ended["expires_at"]), (&json!("expired"), &json!(null)));
    s.post("ana", &go, json!({})).await.code(409, "wrong_status");
    s.pass(SELECTION_MS - CHECKOUT_MS);
    let by_itself = s.get("bea", &format!("/reservations/{other}")).await.status(200).json();
    assert_eq!((&by_itself["phase"], &by_itself["expires_in_ms"]), (&json!("checkout"), &json!(CHECKOUT_MS)));
    assert_eq!(grid(&s, "ana").await[..3], *"--r");
}

#[tokio::test]
async fn r10_cancel_frees_at_once() {
    let s = server().await;
    let id = reserved(&s, "ana", &[1, 2]).await;
    let cancel = format!("/reservations/{id}/cancel");
    s.post("bea", &cancel, json!({})).await.code(403, "forbidden");
    let cancelled = s.post("ana", &cancel, json!({})).await.status(200).json();
    assert_eq!((&cancelled["status"], &cancelled["phase"]), (&json!("cancelled"), &json!("ended")));
    s.post("ana", &cancel, json!({})).await.code(409, "wrong_status");
    assert_eq!(grid(&s, "bea").await[..2], *"--");
}

#[tokio::test]
async fn r11_r15_what_is_sold_is_sold_and_the_grid_tells_mine_apart() {
    let s = server().await;
    sell(&s, &reserved(&s, "ana", &[1, 2]).await).await;
    reserved(&s, "ana", &[3]).await;
    assert_eq!(grid(&s, "ana").await[..4], *"bbm-");
    assert_eq!(grid(&s, "bea").await[..4], *"ssr-");
    let raffle = s.get("bea", "/raffles/navidad").await.status(200).json();
    assert_eq!(raffle["counts"], json!({"available": 97, "reserved": 1, "sold": 2}));
    let grid = s.get("bea", "/raffles/navidad/numbers").await.status(200);
    let (etag, seq) = (grid.header("etag").to_owned(), grid.json()["seq"].clone());
    let again = || Call::new("bea", Method::GET, "/raffles/navidad/numbers").header("if-none-match", &etag);
    s.send(again()).await.status(304);
    // The timer ends before any event says so: the characters change, and with them the tag.
    s.pass(SELECTION_MS + CHECKOUT_MS);
    let later = s.send(again()).await.status(200).json();
    assert_eq!(later["numbers"].as_str().expect("a text")[..4], *"ss--");
    assert_eq!(later["seq"], seq);
}

#[tokio::test]
async fn r23_the_sweep_by_hand_answers_the_count() {
    let s = server().await;
    reserved(&s, "ana", &[1, 2]).await;
    reserved(&s, "bea", &[3]).await;
    s.pass(SELECTION_MS + CHECKOUT_MS);
    s.post("root", "/admin/jobs/expire-reservations", json!({})).await.is(200, json!({"expired": 2}));
    s.post("root", "/admin/jobs/expire-reservations", json!({})).await.is(200, json!({"expired": 0}));
}

#[tokio::test]
async fn r24_limits_say_which_and_when_to_come_back() {
    let s = server().await;
    let body =
        |tab: &str, number: u32| json!({"raffle_id": "navidad", "number_ids": [number], "session_id": tab});
    for (tab, number) in [("a", 1), ("b", 2), ("c", 3)] {
        s.post("ana", "/reservations", body(tab, number)).await.status(201);
    }
    s.post("ana", "/reservations", body("d", 4)).await.refuses(
        409,
        "limit",
        json!({"limit": "open_reservations", "max": 3}),
    );
    for _ in 0..6 {
        let id = reserved(&s, "bea", &[50]).await;
        s.post("bea", &format!("/reservations/{id}/cancel"), json!({})).await.status(200);
    }
    let refused = reserve(&s, "bea", &[50]).await;
    assert_eq!(refused.header("retry-after"), "3600");
    refused.refuses(
        429,
        "rate_limited",
        json!({"limit": "abandoned_reservations", "max": 6, "retry_after": 3600}),
    );
}
