//! `/tasks` and `/inventory`.

use axum::http::Method;
use serde_json::{Value, json};
use tenure_server::Rule;

use crate::access::{self, Ready};
use crate::faulty::Fault;
use crate::server::{Call, NOW, Server, at, person};

fn bring(product: &str, quantity: u64) -> Value {
    json!({"product": product, "mode": "quantity", "quantity": quantity, "direction": "in"})
}

fn take(product: &str, quantity: u64) -> Value {
    json!({"product": product, "mode": "quantity", "quantity": quantity, "direction": "out"})
}

async fn draft(s: &Server, lines: Value) -> String {
    let made = s.post("ana", "/tasks", json!({"title": "Delivery", "lines": lines})).await.status(201);
    made.header("location").to_owned()
}

/// A task that can be processed; gives its path.
async fn ready(s: &Server, lines: Value) -> String {
    let path = draft(s, lines).await;
    post(s, "ana", &path, "ready", json!({})).await;
    path
}

/// One that Ana processes.
async fn processing(s: &Server, lines: Value) -> String {
    let path = ready(s, lines).await;
    post(s, "ana", &path, "process", json!({})).await;
    path
}

/// What must succeed.
async fn post(s: &Server, who: &str, path: &str, what: &str, body: Value) -> Value {
    s.post(who, &format!("{path}/{what}"), body).await.status(200).json()
}

async fn patch(s: &Server, who: &str, path: &str, body: Value) -> crate::server::Reply {
    s.send(Call::new(who, Method::PATCH, path).json(&body)).await
}

fn free() -> Value {
    json!({"state": "free", "locked_by": null, "locked_at": null, "heartbeat_at": null, "expires_at": null,
        "expires_in_ms": null, "mine": false})
}

fn id_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or("")
}

/// Before anything was made there is nothing to see.
#[tokio::test]
async fn an_empty_server_has_no_tasks() {
    let s = Server::new();
    s.get("vera:viewer", "/tasks").await.is(200, json!({"tasks": [], "next": null, "server_time": NOW}));
    s.get("vera:viewer", "/inventory")
        .await
        .is(200, json!({"products": [], "next": null, "server_time": NOW}));
    s.post("ana", "/tasks/task-1/process", json!({})).await.code(404, "not_found");
}

/// T20: the shape of a task and of its lines.
#[tokio::test]
async fn t20_a_task_reads_as_its_users_know_it() {
    let s = Server::new();
    let serials =
        json!({"product": "router", "mode": "serialized", "serials": ["A", "B"], "direction": "in"});
    let body = json!({"title": " Delivery ", "lines": [bring("bolt", 5), serials]});
    let made = s.post("ana", "/tasks", body).await.status(201);
    let path = made.header("location").to_owned();
    let task = made.json();
    let expected = json!({
        "id": id_of(&path), "title": "Delivery", "status": "draft",
        "lines": [
            {"id": "1", "product": "bolt", "mode": "quantity", "quantity": 5, "direction": "in", "status": "pending"},
            {"id": "2", "product": "router", "mode": "serialized", "serials": ["A", "B"], "direction": "in",
                "status": "pending"},
        ],
        "lock": free(), "version": 1, "updated_at": NOW, "server_time": NOW,
    });
    assert_eq!(task, expected);
    s.get("vera:viewer", &path).await.is(200, expected.clone());
    let list = s.get("vera:viewer", "/tasks").await.status(200).json();
    assert_eq!(list, json!({"tasks": [expected], "next": null, "server_time": NOW}));
}

/// T1, T2, T7: everyone who can read sees the lock, and another is refused with it.
#[tokio::test]
async fn t01_processing_locks_it_for_everyone_to_see() {
    let s = Server::new();
    let path = ready(&s, json!([])).await;
    let mine = post(&s, "ana", &path, "process", json!({})).await;
    assert_eq!(mine["lock"]["mine"], true);
    let task = s.get("vera:viewer", &path).await.status(200).json();
    let lock = json!({"state": "locked", "locked_by": person("ana"), "locked_at": NOW, "heartbeat_at": NOW,
        "expires_at": at(180_000), "expires_in_ms": 180_000, "mine": false});
    assert_eq!((&task["status"], &task["lock"]), (&json!("processing"), &lock));
    let listed = s.get("vera:viewer", "/tasks?locked=true").await.status(200).json();
    assert_eq!(listed["tasks"][0]["lock"], lock);
    let items = json!([{"item": id_of(&path), "why": "held", "holder": person("ana"), "session": null,
        "since": NOW, "expires_at": at(180_000)}]);
    let refusal = s.post("bea", &format!("{path}/process"), json!({})).await;
    refusal.refuses(409, "held", json!({"items": items, "retry_after": 180}));
}

