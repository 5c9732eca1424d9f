//! The cases. Each gets an empty store; what it leaves is compared, then again after a restart.

use std::sync::Arc;

use tenure_core::command::{Acquire, Complete, PutItem};
use tenure_core::{
    ClaimState, CollectionKey, Command, Expect, Fact, ItemId, ItemWrite, Json, Policy, Principal, Reply,
    Rows, Status, Text, Verb, fold,
};

use super::compare::{all_audit, all_collections};
use super::harness::{Harness, command, key, reply_key, wants_of};
use super::held::of_one_moment;
use crate::{AuditFilter, Batch, ClaimFilter, EventPage, HeldItem, ItemFilter, Kept, State, Store};

type Case<S> = fn(&mut Harness<'_, S>);

pub(super) fn all<S: Store>() -> Vec<(&'static str, Case<S>)> {
    vec![
        ("a load shows what was committed", loads),
        ("a refused command leaves nothing", refusals),
        ("events come in pages and resume", events),
        ("a cursor that was never reached is told to start anew", resync),
        ("a snapshot is of one moment", snapshots),
        ("claims are found by holder and by state", claims),
        ("policies are kept", policies),
        ("replies are kept for their key and their day", kept),
        ("the audit finds by actor, action, item and time", audit),
        ("items are listed in order, by status and by hold", items),
        ("collections do not mix", collections),
        ("any text is an item", unicode),
        ("tokens grow across a deletion", deletion),
        ("time only moves ahead", time),
        ("a restore jumps ahead", restore),
        ("an ended claim can be read for ever", ended),
        ("an item and its claim are of one moment", of_one_moment),
        ("anything in any order", anything),
    ]
}

pub(super) fn acquire(items: &[&str]) -> Verb {
    Verb::Acquire(Acquire { items: items.iter().map(|id| item(id)).collect(), ..Acquire::default() })
}

pub(super) fn item(id: &str) -> ItemId {
    ItemId::new(id).expect("a valid id")
}

fn put(id: &str, status: Option<&str>, data: Option<&str>) -> Verb {
    let write = ItemWrite {
        item: item(id),
        status: status.map(|status| Status::new(status).expect("a valid status")),
        data: data.map(|data| Json::parse(data, "data").expect("valid JSON")),
    };
    Verb::PutItem(PutItem { write, expect: Expect::Any, guard: None })
}

pub(super) fn claim_of(reply: &Reply) -> (u64, u64) {
    match reply {
        Reply::Acquired { claim, .. } | Reply::Claim { claim } => (claim.number, claim.token),
        other => panic!("no claim in {other:?}"),
    }
}

fn loads<S: Store>(harness: &mut Harness<'_, S>) {
    let (number, token) = claim_of(&harness.grant(command("lock/a", "ana", acquire(&["one", "two"]))));
    let wanted = command("lock/a", "ana", acquire(&["one", "two", "three"]));
    let want = wants_of(&wanted, None);
    let view = harness.store().load(&[want]).expect("loads");
    let found = view.item(&key("lock/a"), &item("one")).expect("the item is there");
    assert_eq!((found.claim, found.fence), (number, token));
    assert_eq!(view.item(&key("lock/a"), &item("three")), None);
    let claim = view.claim(&key("lock/a"), number).expect("the claim is there");
    assert_eq!(claim.items.len(), 2);
    assert_eq!(view.collection(&key("lock/a")).map(|head| head.seq), Some(number));
    assert_eq!(view.collection(&key("lock/b")), None);
    drop(view);
    harness.grant(command("lock/a", "ana", Verb::Heartbeat { claim: number, token, idle_ms: None }));
    harness.compare();
    harness.reopen();
    harness.grant(command("lock/a", "ana", Verb::Heartbeat { claim: number, token, idle_ms: None }));
    harness.grant(command("lock/a", "ana", Verb::Release { claim: number }));
}

fn refusals<S: Store>(harness: &mut Harness<'_, S>) {
    harness.grant(command("lock/a", "ana", acquire(&["one"])));
    let before = harness.reader().collection(&key("lock/a")).expect("reads");
    let group = Verb::Group(vec![acquire(&["free"]), acquire(&["one"])]);
    let outcomes = harness.batch(vec![
        (command("lock/a", "ben", acquire(&["one"])), None),
        (command("lock/a", "ben", group), None),
        (command("lock/none", "ben", Verb::Release { claim: 1 }), None),
    ]);
    assert!(outcomes.iter().all(Result::is_err), "{outcomes:?}");
    let reader = harness.reader();
    assert_eq!(reader.collection(&key("lock/a")).expect("reads"), before);
    assert_eq!(reader.collection(&key("lock/none")).expect("reads"), None);
    assert_eq!(reader.item(&key("lock/a"), &item("free")).expect("reads"), None);
    // Granted and refused in one batch: the one is there, the other is not.
    let outcomes = harness.batch(vec![
        (command("lock/a", "ben", acquire(&["two"])), None),
        (command("lock/a", "cid", acquire(&["two"])), None),
        (command("lock/a", "cid", acquire(&["three"])), None),
    ]);
    assert_eq!(outcomes.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true]);
}

