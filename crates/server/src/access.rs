//! Who may do what: one table, from which the checks and the tests are made. Deny by default: a route
//! without a row answers 403 to everyone and fails the tests.

use axum::http::Method;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a principal may do. One word each; `admin` may everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Reads and watches.
    Viewer,
    /// Also claims and writes.
    Editor,
    /// Runs jobs: claims and completes.
    Worker,
    /// Overrides, configures, audits.
    Admin,
}

impl Role {
    /// The role of a word.
    pub fn of(word: &str) -> Option<Self> {
        [Self::Viewer, Self::Editor, Self::Worker, Self::Admin].into_iter().find(|role| role.as_str() == word)
    }

    /// Its word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Editor => "editor",
            Self::Worker => "worker",
            Self::Admin => "admin",
        }
    }
}

/// A set of roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Roles(u8);

impl Roles {
    /// Nobody.
    pub const NONE: Self = Self(0);
    /// Administrators.
    pub const ADMIN: Self = Self(1 << Role::Admin as u8);
    /// Who manages an application's own things: `inventory.manage` and the like.
    pub const MANAGE: Self = Self(Self::ADMIN.0 | 1 << Role::Editor as u8);
    /// Who may claim and write.
    pub const WRITE: Self = Self(Self::ADMIN.0 | 1 << Role::Editor as u8 | 1 << Role::Worker as u8);
    /// Who runs jobs.
    pub const RUN: Self = Self(Self::ADMIN.0 | 1 << Role::Worker as u8);
    /// Everyone who is signed in.
    pub const READ: Self = Self(Self::WRITE.0 | 1 << Role::Viewer as u8);

    /// The role is in the set.
    pub fn has(self, role: Role) -> bool {
        self.0 & (1 << role as u8) != 0
    }
}

/// A group of routes with a rate of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Group {
    /// Reading.
    Read,
    /// Claiming, renewing, writing.
    Write,
    /// Opening streams.
    Stream,
    /// Administration.
    Admin,
    /// Signing in.
    SignIn,
    /// Reserving numbers of a raffle.
    Reserve,
    /// Changing a reservation.
    Amend,
    /// Not limited: health and metrics.
    Free,
}

impl Group {
    /// Its name in the configuration and in the `RateLimit` header; `None` for what is not limited.
    pub fn name(self) -> Option<&'static str> {
        match self {
            Self::Read => Some("read"),
            Self::Write => Some("write"),
            Self::Stream => Some("stream"),
            Self::Admin => Some("admin"),
            Self::SignIn => Some("sign_in"),
            Self::Reserve => Some("reserve"),
            Self::Amend => Some("amend"),
            Self::Free => None,
        }
    }
}

/// Who may use a route.
#[derive(Clone, Copy, Debug)]
pub enum May {
    /// Anyone, signed in or not.
    Anyone,
    /// These roles: on what is their own, and on what is another's.
    Roles {
        /// On their own claims, and on what belongs to nobody.
        own: Roles,
        /// On another's claims. The engine refuses the rest as `not_holder`.
        other: Roles,
    },
}

/// One route's row.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The method.
    pub method: &'static str,
    /// The path as the router knows it.
    pub path: &'static str,
    /// Who may.
    pub may: May,
    /// Its rate group.
    pub group: Group,
}

const fn rule(method: &'static str, path: &'static str, may: May, group: Group) -> Rule {
    Rule { method, path, may, group }
}

