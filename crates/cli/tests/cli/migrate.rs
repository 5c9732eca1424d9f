//! `tenure migrate`: a server's folder goes into a database, and back.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};
use tenure_store::conformance::Server as Database;

use crate::process::{ADMIN, Server, code, send, serve, tenure, text};

/// A request with an idempotency key; its status and answer.
fn ask(server: &Server, request: &str, key: &str, body: &Value) -> (u16, Value) {
    let address = server.url.strip_prefix("http://").expect("no TLS");
    let mut stream = TcpStream::connect(address).expect("connects");
    let body = body.to_string();
    let head = format!(
        "{request} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {ADMIN}\r\nIdempotency-Key: {key}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    (status, serde_json::from_str(body).unwrap_or(Value::Null))
}

fn over(url: &str) -> Command {
    let mut command = tenure();
    command.args(["serve", "--listen", "127.0.0.1:0"]).env("TENURE_DATABASE_URL", url);
    command.env("TENURE_ADMIN_KEY", ADMIN).env("TENURE_SECRET", "s".repeat(64));
    command
}

fn in_folder(data: &Path) -> Command {
    let mut command = serve(data);
    command.env("TENURE_ADMIN_KEY", ADMIN).env("TENURE_SECRET", "s".repeat(64));
    command
}

/// By the environment, as a password has to be.
fn migrate(url: &str, flag: &str, data: &Path) -> Command {
    let mut command = tenure();
    command.args(["migrate", flag]).arg(data).env("TENURE_DATABASE_URL", url).stdin(Stdio::null());
    command
}

fn stop(mut server: Server) {
    send(&server.child, Signal::TERM);
    assert_eq!(server.child.wait().expect("ends").code(), Some(0));
}

/// What an operator sees: claims, and the audit log with its chain.
fn seen(server: &Server) -> (Value, Value) {
    server.answer(&["audit", "--verify"]);
    let mut claims = server.json(&["ls", "--json"]);
    for claim in claims.as_array_mut().expect("a list") {
        // Time goes on; the deadline stays.
        for moving in ["server_time", "expires_in_ms"] {
            claim[moving] = Value::Null;
        }
    }
    (claims, server.json(&["audit", "--json", "--limit", "1000"]))
}

#[test]
fn e09_an_installation_goes_into_a_database_and_back_and_nobody_can_tell() {
    let folders = tempfile::tempdir().expect("a folder");
    let (data, back) = (folders.path().join("data"), folders.path().join("back"));
    let url = Database::shared().database();
    let first = Server::of(in_folder(&data));
    let wanted = json!({"collection": "lock/jobs", "items": ["nightly"], "ttl_ms": 3_600_000});
    let (status, granted) = ask(&first, "POST /v1/claims", "once", &wanted);
    assert_eq!(status, 201, "{granted}");
    let (_, refused) = ask(
        &first,
        "POST /v1/claims",
        "refused",
        &json!({"collection": "lock/jobs",
        "items": []}),
    );
    let before = seen(&first);

    // Not while it is served.
    let busy = migrate(&url, "--from", &data).output().expect("runs");
    assert_eq!(code(&busy), 1);
    assert!(text(&busy.stderr).contains("in use"), "{}", text(&busy.stderr));
    stop(first);
    let output = migrate(&url, "--from", &data).arg("--json").output().expect("runs");
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let moved: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(moved["resumed"], false, "{moved}");
    assert!(text(&output.stderr).contains("copying 0 %"), "{}", text(&output.stderr));

    // The folder is over.
    let over_again = serve(&data).output().expect("runs");
    assert!(text(&over_again.stderr).contains("was moved to"), "{}", text(&over_again.stderr));
    let second = Server::of(over(&url));
    let after = seen(&second);
    assert_eq!(after.0, before.0, "the claims");
    assert_eq!(after.1, before.1, "the audit log");
    // Asked again, the answer is the one that was given.
    assert_eq!(ask(&second, "POST /v1/claims", "once", &wanted).1["token"], granted["token"]);
    let (_, again) = ask(
        &second,
        "POST /v1/claims",
        "refused",
        &json!({"collection": "lock/jobs",
        "items": []}),
    );
    assert_eq!(again["code"], refused["code"]);
    let other = json!({"collection": "lock/jobs", "items": ["hourly"], "ttl_ms": 3_600_000});
    let (status, later) = ask(&second, "POST /v1/claims", "later", &other);
    assert_eq!(status, 201, "{later}");
    assert!(later["token"].as_u64() > granted["token"].as_u64(), "{later} after {granted}");
    let before = seen(&second);
    let busy = migrate(&url, "--to", &back).output().expect("runs");
    assert!(text(&busy.stderr).contains("in use"), "{}", text(&busy.stderr));
    stop(second);

    let output = migrate(&url, "--to", &back).output().expect("runs");
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let said = text(&output.stdout);
    assert!(said.contains("Moved and verified") && said.contains("files.dir"), "{said}");
    let refused = over(&url).output().expect("runs");
    assert!(text(&refused.stderr).contains("was moved to"), "{}", text(&refused.stderr));
    let third = Server::of(in_folder(&back));
    let claims = third.json(&["ls", "--json"]);
    let held = |claims: &Value| -> Vec<(Value, Value)> {
        let claims = claims.as_array().expect("a list");
        claims.iter().map(|claim| (claim["holder"].clone(), claim["token"].clone())).collect()
    };
    assert_eq!(held(&claims), held(&before.0));
    third.answer(&["audit", "--verify"]);
    assert_eq!(ask(&third, "POST /v1/claims", "later", &other).1["token"], later["token"]);
    stop(third);
    let check = tenure().args(["check"]).arg(&back).output().expect("runs");
    assert_eq!(code(&check), 0, "{}", text(&check.stdout));
}

/// Killed in the middle of its work: what is there is not served, and the same command finishes it.
#[test]
fn e09_a_killed_move_goes_on_where_it_was() {
    let folders = tempfile::tempdir().expect("a folder");
    let data = folders.path().join("data");
    let url = Database::shared().database();
    let server = Server::of(in_folder(&data));
    // Enough for several pages.
    for batch in 0..4 {
        let commands: Vec<Value> = (0..1_000)
            .map(|number| {
                json!({"op": "acquire", "collection": format!("lock/{batch}"),
                "items": [format!("item-{number}")], "ttl_ms": 3_600_000})
            })
            .collect();
        let (status, answer) =
            ask(&server, "POST /v1/batch", &format!("b{batch}"), &json!({"commands": commands}));
        assert_eq!(status, 200, "{answer}");
        assert_eq!(answer["answers"][999]["status"], 201, "{answer}");
    }
    stop(server);
    let mut killed = migrate(&url, "--from", &data);
    let mut killed = killed.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("starts");
    let lines = BufReader::new(killed.stderr.take().expect("piped")).lines();
    let mut lines = lines.map(|line| line.expect("text"));
    assert!(lines.any(|line| line == "copying 10 %"), "it copies");
    send(&killed, Signal::KILL);
    assert!(!killed.wait().expect("ends").success());
    let refused = over(&url).output().expect("runs");
    assert!(text(&refused.stderr).contains("unfinished move"), "{}", text(&refused.stderr));
    let output = migrate(&url, "--from", &data).arg("--json").output().expect("runs");
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let moved: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(moved["resumed"], true, "{moved}");
    let server = Server::of(over(&url));
    server.answer(&["audit", "--verify"]);
    let claims = server.json(&["ls", "--json", "--collection", "lock/3"]);
    assert_eq!(claims[0]["state"], "active", "{claims}");
}

#[test]
fn e09_a_move_says_what_it_needs_and_never_the_password() {
    let folder = tempfile::tempdir().expect("a folder");
    let usage = |arguments: &[&str]| {
        let output = tenure().arg("migrate").args(arguments).output().expect("runs");
        assert_eq!(code(&output), 64, "{arguments:?}: {}", text(&output.stderr));
    };
    usage(&[]);
    usage(&["--from", "./data"]);
    usage(&["--from", "./data", "--to", "./other"]);
    usage(&["--from", "postgres://a", "--to", "postgres://b"]);
    let secret = "hunter2-secret";
    let url = format!("postgres://tenure:{secret}@127.0.0.1:1/tenure");
    let data = folder.path().join("data");
    drop(Server::of(serve(&data)));
    let output = migrate(&url, "--from", &data).output().expect("runs");
    assert_eq!(code(&output), 1);
    assert!(!(text(&output.stderr) + &text(&output.stdout)).contains(secret));
}
