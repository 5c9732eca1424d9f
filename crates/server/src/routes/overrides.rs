//! What an administrator may override, and why an item can or cannot be had.

use axum::extract::State;
use serde::Serialize;
use serde_json::Value;
use tenure_core::{ClaimId, CollectionKey, EndReason, ItemId, Refusal, Status};
use utoipa::ToSchema;

use crate::body::Body;
use crate::command::{ForceClaimBody, ForceReleaseBody, Rendered};
use crate::params::{AtItem, Nothing, Query};
use crate::time::rfc3339;
use crate::view::{ClaimView, FreedView, Holder};
use crate::{App, Caller, Problem, schema};

/// Free an item, whoever holds it
///
/// The whole claim ends. Audited as `LOCK_FORCE_RELEASE` with the reason and the previous holder. Freeing
/// a free item does nothing.
#[utoipa::path(post, path = "/v1/collections/{kind}/{name}/items/{item}/force-release", tag = "overrides",
    params(AtItem), request_body = ForceReleaseBody,
    responses((status = 200, description = "It is free.", body = FreedView<'static>)))]
pub(crate) async fn force_release_item(
    State(app): State<App>,
    caller: Caller,
    AtItem { collection, item }: AtItem,
    Body { value, key }: Body<ForceReleaseBody>,
) -> Result<Rendered, Problem> {
    app.answer(&caller, value.ask(collection, item), key.as_ref()).await
}

/// Take an item, whoever holds it
///
/// The holder's whole claim ends. Audited as `LOCK_FORCE_CLAIM` with the reason and the previous holder.
#[utoipa::path(post, path = "/v1/collections/{kind}/{name}/items/{item}/force-claim", tag = "overrides",
    params(AtItem), request_body = ForceClaimBody,
    responses(
        (status = 201, description = "Taken.", body = ClaimView<'static>, headers(("Location" = String))),
        (status = 200, description = "It was yours: renewed.", body = ClaimView<'static>),
    ))]
pub(crate) async fn force_claim_item(
    State(app): State<App>,
    caller: Caller,
    AtItem { collection, item }: AtItem,
    Body { value, key }: Body<ForceClaimBody>,
) -> Result<Rendered, Problem> {
    app.answer(&caller, value.ask(collection, item), key.as_ref()).await
}

/// Who holds an item, who waits for it, and what would come of claiming it now.
#[derive(Serialize, ToSchema)]
#[schema(as = Explanation)]
pub(crate) struct ExplanationView<'a> {
    /// Where the item lives.
    #[schema(value_type = schema::CollectionKey)]
    collection: &'a CollectionKey,
    /// The item's id.
    #[schema(value_type = schema::ItemId)]
    item: &'a ItemId,
    /// Its status; `null` if claiming it would create it.
    #[schema(value_type = Option<schema::Status>, required = true)]
    status: Option<&'a Status>,
    /// Who holds it.
    holder: Option<Holder<'a>>,
    /// The claim that holds it.
    claim: Option<ClaimView<'a>>,
    /// Those who wait for it.
    queue: QueueView,
    /// The caller would get it now.
    claimable: bool,
    /// The refusal that the caller would get, as a problem.
    #[schema(value_type = Option<schema::Problem>, required = true)]
    refusal: Option<Value>,
    /// When it can be had if its holder gives no further sign of life; `null` when nobody holds it.
    #[schema(value_type = Option<schema::Time>, required = true)]
    frees_at: Option<String>,
    /// The time until then.
    #[schema(value_type = Option<schema::Number>, required = true)]
    frees_in_ms: Option<i64>,
    /// Who held it lately, newest first.
    history: Vec<TenancyView<'a>>,
    /// The server's time at this answer.
    #[schema(value_type = schema::Time)]
    server_time: String,
}

/// Those who wait for an item.
#[derive(Serialize, ToSchema)]
#[schema(as = Queue)]
pub(crate) struct QueueView {
    /// How many.
    #[schema(value_type = schema::Number)]
    waiting: usize,
}

/// One holder's time with an item.
#[derive(Serialize, ToSchema)]
#[schema(as = Tenancy)]
pub(crate) struct TenancyView<'a> {
    /// The claim.
    #[schema(value_type = schema::ClaimId)]
    claim: ClaimId,
    /// Who held it.
    holder: Option<Holder<'a>>,
    /// Since when; `null` if that was too long ago.
    #[schema(value_type = Option<schema::Time>, required = true)]
    since: Option<String>,
    /// Until when; `null` while it is held.
    #[schema(value_type = Option<schema::Time>, required = true)]
    ended_at: Option<String>,
    /// Why it ended; `null` while it is held, or where the item left a claim that went on.
    #[schema(value_type = Option<schema::EndReason>, required = true)]
    reason: Option<EndReason>,
}

/// Explain an item
///
/// Changes nothing. By the time somebody claims it the answer may be another.
#[utoipa::path(get, path = "/v1/collections/{kind}/{name}/items/{item}/explain", tag = "items",
    params(AtItem),
    responses((status = 200, description = "The explanation.", body = ExplanationView<'static>)))]
pub(crate) async fn explain_item(
    State(app): State<App>,
    caller: Caller,
    AtItem { collection, item }: AtItem,
    Query(Nothing {}): Query<Nothing>,
) -> Result<Rendered, Problem> {
    let (engine, key, id) = (app.engine().clone(), collection.clone(), item.clone());
    let explanation = app.read(move |_| engine.explain(&key, &id, &caller.principal)).await?;
    let now_ms = explanation.now_ms;
    if let Some(refusal @ Refusal::NotFound { .. }) = &explanation.refusal {
        return Err(Problem::from_refusal(refusal, now_ms));
    }
    let refusal = explanation.refusal.as_ref();
    let history = explanation.history.iter().map(|tenancy| TenancyView {
        claim: ClaimId { collection: collection.clone(), number: tenancy.claim },
        holder: tenancy.holder.as_ref().map(Holder::from),
        since: tenancy.since_ms.map(rfc3339),
        ended_at: tenancy.ended_at_ms.map(rfc3339),
        reason: tenancy.reason,
    });
    Rendered::json(&ExplanationView {
        collection: &collection,
        item: &item,
        status: explanation.item.as_ref().map(|item| &item.status),
        holder: explanation.claim.as_ref().map(|claim| Holder::from(&claim.holder)),
        claim: explanation.claim.as_ref().map(|claim| ClaimView::of(&collection, claim, now_ms)),
        queue: QueueView { waiting: explanation.waiting },
        claimable: refusal.is_none(),
        refusal: refusal.map(|refusal| Problem::from_refusal(refusal, now_ms).body()),
        frees_at: explanation.frees_at_ms.map(rfc3339),
        frees_in_ms: explanation.frees_at_ms.map(|frees_at_ms| frees_at_ms - now_ms),
        history: history.collect(),
        server_time: rfc3339(now_ms),
    })
}