/// T3: a status that cannot be claimed is refused with the reason.
#[tokio::test]
async fn t03_a_draft_and_what_is_done_cannot_be_processed() {
    let s = Server::new();
    let path = draft(&s, json!([])).await;
    let refusal =
        s.post("ana", &format!("{path}/process"), json!({})).await.code(409, "not_claimable").json();
    assert_eq!(refusal["items"][0]["status"], "draft");
    post(&s, "ana", &path, "cancel", json!({})).await;
    let refusal = s.post("ana", &format!("{path}/process"), json!({})).await.code(409, "finished").json();
    assert_eq!(refusal["items"][0]["status"], "cancelled");
}

/// T4, T5, T6: again renews and keeps `locked_at`; at its deadline anyone may have it; one of many wins.
#[tokio::test]
async fn t05_an_expired_lock_goes_to_the_next() {
    let s = Server::new();
    let path = processing(&s, json!([])).await;
    s.pass(60_000);
    let lock = post(&s, "ana", &path, "process", json!({})).await["lock"].clone();
    assert_eq!((&lock["locked_at"], &lock["expires_at"]), (&json!(NOW), &json!(at(240_000))));
    s.pass(180_000);
    assert_eq!(s.get("ana", &path).await.json()["lock"], free());
    let process = format!("{path}/process");
    let tries = ["p1", "p2", "p3", "p4"].map(|who| s.post(who, &process, json!({})));
    let statuses: Vec<_> =
        futures_util::future::join_all(tries).await.iter().map(|reply| reply.status).collect();
    assert_eq!(statuses.iter().filter(|status| status.as_u16() == 200).count(), 1);
    assert_eq!(statuses.iter().filter(|status| status.as_u16() == 409).count(), 3);
}

/// T8, T9, T10, T11: what a heartbeat moves, and what it does not.
#[tokio::test]
async fn t08_heartbeats_over_http() {
    let s = Server::new();
    let path = processing(&s, json!([])).await;
    s.pass(10_000);
    let beat = post(&s, "ana", &path, "heartbeat", json!({"idle_ms": 3_000})).await;
    let lock = json!({"state": "locked", "locked_by": person("ana"), "locked_at": NOW, "heartbeat_at": at(10_000),
        "expires_at": at(190_000), "expires_in_ms": 180_000, "mine": true});
    assert_eq!(beat, json!({"renewed": true, "lock": lock, "server_time": at(10_000)}));
    s.pass(10_000);
    let idle = post(&s, "ana", &path, "heartbeat", json!({"idle_ms": 120_000})).await;
    assert_eq!((&idle["renewed"], &idle["reason"]), (&json!(false), &json!("idle")));
    assert_eq!(idle["lock"]["expires_at"], at(190_000));
    let heartbeat = format!("{path}/heartbeat");
    s.post("bea", &heartbeat, json!({})).await.refuses(403, "not_holder", json!({"holder": person("ana")}));
    s.post("ana", &heartbeat, json!({"idle_ms": -1})).await.invalid("idle_ms");
    s.pass(170_000);
    let lost = json!({"reason": "idle", "ended_at": at(190_000), "holder": null});
    s.post("ana", &heartbeat, json!({})).await.refuses(410, "lost", lost);
    s.post("bea", &heartbeat, json!({})).await.refuses(409, "not_held", json!({"item": id_of(&path)}));
}

