//! The guard: it renews, it knows its deadline, and it says why it is gone.

use std::time::Duration;

use tenure_client::{Claim, ClaimState, Client, Lost, Moment, State};

use crate::support::{ADMIN, Server};

const SECOND: Duration = Duration::from_secs(1);

async fn start() -> (Server, Client) {
    let server = Server::start().await;
    let client = Client::new(&server.url(), ADMIN).expect("a client");
    (server, client)
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future).await.expect("it never came")
}

/// Asks until it is so.
async fn until(mut is_so: impl AsyncFnMut() -> bool) {
    soon(async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

async fn state_of(client: &Client, claim: &str) -> ClaimState {
    client.claim(claim).await.expect("the claim").state
}

async fn becomes(claim: &Claim, expected: State) {
    let mut states = claim.states();
    soon(states.wait_for(|state| *state == expected)).await.expect("a state");
}

#[tokio::test]
async fn a_guard_renews_at_a_third_of_its_time() {
    let (server, client) = start().await;
    let claim = client.acquire("lock/jobs", ["nightly"]).ttl(SECOND).await.expect("granted");
    let first = client.claim(claim.id()).await.expect("the claim").expires_at;
    // The server's clock stands still but for this: the deadline moves only if a heartbeat came after it.
    server.clock.advance(500);
    until(async || client.claim(claim.id()).await.expect("the claim").expires_at != first).await;
    assert!(claim.is_held());
    claim.release().await.expect("released");
}

#[tokio::test]
async fn i5_the_guards_deadline_is_never_later_than_the_servers() {
    let (_server, client) = start().await;
    for ttl in [SECOND, 5 * SECOND, 3_600 * SECOND] {
        let before = Moment::now();
        let claim = client.acquire("lock/jobs", ["nightly"]).ttl(ttl).await.expect("granted");
        // The server decided after the request was sent, so its deadline is later than this.
        let sent_before_deadline = before.plus(ttl);
        assert!(claim.deadline() < Moment::now().plus(ttl));
        // From before the request: at most the time that passed until it was sent.
        let slack = Moment::now().since(before);
        assert!(claim.deadline() < sent_before_deadline.plus(slack), "{ttl:?}");
        assert!(claim.deadline() > before.plus(ttl / 2), "{ttl:?}");
        claim.release().await.expect("released");
    }
}

#[tokio::test]
async fn a_guard_waits_for_another_with_the_same_key() {
    let (_server, client) = start().await;
    let first = client.acquire("lock/jobs", ["nightly"]).ttl(60 * SECOND).await.expect("granted");
    let waits = client.acquire("lock/jobs", ["nightly"]).ttl(SECOND).wait(10 * SECOND);
    let waiting = tokio::spawn(waits.into_future());
    tokio::time::sleep(SECOND / 3).await;
    assert!(!waiting.is_finished(), "two guards with one key hold the same");
    first.release().await.expect("released");
    let second = soon(waiting).await.expect("no panic").expect("granted");
    assert!(second.is_held() && second.left() > SECOND / 2);
}

#[tokio::test]
async fn a_wait_longer_than_the_time_to_live_is_no_loss() {
    let (server, client) = start().await;
    let made = client.create_key("test", ("ana", "Ana"), "editor", None).await.expect("a key");
    let ana = Client::new(&server.url(), &made.key.expect("its text")).expect("a client");
    let first = client.acquire("lock/jobs", ["nightly"]).ttl(60 * SECOND).await.expect("granted");
    let waits = ana.acquire("lock/jobs", ["nightly"]).ttl(SECOND).wait(10 * SECOND);
    let waiting = tokio::spawn(waits.into_future());
    // The client's clock is the machine's, and no claim is shorter than a second.
    tokio::time::sleep(SECOND + SECOND / 10).await;
    first.release().await.expect("released");
    let second = soon(waiting).await.expect("no panic").expect("granted");
    assert!(second.is_held() && second.left() > SECOND / 2);
}

#[tokio::test]
async fn two_guards_with_one_key_exclude_each_other() {
    let (_server, client) = start().await;
    let first = client.acquire("lock/jobs", ["nightly"]).await.expect("granted");
    let before = client.claim(first.id()).await.expect("the claim");
    let refused = client.acquire("lock/jobs", ["nightly"]).await.expect_err("held");
    assert_eq!(refused.code(), Some("held"));
    // Asking must not have kept the other's claim alive.
    assert_eq!(client.claim(first.id()).await.expect("the claim").expires_at, before.expires_at);
    let same = client.acquire("lock/jobs", ["again"]).session("tab-1").await.expect("granted");
    let back = client.acquire("lock/jobs", ["again"]).session("tab-1").await.expect("given back");
    assert_eq!(same.id(), back.id());
}

#[tokio::test]
async fn a_forced_release_is_told_with_its_reason() {
    let (_server, client) = start().await;
    let claim = client.acquire("lock/jobs", ["nightly"]).ttl(SECOND).await.expect("granted");
    client.force_release("lock/jobs", "nightly", "maintenance").await.expect("freed");
    assert_eq!(soon(claim.lost()).await, Lost::ForceReleased { holder: None });
    assert!(!claim.is_held() && claim.left().is_zero());
}

/// The next heartbeat would come in twenty minutes.
#[tokio::test]
async fn a_guard_that_follows_knows_of_a_forced_release_long_before_its_next_heartbeat() {
    let (mut server, client) = start().await;
    let claim = client.acquire("lock/jobs", ["nightly"]).ttl(3_600 * SECOND).follow().await.expect("granted");
    let before = client.claim(claim.id()).await.expect("the claim").expires_at;
    // The others' doings are no reason to ask.
    client.acquire("lock/jobs", ["other"]).await.expect("granted").release().await.expect("released");
    // The stream is taken up again where it broke.
    server.close().await;
    server.reopen().await;
    assert_eq!(client.claim(claim.id()).await.expect("the claim").expires_at, before);
    client.force_release("lock/jobs", "nightly", "maintenance").await.expect("freed");
    assert_eq!(soon(claim.lost()).await, Lost::ForceReleased { holder: None });
}

#[tokio::test]
async fn a_takeover_names_who() {
    let (server, client) = start().await;
    let made = client.create_key("test", ("ana", "Ana"), "editor", None).await.expect("a key");
    let ana = Client::new(&server.url(), &made.key.expect("its text")).expect("a client");
    let claim = ana.acquire("lock/jobs", ["nightly"]).ttl(SECOND).await.expect("granted");
    let took = server.engine.execute(tenure_core::Command {
        collection: tenure_core::CollectionKey::new("lock/jobs").expect("a key"),
        actor: tenure_core::Principal::new("root", "Root").expect("a name"),
        verb: tenure_core::Verb::ForceClaim {
            item: tenure_core::ItemId::new("nightly").expect("an id"),
            reason: "urgent".into(),
            session: None,
        },
    });
    took.await.outcome.expect("taken");
    match soon(claim.lost()).await {
        Lost::TakenOver { by: Some(by) } => assert_eq!(by.id, "root"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_expiry_on_the_server_is_told() {
    let (server, client) = start().await;
    let claim = client.acquire("lock/jobs", ["nightly"]).ttl(SECOND).await.expect("granted");
    server.clock.advance(2_000);
    server.engine.tick();
    assert_eq!(soon(claim.lost()).await, Lost::Expired { holder: None });
}

#[tokio::test]
async fn out_of_reach_is_uncertain_first_and_lost_at_the_deadline() {
    let (mut server, client) = start().await;
    let claim = client.acquire("lock/jobs", ["nightly"]).ttl(2 * SECOND).await.expect("granted");
    server.close().await;
    becomes(&claim, State::Uncertain).await;
    assert!(claim.is_held(), "uncertain is not lost");
    let deadline = claim.deadline();
    let lost = soon(claim.lost()).await;
    assert!(matches!(lost, Lost::OutOfReach { .. }), "{lost:?}");
    assert!(deadline.is_past() && Moment::now().since(deadline) < SECOND);
}

#[tokio::test]
async fn a_server_that_comes_back_ends_the_uncertainty() {
    let (mut server, client) = start().await;
    let claim = client.acquire("lock/jobs", ["nightly"]).ttl(6 * SECOND).await.expect("granted");
    server.close().await;
    becomes(&claim, State::Uncertain).await;
    server.reopen().await;
    becomes(&claim, State::Held).await;
    assert!(claim.is_held());
}

#[tokio::test]
async fn dropping_a_guard_lets_go() {
    let (_server, client) = start().await;
    let claim = client.acquire("lock/jobs", ["nightly"]).await.expect("granted");
    let id = claim.id().to_owned();
    drop(claim);
    until(async || state_of(&client, &id).await == ClaimState::Released).await;
}

#[tokio::test]
async fn completing_ends_it_and_a_refused_completion_does_not() {
    let (_server, client) = start().await;
    let claim = client.acquire("lock/jobs", ["nightly"]).await.expect("granted");
    let refused = claim.complete(Some("no status with spaces"), None).await.expect_err("refused");
    assert_eq!(refused.code(), Some("invalid"));
    assert!(claim.is_held());
    let done = claim.complete(None, Some(serde_json::json!({"rows": 7}))).await.expect("completed");
    assert_eq!(done.state, ClaimState::Completed);
    assert_eq!(claim.state(), State::Lost(Lost::Completed));
}

#[tokio::test]
async fn by_hand_nothing_is_renewed_unless_somebody_does() {
    let (server, client) = start().await;
    let claim = client.acquire("lock/jobs", ["nightly"]).ttl(SECOND).by_hand().await.expect("granted");
    server.clock.advance(300);
    assert!(claim.heartbeat(Some(SECOND)).await.expect("renewed").renewed);
    let lost = soon(claim.lost()).await;
    assert!(matches!(lost, Lost::OutOfReach { .. }), "{lost:?}");
}

/// E5: a wait that is longer than the kind allows is asked for in pieces that it does.
#[tokio::test]
async fn e05_a_long_wait_keeps_to_what_the_policy_allows() {
    let (server, client) = start().await;
    let mut policy = client.policy("lock").await.expect("a policy").policy;
    policy.max_wait_ms = 1_000;
    client.set_policy("lock", &policy).await.expect("set");
    let held = client.acquire("lock/jobs", ["nightly"]).await.expect("claimed");
    let other = client.clone();
    let waiting =
        tokio::spawn(async move { other.acquire("lock/jobs", ["nightly"]).wait(30 * SECOND).await });
    let key = tenure_core::CollectionKey::new("lock/jobs").expect("a name");
    let item = tenure_core::ItemId::new("nightly").expect("a name");
    until(async || server.engine.waiting(&key, &item) == 1).await;
    held.release().await.expect("released");
    let claim = soon(waiting).await.expect("no panic").expect("claimed");
    assert!(claim.is_held());
}
