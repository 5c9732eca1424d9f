//! How a refusal reads outside: `application/problem+json` (RFC 9457) with a stable `code`. The one place
//! where codes meet status codes.

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};
use tenure_core::Refusal;
use tenure_core::refusal::{Unavailable, Why};
use tenure_engine::Refused;

use crate::codes::code_of;
use crate::fields::{ANSWER_FIELDS, Fields, response};
use crate::time::rfc3339;

/// A refusal on its way out.
#[derive(Clone, Debug)]
pub struct Problem {
    /// The status code.
    pub status: StatusCode,
    /// The stable code.
    pub code: &'static str,
    /// A sentence about this very case.
    pub detail: String,
    /// What a program needs.
    pub more: Map<String, Value>,
    /// Seconds after which trying again makes sense.
    pub retry_after: Option<u64>,
    /// Headers beside those that every problem has.
    pub headers: Vec<(HeaderName, HeaderValue)>,
}

/// A problem's code beside its response, for whoever counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Code(pub(crate) &'static str);

impl Problem {
    /// A problem with nothing more to say.
    pub fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self { status, code, detail: detail.into(), more: Map::new(), retry_after: None, headers: Vec::new() }
    }

    /// A wrong field: 422 that names it.
    pub fn invalid(field: &str, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        let mut problem =
            Self::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", format!("{field}: {detail}"));
        problem.more.insert("field".to_owned(), json!(field));
        problem
    }

    /// Nobody is signed in, or the credentials are worth nothing.
    pub fn unauthenticated(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthenticated", detail)
    }

    /// Signed in, but not allowed.
    pub fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", detail)
    }

    /// No such thing.
    pub fn not_found(what: &str, id: impl std::fmt::Display) -> Self {
        Refusal::not_found(what, id).into()
    }

    /// Our own fault. The cause is logged where it happened; the caller learns only that.
    pub fn internal() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "something went wrong on the server")
    }

    /// Adds what a program needs.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.more.insert(name.to_owned(), value.into());
        self
    }

    /// What the engine refused, at the server's time of that answer.
    pub fn from_refused(refused: &Refused, server_time_ms: i64) -> Self {
        match refused {
            Refused::Rule(refusal) => Self::from_refusal(refusal, server_time_ms),
            Refused::KeyReused => {
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, refused.code(), refused.to_string())
            }
            Refused::InProgress => {
                Self::new(StatusCode::CONFLICT, refused.code(), refused.to_string()).retry(1)
            }
            Refused::NoRoom => {
                Self::new(StatusCode::INSUFFICIENT_STORAGE, refused.code(), refused.to_string()).retry(10)
            }
            Refused::Overloaded | Refused::Away | Refused::Stopped => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, refused.code(), refused.to_string()).retry(1)
            }
        }
    }

    /// The store could not be asked: nobody's fault, and another node may know.
    pub(crate) fn is_away(&self) -> bool {
        self.status == StatusCode::SERVICE_UNAVAILABLE
    }

    /// Of somebody who shows something: it does not say that they are unknown, but that nobody could look, be it that
    /// the store is away or that too much is looked for.
    pub(crate) fn is_unsure(&self) -> bool {
        self.is_away() || self.status == StatusCode::TOO_MANY_REQUESTS
    }

    /// Trying again makes sense after this many seconds.
    #[must_use]
    pub fn retry(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// What the rules refused, at the server's time of that answer.
    pub fn from_refusal(refusal: &Refusal, server_time_ms: i64) -> Self {
        let status = status_of(refusal);
        let mut problem = Self::new(status, refusal.code(), refusal.to_string());
        let more = &mut problem.more;
        match refusal {
            Refusal::Held { items } | Refusal::Finished { items } | Refusal::NotClaimable { items } => {
                more.insert("items".to_owned(), items.iter().map(unavailable).collect());
            }
            Refusal::NotFound { what, id } => {
                more.insert("what".to_owned(), json!(what));
                more.insert("id".to_owned(), json!(id));
            }
            Refusal::Limit { limit, max } => {
                more.insert("limit".to_owned(), json!(limit));
                more.insert("max".to_owned(), json!(max));
            }
            Refusal::Lost { reason, ended_at_ms, holder } => {
                more.insert("reason".to_owned(), json!(reason));
                more.insert("ended_at".to_owned(), json!(rfc3339(*ended_at_ms)));
                more.insert("holder".to_owned(), json!(holder));
            }
            Refusal::NotHolder { holder } => {
                more.insert("holder".to_owned(), json!(holder));
            }
            Refusal::StaleToken { given, current } => {
                more.insert("given".to_owned(), json!(given));
                more.insert("current".to_owned(), json!(current));
            }
            Refusal::Conflict { expected, current } => {
                more.insert("expected_version".to_owned(), json!(expected));
                more.insert("current_version".to_owned(), json!(current));
            }
            Refusal::WrongPhase { phase } => {
                more.insert("phase".to_owned(), json!(phase));
            }
            Refusal::Invalid { field, .. } => {
                more.insert("field".to_owned(), json!(field));
            }
            Refusal::NotHeld { item } => {
                more.insert("item".to_owned(), json!(item));
            }
            Refusal::InGroup { index, refusal } => {
                problem = Self::from_refusal(refusal, server_time_ms);
                problem.more.insert("index".to_owned(), json!(index));
                return problem;
            }
        }
        if let Some(retry_at_ms) = refusal.retry_at_ms() {
            let wait_ms = u64::try_from(retry_at_ms - server_time_ms).unwrap_or(0);
            problem.retry_after = Some(wait_ms.div_ceil(1_000).max(1));
        }
        problem
    }

    /// The body.
    pub fn body(&self) -> Value {
        let mut body = Map::new();
        body.insert("type".to_owned(), json!(format!("/docs/problems#{}", self.code)));
        body.insert("title".to_owned(), json!(title_of(self.code)));
        body.insert("status".to_owned(), json!(self.status.as_u16()));
        body.insert("detail".to_owned(), json!(self.detail));
        body.insert("code".to_owned(), json!(self.code));
        body.extend(self.more.clone());
        if let Some(seconds) = self.retry_after {
            // Also for those who see no headers: a step of a batch, a message on a socket.
            body.insert("retry_after".to_owned(), json!(seconds));
        }
        Value::Object(body)
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        Self::from_refusal(&refusal, 0)
    }
}

