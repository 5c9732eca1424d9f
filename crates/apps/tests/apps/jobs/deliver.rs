//! Deliveries: the worker in the server.

use tenure_apps::Time;
use tenure_apps::jobs::{NotAcquired, Outcome};
use tenure_core::{EndReason, Fact};

use super::world::{BEAT_MS, TTL_MS, World, delivery, owner, ready, until};
use crate::common::{START_MS, code, keyed, person};

/// J4: fifty simultaneous deliveries, one run.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn j04_fifty_deliveries_at_once_give_one_run() {
    let w = World::with_room(4);
    w.queued("a", "text").await;
    let deliveries: Vec<_> = (0..50).map(|_| w.deliver("a")).collect();
    until("one runs and the others are told", || {
        deliveries.iter().filter(|delivery| delivery.is_finished()).count() == 49
    })
    .await;
    w.bench.end(50);
    let mut outcomes = Vec::new();
    for delivery in deliveries {
        outcomes.push(delivery.await.expect("ends").expect("is no error").value);
    }
    let completed = delivery(Outcome::Completed, None, "READY");
    let skipped = delivery(Outcome::Skipped, Some(NotAcquired::Locked), "RUNNING");
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == completed).count(), 1);
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == skipped).count(), 49);
    assert_eq!(w.bench.begun(), 1);
    assert_eq!(w.status("a"), "READY");
}

/// J7: not acquiring is an answer, not an error.
#[tokio::test]
async fn j07_a_delivery_that_is_not_acquired_is_skipped_with_the_reason() {
    let w = World::new();
    w.queued("a", "text").await;
    let token = w.locked("a", "w-1").await;
    let skipped = w.jobs.deliver(&w.wes, "a").await.expect("is no error").value;
    assert_eq!(skipped, delivery(Outcome::Skipped, Some(NotAcquired::Locked), "RUNNING"));
    w.jobs.complete(&w.wes, "a", ready(token)).await.expect("is ours");
    let skipped = w.jobs.deliver(&w.wes, "a").await.expect("is no error").value;
    assert_eq!(skipped, delivery(Outcome::Skipped, Some(NotAcquired::AlreadyFinished), "READY"));
    assert_eq!(w.bench.begun(), 0);
    assert_eq!(code(&w.jobs.deliver(&w.wes, "b").await), "not_found");
}

