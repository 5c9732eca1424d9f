//! `tenure serve` and `tenure config`.

use std::io::{Read, Write};

use rustix::process::Signal;

use crate::process::{ADMIN, Server, code, send, serve, tenure, text};

#[test]
fn the_first_start_prints_a_key_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let mut first = Server::of(serve(&data));
    let key =
        first.said.iter().find_map(|line| line.strip_prefix("The administrator's key, shown only now: "));
    let key = key.expect("a key").to_owned();
    let listed = first.ask(&["keys", "list", "--json"]).env("TENURE_KEY", &key).output().expect("runs");
    assert_eq!(code(&listed), 0, "{}", text(&listed.stderr));
    send(&first.child, Signal::TERM);
    assert_eq!(first.child.wait().expect("ends").code(), Some(0));
    let second = Server::of(serve(&data));
    assert_eq!(second.said, Vec::<String>::new());
    let listed = second.ask(&["keys", "list"]).env("TENURE_KEY", &key).output().expect("runs");
    assert_eq!(code(&listed), 0);
}

#[test]
fn a_claim_survives_a_kill_and_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut server = Server::start(folder.path());
    let mut held = server.ask(&["run", "--key", "nightly", "--ttl", "60s", "--", "sleep", "60"]);
    let mut holder = held.spawn().expect("starts");
    crate::process::until("the claim", || {
        !server.json(&["ls", "--json"]).as_array().expect("a list").is_empty()
    });
    let before = server.json(&["ls", "--json"]);
    send(&server.child, Signal::KILL);
    server.child.wait().expect("ends");
    send(&holder, Signal::KILL);
    holder.wait().expect("ends");
    let again = Server::start(folder.path());
    let after = again.json(&["ls", "--json"]);
    assert_eq!((&before[0]["id"], &before[0]["token"]), (&after[0]["id"], &after[0]["token"]));
    assert_eq!(after[0]["state"], "active");
}

/// The allocator's settings are there before the program is, in the same process; an operator's own stay as they are.
#[test]
fn the_server_runs_with_settings_for_its_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = |command| {
        let server = Server::of(command);
        let all = std::fs::read(format!("/proc/{}/environ", server.child.id())).expect("an environment");
        let all = text(&all);
        let mut found: Vec<_> =
            all.split('\0').filter(|setting| setting.starts_with("MIMALLOC_")).map(str::to_owned).collect();
        found.sort_unstable();
        found
    };
    let data = folder.path().join("data");
    assert_eq!(settings(serve(&data)), ["MIMALLOC_GENERIC_COLLECT=1000000", "MIMALLOC_PURGE_DELAY=60000"]);
    let mut own = serve(&data);
    own.env("MIMALLOC_PURGE_DELAY", "10");
    assert_eq!(settings(own), ["MIMALLOC_PURGE_DELAY=10"]);
}

#[test]
fn the_demonstration_loads_once_and_says_who_is_who() {
    let folder = tempfile::tempdir().expect("a folder");
    let demo = || {
        let mut command = serve(folder.path());
        command.arg("--demo").env("TENURE_ADMIN_KEY", ADMIN);
        Server::of(command)
    };
    let first = demo();
    assert_eq!(first.said.len(), 4, "{:?}", first.said);
    let claims = first.json(&["ls", "--json"]);
    let held = claims.as_array().expect("a list").iter().find(|claim| claim["collection"] == "lock/demo");
    assert_eq!(held.expect("the projector's")["holder"]["id"], "bruno");
    drop(first);
    let again = demo().said.clone();
    assert!(again.len() == 1 && again[0].contains("keys were shown"), "{again:?}");
}