/// T13: lines change only under one's own lock.
#[tokio::test]
async fn t13_lines_need_ones_own_lock() {
    let s = Server::new();
    let path = ready(&s, json!([bring("bolt", 1)])).await;
    let line = format!("{path}/lines/1");
    let refused = patch(&s, "ana", &line, json!({"quantity": 2})).await;
    refused.refuses(409, "not_held", json!({"item": id_of(&path)}));
    s.post("ana", &format!("{line}/validate"), json!({})).await.code(409, "not_held");
    s.post("ana", &format!("{path}/finalize"), json!({})).await.code(409, "not_held");
    post(&s, "bea", &path, "process", json!({})).await;
    patch(&s, "ana", &line, json!({"quantity": 2})).await.code(409, "held");
    s.post("ana", &format!("{path}/lines"), bring("nut", 1)).await.code(409, "held");
    let edited = patch(&s, "bea", &line, json!({"quantity": 2})).await.status(200).json();
    let expected = json!({"id": "1", "product": "bolt", "mode": "quantity", "quantity": 2, "direction": "in",
        "status": "pending"});
    assert_eq!(edited, expected);
    let valid = s.post("bea", &format!("{line}/validate"), json!({})).await.status(200).json();
    assert_eq!(valid["status"], "validated");
    let added = s.post("bea", &format!("{path}/lines"), bring("nut", 1)).await.status(201);
    assert_eq!((added.header("location"), added.json()["id"].as_str()), (&*path, Some("2")));
}

/// T19, T20: finalising applies each line once; what fails says why, and the stock can be read back.
#[tokio::test]
async fn t19_finalising_over_http() {
    let s = Server::new();
    let serials =
        json!({"product": "router", "mode": "serialized", "serials": ["B", "A"], "direction": "in"});
    let path = processing(&s, json!([bring("bolt", 5), take("nut", 1), serials])).await;
    let task = post(&s, "ana", &path, "finalize", json!({})).await;
    assert_eq!((&task["status"], &task["lock"]), (&json!("partially_completed"), &free()));
    let error = json!({"reason": "unknown_product", "message": "there was never any nut in stock"});
    assert_eq!((&task["lines"][1]["status"], &task["lines"][1]["error"]), (&json!("error"), &error));
    let stock = json!({"products": [
        {"product": "bolt", "mode": "quantity", "quantity": 5, "version": 1, "updated_at": NOW, "updated_by": "ana"},
        {"product": "router", "mode": "serialized", "quantity": 2, "serials": ["A", "B"], "version": 1,
            "updated_at": NOW, "updated_by": "ana"},
    ], "next": null, "server_time": NOW});
    s.get("vera:viewer", "/inventory").await.is(200, stock.clone());
    // A double click, a refresh: the outcome again.
    let again = s.post("ana", &format!("{path}/finalize"), json!({})).await.status(200);
    assert_eq!((again.header("idempotency-replayed"), again.json()), ("true", task));
    s.get("ana", "/inventory").await.is(200, stock);
    post(&s, "bea", &path, "process", json!({})).await;
    patch(&s, "bea", &format!("{path}/lines/2"), json!({"product": "bolt"})).await.status(200);
    let task = post(&s, "bea", &path, "finalize", json!({})).await;
    assert_eq!(task["status"], "completed");
    assert_eq!(s.get("ana", "/inventory?limit=1").await.json()["products"][0]["quantity"], 4);
    let refusal = s.post("ana", &format!("{path}/finalize"), json!({})).await;
    refusal.refuses(
        409,
        "wrong_status",
        json!({"what": "task", "id": id_of(&path), "item_status": "completed"}),
    );
}

/// T14, T16, T17, T18: leaving, overriding, asking.
#[tokio::test]
async fn t16_overrides_over_http_are_audited() {
    let s = Server::new();
    let path = processing(&s, json!([])).await;
    s.post("bea", &format!("{path}/leave"), json!({})).await.code(403, "not_holder");
    let asked = post(&s, "bea", &path, "request-release", json!({"message": "may I?"})).await;
    assert_eq!(asked["lock"]["locked_by"], person("ana"));
    s.post("root", &format!("{path}/force-release"), json!({"reason": ""})).await.invalid("reason");
    s.post("root", &format!("{path}/force-release"), json!({})).await.invalid("reason");
    let taken = post(&s, "root", &path, "force-claim", json!({"reason": "urgent"})).await;
    assert_eq!(taken["lock"]["locked_by"], person("root"));
    s.post("ana", &format!("{path}/heartbeat"), json!({})).await.code(403, "not_holder");
    for _ in 0..2 {
        let task = post(&s, "root", &path, "force-release", json!({"reason": "done"})).await;
        assert_eq!(task["lock"], free());
    }
    s.post("bea", &format!("{path}/request-release"), json!({})).await.code(409, "not_held");
    post(&s, "bea", &path, "process", json!({})).await;
    assert_eq!(post(&s, "bea", &path, "leave", json!({})).await["lock"], free());
    for (action, holder) in [("LOCK_FORCE_CLAIM", "urgent"), ("LOCK_FORCE_RELEASE", "done")] {
        let audit = s.get("root", &format!("/v1/audit?action={action}")).await.status(200).json();
        let rows = audit["events"].as_array().or(audit["rows"].as_array()).expect("rows").clone();
        assert_eq!(rows.len(), 1, "{audit}");
        assert!(rows[0].to_string().contains(holder), "{audit}");
    }
}

