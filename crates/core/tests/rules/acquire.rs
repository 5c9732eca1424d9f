//! Claiming: who gets what, and what the others learn.

use tenure_core::command::{Acquire, How, PutItem};
use tenure_core::refusal::{Unavailable, Why};
use tenure_core::{ClaimState, CollectionKey, Command, Fact, Policy, Principal, Refusal, Verb, decide};

use crate::world::{
    Outcome, World, for_ms, in_tab, item_id, items, json, person, put_status, status, t, under,
};

/// T1, J1, J3
#[test]
fn t01_a_free_item_is_claimed_for_the_caller() {
    let mut w = World::of("task", &["a"]);
    w.at(5);
    let claim = w.acquire("ana", &["a"]).claim();
    assert_eq!(claim.holder, person("ana"));
    assert_eq!(*claim.items, [item_id("a")]);
    assert_eq!((claim.state, claim.reason, claim.ended_at_ms), (ClaimState::Active, None, None));
    assert_eq!(&*claim.phase, "editing");
    assert_eq!([claim.since_ms, claim.heartbeat_at_ms, claim.acted_at_ms, claim.phase_since_ms], [t(5); 4]);
    assert_eq!((claim.ttl_ms, claim.expires_at_ms), (180_000, t(180_005)));
    assert_eq!((claim.blocked_until_ms, claim.idle), (0, false));
    assert_eq!(w.actions().last(), Some(&"claim_granted"));
}

/// T1: the first claim on an item is told apart from the renewals that follow.
#[test]
fn t01_the_answer_says_how_the_claim_came_to_be_the_callers() {
    let mut w = World::of("task", &["a"]);
    assert_eq!(w.acquire("ana", &["a"]).how(), How::New);
    assert_eq!(w.acquire("ana", &["a"]).how(), How::Renewed);
    let mut w = World::of("raffle", &["1"]);
    assert_eq!(w.acquire("ana", &["1"]).how(), How::New);
    assert_eq!(w.acquire("ana", &["1"]).how(), How::Existing);
}

/// T2, T6, J3, J4, L3
#[test]
fn t02_another_is_refused_and_learns_who_holds_it_since_when_and_until_when() {
    let mut w = World::of("task", &["a"]);
    w.acquire("ana", &["a"]).granted();
    w.at(1_000);
    let why = Why::Held { holder: person("ana"), session: None, since_ms: t(0), until_ms: t(180_000) };
    let held = Refusal::Held { items: vec![Unavailable { item: item_id("a"), why }] };
    assert_eq!(w.acquire("beto", &["a"]).refused(), held);
    assert_eq!(held.retry_at_ms(), Some(t(180_000)));
}

/// T3, J2
#[test]
fn t03_an_item_is_claimable_only_in_a_claimable_status() {
    let table = [
        ("task", "ready", "ok"),
        ("task", "processing", "ok"),
        ("task", "partially_completed", "ok"),
        ("task", "draft", "not_claimable"),
        ("task", "completed", "finished"),
        ("task", "cancelled", "finished"),
        ("raffle", "available", "ok"),
        ("raffle", "withdrawn", "not_claimable"),
        ("raffle", "sold", "finished"),
        ("analysis", "QUEUED", "ok"),
        ("analysis", "RUNNING", "ok"),
        ("analysis", "READY", "finished"),
        ("analysis", "FAILED", "finished"),
        ("image", "new", "ok"),
        ("image", "in_progress", "ok"),
        ("image", "done", "ok"),
        ("image", "archived", "finished"),
    ];
    for (kind, word, code) in table {
        let mut w = World::of(kind, &["a"]);
        w.put("root", put_status("a", word)).granted();
        let outcome = w.acquire("ana", &["a"]);
        assert_eq!(outcome.code(), code, "{kind} {word}");
        let why = match code {
            "finished" => Why::Finished { status: status(word) },
            "not_claimable" => Why::NotClaimable { status: status(word) },
            _ => continue,
        };
        let (Refusal::Finished { items } | Refusal::NotClaimable { items }) = outcome.refused() else {
            panic!("{kind} {word}")
        };
        assert_eq!(items, [Unavailable { item: item_id("a"), why }]);
    }
}

