//! The applications' routes. A handler parses, says who asks, calls the application and renders; what may
//! be done and what comes of it is the application's and the engine's.

mod jobs;
mod tasks;

use std::fmt;

use axum::http::StatusCode;
use serde::Serialize;
use tenure_apps::{Actor, Desk, Done, Permission, Refusal, RequestKey};
use utoipa_axum::router::OpenApiRouter;

use crate::access::{Role, Roles};
use crate::command::Rendered;
use crate::idempotency::Key;
use crate::problem::from_store;
use crate::{App, Caller, Problem};

/// Every application's routes, with their part of the document.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::default().merge(tasks::routes()).merge(jobs::routes())
}

/// The refusals that are a route's own, by application.
pub(crate) const REFUSALS: &[&[crate::document::Refusals]] = &[tasks::REFUSALS, jobs::REFUSALS];

/// Which roles have a permission. The access table says the same by route.
const PERMISSIONS: &[(Permission, Roles)] = &[
    (Permission::InventoryManage, Roles::MANAGE),
    (Permission::Override, Roles::ADMIN),
    (Permission::LabelsManage, Roles::MANAGE),
    (Permission::JobsQueue, Roles::WRITE),
    (Permission::JobsRun, Roles::RUN),
];

/// Where the applications work.
fn desk(app: &App) -> Desk {
    Desk::new(app.engine().clone())
}

/// What a role may do in the applications.
pub fn permissions_of(role: Role) -> Vec<Permission> {
    PERMISSIONS.iter().filter(|(_, roles)| roles.has(role)).map(|(permission, _)| *permission).collect()
}

/// Who asks an application of this kind.
fn actor(caller: &Caller, kind: &str, key: Option<&Key>) -> Result<Actor, Problem> {
    caller.check_kind(kind)?;
    Ok(Actor {
        key: key.map(request_key),
        ..Actor::new(caller.principal.clone(), permissions_of(caller.role))
    })
}

/// The caller's key, short enough that an application can name its steps.
fn request_key(key: &Key) -> RequestKey {
    let idempotency = key.within(RequestKey::BYTES_MAX).idempotency();
    RequestKey::new(idempotency.key, idempotency.fingerprint)
}

/// What an application did, with 200.
fn done<T: Serialize>(done: &Done<T>) -> Result<Rendered, Problem> {
    Ok(Rendered { replayed: done.replayed, ..Rendered::json(&done.value)? })
}

/// The same for something new, with 201 and where it is.
fn created<T: Serialize>(made: &Done<T>, location: impl fmt::Display) -> Result<Rendered, Problem> {
    let location = Some(location.to_string());
    Ok(Rendered { status: StatusCode::CREATED, location, ..done(made)? })
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let detail = refusal.to_string();
        match refusal {
            Refusal::Engine { refused, at_ms, .. } => Self::from_refused(&refused, at_ms),
            Refusal::Invalid { field, message } => Self::invalid(&field, message),
            Refusal::NotFound { what, id } => Self::not_found(what, id),
            Refusal::Forbidden { permission } => {
                Self::forbidden(detail).with("permission", permission.as_str())
            }
            Refusal::WrongStatus { what, id, status, .. } => {
                let problem = Self::new(StatusCode::CONFLICT, "wrong_status", detail);
                problem.with("what", what).with("id", id).with("item_status", status)
            }
            Refusal::Store(error) => from_store(&error),
            // Logged where it was found.
            Refusal::Broken => Self::internal(),
        }
    }
}
