//! A server with something to lose: collections, items, claims, keys.

use std::fmt::Write;
use std::io::Cursor;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request};
use image::{ImageFormat, RgbImage};
use serde_json::{Value, json};
use tenure_apps::files::InMemory;
use tenure_apps::payments::{BAC_CREDOMATIC, MemoryVault, Till};
use tenure_engine::{Engine, ManualClock, Options};
use tenure_server::gateway::fake::{API_KEY, FakeGateway, MERCHANT_ID};
use tenure_server::identity::{Identity, Secret, ServerSecret, Settings};
use tenure_server::{App, Metrics, Rates, router, shield};
use tenure_store::memory::Memory;
use tower::ServiceExt;

pub(crate) const ADMIN: &str = "tnr_the-administrators-own-key";
pub(crate) const SERVER_SECRET: &str = "the-servers-own-secret-of-this-test";

/// What the templates need to know.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    /// A claim on two numbers of a raffle, and a claim on a task with its token.
    pub(crate) raffle: String,
    pub(crate) task: String,
    pub(crate) task_token: u64,
    /// Somebody else's claim.
    pub(crate) other: String,
    /// Somebody else's key: its id and the key itself.
    pub(crate) key_id: String,
    pub(crate) key: String,
    /// The token of the lock on the analysis `running`; `queued` is free.
    pub(crate) analysis_token: u64,
    /// Payments: on a card's page with its token, a transfer that is awaited, one in review, one of a wrong amount.
    pub(crate) card: String,
    pub(crate) card_token: String,
    pub(crate) awaited: String,
    pub(crate) review: String,
    pub(crate) conflicted: String,
    /// A policy that works.
    pub(crate) policy: Value,
    /// A task that is a draft, one that the administrator processes, one that somebody else does.
    pub(crate) draft: String,
    pub(crate) mine: String,
    pub(crate) bos: String,
    /// An image of the project `p` that is locked, and an annotation in it.
    pub(crate) image: String,
    pub(crate) annotation: String,
    /// A reservation of two numbers of the raffle `navidad`.
    pub(crate) reservation: String,
}

