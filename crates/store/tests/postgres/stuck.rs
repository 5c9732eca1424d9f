//! Collections that somebody else keeps: a batch leaves out these, and no others.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use tenure_store::conformance::{Holding, Server, key};
use tenure_store::postgres::{Options, Postgres};
use tenure_store::{Error, Store, View, Want};

use crate::lost::name_of;
use crate::support::{acquire, run, run_with};

/// Those of these collections that a batch over all of them leaves out.
fn left_out<'a>(store: &mut Postgres, names: &[&'a str]) -> Result<BTreeSet<&'a str>, Error> {
    let wants: Vec<_> = names.iter().map(|name| Want::of(&key(name))).collect();
    let view = store.load(&wants)?;
    let left_out = names.iter().filter(|name| !view.covers(&key(name))).copied().collect();
    store.abandon()?;
    Ok(left_out)
}

fn keep(url: &str, name: &str) -> Holding {
    let keeper = Holding::begin(url);
    let head = format!("SELECT 1 FROM tenure.collections WHERE collection = '{name}' FOR UPDATE");
    assert_eq!(keeper.rows(&head).len(), 1);
    keeper
}

fn hasty(url: &str) -> Postgres {
    Postgres::open(url, &Options { lock_ms: 2_000, ..Options::default() }).expect("opens")
}

/// Two others work in one collection without a pause, each behind the other: whenever one looks it is locked.
#[test]
fn e09_a_collection_that_is_busy_is_not_taken_for_one_that_somebody_keeps() {
    let server = Server::shared();
    let url = server.database();
    let mut stores = [hasty(&url), hasty(&url)];
    for name in ["lock/busy", "lock/kept"] {
        run(&mut stores[0], &[acquire(name, "ana", &["one"])]).expect("commits");
    }
    let keeper = keep(&url, "lock/kept");
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in ["ben", "cid"] {
            let (url, over) = (&url, &over);
            scope.spawn(move || {
                let mut store = Postgres::open(url, &Options::default()).expect("opens");
                let is_over = || over.load(Ordering::Relaxed);
                for number in 0.. {
                    let asked = [acquire("lock/busy", writer, &[&format!("{writer}-{number}")])];
                    let follow = || while !is_over() && !server.waits(name_of(url)) {};
                    run_with(&mut store, &asked, follow).expect("commits");
                    if is_over() {
                        return;
                    }
                }
            });
        }
        let left_out = stores.each_mut().map(|store| left_out(store, &["lock/busy", "lock/kept"]));
        over.store(true, Ordering::Relaxed);
        for left_out in left_out {
            assert_eq!(left_out.expect("loads"), BTreeSet::from(["lock/kept"]));
        }
    });
    keeper.end();
    for store in &mut stores {
        assert_eq!(left_out(store, &["lock/busy", "lock/kept"]).expect("loads"), BTreeSet::new());
    }
}

/// It was kept when it was last looked. Somebody has got on there since, and is there just now: that one is waited for.
#[test]
fn e09_a_collection_that_was_kept_and_is_busy_now_is_waited_for() {
    let server = Server::shared();
    let url = server.database();
    let mut store = Postgres::open(&url, &Options { lock_ms: 500, ..Options::default() }).expect("opens");
    let mut other = Postgres::open(&url, &Options::default()).expect("opens");
    run(&mut other, &[acquire("lock/kept", "ana", &["one"])]).expect("commits");
    let names = ["lock/free", "lock/kept"];
    for item in ["two", "three", "four"] {
        let keeper = keep(&url, "lock/kept");
        assert_eq!(left_out(&mut store, &names).expect("loads"), BTreeSet::from(["lock/kept"]));
        keeper.end();
        run(&mut other, &[acquire("lock/kept", "ana", &[&format!("{item}-0")])]).expect("commits");
        std::thread::scope(|scope| {
            let (mut waits, store) = (None, &mut store);
            let let_wait = || {
                let waiting = waits.insert(scope.spawn(move || left_out(store, &names)));
                while !waiting.is_finished() && !server.waits(name_of(&url)) {}
            };
            run_with(&mut other, &[acquire("lock/kept", "ana", &[item])], let_wait).expect("commits");
            let left_out = waits.expect("it was asked").join().expect("ends");
            assert_eq!(left_out.expect("loads"), BTreeSet::new());
        });
    }
}

/// Nobody sees a head that is just being made, by somebody who hangs.
#[test]
fn e09_a_collection_that_somebody_hangs_in_making_refuses_nobody_elsewhere() {
    let server = Server::shared();
    let url = server.database();
    let mut store = Postgres::open(&url, &Options { lock_ms: 500, ..Options::default() }).expect("opens");
    run(&mut store, &[acquire("lock/old", "ana", &["one"])]).expect("commits");
    let maker = Holding::begin(&url);
    maker.rows(
        "INSERT INTO tenure.collections (collection, seq, hash, created_at_ms, at_ms) \
         VALUES ('lock/new-3', 0, '', 0, 0), ('lock/new-7', 0, '', 0, 0)",
    );
    let new: Vec<String> = (0..10).map(|number| format!("lock/new-{number}")).collect();
    let names: Vec<&str> = new.iter().map(String::as_str).chain(["lock/old"]).collect();
    // Found out at first, and found again then.
    for _ in 0..2 {
        let left_out = left_out(&mut store, &names).expect("loads");
        assert_eq!(left_out, BTreeSet::from(["lock/new-3", "lock/new-7"]));
    }
    maker.rows("ROLLBACK");
    assert_eq!(left_out(&mut store, &names).expect("loads"), BTreeSet::new());
}

/// The connection ends between two batches, and it is found out by whoever looks.
#[test]
fn e09_a_connection_that_ends_under_a_look_refuses_nobody() {
    let server = Server::shared();
    let url = server.database();
    let mut store = Postgres::open(&url, &Options { lock_ms: 500, ..Options::default() }).expect("opens");
    run(&mut store, &[acquire("lock/kept", "ana", &["one"])]).expect("commits");
    let names = ["lock/free", "lock/kept"];
    // A look waits for a second at the most, and may be refused before its connection is ended.
    for _ in 0..10 {
        let keeper = keep(&url, "lock/kept");
        assert_eq!(left_out(&mut store, &names).expect("loads"), BTreeSet::from(["lock/kept"]));
        keeper.rows("LOCK TABLE tenure.collections IN ACCESS EXCLUSIVE MODE");
        let (was_ended, found) = std::thread::scope(|scope| {
            let looking = scope.spawn(|| left_out(&mut store, &names));
            while !looking.is_finished() && !server.waits(name_of(&url)) {}
            let ended = keeper.rows(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                 WHERE datname = current_database() AND wait_event_type = 'Lock'",
            );
            keeper.end();
            (!ended.is_empty(), looking.join().expect("ends"))
        });
        if was_ended {
            assert_eq!(found.expect("loads"), BTreeSet::new());
            return;
        }
    }
    panic!("no look waited for long enough");
}
