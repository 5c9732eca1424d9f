//! A server in this process, with a clock that is moved by hand.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Method, Request, StatusCode};
use serde_json::Value;
use tenure_apps::files::InMemory;
use tenure_core::CollectionKey;
use tenure_engine::{Clock, Engine, ManualClock, Options};
use tenure_server::identity::{Identity, Secret, ServerSecret, Settings};
use tenure_server::{App, Metrics, Rate, Rates, router, shield};
use tenure_store::conformance::AnyStore;
use tower::ServiceExt;

pub(crate) const ADMIN: &str = "tnr_the-administrators-own-key";
pub(crate) const NOW_MS: i64 = 1_700_000_000_000;

use crate::away::{Away, Switch};

pub(crate) struct World {
    pub(crate) app: App,
    pub(crate) router: Router,
    pub(crate) clock: ManualClock,
    pub(crate) engine: Engine,
    /// While it is on, no document can be looked for.
    pub(crate) away: Switch,
    /// Where other nodes find what this one keeps.
    place: Option<String>,
}

pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or(Value::Null)
    }

    /// The status and, for a problem, its code.
    pub(crate) fn short(&self) -> String {
        match self.json()["code"].as_str() {
            Some(code) => format!("{} {code}", self.status.as_u16()),
            None => self.status.as_u16().to_string(),
        }
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The cookie that it sets, as a browser would send it back.
    pub(crate) fn cookie(&self) -> String {
        self.header("set-cookie").split(';').next().unwrap().to_owned()
    }
}

pub(crate) fn settings() -> Settings {
    Settings::new(ServerSecret::new(b"the same on every node"))
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with(settings(), no_limits()).await
    }

    pub(crate) async fn with(settings: Settings, rates: Rates) -> Self {
        let (place, clock, metrics) = (AnyStore::place(), ManualClock::at(NOW_MS), Metrics::new());
        let (engine, away) = engine(place.as_deref(), &clock, &metrics);
        Self::around((engine, away), place, clock, metrics, settings, rates).await
    }

    /// In memory whatever the run is told: for tests in which the runtime's time stands still, and leaps whenever
    /// everybody waits. Over a database they wait for its answers, and hours would pass before one came.
    pub(crate) async fn in_memory() -> Self {
        Self::in_memory_with(settings(), no_limits()).await
    }

    /// The same; also for tests in which many are asked for within a second.
    pub(crate) async fn in_memory_with(settings: Settings, rates: Rates) -> Self {
        let (clock, metrics) = (ManualClock::at(NOW_MS), Metrics::new());
        let (engine, away) = engine(None, &clock, &metrics);
        Self::around((engine, away), None, clock, metrics, settings, rates).await
    }

    /// Another node, or the same after a restart: it knows what the store knows. Over PostgreSQL it has an engine
    /// of its own, which hears of the first one's commits by way of the database alone. What is in memory has one
    /// engine: there the two differ in what the server itself remembers.
    pub(crate) async fn another(&self) -> Self {
        let (place, clock, metrics) = (self.place.clone(), self.clock.clone(), Metrics::new());
        let engine = match &place {
            Some(place) => engine(Some(place), &clock, &metrics),
            None => (self.engine.clone(), self.away.clone()),
        };
        Self::around(engine, place, clock, metrics, settings(), no_limits()).await
    }

    async fn around(
        (engine, away): (Engine, Switch),
        place: Option<String>,
        clock: ManualClock,
        metrics: Metrics,
        settings: Settings,
        rates: Rates,
    ) -> Self {
        let identity = Identity::new(engine.clone(), settings).unwrap();
        identity.start().unwrap();
        identity.bootstrap(Some(Secret::new(ADMIN))).await.unwrap();
        let app = App::with(engine.clone(), identity, metrics, Arc::new(InMemory::default()));
        let (routes, _) = router(app.clone());
        // A route that nobody wrote into the table.
        let routes = routes.route("/forgotten", axum::routing::get(|| async { "reached" }));
        let router = shield(routes, &app, rates, Vec::new());
        Self { app, router, clock, engine, away, place }
    }

    pub(crate) async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        let mut request = Request::builder().method(Method::from_bytes(method.as_bytes()).unwrap()).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if !body.is_empty() {
            request = request.header("content-type", "application/json");
        }
        let request = request.body(Body::from(body.to_owned())).unwrap();
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        Reply { status: parts.status, headers: parts.headers, text }
    }

    /// As somebody with a key or token.
    pub(crate) async fn ask(&self, bearer: &str, method: &str, path: &str, body: &str) -> Reply {
        self.send(method, path, &[("authorization", &format!("Bearer {bearer}"))], body).await
    }

    /// A key of this role, and its id.
    pub(crate) async fn key(&self, role: &str) -> (String, String) {
        let body = format!(
            r#"{{"name":"test","subject":{{"id":"{role}-1","name":"Some {role}"}},"role":"{role}"}}"#
        );
        let reply = self.ask(ADMIN, "POST", "/v1/keys", &body).await;
        assert_eq!(reply.short(), "201", "{}", reply.text);
        let json = reply.json();
        (json["key"].as_str().unwrap().to_owned(), json["id"].as_str().unwrap().to_owned())
    }

    /// Signs in with a key; the cookie to send.
    pub(crate) async fn sign_in(&self, key: &str) -> String {
        let headers = [("host", "localhost")];
        let reply = self.send("POST", "/v1/session", &headers, &format!(r#"{{"key":"{key}"}}"#)).await;
        assert_eq!(reply.short(), "201", "{}", reply.text);
        reply.cookie()
    }

    /// As a page with a session.
    pub(crate) async fn browse(&self, cookie: &str, method: &str, path: &str) -> Reply {
        let headers = [("host", "localhost"), ("cookie", cookie), ("x-tenure-csrf", "1")];
        self.send(method, path, &headers, "").await
    }

    /// Every event of one of Tenure's own collections, as JSON.
    pub(crate) fn events(&self, collection: &str) -> String {
        let key = CollectionKey::new(collection).unwrap();
        match self.engine.reader().events(&key, 0, 10_000).unwrap() {
            tenure_engine::EventPage::Events(events) => {
                events.iter().map(|sealed| serde_json::to_string(&sealed.event).unwrap()).collect()
            }
            other @ tenure_engine::EventPage::Resync { .. } => panic!("{other:?}"),
        }
    }
}

fn engine(place: Option<&str>, clock: &ManualClock, metrics: &Metrics) -> (Engine, Switch) {
    let time = clock.clone();
    let (store, away) = Away::from(AnyStore::at(place, move || time.now_ms()));
    let options = Options { observer: metrics.observer(), ..Options::default() };
    (Engine::start(store, clock.clone(), options).unwrap(), away)
}

/// An engine over an empty store, of the sort that the run is told to use.
pub(crate) fn any_engine() -> Engine {
    engine(AnyStore::place().as_deref(), &ManualClock::at(1), &Metrics::new()).0
}

pub(crate) fn no_limits() -> Rates {
    Rates::new([])
}

pub(crate) fn rate(per_second: u32, burst: u32) -> Rate {
    Rate { per_second, burst }
}

/// Asks until it is so. What another task does after a commit comes soon, but not before the answer.
pub(crate) async fn eventually(mut is_so: impl AsyncFnMut() -> bool) {
    let asked = async {
        while !is_so().await {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(10), asked).await.expect("it never came");
}
