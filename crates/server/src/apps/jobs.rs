//! `/analyses` and `/internal/tasks/analysis`.

use axum::extract::State;
use serde::Deserialize;
use tenure_apps::Actor;
use tenure_apps::jobs::{
    Analysis, AnalysisPage, AnalysisQuery, AnalysisStatus, Delivery, Finish, Jobs, Locked, NewAnalysis,
    Refreshed, Released,
};
use tenure_core::{ItemId, SessionId};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{actor, created, desk, done};
use crate::body::Body;
use crate::command::Rendered;
use crate::document::Refusals;
use crate::idempotency::Key;
use crate::params::{Ids, Nothing, Query};
use crate::{App, Caller, Problem, schema};

/// The application's routes.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::default()
        .routes(routes!(create_analysis, list_analyses))
        .routes(routes!(get_analysis))
        .routes(routes!(lock_analysis))
        .routes(routes!(refresh_analysis_lock))
        .routes(routes!(release_analysis_lock))
        .routes(routes!(complete_analysis))
        .routes(routes!(deliver_analysis))
}

/// The routes' own refusals.
pub(crate) const REFUSALS: &[Refusals] = &[
    ("POST", "/analyses", &["conflict"], &[]),
    ("GET", "/analyses/{id}", &["not_found"], &[]),
    ("POST", "/analyses/{id}/lock", &["not_found", "not_claimable", "limit"], &[]),
    ("POST", "/analyses/{id}/lock/refresh", &["not_found", "held", "not_held", "lost", "stale_token"], &[]),
    ("POST", "/analyses/{id}/lock/release", &["not_found"], &[]),
    ("POST", "/analyses/{id}/complete", &["not_found", "not_held", "not_holder", "lost", "stale_token"], &[]),
    ("POST", "/internal/tasks/analysis", &["not_found", "not_claimable", "limit", "lost"], &[]),
];

/// Which analyses.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct AnalysesQuery {
    /// Only of this status.
    #[param(inline)]
    status: Option<AnalysisStatus>,
    /// Only those that a worker could lock now, or only the others.
    claimable: Option<bool>,
    /// Only after this one: the `next` of the page before.
    after: Option<String>,
    /// At most so many.
    #[param(minimum = 1, maximum = 200)]
    limit: Option<usize>,
}

/// Lock an analysis.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = LockAnalysis, example = json!({"owner": "worker-3", "ttl_sec": 300}))]
struct LockBody {
    /// The worker. One key may be used by many; they do not share a lock.
    #[schema(value_type = schema::Session)]
    owner: SessionId,
    /// Another time to live than the kind's, within its bounds.
    #[schema(minimum = 1, maximum = 3600)]
    ttl_sec: Option<i64>,
}

/// Keep a lock.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = RefreshAnalysisLock, example = json!({"owner": "worker-3", "token": 42}))]
struct RefreshBody {
    /// The worker.
    #[schema(value_type = schema::Session)]
    owner: SessionId,
    /// The lock's token, if the caller wants it checked.
    token: Option<u64>,
}

/// Let go of a lock.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ReleaseAnalysisLock, example = json!({"owner": "worker-3"}))]
struct ReleaseBody {
    /// The worker.
    #[schema(value_type = schema::Session)]
    owner: SessionId,
}

/// Run an analysis.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = DeliverAnalysis, example = json!({"analysis_id": "report-7"}))]
struct DeliverBody {
    /// Which.
    #[schema(value_type = schema::ItemId)]
    analysis_id: ItemId,
}

/// The application, and who asks it.
fn jobs(app: &App, caller: &Caller, key: Option<&Key>) -> Result<(Jobs, Actor), Problem> {
    Ok((Jobs::new(desk(app), app.workshop().clone()), actor(caller, "analysis", key)?))
}

/// Queue an analysis
///
/// It waits, `QUEUED`, until somebody delivers it or a worker takes it.
#[utoipa::path(post, path = "/analyses", tag = "jobs", request_body = NewAnalysis,
    responses((status = 201, description = "The analysis.", body = Analysis, headers(("Location" = String)))))]
async fn create_analysis(
    State(app): State<App>,
    caller: Caller,
    Body { value, key }: Body<NewAnalysis>,
) -> Result<Rendered, Problem> {
    let (jobs, actor) = jobs(&app, &caller, key.as_ref())?;
    let made = jobs.create(&actor, value).await?;
    let location = format!("/analyses/{}", made.value.id);
    created(&made, location)
}

/// List analyses
///
/// By id, without input and result, each with its lock as it is at the time of the answer.
#[utoipa::path(get, path = "/analyses", tag = "jobs", params(AnalysesQuery),
    responses((status = 200, description = "A page.", body = AnalysisPage)))]
