//! One buyer of the crowd: a browser with a key, a connection that stays open, and a mind of its own.

use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};
use tenure_apps::raffle::AVAILABLE;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::browser::{encode, form, post};
use crate::crowd::{NUMBERS, Random};
use crate::mixed::{Crowd, Late};

/// How often one buyer asks: first for ten numbers at random, then for one or two that the grid shows as free.
const TRIES: usize = 6;
const APPROVED: &str = "4012000000020071";
/// Approved after the bank has asked for the password.
const CHALLENGED: &str = "4012000000020006";
/// Declined, not vouched for, declined after a challenge.
const DECLINED: [&str; 3] = ["4666666666662222", "4012000000020121", "4111111111110000"];

pub(crate) struct Buyer {
    stream: TcpStream,
    key: String,
    buffer: Vec<u8>,
    crowd: Arc<Crowd>,
    random: Random,
    index: usize,
}

impl Buyer {
    pub(crate) async fn new(crowd: Arc<Crowd>, index: usize, key: String) -> Self {
        let stream = TcpStream::connect(crowd.server.address).await.unwrap();
        Self { stream, key, buffer: Vec::new(), crowd, random: Random(index as u64), index }
    }

    /// Ten numbers at random; if they are taken, one or two that are free; and then whatever a buyer does.
    pub(crate) async fn shop(&mut self) {
        let mut wanted = self.some_of((1..=NUMBERS).collect(), 10);
        for round in 0..TRIES {
            if let Some(reservation) = self.reserve(&wanted, round).await {
                return self.make_up_ones_mind(&reservation).await;
            }
            let free = loop {
                let free = self.free().await;
                if !free.is_empty() {
                    break free;
                }
                // The page shows when something is free again.
                if !self.crowd.wait().await {
                    return;
                }
            };
            let count = 1 + self.random.below(2);
            wanted = self.some_of(free, count);
        }
    }

    fn some_of(&mut self, mut numbers: Vec<u32>, count: usize) -> Vec<u32> {
        for place in 0..count.min(numbers.len()) {
            let other = place + self.random.below(numbers.len() - place);
            numbers.swap(place, other);
        }
        numbers.truncate(count);
        numbers
    }

    async fn reserve(&mut self, numbers: &[u32], round: usize) -> Option<String> {
        let session = format!("tab-{round}");
        let body = json!({"raffle_id": "navidad", "number_ids": numbers, "session_id": session});
        let begun = Instant::now();
        let (status, answer) = self.post("/reservations", &body).await;
        if status == 201 {
            let id = answer["id"].as_str().unwrap().to_owned();
            self.crowd.begun.lock().insert(id.clone(), begun);
            return Some(id);
        }
        if answer["code"] == "held" || answer["code"] == "finished" {
            let unavailable = answer["unavailable"].as_array().unwrap();
            assert!(!unavailable.is_empty(), "{answer}");
            assert!(unavailable.iter().all(|one| numbers.iter().any(|number| one == number)), "{answer}");
        }
        None
    }

    async fn free(&mut self) -> Vec<u32> {
        let (status, answer) = self.ask("GET", "/raffles/navidad/numbers", Some(&Value::Null)).await;
        assert_eq!(status, 200, "{answer}");
        free_of(answer["numbers"].as_str().unwrap())
    }

    async fn make_up_ones_mind(&mut self, reservation: &str) {
        let declined = DECLINED[self.random.below(DECLINED.len())];
        match self.crowd.mind() {
            0..5 => drop(self.post(&format!("/reservations/{reservation}/cancel"), &json!({})).await),
            // Walks away, from selection or from checkout.
            5..7 => {}
            7 => drop(self.post(&format!("/reservations/{reservation}/move-to-checkout"), &json!({})).await),
            8..10 => drop(self.pay_by_card(reservation, declined).await),
            10 => {
                self.pay_by_card(reservation, declined).await;
                self.pay_by_card(reservation, APPROVED).await;
            }
            11..13 => drop(self.pay_by_card(reservation, APPROVED).await),
            13 => {
                self.post(&format!("/reservations/{reservation}/move-to-checkout"), &json!({})).await;
                self.pay_by_card(reservation, CHALLENGED).await;
            }
            14 => self.come_back_late(reservation).await,
            15 => self.change_ones_mind(reservation).await,
            _ => self.transfer(reservation).await,
        }
    }

    async fn pay_by_card(&mut self, reservation: &str, card: &str) -> Option<()> {
        let (path, form) = self.through_the_page(reservation, card).await?;
        let (status, page) = self.send(&path, &form).await;
        // The gateway's own word, told to a person.
        assert!(status >= 400 || page.contains("data-state=\""), "{page}");
        // A second click on the same page, now and then.
        if self.random.below(3) == 0 {
            self.send(&path, &form).await;
        }
        Some(())
    }