/// T4, L3, J5
#[test]
fn t04_the_same_person_claiming_again_renews_and_keeps_since_and_token() {
    let mut w = World::of("task", &["a"]);
    let first = w.acquire("ana", &["a"]).claim();
    w.at(100_000);
    let again = w.acquire("ana", &["a"]).claim();
    assert_eq!((again.number, again.token, again.since_ms), (first.number, first.token, t(0)));
    assert_eq!((again.heartbeat_at_ms, again.acted_at_ms), (t(100_000), t(100_000)));
    assert_eq!(again.expires_at_ms, t(280_000));
    assert_eq!(w.actions().last(), Some(&"claim_renewed"));
    assert_eq!(w.item("a").fence, first.token);
}

#[test]
fn t04_a_second_tab_of_the_same_person_renews_the_same_claim() {
    let mut w = World::of("task", &["a"]);
    let first = w.acquire_as("ana", in_tab("tab-1", &["a"])).claim();
    let second = w.at(10).acquire_as("ana", in_tab("tab-2", &["a"])).claim();
    assert_eq!((second.number, second.session), (first.number, first.session));
}

#[test]
fn t04_a_person_is_known_by_id_and_not_by_name() {
    let mut w = World::of("task", &["a"]);
    w.acquire("ana", &["a"]).granted();
    let command = Command {
        collection: w.key.clone(),
        actor: Principal::new("ana", "Ana María").unwrap(),
        verb: Verb::Acquire(items(&["a"])),
    };
    let decision = decide(&w.rows, &command, w.now_ms).unwrap();
    assert_eq!(Outcome(Ok(decision)).how(), How::Renewed);
}

#[test]
fn t04_claiming_part_of_what_one_holds_renews_the_whole_claim() {
    let mut w = World::under(Policy { max_items: 3, ..Policy::image() }, &["a", "b", "c"]);
    let claim = w.acquire("ana", &["a", "b"]).claim();
    let renewed = w.at(7).acquire("ana", &["b"]).claim();
    assert_eq!((renewed.number, renewed.expires_at_ms), (claim.number, t(300_007)));
    // More than one holds is another claim, and what one holds is not free for it.
    assert_eq!(w.acquire("ana", &["b", "c"]).code(), "held");
    assert_eq!(w.acquire("ana", &["c", "b"]).code(), "held");
}

#[test]
fn t04_claiming_again_never_takes_time_away() {
    let mut w = World::under(Policy { session_exclusive: false, ..Policy::lock() }, &[]);
    w.acquire_as("ana", for_ms(60_000, &["a"])).granted();
    w.at(1_000);
    let claim = w.acquire_as("ana", for_ms(5_000, &["a"])).claim();
    // The first tab still counts on its own deadline.
    assert_eq!((claim.ttl_ms, claim.expires_at_ms), (5_000, t(60_000)));
    w.at(58_000);
    assert_eq!(w.beat("ana", &claim).renewed(), Ok(t(63_000)));
}

/// T5, J3
#[test]
fn t05_a_claim_past_its_deadline_is_free_for_anyone() {
    let mut w = World::of("task", &["a"]);
    let old = w.acquire("ana", &["a"]).claim();
    w.at(179_999);
    assert_eq!(w.acquire("beto", &["a"]).code(), "held");
    w.at(180_000);
    let new = w.acquire("beto", &["a"]).claim();
    assert_eq!(new.holder, person("beto"));
    assert!(new.token > old.token);
}

