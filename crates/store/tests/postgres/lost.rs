//! A connection that goes, a database that dies, an answer that is lost.

use std::time::{Duration, Instant};

use tenure_core::{Fact, Reply, Verb};
use tenure_store::conformance::{Cut, Holding, Proxy, Server, command, key, times, wants_of};
use tenure_store::postgres::{Options, Postgres};
use tenure_store::{Error, EventPage, Store, View};

use crate::support::{acquire, checked_events, run, run_with};

pub(crate) fn name_of(url: &str) -> &str {
    url.rsplit('/').next().expect("a name")
}

/// The token that one gets for an item.
fn get(store: &mut Postgres, collection: &str, item: &str) -> u64 {
    match &run(store, &[acquire(collection, "ana", &[item])]).expect("commits")[0] {
        Ok(Reply::Acquired { claim, .. }) => claim.token,
        other => panic!("{other:?}"),
    }
}

/// The answer to a COMMIT is lost, again and again: what happened is known each time, and happens once.
#[test]
fn e09_a_lost_answer_to_a_commit_is_found() {
    let server = Server::shared();
    let url = server.database();
    let proxy = Proxy::to(server.port());
    let mut store = Postgres::open(&proxy.url(name_of(&url)), &Options::default()).expect("opens");
    let mut expected = 0;
    // Every other one is cut before it reached the database.
    for round in 0..times(100, 4_000) {
        let item = format!("item-{round}");
        let cut = if round % 2 == 0 { Cut::AfterCommit } else { Cut::BeforeCommit };
        // Every fifth makes a collection: then the head itself is what may not be there.
        let collection = if round % 5 == 0 { format!("lock/new-{round}") } else { "lock/a".to_owned() };
        let outcome = run_with(&mut store, &[acquire(&collection, "ana", &[&item])], || proxy.cut(cut));
        assert_eq!(proxy.cuts(), round + 1, "it was cut");
        let found = store.reader().item(&key(&collection), &tenure_core::ItemId::new(item).expect("valid"));
        let found = found.expect("reads").is_some();
        match cut {
            Cut::AfterCommit => assert!(outcome.is_ok() && found, "{round}: {outcome:?}"),
            _ => assert!(matches!(outcome, Err(Error::Conflict { .. })) && !found, "{round}: {outcome:?}"),
        }
        expected += usize::from(cut == Cut::AfterCommit && collection == "lock/a");
    }
    let events = checked_events(&*store.reader(), &key("lock/a"));
    assert_eq!(events.len(), expected + 1, "each that was confirmed, once, and the collection itself");
}

/// A database that is gone for good leaves a commit unknown, and says so.
#[test]
fn e09_a_commit_that_nobody_can_tell_of_is_unknown() {
    let server = Server::start();
    let url = server.database();
    let options = Options { resolve_ms: 300, ..Options::default() };
    let mut store = Postgres::open(&url, &options).expect("opens");
    let outcome = run_with(&mut store, &[acquire("lock/a", "ana", &["one"])], || server.kill());
    assert!(matches!(outcome, Err(Error::Unknown { .. })), "{outcome:?}");
    let error = run(&mut store, &[acquire("lock/a", "ana", &["one"])]).expect_err("it is gone");
    assert!(matches!(error, Error::Away { .. }) && !error.is_fatal(), "{error}");
    server.start_again();
    run(&mut store, &[acquire("lock/a", "ana", &["one"])]).expect("and comes back");
    assert_eq!(checked_events(&*store.reader(), &key("lock/a")).len(), 2);
}

