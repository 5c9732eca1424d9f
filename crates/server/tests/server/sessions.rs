//! Browser sessions: cookies, the header against forged requests, expiry and signing out.

use tenure_server::identity::demo_people;

use crate::world::{ADMIN, NOW_MS, World, eventually, no_limits, settings};

const HOUR_MS: i64 = 3_600_000;

#[tokio::test]
async fn e8_a_browser_signs_in_with_a_key_and_out_again() {
    let world = World::new().await;
    let (key, _) = world.key("viewer").await;
    let cookie = world.sign_in(&key).await;
    assert!(cookie.starts_with("tenure=tns_"), "{cookie}");
    let who = world.browse(&cookie, "GET", "/v1/session").await.json();
    assert_eq!((who["role"].as_str(), who["by"].as_str()), (Some("viewer"), Some("session")));
    assert_eq!(who["csrf"][0], "X-Tenure-CSRF");
    let out = world.browse(&cookie, "DELETE", "/v1/session").await;
    assert_eq!(out.short(), "204");
    assert!(
        out.header("set-cookie").starts_with("tenure=; ") && out.header("set-cookie").contains("Max-Age=0")
    );
    assert_eq!(world.browse(&cookie, "POST", "/v1/tickets").await.short(), "401 unauthenticated");
    assert!(world.browse(&cookie, "GET", "/v1/session").await.json()["subject"].is_null());
}

#[tokio::test]
async fn e8_a_page_without_the_header_changes_nothing() {
    let world = World::new().await;
    let cookie = world.sign_in(ADMIN).await;
    let send = async |method: &str, path: &str, more: &[(&str, &str)]| {
        let mut headers = vec![("host", "localhost"), ("cookie", cookie.as_str())];
        headers.extend(more);
        world.send(method, path, &headers, "").await.short()
    };
    assert_eq!(send("POST", "/v1/tickets", &[]).await, "403 forbidden");
    assert_eq!(send("DELETE", "/v1/sessions", &[]).await, "403 forbidden");
    assert_eq!(send("GET", "/v1/keys", &[]).await, "200");
    assert_eq!(send("POST", "/v1/tickets", &[("x-tenure-csrf", "1")]).await, "201");
    let evil = [("x-tenure-csrf", "1"), ("origin", "https://evil.example")];
    assert_eq!(send("POST", "/v1/tickets", &evil).await, "403 forbidden");
    assert_eq!(
        send("POST", "/v1/tickets", &[("x-tenure-csrf", "1"), ("origin", "null")]).await,
        "403 forbidden"
    );
    let own = [("x-tenure-csrf", "1"), ("origin", "http://localhost")];
    assert_eq!(send("POST", "/v1/tickets", &own).await, "201");
}

#[tokio::test]
async fn a_session_ends_when_idle_and_when_old() {
    let world = World::new().await;
    let cookie = world.sign_in(ADMIN).await;
    let live = async || world.browse(&cookie, "POST", "/v1/tickets").await.short() == "201";
    world.clock.advance(8 * HOUR_MS - 1);
    assert!(live().await, "used just before it is idle");
    let noted = (NOW_MS + 8 * HOUR_MS - 1).to_string();
    eventually(async || live().await && world.events("tenure/sessions").contains(&noted)).await;
    world.clock.advance(8 * HOUR_MS);
    assert!(!live().await, "idle");

    let cookie = world.sign_in(ADMIN).await;
    let live = async || world.browse(&cookie, "POST", "/v1/tickets").await.short() == "201";
    // Each use is noted beside the request, so a step is less than half of the idle time.
    for _ in 0..55 {
        world.clock.advance(3 * HOUR_MS);
        let noted = world.app.now_ms().to_string();
        eventually(async || live().await && world.events("tenure/sessions").contains(&noted)).await;
    }
    world.clock.advance(3 * HOUR_MS);
    assert!(!live().await, "a week old");
}

#[tokio::test]
async fn signing_out_everywhere_ends_every_browser_of_that_person_alone() {
    let world = World::new().await;
    let (key, _) = world.key("viewer").await;
    let (first, second, other) =
        (world.sign_in(&key).await, world.sign_in(&key).await, world.sign_in(ADMIN).await);
    assert_eq!(world.browse(&first, "DELETE", "/v1/sessions").await.short(), "204");
    assert_eq!(world.browse(&second, "POST", "/v1/tickets").await.short(), "401 unauthenticated");
    assert_eq!(world.browse(&other, "POST", "/v1/tickets").await.short(), "201");
}

