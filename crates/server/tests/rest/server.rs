//! A server to try: the router over a store in memory, a clock that is moved by hand, and an access check
//! that takes the caller from a header. Every answer is held against the OpenAPI document.

use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{MatchedPath, Request};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tenure_core::{CollectionKey, ItemId, Principal, Text};
use tenure_engine::{Clock, Engine, ManualClock, Options};
use tenure_server::{App, Caller, Credential, May, Problem, Role, bare_router, rule_of};
use tenure_store::conformance::{AnyStore, AnyView};
use tenure_store::{Batch, Error, Reader, Store, Want};
use tower::ServiceExt;
use utoipa_axum::router::OpenApiRouter;

use crate::faulty::{Fault, Faulty};

/// When every server starts: 2026-01-02T03:04:05.678Z.
pub(crate) const START_MS: i64 = 1_767_323_045_678;
pub(crate) const NOW: &str = "2026-01-02T03:04:05.678Z";

/// The routes and their document: the same for every server, and long in the making.
static ROUTES: LazyLock<(Router<App>, Value)> = LazyLock::new(|| {
    let (router, api) = bare_router(OpenApiRouter::default());
    (router, serde_json::to_value(api).expect("a document is JSON"))
});

/// A store that outlives the engine that had it.
struct Lent {
    store: Option<AnyStore>,
    home: Arc<Mutex<Option<AnyStore>>>,
    fault: Arc<Mutex<Fault>>,
}

impl Lent {
    fn store(&self) -> &AnyStore {
        self.store.as_ref().expect("in use")
    }
}

impl Store for Lent {
    type View<'a> = AnyView<'a>;

    fn load(&mut self, wants: &[Want]) -> Result<AnyView<'_>, Error> {
        self.store.as_mut().expect("in use").load(wants)
    }

    fn commit(&mut self, batch: Batch) -> Result<(), Error> {
        while *self.fault.lock() == Fault::Stuck {
            std::thread::yield_now();
        }
        if *self.fault.lock() == Fault::Full {
            return Err(Error::Full { path: "secret-folder".into() });
        }
        self.store.as_mut().expect("in use").commit(batch)
    }

    fn abandon(&mut self) -> Result<(), Error> {
        self.store.as_mut().expect("in use").abandon()
    }

    fn wants_rows(&self) -> bool {
        self.store().wants_rows()
    }

    fn is_shared(&self) -> bool {
        self.store().is_shared()
    }

    fn high_water_ms(&self) -> i64 {
        self.store().high_water_ms()
    }

    fn epoch(&self) -> u64 {
        self.store().epoch()
    }

    fn reader(&self) -> Arc<dyn Reader> {
        Arc::new(Faulty { inner: self.store().reader(), fault: self.fault.clone() })
    }

    fn close(&mut self) -> Result<(), Error> {
        *self.home.lock() = self.store.take();
        Ok(())
    }
}

/// An empty store, of the sort that the run is told to use.
pub(crate) fn any_store(clock: &ManualClock) -> AnyStore {
    let time = clock.clone();
    AnyStore::new(move || time.now_ms())
}

pub(crate) struct Server {
    pub(crate) router: Router,
    pub(crate) api: &'static Value,
    pub(crate) clock: ManualClock,
    pub(crate) engine: Engine,
    home: Arc<Mutex<Option<AnyStore>>>,
    fault: Arc<Mutex<Fault>>,
}

impl Server {
    pub(crate) fn new() -> Self {
        let clock = ManualClock::at(START_MS);
        Self::over(any_store(&clock), clock)
    }

    fn over(store: AnyStore, clock: ManualClock) -> Self {
        let home = Arc::new(Mutex::new(None));
        let fault = Arc::new(Mutex::new(Fault::None));
        let lent = Lent { store: Some(store), home: home.clone(), fault: fault.clone() };
        let engine = Engine::start(lent, clock.clone(), Options::default()).expect("starts");
        Self { home, fault, ..Self::around(engine, clock) }
    }

    /// Around an engine that runs.
    pub(crate) fn around(engine: Engine, clock: ManualClock) -> Self {
        Self::of(App::new(engine), clock)
    }

    /// Around an application that was put together by hand.
    pub(crate) fn of(app: App, clock: ManualClock) -> Self {
        let (home, fault) = Default::default();
        let engine = app.engine().clone();
        let (router, api) = &*ROUTES;
        let router = router.clone().with_state(app).layer(from_fn(check_access));
        Self { router, api, clock, engine, home, fault }
    }

    /// Stops, and starts anew on what was kept.
    pub(crate) fn restart(self) -> Self {
        self.engine.stop().expect("stops");
        let store = self.home.lock().take().expect("closed");
        Self::over(store, self.clock)
    }