/// PostgreSQL dies in the middle of work, again and again: what was confirmed is there.
#[test]
fn e09_a_database_that_dies_loses_nothing_that_was_confirmed() {
    const STEPS: u64 = 40;
    let server = Server::start();
    let url = server.database();
    let options = Options { resolve_ms: 60_000, ..Options::default() };
    let deaths = times(5, 100);
    let mut confirmed = Vec::new();
    let mut store = Postgres::open(&url, &options).expect("opens");
    for death in 0..deaths {
        std::thread::scope(|scope| {
            let (server, store, confirmed) = (&server, &mut store, &mut confirmed);
            let (tell, told) = std::sync::mpsc::channel();
            let worker = scope.spawn(move || {
                for step in 0..STEPS {
                    let item = format!("{death}-{step}");
                    // Taken and given back: two commits, each tried until it is known to have happened.
                    let until = Instant::now() + Duration::from_mins(1);
                    let claim = loop {
                        match run(store, &[acquire("lock/a", "ana", &[&item])]) {
                            Ok(outcomes) => match &outcomes[0] {
                                Ok(Reply::Acquired { claim, .. }) => break claim.number,
                                other => panic!("{other:?}"),
                            },
                            Err(error) => {
                                assert!(!error.is_fatal(), "{error}");
                                assert!(Instant::now() < until, "{error}");
                                std::thread::yield_now();
                            }
                        }
                    };
                    confirmed.push(item);
                    if step % 3 == 0 {
                        // An answer may be lost here too; then it is released already.
                        let _ = run(store, &[command("lock/a", "ana", Verb::Release { claim })]);
                    }
                    if step == 10 {
                        tell.send(()).expect("the killer waits");
                    }
                }
            });
            told.recv().expect("the worker is at it");
            server.kill();
            server.start_again();
            worker.join().expect("the worker goes on");
        });
    }
    let reader = Postgres::open(&url, &options).expect("opens").reader();
    checked_events(&*reader, &key("lock/a"));
    for item in &confirmed {
        let item = tenure_core::ItemId::new(item.as_str()).expect("valid");
        assert!(reader.item(&key("lock/a"), &item).expect("reads").is_some(), "{item} was confirmed");
    }
    assert_eq!(confirmed.len() as u64, deaths * STEPS);
}

/// Of two hosts the first takes no writes, as a former primary that came back as a standby: the other is used.
#[test]
fn e09_an_address_with_several_hosts_finds_the_one_that_writes() {
    let (standby, primary) = (Server::start(), Server::shared());
    let url = primary.database();
    let name = name_of(&url);
    standby.run("postgres", &format!("CREATE DATABASE {name}"));
    standby.run("postgres", &format!("ALTER DATABASE {name} SET default_transaction_read_only = on"));
    let (first, second) = (standby.port(), primary.port());
    let both = format!("postgres://tenure@127.0.0.1:{first},127.0.0.1:{second}/{name}");
    let mut store = Postgres::open(&both, &Options::default()).expect("opens");
    run(&mut store, &[acquire("lock/a", "ana", &["one"])]).expect("commits");
    assert_eq!(checked_events(&*store.reader(), &key("lock/a")).len(), 2);
}

/// Another node has one of the collections when a lost commit is looked for: it need not be waited for.
#[test]
fn e09_a_lost_commit_is_found_whoever_works_in_its_other_collections() {
    let server = Server::shared();
    let url = server.database();
    let (name, proxy) = (name_of(&url), Proxy::to(server.port()));
    let options = Options { lock_ms: 500, resolve_ms: 3_000, ..Options::default() };
    let mut store = Postgres::open(&proxy.url(name), &options).expect("opens");
    let both = |item: &str| [acquire("lock/a", "ana", &[item]), acquire("lock/b", "ana", &[item])];
    run(&mut store, &both("one")).expect("commits");
    let mut other = Postgres::open(&url, &Options { lock_ms: 60_000, ..Options::default() }).expect("opens");
    let (let_go, held) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let outcome = run_with(&mut store, &both("two"), || {
            scope.spawn(move || {
                let wants = [wants_of(&acquire("lock/b", "ben", &["three"]), None)];
                let view = other.load(&wants).expect("it is its turn next");
                let _ = held.recv();
                assert!(view.covers(&key("lock/b")), "and has had it until here");
            });
            while !server.waits(name) {
                std::thread::yield_now();
            }
            proxy.cut(Cut::AfterCommit);
        });
        assert!(outcome.is_ok(), "{outcome:?}");
        drop(let_go);
    });
    assert_eq!(checked_events(&*store.reader(), &key("lock/b")).len(), 3);
}

