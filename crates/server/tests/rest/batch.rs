//! Many commands in one request.

use axum::http::Method;
use serde_json::{Value, json};

use crate::server::{Call, Server, person};

fn acquire(items: &[&str]) -> Value {
    json!({"op": "acquire", "collection": "lock/jobs", "items": items})
}

fn answers(batch: &Value) -> Vec<(u64, Value)> {
    let answers = batch["answers"].as_array().expect("answers");
    answers
        .iter()
        .map(|answer| (answer["status"].as_u64().expect("a status"), answer["body"].clone()))
        .collect()
}

async fn run(s: &Server, who: &str, commands: Value) -> Vec<(u64, Value)> {
    answers(&s.post(who, "/v1/batch", json!({"commands": commands})).await.status(200).json())
}

/// E6
#[tokio::test]
async fn e06_each_command_is_answered_in_order_as_its_route_would() {
    let s = Server::new();
    s.lock("beto", "taken").await;
    let commands = json!([
        acquire(&["a"]),
        acquire(&["taken"]),
        {"op": "heartbeat", "claim": "lock~jobs~3", "token": 3},
        {"op": "nudge", "claim": "lock~jobs~2", "message": "please"},
        {"claim": "lock~jobs~3", "op": "add_item", "item": "b"},
        {"op": "remove_item", "claim": "lock~jobs~3", "item": "a"},
        {"op": "advance", "claim": "lock~jobs~3"},
        {"op": "release", "claim": "lock~jobs~3"},
        {"op": "create_collection", "collection": "task/mine"},
        {"op": "put_item", "collection": "task/mine", "item": "t", "data": 1},
        {"op": "put_item", "collection": "task/mine", "item": "t", "data": 2},
        {"op": "put_item", "collection": "task/mine", "item": "t", "data": 2, "version": 1},
        {"op": "put_item", "collection": "task/mine", "item": "t", "version": 1},
        {"op": "delete_item", "collection": "task/mine", "item": "t"},
        {"op": "delete_item", "collection": "task/mine", "item": "t", "version": 2},
        {"op": "nonsense"},
        {"op": "heartbeat", "claim": "lock~jobs~3"},
        {"op": "release", "claim": "lock~jobs~3", "extra": 1},
        {"op": "release"},
        {"op": "force_release", "collection": "lock/jobs", "item": "taken", "reason": "x"},
        7,
    ]);
    let found = run(&s, "ana", commands).await;
    let statuses: Vec<_> = found.iter().map(|(status, _)| *status).collect();
    let expected = [
        201, 409, 200, 200, 200, 200, 409, 204, 201, 201, 428, 200, 409, 428, 204, 422, 422, 422, 422, 403,
        422,
    ];
    assert_eq!(statuses, expected, "{found:#?}");
    assert_eq!((&found[0].1["id"], &found[0].1["holder"]), (&json!("lock~jobs~3"), &person("ana")));
    assert_eq!((&found[1].1["code"], &found[1].1["items"][0]["holder"]), (&json!("held"), &person("beto")));
    assert_eq!(found[1].1["retry_after"], 30);
    assert_eq!((&found[2].1["renewed"], &found[7].1), (&json!(true), &json!(null)));
    let fields: Vec<_> = found[15..19].iter().map(|(_, body)| body["field"].clone()).collect();
    assert_eq!(fields, [json!("op"), json!("token"), json!("extra"), json!("claim")]);
    assert_eq!(found[19].1["code"], "forbidden");
}

