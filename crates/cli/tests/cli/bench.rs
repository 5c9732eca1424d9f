//! `tenure bench http` and `tenure bench store`, so small that they measure nothing: they must go on working.

use tenure_redis::testing::Server as Redis;
use tenure_store::conformance::Server as Database;

use crate::process::{Server, code, tenure, text};

const SMALL: &[&str] =
    &["bench", "http", "--millis", "60", "--connections", "3", "--sockets", "12", "--events", "2", "--json"];

fn figures(output: &std::process::Output) -> Vec<(String, f64)> {
    assert_eq!(code(output), 0, "{}", text(&output.stderr));
    let figures: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let figure = |figure: &serde_json::Value| {
        (figure["name"].as_str().expect("a name").to_owned(), figure["value"].as_f64().expect("a value"))
    };
    figures.as_array().expect("a list").iter().map(figure).collect()
}

#[test]
fn a_benchmark_without_a_server_starts_one_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = tenure().args(SMALL).current_dir(folder.path()).output().expect("runs");
    let figures = figures(&output);
    for name in [
        "claims of one item",
        "claims of ten items, p99",
        "batches of 1,000",
        "pipelined on sockets",
        "fan-out, p99",
    ] {
        let (_, value) =
            figures.iter().find(|(known, _)| known == name).unwrap_or_else(|| panic!("no {name}"));
        assert!(*value > 0.0, "{name}: {value}");
    }
    assert!(figures.iter().any(|(name, _)| name == "fan-out, memory for the sockets"));
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);
}

#[test]
fn a_benchmark_of_a_running_server_says_what_that_refuses() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(&folder.path().join("data"));
    let output = server.ask(SMALL).output().expect("runs");
    // Its rates are on, so it refuses a load like this sooner or later, and in its own words.
    if code(&output) == 0 {
        assert!(!figures(&output).is_empty());
    } else {
        assert!(text(&output.stderr).contains("rate_limited"), "{}", text(&output.stderr));
    }
    let strange = server.ask(SMALL).env("TENURE_URL", "https://127.0.0.1:1").output().expect("runs");
    assert!(text(&strange.stderr).contains("http://host:port"), "{}", text(&strange.stderr));
    let too_many = server.ask(&["bench", "http", "--sockets", "999999999"]).output().expect("runs");
    assert!(text(&too_many.stderr).contains("--sockets"), "{}", text(&too_many.stderr));
}

#[test]
fn e09_a_benchmark_of_nodes_works_in_a_database_of_its_own_and_drops_it() {
    let database = Database::shared();
    let url = database.database();
    let count = "SELECT count(*) FROM pg_database WHERE datname LIKE 'tenure_bench_%'";
    let (mut bench, redis) = (tenure(), Redis::start());
    bench
        .env("TENURE_REDIS", redis.url())
        .args(["bench", "store", "--rounds", "1", "--millis", "40", "--events", "3", "--json"]);
    bench.args(["--collections", "2", "--items", "10240"]).env("TENURE_DATABASE_URL", &url);
    let figures = figures(&bench.output().expect("runs"));
    for name in [
        "one item, 64 in flight, two nodes, against the usual design",
        "ten items, 256 in flight, one node, p99",
        "node to node, beside 64 in flight, p99",
        "server to socket, by NOTIFY, quiet, p99",
        "server to socket, by Redis, beside 64 in flight, p50",
    ] {
        let (_, value) =
            figures.iter().find(|(known, _)| known == name).unwrap_or_else(|| panic!("no {name}"));
        assert!(*value > 0.0, "{name}: {value}");
    }
    assert_eq!(database.ask("postgres", count).as_deref(), Some("0"));
    let named = url.rsplit('/').next().expect("a name");
    let untouched = "SELECT count(*) FROM pg_namespace WHERE nspname IN ('tenure', 'row_locks')";
    assert_eq!(database.ask(named, untouched).as_deref(), Some("0"));
}

#[test]
fn e09_a_benchmark_of_nodes_says_what_it_needs() {
    let unnamed = tenure().args(["bench", "store"]).env_remove("TENURE_DATABASE_URL").output().expect("runs");
    assert!(text(&unnamed.stderr).contains("TENURE_DATABASE_URL"), "{}", text(&unnamed.stderr));
    let database = Database::shared();
    let _ = database.ask("postgres", "CREATE ROLE nobody_much LOGIN");
    let url = database.url("postgres").replace("tenure@", "nobody_much@");
    let refused = tenure().args(["bench", "store", "--database-url", &url]).output().expect("runs");
    assert!(text(&refused.stderr).contains("CREATEDB"), "{}", text(&refused.stderr));
}