/// T15: what each role may do, on a task of its own and on another's.
#[tokio::test]
async fn t15_each_role_does_what_the_table_says() {
    access::check("tasks", async |rule: &Rule| {
        let s = Server::new();
        let path = match rule.path {
            "/tasks/{id}/ready" => draft(&s, json!([])).await,
            _ => processing(&s, json!([bring("bolt", 1)])).await,
        };
        let body = match (rule.method, rule.path) {
            ("POST", "/tasks") => json!({"title": "Another"}),
            ("POST", "/tasks/{id}/lines") => bring("nut", 1),
            ("PATCH", _) => json!({"quantity": 2}),
            ("POST", path) if path.contains("/force-") => json!({"reason": "test"}),
            _ => json!({}),
        };
        let path = rule.path.replace("/tasks/{id}", &path).replace("{line}", "1");
        Ready { server: s, path, body, collection: "task/inventory" }
    })
    .await;
}

/// T13, T15: the general routes give nobody more.
#[tokio::test]
async fn t15_the_general_routes_are_no_way_around() {
    let s = Server::new();
    let path = processing(&s, json!([bring("bolt", 1)])).await;
    let id = id_of(&path);
    let items = "/v1/collections/task/inventory/items";
    let line = format!("{items}/line-{id}-1");
    let claim = json!({"collection": "task/inventory", "items": [id]});
    let put = json!({"status": "applied", "version": 1});
    for who in ["ana", "bea", "will:worker"] {
        s.put(who, &line, put.clone()).await.code(403, "forbidden");
        s.delete(who, &format!("{line}?version=1")).await.code(403, "forbidden");
        let step = json!({"op": "put_item", "collection": "task/inventory", "item": format!("line-{id}-1"),
            "status": "applied", "version": 1});
        let answers = s.post(who, "/v1/batch", json!({"commands": [step]})).await.status(200).json();
        assert_eq!(answers["answers"][0]["status"], 403, "{answers}");
    }
    let mine = s.post("ana", "/v1/claims", claim.clone()).await.status(200).json();
    let mine = mine["id"].as_str().expect("an id");
    let complete =
        s.post("ana", &format!("/v1/claims/{mine}/complete"), json!({"status": "completed"})).await;
    complete.code(403, "forbidden");
    s.post("will:worker", "/v1/claims", claim).await.code(403, "forbidden");
    assert_eq!(s.get("ana", &path).await.json()["lines"][0]["status"], "pending");
    // An administrator may mend things.
    s.put(
        "root",
        &format!("{items}/stock-bolt"),
        json!({"status": "stock", "data": {"mode": "quantity", "quantity": 3}}),
    )
    .await
    .status(201);
    assert_eq!(s.get("ana", "/inventory").await.json()["products"][0]["quantity"], 3);
    s.get("ana:editor:raffle", &path).await.code(403, "forbidden");
}

