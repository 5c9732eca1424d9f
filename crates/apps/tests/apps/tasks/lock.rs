//! Process mode: who gets it, who keeps it, who loses it.

use tenure_apps::{LockState, Time};

use super::world::World;
use crate::common::{START_MS, code};

/// T1: pressing Process claims the task, and thereby it is `processing`.
#[tokio::test]
async fn t01_processing_a_free_task_claims_it_first() {
    let w = World::new();
    let id = w.ready(Vec::new()).await;
    assert_eq!(w.holder(&id), None);
    let task = w.tasks.process(&w.ana, &id).await.expect("is free").value;
    assert_eq!(task.status.as_str(), "processing");
    assert_eq!((task.lock.state, task.lock.mine), (LockState::Locked, true));
    assert_eq!(task.lock.locked_at, Some(Time(START_MS)));
    assert_eq!(task.lock.expires_at, Some(Time(START_MS + 180_000)));
    // One commit, one event: there is no moment in which it is processing and free.
    let events = w.office.actions(tenure_apps::tasks::COLLECTION);
    assert_eq!(events, ["collection_created", "item_put", "item_put", "claim_granted"]);
}

/// T2: another's lock is refused with who holds it and since when.
#[tokio::test]
async fn t02_another_is_told_who_holds_it() {
    let w = World::new();
    let id = w.processing(Vec::new()).await;
    let refusal = w.tasks.process(&w.bea, &id).await;
    assert_eq!(code(&refusal), "held");
    assert_eq!(refusal.expect_err("is held").to_string(), format!("{id} is held by Ana"));
    assert_eq!(w.holder(&id).as_deref(), Some("ana"));
}
