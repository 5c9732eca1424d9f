//! BAC Credomatic's cards by PowerTranz's hosted page: card data never comes near this server.
//!
//! ```text
//!  start     POST /spi/sale ─► SP4: a page, and a token that is kept
//!  callback  the browser posts what the page came to; unsigned, so only a signal
//!  confirm   POST /spi/payment with the kept token ─► this is the charge
//!  lookup    GET /transactions/{id}      refund  POST /refund
//! ```

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::http::{HeaderValue, Method, Request, StatusCode, header};
use http_body_util::Full;
use hyper::body::Bytes;
use serde_json::{Map, Value};
use tenure_apps::payments::{
    Account, Asking, Bill, Capabilities, Charge, Field, Mode, Outcome, Provider, Sealed, Signal, Started,
    Trouble,
};
use tenure_apps::{Refusal, Result};

use super::form::field;
use super::wire::{Answer, Extended, HostedPage, Refund, Sale, number};
use crate::net::Network;
use crate::outbound::{Fault, Reach, Remote, Wrong};

const SANDBOX: &str = "https://staging.ptranz.com/api";
const PRODUCTION: &str = "https://gateway.ptranz.com/api";
/// The page of an account that has no set of its own.
const PAGE_SET: &str = "PTZ/Tenure";
const PAGE_NAME: &str = "Pay";
/// The gateway takes a page's result for so long.
const PAGE_MS: i64 = 300_000;
/// One answer: the page is the largest, and is some kilobytes.
const ANSWER_BYTES_MAX: usize = 256 * 1024;
/// ₡50,000,000.00 and less: no raffle's reservation costs more, and a slip of two places is seen.
const MINOR_MAX: i64 = 5_000_000_000;

/// How the gateway is reached.
#[derive(Clone, Debug)]
pub struct PowerTranzSettings {
    /// Instead of the gateway's own addresses.
    pub base: Option<String>,
    /// Certificates, instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// Time to resolve and to connect.
    pub connect_time: Duration,
    /// Time for one answer. Shorter than the lease that covers a charge.
    pub time: Duration,
    /// Networks that are not public and are allowed.
    pub allowed: Vec<Network>,
}

impl Default for PowerTranzSettings {
    fn default() -> Self {
        Self {
            base: None,
            ca_file: None,
            connect_time: Duration::from_secs(5),
            time: Duration::from_secs(30),
            allowed: Vec::new(),
        }
    }
}

/// The connector. Cheap to clone.
#[derive(Clone, Debug)]
pub struct PowerTranz(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    settings: PowerTranzSettings,
    /// Made when first asked: certificates are read for them.
    sandbox: OnceLock<Result<Remote, String>>,
    production: OnceLock<Result<Remote, String>>,
}

impl Default for PowerTranz {
    /// At the gateway's own addresses.
    fn default() -> Self {
        Self::made(PowerTranzSettings::default())
    }
}

impl PowerTranz {
    /// Checks the address that is configured, if one is.
    pub fn new(settings: PowerTranzSettings) -> Result<Self, (&'static str, String)> {
        if let Some(base) = &settings.base {
            Remote::new(base, settings.reach()).map_err(|wrong| match wrong {
                Wrong::Url(reason) => ("gateway_url", reason),
                Wrong::CaFile(reason) => ("gateway_ca_file", reason),
            })?;
        }
        Ok(Self::made(settings))
    }

    fn made(settings: PowerTranzSettings) -> Self {
        let (sandbox, production) = (OnceLock::new(), OnceLock::new());
        Self(Arc::new(Inner { settings, sandbox, production }))
    }
}

impl PowerTranzSettings {
    fn reach(&self) -> Reach {
        Reach {
            ca_file: self.ca_file.clone(),
            connect_time: self.connect_time,
            allowed: self.allowed.clone(),
            allowed_key: "payments.allowed_networks",
        }
    }

    fn base(&self, is_production: bool) -> &str {
        let own = if is_production { PRODUCTION } else { SANDBOX };
        self.base.as_deref().unwrap_or(own)
    }
}

