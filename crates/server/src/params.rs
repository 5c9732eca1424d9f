//! What stands in a request's path and query: checked, within the caller's kinds, the wrong field named.

use std::error::Error;
use std::str::FromStr;

use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequestParts, Query as AxumQuery, RawPathParams};
use axum::http::StatusCode;
use axum::http::request::Parts;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tenure_core::names::check_kind;
use tenure_core::{ClaimId, CollectionKey, ItemId, Refusal, Text};
use utoipa::IntoParams;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::{RefOr, Required, Schema};

use crate::apps::check_seen;
use crate::limits::{PAGE_DEFAULT, PAGE_MAX};
use crate::wording::wrong_field;
use crate::{App, Caller, Problem, schema};

/// `{kind}/{name}`.
pub(crate) struct At(pub(crate) CollectionKey);

/// `{kind}/{name}/items/{item}`.
pub(crate) struct AtItem {
    pub(crate) collection: CollectionKey,
    pub(crate) item: ItemId,
}

/// `claims/{id}`.
pub(crate) struct AtClaim(pub(crate) ClaimId);

/// `claims/{id}/items/{item}`.
pub(crate) struct AtClaimItem {
    pub(crate) claim: ClaimId,
    pub(crate) item: ItemId,
}

/// `policies/{kind}`.
pub(crate) struct AtKind(pub(crate) Text);

/// The path's `N` parameters as text, in order: ids that an application knows.
pub(crate) struct Ids<const N: usize>(pub(crate) [String; N]);

/// A query whose fields are all known.
pub(crate) struct Query<T>(pub(crate) T);

/// A route that takes no query.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nothing {}

/// The path's parameters, decoded. What is not encoded by the rules is refused and not guessed at: `%zz`
/// would be an item of that name.
pub(crate) struct Raw(pub(crate) RawPathParams);

impl<S: Send + Sync> FromRequestParts<S> for Raw {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let malformed = |detail| Problem::new(StatusCode::BAD_REQUEST, "malformed", detail);
        if !is_encoded(parts.uri.path()) {
            return Err(malformed("in the path a % stands without two hexadecimal digits"));
        }
        let params = RawPathParams::from_request_parts(parts, state).await;
        params.map(Self).map_err(|_| malformed("the path is not UTF-8"))
    }
}

/// Every `%` has its two digits.
fn is_encoded(path: &str) -> bool {
    let is_hex = |digit: Option<u8>| digit.is_some_and(|digit| digit.is_ascii_hexdigit());
    path.split('%').skip(1).all(|part| {
        let mut digits = part.bytes();
        is_hex(digits.next()) && is_hex(digits.next())
    })
}

/// The path's parameters with the caller whose kinds bound them.
struct Path {
    caller: Caller,
    params: RawPathParams,
}

impl Path {
    async fn of<S: Send + Sync>(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let caller = Caller::from_request_parts(parts, state).await?;
        let Raw(params) = Raw::from_request_parts(parts, state).await?;
        Ok(Self { caller, params })
    }

    fn text(&self, name: &str) -> &str {
        self.params.iter().find(|(known, _)| *known == name).map_or("", |(_, value)| value)
    }

    fn parse<T: FromStr<Err = Refusal>>(&self, name: &str) -> Result<T, Problem> {
        Ok(self.text(name).parse()?)
    }

    fn collection(&self, app: &App) -> Result<CollectionKey, Problem> {
        let key = self.caller.collection(self.text("kind"), self.text("name"))?;
        check_seen(app, &self.caller, &key)?;
        Ok(key)
    }

    fn claim(&self, app: &App) -> Result<ClaimId, Problem> {
        let AtClaim(claim) = AtClaim::of(app, &self.caller, self.parse("id")?)?;
        Ok(claim)
    }
}

impl FromRequestParts<App> for At {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &App) -> Result<Self, Problem> {
        Ok(Self(Path::of(parts, state).await?.collection(state)?))
    }
}

