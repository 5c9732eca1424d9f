//! Lines: added, edited, validated, and only under the actor's own lock.

use tenure_apps::tasks::{COLLECTION, Direction, EditLine, LINES_MAX, Mode, NewLine, NewTask, SERIALS_MAX};

use super::world::{World, bring, quantity, serials, take};
use crate::common::code;

fn edit(quantity: u64) -> EditLine {
    EditLine { quantity: Some(quantity), ..EditLine::default() }
}

/// T13: edit, add, validate and finalise need the actor's own active lock; nothing changes without it.
#[tokio::test]
async fn t13_without_ones_own_lock_no_line_changes() {
    let w = World::new();
    let id = w.ready(vec![bring("bolt", 1)]).await;
    let all = async |who| {
        [
            code(&w.tasks.edit_line(who, &id, "1", &edit(9)).await),
            code(&w.tasks.validate_line(who, &id, "1").await),
            code(&w.tasks.add_line(who, &id, bring("nut", 1)).await),
            code(&w.tasks.finalize(who, &id).await),
        ]
    };
    let events = || w.office.actions(COLLECTION).iter().filter(|action| **action != "claim_expired").count();
    let before = events();
    assert_eq!(all(&w.ana).await, ["not_held"; 4], "never claimed");
    assert_eq!(events(), before);
    w.tasks.process(&w.ana, &id).await.expect("is free");
    let before = events();
    assert_eq!(all(&w.bea).await, ["held"; 4], "another's");
    w.office.pass(180_000);
    assert_eq!(all(&w.ana).await, ["not_held"; 4], "over at the deadline");
    assert_eq!(events(), before);
    w.tasks.process(&w.bea, &id).await.expect("is free");
    let before = events();
    assert_eq!(all(&w.ana).await, ["held"; 4], "another's now");
    assert_eq!(events(), before);
    let refusal = w.tasks.edit_line(&w.ana, &id, "1", &edit(9)).await.expect_err("is Bea's");
    assert_eq!(refusal.to_string(), format!("{id} is held by Bea"));
    assert_eq!(all(&w.bea).await, ["ok"; 4]);
}

/// T20: lines are serialised or by quantity; pending, then validated, and pending again when edited.
#[tokio::test]
async fn t20_lines_are_added_edited_and_validated() {
    let w = World::new();
    let id = w.draft(vec![bring("bolt", 5)]).await;
    let added = w.tasks.add_line(&w.ana, &id, serials(Direction::In, "router", &["S1", "S2"])).await;
    let added = added.expect("a draft takes lines").value;
    assert_eq!((added.id.as_str(), added.status.as_str()), ("2", "pending"));
    w.tasks.ready(&w.ana, &id).await.expect("becomes ready");
    w.tasks.process(&w.ana, &id).await.expect("is free");
    let version = w.task(&id).version;
    let line = w.tasks.validate_line(&w.ana, &id, "1").await.expect("validates").value;
    assert_eq!(line.status.as_str(), "validated");
    assert_eq!(w.task(&id).version, version + 1, "the task's version counts its lines' changes");
    let line = w.tasks.edit_line(&w.ana, &id, "1", &edit(7)).await.expect("edits").value;
    assert_eq!((line.status.as_str(), line.quantity), ("pending", Some(7)));
    assert_eq!(line.product, "bolt", "what is not named stays");
    // Another way of counting leaves nothing of the first.
    let change = EditLine {
        mode: Some(Mode::Serialized),
        serials: Some(vec!["X".to_owned()]),
        direction: Some(Direction::Out),
        product: Some("router".to_owned()),
        ..EditLine::default()
    };
    let line = w.tasks.edit_line(&w.ana, &id, "1", &change).await.expect("edits").value;
    assert_eq!(
        (line.mode, line.serials, line.quantity),
        (Mode::Serialized, Some(vec!["X".to_owned()]), None)
    );
    assert_eq!(w.lines(&id), ["pending", "pending"]);
}

/// T20: what is applied does not change, and a finished task's lines do not either.
#[tokio::test]
async fn t20_what_is_applied_stays() {
    let w = World::new();
    let id = w.processing(vec![bring("bolt", 5), take("nut", 1)]).await;
    w.tasks.finalize(&w.ana, &id).await.expect("goes on");
    assert_eq!(w.lines(&id), ["applied", "error"]);
    w.tasks.process(&w.ana, &id).await.expect("is taken up again");
    assert_eq!(code(&w.tasks.edit_line(&w.ana, &id, "1", &edit(1)).await), "wrong_status");
    assert_eq!(code(&w.tasks.validate_line(&w.ana, &id, "1").await), "wrong_status");
    let line = w.tasks.validate_line(&w.ana, &id, "2").await.expect("validates").value;
    assert_eq!((line.status.as_str(), line.error), ("validated", None), "an error is looked at anew");
    w.tasks.cancel(&w.ana, &id).await.expect("is hers");
    assert_eq!(w.holder(&id), None, "and the lock ended with it");
    for refusal in [
        code(&w.tasks.edit_line(&w.ana, &id, "2", &edit(1)).await),
        code(&w.tasks.add_line(&w.ana, &id, bring("x", 1)).await),
        code(&w.tasks.ready(&w.ana, &id).await),
        code(&w.tasks.finalize(&w.ana, &id).await),
    ] {
        assert_eq!(refusal, "wrong_status");
    }
}

