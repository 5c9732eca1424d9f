//! What is asked all the time must not read what is not asked for.

use tenure_store::Store;
use tenure_store::conformance::Server;
use tenure_store::limits::READERS_WAITING_MAX;
use tenure_store::postgres::{CLOCK_AND_PLACE, DUE, OF_HOLDERS, Options, Postgres, held_items};

/// How a statement with parameters is carried out, as the database plans it for these values.
fn plan(server: &Server, url: &str, types: &str, sql: &str, values: &str) -> String {
    let name = url.rsplit('/').next().expect("a name");
    // Small tables are read whole whatever there is; what counts is what an index can be asked.
    let asked = format!(
        "SET enable_seqscan = off; PREPARE asked ({types}) AS {sql}; \
         EXPLAIN (FORMAT JSON) EXECUTE asked ({values})"
    );
    server.ask(name, &asked).expect("a plan")
}

/// Four times a second on every node: it must cost what is due, not what is held.
#[test]
fn e09_the_look_for_deadlines_searches_its_index() {
    let server = Server::shared();
    let url = server.database();
    drop(Postgres::open(&url, &Options::default()).expect("opens"));
    for values in ["600, 512, NULL", "600, 512, 1700000000000"] {
        let plan = plan(server, &url, "bigint, bigint, bigint", DUE, values);
        assert!(plan.contains("claims_due") && plan.contains("Index Cond"), "{plan}");
        assert!(!plan.contains("\"Filter\""), "{plan}");
    }
}

/// In every batch, under its locks: planned as a scan that is forbidden it would seem so dear that the database compiles it.
#[test]
fn e09_the_look_for_the_place_goes_by_indexes() {
    let server = Server::shared();
    let url = server.database();
    drop(Postgres::open(&url, &Options::default()).expect("opens"));
    let name = url.rsplit('/').next().expect("a name");
    let plan =
        server.ask(name, &format!("SET enable_seqscan = off; EXPLAIN (FORMAT JSON) {CLOCK_AND_PLACE}"));
    let plan = plan.expect("a plan");
    assert!(!plan.contains("Seq Scan") && plan.contains("place_pkey"), "{plan}");
}

/// Claims that were released in time leave their deadlines in the index until it is vacuumed. Whoever passes them
/// marks them, and nobody passes them twice, unless it goes by a bitmap.
#[test]
fn e09_deadlines_of_claims_that_have_ended_are_passed_once() {
    let server = Server::shared();
    let url = server.database();
    let name = url.rsplit('/').next().expect("a name");
    let looks = || {
        let store = Postgres::open(&url, &Options::default()).expect("opens");
        assert!(store.follower().pulse(&[], 0, 512).expect("is told").due.is_empty());
        drop(store);
        server.gone(&url);
        let read = "SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = 'claims_due'";
        server.ask(name, read).and_then(|read| read.parse::<u64>().ok()).expect("a count")
    };
    looks();
    server.run(
        name,
        "ALTER TABLE tenure.claims SET (autovacuum_enabled = off); \
         INSERT INTO tenure.claims SELECT 'lock/a', n, 'ana', CASE WHEN n % 60 = 0 THEN 0 ELSE 1 END, \
         9000000000000 + n * 7919 % 100000, '' FROM generate_series(1, 100000) n; ANALYZE tenure.claims; \
         UPDATE tenure.claims SET state = 0, expires_at_ms = number WHERE number % 5 = 1",
    );
    server.run(name, "UPDATE tenure.claims SET state = 1 WHERE number % 5 = 1");
    // Nothing is marked that somebody who began earlier might still see: a transaction in whichever database of the
    // server, or a snapshot in this one.
    let since = server.ask(name, "SELECT pg_current_xact_id()").expect("a number");
    let all_after = format!(
        "SELECT pg_snapshot_xmin(pg_current_snapshot()) >= '{since}'::xid8 AND NOT EXISTS (SELECT FROM pg_stat_activity \
         WHERE datname = '{name}' AND pid <> pg_backend_pid() AND backend_xmin IS NOT NULL)"
    );
    while server.ask(name, &all_after).as_deref() != Some("t") {
        std::thread::yield_now();
    }
    let (first, second) = (looks(), looks());
    assert!(first > 10_000 && second - first < 1_000, "{first}, then {} again", second - first);
}

/// What one person holds and held, anywhere: a list that anyone asks for.
#[test]
fn r20_a_holders_claims_are_found_by_the_holder() {
    let server = Server::shared();
    let url = server.database();
    drop(Postgres::open(&url, &Options::default()).expect("opens"));
    server.run(
        url.rsplit('/').next().expect("a name"),
        "INSERT INTO tenure.claims SELECT 'lock/' || n % 50, n, 'person-' || n % 1000, n % 2, n, '' \
         FROM generate_series(1, 20000) n; ANALYZE tenure.claims",
    );
    for (state, index) in [(0, "claims_of"), (1, "claims_ended"), (2, "claims_ended")] {
        let sql = format!(
            "SELECT collection, body FROM tenure.claims WHERE holder = $1 AND state = {state} \
             ORDER BY collection, number LIMIT $2"
        );
        let plan = plan(server, &url, "text, bigint", &sql, "'person-7', 100");
        assert!(plan.contains(&format!("\"{index}\"")) && plan.contains("Index Cond"), "{plan}");
    }
    let sql = "SELECT * FROM ((SELECT collection, number FROM tenure.claims WHERE holder = $1 AND state = 0 \
                 ORDER BY collection, number LIMIT $2) UNION ALL \
                 (SELECT collection, number FROM tenure.claims WHERE holder = $1 AND state <> 0 \
                 ORDER BY collection, number LIMIT $2)) AS claims ORDER BY collection, number LIMIT $2";
    let plan = plan(server, &url, "text, bigint", sql, "'person-7', 100");
    assert!(plan.contains("\"claims_of\"") && plan.contains("\"claims_ended\""), "{plan}");
    assert!(plan.contains("Merge Append"), "a page of each at most: {plan}");
}

