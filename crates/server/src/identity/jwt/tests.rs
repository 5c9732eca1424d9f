//! Tokens, spoiled: as they come, and with the host application's own signature under what is spoiled.

use std::collections::BTreeSet;

use jsonwebtoken::EncodingKey;
use serde_json::json;

use super::*;

const SECRET: &str = "a secret of the host application, long enough";
const NOW_MS: i64 = 1_800_000_000_000;
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

fn jwt() -> Jwt {
    let settings = JwtSettings {
        algorithm: Algorithm::HS256,
        key: Secret::new(SECRET),
        issuer: "https://host.example".to_owned(),
        audience: "tenure".to_owned(),
        name_claim: "name".to_owned(),
        role_claim: "realm.roles".to_owned(),
        roles: [("inventory.manage".to_owned(), Role::Editor), ("boss".to_owned(), Role::Admin)].into(),
        default_role: None,
        kinds_claim: Some("kinds".to_owned()),
    };
    Jwt::new(settings).expect("the settings are right")
}

/// Claims that are accepted.
fn claims() -> [Vec<u8>; 3] {
    let more = |more: Value| {
        let mut claims = json!({
            "sub": "u-7", "iss": "https://host.example", "aud": "tenure", "exp": NOW_MS / 1_000 + 600,
            "realm": {"roles": ["inventory.manage", "unknown"]},
        });
        claims.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        claims.to_string().into_bytes()
    };
    [
        more(json!({"name": "Ana", "kinds": ["task", "lock"]})),
        more(json!({"aud": ["tenure", "other"], "nbf": NOW_MS / 1_000 - 1, "realm": {"roles": "boss"}})),
        more(json!({"exp": 1_800_000_600.5, "kinds": "task lock"})),
    ]
}

fn base64(bytes: &[u8]) -> String {
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let padded = [three[0], three.get(1).copied().unwrap_or(0), three.get(2).copied().unwrap_or(0)];
        let bits = u32::from_be_bytes([0, padded[0], padded[1], padded[2]]);
        let letter = |place: usize| char::from(LETTERS[(bits >> (18 - 6 * place)) as usize & 63]);
        text.extend((0..=three.len()).map(letter));
    }
    text
}

fn signed(header: &[u8], claims: &[u8]) -> String {
    let message = format!("{}.{}", base64(header), base64(claims));
    let key = EncodingKey::from_secret(SECRET.as_bytes());
    let signature = jsonwebtoken::crypto::sign(message.as_bytes(), &key, Alg::HS256).expect("is signed");
    format!("{message}.{signature}")
}

fn refusal(problem: &Problem) -> Result<bool, String> {
    match problem.status.as_u16() {
        401 | 403 if !problem.detail.is_empty() => Ok(false),
        _ => Err(format!("it is refused as {problem:?}")),
    }
}

/// E8, E9
#[test]
fn e9_a_token_that_is_spoiled_anywhere_is_nobodys() {
    let jwt = jwt();
    let corpus = claims().map(|claims| signed(br#"{"typ":"JWT","alg":"HS256"}"#, &claims).into_bytes());
    let whole: BTreeSet<_> = corpus.iter().cloned().collect();
    tenure_spoil::spoiled(&corpus, |bytes| {
        let token = Secret::new(String::from_utf8_lossy(bytes));
        match jwt.caller(&token, NOW_MS, NOW_MS) {
            Ok(_) if whole.contains(bytes) => Ok(true),
            Ok(caller) => Err(format!("it is {caller:?}'s")),
            Err(problem) => refusal(&problem),
        }
    });
}

/// E8, E9: what the host application signs is taken at its word and no further, read by another reader.
#[test]
fn e9_spoiled_claims_under_a_good_signature_name_somebody_or_nobody() {
    let jwt = jwt();
    let judged = tenure_spoil::spoiled(&claims(), |bytes| {
        let token = Secret::new(signed(br#"{"alg":"HS256"}"#, bytes));
        let caller = match jwt.caller(&token, NOW_MS, NOW_MS) {
            Ok(caller) => caller,
            Err(problem) => return refusal(&problem),
        };
        let said: Value = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        let is_for = |said: &Value| {
            *said == "tenure" || said.as_array().is_some_and(|all| all.contains(&"tenure".into()))
        };
        #[expect(clippy::cast_precision_loss, reason = "a time in seconds is far below 2⁵³")]
        let is_late = |said: &Value| {
            said.as_f64().is_none_or(|exp| exp + (JWT_LEEWAY_S as f64) < (NOW_MS / 1_000) as f64)
        };
        if said["iss"] != "https://host.example" || !is_for(&said["aud"]) || is_late(&said["exp"]) {
            return Err(format!("it is taken from another, for another or late: {said}"));
        }
        let roles = said["realm"]["roles"].to_string();
        let is_given = match caller.role {
            Role::Editor => roles.contains("inventory.manage"),
            Role::Admin => roles.contains("boss"),
            _ => false,
        };
        if said["sub"] != caller.principal.id.as_str() || !is_given {
            return Err(format!("it is {caller:?}'s"));
        }
        Ok(true)
    });
    assert!(judged.reaches_both(), "{judged:?}");
}

/// E8, E9: a header that is spoiled asks for another algorithm, for an extension, or for nothing.
#[test]
fn e9_a_spoiled_header_under_a_good_signature_still_means_the_pinned_algorithm() {
    let jwt = jwt();
    let claims = claims();
    let corpus = [r#"{"typ":"JWT","alg":"HS256"}"#, r#"{"alg":"HS256","kid":"k-1","x5t":"a"}"#];
    let judged = tenure_spoil::spoiled(&corpus.map(|header| header.as_bytes().to_vec()), |bytes| {
        match jwt.caller(&Secret::new(signed(bytes, &claims[0])), NOW_MS, NOW_MS) {
            Ok(_) => {
                let said: Value = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
                let is_plain = said["alg"] == "HS256" && said["crit"].is_null();
                if is_plain { Ok(true) } else { Err(format!("{said} is taken")) }
            }
            Err(problem) => refusal(&problem),
        }
    });
    assert!(judged.reaches_both(), "{judged:?}");
}
