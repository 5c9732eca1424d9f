//! The tables come to be once, whoever starts first.

use std::sync::Barrier;

use tenure_store::conformance::{Server, key};
use tenure_store::postgres::{Options, Postgres};
use tenure_store::{Error, Store};

use crate::support::{Holding, acquire, checked_events, run};

#[test]
fn r26_ten_nodes_that_start_at_once_migrate_once() {
    let server = Server::shared();
    let url = server.database();
    let (together, url) = (Barrier::new(10), &url);
    std::thread::scope(|scope| {
        let nodes: Vec<_> = (0..10)
            .map(|node| {
                let together = &together;
                scope.spawn(move || {
                    together.wait();
                    let mut store = Postgres::open(url, &Options::default()).expect("opens");
                    let item = format!("item-{node}");
                    let outcomes = run(&mut store, &[acquire("lock/a", "ana", &[&item])]).expect("commits");
                    assert!(outcomes[0].is_ok(), "{outcomes:?}");
                })
            })
            .collect();
        for node in nodes {
            node.join().expect("a node works");
        }
    });
    let name = url.rsplit('/').next().expect("a name");
    let ask = |sql: &str| server.ask(name, sql).expect("a row");
    assert_eq!(
        ask("SELECT string_agg(version::text, ',' ORDER BY version) FROM tenure.migrations"),
        "1,2,3,4"
    );
    assert_eq!(ask("SELECT version FROM tenure.schema"), "4");
    assert_eq!(ask("SELECT count(*) FROM tenure.events WHERE collection = 'lock/a'"), "11");
}

/// What was added since, taken away again: the tables as version 1 made them, with what was written since.
const AS_VERSION_1: &str = "ALTER TABLE tenure.meta DROP COLUMN store, DROP COLUMN mark; DROP TABLE tenure.place; \
     ALTER TABLE tenure.collections DROP COLUMN turn; \
     DROP INDEX tenure.claims_ended; DROP INDEX tenure.claims_of; \
     CREATE INDEX claims_of ON tenure.claims (collection, holder, number) WHERE state = 0; \
     DELETE FROM tenure.migrations WHERE version > 1; UPDATE tenure.schema SET version = 1";

#[test]
fn r26_ten_nodes_that_start_at_once_bring_a_used_database_of_version_1_up_to_date() {
    let server = Server::shared();
    let url = server.database();
    let name = url.rsplit('/').next().expect("a name");
    let mut store = Postgres::open(&url, &Options::default()).expect("opens");
    let items: Vec<String> = (0..50).map(|item| format!("item-{item}")).collect();
    let items: Vec<&str> = items.iter().map(String::as_str).collect();
    let held = run(&mut store, &[acquire("lock/a", "ana", &items)]).expect("commits");
    assert!(held[0].is_ok(), "{held:?}");
    drop(store);
    server.run(name, AS_VERSION_1);
    let fresh = server.database();
    let columns = "SELECT string_agg(column_name, ',' ORDER BY ordinal_position) \
                   FROM information_schema.columns WHERE table_schema = 'tenure' AND table_name = 'meta'";
    assert_eq!(server.ask(name, columns).as_deref(), Some("one,epoch,high_water_ms"));
    let (together, address) = (Barrier::new(10), &url);
    std::thread::scope(|scope| {
        for node in 0..10 {
            let together = &together;
            scope.spawn(move || {
                together.wait();
                let mut store = Postgres::open(address, &Options::default()).expect("opens");
                let (mine, taken) = (format!("new-{node}"), "item-7");
                let outcomes = run(&mut store, &[acquire("lock/a", "bruno", &[&mine])]).expect("commits");
                assert!(outcomes[0].is_ok(), "{outcomes:?}");
                let outcomes = run(&mut store, &[acquire("lock/a", "bruno", &[taken])]).expect("commits");
                assert!(outcomes[0].is_err(), "ana holds it still: {outcomes:?}");
            });
        }
    });
    let ask = |sql: &str| server.ask(name, sql).expect("a row");
    assert_eq!(
        ask("SELECT string_agg(version::text, ',' ORDER BY version) FROM tenure.migrations"),
        "1,2,3,4"
    );
    assert_eq!(ask("SELECT count(*) FROM tenure.items"), "60");
    checked_events(&*Postgres::open(&url, &Options::default()).expect("opens").reader(), &key("lock/a"));
    // As if it had been made today.
    drop(Postgres::open(&fresh, &Options::default()).expect("opens"));
    let fresh = fresh.rsplit('/').next().expect("a name");
    assert_eq!(server.ask(fresh, columns), server.ask(name, columns));
}

#[test]
fn r26_tables_of_a_newer_tenure_are_left_alone() {
    let server = Server::shared();
    let url = server.database();
    drop(Postgres::open(&url, &Options::default()).expect("opens"));
    let name = url.rsplit('/').next().expect("a name");
    server.run(name, "UPDATE tenure.schema SET version = 99");
    let error = Postgres::open(&url, &Options::default()).expect_err("is newer");
    assert!(matches!(error, Error::Newer { found: 99, .. }), "{error}");
}

/// The tables as version 3 made them, restored over those of a later one.
const AS_VERSION_3: &str = "ALTER TABLE tenure.meta ADD COLUMN history text; \
     UPDATE tenure.meta SET history = (SELECT regexp_replace(place, '/[0-9]+/', '/') FROM tenure.place); \
     DELETE FROM tenure.migrations WHERE version > 3; UPDATE tenure.schema SET version = 3";