/// A database that does not know itself whether it committed: it is asked, and not believed to have said no.
#[test]
fn e09_a_commit_that_the_database_is_not_sure_of_is_looked_for() {
    let server = Server::shared();
    let url = server.database();
    let mut store = Postgres::open(&url, &Options::default()).expect("opens");
    server.run(
        name_of(&url),
        "CREATE FUNCTION unsure() RETURNS trigger LANGUAGE plpgsql AS \
         $$ BEGIN RAISE EXCEPTION 'perhaps' USING ERRCODE = '40003'; END $$; \
         CREATE TRIGGER unsure BEFORE INSERT ON tenure.batches FOR EACH ROW EXECUTE FUNCTION unsure()",
    );
    let error = run(&mut store, &[acquire("lock/a", "ana", &["one"])]).expect_err("did not happen");
    assert!(matches!(&error, Error::Conflict { detail } if detail.contains("lost")), "{error}");
}

/// A standby takes over that lacks what was confirmed: no token and no number is given out twice, by nodes that
/// were there before as by others, and whoever has a cursor into what was lost is told to start anew.
#[test]
fn i02_after_a_takeover_that_lost_commits_no_token_repeats() {
    let server = Server::start();
    let url = server.database();
    let mut store = Postgres::open(&url, &Options::default()).expect("opens");
    get(&mut store, "lock/a", "kept");
    let mut lost = Vec::new();
    server.lose(|| {
        let mut store = Postgres::open(&url, &Options::default()).expect("opens");
        lost = ["one", "two", "three"].map(|item| get(&mut store, "lock/a", item)).to_vec();
        lost.push(get(&mut store, "lock/new", "one"));
    });
    let (newest, reader) = (lost.iter().copied().max().unwrap_or(0), store.reader());
    assert_eq!((reader.epoch(), newest), (1, 5));
    // The node that was there before, in what was there and in what is made anew.
    for (collection, item) in [("lock/a", "one"), ("lock/new", "one"), ("lock/a", "two")] {
        assert!(get(&mut store, collection, item) > newest, "{collection}");
    }
    let epoch = reader.epoch();
    assert!(epoch > 1);
    assert!(matches!(reader.events(&key("lock/a"), 5, 10), Ok(EventPage::Resync { .. })), "it was lost");
    let Ok(EventPage::Events(events)) = reader.events(&key("lock/a"), 2, 10) else { panic!("it is there") };
    assert!(
        events.first().is_some_and(|first| matches!(first.event.fact, Fact::Restored { from_seq: 2, .. }))
    );
    // Once, whoever comes after.
    let mut other = Postgres::open(&url, &Options::default()).expect("opens");
    let next = get(&mut other, "lock/a", "three");
    assert_eq!((other.epoch(), next), (epoch, events.last().map_or(0, |last| last.event.seq) + 1));
}

