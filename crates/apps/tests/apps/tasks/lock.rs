//! Process mode: who gets it, and what everyone sees of it.

use std::collections::BTreeSet;

use tenure_apps::tasks::{COLLECTION, TaskQuery, TaskStatus};
use tenure_apps::{Actor, LockState, Time};
use tenure_core::SessionId;

use super::world::{World, bring};
use crate::common::{START_MS, code, person};

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
    assert_eq!(w.office.actions(COLLECTION), ["collection_created", "item_put", "item_put", "claim_granted"]);
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

/// T3: only `ready`, `processing` and `partially_completed` can be claimed.
#[tokio::test]
async fn t03_a_status_that_cannot_be_claimed_is_refused_with_the_reason() {
    let w = World::new();
    let draft = w.draft(Vec::new()).await;
    let refusal = w.tasks.process(&w.ana, &draft).await.expect_err("is a draft");
    assert_eq!(refusal.code(), "not_claimable");
    assert_eq!(refusal.to_string(), format!("{draft} is draft, which cannot be claimed"));

    let cancelled = w.ready(Vec::new()).await;
    w.tasks.cancel(&w.ana, &cancelled).await.expect("is free");
    assert_eq!(code(&w.tasks.process(&w.ana, &cancelled).await), "finished");

    let completed = w.processing(vec![bring("bolt", 1)]).await;
    w.tasks.finalize(&w.ana, &completed).await.expect("applies");
    assert_eq!(code(&w.tasks.process(&w.ana, &completed).await), "finished");

    let processing = w.processing(Vec::new()).await;
    w.tasks.leave(&w.ana, &processing).await.expect("is hers");
    assert_eq!(w.task(&processing).status.as_str(), "processing");
    assert_eq!(code(&w.tasks.process(&w.bea, &processing).await), "ok");

    let partial = w.processing(vec![super::world::take("nut", 1)]).await;
    w.tasks.finalize(&w.ana, &partial).await.expect("goes on");
    assert_eq!(w.task(&partial).status.as_str(), "partially_completed");
    assert_eq!(code(&w.tasks.process(&w.bea, &partial).await), "ok");
}

/// T4: claiming again renews and keeps `locked_at`, also from a second tab.
#[tokio::test]
async fn t04_the_same_person_claiming_again_renews() {
    let w = World::new();
    let id = w.processing(Vec::new()).await;
    w.office.pass(100_000);
    let tab = Actor { session: SessionId::new("tab-2").ok(), ..w.ana.clone() };
    let task = w.tasks.process(&tab, &id).await.expect("is hers").value;
    assert_eq!(task.lock.locked_at, Some(Time(START_MS)));
    assert_eq!(task.lock.expires_at, Some(Time(START_MS + 280_000)));
    assert_eq!(w.office.actions(COLLECTION).iter().filter(|action| **action == "claim_granted").count(), 1);
}

/// T5: at `expires_at` it is free, whether or not anyone has swept.
#[tokio::test]
async fn t05_an_expired_lock_is_free() {
    let w = World::new();
    let id = w.processing(Vec::new()).await;
    w.office.pass(179_999);
    assert_eq!(code(&w.tasks.process(&w.bea, &id).await), "held");
    w.office.pass(1);
    assert_eq!(w.holder(&id), None, "shown as free at the deadline's own millisecond");
    assert_eq!(code(&w.tasks.process(&w.bea, &id).await), "ok");
    assert_eq!(w.holder(&id).as_deref(), Some("bea"));
}

/// T6: of many at once exactly one wins, and the others learn who.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn t06_of_fifty_at_once_one_wins() {
    let w = World::new();
    let id = w.ready(Vec::new()).await;
    let tries: Vec<_> = (0..50)
        .map(|number| {
            let (tasks, id) = (w.tasks.clone(), id.clone());
            tokio::spawn(async move { tasks.process(&person(&format!("p{number}")), &id).await })
        })
        .collect();
    let (mut winners, mut told) = (Vec::new(), BTreeSet::new());
    for outcome in tries {
        match outcome.await.expect("ends") {
            Ok(done) => winners.push(done.value.lock.locked_by.expect("is locked").name),
            Err(refusal) => drop(told.insert(refusal.to_string())),
        }
    }
    assert_eq!(winners.len(), 1);
    assert_eq!(told, BTreeSet::from([format!("{id} is held by {}", winners[0])]));
}

/// T7: the list and the detail show the lock to everyone who can read.
#[tokio::test]
async fn t07_everyone_sees_the_lock_in_the_list_and_in_the_detail() {
    let w = World::new();
    let locked = w.processing(Vec::new()).await;
    w.office.pass(10_000);
    let free = w.ready(Vec::new()).await;
    w.tasks.heartbeat(&w.ana, &locked, None).await.expect("is hers");
    let vera = person("vera");
    let page = w.tasks.list(&vera, TaskQuery::default()).await.expect("reads");
    assert_eq!(page.next, None);
    let found: Vec<_> = page.tasks.iter().map(|task| (&task.id, &task.lock)).collect();
    let detail = |id: &str| w.tasks.get(&vera, id).expect("reads").lock;
    assert_eq!(found, [(&locked, &detail(&locked)), (&free, &detail(&free))]);
    let lock = detail(&locked);
    assert_eq!(lock.locked_by.expect("is locked").name, "Ana");
    assert!(!lock.mine);
    assert_eq!(lock.locked_at, Some(Time(START_MS)));
    assert_eq!(lock.heartbeat_at, Some(Time(START_MS + 10_000)));
    assert_eq!(lock.expires_at, Some(Time(START_MS + 190_000)));
    assert_eq!(lock.expires_in_ms, Some(180_000));
    assert_eq!(detail(&free), tenure_apps::Lock::FREE);
}

