//! Several `tenure serve` over one PostgreSQL.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value, json};
use tenure_redis::testing::Server as Redis;
use tenure_store::conformance::{AS_VERSION_3, Server as Database};

use crate::http;
use crate::process::{ADMIN, Server, code, send, tenure, text, until};

fn node(url: &str) -> Server {
    node_with(url, &[])
}

pub(crate) fn node_with(url: &str, more: &[(&str, &str)]) -> Server {
    let mut command = keyless(url);
    command.env("TENURE_ADMIN_KEY", ADMIN).envs(more.iter().copied());
    Server::of(command)
}

/// A node that makes the first key by itself.
fn keyless(url: &str) -> Command {
    let mut command = tenure();
    command.args(["serve", "--listen", "127.0.0.1:0"]);
    // By the environment: what stands in a command line can be read by everyone on a machine.
    command.env("TENURE_DATABASE_URL", url).env("TENURE_SECRET", "s".repeat(64));
    command
}

/// So many at once.
fn at_once(count: usize, start: impl Fn() -> Server + Sync) -> Vec<Server> {
    std::thread::scope(|scope| {
        let starting: Vec<_> = (0..count).map(|_| scope.spawn(&start)).collect();
        starting.into_iter().map(|one| one.join().expect("starts")).collect()
    })
}

#[test]
fn e09_nodes_that_start_at_once_on_an_empty_database_make_one_first_key() {
    let database = Database::shared();
    let url = database.database();
    let nodes = at_once(4, || Server::of(keyless(&url)));
    let said: Vec<_> = nodes.iter().flat_map(|node| &node.said).collect();
    let keys: Vec<_> = said.iter().filter_map(|line| line.split_once("shown only now: ")).collect();
    assert_eq!(keys.len(), 1, "one shows it, the others know of it");
    for node in &nodes {
        let listed =
            node.ask(&["keys", "list", "--json"]).env("TENURE_KEY", keys[0].1).output().expect("runs");
        let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).expect("JSON");
        assert_eq!(listed.as_array().map(Vec::len), Some(1), "{listed}");
    }

    let url = database.database();
    assert_eq!(at_once(4, || node(&url)).len(), 4, "with the operator's own key all of them start, too");
}

/// What a node has before it is upgraded: something that is held and whose reply is kept, something that has ended,
/// and a policy.
struct Used {
    held: Value,
    ended: String,
    policy: Value,
}

fn claim(item: &str) -> Value {
    json!({"collection": "lock/old", "items": [item], "ttl_ms": 3_600_000})
}

impl Used {
    fn by(node: &Server) -> Self {
        let ask = |method: &str, path: &str, key: &str, body: &Value| {
            let (status, said) = http::ask(&node.url, method, path, key, body).expect("an answer");
            assert!(status < 300, "{path}: {status} {said}");
            said
        };
        let held = ask("POST", "/v1/claims", "once", &claim("held"));
        let ended = ask("POST", "/v1/claims", "", &claim("ended"));
        let ended = format!("/v1/claims/{}", ended["id"].as_str().expect("an id"));
        ask("DELETE", &ended, "", &Value::Null);
        let mut policy = ask("GET", "/v1/policies/lock", "", &Value::Null)["policy"].clone();
        policy["max_items"] = json!(3);
        ask("PUT", "/v1/policies/lock", "", &policy);
        Self { held, ended, policy }
    }

    /// Another node knows all of it, and goes on with it.
    fn check(&self, node: &Server, item: &str) {
        let ask = |method: &str, path: &str, key: &str, body: &Value| {
            http::ask(&node.url, method, path, key, body).expect("an answer")
        };
        assert_eq!(ask("GET", "/readyz", "", &Value::Null).0, 200);
        let (_, held) = ask("GET", "/v1/claims?collection=lock/old&state=active", "", &Value::Null);
        assert_eq!(held["claims"].as_array().map(Vec::len), Some(1), "{held}");
        assert_eq!(held["claims"][0]["id"], self.held["id"]);
        assert_eq!(ask("POST", "/v1/claims", "once", &claim("held")), (201, self.held.clone()), "it is kept");
        assert_eq!(ask("GET", &self.ended, "", &Value::Null).1["state"], "released");
        assert_eq!(ask("GET", "/v1/policies/lock", "", &Value::Null).1["policy"], self.policy);
        let (status, new) = ask("POST", "/v1/claims", "", &claim(item));
        assert_eq!(status, 201, "{new}");
        let new = format!("/v1/claims/{}", new["id"].as_str().expect("an id"));
        assert_eq!(ask("DELETE", &new, "", &Value::Null).0, 204);
    }
}

