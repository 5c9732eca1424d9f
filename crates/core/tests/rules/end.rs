//! Ends by the holder: release, cancel, complete. Each claim has one.

use tenure_core::command::Complete;
use tenure_core::{ClaimState, EndReason, Fact, Refusal};

use crate::world::{World, complete, item_id, json, person, status, t, write};

/// T14, J6, L4
#[test]
fn t14_releasing_frees_the_item_at_once() {
    let mut w = World::of("task", &["a"]);
    let claim = w.acquire("ana", &["a"]).claim();
    w.at(10);
    let released = w.release("ana", &claim).claim();
    assert_eq!((released.state, released.reason), (ClaimState::Released, Some(EndReason::Released)));
    assert_eq!((released.ended_at_ms, released.blocked_until_ms), (Some(t(10)), 0));
    assert_eq!(w.acquire("beto", &["a"]).claim().holder, person("beto"));
}

/// T14, J6, L4
#[test]
fn t14_only_the_holder_can_end_a_claim_and_it_stays() {
    let mut w = World::of("task", &["a"]);
    let claim = w.acquire("ana", &["a"]).claim();
    let before = w.rows.clone();
    let not_holder = Refusal::NotHolder { holder: person("ana") };
    assert_eq!(w.release("beto", &claim).refused(), not_holder);
    assert_eq!(w.cancel("beto", &claim).refused(), not_holder);
    assert_eq!(w.complete("beto", complete(&claim, "completed")).refused(), not_holder);
    assert_eq!(w.rows, before);
}

#[test]
fn t14_releasing_twice_is_releasing_once() {
    let mut w = World::of("task", &["a"]);
    let claim = w.acquire("ana", &["a"]).claim();
    let first = w.at(10).release("ana", &claim).claim();
    let second = w.at(20).release("ana", &claim);
    assert_eq!(second.0.as_ref().unwrap().events.len(), 0);
    assert_eq!(second.claim(), first);
    assert_eq!(w.release("beto", &claim).code(), "not_holder");
}

#[test]
fn t14_releasing_twice_leaves_the_next_holder_alone() {
    let mut w = World::of("task", &["a"]);
    let claim = w.acquire("ana", &["a"]).claim();
    w.release("ana", &claim).granted();
    w.acquire("beto", &["a"]).granted();
    w.release("ana", &claim).granted();
    assert_eq!(w.acquire("carla", &["a"]).code(), "held");
}

#[test]
fn r10_cancelling_twice_is_cancelling_once_and_other_ends_do_not_mix() {
    let mut w = World::of("raffle", &["1"]);
    let claim = w.acquire("ana", &["1"]).claim();
    let cancelled = w.cancel("ana", &claim).claim();
    assert_eq!((cancelled.state, cancelled.reason), (ClaimState::Cancelled, Some(EndReason::Cancelled)));
    assert_eq!(w.cancel("ana", &claim).actions(), [""; 0]);
    let lost = Refusal::Lost { reason: EndReason::Cancelled, ended_at_ms: t(0), holder: None };
    assert_eq!(w.release("ana", &claim).refused(), lost);
    assert_eq!(w.complete("ana", complete(&claim, "sold")).refused(), lost);
    assert_eq!(w.advance("ana", &claim).refused(), lost);
}

#[test]
fn release_after_the_deadline_is_lost_and_not_a_success() {
    let mut w = World::of("task", &["a"]);
    let claim = w.acquire("ana", &["a"]).claim();
    w.at(180_000);
    assert_eq!(w.release("ana", &claim).code(), "lost");
    w.expire(&claim).granted();
    assert_eq!(w.release("ana", &claim).code(), "lost");
    assert_eq!(w.cancel("ana", &claim).code(), "lost");
}

/// R10
#[test]
fn r10_cancel_works_in_every_phase_and_frees_the_numbers() {
    for paying in [false, true] {
        let mut w = World::of("raffle", &["1", "2"]);
        let claim = w.acquire("ana", &["1", "2"]).claim();
        if paying {
            w.advance("ana", &claim).granted();
        }
        let decision = w.cancel("ana", &claim).granted();
        let Fact::Ended(end) = &decision.events[0].event.fact else { panic!() };
        assert_eq!(end.items, claim.items, "everyone is told which");
        assert_eq!(w.acquire("beto", &["1", "2"]).code(), "ok");
    }
}

/// R11, J8, I10
#[test]
fn r11_confirming_sells_the_numbers_for_ever_in_the_same_commit() {
    let mut w = World::of("raffle", &["1", "2"]);
    let claim = w.acquire("ana", &["1", "2"]).claim();
    w.advance("ana", &claim).granted();
    w.at(5);
    let decision = w.complete("ana", complete(&claim, "sold")).granted();
    let [ended] = &decision.events[..] else { panic!("{decision:?}") };
    let Fact::Ended(end) = &ended.event.fact else { panic!("{ended:?}") };
    let (before, after): (Vec<_>, Vec<_>) = end
        .writes
        .iter()
        .map(|completed| (completed.before.status.as_str(), completed.write.status.as_str()))
        .unzip();
    assert_eq!((before, after), (vec!["available"; 2], vec!["sold"; 2]));
    let sold = w.claim(claim.number);
    assert_eq!((sold.state, sold.reason), (ClaimState::Completed, Some(EndReason::Completed)));
    let item = w.item("1");
    assert_eq!((item.version, item.updated_at_ms, &*item.updated_by), (2, t(5), "ana"));
    for who in ["ana", "beto"] {
        assert_eq!(w.acquire(who, &["1"]).code(), "finished");
    }
    assert_eq!(w.force_claim("root", "1").code(), "finished");
}

