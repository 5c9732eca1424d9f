//! What a refusal must be, and what it must not tell.

use serde_json::Value;
use tenure_server::CODES;

use crate::world::{ADMIN, SERVER_SECRET};

/// Words of the inside: types, crates, files, debug output, secrets.
const INSIDE: &[&str] = &[
    "serde",
    "tenure_",
    "tokio",
    "hyper",
    "axum",
    "rustc",
    "panicked",
    "::",
    ".rs",
    "src/",
    "Some(",
    "Err(",
    "Ok(",
    "Error(",
    "Option",
    "Result<",
    "Vec<",
    "struct ",
    "enum ",
    "variant",
    "tuple",
    "RawValue",
    "Utf8",
    "u64",
    "i64",
    "u32",
    "i32",
    "u16",
    "usize",
    "newtype",
    "deserial",
    "{:",
    "0x",
    "sqlite",
    ADMIN,
    SERVER_SECRET,
];

/// Checks a problem: its form, its words. What is wrong with it, if anything.
pub(crate) fn problem(status: u64, text: &str) -> Result<(), String> {
    if !(400..500).contains(&status) {
        return Err(format!("answered {status}"));
    }
    let Ok(problem) = serde_json::from_str::<Value>(text) else { return Err("no JSON".to_owned()) };
    let word = |name: &str| problem[name].as_str().unwrap_or_default();
    let code = word("code");
    let Some(known) = CODES.iter().find(|known| known.code == code) else {
        return Err(format!("the code {code} is not in the table"));
    };
    if u64::from(known.status) != status || problem["status"] != status || word("title") != known.title {
        return Err("status and title are not the code's".to_owned());
    }
    let detail = word("detail");
    if detail.len() < 8 || detail.len() > 600 {
        return Err(format!("the detail has {} bytes", detail.len()));
    }
    if code == "invalid" && (word("field").is_empty() || !detail.starts_with(word("field"))) {
        return Err("the field is not named".to_owned());
    }
    told(text)
}

/// Nothing of the inside stands in it.
pub(crate) fn told(text: &str) -> Result<(), String> {
    let folder = env!("CARGO_MANIFEST_DIR");
    match INSIDE.iter().chain([&folder]).find(|inside| tells(text, inside)) {
        Some(inside) => Err(format!("it tells {inside:?}")),
        None => Ok(()),
    }
}

/// The word stands in the text. One of small letters and digits counts only where a word begins: in the middle of a
/// random id it is chance.
fn tells(text: &str, word: &str) -> bool {
    let is_plain = word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let begins = |at: usize| !text[..at].ends_with(|before: char| before.is_ascii_alphanumeric());
    text.match_indices(word).any(|(at, _)| !is_plain || begins(at))
}

#[test]
fn a_random_id_tells_nothing_and_an_address_does() {
    assert_eq!(told("task-01kd0x7q3serde64u64"), Ok(()));
    for text in ["at 0x7ffe12", "a u64 was expected", "serde: no", "core::fmt", "in FromUtf8Error"] {
        assert!(told(text).is_err(), "{text}");
    }
}

/// Every answer of a batch is a refusal.
pub(crate) fn batch(text: &str) -> Result<(), String> {
    let Ok(batch) = serde_json::from_str::<Value>(text) else { return Err("no JSON".to_owned()) };
    let answers = batch["answers"].as_array().ok_or("no answers")?;
    for answer in answers {
        problem(answer["status"].as_u64().unwrap_or(0), &answer["body"].to_string())?;
    }
    Ok(())
}