impl Inner {
    fn remote(&self, account: &Account) -> Result<&Remote, Trouble> {
        let is_production = account.text("environment") == "production";
        let cell = if is_production { &self.production } else { &self.sandbox };
        let made = cell.get_or_init(|| {
            let remote = Remote::new(self.settings.base(is_production), self.settings.reach());
            remote.map_err(|wrong| match wrong {
                Wrong::Url(reason) | Wrong::CaFile(reason) => reason,
            })
        });
        made.as_ref().map_err(|reason| Trouble::harmless("misconfigured", reason.clone()))
    }

    /// Asks once; an answer that is no JSON of theirs is trouble.
    async fn ask(
        &self,
        account: &Account,
        (method, path): (Method, &str),
        body: String,
    ) -> Result<Answer, Trouble> {
        let remote = self.remote(account)?;
        let request = request(remote, account, (method, path), body)?;
        let time = self.settings.time;
        let asked = tokio::time::timeout(time, remote.ask(request, ANSWER_BYTES_MAX)).await;
        let late = |_| Trouble::unclear("timeout", format!("no answer within {} ms", time.as_millis()));
        let (status, body) = asked.map_err(late)?.map_err(|fault| match fault {
            Fault::Unreachable { message, is_sent: true } => Trouble::unclear("unreachable", message),
            Fault::Unreachable { message, .. } => Trouble::harmless("unreachable", message),
            Fault::Refused(message) => Trouble::harmless("refused", message),
            Fault::TooLarge => Trouble::unclear("too_large", "the answer is larger than 256 KiB"),
        })?;
        read(status, &body)
    }
}

/// What the gateway answers.
fn read(status: StatusCode, body: &[u8]) -> Result<Answer, Trouble> {
    match status {
        status if status.is_success() => serde_json::from_slice(body)
            .map_err(|_| Trouble::unclear("malformed", "the answer is not what the gateway's are")),
        // It says that it did not take the request.
        StatusCode::BAD_REQUEST
        | StatusCode::UNAUTHORIZED
        | StatusCode::FORBIDDEN
        | StatusCode::NOT_FOUND => Err(Trouble::harmless("status", status.to_string())),
        status => Err(Trouble::unclear("status", status.to_string())),
    }
}

fn request(
    remote: &Remote,
    account: &Account,
    (method, path): (Method, &str),
    body: String,
) -> Result<Request<Full<Bytes>>, Trouble> {
    let secret = |text: &str| {
        let mut value = HeaderValue::try_from(text)
            .map_err(|_| Trouble::harmless("misconfigured", "a credential cannot stand in a header"))?;
        value.set_sensitive(true);
        Ok(value)
    };
    let base = remote.url.path().trim_end_matches('/');
    let request = Request::builder()
        .method(method)
        .uri(format!("{base}{path}"))
        .header(header::HOST, remote.authority())
        .header(header::USER_AGENT, concat!("tenure/", env!("CARGO_PKG_VERSION")))
        .header(header::ACCEPT, "application/json")
        .header(header::CONTENT_TYPE, "application/json")
        .header("PowerTranz-PowerTranzId", secret(account.text("merchant_id"))?)
        .header("PowerTranz-PowerTranzPassword", secret(account.secret("api_key"))?);
    request.body(Full::from(body)).map_err(|error| Trouble::harmless("misconfigured", error.to_string()))
}

