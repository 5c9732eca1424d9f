//! Who takes the money: the smallest interface that a card gateway and a transfer by hand both fit.
//!
//! What a browser brings back is a [`Signal`], never "paid": it is unsigned, and whoever has the page can
//! write one. Only [`Provider::confirm`] and [`Provider::lookup`], which ask the provider itself, tell an
//! [`Outcome`].

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::{Money, Sealed};
use crate::Result;

/// An answer that takes a while.
pub type Asking<T> = Pin<Box<dyn Future<Output = Result<T, Trouble>> + Send>>;

/// A way to take money. An implementation keeps nothing: what it must remember comes back to it.
pub trait Provider: fmt::Debug + Send + Sync + 'static {
    /// What it can do.
    fn capabilities(&self) -> Capabilities;
    /// The fields of its configuration, of which some are secrets.
    fn fields(&self) -> &'static [Field];
    /// Refuses a field that could not work, by its name. What is missing is not its concern.
    fn validate_config(&self, config: &Map<String, Value>) -> Result<()>;
    /// Begins: a page for the buyer, or what to do by hand. Charges nothing.
    fn start(&self, account: Account, bill: Bill) -> Asking<Started>;
    /// Where its page comes from and sends its forms: `https://host`. Nothing else is allowed on it.
    fn page_origin(&self, _account: &Account) -> Option<String> {
        None
    }
    /// What the buyer's browser brought back.
    fn parse_callback(&self, account: &Account, raw: &[u8]) -> Result<Signal, Trouble>;
    /// Charges what was started. The bill names the amount that must come back.
    fn confirm(&self, account: Account, bill: Bill, handle: Sealed) -> Asking<Outcome>;
    /// What became of it, by its number. Changes nothing.
    fn lookup(&self, account: Account, bill: Bill) -> Asking<Outcome>;
    /// Gives the money back.
    fn refund(&self, account: Account, bill: Bill) -> Asking<()>;
    /// Tells the provider that nobody will pay this. It may have nothing to tell.
    fn cancel(&self, account: Account, bill: Bill) -> Asking<()>;
}

/// How a buyer pays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = PaymentMode)]
pub enum Mode {
    /// On a page of the provider's.
    Redirect,
    /// By a transfer that a person compares with the bank.
    Manual,
}

/// What a provider can do.
#[derive(Clone, Copy, Debug)]
pub struct Capabilities {
    /// How a buyer pays.
    pub mode: Mode,
    /// It gives money back when asked; otherwise a person does.
    pub refund: bool,
    /// It can be asked what became of a payment.
    pub lookup: bool,
    /// What it takes; empty for everything.
    pub currencies: &'static [&'static str],
    /// The largest amount of one payment.
    pub max_minor: i64,
}

/// One field of a provider's configuration.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// It is written and never shown.
    pub is_secret: bool,
    /// Nothing works without it.
    pub is_needed: bool,
}

/// What the operator configured, with the secrets.
#[derive(Clone, Debug)]
pub struct Account {
    /// The fields that are shown.
    pub config: Map<String, Value>,
    /// Those that are not.
    pub secrets: BTreeMap<String, Sealed>,
}

impl Account {
    /// A field's text; empty if it is not there.
    pub fn text(&self, field: &str) -> &str {
        self.config.get(field).and_then(Value::as_str).unwrap_or("")
    }

    /// A secret; empty if it is not there.
    pub fn secret(&self, field: &str) -> &str {
        self.secrets.get(field).map_or("", Sealed::expose)
    }
}

/// What is to be paid.
#[derive(Clone, Debug)]
pub struct Bill {
    /// The payment's number with the provider: a GUID of ours, so that it can be looked up although an
    /// answer was lost.
    pub number: String,
    /// The attempt's id, for the provider's own lists.
    pub reference: String,
    /// A short code that a person can type.
    pub code: String,
    /// How much.
    pub amount: Money,
    /// Where the buyer's browser brings the result. Names a secret.
    pub callback_url: Sealed,
}

/// What a buyer does next.
#[derive(Clone, Debug)]
pub enum Started {
    /// Shown as a page of its own.
    Page {
        /// The page.
        html: Sealed,
        /// What confirms it later.
        handle: Sealed,
        /// How long the provider waits.
        good_for_ms: i64,
    },
    /// Read and carried out elsewhere.
    Instructions(Instructions),
}

/// How to pay by hand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Instructions {
    /// Where to.
    #[schema(example = "8888-0000")]
    pub phone_number: String,
    /// Whose it is: the bank shows it before one pays.
    #[schema(example = "Asociación Ejemplo")]
    pub account_holder: String,
    /// Exactly this much, for people.
    #[schema(example = "₡1,000.00")]
    pub amount: String,
    /// To be written into the transfer's details.
    #[schema(example = "K7Q2MX")]
    pub order_code: String,
}

/// What a browser brought back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signal {
    /// The buyer is through with the page: ask.
    Done,
    /// The buyer's bank does not vouch for the buyer: do not charge.
    NotAuthenticated {
        /// In a word.
        reason: &'static str,
    },
}

/// What the provider says about a payment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What became of it.
    pub status: Charge,
    /// The provider's own number.
    pub txn_id: Option<String>,
    /// How much, if it says so in a way that can be read.
    pub amount: Option<Money>,
    /// The provider's code for why.
    pub reason: Option<String>,
}

/// What became of a charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charge {
    /// The money is taken.
    Approved,
    /// It is not, and will not be.
    Declined,
    /// The provider knows of no charge.
    Absent,
    /// It was taken and given back.
    Refunded,
}

/// No answer, or none that can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// For a program: `timeout`, `status`, `unreachable`, `malformed`, `refused` …
    pub reason: &'static str,
    /// For the log. Never holds a secret.
    pub message: String,
    /// The request never left, or was refused: nothing can have come of it.
    pub is_harmless: bool,
}

impl Trouble {
    /// It may have happened all the same.
    pub fn unclear(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), is_harmless: false }
    }

    /// It did not happen.
    pub fn harmless(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), is_harmless: true }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason, self.message)
    }
}