const READ: May = May::Roles { own: Roles::READ, other: Roles::READ };
/// On one's own claim only.
const OWN: May = May::Roles { own: Roles::WRITE, other: Roles::NONE };
const WRITE: May = May::Roles { own: Roles::WRITE, other: Roles::WRITE };
/// An application's own things, of which another may hold some.
const MANAGE_OWN: May = May::Roles { own: Roles::MANAGE, other: Roles::NONE };
/// An application's own things, whoever holds them.
const MANAGE: May = May::Roles { own: Roles::MANAGE, other: Roles::MANAGE };
/// One's own alone; an administrator also sees and ends another's.
const SEE_OWN: May = May::Roles { own: Roles::READ, other: Roles::ADMIN };
const END_OWN: May = May::Roles { own: Roles::MANAGE, other: Roles::ADMIN };
/// Jobs, of which another worker may run some.
const RUN_OWN: May = May::Roles { own: Roles::RUN, other: Roles::NONE };
/// Jobs, whoever runs them.
const RUN: May = May::Roles { own: Roles::RUN, other: Roles::RUN };
const ADMIN: May = May::Roles { own: Roles::ADMIN, other: Roles::ADMIN };

/// The route of sockets.
pub(crate) const SOCKET_PATH: &str = "/v1/collections/{kind}/{name}/ws";
/// A collection's events, as a page or as a stream.
pub(crate) const EVENTS_PATH: &str = "/v1/collections/{kind}/{name}/events";
/// Many commands in one request.
pub(crate) const BATCH_PATH: &str = "/v1/batch";
pub(crate) const SESSION_PATH: &str = "/v1/session";

/// The route opens sockets: of a collection, or of a raffle's page.
pub(crate) fn is_socket_path(path: &str) -> bool {
    path == SOCKET_PATH || path == "/raffles/{id}/ws"
}

