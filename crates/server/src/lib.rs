//! `server` SPEAKS: routes, WebSocket, SSE, identity, limits, metrics. It parses, authorises, limits and
//! renders; it never decides who holds. Every change goes through [`tenure_engine::Engine`].
//!
//! Read in this order: `access` (every route, and who may), `app` (what handlers share), `problem`
//! (how a refusal reads), `view` (how things read), then `routes/`, one file per group.

mod access;
mod app;
mod body;
mod caller;
mod idempotency;
mod limits;
mod problem;
mod time;

pub use access::{Group, May, Role, Roles, Rule, TABLE};
pub use app::App;
pub use caller::{Caller, Credential};
pub use problem::Problem;
