//! Several `tenure serve` over one PostgreSQL.

use rustix::process::Signal;
use tenure_store::conformance::Server as Database;

use crate::process::{ADMIN, Server, code, send, tenure, text, until};

fn node(url: &str) -> Server {
    let mut command = tenure();
    command.args(["serve", "--listen", "127.0.0.1:0"]);
    // By the environment: what stands in a command line can be read by everyone on a machine.
    command
        .env("TENURE_DATABASE_URL", url)
        .env("TENURE_ADMIN_KEY", ADMIN)
        .env("TENURE_SECRET", "s".repeat(64));
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
