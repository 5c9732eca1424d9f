//! Administrators, and those who may only ask.

use tenure_core::command::How;
use tenure_core::limits::TEXT_BYTES_MAX;
use tenure_core::{Claim, ClaimState, EndReason, Fact, Policy, Refusal, Reply, SessionId, Text, Verb};

use crate::world::{Outcome, World, item_id, person, put_status, t};

#[test]
fn t16_force_release_frees_the_lock_whoever_holds_it_and_is_audited() {
    let mut w = World::of("task", &["a"]);
    let claim = w.acquire("ana", &["a"]).claim();
    w.at(50);
    let decision = w.force_release("root", "a").granted();
    let [sealed] = &decision.events[..] else { panic!("{decision:?}") };
    assert_eq!(sealed.event.fact.action(), "LOCK_FORCE_RELEASE");
    assert_eq!((&sealed.event.actor, sealed.event.at_ms), (&person("root"), t(50)));
    let Fact::Ended(end) = &sealed.event.fact else { panic!("{sealed:?}") };
    assert_eq!((&end.holder, end.note.as_deref()), (&person("ana"), Some("gone home")));
    let freed = w.claim(claim.number);
    assert_eq!((freed.state, freed.reason), (ClaimState::Revoked, Some(EndReason::ForceReleased)));
    assert_eq!(freed.ended_at_ms, Some(t(50)));
    assert_eq!(w.acquire("beto", &["a"]).code(), "ok");
}

#[test]
fn t16_force_release_of_a_free_item_does_nothing() {
    let mut w = World::of("task", &["a"]);
    let claim = w.acquire("ana", &["a"]).claim();
    w.force_release("root", "a").granted();
    let again = w.force_release("root", "a").granted();
    assert_eq!((again.reply, again.events.len()), (Reply::Freed { claim: None }, 0));
    assert_eq!(w.claim(claim.number).reason, Some(EndReason::ForceReleased));
}

#[test]
fn t16_force_release_after_the_deadline_finds_an_expired_claim() {
    let mut w = World::of("task", &["a"]);
    w.acquire("ana", &["a"]).granted();
    assert_eq!(w.at(180_000).force_release("root", "a").actions(), ["claim_expired"]);
}

#[test]
fn t16_force_release_of_an_unknown_item_is_not_found() {
    let mut w = World::of("task", &["a"]);
    assert_eq!(w.force_release("root", "b").refused(), Refusal::not_found("item", "b"));
}

/// T17, T12
#[test]
fn t17_force_claim_takes_the_lock_for_the_administrator_and_is_audited() {
    let mut w = World::of("task", &["a"]);
    let old = w.acquire("ana", &["a"]).claim();
    w.at(50);
    let decision = w.force_claim("root", "a").granted();
    let actions: Vec<_> = decision.events.iter().map(|sealed| sealed.event.fact.action()).collect();
    assert_eq!(actions, ["claim_taken_over", "LOCK_FORCE_CLAIM"]);
    let Fact::Granted(grant) = &decision.events[1].event.fact else { panic!() };
    let forced = grant.forced.as_ref().expect("the grant was forced");
    assert_eq!((&*forced.reason, &forced.previous), ("urgent", &Some(person("ana"))));
    let new = Outcome(Ok(decision)).claim();
    assert_eq!((&new.holder, new.since_ms), (&person("root"), t(50)));
    assert!(new.token > old.token);
    let old = w.claim(old.number);
    assert_eq!((old.state, old.reason), (ClaimState::Revoked, Some(EndReason::TakenOver)));
    let lost =
        Refusal::Lost { reason: EndReason::TakenOver, ended_at_ms: t(50), holder: Some(person("root")) };
    assert_eq!(w.beat("ana", &old).refused(), lost);
}

#[test]
fn t17_force_claim_of_ones_own_lock_renews_it_and_is_audited() {
    let mut w = World::of("task", &["a"]);
    let claim = w.acquire("root", &["a"]).claim();
    w.at(1_000);
    let outcome = w.force_claim("root", "a");
    let decision = outcome.granted();
    let Fact::Renewed { note, .. } = &decision.events[0].event.fact else { panic!("{decision:?}") };
    assert_eq!(note.as_deref(), Some("urgent"));
    assert_eq!(decision.events[0].event.fact.action(), "LOCK_FORCE_CLAIM");
    let renewed = w.claim(claim.number);
    assert_eq!((renewed.since_ms, renewed.token, renewed.expires_at_ms), (t(0), claim.token, t(181_000)));
}

#[test]
fn t17_force_claim_of_a_free_item_is_a_grant_from_nobody() {
    let mut w = World::of("task", &["a"]);
    let old = w.acquire("ana", &["a"]).claim();
    w.at(180_000);
    let decision = w.force_claim("root", "a").granted();
    let Fact::Granted(grant) = &decision.events[1].event.fact else { panic!("{decision:?}") };
    assert_eq!(grant.forced.as_ref().expect("forced").previous, None, "an expired holder lost nothing");
    assert_eq!(w.claim(old.number).reason, Some(EndReason::Expired));
}

