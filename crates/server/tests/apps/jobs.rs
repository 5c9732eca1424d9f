//! `/analyses` and `/internal/tasks/analysis`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::http::Method;
use serde_json::{Value, json};
use tenure_apps::files::InMemory;
use tenure_apps::jobs::{Failure, Job, Runner, Running, Stop, Workshop};
use tenure_core::Json;
use tenure_engine::{Engine, ManualClock, Options};
use tenure_server::identity::{Identity, ServerSecret, Settings};
use tenure_server::{App, Metrics, Rule};
use tokio::sync::Semaphore;

use crate::access::{self, Ready};
use crate::server::{Call, NOW, START_MS, Server, any_store, at, person};

const TTL_MS: i64 = 300_000;

/// A runner whose runs end when the test says so.
#[derive(Clone, Debug)]
struct Gate {
    begun: Arc<AtomicUsize>,
    ends: Arc<Semaphore>,
}

impl Runner for Gate {
    fn run(&self, job: Job, mut stop: Stop) -> Running {
        let Self { begun, ends } = self.clone();
        begun.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            tokio::select! {
                end = ends.acquire() => end.expect("is open").forget(),
                () = stop.asked() => return Err(Failure::new("stopped", "too late")),
            }
            Ok(Json::of(&json!({"token": job.token})).expect("JSON"))
        })
    }
}

/// A server that runs analyses behind a gate.
fn gated() -> (Arc<Server>, Gate) {
    let gate = Gate { begun: Arc::default(), ends: Arc::new(Semaphore::new(0)) };
    let clock = ManualClock::at(START_MS);
    let engine = Engine::start(any_store(&clock), clock.clone(), Options::default()).expect("starts");
    let secret = ServerSecret::random().expect("randomness");
    let identity = Identity::new(engine.clone(), Settings::new(secret)).expect("keys alone");
    let app = App::with_workshop(
        engine,
        identity,
        Metrics::new(),
        Arc::new(InMemory::default()),
        Workshop::new(gate.clone(), 4),
    );
    (Arc::new(Server::of(app, clock)), gate)
}

async fn queued(s: &Server, id: &str) {
    s.post("ana", "/analyses", json!({"id": id, "input": "The job runs once."})).await.status(201);
}

/// Locks it for this worker; gives the token.
async fn locked(s: &Server, id: &str, owner: &str) -> u64 {
    let answer =
        s.post("wes:worker", &format!("/analyses/{id}/lock"), json!({"owner": owner})).await.status(200);
    answer.json()["token"].as_u64().unwrap_or_else(|| panic!("{}", answer.text()))
}

async fn deliver(s: &Server, id: &str) -> Value {
    s.post("wes:worker", "/internal/tasks/analysis", json!({"analysis_id": id})).await.status(200).json()
}

fn free() -> Value {
    json!({"state": "free", "locked_by": null, "locked_at": null, "heartbeat_at": null, "expires_at": null,
        "expires_in_ms": null, "mine": false, "owner": null})
}

fn held(mine: bool, owner: &str, expires_in_ms: i64) -> Value {
    json!({"state": "locked", "locked_by": person("wes"), "locked_at": NOW, "heartbeat_at": NOW,
        "expires_at": at(expires_in_ms), "expires_in_ms": expires_in_ms, "mine": mine, "owner": owner})
}

#[tokio::test]
async fn an_analysis_is_queued_read_and_listed() {
    let s = Server::new();
    let made = s.post("ana", "/analyses", json!({"id": "a-1", "input": "One\ntwo."})).await;
    assert_eq!(made.header("location"), "/analyses/a-1");
    let shown = json!({
        "id": "a-1", "status": "QUEUED", "excerpt": "One two.", "input": "One\ntwo.", "lock": free(),
        "queued_by": "ana", "queued_at": NOW, "version": 1, "updated_at": NOW, "server_time": NOW,
    });
    made.is(201, shown.clone());
    s.get("vera:viewer", "/analyses/a-1").await.is(200, shown.clone());
    let mut row = shown;
    row.as_object_mut().expect("an object").remove("input");
    let page = |rows: Value| json!({"analyses": rows, "next": null, "server_time": NOW});
    s.get("vera:viewer", "/analyses?status=QUEUED&claimable=true&limit=1").await.is(200, page(json!([row])));
    s.get("vera:viewer", "/analyses?status=READY").await.is(200, page(json!([])));
    s.get("vera:viewer", "/analyses?claimable=false").await.is(200, page(json!([])));
    s.post("ana", "/analyses", json!({"id": "a-1", "input": "again"})).await.code(409, "conflict");
    s.get("ana", "/analyses/nobody").await.refuses(
        404,
        "not_found",
        json!({"what": "analysis", "id": "nobody"}),
    );
    // Only the kinds that a key covers.
    s.get("ana:editor:task", "/analyses/a-1").await.code(403, "forbidden");
    s.post("wes:worker:lock", "/internal/tasks/analysis", json!({"analysis_id": "a-1"}))
        .await
        .code(403, "forbidden");
}

