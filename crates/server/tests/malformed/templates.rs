//! A good request for every row of the access table, to be spoiled.

use serde_json::{Value, json};

use crate::world::Known;

/// A good request.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    pub(crate) method: &'static str,
    /// As in the access table.
    pub(crate) route: &'static str,
    /// The values of the path's parameters.
    pub(crate) params: Vec<String>,
    /// Query fields whose values are checked.
    pub(crate) query: Vec<(&'static str, &'static str)>,
    /// `None` where the route reads no JSON.
    pub(crate) body: Option<Value>,
    /// What a browser's form sends instead.
    pub(crate) form: Option<&'static str>,
    /// It may have a query at all; operations ignore it, as their callers add what they like.
    pub(crate) reads_query: bool,
    /// Its commands are answered one by one.
    pub(crate) is_batch: bool,
}

impl Template {
    pub(crate) fn path(&self) -> String {
        let mut params = self.params.iter();
        let parts = self.route.split('/').map(|part| {
            if part.starts_with('{') { params.next().expect("a value").clone() } else { part.to_owned() }
        });
        parts.collect::<Vec<_>>().join("/")
    }
}

fn template(method: &'static str, route: &'static str, params: &[&str]) -> Template {
    let params = params.iter().map(|param| (*param).to_owned()).collect();
    let (query, body, form) = (Vec::new(), None, None);
    Template { method, route, params, query, body, form, reads_query: true, is_batch: false }
}

fn get(route: &'static str, params: &[&str], query: &[(&'static str, &'static str)]) -> Template {
    Template { query: query.to_vec(), ..template("GET", route, params) }
}

fn send(method: &'static str, route: &'static str, params: &[&str], body: Value) -> Template {
    Template { body: Some(body), ..template(method, route, params) }
}

fn post(route: &'static str, params: &[&str], body: Value) -> Template {
    send("POST", route, params, body)
}

/// Answers whatever the query says.
fn open(method: &'static str, route: &'static str) -> Template {
    Template { reads_query: false, ..template(method, route, &[]) }
}

const COLLECTION: &str = "/v1/collections/{kind}/{name}";
const ITEM: &str = "/v1/collections/{kind}/{name}/items/{item}";
const CLAIM: &str = "/v1/claims/{id}";

