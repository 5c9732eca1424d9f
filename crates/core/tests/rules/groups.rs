//! Several commands of one collection, all or nothing.

use tenure_core::command::PutItem;
use tenure_core::limits::GROUP_MAX;
use tenure_core::{AtEnd, Claim, Expect, Guard, Phase, Policy, Refusal, Reply, Verb};

use crate::world::{World, complete, for_ms, in_tab, item_id, items, put, put_status, t, under};

/// What a group does after a heartbeat.
type Next = fn(&Claim) -> Verb;

fn acquire(ids: &[&str]) -> Verb {
    Verb::Acquire(items(ids))
}

#[test]
fn e06_a_group_answers_each_command_in_order() {
    let mut w = World::of("image", &["a", "b"]);
    let verbs = vec![acquire(&["a"]), Verb::PutItem(put("b", "1")), acquire(&["b"])];
    let Reply::Group(replies) = w.run("ana", Verb::Group(verbs)).granted().reply else { panic!() };
    assert!(matches!(
        &replies[..],
        [Reply::Acquired { .. }, Reply::Item { created: false, .. }, Reply::Acquired { .. }]
    ));
    assert_eq!(w.actions()[3..], ["claim_granted", "item_put", "claim_granted"]);
}

#[test]
fn e06_later_commands_see_what_earlier_ones_did() {
    let mut w = World::of("image", &["a"]);
    // The claim's number is the number of its grant, so a group can name it beforehand.
    let number = w.newest_seq() + 1;
    let guard = Some(Guard::Claim { claim: number, token: number });
    let verbs = vec![
        acquire(&["a"]),
        Verb::PutItem(PutItem { guard, ..put("a", "1") }),
        Verb::PutItem(PutItem { expect: Expect::Version(2), ..put("a", "2") }),
        Verb::Release { claim: number },
        acquire(&["a"]),
    ];
    let Reply::Group(replies) = w.run("ana", Verb::Group(verbs)).granted().reply else { panic!() };
    let Reply::Acquired { claim, .. } = &replies[4] else { panic!("{replies:?}") };
    assert_eq!((claim.number, w.item("a").version), (number + 4, 3));
}

#[test]
fn e06_a_refusal_in_the_middle_takes_all_back_and_is_named_by_its_place() {
    let mut w = World::of("image", &["a", "b", "c"]);
    w.acquire("beto", &["b"]).granted();
    let before = w.rows.clone();
    let verbs = vec![acquire(&["a"]), Verb::PutItem(put("c", "1")), acquire(&["b"]), acquire(&["c"])];
    let refusal = w.run("ana", Verb::Group(verbs)).refused();
    assert_eq!(refusal.code(), "held", "the code is the refused command's");
    let Refusal::InGroup { index: 2, refusal } = refusal else { panic!("{refusal:?}") };
    assert!(matches!(*refusal, Refusal::Held { .. }));
    assert_eq!(w.rows, before);
}

#[test]
fn e06_a_group_that_loses_its_claim_midway_does_nothing() {
    let mut w = World::of("image", &["a"]);
    let claim = w.acquire("ana", &["a"]).claim();
    let write = || Verb::PutItem(PutItem { guard: Some(under(&claim)), ..put("a", "1") });
    let verbs = vec![write(), Verb::Release { claim: claim.number }, write()];
    let refusal = w.run("ana", Verb::Group(verbs)).refused();
    assert!(matches!(refusal, Refusal::InGroup { index: 2, .. }), "{refusal:?}");
    assert_eq!(w.item("a").version, 1);
    assert!(w.claim(claim.number).holds_at(w.now_ms));
}

#[test]
fn e06_a_group_has_one_to_a_thousand_commands_and_no_groups_in_it() {
    let mut w = World::of("image", &["a"]);
    let puts = |count: usize| Verb::Group(vec![Verb::PutItem(put("a", "1")); count]);
    for (verb, named) in [(puts(0), "commands"), (puts(GROUP_MAX + 1), "commands")] {
        let Refusal::Invalid { field, .. } = w.run("ana", verb).refused() else { panic!() };
        assert_eq!(&*field, named);
    }
    let nested = Verb::Group(vec![puts(1), puts(1)]);
    let Refusal::InGroup { index: 0, refusal } = w.run("ana", nested).refused() else { panic!() };
    assert_eq!(refusal.code(), "invalid");
    w.run("ana", puts(GROUP_MAX)).granted();
    assert_eq!(w.item("a").version, 1 + GROUP_MAX as u64);
}

