//! The lock of a worker of one's own.

use tenure_apps::jobs::NotAcquired;
use tenure_apps::{Refusal, Time};

use super::world::{TTL_MS, World, owner, ready};
use crate::common::{START_MS, code, person};

/// J1: one transaction, with a token; an unknown analysis is not found.
#[tokio::test]
async fn j01_acquiring_locks_and_runs_it_in_one_commit() {
    let w = World::new();
    w.queued("a", "text").await;
    let locked = w.jobs.lock(&w.wes, "a", &owner("w-1"), None).await.expect("is asked").value;
    assert_eq!((locked.acquired, locked.reason, locked.token), (true, None, Some(3)));
    assert_eq!(locked.lock.lock.expires_at, Some(Time(START_MS + TTL_MS)));
    assert_eq!((w.status("a").as_str(), w.owner("a").as_deref()), ("RUNNING", Some("w-1")));
    assert_eq!(w.actions(), ["collection_created", "item_put", "claim_granted"]);
    let unknown = w.jobs.lock(&w.wes, "b", &owner("w-1"), None).await;
    assert_eq!(code(&unknown), "not_found");
    assert_eq!(unknown.expect_err("is unknown").to_string(), "there is no analysis b");
}

/// J1: the caller's own TTL, within the kind's bounds.
#[tokio::test]
async fn j01_the_ttl_is_the_callers_within_bounds() {
    let w = World::new();
    w.queued("a", "text").await;
    for (ttl_sec, field) in [(0, "ttl_sec"), (-1, "ttl_sec"), (3_601, "ttl_sec"), (i64::MAX, "ttl_sec")] {
        let refused =
            w.jobs.lock(&w.wes, "a", &owner("w-1"), Some(ttl_sec)).await.expect_err("out of bounds");
        assert!(matches!(&refused, Refusal::Invalid { field: wrong, .. } if wrong == field), "{refused:?}");
        assert_eq!(refused.to_string(), "ttl_sec: must be 1 to 3600");
    }
    w.jobs.lock(&w.wes, "a", &owner("w-1"), Some(10)).await.expect("within bounds");
    w.pass(10_000);
    assert_eq!(w.owner("a"), None);
}

/// J2: finished is finished, for everyone and for ever.
#[tokio::test]
async fn j02_what_is_finished_is_never_acquired() {
    let w = World::new();
    for (id, status) in [("good", "READY"), ("bad", "FAILED")] {
        w.queued(id, "text").await;
        let token = w.locked(id, "w-1").await;
        let mut finish = ready(token);
        if status == "FAILED" {
            finish.result = None;
            finish.error = Some(tenure_apps::jobs::Failure::new("exit", "exit code 1"));
        }
        w.jobs.complete(&w.wes, id, finish).await.expect("is ours");
        for _ in 0..2 {
            for by in ["w-1", "w-2"] {
                assert_eq!(w.lock(id, by).await, Err(NotAcquired::AlreadyFinished));
            }
            w.pass(10 * TTL_MS);
        }
        assert_eq!((w.status(id).as_str(), w.owner(id)), (status, None));
    }
}

/// J3: free, or run out: acquired. Another's: locked, and it says whose.
#[tokio::test]
async fn j03_a_free_or_stale_lock_is_taken_and_an_active_one_is_not() {
    let w = World::new();
    w.queued("a", "text").await;
    let first = w.locked("a", "w-1").await;
    w.pass(TTL_MS - 1);
    assert_eq!(w.lock("a", "w-2").await, Err(NotAcquired::Locked));
    let second = w.jobs.lock(&w.wes, "a", &owner("w-2"), None).await.expect("is asked").value;
    // Nor is what another worker of the same principal holds.
    assert_eq!((second.lock.owner.as_deref(), second.lock.lock.mine), (Some("w-1"), false));
    let other = w.jobs.lock(&person("xe"), "a", &owner("w-1"), None).await.expect("is asked").value;
    // The same word of another principal is another worker.
    assert_eq!((other.acquired, other.reason), (false, Some(NotAcquired::Locked)));
    assert_eq!((other.lock.owner.as_deref(), other.lock.lock.mine), (Some("w-1"), false));
    w.pass(1);
    assert_eq!(w.owner("a"), None);
    let second = w.locked("a", "w-2").await;
    assert!(second > first);
    assert_eq!(w.owner("a").as_deref(), Some("w-2"));
}

/// J3: the owner who asks again renews, and keeps the token.
#[tokio::test]
async fn j03_the_owner_who_asks_again_renews() {
    let w = World::new();
    w.queued("a", "text").await;
    let token = w.locked("a", "w-1").await;
    w.pass(100_000);
    assert_eq!(w.lock("a", "w-1").await, Ok(token));
    let lock = w.analysis("a").lock.lock;
    assert_eq!(
        (lock.locked_at, lock.expires_at),
        (Some(Time(START_MS)), Some(Time(START_MS + 100_000 + TTL_MS)))
    );
}