/// A list of items costs what is on it, however many claims its collection has and had: planned on empty tables, too.
#[test]
fn e09_each_item_of_a_page_looks_its_claim_up() {
    let server = Server::shared();
    let url = server.database();
    drop(Postgres::open(&url, &Options::default()).expect("opens"));
    let name = url.rsplit('/').next().expect("a name");
    let look = || {
        // As a reader's transaction plans it.
        server.run(name, &format!("ALTER DATABASE {name} SET enable_bitmapscan = off"));
        let plan = plan(server, &url, "text, text, bigint", &held_items(), "'lock/7', 'a', 101");
        assert!(plan.contains("\"items_pkey\"") && plan.contains("\"claims_pkey\""), "{plan}");
        assert!(plan.contains("(number = page.claim)") && !plan.contains("Seq Scan"), "{plan}");
    };
    look();
    server.run(
        name,
        "INSERT INTO tenure.claims SELECT 'lock/' || n % 10, n, 'ana', n % 2, n, '' FROM generate_series(1, 20000) n; \
         INSERT INTO tenure.items SELECT 'lock/' || n % 10, n, '', n, '' FROM generate_series(1, 20000) n; \
         ANALYZE tenure.claims, tenure.items",
    );
    look();
}

/// A claim looks at what else its holder has, and never at what it had: planned on empty tables, too.
#[test]
fn e09_what_a_holder_had_is_not_read_by_a_claim() {
    let server = Server::shared();
    let url = server.database();
    drop(Postgres::open(&url, &Options::default()).expect("opens"));
    // As a writer's connection plans it.
    let name = url.rsplit('/').next().expect("a name");
    server.run(name, &format!("ALTER DATABASE {name} SET plan_cache_mode = force_generic_plan"));
    server.run(name, &format!("ALTER DATABASE {name} SET enable_hashjoin = off"));
    server.run(name, &format!("ALTER DATABASE {name} SET enable_mergejoin = off"));
    let plan = plan(server, &url, "text[], text[]", OF_HOLDERS, "ARRAY['lock/a'], ARRAY['ana']");
    assert!(plan.contains("\"claims_of\"") && plan.contains("Index Cond"), "{plan}");
    assert!(!plan.contains("Join Filter"), "{plan}");
}

/// All of everybody's connections are busy with what takes long: the engine's own look and the question
/// whether it is ready wait for none of them, and nobody else waits for ever.
#[test]
fn i18_slow_lists_hold_up_neither_the_follower_nor_readiness() {
    let server = Server::shared();
    let url = server.database();
    let name = url.rsplit('/').next().expect("a name");
    // What is slow is so until it is let go, however busy the machine is.
    let options = Options { readers_max: 1, statement_ms: 900_000, ..Options::default() };
    let store = Postgres::open(&url, &options).expect("opens");
    let (reader, follower) = (store.reader(), store.follower());
    server.run(name, "CREATE TABLE let_go (at int)");
    std::thread::scope(|scope| {
        // Until a row says so, and never for ever: ten minutes at least.
        scope.spawn(|| {
            server.run(
                name,
                "BEGIN; LOCK TABLE tenure.policies IN ACCESS EXCLUSIVE MODE; \
                 DO $$ BEGIN FOR i IN 1..60000 LOOP PERFORM pg_sleep(0.01); \
                 EXIT WHEN EXISTS (SELECT FROM let_go); END LOOP; END $$",
            );
        });
        let waits = |mode: &str, granted: bool| {
            let asked = format!(
                "SELECT count(*) FROM pg_locks WHERE relation = 'tenure.policies'::regclass \
                 AND mode = '{mode}' AND granted = {granted}"
            );
            while server.ask(name, &asked).as_deref() != Some("1") {
                std::thread::yield_now();
            }
        };
        waits("AccessExclusiveLock", true);
        let slow = scope.spawn(|| reader.policy("lock"));
        waits("AccessShareLock", false);
        follower.pulse(&[], 0, 10).expect("is told");
        reader.ready().expect("is ready");
        assert!(!slow.is_finished(), "and the slow one is still at it");
        // Each who waits keeps a thread waiting: so many, and not one more.
        let (tell, told) = std::sync::mpsc::channel();
        for _ in 0..READERS_WAITING_MAX + 5 {
            let (tell, reader) = (tell.clone(), &reader);
            scope.spawn(move || drop(tell.send(reader.policy("lock").err())));
        }
        for _ in 0..5 {
            let refused = told.recv().expect("is told").expect("is refused").to_string();
            assert!(refused.contains("too many wait"), "{refused}");
        }
        server.run(name, "INSERT INTO let_go VALUES (1)");
        assert!(slow.join().expect("no panic").expect("reads").is_none());
    });
}