/// T7: the list has pages and filters; each row's lock is judged at the time of the answer.
#[tokio::test]
async fn t07_the_list_has_pages_and_filters() {
    let w = World::new();
    let mut ids = Vec::new();
    for number in 0..5 {
        w.office.pass(1);
        ids.push(if number < 2 {
            w.processing(vec![bring("x", 1)]).await
        } else {
            w.draft(Vec::new()).await
        });
    }
    let list = async |query| w.tasks.list(&w.ana, query).await.expect("reads");
    let shown = |page: &tenure_apps::tasks::TaskPage| -> Vec<String> {
        page.tasks.iter().map(|task| task.id.clone()).collect()
    };
    let mut seen = Vec::new();
    let mut after = None;
    loop {
        let page = list(TaskQuery { after, limit: Some(2), ..TaskQuery::default() }).await;
        assert!(page.tasks.len() <= 2);
        seen.extend(shown(&page));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(seen, ids, "oldest first, each once, and no line or product among them");
    let locked = |locked| TaskQuery { locked: Some(locked), ..TaskQuery::default() };
    assert_eq!(shown(&list(locked(true)).await), ids[..2]);
    assert_eq!(shown(&list(locked(false)).await), ids[2..]);
    w.office.pass(180_000);
    assert!(shown(&list(locked(true)).await).is_empty(), "over, though nobody swept");
    let status = Some(TaskStatus::Draft);
    assert_eq!(shown(&list(TaskQuery { status, ..TaskQuery::default() }).await), ids[2..]);
    for limit in [0, 201] {
        let query = TaskQuery { limit: Some(limit), ..TaskQuery::default() };
        assert_eq!(code(&w.tasks.list(&w.ana, query).await), "invalid");
    }
    // A cursor from elsewhere shows tasks and nothing else.
    let query = TaskQuery { after: Some("line-".to_owned()), ..TaskQuery::default() };
    assert_eq!(shown(&list(query).await), ids);
}

/// T14: leaving frees the lock; only the holder can.
#[tokio::test]
async fn t14_leaving_frees_it_and_only_the_holder_can() {
    let w = World::new();
    let id = w.processing(Vec::new()).await;
    let refusal = w.tasks.leave(&w.bea, &id).await;
    assert_eq!(code(&refusal), "not_holder");
    assert_eq!(w.holder(&id).as_deref(), Some("ana"));
    let task = w.tasks.leave(&w.ana, &id).await.expect("is hers").value;
    assert_eq!(task.lock, tenure_apps::Lock::FREE);
    assert_eq!(code(&w.tasks.leave(&w.ana, &id).await), "ok", "twice is once");
    assert_eq!(code(&w.tasks.leave(&w.bea, &id).await), "not_held");
    let never = w.ready(Vec::new()).await;
    assert_eq!(code(&w.tasks.leave(&w.ana, &never).await), "not_held");
}

/// T15: without `inventory.manage` nothing is done.
#[tokio::test]
async fn t15_without_the_permission_nothing_changes() {
    let w = World::new();
    let id = w.processing(vec![bring("bolt", 1)]).await;
    let before = w.office.events(COLLECTION);
    let vera = person("vera");
    let line = tenure_apps::tasks::EditLine { quantity: Some(2), ..Default::default() };
    let new = tenure_apps::tasks::NewTask { title: "x".to_owned(), lines: Vec::new() };
    let reason = "because".into();
    let codes = [
        code(&w.tasks.create(&vera, new).await),
        code(&w.tasks.ready(&vera, &id).await),
        code(&w.tasks.process(&vera, &id).await),
        code(&w.tasks.heartbeat(&vera, &id, None).await),
        code(&w.tasks.leave(&vera, &id).await),
        code(&w.tasks.add_line(&vera, &id, bring("x", 1)).await),
        code(&w.tasks.edit_line(&vera, &id, "1", &line).await),
        code(&w.tasks.validate_line(&vera, &id, "1").await),
        code(&w.tasks.finalize(&vera, &id).await),
        code(&w.tasks.cancel(&vera, &id).await),
        code(&w.tasks.request_release(&vera, &id, None).await),
        code(&w.tasks.force_release(&vera, &id, &reason).await),
        code(&w.tasks.force_claim(&vera, &id, &reason).await),
        // An editor is no administrator.
        code(&w.tasks.force_release(&w.bea, &id, &reason).await),
        code(&w.tasks.force_claim(&w.bea, &id, &reason).await),
    ];
    assert_eq!(codes, ["forbidden"; 15]);
    assert_eq!(w.office.events(COLLECTION), before);
}

/// What is no task is not found, also where it is an item of the collection.
#[tokio::test]
async fn a_line_or_a_product_is_no_task() {
    let w = World::new();
    let id = w.processing(vec![bring("bolt", 1)]).await;
    w.tasks.finalize(&w.ana, &id).await.expect("applies");
    for other in ["task-x", "stock-bolt", &format!("line-{id}-1"), "", "\u{7}"] {
        assert_eq!(code(&w.tasks.get(&w.ana, other)), "not_found", "{other}");
        assert_eq!(code(&w.tasks.process(&w.ana, other).await), "not_found", "{other}");
    }
    for line in ["0", "2", "01", "+1", "x"] {
        assert_eq!(
            code(&w.tasks.validate_line(&w.ana, &w.processing(Vec::new()).await, line).await),
            "not_found"
        );
    }
}
