//! `/tasks` and `/inventory`.

use axum::extract::State;
use serde::Deserialize;
use tenure_apps::Actor;
use tenure_apps::tasks::{
    Beat, EditLine, Inventory, Line, NewLine, NewTask, Task, TaskPage, TaskQuery, TaskStatus, Tasks,
};
use tenure_core::Text;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{actor, created, desk, done};
use crate::body::Body;
use crate::command::{NoBody, NudgeBody, Rendered};
use crate::document::Refusals;
use crate::idempotency::Key;
use crate::params::{Ids, Nothing, Query};
use crate::{App, Caller, Problem, schema};

/// The application's routes.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::default()
        .routes(routes!(create_task, list_tasks))
        .routes(routes!(get_task))
        .routes(routes!(add_task_line))
        .routes(routes!(edit_task_line))
        .routes(routes!(validate_task_line))
        .routes(routes!(ready_task))
        .routes(routes!(process_task))
        .routes(routes!(heartbeat_task))
        .routes(routes!(leave_task))
        .routes(routes!(finalize_task))
        .routes(routes!(cancel_task))
        .routes(routes!(force_release_task))
        .routes(routes!(force_claim_task))
        .routes(routes!(request_task_release))
        .routes(routes!(list_inventory))
}

/// A task that is not there, or whose status does not allow it.
const TASK: &[&str] = &["not_found", "wrong_status", "conflict"];
/// What needs the actor's own lock.
const LOCKED: &[&str] = &["held", "not_held", "stale_token"];

/// The routes' own refusals.
pub(crate) const REFUSALS: &[Refusals] = &[
    ("GET", "/tasks/{id}", &["not_found"], &[]),
    ("POST", "/tasks/{id}/lines", TASK, LOCKED),
    ("PATCH", "/tasks/{id}/lines/{line}", TASK, LOCKED),
    ("POST", "/tasks/{id}/lines/{line}/validate", TASK, LOCKED),
    ("POST", "/tasks/{id}/ready", TASK, &["held"]),
    ("POST", "/tasks/{id}/process", &["not_found"], &["held", "finished", "not_claimable", "limit"]),
    ("POST", "/tasks/{id}/heartbeat", &["not_found"], &["not_holder", "not_held", "lost", "stale_token"]),
    ("POST", "/tasks/{id}/leave", &["not_found"], &["not_holder", "not_held", "lost"]),
    ("POST", "/tasks/{id}/finalize", TASK, LOCKED),
    ("POST", "/tasks/{id}/cancel", TASK, &["held", "lost"]),
    ("POST", "/tasks/{id}/force-release", &["not_found"], &[]),
    ("POST", "/tasks/{id}/force-claim", &["not_found"], &["finished", "not_claimable"]),
    ("POST", "/tasks/{id}/request-release", &["not_found"], &["not_held"]),
];

/// A person's heartbeat.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"idle_ms": 4000}))]
struct TaskHeartbeatBody {
    /// How long there was no pointer, key, click, scroll or touch.
    #[schema(minimum = 0)]
    idle_ms: Option<i64>,
}

/// Why an administrator overrides a lock.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"reason": "Ana went home"}))]
struct OverrideBody {
    /// Why; kept in the audit log.
    #[schema(value_type = schema::Words)]
    reason: Text,
}

/// Which tasks.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct TasksQuery {
    /// Only of this status.
    #[param(inline)]
    status: Option<TaskStatus>,
    /// Only locked, or only free ones.
    locked: Option<bool>,
    /// Only after this one: the `next` of the page before.
    after: Option<String>,
    /// At most so many.
    #[param(minimum = 1, maximum = 200)]
    limit: Option<usize>,
}

/// Which products.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct InventoryQuery {
    /// Only after this one: the `next` of the page before.
    after: Option<String>,
    /// At most so many.
    #[param(minimum = 1, maximum = 200)]
    limit: Option<usize>,
}

/// The application, and who asks it.
fn tasks(app: &App, caller: &Caller, key: Option<&Key>) -> Result<(Tasks, Actor), Problem> {
    Ok((Tasks::new(desk(app)), actor(caller, "task", key)?))
}

/// Make a task
///
/// It begins as a draft. Say `ready` when it can be processed.
#[utoipa::path(post, path = "/tasks", tag = "tasks", request_body = NewTask,
    responses((status = 201, description = "The task.", body = Task, headers(("Location" = String)))))]
