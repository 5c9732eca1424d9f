//! The gate: who gets past it, and who is counted.

use axum::body::Body;
use axum::http::Request;
use futures_util::StreamExt;
use tenure_server::{Group, May, Rates, Role, TABLE};
use tower::ServiceExt;

use crate::world::{ADMIN, World, rate, settings};

/// From the table itself: every route × nobody and every role.
#[tokio::test]
async fn i19_every_role_gets_what_the_table_says_and_nothing_else() {
    let world = World::new().await;
    let mut keys = Vec::new();
    for role in [Role::Viewer, Role::Editor, Role::Worker, Role::Admin] {
        keys.push((role, world.key(role.as_str()).await.0));
    }
    for rule in TABLE {
        let path = rule.path.replace("{id}", "lock~a~1").replace("{kind}", "lock").replace(['{', '}'], "");
        let body = if rule.method == "POST" { "{}" } else { "" };
        let nobody = world.send(rule.method, &path, &[], body).await;
        // A socket may say who it is once it is open: its tests are with the streams.
        if rule.path.ends_with("/ws") {
            continue;
        }
        let is_public = matches!(rule.may, May::Anyone);
        assert_eq!(nobody.short() != "401 unauthenticated", is_public, "nobody {} {path}", rule.method);
        for (role, key) in &keys {
            let reply = world.ask(key, rule.method, &path, body).await;
            let may = match rule.may {
                May::Anyone => true,
                May::Roles { own, other } => own.has(*role) || other.has(*role),
            };
            let refused = ["401 unauthenticated", "403 forbidden"].contains(&reply.short().as_str());
            assert_eq!(!refused, may, "{role:?} {} {path}: {}", rule.method, reply.text);
        }
    }
}

#[tokio::test]
async fn what_the_table_does_not_know_nobody_reaches() {
    let world = World::new().await;
    assert_eq!(world.ask(ADMIN, "GET", "/forgotten", "").await.short(), "403 forbidden");
    assert_eq!(world.ask(ADMIN, "GET", "/v1/nothing", "").await.short(), "404 not_found");
    assert_eq!(world.send("GET", "/v1/nothing", &[], "").await.short(), "404 not_found");
    let put = world.ask(ADMIN, "PUT", "/v1/keys", "{}").await;
    assert_eq!((put.short().as_str(), put.header("allow")), ("405 method_not_allowed", "GET,POST,HEAD"));
    let options = world.send("OPTIONS", "/v1/keys", &[], "").await;
    assert_eq!((options.short().as_str(), options.header("allow")), ("204", "GET,POST,HEAD"));
    assert_eq!(world.ask(ADMIN, "TRACE", "/v1/keys", "").await.short(), "405 method_not_allowed");
    assert_eq!(world.send("GET", "/v1//keys", &[], "").await.short(), "404 not_found");
    assert_eq!(world.send("GET", "/v1/keys/", &[], "").await.short(), "404 not_found");
}

#[tokio::test]
async fn credentials_must_be_said_once_and_in_the_right_words() {
    let world = World::new().await;
    let bearer = format!("Bearer {ADMIN}");
    let check = async |headers: &[(&str, &str)], expected: &str| {
        let reply = world.send("GET", "/v1/keys", headers, "").await;
        assert_eq!(reply.short(), expected, "{headers:?}");
    };
    check(&[("authorization", &bearer)], "200").await;
    check(&[("authorization", &bearer.replace("Bearer", "bearer"))], "200").await;
    check(&[("authorization", &bearer), ("authorization", &bearer)], "401 unauthenticated").await;
    check(&[("authorization", &bearer.replace("Bearer", "Basic"))], "401 unauthenticated").await;
    check(&[("authorization", ADMIN)], "401 unauthenticated").await;
    check(&[("authorization", "")], "401 unauthenticated").await;
    check(&[("authorization", "Bearer ")], "401 unauthenticated").await;
}

/// R24: limits are per principal, with a code, the time to come back, and what is left.
#[tokio::test]
async fn r24_rates_are_told_and_the_one_too_many_is_refused() {
    let rates = Rates::new([(Group::Admin, rate(1, 3)), (Group::SignIn, rate(1, 2))]);
    let world = World::with(settings(), rates).await;
    let first = world.ask(ADMIN, "GET", "/v1/keys", "").await;
    assert_eq!(first.header("ratelimit"), "\"admin\";r=2;t=1");
    assert_eq!(first.header("ratelimit-policy"), "\"admin\";q=3;w=3");
    world.ask(ADMIN, "GET", "/v1/keys", "").await;
    world.ask(ADMIN, "GET", "/v1/keys", "").await;
    let refused = world.ask(ADMIN, "GET", "/v1/keys", "").await;
    assert_eq!(refused.short(), "429 rate_limited");
    assert_eq!((refused.header("retry-after"), refused.header("ratelimit")), ("1", "\"admin\";r=0;t=1"));
    assert_eq!(refused.header("ratelimit-policy"), "\"admin\";q=3;w=3");
    assert_eq!(refused.json()["retry_after"], 1);
    assert_eq!(world.ask(ADMIN, "GET", "/healthz", "").await.short(), "200", "health is never limited");
    assert_eq!(world.ask(ADMIN, "POST", "/v1/tickets", "").await.short(), "201", "another group");
}