fn events<S: Store>(harness: &mut Harness<'_, S>) {
    for round in 0..60 {
        let (number, _) = claim_of(&harness.grant(command("lock/a", "ana", acquire(&["one"]))));
        harness.grant(command("lock/a", "ana", Verb::Release { claim: number }));
        if round % 20 == 10 {
            harness.reopen();
        }
    }
    let reader = harness.reader();
    let EventPage::Events(page) = reader.events(&key("lock/a"), 50, 20).expect("reads") else {
        panic!("a known number resumes");
    };
    let numbers: Vec<u64> = page.iter().map(|sealed| sealed.event.seq).collect();
    assert_eq!(numbers, (51..=70).collect::<Vec<u64>>());
    let EventPage::Events(page) = reader.events(&key("lock/a"), 121, 20).expect("reads") else {
        panic!("the newest number waits");
    };
    assert!(page.is_empty());
}

fn resync<S: Store>(harness: &mut Harness<'_, S>) {
    harness.grant(command("lock/a", "ana", acquire(&["one"])));
    let reader = harness.reader();
    let page = reader.events(&key("lock/a"), 3, 10).expect("reads");
    assert!(matches!(page, EventPage::Resync { last: 2, .. }), "{page:?}");
    let page = reader.events(&key("lock/none"), 0, 10).expect("reads");
    assert!(matches!(&page, EventPage::Events(events) if events.is_empty()), "{page:?}");
    let page = reader.events(&key("lock/none"), 1, 10).expect("reads");
    assert!(matches!(page, EventPage::Resync { .. }), "{page:?}");
    assert!(reader.snapshot(&key("lock/none")).expect("reads").is_none());
}

/// Folding the events up to the snapshot's head gives the snapshot.
fn snapshots<S: Store>(harness: &mut Harness<'_, S>) {
    for round in 0..30 {
        let id = format!("item-{}", round % 7);
        let Ok(reply) = harness.run(command("lock/a", "ana", acquire(&[&id]))) else { continue };
        if round % 3 == 0 {
            harness.grant(command("lock/a", "ana", Verb::Release { claim: claim_of(&reply).0 }));
        }
    }
    let reader = harness.reader();
    let snapshot = reader.snapshot(&key("lock/a")).expect("reads").expect("it is there");
    let EventPage::Events(events) = reader.events(&key("lock/a"), 0, 1_000).expect("reads") else {
        panic!("all events are there");
    };
    let mut state = State::default();
    for sealed in events.iter().filter(|sealed| sealed.event.seq <= snapshot.head.seq) {
        fold::apply(&mut state, &key("lock/a"), &sealed.event, sealed.hash);
    }
    let folded = state.snapshot(&key("lock/a"), snapshot.epoch).expect("it is there");
    assert_eq!((folded.head, folded.items, folded.claims), (snapshot.head, snapshot.items, snapshot.claims));
}

fn claims<S: Store>(harness: &mut Harness<'_, S>) {
    let mut numbers = Vec::new();
    for (actor, id) in [("ana", "1"), ("ben", "2"), ("ana", "3"), ("ana", "4")] {
        numbers.push(claim_of(&harness.grant(command("lock/a", actor, acquire(&[id])))).0);
    }
    harness.grant(command("lock/b", "ana", acquire(&["1"])));
    harness.grant(command("lock/a", "ana", Verb::Release { claim: numbers[2] }));
    let want = wants_of(&command("lock/a", "ana", Verb::CreateCollection), None);
    let view = harness.store().load(&[want]).expect("loads");
    let of_ana: Vec<u64> = view.claims_of(&key("lock/a"), "ana").iter().map(|claim| claim.number).collect();
    assert_eq!(of_ana, [numbers[0], numbers[3]]);
    assert_eq!(view.active_claims(&key("lock/a")), [numbers[0], numbers[1], numbers[3]]);
    drop(view);
    let reader = harness.reader();
    let filter = ClaimFilter {
        holder: Some(Text::from("ana")),
        state: Some(ClaimState::Active),
        ..ClaimFilter::default()
    };
    let page = reader.claims(&filter, 2).expect("reads");
    assert_eq!((page.rows.len(), page.more), (2, true));
    let after = Some((page.rows[1].collection.clone(), page.rows[1].claim.number));
    let page = reader.claims(&ClaimFilter { after, ..filter }, 2).expect("reads");
    assert_eq!((page.rows.len(), page.more), (1, false));
    assert_eq!(page.rows[0].collection, key("lock/b"));
}