#[tokio::test]
async fn bad_input_is_422_with_the_field() {
    let s = Server::new();
    queued(&s, "a").await;
    let wrong = [
        ("/analyses", json!({}), "input"),
        ("/analyses", json!({"input": " "}), "input"),
        ("/analyses", json!({"input": 1}), "input"),
        ("/analyses", json!({"input": "x".repeat(41_000)}), "input"),
        ("/analyses", json!({"input": "x", "id": "a/b"}), "id"),
        ("/analyses", json!({"input": "x", "colour": 1}), "colour"),
        ("/analyses/a/lock", json!({}), "owner"),
        ("/analyses/a/lock", json!({"owner": ""}), "owner"),
        ("/analyses/a/lock", json!({"owner": "x".repeat(129)}), "owner"),
        ("/analyses/a/lock", json!({"owner": "w", "ttl_sec": 0}), "ttl_sec"),
        ("/analyses/a/lock", json!({"owner": "w", "ttl_sec": 3601}), "ttl_sec"),
        ("/analyses/a/lock", json!({"owner": "w", "ttl_sec": 9_000_000_000_000_000_000_i64}), "ttl_sec"),
        ("/analyses/a/lock/refresh", json!({"owner": "w", "token": -1}), "token"),
        ("/analyses/a/lock/release", json!({"owner": 7}), "owner"),
        ("/analyses/a/complete", json!({"result": 1}), "token"),
        ("/analyses/a/complete", json!({"token": 3}), "result"),
        (
            "/analyses/a/complete",
            json!({"token": 3, "result": 1, "error": {"reason": "x", "message": ""}}),
            "error",
        ),
        (
            "/analyses/a/complete",
            json!({"token": 3, "error": {"reason": "X", "message": ""}}),
            "error.reason",
        ),
        ("/analyses/a/complete", json!({"token": 3, "result": "x".repeat(17_000)}), "result"),
        ("/internal/tasks/analysis", json!({}), "analysis_id"),
        ("/internal/tasks/analysis", json!({"analysis_id": ""}), "analysis_id"),
        ("/internal/tasks/analysis", json!({"analysis_id": "x".repeat(300)}), "analysis_id"),
        ("/internal/tasks/analysis", json!({"analysis_id": "a", "x": 1}), "x"),
    ];
    for (path, body, field) in wrong {
        s.post("root", path, body).await.invalid(field);
    }
    s.get("ana", "/analyses?limit=0").await.invalid("limit");
    s.get("ana", "/analyses?status=queued").await.invalid("status");
    s.get("ana", "/analyses?state=x").await.invalid("state");
    let large = "x".repeat(70_000);
    s.post("root", "/analyses", json!({"input": large})).await.code(413, "too_large");
    let unknown = [
        ("/analyses/b/lock", json!({"owner": "w"})),
        ("/analyses/b/lock/refresh", json!({"owner": "w"})),
        ("/analyses/b/lock/release", json!({"owner": "w"})),
        ("/analyses/b/complete", json!({"token": 1, "result": 1})),
        ("/internal/tasks/analysis", json!({"analysis_id": "b"})),
    ];
    for (path, body) in unknown {
        s.post("root", path, body).await.refuses(404, "not_found", json!({"what": "analysis", "id": "b"}));
    }
    assert_eq!(s.get("ana", "/analyses/a").await.json()["version"], 1);
}

