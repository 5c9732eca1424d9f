//! Bad input: a clear refusal that names what is wrong, and nothing changed.

use axum::body::Body;
use axum::http::{Method, header};
use serde_json::{Value, json};

use crate::faulty::Fault;
use crate::server::{Call, Server};

fn claims() -> Call {
    Call::new("ana", Method::POST, "/v1/claims")
}

#[tokio::test]
async fn an_unknown_route_is_404_and_an_unknown_method_405_with_allow() {
    let s = Server::new();
    for path in ["/v1", "/v2/claims", "/v1/claims/", "/v1/claims/a/b/c", "/v1//claims", "/V1/claims"] {
        let what = s.get("ana", path).await.code(404, "not_found").json();
        assert_eq!((&what["what"], &what["id"]), (&json!("route"), &json!(path)));
    }
    let wrong = s.send(Call::new("ana", Method::PUT, "/v1/claims")).await.code(405, "method_not_allowed");
    let mut allowed: Vec<_> = wrong.header("allow").split(',').collect();
    allowed.sort_unstable();
    assert_eq!(allowed, ["GET", "HEAD", "POST"]);
    s.send(Call::new("ana", Method::PATCH, "/v1/collections/a/b")).await.code(405, "method_not_allowed");
    let odd = Method::from_bytes(b"BREW").expect("a method");
    s.send(Call::new("ana", odd, "/v1/claims")).await.code(405, "method_not_allowed");
}

#[tokio::test]
async fn options_tells_the_methods_and_head_is_get_without_a_body() {
    let s = Server::new();
    let options = s.send(Call::new("ana", Method::OPTIONS, "/v1/claims")).await.status(204);
    assert!(options.header("allow").contains("POST"));
    let (id, _) = s.lock("ana", "nightly").await;
    let head = s.send(Call::new("ana", Method::HEAD, &format!("/v1/claims/{id}"))).await.status(200);
    assert!(head.bytes.is_empty());
    let length: usize = head.header("content-length").parse().expect("a length");
    assert!(length > 0);
    s.send(Call::new("", Method::HEAD, &format!("/v1/claims/{id}"))).await.status(401);
}

#[tokio::test]
async fn a_body_that_cannot_be_read_is_400_or_415_or_413() {
    let s = Server::new();
    for body in ["{", "nonsense", "{\"collection\": }", "\u{feff}{}", "\"\\ud800\""] {
        s.send(claims().raw("application/json", body)).await.code(400, "malformed");
    }
    for body in ["{} {}", "{}x"] {
        let cancel = Call::new("ana", Method::POST, "/v1/claims/lock~jobs~1/cancel");
        s.send(cancel.raw("application/json", body)).await.code(400, "malformed");
    }
    s.send(claims().raw("application/json", &b"{\"collection\": \"\xff\"}"[..])).await.code(400, "malformed");
    let deep = format!(
        "{{\"collection\":\"lock/a\",\"items\":[\"a\"],\"data\":{}1{}}}",
        "[".repeat(5_000),
        "]".repeat(5_000)
    );
    let refused = s.send(claims().raw("application/json", deep)).await;
    assert!(refused.status == 400 || refused.status == 422, "{refused:?}");
    for kind in ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", "x"] {
        s.send(claims().raw(kind, "{}")).await.code(415, "unsupported_media_type");
    }
    let mut bare = claims();
    *bare.0.body_mut() = Body::from("{}");
    s.send(bare).await.code(415, "unsupported_media_type");
    let charset = "application/json; charset=utf-8";
    s.send(claims().raw(charset, json!({"collection": "lock/a", "items": ["a"]}).to_string()))
        .await
        .status(201);
    let large = json!({"collection": "lock/a", "items": ["b"], "data": "x".repeat(70_000)});
    s.send(claims().json(&large)).await.code(413, "too_large");
    let large = json!({"commands": ["x".repeat(1_100_000)]});
    s.send(Call::new("ana", Method::POST, "/v1/batch").json(&large)).await.code(413, "too_large");
}

