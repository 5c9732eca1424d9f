//! The applications' routes. A handler parses, says who asks, calls the application and renders; what may
//! be done and what comes of it is the application's and the engine's.

mod labels;
mod served;
mod tasks;
mod upload;

use std::fmt;

use axum::http::StatusCode;
use serde::Serialize;
use tenure_apps::{Actor, Desk, Done, Permission, Refusal, RequestKey};
use tenure_core::{ItemId, Verb};
use utoipa_axum::router::OpenApiRouter;

use crate::access::{Role, Roles};
use crate::command::{Asked, Rendered};
use crate::idempotency::Key;
use crate::problem::from_store;
use crate::{App, Caller, Problem};

/// Every application's routes, with their part of the document.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::default().merge(tasks::routes()).merge(labels::routes())
}

/// The refusals that are a route's own, by application.
pub(crate) const REFUSALS: &[&[crate::document::Refusals]] = &[tasks::REFUSALS, labels::REFUSALS];

/// Which roles have a permission. The access table says the same by route.
const PERMISSIONS: &[(Permission, Roles)] = &[
    (Permission::InventoryManage, Roles::MANAGE),
    (Permission::Override, Roles::ADMIN),
    (Permission::LabelsManage, Roles::MANAGE),
    (Permission::JobsRun, Roles::WRITE),
];

/// What is an application's own.
struct Owned {
    /// The collection; one that ends in a slash stands for a whole kind.
    collection: &'static str,
    /// The items in it that are.
    is_own: fn(&ItemId) -> bool,
    /// What its locks need.
    permission: Permission,
    /// What writes it.
    routes: &'static str,
}

const OWNED: &[Owned] = &[
    Owned {
        collection: tenure_apps::tasks::COLLECTION,
        is_own: |_| true,
        permission: Permission::InventoryManage,
        routes: "/tasks",
    },
    Owned {
        collection: "image/",
        is_own: tenure_apps::labels::is_own,
        permission: Permission::LabelsManage,
        routes: "/api/v1/projects",
    },
];

/// The general routes give nobody more than an application's own: its documents are written through it,
/// and its locks need its permission. An administrator may mend what is broken; the audit log says so.
pub(crate) fn check_owned(caller: &Caller, asked: &Asked) -> Result<(), Problem> {
    let (collection, key) = (&asked.collection, asked.collection.as_str());
    let covers = |known: &str| known == key || known.ends_with('/') && key.starts_with(known);
    let owned = OWNED.iter().find(|owned| covers(owned.collection));
    let Some(Owned { is_own, permission, routes, .. }) = owned else { return Ok(()) };
    let writes = match &asked.verb {
        Verb::PutItem(put) => is_own(&put.write.item),
        Verb::DeleteItem { item, .. } => is_own(item),
        Verb::Complete(_) => true,
        _ => false,
    };
    let permissions = permissions_of(caller.role);
    if writes && !permissions.contains(&Permission::Override) {
        return Err(Problem::forbidden(format!("{collection} is written through {routes}")));
    }
    if !permissions.contains(permission) {
        return Err(Refusal::Forbidden { permission: *permission }.into());
    }
    Ok(())
}

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
            Refusal::NotAuthor { what, id, author } => {
                let problem = Self::forbidden(detail).with("what", what).with("id", id);
                problem.with("author", serde_json::json!(author))
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