/// J1, J3
#[tokio::test]
async fn j01_a_lock_is_acquired_with_a_token_or_says_why_not() {
    let s = Server::new();
    queued(&s, "a").await;
    let path = "/analyses/a/lock";
    let lock = s.post("wes:worker", path, json!({"owner": "w-1"})).await;
    let got = json!({"acquired": true, "token": 3, "lock": held(true, "w-1", TTL_MS), "server_time": NOW});
    lock.is(200, got);
    let other = s.post("xe:worker", path, json!({"owner": "w-2"})).await;
    let not = json!({"acquired": false, "reason": "locked", "lock": held(false, "w-1", TTL_MS), "server_time": NOW});
    other.is(200, not);
    // The same key in another worker.
    let sibling = s.post("wes:worker", path, json!({"owner": "w-2"})).await.status(200).json();
    assert_eq!((&sibling["acquired"], &sibling["reason"]), (&json!(false), &json!("locked")));
}

/// J2, J3: a stale lock is taken, a finished analysis never.
#[tokio::test]
async fn j03_a_stale_lock_is_taken_over_and_j02_a_finished_analysis_never() {
    let s = Server::new();
    queued(&s, "a").await;
    s.post("wes:worker", "/analyses/a/lock", json!({"owner": "w-1", "ttl_sec": 5})).await.status(200);
    s.pass(5_000);
    let token = locked(&s, "a", "w-2").await;
    s.post("wes:worker", "/analyses/a/complete", json!({"token": token})).await.invalid("result");
    let deep = format!(r#"{{"token": {token}, "result": {}{}}}"#, "[".repeat(127), "]".repeat(127));
    let deep = Call::new("wes:worker", Method::POST, "/analyses/a/complete").raw("application/json", deep);
    s.send(deep).await.invalid("result");
    s.post("wes:worker", "/analyses/a/complete", json!({"token": token, "error": ["a", "b"]}))
        .await
        .invalid("error");
    s.post("wes:worker", "/analyses/a/complete", json!({"token": token, "result": []})).await.status(200);
    for owner in ["w-1", "w-2"] {
        let answer =
            s.post("wes:worker", "/analyses/a/lock", json!({"owner": owner})).await.status(200).json();
        assert_eq!((&answer["acquired"], &answer["reason"]), (&json!(false), &json!("already_finished")));
    }
}

/// J4: fifty deliveries at once over HTTP, one run.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn j04_fifty_deliveries_at_once_give_one_run() {
    let (s, gate) = gated();
    queued(&s, "a").await;
    let deliveries: Vec<_> = (0..50)
        .map(|_| {
            let s = s.clone();
            tokio::spawn(async move { deliver(&s, "a").await })
        })
        .collect();
    while deliveries.iter().filter(|delivery| delivery.is_finished()).count() < 49 {
        tokio::task::yield_now().await;
    }
    gate.ends.add_permits(50);
    let mut completed = 0;
    for delivery in deliveries {
        let answer = delivery.await.expect("ends");
        if answer == json!({"outcome": "completed", "status": "READY"}) {
            completed += 1;
        } else {
            assert_eq!(answer, json!({"outcome": "skipped", "reason": "locked", "status": "RUNNING"}));
        }
    }
    assert_eq!((completed, gate.begun.load(Ordering::SeqCst)), (1, 1));
    assert_eq!(s.get("ana", "/analyses/a").await.json()["result"], json!({"token": 3}));
}

/// J5
#[tokio::test]
async fn j05_a_refresh_extends_the_own_lock_and_a_lost_one_says_so() {
    let s = Server::new();
    queued(&s, "a").await;
    let token = locked(&s, "a", "w-1").await;
    s.pass(60_000);
    let path = "/analyses/a/lock/refresh";
    let answer = s.post("wes:worker", path, json!({"owner": "w-1", "token": token})).await.status(200).json();
    assert_eq!(answer["refreshed"], true);
    assert_eq!(
        (&answer["lock"]["heartbeat_at"], &answer["lock"]["expires_in_ms"]),
        (&json!(at(60_000)), &json!(TTL_MS))
    );
    let other = s.post("wes:worker", path, json!({"owner": "w-2"})).await.code(409, "held");
    assert_eq!(other.json()["items"][0]["session"], "w-1");
    s.post("wes:worker", path, json!({"owner": "w-1", "token": 99})).await.code(403, "stale_token");
    s.pass(TTL_MS);
    s.post("wes:worker", path, json!({"owner": "w-1"})).await.code(410, "lost");
    s.post("wes:worker", path, json!({"owner": "w-2"})).await.code(409, "not_held");
}