pub(crate) struct World {
    pub(crate) router: Router,
    pub(crate) engine: Engine,
    pub(crate) known: Known,
    _fake: FakeGateway,
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

pub(crate) fn engine() -> Engine {
    Engine::start(Memory::default(), ManualClock::at(1_700_000_000_001), Options::default()).expect("starts")
}

impl World {
    pub(crate) async fn new() -> Self {
        let engine = engine();
        let settings = Settings::new(ServerSecret::new(SERVER_SECRET.as_bytes()));
        let identity = Identity::new(engine.clone(), settings).expect("an identity");
        identity.start().expect("starts");
        identity.bootstrap(Some(Secret::new(ADMIN))).await.expect("a first key");
        let app = App::with(engine.clone(), identity, Metrics::new(), Arc::new(InMemory::default()));
        let fake = FakeGateway::start().await.expect("starts");
        let till = Till::new(MemoryVault::default(), "https://rifa.example");
        app.open_till(till.with(BAC_CREDOMATIC, fake.connector()));
        let (routes, _) = router(app.clone());
        let router = shield(routes, &app, Rates::new([]), Vec::new());
        let known = furnish(&router).await;
        Self { router, engine, known, _fake: fake }
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Reply {
        send(&self.router, request).await
    }

    /// Everything that the store knows.
    pub(crate) fn state(&self) -> String {
        state(&self.engine)
    }
}

pub(crate) fn state(engine: &Engine) -> String {
    let reader = engine.reader();
    let mut all = String::new();
    for (key, collection) in reader.collections(None, 1_000).expect("collections").rows {
        let rows = reader.snapshot(&key).expect("a snapshot");
        writeln!(all, "{key} {collection:?} {rows:?}").expect("a string");
    }
    all
}

async fn send(router: &Router, request: Request<Body>) -> Reply {
    let response = router.clone().oneshot(request).await.expect("never fails");
    let (parts, body) = response.into_parts();
    let bytes = axum::body::to_bytes(body, usize::MAX).await.expect("a whole body");
    // A file is served as it is; everything else is text.
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Reply { status: parts.status.as_u16(), headers: parts.headers, text }
}

/// Adds an image to a project; gives its id.
async fn upload(router: &Router) -> String {
    let mut picture = Cursor::new(Vec::new());
    RgbImage::new(30, 20).write_to(&mut picture, ImageFormat::Png).expect("is written");
    let head = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.png\"\r\n\r\n";
    let body = [head.as_bytes(), picture.get_ref(), b"\r\n--b--\r\n"].concat();
    let request = Request::builder().method("POST").uri("/api/v1/projects/p/images");
    let request = request.header("authorization", format!("Bearer {ADMIN}"));
    let request = request.header("content-type", "multipart/form-data; boundary=b");
    let reply = send(router, request.body(Body::from(body)).expect("a request")).await;
    let made: Value = serde_json::from_str(&reply.text).expect("JSON");
    made["id"].as_str().unwrap_or_else(|| panic!("{reply:?}")).to_owned()
}

/// Fills a server, through its router.
pub(crate) async fn furnish(router: &Router) -> Known {
    let ask = async |key: &str, method: &str, path: &str, body: Value| {
        let request = Request::builder().method(method).uri(path);
        let request = request.header("authorization", format!("Bearer {key}"));
        let request = request.header("content-type", "application/json");
        let request = request.body(Body::from(body.to_string())).expect("a request");
        let reply = send(router, request).await;
        assert!(reply.status < 300, "{path}: {reply:?}");
        serde_json::from_str::<Value>(&reply.text).unwrap_or(Value::Null)
    };
    for (collection, items) in [("task/x", &["a", "b", "c"][..]), ("raffle/x", &["1", "2", "3"])] {
        ask(ADMIN, "PUT", &format!("/v1/collections/{collection}"), json!({})).await;
        for item in items {
            ask(ADMIN, "PUT", &format!("/v1/collections/{collection}/items/{item}"), json!({})).await;
        }
    }
    let bo = json!({"name": "test", "subject": {"id": "bo", "name": "Bo"}, "role": "editor"});
    let bo = ask(ADMIN, "POST", "/v1/keys", bo).await;
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let key = text(&bo["key"]);
    let task = ask(ADMIN, "POST", "/v1/claims", json!({"collection": "task/x", "items": ["a"]})).await;
    let raffle = json!({"collection": "raffle/x", "items": ["1", "2"]});
    let raffle = ask(ADMIN, "POST", "/v1/claims", raffle).await;
    let other = ask(&key, "POST", "/v1/claims", json!({"collection": "lock/jobs", "items": ["bos"]})).await;
    ask(ADMIN, "POST", "/api/v1/projects", json!({"id": "p", "name": "Streets"})).await;
    let image = upload(router).await;
    let square = json!({"type": "rectangle", "x": 1, "y": 1, "width": 5, "height": 5});
    let annotation = json!({"geometry": square, "class_id": "car"});
    let annotations = format!("/api/v1/projects/p/images/{image}/annotations");
    let annotation = ask(ADMIN, "POST", &annotations, annotation).await;
    ask(ADMIN, "POST", "/api/v1/locks/acquire", json!({"project_id": "p", "image_id": image})).await;
    for id in ["running", "queued"] {
        ask(ADMIN, "POST", "/analyses", json!({"id": id, "input": "some text"})).await;
    }
    let analysis = ask(ADMIN, "POST", "/analyses/running/lock", json!({"owner": "w-1"})).await;
    for id in ["navidad", "paused", "drawn"] {
        let raffle = json!({"id": id, "title": "Rifa", "numbers": 10, "price_minor": 100, "currency": "CRC"});
        ask(ADMIN, "POST", "/raffles", raffle).await;
        ask(ADMIN, "PATCH", &format!("/raffles/{id}"), json!({"status": "active"})).await;
    }
    let config = json!({"merchant_id": MERCHANT_ID, "api_key": API_KEY});
    let provider = "/admin/payment-providers/bac_credomatic";
    ask(ADMIN, "PATCH", provider, json!({"is_enabled": true, "config": config})).await;
    let config = json!({"phone_number": "8888-0000", "account_holder": "Ejemplo"});
    ask(ADMIN, "PATCH", "/admin/payment-providers/sinpe_movil", json!({"config": config})).await;
    for (id, reference) in [("paused", "5550001"), ("drawn", "5550002")] {
        let reserve = json!({"raffle_id": id, "number_ids": [5], "session_id": "sold"});
        let reservation = ask(&key, "POST", "/reservations", reserve).await;
        let pay = json!({"reservation_id": reservation["id"], "provider": "sinpe_movil"});
        let payment = text(&ask(&key, "POST", "/payments", pay).await["id"]);
        let told = json!({"reference": reference, "payer_phone": "88880009", "amount_minor": 100});
        ask(&key, "POST", &format!("/payments/{payment}/transfer"), told).await;
        let amount = json!({"bank_amount_minor": 100});
        ask(ADMIN, "POST", &format!("/admin/payments/{payment}/approve"), amount).await;
        ask(ADMIN, "PATCH", &format!("/raffles/{id}"), json!({"status": "paused"})).await;
    }
    ask(ADMIN, "POST", "/raffles/drawn/draw", json!({})).await;
    let reservation = json!({"raffle_id": "navidad", "number_ids": [1, 2], "session_id": "tab-1"});
    let reservation = ask(ADMIN, "POST", "/reservations", reservation).await;
    let line = json!({"product": "bolt", "mode": "quantity", "quantity": 5, "direction": "in"});
    let mut tasks = Vec::new();
    for title in ["a draft", "mine", "bo's"] {
        let task = ask(ADMIN, "POST", "/tasks", json!({"title": title, "lines": [line]})).await;
        tasks.push(text(&task["id"]));
    }
    let [draft, mine, bos] = tasks.try_into().expect("three");
    for (key, id) in [(ADMIN, &mine), (key.as_str(), &bos)] {
        ask(ADMIN, "POST", &format!("/tasks/{id}/ready"), json!({})).await;
        ask(key, "POST", &format!("/tasks/{id}/process"), json!({})).await;
    }
    let cy = json!({"name": "test", "subject": {"id": "cy", "name": "Cy"}, "role": "editor"});
    let cy = text(&ask(ADMIN, "POST", "/v1/keys", cy).await["key"]);
    let pay = async |who: &str, number: u32, provider: &str| {
        let session = format!("pays-{number}");
        let reserve = json!({"raffle_id": "navidad", "number_ids": [number], "session_id": session});
        let reservation = ask(who, "POST", "/reservations", reserve).await;
        ask(who, "POST", "/payments", json!({"reservation_id": reservation["id"], "provider": provider}))
            .await
    };
    let card = pay(&key, 4, "bac_credomatic").await;
    let card_token = text(&card["payment_url"]).rsplit('/').next().expect("a token").to_owned();
    let awaited = text(&pay(ADMIN, 6, "sinpe_movil").await["id"]);
    let review = text(&pay(&key, 5, "sinpe_movil").await["id"]);
    let conflicted = text(&pay(&cy, 9, "sinpe_movil").await["id"]);
    for (who, id, phone) in [(&key, &review, "88880001"), (&cy, &conflicted, "88880002")] {
        let told = json!({"reference": format!("1234{phone}"), "payer_phone": phone, "amount_minor": 100});
        ask(who, "POST", &format!("/payments/{id}/transfer"), told).await;
    }
    let amount = json!({"bank_amount_minor": 99});
    ask(ADMIN, "POST", &format!("/admin/payments/{conflicted}/approve"), amount).await;
    let policy = ask(ADMIN, "GET", "/v1/policies/task", Value::Null).await;
    Known {
        raffle: text(&raffle["id"]),
        task: text(&task["id"]),
        task_token: task["token"].as_u64().expect("a token"),
        other: text(&other["id"]),
        key_id: text(&bo["id"]),
        key,
        analysis_token: analysis["token"].as_u64().expect("a token"),
        card: text(&card["id"]),
        card_token,
        awaited,
        review,
        conflicted,
        policy: policy["policy"].clone(),
        draft,
        mine,
        bos,
        image,
        annotation: text(&annotation["id"]),
        reservation: text(&reservation["id"]),
    }
}
