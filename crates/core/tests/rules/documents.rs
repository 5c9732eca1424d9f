//! Items as documents: versions, guards, deletion.

use tenure_core::command::PutItem;
use tenure_core::refusal::{Unavailable, Why};
use tenure_core::{Expect, Fact, Guard, Refusal, Reply, Verb};

use crate::world::{World, item_id, json, person, put, put_status, status, t, under, write};

fn expecting(expect: Expect, data: &str) -> PutItem {
    PutItem { expect, ..put("a", data) }
}

#[test]
fn l01_versions_begin_at_one_and_a_match_adds_one() {
    let mut w = World::of("image", &[]);
    w.at(1);
    let decision = w.put("ana", expecting(Expect::Absent, "1")).granted();
    let Reply::Item { item, created: true } = decision.reply else { panic!("{:?}", decision.reply) };
    assert_eq!((item.version, item.updated_at_ms, &*item.updated_by), (1, t(1), "ana"));
    assert_eq!((item.status.as_str(), item.fence, item.claim), ("new", 0, 0));
    let decision = w.at(2).put("beto", expecting(Expect::Version(1), "2")).granted();
    let Reply::Item { item, created: false } = decision.reply else { panic!("{:?}", decision.reply) };
    assert_eq!((item.version, item.updated_at_ms, &*item.updated_by), (2, t(2), "beto"));
    assert_eq!(item.data, Some(json("2")));
}

#[test]
fn l01_a_mismatch_is_a_conflict_with_both_versions_and_changes_nothing() {
    let mut w = World::of("image", &["a"]);
    w.put("ana", put("a", "1")).granted();
    let table = [
        (Expect::Version(1), 1),
        (Expect::Version(3), 3),
        (Expect::Version(0), 0),
        (Expect::Version(u64::MAX), u64::MAX),
        (Expect::Absent, 0),
    ];
    for (expect, expected) in table {
        let before = w.rows.clone();
        let conflict = Refusal::Conflict { expected, current: 2 };
        assert_eq!(w.put("beto", expecting(expect, "9")).refused(), conflict);
        let delete = Verb::DeleteItem { item: item_id("a"), expect, guard: None };
        assert_eq!(w.run("beto", delete).refused(), conflict);
        assert_eq!(w.rows, before);
    }
    let missing = PutItem { expect: Expect::Version(1), ..put("b", "1") };
    assert_eq!(w.put("ana", missing).refused(), Refusal::Conflict { expected: 1, current: 0 });
}

#[test]
fn expecting_presence_takes_any_version_but_never_creates() {
    let mut w = World::of("image", &["a"]);
    w.put("ana", put("a", "1")).granted();
    assert_eq!(w.put("ana", expecting(Expect::Present, "2")).item().version, 3);
    let missing = PutItem { expect: Expect::Present, ..put("b", "1") };
    assert_eq!(w.put("ana", missing).refused(), Refusal::not_found("item", "b"));
}

/// L1: of two edits on the same version the second is refused.
#[test]
fn l01_no_edit_is_lost() {
    let mut w = World::of("image", &["a"]);
    assert_eq!(w.put("ana", expecting(Expect::Version(1), "1")).code(), "ok");
    assert_eq!(w.put("beto", expecting(Expect::Version(1), "2")).code(), "conflict");
    assert_eq!(w.item("a").data, Some(json("1")));
}

#[test]
fn a_put_leaves_what_it_does_not_name_and_records_before_and_after() {
    let mut w = World::of("image", &["a"]);
    w.put("ana", PutItem { write: write("a", Some("done"), Some("1")), ..put("a", "0") }).granted();
    w.put("ana", put_status("a", "new")).granted();
    assert_eq!(w.item("a").data, Some(json("1")));
    w.put("ana", put("a", "2")).granted();
    let Fact::ItemPut { write, before: Some(before), under: None } = w.last_fact() else { panic!() };
    assert_eq!((write.status.as_str(), write.version), ("new", 4));
    assert_eq!((before.version, before.data.clone()), (3, Some(json("1"))));
    // An application may use statuses that the policy does not know; they just cannot be claimed.
    assert_eq!(w.put("ana", put_status("a", "odd")).item().status, status("odd"));
}

/// T13, L9, I6
#[test]
fn t13_a_guarded_write_needs_ones_own_active_claim_with_its_token() {
    let mut w = World::of("task", &["a", "b"]);
    let claim = w.acquire("ana", &["a"]).claim();
    let guarded = |guard| PutItem { guard, ..put("a", "1") };
    let wrong = |claim: u64, token: u64| guarded(Some(Guard::Claim { claim, token }));
    let before = w.rows.clone();
    assert_eq!(w.put("ana", wrong(99, claim.token)).refused(), Refusal::not_found("claim", 99));
    assert_eq!(w.put("ana", wrong(claim.number, claim.token + 1)).code(), "stale_token");
    let not_holder = Refusal::NotHolder { holder: person("ana") };
    assert_eq!(w.put("beto", guarded(Some(under(&claim)))).refused(), not_holder);
    assert_eq!(w.rows, before);
    assert_eq!(w.put("ana", guarded(Some(under(&claim)))).item().version, 3);
    let Fact::ItemPut { under: Some(acted), .. } = w.last_fact() else { panic!() };
    assert_eq!(acted.claim, claim.number);
    w.at(180_000);
    let before = w.rows.clone();
    assert_eq!(w.put("ana", guarded(Some(under(&claim)))).code(), "lost");
    assert_eq!(w.rows, before);
}

