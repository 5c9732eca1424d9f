//! An installation moves between a folder and a database, and nobody can tell.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tenure_core::command::PutItem;
use tenure_core::{Expect, ItemId, ItemWrite, Json, Reply, Status, Verb};
use tenure_store::conformance::{self, AnyStore, Server, assert_same, command, key};
use tenure_store::embedded::{self, Embedded};
use tenure_store::moving::{Moved, Place, Step, migrate};
use tenure_store::postgres::{Options, Postgres};
use tenure_store::{Error, Store};

use crate::support::{acquire, run};

/// Folders and databases for one test.
struct Places(TempDir);

impl Places {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn folder(&self) -> PathBuf {
        let mut number = 0;
        loop {
            let path = self.0.path().join(format!("data-{number}"));
            if !path.exists() {
                return path;
            }
            number += 1;
        }
    }
}

fn in_folder(dir: &Path) -> Embedded {
    Embedded::open(dir, &embedded::Options::default()).expect("opens")
}

fn in_database(url: &str) -> Postgres {
    Postgres::open(url, &crate::exact()).expect("opens")
}

fn go(from: &Place, to: &Place) -> Result<Moved, Error> {
    migrate(from, to, &mut |_, _, _| {})
}

fn folder(dir: &Path) -> Place {
    Place::Folder(dir.to_owned())
}

fn database(url: &str) -> Place {
    Place::Database(url.to_owned())
}

fn sql(url: &str, sql: &str) -> Option<String> {
    Server::shared().ask(url.rsplit('/').next().expect("a name"), sql)
}

/// A folder with some of everything, more than a page of it.
fn fill(dir: &Path) {
    let mut store = in_folder(dir);
    run(&mut store, &[command("lock/b", "bruno", Verb::CreateCollection)]).expect("commits");
    for round in 0..30 {
        let items: Vec<String> = (0..50).map(|item| format!("item-{round}-{item}")).collect();
        let items: Vec<&str> = items.iter().map(String::as_str).collect();
        let granted = run(&mut store, &[acquire("lock/a", "ana", &items)]).expect("commits");
        let Ok(Reply::Acquired { claim, .. }) = &granted[0] else { panic!("{granted:?}") };
        if round % 3 == 0 {
            run(&mut store, &[command("lock/a", "ana", Verb::Release { claim: claim.number })])
                .expect("commits");
        }
        for number in 0..20 {
            let item = ItemId::new(format!("doc-{number}")).expect("an id");
            let status = Status::new("free").ok();
            let write = ItemWrite { item, status, data: Json::of(&round).ok() };
            let put = Verb::PutItem(PutItem { write, expect: Expect::Any, guard: None });
            let written = run(&mut store, &[command("lock/b", "bruno", put)]).expect("commits");
            assert!(written[0].is_ok(), "{written:?}");
        }
    }
    store.close().expect("closes");
}

/// Everything that a store does it also does after it was moved, there and back: in this run each restart of
/// the store's suite is a move.
#[test]
fn e09_a_store_that_moves_at_each_restart_behaves_like_the_reference() {
    let places = Places::new();
    let place = RefCell::new(Place::Folder(PathBuf::new()));
    let make = || {
        let dir = places.folder();
        *place.borrow_mut() = folder(&dir);
        AnyStore::Embedded(Box::new(in_folder(&dir)))
    };
    conformance::run_durable(make, |store| {
        let to = match &store {
            AnyStore::Embedded(_) => database(&Server::shared().database()),
            _ => folder(&places.folder()),
        };
        drop(store);
        go(&place.borrow(), &to).expect("moves");
        *place.borrow_mut() = to.clone();
        match &to {
            Place::Folder(dir) => AnyStore::Embedded(Box::new(in_folder(dir))),
            Place::Database(url) => AnyStore::Postgres(Box::new(in_database(url))),
        }
    });
}

