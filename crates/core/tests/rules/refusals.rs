//! Refusals: stable codes, what a person reads, and the form that programs get.

use tenure_core::refusal::{Unavailable, Why};
use tenure_core::{EndReason, Refusal};

use crate::world::{item_id, person, status, t};

fn one(why: Why) -> Vec<Unavailable> {
    vec![Unavailable { item: item_id("a"), why }]
}

fn held(item: &str, until_ms: i64) -> Unavailable {
    let why = Why::Held { holder: person("ana"), session: None, since_ms: t(0), until_ms };
    Unavailable { item: item_id(item), why }
}

fn all() -> Vec<(&'static str, &'static str, Refusal)> {
    let delayed = Why::Delayed { holder: person("ana"), until_ms: t(7) };
    let session = tenure_core::SessionId::new("w-1").ok();
    let in_session = Why::Held { holder: person("ana"), session, since_ms: t(0), until_ms: t(5) };
    let finished = Why::Finished { status: status("sold") };
    let not_claimable = Why::NotClaimable { status: status("draft") };
    let lost = |holder| Refusal::Lost { reason: EndReason::Idle, ended_at_ms: t(0), holder };
    let conflict = Refusal::Conflict { expected: 2, current: 3 };
    vec![
        ("held", "a is held by Ana", Refusal::Held { items: vec![held("a", t(5))] }),
        ("held", "a is held by Ana in another session", Refusal::Held { items: one(in_session) }),
        (
            "held",
            "a is held by Ana; b is held by Ana",
            Refusal::Held { items: vec![held("a", 1), held("b", 2)] },
        ),
        (
            "held",
            "a is not free yet: Ana's claim on it did not end cleanly",
            Refusal::Held { items: one(delayed) },
        ),
        ("finished", "a is sold, which is final", Refusal::Finished { items: one(finished) }),
        (
            "not_claimable",
            "a is draft, which cannot be claimed",
            Refusal::NotClaimable { items: one(not_claimable) },
        ),
        ("not_found", "there is no item 7", Refusal::not_found("item", 7)),
        ("limit", "max_items allows 10", Refusal::Limit { limit: "max_items".into(), max: 10 }),
        ("lost", "the claim was lost (idle)", lost(None)),
        ("lost", "the claim was lost (idle); Beto holds it now", lost(Some(person("beto")))),
        ("not_holder", "the claim is Ana's", Refusal::NotHolder { holder: person("ana") }),
        (
            "stale_token",
            "token 4 is not this claim's; its token is 9",
            Refusal::StaleToken { given: 4, current: 9 },
        ),
        ("conflict", "expected version 2, found version 3", conflict.clone()),
        (
            "wrong_phase",
            "the claim is in phase checkout, which does not allow it",
            Refusal::WrongPhase { phase: "checkout".into() },
        ),
        ("invalid", "items: names an item twice", Refusal::invalid("items", "names an item twice")),
        (
            "conflict",
            "command 3 of the group: expected version 2, found version 3",
            Refusal::InGroup { index: 3, refusal: Box::new(conflict) },
        ),
        (
            "not_held",
            "you do not hold a, and nobody else does; claim it first",
            Refusal::NotHeld { item: item_id("a") },
        ),
    ]
}

#[test]
fn every_refusal_has_a_stable_code_and_a_sentence() {
    for (code, sentence, refusal) in all() {
        assert_eq!((refusal.code(), refusal.to_string().as_str()), (code, sentence));
    }
}

#[test]
fn a_refusal_comes_back_from_json_and_from_its_kept_form() {
    for (_, _, refusal) in all() {
        let text = serde_json::to_string(&refusal).unwrap();
        assert_eq!(serde_json::from_str::<Refusal>(&text).unwrap(), refusal);
        let bytes = postcard::to_stdvec(&refusal).unwrap();
        assert_eq!(postcard::from_bytes::<Refusal>(&bytes).unwrap(), refusal);
    }
}

#[test]
fn trying_again_may_help_when_the_last_of_the_held_items_is_free() {
    let refusal = Refusal::Held { items: vec![held("a", t(5)), held("b", t(9)), held("c", t(1))] };
    assert_eq!(refusal.retry_at_ms(), Some(t(9)));
    for (code, _, refusal) in all() {
        assert_eq!(refusal.retry_at_ms().is_some(), code == "held", "{refusal:?}");
    }
}
