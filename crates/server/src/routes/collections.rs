//! Collections: create, read, list.

use std::sync::Arc;

use axum::extract::State;
use serde::{Deserialize, Serialize};
use tenure_core::{Collection, CollectionKey};
use tenure_engine::Reader;
use utoipa::{IntoParams, ToSchema};

use crate::body::Body;
use crate::command::{NoBody, Rendered, create_collection};
use crate::page::Scan;
use crate::params::{At, Nothing, Query, page_size};
use crate::problem::from_store;
use crate::view::CollectionView;
use crate::{App, Caller, Problem, schema};

/// Which collections.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct CollectionsQuery {
    /// Only of this kind.
    #[param(value_type = schema::Kind, required = false)]
    kind: Option<String>,
    /// Only after this one: the `next` of the page before.
    #[param(value_type = schema::CollectionKey, required = false)]
    after: Option<CollectionKey>,
    /// At most so many.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// A page of collections, in order.
#[derive(Serialize, ToSchema)]
#[schema(as = Collections)]
pub(crate) struct CollectionsView<'a> {
    collections: Vec<CollectionView<'a>>,
    /// Where the next page begins; `null` on the last one. A page may be short and have a next.
    #[schema(value_type = Option<schema::CollectionKey>, required = true)]
    next: Option<CollectionKey>,
}

type Row = (CollectionKey, Arc<Collection>);

/// List collections
#[utoipa::path(get, path = "/v1/collections", tag = "collections", params(CollectionsQuery),
    responses((status = 200, description = "A page.", body = CollectionsView<'static>)))]
pub(crate) async fn list_collections(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<CollectionsQuery>,
) -> Result<Rendered, Problem> {
    let limit = page_size(query.limit)?;
    if let Some(kind) = &query.kind {
        tenure_core::names::check_kind(kind).map_err(|detail| Problem::invalid("kind", detail))?;
        caller.check_kind(kind)?;
    }
    let wanted = |key: &CollectionKey| {
        caller.covers(key.kind()) && query.kind.as_ref().is_none_or(|kind| key.kind() == kind)
    };
    let scan = Scan { limit, after: query.after };
    let read = |reader: &dyn Reader, after: Option<&CollectionKey>, limit| reader.collections(after, limit);
    let keep = |row: Row| Ok(wanted(&row.0).then_some(row));
    let (rows, next) = scan.run(&app, read, |row: &Row| row.0.clone(), |_| 0, keep).await?;
    let epoch = app.reader().epoch();
    let collections = rows.iter().map(|(key, head)| CollectionView::of(key, head, epoch)).collect();
    Rendered::json(&CollectionsView { collections, next })
}

/// Read a collection
#[utoipa::path(get, path = "/v1/collections/{kind}/{name}", tag = "collections", params(At),
    responses((status = 200, description = "Its head.", body = CollectionView<'static>)))]
pub(crate) async fn get_collection(
    State(app): State<App>,
    At(key): At,
    Query(Nothing {}): Query<Nothing>,
) -> Result<Rendered, Problem> {
    let found = app.reader().collection(&key).map_err(|error| from_store(&error))?;
    let head = found.ok_or_else(|| Problem::not_found("collection", &key))?;
    Rendered::json(&CollectionView::of(&key, &head, app.reader().epoch()))
}

/// Create a collection
///
/// One that is there stays as it is.
#[utoipa::path(put, path = "/v1/collections/{kind}/{name}", tag = "collections", params(At),
    request_body = Option<NoBody>,
    responses(
        (status = 201, description = "Created.", body = CollectionView<'static>),
        (status = 200, description = "It was there.", body = CollectionView<'static>),
    ))]
pub(crate) async fn put_collection(
    State(app): State<App>,
    caller: Caller,
    At(key): At,
    Body { value: NoBody {}, .. }: Body<NoBody>,
) -> Result<Rendered, Problem> {
    app.answer(&caller, create_collection(key), None).await
}