async fn create_task(
    State(app): State<App>,
    caller: Caller,
    Body { value, key }: Body<NewTask>,
) -> Result<Rendered, Problem> {
    let (tasks, actor) = tasks(&app, &caller, key.as_ref())?;
    let made = tasks.create(&actor, value).await?;
    let location = format!("/tasks/{}", made.value.id);
    created(&made, location)
}

/// List tasks
///
/// Oldest first, each with its lines and its lock as it is at the time of the answer.
#[utoipa::path(get, path = "/tasks", tag = "tasks", params(TasksQuery),
    responses((status = 200, description = "A page.", body = TaskPage)))]
async fn list_tasks(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<TasksQuery>,
) -> Result<Rendered, Problem> {
    let (tasks, actor) = tasks(&app, &caller, None)?;
    let TasksQuery { status, locked, after, limit } = query;
    Rendered::json(&tasks.list(&actor, TaskQuery { status, locked, after, limit }).await?)
}

/// Read a task
#[utoipa::path(get, path = "/tasks/{id}", tag = "tasks", params(("id" = String, Path, description = "The task's id.")),
    responses((status = 200, description = "The task.", body = Task)))]
async fn get_task(
    State(app): State<App>,
    caller: Caller,
    Ids([id]): Ids<1>,
    Query(Nothing {}): Query<Nothing>,
) -> Result<Rendered, Problem> {
    let (tasks, actor) = tasks(&app, &caller, None)?;
    Rendered::json(&tasks.get(&actor, &id)?)
}

/// Add a line
///
/// To a draft, or to a task that the caller processes.
#[utoipa::path(post, path = "/tasks/{id}/lines", tag = "tasks",
    params(("id" = String, Path, description = "The task's id.")), request_body = NewLine,
    responses((status = 201, description = "The line.", body = Line, headers(("Location" = String)))))]
async fn add_task_line(
    State(app): State<App>,
    caller: Caller,
    Ids([id]): Ids<1>,
    Body { value, key }: Body<NewLine>,
) -> Result<Rendered, Problem> {
    let (tasks, actor) = tasks(&app, &caller, key.as_ref())?;
    let made = tasks.add_line(&actor, &id, value).await?;
    created(&made, format!("/tasks/{id}"))
}

/// Change a line
///
/// Only while the caller processes the task. What is absent stays; the line is `pending` again.
#[utoipa::path(patch, path = "/tasks/{id}/lines/{line}", tag = "tasks",
    params(("id" = String, Path, description = "The task's id."),
        ("line" = String, Path, description = "The line's number.")),
    request_body = EditLine,
    responses((status = 200, description = "The line.", body = Line)))]
async fn edit_task_line(
    State(app): State<App>,
    caller: Caller,
    Ids([id, line]): Ids<2>,
    Body { value, .. }: Body<EditLine>,
) -> Result<Rendered, Problem> {
    let (tasks, actor) = tasks(&app, &caller, None)?;
    done(&tasks.edit_line(&actor, &id, &line, &value).await?)
}

/// Validate a line
///
/// Only while the caller processes the task: somebody has looked at it and found it right.
#[utoipa::path(post, path = "/tasks/{id}/lines/{line}/validate", tag = "tasks",
    params(("id" = String, Path, description = "The task's id."),
        ("line" = String, Path, description = "The line's number.")),
    request_body = Option<NoBody>,
    responses((status = 200, description = "The line.", body = Line)))]
async fn validate_task_line(
    State(app): State<App>,
    caller: Caller,
    Ids([id, line]): Ids<2>,
    Body { value: NoBody {}, key }: Body<NoBody>,
) -> Result<Rendered, Problem> {
    let (tasks, actor) = tasks(&app, &caller, key.as_ref())?;
    done(&tasks.validate_line(&actor, &id, &line).await?)
}

/// Heartbeat of a task
///
/// About every `heartbeat_ms` of the kind's policy while the person is active. One that tells of too long
/// an idle time renews nothing, and `reason` says so.
#[utoipa::path(post, path = "/tasks/{id}/heartbeat", tag = "tasks",
    params(("id" = String, Path, description = "The task's id.")), request_body = Option<TaskHeartbeatBody>,
    responses((status = 200, description = "Still yours.", body = Beat)))]
async fn heartbeat_task(
    State(app): State<App>,
    caller: Caller,
    Ids([id]): Ids<1>,
    Body { value, key }: Body<TaskHeartbeatBody>,
) -> Result<Rendered, Problem> {
    let (tasks, actor) = tasks(&app, &caller, key.as_ref())?;
    done(&tasks.heartbeat(&actor, &id, value.idle_ms).await?)
}