/// What a line or a title says wrongly is named.
#[tokio::test]
async fn what_is_wrong_is_named() {
    let w = World::new();
    let id = w.processing(vec![bring("bolt", 1)]).await;
    let by_quantity = |product: &str, count| quantity(Direction::In, product, count);
    let many: Vec<String> = (0..=SERIALS_MAX).map(|number| number.to_string()).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let of = |names: &[&str]| serials(Direction::In, "p", names);
    let cases: Vec<(NewLine, &str)> = vec![
        (by_quantity("", 1), "product"),
        (by_quantity("a b", 1), "product"),
        (by_quantity("a/b", 1), "product"),
        (by_quantity(&"x".repeat(65), 1), "product"),
        (by_quantity("p", 0), "quantity"),
        (by_quantity("p", 1_000_000_001), "quantity"),
        (NewLine { quantity: None, ..by_quantity("p", 1) }, "quantity"),
        (NewLine { serials: Some(vec!["a".to_owned()]), ..by_quantity("p", 1) }, "serials"),
        (NewLine { quantity: Some(1), ..of(&["a"]) }, "quantity"),
        (NewLine { serials: None, ..of(&["a"]) }, "serials"),
        (of(&[]), "serials"),
        (of(&many), "serials"),
        (of(&["a", ""]), "serials[1]"),
        (of(&["a", "b", "a"]), "serials[2]"),
        (of(&[" a"]), "serials[0]"),
        (of(&["a\n"]), "serials[0]"),
    ];
    let field = |refusal: tenure_apps::Refusal| match refusal {
        tenure_apps::Refusal::Invalid { field, .. } => field,
        other => panic!("{other:?}"),
    };
    let before = w.office.events(COLLECTION).len();
    for (line, expected) in cases {
        let refusal = w.tasks.add_line(&w.ana, &id, line.clone()).await.expect_err("is wrong");
        assert_eq!(field(refusal), expected, "{line:?}");
        let new = NewTask { title: "x".to_owned(), lines: vec![bring("ok", 1), line] };
        let refusal = w.tasks.create(&w.ana, new).await.expect_err("is wrong");
        assert_eq!(field(refusal), format!("lines[1].{expected}"));
    }
    for title in ["", "  ", "a\u{0}b", &"x".repeat(201)] {
        let new = NewTask { title: title.to_owned(), lines: Vec::new() };
        assert_eq!(field(w.tasks.create(&w.ana, new).await.expect_err("is wrong")), "title");
    }
    let new = NewTask { title: "x".to_owned(), lines: vec![bring("p", 1); LINES_MAX + 1] };
    assert_eq!(field(w.tasks.create(&w.ana, new).await.expect_err("is wrong")), "lines");
    assert_eq!(w.office.events(COLLECTION).len(), before, "and nothing changed");
}

/// A task has at most so many lines, however they came.
#[tokio::test]
async fn a_task_has_at_most_a_hundred_lines() {
    let w = World::new();
    let id = w.draft(vec![bring("p", 1); LINES_MAX - 1]).await;
    assert_eq!(code(&w.tasks.add_line(&w.ana, &id, bring("p", 1)).await), "ok");
    assert_eq!(code(&w.tasks.add_line(&w.ana, &id, bring("p", 1)).await), "invalid");
    let shown: Vec<String> = w.task(&id).lines.into_iter().map(|line| line.id).collect();
    let in_order: Vec<String> = (1..=LINES_MAX).map(|number| number.to_string()).collect();
    assert_eq!(shown, in_order);
}

/// Lines that are added at the same time all stay.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn lines_added_at_once_all_stay() {
    let w = World::new();
    let id = w.draft(Vec::new()).await;
    let adding: Vec<_> = (0..20)
        .map(|number| {
            let (tasks, ana, id) = (w.tasks.clone(), w.ana.clone(), id.clone());
            tokio::spawn(async move { tasks.add_line(&ana, &id, bring(&format!("p{number}"), 1)).await })
        })
        .collect();
    for added in adding {
        added.await.expect("ends").expect("is added");
    }
    let mut products: Vec<_> = w.task(&id).lines.into_iter().map(|line| line.product).collect();
    products.sort();
    products.dedup();
    assert_eq!(products.len(), 20);
}

/// A draft becomes ready once; nothing else does.
#[tokio::test]
async fn only_a_draft_becomes_ready() {
    let w = World::new();
    let id = w.ready(Vec::new()).await;
    let version = w.task(&id).version;
    assert_eq!(code(&w.tasks.ready(&w.bea, &id).await), "ok", "it is");
    assert_eq!(w.task(&id).version, version);
    w.tasks.process(&w.ana, &id).await.expect("is free");
    assert_eq!(code(&w.tasks.ready(&w.ana, &id).await), "wrong_status");
}

/// What another processes cannot be cancelled; what is done cannot either.
#[tokio::test]
async fn cancelling_respects_the_lock() {
    let w = World::new();
    let id = w.processing(Vec::new()).await;
    assert_eq!(code(&w.tasks.cancel(&w.bea, &id).await), "held");
    assert_eq!(w.task(&id).status.as_str(), "processing");
    w.tasks.cancel(&w.ana, &id).await.expect("is hers");
    assert_eq!(code(&w.tasks.cancel(&w.bea, &id).await), "ok", "twice is once");
    let done = w.processing(Vec::new()).await;
    w.tasks.finalize(&w.ana, &done).await.expect("has nothing to apply");
    assert_eq!(code(&w.tasks.cancel(&w.ana, &done).await), "wrong_status");
}