    /// To where the gateway sends the browser back: the path and the form.
    async fn through_the_page(&mut self, reservation: &str, card: &str) -> Option<(String, String)> {
        let body = json!({"reservation_id": reservation, "provider": "bac_credomatic"});
        let (status, payment) = self.post("/payments", &body).await;
        // A gateway that does not answer gives no page.
        let url = payment["payment_url"].as_str().filter(|_| status == 201)?;
        let here = format!("http://{}", self.crowd.server.address);
        let (status, page) = self.page("GET", url.strip_prefix(&here).unwrap(), "").await;
        if status != 200 {
            return None;
        }
        let hosted = post(&form(&page).action, "").await;
        let gateway = self.crowd.fake.base().trim_end_matches("/api").to_owned();
        let fields = [("CardNumber".to_owned(), card.to_owned())];
        let mut page = post(&format!("{gateway}{}", form(&hosted).action), &encode(&fields)).await;
        if page.contains("Password") {
            let fields = [("Password".to_owned(), "3ds2".to_owned())];
            page = post(&format!("{gateway}{}", form(&page).action), &encode(&fields)).await;
        }
        let back = form(&page);
        Some((back.action.strip_prefix(&here).unwrap().to_owned(), encode(&back.fields)))
    }

    /// Gives the card, and comes back when everything is long over.
    async fn come_back_late(&mut self, reservation: &str) {
        if let Some((path, form)) = self.through_the_page(reservation, APPROVED).await {
            let due_ms = self.crowd.server.engine.now_ms() + 400_000;
            self.crowd.late.lock().push(Late { due_ms, path, form });
        }
    }

    /// Begins a transfer, gives that up, then the reservation.
    async fn change_ones_mind(&mut self, reservation: &str) {
        let body = json!({"reservation_id": reservation, "provider": "sinpe_movil"});
        let (status, payment) = self.post("/payments", &body).await;
        if status == 201 {
            let id = payment["id"].as_str().unwrap();
            self.post(&format!("/payments/{id}/cancel"), &json!({})).await;
        }
        self.post(&format!("/reservations/{reservation}/cancel"), &json!({})).await;
    }

    async fn transfer(&mut self, reservation: &str) {
        let body = json!({"reservation_id": reservation, "provider": "sinpe_movil"});
        let (status, payment) = self.post("/payments", &body).await;
        if status != 201 {
            return;
        }
        let id = payment["id"].as_str().unwrap();
        let transfer = json!({
            "reference": format!("2026-{:012}", self.index), "payer_phone": format!("6{:07}", self.index),
            "amount_minor": payment["amount_minor"],
        });
        self.post(&format!("/payments/{id}/transfer"), &transfer).await;
    }

    async fn post(&mut self, path: &str, body: &Value) -> (u16, Value) {
        self.ask("POST", path, Some(body)).await
    }

    /// A form from a page, without a key: what the path says is enough.
    pub(crate) async fn send(&mut self, path: &str, form: &str) -> (u16, String) {
        self.page("POST", path, form).await
    }

    async fn page(&mut self, method: &str, path: &str, form: &str) -> (u16, String) {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/x-www-form-urlencoded\r\n\
             content-length: {}\r\n\r\n{form}",
            form.len()
        );
        let (status, body) = self.exchange(&head).await;
        if status >= 400 {
            self.crowd.refused(status, &serde_json::from_str(&body).unwrap());
        }
        (status, body)
    }

    async fn ask(&mut self, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
        let body = body.filter(|body| !body.is_null()).map(Value::to_string).unwrap_or_default();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.key,
            body.len()
        );
        let (status, text) = self.exchange(&request).await;
        let answer = serde_json::from_str(&text).unwrap();
        if status >= 400 {
            self.crowd.refused(status, &answer);
        }
        (status, answer)
    }

    async fn exchange(&mut self, request: &str) -> (u16, String) {
        self.crowd.a_request_begins();
        let begun = Instant::now();
        self.stream.write_all(request.as_bytes()).await.unwrap();
        let answer = self.read().await;
        self.crowd.times.lock().push(begun.elapsed());
        answer
    }

    async fn read(&mut self) -> (u16, String) {
        loop {
            let end = self.buffer.windows(4).position(|four| four == b"\r\n\r\n");
            if let Some(end) = end {
                let head = std::str::from_utf8(&self.buffer[..end]).unwrap().to_lowercase();
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
                let whole = end + 4 + length.trim().parse::<usize>().unwrap();
                if self.buffer.len() >= whole {
                    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
                    let body = String::from_utf8(self.buffer[end + 4..whole].to_vec()).unwrap();
                    self.buffer.drain(..whole);
                    return (status, body);
                }
            }
            let read = self.stream.read_buf(&mut self.buffer).await.unwrap();
            assert!(read > 0, "the server closed a connection");
        }
    }
}

/// The numbers that a grid shows as free.
pub(crate) fn free_of(grid: &str) -> Vec<u32> {
    (1..).zip(grid.bytes()).filter(|(_, cell)| *cell == AVAILABLE).map(|(number, _)| number).collect()
}
