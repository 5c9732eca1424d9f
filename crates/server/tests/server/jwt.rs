//! Tokens of the host application: what is accepted, and everything that is not.

use std::time::{SystemTime, UNIX_EPOCH};

use jsonwebtoken::{Algorithm as Alg, EncodingKey, Header};
use serde_json::{Value, json};
use tenure_server::Role;
use tenure_server::identity::{Algorithm, JwtSettings, Secret};

use crate::world::{World, no_limits, settings};

const SECRET: &str = "a secret of the host application, long enough";
const RSA: &[u8] = include_bytes!("fixtures/rsa.pem");
const RSA_PUBLIC: &str = include_str!("fixtures/rsa.pub.pem");
const ED: &[u8] = include_bytes!("fixtures/ed25519.pem");
const ED_PUBLIC: &str = include_str!("fixtures/ed25519.pub.pem");

fn jwt(algorithm: Algorithm, key: &str) -> JwtSettings {
    JwtSettings {
        algorithm,
        key: Secret::new(key),
        issuer: "https://host.example".to_owned(),
        audience: "tenure".to_owned(),
        name_claim: "name".to_owned(),
        role_claim: "realm.roles".to_owned(),
        roles: [("inventory.manage".to_owned(), Role::Editor), ("boss".to_owned(), Role::Admin)].into(),
        default_role: None,
        kinds_claim: None,
    }
}

async fn world(jwt: JwtSettings) -> World {
    let mut settings = settings();
    settings.jwt = Some(jwt);
    World::with(settings, no_limits()).await
}

fn now_s() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()).unwrap()
}

fn claims() -> Value {
    json!({
        "sub": "u-7", "name": "Ana", "iss": "https://host.example", "aud": "tenure",
        "exp": now_s() + 600, "realm": {"roles": ["inventory.manage", "unknown"]},
    })
}

fn with(change: &Value) -> Value {
    let mut claims = claims();
    for (name, value) in change.as_object().unwrap() {
        if value.is_null() {
            claims.as_object_mut().unwrap().remove(name);
        } else {
            claims[name] = value.clone();
        }
    }
    claims
}

fn sign(algorithm: Alg, key: &EncodingKey, claims: &Value) -> String {
    jsonwebtoken::encode(&Header::new(algorithm), claims, key).unwrap()
}

fn hs256(claims: &Value) -> String {
    sign(Alg::HS256, &EncodingKey::from_secret(SECRET.as_bytes()), claims)
}

/// For others' tests: how tokens are known, and a good one.
pub(crate) fn settings_of_tokens() -> JwtSettings {
    jwt(Algorithm::HS256, SECRET)
}

pub(crate) fn token() -> String {
    hs256(&claims())
}

#[tokio::test]
async fn e8_each_pinned_algorithm_is_accepted_and_the_others_are_not() {
    let tokens = [
        ("HS256", hs256(&claims())),
        ("RS256", sign(Alg::RS256, &EncodingKey::from_rsa_pem(RSA).unwrap(), &claims())),
        ("EdDSA", sign(Alg::EdDSA, &EncodingKey::from_ed_pem(ED).unwrap(), &claims())),
    ];
    let pinned = [
        ("HS256", jwt(Algorithm::HS256, SECRET)),
        ("RS256", jwt(Algorithm::RS256, RSA_PUBLIC)),
        ("EdDSA", jwt(Algorithm::EdDSA, ED_PUBLIC)),
    ];
    for (name, settings) in pinned {
        let world = world(settings).await;
        for (of, token) in &tokens {
            let reply = world.ask(token, "POST", "/v1/tickets", "").await;
            let expected = if *of == name { "201" } else { "401 unauthenticated" };
            assert_eq!(reply.short(), expected, "{of} where {name} is pinned: {}", reply.text);
        }
    }
}

#[tokio::test]
async fn the_claims_say_who_and_what() {
    let world = world(jwt(Algorithm::HS256, SECRET)).await;
    let who = world.ask(&hs256(&claims()), "GET", "/v1/session", "").await.json();
    assert_eq!(who["subject"], json!({"id": "u-7", "name": "Ana"}));
    assert_eq!((who["role"].as_str(), who["by"].as_str()), (Some("editor"), Some("jwt")));
    let boss = with(&json!({"realm": {"roles": "boss inventory.manage"}}));
    assert_eq!(world.ask(&hs256(&boss), "GET", "/v1/session", "").await.json()["role"], "admin");
}

