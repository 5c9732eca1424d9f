//! `/raffles` and `/reservations`.

mod access;
mod draw;
mod reservations;

use axum::http::Method;
use serde_json::{Value, json};
use tenure_apps::raffle::{Order, Raffles, Seeds};
use tenure_apps::{Desk, Refusal};
use tenure_core::Verb;

use crate::server::{Call, Reply, Server};

/// A server with the open raffle `navidad`: 100 numbers at ₡1,000.00.
pub(crate) async fn server() -> Server {
    let s = Server::new();
    s.post("root", "/raffles", raffle()).await.status(201);
    becomes(&s, "active").await.status(200);
    s
}

fn raffle() -> Value {
    json!({"id": "navidad", "title": "Rifa de Navidad", "numbers": 100, "price_minor": 100_000,
        "currency": "CRC", "draw_at": "2026-12-24T18:00:00Z"})
}

async fn becomes(s: &Server, status: &str) -> Reply {
    let call = Call::new("root", Method::PATCH, "/raffles/navidad");
    s.send(call.json(&json!({"status": status}))).await
}

async fn reserve(s: &Server, who: &str, numbers: &[u32]) -> Reply {
    let tab = format!("tab-of-{who}");
    let body = json!({"raffle_id": "navidad", "number_ids": numbers, "session_id": tab});
    s.post(who, "/reservations", body).await
}

/// Reserved by this person; gives the id.
async fn reserved(s: &Server, who: &str, numbers: &[u32]) -> String {
    let made = reserve(s, who, numbers).await.status(201).json();
    made["id"].as_str().expect("an id").to_owned()
}

/// Paid, as a payment would say.
async fn sell(s: &Server, id: &str) {
    let raffles = Raffles::new(Desk::new(s.engine.clone()), Seeds::new([1; 32]));
    let order: Order = raffles.order(id).expect("reads");
    let plan = || -> Result<Verb, Refusal> { Ok(Verb::Group(raffles.order(id)?.sell()?)) };
    let holder = order.holder().expect("somebody");
    raffles.desk().change(&holder, &order.collection, Desk::OWN_STEP, plan).await.expect("is sold");
}

async fn grid(s: &Server, who: &str) -> String {
    let numbers = s.get(who, "/raffles/navidad/numbers").await.status(200).json();
    numbers["numbers"].as_str().expect("a text").to_owned()
}