impl FromRequestParts<App> for AtItem {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &App) -> Result<Self, Problem> {
        let path = Path::of(parts, state).await?;
        Ok(Self { collection: path.collection(state)?, item: path.parse("item")? })
    }
}

impl AtClaim {
    /// A claim that this caller may know of.
    pub(crate) fn of(app: &App, caller: &Caller, claim: ClaimId) -> Result<Self, Problem> {
        caller.check_kind(claim.collection.kind())?;
        check_seen(app, caller, &claim.collection)?;
        Ok(Self(claim))
    }
}

impl FromRequestParts<App> for AtClaim {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &App) -> Result<Self, Problem> {
        Ok(Self(Path::of(parts, state).await?.claim(state)?))
    }
}

impl FromRequestParts<App> for AtClaimItem {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &App) -> Result<Self, Problem> {
        let path = Path::of(parts, state).await?;
        Ok(Self { claim: path.claim(state)?, item: path.parse("item")? })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for AtKind {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = Path::of(parts, state).await?;
        let kind = path.text("kind");
        check_kind(kind).map_err(|detail| Problem::invalid("kind", detail))?;
        path.caller.check_kind(kind)?;
        Ok(Self(Text::from(kind)))
    }
}

impl<S: Send + Sync, const N: usize> FromRequestParts<S> for Ids<N> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = Path::of(parts, state).await?;
        let ids: Vec<String> = path.params.iter().map(|(_, value)| value.to_owned()).collect();
        ids.try_into().map(Self).map_err(|_| {
            tracing::error!("a handler wants other parameters than its path has");
            Problem::internal()
        })
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        match AxumQuery::<T>::try_from_uri(&parts.uri) {
            Ok(AxumQuery(value)) => Ok(Self(value)),
            Err(rejection) => Err(wrong_query(&rejection)),
        }
    }
}

/// Refuses a query on a route that takes none.
pub(crate) fn no_query(uri: &axum::http::Uri) -> Result<(), Problem> {
    AxumQuery::<Nothing>::try_from_uri(uri).map(drop).map_err(|rejection| wrong_query(&rejection))
}

fn wrong_query(rejection: &QueryRejection) -> Problem {
    type Inner = serde_path_to_error::Error<serde::de::value::Error>;
    // What axum wraps knows which field was wrong.
    let mut source: Option<&(dyn Error + 'static)> = Some(rejection);
    while let Some(error) = source {
        if let Some(inner) = error.downcast_ref::<Inner>() {
            return wrong_field(&inner.path().to_string(), &inner.inner().to_string(), "query");
        }
        source = error.source();
    }
    Problem::invalid("query", "cannot be read")
}

/// How many rows a page has.
pub(crate) fn page_size(limit: Option<usize>) -> Result<usize, Problem> {
    match limit {
        None => Ok(PAGE_DEFAULT),
        Some(limit) if (1..=PAGE_MAX).contains(&limit) => Ok(limit),
        Some(_) => Err(Problem::invalid("limit", format!("must be 1 to {PAGE_MAX}"))),
    }
}

fn in_path(name: &str, description: &str, schema: impl Into<RefOr<Schema>>) -> Parameter {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Path)
        .required(Required::True)
        .description(Some(description))
        .schema(Some(schema))
        .build()
}

fn kind() -> Parameter {
    in_path("kind", "The kind: a type of thing, with one policy.", schema::kind())
}

fn name() -> Parameter {
    in_path("name", "The collection's name within its kind.", schema::name())
}

fn claim() -> Parameter {
    in_path("id", "The claim's id.", schema::claim_id())
}

fn item() -> Parameter {
    in_path("item", "The item's id.", schema::item_id())
}

macro_rules! path_params {
    ($type:ident: $($param:ident),+) => {
        impl IntoParams for $type {
            fn into_params(_provider: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
                vec![$($param()),+]
            }
        }
    };
}

path_params!(At: kind, name);
path_params!(AtItem: kind, name, item);
path_params!(AtClaim: claim);
path_params!(AtClaimItem: claim, item);
path_params!(AtKind: kind);
