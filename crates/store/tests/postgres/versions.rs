//! Used databases as earlier versions of the tables had them.

use std::sync::Arc;

use tenure_core::command::{Acquire, Complete};
use tenure_core::{ClaimState, Command, ItemId, Policy, Refusal, Status, Verb};
use tenure_store::conformance::{AS_VERSION_3, Server, command, key};
use tenure_store::postgres::{Options, Postgres};
use tenure_store::{ReplyKey, Store, View, Want};

use crate::support::{acquire, checked_events, run, run_kept};

/// What each version from the second on added, taken away again: rows are written in one form by all of them.
const BACK: &[&str] = &[
    "ALTER TABLE tenure.meta DROP COLUMN store, DROP COLUMN mark, DROP COLUMN history; \
     DROP INDEX tenure.claims_ended; DROP INDEX tenure.claims_of; \
     CREATE INDEX claims_of ON tenure.claims (collection, holder, number) WHERE state = 0; \
     DELETE FROM tenure.migrations WHERE version > 1; UPDATE tenure.schema SET version = 1",
    "ALTER TABLE tenure.collections DROP COLUMN turn; \
     DELETE FROM tenure.migrations WHERE version > 2; UPDATE tenure.schema SET version = 2",
    AS_VERSION_3,
];

/// The newest version that can be taken back from here.
pub(crate) const NEWEST: usize = BACK.len() + 1;

/// A day: as long as a lock can be held.
const TTL_MS: i64 = 86_400_000;

/// A database of this version that was used, and its address.
pub(crate) fn used(server: &Server, version: usize) -> String {
    let url = server.database();
    let name = url.rsplit('/').next().expect("a name");
    write(&mut Postgres::open(&url, &Options::default()).expect("opens"));
    for back in BACK[version - 1..].iter().rev() {
        server.run(name, back);
    }
    url
}

/// Something of each sort: a policy, what is held, what was let go, what was sold, and kept replies of both kinds.
fn write(store: &mut Postgres) {
    let sold = Status::new("sold").expect("a status");
    let policy = Arc::new(Policy { finished: vec![sold.clone()], ..Policy::lock() });
    let complete = Complete { claim: 2, token: Some(2), status: Some(sold), data: None, items: Vec::new() };
    let commands = [
        command("tenure/policies", "root", Verb::SetPolicy { kind: "ticket".into(), policy }),
        for_a_day("lock/a", "ana", &["item-0", "item-1", "item-2", "item-3", "item-4"]),
        for_a_day("lock/a", "ben", &["old"]),
        command("lock/a", "ben", Verb::Release { claim: 3 }),
        for_a_day("ticket/hall", "cleo", &["seat-1", "seat-2"]),
        command("ticket/hall", "cleo", Verb::Complete(complete)),
    ];
    for command in commands {
        let outcome = run(store, &[command]).expect("commits").remove(0);
        assert!(outcome.is_ok(), "{outcome:?}");
    }
    let kept = |store: &mut Postgres, who: &str, item: &str| {
        run_kept(store, &for_a_day("lock/a", who, &[item]), &reply_key(who)).expect("commits").is_ok()
    };
    assert!(kept(store, "dora", "kept"), "is granted");
    assert!(!kept(store, "eve", "item-1"), "is refused");
}

fn for_a_day(collection: &str, who: &str, items: &[&str]) -> Command {
    let items = items.iter().map(|id| ItemId::new(*id).expect("a valid id")).collect();
    command(collection, who, Verb::Acquire(Acquire { items, ttl_ms: Some(TTL_MS), ..Acquire::default() }))
}

fn reply_key(who: &str) -> ReplyKey {
    ReplyKey { collection: key("lock/a"), principal: who.into(), key: "once".into() }
}

/// All of that is there and holds, for a node that also does something of its own.
pub(crate) fn check(store: &mut Postgres, node: usize) {
    let mut ask = |command: Command| {
        let outcome = run(store, &[command]).expect("commits").remove(0);
        outcome.as_ref().map_or_else(Refusal::code, |_| "ok")
    };
    assert_eq!(ask(acquire("lock/a", "fay", &[&format!("new-{node}")])), "ok");
    assert_eq!(ask(acquire("lock/a", "fay", &["item-3"])), "held");
    assert_eq!(ask(acquire("ticket/hall", "fay", &["seat-2"])), "finished");
    let beat = Verb::Heartbeat { claim: 2, token: 2, idle_ms: None };
    assert_eq!(ask(command("lock/a", "ana", beat)), "ok");
    for (who, code) in [("dora", "ok"), ("eve", "held")] {
        let want = Want { reply: Some(reply_key(who)), ..Want::of(&key("lock/a")) };
        let kept = store.load(&[want]).expect("loads").kept(&reply_key(who)).expect("is kept");
        assert_eq!(kept.outcome.as_ref().map_or_else(Refusal::code, |_| "ok"), code, "{who}");
        store.abandon().expect("ends");
    }
    let reader = store.reader();
    let state = |collection: &str, claim: u64| {
        let claim = reader.claim(&key(collection), claim).expect("reads").expect("is there");
        (claim.state, claim.items.len())
    };
    assert_eq!(state("lock/a", 2), (ClaimState::Active, 5));
    assert_eq!(state("lock/a", 3), (ClaimState::Released, 1));
    assert_eq!(state("ticket/hall", 2), (ClaimState::Completed, 2));
    let policy = reader.policy("ticket").expect("reads").expect("was set");
    assert_eq!(policy.finished, [Status::new("sold").expect("a status")]);
}

/// The chains hold, over what was written before and since. For when nobody writes any more.
pub(crate) fn check_chains(store: &Postgres) {
    for collection in ["lock/a", "ticket/hall", "tenure/policies"] {
        checked_events(&*store.reader(), &key(collection));
    }
}
