//! Answers and callbacks, spoiled. What they came to is read again by another reader: nothing sells numbers that does not say
//! so itself.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use tenure_apps::payments::{Currency, Money};

use super::*;

const NUMBER: &str = "6f0c2b1e-4a57-4d7a-9d0e-0d6f6f1f2a10";

fn bill() -> Bill {
    let currency = Currency::by_number("188").expect("colones");
    Bill {
        number: NUMBER.to_owned(),
        reference: "pay-1".to_owned(),
        code: "K7Q2".to_owned(),
        amount: Money::new(100_000, currency).expect("an amount"),
        callback_url: Sealed::new("https://rifa.example/back"),
    }
}

/// An answer about the bill, with more in it.
fn answer(more: &str) -> Vec<u8> {
    format!(r#"{{"TransactionIdentifier":"{NUMBER}","TotalAmount":1000.00,"CurrencyCode":"188",{more}}}"#)
        .into_bytes()
}

/// What stands at this path, by another reader. Numbers that nobody asks for may be anything.
fn said(text: &str, path: &[&str]) -> Value {
    match path.split_first() {
        None => serde_json::from_str(text).unwrap_or_default(),
        Some((name, rest)) => {
            let object: BTreeMap<String, Box<RawValue>> = serde_json::from_str(text).unwrap_or_default();
            object.get(*name).map_or(Value::Null, |value| said(value.get(), rest))
        }
    }
}

/// E9: a spoiled answer about a charge is trouble that leaves everything open, or says what it says; it sells nothing by
/// accident, and nothing of it is longer in a document than a code is.
#[test]
fn e9_a_spoiled_answer_sells_nothing_that_it_does_not_say() {
    let corpus = [
        answer(
            r#""Approved":true,"IsoResponseCode":"00","RRN":"412317000123","ResponseMessage":"Transaction is approved""#,
        ),
        answer(r#""Approved":false,"IsoResponseCode":"05","RRN":"412317000124","Errors":[]"#),
        answer(r#""Approved":true,"IsoResponseCode":"00","Refunded":true"#),
        answer(
            r#""IsoResponseCode":"SP4","SpiToken":"t-1","RedirectData":"<html></html>","RiskManagement":{"ThreeDSecure":{"AuthenticationStatus":"Y"}}"#,
        ),
        answer(
            r#""Approved":false,"IsoResponseCode":"96","Errors":[{"Code":"301","Message":"Required merchant id"}]"#,
        ),
    ];
    let bill = bill();
    let judged = tenure_spoil::spoiled(&corpus, |bytes| {
        let outcome = read(StatusCode::OK, bytes).and_then(|answer| outcome(&answer, &bill));
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(Trouble { reason: "malformed", is_harmless: false, .. }) => return Ok(false),
            Err(trouble) => return Err(format!("it is trouble of another sort: {trouble:?}")),
        };
        // What nobody reads need not be text.
        let text = String::from_utf8_lossy(bytes);
        let said = |name| said(&text, &[name]);
        let is_approved =
            said("Approved") == true && said("IsoResponseCode") == "00" && said("Refunded") != true;
        if said("TransactionIdentifier") != NUMBER || (outcome.status == Charge::Approved) != is_approved {
            return Err(format!("it came to {outcome:?}"));
        }
        let is_amount = |amount: Money| {
            let major = said("TotalAmount").as_f64().unwrap_or(f64::NAN);
            #[expect(clippy::cast_precision_loss, reason = "amounts are far below 2⁵³")]
            let minor = amount.minor as f64;
            (major * 100.0 - minor).abs() <= minor * 1e-9 && said("CurrencyCode") == amount.currency.number()
        };
        if outcome.amount.is_some_and(|amount| !is_amount(amount)) {
            return Err(format!("the amount is {:?}", outcome.amount));
        }
        let texts = [&outcome.txn_id, &outcome.reason];
        if texts.into_iter().flatten().any(|text| text.len() > 40 || *text != code_of(text)) {
            return Err(format!("it keeps what is no code: {outcome:?}"));
        }
        Ok(true)
    });
    assert!(judged.reaches_both(), "{judged:?}");
    // Whatever else comes with it, the status alone says whether something can have come of the request.
    let trouble =
        |status| read(status, &corpus[0]).err().map(|trouble| (trouble.reason, trouble.is_harmless));
    assert_eq!(trouble(StatusCode::FORBIDDEN), Some(("status", true)));
    assert_eq!(trouble(StatusCode::BAD_GATEWAY), Some(("status", false)));
}

/// E9: what a browser brings back is a signal that the bank vouches for the buyer only where it says so.
#[test]
fn e9_a_spoiled_callback_vouches_for_nobody() {
    let response = |iso: &str, letter: &str| {
        let secure = format!("%7B%22ThreeDSecure%22%3A%7B%22AuthenticationStatus%22%3A%22{letter}%22%7D%7D");
        format!("SpiToken=t-1&Response=%7B%22IsoResponseCode%22%3A%22{iso}%22%2C%22RiskManagement%22%3A{secure}%7D&x=caf%C3%A9+1")
            .into_bytes()
    };
    let corpus = [response("HP0", "Y"), response("3D0", "A"), response("3D0", "N"), response("HPE", "U")];
    let account = Account { config: Map::new(), secrets: BTreeMap::new() };
    let gateway = PowerTranz::default();
    let judged = tenure_spoil::spoiled(&corpus, |bytes| {
        let signal = match gateway.parse_callback(&account, bytes) {
            Ok(signal) => signal,
            Err(Trouble { reason: "malformed", is_harmless: true, .. }) => return Ok(false),
            Err(trouble) => return Err(format!("it is trouble of another sort: {trouble:?}")),
        };
        let text = field(bytes, "Response").ok_or("there is nothing to be read in it")?;
        let letter = said(&text, &["RiskManagement", "ThreeDSecure", "AuthenticationStatus"]);
        let iso = said(&text, &["IsoResponseCode"]);
        let is_done = (iso == "HP0" || iso == "3D0") && (letter == "Y" || letter == "A");
        if is_done == matches!(signal, Signal::Done) { Ok(true) } else { Err(format!("it is {signal:?}")) }
    });
    assert!(judged.reaches_both(), "{judged:?}");
}
