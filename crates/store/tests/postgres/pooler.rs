//! PgBouncer between the store and its database, in transaction mode: each transaction may get another session.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::CollectionKey;
use tenure_store::conformance::{self, Holding, Pooler, Server, key};
use tenure_store::postgres::{Direct, Options, Postgres};
use tenure_store::{Heard, Store};

use crate::exact;
use crate::support::{acquire, run};
use crate::writers::overlap;

#[test]
fn e09_behind_a_pooler_it_behaves_like_the_reference() {
    let server = Server::shared();
    let pooler = Pooler::before(server);
    let url = RefCell::new(String::new());
    let open = || Postgres::open(&url.borrow(), &exact()).expect("opens");
    let make = || {
        *url.borrow_mut() = pooler.url(&server.database());
        open()
    };
    conformance::run_durable(make, |store| {
        drop(store);
        open()
    });
}

#[test]
fn e09_hints_go_past_a_pooler() {
    let server = Server::shared();
    let pooler = Pooler::before(server);
    let url = server.database();
    let open = || {
        let options = Options { direct: Some(Direct(url.clone())), ..exact() };
        Postgres::open(&pooler.url(&url), &options).expect("opens")
    };
    let (speaks, hears) = (open(), open());
    let (sender, heard) = std::sync::mpsc::channel();
    // It hears of everything when it begins to listen, and of this when it is said.
    let pass_on: Heard =
        Arc::new(move |keys: Option<&[CollectionKey]>| drop(sender.send(keys.map(<[_]>::to_vec))));
    let _hears = hears.reader().hints(pass_on).expect("a shared store has hints");
    assert_eq!(heard.recv_timeout(Duration::from_mins(1)), Ok(None));
    let teller = speaks.reader().hints(Arc::new(|_: Option<&[CollectionKey]>| {})).expect("so has the other");
    teller.tell(vec![key("lock/a")]);
    assert_eq!(heard.recv_timeout(Duration::from_mins(1)), Ok(Some(vec![key("lock/a")])));
}

/// A session that listens goes on to do so for whoever has it next. Nobody has written anything yet when hints begin.
#[test]
fn e09_nobody_listens_through_a_pooler() {
    let server = Server::shared();
    for prepare in [true, false] {
        let pooler = Pooler::before(server);
        let url = pooler.url(&server.database());
        let store = Postgres::open(&url, &Options { prepare, ..exact() }).expect("opens");
        let (sender, heard) = std::sync::mpsc::channel();
        let pass_on: Heard = Arc::new(move |_: Option<&[CollectionKey]>| {
            let _ = sender.send(());
        });
        let _hears = store.reader().hints(pass_on).expect("a shared store has hints");
        assert_eq!(heard.recv_timeout(Duration::from_mins(1)), Ok(()), "it has begun");
        // All sessions that there are.
        let sessions: Vec<Holding> = (0..3).map(|_| Holding::begin(&url)).collect();
        for session in &sessions {
            let channels = session.rows("SELECT pg_listening_channels()");
            assert!(channels.is_empty(), "{channels:?}, prepare: {prepare}");
        }
    }
}

#[test]
fn e09_several_writers_share_the_sessions_of_a_pooler() {
    let server = Server::shared();
    let pooler = Pooler::before(server);
    overlap(&pooler.url(&server.database()), 5, &Options::default());
}

/// The worst that a pooler can do: another session, in which the same names mean something else, and nothing
/// says so. Believed, they would show a held item as one that nobody ever took.
#[test]
fn e09_a_session_where_names_mean_something_else_decides_nothing() {
    let server = Server::shared();
    let pooler = Pooler::before(server);
    let past = server.database();
    let url = pooler.url(&past);
    let mut store = Postgres::open(&url, &tenure_store::postgres::Options::default()).expect("opens");
    let taken = run(&mut store, &[acquire("lock/a", "ana", &["one"])]).expect("commits");
    assert!(taken[0].is_ok(), "{taken:?}");
    let sessions: Vec<Holding> = (0..3).map(|_| Holding::begin(&url)).collect();
    let named = "SELECT name, statement, array_to_string(parameter_types, ', ') FROM pg_prepared_statements \
                 WHERE name LIKE 's%'";
    let (ours, others): (Vec<_>, Vec<_>) =
        sessions.into_iter().partition(|session| !session.rows(named).is_empty());
    assert_eq!((ours.len(), others.len()), (1, 2), "it has prepared, in one session");
    for statement in ours[0].rows(named) {
        let [name, sql, types] = &statement[..] else { panic!("{statement:?}") };
        // What tells the time and the process tells the truth there, as another node's would: only the process is wrong.
        let reads = !["UPDATE", "INSERT", "pg_backend_pid"].iter().any(|own| sql.contains(own));
        let sql = if reads { format!("SELECT * FROM ({sql}) AS w WHERE false") } else { sql.clone() };
        for other in &others {
            let types = if types.is_empty() { String::new() } else { format!("({types})") };
            other.rows(&format!("PREPARE {name} {types} AS {sql}"));
        }
    }
    others.into_iter().for_each(Holding::end);
    // By somebody else, so that nothing of it is known from before.
    let mut direct = Postgres::open(&past, &tenure_store::postgres::Options::default()).expect("opens");
    assert!(run(&mut direct, &[acquire("lock/a", "ana", &["two"])]).expect("commits")[0].is_ok());
    let refused = run(&mut store, &[acquire("lock/a", "ben", &["two"])]).expect("commits");
    assert!(refused[0].is_err(), "ana has it: {refused:?}");
    drop(ours);
}
