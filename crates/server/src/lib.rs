//! `server` SPEAKS: routes, WebSocket, SSE, identity, limits, metrics. It parses, authorises, limits and
//! renders; it never decides who holds. Every change goes through [`tenure_engine::Engine`].
//!
//! Read in this order: `access` (every route, and who may), `app` (what handlers share), `problem`
//! (how a refusal reads), `view` (how things read), then `routes/`, one file per group;
//! `stream` (a collection's events as they happen) and `socket` (those and commands over a WebSocket).

mod accept;
mod access;
mod app;
mod apps;
mod body;
mod caller;
mod codes;
mod command;
pub mod config;
mod context;
mod docs;
mod document;
mod fields;
mod front;
mod gate;
pub mod gateway;
mod idempotency;
pub mod identity;
pub mod limits;
mod line;
pub mod log;
mod metrics;
mod net;
mod ops;
mod outbound;
mod page;
mod params;
mod problem;
mod rate;
mod router;
mod routes;
mod runner;
mod schema;
mod serve;
mod settler;
mod short;
mod socket;
mod stream;
mod time;
mod tls;
mod view;
mod web;
mod wording;

pub use accept::stop_signal;
pub use access::{Group, May, Role, Roles, Rule, TABLE, rule_of};
pub use app::App;
pub use apps::permissions_of;
pub use caller::{Caller, Credential};
pub use codes::{CODES, Code};
pub use front::{Client, Connection};
pub use idempotency::Key;
pub use metrics::Metrics;
pub use net::Network;
pub use problem::Problem;
pub use rate::{Rate, Rates};
pub use router::{bare_router, router, router_with};
pub use runner::{HttpRunner, RunnerSettings};
pub use serve::{ServeError, Server, serve, shield};
#[doc(hidden)]
pub use short::read_heads;

use utoipa_axum::router::OpenApiRouter;

/// The routes of identity and operations, to be merged with the others.
pub fn own_routes() -> OpenApiRouter<App> {
    identity::routes().merge(ops::routes())
}

/// Reads a socket's message, for whoever tests it with anything; the id that its answer would carry.
#[doc(hidden)]
pub fn echo_frame(text: &str) -> Option<&str> {
    match socket::message::read(text) {
        Ok(socket::message::Message::Command { id, .. }) => Some(id),
        Ok(_) => None,
        Err(wrong) => wrong.id,
    }
}
