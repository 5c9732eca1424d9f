//! R20, R22: many buyers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Value, json};
use tenure_apps::raffle::Raffles;
use tenure_apps::{Desk, Refusal};
use tenure_core::{ClaimState, CollectionKey, Event, Fact, Principal, Verb};
use tenure_server::Role;
use tenure_server::config::Config;
use tenure_server::identity::NewKey;
use tenure_store::EventPage;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::client::{ADMIN, Running};

const USERS: usize = 1_000;
const NUMBERS: u32 = 100;
const ROUNDS: usize = 3;
/// After so many requests a minute passes, so that some reservations run out while others are made.
const REQUESTS_PER_MINUTE: usize = 60;
/// Far above what is asked for (200 ms): the buyers, and whatever else is built here meanwhile, share the
/// machine with the server. The figure itself is printed.
const P95_MAX: Duration = Duration::from_secs(5);

pub(crate) async fn server(numbers: u32) -> Running {
    let mut config = Config::default();
    config.limits.connections = 5_000;
    config.limits.connections_per_address = 5_000;
    let server = Running::with(config).await;
    let raffle = json!({"id": "navidad", "title": "Rifa", "numbers": numbers, "price_minor": 100_000,
        "currency": "CRC"});
    assert_eq!(server.http(ADMIN, "POST", "/raffles", &raffle).await.0, 201);
    assert_eq!(server.http(ADMIN, "PATCH", "/raffles/navidad", &json!({"status": "active"})).await.0, 200);
    server
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

/// One buyer's connection, kept open as a browser's is.
struct Buyer {
    stream: TcpStream,
    key: String,
    buffer: Vec<u8>,
    crowd: Arc<Crowd>,
}

struct Crowd {
    server: Running,
    times: Mutex<Vec<Duration>>,
    requests: AtomicUsize,
    refusals: Mutex<BTreeMap<String, usize>>,
}

impl Buyer {
    async fn ask(&mut self, path: &str, body: &Value) -> (u16, Value) {
        let count = self.crowd.requests.fetch_add(1, Ordering::Relaxed);
        if count % REQUESTS_PER_MINUTE == REQUESTS_PER_MINUTE - 1 {
            self.crowd.server.clock.advance(60_000);
        }
        let body = body.to_string();
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.key,
            body.len()
        );
        let begun = Instant::now();
        self.stream.write_all(request.as_bytes()).await.unwrap();
        let (status, body) = self.read().await;
        self.crowd.times.lock().push(begun.elapsed());
        if status >= 400 {
            let code = body["code"].as_str().expect("every refusal names its reason").to_owned();
            *self.crowd.refusals.lock().entry(code).or_default() += 1;
        }
        (status, body)
    }

    async fn read(&mut self) -> (u16, Value) {
        loop {
            let text = String::from_utf8_lossy(&self.buffer).into_owned();
            if let Some((head, body)) = text.split_once("\r\n\r\n") {
                let lower = head.to_lowercase();
                let length = lower.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
                let length: usize = length.trim().parse().unwrap();
                if body.len() >= length {
                    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
                    let value = serde_json::from_str(&body[..length]).unwrap();
                    self.buffer.drain(..head.len() + 4 + length);
                    return (status, value);
                }
            }
            let read = self.stream.read_buf(&mut self.buffer).await.unwrap();
            assert!(read > 0, "the server closed a connection");
        }
    }

    /// Ten numbers at random; then gives up, walks away or pays.
    async fn buy(&mut self, random: &mut Random, round: usize) {
        let mut numbers: Vec<u32> = (1..=NUMBERS).collect();
        for place in 0..10 {
            numbers.swap(place, place + random.below(numbers.len() - place));
        }
        numbers.truncate(10);
        let body =
            json!({"raffle_id": "navidad", "number_ids": numbers, "session_id": format!("tab-{round}")});
        let (status, answer) = self.ask("/reservations", &body).await;
        match status {
            201 => {}
            409 => {
                if answer["code"] == "held" {
                    let unavailable = answer["unavailable"].as_array().unwrap();
                    assert!(!unavailable.is_empty());
                    assert!(unavailable.iter().all(|one| numbers.iter().any(|number| one == number)));
                }
                return;
            }
            other => panic!("{other}: {answer}"),
        }
        let id = answer["id"].as_str().unwrap().to_owned();
        match random.below(10) {
            0..4 => drop(self.ask(&format!("/reservations/{id}/cancel"), &json!({})).await),
            4..6 => {}
            _ => {
                self.ask(&format!("/reservations/{id}/move-to-checkout"), &json!({})).await;
                pay(self.crowd.server.app.raffles(), &id).await;
            }
        }
    }
}

