//! Reading a request's body: JSON, bounded, unknown fields refused, the wrong field named.

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, Method, StatusCode, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tenure_core::object::Object;

use crate::Problem;
use crate::idempotency::Key;
use crate::limits::{BATCH_BYTES_MAX, BODY_BYTES_MAX, BODY_TIME_MAX};
use crate::params::no_query;
use crate::wording::wrong_field;

/// A JSON body of at most [`BODY_BYTES_MAX`], and the request's idempotency key. An empty body reads as
/// `{}`.
#[derive(Debug)]
pub(crate) struct Body<T> {
    /// What was sent.
    pub(crate) value: T,
    /// The key for a retry.
    pub(crate) key: Option<Key>,
}

/// A batch's bytes, of at most [`BATCH_BYTES_MAX`], to be parsed where they lie, and the idempotency key.
#[derive(Debug)]
pub(crate) struct LargeBody {
    /// What was sent.
    pub(crate) bytes: Bytes,
    /// The key for a retry.
    pub(crate) key: Option<Key>,
}

impl<T: DeserializeOwned> Body<T> {
    /// Of a request whose body was read, and that has no query.
    pub(crate) fn of(
        (method, path): (&Method, &str),
        headers: &HeaderMap,
        bytes: &[u8],
    ) -> Result<Self, Problem> {
        let key = check((method, path), headers, bytes)?;
        Ok(Self { value: parse(bytes, "body")?, key })
    }
}

impl<S: Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _state: &S) -> Result<Self, Problem> {
        let (bytes, key) = read(request, BODY_BYTES_MAX).await?;
        Ok(Self { value: parse(&bytes, "body")?, key })
    }
}

impl<S: Sync> FromRequest<S> for LargeBody {
    type Rejection = Problem;

    async fn from_request(request: Request, _state: &S) -> Result<Self, Problem> {
        let (bytes, key) = read(request, BATCH_BYTES_MAX).await?;
        Ok(Self { bytes, key })
    }
}

async fn read(request: Request, limit: usize) -> Result<(Bytes, Option<Key>), Problem> {
    let (parts, body) = request.into_parts();
    no_query(&parts.uri)?;
    let bytes = match tokio::time::timeout(BODY_TIME_MAX, Limited::new(body, limit).collect()).await {
        Ok(Ok(collected)) => collected.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let detail = format!("the body has more than {limit} bytes");
            return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail));
        }
        Ok(Err(_)) => return Err(Problem::new(StatusCode::BAD_REQUEST, "malformed", "the body broke off")),
        Err(_) => {
            return Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "timeout", "the body took too long"));
        }
    };
    let key = check((&parts.method, parts.uri.path()), &parts.headers, &bytes)?;
    Ok((bytes, key))
}

/// A body must say what it is. Answers the key of its request.
fn check((method, path): (&Method, &str), headers: &HeaderMap, bytes: &[u8]) -> Result<Option<Key>, Problem> {
    let is_json = headers.get(header::CONTENT_TYPE).is_some_and(|value| {
        let essence = value.to_str().unwrap_or("").split(';').next().unwrap_or("").trim();
        essence.eq_ignore_ascii_case("application/json")
    });
    if !bytes.is_empty() && !is_json {
        return Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported_media_type",
            "send application/json",
        ));
    }
    Key::of(method, path, headers, bytes)
}

/// Reads JSON. A syntax error is 400; a wrong or unknown field is 422 that names it, or the `whole`.
pub(crate) fn parse<'de, T: Deserialize<'de>>(bytes: &'de [u8], whole: &str) -> Result<T, Problem> {
    let text: &[u8] = if bytes.is_empty() { b"{}" } else { bytes };
    match serde_json::from_slice(text) {
        Ok(Object(value)) => Ok(value),
        Err(_) => parse_slowly(text, whole),
    }
}

/// The same once more, with an eye on the path: that costs an allocation for each field, which only what
/// is wrong shall pay.
fn parse_slowly<'de, T: Deserialize<'de>>(text: &'de [u8], whole: &str) -> Result<T, Problem> {
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let Object(value) = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let path = error.path().to_string();
        let inner = error.into_inner();
        if inner.is_data() {
            wrong_field(&path, without_place(&inner.to_string()), whole)
        } else if serde_json::from_slice::<serde_json::Value>(text).is_ok() {
            // For one of some words the parser takes a number for no value at all.
            wrong_field(&path, "must be a string", whole)
        } else {
            Problem::new(StatusCode::BAD_REQUEST, "malformed", format!("the {whole} is not JSON: {inner}"))
        }
    })?;
    deserializer.end().map_err(|_| {
        Problem::new(StatusCode::BAD_REQUEST, "malformed", "something follows the JSON value")
    })?;
    Ok(value)
}

/// serde_json appends the place; the field says it better.
pub(crate) fn without_place(message: &str) -> &str {
    message.split(" at line ").next().unwrap_or(message)
}
