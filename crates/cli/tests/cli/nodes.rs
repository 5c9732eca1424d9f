//! Several `tenure serve` over one PostgreSQL.

use std::io::{Read, Write};
use std::net::TcpStream;

use rustix::process::Signal;
use tenure_redis::testing::Server as Redis;
use tenure_store::conformance::Server as Database;

use crate::process::{ADMIN, Server, code, send, tenure, text, until};

fn node(url: &str) -> Server {
    node_with(url, &[])
}

fn node_with(url: &str, more: &[(&str, &str)]) -> Server {
    let mut command = tenure();
    command.args(["serve", "--listen", "127.0.0.1:0"]);
    // By the environment: what stands in a command line can be read by everyone on a machine.
    command
        .env("TENURE_DATABASE_URL", url)
        .env("TENURE_ADMIN_KEY", ADMIN)
        .env("TENURE_SECRET", "s".repeat(64))
        .envs(more.iter().copied());
    Server::of(command)
}

#[test]
fn e09_a_claim_made_on_one_node_is_held_on_all_and_outlives_its_node() {
    let database = Database::start();
    let url = database.database();
    let (mut first, second, third) = (node(&url), node(&url), node(&url));
    let mut held = first.ask(&["run", "--key", "nightly", "--ttl", "60s", "--", "sleep", "60"]);
    let mut holder = held.spawn().expect("starts");
    until("the claim", || !second.json(&["ls", "--json"]).as_array().expect("a list").is_empty());
    let refused = third.ask(&["run", "--key", "nightly", "--", "true"]).output().expect("runs");
    assert_ne!(code(&refused), 0, "{}", text(&refused.stdout));
    send(&first.child, Signal::KILL);
    first.child.wait().expect("ends");
    let left = third.json(&["ls", "--json"]);
    assert_eq!(left[0]["state"], "active", "{left}");
    send(&holder, Signal::KILL);
    holder.wait().expect("ends");
    let item = left[0]["items"][0].as_str().expect("an item");
    let collection = left[0]["collection"].as_str().expect("a collection");
    let what = format!("{collection}/{item}");
    third.answer(&["release", &what, "--force", "--reason", "its node is gone"]);
    assert_eq!(second.json(&["ls", "--json"]).as_array().map(Vec::len), Some(0));
    send(&second.child, Signal::TERM);
    let mut second = second;
    assert_eq!(second.child.wait().expect("ends").code(), Some(0));
}

#[test]
fn e09_a_demonstration_is_not_loaded_into_somebodys_database() {
    let database = Database::shared();
    let url = database.database();
    let first = node(&url);
    first.answer(&["run", "--key", "mine", "--", "true"]);
    drop(first);
    let mut demo = tenure();
    demo.args(["serve", "--listen", "127.0.0.1:0", "--demo"]).env("TENURE_DATABASE_URL", &url);
    let output = demo.output().expect("runs");
    assert_ne!(code(&output), 0);
    assert!(text(&output.stderr).contains("not empty"), "{}", text(&output.stderr));
}

/// One more request to this server: whether it was allowed, and what its answer says of the rate.
fn is_allowed(node: &Server) -> (bool, String) {
    let address = node.url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).expect("connects");
    let head = format!(
        "GET /v1/claims HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {ADMIN}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("read");
    assert!(answer.starts_with("HTTP/1.1 200") || answer.starts_with("HTTP/1.1 429"), "{answer}");
    (answer.starts_with("HTTP/1.1 200"), answer.to_lowercase())
}

#[test]
fn e09_r24_with_redis_all_nodes_count_one_rate_and_without_it_each_its_own() {
    let (url, redis) = (Database::shared().database(), Redis::with_password("not-for-logs"));
    let address = redis.url();
    // One more each second would blur the count: none comes while this runs.
    let more = [
        ("TENURE_REDIS", &*address),
        ("TENURE_RATES_READ_PER_SECOND", "1"),
        ("TENURE_RATES_READ_BURST", "1000"),
    ];
    let nodes = [node_with(&url, &more), node_with(&url, &more)];
    let left = |answer: &str| -> u32 {
        let (_, rest) = answer.split_once("\"read\";r=").expect("it says what is left");
        rest.split(';').next().and_then(|left| left.parse().ok()).expect("a number")
    };
    // Until both have found Redis, each counts alone.
    let metrics = |node: &Server| {
        let mut stream = TcpStream::connect(node.url.trim_start_matches("http://")).expect("connects");
        stream.write_all(b"GET /metrics HTTP/1.0\r\nHost: x\r\n\r\n").expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("read");
        answer
    };
    let counts = |node: &Server| metrics(node).contains("tenure_redis_connected{for=\"rates\"} 1");
    until("both count together", || nodes.iter().all(counts));
    let mut before = left(&is_allowed(&nodes[0]).1);
    for round in 1..20 {
        let (allowed, answer) = is_allowed(&nodes[round % 2]);
        assert!(allowed && left(&answer) <= before, "{answer}");
        before = left(&answer);
    }
    assert!(before <= 1_000 - 15, "both took from one allowance: {before}");
    redis.kill();
    let (allowed, answer) = is_allowed(&nodes[0]);
    assert!(allowed && left(&answer) >= 1_000 - 10, "a count of its own: {answer}");
    redis.start_again();
    // By itself the first would only count its own two.
    until("they count together again", || {
        let [first, other, last] = [0, 1, 0].map(|node| left(&is_allowed(&nodes[node]).1));
        first > other && other > last
    });
}

#[test]
fn e09_a_redis_over_tls_is_refused_in_words_without_its_password() {
    for (url, words) in [("rediss://:not-for-logs@h", "does not speak"), ("redis://:not-for-logs@", "form")] {
        let mut command = tenure();
        command
            .args(["config", "check"])
            .env("TENURE_DATABASE_URL", "postgres://h/d")
            .env("TENURE_REDIS", url);
        let output = command.output().expect("runs");
        let said = text(&output.stdout) + &text(&output.stderr);
        assert_ne!(code(&output), 0, "{said}");
        assert!(said.contains(words) && !said.contains("not-for-logs"), "{said}");
    }
}
