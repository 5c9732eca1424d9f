//! Rows of the database, and of Tenure.

use serde::Serialize;
use serde::de::DeserializeOwned;
use tenure_core::{ClaimState, Collection, Hash, Sealed};
use tokio_postgres::Row;

use crate::Error;

/// The form of `body`, its first byte. A later one is told apart by it.
const FORM: u8 = 1;

pub(super) fn encode(value: &impl Serialize) -> Vec<u8> {
    postcard::to_extend(value, vec![FORM]).expect("a row always encodes")
}

pub(super) fn decode<T: DeserializeOwned>(body: &[u8], what: &str) -> Result<T, Error> {
    let decoded = match body {
        [FORM, body @ ..] => postcard::from_bytes(body).ok(),
        _ => None,
    };
    decoded.ok_or_else(|| damaged(what))
}

pub(super) fn damaged(what: &str) -> Error {
    Error::Corrupt { path: "the database".into(), detail: format!("{what} cannot be read") }
}

/// Numbers of events stay far below the sign.
pub(super) fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn uint(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

pub(super) fn page(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX - 1)
}

pub(super) fn hash(bytes: &[u8]) -> Result<Hash, Error> {
    bytes.try_into().map(Hash).map_err(|_| damaged("a hash"))
}

/// `seq, hash, created_at_ms`, from this column on. A head without events is no collection yet.
pub(super) fn head(row: &Row, from: usize) -> Result<Option<Collection>, Error> {
    let seq = uint(row.get(from));
    if seq == 0 {
        return Ok(None);
    }
    Ok(Some(Collection { seq, hash: hash(row.get(from + 1))?, created_at_ms: row.get(from + 2) }))
}

/// `bytes, hash`, from this column on.
pub(super) fn sealed(row: &Row, from: usize) -> Result<Sealed, Error> {
    let bytes: Vec<u8> = row.get(from);
    let event = postcard::from_bytes(&bytes).map_err(|_| damaged("an event"))?;
    Ok(Sealed { event, bytes, hash: hash(row.get(from + 1))? })
}

/// An index of active claims counts on `Active` being 0.
pub(super) fn state_code(state: ClaimState) -> i16 {
    match state {
        ClaimState::Active => 0,
        ClaimState::Released => 1,
        ClaimState::Completed => 2,
        ClaimState::Expired => 3,
        ClaimState::Cancelled => 4,
        ClaimState::Revoked => 5,
    }
}

/// Ids between lines' ends, which no id has, so that one can be searched for as a text.
pub(super) fn items_text<'a>(ids: impl IntoIterator<Item = &'a str>) -> String {
    let mut text = String::from("\n");
    for id in ids {
        text.push_str(id);
        text.push('\n');
    }
    text
}