#[test]
fn r02_tokens_grow_across_a_move_and_the_old_place_is_not_served() {
    let places = Places::new();
    let (dir, url) = (places.folder(), Server::shared().database());
    fill(&dir);
    let held = in_folder(&dir).reader().item(&key("lock/a"), &ItemId::new("item-1-0").expect("an id"));
    let held = held.expect("reads").expect("is there");
    go(&folder(&dir), &database(&url)).expect("moves");
    let refused = Embedded::open(&dir, &embedded::Options::default()).expect_err("was moved");
    assert!(refused.to_string().contains("was moved to the database"), "{refused}");
    let again = go(&folder(&dir), &database(&Server::shared().database())).expect_err("was moved");
    assert!(again.to_string().contains("was moved to the database"), "{again}");

    let mut store = in_database(&url);
    // Its deadline ran on. Whoever takes the item after it has a later token.
    let taken = run(&mut store, &[acquire("lock/a", "bruno", &[held.id.as_str()])]).expect("commits");
    let Ok(Reply::Acquired { claim, .. }) = &taken[0] else { panic!("{taken:?}") };
    assert!(claim.token > held.fence, "{claim:?} after {held:?}");
    drop(store);
    let back = places.folder();
    go(&database(&url), &folder(&back)).expect("moves back");
    let refused = Postgres::open(&url, &Options::default()).expect_err("was moved");
    assert!(refused.to_string().contains("was moved to"), "{refused}");
    let mut store = in_folder(&back);
    let later = run(&mut store, &[acquire("lock/a", "ana", &["another"])]).expect("commits");
    let Ok(Reply::Acquired { claim: later, .. }) = &later[0] else { panic!("{later:?}") };
    assert!(later.token > claim.token);
}

#[test]
fn r02_a_node_that_works_on_while_its_database_moves_writes_nothing() {
    let places = Places::new();
    let url = Server::shared().database();
    // Under another name it is not known for a node, as behind a pooler.
    let hidden = format!("{url}?application_name=other");
    let mut node = in_database(&hidden);
    run(&mut node, &[acquire("lock/a", "ana", &["one"])]).expect("commits");
    go(&database(&url), &folder(&places.folder())).expect("moves");
    let refused = run(&mut node, &[acquire("lock/a", "ana", &["two"])]).expect_err("is shut");
    assert!(refused.is_fatal() && refused.to_string().contains("moved_away"), "{refused}");
}

/// Stopped after each page in turn, and taken up again: nothing is missing, nothing is there twice.
#[test]
fn r26_a_move_that_stops_anywhere_is_taken_up_again() {
    let places = Places::new();
    let (first, url) = (places.folder(), Server::shared().database());
    fill(&first);
    let before = in_folder(&first);
    let copy = places.folder();
    embedded::backup::backup(&first, &copy, &mut |_| Ok(()), &mut |_, _| {}).expect("copies");
    let refused = go(&folder(&copy), &database(&url)).expect_err("is a backup");
    assert!(refused.to_string().contains("is a backup"), "{refused}");
    std::fs::remove_file(copy.join("move.json")).expect("is marked");
    drop(before);
    let tries = stop_and_go(&folder(&first), &database(&url), || {
        let refused = Postgres::open(&url, &Options::default()).expect_err("is unfinished");
        assert!(refused.to_string().contains("unfinished move"), "{refused}");
    });
    assert!(tries > 3, "{tries} pages");
    // The copy has the same, and was never moved.
    let theirs = in_folder(&copy).reader();
    assert_same(&*in_database(&url).reader(), &*theirs);
    let back = places.folder();
    let tries = stop_and_go(&database(&url), &folder(&back), || {
        let refused = Embedded::open(&back, &embedded::Options::default()).expect_err("is unfinished");
        assert!(refused.to_string().contains("unfinished move"), "{refused}");
    });
    assert!(tries > 3, "{tries} pages");
    assert_same(&*in_folder(&back).reader(), &*theirs);
    let report = embedded::check::check(&back, &mut |_, _| {}).expect("checks");
    assert!(report.is_good(), "{report:?}");
}

/// Each try copies one page more than the one before it, until one gets through. Answers how many there were.
fn stop_and_go(from: &Place, to: &Place, between: impl Fn()) -> usize {
    for tries in 1.. {
        let mut pages = 0;
        let moved = catch_unwind(AssertUnwindSafe(|| {
            migrate(from, to, &mut |step, _, _| {
                pages += usize::from(step == Step::Copying);
                assert!(step != Step::Copying || pages <= tries, "stopped here");
            })
        }));
        match moved {
            Ok(moved) => {
                assert!(moved.expect("moves").resumed);
                return tries;
            }
            Err(_) => between(),
        }
    }
    unreachable!("it ends")
}

