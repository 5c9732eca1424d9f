//! `server` SPEAKS: routes, WebSocket, SSE, identity, limits, metrics. It parses, authorises, limits and
//! renders; it never decides who holds. Every change goes through [`tenure_engine::Engine`].
//!
//! Read in this order: `access` (every route, and who may), `app` (what handlers share), `problem`
//! (how a refusal reads), `view` (how things read), then `routes/`, one file per group.

mod access;
mod app;
mod body;
mod caller;
mod codes;
mod command;
mod docs;
mod document;
mod idempotency;
pub mod limits;
mod page;
mod params;
mod problem;
mod router;
mod routes;
mod schema;
mod time;
mod view;

pub use access::{Group, May, Role, Roles, Rule, TABLE, rule_of};
pub use app::App;
pub use caller::{Caller, Credential};
pub use codes::{CODES, Code};
pub use idempotency::Key;
pub use problem::Problem;
pub use router::{router, router_with};
