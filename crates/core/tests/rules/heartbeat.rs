//! Keeping a claim alive: the lease, the idle guard and the rolling timeout.

use tenure_core::command::{NotRenewed, PutItem};
use tenure_core::{Claim, EndReason, Policy, Refusal, Verb};

use crate::world::{Deed, World, person, put, t, under};

/// Heartbeats every ten seconds up to this time.
fn keep_alive(w: &mut World, claim: &Claim, until_ms: i64) {
    let mut now_ms = w.now_ms - t(0);
    while now_ms + 10_000 <= until_ms {
        now_ms += 10_000;
        w.at(now_ms).beat("ana", claim).granted();
    }
}

fn edit(w: &mut World, claim: &Claim) {
    w.put("ana", PutItem { guard: Some(under(claim)), ..put("a", "{}") }).granted();
}

/// T8, J5
#[test]
fn t08_a_heartbeat_sets_its_time_and_a_whole_ttl() {
    let mut w = World::of("task", &["a"]);
    let claim = w.acquire("ana", &["a"]).claim();
    w.at(10_000);
    let beaten = w.beat("ana", &claim).claim();
    assert_eq!((beaten.heartbeat_at_ms, beaten.expires_at_ms), (t(10_000), t(190_000)));
    let same = Claim { heartbeat_at_ms: t(0), expires_at_ms: t(180_000), ..beaten };
    assert_eq!(same, claim, "nothing else changes");
}

#[test]
fn t08_heartbeats_are_no_events() {
    let mut w = World::of("task", &["a"]);
    let claim = w.acquire("ana", &["a"]).claim();
    let decision = w.at(10_000).beat("ana", &claim).granted();
    assert!(decision.events.is_empty());
    assert_eq!(decision.beats.len(), 1);
    assert!(decision.changed.collection.is_none());
}

#[test]
fn two_heartbeats_within_one_millisecond_are_both_renewals() {
    let mut w = World::of("task", &["a"]);
    let claim = w.acquire("ana", &["a"]).claim();
    assert_eq!(w.beat("ana", &claim).renewed(), Ok(t(180_000)));
    assert_eq!(w.beat("ana", &claim).renewed(), Ok(t(180_000)));
}

#[test]
fn t09_a_heartbeat_that_tells_of_idleness_at_the_guard_renews_nothing() {
    for (idle_ms, renewed) in
        [(0, true), (119_999, true), (120_000, false), (120_001, false), (i64::MAX, false)]
    {
        let mut w = World::of("task", &["a"]);
        let claim = w.acquire("ana", &["a"]).claim();
        let answer = w.at(150_000).beat_idle("ana", &claim, idle_ms).renewed();
        assert_eq!(answer, if renewed { Ok(t(330_000)) } else { Err(NotRenewed::Idle) }, "{idle_ms}");
        let kept = w.claim(claim.number);
        let times = (kept.heartbeat_at_ms, kept.expires_at_ms);
        assert_eq!(times, if renewed { (t(150_000), t(330_000)) } else { (t(0), t(180_000)) });
    }
}

#[test]
fn t09_idleness_means_nothing_where_the_policy_has_no_guard() {
    let mut w = World::of("image", &["a"]);
    let claim = w.acquire("ana", &["a"]).claim();
    assert_eq!(w.beat_idle("ana", &claim, i64::MAX).renewed(), Ok(t(300_000)));
}

#[test]
fn t09_a_claim_that_runs_out_idle_says_so() {
    let mut w = World::of("task", &["a"]);
    let claim = w.acquire("ana", &["a"]).claim();
    w.at(150_000).beat_idle("ana", &claim, 150_000).granted();
    w.at(160_000).beat_idle("ana", &claim, 160_000).granted();
    w.at(180_000);
    let ended = w.expire(&claim).claim();
    assert_eq!((ended.reason, ended.ended_at_ms), (Some(EndReason::Idle), Some(t(180_000))));
}

#[test]
fn t09_idle_then_active_then_gone_is_expired_and_not_idle() {
    // Each wakes the holder in its own way.
    let wakings: [(&str, Deed); 3] = [
        ("a heartbeat", |w, claim| drop(w.beat_idle("ana", claim, 0).granted())),
        ("an edit", edit),
        ("claiming again", |w, _| drop(w.acquire("ana", &["a"]).granted())),
    ];
    for (name, wake) in wakings {
        let mut w = World::of("task", &["a"]);
        let claim = w.acquire("ana", &["a"]).claim();
        w.at(130_000).beat_idle("ana", &claim, 130_000).granted();
        assert!(w.claim(claim.number).idle);
        w.at(140_000);
        wake(&mut w, &claim);
        assert!(!w.claim(claim.number).idle, "{name}");
        w.at(320_000);
        assert_eq!(w.expire(&claim).claim().reason, Some(EndReason::Expired), "{name}");
    }
}

