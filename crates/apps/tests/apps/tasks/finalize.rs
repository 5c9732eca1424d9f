//! T19: each line in its own commit, applied once whatever happens; the stock proves it.

use tenure_apps::tasks::{COLLECTION, EditLine, Task};
use tenure_core::{Fact, Text};

use super::world::{World, bring, take};
use crate::common::code;

/// How often the stock of a product was written.
fn stock_writes(w: &World, product: &str) -> usize {
    let id = format!("stock-{product}");
    let events = w.office.events(COLLECTION);
    let writes = events
        .iter()
        .filter(|event| matches!(&event.fact, Fact::ItemPut { write, .. } if write.id.as_str() == id));
    writes.count()
}

/// All applied: completed, and the lock ends in the same commit as the status.
#[tokio::test]
async fn t19_all_applied_is_completed_and_free() {
    let w = World::new();
    let id = w.processing(vec![bring("bolt", 5), bring("nut", 2), take("bolt", 1)]).await;
    let before = w.office.commits();
    let done = w.tasks.finalize(&w.ana, &id).await.expect("applies");
    assert_eq!(done.value.status.as_str(), "completed");
    assert_eq!(done.value.lock, tenure_apps::Lock::FREE);
    assert_eq!(w.lines(&id), ["applied"; 3]);
    assert_eq!(w.office.commits() - before, 4, "a commit for each line, and one for the end");
    assert_eq!((w.quantity("bolt").await, w.quantity("nut").await), (4, 2));
    let last = w.office.events(COLLECTION).pop().expect("an event");
    let Fact::Ended(end) = last.fact else { panic!("{last:?}") };
    assert_eq!(end.writes[0].write.status.as_str(), "completed", "one event says both");
}

/// Some failed: the others are applied, and it can be taken up again, by anyone.
#[tokio::test]
async fn t19_what_fails_is_named_and_can_be_taken_up_again() {
    let w = World::new();
    let id = w.processing(vec![bring("bolt", 5), take("nut", 1), bring("bolt", 1)]).await;
    let task = w.tasks.finalize(&w.ana, &id).await.expect("goes on").value;
    assert_eq!((task.status.as_str(), task.lock.mine), ("partially_completed", false));
    assert_eq!(w.lines(&id), ["applied", "error", "applied"]);
    assert_eq!(task.lines[1].error.as_ref().expect("a reason").message, "there was never any nut in stock");
    assert_eq!(w.quantity("bolt").await, 6);
    // Bea takes it up, without and then with a remedy.
    w.tasks.process(&w.bea, &id).await.expect("is free");
    let task = w.tasks.finalize(&w.bea, &id).await.expect("goes on").value;
    assert_eq!(task.status.as_str(), "partially_completed");
    w.tasks.process(&w.bea, &id).await.expect("is free");
    let edit = EditLine { product: Some("bolt".to_owned()), ..EditLine::default() };
    w.tasks.edit_line(&w.bea, &id, "2", &edit).await.expect("is hers");
    let task = w.tasks.finalize(&w.bea, &id).await.expect("applies").value;
    assert_eq!(task.status.as_str(), "completed");
    assert!(task.lines.iter().all(|line| line.error.is_none()));
    assert_eq!(w.quantity("bolt").await, 5, "the first and the third line were not applied again");
}

/// A crash at any commit of it, with that commit kept or not: finalising again ends with the same stock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t19_a_crash_between_any_two_lines_applies_nothing_twice() {
    for kept in [false, true] {
        for at in 0..=5 {
            let w = World::new();
            let lines =
                vec![bring("bolt", 5), take("bolt", 2), take("nut", 1), bring("bolt", 10), take("bolt", 4)];
            let id = w.processing(lines).await;
            w.office.crash_after(at, kept);
            assert_eq!(code(&w.tasks.finalize(&w.ana, &id).await), "stopped", "at {at}, kept {kept}");
            let w = w.restart();
            let outcome = w.tasks.finalize(&w.ana, &id).await;
            let task = outcome.unwrap_or_else(|refusal| panic!("at {at}, kept {kept}: {refusal}")).value;
            assert_eq!(task.status.as_str(), "partially_completed", "at {at}, kept {kept}");
            assert_eq!(w.lines(&id), ["applied", "applied", "error", "applied", "applied"]);
            assert_eq!(w.quantity("bolt").await, 9, "at {at}, kept {kept}");
            assert_eq!(stock_writes(&w, "bolt"), 4);
        }
    }
}

/// A refresh, a double click: whoever finalised gets the outcome again; nothing happens twice.
#[tokio::test]
async fn t19_again_shows_the_outcome_again() {
    let w = World::new();
    let id = w.processing(vec![bring("bolt", 5), take("nut", 1)]).await;
    let first = w.tasks.finalize(&w.ana, &id).await.expect("goes on");
    let events = w.office.events(COLLECTION);
    let again = w.tasks.finalize(&w.ana, &id).await.expect("was hers");
    assert!(again.replayed && !first.replayed);
    assert_eq!(again.value.status, first.value.status);
    assert_eq!(code(&w.tasks.finalize(&w.bea, &id).await), "not_held", "it was not Bea's");
    assert_eq!(w.office.events(COLLECTION), events);
    // Once somebody took it up, the earlier one has no say.
    w.tasks.process(&w.bea, &id).await.expect("is free");
    assert_eq!(code(&w.tasks.finalize(&w.ana, &id).await), "held");
    let done = w.processing(Vec::new()).await;
    w.tasks.finalize(&w.ana, &done).await.expect("has nothing to apply");
    assert_eq!(code(&w.tasks.finalize(&w.bea, &done).await), "wrong_status");
}

