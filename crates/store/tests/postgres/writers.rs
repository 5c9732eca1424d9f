//! Several writers over one database.

use std::collections::BTreeMap;

use tenure_core::command::{Expect, PutItem};
use tenure_core::{Command, Fact, ItemId, ItemWrite, Json, Principal, Reply, Rows, Verb};
use tenure_store::conformance::{Server, command, key};
use tenure_store::limits::EVENT_PAGE_BYTES;
use tenure_store::postgres::{Bug, Options, Postgres};
use tenure_store::{Error, EventPage, Store, View, Want};

use crate::support::{acquire, checked_events, run, run_with};

fn want(collection: &str) -> Want {
    Want { collection: key(collection), items: Vec::new(), claims: Vec::new(), holder: None, reply: None }
}

/// Overlapping batches over three collections, named in every order: no deadlock, no lost update, no gap.
#[test]
fn e09_overlapping_batches_of_several_writers_neither_clash_nor_deadlock() {
    let server = Server::shared();
    let url = server.database();
    overlap(&url, 4, &Options::default());
    assert_eq!(server.deadlocks(&url), 0);
}

/// The test above would find what it is there for; chance decides in which of its runs.
#[test]
fn e09_bugs_that_are_planted_among_several_writers_are_caught() {
    const RUNS_MAX: usize = 50;
    let server = Server::shared();
    let url = server.database();
    let database = url.rsplit('/').next().expect("a name");
    server.ask("postgres", &format!("ALTER DATABASE {database} SET deadlock_timeout = '20ms'"));
    let deadlock = (0..RUNS_MAX).find(|_| {
        // A deadlock is ended by the database, and the batch is decided anew: only its count tells.
        let _ = std::panic::catch_unwind(|| overlap(&url, 4, &planted(Bug::UnsortedLocks)));
        server.deadlocks(&url) > 0
    });
    assert!(deadlock.is_some(), "unsorted locks were not caught in {RUNS_MAX} runs");
    let clash = (0..RUNS_MAX).find(|_| {
        let url = server.database();
        std::panic::catch_unwind(|| overlap(&url, 4, &planted(Bug::EarlyNumbers))).is_err()
    });
    assert!(clash.is_some(), "early numbers were not caught in {RUNS_MAX} runs");
}

fn planted(bug: Bug) -> Options {
    Options { bug: Some(bug), ..Options::default() }
}

pub(crate) fn overlap(url: &str, writers: usize, options: &Options) {
    let rounds = 60_usize;
    std::thread::scope(|scope| {
        for writer in 0..writers {
            scope.spawn(move || {
                let mut store = Postgres::open(url, options).expect("opens");
                let actor = format!("writer-{writer}");
                for round in 0..rounds {
                    let names = ["lock/a", "lock/b", "lock/c"];
                    let item = format!("item-{}", round % 5);
                    let shift = writer + round;
                    let order = (0..3).map(|index| names[(shift + index * (1 + shift % 2)) % 3]);
                    let commands: Vec<Command> = order.map(|name| acquire(name, &actor, &[&item])).collect();
                    let outcomes = run(&mut store, &commands).expect("commits");
                    // Whoever got one gives it back, so that others get on.
                    let held = commands.iter().zip(&outcomes).filter_map(|(asked, outcome)| match outcome {
                        Ok(Reply::Acquired { claim, .. }) => {
                            Some(Command { verb: Verb::Release { claim: claim.number }, ..asked.clone() })
                        }
                        _ => None,
                    });
                    let held: Vec<Command> = held.collect();
                    let outcomes = run(&mut store, &held).expect("commits");
                    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
                }
            });
        }
    });
    let reader = Postgres::open(url, &Options::default()).expect("opens").reader();
    for name in ["lock/a", "lock/b", "lock/c"] {
        let events = checked_events(&*reader, &key(name));
        let mut holder: BTreeMap<String, u64> = BTreeMap::new();
        for sealed in &events {
            match &sealed.event.fact {
                Fact::Granted(grant) => {
                    for item in &grant.items {
                        let before = holder.insert(item.id.to_string(), sealed.event.seq);
                        assert_eq!(before, None, "{name}: {} was held", item.id);
                    }
                }
                Fact::Ended(end) => {
                    for item in end.items.iter() {
                        assert_eq!(holder.remove(item.as_str()), Some(end.claim), "{name}: {item}");
                    }
                }
                _ => {}
            }
        }
        assert_eq!(holder, BTreeMap::new(), "{name}: all were given back");
    }
}

