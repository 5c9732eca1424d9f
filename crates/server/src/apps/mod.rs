//! The applications' routes. A handler parses, says who asks, calls the application and renders; what may
//! be done and what comes of it is the application's and the engine's.

mod jobs;
mod labels;
mod payments;
pub(crate) mod raffle;
mod served;
mod tasks;
mod upload;

use std::fmt;
pub(crate) use upload::Uploading;

use axum::http::StatusCode;
use serde::Serialize;
use tenure_apps::{Actor, Desk, Done, Permission, Refusal, RequestKey};
use tenure_core::command::Complete;
use tenure_core::{CollectionKey, Verb};
use utoipa_axum::router::OpenApiRouter;

use crate::access::{Role, Roles};
use crate::command::{Asked, Location, Rendered};
use crate::idempotency::Key;
use crate::problem::from_store;
use crate::{App, Caller, Problem};

/// Every application's routes, with their part of the document.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::default()
        .merge(tasks::routes())
        .merge(labels::routes())
        .merge(jobs::routes())
        .merge(payments::routes())
        .merge(raffle::routes())
}

/// The refusals that are a route's own, by application.
pub(crate) const REFUSALS: &[&[crate::document::Refusals]] =
    &[tasks::REFUSALS, labels::REFUSALS, jobs::REFUSALS, raffle::REFUSALS, payments::REFUSALS];

/// Which roles have a permission. The access table says the same by route.
const PERMISSIONS: &[(Permission, Roles)] = &[
    (Permission::InventoryManage, Roles::MANAGE),
    (Permission::Override, Roles::ADMIN),
    (Permission::LabelsManage, Roles::MANAGE),
    (Permission::JobsQueue, Roles::WRITE),
    (Permission::JobsRun, Roles::RUN),
    (Permission::RaffleBuy, Roles::MANAGE),
    (Permission::RaffleManage, Roles::ADMIN),
    (Permission::PaymentsManage, Roles::ADMIN),
];

/// Collections of one application, with the permission for their locks. One that ends in a slash stands for
/// a whole kind.
const LOCKS: &[(&str, Permission)] = &[
    ("image/", Permission::LabelsManage),
    (tenure_apps::tasks::COLLECTION, Permission::InventoryManage),
    (tenure_apps::jobs::COLLECTION, Permission::JobsRun),
];

/// The general routes give nobody more than an application's own: its documents are written through it,
/// and its locks need its permission. An administrator may mend what is broken; the audit log says so.
pub(crate) fn check_owned(app: &App, caller: &Caller, asked: &Asked) -> Result<(), Problem> {
    // A raffle's limits stand before a claim and its documents beside it, so that claims are its own too. A number
    // that an administrator claims or writes here would be nobody's reservation, and sold for nothing.
    let is_mending = has(caller.role, Permission::Override)
        && (writes_own(asked) || matches!(asked.verb, Verb::ForceRelease { .. }));
    if !is_mending && tenure_apps::raffle::is_raffle(app.desk(), &asked.collection)? {
        let detail =
            format!("numbers of {} are reserved at /reservations and sold by /payments", asked.collection);
        return Err(Problem::forbidden(detail));
    }
    if writes_own(asked) && !has(caller.role, Permission::Override) {
        let detail = format!("what is in {} is written by its application; use its routes", asked.collection);
        return Err(Problem::forbidden(detail));
    }
    let key = asked.collection.as_str();
    let covers = |known: &str| known == key || known.ends_with('/') && key.starts_with(known);
    let locks = LOCKS.iter().find(|(known, _)| covers(known));
    match locks {
        Some((_, permission)) if !has(caller.role, *permission) => {
            Err(Refusal::Forbidden { permission: *permission }.into())
        }
        _ => Ok(()),
    }
}

/// In a raffle the claims and documents say who wants which number and how they pay: that is nobody's business
/// but theirs. Its own routes show to each what is theirs; the general ones show it to administrators.
pub(crate) fn check_seen(app: &App, caller: &Caller, key: &CollectionKey) -> Result<(), Problem> {
    if caller.role != Role::Admin && tenure_apps::raffle::is_raffle(app.desk(), key)? {
        return Err(Problem::forbidden(format!("{key} is seen through /raffles and /reservations")));
    }
    Ok(())
}

/// It writes an application's document.
fn writes_own(asked: &Asked) -> bool {
    let own = |item| tenure_apps::is_own(&asked.collection, item);
    match &asked.verb {
        Verb::PutItem(put) => own(Some(&put.write.item)),
        Verb::DeleteItem { item, .. } => own(Some(item)),
        Verb::Complete(Complete { status: None, data: None, items, .. }) if items.is_empty() => false,
        Verb::Complete(_) => own(None),
        _ => false,
    }
}

/// Where the applications work.
fn desk(app: &App) -> Desk {
    app.desk().clone()
}

/// The role has the permission.
fn has(role: Role, permission: Permission) -> bool {
    PERMISSIONS.iter().any(|(known, roles)| *known == permission && roles.has(role))
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
    let location = Some(Location::Path(location.to_string()));
    Ok(Rendered { status: StatusCode::CREATED, location, ..done(made)? })
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let (detail, code) = (refusal.to_string(), refusal.code());
        match refusal {
            Refusal::Engine { refused, at_ms, .. } => Self::from_refused(&refused, at_ms),
            Refusal::Invalid { field, message } => Self::invalid(&field, message),
            Refusal::NotFound { what, id } => Self::not_found(what, id),
            Refusal::Forbidden { permission } => {
                Self::forbidden(detail).with("permission", permission.as_str())
            }
            Refusal::NotAuthor { what, id, author } => {
                let problem = Self::forbidden(detail).with("what", what).with("id", id);
                problem.with("author", serde_json::json!(author))
            }
            Refusal::NotOwner { what, id } => Self::forbidden(detail).with("what", what).with("id", id),
            Refusal::OwnPayment { id } => Self::forbidden(detail).with("what", "payment").with("id", id),
            Refusal::Taken { numbers, wait_ms } => {
                let problem = Self::new(StatusCode::CONFLICT, code, detail).with("unavailable", numbers);
                match wait_ms {
                    Some(wait_ms) => problem.retry(seconds(wait_ms)),
                    None => problem,
                }
            }
            Refusal::Limit { limit, max } => {
                Self::new(StatusCode::CONFLICT, "limit", detail).with("limit", limit).with("max", max)
            }
            Refusal::TooOften { limit, max, wait_ms } => {
                let problem = Self::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", detail);
                problem.with("limit", limit).with("max", max).retry(seconds(wait_ms))
            }
            Refusal::Lost { what, id, holder } => {
                let problem = Self::new(StatusCode::GONE, "lost", detail).with("what", what).with("id", id);
                problem.with("holder", serde_json::json!(holder))
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

/// Whole seconds, at least one.
fn seconds(wait_ms: i64) -> u64 {
    u64::try_from(wait_ms).unwrap_or(0).div_ceil(1_000).max(1)
}