/// An earlier state is loaded from a dump, over what was there or beside it: the timeline is the same, and nothing else
/// tells. No token is given out twice, by a node that was there all the time or by one that starts.
#[test]
fn i02_after_a_dump_was_restored_no_token_repeats() {
    let server = Server::shared();
    for restored in ["in its place", "over emptied tables", "beside it", "page by page"] {
        let url = server.database();
        let name = name_of(&url);
        let mut store = Postgres::open(&url, &Options::default()).expect("opens");
        get(&mut store, "lock/a", "kept");
        let dump = std::env::temp_dir().join(format!("tenure-{}-{name}.dump", std::process::id()));
        let path = dump.to_str().expect("a path that is text");
        server.tool("pg_dump", &["--format=custom", "--file", path, "--dbname", &url]);
        let copy = format!("copy_of_{name}");
        if restored == "page by page" {
            drop(store);
            server.gone(&url);
            server.run("postgres", &format!("CREATE DATABASE {copy} TEMPLATE {name}"));
            store = Postgres::open(&url, &Options::default()).expect("opens");
        }
        let newest = get(&mut store, "lock/a", "one").max(get(&mut store, "lock/new", "one"));
        let mut now = url.clone();
        match restored {
            "in its place" => server.tool("pg_restore", &["--clean", "--dbname", &url, path]),
            "over emptied tables" => {
                let all = "SELECT string_agg('tenure.' || tablename, ', ') FROM pg_tables WHERE schemaname = 'tenure'";
                server.run(name, &format!("TRUNCATE {}", server.ask(name, all).expect("tables")));
                server.tool("pg_restore", &["--data-only", "--dbname", &url, path]);
            }
            "page by page" => {
                let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname";
                server.run("postgres", &format!("{end} = '{name}'"));
                server.gone(&url);
                server.run("postgres", &format!("DROP DATABASE {name}"));
                server.run("postgres", &format!("ALTER DATABASE {copy} RENAME TO {name}"));
            }
            _ => {
                now = server.database();
                server.tool("pg_restore", &["--dbname", &now, path]);
                store = Postgres::open(&now, &Options::default()).expect("opens");
            }
        }
        std::fs::remove_file(&dump).expect("the dump goes");
        for (collection, item) in [("lock/a", "one"), ("lock/new", "one"), ("lock/a", "two")] {
            let token = get(&mut store, collection, item);
            assert!(token > newest, "{restored}: {token} in {collection}, and {newest} was given out");
        }
        let epoch = store.epoch();
        assert!(epoch > 1, "{restored}");
        // Once; and not for what a database does to its tables by itself.
        server.run(name_of(&now), "VACUUM (FULL) tenure.place");
        server.run(name_of(&now), "VACUUM (FREEZE) tenure.place");
        let mut other = Postgres::open(&now, &Options::default()).expect("opens");
        get(&mut other, "lock/a", "three");
        get(&mut store, "lock/a", "four");
        assert_eq!((other.epoch(), store.epoch()), (epoch, epoch), "{restored}");
    }
}

/// Two nodes start on data that was restored. To begin an epoch takes longer than a lock is waited for: the second waits, and
/// does not begin another.
#[test]
fn i02_nodes_that_start_while_another_begins_an_epoch_wait_for_it() {
    let server = Server::shared();
    let url = server.database();
    let name = name_of(&url);
    // As long as a node may pause between two statements, too.
    let options = Options { lock_ms: 1_000, ..Options::default() };
    let mut store = Postgres::open(&url, &options).expect("opens");
    get(&mut store, "lock/a", "one");
    drop(store);
    server.run(
        name,
        "UPDATE tenure.place SET written = '3'; \
         CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(3); RETURN new; END $$; \
         CREATE TRIGGER slow BEFORE INSERT ON tenure.batches FOR EACH ROW EXECUTE FUNCTION slow()",
    );
    let epochs: Vec<u64> = std::thread::scope(|scope| {
        let open = || Postgres::open(&url, &options).map(|store| store.epoch());
        let nodes = [scope.spawn(open), scope.spawn(open)];
        nodes.map(|node| node.join().expect("ends").expect("starts")).to_vec()
    });
    assert!(epochs[0] > 1 && epochs[0] == epochs[1], "{epochs:?}");
    let restores = "SELECT count(*) FROM tenure.events WHERE action = 'restored'";
    assert_eq!(server.ask(name, restores).as_deref(), Some("1"));
}

