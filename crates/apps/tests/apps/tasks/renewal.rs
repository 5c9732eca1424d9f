//! Keeping the lock: heartbeats, the idle guard, the rolling timeout, and losing it.

use std::sync::Arc;

use tenure_apps::Time;
use tenure_apps::tasks::{COLLECTION, EditLine};
use tenure_core::command::NotRenewed;
use tenure_core::{CollectionKey, Command, Policy, Text, Verb};

use super::world::{World, bring};
use crate::common::{START_MS, code};

/// T8: each heartbeat sets `heartbeat_at` to now and `expires_at` to now and the TTL.
#[tokio::test]
async fn t08_a_heartbeat_moves_both_times() {
    let w = World::new();
    let id = w.processing(Vec::new()).await;
    for beat in 1..=20 {
        w.office.pass(10_000);
        let lock = w.tasks.heartbeat(&w.ana, &id, Some(0)).await.expect("is hers").value.lock;
        let now_ms = START_MS + beat * 10_000;
        assert_eq!(lock.heartbeat_at, Some(Time(now_ms)));
        assert_eq!(lock.expires_at, Some(Time(now_ms + 180_000)));
        assert_eq!(lock.locked_at, Some(Time(START_MS)));
        assert_eq!(w.task(&id).lock, lock, "and everyone sees it");
    }
}

/// T9: a heartbeat that tells of 120 s without activity renews nothing; the lock runs out by itself.
#[tokio::test]
async fn t09_an_idle_heartbeat_renews_nothing() {
    let w = World::new();
    let id = w.processing(Vec::new()).await;
    w.office.pass(10_000);
    assert!(w.tasks.heartbeat(&w.ana, &id, Some(119_999)).await.expect("is hers").value.renewed);
    let before = w.task(&id).lock;
    w.office.pass(10_000);
    for idle_ms in [120_000, 500_000] {
        let beat = w.tasks.heartbeat(&w.ana, &id, Some(idle_ms)).await.expect("is hers").value;
        assert_eq!((beat.renewed, beat.reason), (false, Some(NotRenewed::Idle)));
        assert_eq!(beat.lock.expires_at, before.expires_at);
        assert_eq!(beat.lock.heartbeat_at, before.heartbeat_at);
    }
    w.office.pass(170_000);
    assert_eq!(w.holder(&id), None);
    let lost = w.tasks.heartbeat(&w.ana, &id, Some(0)).await.expect_err("is over");
    assert_eq!((lost.code(), lost.to_string().as_str()), ("lost", "the claim was lost (idle)"));
    assert_eq!(code(&w.tasks.heartbeat(&w.ana, &id, Some(-1)).await), "invalid");
}

/// T10: heartbeats alone keep it no longer than 900 s past the last real action.
#[tokio::test]
async fn t10_heartbeats_alone_end_after_the_rolling_timeout() {
    let w = World::new();
    let id = w.processing(Vec::new()).await;
    for beat in 1..90 {
        w.office.pass(10_000);
        let lock = w.tasks.heartbeat(&w.ana, &id, Some(0)).await.expect("is hers").value.lock;
        let until_ms = START_MS + (beat * 10_000 + 180_000).min(900_000);
        assert_eq!(lock.expires_at, Some(Time(until_ms)));
    }
    let beat = w.tasks.heartbeat(&w.ana, &id, Some(0)).await.expect("is hers").value;
    assert_eq!((beat.renewed, beat.reason), (false, Some(NotRenewed::MaxHold)));
    w.office.pass(10_000);
    assert_eq!(w.holder(&id), None, "900 s after she claimed it");
    let lost = w.tasks.heartbeat(&w.ana, &id, Some(0)).await.expect_err("is over");
    assert_eq!(lost.to_string(), "the claim was lost (max_hold)");
}

/// T10: claiming, editing, adding and validating are real actions; each begins the 900 s anew.
#[tokio::test]
async fn t10_each_real_action_begins_the_rolling_timeout_anew() {
    let w = World::new();
    let id = w.processing(vec![bring("bolt", 1)]).await;
    for action in 0..4 {
        // As long as heartbeats alone can keep it, but for the last of them.
        for _ in 0..89 {
            w.office.pass(10_000);
            w.tasks.heartbeat(&w.ana, &id, Some(0)).await.expect("is hers");
        }
        let edit = EditLine { quantity: Some(action + 2), ..EditLine::default() };
        match action {
            0 => drop(w.tasks.process(&w.ana, &id).await.expect("claims again")),
            1 => drop(w.tasks.edit_line(&w.ana, &id, "1", &edit).await.expect("edits")),
            2 => drop(w.tasks.validate_line(&w.ana, &id, "1").await.expect("validates")),
            _ => drop(w.tasks.add_line(&w.ana, &id, bring("nut", 1)).await.expect("adds")),
        }
        let now_ms = w.office.desk.now_ms();
        assert_eq!(w.task(&id).lock.expires_at, Some(Time(now_ms + 180_000)), "after action {action}");
    }
}