#[test]
fn t17_force_claim_stops_at_statuses_and_leaves_the_holder() {
    let mut w = World::of("task", &["a"]);
    let claim = w.acquire("ana", &["a"]).claim();
    for (word, code) in [("draft", "not_claimable"), ("completed", "finished")] {
        w.put("ana", put_status("a", word)).granted();
        let before = w.rows.clone();
        assert_eq!(w.force_claim("root", "a").code(), code);
        assert_eq!(w.rows, before);
    }
    assert_eq!(w.claim(claim.number).state, ClaimState::Active);
    assert_eq!(w.force_claim("root", "b").refused(), Refusal::not_found("item", "b"));
}

#[test]
fn t17_force_claim_creates_where_a_claim_would() {
    let mut w = World::of("lock", &[]);
    assert_eq!(w.force_claim("root", "a").how(), How::New);
    assert_eq!(w.item("a").version, 1);
}

#[test]
fn t17_force_claim_keeps_the_administrators_session() {
    let mut w = World::of("task", &["a"]);
    let session = Some(SessionId::new("tab-9").unwrap());
    let verb =
        Verb::ForceClaim { item: item_id("a"), reason: Text::from("urgent"), session: session.clone() };
    assert_eq!(w.run("root", verb).claim().session, session);
}

/// I8: never half a claim.
#[test]
fn a_force_on_one_item_ends_the_whole_claim() {
    let mut w = World::of("raffle", &["1", "2", "3"]);
    let claim = w.acquire("ana", &["1", "2", "3"]).claim();
    w.force_release("root", "2").granted();
    assert_eq!(w.claim(claim.number).state, ClaimState::Revoked);
    assert_eq!(w.acquire("beto", &["1", "3"]).code(), "ok");

    let mut w = World::of("raffle", &["1", "2", "3"]);
    w.acquire("ana", &["1", "2", "3"]).granted();
    assert_eq!(*w.force_claim("root", "2").claim().items, [item_id("2")]);
    assert_eq!(w.acquire("beto", &["1", "3"]).code(), "ok");
    assert_eq!(w.acquire("beto", &["2"]).code(), "held");
}

#[test]
fn a_force_needs_a_reason_of_a_reasonable_size() {
    let mut w = World::of("task", &["a"]);
    w.acquire("ana", &["a"]).granted();
    let long = "x".repeat(TEXT_BYTES_MAX + 1);
    for reason in ["", "  \n", &long] {
        let (item, reason): (_, Text) = (item_id("a"), Text::from(reason));
        let release = Verb::ForceRelease { item: item.clone(), reason: reason.clone() };
        let claim = Verb::ForceClaim { item, reason, session: None };
        for verb in [release, claim] {
            let Refusal::Invalid { field, .. } = w.run("root", verb).refused() else { panic!() };
            assert_eq!(&*field, "reason");
        }
    }
    let reason = Text::from(&long[1..]);
    assert_eq!(w.run("root", Verb::ForceRelease { item: item_id("a"), reason }).code(), "ok");
}

#[test]
fn an_administrator_is_not_bound_by_the_holders_limit() {
    let policy = Policy { max_claims_per_holder: Some(1), ..Policy::task() };
    let mut w = World::under(policy, &["a", "b"]);
    w.acquire("root", &["a"]).granted();
    assert_eq!(w.acquire("root", &["b"]).code(), "limit");
    assert_eq!(w.force_claim("root", "b").code(), "ok");
}

#[test]
fn t18_a_request_for_release_is_told_and_changes_no_lock() {
    let mut w = World::of("task", &["a"]);
    let claim = w.acquire("ana", &["a"]).claim();
    let decision = w.at(10).nudge("beto", &claim, Some("lunch?")).granted();
    let [sealed] = &decision.events[..] else { panic!("{decision:?}") };
    assert_eq!((sealed.event.fact.action(), &sealed.event.actor), ("release_requested", &person("beto")));
    let message: Option<Text> = Some(Text::from("lunch?"));
    assert_eq!(sealed.event.fact, Fact::Nudged { claim: claim.number, message });
    assert_eq!(*w.claim(claim.number), claim);
    assert_eq!(w.nudge("beto", &claim, None).code(), "ok");
}

#[test]
fn t18_there_is_nobody_to_ask_once_the_claim_is_over() {
    let mut w = World::of("task", &["a"]);
    let claim = w.acquire("ana", &["a"]).claim();
    let long = "x".repeat(TEXT_BYTES_MAX + 1);
    assert_eq!(w.nudge("beto", &claim, Some(&long)).code(), "invalid");
    w.release("ana", &claim).granted();
    assert_eq!(w.nudge("beto", &claim, None).code(), "lost");
    let unknown = Claim { number: 99, ..claim };
    assert_eq!(w.nudge("beto", &unknown, None).code(), "not_found");
}
