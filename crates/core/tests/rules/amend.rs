//! Adding items to a claim and taking them out. The deadline is the first grant's.

use tenure_core::command::PutItem;
use tenure_core::{Claim, Fact, Guard, Policy, Refusal, Status, Verb};

use crate::world::{World, item_id, person, put, put_status, t};

#[test]
fn r06_a_number_can_be_added_and_the_deadline_stays() {
    let mut w = World::of("raffle", &["1", "2"]);
    let claim = w.acquire("ana", &["1"]).claim();
    w.at(60_000);
    let amended = w.add("ana", &claim, "2").claim();
    assert_eq!(*amended.items, [item_id("1"), item_id("2")]);
    assert_eq!((amended.since_ms, amended.expires_at_ms), (t(0), t(600_000)));
    assert_eq!(amended.acted_at_ms, t(60_000));
    assert_eq!(w.acquire("beto", &["2"]).code(), "held");
}

#[test]
fn r06_adding_never_resets_the_timer_of_a_renewable_phase_either() {
    let mut w = World::under(Policy { max_items: 2, ..Policy::image() }, &["a", "b"]);
    let claim = w.acquire("ana", &["a"]).claim();
    assert_eq!(w.at(60_000).add("ana", &claim, "b").claim().expires_at_ms, t(300_000));
}

#[test]
fn r06_a_number_can_be_removed_and_is_free_at_once() {
    let mut w = World::of("raffle", &["1", "2"]);
    let claim = w.acquire("ana", &["1", "2"]).claim();
    w.at(60_000);
    let amended = w.remove("ana", &claim, "1").claim();
    assert_eq!(*amended.items, [item_id("2")]);
    assert_eq!((amended.token, amended.expires_at_ms), (claim.token, t(600_000)));
    assert_eq!(w.item("1").claim, 0);
    let next = w.acquire("beto", &["1"]).claim();
    assert!(next.token > claim.token);
    // The first claim's end leaves the removed number with its new holder.
    w.release("ana", &claim).granted();
    assert_eq!(w.acquire("carla", &["1"]).code(), "held");
}

#[test]
fn r06_the_limit_duplicates_and_availability_are_checked() {
    let mut w = World::of("raffle", &["1", "2", "3", "4"]);
    w.set_policy(Policy { max_items: 2, ..Policy::raffle() });
    let claim = w.acquire("ana", &["1"]).claim();
    w.acquire("beto", &["3"]).granted();
    w.put("root", put_status("4", "sold")).granted();
    let mut check = |id: &str, code: &str| {
        let before = w.rows.clone();
        assert_eq!(w.add("ana", &claim, id).code(), code, "{id}");
        assert_eq!(w.rows, before);
    };
    check("1", "invalid");
    check("3", "held");
    check("4", "finished");
    check("5", "not_found");
    w.add("ana", &claim, "2").granted();
    let limit = Refusal::Limit { limit: "max_items".into(), max: 2 };
    assert_eq!(w.add("ana", &claim, "3").refused(), limit);
}

#[test]
fn r06_nothing_is_added_or_removed_after_selection() {
    let mut w = World::of("raffle", &["1", "2", "3"]);
    let claim = w.acquire("ana", &["1", "2"]).claim();
    // By itself, though nobody swept, or by the buyer.
    w.at(600_000);
    let wrong = Refusal::WrongPhase { phase: "checkout".into() };
    assert_eq!(w.add("ana", &claim, "3").refused(), wrong);
    assert_eq!(w.remove("ana", &claim, "2").refused(), wrong);
    w.at(900_000);
    assert_eq!(w.add("ana", &claim, "3").code(), "lost");
    assert_eq!(w.remove("ana", &claim, "2").code(), "lost");
}

#[test]
fn only_the_holder_amends() {
    let mut w = World::of("raffle", &["1", "2", "3"]);
    let claim = w.acquire("ana", &["1", "2"]).claim();
    let not_holder = Refusal::NotHolder { holder: person("ana") };
    assert_eq!(w.add("beto", &claim, "3").refused(), not_holder);
    assert_eq!(w.remove("beto", &claim, "2").refused(), not_holder);
}

#[test]
fn the_last_item_stays_and_a_foreign_one_is_not_found() {
    let mut w = World::of("raffle", &["1", "2"]);
    let claim = w.acquire("ana", &["1"]).claim();
    assert_eq!(w.remove("ana", &claim, "2").refused(), Refusal::not_found("item", "2"));
    let Refusal::Invalid { field, .. } = w.remove("ana", &claim, "1").refused() else { panic!() };
    assert_eq!(&*field, "item");
}

#[test]
fn an_item_held_by_ones_own_other_claim_is_held() {
    let mut w = World::of("raffle", &["1", "2"]);
    let claim = w.acquire("ana", &["1"]).claim();
    w.acquire("ana", &["2"]).granted();
    assert_eq!(w.add("ana", &claim, "2").code(), "held");
}

#[test]
fn an_overdue_item_of_another_can_be_added() {
    let mut w = World::under(Policy { max_items: 2, ..Policy::image() }, &["a", "b"]);
    w.acquire("beto", &["b"]).granted();
    let claim = w.at(299_999).acquire("ana", &["a"]).claim();
    assert_eq!(w.add("ana", &claim, "b").code(), "held");
    assert_eq!(w.at(300_000).add("ana", &claim, "b").actions(), ["claim_expired", "item_added"]);
}

#[test]
fn an_added_item_is_created_where_the_policy_says_so() {
    let mut w = World::of("lock", &[]);
    let claim = w.acquire("ana", &["a"]).claim();
    w.add("ana", &claim, "b").granted();
    assert_eq!(w.item("b").version, 1);
    let Fact::ItemAdded { item, .. } = w.last_fact() else { panic!() };
    assert_eq!((&item.before, item.status.as_ref().map(Status::as_str)), (&None, Some("open")));
}

fn write_under(w: &mut World, claim: &Claim, token: u64) -> &'static str {
    let guard = Some(Guard::Claim { claim: claim.number, token });
    w.put("ana", PutItem { guard, ..put("a", "1") }).code()
}

/// E1: a claim that gains an item has a new token; its older ones still name this very hold.
#[test]
fn e01_amending_changes_the_token_and_the_older_ones_of_the_claim_stay_good() {
    let mut w = World::of("lock", &[]);
    let claim = w.acquire("ana", &["a"]).claim();
    let amended = w.add("ana", &claim, "b").claim();
    assert!(amended.token > claim.token);
    assert_eq!(amended.number, claim.number);
    assert_eq!((w.item("a").fence, w.item("b").fence), (claim.token, amended.token));
    for token in [claim.token, amended.token] {
        assert_eq!(write_under(&mut w, &claim, token), "ok");
        let verb = Verb::Heartbeat { claim: claim.number, token, idle_ms: None };
        assert_eq!(w.run("ana", verb).code(), "ok");
    }
    for foreign in [0, claim.token - 1, amended.token + 1] {
        assert_eq!(write_under(&mut w, &claim, foreign), "stale_token");
    }
}

#[test]
fn e01_removing_an_item_changes_no_token() {
    let mut w = World::of("lock", &[]);
    let claim = w.acquire("ana", &["a", "b"]).claim();
    let amended = w.remove("ana", &claim, "b").claim();
    assert_eq!(amended.token, claim.token);
    assert_eq!(w.add("ana", &claim, "b").claim().token, amended.token + 2);
}
