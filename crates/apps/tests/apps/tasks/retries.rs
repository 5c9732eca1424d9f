//! E4: with an idempotency key a retry gets the first decision, also across a restart.

use tenure_apps::tasks::{COLLECTION, NewTask};

use super::world::{World, bring};
use crate::common::{code, keyed};

#[tokio::test]
async fn e04_a_task_is_made_once() {
    let w = World::new();
    let ana = keyed(&w.ana, "k1");
    let new = || NewTask { title: "Delivery".to_owned(), lines: vec![bring("bolt", 1)] };
    let first = w.tasks.create(&ana, new()).await.expect("is made");
    let w = w.restart();
    let again = w.tasks.create(&ana, new()).await.expect("was made");
    assert_eq!((first.replayed, again.replayed), (false, true));
    assert_eq!(first.value.id, again.value.id);
    let other = w.tasks.create(&keyed(&w.ana, "k2"), new()).await.expect("is made");
    assert_ne!(other.value.id, first.value.id);
}

/// A retry gets the first decision even where a plan would be refused by now.
#[tokio::test]
async fn e04_a_line_is_added_once_whatever_happened_since() {
    let w = World::new();
    let id = w.draft(Vec::new()).await;
    let ana = keyed(&w.ana, "k");
    let first = w.tasks.add_line(&ana, &id, bring("bolt", 1)).await.expect("is added").value;
    w.tasks.ready(&w.ana, &id).await.expect("becomes ready");
    w.tasks.cancel(&w.ana, &id).await.expect("is free");
    let events = w.office.events(COLLECTION).len();
    let again = w.tasks.add_line(&ana, &id, bring("bolt", 1)).await.expect("was added");
    assert!(again.replayed);
    assert_eq!((again.value.id, again.value.status), (first.id, first.status));
    assert_eq!(w.office.events(COLLECTION).len(), events);
    assert_eq!(w.lines(&id).len(), 1);
}

/// A refusal is the first decision too: the retry of a lost race is not a second try.
#[tokio::test]
async fn e04_a_refused_claim_stays_refused() {
    let w = World::new();
    let id = w.processing(Vec::new()).await;
    let bea = keyed(&w.bea, "k");
    assert_eq!(code(&w.tasks.process(&bea, &id).await), "held");
    w.tasks.leave(&w.ana, &id).await.expect("is hers");
    assert_eq!(code(&w.tasks.process(&bea, &id).await), "held");
    assert_eq!(code(&w.tasks.process(&keyed(&w.bea, "k2"), &id).await), "ok");
}

/// A retried claim takes nothing back that was lost meanwhile; the answer shows the task as it is.
#[tokio::test]
async fn e04_a_retried_claim_renews_nothing() {
    let w = World::new();
    let id = w.ready(Vec::new()).await;
    let ana = keyed(&w.ana, "k");
    w.tasks.process(&ana, &id).await.expect("is free");
    w.tasks.force_release(&w.root, &id, &"home".into()).await.expect("frees");
    let again = w.tasks.process(&ana, &id).await.expect("was granted");
    assert!(again.replayed);
    assert_eq!(again.value.lock, tenure_apps::Lock::FREE);
    assert_eq!(w.holder(&id), None);
}

/// A finalise that is repeated under its key gets its outcome, also after somebody took the task up again.
#[tokio::test]
async fn e04_a_finalise_is_repeated_under_its_key() {
    let w = World::new();
    let id = w.processing(vec![bring("bolt", 1), super::world::take("nut", 1)]).await;
    let ana = keyed(&w.ana, "k");
    let first = w.tasks.finalize(&ana, &id).await.expect("goes on");
    assert_eq!((first.replayed, first.value.status.as_str()), (false, "partially_completed"));
    w.tasks.process(&w.bea, &id).await.expect("is free");
    let again = w.tasks.finalize(&ana, &id).await.expect("was decided");
    assert!(again.replayed);
    assert_eq!(w.holder(&id).as_deref(), Some("bea"), "and Bea goes on");
    assert_eq!(w.quantity("bolt").await, 1);
}
