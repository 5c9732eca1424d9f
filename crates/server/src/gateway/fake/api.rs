//! What the fake gateway says to the merchant: sale, charge, lookup, refund.

use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use hyper::body::Bytes;
use tenure_apps::payments::{Currency, Money};

use super::{API_KEY, Fault, MERCHANT_ID, PAGE_MS, SALES_MAX, Shared, Taken, World, pages};
use crate::gateway::wire::{Answer, Error, Refund, Risk, Sale, number};

fn is_merchant(headers: &HeaderMap) -> bool {
    let is = |name: &str, value: &str| headers.get(name).is_some_and(|found| found == value);
    is("PowerTranz-PowerTranzId", MERCHANT_ID) && is("PowerTranz-PowerTranzPassword", API_KEY)
}

/// An error in a good answer, as the gateway has them.
fn error(code: &str, message: &str) -> Response {
    let error = Error { code: code.to_owned(), message: message.to_owned() };
    Json(Answer { errors: vec![error], ..Answer::default() }).into_response()
}

pub(super) async fn sale(State(world): State<Shared>, headers: HeaderMap, body: Bytes) -> Response {
    if !is_merchant(&headers) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let Ok(sale) = serde_json::from_slice::<Sale>(&body) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let amount = Currency::by_number(&sale.currency_code)
        .and_then(|currency| Money::of_major(sale.total_amount.get(), currency));
    let Some(amount) = amount else { return error("51", "the amount cannot be read") };
    let mut random = [0; 32];
    if getrandom::fill(&mut random).is_err() {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    }
    let token = tenure_core::Hash(random).to_string();
    let mut world = world.lock();
    if world.fault == Fault::SaleFails || world.sales.len() >= SALES_MAX {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    }
    if world.sales.contains_key(&sale.transaction_identifier) {
        return error("94", "there is a transaction of this identifier");
    }
    let page = pages::redirect(&format!("{}/hosted/{token}", world.origin));
    world.tokens.insert(token.clone(), sale.transaction_identifier.clone());
    let taken = Taken {
        token: token.clone(),
        amount,
        order: sale.order_identifier,
        response_url: sale.extended_data.merchant_response_url,
        card: None,
        authentication: None,
        iso: None,
        charged: None,
        charges: 0,
        refunded: None,
        begun: std::time::Instant::now(),
    };
    world.sales.insert(sale.transaction_identifier.clone(), taken);
    Json(Answer {
        approved: Some(false),
        iso_response_code: Some("SP4".to_owned()),
        response_message: Some("SPI Preprocessing complete".to_owned()),
        transaction_identifier: Some(sale.transaction_identifier),
        spi_token: Some(token),
        redirect_data: Some(page),
        ..Answer::default()
    })
    .into_response()
}

pub(super) async fn payment(State(world): State<Shared>, headers: HeaderMap, body: Bytes) -> Response {
    if !is_merchant(&headers) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let Ok(token) = serde_json::from_slice::<String>(&body) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let fault = world.lock().fault;
    match fault {
        Fault::ChargeFails => return StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        Fault::ChargeHangs => std::future::pending().await,
        Fault::ChargeSlow => tokio::time::sleep(Duration::from_millis(500)).await,
        _ => {}
    }
    let mut world = world.lock();
    let Some(sale) = world.sale_of(&token) else { return error("55", "there is no such token") };
    if sale.begun.elapsed().as_millis() > PAGE_MS || sale.iso.is_some() {
        return error("56", "the token is over");
    }
    let Some(card) = sale.card.filter(|_| sale.authentication.is_some()) else {
        return error("57", "nobody has given a card");
    };
    let iso = if fault == Fault::ForgedApproval { "05" } else { card.iso };
    sale.iso = Some(iso);
    if iso == "00" {
        let other = Currency::new("USD").unwrap_or(sale.amount.currency);
        sale.charged = Some(match fault {
            Fault::WrongAmount => Money { minor: sale.amount.minor * 100, ..sale.amount },
            Fault::WrongCurrency => Money { currency: other, ..sale.amount },
            _ => sale.amount,
        });
        sale.charges += 1;
    }
    if matches!(fault, Fault::AnswerLost | Fault::Outage) {
        return StatusCode::BAD_GATEWAY.into_response();
    }
    let number = world.tokens.get(&token).cloned().unwrap_or_default();
    answer_about(&world, &number)
}

pub(super) async fn transaction(
    State(world): State<Shared>,
    headers: HeaderMap,
    Path(id): Path<String>,
) -> Response {
    if !is_merchant(&headers) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let world = world.lock();
    let is_charged = world.sales.get(&id).is_some_and(|sale| sale.iso.is_some());
    if world.fault == Fault::LookupFails || world.fault == Fault::Outage && is_charged {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    }
    answer_about(&world, &id)
}

fn answer_about(world: &World, id: &str) -> Response {
    let Some(sale) = world.sales.get(id) else { return StatusCode::NOT_FOUND.into_response() };
    let amount = sale.charged.unwrap_or(sale.amount);
    Json(Answer {
        approved: Some(sale.iso == Some("00")),
        iso_response_code: Some(sale.iso.unwrap_or("SP4").to_owned()),
        transaction_identifier: Some(id.to_owned()),
        order_identifier: Some(sale.order.clone()),
        total_amount: Some(number(amount)),
        currency_code: Some(amount.currency.number().to_owned()),
        rrn: sale.charged.map(|_| format!("R{}", &sale.token[..11])),
        refunded: sale.refunded.map(|_| true),
        risk_management: sale.authentication.map(Risk::of),
        ..Answer::default()
    })
    .into_response()
}

pub(super) async fn refund(State(world): State<Shared>, headers: HeaderMap, body: Bytes) -> Response {
    give_back(&world, &headers, &body)
}

/// Before the day's end a charge is voided rather than refunded; the fake makes no difference.
pub(super) async fn void(State(world): State<Shared>, headers: HeaderMap, body: Bytes) -> Response {
    give_back(&world, &headers, &body)
}

fn give_back(world: &Shared, headers: &HeaderMap, body: &Bytes) -> Response {
    if !is_merchant(headers) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let Ok(refund) = serde_json::from_slice::<Refund>(body) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let mut world = world.lock();
    if world.fault == Fault::RefundFails {
        return error("58", "refunds are not permitted");
    }
    let Some(sale) = world.sales.get_mut(&refund.transaction_identifier) else {
        return error("12", "there is no such transaction");
    };
    let amount = Currency::by_number(&refund.currency_code)
        .and_then(|currency| Money::of_major(refund.total_amount.get(), currency));
    if sale.charged.is_none() || sale.refunded.is_some() || amount.is_none() || amount != sale.charged {
        return error("61", "there is nothing of this amount to give back");
    }
    sale.refunded = amount;
    Json(Answer {
        approved: Some(true),
        iso_response_code: Some("00".to_owned()),
        transaction_identifier: Some(refund.transaction_identifier),
        ..Answer::default()
    })
    .into_response()
}