#[test]
fn e06_claims_made_in_the_same_group_count_for_the_holders_limit_and_session() {
    let policy = Policy { max_claims_per_holder: Some(2), ..Policy::image() };
    let mut w = World::under(policy, &["a", "b", "c"]);
    let verbs = vec![acquire(&["a"]), acquire(&["b"]), acquire(&["c"])];
    let refusal = w.run("ana", Verb::Group(verbs)).refused();
    assert!(matches!(refusal, Refusal::InGroup { index: 2, .. }), "{refusal:?}");

    let mut w = World::of("raffle", &["1", "2"]);
    let tab = |id| Verb::Acquire(in_tab("s1", &[id]));
    let Reply::Group(replies) = w.run("ana", Verb::Group(vec![tab("1"), tab("2")])).granted().reply else {
        panic!()
    };
    let [Reply::Acquired { claim: first, .. }, Reply::Acquired { claim: second, .. }] = &replies[..] else {
        panic!("{replies:?}")
    };
    assert_eq!(first, second);
}

#[test]
fn e06_a_group_may_make_its_collection() {
    let mut w = World::empty("image");
    let verbs = vec![Verb::CreateCollection, Verb::PutItem(put_status("a", "new")), acquire(&["a"])];
    w.run("ana", Verb::Group(verbs)).granted();
    assert_eq!(w.actions(), ["collection_created", "item_put", "claim_granted"]);
    let refused = vec![Verb::CreateCollection, acquire(&["a"])];
    let mut w = World::empty("image");
    assert_eq!(w.run("ana", Verb::Group(refused)).code(), "not_found");
    assert_eq!(w.rows, crate::memory::Memory::default());
}

/// The last sign of life of a group is what stays, whatever the order of its commands; the world
/// replays events and heartbeats apart, as a store does.
#[test]
fn a_heartbeat_in_a_group_does_not_outlive_what_came_after_it() {
    let beat = |claim: u64| Verb::Heartbeat { claim, token: claim, idle_ms: None };
    let afterwards: [(&str, i64, Next); 4] = [
        ("advance", 140_000, |claim| Verb::Advance { claim: claim.number }),
        ("release", 160_000, |claim| Verb::Release { claim: claim.number }),
        ("complete", 160_000, |claim| Verb::Complete(complete(claim, "done"))),
        ("longer", 400_000, |_| Verb::Acquire(for_ms(300_000, &["a"]))),
    ];
    for (name, expires_ms, next) in afterwards {
        let phase = |name: &str, ttl_ms| Phase {
            name: name.into(),
            ttl_ms,
            renew: true,
            at_end: AtEnd::Release,
            side: false,
        };
        let policy = Policy {
            phases: vec![phase("one", 60_000), phase("two", 40_000)],
            heartbeat_ms: 1_000,
            ttl_ms_min: 60_000,
            ttl_ms_max: 300_000,
            ..Policy::image()
        };
        let mut w = World::under(policy, &["a"]);
        let claim = w.acquire("ana", &["a"]).claim();
        w.at(50_000).beat("ana", &claim).granted();
        w.at(100_000);
        let group = Verb::Group(vec![beat(claim.number), beat(claim.number), next(&claim)]);
        let decision = w.run("ana", group).granted();
        assert_eq!(decision.beats.len(), 1, "{name}");
        assert_eq!(w.claim(claim.number).expires_at_ms, t(expires_ms), "{name}");
    }
}

#[test]
fn a_group_can_claim_for_the_administrator_and_write_under_it() {
    let mut w = World::of("task", &["a"]);
    w.acquire("ana", &["a"]).granted();
    let force = Verb::ForceClaim { item: item_id("a"), reason: "urgent".into(), session: None };
    let verbs = vec![force, Verb::PutItem(put("a", "1"))];
    assert_eq!(w.run("root", Verb::Group(verbs)).code(), "ok");
}