    /// From now on the store is like this.
    pub(crate) fn fail(&self, fault: Fault) {
        *self.fault.lock() = fault;
    }

    /// Time passes. Nobody sweeps.
    pub(crate) fn pass(&self, by_ms: i64) {
        while !self.engine.is_resting() {
            std::thread::yield_now();
        }
        self.clock.advance(by_ms);
    }

    /// A lock, claimed by this person; gives its id and token.
    pub(crate) async fn lock(&self, who: &str, item: &str) -> (String, u64) {
        let answer = self.post(who, "/v1/claims", json!({"collection": "lock/jobs", "items": [item]})).await;
        answer.claim()
    }

    /// A collection with items.
    pub(crate) async fn collection(&self, key: &str, items: &[&str]) {
        self.put("root", &format!("/v1/collections/{key}"), json!({})).await.status(201);
        for item in items {
            self.put("root", &format!("/v1/collections/{key}/items/{item}"), json!({})).await.status(201);
        }
    }

    pub(crate) async fn get(&self, who: &str, path: &str) -> Reply {
        self.send(Call::new(who, Method::GET, path)).await
    }

    pub(crate) async fn post(&self, who: &str, path: &str, body: Value) -> Reply {
        self.send(Call::new(who, Method::POST, path).json(&body)).await
    }

    pub(crate) async fn put(&self, who: &str, path: &str, body: Value) -> Reply {
        self.send(Call::new(who, Method::PUT, path).json(&body)).await
    }

    pub(crate) async fn delete(&self, who: &str, path: &str) -> Reply {
        self.send(Call::new(who, Method::DELETE, path)).await
    }

    pub(crate) async fn send(&self, call: Call) -> Reply {
        let response = self.router.clone().oneshot(call.0).await.expect("never fails");
        let route = response.extensions().get::<Route>().cloned();
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.expect("a whole body").to_bytes();
        let reply = Reply { status: parts.status, headers: parts.headers, bytes };
        self.check(route.as_ref(), &reply);
        reply
    }

    /// Holds an answer against the document, and a refusal against RFC 9457.
    fn check(&self, route: Option<&Route>, reply: &Reply) {
        let status = reply.status;
        if status.as_u16() >= 400 && !reply.bytes.is_empty() {
            assert_eq!(reply.header("content-type"), "application/problem+json", "{reply:?}");
            let problem = reply.json();
            assert_eq!(problem["status"], status.as_u16(), "{problem}");
            let code = problem["code"].as_str().expect("a code");
            assert_eq!(problem["type"], format!("/docs/problems#{code}"));
            let known = tenure_server::CODES.iter().find(|known| known.code == code);
            let known = known.unwrap_or_else(|| panic!("{code} is not in the table"));
            assert_eq!(
                (known.status, known.title),
                (status.as_u16(), problem["title"].as_str().unwrap_or(""))
            );
        }
        if let Some(Route(method, path)) = route {
            let operation = &self.api["paths"][path][method.to_lowercase()];
            let documented = &operation["responses"][status.as_str()];
            assert!(documented.is_object(), "{method} {path} answers {status}, which nobody documented");
            if status.as_u16() >= 400 && !reply.bytes.is_empty() {
                let code = reply.json()["code"].as_str().unwrap_or("").to_owned();
                let examples = &documented["content"]["application/problem+json"]["examples"];
                assert!(
                    examples[&code].is_object(),
                    "{method} {path} answers {code}, which nobody documented"
                );
            }
        }
    }

    /// How many wait for an item.
    pub(crate) fn waiting(&self, key: &str, item: &str) -> usize {
        let key = CollectionKey::new(key).expect("a test's key");
        self.engine.waiting(&key, &ItemId::new(item).expect("a test's item"))
    }
}

/// The route that answered.
#[derive(Clone)]
struct Route(String, String);

/// A request. `who` is `name`, `name:role` or `name:role:kind,kind`; empty for nobody.
pub(crate) struct Call(pub(crate) Request);

impl Call {
    pub(crate) fn new(who: &str, method: Method, path: &str) -> Self {
        let mut request = Request::new(Body::empty());
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().expect("a test's path");
        let call = Self(request);
        if who.is_empty() { call } else { call.header("x-test-caller", who) }
    }

    pub(crate) fn header(mut self, name: &'static str, value: &str) -> Self {
        self.0.headers_mut().append(name, value.parse().expect("a test's header"));
        self
    }

    pub(crate) fn json(self, body: &Value) -> Self {
        self.raw("application/json", body.to_string())
    }

