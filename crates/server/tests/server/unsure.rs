//! When nobody can tell who somebody is: the store is away, or too much is looked for. Then nobody is told that they are
//! signed out, and nobody is let in.

use std::time::Instant;

use tenure_server::identity::Secret;
use tenure_server::{Group, Rates};

use crate::jwt;
use crate::world::{ADMIN, Reply, World, no_limits, rate, settings};

const SOCKET: &str = "/v1/collections/lock/default/ws";

/// A session that is over, as far as the store can be asked.
async fn unknown_session(world: &World) -> String {
    let cookie = world.sign_in(ADMIN).await;
    assert_eq!(world.browse(&cookie, "DELETE", "/v1/session").await.short(), "204");
    cookie
}

async fn open(world: &World, cookie: &str) -> Reply {
    let headers = [
        ("host", "localhost"),
        ("cookie", cookie),
        ("origin", "http://localhost"),
        ("connection", "upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    world.send("GET", SOCKET, &headers, "").await
}

/// Opened, it would be closed as nobody's, and the page would not come back.
#[tokio::test]
async fn e8_a_socket_whose_cookie_cannot_be_looked_for_is_not_opened_as_nobodys() {
    let world = World::new().await;
    let cookie = unknown_session(&world).await;
    world.away.set(true);
    let refused = open(&world, &cookie).await;
    assert_eq!((refused.short().as_str(), refused.header("retry-after")), ("503 away", "1"));
    world.away.set(false);
    // Who is known to be signed out may still say hello: it gets as far as there is a connection to take over.
    assert_eq!(open(&world, &cookie).await.short(), "426 upgrade_required");
}

#[tokio::test]
async fn e8_a_ticket_is_not_used_up_where_nobody_can_tell_whose_it_is() {
    let world = World::new().await;
    let (key, id) = world.key("viewer").await;
    let ticket = world.ask(&key, "POST", "/v1/tickets", "").await.json();
    let ticket = Secret::new(ticket["ticket"].as_str().unwrap());
    world.ask(ADMIN, "DELETE", &format!("/v1/keys/{id}"), "").await;
    let used_up = || world.events("tenure/tickets").contains("item_deleted");
    world.away.set(true);
    assert_eq!(world.app.identity().redeem(&ticket).await.unwrap_err().status, 503);
    assert!(!used_up());
    world.away.set(false);
    assert_eq!(world.app.identity().redeem(&ticket).await.unwrap_err().status, 401);
    assert!(used_up());
}

/// A socket is closed then, by a code with which its client comes back.
#[tokio::test]
async fn e8_whoever_watches_is_told_that_nobody_can_tell_and_not_that_it_is_revoked() {
    let world = World::new().await;
    let (key, id) = world.key("viewer").await;
    let ticket = world.ask(&key, "POST", "/v1/tickets", "").await.json();
    let caller = world.app.identity().redeem(&Secret::new(ticket["ticket"].as_str().unwrap())).await.unwrap();
    assert!(world.app.identity().is_live(&caller).unwrap());
    world.ask(ADMIN, "DELETE", &format!("/v1/keys/{id}"), "").await;
    world.away.set(true);
    assert_eq!(world.app.identity().is_live(&caller).unwrap_err().status, 503);
    assert_eq!(world.app.identity().revoked(&caller).await.unwrap_err().status, 503);
    world.away.set(false);
    assert!(!world.app.identity().is_live(&caller).unwrap());
    world.app.identity().revoked(&caller).await.unwrap();
}

/// In memory: so many must be asked for within a second.
#[tokio::test]
async fn e8_a_session_that_could_not_be_looked_for_is_not_over() {
    let world = World::in_memory().await;
    let cookie = unknown_session(&world).await;
    for (method, path, known) in [("POST", "/v1/tickets", "401"), ("GET", "/v1/session", "200")] {
        let begun = Instant::now();
        let refused = loop {
            let reply = world.browse(&cookie, method, path).await;
            if !reply.short().starts_with(known) {
                break reply;
            }
            assert!(begun.elapsed().as_secs() < 60, "{method} {path} is looked for without an end");
        };
        // No 503: a proxy would set the node aside.
        assert_eq!((refused.short().as_str(), refused.header("retry-after")), ("429 rate_limited", "1"));
    }
    let known = world.sign_in(ADMIN).await;
    let reply = world.browse(&known, "POST", "/v1/tickets").await;
    assert_eq!(reply.short(), "201", "who is known is not looked for");
}

#[tokio::test]
async fn e8_guesses_beyond_what_is_looked_for_are_counted_as_signing_in() {
    const BURST: u32 = 300;
    let world = World::in_memory_with(settings(), Rates::new([(Group::SignIn, rate(1, BURST))])).await;
    let begun = Instant::now();
    let (mut sent, mut unlooked) = (0_u32, 0_u32);
    loop {
        let reply = world.ask(&format!("a-guess-{sent}"), "GET", "/v1/claims", "").await;
        if !reply.header("ratelimit").is_empty() {
            assert_eq!(reply.short(), "429 rate_limited");
            break;
        }
        sent += 1;
        let short = reply.short();
        assert!(matches!(short.as_str(), "401 unauthenticated" | "429 rate_limited"), "{short}");
        unlooked += u32::from(reply.status == 429);
        let counted = u64::from(BURST) + begun.elapsed().as_secs() + 1;
        assert!(u64::from(sent) <= counted, "{sent} guesses, {unlooked} of them not looked for");
    }
}

/// What is mistyped is known without the store.
#[tokio::test]
async fn e8_a_mistyped_key_is_not_looked_for() {
    let world = World::in_memory().await;
    world.away.set(true);
    for number in 0..500 {
        let reply = world.ask(&format!("tnr_mistyped{number}"), "GET", "/v1/claims", "").await;
        assert_eq!(reply.short(), "401 unauthenticated");
    }
    assert_eq!(world.ask(ADMIN, "GET", "/v1/claims", "").await.short(), "200", "it has not the form either");
    assert_eq!(
        world.ask("an-unknown-key-of-the-operators", "GET", "/v1/claims", "").await.short(),
        "503 away"
    );
}

/// Every request of every person brings one.
#[tokio::test]
async fn e8_tokens_of_the_host_application_are_not_looked_for() {
    let mut settings = settings();
    settings.jwt = Some(jwt::settings_of_tokens());
    let world = World::with(settings, no_limits()).await;
    let token = jwt::token();
    for _ in 0..500 {
        let reply = world.ask(&token, "GET", "/v1/session", "").await;
        assert_eq!((reply.short().as_str(), &reply.json()["by"]), ("200", &"jwt".into()), "{}", reply.text);
    }
    world.away.set(true);
    assert_eq!(world.ask(&token, "GET", "/v1/session", "").await.short(), "200");
    let forged = world.ask(&format!("{token}x"), "GET", "/v1/claims", "").await;
    assert_eq!(forged.short(), "401 unauthenticated");
}