/// What a batch never asked for is read when the decision asks for it: the same rows, under the same lock.
#[test]
fn e09_what_was_not_foreseen_is_read_under_the_lock() {
    let url = Server::shared().database();
    let mut store = Postgres::open(&url, &Options::default()).expect("opens");
    let outcomes = run(&mut store, &[acquire("lock/a", "ana", &["one", "two"])]).expect("commits");
    let Ok(Reply::Acquired { claim, .. }) = &outcomes[0] else { panic!("{outcomes:?}") };
    let view = store.load(&[want("lock/a")]).expect("loads");
    let a = key("lock/a");
    assert_eq!(view.claim(&a, claim.number).as_deref(), Some(&**claim));
    assert_eq!(view.item(&a, &claim.items[0]).map(|item| item.claim), Some(claim.number));
    assert_eq!(view.item(&a, &claim.items[1]).map(|item| item.claim), Some(claim.number));
    assert_eq!(view.claims_of(&a, "ana").len(), 1);
    assert_eq!(view.active_claims(&a), [claim.number]);
    assert_eq!(view.claim(&a, 0), None);
    assert!(view.covers(&a) && !view.covers(&key("lock/b")));
}

/// Decided without a lock, it must not be committed.
#[test]
fn e09_a_collection_that_was_not_locked_cannot_be_decided_in() {
    let url = Server::shared().database();
    let mut store = Postgres::open(&url, &Options::default()).expect("opens");
    let mut other = store.another();
    let decided = {
        let view = store.load(&[want("lock/a")]).expect("loads");
        let now_ms = view.clock_ms().expect("its own time");
        let asked = acquire("lock/b", "ana", &["one"]);
        let decision =
            tenure_core::decide(&view, &asked, now_ms).expect("is granted on rows that are not there");
        tenure_store::Entry {
            collection: asked.collection,
            events: decision.events,
            beats: decision.beats,
            changed: decision.changed,
            kept: None,
        }
    };
    let error = store.commit(tenure_store::Batch { at_ms: 1, entries: vec![decided] });
    assert!(matches!(error, Err(Error::Away { .. })), "{error:?}");
    assert_eq!(other.reader().collection(&key("lock/b")).expect("reads"), None);
    run(&mut other, &[acquire("lock/a", "ana", &["one"])]).expect("its lock is gone with it");
}

/// A batch that comes to nothing lets go at once and leaves no head behind.
#[test]
fn e09_a_refused_batch_leaves_no_lock_and_no_row() {
    let server = Server::shared();
    let url = server.database();
    let options = Options { lock_ms: 500, ..Options::default() };
    let mut store = Postgres::open(&url, &options).expect("opens");
    let outcomes = run(&mut store, &[command("lock/none", "ana", Verb::Release { claim: 1 })]).expect("runs");
    assert!(outcomes[0].is_err());
    let mut other = store.another();
    let both = [acquire("lock/a", "ana", &["one"]), command("lock/none", "ana", Verb::Release { claim: 1 })];
    run(&mut other, &both).expect("no lock is in its way");
    let name = url.rsplit('/').next().expect("a name");
    let heads = server.ask(name, "SELECT string_agg(collection, ',') FROM tenure.collections");
    assert_eq!(heads.as_deref(), Some("lock/a"));
}