/// R26 with real processes, on what the version before wrote.
#[test]
fn r26_ten_nodes_that_start_at_once_upgrade_a_used_database_and_know_what_is_in_it() {
    // Of its own: ten nodes may want more than half of a server's connections.
    let database = Database::start();
    let url = database.database();
    let name = url.rsplit('/').next().expect("a name");
    let used = Used::by(&node(&url));
    database.gone(&url);
    database.run(name, AS_VERSION_3);
    let nodes = at_once(10, || node(&url));
    for (number, node) in nodes.iter().enumerate() {
        used.check(node, &format!("new-{number}"));
    }
    let ask = |sql: &str| database.ask(name, sql).expect("a row");
    let migrations = "SELECT string_agg(version::text, ',' ORDER BY version) FROM tenure.migrations";
    assert_eq!(ask(migrations), "1,2,3,4", "each once");
    assert_eq!(ask("SELECT epoch FROM tenure.meta"), "1", "an upgrade is no restore");
}

#[test]
fn e09_a_key_made_on_one_node_opens_the_next_at_once() {
    let database = Database::shared();
    let url = database.database();
    // Without hints: what is not asked for is known a quarter of a second later.
    let deaf = [("TENURE_REDIS", "redis://127.0.0.1:1")];
    let (first, second) = (node_with(&url, &deaf), node_with(&url, &deaf));
    for round in 0..10 {
        let made = first.json(&["keys", "create", &format!("key {round}"), "--subject", "ana", "--json"]);
        let key = made["key"].as_str().expect("its text");
        let used = second.ask(&["ls", "--json"]).env("TENURE_KEY", key).output().expect("runs");
        assert!(used.status.success(), "{}", text(&used.stderr));
        let listed = second.json(&["keys", "list", "--json"]);
        assert!(listed.as_array().expect("a list").iter().any(|key| key["id"] == made["id"]), "{listed}");
    }
}

#[test]
fn e09_of_two_administrators_who_revoke_each_other_on_two_nodes_one_stays() {
    let database = Database::shared();
    let url = database.database();
    let (first, second) = (node(&url), node(&url));
    let mut key = ADMIN.to_owned();
    for round in 0..5 {
        let name = format!("other {round}");
        let made = first
            .ask(&["keys", "create", &name, "--subject", "bo", "--role", "admin", "--json"])
            .env("TENURE_KEY", &key)
            .output();
        let made: serde_json::Value = serde_json::from_slice(&made.expect("runs").stdout).expect("JSON");
        let other = made["key"].as_str().expect("its text").to_owned();
        let list = |node: &Server, key: &str| -> Option<Vec<serde_json::Value>> {
            let listed = node.ask(&["keys", "list", "--json"]).env("TENURE_KEY", key).output().expect("runs");
            serde_json::from_slice::<serde_json::Value>(&listed.stdout).ok()?.as_array().cloned()
        };
        let listed = list(&second, &other).expect("the new key is one");
        let id = |is_new: bool| {
            let found = listed.iter().find(|listed| (listed["name"] == name.as_str()) == is_new);
            found.and_then(|found| found["id"].as_str()).expect("an id").to_owned()
        };
        assert_eq!(listed.len(), 2, "{listed:?}");
        let mut one = first.ask(&["keys", "revoke", &id(true)]);
        let mut two = second.ask(&["keys", "revoke", &id(false)]);
        let (mut one, mut two) = (
            one.env("TENURE_KEY", &key).spawn().expect("runs"),
            two.env("TENURE_KEY", &other).spawn().expect("runs"),
        );
        one.wait().expect("ends");
        two.wait().expect("ends");
        // The other node's revocation is known here a moment later.
        let both = [key.clone(), other];
        until("one key of the two", || {
            let left: Vec<_> = both.iter().filter(|key| list(&first, key).is_some()).collect();
            assert!(!left.is_empty(), "round {round}: each has revoked the other");
            key.clone_from(left[0]);
            left.len() == 1
        });
    }
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
    let mut demo = keyless(&url);
    demo.arg("--demo");
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