/// J4: of many at once, who share a key, exactly one.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn j04_of_fifty_workers_with_one_key_one_gets_the_lock() {
    let w = World::new();
    w.queued("a", "text").await;
    let asks: Vec<_> = (0..50)
        .map(|n| {
            let (jobs, wes) = (w.jobs.clone(), w.wes.clone());
            tokio::spawn(async move { jobs.lock(&wes, "a", &owner(&format!("w-{n}")), None).await })
        })
        .collect();
    let mut acquired = 0;
    for ask in asks {
        let locked = ask.await.expect("ends").expect("is asked").value;
        acquired += usize::from(locked.acquired);
        assert_eq!(locked.reason, (!locked.acquired).then_some(NotAcquired::Locked));
    }
    assert_eq!(acquired, 1);
    assert_eq!(w.actions().iter().filter(|action| **action == "claim_granted").count(), 1);
}

/// J5: a refresh extends the own lock and notes the time; a lost one says so, and stays lost.
#[tokio::test]
async fn j05_a_refresh_extends_and_a_lost_lock_says_so() {
    let w = World::new();
    w.queued("a", "text").await;
    let token = w.locked("a", "w-1").await;
    w.pass(60_000);
    let refreshed = w.jobs.refresh(&w.wes, "a", &owner("w-1"), Some(token)).await.expect("is held").value;
    assert!(refreshed.refreshed);
    let now = START_MS + 60_000;
    assert_eq!(refreshed.lock.lock.heartbeat_at, Some(Time(now)));
    assert_eq!(refreshed.lock.lock.expires_at, Some(Time(now + TTL_MS)));
    // Neither another worker nor another token can.
    assert_eq!(code(&w.jobs.refresh(&w.wes, "a", &owner("w-2"), None).await), "held");
    assert_eq!(code(&w.jobs.refresh(&person("xe"), "a", &owner("w-1"), Some(token)).await), "held");
    assert_eq!(code(&w.jobs.refresh(&w.wes, "a", &owner("w-1"), Some(token + 1)).await), "stale_token");
    w.pass(TTL_MS);
    assert_eq!(code(&w.jobs.refresh(&w.wes, "a", &owner("w-1"), Some(token)).await), "lost");
    assert_eq!(code(&w.jobs.refresh(&w.wes, "a", &owner("w-2"), None).await), "not_held");
    w.locked("a", "w-2").await;
    let lost = w.jobs.refresh(&w.wes, "a", &owner("w-1"), Some(token)).await;
    assert_eq!(code(&lost), "held");
    assert_eq!(lost.expect_err("is another's").to_string(), "a is held by Wes in another session");
}

/// J6: only its owner releases; another's call leaves the lock and is a warning.
#[tokio::test]
async fn j06_only_the_owner_releases_and_a_failed_release_is_a_warning() {
    let w = World::new();
    w.queued("a", "text").await;
    let free = w.jobs.release(&w.wes, "a", &owner("w-1")).await.expect("is no error").value;
    assert_eq!((free.released, free.reason), (false, Some("not_held")));
    w.locked("a", "w-1").await;
    for (who, by) in [(&w.wes, "w-2"), (&person("xe"), "w-1")] {
        let kept = w.jobs.release(who, "a", &owner(by)).await.expect("is no error").value;
        assert_eq!((kept.released, kept.reason), (false, Some("held")));
        assert_eq!(kept.warning.as_deref(), Some("a is held by Wes in another session"));
        assert_eq!(w.owner("a").as_deref(), Some("w-1"));
    }
    for _ in 0..2 {
        assert!(w.jobs.release(&w.wes, "a", &owner("w-1")).await.expect("is ours").value.released);
        assert_eq!((w.owner("a"), w.status("a").as_str()), (None, "RUNNING"));
    }
    w.locked("a", "w-1").await;
    w.pass(TTL_MS);
    let late = w.jobs.release(&w.wes, "a", &owner("w-1")).await.expect("is no error").value;
    assert_eq!((late.released, late.reason), (false, Some("lost")));
    assert_eq!(code(&w.jobs.release(&w.wes, "b", &owner("w-1")).await), "not_found");
}

/// Who may only look changes nothing.
#[tokio::test]
async fn without_the_permission_nothing_happens() {
    let w = World::new();
    w.queued("a", "text").await;
    let token = w.locked("a", "w-1").await;
    let (vera, before) = (person("vera"), w.actions());
    let by = owner("w-1");
    assert_eq!(code(&w.jobs.lock(&vera, "a", &by, None).await), "forbidden");
    assert_eq!(code(&w.jobs.refresh(&vera, "a", &by, None).await), "forbidden");
    assert_eq!(code(&w.jobs.release(&vera, "a", &by).await), "forbidden");
    assert_eq!(code(&w.jobs.complete(&vera, "a", ready(token)).await), "forbidden");
    assert_eq!(code(&w.jobs.deliver(&vera, "a").await), "forbidden");
    let new = tenure_apps::jobs::NewAnalysis { id: None, input: "text".to_owned() };
    assert_eq!(code(&w.jobs.create(&vera, new).await), "forbidden");
    assert_eq!(w.actions(), before);
    assert_eq!(w.jobs.get(&vera, "a").expect("may look").lock.owner.as_deref(), Some("w-1"));
}