/// Where the data is was kept elsewhere before: an upgrade is no restore, and a restore before it is still one.
#[test]
fn r26_where_the_data_is_outlives_an_upgrade() {
    let server = Server::shared();
    for (elsewhere, epochs) in [("", 0), ("UPDATE tenure.meta SET history = '1/00000001'", 1)] {
        let url = server.database();
        let name = url.rsplit('/').next().expect("a name");
        let before = Postgres::open(&url, &Options::default()).expect("opens").epoch();
        server.run(name, AS_VERSION_3);
        server.run(name, elsewhere);
        let after = Postgres::open(&url, &Options::default()).expect("opens").epoch();
        assert_eq!(u64::from(after > before), epochs, "{before} {after}");
        assert_eq!(Postgres::open(&url, &Options::default()).expect("opens").epoch(), after);
    }
}

/// A batch of a node that knows less ends before the tables change.
#[test]
fn r26_a_migration_waits_for_batches_that_are_under_way() {
    let server = Server::shared();
    let url = server.database();
    let name = url.rsplit('/').next().expect("a name");
    let mut store = Postgres::open(&url, &Options::default()).expect("opens");
    run(&mut store, &[acquire("lock/a", "ana", &["one"])]).expect("commits");
    drop(store);
    server.run(name, AS_VERSION_3);
    let batch = Holding::begin(&url);
    assert_eq!(batch.rows("SELECT collection FROM tenure.collections FOR UPDATE").len(), 1);
    std::thread::scope(|scope| {
        let node = scope.spawn(|| Postgres::open(&url, &Options::default()).map(drop));
        while !server.waits(name) {
            assert!(!node.is_finished(), "it waits");
        }
        assert_eq!(server.ask(name, "SELECT version FROM tenure.schema").as_deref(), Some("3"));
        batch.end();
        node.join().expect("ends").expect("opens");
    });
    assert_eq!(server.ask(name, "SELECT version FROM tenure.schema").as_deref(), Some("4"));
}

/// What a newer node does to the tables of one that runs: it changes them, and writes their place anew.
#[test]
fn r26_a_node_that_runs_stops_when_a_newer_one_has_changed_the_tables() {
    let server = Server::shared();
    let url = server.database();
    let name = url.rsplit('/').next().expect("a name");
    let mut store = Postgres::open(&url, &Options::default()).expect("opens");
    let again = "UPDATE tenure.place SET written = pg_current_xact_id()::xid WHERE written = xmin";
    server.run(name, again);
    let mut get = |item: &str| run(&mut store, &[acquire("lock/a", "ana", &[item])]);
    get("one").expect("nothing has changed");
    server.run(name, &format!("BEGIN; UPDATE tenure.schema SET version = 99; {again}; COMMIT"));
    let error = get("two").expect_err("is newer");
    assert!(matches!(error, Error::Newer { found: 99, .. }), "{error}");
    assert_eq!(server.ask(name, "SELECT count(*) FROM tenure.items").as_deref(), Some("1"));
    assert_eq!(server.ask(name, "SELECT epoch FROM tenure.meta").as_deref(), Some("1"), "no restore either");
}

#[test]
fn r26_a_migration_that_fails_leaves_nothing() {
    let server = Server::shared();
    let url = server.database();
    let name = url.rsplit('/').next().expect("a name");
    // Somebody else's table, where ours is to be.
    server.run(name, "CREATE SCHEMA tenure; CREATE TABLE tenure.replies (other int)");
    let error = Postgres::open(&url, &Options::default()).expect_err("cannot be made");
    assert!(error.to_string().contains("replies"), "{error}");
    let left = "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'tenure' \
                AND table_name IN ('items', 'claims', 'events', 'collections')";
    assert_eq!(server.ask(name, left).as_deref(), Some("0"));
    server.run(name, "DROP TABLE tenure.replies");
    drop(Postgres::open(&url, &Options::default()).expect("opens once it can"));
}

#[test]
fn e09_a_password_is_in_no_error() {
    let secret = "hunter2-secret";
    let port = Server::shared().port();
    let addresses = [
        format!("postgres://tenure:{secret}@127.0.0.1:{port}/no_such_database"),
        format!("postgres://tenure:{secret}@127.0.0.1:1/tenure"),
        format!("postgres://tenure:{secret}@127.0.0.1:{port}/postgres?sslmode=require"),
        format!("postgres://tenure:{secret}@127.0.0.1:port/tenure"),
    ];
    for address in addresses {
        let error = Postgres::open(&address, &Options::default()).expect_err("cannot be opened");
        assert!(!format!("{error} {error:?}").contains(secret), "{error}");
    }
}

/// Who may not make schemas can use the one that was made for it, at every start.
#[test]
fn r26_a_schema_that_was_made_for_the_user_is_enough() {
    let server = Server::shared();
    let url = server.database();
    let name = url.rsplit('/').next().expect("a name");
    let user = format!("user_of_{name}");
    server.run(
        name,
        &format!(
            "CREATE ROLE {user} LOGIN; REVOKE CREATE ON DATABASE {name} FROM PUBLIC; \
             CREATE SCHEMA tenure AUTHORIZATION {user}"
        ),
    );
    let url = url.replace("//tenure@", &format!("//{user}@"));
    for item in ["one", "two"] {
        let mut store = Postgres::open(&url, &Options::default()).expect("opens");
        run(&mut store, &[acquire("lock/a", "ana", &[item])]).expect("commits");
    }
    let history = "SELECT place LIKE '_%/00000001' AND written = xmin FROM tenure.place";
    assert_eq!(server.ask(name, history).as_deref(), Some("t"), "nor does it need more to know its history");
}
