//! Rows that a writer still has from its last batches.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use tenure_core::{Claim, ItemId, Reply, Rows, Verb};
use tenure_store::conformance::{Server, command, key};
use tenure_store::postgres::{Options, Postgres, TestClock};
use tenure_store::{Error, Store, Want};

use crate::support::{acquire, run};

const PLACE: &str = "lock/a";

/// Holds `one` and works on, until it relies on being alone.
fn settle(store: &mut Postgres) -> Arc<Claim> {
    let outcomes = run(store, &[acquire(PLACE, "ana", &["one"])]).expect("commits");
    let Ok(Reply::Acquired { claim, .. }) = &outcomes[0] else { panic!("{outcomes:?}") };
    for _ in 0..5 {
        let outcomes = run(store, &[acquire(PLACE, "ana", &["two"])]).expect("commits");
        let Ok(Reply::Acquired { claim, .. }) = &outcomes[0] else { panic!("{outcomes:?}") };
        let freed = run(store, &[command(PLACE, "ana", Verb::Release { claim: claim.number })]);
        assert!(freed.expect("commits")[0].is_ok());
    }
    claim.clone()
}

/// What `store` decides on, asked for as a command would.
fn seen(store: &mut Postgres, number: u64) -> Result<(Option<u64>, Option<Arc<Claim>>), Error> {
    let one = ItemId::new("one").expect("a valid id");
    let want = Want {
        collection: key(PLACE),
        items: vec![one.clone()],
        claims: vec![number],
        holder: None,
        reply: None,
    };
    let seen = {
        let view = store.load(&[want])?;
        (view.item(&key(PLACE), &one).map(|item| item.claim), view.claim(&key(PLACE), number))
    };
    store.abandon()?;
    Ok(seen)
}

#[test]
fn e09_rows_are_not_read_again_while_nobody_else_writes() {
    let server = Server::shared();
    let url = server.database();
    let name = url.rsplit('/').next().expect("a name");
    let mut store = Postgres::open(&url, &Options::default()).expect("opens");
    let claim = settle(&mut store);
    // Whoever reads them now cannot.
    server.run(name, "UPDATE tenure.items SET body = ''; UPDATE tenure.claims SET body = ''");
    let (item, found) = seen(&mut store, claim.number).expect("nothing is read");
    assert_eq!((item, found.as_deref()), (Some(claim.number), Some(&*claim)));
    // With the connection all of it is forgotten: nobody knows what the next one leads to.
    server.run(
        name,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
         WHERE datname = current_database() AND pid <> pg_backend_pid()",
    );
    let error = loop {
        match seen(&mut store, claim.number) {
            // The end of its connection is heard of a moment later.
            Ok(_) => std::thread::yield_now(),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::Corrupt { .. }), "{error}");
}

#[test]
fn e09_what_another_writer_did_is_seen_whatever_one_has_still_from_before() {
    let url = Server::shared().database();
    let mut store = Postgres::open(&url, &Options::default()).expect("opens");
    let mut other = store.another();
    let claim = settle(&mut store);
    let freed = run(&mut other, &[command(PLACE, "ana", Verb::Release { claim: claim.number })]);
    assert!(freed.expect("commits")[0].is_ok());
    let taken = run(&mut other, &[acquire(PLACE, "ben", &["one"])]).expect("commits");
    let Ok(Reply::Acquired { claim: bens, .. }) = &taken[0] else { panic!("{taken:?}") };
    let (item, found) = seen(&mut store, claim.number).expect("reads");
    assert_eq!(item, Some(bens.number), "and not who had it before");
    assert_ne!(found.as_deref(), Some(&*claim), "it has ended");
    let refused = run(&mut store, &[acquire(PLACE, "ana", &["one"])]).expect("runs");
    assert!(refused[0].is_err(), "{refused:?}");
}

/// A heartbeat brings no event and, within one millisecond, no other time: only the turn tells of it.
#[test]
fn e09_a_heartbeat_on_another_node_is_seen_within_the_same_millisecond() {
    let server = Server::shared();
    for is_counted in [true, false] {
        let url = server.database();
        let name = url.rsplit('/').next().expect("a name");
        let time = Arc::new(AtomicI64::new(1_700_000_000_000));
        let read = time.clone();
        let clock = Some(TestClock(Arc::new(move || read.load(Ordering::SeqCst))));
        let options = Options { clock, ..Options::default() };
        let mut store = Postgres::open(&url, &options).expect("opens");
        let mut other = store.another();
        let outcomes = run(&mut store, &[acquire(PLACE, "ana", &["zero"])]).expect("commits");
        let Ok(Reply::Acquired { claim, .. }) = &outcomes[0] else { panic!("{outcomes:?}") };
        time.fetch_add(1_000, Ordering::SeqCst);
        settle(&mut store);
        let Claim { number, token, .. } = **claim;
        let beat = command(PLACE, "ana", Verb::Heartbeat { claim: number, token, idle_ms: None });
        assert!(run(&mut other, &[beat]).expect("commits")[0].is_ok());
        if !is_counted {
            server.run(name, "UPDATE tenure.collections SET turn = turn - 1");
        }
        let (_, found) = seen(&mut store, number).expect("reads");
        let is_new = found.expect("a claim").expires_at_ms > claim.expires_at_ms;
        assert_eq!(is_new, is_counted, "the control: without the turn it would be missed");
    }
}

/// A row that was read under the lock and is gone all the same: somebody writes who holds no lock.
#[test]
fn i14_a_batch_that_changes_a_row_which_is_gone_leaves_nothing_behind() {
    let server = Server::shared();
    for lost in ["items", "claims"] {
        let url = server.database();
        let name = url.rsplit('/').next().expect("a name");
        let mut store = Postgres::open(&url, &Options::default()).expect("opens");
        let claim = settle(&mut store);
        let head = || server.ask(name, "SELECT seq || ' ' || turn FROM tenure.collections");
        server.run(name, &format!("DELETE FROM tenure.{lost}"));
        let before = head();
        let asked = match lost {
            "items" => acquire(PLACE, "ana", &["two"]),
            _ => command(PLACE, "ana", Verb::Release { claim: claim.number }),
        };
        let error = run(&mut store, &[asked]).expect_err("nothing is committed");
        assert!(matches!(error, Error::Corrupt { .. }), "{error}");
        assert_eq!(head(), before, "{lost}");
    }
}