/// Bad input is 422 with the field, or 400 where it cannot be read; the unknown is 404.
#[tokio::test]
async fn bad_input_is_named_and_changes_nothing() {
    let s = Server::new();
    let path = processing(&s, json!([bring("bolt", 1)])).await;
    let before = s.get("ana", "/v1/collections/task/inventory").await.json();
    for (body, field) in [
        (json!({}), "title"),
        (json!({"title": ""}), "title"),
        (json!({"title": 7}), "title"),
        (json!({"title": "x", "colour": "red"}), "colour"),
        (json!({"title": "x", "lines": 7}), "lines"),
        (json!({"title": "x", "lines": [{"product": "p"}]}), "lines[0].mode"),
        (json!({"title": "x", "lines": [bring("p", 0)]}), "lines[0].quantity"),
        (json!({"title": "x", "lines": [bring("p p", 1)]}), "lines[0].product"),
    ] {
        s.post("ana", "/tasks", body).await.invalid(field);
    }
    let line = format!("{path}/lines/1");
    for (body, field) in [
        (json!({"quantity": -1}), "quantity"),
        (json!({"quantity": 0}), "quantity"),
        (json!({"mode": "heap"}), "mode"),
        (json!({"mode": "serialized"}), "serials"),
        (json!({"status": "applied"}), "status"),
    ] {
        patch(&s, "ana", &line, body).await.invalid(field);
    }
    s.send(Call::new("ana", Method::POST, "/tasks").raw("application/json", "{"))
        .await
        .code(400, "malformed");
    s.send(Call::new("ana", Method::POST, "/tasks").raw("text/plain", "{}"))
        .await
        .code(415, "unsupported_media_type");
    let large = json!({"title": "x".repeat(70_000)});
    s.post("ana", "/tasks", large).await.code(413, "too_large");
    for query in ["limit=0", "limit=201", "limit=x"] {
        s.get("ana", &format!("/tasks?{query}")).await.invalid("limit");
        s.get("ana", &format!("/inventory?{query}")).await.invalid("limit");
    }
    s.get("ana", "/tasks?colour=red").await.invalid("colour");
    s.get("ana", "/tasks?status=open").await.invalid("status");
    for unknown in ["/tasks/task-x", "/tasks/stock-bolt", "/tasks/%07"] {
        let refusal = s.get("ana", unknown).await.code(404, "not_found");
        assert_eq!(refusal.json()["what"], "task");
        s.post("ana", &format!("{unknown}/process"), json!({})).await.code(404, "not_found");
    }
    let refusal = patch(&s, "ana", &format!("{path}/lines/9"), json!({})).await.code(404, "not_found");
    assert_eq!((&refusal.json()["what"], &refusal.json()["id"]), (&json!("line"), &json!("9")));
    assert_eq!(s.get("ana", "/v1/collections/task/inventory").await.json(), before);
}

/// E4: a retry of a POST gets the first decision, also across a restart; the key is good for one request.
#[tokio::test]
async fn e04_posts_take_an_idempotency_key() {
    let s = Server::new();
    let create = || Call::new("ana", Method::POST, "/tasks").json(&json!({"title": "Delivery"})).key("k1");
    let first = s.send(create()).await.status(201);
    let s = s.restart();
    let again = s.send(create()).await.status(201);
    assert_eq!((again.header("idempotency-replayed"), again.json()), ("true", first.json()));
    let other = Call::new("ana", Method::POST, "/tasks").json(&json!({"title": "Other"})).key("k1");
    s.send(other).await.code(422, "key_reused");
    for what in ["ready", "process", "finalize", "leave"] {
        let elsewhere = format!("{}/{what}", first.header("location"));
        let other = Call::new("ana", Method::POST, &elsewhere).json(&json!({})).key("k1");
        s.send(other).await.code(422, "key_reused");
    }
    assert_eq!(s.get("ana", "/tasks").await.json()["tasks"].as_array().map(Vec::len), Some(1));
    let path = first.header("location").to_owned();
    for (what, body) in [("lines", bring("bolt", 1)), ("ready", json!({})), ("process", json!({}))] {
        // As long as a key may be.
        let key = format!("{what:k<256}");
        let call = || Call::new("ana", Method::POST, &format!("{path}/{what}")).json(&body).key(&key);
        let first = s.send(call()).await;
        let again = s.send(call()).await;
        assert_eq!((first.status, first.json()), (again.status, again.json()), "{what}");
        assert!(again.status.is_success());
        assert_eq!(again.header("idempotency-replayed"), "true", "{what}");
    }
}

/// A store that is away or damaged is told as such, and never what it said.
#[tokio::test]
async fn a_store_that_fails_is_told_as_such() {
    let s = Server::new();
    let path = processing(&s, json!([bring("bolt", 1)])).await;
    s.fail(Fault::Away);
    for place in [&*path, "/tasks", "/inventory"] {
        s.get("ana", place).await.code(503, "away");
    }
    s.fail(Fault::Corrupt);
    s.post("ana", &format!("{path}/process"), json!({})).await.code(500, "internal");
}
