//! Walking through the phases: by the holder, and by itself.

use tenure_core::command::NotRenewed;
use tenure_core::{AtEnd, Claim, ClaimState, EndReason, Fact, Phase, Policy, Principal, Refusal, Verb};

use crate::world::{Try, World, complete, in_tab, person, t};

#[test]
fn r07_pay_now_moves_to_checkout_with_its_own_timer() {
    let mut w = World::of("raffle", &["1"]);
    let claim = w.acquire("ana", &["1"]).claim();
    assert_eq!(&*claim.phase, "selection");
    w.at(100_000);
    let paying = w.advance("ana", &claim).claim();
    assert_eq!((&*paying.phase, paying.phase_since_ms), ("checkout", t(100_000)));
    assert_eq!((paying.ttl_ms, paying.expires_at_ms), (300_000, t(400_000)));
    assert_eq!((paying.since_ms, paying.token), (t(0), claim.token));
    assert_eq!((paying.acted_at_ms, paying.heartbeat_at_ms), (t(100_000), t(100_000)));
}

#[test]
fn r07_a_second_time_or_after_expiry_is_refused() {
    let mut w = World::of("raffle", &["1"]);
    let claim = w.acquire("ana", &["1"]).claim();
    w.advance("ana", &claim).granted();
    let wrong = Refusal::WrongPhase { phase: "checkout".into() };
    assert_eq!(w.advance("ana", &claim).refused(), wrong);
    assert_eq!(w.at(300_000).advance("ana", &claim).code(), "lost");
    // After selection's end the claim is in checkout by itself.
    let mut w = World::of("raffle", &["1"]);
    let claim = w.acquire("ana", &["1"]).claim();
    assert_eq!(w.at(600_000).advance("ana", &claim).refused(), wrong);
}

#[test]
fn r07_only_the_holder_advances() {
    let mut w = World::of("raffle", &["1"]);
    let claim = w.acquire("ana", &["1"]).claim();
    assert_eq!(w.advance("beto", &claim).refused(), Refusal::NotHolder { holder: person("ana") });
}

#[test]
fn r08_when_selection_ends_checkout_begins_by_itself_at_that_moment() {
    let mut w = World::of("raffle", &["1", "2"]);
    let claim = w.acquire("ana", &["1", "2"]).claim();
    assert_eq!(w.at(599_999).expire(&claim).actions(), [""; 0]);
    w.at(600_400);
    let decision = w.expire(&claim).granted();
    let [advanced] = &decision.events[..] else { panic!("{decision:?}") };
    assert_eq!(advanced.event.actor, Principal::system());
    let Fact::Advanced { from, phase, since_ms, expires_at_ms, .. } = &advanced.event.fact else { panic!() };
    assert_eq!((&**from, &**phase), ("selection", "checkout"));
    assert_eq!((*since_ms, *expires_at_ms), (t(600_000), t(900_000)));
    let claim = w.claim(claim.number);
    assert_eq!((claim.state, &*claim.phase), (ClaimState::Active, "checkout"));
    assert_eq!((claim.acted_at_ms, claim.heartbeat_at_ms), (t(0), t(0)), "the holder did nothing");
}

/// R8, R9, R23: selection and checkout both ran out and nobody looked.
#[test]
fn r09_both_timers_past_and_nobody_swept_gives_both_ends_at_their_own_times() {
    let mut w = World::of("raffle", &["1", "2"]);
    let claim = w.acquire("ana", &["1", "2"]).claim();
    w.at(5_000_000);
    let decision = w.acquire("beto", &["2"]).granted();
    let actions: Vec<_> = decision.events.iter().map(|sealed| sealed.event.fact.action()).collect();
    assert_eq!(actions, ["claim_advanced", "claim_expired", "claim_granted"]);
    let Fact::Advanced { since_ms, .. } = decision.events[0].event.fact else { panic!() };
    let Fact::Ended(end) = &decision.events[1].event.fact else { panic!() };
    assert_eq!((since_ms, end.ended_at_ms), (t(600_000), t(900_000)));
    assert_eq!(end.items, claim.items);
}

