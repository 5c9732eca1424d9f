//! Transfers by hand, as between phones with SINPE Móvil: the buyer is told where to send exactly how much,
//! and a person compares what arrived.

use serde_json::{Map, Value};

use super::money::MINOR_MAX;
use super::provider::{
    Account, Asking, Bill, Capabilities, Field, Instructions, Mode, Outcome, Provider, Signal, Started,
    Trouble,
};
use crate::text::title;
use crate::{Refusal, Result};

/// Whose account it is, as the bank shows it.
const HOLDER_BYTES_MAX: usize = 100;

/// The provider that is a person.
#[derive(Clone, Copy, Debug)]
pub struct Transfer;

impl Provider for Transfer {
    fn capabilities(&self) -> Capabilities {
        let mode = Mode::Manual;
        Capabilities { mode, refund: false, lookup: false, currencies: &[], max_minor: MINOR_MAX }
    }

    fn fields(&self) -> &'static [Field] {
        &[
            Field { name: "phone_number", is_secret: false, is_needed: true },
            Field { name: "account_holder", is_secret: false, is_needed: true },
        ]
    }

    fn validate_config(&self, config: &Map<String, Value>) -> Result<()> {
        for (field, value) in config {
            let at = format!("config.{field}");
            let Some(text) = value.as_str() else { return Err(Refusal::invalid(at, "must be a text")) };
            match field.as_str() {
                "phone_number" => {
                    phone(&at, text)?;
                }
                _ => {
                    title(&at, text, HOLDER_BYTES_MAX)?;
                }
            }
        }
        Ok(())
    }

    fn start(&self, account: Account, bill: Bill) -> Asking<Started> {
        let instructions = Instructions {
            phone_number: account.text("phone_number").to_owned(),
            account_holder: account.text("account_holder").to_owned(),
            amount: bill.amount.to_string(),
            order_code: bill.code,
        };
        Box::pin(async move { Ok(Started::Instructions(instructions)) })
    }

    fn parse_callback(&self, _account: &Account, _raw: &[u8]) -> Result<Signal, Trouble> {
        Err(by_hand())
    }

    fn confirm(&self, _account: Account, _bill: Bill, _handle: super::Sealed) -> Asking<Outcome> {
        Box::pin(async { Err(by_hand()) })
    }

    fn lookup(&self, _account: Account, _bill: Bill) -> Asking<Outcome> {
        Box::pin(async { Err(by_hand()) })
    }

    fn refund(&self, _account: Account, _bill: Bill) -> Asking<()> {
        Box::pin(async { Err(by_hand()) })
    }

    fn cancel(&self, _account: Account, _bill: Bill) -> Asking<()> {
        Box::pin(async { Ok(()) })
    }
}

fn by_hand() -> Trouble {
    Trouble::harmless("by_hand", "a person does this")
}

/// A phone's number without what people put in between: 8 to 15 digits, as E.164 has at most.
pub(super) fn phone(field: &str, text: &str) -> Result<String> {
    let digits: String = text.chars().filter(|c| !matches!(c, ' ' | '-' | '.' | '(' | ')' | '+')).collect();
    if (8..=15).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        // With and without the country in front it is the same phone; here numbers have eight digits.
        let own = digits.strip_prefix("506").filter(|rest| rest.len() == 8);
        Ok(own.map_or_else(|| digits.clone(), str::to_owned))
    } else {
        Err(Refusal::invalid(field, "must be a phone number of 8 to 15 digits"))
    }
}
