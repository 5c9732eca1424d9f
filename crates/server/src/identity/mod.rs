//! Who somebody is: API keys, tokens of the host application, browser sessions, socket tickets. It turns
//! what a request carries into a [`Caller`], and knows when that is no longer one. It never decides what a
//! caller may do: that is `access`.
//!
//! Keys, sessions and tickets are documents of Tenure's own kind, written through the engine: durable,
//! audited, and the same on every node. No secret is in any of them, only hashes.

mod cookie;
mod documents;
mod jwt;
mod keys;
mod mirror;
mod routes;
mod secret;
mod sessions;
mod shown;
mod tickets;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, Method};
use parking_lot::Mutex;
use tenure_core::{Principal, Text};
use tenure_engine::{Engine, StoreError};
use tokio::task::JoinHandle;

pub use cookie::CSRF_HEADER;
pub use jwt::{Algorithm, JwtSettings};
pub(crate) use keys::{KeyChange, wrong_with_own};
pub use keys::{MadeKey, NewKey};
pub(crate) use secret::MASK;
pub use secret::{Secret, ServerSecret};
pub(crate) use shown::Shown;
pub use tickets::Ticket;

pub(crate) use routes::routes;

use crate::front::Client;
use crate::limits::{REVOKE_WITHIN, SWEEP_EVERY};
use crate::{Caller, Credential, Problem, Role};

/// Why identity cannot start: a sentence for the operator.
#[derive(Debug)]
pub struct Error(pub(crate) String);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// How people and programs are known.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The server's own secret.
    pub secret: ServerSecret,
    /// The host application's tokens, if any are accepted.
    pub jwt: Option<JwtSettings>,
    /// How long browser sessions last.
    pub sessions: SessionTimes,
    /// Who can sign in without a key: nobody, unless this is a demonstration.
    pub people: Vec<Person>,
    /// Other sites whose pages may use a session, beside the server's own.
    pub allowed_origins: Vec<String>,
}

/// How long browser sessions last.
#[derive(Clone, Copy, Debug)]
pub struct SessionTimes {
    /// Without a request.
    pub idle_ms: i64,
    /// At all.
    pub absolute_ms: i64,
}

impl Default for SessionTimes {
    fn default() -> Self {
        Self { idle_ms: 8 * 3_600_000, absolute_ms: 7 * 24 * 3_600_000 }
    }
}

/// Somebody of the demonstration.
#[derive(Clone, Debug)]
pub struct Person {
    /// Who.
    pub principal: Principal,
    /// What they may do.
    pub role: Role,
}

/// The people of the demonstration, one for each thing to show.
pub fn demo_people() -> Vec<Person> {
    let people = [
        ("ana", "Ana", Role::Editor),
        ("bruno", "Bruno", Role::Editor),
        ("carmen", "Carmen", Role::Admin),
        ("diego", "Diego", Role::Viewer),
    ];
    let principal = |id: &str, name: &str| Principal::new(id, name).expect("the people have valid names");
    people.into_iter().map(|(id, name, role)| Person { principal: principal(id, name), role }).collect()
}

impl Settings {
    /// API keys and sessions, nothing else.
    pub fn new(secret: ServerSecret) -> Self {
        let sessions = SessionTimes::default();
        Self { secret, jwt: None, sessions, people: Vec::new(), allowed_origins: Vec::new() }
    }
}

/// Knows who somebody is. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Identity(Arc<Inner>);

struct Inner {
    engine: Engine,
    settings: Settings,
    jwt: Option<jwt::Jwt>,
    keys: Arc<mirror::Mirror<keys::KeyDocument>>,
    sessions: Arc<mirror::Mirror<sessions::SessionDocument>>,
    /// Stopped when the last clone is dropped.
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        for task in self.tasks.get_mut().drain(..) {
            task.abort();
        }
    }
}

