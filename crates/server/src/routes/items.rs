//! Items: documents with a version, and who holds them.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, header};
use serde::{Deserialize, Serialize};
use tenure_core::{Claim, ClaimState, CollectionKey, Item, ItemId, Json, Policy, Status};
use tenure_engine::{HeldItem, ItemFilter, Reader};
use utoipa::{IntoParams, ToSchema};

use crate::app::seen_by;
use crate::body::Body;
use crate::command::{DeleteItemBody, PutItemBody, Rendered, Stated};
use crate::page::Scan;
use crate::params::{At, AtItem, Nothing, Query, page_size};
use crate::problem::from_store;
use crate::time::rfc3339;
use crate::view::{ClaimView, DocumentView, ItemView};
use crate::{App, Caller, Problem, schema};

/// Which items.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ItemsQuery {
    /// Only held, or only free ones.
    held: Option<bool>,
    /// Only of this status.
    #[param(value_type = schema::Status, required = false)]
    status: Option<Status>,
    /// Only after this one: the `next` of the page before.
    #[param(value_type = schema::ItemId, required = false)]
    after: Option<ItemId>,
    /// At most so many.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// A page of items, by id.
#[derive(Serialize, ToSchema)]
#[schema(as = Items)]
pub(crate) struct ItemsView<'a> {
    items: Vec<ItemView<'a>>,
    /// Where the next page begins; `null` on the last one. A page may be short and have a next.
    #[schema(value_type = Option<schema::ItemId>, required = true)]
    next: Option<ItemId>,
    /// The server's time at this answer.
    #[schema(value_type = schema::Time)]
    server_time: String,
}

/// List items
///
/// Each with the claim that holds it.
#[utoipa::path(get, path = "/v1/collections/{kind}/{name}/items", tag = "items", params(At, ItemsQuery),
    responses((status = 200, description = "A page.", body = ItemsView<'static>)))]
pub(crate) async fn list_items(
    State(app): State<App>,
    At(key): At,
    Query(query): Query<ItemsQuery>,
) -> Result<Rendered, Problem> {
    let limit = page_size(query.limit)?;
    let found = app.reader().collection(&key).map_err(|error| from_store(&error))?;
    if found.is_none() {
        return Err(Problem::not_found("collection", &key));
    }
    let (now_ms, policy) = (app.now_ms(), app.policy(key.kind())?);
    // Who is held is judged here, at this time; the store knows only what was last committed.
    let place = key.clone();
    let scan = Scan { limit, after: query.after };
    let read = move |reader: &dyn Reader, after: Option<&ItemId>, limit| {
        let filter = ItemFilter { held: None, status: query.status.clone(), after: after.cloned() };
        reader.held_items(&place, &filter, limit)
    };
    let keep = |HeldItem { item, claim }| {
        let claim = claim.and_then(|claim| holding(policy.as_deref(), &claim, now_ms));
        let wanted = query.held.is_none_or(|held| claim.is_some() == held);
        Ok(wanted.then_some((item, claim)))
    };
    let bytes = |data: Option<&Json>| data.map_or(0, |data| data.as_str().len());
    let weigh = |(item, claim): &(Arc<Item>, Option<Claim>)| {
        bytes(item.data.as_ref()) + bytes(claim.as_ref().and_then(|claim| claim.data.as_ref()))
    };
    let (rows, next) = scan.run(&app, read, |row| row.item.id.clone(), weigh, keep).await?;
    let items = rows.iter().map(|(item, claim)| view(&key, item, claim.as_ref(), now_ms)).collect();
    Rendered::json(&ItemsView { items, next, server_time: rfc3339(now_ms) })
}

/// Read an item
///
/// `ETag` is its version, for `If-Match`.
#[utoipa::path(get, path = "/v1/collections/{kind}/{name}/items/{item}", tag = "items", params(AtItem),
    responses((status = 200, description = "The item.", body = ItemView<'static>, headers(("ETag" = String)))))]
pub(crate) async fn get_item(
    State(app): State<App>,
    AtItem { collection, item }: AtItem,
    Query(Nothing {}): Query<Nothing>,
) -> Result<Rendered, Problem> {
    let now_ms = app.now_ms();
    let found = app.reader().held_item(&collection, &item).map_err(|error| from_store(&error))?;
    let HeldItem { item, claim } = found.ok_or_else(|| Problem::not_found("item", &item))?;
    let policy = app.policy(collection.kind())?;
    let claim = claim.and_then(|claim| holding(policy.as_deref(), &claim, now_ms));
    let rendered = Rendered::json(&view(&collection, &item, claim.as_ref(), now_ms))?;
    Ok(rendered.with_etag(item.version))
}

/// Write an item
///
/// What the body does not name stays. An existing item needs the version that the change is based on:
/// `If-Match` (a mismatch is 412) or `version` (409); or `claim_id` and `token`, to write under one's own
/// claim. `If-None-Match: *` or `version: 0` only creates. What another holds cannot be written.
#[utoipa::path(put, path = "/v1/collections/{kind}/{name}/items/{item}", tag = "items",
    params(AtItem,
        ("If-Match" = Option<String>, Header, description = "The item's `ETag`, or `*` for any version.",
            example = json!("\"1\"")),
        ("If-None-Match" = Option<String>, Header, description = "`*`: only if there is no such item.",
            example = json!("*"))),
    request_body = Option<PutItemBody>,
    responses(
        (status = 201, description = "Created.", body = DocumentView<'static>, headers(("ETag" = String))),
        (status = 200, description = "Changed.", body = DocumentView<'static>, headers(("ETag" = String))),
    ))]
pub(crate) async fn put_item(
    State(app): State<App>,
    caller: Caller,
    AtItem { collection, item }: AtItem,
    headers: HeaderMap,
    Body { value, .. }: Body<PutItemBody>,
) -> Result<Rendered, Problem> {
    let asked = value.ask(collection, item, stated(&headers)?)?;
    app.answer(&caller, asked, None).await
}

/// Delete an item
///
/// Needs `If-Match` or `version`, or a claim; nobody may hold the item.
#[utoipa::path(delete, path = "/v1/collections/{kind}/{name}/items/{item}", tag = "items",
    params(AtItem, DeleteItemBody,
        ("If-Match" = Option<String>, Header, description = "The item's `ETag`, or `*` for any version.",
            example = json!("\"1\""))),
    responses((status = 204, description = "Deleted.")))]
pub(crate) async fn delete_item(
    State(app): State<App>,
    caller: Caller,
    AtItem { collection, item }: AtItem,
    headers: HeaderMap,
    Query(query): Query<DeleteItemBody>,
) -> Result<Rendered, Problem> {
    let asked = query.ask(collection, item, stated(&headers)?)?;
    app.answer(&caller, asked, None).await
}

/// The claim, if it holds at this time.
fn holding(policy: Option<&Policy>, claim: &Claim, now_ms: i64) -> Option<Claim> {
    Some(seen_by(policy, claim, now_ms)).filter(|claim| claim.state == ClaimState::Active)
}

fn view<'a>(key: &'a CollectionKey, item: &'a Item, claim: Option<&'a Claim>, now_ms: i64) -> ItemView<'a> {
    ItemView {
        document: DocumentView::of(key, item),
        claim: claim.map(|claim| ClaimView::of(key, claim, now_ms)),
        server_time: rfc3339(now_ms),
    }
}

