//! E4: a retry under the same key gets what was decided first.

use tenure_apps::jobs::{NewAnalysis, NotAcquired, Outcome};

use super::world::{TTL_MS, World, delivery, owner, ready, until};
use crate::common::{code, keyed};

#[tokio::test]
async fn e04_queueing_twice_under_one_key_queues_once() {
    let w = World::new();
    let wes = keyed(&w.wes, "k");
    let new = || NewAnalysis { id: None, input: "text".to_owned() };
    let first = w.jobs.create(&wes, new()).await.expect("is queued");
    let again = w.jobs.create(&wes, new()).await.expect("is queued");
    assert_eq!((&first.value.id, first.replayed, again.replayed), (&again.value.id, false, true));
    assert_eq!(w.actions().iter().filter(|action| **action == "item_put").count(), 1);
}

#[tokio::test]
async fn e04_a_retried_lock_and_result_are_decided_once() {
    let w = World::new();
    w.queued("a", "text").await;
    let wes = keyed(&w.wes, "k");
    let lock = async || w.jobs.lock(&wes, "a", &owner("w-1"), None).await.expect("is asked");
    let first = lock().await;
    w.pass(1_000);
    let again = lock().await;
    assert_eq!((first.value.token, again.replayed), (again.value.token, true));
    assert_eq!(first.value.lock.lock.expires_at, again.value.lock.lock.expires_at);
    let token = first.value.token.expect("a token");
    let end = keyed(&w.wes, "end");
    let done = w.jobs.complete(&end, "a", ready(token)).await.expect("is ours");
    let again = w.jobs.complete(&end, "a", ready(token)).await.expect("was ours");
    assert_eq!((done.replayed, again.replayed, again.value.status.as_str()), (false, true, "READY"));
}

/// J4, E4: a delivery that is sent again under its key never runs a second time beside the first.
#[tokio::test]
async fn j04_a_retried_delivery_does_not_run_beside_the_first() {
    let w = World::new();
    w.queued("a", "text").await;
    let wes = keyed(&w.wes, "k");
    let first = {
        let (jobs, wes) = (w.jobs.clone(), wes.clone());
        tokio::spawn(async move { jobs.deliver(&wes, "a").await })
    };
    w.running(1).await;
    assert_eq!(code(&w.jobs.deliver(&wes, "a").await), "in_progress");
    w.bench.end(1);
    let first = first.await.expect("ends").expect("is held");
    let again = w.jobs.deliver(&wes, "a").await.expect("is known");
    assert_eq!((&first.value, first.replayed), (&delivery(Outcome::Completed, None, "READY"), false));
    assert_eq!((&again.value, again.replayed), (&first.value, true));
    assert_eq!(w.bench.begun(), 1);
}

/// J9, E4: what was begun under a key and came to nothing can be begun again under it.
#[tokio::test]
async fn j09_a_retried_delivery_takes_over_from_its_dead_first() {
    let w = World::new();
    w.queued("a", "text").await;
    let wes = keyed(&w.wes, "k");
    let first = {
        let (jobs, wes) = (w.jobs.clone(), wes.clone());
        tokio::spawn(async move { jobs.deliver(&wes, "a").await })
    };
    w.running(1).await;
    w.pass(TTL_MS);
    assert_eq!(code(&first.await.expect("ends")), "lost");
    w.bench.end(1);
    let again = w.jobs.deliver(&wes, "a").await.expect("takes over");
    assert_eq!((again.value, w.bench.begun()), (delivery(Outcome::Completed, None, "READY"), 2));
    until("both have ended", || w.bench.stopped() == 1).await;
}

/// While the other worker runs it, that is; J9 has what comes after.
#[tokio::test]
async fn e04_a_skipped_delivery_stays_skipped_under_its_key() {
    let w = World::new();
    w.queued("a", "text").await;
    w.locked("a", "w-1").await;
    let wes = keyed(&w.wes, "k");
    let skipped = delivery(Outcome::Skipped, Some(NotAcquired::Locked), "RUNNING");
    assert_eq!(w.jobs.deliver(&wes, "a").await.expect("is no error").value, skipped);
    w.pass(TTL_MS - 1);
    assert_eq!(w.jobs.deliver(&wes, "a").await.expect("is no error").value, skipped);
    assert_eq!(w.bench.begun(), 0);
}