async fn list_analyses(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<AnalysesQuery>,
) -> Result<Rendered, Problem> {
    let (jobs, actor) = jobs(&app, &caller, None)?;
    let AnalysesQuery { status, claimable, after, limit } = query;
    Rendered::json(&jobs.list(&actor, AnalysisQuery { status, claimable, after, limit }).await?)
}

/// Read an analysis
#[utoipa::path(get, path = "/analyses/{id}", tag = "jobs",
    params(("id" = String, Path, description = "The analysis' id.")),
    responses((status = 200, description = "The analysis.", body = Analysis)))]
async fn get_analysis(
    State(app): State<App>,
    caller: Caller,
    Ids([id]): Ids<1>,
    Query(Nothing {}): Query<Nothing>,
) -> Result<Rendered, Problem> {
    let (jobs, actor) = jobs(&app, &caller, None)?;
    Rendered::json(&jobs.get(&actor, &id)?)
}

/// Lock an analysis
///
/// For a worker of one's own. Free, or run out: acquired, and the analysis is `RUNNING`. Its owner asking
/// again renews it. Not acquiring is no error: `reason` says `locked` or `already_finished`.
#[utoipa::path(post, path = "/analyses/{id}/lock", tag = "jobs",
    params(("id" = String, Path, description = "The analysis' id.")), request_body = LockBody,
    responses((status = 200, description = "Acquired, or why not.", body = Locked)))]
async fn lock_analysis(
    State(app): State<App>,
    caller: Caller,
    Ids([id]): Ids<1>,
    Body { value, key }: Body<LockBody>,
) -> Result<Rendered, Problem> {
    let (jobs, actor) = jobs(&app, &caller, key.as_ref())?;
    done(&jobs.lock(&actor, &id, &value.owner, value.ttl_sec).await?)
}

/// Keep a lock of an analysis
///
/// About every `heartbeat_ms` of the kind's policy. A lock that is lost says so: stop the run then.
#[utoipa::path(post, path = "/analyses/{id}/lock/refresh", tag = "jobs",
    params(("id" = String, Path, description = "The analysis' id.")), request_body = RefreshBody,
    responses((status = 200, description = "Still the owner's.", body = Refreshed)))]
async fn refresh_analysis_lock(
    State(app): State<App>,
    caller: Caller,
    Ids([id]): Ids<1>,
    Body { value, key }: Body<RefreshBody>,
) -> Result<Rendered, Problem> {
    let (jobs, actor) = jobs(&app, &caller, key.as_ref())?;
    done(&jobs.refresh(&actor, &id, &value.owner, value.token).await?)
}

/// Let go of a lock of an analysis
///
/// Only its owner can. Where there was nothing to let go the lock stays as it is, and the answer is a
/// warning.
#[utoipa::path(post, path = "/analyses/{id}/lock/release", tag = "jobs",
    params(("id" = String, Path, description = "The analysis' id.")), request_body = ReleaseBody,
    responses((status = 200, description = "Released, or why not.", body = Released)))]
async fn release_analysis_lock(
    State(app): State<App>,
    caller: Caller,
    Ids([id]): Ids<1>,
    Body { value, key }: Body<ReleaseBody>,
) -> Result<Rendered, Problem> {
    let (jobs, actor) = jobs(&app, &caller, key.as_ref())?;
    done(&jobs.release(&actor, &id, &value.owner).await?)
}

/// Finish an analysis
///
/// Writes the result and `READY`, or the error and `FAILED`, and ends the lock, in one commit. The token must
/// be that of the lock which holds: a late result is refused.
#[utoipa::path(post, path = "/analyses/{id}/complete", tag = "jobs",
    params(("id" = String, Path, description = "The analysis' id.")), request_body = Finish,
    responses((status = 200, description = "The analysis, finished.", body = Analysis)))]
async fn complete_analysis(
    State(app): State<App>,
    caller: Caller,
    Ids([id]): Ids<1>,
    Body { value, key }: Body<Finish>,
) -> Result<Rendered, Problem> {
    let (jobs, actor) = jobs(&app, &caller, key.as_ref())?;
    done(&jobs.complete(&actor, &id, value).await?)
}

/// Deliver an analysis
///
/// For a queue: the server runs it and answers when it has ended. Delivered again, by whomever and how often,
/// it runs once: the others are `skipped`, with 200, so that the queue does not retry. Any other status asks
/// for another delivery.
#[utoipa::path(post, path = "/internal/tasks/analysis", tag = "jobs", request_body = DeliverBody,
    responses((status = 200, description = "What became of it.", body = Delivery)))]
async fn deliver_analysis(
    State(app): State<App>,
    caller: Caller,
    Body { value, key }: Body<DeliverBody>,
) -> Result<Rendered, Problem> {
    let (jobs, actor) = jobs(&app, &caller, key.as_ref())?;
    done(&jobs.deliver(&actor, value.analysis_id.as_str()).await?)
}
