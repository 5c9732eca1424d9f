//! Reading a request's body: JSON, bounded, unknown fields refused, the wrong field named.

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::{StatusCode, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::DeserializeOwned;

use crate::Problem;
use crate::idempotency::Key;
use crate::limits::{BATCH_BYTES_MAX, BODY_BYTES_MAX, BODY_TIME_MAX};

/// A JSON body of at most [`BODY_BYTES_MAX`], and the request's idempotency key. An empty body reads as
/// `{}`.
#[derive(Debug)]
pub struct Body<T> {
    /// What was sent.
    pub value: T,
    /// The key for a retry.
    pub key: Option<Key>,
}

/// The same, for a batch.
#[derive(Debug)]
pub struct LargeBody<T>(pub Body<T>);

impl<S: Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _state: &S) -> Result<Self, Problem> {
        read(request, BODY_BYTES_MAX).await
    }
}

impl<S: Sync, T: DeserializeOwned> FromRequest<S> for LargeBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _state: &S) -> Result<Self, Problem> {
        Ok(Self(read(request, BATCH_BYTES_MAX).await?))
    }
}

async fn read<T: DeserializeOwned>(request: Request, limit: usize) -> Result<Body<T>, Problem> {
    let (parts, body) = request.into_parts();
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
    let is_json = parts.headers.get(header::CONTENT_TYPE).is_some_and(|value| {
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
    let key = Key::of(&parts.method, &parts.uri, &parts.headers, &bytes)?;
    Ok(Body { value: parse(&bytes)?, key })
}

/// Reads JSON. A syntax error is 400; a wrong or unknown field is 422 that names it.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &Bytes) -> Result<T, Problem> {
    let text: &[u8] = if bytes.is_empty() { b"{}" } else { bytes };
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let value = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let path = error.path().to_string();
        let inner = error.into_inner();
        if inner.is_data() {
            let field = if path == "." { "body".to_owned() } else { path };
            // serde_json appends the place; the field says it better.
            let detail = inner.to_string();
            let detail = detail.split(" at line ").next().unwrap_or("is wrong").to_owned();
            Problem::invalid(&field, detail)
        } else {
            Problem::new(StatusCode::BAD_REQUEST, "malformed", format!("the body is not JSON: {inner}"))
        }
    })?;
    deserializer.end().map_err(|_| {
        Problem::new(StatusCode::BAD_REQUEST, "malformed", "something follows the JSON value")
    })?;
    Ok(value)
}
