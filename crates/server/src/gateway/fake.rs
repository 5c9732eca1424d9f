//! A fake PowerTranz, for tests and for the demonstration: a real HTTP server on this machine that plays the
//! gateway's part, page included, for the gateway's own public test cards. It takes no money and knows no
//! other card.
//!
//! What shall go wrong is switched by [`FakeGateway::set`], or over HTTP by `POST /faults/{name}`.

mod api;
mod cards;
mod hosted;
mod pages;

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use parking_lot::Mutex;
use serde_json::json;
use tenure_apps::payments::{BAC_CREDOMATIC, EditProvider, Money, Payments, SINPE_MOVIL};
use tenure_apps::{Actor, Permission};
use tenure_core::Principal;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::{PowerTranz, PowerTranzSettings};
use crate::net::Network;
use cards::Card;

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
    /// Charges are made, and nothing is heard of them: neither their answers nor lookups arrive.
    Outage,
    /// Lookups are answered with 500.
    LookupFails,
    /// Refunds are refused.
    RefundFails,
}

impl Fault {
    const ALL: [(&'static str, Self); 12] = [
        ("none", Self::None),
        ("sale_fails", Self::SaleFails),
        ("charge_fails", Self::ChargeFails),
        ("charge_hangs", Self::ChargeHangs),
        ("charge_slow", Self::ChargeSlow),
        ("answer_lost", Self::AnswerLost),
        ("wrong_amount", Self::WrongAmount),
        ("wrong_currency", Self::WrongCurrency),
        ("forged_approval", Self::ForgedApproval),
        ("outage", Self::Outage),
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
            .route("/api/spi/sale", post(api::sale))
            .route("/api/spi/payment", post(api::payment))
            .route("/api/transactions/{id}", get(api::transaction))
            .route("/api/refund", post(api::refund))
            .route("/api/void", post(api::void))
            .route("/hosted/{token}", post(hosted::show).get(hosted::show))
            .route("/hosted/{token}/card", post(hosted::give_card))
            .route("/hosted/{token}/challenge", post(hosted::challenge))
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

    /// What was charged for an order, as the operator sees it in the gateway's own list.
    pub fn charged(&self, order: &str) -> Option<Money> {
        let world = self.world.lock();
        world.sales.values().find(|sale| sale.order == order)?.charged
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

async fn switch(State(world): State<Shared>, Path(name): Path<String>) -> StatusCode {
    match Fault::ALL.iter().find(|(known, _)| *known == name) {
        Some((_, fault)) => {
            world.lock().fault = *fault;
            StatusCode::NO_CONTENT
        }
        None => StatusCode::NOT_FOUND,
    }
}