/// Every route. `{…}` stands for a path parameter, as in the router.
pub const TABLE: &[Rule] = &[
    rule("POST", "/v1/claims", OWN, Group::Write),
    rule("GET", "/v1/claims", READ, Group::Read),
    rule("GET", "/v1/claims/{id}", READ, Group::Read),
    rule("DELETE", "/v1/claims/{id}", OWN, Group::Write),
    rule("POST", "/v1/claims/{id}/heartbeat", OWN, Group::Write),
    rule("POST", "/v1/claims/{id}/items", OWN, Group::Write),
    rule("DELETE", "/v1/claims/{id}/items/{item}", OWN, Group::Write),
    rule("POST", "/v1/claims/{id}/advance", OWN, Group::Write),
    rule("POST", "/v1/claims/{id}/complete", OWN, Group::Write),
    rule("POST", "/v1/claims/{id}/cancel", OWN, Group::Write),
    rule("POST", "/v1/claims/{id}/nudge", WRITE, Group::Write),
    rule("GET", "/v1/collections", READ, Group::Read),
    rule("GET", "/v1/collections/{kind}/{name}", READ, Group::Read),
    rule("PUT", "/v1/collections/{kind}/{name}", WRITE, Group::Write),
    rule("GET", "/v1/collections/{kind}/{name}/items", READ, Group::Read),
    rule("GET", "/v1/collections/{kind}/{name}/items/{item}", READ, Group::Read),
    rule("PUT", "/v1/collections/{kind}/{name}/items/{item}", OWN, Group::Write),
    rule("DELETE", "/v1/collections/{kind}/{name}/items/{item}", OWN, Group::Write),
    rule("GET", "/v1/collections/{kind}/{name}/items/{item}/explain", READ, Group::Read),
    rule("POST", "/v1/collections/{kind}/{name}/items/{item}/force-release", ADMIN, Group::Admin),
    rule("POST", "/v1/collections/{kind}/{name}/items/{item}/force-claim", ADMIN, Group::Admin),
    rule("GET", EVENTS_PATH, READ, Group::Read),
    // A socket may also say who it is by a ticket or its first message; until then nobody is told anything.
    rule("GET", SOCKET_PATH, READ, Group::Stream),
    rule("POST", BATCH_PATH, WRITE, Group::Write),
    rule("GET", "/v1/audit", ADMIN, Group::Admin),
    rule("GET", "/v1/audit/verify", ADMIN, Group::Admin),
    rule("GET", "/v1/policies", ADMIN, Group::Admin),
    rule("GET", "/v1/policies/{kind}", ADMIN, Group::Admin),
    rule("PUT", "/v1/policies/{kind}", ADMIN, Group::Admin),
    rule("POST", "/tasks", MANAGE, Group::Write),
    rule("GET", "/tasks", READ, Group::Read),
    rule("GET", "/tasks/{id}", READ, Group::Read),
    rule("POST", "/tasks/{id}/lines", MANAGE_OWN, Group::Write),
    rule("PATCH", "/tasks/{id}/lines/{line}", MANAGE_OWN, Group::Write),
    rule("POST", "/tasks/{id}/lines/{line}/validate", MANAGE_OWN, Group::Write),
    rule("POST", "/tasks/{id}/ready", MANAGE, Group::Write),
    rule("POST", "/tasks/{id}/process", MANAGE_OWN, Group::Write),
    rule("POST", "/tasks/{id}/heartbeat", MANAGE_OWN, Group::Write),
    rule("POST", "/tasks/{id}/leave", MANAGE_OWN, Group::Write),
    rule("POST", "/tasks/{id}/finalize", MANAGE_OWN, Group::Write),
    rule("POST", "/tasks/{id}/cancel", MANAGE_OWN, Group::Write),
    rule("POST", "/tasks/{id}/force-release", ADMIN, Group::Admin),
    rule("POST", "/tasks/{id}/force-claim", ADMIN, Group::Admin),
    rule("POST", "/tasks/{id}/request-release", MANAGE, Group::Write),
    rule("GET", "/inventory", READ, Group::Read),
    rule("POST", "/api/v1/projects", MANAGE, Group::Write),
    rule("GET", "/api/v1/projects", READ, Group::Read),
    rule("GET", "/api/v1/projects/{id}", READ, Group::Read),
    rule("POST", "/api/v1/projects/{id}/images", MANAGE, Group::Write),
    rule("GET", "/api/v1/projects/{id}/images", READ, Group::Read),
    rule("GET", "/api/v1/projects/{id}/images/{image_id}", READ, Group::Read),
    rule("PATCH", "/api/v1/projects/{id}/images/{image_id}", MANAGE_OWN, Group::Write),
    rule("GET", "/api/v1/projects/{id}/images/{image_id}/file", READ, Group::Read),
    rule("GET", "/api/v1/projects/{id}/images/{image_id}/thumbnail", READ, Group::Read),
    rule("POST", "/api/v1/projects/{id}/images/{image_id}/annotations", MANAGE_OWN, Group::Write),
    rule("GET", "/api/v1/projects/{id}/images/{image_id}/annotations", READ, Group::Read),
    // The author's own, and the project owner's: the application says who that is.
    rule("PUT", "/api/v1/annotations/{id}", MANAGE_OWN, Group::Write),
    rule("DELETE", "/api/v1/annotations/{id}", MANAGE_OWN, Group::Write),
    // That another has it is an answer, not a refusal.
    rule("POST", "/api/v1/locks/acquire", MANAGE, Group::Write),
    rule("POST", "/api/v1/locks/release", MANAGE_OWN, Group::Write),
    rule("POST", "/api/v1/locks/heartbeat", MANAGE_OWN, Group::Write),
    rule("GET", "/api/v1/projects/{id}/locks", READ, Group::Read),
    rule("POST", "/analyses", WRITE, Group::Write),
    rule("GET", "/analyses", READ, Group::Read),
    rule("GET", "/analyses/{id}", READ, Group::Read),
    // Another's lock is no error to these: the answer says whose it is.
    rule("POST", "/analyses/{id}/lock", RUN, Group::Write),
    rule("POST", "/analyses/{id}/lock/refresh", RUN_OWN, Group::Write),
    rule("POST", "/analyses/{id}/lock/release", RUN, Group::Write),
    rule("POST", "/analyses/{id}/complete", RUN_OWN, Group::Write),
    rule("POST", "/internal/tasks/analysis", RUN, Group::Write),
    rule("GET", "/payment-providers", READ, Group::Read),
    rule("GET", "/admin/payment-providers", ADMIN, Group::Admin),
    rule("POST", "/admin/payment-providers", ADMIN, Group::Admin),
    rule("PATCH", "/admin/payment-providers/{id}", ADMIN, Group::Admin),
    rule("POST", "/payments", MANAGE_OWN, Group::Write),
    rule("GET", "/payments/{id}", SEE_OWN, Group::Read),
    // The token in the path says who it is; a browser that comes from the gateway brings no cookie.
    rule("GET", "/pay/{attempt}/{token}", May::Anyone, Group::Read),
    rule("POST", "/payments/callback/{attempt}/{token}", May::Anyone, Group::Write),
    rule("POST", "/payments/{id}/transfer", MANAGE_OWN, Group::Write),
    rule("POST", "/payments/{id}/cancel", END_OWN, Group::Write),
    rule("GET", "/admin/payments", ADMIN, Group::Admin),
    rule("POST", "/admin/payments/{id}/approve", ADMIN, Group::Admin),
    rule("POST", "/admin/payments/{id}/reject", ADMIN, Group::Admin),
    rule("POST", "/admin/payments/{id}/refund", ADMIN, Group::Admin),
    rule("POST", "/raffles", ADMIN, Group::Admin),
    rule("GET", "/raffles", READ, Group::Read),
    rule("GET", "/raffles/{id}", READ, Group::Read),
    rule("PATCH", "/raffles/{id}", ADMIN, Group::Admin),
    rule("GET", "/raffles/{id}/numbers", READ, Group::Read),
    rule("POST", "/raffles/{id}/draw", ADMIN, Group::Admin),
    rule("GET", "/raffles/{id}/draw", READ, Group::Read),
    rule("GET", "/raffles/{id}/ws", READ, Group::Stream),
    rule("GET", "/raffles/{id}/ws/stats", READ, Group::Read),
    rule("POST", "/reservations", MANAGE, Group::Reserve),
    rule("GET", "/reservations", READ, Group::Read),
    rule("GET", "/reservations/{id}", SEE_OWN, Group::Read),
    rule("POST", "/reservations/{id}/numbers", END_OWN, Group::Amend),
    rule("DELETE", "/reservations/{id}/numbers/{number}", END_OWN, Group::Amend),
    rule("POST", "/reservations/{id}/move-to-checkout", END_OWN, Group::Amend),
    rule("POST", "/reservations/{id}/cancel", END_OWN, Group::Amend),
    rule("GET", "/admin/reservations", ADMIN, Group::Admin),
    rule("POST", "/admin/jobs/expire-reservations", ADMIN, Group::Admin),
    rule("GET", "/openapi.json", May::Anyone, Group::Free),
    rule("GET", "/docs", May::Anyone, Group::Free),
    rule("GET", "/docs/problems", May::Anyone, Group::Free),
    rule("GET", "/docs/style.css", May::Anyone, Group::Free),
    rule("GET", "/v1/keys", ADMIN, Group::Admin),
    rule("POST", "/v1/keys", ADMIN, Group::Admin),
    rule("DELETE", "/v1/keys/{id}", ADMIN, Group::Admin),
    // Pages ask it before anybody is signed in.
    rule("GET", SESSION_PATH, May::Anyone, Group::Read),
    rule("POST", SESSION_PATH, May::Anyone, Group::SignIn),
    rule("DELETE", SESSION_PATH, READ, Group::Write),
    rule("DELETE", "/v1/sessions", READ, Group::Write),
    rule("POST", "/v1/tickets", READ, Group::Stream),
    rule("GET", "/healthz", May::Anyone, Group::Free),
    rule("GET", "/readyz", May::Anyone, Group::Free),
    rule("GET", "/metrics", May::Anyone, Group::Free),
];

/// The row of a route.
pub fn rule_of(method: &Method, path: &str) -> Option<&'static Rule> {
    // HEAD is GET without the body.
    let method = if method == Method::HEAD { "GET" } else { method.as_str() };
    rule_for(method, path)
}

/// The same, by the method's name.
pub(crate) fn rule_for(method: &str, path: &str) -> Option<&'static Rule> {
    TABLE.iter().find(|rule| rule.method == method && rule.path == path)
}
