//! R12, R14: what a raffle's page is told.

use serde_json::{Value, json};

use crate::client::{ADMIN, Running, Socket, eventually};

const RAFFLE: &str = "/raffles/navidad/ws";

async fn server() -> Running {
    let server = Running::start().await;
    let raffle =
        json!({"id": "navidad", "title": "Rifa", "numbers": 10, "price_minor": 100_000, "currency": "CRC"});
    let (status, made) = server.http(ADMIN, "POST", "/raffles", &raffle).await;
    assert_eq!(status, 201, "{made}");
    let active = json!({"status": "active"});
    assert_eq!(server.http(ADMIN, "PATCH", "/raffles/navidad", &active).await.0, 200);
    server
}

async fn reserve(server: &Running, key: &str, session: &str, numbers: &[u32]) -> String {
    let body = json!({"raffle_id": "navidad", "number_ids": numbers, "session_id": session});
    let (status, made) = server.http(key, "POST", "/reservations", &body).await;
    assert_eq!(status, 201, "{made}");
    made["id"].as_str().unwrap().to_owned()
}

fn update(number: u32, status: &str, user: Option<&str>) -> Value {
    let mut message = json!({"type": "number_update", "number_id": number, "status": status});
    if let Some(user) = user {
        message["user_id"] = json!(user);
    }
    message
}

/// The next message without its number, and the number.
async fn told(socket: &mut Socket) -> (Value, u64) {
    let mut message = socket.next().await;
    let seq = message.as_object_mut().unwrap().remove("seq").unwrap();
    (message, seq.as_u64().unwrap())
}

#[tokio::test]
async fn r12_updates_reach_every_page_and_say_whose_only_to_whom_it_concerns() {
    let server = server().await;
    let (buyer, _) = server.key("editor").await;
    let (looker, _) = server.key("viewer").await;
    let mut pages = [
        (server.open(&buyer, RAFFLE).await, Some("editor-1")),
        (server.open(&looker, RAFFLE).await, None),
        (server.open(ADMIN, RAFFLE).await, Some("editor-1")),
    ];
    for (page, _) in &mut pages {
        let snapshot = page.next().await;
        assert_eq!((&snapshot["type"], &snapshot["numbers"]), (&json!("snapshot"), &json!("----------")));
        assert_eq!((&snapshot["status"], &snapshot["seq"]), (&json!("active"), &json!(3)));
    }
    let (_, stats) = server.http(&looker, "GET", "/raffles/navidad/ws/stats", &json!({})).await;
    assert_eq!(stats, json!({"connected": 3}));
    let id = reserve(&server, &buyer, "tab", &[2, 3]).await;
    assert_eq!(server.http(&buyer, "POST", &format!("/reservations/{id}/cancel"), &json!({})).await.0, 200);
    reserve(&server, &buyer, "tab", &[4]).await;
    server.clock.advance(900_000);
    server.engine.tick();
    for (page, user) in &mut pages {
        let mut last = 3;
        for expected in [
            update(2, "reserved", *user),
            update(3, "reserved", *user),
            update(2, "available", None),
            update(3, "available", None),
            update(4, "reserved", *user),
            update(4, "available", None),
            json!({"type": "reservation_expired", "number_ids": [4]}),
        ] {
            let (message, seq) = told(page).await;
            assert_eq!(message, expected);
            assert!(seq >= last, "numbers only grow");
            last = seq;
        }
    }
    drop(pages);
    let key = tenure_core::CollectionKey::new("raffle/navidad").unwrap();
    let _ = key;
    let path = "/raffles/navidad/ws/stats";
    for _ in 0..1_000 {
        if server.http(&looker, "GET", path, &json!({})).await.1 == json!({"connected": 0}) {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("the pages are gone");
}

/// R14: whoever comes back with any number that it saw ends up with the same grid.
#[tokio::test]
async fn r14_a_page_that_comes_back_from_any_number_loses_nothing() {
    let server = server().await;
    let (buyer, _) = server.key("editor").await;
    let mut page = server.open(ADMIN, RAFFLE).await;
    page.next().await;
    let id = reserve(&server, &buyer, "tab", &[1, 2, 3]).await;
    let numbers = format!("/reservations/{id}/numbers");
    assert_eq!(server.http(&buyer, "POST", &numbers, &json!({"number_id": 9})).await.0, 200);
    assert_eq!(server.http(&buyer, "DELETE", &format!("{numbers}/2"), &json!({})).await.0, 200);
    assert_eq!(server.http(ADMIN, "PATCH", "/raffles/navidad", &json!({"status": "paused"})).await.0, 200);
    let mut all = Vec::new();
    loop {
        let message = page.next().await;
        all.push(message.clone());
        if message["type"] == "raffle_update" {
            assert_eq!(message["status"], "paused");
            break;
        }
    }
    let apply = |grid: &mut Vec<u8>, message: &Value| {
        if message["type"] == "number_update" {
            let place = usize::try_from(message["number_id"].as_u64().unwrap()).unwrap() - 1;
            grid[place] = if message["status"] == "available" { b'-' } else { b'r' };
        }
    };
    for seen in 0..all.len() {
        let mut grid = b"----------".to_vec();
        all[..=seen].iter().for_each(|message| apply(&mut grid, message));
        let since = all[seen]["seq"].as_u64().unwrap();
        let mut page = server.open(ADMIN, &format!("{RAFFLE}?since={since}&epoch=1")).await;
        if seen + 1 < all.len() {
            loop {
                let message = page.next().await;
                apply(&mut grid, &message);
                if message["type"] == "raffle_update" {
                    break;
                }
            }
        }
        assert_eq!(String::from_utf8(grid).unwrap(), "r-r-----r-", "cut off after message {seen}");
    }
    let mut page = server.open(ADMIN, &format!("{RAFFLE}?since=9999&epoch=1")).await;
    assert_eq!(page.next().await["type"], "resync");
    assert_eq!(page.next().await["numbers"], "r-r-----r-");
}

#[tokio::test]
async fn r12_a_page_says_who_it_is_by_a_ticket_or_its_first_message() {
    let server = server().await;
    let (looker, _) = server.key("viewer").await;
    let ticket = server.ticket(&looker).await;
    let mut page = server.try_open(&format!("{RAFFLE}?ticket={ticket}"), &[]).await.unwrap();
    assert_eq!(page.next().await["type"], "snapshot");
    let mut page = server.try_open(RAFFLE, &[]).await.unwrap();
    page.send(json!({"type": "hello", "key": looker}).to_string()).await;
    assert_eq!(page.next().await["type"], "snapshot");
    let status =
        server.try_open("/raffles/easter/ws", &[("authorization", &format!("Bearer {looker}"))]).await;
    assert_eq!(status.err(), Some(404));
    let mut page = server.try_open(RAFFLE, &[]).await.unwrap();
    page.send(json!({"type": "hello", "key": "tnr_nobody"}).to_string()).await;
    assert_eq!(page.closed().await.0, 4401);
    eventually(|| server.figure("tenure_sockets{sort=\"ws\"}") < 3.0).await;
}
