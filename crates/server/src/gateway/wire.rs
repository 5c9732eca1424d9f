//! PowerTranz's messages. Amounts are decimal numbers of major units there: they are written and read by
//! their digits.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tenure_apps::payments::{Currency, Money};

/// Begins a sale.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Sale {
    pub(super) transaction_identifier: String,
    pub(super) total_amount: Box<RawValue>,
    pub(super) currency_code: String,
    pub(super) three_d_secure: bool,
    pub(super) order_identifier: String,
    pub(super) extended_data: Extended,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Extended {
    pub(super) hosted_page: HostedPage,
    pub(super) merchant_response_url: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct HostedPage {
    pub(super) page_set: String,
    pub(super) page_name: String,
}

/// Gives money back.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Refund {
    #[serde(rename = "Refund")]
    pub(super) gives_back: bool,
    pub(super) transaction_identifier: String,
    pub(super) total_amount: Box<RawValue>,
    pub(super) currency_code: String,
}

/// Every answer, and what a browser brings: some of these.
#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Answer {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) approved: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) iso_response_code: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) response_message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) transaction_identifier: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) order_identifier: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) total_amount: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) currency_code: Option<String>,
    #[serde(rename = "RRN", skip_serializing_if = "Option::is_none")]
    pub(super) rrn: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) spi_token: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) redirect_data: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) risk_management: Option<Risk>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) refunded: Option<bool>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) errors: Vec<Error>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Risk {
    pub(super) three_d_secure: Option<ThreeDSecure>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct ThreeDSecure {
    pub(super) authentication_status: Option<String>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Error {
    pub(super) code: String,
    pub(super) message: String,
}

impl Risk {
    /// With the bank's letter.
    pub(super) fn of(letter: &str) -> Self {
        let authentication_status = Some(letter.to_owned());
        Self { three_d_secure: Some(ThreeDSecure { authentication_status }) }
    }
}

impl Answer {
    pub(super) fn iso(&self) -> &str {
        self.iso_response_code.as_deref().unwrap_or("")
    }

    /// What the buyer's bank said of the buyer: one letter.
    pub(super) fn authentication(&self) -> &str {
        let risk = self.risk_management.as_ref().and_then(|risk| risk.three_d_secure.as_ref());
        risk.and_then(|secure| secure.authentication_status.as_deref()).unwrap_or("")
    }

    /// How much, if it says so in a way that can be read.
    pub(super) fn amount(&self) -> Option<Money> {
        let currency = Currency::by_number(self.currency_code.as_deref()?)?;
        Money::of_major(self.total_amount.as_deref()?.get(), currency)
    }
}

/// `1000.00`, as a number.
pub(super) fn number(amount: Money) -> Box<RawValue> {
    RawValue::from_string(amount.major()).expect("digits and a point are a number")
}