/// J6
#[tokio::test]
async fn j06_only_the_owner_releases_and_a_failed_release_is_a_warning() {
    let s = Server::new();
    queued(&s, "a").await;
    locked(&s, "a", "w-1").await;
    let path = "/analyses/a/lock/release";
    let kept = json!({"released": false, "reason": "held", "warning": "a is held by Wes in another session",
        "server_time": NOW});
    s.post("xe:worker", path, json!({"owner": "w-1"})).await.is(200, kept.clone());
    s.post("wes:worker", path, json!({"owner": "w-2"})).await.is(200, kept);
    assert_eq!(s.get("ana", "/analyses/a").await.json()["lock"]["owner"], "w-1");
    for _ in 0..2 {
        let released = json!({"released": true, "server_time": NOW});
        s.post("wes:worker", path, json!({"owner": "w-1"})).await.is(200, released);
    }
    assert_eq!(s.get("ana", "/analyses/a").await.json()["lock"], free());
}

/// J7
#[tokio::test]
async fn j07_what_is_not_acquired_is_200_skipped_with_the_reason() {
    let s = Server::new();
    queued(&s, "a").await;
    let token = locked(&s, "a", "w-1").await;
    assert_eq!(
        deliver(&s, "a").await,
        json!({"outcome": "skipped", "reason": "locked", "status": "RUNNING"})
    );
    let error = json!({"reason": "exit", "message": "exit code 3"});
    let failed = s.post("wes:worker", "/analyses/a/complete", json!({"token": token, "error": error})).await;
    assert_eq!(failed.status(200).json()["error"], error);
    let skipped = json!({"outcome": "skipped", "reason": "already_finished", "status": "FAILED"});
    assert_eq!(deliver(&s, "a").await, skipped);
}

/// J8: the built-in analysis really runs; result, status and release come together.
#[tokio::test]
async fn j08_a_delivery_runs_the_analysis_and_writes_its_result() {
    let s = Server::new();
    s.post("ana", "/analyses", json!({"id": "es", "input": "La tarea está lista. ¿Quién la toma?"}))
        .await
        .status(201);
    assert_eq!(deliver(&s, "es").await, json!({"outcome": "completed", "status": "READY"}));
    let analysis = s.get("vera:viewer", "/analyses/es").await.status(200).json();
    assert_eq!((&analysis["status"], &analysis["lock"]), (&json!("READY"), &free()));
    let result = &analysis["result"];
    assert_eq!(
        (&result["language"]["code"], &result["words"], &result["sentences"]),
        (&json!("es"), &json!(7), &json!(2))
    );
    let events = s.get("ana", "/v1/collections/analysis/queue/events").await.status(200).json();
    let types: Vec<_> =
        events["events"].as_array().expect("events").iter().map(|event| event["type"].clone()).collect();
    assert_eq!(types, ["collection_created", "item_put", "claim_granted", "claim_completed"]);
}

/// J8: a result with an old token is refused, and the newer one's stays.
#[tokio::test]
async fn j08_a_late_result_is_refused_by_its_token() {
    let s = Server::new();
    queued(&s, "a").await;
    let path = "/analyses/a/complete";
    let old = locked(&s, "a", "w-1").await;
    s.pass(TTL_MS);
    let new = locked(&s, "a", "w-2").await;
    let late = s.post("wes:worker", path, json!({"token": old, "result": "late"})).await;
    late.refuses(403, "stale_token", json!({"given": old, "current": new}));
    s.post("xe:worker", path, json!({"token": new, "result": "another's"})).await.code(403, "not_holder");
    s.post("wes:worker", path, json!({"token": new, "result": "in time"})).await.status(200);
    s.post("wes:worker", path, json!({"token": old, "result": "late"})).await.code(410, "lost");
    assert_eq!(s.get("ana", "/analyses/a").await.json()["result"], "in time");
}

/// J9: the server stops in the middle of a run; after the TTL the next delivery takes over.
#[tokio::test]
async fn j09_after_a_restart_the_next_delivery_takes_over() {
    let s = Server::new();
    queued(&s, "a").await;
    // What a run that is cut off leaves behind.
    locked(&s, "a", "delivery-of-before").await;
    let s = s.restart();
    assert_eq!(
        deliver(&s, "a").await,
        json!({"outcome": "skipped", "reason": "locked", "status": "RUNNING"})
    );
    s.pass(TTL_MS);
    assert_eq!(deliver(&s, "a").await, json!({"outcome": "completed", "status": "READY"}));
    assert_eq!(deliver(&s, "a").await["reason"], "already_finished");
}