impl Identity {
    /// Knows nobody until it is started.
    pub fn new(engine: Engine, settings: Settings) -> Result<Self, Error> {
        let jwt = settings.jwt.clone().map(jwt::Jwt::new).transpose()?;
        let keys = Arc::new(mirror::Mirror::new(documents::collection(documents::KEYS)));
        let sessions = Arc::new(mirror::Mirror::new(documents::collection(documents::SESSIONS)));
        let tasks = Mutex::default();
        Ok(Self(Arc::new(Inner { engine, settings, jwt, keys, sessions, tasks })))
    }

    /// A key of the server's own secret, for this purpose alone.
    pub fn derive(&self, purpose: &str) -> [u8; 32] {
        self.0.settings.secret.derive(purpose, &[])
    }

    /// Reads keys and sessions, follows their changes and removes what has run out. Needs a runtime.
    pub fn start(&self) -> Result<(), StoreError> {
        self.load_keys()?;
        self.load_sessions()?;
        let inner = Arc::downgrade(&self.0);
        self.run(async move {
            let mut after = None;
            let mut ticks = tokio::time::interval(SWEEP_EVERY);
            ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                let Some(inner) = inner.upgrade() else { return };
                after = Self(inner).sweep(after).await;
            }
        });
        Ok(())
    }

    /// Who sends this request; `None` when it carries nothing. A session needs its header on whatever
    /// changes something. Its connection may remember what it last showed.
    pub(crate) fn authenticate(
        &self,
        method: &Method,
        headers: &HeaderMap,
        client: &Client,
        shown: Option<&Shown>,
    ) -> Result<Option<Caller>, Problem> {
        if headers.contains_key(AUTHORIZATION) {
            let caller = match shown {
                Some(shown) => self.caller_of_shown(headers, shown),
                None => self.caller_of_bearer(headers),
            };
            return caller.map(Some);
        }
        let Some(secret) = cookie::read(headers, client) else { return Ok(None) };
        let Some(caller) = self.caller_of_session(&secret)? else {
            return Err(Problem::unauthenticated("the session is over: sign in again"));
        };
        if !method.is_safe() {
            self.check_origin(headers, client)?;
            if !headers.contains_key(CSRF_HEADER) {
                let detail = "a page that changes something sends the header X-Tenure-CSRF: 1";
                return Err(Problem::forbidden(detail));
            }
        }
        Ok(Some(caller))
    }

    /// The caller's key, token or session still counts; an error where nobody could look. It may have been revoked
    /// then, so nothing more is done for it, and it may be good, so nobody is told that it is over.
    pub fn is_live(&self, caller: &Caller) -> Result<bool, Problem> {
        match &caller.credential {
            Credential::Key(id) => Ok(self.keys().find(self.engine(), id)?.is_some_and(|row| {
                row.value.role == caller.role && kinds_of(row.value.kinds.as_ref()) == caller.kinds
            })),
            Credential::Session(id) => self.session_is_live(id),
            Credential::Jwt { expires_at_ms } => Ok(self.engine().now_ms() < *expires_at_ms),
        }
    }

    /// The same, for somebody who asks again and again: nothing is looked up as long as no key has changed.
    pub(crate) fn is_still_live(&self, caller: &Caller, found_at: &mut Option<u64>) -> Result<bool, Problem> {
        let Credential::Key(id) = &caller.credential else { return self.is_live(caller) };
        let changes = self.keys().changes();
        if *found_at == Some(changes) {
            return Ok(true);
        }
        let is_live = self.is_live(caller)?;
        // One that only the store knows can go there without a change here.
        *found_at = (is_live && self.keys().get(id).is_some()).then_some(changes);
        Ok(is_live)
    }

    /// Ends when the caller is no longer one: key revoked, signed out, session or token over; and with an error when
    /// nobody can tell any more. A socket races it against its messages, and so closes within [`REVOKE_WITHIN`].
    pub async fn revoked(&self, caller: &Caller) -> Result<(), Problem> {
        let (mut keys, mut sessions) = (self.keys().removals(), self.sessions().removals());
        let is_key = matches!(caller.credential, Credential::Key(_));
        while self.is_live(caller)? {
            // Removals wake at once; what runs out by time is looked for. A key does not run out.
            tokio::select! {
                _ = keys.changed() => {}
                _ = sessions.changed() => {}
                () = tokio::time::sleep(REVOKE_WITHIN / 2), if !is_key => {}
            }
        }
        Ok(())
    }

    /// A page of this origin may use a session or open a socket: the server's own, or one that is
    /// configured. A request without the header is no page's.
    pub fn check_origin(&self, headers: &HeaderMap, client: &Client) -> Result<(), Problem> {
        let Some(origin) = headers.get("origin") else { return Ok(()) };
        let host = headers.get("host").and_then(|host| host.to_str().ok()).unwrap_or("");
        let origin = origin.to_str().unwrap_or("");
        // Without TLS of our own somebody in between may have added it.
        let own_schemes: &[&str] = if client.is_tls { &["https"] } else { &["http", "https"] };
        let is_own = origin.split_once("://").is_some_and(|(scheme, authority)| {
            own_schemes.contains(&scheme) && !host.is_empty() && authority.eq_ignore_ascii_case(host)
        });
        if is_own || self.0.settings.allowed_origins.iter().any(|allowed| allowed == origin) {
            Ok(())
        } else {
            Err(Problem::forbidden("pages of this origin are not allowed here"))
        }
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.0.settings
    }

    fn caller_of_bearer(&self, headers: &HeaderMap) -> Result<Caller, Problem> {
        let mut values = headers.get_all(AUTHORIZATION).iter();
        let (Some(value), None) = (values.next(), values.next()) else {
            return Err(Problem::unauthenticated("Authorization stands twice"));
        };
        let secret = value
            .to_str()
            .ok()
            .and_then(|text| text.split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
            .map(|(_, secret)| Secret::new(secret.trim()))
            .ok_or_else(|| Problem::unauthenticated("send Authorization: Bearer and a key or token"))?;
        self.caller_of_secret(&secret)
    }

    /// Who sends this API key, or this token of the host application.
    pub(crate) fn caller_of_secret(&self, secret: &Secret) -> Result<Caller, Problem> {
        if let Some(jwt) = self.0.jwt.as_ref().filter(|_| secret.has_form_of_jwt()) {
            // Not looked for in the store as an unknown key is: every request of every person brings such a token. The
            // operator's own key may look like one.
            return match self.caller_of_known_key(secret) {
                Some(caller) => Ok(caller),
                None => jwt.caller(secret, wall_ms(), self.engine().now_ms()),
            };
        }
        if let Some(caller) = self.caller_of_key(secret)? {
            return Ok(caller);
        }
        match &self.0.jwt {
            Some(jwt) if secret.expose().contains('.') => {
                jwt.caller(secret, wall_ms(), self.engine().now_ms())
            }
            _ if secret.is_well_formed(secret::Use::ApiKey) => {
                Err(Problem::unauthenticated("the API key is not known here: it was revoked or never made"))
            }
            _ => {
                Err(Problem::unauthenticated("the credentials are neither a known API key nor a valid token"))
            }
        }
    }

    async fn sweep(&self, after: Option<tenure_core::ItemId>) -> Option<tenure_core::ItemId> {
        self.sweep_sessions().await;
        self.sweep_tickets(after).await
    }

    fn engine(&self) -> &Engine {
        &self.0.engine
    }

    fn secret(&self) -> &ServerSecret {
        &self.0.settings.secret
    }

    fn keys(&self) -> &Arc<mirror::Mirror<keys::KeyDocument>> {
        &self.0.keys
    }

    fn sessions(&self) -> &Arc<mirror::Mirror<sessions::SessionDocument>> {
        &self.0.sessions
    }

    fn run(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.0.tasks.lock().push(tokio::spawn(task));
    }
}

/// The wall clock, which the host application's tokens go by.
fn wall_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

fn kinds_of(kinds: Option<&Vec<Text>>) -> Option<Arc<[Text]>> {
    kinds.map(|kinds| Arc::from(kinds.as_slice()))
}