/// R9: one end that names all its numbers, which are free.
#[test]
fn r09_when_checkout_ends_the_reservation_expires_and_one_event_names_all_its_numbers() {
    let mut w = World::of("raffle", &["1", "2", "3"]);
    let claim = w.acquire("ana", &["1", "2", "3"]).claim();
    w.advance("ana", &claim).granted();
    let decision = w.at(300_000).expire(&claim).granted();
    let [ended] = &decision.events[..] else { panic!("{decision:?}") };
    let Fact::Ended(end) = &ended.event.fact else { panic!("{ended:?}") };
    assert_eq!((end.items.len(), end.reason), (3, EndReason::Expired));
    assert_eq!(w.claim(claim.number).state, ClaimState::Expired);
    assert_eq!(w.item("1").status.as_str(), "available");
    assert_eq!(w.acquire("beto", &["1", "2", "3"]).code(), "ok");
}

#[test]
fn r08_in_checkout_by_itself_everything_of_checkout_works_though_nobody_swept() {
    let mut w = World::of("raffle", &["1"]);
    let claim = w.acquire("ana", &["1"]).claim();
    w.at(750_000);
    assert_eq!(w.acquire("beto", &["1"]).refused().retry_at_ms(), Some(t(900_000)));
    let actions = w.complete("ana", complete(&claim, "sold")).actions();
    assert_eq!(actions, ["claim_advanced", "claim_completed"]);
    assert_eq!(w.item("1").status.as_str(), "sold");
}

fn enter(claim: &Claim, phase: &str, ttl_ms: Option<i64>) -> Verb {
    Verb::Enter { claim: claim.number, phase: phase.into(), ttl_ms }
}

#[test]
fn a_side_phase_is_entered_by_its_name_and_left_the_same_way() {
    let mut w = World::of("raffle", &["1"]);
    let claim = w.acquire("ana", &["1"]).claim();
    w.at(10_000).advance("ana", &claim).granted();
    assert_eq!(w.advance("ana", &claim).code(), "wrong_phase", "the walk passes side phases by");
    let paying = w.at(300_000).run("ana", enter(&claim, "paying", None)).claim();
    assert_eq!((&*paying.phase, paying.expires_at_ms), ("paying", t(660_000)));
    assert_eq!(paying.token, claim.token, "it is the same hold");
    assert_eq!(w.advance("ana", &claim).code(), "wrong_phase");
    // The card was declined: back for what was left.
    let back = w.at(305_000).run("ana", enter(&claim, "checkout", Some(10_000))).claim();
    assert_eq!((&*back.phase, back.expires_at_ms), ("checkout", t(315_000)));
    let review = w.run("ana", enter(&claim, "verification", None)).claim();
    assert_eq!(review.expires_at_ms, t(305_000 + 12 * 3_600_000));
    let over = w.at(305_000 + 12 * 3_600_000).expire(&claim).claim();
    assert_eq!((over.state, &*over.phase), (ClaimState::Expired, "verification"));
}

#[test]
fn entering_a_phase_is_for_side_phases_the_holder_and_live_claims() {
    let mut w = World::of("raffle", &["1"]);
    let claim = w.acquire("ana", &["1"]).claim();
    let table: &[(&str, &str, Option<i64>, &str)] = &[
        ("ana", "checkout", None, "wrong_phase"), // the walk is walked with advance
        ("ana", "selection", None, "wrong_phase"),
        ("ana", "nowhere", None, "invalid"),
        ("ana", "paying", Some(0), "invalid"),
        ("ana", "paying", Some(360_001), "invalid"),
        ("beto", "paying", None, "not_holder"),
        ("ana", "paying", Some(360_000), "ok"),
        ("ana", "paying", None, "wrong_phase"), // nobody prolongs it by entering it again
    ];
    for (who, phase, ttl_ms, code) in table {
        assert_eq!(w.run(who, enter(&claim, phase, *ttl_ms)).code(), *code, "{who} {phase} {ttl_ms:?}");
    }
    w.at(360_000);
    assert_eq!(w.run("ana", enter(&claim, "checkout", None)).code(), "lost");
}