/// T13: free again, or another's by now, is lost all the same.
#[test]
fn t13_a_guard_of_an_ended_claim_is_lost_even_if_the_item_is_free() {
    let mut w = World::of("task", &["a"]);
    let claim = w.acquire("ana", &["a"]).claim();
    w.release("ana", &claim).granted();
    let write = PutItem { guard: Some(under(&claim)), ..put("a", "1") };
    assert_eq!(w.put("ana", write.clone()).code(), "lost");
    w.acquire("ana", &["a"]).granted();
    assert_eq!(w.put("ana", write).code(), "lost", "a newer claim of one's own has its own token");
}

/// T10, T8
#[test]
fn t10_a_guarded_write_is_a_real_action_and_a_sign_of_life() {
    let mut w = World::of("task", &["a"]);
    let claim = w.acquire("ana", &["a"]).claim();
    w.at(100_000).put("ana", PutItem { guard: Some(under(&claim)), ..put("a", "1") }).granted();
    let acted = w.claim(claim.number);
    assert_eq!((acted.acted_at_ms, acted.expires_at_ms), (t(100_000), t(280_000)));
    // Without the guard it is a write like any other.
    w.at(110_000).put("ana", put("a", "2")).granted();
    assert_eq!(*w.claim(claim.number), *acted);
}

/// L9
#[test]
fn l09_an_item_that_another_holds_is_not_written_even_with_the_right_version() {
    let mut w = World::of("image", &["a"]);
    w.acquire("ana", &["a"]).granted();
    let why = Why::Held { holder: person("ana"), session: None, since_ms: t(0), until_ms: t(300_000) };
    let held = Refusal::Held { items: vec![Unavailable { item: item_id("a"), why }] };
    for expect in [Expect::Any, Expect::Version(1), Expect::Version(7)] {
        assert_eq!(w.put("beto", expecting(expect, "1")).refused(), held);
    }
    assert_eq!(w.put("ana", expecting(Expect::Version(1), "1")).code(), "ok");
    w.at(300_000);
    assert_eq!(w.put("beto", expecting(Expect::Version(2), "2")).actions(), ["claim_expired", "item_put"]);
}

/// R4: what is written because another item is as it was read.
#[test]
fn r04_a_write_can_depend_on_another_items_version() {
    let mut w = World::of("raffle", &["1", "raffle"]);
    let write = |version| PutItem {
        guard: Some(Guard::Unchanged { item: item_id("raffle"), version }),
        ..put("1", "{}")
    };
    assert_eq!(w.put("ana", write(1)).code(), "ok");
    assert_eq!(w.item("raffle").version, 1, "it is only looked at");
    w.put("root", put("raffle", "{}"));
    assert_eq!(w.put("ana", write(1)).refused(), Refusal::Conflict { expected: 1, current: 2 });
    assert_eq!(w.put("ana", write(2)).code(), "ok");
    let unknown = Some(Guard::Unchanged { item: item_id("x"), version: 1 });
    let unknown = PutItem { guard: unknown, ..put("1", "{}") };
    assert_eq!(w.put("ana", unknown).refused(), Refusal::Conflict { expected: 1, current: 0 });
}

/// L9: an annotation is written under its image's lock.
#[test]
fn l09_a_write_can_depend_on_another_items_holder() {
    let mut w = World::of("image", &["img", "img/box-1"]);
    let write = || PutItem {
        guard: Some(Guard::NotHeldByOther { item: item_id("img") }),
        ..put("img/box-1", "[1,2]")
    };
    assert_eq!(w.put("beto", write()).code(), "ok", "nobody holds it");
    w.acquire("ana", &["img"]).granted();
    let Refusal::Held { items } = w.put("beto", write()).refused() else { panic!() };
    assert_eq!(items[0].item, item_id("img"));
    assert_eq!(w.put("ana", write()).code(), "ok", "the holder writes");
    let delete = |guard| Verb::DeleteItem { item: item_id("img/box-1"), expect: Expect::Any, guard };
    let guard = || Some(Guard::NotHeldByOther { item: item_id("img") });
    assert_eq!(w.run("beto", delete(guard())).code(), "held");
    w.at(300_000);
    assert_eq!(w.run("beto", delete(guard())).code(), "ok");
    let unknown = PutItem { guard: Some(Guard::NotHeldByOther { item: item_id("x") }), ..write() };
    assert_eq!(w.put("ana", unknown).refused(), Refusal::not_found("item", "x"));
}