/// T11: a heartbeat by someone else or after expiry is refused and changes nothing.
#[tokio::test]
async fn t11_a_heartbeat_by_another_or_too_late_changes_nothing() {
    let w = World::new();
    let id = w.processing(Vec::new()).await;
    w.office.pass(50_000);
    let before = w.task(&id).lock;
    let refusal = w.tasks.heartbeat(&w.bea, &id, Some(0)).await.expect_err("is Ana's");
    assert_eq!((refusal.code(), refusal.to_string().as_str()), ("not_holder", "the claim is Ana's"));
    assert_eq!(w.task(&id).lock, before);
    w.office.pass(130_000);
    assert_eq!(code(&w.tasks.heartbeat(&w.ana, &id, Some(0)).await), "lost");
    assert_eq!(code(&w.tasks.heartbeat(&w.bea, &id, Some(0)).await), "not_held");
    assert_eq!(w.holder(&id), None);
    let never = w.ready(Vec::new()).await;
    assert_eq!(code(&w.tasks.heartbeat(&w.ana, &never, None).await), "not_held");
}

/// T12: whoever has lost it is told why at the next word, even if it is free again, and may claim anew.
#[tokio::test]
async fn t12_a_lost_lock_stays_lost_until_it_is_claimed_again() {
    let w = World::new();
    let id = w.processing(vec![bring("bolt", 1)]).await;
    w.tasks.force_release(&w.root, &id, &"went home".into()).await.expect("frees");
    let lost = w.tasks.heartbeat(&w.ana, &id, Some(0)).await.expect_err("is gone");
    assert_eq!(lost.to_string(), "the claim was lost (force_released)");
    assert_eq!(code(&w.tasks.validate_line(&w.ana, &id, "1").await), "not_held");
    assert_eq!(code(&w.tasks.process(&w.ana, &id).await), "ok", "Retry claim");
    assert_eq!(code(&w.tasks.validate_line(&w.ana, &id, "1").await), "ok");
    w.tasks.force_claim(&w.root, &id, &"urgent".into()).await.expect("takes");
    assert_eq!(code(&w.tasks.heartbeat(&w.ana, &id, Some(0)).await), "not_holder");
    assert_eq!(code(&w.tasks.validate_line(&w.ana, &id, "1").await), "held");
}

/// T21: TTL, idle guard, heartbeat and rolling timeout are the kind's policy.
#[tokio::test]
async fn t21_the_numbers_come_from_the_policy() {
    let w = World::new();
    let mut policy = Policy::task();
    policy.phases[0].ttl_ms = 20_000;
    (policy.ttl_ms_min, policy.ttl_ms_max) = (20_000, 20_000);
    (policy.idle_guard_ms, policy.rolling_ms, policy.heartbeat_ms) = (Some(5_000), Some(30_000), 2_000);
    let verb = Verb::SetPolicy { kind: Text::from("task"), policy: Arc::new(policy) };
    let command = Command { collection: CollectionKey::policies(), actor: w.root.principal.clone(), verb };
    w.office.engine.execute(command).await.outcome.expect("is a good policy");
    let id = w.processing(Vec::new()).await;
    assert_eq!(w.task(&id).lock.expires_at, Some(Time(START_MS + 20_000)));
    w.office.pass(15_000);
    let idle = w.tasks.heartbeat(&w.ana, &id, Some(5_000)).await.expect("is hers").value;
    assert_eq!(idle.reason, Some(NotRenewed::Idle));
    let beat = w.tasks.heartbeat(&w.ana, &id, Some(4_999)).await.expect("is hers").value;
    assert_eq!(beat.lock.expires_at, Some(Time(START_MS + 30_000)), "no longer than it may roll");
}

/// T25: nothing here sleeps; the clock stands still unless a test moves it.
#[tokio::test]
async fn t25_time_is_moved_by_hand() {
    let w = World::new();
    let id = w.processing(Vec::new()).await;
    let before = (w.office.desk.now_ms(), w.task(&id).lock);
    assert_eq!((w.office.desk.now_ms(), w.task(&id).lock), before);
    assert_eq!(w.office.actions(COLLECTION).last(), Some(&"claim_granted"));
}