/// Two renewable phases and a fixed one between them.
fn three_phases() -> Policy {
    let phase =
        |name: &str, ttl_ms, renew, at_end| Phase { name: name.into(), ttl_ms, renew, at_end, side: false };
    Policy {
        phases: vec![
            phase("draft", 60_000, true, AtEnd::Advance),
            phase("review", 30_000, false, AtEnd::Release),
            phase("publish", 40_000, true, AtEnd::Release),
        ],
        heartbeat_ms: 10_000,
        ttl_ms_min: 60_000,
        ttl_ms_max: 60_000,
        ..Policy::image()
    }
}

#[test]
fn phases_are_walked_in_order_each_with_its_own_rules() {
    let mut w = World::under(three_phases(), &["a"]);
    let claim = w.acquire("ana", &["a"]).claim();
    assert_eq!(w.at(50_000).beat("ana", &claim).renewed(), Ok(t(110_000)));
    // Renewed up to 110 s, then by itself into review, which cannot be renewed.
    w.at(120_000);
    assert_eq!(w.beat("ana", &claim).renewed(), Err(NotRenewed::FixedPhase));
    assert_eq!(w.advance("ana", &claim).claim().expires_at_ms, t(160_000));
    assert_eq!(w.at(130_000).beat("ana", &claim).renewed(), Ok(t(170_000)), "the phase's own ttl");
    assert_eq!(w.advance("ana", &claim).code(), "wrong_phase");
    assert_eq!(w.at(170_000).expire(&claim).claim().reason, Some(EndReason::Expired));
}

#[test]
fn a_phase_that_releases_at_its_end_does_not_advance_by_itself() {
    let mut w = World::under(three_phases(), &["a"]);
    let claim = w.acquire("ana", &["a"]).claim();
    w.advance("ana", &claim).granted();
    let ended = w.at(30_000).expire(&claim).claim();
    assert_eq!((ended.state, &*ended.phase), (ClaimState::Expired, "review"));
}

#[test]
fn a_heartbeat_into_the_next_phase_by_itself_is_judged_there_and_leaves_a_trace_only_if_it_renews() {
    let mut policy = three_phases();
    policy.phases[1].renew = true;
    let mut w = World::under(policy, &["a"]);
    let claim = w.acquire("ana", &["a"]).claim();
    w.at(70_000);
    let decision = w.beat("ana", &claim).granted();
    assert_eq!((decision.events.len(), decision.beats.len()), (1, 1));
    let claim = w.claim(claim.number);
    assert_eq!((&*claim.phase, claim.expires_at_ms), ("review", t(100_000)));
}

/// T21: a policy that no longer knows the phase lets the claim run out as it stands.
#[test]
fn a_phase_that_the_policy_lost_is_fixed_and_ends_by_release() {
    let mut w = World::under(three_phases(), &["a", "b"]);
    let claim = w.acquire("ana", &["a"]).claim();
    w.set_policy(Policy { max_items: 2, ..Policy::image() });
    assert_eq!(w.beat("ana", &claim).renewed(), Err(NotRenewed::FixedPhase));
    assert_eq!(w.acquire("ana", &["a"]).claim().expires_at_ms, t(60_000));
    let wrong = Refusal::WrongPhase { phase: "draft".into() };
    assert_eq!(w.advance("ana", &claim).refused(), wrong);
    assert_eq!(w.add("ana", &claim, "b").refused(), wrong);
    let ended = w.at(60_000).expire(&claim).claim();
    assert_eq!((ended.reason, &*ended.phase), (Some(EndReason::Expired), "draft"));
}

#[test]
fn a_phase_that_the_policy_lost_can_still_be_released_cancelled_and_completed() {
    let ends: [Try; 3] = [
        |w, claim| w.release("ana", claim),
        |w, claim| w.cancel("ana", claim),
        |w, claim| w.complete("ana", complete(claim, "done")),
    ];
    for end in ends {
        let mut w = World::under(three_phases(), &["a"]);
        let claim = w.acquire_as("ana", in_tab("s", &["a"])).claim();
        w.set_policy(Policy::image());
        assert_eq!(end(&mut w, &claim).code(), "ok");
    }
}