pub(crate) fn templates(known: &Known) -> Vec<Template> {
    let Known { raffle, task, task_token, other, key_id, key, policy, .. } = known;
    let put = json!({"status": "ready", "data": {"colour": "red"}, "version": 1});
    let guarded = json!({"data": [1], "claim_id": task, "token": task_token});
    let page = [("limit", "10")];
    let mut all = vec![
        post(
            "/v1/claims",
            &[],
            json!({"collection": "task/x", "items": ["b"], "session": "tab-1",
            "wait_ms": 0, "data": {"note": "mine"}}),
        ),
        post("/v1/claims", &[], json!({"collection": "lock/jobs", "items": ["n", "m"], "ttl_ms": 30_000})),
        get(
            "/v1/claims",
            &[],
            &[("collection", "task/x"), ("state", "active"), ("after", "task~x~1"), page[0]],
        ),
        get(CLAIM, &[task], &[]),
        template("DELETE", CLAIM, &[task]),
        post("/v1/claims/{id}/heartbeat", &[task], json!({"token": task_token, "idle_ms": 5})),
        post("/v1/claims/{id}/items", &[raffle], json!({"item": "3"})),
        template("DELETE", "/v1/claims/{id}/items/{item}", &[raffle, "2"]),
        post("/v1/claims/{id}/advance", &[raffle], json!({})),
        post(
            "/v1/claims/{id}/complete",
            &[task],
            json!({"status": "completed", "data": 7,
            "token": task_token, "items": [{"item": "a", "status": "ready", "data": null}]}),
        ),
        post("/v1/claims/{id}/cancel", &[raffle], json!({})),
        post("/v1/claims/{id}/nudge", &[other], json!({"message": "may I?"})),
        get("/v1/collections", &[], &[("kind", "task"), ("after", "lock/jobs"), page[0]]),
        get(COLLECTION, &["task", "x"], &[]),
        send("PUT", COLLECTION, &["task", "new"], json!({})),
        get(
            "/v1/collections/{kind}/{name}/items",
            &["task", "x"],
            &[("held", "true"), ("status", "ready"), ("after", "a"), page[0]],
        ),
        get(ITEM, &["task", "x", "a"], &[]),
        send("PUT", ITEM, &["task", "x", "b"], put),
        send("PUT", ITEM, &["task", "x", "a"], guarded),
        Template { query: vec![("version", "1")], ..template("DELETE", ITEM, &["task", "x", "b"]) },
        get("/v1/collections/{kind}/{name}/items/{item}/explain", &["task", "x", "a"], &[]),
        post(
            "/v1/collections/{kind}/{name}/items/{item}/force-release",
            &["lock", "jobs", "bos"],
            json!({"reason": "went home"}),
        ),
        post(
            "/v1/collections/{kind}/{name}/items/{item}/force-claim",
            &["lock", "jobs", "bos"],
            json!({"reason": "it is urgent", "session": "tab-1"}),
        ),
        get(
            "/v1/collections/{kind}/{name}/events",
            &["task", "x"],
            &[("since", "1"), ("epoch", "1"), page[0]],
        ),
        // Without an upgrade it is refused anyway; the wire's tests open sockets.
        get("/v1/collections/{kind}/{name}/ws", &["task", "x"], &[("since", "1"), ("epoch", "1")]),
        post(
            "/v1/batch",
            &[],
            json!({"atomic": true, "commands": [
            {"op": "put_item", "collection": "task/x", "item": "new", "data": {"a": 1}},
            {"op": "acquire", "collection": "task/x", "items": ["b"]},
            {"op": "heartbeat", "claim": task, "token": task_token}]}),
        ),
        Template {
            is_batch: true,
            ..post(
                "/v1/batch",
                &[],
                json!({"commands": [
            {"op": "complete", "claim": task, "status": "completed", "token": task_token}]}),
            )
        },
        get(
            "/v1/audit",
            &[],
            &[
                ("collection", "task/x"),
                ("item", "a"),
                ("from", "2020-01-01T00:00:00Z"),
                ("to", "2030-01-01T00:00:00Z"),
                ("cursor", "1700000000000~task~x~3"),
                page[0],
            ],
        ),
        get("/v1/audit/verify", &[], &[]),
        get("/v1/policies", &[], &[]),
        get("/v1/policies/{kind}", &["task"], &[]),
        send("PUT", "/v1/policies/{kind}", &["mine"], policy.clone()),
        open("GET", "/openapi.json"),
        open("GET", "/docs"),
        open("GET", "/docs/problems"),
        open("GET", "/docs/style.css"),
        get("/v1/keys", &[], &[]),
        post(
            "/v1/keys",
            &[],
            json!({"name": "import", "subject": {"id": "ana", "name": "Ana"},
            "role": "worker", "kinds": ["task"]}),
        ),
        template("DELETE", "/v1/keys/{id}", &[key_id]),
        open("GET", "/v1/session"),
        post("/v1/session", &[], json!({"key": key})),
        open("DELETE", "/v1/session"),
        open("DELETE", "/v1/sessions"),
        post("/v1/tickets", &[], json!({})),
        open("GET", "/healthz"),
        open("GET", "/readyz"),
        open("GET", "/metrics"),
    ];
    all.extend(tasks(known));
    all.extend(labels(known));
    all.extend(jobs(known));
    all.extend(raffles(known));
    all.extend(payments(known));
    all
}