/// R24: two keys of one principal share its allowance, another principal has its own.
#[tokio::test]
async fn r24_a_principal_is_limited_whatever_key_it_uses_and_nobody_else_is() {
    let world = World::with(settings(), Rates::new([(Group::Stream, rate(1, 2))])).await;
    let (first, _) = world.key("viewer").await;
    let (second, _) = world.key("viewer").await;
    let (other, _) = world.key("worker").await;
    let ticket = async |key: &str| world.ask(key, "POST", "/v1/tickets", "").await.short();
    assert_eq!(ticket(&first).await, "201");
    assert_eq!(ticket(&second).await, "201");
    assert_eq!(ticket(&first).await, "429 rate_limited");
    assert_eq!(ticket(&second).await, "429 rate_limited");
    assert_eq!(ticket(&other).await, "201");
}

/// Time passes by itself here: the body never ends.
#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_come_is_408() {
    let world = World::in_memory().await;
    let started = tokio::time::Instant::now();
    let first = futures_util::stream::iter([Ok::<_, std::io::Error>("{")]);
    let body = Body::from_stream(first.chain(futures_util::stream::pending()));
    let request = Request::builder().method("POST").uri("/v1/keys");
    let request = request.header("authorization", format!("Bearer {ADMIN}"));
    let response = world.router.clone().oneshot(request.body(body).unwrap()).await.unwrap();
    assert_eq!(response.status(), 408);
    let took = started.elapsed().as_secs();
    assert!((30..=31).contains(&took), "{took}");
    let bytes = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
    let problem: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!((&problem["code"], &problem["status"]), (&"timeout".into(), &408.into()));
}

#[tokio::test]
async fn guessing_keys_is_slowed_at_any_route() {
    let world = World::with(settings(), Rates::new([(Group::SignIn, rate(1, 2))])).await;
    let guess = async || world.ask("tnr_guess", "GET", "/v1/keys", "").await.short();
    assert_eq!(guess().await, "401 unauthenticated");
    assert_eq!(guess().await, "401 unauthenticated");
    assert_eq!(guess().await, "429 rate_limited");
    assert_eq!(world.ask(ADMIN, "GET", "/v1/keys", "").await.short(), "200", "a good key is not a guess");
}

/// R24: many commands in one request are many commands.
#[tokio::test]
async fn r24_a_batch_counts_as_its_commands_and_a_stream_of_events_as_a_stream() {
    let rates = Rates::new([(Group::Write, rate(1, 10)), (Group::Stream, rate(1, 1))]);
    let world = World::with(settings(), rates).await;
    let (key, _) = world.key("editor").await;
    let batch = |count: usize| {
        let command = r#"{"op":"acquire","collection":"lock/a","items":["x"]}"#;
        format!(r#"{{"commands":[{}]}}"#, vec![command; count].join(","))
    };
    let first = world.ask(&key, "POST", "/v1/batch", &batch(6)).await;
    assert_eq!((first.short().as_str(), first.header("ratelimit")), ("200", "\"write\";r=4;t=6"));
    let refused = world.ask(&key, "POST", "/v1/batch", &batch(6)).await;
    assert_eq!(refused.short(), "429 rate_limited", "{}", refused.text);
    assert!(refused.json()["retry_after"].as_u64().unwrap() >= 1);
    assert_eq!(world.ask(&key, "POST", "/v1/batch", &batch(2)).await.short(), "200");
    // More than can ever be had at once is all that can be had at once.
    let (other, _) = world.key("worker").await;
    assert_eq!(world.ask(&other, "POST", "/v1/batch", &batch(500)).await.short(), "200");
    assert_eq!(world.ask(&other, "POST", "/v1/batch", &batch(1)).await.short(), "429 rate_limited");

    let stream = async || {
        let request = Request::builder().uri("/v1/collections/lock/a/events");
        let request = request.header("authorization", format!("Bearer {key}"));
        let request = request.header("accept", "text/event-stream").body(Body::empty()).unwrap();
        world.router.clone().oneshot(request).await.unwrap().status().as_u16()
    };
    assert_eq!(stream().await, 200);
    assert_eq!(stream().await, 429);
    assert_eq!(world.ask(&key, "GET", "/v1/collections/lock/a/events", "").await.short(), "200");
}