fn policies<S: Store>(harness: &mut Harness<'_, S>) {
    let set = |policy: Policy| Verb::SetPolicy { kind: Text::from("custom"), policy: Arc::new(policy) };
    let policies = CollectionKey::policies();
    assert!(harness.run(command("custom/a", "ana", acquire(&["one"]))).is_err());
    harness.grant(command(policies.as_str(), "ana", set(Policy::lock())));
    harness.grant(command("custom/a", "ana", acquire(&["one"])));
    harness.reopen();
    let stricter = Policy { max_items: 1, ..Policy::lock() };
    // A policy counts for the commands after it in the same batch.
    let outcomes = harness.batch(vec![
        (command(policies.as_str(), "ana", set(stricter.clone())), None),
        (command("custom/a", "ben", acquire(&["two", "three"])), None),
    ]);
    assert!(outcomes[0].is_ok() && outcomes[1].is_err());
    assert_eq!(harness.reader().policy("custom").expect("reads").as_deref(), Some(&stricter));
}

fn kept<S: Store>(harness: &mut Harness<'_, S>) {
    let started_ms = harness.now_ms;
    harness.batch(vec![
        (command("lock/a", "ana", acquire(&["one"])), Some("k")),
        (command("lock/a", "ben", acquire(&["one"])), Some("k")),
        (command("lock/b", "ana", acquire(&["one"])), Some("k")),
    ]);
    harness.reopen();
    let find = |collection: &str, principal: &str, name: &str| reply_key(&key(collection), principal, name);
    let granted = harness.kept(&find("lock/a", "ana", "k")).expect("kept");
    assert!(granted.outcome.is_ok());
    let refused = harness.kept(&find("lock/a", "ben", "k")).expect("a refusal is kept too");
    assert!(refused.outcome.is_err());
    assert_eq!(harness.kept(&find("lock/a", "ana", "other")), None);
    assert_eq!(harness.kept(&find("lock/b", "ben", "k")), None);
    harness.now_ms = started_ms + Kept::KEEP_MS - 1;
    assert!(harness.kept(&find("lock/b", "ana", "k")).is_some());
    harness.now_ms = started_ms + Kept::KEEP_MS;
    assert_eq!(harness.kept(&find("lock/b", "ana", "k")), None);
    // After its day the key can be used again, and then the newer reply counts.
    harness.batch(vec![(command("lock/a", "ana", acquire(&["two"])), Some("k"))]);
    let newer = harness.kept(&find("lock/a", "ana", "k")).expect("kept anew");
    assert_ne!(newer, granted);
}

fn audit<S: Store>(harness: &mut Harness<'_, S>) {
    let mut times = Vec::new();
    for round in 0..40 {
        times.push(harness.now_ms);
        let (actor, id) = (["ana", "ben", "cid"][round % 3], format!("item-{}", round % 5));
        let collection = ["lock/a", "lock/b"][round % 2];
        let (number, _) = claim_of(&harness.grant(command(collection, actor, acquire(&[&id]))));
        harness.grant(command(collection, actor, Verb::Release { claim: number }));
        if round == 25 {
            harness.reopen();
        }
    }
    let reader = harness.reader();
    let none = AuditFilter::default;
    let find = |filter: AuditFilter| {
        let found = all_audit(&*reader, &filter, 9);
        assert!(found.iter().all(|(key, sealed)| filter.matches(key, &sealed.event)));
        assert!(found.windows(2).all(|pair| pair[0].1.event.at_ms >= pair[1].1.event.at_ms), "newest first");
        found.len()
    };
    assert_eq!(find(AuditFilter { actor: Some(Text::from("ana")), ..none() }), 29);
    assert_eq!(find(AuditFilter { action: Some(Text::from("claim_released")), ..none() }), 40);
    assert_eq!(find(AuditFilter { item: Some(item("item-3")), ..none() }), 16);
    assert_eq!(find(AuditFilter { collection: Some(key("lock/b")), ..none() }), 41);
    assert_eq!(find(AuditFilter { from_ms: Some(times[10]), to_ms: Some(times[20]), ..none() }), 20);
    assert_eq!(find(AuditFilter { actor: Some(Text::from("nobody")), ..none() }), 0);
    let both = AuditFilter { actor: Some(Text::from("ben")), item: Some(item("item-1")), ..none() };
    assert_eq!(find(both), 6);
}