/// Stopped at its end: there may be none to serve for a while, never two, and the same command again finishes it.
#[test]
fn r26_a_move_that_stops_at_its_end_is_taken_up_again() {
    let places = Places::new();
    for stop in [Step::Verifying, Step::Finishing] {
        let (dir, url) = (places.folder(), Server::shared().database());
        fill(&dir);
        let back = places.folder();
        let opens_folder = |dir: &Path| Embedded::open(dir, &embedded::Options::default()).map(drop);
        let opens_database = || Postgres::open(&url, &Options::default()).map(drop);
        let stopped = |from: &Place, to: &Place| {
            let moved = catch_unwind(AssertUnwindSafe(|| {
                migrate(from, to, &mut |step, _, _| assert!(step != stop, "stopped here"))
            }));
            if let Ok(moved) = moved {
                panic!("{stop:?} was never reached: {moved:?}");
            }
        };
        let is_marked = stop == Step::Finishing;
        stopped(&folder(&dir), &database(&url));
        assert!(opens_database().is_err(), "{stop:?}");
        // To be served changes a folder, and then it is copied anew: that is another test's.
        if is_marked {
            assert!(opens_folder(&dir).is_err(), "{stop:?}");
        }
        assert!(go(&folder(&dir), &database(&url)).expect("moves").resumed, "{stop:?}");
        assert!(opens_folder(&dir).is_err(), "{stop:?}: it is served elsewhere");
        let there = in_database(&url);
        let events = crate::support::checked_events(&*there.reader(), &key("lock/a")).len();
        drop(there);
        stopped(&database(&url), &folder(&back));
        assert!(opens_folder(&back).is_err(), "{stop:?}");
        if is_marked {
            assert!(opens_database().is_err(), "{stop:?}");
        }
        assert!(go(&database(&url), &folder(&back)).expect("moves").resumed, "{stop:?}");
        assert!(opens_database().is_err(), "{stop:?}: it is served elsewhere");
        let reader = in_folder(&back).reader();
        assert_eq!(crate::support::checked_events(&*reader, &key("lock/a")).len(), events);
    }
}

#[test]
fn r26_what_a_copy_lost_is_found_before_it_is_served() {
    let places = Places::new();
    let dir = places.folder();
    fill(&dir);
    let losses = [
        ("DELETE FROM tenure.items WHERE id = 'doc-7'", "item doc-7 is missing"),
        ("DELETE FROM tenure.events WHERE collection = 'lock/b' AND seq = 9", "breaks at event 10"),
        ("DELETE FROM tenure.claims WHERE state = 0 AND number > 20", "active claims"),
        ("DELETE FROM tenure.claims WHERE state <> 0", "ended claims"),
        ("UPDATE tenure.claims SET expires_at_ms = 1 WHERE state = 0", "searched for of claim"),
        ("UPDATE tenure.events SET hash = sha256(hash) WHERE collection = 'lock/a' AND seq = 4", "breaks"),
        ("DELETE FROM tenure.collections WHERE collection = 'lock/b'", "lock/b is not what it was"),
    ];
    for (loss, said) in losses {
        let url = Server::shared().database();
        let mut lost = false;
        let moved = migrate(&folder(&dir), &database(&url), &mut |step, done, total| {
            if step == Step::Copying && done == total && !lost {
                lost = true;
                sql(&url, loss);
            }
        });
        let error = moved.expect_err(loss);
        assert!(lost && error.to_string().contains(said), "{loss}: {error}");
        assert!(Postgres::open(&url, &Options::default()).is_err(), "{loss}: it is not served");
        in_folder(&dir);
    }
}

