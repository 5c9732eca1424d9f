//! What is asked all the time must not read what is not asked for.

use tenure_store::conformance::Server;
use tenure_store::postgres::{DUE, Options, Postgres};

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