#[test]
fn t09_an_amendment_is_activity_too() {
    let policy = Policy { max_items: 3, ..Policy::task() };
    let mut w = World::under(policy, &["a", "b"]);
    let claim = w.acquire("ana", &["a"]).claim();
    for amend in [World::add, World::remove] {
        w.beat_idle("ana", &claim, 120_000).granted();
        assert!(w.claim(claim.number).idle);
        amend(&mut w, "ana", &claim, "b").granted();
        assert!(!w.claim(claim.number).idle);
    }
}

#[test]
fn t10_heartbeats_alone_keep_a_claim_no_longer_than_the_rolling_timeout() {
    let mut w = World::of("task", &["a"]);
    let claim = w.acquire("ana", &["a"]).claim();
    keep_alive(&mut w, &claim, 710_000);
    assert_eq!(w.claim(claim.number).expires_at_ms, t(890_000));
    // The last piece of the way: renewed, but only up to the cap.
    assert_eq!(w.at(730_000).beat("ana", &claim).renewed(), Ok(t(900_000)));
    let before = w.rows.clone();
    assert_eq!(w.at(740_000).beat("ana", &claim).renewed(), Err(NotRenewed::MaxHold));
    assert_eq!(w.rows, before, "a rolled-over heartbeat changes nothing");
    w.at(900_000);
    let ended = w.expire(&claim).claim();
    assert_eq!((ended.reason, ended.ended_at_ms), (Some(EndReason::MaxHold), Some(t(900_000))));
}

#[test]
fn t10_a_real_action_under_the_claim_starts_the_rolling_timeout_anew() {
    let mut w = World::of("task", &["a"]);
    let claim = w.acquire("ana", &["a"]).claim();
    keep_alive(&mut w, &claim, 700_000);
    edit(&mut w, &claim);
    let acted = w.claim(claim.number);
    assert_eq!((acted.acted_at_ms, acted.expires_at_ms), (t(700_000), t(880_000)));
    keep_alive(&mut w, &claim, 1_500_000);
    assert_eq!(w.claim(claim.number).expires_at_ms, t(1_600_000));
    w.at(1_600_000);
    assert_eq!(w.expire(&claim).claim().reason, Some(EndReason::MaxHold));
}

#[test]
fn t10_an_edit_at_the_cap_lifts_it() {
    let mut w = World::of("task", &["a"]);
    let claim = w.acquire("ana", &["a"]).claim();
    keep_alive(&mut w, &claim, 890_000);
    assert_eq!(w.beat("ana", &claim).renewed(), Err(NotRenewed::MaxHold));
    edit(&mut w, &claim);
    assert_eq!(w.claim(claim.number).expires_at_ms, t(1_070_000));
    assert_eq!(w.at(900_000).beat("ana", &claim).renewed(), Ok(t(1_080_000)));
}

#[test]
fn t10_claiming_again_is_a_real_action() {
    let mut w = World::of("task", &["a"]);
    let claim = w.acquire("ana", &["a"]).claim();
    keep_alive(&mut w, &claim, 890_000);
    assert_eq!(w.acquire("ana", &["a"]).claim().expires_at_ms, t(1_070_000));
}

#[test]
fn t10_without_a_rolling_timeout_heartbeats_keep_a_claim_for_ever() {
    let mut w = World::of("image", &["a"]);
    let claim = w.acquire("ana", &["a"]).claim();
    for minute in 1..=1_000 {
        let now_ms = minute * 120_000;
        assert_eq!(w.at(now_ms).beat("ana", &claim).renewed(), Ok(t(now_ms + 300_000)));
    }
}

/// T11, J6, L4
#[test]
fn t11_anothers_heartbeat_is_refused_and_changes_nothing() {
    let mut w = World::of("task", &["a"]);
    let claim = w.acquire("ana", &["a"]).claim();
    w.at(10_000);
    let before = w.rows.clone();
    assert_eq!(w.beat("beto", &claim).refused(), Refusal::NotHolder { holder: person("ana") });
    assert_eq!(w.rows, before);
}