/// Who waits for a collection too long is told so, and nothing is lost.
#[test]
fn e09_a_lock_that_is_not_let_go_of_is_not_waited_for_for_ever() {
    let url = Server::shared().database();
    let mut store = Postgres::open(&url, &Options::default()).expect("opens");
    run(&mut store, &[acquire("lock/a", "ana", &["one"])]).expect("commits");
    let mut hasty = Postgres::open(&url, &Options { lock_ms: 200, ..Options::default() }).expect("opens");
    let outcomes = run_with(&mut store, &[acquire("lock/a", "ana", &["two"])], || {
        let error = run(&mut hasty, &[acquire("lock/a", "ben", &["three"])]).expect_err("it is locked");
        assert!(matches!(&error, Error::Away { detail } if detail.contains("lock timeout")), "{error}");
        run(&mut hasty, &[acquire("lock/b", "ben", &["three"])])
            .expect("another collection waits for nobody");
    });
    assert!(outcomes.expect("commits")[0].is_ok());
    run(&mut hasty, &[acquire("lock/a", "ben", &["three"])]).expect("free again");
    assert_eq!(checked_events(&*hasty.reader(), &key("lock/a")).len(), 4);
}

/// A node that is stuck with a collection in its hands is thrown out by the database; the next one goes on, and what the
/// stuck one decided is not written.
#[test]
fn e09_a_node_that_is_stuck_lets_go_of_its_locks() {
    let url = Server::shared().database();
    let options = Options { lock_ms: 300, resolve_ms: 3_000, ..Options::default() };
    let mut stuck = Postgres::open(&url, &options).expect("opens");
    run(&mut stuck, &[acquire("lock/a", "ana", &["one"])]).expect("commits");
    let mut other = Postgres::open(&url, &Options::default()).expect("opens");
    let outcome = run_with(&mut stuck, &[acquire("lock/a", "ana", &["two"])], || {
        // It waits for the lock, longer than the stuck one may sit on it.
        run(&mut other, &[acquire("lock/a", "ben", &["two"])]).expect("the lock is let go of");
    });
    let error = outcome.expect_err("it was thrown out");
    assert!(!error.is_fatal(), "{error}");
    let events = checked_events(&*other.reader(), &key("lock/a"));
    assert_eq!(events.len(), 3, "the collection, and a grant for each of two");
    run(&mut stuck, &[acquire("lock/a", "ana", &["three"])]).expect("and it comes back");
}

/// A statement that takes too long is ended, and what it belonged to has not happened.
#[test]
fn e09_a_statement_that_takes_too_long_is_ended() {
    let server = Server::shared();
    let url = server.database();
    let options = Options { statement_ms: 200, resolve_ms: 3_000, ..Options::default() };
    let mut store = Postgres::open(&url, &options).expect("opens");
    let name = url.rsplit('/').next().expect("a name");
    server.run(
        name,
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(60); RETURN new; END $$; \
         CREATE TRIGGER slow BEFORE INSERT ON tenure.batches FOR EACH ROW EXECUTE FUNCTION slow()",
    );
    let begun = std::time::Instant::now();
    let error = run(&mut store, &[acquire("lock/a", "ana", &["one"])]).expect_err("it was ended");
    assert!(!error.is_fatal() && !matches!(error, Error::Unknown { .. }), "{error}");
    assert!(begun.elapsed() < std::time::Duration::from_secs(10), "{:?}", begun.elapsed());
    server.run(name, "DROP TRIGGER slow ON tenure.batches");
    run(&mut store, &[acquire("lock/a", "ana", &["one"])]).expect("and then it is done");
    assert_eq!(checked_events(&*store.reader(), &key("lock/a")).len(), 2, "once");
}