#[tokio::test]
async fn wrong_unknown_and_missing_fields_are_422_that_names_them() {
    let s = Server::new();
    let table: [(Value, &str); 19] = [
        (json!([]), "body"),
        (json!(["lock/a", ["a"], null, null, null, null]), "body"),
        (json!("x"), "body"),
        (json!(null), "body"),
        (json!({}), "collection"),
        (json!({"collection": "lock/a"}), "items"),
        (json!({"collection": 1, "items": ["a"]}), "collection"),
        (json!({"collection": "nonsense", "items": ["a"]}), "collection"),
        (json!({"collection": "Lock/a", "items": ["a"]}), "collection"),
        (json!({"collection": "lock/..", "items": ["a"]}), "collection"),
        (json!({"collection": "lock/a", "items": "a"}), "items"),
        (json!({"collection": "lock/a", "items": [1]}), "items[0]"),
        (json!({"collection": "lock/a", "items": ["a", ""]}), "items[1]"),
        (json!({"collection": "lock/a", "items": ["\u{7}"]}), "items[0]"),
        (json!({"collection": "lock/a", "items": ["x".repeat(257)]}), "items[0]"),
        (json!({"collection": "lock/a", "items": ["a"], "ttl_ms": "1"}), "ttl_ms"),
        (json!({"collection": "lock/a", "items": ["a"], "ttl_ms": 1.5}), "ttl_ms"),
        (json!({"collection": "lock/a", "items": ["a"], "session": ""}), "session"),
        (json!({"collection": "lock/a", "items": ["a"], "surprise": 1}), "surprise"),
    ];
    for (body, field) in table {
        s.send(claims().json(&body)).await.invalid(field);
    }
    let twice = r#"{"collection": "lock/a", "items": ["a"], "items": ["b"]}"#;
    s.send(claims().raw("application/json", twice)).await.invalid("items");
    s.get("ana", "/v1/collections/lock/a").await.status(404);
}

#[tokio::test]
async fn path_parameters_that_do_not_parse_are_422_or_400() {
    let s = Server::new();
    for id in [
        "x",
        "lock~jobs",
        "lock~jobs~0",
        "lock~jobs~01",
        "lock~jobs~+1",
        "lock~jobs~1~2",
        "Lock~jobs~1",
        "lock~jobs~99999999999999999999",
    ] {
        s.get("ana", &format!("/v1/claims/{id}")).await.invalid("claim");
    }
    s.get("ana", "/v1/collections/Lock/jobs").await.invalid("collection");
    s.get("ana", "/v1/collections/lock/a%2Fb").await.invalid("collection");
    s.get("ana", "/v1/collections/lock/%2E%2E").await.invalid("collection");
    s.get("ana", "/v1/collections/lock/jobs/items/%00").await.invalid("item");
    s.get("ana", "/v1/collections/lock/jobs/items/..").await.invalid("item");
    s.get("ana", "/v1/collections/lock/jobs/items/%FF").await.code(400, "malformed");
    s.get("root", "/v1/policies/%FF").await.code(400, "malformed");
    s.get("root", "/v1/policies/Kind").await.invalid("kind");
    s.delete("ana", "/v1/claims/lock~jobs~1/items/%01").await.invalid("item");
}

#[tokio::test]
async fn unknown_and_wrong_query_fields_are_422_that_names_them() {
    let s = Server::new();
    let (id, token) = s.lock("ana", "nightly").await;
    s.get("ana", "/v1/claims?surprise=1").await.invalid("surprise");
    s.get("ana", "/v1/claims?limit=x").await.invalid("limit");
    s.get("ana", "/v1/claims?limit=0").await.invalid("limit");
    s.get("ana", "/v1/claims?limit=1&limit=2").await.invalid("limit");
    s.get("ana", "/v1/claims?state=odd").await.invalid("state");
    s.get("ana", "/v1/claims?after=odd").await.invalid("after");
    s.get("ana", "/v1/claims?collection=odd").await.invalid("collection");
    for path in [
        format!("/v1/claims/{id}"),
        "/v1/collections/lock/jobs".into(),
        "/v1/collections/lock/jobs/items/nightly".into(),
        "/v1/collections/lock/jobs/items/nightly/explain".into(),
        "/v1/policies".into(),
        "/v1/policies/lock".into(),
        "/v1/audit/verify".into(),
    ] {
        s.get("root", &format!("{path}?x=1")).await.invalid("x");
    }
    let beat = format!("/v1/claims/{id}/heartbeat?x=1");
    s.post("ana", &beat, json!({"token": token})).await.invalid("x");
    s.delete("ana", &format!("/v1/claims/{id}?x=1")).await.invalid("x");
    assert_eq!(s.get("ana", &format!("/v1/claims/{id}")).await.json()["state"], "active");
}

#[tokio::test]
async fn refusals_tell_nothing_of_the_inside_and_ask_for_credentials() {
    let s = Server::new();
    let nobody = s.get("", "/v1/claims").await.code(401, "unauthenticated");
    assert_eq!(nobody.header("www-authenticate"), "Bearer");
    for call in [claims().raw("application/json", "{"), claims().json(&json!({"collection": 1}))] {
        let refused = s.send(call).await;
        assert_eq!(
            refused.headers.get(header::CACHE_CONTROL).map(axum::http::HeaderValue::as_bytes),
            Some(&b"no-store"[..])
        );
        for inside in ["serde", "tenure_", ".rs", "panicked"] {
            assert!(!refused.text().contains(inside), "{}", refused.text());
        }
    }
}