#[test]
fn r26_a_move_refuses_what_it_must_not_touch() {
    let places = Places::new();
    let (dir, url) = (places.folder(), Server::shared().database());
    fill(&dir);
    let refused = |from: &Place, to: &Place, said: &str| {
        let error = go(from, to).expect_err(said).to_string();
        assert!(error.contains(said), "{error}");
    };
    // In use, on either side.
    let owner = in_folder(&dir);
    refused(&folder(&dir), &database(&url), "in use");
    drop(owner);
    let mut node = in_database(&url);
    refused(&folder(&dir), &database(&url), "in use");
    // Not empty, on either side.
    run(&mut node, &[acquire("lock/z", "ana", &["one"])]).expect("commits");
    refused(&database(&url), &folder(&places.folder()), "in use");
    drop(node);
    refused(&folder(&dir), &database(&url), "not empty");
    refused(&database(&url), &folder(&dir), "not empty");
    refused(&folder(&dir), &folder(&places.folder()), "name one of each");
    refused(&database(&Server::shared().database()), &folder(&places.folder()), "no installation");
    refused(&folder(places.0.path()), &database(&url), "not a data folder");
    // Damaged.
    sql(&url, "UPDATE tenure.events SET bytes = bytes || '\\x00'::bytea WHERE seq = 1");
    refused(&database(&url), &folder(&places.folder()), "damaged");
    in_folder(&dir);
    // Unfinished, of another source.
    let (third, other) = (places.folder(), Server::shared().database());
    fill(&third);
    let stop = |_: Step, _, _| panic!("stopped here");
    let to = database(&other);
    catch_unwind(AssertUnwindSafe(|| {
        migrate(&folder(&third), &to, &mut |step, done, total| {
            if step == Step::Copying {
                stop(step, done, total);
            }
        })
    }))
    .expect_err("stopped");
    refused(&folder(&dir), &to, "unfinished move");
    refused(&to, &folder(&places.folder()), "unfinished move");
    // What changed meanwhile is copied anew.
    let mut store = in_folder(&third);
    run(&mut store, &[acquire("lock/new", "ana", &["one"])]).expect("commits");
    drop(store);
    assert!(!go(&folder(&third), &to).expect("moves").resumed);
    let store = in_database(&other);
    assert!(store.reader().collection(&key("lock/new")).expect("reads").is_some());
}

/// An earlier state was loaded from a dump, and is moved before any node has served it: what was given out since would be
/// given out again. The same of a dump of what was just moved there.
#[test]
fn i02_what_was_restored_is_moved_only_after_it_began_an_epoch() {
    let (places, server) = (Places::new(), Server::shared());
    for served in [true, false] {
        let (dir, url) = (places.folder(), server.database());
        fill(&dir);
        go(&folder(&dir), &database(&url)).expect("moves");
        if served {
            in_database(&url).close().expect("closes");
            server.gone(&url);
        }
        // Where PostgreSQL's own programs may write, whoever runs the tests.
        let name = url.rsplit('/').next().expect("a name");
        let dump = std::env::temp_dir().join(format!("tenure-{}-moved-{name}.dump", std::process::id()));
        let path = dump.to_str().expect("a path that is text");
        server.tool("pg_dump", &["--format=custom", "--file", path, "--dbname", &url]);
        let restored = server.database();
        server.tool("pg_restore", &["--dbname", &restored, path]);
        std::fs::remove_file(&dump).expect("the dump goes");
        let newest = run(&mut in_database(&url), &[acquire("lock/a", "ana", &["later"])]).expect("commits");
        let Ok(Reply::Acquired { claim: newest, .. }) = &newest[0] else { panic!("{newest:?}") };
        let back = places.folder();
        let refused = go(&database(&restored), &folder(&back)).expect_err("is of another history");
        assert!(refused.to_string().contains("start a node on it once"), "{served}: {refused}");
        assert!(in_database(&restored).epoch() > 1, "{served}");
        server.gone(&restored);
        go(&database(&restored), &folder(&back)).expect("moves now");
        let mut store = in_folder(&back);
        let next = run(&mut store, &[acquire("lock/a", "ana", &["later"])]).expect("commits");
        let Ok(Reply::Acquired { claim: next, .. }) = &next[0] else { panic!("{next:?}") };
        assert!(next.token > newest.token, "{served}: {} after {}", next.token, newest.token);
    }
}