/// Time is the database's, and in a collection it never runs back, whatever that clock does.
#[test]
fn e09_a_collections_time_goes_on_from_what_was_committed() {
    let server = Server::shared();
    let url = server.database();
    let mut store = Postgres::open(&url, &Options::default()).expect("opens");
    run(&mut store, &[acquire("lock/a", "ana", &["one"])]).expect("commits");
    let name = url.rsplit('/').next().expect("a name");
    server.run(name, "UPDATE tenure.collections SET at_ms = at_ms + 3600000");
    let ahead: i64 =
        server.ask(name, "SELECT at_ms FROM tenure.collections").expect("a row").parse().expect("a number");
    let view = store.load(&[want("lock/a"), want("lock/b")]).expect("loads");
    assert_eq!(view.now_ms(&key("lock/a")), Some(ahead));
    assert!(view.now_ms(&key("lock/b")).expect("a time") < ahead, "another collection has its own");
    // In one batch with it, too: what is committed there is as late as its own time, and no later.
    run(&mut store, &[acquire("lock/a", "ana", &["two"]), acquire("lock/b", "ana", &["two"])])
        .expect("commits");
    let times = "SELECT max(at_ms) FROM tenure.collections WHERE collection = ";
    let of = |collection: &str| server.ask(name, &format!("{times}'{collection}'")).expect("a row");
    assert_eq!(of("lock/a"), ahead.to_string());
    assert!(of("lock/b").parse::<i64>().expect("a number") < ahead);
    assert_eq!(Postgres::open(&url, &Options::default()).expect("opens").high_water_ms(), ahead);
    let system =
        Command { collection: key("lock/a"), actor: Principal::system(), verb: Verb::Expire { claim: 2 } };
    run(&mut store, &[system]).expect("commits");
    let events = checked_events(&*store.reader(), &key("lock/a"));
    assert_eq!(events.last().map(|sealed| sealed.event.at_ms), Some(ahead), "it has expired by then");
}

/// A page of large events ends before it is too large to be read in time; the next goes on from there.
#[test]
fn e09_a_page_of_events_is_bounded_by_its_bytes() {
    let url = Server::shared().database();
    let mut store = Postgres::open(&url, &Options::default()).expect("opens");
    let data = Json::parse(&format!("\"{}\"", "x".repeat(60_000)), "data").expect("small enough");
    let put = |number: usize| {
        let item = ItemId::new(format!("item-{number}")).expect("a valid id");
        let write = ItemWrite { item, status: None, data: Some(data.clone()) };
        command("lock/a", "ana", Verb::PutItem(PutItem { write, expect: Expect::Any, guard: None }))
    };
    let made = std::iter::once(command("lock/a", "ana", Verb::CreateCollection));
    let commands: Vec<Command> = made.chain((0..320).map(put)).collect();
    assert!(run(&mut store, &commands).expect("commits").iter().all(Result::is_ok));
    let (reader, mut seen, mut pages) = (store.reader(), 0, 0);
    loop {
        let EventPage::Events(events) = reader.events(&key("lock/a"), seen, 1_000).expect("reads") else {
            panic!("all are there")
        };
        let Some(last) = events.last() else { break };
        let bytes: usize = events.iter().map(|sealed| sealed.bytes.len()).sum();
        assert!(bytes < EVENT_PAGE_BYTES + 100_000, "{bytes}");
        assert_eq!(last.event.seq, seen + events.len() as u64);
        (seen, pages) = (last.event.seq, pages + 1);
    }
    assert_eq!((seen, pages), (321, 2));
}

#[test]
fn i11_a_database_that_is_set_to_forget_keeps_what_it_confirms() {
    let server = Server::shared();
    for (set, kept) in [("off", "on"), ("local", "local")] {
        let url = server.database();
        let name = url.rsplit('/').next().expect("a name");
        server.run(name, &format!("ALTER DATABASE {name} SET synchronous_commit = {set}"));
        let mut store = Postgres::open(&url, &Options::default()).expect("opens");
        server.run(
            name,
            "CREATE TABLE public.said (how text); \
             CREATE FUNCTION public.say() RETURNS trigger LANGUAGE plpgsql AS \
             $$ BEGIN INSERT INTO public.said VALUES (current_setting('synchronous_commit')); RETURN NEW; END $$; \
             CREATE TRIGGER say AFTER INSERT ON tenure.batches FOR EACH ROW EXECUTE FUNCTION public.say()",
        );
        run(&mut store, &[acquire("lock/a", "ana", &["one"])]).expect("commits");
        let said = server.ask(name, "SELECT string_agg(DISTINCT how, ' ') FROM public.said");
        assert_eq!(said.as_deref(), Some(kept), "{set}");
    }
}