/// J9: a run that is cut off by the end of the engine asks for another delivery.
#[tokio::test]
async fn j09_a_run_that_the_servers_end_cuts_off_is_503() {
    let (s, gate) = gated();
    queued(&s, "a").await;
    let cut = {
        let s = s.clone();
        let body = json!({"analysis_id": "a"});
        tokio::spawn(async move { s.post("wes:worker", "/internal/tasks/analysis", body).await })
    };
    while gate.begun.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    s.engine.stop().expect("stops");
    gate.ends.add_permits(1);
    cut.await.expect("ends").code(503, "stopped");
}

/// E4
#[tokio::test]
async fn e04_a_retry_under_its_key_gets_the_first_answer() {
    let (s, gate) = gated();
    queued(&s, "a").await;
    let call = |path: &str, body: Value| Call::new("wes:worker", Method::POST, path).json(&body);
    let first = {
        let (s, call) = (s.clone(), call("/internal/tasks/analysis", json!({"analysis_id": "a"})).key("k-1"));
        tokio::spawn(async move { s.send(call).await })
    };
    while gate.begun.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    let again = || call("/internal/tasks/analysis", json!({"analysis_id": "a"})).key("k-1");
    s.send(again()).await.code(409, "in_progress");
    gate.ends.add_permits(2);
    let first = first.await.expect("ends").status(200);
    let again = s.send(again()).await.status(200);
    assert_eq!((first.json(), first.header("idempotency-replayed")), (again.json(), ""));
    assert_eq!(again.header("idempotency-replayed"), "true");
    queued(&s, "b").await;
    s.send(call("/internal/tasks/analysis", json!({"analysis_id": "b"})).key("k-1"))
        .await
        .code(422, "key_reused");
    assert_eq!(gate.begun.load(Ordering::SeqCst), 1);
    let create = || call("/analyses", json!({"input": "once"})).key("k-2");
    let (one, two) = (s.send(create()).await.status(201), s.send(create()).await.status(201));
    assert_eq!(one.json()["id"], two.json()["id"]);
}

/// Route × role × own/other, from the table.
#[tokio::test]
async fn e08_each_role_does_what_the_table_says() {
    access::check("jobs", async |rule: &Rule| {
        let server = Server::new();
        queued(&server, "a").await;
        let locked = server.post("ana:worker", "/analyses/a/lock", json!({"owner": "w-1"})).await.status(200);
        let body = match rule.path {
            "/analyses" => json!({"input": "text"}),
            "/analyses/{id}/complete" => json!({"token": locked.json()["token"], "result": 1}),
            "/internal/tasks/analysis" => json!({"analysis_id": "a"}),
            _ => json!({"owner": "w-1"}),
        };
        Ready { server, path: rule.path.replace("{id}", "a"), body, collection: "analysis/queue" }
    })
    .await;
}

/// The general routes lead to nothing that these do not: locks are for who runs jobs, documents are written
/// here.
#[tokio::test]
async fn e08_the_general_routes_do_not_write_around_it() {
    let s = Server::new();
    queued(&s, "a").await;
    let item = "/v1/collections/analysis/queue/items/a";
    s.put("ana", item, json!({"version": 1, "status": "READY"})).await.code(403, "forbidden");
    let claim = json!({"collection": "analysis/queue", "items": ["a"], "session": "w-1"});
    s.post("ana", "/v1/claims", claim.clone()).await.code(403, "forbidden");
    let (id, token) = s.post("wes:worker", "/v1/claims", claim).await.status(201).claim();
    let around = json!({"token": token, "status": "READY", "data": {"rubbish": 1}});
    s.post("wes:worker", &format!("/v1/claims/{id}/complete"), around).await.code(403, "forbidden");
    // A claim taken there is the lock here.
    s.post("wes:worker", "/analyses/a/lock/refresh", json!({"owner": "w-1"})).await.status(200);
    s.post("wes:worker", "/analyses/a/complete", json!({"token": token, "result": 1})).await.status(200);
}
