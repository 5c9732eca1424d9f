//! What an answer of the engine reads like: a status, a body, a few headers. Made of the answer and the
//! question alone, so that a repeated request reads the same byte for byte.

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tenure_core::command::How;
use tenure_core::{ClaimId, Refusal, Reply};
use tenure_engine::{Answer, Reader, Refused};

use super::{Op, Question, Stated};
use crate::Problem;
use crate::fields::{ANSWER_FIELDS, Fields, response};
use crate::time::Stamp;
use crate::view::{BeatView, ClaimView, CollectionView, DocumentView, FreedView};

const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// An answer on its way out.
#[derive(Debug)]
pub(crate) struct Rendered {
    /// The status code.
    pub(crate) status: StatusCode,
    /// The JSON; none for 204.
    pub(crate) body: Option<String>,
    /// The item's version, as its `ETag`.
    pub(crate) etag: Option<u64>,
    /// Where the new thing is.
    pub(crate) location: Option<Location>,
    /// The engine gave this answer before.
    pub(crate) replayed: bool,
}

/// Where a thing is. Only a header says it, which most answers have no place for.
#[derive(Debug)]
pub(crate) enum Location {
    Path(String),
    Claim(ClaimId),
}

impl Location {
    fn value(self) -> Option<HeaderValue> {
        let path = match self {
            Self::Path(path) => path,
            Self::Claim(id) => ["/v1/claims/", &id.text()].concat(),
        };
        HeaderValue::try_from(path).ok()
    }
}

impl Rendered {
    /// A body with 200.
    pub(crate) fn json(view: &impl Serialize) -> Result<Self, Problem> {
        let unwritten = |error: &dyn std::error::Error| {
            tracing::error!(%error, "an answer could not be written as JSON");
            Problem::internal()
        };
        // A claim fits.
        let mut body = Vec::with_capacity(512);
        serde_json::to_writer(&mut body, view).map_err(|error| unwritten(&error))?;
        let body = String::from_utf8(body).map_err(|error| unwritten(&error))?;
        Ok(Self { status: StatusCode::OK, body: Some(body), etag: None, location: None, replayed: false })
    }

    /// Nothing to show, with 204.
    pub(crate) fn no_content() -> Self {
        Self { status: StatusCode::NO_CONTENT, body: None, etag: None, location: None, replayed: false }
    }

    pub(crate) fn with_etag(self, version: u64) -> Self {
        Self { etag: Some(version), ..self }
    }

    fn with_status(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }

    fn created(self, created: bool) -> Self {
        if created { self.with_status(StatusCode::CREATED) } else { self }
    }
}

impl Rendered {
    /// Its headers are put with the others; its status and body are left.
    pub(crate) fn write(self, fields: &mut impl Fields) -> (StatusCode, String) {
        if self.body.is_some() {
            fields.put(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        fields.put(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(version) = self.etag
            && let Ok(etag) = HeaderValue::try_from(format!("\"{version}\""))
        {
            fields.put(header::ETAG, etag);
        }
        if let Some(location) = self.location.and_then(Location::value) {
            fields.put(header::LOCATION, location);
        }
        if self.replayed {
            fields.put(REPLAYED, HeaderValue::from_static("true"));
        }
        (self.status, self.body.unwrap_or_default())
    }
}

impl IntoResponse for Rendered {
    fn into_response(self) -> Response {
        let mut headers = HeaderMap::with_capacity(ANSWER_FIELDS);
        let (status, body) = self.write(&mut headers);
        response(status, headers, body)
    }
}

impl Question {
    /// The answer to it.
    pub(crate) fn render(&self, answer: &Answer, reader: &dyn Reader) -> Result<Rendered, Problem> {
        match &answer.outcome {
            Ok(reply) => {
                let rendered = self.reply(reply, answer.server_time_ms, reader)?;
                Ok(Rendered { replayed: answer.replayed, ..rendered })
            }
            Err(refused) => Err(self.refused(refused, answer.server_time_ms)),
        }
    }

    /// One reply, by itself or out of a group's.
    pub(crate) fn reply(&self, reply: &Reply, now_ms: i64, reader: &dyn Reader) -> Result<Rendered, Problem> {
        let key = &self.collection;
        match reply {
            Reply::Collection { collection, created } => {
                Ok(Rendered::json(&CollectionView::of(key, collection, reader.epoch()))?.created(*created))
            }
            Reply::Acquired { claim, how } => {
                let rendered = Rendered::json(&ClaimView::of(key, claim, now_ms))?;
                let created = *how == How::New;
                let id = || ClaimId { collection: key.clone(), number: claim.number };
                let location = created.then(|| Location::Claim(id()));
                Ok(Rendered { location, ..rendered.created(created) })
            }
            Reply::Beat { renewed, reason, claim } => {
                Rendered::json(&BeatView::of(*renewed, *reason, claim, now_ms))
            }
            // Let go is let go: there is nothing to show.
            Reply::Claim { .. } if self.op == Op::Release => Ok(Rendered::no_content()),
            Reply::Claim { claim } => Rendered::json(&ClaimView::of(key, claim, now_ms)),
            Reply::Freed { claim } => {
                let claim = claim.as_ref().map(|claim| ClaimView::of(key, claim, now_ms));
                Rendered::json(&FreedView { claim, server_time: Stamp::of(now_ms) })
            }
            Reply::Item { item, created } => {
                let rendered = Rendered::json(&DocumentView::of(key, item))?;
                Ok(rendered.created(*created).with_etag(item.version))
            }
            Reply::Done => Ok(Rendered::no_content()),
            Reply::Group(_) => {
                tracing::error!("a group's answer came to a single command");
                Err(Problem::internal())
            }
        }
    }

    /// A refusal of this question.
    pub(crate) fn refused(&self, refused: &Refused, now_ms: i64) -> Problem {
        let problem = Problem::from_refused(refused, now_ms);
        let Refused::Rule(refusal) = refused else { return problem };
        match (refusal, self.stated) {
            (Refusal::NotFound { what, id }, _) if &**what == "claim" => match id.parse() {
                // Callers know claims by their public ids, never by the bare number.
                Ok(number) => {
                    Problem::not_found(what, ClaimId { collection: self.collection.clone(), number })
                }
                Err(_) => problem,
            },
            (Refusal::Conflict { current, .. }, Stated::Nothing) => Problem::new(
                StatusCode::PRECONDITION_REQUIRED,
                "precondition_required",
                "the item exists; say which version you know",
            )
            .with("current_version", *current),
            (Refusal::Conflict { current, .. }, Stated::MatchNone) => {
                failed("If-Match names none of this item's versions".to_owned())
                    .with("current_version", *current)
            }
            (Refusal::Conflict { .. }, Stated::Match(_) | Stated::NoneMatch) => {
                Problem { more: problem.more, ..failed(problem.detail) }
            }
            (Refusal::NotFound { what, .. }, Stated::MatchAny) if &**what == "item" => failed(problem.detail),
            _ => problem,
        }
    }
}

fn failed(detail: String) -> Problem {
    Problem::new(StatusCode::PRECONDITION_FAILED, "precondition_failed", detail)
}
