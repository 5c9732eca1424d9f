//! Providers as they are kept, changed and shown.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::Mode;
use crate::{Person, Time};

/// A provider as it is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct ProviderDoc {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) is_enabled: bool,
    pub(super) is_automatic: bool,
    pub(super) priority: u32,
    /// The fields that are shown.
    pub(super) config: Map<String, Value>,
    /// Where the vault keeps those that are not.
    pub(super) secrets: BTreeMap<String, String>,
    /// Who changed it last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) updated_by: Option<Person>,
}

/// A new provider.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"code": "sinpe_norte", "name": "SINPE Móvil (norte)", "is_automatic": false, "priority": 3,
    "config": {"phone_number": "8888-0000", "account_holder": "Asociación Ejemplo"}}))]
pub struct NewProvider {
    /// Unique, for programs.
    #[schema(pattern = "^[A-Za-z0-9._-]{1,64}$")]
    pub code: String,
    /// What buyers read.
    #[schema(min_length = 1, max_length = 100)]
    pub name: String,
    /// A sentence under it.
    #[serde(default)]
    #[schema(max_length = 500)]
    pub description: String,
    /// Buyers can choose it.
    #[serde(default)]
    pub is_enabled: bool,
    /// Confirmed by a program, not by a person.
    pub is_automatic: bool,
    /// Lower ones come first.
    #[schema(minimum = 0, maximum = 1000)]
    pub priority: u32,
    /// By field.
    #[serde(default)]
    #[schema(value_type = Object)]
    pub config: Map<String, Value>,
}

/// What changes; what is absent stays.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"is_enabled": true, "config": {"merchant_id": "77700000", "api_key": "the bank's key"}}))]
pub struct EditProvider {
    /// Buyers can choose it. Payments that run are finished either way.
    pub is_enabled: Option<bool>,
    /// Lower ones come first.
    #[schema(minimum = 0, maximum = 1000)]
    pub priority: Option<u32>,
    /// What buyers read.
    #[schema(min_length = 1, max_length = 100)]
    pub name: Option<String>,
    /// A sentence under it.
    #[schema(max_length = 500)]
    pub description: Option<String>,
    /// By field: `null` takes one away, and what is not named stays, so that a secret can be left out.
    #[schema(value_type = Option<Object>)]
    pub config: Option<Map<String, Value>>,
}

/// A provider, as its operator sees it.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = PaymentProvider)]
pub struct ProviderView {
    /// The same as `code`.
    #[schema(example = "bac_credomatic")]
    pub id: String,
    /// Unique.
    #[schema(example = "bac_credomatic")]
    pub code: String,
    /// What buyers read.
    #[schema(example = "Card")]
    pub name: String,
    /// A sentence under it.
    #[schema(example = "Visa and Mastercard, confirmed at once.")]
    pub description: String,
    /// Buyers can choose it, if nothing is missing.
    pub is_enabled: bool,
    /// Confirmed by a program, not by a person.
    pub is_automatic: bool,
    /// Lower ones come first.
    #[schema(example = 10)]
    pub priority: u32,
    /// By field; a secret that is set reads `********`.
    #[schema(value_type = Object, example = json!({"currency": "CRC", "password": "********"}))]
    pub config: Map<String, Value>,
    /// Fields without which nobody can pay.
    #[schema(example = json!([]))]
    pub missing: Vec<String>,
    /// How often it was changed.
    #[schema(example = 2)]
    pub version: u64,
    /// When it was last changed.
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    pub updated_at: Option<Time>,
    /// Who changed it last.
    #[schema(required = true)]
    pub updated_by: Option<Person>,
}

/// All of them.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = PaymentProviders)]
pub struct ProviderList {
    /// By priority.
    pub providers: Vec<ProviderView>,
    /// The server's time.
    #[schema(value_type = String, format = DateTime)]
    pub server_time: Time,
}

/// A provider, as buyers see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = PaymentChoice)]
pub struct Choice {
    /// To be named in a payment.
    #[schema(example = "sinpe_movil")]
    pub code: String,
    /// What to show.
    #[schema(example = "SINPE Móvil")]
    pub name: String,
    /// A sentence under it.
    #[schema(example = "A transfer from your phone, confirmed by a person.")]
    pub description: String,
    /// On a page of the provider's, or by a transfer.
    pub mode: Mode,
    /// Confirmed by a program, not by a person.
    pub is_automatic: bool,
}

/// What buyers can choose from.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = PaymentChoices)]
pub struct ChoiceList {
    /// By priority.
    pub providers: Vec<Choice>,
}
