//! The audit log: who did what, when, why, with what before and after. It is the events themselves.

use std::sync::Arc;

use axum::extract::State;
use serde::{Deserialize, Serialize};
use tenure_core::{CollectionKey, Fact, ItemId, Sealed, Text};
use tenure_engine::{AuditFilter, Reader};
use utoipa::{IntoParams, ToSchema};

use crate::command::Rendered;
use crate::identity::KeyChange;
use crate::page::Scan;
use crate::params::{Query, page_size};
use crate::view::{AuditView, EventView};
use crate::{App, Caller, Problem, schema, time};

/// Which rows.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct AuditQuery {
    /// By this actor, by id.
    #[param(value_type = Option<String>)]
    actor: Option<Text>,
    /// With this action, an event's `type`: `claim_granted`, `LOCK_FORCE_RELEASE`, …
    #[param(value_type = Option<String>)]
    action: Option<Text>,
    /// In this collection.
    #[param(value_type = schema::CollectionKey, required = false)]
    collection: Option<CollectionKey>,
    /// About this item.
    #[param(value_type = schema::ItemId, required = false)]
    item: Option<ItemId>,
    /// At this time or later.
    #[param(value_type = schema::Time, required = false)]
    from: Option<String>,
    /// Before this time.
    #[param(value_type = schema::Time, required = false)]
    to: Option<String>,
    /// At most so many.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// The `next` of the page before.
    #[param(value_type = schema::AuditCursor, required = false)]
    cursor: Option<String>,
}

/// A page of the audit log, newest first.
#[derive(Serialize, ToSchema)]
#[schema(as = Audit)]
pub(crate) struct AuditPage<'a> {
    rows: Vec<AuditView<'a>>,
    /// Where the next page begins, as `cursor`; `null` on the last one.
    #[schema(value_type = Option<schema::AuditCursor>, required = true)]
    next: Option<String>,
}

/// The place of a row: its time, collection and number.
type Place = (i64, CollectionKey, u64);
type Row = (CollectionKey, Arc<Sealed>);

/// Read the audit log
///
/// Every change is in it, in the same commit as the change. Overrides stand out as `LOCK_FORCE_RELEASE`
/// and `LOCK_FORCE_CLAIM`, with the reason and the previous holder. `key_created` and `key_revoked` tell
/// which key, whose and by whom, to administrators of all kinds; never the key itself.
#[utoipa::path(get, path = "/v1/audit", tag = "audit", params(AuditQuery),
    responses((status = 200, description = "A page, newest first.", body = AuditPage<'static>)))]
pub(crate) async fn list_audit(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<AuditQuery>,
) -> Result<Rendered, Problem> {
    let limit = page_size(query.limit)?;
    if let Some(collection) = &query.collection {
        caller.check_kind(collection.kind())?;
    }
    // What happens to keys has words of its own here; in their collection they are documents like any.
    let about_keys =
        query.action.as_deref().and_then(KeyChange::word_of).filter(|_| query.collection.is_none());
    let (action, collection) = match about_keys {
        Some(word) => (Some(Text::from(word)), Some(KeyChange::collection())),
        None => (query.action.clone(), query.collection),
    };
    let filter = AuditFilter {
        actor: query.actor,
        action,
        collection,
        item: query.item,
        from_ms: time_of("from", query.from.as_deref())?,
        to_ms: time_of("to", query.to.as_deref())?,
        before: None,
    };
    let after = query.cursor.as_deref().map(place_of).transpose()?;
    let read = move |reader: &dyn Reader, before: Option<&Place>, limit| {
        reader.audit(&AuditFilter { before: before.cloned(), ..filter.clone() }, limit)
    };
    let cursor = |(key, sealed): &Row| (sealed.event.at_ms, key.clone(), sealed.event.seq);
    let asked = query.action.as_deref();
    let keep = |row: Row| Ok(is_visible(&caller, asked, &row).then_some(row));
    let weigh = |(_, sealed): &Row| sealed.bytes.len();
    let (rows, next) = Scan { limit, after }.run(&app, read, cursor, weigh, keep).await?;
    let next = next.map(|(at_ms, key, seq)| format!("{at_ms}~{}~{}~{seq}", key.kind(), key.name()));
    let rows = rows.iter().map(|(collection, sealed)| AuditView(EventView { collection, sealed }));
    Rendered::json(&AuditPage { rows: rows.collect(), next })
}

/// Tenure's own documents are nobody's to read; who changed a policy or a key is.
fn is_visible(caller: &Caller, asked: Option<&str>, (key, sealed): &Row) -> bool {
    if let Some(change) = KeyChange::of(key, &sealed.event.fact) {
        // Keys are managed by administrators of all kinds.
        return caller.kinds.is_none() && asked.is_none_or(|action| action == change.action);
    }
    match &sealed.event.fact {
        Fact::PolicySet { kind, .. } => caller.covers(kind),
        _ => caller.covers(key.kind()),
    }
}

fn time_of(field: &str, text: Option<&str>) -> Result<Option<i64>, Problem> {
    let wrong = || Problem::invalid(field, "must read like 2026-01-02T03:04:05.678Z");
    text.map(|text| time::parse(text).ok_or_else(wrong)).transpose()
}

fn place_of(cursor: &str) -> Result<Place, Problem> {
    let place = || {
        let mut parts = cursor.split('~');
        let at_ms = parts.next()?.parse().ok()?;
        let key = CollectionKey::from_parts(parts.next()?, parts.next()?).ok()?;
        let seq = parts.next()?.parse().ok()?;
        parts.next().is_none().then_some((at_ms, key, seq))
    };
    place().ok_or_else(|| Problem::invalid("cursor", "must be the next of the page before"))
}
