//! Claims: take, keep, amend, end, look.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::State;
use serde::{Deserialize, Serialize};
use tenure_core::{Claim, ClaimId, ClaimState, CollectionKey, Policy, Text};
use tenure_engine::{ClaimFilter, ClaimRow, Reader};
use utoipa::{IntoParams, ToSchema};

use crate::app::seen_by;
use crate::apps::check_seen;
use crate::body::Body;
use crate::command::{
    AcquireBody, AddItemBody, CompleteBody, HeartbeatBody, NoBody, NudgeBody, Rendered, no_body,
};
use crate::line::Line;
use crate::page::Scan;
use crate::params::{AtClaim, AtClaimItem, Nothing, Query, page_size};
use crate::time::rfc3339;
use crate::view::{BeatView, ClaimView};
use crate::{App, Caller, Problem, schema};

/// Claim items
///
/// All of them or none. A claim that the caller already has on them is renewed. With `wait_ms` the answer
/// waits for held items, first come first served; who disconnects leaves the queue. A wait beyond what the kind
/// allows is refused with that as `max`.
#[utoipa::path(post, path = "/v1/claims", tag = "claims", request_body = AcquireBody,
    responses(
        (status = 201, description = "Granted.", body = ClaimView<'static>, headers(("Location" = String))),
        (status = 200, description = "Already yours: renewed, or as it was.", body = ClaimView<'static>),
    ))]
pub(crate) async fn create_claim(
    State(app): State<App>,
    caller: Caller,
    line: Line,
    Body { value, key }: Body<AcquireBody>,
) -> Result<Rendered, Problem> {
    let asked = value.ask();
    caller.check_kind(asked.collection.kind())?;
    app.answer_patiently(&caller, &line, asked, key.as_ref()).await
}

/// Which claims.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ClaimsQuery {
    /// Only of this collection.
    #[param(value_type = schema::CollectionKey, required = false)]
    collection: Option<CollectionKey>,
    /// Only of this holder, by id.
    #[param(value_type = Option<String>)]
    holder: Option<Text>,
    /// Only in this state.
    #[param(value_type = schema::ClaimState, required = false)]
    state: Option<ClaimState>,
    /// Only after this one: the `next` of the page before.
    #[param(value_type = schema::ClaimId, required = false)]
    after: Option<ClaimId>,
    /// At most so many.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// A page of claims, by collection and number.
#[derive(Serialize, ToSchema)]
#[schema(as = Claims)]
pub(crate) struct ClaimsView<'a> {
    claims: Vec<ClaimView<'a>>,
    /// Where the next page begins; `null` on the last one. A page may be short and have a next.
    #[schema(value_type = Option<schema::ClaimId>, required = true)]
    next: Option<ClaimId>,
    /// The server's time at this answer.
    #[schema(value_type = schema::Time)]
    server_time: String,
}

/// List claims
///
/// Those that ended are listed as long as they are kept.
#[utoipa::path(get, path = "/v1/claims", tag = "claims", params(ClaimsQuery),
    responses((status = 200, description = "A page.", body = ClaimsView<'static>)))]
pub(crate) async fn list_claims(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<ClaimsQuery>,
) -> Result<Rendered, Problem> {
    let limit = page_size(query.limit)?;
    if let Some(collection) = &query.collection {
        caller.check_kind(collection.kind())?;
        check_seen(&app, &caller, collection)?;
    }
    let now_ms = app.now_ms();
    let filter = ClaimFilter {
        collection: query.collection,
        holder: query.holder,
        // One that ran out is expired although nobody has swept it: look at the active ones too.
        state: query.state.filter(|state| *state != ClaimState::Expired),
        after: None,
    };
    let scan = Scan { limit, after: query.after };
    let read = move |reader: &dyn Reader, after: Option<&ClaimId>, limit| {
        let after = after.map(|id| (id.collection.clone(), id.number));
        reader.claims(&ClaimFilter { after, ..filter.clone() }, limit)
    };
    let cursor = |row: &ClaimRow| ClaimId { collection: row.collection.clone(), number: row.claim.number };
    // What each collection's claims are judged by, read once: over a network every read is a round trip.
    let mut known: HashMap<CollectionKey, Option<Option<Arc<Policy>>>> = HashMap::new();
    let keep = |ClaimRow { collection, claim }: ClaimRow| {
        let judged_by = if let Some(judged_by) = known.get(&collection) {
            judged_by.clone()
        } else {
            let is_seen = caller.covers(collection.kind()) && check_seen(&app, &caller, &collection).is_ok();
            let judged_by = is_seen.then(|| app.policy(collection.kind())).transpose()?;
            known.insert(collection.clone(), judged_by.clone());
            judged_by
        };
        let Some(policy) = judged_by else { return Ok(None) };
        let claim = seen_by(policy.as_deref(), &claim, now_ms);
        let wanted = query.state.is_none_or(|state| claim.state == state);
        Ok(wanted.then_some((collection, claim)))
    };
    let weigh =
        |(_, claim): &(CollectionKey, Claim)| claim.data.as_ref().map_or(0, |data| data.as_str().len());
    let (rows, next) = scan.run(&app, read, cursor, weigh, keep).await?;
    let claims = rows.iter().map(|(key, claim)| ClaimView::of(key, claim, now_ms)).collect();
    Rendered::json(&ClaimsView { claims, next, server_time: rfc3339(now_ms) })
}

/// Read a claim
#[utoipa::path(get, path = "/v1/claims/{id}", tag = "claims", params(AtClaim),
    responses((status = 200, description = "The claim as it is now.", body = ClaimView<'static>)))]
pub(crate) async fn get_claim(
    State(app): State<App>,
    AtClaim(id): AtClaim,
    Query(Nothing {}): Query<Nothing>,
) -> Result<Rendered, Problem> {
    let now_ms = app.now_ms();
    let (key, number) = (id.collection.clone(), id.number);
    // One that ended long ago is looked for on the disk.
    let found = app.read(move |reader| reader.claim(&key, number)).await?;
    let claim = found.ok_or_else(|| Problem::not_found("claim", &id))?;
    let claim = app.seen(&id.collection, &claim, now_ms)?;
    Rendered::json(&ClaimView::of(&id.collection, &claim, now_ms))
}

/// Release a claim
///
/// Only the holder can. Letting go twice is letting go.
#[utoipa::path(delete, path = "/v1/claims/{id}", tag = "claims", params(AtClaim),
    responses((status = 204, description = "Released.")))]
pub(crate) async fn release_claim(
    State(app): State<App>,
    caller: Caller,
    AtClaim(id): AtClaim,
    Query(Nothing {}): Query<Nothing>,
) -> Result<Rendered, Problem> {
    app.answer(&caller, no_body::release(id), None).await
}

/// Keep a claim alive
///
/// Moves the deadline, unless the holder is idle, heartbeats alone have kept it long enough, or the phase's
/// deadline is fixed: then `renewed` is false and `reason` says why.
#[utoipa::path(post, path = "/v1/claims/{id}/heartbeat", tag = "claims", params(AtClaim),
    request_body = HeartbeatBody,
    responses((status = 200, description = "Still yours.", body = BeatView)))]
