//! What a session means: claims that are exclusive to one, one claim per session, and how many claims one
//! holder may have.

use tenure_core::command::{Acquire, How};
use tenure_core::refusal::{Unavailable, Why};
use tenure_core::{ClaimState, EndReason, Policy, Refusal, SessionId, Verb};

use crate::world::{World, in_tab, item_id, items, person, t};

fn session(word: &str) -> SessionId {
    SessionId::new(word).expect("a test's session is valid")
}

#[test]
fn r03_a_sessions_active_claim_is_returned_with_its_timer_untouched() {
    let mut w = World::of("raffle", &["1", "2"]);
    let first = w.acquire_as("ana", in_tab("s1", &["1"])).claim();
    w.at(200_000);
    let outcome = w.acquire_as("ana", in_tab("s1", &["2"]));
    let decision = outcome.granted();
    assert!(decision.events.is_empty() && decision.beats.is_empty());
    let again = w.acquire_as("ana", in_tab("s1", &["2"]));
    assert_eq!(again.0.as_ref().unwrap().events.len(), 0);
    let again = again.claim();
    assert_eq!(again, first);
    assert_eq!(again.expires_at_ms, t(600_000));
    assert_eq!(w.item("2").claim, 0);
}

#[test]
fn r03_a_session_is_one_persons_own() {
    let mut w = World::of("raffle", &["1", "2", "3"]);
    let first = w.acquire_as("ana", in_tab("s1", &["1"])).claim();
    let other_tab = w.acquire_as("ana", in_tab("s2", &["2"]));
    assert_eq!(other_tab.how(), How::New);
    let other_person = w.acquire_as("beto", in_tab("s1", &["3"])).claim();
    assert_ne!(other_person.number, first.number);
}

#[test]
fn r03_a_session_whose_claim_is_over_gets_a_new_one() {
    for ended_by in ["release", "cancel", "force", "deadline"] {
        let mut w = World::of("raffle", &["1"]);
        let first = w.acquire_as("ana", in_tab("s1", &["1"])).claim();
        match ended_by {
            "release" => drop(w.release("ana", &first).granted()),
            "cancel" => drop(w.cancel("ana", &first).granted()),
            "force" => drop(w.force_release("root", "1").granted()),
            _ => drop(w.at(900_000)),
        }
        let second = w.acquire_as("ana", in_tab("s1", &["1"]));
        assert_eq!(second.how(), How::New, "{ended_by}");
    }
}

#[test]
fn r03_a_session_in_checkout_gets_its_claim_back_in_checkout_though_nobody_swept() {
    let mut w = World::of("raffle", &["1"]);
    let first = w.acquire_as("ana", in_tab("s1", &["1"])).claim();
    w.at(700_000);
    let again = w.acquire_as("ana", in_tab("s1", &["1"])).claim();
    assert_eq!((again.number, &*again.phase), (first.number, "checkout"));
    assert_eq!(again.expires_at_ms, t(900_000));
}

#[test]
fn without_a_session_or_without_the_rule_claims_are_many() {
    let mut w = World::of("raffle", &["1", "2"]);
    assert_eq!(w.acquire("ana", &["1"]).how(), How::New);
    assert_eq!(w.acquire("ana", &["2"]).how(), How::New);
    let mut w = World::of("image", &["1", "2"]);
    assert_eq!(w.acquire_as("ana", in_tab("s1", &["1"])).how(), How::New);
    assert_eq!(w.acquire_as("ana", in_tab("s1", &["2"])).how(), How::New);
}

#[test]
fn claims_per_holder_are_limited_and_only_live_ones_count() {
    let policy = Policy { max_claims_per_holder: Some(2), ..Policy::image() };
    let mut w = World::under(policy, &["a", "b", "c", "d"]);
    let first = w.acquire("ana", &["a"]).claim();
    w.at(10_000).acquire("ana", &["b"]).granted();
    let limit = Refusal::Limit { limit: "max_claims_per_holder".into(), max: 2 };
    assert_eq!(w.acquire("ana", &["c"]).refused(), limit);
    // A renewal is no further claim, and others have their own count.
    assert_eq!(w.acquire("ana", &["b"]).how(), How::Renewed);
    assert_eq!(w.acquire("beto", &["c"]).how(), How::New);
    // An ended one is free again, and so is one that nobody swept: the first's deadline is past.
    w.release("ana", &first).granted();
    w.at(20_000).acquire("ana", &["d"]).granted();
    assert_eq!(w.acquire("ana", &["a"]).code(), "limit");
    w.at(310_000);
    let events = w.acquire("ana", &["a"]).actions();
    assert_eq!(events, ["claim_expired", "claim_granted"]);
}