/// R19: the demonstration's gateway replaces nobody's real one.
#[test]
fn r19_the_demonstration_does_not_start_where_real_payments_are_configured() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let mut server = Server::start(&data);
    let body = r#"{"config":{"merchant_id":"REALMERCHANT","api_key":"REALKEY","environment":"sandbox"}}"#;
    let answer = patch(&server, "/admin/payment-providers/bac_credomatic", body);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    send(&server.child, Signal::TERM);
    server.child.wait().expect("ends");
    let secrets = || {
        let files = std::fs::read_dir(data.join("secrets")).expect("a folder");
        let read =
            |file: std::io::Result<std::fs::DirEntry>| std::fs::read_to_string(file.expect("a file").path());
        files.map(|file| read(file).expect("text")).collect::<String>()
    };
    assert!(secrets().contains("REALKEY"));
    let demo = serve(&data).arg("--demo").output().expect("runs");
    let said = text(&demo.stderr);
    assert!(code(&demo) == 1 && said.contains("configured for another gateway"), "{said}");
    assert!(secrets().contains("REALKEY"), "and nothing was replaced");
    let mut named = serve(&folder.path().join("other"));
    named.arg("--demo").env("TENURE_PAYMENTS_GATEWAY_URL", "https://gateway.example/api");
    let said = text(&named.output().expect("runs").stderr);
    assert!(said.contains("payments.gateway_url"), "{said}");
}

/// A request that no command of ours makes.
fn patch(server: &Server, path: &str, body: &str) -> String {
    let address = server.url.trim_start_matches("http://");
    let mut stream = std::net::TcpStream::connect(address).expect("connects");
    let head = format!(
        "PATCH {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {ADMIN}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("read");
    answer
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("tenure.toml");
    std::fs::write(&file, "lissen = \"127.0.0.1:1\"\n[limits]\nconnections = 0\n").expect("written");
    let check = tenure().args(["config", "check", "--config"]).arg(&file).output().expect("runs");
    let said = text(&check.stderr);
    assert_eq!(code(&check), 1);
    assert!(said.contains("lissen") && said.contains("did you mean listen?"), "{said}");
    for (flag, url, says) in [
        (
            "--database-url",
            "postgres://127.0.0.1:1/tenure",
            "cannot be reached: the database 127.0.0.1:1/tenure: ",
        ),
        ("--redis", "redis://127.0.0.1:1", "set database_url too"),
    ] {
        let served = serve(folder.path())
            .args([flag, url])
            .env("TENURE_SECRET", "s".repeat(64))
            .output()
            .expect("runs");
        assert_eq!(code(&served), 1);
        assert!(text(&served.stderr).contains(says), "{}", text(&served.stderr));
    }
    let wrong =
        "admin_key = \"too short\"\ndatabase_url = \"postgres://u:hidden@host:badport/x\"\nsecret = \"";
    std::fs::write(&file, format!("{wrong}{}\"\n", "s".repeat(64))).expect("written");
    let check = tenure().args(["config", "check", "--config"]).arg(&file).output().expect("runs");
    let said = text(&check.stderr);
    assert_eq!(code(&check), 1);
    assert!(
        said.contains("admin_key: must be 16") && said.contains("database_url: the database's"),
        "{said}"
    );
    assert!(!said.contains("hidden") && !said.contains("too short"), "{said}");
    let usage = tenure().args(["serve", "--lissen", "x"]).output().expect("runs");
    assert_eq!(code(&usage), 64);
}

#[test]
fn what_is_shown_reads_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let shown = tenure().args(["config", "show", "--listen", "127.0.0.1:9"]).output().expect("runs");
    assert!(text(&shown.stdout).contains("listen = \"127.0.0.1:9\""));
    let file = folder.path().join("tenure.toml");
    std::fs::write(&file, &shown.stdout).expect("written");
    let check = tenure().args(["config", "check", "--config"]).arg(&file).output().expect("runs");
    assert_eq!(code(&check), 0, "{}", text(&check.stderr));
}

#[test]
fn a_second_server_on_the_same_folder_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let _first = Server::start(folder.path());
    let second = serve(folder.path()).output().expect("runs");
    assert_eq!(code(&second), 1);
    assert!(!second.stderr.is_empty());
}

/// SIGHUP reads certificates again; where there are none it does nothing, and never ends the server.
#[test]
fn a_hangup_does_not_end_a_server_without_certificates() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut server = Server::start(folder.path());
    for _ in 0..3 {
        send(&server.child, Signal::HUP);
        assert_eq!(server.json(&["ls", "--json"]), serde_json::json!([]));
    }
    assert!(server.child.try_wait().expect("known").is_none());
}
