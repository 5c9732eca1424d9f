//! Payments: who takes the money, and what becomes of it.
//!
//! Read in this order: [`Money`], [`Provider`] (who takes it), `vault` (what nobody may read), `catalog` (which
//! providers there are).

mod catalog;
mod money;
mod provider;
mod transfer;
mod vault;

use std::collections::BTreeMap;
use std::sync::Arc;

use tenure_core::CollectionKey;

pub use catalog::{
    BAC_CREDOMATIC, Choice, ChoiceList, EditProvider, NewProvider, ProviderList, ProviderView, SINPE_MOVIL,
};
pub use money::{Currency, MINOR_MAX, Money};
pub use provider::{
    Account, Asking, Capabilities, Charge, Field, Instructions, Mode, Bill, Outcome, Provider, Signal, Started,
    Trouble,
};
pub use transfer::Transfer;
pub use vault::{FileVault, MemoryVault, Sealed, Vault};

use crate::{Desk, Refusal, Result};

/// Where providers and what counts over all raffles are kept. Of Tenure's own kind, which no general route
/// shows: there are people's phone numbers in it.
const COLLECTION: &str = "tenure/payments";

/// The application.
#[derive(Clone, Debug)]
pub struct Payments {
    desk: Desk,
    collection: CollectionKey,
    till: Till,
}

/// What payments need from outside: gateways, a place for secrets, and where buyers reach this server. Cheap
/// to clone.
#[derive(Clone, Debug)]
pub struct Till {
    connectors: BTreeMap<&'static str, Arc<dyn Provider>>,
    manual: Arc<dyn Provider>,
    vault: Arc<dyn Vault>,
    public_url: Arc<str>,
}

impl Till {
    /// Transfers by hand only. `public_url` is this server's own, without a slash at its end.
    pub fn new(vault: impl Vault, public_url: &str) -> Self {
        Self {
            connectors: BTreeMap::new(),
            manual: Arc::new(Transfer),
            vault: Arc::new(vault),
            public_url: Arc::from(public_url.trim_end_matches('/')),
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
    /// On a desk.
    pub fn new(desk: Desk, till: Till) -> Self {
        let collection = CollectionKey::new(COLLECTION).expect("the collection's key is valid");
        Self { desk, collection, till }
    }

    fn into_vault(&self, name: &str, secret: &Sealed) -> Result<()> {
        self.till.vault.put(name, secret).map_err(|error| {
            tracing::error!(name, %error, "a secret cannot be kept");
            Refusal::Broken
        })
    }

    fn from_vault(&self, name: &str) -> Result<Option<Sealed>> {
        self.till.vault.get(name).map_err(|error| {
            tracing::error!(name, %error, "a secret cannot be read");
            Refusal::Broken
        })
    }
}