#[tokio::test]
async fn e8_a_token_that_is_wrong_in_one_way_is_refused() {
    let world = world(jwt(Algorithm::HS256, SECRET)).await;
    let now_s = now_s();
    let cases = [
        ("good", json!({}), "201"),
        ("expired", json!({"exp": now_s - 60}), "401 unauthenticated"),
        ("expired within the leeway", json!({"exp": now_s - 2}), "201"),
        ("expired beyond the leeway", json!({"exp": now_s - 6}), "401 unauthenticated"),
        ("no expiry", json!({"exp": null}), "401 unauthenticated"),
        ("an expiry that is no number", json!({"exp": "tomorrow"}), "401 unauthenticated"),
        ("a negative expiry", json!({"exp": -1}), "401 unauthenticated"),
        ("not yet", json!({"nbf": now_s + 60}), "401 unauthenticated"),
        ("not yet, within the leeway", json!({"nbf": now_s + 3}), "201"),
        ("another audience", json!({"aud": "other"}), "401 unauthenticated"),
        ("one of its audiences", json!({"aud": ["other", "tenure"]}), "201"),
        ("no audience", json!({"aud": null}), "401 unauthenticated"),
        ("another issuer", json!({"iss": "https://evil.example"}), "401 unauthenticated"),
        ("several issuers", json!({"iss": ["https://host.example", "x"]}), "401 unauthenticated"),
        ("no issuer", json!({"iss": null}), "401 unauthenticated"),
        ("no subject", json!({"sub": null}), "401 unauthenticated"),
        ("a subject that is a number", json!({"sub": 7}), "401 unauthenticated"),
        ("the system's name", json!({"sub": "system"}), "401 unauthenticated"),
        ("no role that is known", json!({"realm": {"roles": ["admin"]}}), "403 forbidden"),
        ("no role at all", json!({"realm": null}), "403 forbidden"),
    ];
    for (name, change, expected) in cases {
        let token = hs256(&with(&change));
        let reply = world.ask(&token, "POST", "/v1/tickets", "").await;
        assert_eq!(reply.short(), expected, "{name}: {}", reply.text);
        assert!(!reply.text.contains(&token), "{name}: the token is in the answer");
        // Whoever tries it where it is shown who one is hears the same.
        let who = world.ask(&token, "GET", "/v1/session", "").await;
        if expected == "201" {
            assert_eq!(who.json()["by"], "jwt", "{name}");
        } else {
            assert_eq!(
                (who.short(), &who.json()["detail"]),
                (reply.short(), &reply.json()["detail"]),
                "{name}"
            );
        }
    }
}

#[tokio::test]
async fn a_subject_that_is_no_text_is_called_that() {
    let world = world(jwt(Algorithm::HS256, SECRET)).await;
    let lacks = "the token lacks one of sub, iss, aud and exp";
    let no_text = "the token's sub must be a string";
    let cases = [
        (json!({"sub": 90_210}), no_text),
        (json!({"sub": true}), no_text),
        (json!({"sub": null}), lacks),
        (json!({"aud": null}), lacks),
        (json!({"sub": 90_210, "iss": "https://evil.example"}), "the token's issuer is not trusted"),
    ];
    for (change, expected) in cases {
        let reply = world.ask(&hs256(&with(&change)), "POST", "/v1/tickets", "").await;
        assert_eq!(reply.json()["detail"], expected, "{change}");
        assert!(!reply.text.contains("90210"), "what the token says is not repeated");
    }
}

fn base64(text: &str) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut out = String::new();
    for chunk in text.as_bytes().chunks(3) {
        let bits =
            chunk.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for digit in 0..=chunk.len() {
            out.push(char::from(ALPHABET[(bits >> (18 - 6 * digit) & 63) as usize]));
        }
    }
    out
}

#[tokio::test]
async fn e8_what_a_token_says_of_its_own_algorithm_counts_for_nothing() {
    let world = world(jwt(Algorithm::RS256, RSA_PUBLIC)).await;
    let payload = base64(&claims().to_string());
    let none = format!("{}.{payload}.", base64(r#"{"alg":"none","typ":"JWT"}"#));
    let nothing = format!("{}.{payload}.", base64(r#"{"typ":"JWT"}"#));
    // The public key is public: whoever signs with it as a secret proves nothing.
    let confused = sign(Alg::HS256, &EncodingKey::from_secret(RSA_PUBLIC.as_bytes()), &claims());
    let good = sign(Alg::RS256, &EncodingKey::from_rsa_pem(RSA).unwrap(), &claims());
    let mut parts = good.split('.');
    let (header, body, signature) = (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap());
    let richer = base64(&with(&json!({"realm": {"roles": ["boss"]}})).to_string());
    let mut header_with_crit = Header::new(Alg::RS256);
    header_with_crit.crit = Some(vec!["b64".to_owned()]);
    let crit =
        jsonwebtoken::encode(&header_with_crit, &claims(), &EncodingKey::from_rsa_pem(RSA).unwrap()).unwrap();
    let cases = [
        ("none", none),
        ("no algorithm", nothing),
        ("the public key as a secret", confused),
        ("another payload under the signature", format!("{header}.{richer}.{signature}")),
        ("no signature", format!("{header}.{body}.")),
        ("a sibling of the family", sign(Alg::RS512, &EncodingKey::from_rsa_pem(RSA).unwrap(), &claims())),
        ("an extension that must be understood", crit),
        ("rubbish", "a.b.c".to_owned()),
        ("too large", format!("{}.{}.{}", "a".repeat(3_000), "b".repeat(3_000), "c".repeat(3_000))),
    ];
    for (name, token) in cases {
        let reply = world.ask(&token, "POST", "/v1/tickets", "").await;
        assert_eq!(reply.short(), "401 unauthenticated", "{name}: {}", reply.text);
    }
    assert_eq!(world.ask(&good, "POST", "/v1/tickets", "").await.short(), "201");
}

#[tokio::test]
async fn i19_with_a_kinds_claim_a_token_covers_what_it_names() {
    let mut settings = jwt(Algorithm::HS256, SECRET);
    settings.kinds_claim = Some("kinds".to_owned());
    let world = world(settings).await;
    let named = world.ask(&hs256(&with(&json!({"kinds": ["task"]}))), "GET", "/v1/session", "").await;
    assert_eq!(named.json()["kinds"], json!(["task"]));
    let unnamed = world.ask(&hs256(&claims()), "GET", "/v1/session", "").await;
    assert_eq!(unnamed.json()["kinds"], json!([]));
}

#[tokio::test]
async fn without_configuration_no_token_counts() {
    let world = World::new().await;
    assert_eq!(world.ask(&hs256(&claims()), "POST", "/v1/tickets", "").await.short(), "401 unauthenticated");
}
