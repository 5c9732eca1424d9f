//! What an answer says to whoever asked. What no caller can expect is a failure of the drill, however friendly it reads.

use serde_json::Value;

use crate::Failure;
use crate::history::{Asks, Got, SeenClaim, SeenItem};
use crate::http::Answer;
use crate::time::{last_number, ms};

/// `None`: not an answer to this yet.
pub(crate) fn understood(asks: &Asks, answer: &Answer) -> Option<Result<Got, Failure>> {
    let body = &answer.body;
    let code = body["code"].as_str().unwrap_or_default();
    let got = match (asks, answer.status, code) {
        (Asks::Claim { .. }, 201, _) => last_number(text(body, "id")).map(Got::Claim),
        (Asks::Claim { .. }, 409, "held") => held(body),
        (Asks::Beat(_), 200, _) => beaten(body),
        (Asks::Release(_), 204, _) => Some(Got::Released),
        (Asks::Complete { .. }, 200, _) => (text(body, "state") == "completed").then_some(Got::Completed),
        (Asks::Write { .. }, 200 | 201, _) => body["version"].as_u64().map(Got::Written),
        (Asks::Write { .. }, 409, "conflict") => body["current_version"].as_u64().map(Got::Conflict),
        (Asks::ReadItem(_), 200, _) => item(body).map(Got::Item),
        (Asks::ReadClaim(_), 200, _) => claim(body).map(Got::Seen),
        (_, 410, "lost") => lost(body),
        // Without room nothing is done, and it is said at once.
        (_, 507, _) => Some(Got::Full),
        (_, 503, _) | (_, 409, "in_progress") => return None,
        _ => None,
    };
    Some(got.ok_or_else(|| {
        format!("an answer that no drill expects to {asks:?}: {} {body}", answer.status).into()
    }))
}

fn text<'a>(body: &'a Value, name: &str) -> &'a str {
    body[name].as_str().unwrap_or_default()
}

/// Every item that was refused, each held by somebody.
fn held(body: &Value) -> Option<Got> {
    let one = |item: &Value| {
        let session = item["session"].as_str().filter(|_| text(item, "why") == "held")?;
        Some((item["item"].as_str()?.to_owned(), session.to_owned()))
    };
    body["items"].as_array()?.iter().map(one).collect::<Option<_>>().map(Got::Held)
}

fn lost(body: &Value) -> Option<Got> {
    Some(Got::Lost { reason: body["reason"].as_str()?.to_owned(), ended_at_ms: ms(&body["ended_at"])? })
}

fn beaten(body: &Value) -> Option<Got> {
    let (at_ms, until_ms) = (ms(&body["server_time"])?, ms(&body["expires_at"])?);
    (body["renewed"] == true).then_some(Got::Beaten { at_ms, until_ms })
}

fn item(body: &Value) -> Option<SeenItem> {
    Some(SeenItem {
        version: body["version"].as_u64()?,
        fence: body["fence"].as_u64()?,
        mark: body["data"]["mark"].as_str().map(str::to_owned),
        claim: last_number(text(&body["claim"], "id")),
        at_ms: ms(&body["server_time"])?,
    })
}

fn claim(body: &Value) -> Option<SeenClaim> {
    let ended = match text(body, "state") {
        "active" => None,
        _ => Some((body["reason"].as_str()?.to_owned(), ms(&body["ended_at"])?)),
    };
    Some(SeenClaim { until_ms: ms(&body["expires_at"])?, ended, at_ms: ms(&body["server_time"])? })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn heard(asks: &Asks, status: u16, body: Value) -> Option<Result<Got, Failure>> {
        understood(asks, &Answer { status, body, date: None })
    }

    #[test]
    fn a_refusal_names_every_item_and_whoever_holds_it() {
        let asks = Asks::Claim { session: "s".into(), items: vec!["a".into(), "b".into()] };
        let held = |item: &str, session: &str| json!({"item": item, "why": "held", "session": session});
        let body = json!({"code": "held", "items": [held("a", "s1"), held("b", "s2")]});
        let got = heard(&asks, 409, body).expect("an answer").expect("expected");
        assert_eq!(got, Got::Held(vec![("a".into(), "s1".into()), ("b".into(), "s2".into())]));
        let body = json!({"code": "held", "items": [held("a", "s1"), {"item": "b", "why": "finished"}]});
        assert!(heard(&asks, 409, body).expect("an answer").is_err());
    }

    #[test]
    fn an_end_before_the_release_is_a_loss_and_no_release() {
        let body = json!({"code": "lost", "reason": "expired", "ended_at": "1970-01-01T00:00:01.500Z"});
        let got = heard(&Asks::Release(3), 410, body).expect("an answer").expect("expected");
        assert_eq!(got, Got::Lost { reason: "expired".into(), ended_at_ms: 1_500 });
        assert_eq!(
            heard(&Asks::Release(3), 204, Value::Null).expect("an answer").expect("expected"),
            Got::Released
        );
        assert!(heard(&Asks::Release(3), 409, json!({"code": "expired"})).expect("an answer").is_err());
    }
}
