//! R20, R24: many buyers.

use std::sync::Arc;

use serde_json::json;
use tenure_core::Principal;
use tenure_server::Role;
use tenure_server::config::Config;
use tenure_server::identity::NewKey;

use crate::client::{ADMIN, Running};

pub(crate) const NUMBERS: u32 = 100;
pub(crate) async fn server(numbers: u32) -> Running {
    let mut config = Config::default();
    config.limits.connections = 5_000;
    config.limits.connections_per_address = 5_000;
    let server = Running::with(config).await;
    open_raffle(&server, numbers).await;
    server
}

pub(crate) async fn open_raffle(server: &Running, numbers: u32) {
    let raffle = json!({"id": "navidad", "title": "Rifa", "numbers": numbers, "price_minor": 100_000,
        "currency": "CRC"});
    assert_eq!(server.http(ADMIN, "POST", "/raffles", &raffle).await.0, 201);
    assert_eq!(server.http(ADMIN, "PATCH", "/raffles/navidad", &json!({"status": "active"})).await.0, 200);
}

/// A key for each of so many buyers.
pub(crate) async fn buyers(server: &Running, count: usize) -> Vec<String> {
    let root = Principal::new("root", "Root").unwrap();
    let mut keys = Vec::new();
    for index in 0..count {
        let subject = Principal::new(format!("u{index}"), format!("User {index}")).unwrap();
        let new = NewKey { name: "test".into(), subject, role: Role::Editor, kinds: None };
        let made = server.app.identity().create_key(&root, new, None).await;
        keys.push(made.map_err(|problem| problem.detail).unwrap().secret.expose().to_owned());
    }
    keys
}

/// A small generator, so that a run can be repeated.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % count as u64).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r20_a_hundred_buyers_on_the_same_three_numbers_over_http() {
    let server = Arc::new(server(NUMBERS).await);
    let asked = buyers(&server, 100).await.into_iter().map(|key| {
        let server = server.clone();
        tokio::spawn(async move {
            let body = json!({"raffle_id": "navidad", "number_ids": [11, 12, 13], "session_id": "tab"});
            server.http(&key, "POST", "/reservations", &body).await
        })
    });
    let mut won = 0;
    for asked in asked.collect::<Vec<_>>() {
        match asked.await.unwrap() {
            (201, _) => won += 1,
            (409, refusal) => {
                let said = (&refusal["code"], &refusal["unavailable"]);
                assert_eq!(said, (&json!("held"), &json!([11, 12, 13])), "{refusal}");
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(won, 1, "and 99 refusals");
}

/// R24: ten reservations a minute, then 429 with the time to wait.
#[tokio::test]
async fn r24_the_eleventh_reservation_in_a_minute_is_refused() {
    let server = server(NUMBERS).await;
    let key = buyers(&server, 2).await;
    let body = |session: &str| json!({"raffle_id": "navidad", "number_ids": [1], "session_id": session});
    for _ in 0..10 {
        let (status, answer) = server.http(&key[0], "POST", "/reservations", &body("tab")).await;
        assert!(status == 201 || status == 200, "{answer}");
    }
    let (status, refusal) = server.http(&key[0], "POST", "/reservations", &body("tab")).await;
    assert_eq!((status, &refusal["code"]), (429, &json!("rate_limited")));
    assert!((1..=6).contains(&refusal["retry_after"].as_u64().unwrap()), "{refusal}");
    let (status, _) = server.http(&key[1], "POST", "/reservations", &body("tab")).await;
    assert_eq!(status, 409, "another buyer is counted apart");
    assert!(server.figure("tenure_raffle_reservations_total{outcome=\"reserved\"}") >= 1.0);
}