/// A route that needs nothing but the task.
macro_rules! plain_route {
    ($name:ident, $path:literal, $call:ident, $answer:literal, $($text:literal)+) => {
        $(#[doc = $text])+
        #[utoipa::path(post, path = $path, tag = "tasks",
            params(("id" = String, Path, description = "The task's id.")),
            request_body = Option<NoBody>,
            responses((status = 200, description = $answer, body = Task)))]
        async fn $name(
            State(app): State<App>,
            caller: Caller,
            Ids([id]): Ids<1>,
            Body { value: NoBody {}, key }: Body<NoBody>,
        ) -> Result<Rendered, Problem> {
            let (tasks, actor) = tasks(&app, &caller, key.as_ref())?;
            done(&tasks.$call(&actor, &id).await?)
        }
    };
}

plain_route!(ready_task, "/tasks/{id}/ready", ready, "The task, ready.",
    "Make a draft ready" "" "From then on it can be processed.");
plain_route!(process_task, "/tasks/{id}/process", process, "The task, locked by the caller.",
    "Process a task" "" "Claims it, and thereby it is `processing`. Again: renews, and keeps `locked_at`.");
plain_route!(leave_task, "/tasks/{id}/leave", leave, "The task, free.",
    "Leave process mode" "" "Only the holder can. Leaving twice is leaving.");
plain_route!(finalize_task, "/tasks/{id}/finalize", finalize, "The task, with the status of every line.",
    "Finalize a task" ""
    "Applies each line in its own commit; one that is applied is never applied again. All applied: "
    "`completed`; else `partially_completed`, with the reason on each line that failed. The lock ends in "
    "the same commit as the status. Repeated by whoever finalized, it shows the outcome again.");
plain_route!(cancel_task, "/tasks/{id}/cancel", cancel, "The task, cancelled.",
    "Cancel a task" "" "What was applied stays applied. Refused while another processes it.");

/// Free a task, whoever processes it
///
/// Audited as `LOCK_FORCE_RELEASE`. Freeing a free task does nothing.
#[utoipa::path(post, path = "/tasks/{id}/force-release", tag = "tasks",
    params(("id" = String, Path, description = "The task's id.")), request_body = OverrideBody,
    responses((status = 200, description = "The task, free.", body = Task)))]
async fn force_release_task(
    State(app): State<App>,
    caller: Caller,
    Ids([id]): Ids<1>,
    Body { value, key }: Body<OverrideBody>,
) -> Result<Rendered, Problem> {
    let (tasks, actor) = tasks(&app, &caller, key.as_ref())?;
    done(&tasks.force_release(&actor, &id, &value.reason).await?)
}

/// Take a task, whoever processes it
///
/// Audited as `LOCK_FORCE_CLAIM`.
#[utoipa::path(post, path = "/tasks/{id}/force-claim", tag = "tasks",
    params(("id" = String, Path, description = "The task's id.")), request_body = OverrideBody,
    responses((status = 200, description = "The task, locked by the caller.", body = Task)))]
async fn force_claim_task(
    State(app): State<App>,
    caller: Caller,
    Ids([id]): Ids<1>,
    Body { value, key }: Body<OverrideBody>,
) -> Result<Rendered, Problem> {
    let (tasks, actor) = tasks(&app, &caller, key.as_ref())?;
    done(&tasks.force_claim(&actor, &id, &value.reason).await?)
}

/// Ask the holder to let go
///
/// The holder sees it in the stream of events. It changes no lock.
#[utoipa::path(post, path = "/tasks/{id}/request-release", tag = "tasks",
    params(("id" = String, Path, description = "The task's id.")), request_body = Option<NudgeBody>,
    responses((status = 200, description = "The task, unchanged.", body = Task)))]
async fn request_task_release(
    State(app): State<App>,
    caller: Caller,
    Ids([id]): Ids<1>,
    Body { value, key }: Body<NudgeBody>,
) -> Result<Rendered, Problem> {
    let (tasks, actor) = tasks(&app, &caller, key.as_ref())?;
    done(&tasks.request_release(&actor, &id, value.message).await?)
}

/// List the stock
#[utoipa::path(get, path = "/inventory", tag = "tasks", params(InventoryQuery),
    responses((status = 200, description = "A page, by product.", body = Inventory)))]
async fn list_inventory(
    State(app): State<App>,
    caller: Caller,
    Query(InventoryQuery { after, limit }): Query<InventoryQuery>,
) -> Result<Rendered, Problem> {
    let (tasks, _) = tasks(&app, &caller, None)?;
    Rendered::json(&tasks.inventory(after, limit).await?)
}
