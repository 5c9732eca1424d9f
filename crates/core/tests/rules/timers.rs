//! Deadlines: past at their very millisecond, and true whether or not anyone has swept.

use tenure_core::command::PutItem;
use tenure_core::refusal::Why;
use tenure_core::{
    AtEnd, Claim, ClaimState, EndReason, Fact, Phase, Policy, Principal, Refusal, frees_at_ms, seen_at,
};

use crate::world::{Deed, Try, World, complete, person, put, t, under};

/// T5, R23: the deadline's own millisecond is past, for every command of the holder.
#[test]
fn r23_at_its_deadline_a_claim_is_void_for_every_command_though_nobody_swept() {
    let commands: [(&str, Try); 8] = [
        ("heartbeat", |w, claim| w.beat("ana", claim)),
        ("release", |w, claim| w.release("ana", claim)),
        ("cancel", |w, claim| w.cancel("ana", claim)),
        ("complete", |w, claim| w.complete("ana", complete(claim, "done"))),
        ("add", |w, claim| w.add("ana", claim, "b")),
        ("remove", |w, claim| w.remove("ana", claim, "a")),
        ("nudge", |w, claim| w.nudge("beto", claim, None)),
        ("advance", |w, claim| w.advance("ana", claim)),
    ];
    for (name, command) in commands {
        let mut w = World::of("image", &["a", "b"]);
        let claim = w.acquire("ana", &["a"]).claim();
        assert!(w.claim(claim.number).holds_at(t(299_999)));
        assert!(!w.claim(claim.number).holds_at(t(300_000)));
        w.at(300_000);
        let before = w.rows.clone();
        let lost = Refusal::Lost { reason: EndReason::Expired, ended_at_ms: t(300_000), holder: None };
        assert_eq!(command(&mut w, &claim).refused(), lost, "{name}");
        assert_eq!(w.rows, before, "{name}: not even the expiry is kept by a refusal");
    }
}

#[test]
fn r23_a_millisecond_before_the_deadline_everything_still_works() {
    let mut w = World::of("image", &["a"]);
    let claim = w.acquire("ana", &["a"]).claim();
    w.at(299_999);
    assert_eq!(w.acquire("beto", &["a"]).code(), "held");
    assert_eq!(w.release("ana", &claim).claim().state, ClaimState::Released);
}

/// R23: the expiry that nobody swept is made known by whoever comes next.
#[test]
fn r23_anothers_claim_makes_the_overdue_expiry_known_in_the_same_commit() {
    let mut w = World::of("image", &["a"]);
    let old = w.acquire("ana", &["a"]).claim();
    w.at(1_000_000);
    let decision = w.acquire("beto", &["a"]).granted();
    let [ended, granted] = &decision.events[..] else { panic!("{decision:?}") };
    assert_eq!(ended.event.actor, Principal::system());
    assert_eq!(granted.event.actor, person("beto"));
    let Fact::Ended(end) = &ended.event.fact else { panic!("{ended:?}") };
    assert_eq!((end.claim, end.reason, &end.holder), (old.number, EndReason::Expired, &person("ana")));
    assert_eq!(end.ended_at_ms, t(300_000), "it ended at its deadline, not when somebody looked");
    assert_eq!(ended.event.at_ms, t(1_000_000), "the event happened when it was decided");
    let old = w.claim(old.number);
    assert_eq!((old.state, old.ended_at_ms), (ClaimState::Expired, Some(t(300_000))));
}

/// J9, J8: a worker dies; the next delivery takes over; the dead one's late result is refused.
#[test]
fn j09_after_a_dead_workers_ttl_the_next_takes_over_and_the_analysis_is_ready_once() {
    let mut w = World::of("analysis", &["a"]);
    let dead = w.acquire("w1", &["a"]).claim();
    w.at(300_000);
    let next = w.acquire("w2", &["a"]).claim();
    w.complete("w2", complete(&next, "READY")).granted();
    assert_eq!(w.complete("w1", complete(&dead, "FAILED")).code(), "lost");
    assert_eq!(w.item("a").status.as_str(), "READY");
    assert_eq!(w.acquire("w3", &["a"]).code(), "finished");
}

/// T11, L4, T12
#[test]
fn t12_a_lost_claim_tells_why_when_and_who_holds_it_now() {
    let mut w = World::of("task", &["a"]);
    let claim = w.acquire("ana", &["a"]).claim();
    w.at(200_000).acquire("beto", &["a"]).granted();
    let lost =
        Refusal::Lost { reason: EndReason::Expired, ended_at_ms: t(180_000), holder: Some(person("beto")) };
    assert_eq!(w.beat("ana", &claim).refused(), lost);
    // Free again is lost all the same.
    w.at(400_000);
    let Refusal::Lost { holder: None, .. } = w.beat("ana", &claim).refused() else { panic!() };
}

#[test]
fn expire_too_early_or_for_nothing_does_nothing() {
    let mut w = World::of("image", &["a"]);
    let claim = w.acquire("ana", &["a"]).claim();
    w.at(299_999);
    assert_eq!(w.expire(&claim).actions(), [""; 0]);
    let unknown = Claim { number: 99, ..claim.clone() };
    assert_eq!(w.expire(&unknown).actions(), [""; 0]);
    w.at(300_000);
    assert_eq!(w.expire(&claim).actions(), ["claim_expired"]);
    assert_eq!(w.expire(&claim).actions(), [""; 0]);
}

