//! Who asks: established once per request, before the handler.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::Extensions;
use axum::http::request::Parts;
use tenure_core::names::SYSTEM_KIND;
use tenure_core::{CollectionKey, Principal, Text};

use crate::{Problem, Role};

/// An authenticated principal and what it may touch.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Who.
    pub principal: Principal,
    /// What it may do.
    pub role: Role,
    /// The kinds that it may touch; `None` for all.
    pub kinds: Option<Arc<[Text]>>,
    /// How it proved itself, so that revoking that ends its sockets.
    pub credential: Credential,
}

/// What a caller proved itself with.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Credential {
    /// An API key, by its id.
    Key(Text),
    /// A token of the host application, good until this time.
    Jwt {
        /// Its expiry.
        expires_at_ms: i64,
    },
    /// A browser session, by its id.
    Session(Text),
}

impl Caller {
    /// Who was let in. The gate puts it there; a public route has none.
    pub(crate) fn of(extensions: &Extensions) -> Result<Self, Problem> {
        extensions.get::<Self>().cloned().ok_or_else(Self::nobody)
    }

    /// What is said where somebody has to be known.
    pub(crate) fn nobody() -> Problem {
        Problem::unauthenticated("sign in, or send Authorization: Bearer and a key or token")
    }

    /// The collection, if this caller may touch its kind. Tenure's own kind is nobody's.
    pub fn collection(&self, kind: &str, name: &str) -> Result<CollectionKey, Problem> {
        let key = CollectionKey::from_parts(kind, name)?;
        self.check_kind(kind)?;
        Ok(key)
    }

    /// Refuses a kind that this caller may not touch.
    pub fn check_kind(&self, kind: &str) -> Result<(), Problem> {
        if self.covers(kind) {
            Ok(())
        } else {
            Err(Problem::forbidden(format!("you have no access to the kind {kind}")))
        }
    }

    /// This caller may touch the kind.
    pub fn covers(&self, kind: &str) -> bool {
        kind != SYSTEM_KIND
            && self.kinds.as_ref().is_none_or(|kinds| kinds.iter().any(|covered| &**covered == kind))
    }
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        Self::of(&parts.extensions)
    }
}
