//! The commands that look and manage.

use crate::process::{ADMIN, Server, code, tenure, text};

fn start() -> (tempfile::TempDir, Server) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = crate::process::serve(&folder.path().join("data"));
    command.arg("--demo").env("TENURE_ADMIN_KEY", ADMIN);
    (folder, Server::of(command))
}

#[test]
fn who_holds_what_is_listed_and_explained() {
    let (_folder, server) = start();
    let table = server.answer(&["ls", "--holder", "bruno"]);
    assert!(table.contains("projector") && table.contains("Bruno (bruno)"), "{table}");
    let tasks = server.json(&["ls", "--kind", "task", "--json"]);
    assert_eq!(
        (tasks.as_array().map(Vec::len), &tasks[0]["holder"]["id"]),
        (Some(1), &"bruno".into()),
        "{tasks}"
    );
    assert_eq!(server.json(&["ls", "--holder", "nobody", "--json"]), serde_json::json!([]));
    let shown = server.answer(&["show", "lock/demo/projector"]);
    assert!(shown.contains("held by Bruno (bruno)") && shown.contains("would be refused"), "{shown}");
    let claim = server.json(&["show", "lock/demo/projector", "--json"])["claim"]["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    assert!(server.answer(&["show", &claim]).contains("projector in lock/demo"));
}

/// As a container asks: without a key, by the exit code.
#[test]
fn a_server_says_whether_it_is_well_and_one_that_is_gone_is_not() {
    let (_folder, mut server) = start();
    let ask = |server: &Server| {
        let mut command = tenure();
        command.arg("health").env("TENURE_URL", &server.url).output().expect("runs")
    };
    let well = ask(&server);
    assert_eq!(code(&well), 0, "{}", text(&well.stderr));
    server.child.kill().expect("ends");
    server.child.wait().expect("ended");
    let gone = ask(&server);
    assert_ne!(code(&gone), 0, "{}", text(&gone.stdout));
    assert!(text(&gone.stderr).contains(&server.url), "{}", text(&gone.stderr));
}

#[test]
fn another_s_claim_is_released_only_by_force_and_with_a_reason() {
    let (_folder, server) = start();
    let refused = server.ask(&["release", "lock/demo/projector"]).output().expect("runs");
    assert_eq!(code(&refused), 77, "{}", text(&refused.stderr));
    assert_eq!(code(&server.ask(&["release", "lock/demo/projector", "--force"]).output().expect("runs")), 64);
    let said = server.answer(&["release", "lock/demo/projector", "--force", "--reason", "needed"]);
    assert!(said.contains("is released"), "{said}");
    assert!(
        server.answer(&["release", "lock/demo/projector", "--force", "--reason", "again"]).contains("Nobody")
    );
    let rows = server.answer(&["audit", "--item", "projector"]);
    assert!(rows.contains("LOCK_FORCE_RELEASE") && rows.contains("needed"), "{rows}");
}

#[test]
fn keys_and_policies_are_managed() {
    let (folder, server) = start();
    let made = server.json(&["keys", "create", "night", "--subject", "eva", "--role", "worker", "--json"]);
    let file = folder.path().join("key");
    std::fs::write(&file, format!("{}\n", made["key"].as_str().expect("a key"))).expect("written");
    let mut listed = server.ask(&["ls", "--json", "--key-file"]);
    assert_eq!(code(&listed.arg(&file).output().expect("runs")), 0);
    let id = made["id"].as_str().expect("an id");
    assert!(server.answer(&["keys", "list"]).contains(id));
    server.answer(&["keys", "revoke", id]);
    let mut listed = server.ask(&["ls", "--key-file"]);
    assert_eq!(code(&listed.arg(&file).output().expect("runs")), 77);
    let mut policy = server.json(&["policy", "get", "lock"]);
    policy["max_items"] = serde_json::json!(3);
    let file = folder.path().join("policy.json");
    std::fs::write(&file, policy.to_string()).expect("written");
    server.answer(&["policy", "set", "lock", file.to_str().expect("a path")]);
    assert_eq!(server.json(&["policy", "get", "lock"])["max_items"], 3);
    let listed = server.json(&["policy", "list", "--json"]);
    let source = |kind: &str| {
        let found = listed.as_array().and_then(|all| all.iter().find(|one| one["kind"] == kind));
        found.map(|one| one["source"].clone())
    };
    assert_eq!((source("lock"), source("task")), (Some("own".into()), Some("preset".into())));
    assert!(server.answer(&["policy", "list"]).contains("raffle"));
}

#[test]
fn completions_are_printed_for_shells() {
    for shell in ["bash", "zsh", "fish"] {
        let printed = tenure().args(["completions", shell]).output().expect("runs");
        assert!(code(&printed) == 0 && text(&printed.stdout).contains("tenure"), "{shell}");
    }
}

#[test]
fn the_key_cannot_be_given_where_everyone_sees_it() {
    let help = tenure().args(["ls", "--help"]).output().expect("runs");
    assert!(!text(&help.stdout).contains("--api-key"));
}
