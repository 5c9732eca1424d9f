//! A fake PowerTranz, for tests and for the demonstration: a real HTTP server on this machine that plays the
//! gateway's part, page included, for the gateway's own public test cards. It takes no money and knows no
//! other card.
//!
//! What shall go wrong is switched by [`FakeGateway::set`], or over HTTP by `POST /faults/{name}`.

mod cards;
mod pages;

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use hyper::body::Bytes;
use parking_lot::Mutex;
use serde_json::json;
use tenure_apps::payments::{BAC_CREDOMATIC, Currency, EditProvider, Money, Payments, SINPE_MOVIL};
use tenure_apps::{Actor, Permission};
use tenure_core::Principal;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::form::field;
use super::wire::{Answer, Error, Refund, Risk, Sale, number};
use super::{PowerTranz, PowerTranzSettings};
use crate::net::Network;
use cards::{Card, card};

/// What the demonstration configures; the fake knows no other merchant.
pub const MERCHANT_ID: &str = "77701234";
/// Its password.
pub const API_KEY: &str = "fake-gateway-password";
/// How long a page's result can be charged.
const PAGE_MS: u128 = 300_000;
/// Sales that it remembers: a demonstration is never longer, and a fake must not fill the memory.
const SALES_MAX: usize = 10_000;

/// What goes wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    #[default]
    None,
    /// Sales are answered with 500.
    SaleFails,
    /// Charges are answered with 500, and not made.
    ChargeFails,
    /// Charges are never answered, and not made.
    ChargeHangs,
    /// Charges are answered after half a second.
    ChargeSlow,
    /// Charges are made, and the answer is lost.
    AnswerLost,
    /// Charges are made with another amount.
    WrongAmount,
    /// Charges are made in another currency.
    WrongCurrency,
    /// The page says `Approved`, and the charge is declined.
    ForgedApproval,
    /// Lookups are answered with 500.
    LookupFails,
    /// Refunds are refused.
    RefundFails,
}

impl Fault {
    const ALL: [(&'static str, Self); 11] = [
        ("none", Self::None),
        ("sale_fails", Self::SaleFails),
        ("charge_fails", Self::ChargeFails),
        ("charge_hangs", Self::ChargeHangs),
        ("charge_slow", Self::ChargeSlow),
        ("answer_lost", Self::AnswerLost),
        ("wrong_amount", Self::WrongAmount),
        ("wrong_currency", Self::WrongCurrency),
        ("forged_approval", Self::ForgedApproval),
        ("lookup_fails", Self::LookupFails),
        ("refund_fails", Self::RefundFails),
    ];
}

/// The fake, as long as it runs.
#[derive(Debug)]
pub struct FakeGateway {
    address: SocketAddr,
    world: Shared,
    serving: JoinHandle<()>,
}

type Shared = Arc<Mutex<World>>;

#[derive(Debug, Default)]
struct World {
    origin: String,
    fault: Fault,
    /// By the merchant's number.
    sales: BTreeMap<String, Taken>,
    /// The number, by the page's token.
    tokens: BTreeMap<String, String>,
}

/// One sale, from its beginning.
#[derive(Clone, Debug)]
struct Taken {
    token: String,
    amount: Money,
    order: String,
    response_url: String,
    card: Option<Card>,
    /// The bank's letter, once the buyer was through.
    authentication: Option<&'static str>,
    /// What the charge came to.
    iso: Option<&'static str>,
    charged: Option<Money>,
    charges: usize,
    refunded: Option<Money>,
    begun: std::time::Instant,
}

fn operator() -> tenure_apps::Result<Actor> {
    Ok(Actor::new(Principal::new("demo", "Demonstration")?, [Permission::PaymentsManage]))
}

impl Drop for FakeGateway {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl FakeGateway {
    /// On a free port of this machine.
    pub async fn start() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let world = Shared::default();
        world.lock().origin = format!("http://{address}");
        let router = Router::new()
            .route("/api/spi/sale", post(sale))
            .route("/api/spi/payment", post(payment))
            .route("/api/transactions/{id}", get(transaction))
            .route("/api/refund", post(refund))
            .route("/api/void", post(void))
            .route("/hosted/{token}", post(hosted).get(hosted))
            .route("/hosted/{token}/card", post(give_card))
            .route("/hosted/{token}/challenge", post(challenge))
            .route("/faults/{name}", post(switch))
            .with_state(world.clone());
        let serving = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                tracing::warn!(%error, "the fake gateway has stopped");
            }
        });
        Ok(Self { address, world, serving })
    }

    /// The base for the connector.
    pub fn base(&self) -> String {
        format!("http://{}/api", self.address)
    }

    /// The connector that asks it.
    pub fn connector(&self) -> PowerTranz {
        let allowed = vec![Network::here()];
        let settings =
            PowerTranzSettings { base: Some(self.base()), allowed, ..PowerTranzSettings::default() };
        PowerTranz::new(settings).expect("the fake's own address is good")
    }

    /// Nobody has configured cards for another merchant.
    pub async fn is_ours(&self, payments: &Payments) -> bool {
        let Ok(actor) = operator() else { return false };
        payments.providers(&actor).await.is_ok_and(|list| {
            let cards = list.providers.iter().find(|provider| provider.code == BAC_CREDOMATIC);
            let merchant = cards.and_then(|provider| provider.config.get("merchant_id"));
            merchant.is_none_or(|merchant| merchant == MERCHANT_ID)
        })
    }

    /// Switches cards on against it, and gives transfers a phone that is nobody's, unless they have one.
    pub async fn set_up(&self, payments: &Payments) -> tenure_apps::Result<()> {
        let actor = operator()?;
        let config = json!({"merchant_id": MERCHANT_ID, "api_key": API_KEY, "environment": "sandbox"});
        let edit = |config: &serde_json::Value| EditProvider {
            is_enabled: Some(true),
            config: config.as_object().cloned(),
            ..EditProvider::default()
        };
        payments.edit_provider(&actor, BAC_CREDOMATIC, &edit(&config)).await?;
        let providers = payments.providers(&actor).await?.providers;
        if providers.iter().any(|provider| provider.code == SINPE_MOVIL && !provider.missing.is_empty()) {
            let config = json!({"phone_number": "0000-0000", "account_holder": "Demostración"});
            payments.edit_provider(&actor, SINPE_MOVIL, &edit(&config)).await?;
        }
        Ok(())
    }

    /// From now on this goes wrong.
    pub fn set(&self, fault: Fault) {
        self.world.lock().fault = fault;
    }

    /// How often the merchant's number was charged.
    pub fn charges(&self) -> usize {
        self.world.lock().sales.values().map(|sale| sale.charges).sum()
    }

    /// The sum of what was charged and not given back, in minor units.
    pub fn taken_minor(&self) -> i64 {
        let world = self.world.lock();
        let minor = |money: Option<Money>| money.map_or(0, |money| money.minor);
        world.sales.values().map(|sale| minor(sale.charged) - minor(sale.refunded)).sum()
    }

    /// What was given back, in minor units.
    pub fn refunds(&self) -> Vec<i64> {
        let world = self.world.lock();
        world.sales.values().filter_map(|sale| sale.refunded.map(|money| money.minor)).collect()
    }
}