/// R11, I10: never sold after its deadline.
#[test]
fn r11_nothing_is_sold_after_the_deadline_or_twice() {
    let mut w = World::of("raffle", &["1"]);
    let claim = w.acquire("ana", &["1"]).claim();
    w.advance("ana", &claim).granted();
    w.at(300_000);
    assert_eq!(w.complete("ana", complete(&claim, "sold")).code(), "lost");
    assert_eq!(w.item("1").status.as_str(), "available");
    let next = w.acquire("beto", &["1"]).claim();
    w.complete("beto", complete(&next, "sold")).granted();
    let again = w.complete("beto", complete(&next, "sold")).refused();
    let lost = Refusal::Lost { reason: EndReason::Completed, ended_at_ms: t(300_000), holder: None };
    assert_eq!(again, lost);
}

/// T19, T14
#[test]
fn t19_finishing_partially_leaves_the_task_claimable() {
    let mut w = World::of("task", &["a"]);
    let claim = w.acquire("ana", &["a"]).claim();
    w.complete("ana", complete(&claim, "partially_completed")).granted();
    assert_eq!(w.item("a").status.as_str(), "partially_completed");
    let claim = w.acquire("beto", &["a"]).claim();
    w.complete("beto", complete(&claim, "completed")).granted();
    assert_eq!(w.acquire("ana", &["a"]).code(), "finished");
}

#[test]
fn completing_can_say_something_else_for_single_items() {
    let mut w = World::of("raffle", &["1", "2", "3"]);
    let claim = w.acquire("ana", &["1", "2", "3"]).claim();
    let how = Complete {
        data: Some(json(r#"{"order":7}"#)),
        items: vec![write("2", Some("available"), Some("null")), write("3", None, Some("3"))],
        ..complete(&claim, "sold")
    };
    w.complete("ana", how).granted();
    let found = |id: &str| {
        let item = w.item(id);
        (item.status.to_string(), item.data.as_ref().map(|data| data.as_str().to_owned()))
    };
    assert_eq!(found("1"), ("sold".into(), Some(r#"{"order":7}"#.into())));
    assert_eq!(found("2"), ("available".into(), Some("null".into())));
    assert_eq!(found("3"), ("sold".into(), Some("3".into())), "what it does not name is the claim's");
}

#[test]
fn completing_without_a_status_or_document_leaves_the_items_as_they_are() {
    let mut w = World::of("image", &["a"]);
    let claim = w.acquire("ana", &["a"]).claim();
    let how = Complete { status: None, ..complete(&claim, "done") };
    w.complete("ana", how).granted();
    assert_eq!((w.item("a").version, w.item("a").status.as_str()), (1, "new"));
    assert_eq!(w.claim(claim.number).state, ClaimState::Completed);
}

#[test]
fn completing_refuses_what_makes_no_sense_and_names_it() {
    let mut w = World::of("raffle", &["1", "2"]);
    let claim = w.acquire("ana", &["1"]).claim();
    let base = complete(&claim, "sold");
    let table = [
        ("status", Complete { status: Some(status("gone")), ..base.clone() }),
        ("status", Complete { items: vec![write("1", Some("gone"), None)], ..base.clone() }),
        ("items[0]", Complete { items: vec![write("2", None, None)], ..base.clone() }),
        (
            "items[1]",
            Complete { items: vec![write("1", None, None), write("1", None, None)], ..base.clone() },
        ),
    ];
    for (named, how) in table {
        let before = w.rows.clone();
        let Refusal::Invalid { field, .. } = w.complete("ana", how).refused() else { panic!("{named}") };
        assert_eq!(&*field, named);
        assert_eq!(w.rows, before);
    }
}

/// J8, E1
#[test]
fn j08_a_result_with_an_old_token_is_refused() {
    let mut w = World::of("analysis", &["a"]);
    let first = w.acquire("w1", &["a"]).claim();
    w.at(300_000);
    // The same owner again: a new claim with a new token. The old token is no good for it.
    let second = w.acquire("w1", &["a"]).claim();
    let stale = Refusal::StaleToken { given: first.token, current: second.token };
    let how = Complete { token: Some(first.token), ..complete(&second, "READY") };
    assert_eq!(w.complete("w1", how).refused(), stale);
    assert_eq!(w.complete("w1", complete(&first, "READY")).code(), "lost");
    w.complete("w1", complete(&second, "READY")).granted();
    assert_eq!(w.item("a").status, status("READY"));
}

#[test]
fn a_token_may_be_left_out_by_the_holder() {
    let mut w = World::of("analysis", &["a"]);
    let claim = w.acquire("w1", &["a"]).claim();
    let how = Complete { token: None, ..complete(&claim, "READY") };
    assert_eq!(*w.complete("w1", how).claim().items, [item_id("a")]);
}