/// T13: a line is written only by whoever holds its task, and that is a real action (T10).
#[test]
fn t13_a_write_can_depend_on_ones_own_hold_of_another_item() {
    let mut w = World::of("task", &["t", "t/line"]);
    let holds =
        |token| PutItem { guard: Some(Guard::Holds { item: item_id("t"), token }), ..put("t/line", "1") };
    let not_held = Refusal::NotHeld { item: item_id("t") };
    assert_eq!(w.put("ana", holds(None)).refused(), not_held, "nobody holds it");
    let claim = w.acquire("ana", &["t"]).claim();
    assert_eq!(w.put("beto", holds(None)).code(), "held", "another holds it");
    w.at(100_000);
    assert_eq!(w.put("ana", holds(None)).code(), "ok");
    assert_eq!(w.claim(claim.number).expires_at_ms, t(280_000), "renewed as by a heartbeat");
    assert_eq!(w.claim(claim.number).acted_at_ms, t(100_000));
    assert_eq!(w.put("ana", holds(Some(claim.token))).code(), "ok");
    let stale = Refusal::StaleToken { given: claim.token - 1, current: claim.token };
    assert_eq!(w.put("ana", holds(Some(claim.token - 1))).refused(), stale);
    let delete = |guard| Verb::DeleteItem { item: item_id("t/line"), expect: Expect::Any, guard };
    let guard = || Some(Guard::Holds { item: item_id("t"), token: None });
    assert_eq!(w.run("beto", delete(guard())).code(), "held");
    w.at(280_000);
    assert_eq!(w.put("ana", holds(None)).refused(), not_held, "over at its deadline");
    assert_eq!(w.run("ana", delete(guard())).refused(), not_held);
    let later = w.acquire("ana", &["t"]).claim();
    assert_eq!(w.put("ana", holds(Some(claim.token))).code(), "stale_token", "an older hold of one's own");
    assert_eq!(w.put("ana", holds(Some(later.token))).code(), "ok");
    assert_eq!(w.run("ana", delete(guard())).code(), "ok");
    let unknown =
        PutItem { guard: Some(Guard::Holds { item: item_id("x"), token: None }), ..put("t/line", "1") };
    assert_eq!(w.put("ana", unknown).refused(), Refusal::not_found("item", "x"));
}

#[test]
fn a_write_under_ones_claim_may_go_to_another_item_but_not_to_anothers() {
    let mut w = World::of("image", &["img", "box", "taken"]);
    let claim = w.acquire("ana", &["img"]).claim();
    w.acquire("beto", &["taken"]).granted();
    assert_eq!(w.put("ana", PutItem { guard: Some(under(&claim)), ..put("box", "1") }).code(), "ok");
    assert_eq!(w.put("ana", PutItem { guard: Some(under(&claim)), ..put("taken", "1") }).code(), "held");
}

#[test]
fn a_held_item_is_not_deleted_by_anyone() {
    let mut w = World::of("image", &["a"]);
    let claim = w.acquire("ana", &["a"]).claim();
    assert_eq!(w.delete("beto", "a").code(), "held");
    assert_eq!(w.delete("ana", "a").code(), "held");
    let under_claim =
        Verb::DeleteItem { item: item_id("a"), expect: Expect::Any, guard: Some(under(&claim)) };
    assert_eq!(w.run("ana", under_claim).code(), "held");
    w.release("ana", &claim).granted();
    assert_eq!(w.delete("beto", "a").actions(), ["item_deleted"]);
    let Fact::ItemDeleted { before, .. } = w.last_fact() else { panic!() };
    assert_eq!((before.id.as_str(), before.version), ("a", 1));
    assert_eq!(w.delete("beto", "a").refused(), Refusal::not_found("item", "a"));
}

#[test]
fn deleting_an_overdue_item_makes_the_expiry_known_first() {
    let mut w = World::of("image", &["a"]);
    let claim = w.acquire("ana", &["a"]).claim();
    assert_eq!(w.at(300_000).delete("beto", "a").actions(), ["claim_expired", "item_deleted"]);
    // The ended claim still answers, though its item is gone.
    assert_eq!(w.release("ana", &claim).code(), "lost");
}

#[test]
fn deleting_under_a_claim_on_another_item_counts_as_an_action() {
    let mut w = World::of("task", &["a", "line-1"]);
    let claim = w.acquire("ana", &["a"]).claim();
    let verb =
        Verb::DeleteItem { item: item_id("line-1"), expect: Expect::Version(1), guard: Some(under(&claim)) };
    w.at(60_000).run("ana", verb).granted();
    assert_eq!(w.claim(claim.number).acted_at_ms, t(60_000));
}

#[test]
fn a_recreated_item_begins_anew_but_is_not_held_by_its_old_claim() {
    let mut w = World::of("image", &["a"]);
    let old = w.acquire("ana", &["a"]).claim();
    w.release("ana", &old).granted();
    w.delete("root", "a").granted();
    w.put("root", expecting(Expect::Absent, "1")).granted();
    assert_eq!((w.item("a").version, w.item("a").claim, w.item("a").fence), (1, 0, 0));
    assert_eq!(w.put("ana", PutItem { guard: Some(under(&old)), ..put("a", "2") }).code(), "lost");
    assert!(w.acquire("beto", &["a"]).claim().token > old.token);
}
