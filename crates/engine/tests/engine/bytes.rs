//! A commit has a size: what does not fit waits for the next, and what could never fit is refused.

use tenure_core::command::{ItemWrite, PutItem};
use tenure_core::{Expect, Json, Verb};

use crate::common::*;

/// An atomic group of documents of about 60 KB each.
fn documents(prefix: &str, count: usize) -> Ask {
    let data = Json::parse(&format!("\"{}\"", "x".repeat(60_000)), "data").expect("valid");
    let put = |number| {
        let write =
            ItemWrite { item: item(&format!("{prefix}-{number}")), status: None, data: Some(data.clone()) };
        Verb::PutItem(PutItem { write, expect: Expect::Any, guard: None })
    };
    Ask::new("ana", Verb::Group((0..count).map(put).collect()))
}

#[test]
fn what_does_not_fit_into_a_commit_waits_for_the_next() {
    let (mut desk, probe) = Desk::probed();
    desk.ask(create(LOCKS));
    let slips: Vec<Slip> = (0..6).map(|number| desk.put(documents(&format!("d{number}"), 100))).collect();
    desk.run();
    assert_eq!(desk.turn.next_ms(), Some(desk.clock_ms), "the rest is due at once");
    desk.run();
    for slip in &slips {
        assert_eq!(code(&desk.answer(slip)), "ok");
    }
    assert_eq!(probe.batches(), [1, 3, 3]);
}

#[test]
fn a_group_that_fits_into_no_commit_is_refused_and_changes_nothing() {
    let mut desk = Desk::new();
    desk.ask(create(LOCKS));
    assert_eq!(code(&desk.ask(documents("d", 200))), "limit");
    assert_eq!(events(&*desk.reader(), LOCKS).len(), 1, "only the collection");
}
