//! Payments: who takes the money, and what becomes of it.
//!
//! ```text
//!  created ─► requires_action ─► processing ─► succeeded                        (cards)
//!                  │                 └──────► unknown ─ lookups ─► succeeded | failed | pending_review
//!                  └─ transfer told ─► pending_review ─ a person ─► succeeded | failed
//!  unpaid in time, declined, given up ─► expired | failed | canceled
//!  paid, but another amount ─► conflicted
//!  paid, but the numbers are gone ─► paid_unassigned ─► refund_pending ─► refunded | refund_failed
//! ```
//!
//! Read in this order: [`Money`], [`Provider`] (who takes it), `vault` (what nobody may read), `catalog` (which
//! providers there are), `model`, `attempt` (how one takes a step), `start`, `confirm`, `settle`, `told`, `review`.

mod agenda;
mod attempt;
mod catalog;
mod confirm;
mod model;
mod money;
mod offer;
mod provider;
mod read;
mod review;
mod settle;
mod start;
mod told;
mod transfer;
mod vault;

use std::collections::BTreeMap;
use std::sync::Arc;

use tenure_core::{CollectionKey, ItemId, Text};

pub use agenda::PaymentFigures;
pub use catalog::{BAC_CREDOMATIC, SINPE_MOVIL};
pub use confirm::{Page, Returned};
pub use model::{NewPayment, NewTransfer, Payment, PaymentPage, PaymentQuery, State, TransferView};
pub use money::{Currency, MINOR_MAX, Money};
pub use offer::{Choice, ChoiceList, EditProvider, NewProvider, ProviderList, ProviderView};
pub use provider::{
    Account, Asking, Bill, Capabilities, Charge, Field, Instructions, Mode, Outcome, Provider, Signal,
    Started, Trouble,
};
pub use transfer::Transfer;
pub use vault::{FileVault, MemoryVault, Sealed, Vault};

use crate::raffle::Raffles;
use crate::{Desk, Refusal, Result};
use agenda::{Agenda, Figures};

/// Where providers and what counts over all raffles are kept. Of Tenure's own kind, which no general route
/// shows: there are people's phone numbers in it.
const COLLECTION: &str = "tenure/payments";

/// The item is a payment's own.
pub(crate) fn is_own(item: &ItemId) -> bool {
    attempt::ATTEMPTS.has(item.as_str()) || attempt::TABS.has(item.as_str())
}

/// The application.
#[derive(Clone, Debug)]
pub struct Payments {
    desk: Desk,
    collection: CollectionKey,
    raffles: Raffles,
    till: Till,
}

/// What payments need from outside: gateways, a place for secrets, and where buyers reach this server. Cheap
/// to clone.
#[derive(Clone, Debug)]
pub struct Till {
    connectors: BTreeMap<&'static str, Arc<dyn Provider>>,
    manual: Arc<dyn Provider>,
    vault: Arc<dyn Vault>,
    public_url: Text,
    agenda: Arc<Agenda>,
    figures: Arc<Figures>,
}

impl Till {
    /// Transfers by hand only. `public_url` is this server's own, without a slash at its end.
    pub fn new(vault: impl Vault, public_url: &str) -> Self {
        Self {
            connectors: BTreeMap::new(),
            manual: Arc::new(Transfer),
            vault: Arc::new(vault),
            public_url: Text::from(public_url.trim_end_matches('/')),
            agenda: Arc::default(),
            figures: Arc::default(),
        }
    }

    /// Also this gateway, for the provider of this code.
    #[must_use]
    pub fn with(mut self, code: &'static str, connector: impl Provider) -> Self {
        self.connectors.insert(code, Arc::new(connector));
        self
    }
}

impl Payments {
    /// For these raffles.
    pub fn new(raffles: Raffles, till: Till) -> Self {
        let desk = raffles.desk().clone();
        let collection = CollectionKey::new(COLLECTION).expect("the collection's key is valid");
        Self { desk, collection, raffles, till }
    }

    /// Figures for the operator.
    pub fn figures(&self) -> PaymentFigures {
        self.till.figures.read(&self.till.agenda)
    }

    fn keep_secret(&self, name: &str, secret: &Sealed) -> Result<()> {
        self.till.vault.put(name, secret).map_err(|error| {
            tracing::error!(name, %error, "a secret cannot be kept");
            Refusal::Broken
        })
    }

    fn secret_of(&self, name: &str) -> Result<Option<Sealed>> {
        self.till.vault.get(name).map_err(|error| {
            tracing::error!(name, %error, "a secret cannot be read");
            Refusal::Broken
        })
    }
}