/// What is wrong inside is for the log, not for the caller.
#[tokio::test]
async fn a_store_that_fails_is_503_or_500_and_tells_nothing() {
    let s = Server::new();
    let (id, _) = s.lock("ana", "nightly").await;
    let paths = [
        format!("/v1/claims/{id}"),
        "/v1/claims".into(),
        "/v1/collections".into(),
        "/v1/collections/lock/jobs".into(),
        "/v1/collections/lock/jobs/items".into(),
        "/v1/collections/lock/jobs/items/nightly".into(),
        "/v1/collections/lock/jobs/items/nightly/explain".into(),
        "/v1/collections/lock/jobs/events".into(),
        "/v1/audit".into(),
        "/v1/audit/verify".into(),
        "/v1/policies".into(),
        "/v1/policies/lock".into(),
    ];
    for (fault, status, code) in [(Fault::Away, 503, "away"), (Fault::Corrupt, 500, "internal")] {
        s.fail(fault);
        for path in &paths {
            let refused = s.get("root", path).await.code(status, code);
            assert!(!refused.text().contains("secret"), "{path}: {}", refused.text());
            assert_eq!(refused.header("retry-after").is_empty(), status == 500, "{path}");
        }
        // It failed at once, which is no answer either.
        let page = tenure_server::Metrics::new().render(&s.engine);
        assert!(page.contains("\ntenure_store_answers 0\n"), "{page}");
    }
}

#[tokio::test]
async fn a_stopping_server_is_503_with_retry_after() {
    let s = Server::new();
    s.lock("ana", "nightly").await;
    s.engine.stop().expect("stops");
    let refused = s.send(claims().json(&json!({"collection": "lock/a", "items": ["a"]}))).await;
    assert_eq!(refused.code(503, "stopped").header("retry-after"), "1");
    let batch = json!({"commands": [{"op": "acquire", "collection": "lock/a", "items": ["a"]}]});
    let found = s.post("ana", "/v1/batch", batch).await.status(200).json();
    assert_eq!(found["answers"][0]["body"]["code"], "stopped");
}

#[tokio::test]
async fn a_full_disk_is_507_with_retry_after_while_reads_go_on() {
    let s = Server::new();
    let (id, _) = s.lock("ana", "nightly").await;
    s.fail(Fault::Full);
    let claim = json!({"collection": "lock/a", "items": ["a"]});
    let refused = s.post("ana", "/v1/claims", claim.clone()).await.code(507, "no_room");
    assert_eq!(refused.header("retry-after"), "10");
    assert!(!refused.text().contains("secret"), "{}", refused.text());
    s.get("ana", &format!("/v1/claims/{id}")).await.status(200);
    s.get("ana", "/v1/collections/lock/a").await.status(404);
    s.fail(Fault::None);
    s.post("ana", "/v1/claims", claim).await.status(201);
}

/// The engine is held up in a commit while its queue fills.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_many_waiting_requests_are_503_with_retry_after() {
    let s = Server::new();
    s.fail(Fault::Stuck);
    let (sender, mut answers) = tokio::sync::mpsc::unbounded_channel();
    let create = || tenure_engine::Request {
        command: tenure_core::Command {
            collection: tenure_core::CollectionKey::new("lock/a").expect("a key"),
            actor: tenure_core::Principal::new("ana", "Ana").expect("a person"),
            verb: tenure_core::Verb::CreateCollection,
        },
        idempotency: None,
    };
    let submit = |tag| s.engine.submit(create(), tenure_engine::ReplyTo::Tagged(tag, sender.clone()));
    submit(0);
    while s.engine.queued() > 0 {
        tokio::task::yield_now().await;
    }
    // That one is with the store; behind it the queue fills.
    let mut sent = 1;
    while s.engine.queued() < tenure_engine::QUEUE_MAX {
        submit(sent);
        sent += 1;
    }
    let claim = json!({"collection": "lock/a", "items": ["a"]});
    let refused = s.post("ana", "/v1/claims", claim.clone()).await.code(503, "overloaded");
    assert_eq!(refused.header("retry-after"), "1");
    s.fail(Fault::None);
    drop(sender);
    while answers.recv().await.is_some() {
        sent -= 1;
    }
    assert_eq!(sent, 0, "everyone is answered");
    s.post("ana", "/v1/claims", claim).await.status(201);
}