fn items<S: Store>(harness: &mut Harness<'_, S>) {
    harness.grant(command("task/a", "ana", Verb::CreateCollection));
    for id in ["e", "a", "d", "b", "c"] {
        harness.grant(command("task/a", "ana", put(id, Some("ready"), Some(r#"{"n": 1.50}"#))));
    }
    harness.grant(command("task/a", "ana", put("c", Some("completed"), None)));
    harness.grant(command("task/a", "ana", acquire(&["b"])));
    harness.reopen();
    let (reader, now_ms) = (harness.reader(), harness.now_ms);
    let list = |filter: &ItemFilter, limit: usize| {
        let page = reader.items(&key("task/a"), filter, limit).expect("reads");
        (page.rows.iter().map(|item| item.id.to_string()).collect::<Vec<_>>().concat(), page.more)
    };
    let none = ItemFilter::default;
    assert_eq!(list(&none(), 10), ("abcde".to_owned(), false));
    assert_eq!(list(&none(), 2), ("ab".to_owned(), true));
    assert_eq!(list(&ItemFilter { after: Some(item("b")), ..none() }, 3), ("cde".to_owned(), false));
    assert_eq!(list(&ItemFilter { after: Some(item("bb")), ..none() }, 1), ("c".to_owned(), true));
    let status = Some(Status::new("ready").expect("valid"));
    assert_eq!(list(&ItemFilter { status, ..none() }, 10), ("ade".to_owned(), false));
    assert_eq!(list(&ItemFilter { held: Some((true, now_ms)), ..none() }, 10), ("b".to_owned(), false));
    assert_eq!(list(&ItemFilter { held: Some((false, now_ms)), ..none() }, 10), ("acde".to_owned(), false));
    // A claim past its deadline holds nothing, swept or not.
    let later_ms = now_ms + 3_600_000;
    assert_eq!(list(&ItemFilter { held: Some((true, later_ms)), ..none() }, 10), (String::new(), false));
}

fn collections<S: Store>(harness: &mut Harness<'_, S>) {
    for batch in 0..10 {
        let commands = (0..30).map(|index| {
            let collection = format!("lock/c-{:03}", batch * 30 + index);
            (command(&collection, "ana", acquire(&["same"])), None)
        });
        harness.batch(commands.collect());
    }
    let reader = harness.reader();
    assert_eq!(all_collections(&*reader, 50).len(), 300);
    let page = reader.collections(Some(&key("lock/c-297")), 10).expect("reads");
    assert_eq!((page.rows.len(), page.more), (2, false));
    assert!(page.rows.iter().all(|(_, head)| head.seq == 2));
}

fn unicode<S: Store>(harness: &mut Harness<'_, S>) {
    let ids = [
        "ñandú",
        "日本",
        "🎟️ 042",
        "a b",
        "'; DROP TABLE items; --",
        "%_\\",
        "\u{fffd}",
        "Z",
        "é",
        "e\u{301}",
    ];
    for id in ids {
        harness.grant(command("lock/a", "ana", acquire(&[id])));
    }
    harness.grant(command("lock/a", "ana", Verb::Nudge { claim: 2, message: Some(Text::from("¿ya?")) }));
    harness.reopen();
    let reader = harness.reader();
    for id in ids {
        assert!(reader.item(&key("lock/a"), &item(id)).expect("reads").is_some(), "{id}");
    }
    let mut sorted = ids.to_vec();
    sorted.sort_unstable();
    let page = reader.items(&key("lock/a"), &ItemFilter::default(), 100).expect("reads");
    let listed: Vec<String> = page.rows.iter().map(|item| item.id.to_string()).collect();
    assert_eq!(listed, sorted);
}

fn deletion<S: Store>(harness: &mut Harness<'_, S>) {
    let mut last_token = 0;
    for _ in 0..3 {
        let (number, token) = claim_of(&harness.grant(command("lock/a", "ana", acquire(&["one"]))));
        assert!(token > last_token, "{token} after {last_token}");
        last_token = token;
        harness.grant(command("lock/a", "ana", Verb::Release { claim: number }));
        let delete = Verb::DeleteItem { item: item("one"), expect: Expect::Any, guard: None };
        harness.grant(command("lock/a", "ana", delete));
        harness.compare();
        harness.reopen();
        assert_eq!(harness.reader().item(&key("lock/a"), &item("one")).expect("reads"), None);
    }
}

fn time<S: Store>(harness: &mut Harness<'_, S>) {
    let start_ms = harness.now_ms;
    harness.grant(command("lock/a", "ana", acquire(&["one"])));
    assert_eq!(harness.store().high_water_ms(), start_ms);
    harness.now_ms = start_ms + 5_000;
    harness.batch(Vec::new());
    assert_eq!(harness.store().high_water_ms(), start_ms + 5_000, "an empty batch moves the time");
    harness.store().commit(Batch { at_ms: 1, entries: Vec::new() }).expect("commits");
    assert_eq!(harness.store().high_water_ms(), start_ms + 5_000, "an earlier one does not");
    harness.reopen();
    assert_eq!(harness.store().high_water_ms(), start_ms + 5_000);
}

fn restore<S: Store>(harness: &mut Harness<'_, S>) {
    harness.grant(command("lock/a", "ana", acquire(&["one"])));
    let verb = Verb::Restore { epoch: 1 };
    let as_system = |verb| Command { collection: key("lock/a"), actor: Principal::system(), verb };
    harness.grant(as_system(verb));
    let (number, _) = claim_of(&harness.grant(command("lock/a", "ana", acquire(&["two"]))));
    assert!(number > tenure_core::limits::EPOCH_NUMBERS);
    harness.compare();
    harness.reopen();
    let page = harness.reader().events(&key("lock/a"), 2, 10).expect("reads");
    assert!(matches!(&page, EventPage::Events(events) if events.len() == 2), "{page:?}");
    // A number of the time that was lost.
    let page = harness.reader().events(&key("lock/a"), 5, 10).expect("reads");
    assert!(matches!(page, EventPage::Resync { .. }), "{page:?}");
}

fn ended<S: Store>(harness: &mut Harness<'_, S>) {
    let (number, token) = claim_of(&harness.grant(command("lock/a", "ana", acquire(&["one", "two"]))));
    harness.grant(command("lock/a", "ana", Verb::AddItem { claim: number, item: item("three") }));
    harness.grant(command("lock/a", "ana", Verb::RemoveItem { claim: number, item: item("one") }));
    harness.now_ms += 1_000;
    harness.grant(Command {
        collection: key("lock/a"),
        actor: Principal::system(),
        verb: Verb::Resume { shift_ms: 700 },
    });
    harness.grant(command("lock/a", "ana", Verb::Heartbeat { claim: number, token, idle_ms: None }));
    let complete = Complete {
        claim: number,
        token: None,
        status: None,
        data: Some(Json::parse("[1]", "data").expect("valid")),
        items: Vec::new(),
    };
    harness.grant(command("lock/a", "ana", Verb::Complete(complete)));
    let (swept, _) = claim_of(&harness.grant(command("lock/a", "ben", acquire(&["one"]))));
    harness.now_ms += 3_600_000;
    harness.grant(command("lock/a", "ben", Verb::Expire { claim: swept }));
    for round in 0..50 {
        let (other, _) = claim_of(&harness.grant(command("lock/a", "cid", acquire(&[&format!("x{round}")]))));
        harness.grant(command("lock/a", "cid", Verb::Cancel { claim: other }));
    }
    harness.compare();
    harness.reopen();
    let reader = harness.reader();
    let claim = reader.claim(&key("lock/a"), number).expect("reads").expect("it is known");
    assert_eq!(claim.state, ClaimState::Completed);
    assert_eq!(claim.items.iter().map(ItemId::as_str).collect::<Vec<_>>(), ["two", "three"]);
    let claim = reader.claim(&key("lock/a"), swept).expect("reads").expect("it is known");
    assert_eq!((claim.state, claim.ended_at_ms), (ClaimState::Expired, Some(claim.expires_at_ms)));
    // The number of an event that granted nothing is no claim's.
    assert_eq!(reader.claim(&key("lock/a"), 1).expect("reads"), None);
    assert_eq!(reader.claim(&key("lock/a"), 1 << 50).expect("reads"), None);
    let (held, _) = claim_of(&harness.grant(command("lock/a", "cid", acquire(&["held"]))));
    let reader = harness.reader();
    let list = |filter: &ItemFilter, limit: usize| {
        let page = reader.held_items(&key("lock/a"), filter, limit).expect("reads");
        let row = |row: HeldItem| (row.item.id.to_string(), row.claim.map(|claim| claim.number));
        (page.rows.into_iter().map(row).collect::<Vec<_>>(), page.more)
    };
    let (rows, more) = list(&ItemFilter::default(), 100);
    assert_eq!((rows.len(), more), (54, false));
    let shown = rows.iter().filter_map(|(id, claim)| claim.map(|claim| (id.as_str(), claim)));
    assert_eq!(shown.collect::<Vec<_>>(), [("held", held)], "only what is active");
    let first = ItemFilter { after: Some(item("a")), ..ItemFilter::default() };
    assert_eq!(list(&first, 1), (vec![("held".to_owned(), Some(held))], true));
    let free = ItemFilter { held: Some((false, harness.now_ms)), ..first };
    assert_eq!(list(&free, 1), (vec![("one".to_owned(), None)], true));
    let only = |collection: &str, id: &str| {
        reader.held_item(&key(collection), &item(id)).expect("reads").map(|row| row.claim.is_some())
    };
    assert_eq!((only("lock/a", "held"), only("lock/a", "one")), (Some(true), Some(false)));
    assert_eq!((only("lock/a", "none"), only("lock/none", "one")), (None, None));
}

/// A few hundred commands of all kinds in batches of all sizes, always the same ones.
fn anything<S: Store>(harness: &mut Harness<'_, S>) {
    let mut dice = Dice(0x5eed);
    for round in 0..120 {
        harness.now_ms += dice.below(20_000).cast_signed();
        let size = dice.below(9);
        let names: Vec<String> = (0..size).map(|index| format!("{round}-{index}")).collect();
        let commands = names.iter().map(|name| {
            let keep = dice.below(3) == 0;
            (any_command(&mut dice, harness_numbers(round)), keep.then_some(name.as_str()))
        });
        let commands: Vec<_> = commands.collect();
        harness.batch(commands);
        if round % 25 == 24 {
            harness.compare();
            harness.reopen();
        }
    }
    let reader = harness.reader();
    let audit = all_audit(&*reader, &AuditFilter::default(), 1_000);
    let kinds = audit.iter().map(|(_, sealed)| sealed.event.fact.action());
    let kinds: std::collections::BTreeSet<_> = kinds.collect();
    assert!(kinds.len() >= 8, "the dice rolled only {kinds:?}");
    assert!(audit.iter().any(|(_, sealed)| matches!(sealed.event.fact, Fact::Ended(_))));
}

/// Claims have the numbers of events: about this high by then.
fn harness_numbers(round: u64) -> u64 {
    3 + round * 2
}

fn any_command(dice: &mut Dice, numbers: u64) -> Command {
    let collection = ["lock/a", "lock/b", "task/c"][dice.index(3)];
    let actor = ["ana", "ben", "cid"][dice.index(3)];
    let id = ["1", "2", "3", "4", "5", "6"][dice.index(6)];
    let other = ["7", "8"][dice.index(2)];
    let claim = 1 + dice.below(numbers);
    let verb = match dice.below(16) {
        0..4 => acquire(&[id]),
        4..6 if collection != "task/c" => acquire(&[id, other]),
        4..6 => Verb::CreateCollection,
        6 => Verb::Heartbeat { claim, token: claim, idle_ms: None },
        7 => Verb::Release { claim },
        8 => Verb::Cancel { claim },
        9 => Verb::Expire { claim },
        10 => Verb::ForceRelease { item: item(id), reason: Text::from("needed elsewhere") },
        11 => Verb::ForceClaim { item: item(id), reason: Text::from("mine now"), session: None },
        12 => put(id, Some("ready"), Some("{}")),
        13 => Verb::DeleteItem { item: item(id), expect: Expect::Any, guard: None },
        14 => Verb::Nudge { claim, message: None },
        _ => Verb::Group(vec![acquire(&[id]), acquire(&[other])]),
    };
    command(collection, actor, verb)
}

/// Splitmix: the same rolls in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    fn index(&mut self, bound: usize) -> usize {
        usize::try_from(self.below(bound as u64)).expect("a small number")
    }
}