/// The server ends a reader's connection while it reads: that is no answer, and reading twice does no harm.
#[test]
fn e09_a_reader_whose_connection_is_ended_by_the_server_reads_again() {
    let server = Server::shared();
    let url = server.database();
    let mut store = Postgres::open(&url, &Options::default()).expect("opens");
    get(&mut store, "lock/a", "one");
    let (reader, item) = (store.reader(), tenure_core::ItemId::new("one").expect("valid"));
    for _ in 0..3 {
        // From here on it has a connection that was used before.
        assert!(reader.item(&key("lock/a"), &item).expect("reads").is_some());
        let keeper = Holding::begin(&url);
        keeper.rows("LOCK TABLE tenure.items IN ACCESS EXCLUSIVE MODE");
        std::thread::scope(|scope| {
            let read = scope.spawn(|| reader.item(&key("lock/a"), &item));
            while !server.waits(name_of(&url)) {
                assert!(!read.is_finished(), "it waits");
            }
            let ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                         WHERE datname = current_database() AND wait_event_type = 'Lock'";
            assert_eq!(server.ask(name_of(&url), ended).as_deref(), Some("t"));
            keeper.end();
            assert!(read.join().expect("ends").expect("reads again").is_some());
        });
    }
}

/// Whoever looks in vain looks again, and what the server did for it before is not done any more.
#[test]
fn e09_the_server_stops_reading_what_nobody_waits_for() {
    let server = Server::shared();
    let url = server.database();
    let options = Options { statement_ms: 600_000, ..Options::default() };
    let mut store = Postgres::open(&url, &options).expect("opens");
    get(&mut store, "lock/a", "one");
    let (reader, item) = (store.reader(), tenure_core::ItemId::new("one").expect("valid"));
    let keeper = Holding::begin(&url);
    keeper.rows("LOCK TABLE tenure.items IN ACCESS EXCLUSIVE MODE");
    let until = Instant::now() + Duration::from_millis(500);
    let late = reader.by(until).expect("it may be far away").item(&key("lock/a"), &item);
    assert!(matches!(late, Err(tenure_store::Error::Away { .. })), "{late:?}");
    let until = Instant::now() + Duration::from_mins(1);
    while server.waits(name_of(&url)) {
        assert!(Instant::now() < until, "it waits for the table still");
    }
    keeper.end();
    assert!(reader.item(&key("lock/a"), &item).expect("reads").is_some());
}

/// Figures take long to count: one counts, and everyone else who asks has the last ones at once.
#[test]
fn e09_figures_that_are_being_counted_keep_nobody_waiting() {
    let server = Server::shared();
    let url = server.database();
    let mut store = Postgres::open(&url, &crate::exact()).expect("opens");
    get(&mut store, "lock/a", "one");
    let reader = store.reader();
    assert_eq!(reader.stats().items, 1);
    get(&mut store, "lock/a", "two");
    let keeper = Holding::begin(&url);
    keeper.rows("LOCK TABLE tenure.items IN ACCESS EXCLUSIVE MODE");
    std::thread::scope(|scope| {
        let counts = scope.spawn(|| reader.stats().items);
        while !server.waits(name_of(&url)) {
            assert!(!counts.is_finished(), "it waits");
        }
        let others = scope.spawn(|| [reader.stats().items, reader.stats().items]);
        let until = Instant::now() + Duration::from_secs(5);
        while !others.is_finished() && Instant::now() < until {
            std::thread::yield_now();
        }
        let are_told = others.is_finished();
        keeper.end();
        assert_eq!(others.join().expect("ends"), [1, 1]);
        assert!(are_told, "they waited");
        assert_eq!(counts.join().expect("ends"), 2);
    });
}

/// Nobody looks at a writer's connection while it is idle; whoever comes next must not pay for that.
#[test]
fn e09_a_connection_that_ended_while_it_was_idle_refuses_nobody() {
    let server = Server::shared();
    let url = server.database();
    let mut store = Postgres::open(&url, &Options::default()).expect("opens");
    for item in ["one", "two", "three"] {
        run(&mut store, &[acquire("lock/a", "ana", &[item])])
            .expect("commits")
            .remove(0)
            .expect("is granted");
        server.run(
            "postgres",
            &format!(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{}'",
                name_of(&url)
            ),
        );
        server.gone(&url);
    }
}