/// What the headers say about the item's version.
fn stated(headers: &HeaderMap) -> Result<Stated, Problem> {
    let if_match = one(headers, &header::IF_MATCH, "If-Match")?;
    let if_none_match = one(headers, &header::IF_NONE_MATCH, "If-None-Match")?;
    match (if_match, if_none_match) {
        (None, None) => Ok(Stated::Nothing),
        (None, Some("*")) => Ok(Stated::NoneMatch),
        (None, Some(_)) => Err(Problem::invalid("If-None-Match", "only * has a meaning here")),
        (Some("*"), None) => Ok(Stated::MatchAny),
        (Some(etags), None) if etags.contains(',') => Err(Problem::invalid("If-Match", "name one version")),
        (Some(etag), None) => {
            let etag = opaque(etag).ok_or_else(|| {
                Problem::invalid("If-Match", "is no ETag: send the item's as it came, such as \"2\"")
            })?;
            Ok(version_of(etag).map_or(Stated::MatchNone, Stated::Match))
        }
        (Some(_), Some(_)) => Err(Problem::invalid("If-None-Match", "does not go with If-Match")),
    }
}

fn one<'a>(headers: &'a HeaderMap, name: &HeaderName, field: &str) -> Result<Option<&'a str>, Problem> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => match value.to_str() {
            Ok(text) => Ok(Some(text.trim())),
            Err(_) => Err(Problem::invalid(field, "is not plain text")),
        },
        (Some(_), Some(_)) => Err(Problem::invalid(field, "stands twice")),
    }
}

/// What stands between an `ETag`'s quotes. A proxy that compresses makes it a weak one; a version is exact all the same.
fn opaque(etag: &str) -> Option<&str> {
    etag.strip_prefix("W/").unwrap_or(etag).strip_prefix('"')?.strip_suffix('"')
}

/// The version in an `ETag` of ours. Anything else matches no version.
fn version_of(digits: &str) -> Option<u64> {
    let version = digits.parse::<u64>().ok()?;
    (version > 0 && version.to_string() == digits).then_some(version)
}