/// A kind whose items stay blocked for ten seconds after an unclean end.
fn delayed() -> Policy {
    Policy { lock_delay_ms: 10_000, ..Policy::image() }
}

#[test]
fn lock_delay_keeps_items_from_everyone_after_an_unclean_end() {
    let mut w = World::under(delayed(), &["a"]);
    let claim = w.acquire("ana", &["a"]).claim();
    w.at(305_000);
    for who in ["beto", "ana"] {
        let refusal = w.acquire(who, &["a"]).refused();
        assert_eq!((refusal.code(), refusal.retry_at_ms()), ("held", Some(t(310_000))));
        let why = Why::Delayed { holder: person("ana"), until_ms: t(310_000) };
        let Refusal::Held { items } = refusal else { panic!("{refusal:?}") };
        assert_eq!(items[0].why, why);
    }
    w.expire(&claim).granted();
    assert_eq!(w.claim(claim.number).blocked_until_ms, t(310_000));
    assert_eq!(w.at(309_999).acquire("beto", &["a"]).code(), "held");
    assert_eq!(w.at(310_000).acquire("beto", &["a"]).code(), "ok");
}

#[test]
fn lock_delay_runs_from_the_deadline_and_not_from_the_sweep() {
    let mut w = World::under(delayed(), &["a"]);
    w.acquire("ana", &["a"]).granted();
    let decision = w.at(310_000).acquire("beto", &["a"]).granted();
    assert_eq!(decision.events.len(), 2);
}

#[test]
fn lock_delay_follows_a_force_release_but_no_clean_end() {
    let ends: [(&str, Deed); 5] = [
        ("held", |w, _| drop(w.force_release("root", "a").granted())),
        ("ok", |w, claim| drop(w.release("ana", claim).granted())),
        ("ok", |w, claim| drop(w.cancel("ana", claim).granted())),
        ("ok", |w, claim| drop(w.complete("ana", complete(claim, "done")).granted())),
        ("ok", |w, _| {
            let taken = w.force_claim("root", "a").claim();
            w.release("root", &taken).granted();
        }),
    ];
    for (index, (code, end)) in ends.into_iter().enumerate() {
        let mut w = World::under(delayed(), &["a"]);
        let claim = w.acquire("ana", &["a"]).claim();
        end(&mut w, &claim);
        assert_eq!(w.acquire("beto", &["a"]).code(), code, "end {index}");
    }
}

#[test]
fn lock_delay_does_not_stop_an_administrator() {
    let mut w = World::under(delayed(), &["a"]);
    w.acquire("ana", &["a"]).granted();
    w.force_release("root", "a").granted();
    assert_eq!(w.acquire("ana", &["a"]).code(), "held");
    assert_eq!(w.force_claim("root", "a").claim().holder, person("root"));
}

/// A fixed phase is never renewed, whoever asks.
#[test]
fn a_fixed_deadline_stays_whatever_the_holder_does() {
    let phase =
        Phase { name: "slot".into(), ttl_ms: 60_000, renew: false, at_end: AtEnd::Release, side: false };
    let policy = Policy { phases: vec![phase], ttl_ms_min: 60_000, ttl_ms_max: 60_000, ..Policy::image() };
    let mut w = World::under(policy, &["a"]);
    let claim = w.acquire("ana", &["a"]).claim();
    w.at(30_000);
    assert_eq!(w.acquire("ana", &["a"]).claim(), claim);
    w.beat("ana", &claim).granted();
    let put = PutItem { guard: Some(under(&claim)), ..put("a", "1") };
    w.put("ana", put).granted();
    assert_eq!(w.claim(claim.number).expires_at_ms, t(60_000));
    w.at(60_000);
    assert_eq!(w.expire(&claim).claim().reason, Some(EndReason::Expired));
}

/// R23: what a reader sees before anyone swept is what the sweep will say.
#[test]
fn r23_a_reader_sees_an_unswept_claim_as_the_sweep_will_leave_it() {
    for kind in ["task", "raffle", "analysis", "image"] {
        for offset_ms in
            [0, 1, 179_999, 180_000, 299_999, 300_000, 600_000, 600_001, 899_999, 900_000, 5_000_000]
        {
            let mut w = World::of(kind, &["a"]);
            let claim = w.acquire("ana", &["a"]).claim();
            w.at(offset_ms);
            let policy = Policy::preset(kind).expect("a built-in kind");
            let seen = seen_at(&w.claim(claim.number), &policy, w.now_ms);
            assert_eq!(seen, w.expire(&claim).claim(), "{kind} at {offset_ms}");
        }
    }
}

#[test]
fn a_claim_frees_its_items_after_all_phases_that_follow_by_themselves_and_the_lock_delay() {
    let mut w = World::of("raffle", &["a"]);
    let claim = w.acquire("ana", &["a"]).claim();
    assert_eq!(frees_at_ms(&claim, &Policy::raffle()), t(900_000));
    let mut w = World::under(delayed(), &["a"]);
    let claim = w.acquire("ana", &["a"]).claim();
    assert_eq!(frees_at_ms(&claim, &delayed()), t(310_000));
    let ended = w.force_release("root", "a").granted();
    assert_eq!(ended.events.len(), 1);
    assert_eq!(frees_at_ms(&w.claim(claim.number), &delayed()), t(10_000));
}
