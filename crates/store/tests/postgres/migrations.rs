//! The tables come to be once, whoever starts first.

use std::collections::BTreeSet;
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};

use tenure_store::conformance::{AS_VERSION_3, Holding, Server};
use tenure_store::postgres::{Options, Postgres};
use tenure_store::{Error, Store};

use crate::support::{acquire, run};
use crate::versions;

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

/// Columns and indexes, as they are now.
fn tables(server: &Server, name: &str) -> [Option<String>; 2] {
    let columns = "SELECT string_agg(concat_ws(' ', table_name, column_name, data_type, is_nullable, column_default), \
                   E'\\n' ORDER BY table_name, ordinal_position) \
                   FROM information_schema.columns WHERE table_schema = 'tenure'";
    let indexes =
        "SELECT string_agg(indexdef, E'\\n' ORDER BY indexname) FROM pg_indexes WHERE schemaname = 'tenure'";
    [server.ask(name, columns), server.ask(name, indexes)]
}

/// With what holds, what has ended, kept replies and a policy: the version before, and every one before that.
#[test]
fn r26_ten_nodes_that_start_at_once_bring_a_used_database_of_any_version_up_to_date() {
    let server = Server::shared();
    let fresh = server.database();
    drop(Postgres::open(&fresh, &Options::default()).expect("opens"));
    let fresh = fresh.rsplit('/').next().expect("a name");
    let newest = server.ask(fresh, "SELECT version FROM tenure.schema");
    assert_eq!(newest, Some(versions::NEWEST.to_string()), "a new version can be taken back, too");
    let recorded: Vec<_> = (1..=versions::NEWEST).map(|version| version.to_string()).collect();
    for version in 1..versions::NEWEST {
        let url = versions::used(server, version);
        let name = url.rsplit('/').next().expect("a name");
        let ask = |sql: &str| server.ask(name, sql).expect("a row");
        assert_eq!(ask("SELECT version FROM tenure.schema"), version.to_string());
        assert_ne!(tables(server, name), tables(server, fresh), "{version}");
        let (together, epochs) = (Barrier::new(10), Mutex::new(BTreeSet::new()));
        std::thread::scope(|scope| {
            for node in 0..10 {
                let (together, epochs, url) = (&together, &epochs, &url);
                scope.spawn(move || {
                    together.wait();
                    let mut store = Postgres::open(url, &Options::default()).expect("opens");
                    epochs.lock().expect("nobody has failed").insert(store.epoch());
                    versions::check(&mut store, node);
                });
            }
        });
        versions::check_chains(&Postgres::open(&url, &Options::default()).expect("opens"));
        let migrations = "SELECT string_agg(version::text, ',' ORDER BY version) FROM tenure.migrations";
        assert_eq!(ask(migrations), recorded.join(","), "from {version}");
        let epochs = epochs.into_inner().expect("all have ended");
        assert_eq!(epochs, BTreeSet::from([1]), "an upgrade is no restore");
        assert_eq!(
            tables(server, name),
            tables(server, fresh),
            "as if it had been made today, from {version}"
        );
        assert_eq!(ask("SELECT count(*) FROM tenure.items WHERE id LIKE 'new-%'"), "10");
    }
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

/// Where the data is was kept elsewhere before: an upgrade is no restore, and a restore before it is still one.
#[test]
fn r26_where_the_data_is_outlives_an_upgrade() {
    let server = Server::shared();
    // A dump of the older version that is restored over a newer one leaves what it does not know.
    let restored =
        "UPDATE tenure.meta SET history = '1/00000001'; CREATE TABLE tenure.place (one boolean, place text)";
    for (elsewhere, epochs) in [("", 0), (restored, 1)] {
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

/// An index over a large table takes as long as it takes: nothing ends a step but its end.
#[test]
fn r26_a_step_of_a_migration_may_take_any_time() {
    let server = Server::shared();
    let url = server.database();
    let name = url.rsplit('/').next().expect("a name");
    drop(Postgres::open(&url, &Options::default()).expect("opens"));
    server.run(name, AS_VERSION_3);
    // What every step is told about how long it may take.
    server.run(
        name,
        "CREATE TABLE public.limits (said text); \
         CREATE FUNCTION public.tell() RETURNS event_trigger LANGUAGE plpgsql AS \
         $$ BEGIN INSERT INTO public.limits VALUES (current_setting('statement_timeout')); END $$; \
         CREATE EVENT TRIGGER tell ON ddl_command_end EXECUTE FUNCTION public.tell()",
    );
    drop(Postgres::open(&url, &Options::default()).expect("opens"));
    let said = server.ask(name, "SELECT string_agg(DISTINCT said, ' ') FROM public.limits");
    assert_eq!(said.as_deref(), Some("0"));
}

/// Somebody reads for long, as a dump does: the migration steps back again and again, so that nobody stands in line
/// behind it for longer than a batch waits, and comes to its end after it.
#[test]
fn r26_a_migration_that_cannot_begin_holds_nobody_up_and_goes_on_trying() {
    let server = Server::shared();
    let url = server.database();
    let name = url.rsplit('/').next().expect("a name");
    drop(Postgres::open(&url, &Options::default()).expect("opens"));
    server.run(name, AS_VERSION_3);
    let reads = Holding::begin(&url);
    reads.rows("SELECT count(*) FROM tenure.collections");
    let options = Options { lock_ms: 200, ..Options::default() };
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let node = scope.spawn(|| Postgres::open(&url, &options).map(drop));
        for wanted in [true, false, true, false, true] {
            while server.waits(name) != wanted {
                assert!(!node.is_finished() && begun.elapsed() < Duration::from_mins(1), "it tries");
            }
        }
        reads.end();
        node.join().expect("ends").expect("opens");
    });
    assert_eq!(server.ask(name, "SELECT version FROM tenure.schema").as_deref(), Some("4"));
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
