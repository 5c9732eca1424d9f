//! `server` SPEAKS: routes, WebSocket, SSE, identity, limits, metrics. It parses, authorises, limits and
//! renders; it never decides who holds. Every change goes through [`tenure_engine::Engine`].
//!
//! Read in this order: `access` (every route, and who may), `app` (what handlers share), `problem`
//! (how a refusal reads), `view` (how things read), then `routes/`, one file per group.

mod accept;
mod access;
mod app;
mod body;
mod caller;
pub mod config;
mod front;
mod gate;
mod idempotency;
pub mod identity;
pub mod limits;
pub mod log;
mod metrics;
mod net;
mod ops;
mod problem;
mod rate;
mod serve;
mod time;
mod tls;

pub use accept::stop_signal;
pub use access::{Group, May, Role, Roles, Rule, TABLE};
pub use app::App;
pub use caller::{Caller, Credential};
pub use front::{Client, Connection};
pub use metrics::Metrics;
pub use net::Network;
pub use problem::Problem;
pub use rate::{Rate, Rates};
pub use serve::{ServeError, Server, serve, shield};

use utoipa_axum::router::OpenApiRouter;

/// The routes of identity and operations, to be merged with the others.
pub fn own_routes() -> OpenApiRouter<App> {
    identity::routes().merge(ops::routes())
}