/// What a confirmed payment does. The time may have run out meanwhile.
async fn pay(raffles: &Raffles, id: &str) {
    let order = raffles.order(id).unwrap();
    let plan = || -> Result<Verb, Refusal> { Ok(Verb::Group(raffles.order(id)?.sell()?)) };
    let holder = order.holder().unwrap();
    let paid = raffles.desk().change(&holder, &order.collection, Desk::OWN_STEP, plan).await;
    if let Err(refusal) = paid {
        assert!(matches!(refusal.code(), "wrong_status" | "lost"), "{refusal:?}");
    }
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
async fn r20_a_thousand_buyers_at_once_buy_nothing_twice() {
    let server = server(NUMBERS).await;
    let keys = buyers(&server, USERS).await;
    let crowd = Arc::new(Crowd {
        server,
        times: Mutex::default(),
        requests: AtomicUsize::new(0),
        refusals: Mutex::default(),
    });
    let begun = Instant::now();
    let buyers = keys.into_iter().enumerate().map(|(index, key)| {
        let crowd = crowd.clone();
        tokio::spawn(async move {
            let stream = TcpStream::connect(crowd.server.address).await.unwrap();
            let mut buyer = Buyer { stream, key, buffer: Vec::new(), crowd };
            let mut random = Random(index as u64);
            for round in 0..ROUNDS {
                buyer.buy(&mut random, round).await;
            }
        })
    });
    for buyer in buyers.collect::<Vec<_>>() {
        buyer.await.unwrap();
    }
    let took = begun.elapsed();
    let mut times = std::mem::take(&mut *crowd.times.lock());
    times.sort_unstable();
    let p95 = times[times.len() * 95 / 100];
    let sold = audit(&crowd.server).await;
    println!(
        "R22: {} requests of {USERS} buyers in {took:?}: p50 {:?}, p95 {p95:?}, worst {:?}; {sold} numbers sold; \
         refusals {:?}",
        times.len(),
        times[times.len() / 2],
        times[times.len() - 1],
        crowd.refusals.lock()
    );
    assert!(sold > 0, "somebody buys something");
    assert!(p95 < P95_MAX, "{p95:?}");
}

/// Walks all events: no number is in two hands, none is sold twice, and the money is that of what is sold.
async fn audit(server: &Running) -> usize {
    let key = CollectionKey::new("raffle/navidad").unwrap();
    let EventPage::Events(events) = server.engine.reader().events(&key, 0, usize::MAX).unwrap() else {
        panic!("all events are retained");
    };
    let mut held: BTreeMap<String, u64> = BTreeMap::new();
    let mut sold: BTreeMap<String, String> = BTreeMap::new();
    for sealed in &events {
        let Event { seq, fact, .. } = &sealed.event;
        match fact {
            Fact::Granted(grant) => {
                for item in &grant.items {
                    assert!(!sold.contains_key(item.id.as_str()), "{seq}: {} is sold", item.id);
                    let before = held.insert(item.id.to_string(), *seq);
                    assert_eq!(before, None, "{seq}: {} is in two hands", item.id);
                }
            }
            Fact::Ended(end) => {
                for item in &end.items {
                    assert_eq!(held.remove(item.as_str()), Some(end.claim));
                }
                for completed in &end.writes {
                    assert_eq!(end.reason.state(), ClaimState::Completed);
                    let before = sold.insert(completed.write.id.to_string(), end.holder.id.to_string());
                    assert_eq!(before, None, "{seq}: {} is sold twice", completed.write.id);
                }
            }
            _ => {}
        }
    }
    let (_, raffle) = server.http(ADMIN, "GET", "/raffles/navidad", &json!({})).await;
    assert_eq!(raffle["counts"]["sold"], sold.len());
    let snapshot = server.engine.reader().snapshot(&key).unwrap().unwrap();
    let confirmed = snapshot.items.iter().filter(|item| item.status.as_str() == "confirmed");
    let money: u64 = confirmed
        .map(|item| {
            let data: Value = item.data.as_ref().unwrap().read().unwrap();
            data["price_minor"].as_u64().unwrap() * data["numbers"].as_array().unwrap().len() as u64
        })
        .sum();
    assert_eq!(money, 100_000 * sold.len() as u64, "the money is that of what is sold");
    sold.len()
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