/// T6, J4, R20
#[test]
fn t06_of_a_hundred_claims_on_the_same_items_one_wins_and_all_others_learn_who() {
    let mut w = World::of("raffle", &["1", "2", "3"]);
    let mut winners = Vec::new();
    for n in 0..100 {
        let who = format!("u{n}");
        match w.acquire(&who, &["1", "2", "3"]).0 {
            Ok(_) => winners.push(who),
            Err(Refusal::Held { items }) => {
                assert_eq!(items.len(), 3);
                for unavailable in items {
                    let Why::Held { holder, .. } = unavailable.why else { panic!("{unavailable:?}") };
                    assert_eq!(holder, person(&winners[0]));
                }
            }
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!(winners, ["u0"]);
}

/// R2, I8
#[test]
fn r02_if_any_item_cannot_be_had_none_is_taken_and_all_such_are_named() {
    let mut w = World::of("raffle", &["1", "2", "3", "4"]);
    w.acquire("ana", &["2"]).granted();
    w.put("root", put_status("4", "withdrawn")).granted();
    let before = w.rows.clone();
    let refusal = w.acquire("beto", &["1", "2", "3", "4"]).refused();
    let Refusal::NotClaimable { items } = refusal else { panic!("{refusal:?}") };
    let named: Vec<_> = items.iter().map(|unavailable| unavailable.item.as_str()).collect();
    assert_eq!(named, ["2", "4"]);
    assert_eq!(w.rows, before);
    assert_eq!(w.item("1").claim, 0);
}

/// The gravest reason names the refusal: waiting helps only where all are merely held.
#[test]
fn r02_the_gravest_reason_gives_the_code() {
    let mut w = World::of("raffle", &["held", "odd", "sold"]);
    w.acquire("ana", &["held"]).granted();
    w.put("root", put_status("odd", "withdrawn")).granted();
    w.put("root", put_status("sold", "sold")).granted();
    let table: [(&[&str], &str); 4] = [
        (&["held"], "held"),
        (&["held", "odd"], "not_claimable"),
        (&["held", "odd", "sold"], "finished"),
        (&["sold", "held"], "finished"),
    ];
    for (ids, code) in table {
        let refusal = w.acquire("beto", ids).refused();
        assert_eq!(refusal.code(), code);
        assert_eq!(refusal.retry_at_ms().is_some(), code == "held");
    }
}

/// J2: `always`, also for the one who still holds it.
#[test]
fn j02_a_finished_item_is_refused_even_to_its_holder() {
    let mut w = World::of("analysis", &["a"]);
    let claim = w.acquire("w1", &["a"]).claim();
    let write = PutItem { guard: Some(under(&claim)), ..put_status("a", "READY") };
    w.put("w1", write).granted();
    assert_eq!(w.acquire("w1", &["a"]).code(), "finished");
    assert_eq!(w.acquire("w2", &["a"]).code(), "finished");
    // The claim itself lives on until it ends.
    assert!(w.beat("w1", &claim).renewed().is_ok());
}

#[test]
fn j01_an_unknown_item_or_collection_is_not_found() {
    let mut w = World::of("analysis", &["a"]);
    assert_eq!(w.acquire("w1", &["b"]).refused(), Refusal::not_found("item", "b"));
    let elsewhere = CollectionKey::new("analysis/elsewhere").unwrap();
    let outcome = w.run_in(elsewhere, "w1", Verb::Acquire(items(&["a"])));
    assert_eq!(outcome.refused(), Refusal::not_found("collection", "analysis/elsewhere"));
}

#[test]
fn a_plain_lock_needs_neither_collection_nor_item_made_beforehand() {
    let mut w = World::empty("lock");
    let decision = w.acquire("ana", &["deploy"]).granted();
    let facts: Vec<_> = decision.events.iter().map(|sealed| sealed.event.fact.action()).collect();
    assert_eq!(facts, ["collection_created", "claim_granted"]);
    let item = w.item("deploy");
    assert_eq!((item.version, item.status.as_str(), &*item.updated_by), (1, "open", "ana"));
    assert_eq!((item.fence, item.claim), (2, 2));
}

#[test]
fn a_refused_first_claim_leaves_no_collection_behind() {
    let mut w = World::empty("lock");
    assert_eq!(w.acquire("ana", &["a", "a"]).code(), "invalid");
    assert_eq!(w.rows, crate::memory::Memory::default());
}

#[test]
fn a_created_item_gets_the_status_on_claim_where_there_is_one() {
    let policy = Policy { create_on_claim: true, ..Policy::analysis() };
    let mut w = World::under(policy, &[]);
    w.acquire("w1", &["a"]).granted();
    assert_eq!(w.item("a").status, status("RUNNING"));
}

#[test]
fn a_claim_may_set_a_status_which_counts_as_a_version() {
    let mut w = World::of("analysis", &["a"]);
    w.at(9);
    w.acquire("w1", &["a"]).granted();
    let item = w.item("a");
    assert_eq!((item.status.as_str(), item.version), ("RUNNING", 2));
    assert_eq!((item.updated_at_ms, &*item.updated_by), (t(9), "w1"));
    let Fact::Granted(grant) = w.last_fact() else { panic!() };
    assert_eq!(grant.items[0].before, Some(status("QUEUED")));
    assert_eq!(grant.items[0].status, Some(status("RUNNING")));
    // An item that has it already is not written again.
    w.at(300_009);
    w.acquire("w2", &["a"]).granted();
    let item = w.item("a");
    assert_eq!((item.version, &*item.updated_by), (2, "w1"));
}

#[test]
fn j01_a_caller_may_ask_for_another_ttl_within_the_policys_bounds() {
    let table = [
        ("analysis", 999, "invalid"),
        ("analysis", 1_000, "ok"),
        ("analysis", 3_600_000, "ok"),
        ("analysis", 3_600_001, "invalid"),
        ("analysis", i64::MAX, "invalid"),
        ("analysis", -1, "invalid"),
        ("task", 180_000, "ok"),
        ("task", 179_999, "invalid"),
        ("task", 180_001, "invalid"),
        ("lock", 1_000, "ok"),
        ("lock", 86_400_000, "ok"),
        ("lock", 86_400_001, "invalid"),
    ];
    for (kind, ttl_ms, code) in table {
        let mut w = World::of(kind, &["a"]);
        let outcome = w.acquire_as("ana", for_ms(ttl_ms, &["a"]));
        assert_eq!(outcome.code(), code, "{kind} {ttl_ms}");
        match outcome.0 {
            Ok(_) => assert_eq!(w.claim(w.item("a").claim).expires_at_ms, t(ttl_ms)),
            Err(Refusal::Invalid { field, .. }) => assert_eq!(&*field, "ttl_ms"),
            Err(other) => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_renewal_may_ask_for_another_ttl_which_heartbeats_then_use() {
    let mut w = World::of("lock", &[]);
    let claim = w.acquire_as("ana", in_tab("w-1", &["a"])).claim();
    assert_eq!(claim.expires_at_ms, t(30_000));
    let longer = Acquire { ttl_ms: Some(60_000), ..in_tab("w-1", &["a"]) };
    let claim = w.acquire_as("ana", longer).claim();
    assert_eq!(claim.expires_at_ms, t(60_000));
    assert_eq!(w.at(50_000).beat("ana", &claim).renewed(), Ok(t(110_000)));
}

#[test]
fn the_claims_document_is_the_one_it_was_granted_with() {
    let mut w = World::of("lock", &[]);
    let data = Some(json(r#"{"host":"ci-3"}"#));
    let claim = w.acquire_as("ana", Acquire { data: data.clone(), ..in_tab("w-1", &["a"]) }).claim();
    assert_eq!(claim.data, data);
    assert_eq!(w.acquire_as("ana", in_tab("w-1", &["a"])).claim().data, data);
}

/// E1
#[test]
fn e01_each_grant_of_an_item_has_a_greater_token_also_over_delete_and_recreate() {
    let mut w = World::of("image", &["a"]);
    let mut newest = 0;
    for round in 0..4 {
        let claim = w.acquire("ana", &["a"]).claim();
        assert_eq!(claim.token, claim.number, "the token is the number of the granting event");
        assert!(claim.token > newest);
        assert_eq!(w.item("a").fence, claim.token);
        newest = claim.token;
        w.release("ana", &claim).granted();
        if round % 2 == 0 {
            w.delete("root", "a").granted();
            w.put("root", put_status("a", "new")).granted();
            assert_eq!((w.item("a").version, w.item("a").claim), (1, 0));
        }
    }
}