#[tokio::test]
async fn a_revoked_keys_sessions_end_with_it() {
    let world = World::new().await;
    let (key, id) = world.key("viewer").await;
    let cookie = world.sign_in(&key).await;
    world.ask(ADMIN, "DELETE", &format!("/v1/keys/{id}"), "").await;
    assert_eq!(world.browse(&cookie, "POST", "/v1/tickets").await.short(), "401 unauthenticated");
}

#[tokio::test]
async fn a_wrong_key_opens_no_session_and_names_no_reason_to_guess() {
    let world = World::new().await;
    let check = async |body: &str, expected: &str| {
        let reply = world.send("POST", "/v1/session", &[("host", "localhost")], body).await;
        assert_eq!(reply.short(), expected, "{}", reply.text);
        assert_eq!(reply.header("set-cookie"), "");
    };
    check(r#"{"key":"nobody's key at all"}"#, "401 unauthenticated").await;
    check(r#"{"demo":"ana"}"#, "401 unauthenticated").await;
    check(r#"{"key":"a","demo":"ana"}"#, "422 invalid").await;
    check("{}", "422 invalid").await;
    check(r#"{"password":"x"}"#, "422 invalid").await;
}

#[tokio::test]
async fn in_a_demonstration_there_is_a_button_per_person() {
    let mut settings = settings();
    settings.people = demo_people();
    let world = World::with(settings, no_limits()).await;
    let page = world.send("GET", "/v1/session", &[], "").await.json();
    assert!(page["subject"].is_null());
    assert_eq!(page["demo"][0]["id"], "ana");
    let reply = world.send("POST", "/v1/session", &[("host", "localhost")], r#"{"demo":"ana"}"#).await;
    assert_eq!(reply.short(), "201");
    let who = world.browse(&reply.cookie(), "GET", "/v1/session").await.json();
    assert_eq!(who["subject"]["name"], "Ana");
    assert_eq!(
        world.send("POST", "/v1/session", &[], r#"{"demo":"zoe"}"#).await.short(),
        "401 unauthenticated"
    );
}

#[tokio::test]
async fn one_person_has_a_bounded_number_of_sessions() {
    let world = World::new().await;
    let first = world.sign_in(ADMIN).await;
    world.clock.advance(1);
    for _ in 0..100 {
        world.sign_in(ADMIN).await;
    }
    assert_eq!(world.browse(&first, "POST", "/v1/tickets").await.short(), "401 unauthenticated");
}

#[tokio::test]
async fn a_forged_or_foreign_cookie_is_nobodys() {
    let world = World::new().await;
    let cookie = world.sign_in(ADMIN).await;
    let (key, _) = world.key("viewer").await;
    for forged in [
        "tenure=",
        "tenure=x",
        &format!("tenure={key}"),
        &format!("{cookie}x"),
        &cookie.replace("tenure=", "other="),
    ] {
        let reply = world.browse(forged, "POST", "/v1/tickets").await;
        assert_eq!(reply.short(), "401 unauthenticated", "{forged}");
    }
}

/// Whoever came in without a key was let in by the demonstration: without it they are nobody.
#[tokio::test]
async fn e8_a_session_of_the_demonstration_ends_with_it() {
    let mut demo = settings();
    demo.people = demo_people();
    let world = World::with(demo, no_limits()).await;
    let reply = world.send("POST", "/v1/session", &[("host", "localhost")], r#"{"demo":"carmen"}"#).await;
    assert_eq!(reply.short(), "201", "{}", reply.text);
    let cookie = reply.cookie();
    assert_eq!(world.browse(&cookie, "GET", "/v1/keys").await.short(), "200");
    // The same store, without the demonstration.
    let plain = world.another().await;
    assert_eq!(plain.browse(&cookie, "GET", "/v1/keys").await.short(), "401 unauthenticated");
    let key = plain.sign_in(ADMIN).await;
    assert_eq!(plain.browse(&key, "GET", "/v1/keys").await.short(), "200");
}

/// In a demonstration anybody is anybody: where others can reach it, that is said.
#[test]
fn e8_a_demonstration_on_an_open_address_is_warned_of() {
    use tenure_server::config::Config;
    let warns = |demo: bool, listen: &str| {
        let config = Config { demo, listen: listen.parse().unwrap(), ..Config::default() };
        assert_eq!(
            config.demo_danger().is_some(),
            config.warnings().iter().any(|warning| warning.key == "demo")
        );
        config.demo_danger().is_some()
    };
    assert!(warns(true, "0.0.0.0:80") && warns(true, "192.0.2.1:80") && warns(true, "[::]:80"));
    assert!(!warns(true, "127.0.0.1:80") && !warns(true, "[::1]:80") && !warns(false, "0.0.0.0:80"));
}