impl World {
    fn sale_of(&mut self, token: &str) -> Option<&mut Taken> {
        let number = self.tokens.get(token)?;
        self.sales.get_mut(number)
    }
}

fn is_merchant(headers: &HeaderMap) -> bool {
    let is = |name: &str, value: &str| headers.get(name).is_some_and(|found| found == value);
    is("PowerTranz-PowerTranzId", MERCHANT_ID) && is("PowerTranz-PowerTranzPassword", API_KEY)
}

/// An error in a good answer, as the gateway has them.
fn error(code: &str, message: &str) -> Response {
    let error = Error { code: code.to_owned(), message: message.to_owned() };
    Json(Answer { errors: vec![error], ..Answer::default() }).into_response()
}

async fn sale(State(world): State<Shared>, headers: HeaderMap, body: Bytes) -> Response {
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

async fn hosted(State(world): State<Shared>, Path(token): Path<String>) -> Response {
    match world.lock().sale_of(&token) {
        Some(sale) => Html(pages::card(&token, sale.amount)).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

async fn give_card(State(world): State<Shared>, Path(token): Path<String>, body: Bytes) -> Response {
    let mut world = world.lock();
    let is_forged = world.fault == Fault::ForgedApproval;
    let Some(sale) = world.sale_of(&token) else { return StatusCode::NOT_FOUND.into_response() };
    let digits: String = field(&body, "CardNumber").unwrap_or_default().replace([' ', '-'], "");
    let Some(known) = card(&digits) else {
        return Html(pages::unknown_card(&token)).into_response();
    };
    sale.card = Some(known);
    if known.challenges {
        return Html(pages::challenge(&token)).into_response();
    }
    through(sale, known.authentication, is_forged)
}

async fn challenge(State(world): State<Shared>, Path(token): Path<String>, body: Bytes) -> Response {
    let mut world = world.lock();
    let is_forged = world.fault == Fault::ForgedApproval;
    let Some(sale) = world.sale_of(&token) else { return StatusCode::NOT_FOUND.into_response() };
    let is_right = field(&body, "Password").as_deref() == Some("3ds2");
    through(sale, if is_right { "Y" } else { "N" }, is_forged)
}

/// The buyer is through: the page sends the browser back.
fn through(sale: &mut Taken, authentication: &'static str, is_forged: bool) -> Response {
    sale.authentication = Some(authentication);
    let response = pages::response(&sale.token, authentication, is_forged);
    Html(pages::back(&sale.response_url, &response)).into_response()
}

async fn payment(State(world): State<Shared>, headers: HeaderMap, body: Bytes) -> Response {
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
    if fault == Fault::AnswerLost {
        return StatusCode::BAD_GATEWAY.into_response();
    }
    let number = world.tokens.get(&token).cloned().unwrap_or_default();
    answer_about(&world, &number)
}

async fn transaction(State(world): State<Shared>, headers: HeaderMap, Path(id): Path<String>) -> Response {
    if !is_merchant(&headers) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let world = world.lock();
    if world.fault == Fault::LookupFails {
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

async fn refund(State(world): State<Shared>, headers: HeaderMap, body: Bytes) -> Response {
    give_back(&world, &headers, &body)
}

/// Before the day's end a charge is voided rather than refunded; the fake makes no difference.
async fn void(State(world): State<Shared>, headers: HeaderMap, body: Bytes) -> Response {
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

async fn switch(State(world): State<Shared>, Path(name): Path<String>) -> StatusCode {
    match Fault::ALL.iter().find(|(known, _)| *known == name) {
        Some((_, fault)) => {
            world.lock().fault = *fault;
            StatusCode::NO_CONTENT
        }
        None => StatusCode::NOT_FOUND,
    }
}