    pub(crate) fn raw(self, content_type: &str, body: impl Into<Body>) -> Self {
        let mut call = self.header("content-type", content_type);
        *call.0.body_mut() = body.into();
        call
    }

    pub(crate) fn key(self, key: &str) -> Self {
        self.header("idempotency-key", key)
    }
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) bytes: Bytes,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&self.bytes)))
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.bytes).expect("UTF-8")
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("text"))
    }

    #[track_caller]
    pub(crate) fn status(self, status: u16) -> Self {
        assert_eq!(self.status.as_u16(), status, "{}", String::from_utf8_lossy(&self.bytes));
        self
    }

    /// This status and exactly this body.
    #[track_caller]
    pub(crate) fn is(self, status: u16, expected: Value) -> Self {
        assert_eq!((self.status.as_u16(), self.json()), (status, expected));
        self
    }

    /// A refusal with this status and code, whose further fields are exactly these.
    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "a literal reads better")]
    pub(crate) fn refuses(self, status: u16, code: &str, more: Value) -> Self {
        let mut body = self.json();
        assert_eq!((self.status.as_u16(), body["code"].as_str()), (status, Some(code)), "{body}");
        let fields = body.as_object_mut().expect("an object");
        for known in ["type", "title", "status", "detail", "code"] {
            assert!(fields.remove(known).is_some(), "no {known}");
        }
        assert_eq!(body, more);
        self
    }

    /// The same, whatever else it says.
    #[track_caller]
    pub(crate) fn code(self, status: u16, code: &str) -> Self {
        let body = self.json();
        assert_eq!((self.status.as_u16(), body["code"].as_str()), (status, Some(code)), "{body}");
        self
    }

    /// A 422 that names this field.
    #[track_caller]
    pub(crate) fn invalid(self, field: &str) -> Self {
        let body = self.json();
        let found = (self.status.as_u16(), body["code"].as_str(), body["field"].as_str());
        assert_eq!(found, (422, Some("invalid"), Some(field)), "{body}");
        self
    }

    /// The id and token of the claim that it shows.
    #[track_caller]
    pub(crate) fn claim(self) -> (String, u64) {
        let body = self.json();
        let id = body["id"].as_str().unwrap_or_else(|| panic!("no claim in {body}"));
        (id.to_owned(), body["token"].as_u64().expect("a token"))
    }
}

/// What the real middleware does, from a header instead of credentials.
async fn check_access(mut request: Request, next: Next) -> Response {
    let Some(matched) = request.extensions().get::<MatchedPath>().cloned() else {
        return next.run(request).await;
    };
    let route = Route(request.method().as_str().replace("HEAD", "GET"), matched.as_str().to_owned());
    let Some(rule) = rule_of(request.method(), matched.as_str()) else {
        // Another method of a known path: the router says so.
        return next.run(request).await;
    };
    let caller = request.headers().get("x-test-caller").and_then(|value| caller(value.to_str().ok()?));
    let mut response = match (rule.may, caller) {
        (May::Anyone, _) => next.run(request).await,
        (May::Roles { .. }, None) => {
            Problem::unauthenticated("sign in, or send Authorization: Bearer and a key or token")
                .into_response()
        }
        (May::Roles { own, .. }, Some(caller)) if own.has(caller.role) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        _ => Problem::forbidden("your role may not do this").into_response(),
    };
    response.extensions_mut().insert(route);
    response
}

fn caller(text: &str) -> Option<Caller> {
    let mut parts = text.split(':');
    let id = parts.next()?;
    let role = match parts.next() {
        Some("viewer") => Role::Viewer,
        Some("worker") => Role::Worker,
        Some("admin") => Role::Admin,
        Some("editor") => Role::Editor,
        _ if id == "root" => Role::Admin,
        _ => Role::Editor,
    };
    let kinds = parts.next().map(|kinds| kinds.split(',').map(Text::from).collect());
    let name = id[..1].to_uppercase() + &id[1..];
    let principal = Principal::new(id, name).ok()?;
    // Known for ever: nobody here makes keys.
    Some(Caller { principal, role, kinds, credential: Credential::Jwt { expires_at_ms: i64::MAX } })
}

/// A person as an answer shows them.
pub(crate) fn person(id: &str) -> Value {
    json!({"id": id, "name": id[..1].to_uppercase() + &id[1..]})
}

/// A time after the start, as an answer shows it.
pub(crate) fn at(offset_ms: i64) -> String {
    let since = std::time::Duration::from_millis(u64::try_from(START_MS + offset_ms).expect("later"));
    humantime::format_rfc3339_millis(std::time::UNIX_EPOCH + since).to_string()
}