impl Provider for PowerTranz {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            mode: Mode::Redirect,
            refund: true,
            lookup: true,
            currencies: &["CRC", "USD"],
            max_minor: MINOR_MAX,
        }
    }

    fn fields(&self) -> &'static [Field] {
        &[
            Field { name: "merchant_id", is_secret: false, is_needed: true },
            Field { name: "api_key", is_secret: true, is_needed: true },
            Field { name: "environment", is_secret: false, is_needed: true },
            Field { name: "page_set", is_secret: false, is_needed: false },
            Field { name: "page_name", is_secret: false, is_needed: false },
            Field { name: "accept_3ds_u", is_secret: false, is_needed: false },
        ]
    }

    fn validate_config(&self, config: &Map<String, Value>) -> Result<()> {
        for (name, value) in config {
            let invalid = |message: &str| Err(Refusal::invalid(format!("config.{name}"), message));
            match (name.as_str(), value) {
                ("accept_3ds_u", Value::Bool(_)) => {}
                ("accept_3ds_u", _) => return invalid("must be true or false"),
                ("environment", Value::String(text)) => match text.as_str() {
                    "sandbox" => {}
                    "production" => {
                        let base = self.0.settings.base(true).to_lowercase();
                        if base.contains("://staging.") || !base.starts_with("https://") {
                            return invalid(
                                "production needs a gateway for real money; the address is not one",
                            );
                        }
                    }
                    _ => return invalid("must be sandbox or production"),
                },
                (_, Value::String(text)) if text.len() <= 100 && text.is_ascii() => {}
                _ => return invalid("must be a text of at most 100 plain characters"),
            }
        }
        Ok(())
    }

    fn start(&self, account: Account, bill: Bill) -> Asking<Started> {
        let inner = self.0.clone();
        Box::pin(async move {
            let or = |text: &str, other: &str| if text.is_empty() { other } else { text }.to_owned();
            let sale = Sale {
                transaction_identifier: bill.number.clone(),
                total_amount: number(bill.amount),
                currency_code: bill.amount.currency.number().to_owned(),
                three_d_secure: true,
                order_identifier: bill.reference.clone(),
                extended_data: Extended {
                    hosted_page: HostedPage {
                        page_set: or(account.text("page_set"), PAGE_SET),
                        page_name: or(account.text("page_name"), PAGE_NAME),
                    },
                    merchant_response_url: bill.callback_url.expose().to_owned(),
                },
            };
            let answer = inner.ask(&account, (Method::POST, "/spi/sale"), json(&sale)?).await?;
            let refused = |answer: &Answer| {
                let code = answer.errors.first().map_or(answer.iso(), |error| &error.code);
                Trouble::harmless("refused", format!("the gateway begins no sale: {}", code_of(code)))
            };
            match (&answer.spi_token, &answer.redirect_data) {
                (Some(token), Some(html)) if answer.iso() == "SP4" => Ok(Started::Page {
                    html: Sealed::new(html.as_str()),
                    handle: Sealed::new(token.as_str()),
                    good_for_ms: PAGE_MS,
                }),
                _ => Err(refused(&answer)),
            }
        })
    }

    fn page_origin(&self, account: &Account) -> Option<String> {
        let is_production = account.text("environment") == "production";
        let base = self.0.settings.base(is_production);
        let (scheme, rest) = base.split_once("://")?;
        let authority = rest.split('/').next()?;
        Some(format!("{scheme}://{authority}"))
    }

    fn parse_callback(&self, account: &Account, raw: &[u8]) -> Result<Signal, Trouble> {
        let malformed = || Trouble::harmless("malformed", "there is no Response of the gateway in the form");
        let response = field(raw, "Response").ok_or_else(malformed)?;
        let answer: Answer = serde_json::from_str(&response).map_err(|_| malformed())?;
        // What it says of approval is not even looked at: anybody could have written it. Nor does its letter
        // alone allow a charge: `confirm` asks for the gateway's own.
        let reason = match answer.iso() {
            "HP0" | "3D0" => unvouched(account, answer.authentication()),
            _ => Some("page_left"),
        };
        Ok(reason.map_or(Signal::Done, |reason| Signal::NotAuthenticated { reason }))
    }

    fn confirm(&self, account: Account, bill: Bill, handle: Sealed) -> Asking<Outcome> {
        let inner = self.0.clone();
        Box::pin(async move {
            // The letter that the browser brought may be anybody's. No answer, no charge.
            let path = format!("/transactions/{}", bill.number);
            let known = inner.ask(&account, (Method::GET, &path), String::new()).await;
            let known = known.map_err(|trouble| Trouble::harmless("not_looked_up", trouble.message))?;
            if let Some(reason) = unvouched(&account, known.authentication()) {
                let reason = Some(reason.to_owned());
                return Ok(Outcome { status: Charge::Declined, txn_id: None, amount: None, reason });
            }
            let body = json(&handle.expose())?;
            let answer = inner.ask(&account, (Method::POST, "/spi/payment"), body).await?;
            if answer.approved.is_none() || answer.iso().is_empty() {
                // An error in a good answer does not say whether the charge was made.
                let code = answer.errors.first().map_or("", |error| &error.code);
                return Err(Trouble::unclear("errors", format!("the gateway says {}", code_of(code))));
            }
            outcome(&answer, &bill)
        })
    }

    fn lookup(&self, account: Account, bill: Bill) -> Asking<Outcome> {
        let inner = self.0.clone();
        Box::pin(async move {
            let path = format!("/transactions/{}", bill.number);
            match inner.ask(&account, (Method::GET, &path), String::new()).await {
                Ok(answer) => outcome(&answer, &bill),
                Err(trouble) if trouble.reason == "status" && trouble.message.starts_with("404") => {
                    Ok(Outcome { status: Charge::Absent, txn_id: None, amount: None, reason: None })
                }
                Err(trouble) => Err(trouble),
            }
        })
    }

    fn refund(&self, account: Account, bill: Bill) -> Asking<()> {
        let inner = self.0.clone();
        Box::pin(async move {
            let refund = Refund {
                gives_back: true,
                transaction_identifier: bill.number.clone(),
                total_amount: number(bill.amount),
                currency_code: bill.amount.currency.number().to_owned(),
            };
            let answer = inner.ask(&account, (Method::POST, "/refund"), json(&refund)?).await?;
            if answer.approved == Some(true) && answer.iso() == "00" {
                return Ok(());
            }
            let code = answer.errors.first().map_or(answer.iso(), |error| &error.code);
            Err(Trouble::harmless("refused", format!("the gateway gives nothing back: {}", code_of(code))))
        })
    }

    fn cancel(&self, _account: Account, _bill: Bill) -> Asking<()> {
        // Nothing is charged before `confirm`, and the page is void by itself after five minutes.
        Box::pin(async { Ok(()) })
    }
}

