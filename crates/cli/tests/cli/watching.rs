//! `tenure watch`, and what becomes of output that nobody reads.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::process::{ADMIN, Server, code, send, tenure, text, until};

fn nowhere(arguments: &[&str]) -> Command {
    let mut command = tenure();
    command
        .args(arguments)
        .env("TENURE_URL", "http://127.0.0.1:1")
        .env("TENURE_KEY", ADMIN)
        .stdin(Stdio::null());
    command
}

#[test]
fn watch_says_that_there_is_no_server_and_ends() {
    for more in [&[][..], &["--json"]] {
        let mut arguments = vec!["watch", "lock/default"];
        arguments.extend(more);
        let output = nowhere(&arguments).output().expect("runs");
        assert_eq!(code(&output), 69, "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains("no server answers"), "{}", text(&output.stderr));
    }
}

#[test]
fn watch_prints_events_and_says_when_the_connection_is_lost() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut server = Server::start(folder.path());
    server.answer(&["run", "--key", "nightly", "--", "true"]);
    let mut watch = server.ask(&["watch", "lock/default"]);
    let mut watch = watch.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    let mut lines = BufReader::new(watch.stdout.take().expect("piped")).lines();
    let mut next = || lines.next().expect("a line").expect("text");
    assert!(next().contains("collection_created"));
    assert!(next().contains("claim_granted"));
    send(&server.child, Signal::TERM);
    server.child.wait().expect("ends");
    let mut said = BufReader::new(watch.stderr.take().expect("piped")).lines();
    let said = said.next().expect("a line").expect("text");
    assert!(said.contains("connection lost, trying again"), "{said}");
    watch.kill().expect("ended");
    watch.wait().expect("ends");
}

/// On a terminal the table of who holds what is drawn anew as it changes.
#[test]
fn watch_draws_a_live_table_on_a_terminal() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path());
    server.answer(&["run", "--key", "first", "--", "true"]);
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&master).expect("granted");
    unlockpt(&master).expect("unlocked");
    let name = ptsname(&master, Vec::new()).expect("a name").into_string().expect("text");
    let slave = File::options().read(true).write(true).open(&name).expect("its other end");
    let mut watch = server.ask(&["watch", "lock/default"]).stdout(slave).spawn().expect("starts");
    let mut screen = File::from(master);
    let mut shown = String::new();
    let mut read_until = |word: &str| {
        let mut bytes = [0; 4_096];
        // The newest drawing is what counts.
        while !shown.rsplit("\x1b[2J").next().unwrap_or("").contains(word) {
            let count = screen.read(&mut bytes).expect("something is drawn");
            shown.push_str(&text(&bytes[..count]));
        }
    };
    read_until("lock/default: 0 held");
    let mut held = server.ask(&["run", "--key", "nightly", "--", "sleep", "60"]).spawn().expect("starts");
    read_until("lock/default: 1 held");
    read_until("nightly");
    send(&held, Signal::TERM);
    held.wait().expect("ends");
    read_until("lock/default: 0 held");
    watch.kill().expect("ended");
    watch.wait().expect("ends");
}

/// Whoever stops reading ends it, quietly.
#[test]
fn output_that_nobody_reads_ends_the_program_quietly() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path());
    let mut completions = tenure();
    completions.args(["completions", "bash"]);
    for mut command in [completions, server.ask(&["ls"]), server.ask(&["policy", "get", "lock"])] {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("ends");
        assert_eq!(text(&output.stderr), "", "{command:?}");
        assert_eq!(code(&output), 141, "{command:?}");
    }
}

/// Answers one request with this body.
fn answering(body: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("its address"));
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let mut head = BufReader::new(stream.try_clone().expect("a clone"));
        let mut line = String::new();
        while head.read_line(&mut line).expect("a head") > 2 {
            line.clear();
        }
        let length = body.len();
        write!(
            stream,
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        )
        .expect("sent");
    });
    url
}

/// E3: a chain that does not hold is no success.
#[test]
fn e3_a_broken_chain_is_told_by_the_exit_code() {
    let broken =
        r#"{"verified":false,"summary":"event 7 of lock/a does not hash to what was kept","broken":1}"#;
    let whole = r#"{"verified":true,"summary":"2 events in 1 collection: every link holds"}"#;
    for (report, expected, word) in [(broken, 1, "does not hold: event 7 of lock/a"), (whole, 0, "")] {
        let mut command = nowhere(&["audit", "--verify"]);
        let output = command.env("TENURE_URL", answering(report)).output().expect("runs");
        assert_eq!(code(&output), expected, "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains(word), "{}", text(&output.stderr));
        assert!(text(&output.stdout).contains("verified"));
    }
}

/// What the server finds wrong with the command line is wrong usage, too.
#[test]
fn e10_wrong_usage_is_64_whoever_sees_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path());
    let day = server.ask(&["run", "--key", "a", "--ttl", "9000d", "--", "true"]).output().expect("runs");
    assert_eq!(code(&day), 64, "{}", text(&day.stderr));
    let name = server.ask(&["run", "--key", "a", "--collection", "NO", "--", "true"]).output().expect("runs");
    assert_eq!(code(&name), 64, "{}", text(&name.stderr));
}

/// A filter counts before the limit, and a list that is cut says so.
#[test]
fn ls_filters_by_kind_before_it_cuts_and_says_that_it_cut() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path());
    let mut held = Vec::new();
    for (collection, key) in
        [("lock/a", "1"), ("lock/a", "2"), ("lock/a", "3"), ("own/b", "1"), ("own/b", "2")]
    {
        if collection == "own/b" && key == "1" {
            let file = folder.path().join("policy.json");
            std::fs::write(&file, server.answer(&["policy", "get", "lock"])).expect("written");
            server.answer(&["policy", "set", "own", file.to_str().expect("a path")]);
        }
        let mut run = server.ask(&["run", "--collection", collection, "--key", key, "--", "sleep", "60"]);
        held.push(run.spawn().expect("starts"));
    }
    until("all are held", || server.json(&["ls", "--json"]).as_array().expect("a list").len() == 5);
    let own = server.ask(&["ls", "--kind", "own", "--limit", "2", "--json"]).output().expect("runs");
    let claims: serde_json::Value = serde_json::from_slice(&own.stdout).expect("JSON");
    assert_eq!((claims.as_array().map(Vec::len), text(&own.stderr).as_str()), (Some(2), ""), "{claims}");
    let cut = server.ask(&["ls", "--kind", "own", "--limit", "1"]).output().expect("runs");
    assert!(text(&cut.stderr).contains("there are more"), "{}", text(&cut.stderr));
    for mut child in held {
        let _ = child.kill();
        let _ = child.wait();
    }
}