/// J8: claims first, refreshes while it runs, and ends with result, status and release in one commit.
#[tokio::test]
async fn j08_a_run_claims_refreshes_and_ends_in_one_commit() {
    let w = World::new();
    w.queued("a", "text").await;
    let running = w.deliver("a");
    w.running(1).await;
    assert_eq!((w.status("a").as_str(), w.bench.tokens()), ("RUNNING", vec![3]));
    // Far longer than the TTL: it is the heartbeats that keep it.
    for beat in 1..=10 {
        w.running(1).await;
        w.pass(BEAT_MS);
        let now = START_MS + beat * BEAT_MS;
        until("a heartbeat", || w.analysis("a").lock.lock.heartbeat_at == Some(Time(now))).await;
        assert_eq!(w.analysis("a").lock.lock.expires_at, Some(Time(now + TTL_MS)));
    }
    let before = w.office.commits();
    w.bench.end(1);
    let done = running.await.expect("ends").expect("is held").value;
    assert_eq!(done, delivery(Outcome::Completed, None, "READY"));
    assert_eq!(w.office.commits(), before + 1);
    let events = w.office.events(tenure_apps::jobs::COLLECTION);
    let Fact::Ended(end) = &events.last().expect("an event").fact else { panic!("{events:?}") };
    assert_eq!((end.reason, end.writes.len()), (EndReason::Completed, 1));
    assert_eq!(end.writes[0].write.status.as_str(), "READY");
    let analysis = w.analysis("a");
    assert_eq!(analysis.result.expect("a result").as_str(), r#"{"echo":"text","token":3}"#);
    assert_eq!((analysis.input.as_deref(), analysis.lock.owner, analysis.version), (Some("text"), None, 3));
}

/// J8: what the runner says is wrong, what it breaks at and what is too large end `FAILED`, in one commit.
#[tokio::test]
async fn j08_a_run_that_fails_ends_failed_with_the_reason() {
    let w = World::new();
    w.bench.end(4);
    let failing =
        [("fail", "exit"), ("panic", "broken"), ("huge", "result_too_large"), ("deep", "result_too_deep")];
    for (input, reason) in failing {
        w.queued(input, input).await;
        let done = w.jobs.deliver(&w.wes, input).await.expect("is no error").value;
        assert_eq!(done, delivery(Outcome::Failed, None, "FAILED"));
        let analysis = w.analysis(input);
        assert_eq!(analysis.error.expect("why").reason, reason);
        assert!(analysis.result.is_none() && analysis.lock.owner.is_none());
    }
}

/// J5, J8: a run whose lock is lost stops, its late result is not written, and what the next one writes
/// stays.
#[tokio::test]
async fn j05_a_run_that_lost_its_lock_is_stopped_and_writes_nothing() {
    let w = World::new();
    w.queued("a", "text").await;
    let first = w.deliver("a");
    w.running(1).await;
    // The process stood still for longer than the TTL: the clock went on, its heartbeats did not.
    w.office.pass(TTL_MS);
    let token = w.locked("a", "w-2").await;
    w.pass(BEAT_MS);
    let skipped = first.await.expect("ends").expect("is no error").value;
    assert_eq!(skipped, delivery(Outcome::Skipped, Some(NotAcquired::Locked), "RUNNING"));
    assert_eq!((w.bench.begun(), w.bench.stopped()), (1, 1));
    w.jobs.complete(&w.wes, "a", ready(token)).await.expect("is ours");
    assert_eq!(w.analysis("a").result.expect("a result").as_str(), format!(r#"{{"by":{token}}}"#));
}

/// J8: the run ended while the process stood still; its result comes with an old token.
#[tokio::test]
async fn j08_a_result_that_comes_too_late_is_refused_by_its_token() {
    let w = World::new();
    w.queued("a", "text").await;
    let first = w.deliver("a");
    w.running(1).await;
    w.office.pass(TTL_MS);
    let token = w.locked("a", "w-2").await;
    w.bench.end(1);
    let skipped = first.await.expect("ends").expect("is no error").value;
    assert_eq!(skipped, delivery(Outcome::Skipped, Some(NotAcquired::Locked), "RUNNING"));
    assert_eq!((w.owner("a").as_deref(), w.analysis("a").result), (Some("w-2"), None));
    w.jobs.complete(&w.wes, "a", ready(token)).await.expect("is ours");
    assert_eq!(w.status("a"), "READY");
}

/// J5: lost to nobody: the queue must deliver again, so this is an error to it.
#[tokio::test]
async fn j05_a_lock_that_is_lost_to_nobody_asks_for_another_delivery() {
    let w = World::new();
    w.queued("a", "text").await;
    let first = w.deliver("a");
    w.running(1).await;
    w.pass(TTL_MS);
    assert_eq!(code(&first.await.expect("ends")), "lost");
    assert_eq!((w.bench.stopped(), w.status("a").as_str(), w.owner("a")), (1, "RUNNING", None));
    w.bench.end(1);
    let again = w.jobs.deliver(&w.wes, "a").await.expect("takes over").value;
    assert_eq!(again, delivery(Outcome::Completed, None, "READY"));
}

/// J9: the server dies in the middle of a run; after the TTL the next delivery takes over, and it is
/// `READY` once.
#[tokio::test]
async fn j09_after_a_crash_the_next_delivery_takes_over() {
    for (commits, kept) in [(0, false), (0, true)] {
        let w = World::new();
        w.queued("a", "text").await;
        let cut = w.deliver("a");
        w.running(1).await;
        // It dies at the commit of its result; `kept` or not, nobody is told.
        w.office.crash_after(commits, kept);
        w.bench.end(1);
        assert_eq!(code(&cut.await.expect("ends")), "stopped");
        let w = w.restart();
        let early = w.jobs.deliver(&w.wes, "a").await.expect("is no error").value;
        if kept {
            assert_eq!(early, delivery(Outcome::Skipped, Some(NotAcquired::AlreadyFinished), "READY"));
        } else {
            assert_eq!(early, delivery(Outcome::Skipped, Some(NotAcquired::Locked), "RUNNING"));
            w.pass(TTL_MS);
            w.bench.end(1);
            let after = w.jobs.deliver(&w.wes, "a").await.expect("takes over").value;
            assert_eq!((after, w.bench.begun()), (delivery(Outcome::Completed, None, "READY"), 1));
        }
        let ends = w.actions().iter().filter(|action| **action == "claim_completed").count();
        assert_eq!((w.status("a").as_str(), ends), ("READY", 1), "{:?}", w.actions());
    }
}

/// J9: a worker of one's own that dies is taken over by a delivery.
#[tokio::test]
async fn j09_a_worker_that_dies_is_taken_over_after_the_ttl() {
    let w = World::new();
    w.queued("a", "text").await;
    let token = w.locked("a", "w-1").await;
    w.pass(TTL_MS);
    w.bench.end(1);
    let done = w.jobs.deliver(&w.wes, "a").await.expect("takes over").value;
    assert_eq!(done, delivery(Outcome::Completed, None, "READY"));
    // It was not dead after all.
    assert_eq!(code(&w.jobs.complete(&w.wes, "a", ready(token)).await), "lost");
    assert_eq!(code(&w.jobs.refresh(&w.wes, "a", &owner("w-1"), Some(token)).await), "not_held");
    assert!(w.analysis("a").result.expect("a result").as_str().contains("echo"));
}

/// Whoever delivered may hang up; the run goes on.
#[tokio::test]
async fn a_run_goes_on_when_its_caller_is_gone() {
    let w = World::new();
    w.queued("a", "text").await;
    let caller = w.deliver("a");
    w.running(1).await;
    caller.abort();
    assert!(caller.await.is_err());
    w.bench.end(1);
    until("it ends", || w.status("a") == "READY").await;
    assert_eq!(w.bench.stopped(), 0);
}

/// More than there is room for are sent away, and their locks given back.
#[tokio::test]
async fn more_runs_than_there_is_room_for_come_later() {
    let w = World::with_room(1);
    for id in ["a", "b"] {
        w.queued(id, "text").await;
    }
    let first = w.deliver("a");
    w.running(1).await;
    assert_eq!(code(&w.jobs.deliver(&w.wes, "b").await), "overloaded");
    assert_eq!(w.owner("b"), None);
    w.bench.end(2);
    first.await.expect("ends").expect("is held");
    w.jobs.deliver(&w.wes, "b").await.expect("there is room now");
    assert_eq!((w.status("b").as_str(), w.bench.begun()), ("READY", 2));
}

/// An administrator's override ends a run like any other loss.
#[tokio::test]
async fn j05_a_run_whose_lock_an_administrator_frees_is_stopped() {
    let w = World::new();
    w.queued("a", "text").await;
    let running = w.deliver("a");
    w.running(1).await;
    let verb = tenure_core::Verb::ForceRelease {
        item: tenure_core::ItemId::new("a").expect("an id"),
        reason: "it hangs".into(),
    };
    let collection = tenure_core::CollectionKey::new(tenure_apps::jobs::COLLECTION).expect("a key");
    let root = person("root");
    w.office.desk.change(&root, &collection, "free", || Ok(verb.clone())).await.expect("is freed");
    w.pass(BEAT_MS);
    assert_eq!(code(&running.await.expect("ends")), "lost");
    assert_eq!(w.bench.stopped(), 1);
}

/// J9: what was locked when a queue first asked with its key is run when the queue asks again and it is free.
#[tokio::test]
async fn j09_a_delivery_with_a_key_runs_once_the_lock_it_met_is_gone() {
    let w = World::new();
    w.queued("a", "text").await;
    w.locked("a", "w-1").await;
    let wes = keyed(&w.wes, "message-1");
    let skipped = w.jobs.deliver(&wes, "a").await.expect("is no error").value;
    assert_eq!(skipped, delivery(Outcome::Skipped, Some(NotAcquired::Locked), "RUNNING"));
    w.office.pass(TTL_MS);
    w.bench.end(1);
    let done = w.jobs.deliver(&wes, "a").await.expect("is free").value;
    assert_eq!(done, delivery(Outcome::Completed, None, "READY"));
}

/// A runner that is away says nothing about the analysis: it is given back, to be delivered again.
#[tokio::test]
async fn a_runner_that_is_away_makes_nothing_failed() {
    let w = World::new();
    w.queued("a", "away").await;
    w.bench.end(2);
    assert_eq!(code(&w.jobs.deliver(&w.wes, "a").await), "overloaded");
    assert_eq!((w.status("a").as_str(), w.owner("a")), ("RUNNING", None));
    let done = w.jobs.deliver(&w.wes, "a").await.expect("is back").value;
    assert_eq!(done, delivery(Outcome::Completed, None, "READY"));
}

/// A server that stops waits for what runs, stops the rest and gives it back.
#[tokio::test]
async fn a_server_that_stops_gives_back_what_it_runs() {
    let w = World::new();
    w.queued("a", "text").await;
    let running = w.deliver("a");
    w.running(1).await;
    w.close().await;
    assert_eq!(code(&running.await.expect("ends")), "overloaded");
    assert_eq!((w.bench.stopped(), w.status("a").as_str(), w.owner("a")), (1, "RUNNING", None));
}