/// T11, L4, J5
#[test]
fn t11_a_heartbeat_after_the_end_is_lost_and_changes_nothing() {
    let ends: [(EndReason, Deed); 5] = [
        (EndReason::Expired, |w, _| w.now_ms = t(180_000)),
        (EndReason::Released, |w, claim| drop(w.release("ana", claim).granted())),
        (EndReason::Cancelled, |w, claim| drop(w.cancel("ana", claim).granted())),
        (EndReason::ForceReleased, |w, _| drop(w.force_release("root", "a").granted())),
        (EndReason::TakenOver, |w, _| drop(w.force_claim("root", "a").granted())),
    ];
    for (why, end) in ends {
        let mut w = World::of("task", &["a"]);
        let claim = w.acquire("ana", &["a"]).claim();
        w.at(10_000);
        end(&mut w, &claim);
        let before = w.rows.clone();
        let Refusal::Lost { reason, ended_at_ms, holder } = w.beat("ana", &claim).refused() else { panic!() };
        assert_eq!(reason, why);
        assert_eq!(ended_at_ms, if why == EndReason::Expired { t(180_000) } else { t(10_000) });
        assert_eq!(holder, (why == EndReason::TakenOver).then(|| person("root")));
        assert_eq!(w.rows, before);
    }
}

/// E1, J8
#[test]
fn e01_a_heartbeat_needs_the_claims_token() {
    let mut w = World::of("task", &["a", "b"]);
    let claim = w.acquire("ana", &["a"]).claim();
    let other = w.acquire("ana", &["b"]).claim();
    for given in [0, claim.token - 1, claim.token + 1, other.token, u64::MAX] {
        let verb = Verb::Heartbeat { claim: claim.number, token: given, idle_ms: None };
        let stale = Refusal::StaleToken { given, current: claim.token };
        assert_eq!(w.run("ana", verb).refused(), stale, "{given}");
    }
}

#[test]
fn a_negative_idle_time_is_invalid() {
    let mut w = World::of("task", &["a"]);
    let claim = w.acquire("ana", &["a"]).claim();
    let Refusal::Invalid { field, .. } = w.beat_idle("ana", &claim, -1).refused() else { panic!() };
    assert_eq!(&*field, "idle_ms");
}

#[test]
fn a_heartbeat_in_a_fixed_phase_says_so_and_changes_nothing() {
    let mut w = World::of("raffle", &["1"]);
    let claim = w.acquire("ana", &["1"]).claim();
    w.at(100);
    let before = w.rows.clone();
    assert_eq!(w.beat("ana", &claim).renewed(), Err(NotRenewed::FixedPhase));
    assert_eq!(w.rows, before);
}

#[test]
fn an_unknown_claim_is_not_found() {
    let mut w = World::of("task", &["a"]);
    let claim = Claim { number: 77, ..w.acquire("ana", &["a"]).claim() };
    assert_eq!(w.beat("ana", &claim).refused(), Refusal::not_found("claim", 77));
}

/// T21: the policy can change under a running claim.
#[test]
fn t21_a_stricter_policy_never_takes_time_from_a_running_claim() {
    let mut w = World::under(Policy::task(), &["a"]);
    let claim = w.acquire("ana", &["a"]).claim();
    keep_alive(&mut w, &claim, 100_000);
    assert_eq!(w.claim(claim.number).expires_at_ms, t(280_000));
    let mut strict = Policy { rolling_ms: Some(60_000), idle_guard_ms: Some(5_000), ..Policy::task() };
    strict.phases[0].ttl_ms = 60_000;
    (strict.ttl_ms_min, strict.ttl_ms_max) = (60_000, 60_000);
    w.set_policy(strict);
    assert_eq!(w.beat("ana", &claim).renewed(), Err(NotRenewed::MaxHold));
    assert_eq!(w.beat_idle("ana", &claim, 5_000).renewed(), Err(NotRenewed::Idle));
    edit(&mut w, &claim);
    assert_eq!(w.claim(claim.number).expires_at_ms, t(280_000));
    assert_eq!(w.acquire("ana", &["a"]).claim().expires_at_ms, t(280_000));
    assert_eq!(w.at(279_999).acquire("beto", &["a"]).code(), "held");
    w.at(280_000);
    assert_eq!(w.acquire("beto", &["a"]).claim().expires_at_ms, t(340_000), "the next has the new terms");
}