/// Why nobody may be charged by this letter of the buyer's bank: only a buyer who was known (Y), or whose bank
/// takes the blame (A), is, and an unclear one (U) where the operator accepts that.
fn unvouched(account: &Account, letter: &str) -> Option<&'static str> {
    match letter {
        "Y" | "A" => None,
        "U" if account.config.get("accept_3ds_u") == Some(&Value::Bool(true)) => None,
        "N" => Some("3ds_n"),
        "R" => Some("3ds_r"),
        "U" => Some("3ds_u"),
        _ => Some("3ds_missing"),
    }
}

/// What an answer about this bill says of the charge.
fn outcome(answer: &Answer, bill: &Bill) -> Result<Outcome, Trouble> {
    if answer.transaction_identifier.as_deref() != Some(&bill.number) {
        return Err(Trouble::unclear("malformed", "the answer is about another payment"));
    }
    let status = match (answer.approved, answer.iso()) {
        _ if answer.refunded == Some(true) => Charge::Refunded,
        (Some(true), "00") => Charge::Approved,
        (Some(true), iso) => {
            let message = format!("approved, but with the code {}", code_of(iso));
            return Err(Trouble::unclear("malformed", message));
        }
        // Begun, and on the page; nothing is charged.
        (_, "SP4" | "HP0" | "3D0" | "") => Charge::Absent,
        _ => Charge::Declined,
    };
    let reason = Some(code_of(answer.iso())).filter(|code| !code.is_empty() && status == Charge::Declined);
    Ok(Outcome { status, txn_id: answer.rrn.as_deref().map(code_of), amount: answer.amount(), reason })
}

/// A code of theirs, as it can stand in a document and in a log.
fn code_of(text: &str) -> String {
    text.chars().filter(|c| c.is_ascii_alphanumeric() || "._-".contains(*c)).take(40).collect()
}

fn json(value: &impl serde::Serialize) -> Result<String, Trouble> {
    serde_json::to_string(value).map_err(|error| Trouble::harmless("malformed", error.to_string()))
}