/// Two, or ten, racing finalises of one holder: each line is applied once, and all see the outcome.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn t19_racing_finalises_apply_each_line_once() {
    for round in 0..10 {
        let w = World::new();
        let lines: Vec<_> = (0..8).map(|_| bring("bolt", 1)).chain([take("nut", 1)]).collect();
        let id: Text = w.processing(lines).await.into();
        let racing: Vec<_> = (0..(2 + round))
            .map(|_| {
                let (tasks, ana, id) = (w.tasks.clone(), w.ana.clone(), id.clone());
                tokio::spawn(async move { tasks.finalize(&ana, &id).await })
            })
            .collect();
        for outcome in racing {
            let task: Task = outcome.await.expect("ends").expect("was hers").value;
            assert_eq!(task.status.as_str(), "partially_completed");
        }
        assert_eq!(w.quantity("bolt").await, 8);
        assert_eq!(stock_writes(&w, "bolt"), 8);
    }
}

/// T19, E1: a finalise that was overtaken by a takeover stops at once: the token it began with is old.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn t19_a_takeover_in_the_middle_stops_it() {
    for _ in 0..10 {
        let w = World::new();
        let lines: Vec<_> = (0..20).map(|_| bring("bolt", 1)).collect();
        let id: Text = w.processing(lines).await.into();
        let running = {
            let (tasks, ana, id) = (w.tasks.clone(), w.ana.clone(), id.clone());
            tokio::spawn(async move { tasks.finalize(&ana, &id).await })
        };
        while w.quantity("bolt").await < 3 {
            tokio::task::yield_now().await;
        }
        let taken = w.tasks.force_claim(&w.root, &id, &"stop".into()).await;
        let outcome = running.await.expect("ends");
        match &taken {
            Ok(_) => assert_eq!(code(&outcome), "held", "Ana's run ended when it was taken"),
            // She was faster.
            Err(refusal) => assert_eq!((refusal.code(), code(&outcome)), ("finished", "ok")),
        }
        if taken.is_ok() {
            let applied = w.lines(&id).iter().filter(|status| *status == "applied").count();
            assert_eq!(w.quantity("bolt").await, applied as u64, "stock and lines agree");
            w.tasks.finalize(&w.root, &id).await.expect("goes on");
        }
        assert_eq!(w.quantity("bolt").await, 20);
        assert_eq!(stock_writes(&w, "bolt"), 20);
    }
}

/// E1: a run that began under a lock that is over does nothing under the same person's next one.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn t19_an_older_run_of_the_same_person_stops() {
    for _ in 0..10 {
        let w = World::new();
        let id: Text = w.processing((0..30).map(|_| bring("bolt", 1)).collect()).await.into();
        let running = {
            let (tasks, ana, id) = (w.tasks.clone(), w.ana.clone(), id.clone());
            tokio::spawn(async move { tasks.finalize(&ana, &id).await })
        };
        while w.quantity("bolt").await < 2 {
            tokio::task::yield_now().await;
        }
        // Refused where the run was faster.
        drop(w.tasks.leave(&w.ana, &id).await);
        let again = w.tasks.process(&w.ana, &id).await;
        let outcome = running.await.expect("ends");
        match &again {
            Ok(_) => assert!(["stale_token", "not_held"].contains(&code(&outcome)), "{}", code(&outcome)),
            // It was faster.
            Err(refusal) => assert_eq!((refusal.code(), code(&outcome)), ("finished", "ok")),
        }
        if again.is_ok() {
            assert_eq!(w.holder(&id).as_deref(), Some("ana"), "her new lock is untouched");
            w.tasks.finalize(&w.ana, &id).await.expect("goes on");
        }
        assert_eq!((w.quantity("bolt").await, stock_writes(&w, "bolt")), (30, 30));
    }
}

/// A lock that has run out finalises nothing.
#[tokio::test]
async fn t19_the_lock_may_run_out_before_the_end() {
    let w = World::new();
    let id = w.processing(vec![bring("bolt", 1)]).await;
    w.office.pass(180_000);
    assert_eq!(code(&w.tasks.finalize(&w.ana, &id).await), "not_held");
    assert_eq!((w.quantity("bolt").await, w.lines(&id)), (0, vec!["pending".to_owned()]));
}

/// A line that was added or edited while it ran is not forgotten: the task is not completed over it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn t19_a_line_that_comes_in_between_is_not_lost() {
    for _ in 0..10 {
        let w = World::new();
        let id: Text = w.processing((0..10).map(|_| bring("bolt", 1)).collect()).await.into();
        let running = {
            let (tasks, ana, id) = (w.tasks.clone(), w.ana.clone(), id.clone());
            tokio::spawn(async move { tasks.finalize(&ana, &id).await })
        };
        while w.quantity("bolt").await < 2 {
            tokio::task::yield_now().await;
        }
        let added = w.tasks.add_line(&w.ana, &id, bring("nut", 1)).await;
        let task = running.await.expect("ends").expect("is hers").value;
        let expected = if added.is_ok() { "partially_completed" } else { "completed" };
        assert_eq!(task.status.as_str(), expected, "{:?}", added.err().map(|refusal| refusal.to_string()));
    }
}