/// Those of tasks and stock.
fn tasks(Known { draft, mine, bos, .. }: &Known) -> Vec<Template> {
    let line = json!({"product": "bolt", "mode": "quantity", "quantity": 5, "direction": "in"});
    let edit = json!({"product": "nut", "quantity": 6, "direction": "out"});
    vec![
        post("/tasks", &[], json!({"title": "Delivery", "lines": [line]})),
        get("/tasks", &[], &[("status", "ready"), ("locked", "true"), ("limit", "10")]),
        get("/tasks/{id}", &[draft], &[]),
        post("/tasks/{id}/lines", &[draft], line),
        send("PATCH", "/tasks/{id}/lines/{line}", &[mine, "1"], edit),
        post("/tasks/{id}/lines/{line}/validate", &[mine, "1"], json!({})),
        post("/tasks/{id}/ready", &[draft], json!({})),
        post("/tasks/{id}/process", &[mine], json!({})),
        post("/tasks/{id}/heartbeat", &[mine], json!({"idle_ms": 5})),
        post("/tasks/{id}/leave", &[mine], json!({})),
        post("/tasks/{id}/finalize", &[mine], json!({})),
        post("/tasks/{id}/cancel", &[draft], json!({})),
        post("/tasks/{id}/force-release", &[bos], json!({"reason": "went home"})),
        post("/tasks/{id}/force-claim", &[bos], json!({"reason": "it is urgent"})),
        post("/tasks/{id}/request-release", &[bos], json!({"message": "may I?"})),
        get("/inventory", &[], &[("limit", "10")]),
    ]
}

const PROJECT: &str = "/api/v1/projects/{id}";
const IMAGES: &str = "/api/v1/projects/{id}/images";
const IMAGE: &str = "/api/v1/projects/{id}/images/{image_id}";
const ANNOTATIONS: &str = "/api/v1/projects/{id}/images/{image_id}/annotations";
const ANNOTATION: &str = "/api/v1/annotations/{id}";

/// Those of images and annotations.
fn labels(Known { image, annotation, .. }: &Known) -> Vec<Template> {
    let page = [("limit", "10")];
    let rectangle = json!({"type": "rectangle", "x": 1.5, "y": 2.5, "width": 3.5, "height": 4.5});
    let polygon = json!({"type": "polygon", "points": [[1.5, 1.5], [9.5, 1.5], [5.5, 9.5]]});
    let at = json!({"project_id": "p", "image_id": image});
    let new = json!({"geometry": polygon, "class_id": "car"});
    let edit = json!({"geometry": rectangle, "class_id": "bus", "version": 1});
    let picture = json!({"name": "one", "width": 30, "height": 20});
    vec![
        post("/api/v1/projects", &[], json!({"id": "q", "name": "Streets"})),
        get("/api/v1/projects", &[], &[("after", "a"), page[0]]),
        get(PROJECT, &["p"], &[]),
        post(IMAGES, &["p"], picture),
        get(IMAGES, &["p"], &[("status", "new"), ("locked", "true"), page[0]]),
        get(IMAGE, &["p", image], &[]),
        send("PATCH", IMAGE, &["p", image], json!({"status": "done"})),
        get("/api/v1/projects/{id}/images/{image_id}/file", &["p", image], &[]),
        get("/api/v1/projects/{id}/images/{image_id}/thumbnail", &["p", image], &[]),
        post(ANNOTATIONS, &["p", image], new),
        get(ANNOTATIONS, &["p", image], &page),
        send("PUT", ANNOTATION, &[annotation], edit),
        Template { query: vec![("version", "1")], ..template("DELETE", ANNOTATION, &[annotation]) },
        post("/api/v1/locks/acquire", &[], at.clone()),
        post("/api/v1/locks/heartbeat", &[], at.clone()),
        post("/api/v1/locks/release", &[], at),
        get("/api/v1/projects/{id}/locks", &["p"], &[]),
    ]
}

/// Those of `/analyses`.
fn jobs(known: &Known) -> Vec<Template> {
    let token = known.analysis_token;
    let query = [("status", "QUEUED"), ("claimable", "true"), ("after", "a"), ("limit", "10")];
    vec![
        post("/analyses", &[], json!({"id": "new", "input": "more text"})),
        get("/analyses", &[], &query),
        get("/analyses/{id}", &["running"], &[]),
        post("/analyses/{id}/lock", &["queued"], json!({"owner": "w-2", "ttl_sec": 60})),
        post("/analyses/{id}/lock/refresh", &["running"], json!({"owner": "w-1", "token": token})),
        post("/analyses/{id}/lock/release", &["running"], json!({"owner": "w-1"})),
        post("/analyses/{id}/complete", &["running"], json!({"token": token, "result": {"words": 2}})),
        post(
            "/analyses/{id}/complete",
            &["running"],
            json!({"token": token, "error": {"reason": "exit", "message": "exit code 1"}}),
        ),
        post("/internal/tasks/analysis", &[], json!({"analysis_id": "queued"})),
    ]
}