impl Problem {
    /// Its headers are put with the others; its status and body are left.
    pub(crate) fn write(self, fields: &mut impl Fields) -> (StatusCode, String) {
        let body = self.body().to_string();
        fields.put(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        fields.put(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(seconds) = self.retry_after {
            fields.put(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        for (name, value) in self.headers {
            fields.put(name, value);
        }
        if self.status == StatusCode::UNAUTHORIZED {
            fields.put(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        (self.status, body)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (code, mut headers) = (self.code, HeaderMap::with_capacity(ANSWER_FIELDS));
        let (status, body) = self.write(&mut headers);
        let mut response = response(status, headers, body);
        response.extensions_mut().insert(Code(code));
        response
    }
}

fn status_of(refusal: &Refusal) -> StatusCode {
    match refusal {
        Refusal::Held { .. }
        | Refusal::Finished { .. }
        | Refusal::NotClaimable { .. }
        | Refusal::Limit { .. }
        | Refusal::Conflict { .. }
        | Refusal::WrongPhase { .. }
        | Refusal::NotHeld { .. } => StatusCode::CONFLICT,
        Refusal::NotFound { .. } => StatusCode::NOT_FOUND,
        Refusal::Lost { .. } => StatusCode::GONE,
        Refusal::NotHolder { .. } | Refusal::StaleToken { .. } => StatusCode::FORBIDDEN,
        Refusal::Invalid { .. } => StatusCode::UNPROCESSABLE_ENTITY,
        Refusal::InGroup { refusal, .. } => status_of(refusal),
    }
}

/// What the code means in general; `detail` speaks of the case.
pub(crate) fn title_of(code: &str) -> &'static str {
    code_of(code).map_or("Something went wrong", |code| code.title)
}

fn unavailable(item: &Unavailable) -> Value {
    let id = &item.item;
    match &item.why {
        Why::Held { holder, session, since_ms, until_ms } => json!({
            "item": id, "why": "held", "holder": holder, "session": session,
            "since": rfc3339(*since_ms), "expires_at": rfc3339(*until_ms),
        }),
        Why::Delayed { holder, until_ms } => json!({
            "item": id, "why": "delayed", "holder": holder, "expires_at": rfc3339(*until_ms),
        }),
        Why::Finished { status } => json!({"item": id, "why": "finished", "status": status}),
        Why::NotClaimable { status } => json!({"item": id, "why": "not_claimable", "status": status}),
    }
}

/// Logs the cause once, where it is handled, and hands the caller a plain 500 or 503.
pub(crate) fn from_store(error: &tenure_engine::StoreError) -> Problem {
    if error.is_fatal() {
        tracing::error!(%error, "a read failed");
        Problem::internal()
    } else {
        Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "away",
            "the store cannot be reached; try again shortly",
        )
        .retry(1)
    }
}