#[test]
fn what_cannot_be_had_is_named_before_the_holders_limit() {
    let policy = Policy { max_claims_per_holder: Some(1), ..Policy::image() };
    let mut w = World::under(policy, &["a", "b"]);
    w.acquire("ana", &["a"]).granted();
    w.acquire("beto", &["b"]).granted();
    assert_eq!(w.acquire("ana", &["b"]).code(), "held");
}

/// J4: workers that share a key are one principal; the sessions tell them apart.
#[test]
fn j04_two_workers_with_one_key_do_not_both_hold() {
    for kind in ["lock", "analysis"] {
        let table: &[(Option<&str>, Option<&str>, &str)] = &[
            (Some("w-1"), Some("w-1"), "ok"),
            (Some("w-1"), Some("w-2"), "held"),
            (Some("w-1"), None, "held"),
            (None, Some("w-1"), "held"),
            // A caller without sessions comes again as itself.
            (None, None, "ok"),
        ];
        for &(first, second, code) in table {
            let ask = |word: Option<&str>| Acquire { session: word.map(session), ..items(&["a"]) };
            let mut w = World::of(kind, &["a"]);
            let claim = w.acquire_as("ana", ask(first)).claim();
            w.at(1_000);
            let again = w.acquire_as("ana", ask(second));
            assert_eq!(again.code(), code, "{kind} {first:?} {second:?}");
            let held = w.claim(claim.number);
            let since_ms = if code == "ok" { t(1_000) } else { t(0) };
            assert_eq!(held.heartbeat_at_ms, since_ms, "asking in vain keeps nobody's claim alive");
        }
    }
}

#[test]
fn j04_the_refusal_names_the_holder_and_the_session() {
    let mut w = World::of("lock", &[]);
    w.acquire_as("ana", in_tab("w-1", &["a"])).granted();
    let why = Why::Held {
        holder: person("ana"),
        session: Some(session("w-1")),
        since_ms: t(0),
        until_ms: t(30_000),
    };
    let held = Refusal::Held { items: vec![Unavailable { item: item_id("a"), why }] };
    assert_eq!(w.acquire_as("ana", in_tab("w-2", &["a"])).refused(), held);
    assert_eq!(w.acquire_as("beto", in_tab("w-1", &["a"])).refused(), held, "a session is one person's own");
}

#[test]
fn j04_another_session_gets_it_once_it_is_free() {
    let mut w = World::of("analysis", &["a"]);
    let claim = w.acquire_as("ana", in_tab("w-1", &["a"])).claim();
    w.at(299_999);
    assert_eq!(w.acquire_as("ana", in_tab("w-2", &["a"])).code(), "held");
    w.at(300_000);
    let next = w.acquire_as("ana", in_tab("w-2", &["a"])).claim();
    assert!(next.token > claim.token);
    assert_eq!(w.beat("ana", &claim).code(), "lost");
}

#[test]
fn an_administrator_takes_over_from_another_session_of_its_own() {
    let mut w = World::of("lock", &[]);
    let first = w.acquire_as("root", in_tab("w-1", &["a"])).claim();
    let verb =
        |word| Verb::ForceClaim { item: item_id("a"), reason: "urgent".into(), session: Some(session(word)) };
    let renewed = w.run("root", verb("w-1"));
    assert_eq!(renewed.how(), How::Renewed);
    let second = w.run("root", verb("w-2")).claim();
    let ended = w.claim(first.number);
    assert_eq!((ended.state, ended.reason), (ClaimState::Revoked, Some(EndReason::TakenOver)));
    assert_eq!((second.session, second.number > first.number), (Some(session("w-2")), true));
}

/// One claim per session and exclusive to it: each tab has its own numbers and no tab another's.
#[test]
fn both_rules_of_sessions_go_together() {
    let policy = Policy { session_exclusive: true, ..Policy::raffle() };
    let mut w = World::under(policy, &["1", "2"]);
    let first = w.acquire_as("ana", in_tab("s1", &["1"])).claim();
    assert_eq!(w.acquire_as("ana", in_tab("s1", &["2"])).claim(), first);
    assert_eq!(w.acquire_as("ana", in_tab("s2", &["1"])).code(), "held");
    assert_eq!(w.acquire_as("ana", in_tab("s2", &["2"])).how(), How::New);
}