pub(crate) async fn heartbeat_claim(
    State(app): State<App>,
    caller: Caller,
    AtClaim(id): AtClaim,
    Body { value, key }: Body<HeartbeatBody>,
) -> Result<Rendered, Problem> {
    app.answer(&caller, value.ask(id), key.as_ref()).await
}

/// Add an item to a claim
///
/// In the claim's first phase. The deadline stays; the token grows.
#[utoipa::path(post, path = "/v1/claims/{id}/items", tag = "claims", params(AtClaim),
    request_body = AddItemBody,
    responses((status = 200, description = "The claim with the item.", body = ClaimView<'static>)))]
pub(crate) async fn add_claim_item(
    State(app): State<App>,
    caller: Caller,
    AtClaim(id): AtClaim,
    Body { value, key }: Body<AddItemBody>,
) -> Result<Rendered, Problem> {
    app.answer(&caller, value.ask(id), key.as_ref()).await
}

/// Take an item out of a claim
///
/// In the claim's first phase, and never its last item.
#[utoipa::path(delete, path = "/v1/claims/{id}/items/{item}", tag = "claims", params(AtClaimItem),
    responses((status = 200, description = "The claim without the item.", body = ClaimView<'static>)))]
pub(crate) async fn remove_claim_item(
    State(app): State<App>,
    caller: Caller,
    AtClaimItem { claim, item }: AtClaimItem,
    Query(Nothing {}): Query<Nothing>,
) -> Result<Rendered, Problem> {
    app.answer(&caller, no_body::remove_item(claim, item), None).await
}

/// Go to the next phase
#[utoipa::path(post, path = "/v1/claims/{id}/advance", tag = "claims", params(AtClaim),
    request_body = Option<NoBody>,
    responses((status = 200, description = "The claim in its next phase.", body = ClaimView<'static>)))]
pub(crate) async fn advance_claim(
    State(app): State<App>,
    caller: Caller,
    AtClaim(id): AtClaim,
    Body { value: NoBody {}, key }: Body<NoBody>,
) -> Result<Rendered, Problem> {
    app.answer(&caller, no_body::advance(id), key.as_ref()).await
}

/// Finish a claim
///
/// Writes the items' status and data and ends the claim, in one commit.
#[utoipa::path(post, path = "/v1/claims/{id}/complete", tag = "claims", params(AtClaim),
    request_body = Option<CompleteBody>,
    responses((status = 200, description = "The completed claim.", body = ClaimView<'static>)))]
pub(crate) async fn complete_claim(
    State(app): State<App>,
    caller: Caller,
    AtClaim(id): AtClaim,
    Body { value, key }: Body<CompleteBody>,
) -> Result<Rendered, Problem> {
    app.answer(&caller, value.ask(id), key.as_ref()).await
}

/// Give a claim up
#[utoipa::path(post, path = "/v1/claims/{id}/cancel", tag = "claims", params(AtClaim),
    request_body = Option<NoBody>,
    responses((status = 200, description = "The cancelled claim.", body = ClaimView<'static>)))]
pub(crate) async fn cancel_claim(
    State(app): State<App>,
    caller: Caller,
    AtClaim(id): AtClaim,
    Body { value: NoBody {}, key }: Body<NoBody>,
) -> Result<Rendered, Problem> {
    app.answer(&caller, no_body::cancel(id), key.as_ref()).await
}

/// Ask the holder to let go
///
/// The holder sees it in the stream of events. It changes no claim.
#[utoipa::path(post, path = "/v1/claims/{id}/nudge", tag = "claims", params(AtClaim),
    request_body = Option<NudgeBody>,
    responses((status = 200, description = "The claim, unchanged.", body = ClaimView<'static>)))]
pub(crate) async fn nudge_claim(
    State(app): State<App>,
    caller: Caller,
    AtClaim(id): AtClaim,
    Body { value, key }: Body<NudgeBody>,
) -> Result<Rendered, Problem> {
    app.answer(&caller, value.ask(id), key.as_ref()).await
}