#[tokio::test]
async fn e06_administrators_may_override_and_complete_and_cancel_work_too() {
    let s = Server::new();
    s.collection("analysis/x", &["a", "b"]).await;
    let commands = json!([
        {"op": "acquire", "collection": "analysis/x", "items": ["a"]},
        {"op": "complete", "claim": "analysis~x~4", "token": 4, "status": "READY", "items": [{"item": "a", "data": {"n": 1.0}}]},
        {"op": "acquire", "collection": "analysis/x", "items": ["b"]},
        {"op": "cancel", "claim": "analysis~x~6"},
        {"op": "force_claim", "collection": "analysis/x", "item": "b", "reason": "urgent", "session": "tab"},
        {"op": "force_release", "collection": "analysis/x", "item": "b", "reason": "done"},
    ]);
    let found = run(&s, "root", commands).await;
    let statuses: Vec<_> = found.iter().map(|(status, _)| *status).collect();
    assert_eq!(statuses, [201, 200, 201, 200, 201, 200], "{found:#?}");
    let item = s.get("root", "/v1/collections/analysis/x/items/a").await;
    assert!(
        item.text().contains(r#""data":{"n":1.0}"#),
        "numbers come back as they went in: {}",
        item.text()
    );
}

/// E6, I8
#[tokio::test]
async fn e06_an_atomic_batch_happens_whole_or_not_at_all() {
    let s = Server::new();
    s.lock("beto", "taken").await;
    let commands = json!([acquire(&["a"]), acquire(&["taken"])]);
    let refused = s.post("ana", "/v1/batch", json!({"commands": commands, "atomic": true})).await;
    assert_eq!(refused.header("retry-after"), "30");
    let body = refused.code(409, "held").json();
    assert_eq!((&body["index"], &body["items"][0]["item"]), (&json!(1), &json!("taken")));
    s.get("ana", "/v1/collections/lock/jobs/items/a").await.status(404);
    let commands = json!([acquire(&["a"]), acquire(&["b"]), {"op": "release", "claim": "lock~jobs~3"}]);
    let done =
        s.post("ana", "/v1/batch", json!({"commands": commands, "atomic": true})).await.status(200).json();
    let statuses: Vec<_> = answers(&done).iter().map(|(status, _)| *status).collect();
    assert_eq!(statuses, [201, 201, 204]);
}

#[tokio::test]
async fn e06_an_atomic_batch_is_about_one_collection_and_does_not_wait() {
    let s = Server::new();
    let atomic = async |commands: Value| {
        s.post("ana", "/v1/batch", json!({"commands": commands, "atomic": true})).await
    };
    let other = json!({"op": "acquire", "collection": "lock/other", "items": ["a"]});
    atomic(json!([acquire(&["a"]), other])).await.invalid("commands[1].collection");
    let waits = json!({"op": "acquire", "collection": "lock/jobs", "items": ["a"], "wait_ms": 5});
    atomic(json!([waits])).await.invalid("commands[0].wait_ms");
    assert_eq!(atomic(json!([acquire(&["a"]), {"op": "x"}])).await.invalid("op").json()["index"], 1);
    let admin = json!({"op": "force_release", "collection": "lock/jobs", "item": "a", "reason": "x"});
    atomic(json!([admin])).await.code(403, "forbidden");
    atomic(json!([{"op": "release", "claim": "lock~jobs~99"}])).await.code(404, "not_found");
    s.collection("image/p", &["i"]).await;
    let put = |more: Value| {
        let mut put = json!({"op": "put_item", "collection": "image/p", "item": "i"});
        put.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        json!([put])
    };
    atomic(put(json!({}))).await.code(428, "precondition_required");
    atomic(put(json!({"version": 9}))).await.code(409, "conflict");
    s.get("ana", "/v1/collections/lock/jobs").await.status(404);
}

#[tokio::test]
async fn e06_a_batch_has_1_to_1000_commands() {
    let s = Server::new();
    s.post("ana", "/v1/batch", json!({"commands": []})).await.invalid("commands");
    let many: Vec<_> = (0..1_001).map(|_| json!({"op": "release", "claim": "lock~jobs~9"})).collect();
    s.post("ana", "/v1/batch", json!({"commands": many})).await.invalid("commands");
    let many: Vec<_> = (0..1_000).map(|number| acquire(&[&number.to_string()])).collect();
    let found = run(&s, "ana", json!(many)).await;
    assert_eq!(found.len(), 1_000);
    assert!(found.iter().all(|(status, _)| *status == 201));
    s.post("ana", "/v1/batch", json!({"commands": 7})).await.invalid("commands");
    s.post("ana", "/v1/batch", json!({})).await.invalid("commands");
    s.post("ana", "/v1/batch", json!({"commands": [acquire(&["a"])], "atomic": 1})).await.invalid("atomic");
    s.post("ana:viewer", "/v1/batch", json!({"commands": []})).await.code(403, "forbidden");
}

/// E4, E6: a retry repeats nothing, byte for byte.
#[tokio::test]
async fn e04_a_batch_with_a_key_is_answered_again_as_before() {
    for atomic in [false, true] {
        let s = Server::new();
        let body = json!({"commands": [acquire(&["a"]), acquire(&["b"])], "atomic": atomic});
        let key = "k".repeat(256);
        let call = |body: &Value| Call::new("ana", Method::POST, "/v1/batch").key(&key).json(body);
        let first = s.send(call(&body)).await.status(200);
        s.pass(5_000);
        let again = s.send(call(&body)).await.status(200);
        assert_eq!(first.bytes, again.bytes, "atomic {atomic}");
        let other = json!({"commands": [acquire(&["c"]), acquire(&["d"])], "atomic": atomic});
        s.send(call(&other)).await.code(422, "key_reused");
        s.get("ana", "/v1/collections/lock/jobs/items/d").await.status(404);
    }
}

/// E4, E6: behind a 422 nothing has changed, wherever the commands of either batch were about.
#[tokio::test]
async fn e04_a_reused_key_is_refused_before_anything_is_carried_out() {
    let place =
        |collection: &str, item: &str| json!({"op": "acquire", "collection": collection, "items": [item]});
    let malformed = json!({"op": "acquire", "collection": "lock/jobs", "items": ["m"], "ttl_ms": -5});
    let firsts = [
        // The first step is malformed, or of another collection, or was refused.
        json!([malformed, acquire(&["a"])]),
        json!([{"op": "nonsense"}, acquire(&["a"])]),
        json!([place("lock/other", "a"), acquire(&["a"])]),
        json!([place("lock/other", "a")]),
    ];
    let seconds = [
        json!([acquire(&["b"]), acquire(&["c"])]),
        json!([place("lock/third", "b"), acquire(&["c"])]),
        json!([{"op": "nonsense"}, acquire(&["b"]), place("lock/third", "c")]),
        json!([acquire(&["b"])]),
    ];
    for first in &firsts {
        for second in &seconds {
            let s = Server::new();
            let call = |commands: &Value| {
                Call::new("ana", Method::POST, "/v1/batch").key("k").json(&json!({"commands": commands}))
            };
            let done = s.send(call(first)).await.status(200);
            s.send(call(second)).await.code(422, "key_reused");
            for (collection, item) in
                [("lock/jobs", "b"), ("lock/jobs", "c"), ("lock/third", "b"), ("lock/third", "c")]
            {
                s.get("ana", &format!("/v1/collections/{collection}/items/{item}")).await.status(404);
            }
            let again = s.send(call(first)).await.status(200);
            assert_eq!(done.bytes, again.bytes, "{first}");
        }
    }
}
