//! Socket tickets, and the end of what they opened.

use std::time::Duration;

use futures_util::future::join_all;
use tenure_server::identity::Secret;

use crate::world::{ADMIN, World};

async fn ticket(world: &World, key: &str) -> Secret {
    let reply = world.ask(key, "POST", "/v1/tickets", "").await;
    assert_eq!(reply.short(), "201", "{}", reply.text);
    let json = reply.json();
    assert!(json["expires_in_ms"].as_i64().unwrap() <= 30_000);
    Secret::new(json["ticket"].as_str().unwrap())
}

#[tokio::test]
async fn e8_a_ticket_opens_one_socket_as_its_owner() {
    let world = World::new().await;
    let (key, _) = world.key("viewer").await;
    let ticket = ticket(&world, &key).await;
    let caller = world.app.identity().redeem(&ticket).await.unwrap();
    assert_eq!((&*caller.principal.id, caller.role.as_str()), ("viewer-1", "viewer"));
    assert_eq!(world.app.identity().redeem(&ticket).await.unwrap_err().status, 401);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_hundred_at_once_on_two_nodes_one_redeems_a_ticket() {
    let first = World::new().await;
    let second = first.another().await;
    for _ in 0..10 {
        let ticket = ticket(&first, ADMIN).await;
        let tries = (0..100).map(|number| {
            let identity = if number % 2 == 0 { &first } else { &second }.app.identity().clone();
            let ticket = ticket.clone();
            tokio::spawn(async move { identity.redeem(&ticket).await.is_ok() })
        });
        let redeemed = join_all(tries).await.into_iter().filter(|done| *done.as_ref().unwrap()).count();
        assert_eq!(redeemed, 1);
    }
}

#[tokio::test]
async fn a_ticket_is_void_after_thirty_seconds_and_after_its_key() {
    let world = World::new().await;
    let late = ticket(&world, ADMIN).await;
    world.clock.advance(30_000);
    assert!(world.app.identity().redeem(&late).await.is_err());
    let (key, id) = world.key("viewer").await;
    let orphan = ticket(&world, &key).await;
    world.ask(ADMIN, "DELETE", &format!("/v1/keys/{id}"), "").await;
    assert!(world.app.identity().redeem(&orphan).await.is_err());
    for wrong in ["", "tnt_", ADMIN, "tnt_0123456789"] {
        assert!(world.app.identity().redeem(&Secret::new(wrong)).await.is_err(), "{wrong}");
    }
}

#[tokio::test(start_paused = true)]
async fn tickets_that_nobody_used_are_swept() {
    let world = World::in_memory().await;
    for _ in 0..300 {
        ticket(&world, ADMIN).await;
    }
    world.clock.advance(60_000);
    let left = || {
        let key = tenure_core::CollectionKey::new("tenure/tickets").unwrap();
        world.engine.reader().items(&key, &tenure_engine::ItemFilter::default(), 1_000).unwrap().rows.len()
    };
    assert_eq!(left(), 300);
    // The engine runs on a thread of its own, which does not see the runtime's paused time.
    let started = std::time::Instant::now();
    while left() > 0 {
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(started.elapsed() < Duration::from_secs(20), "{} are left", left());
    }
}

#[tokio::test]
async fn revocation_is_told_to_whoever_watches() {
    let world = World::new().await;
    let (key, id) = world.key("viewer").await;
    let caller = world.app.identity().redeem(&ticket(&world, &key).await).await.unwrap();
    let other = world.app.identity().redeem(&ticket(&world, ADMIN).await).await.unwrap();
    let watch = |caller: tenure_server::Caller| {
        let identity = world.app.identity().clone();
        tokio::spawn(async move { identity.revoked(&caller).await })
    };
    let (watching, others) = (watch(caller), watch(other));
    world.ask(ADMIN, "DELETE", &format!("/v1/keys/{id}"), "").await;
    let told = tokio::time::timeout(Duration::from_secs(5), watching).await;
    told.expect("within five seconds").unwrap().unwrap();
    assert!(!others.is_finished());
    others.abort();
}

#[tokio::test(start_paused = true)]
async fn a_session_that_runs_out_is_told_to_whoever_watches() {
    let world = World::in_memory().await;
    let cookie = world.sign_in(ADMIN).await;
    let json = world.browse(&cookie, "POST", "/v1/tickets").await.json();
    let caller = world.app.identity().redeem(&Secret::new(json["ticket"].as_str().unwrap())).await.unwrap();
    assert!(world.app.identity().is_live(&caller).unwrap());
    let identity = world.app.identity().clone();
    let watching = tokio::spawn(async move { identity.revoked(&caller).await });
    world.clock.advance(8 * 3_600_000);
    let told = tokio::time::timeout(Duration::from_secs(5), watching).await;
    told.expect("within five seconds").unwrap().unwrap();
}