/// Those of `/payments`.
fn payments(known: &Known) -> Vec<Template> {
    let Known { card, card_token, awaited, review, conflicted, reservation, .. } = known;
    let new = json!({"code": "norte", "name": "Norte", "description": "", "is_enabled": false,
        "is_automatic": false, "priority": 3, "config": {"phone_number": "8888-0000"}});
    let edit = json!({"is_enabled": true, "priority": 4, "name": "SINPE", "description": "A transfer",
        "config": {"phone_number": "8888-0000"}});
    let told = json!({"reference": "2026010212345678", "payer_phone": "8888-0003", "payer_name": "Ana",
        "payer_bank": "A bank", "amount_minor": 100, "transferred_at": "2026-01-02T03:04:05Z"});
    let callback = "/payments/callback/{attempt}/{token}";
    vec![
        get("/payment-providers", &[], &[]),
        get("/admin/payment-providers", &[], &[]),
        post("/admin/payment-providers", &[], new),
        send("PATCH", "/admin/payment-providers/{id}", &["sinpe_movil"], edit),
        post("/payments", &[], json!({"reservation_id": reservation, "provider": "sinpe_movil"})),
        get("/payments/{id}", &[card], &[]),
        get("/pay/{attempt}/{token}", &[card, card_token], &[]),
        Template { form: Some("Response=%7B%7D"), ..template("POST", callback, &[card, card_token]) },
        post("/payments/{id}/transfer", &[awaited], told),
        post("/payments/{id}/cancel", &[card], json!({})),
        get("/admin/payments", &[], &[("state", "pending_review"), ("after", "navidad~x"), ("limit", "10")]),
        post("/admin/payments/{id}/approve", &[review], json!({"bank_amount_minor": 100})),
        post("/admin/payments/{id}/reject", &[review], json!({"reason": "not in the bank"})),
        post("/admin/payments/{id}/refund", &[conflicted], json!({})),
    ]
}

/// Those of `/raffles` and `/reservations`.
fn raffles(known: &Known) -> Vec<Template> {
    let reservation = &known.reservation;
    let new = json!({"id": "new", "title": "More", "numbers": 10, "price_minor": 100, "currency": "CRC",
        "draw_at": "2026-12-24T18:00:00Z"});
    let reserve = json!({"raffle_id": "navidad", "number_ids": [7, 8], "session_id": "tab-9"});
    vec![
        post("/raffles", &[], new),
        get("/raffles", &[], &[("after", "a"), ("limit", "10")]),
        get("/raffles/{id}", &["navidad"], &[]),
        send("PATCH", "/raffles/{id}", &["navidad"], json!({"status": "paused"})),
        get("/raffles/{id}/numbers", &["navidad"], &[]),
        post("/raffles/{id}/draw", &["paused"], json!({})),
        get("/raffles/{id}/draw", &["drawn"], &[]),
        // Without an upgrade it is refused anyway.
        get("/raffles/{id}/ws", &["navidad"], &[("since", "1"), ("epoch", "1")]),
        get("/raffles/{id}/ws/stats", &["navidad"], &[]),
        post("/reservations", &[], reserve),
        get("/reservations", &[], &[("raffle_id", "navidad"), ("mine", "true")]),
        get("/reservations/{id}", &[reservation], &[]),
        post("/reservations/{id}/numbers", &[reservation], json!({"number_id": 3})),
        template("DELETE", "/reservations/{id}/numbers/{number}", &[reservation, "2"]),
        post("/reservations/{id}/move-to-checkout", &[reservation], json!({})),
        post("/reservations/{id}/cancel", &[reservation], json!({})),
        get("/admin/reservations", &[], &[("raffle_id", "navidad")]),
        post("/admin/jobs/expire-reservations", &[], json!({})),
    ]
}
