//! E10: `tenure run` holds a claim around any command, and stops the command when the claim is lost.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::Signal;

use crate::process::{Server, code, send, tenure, text, until};

fn start() -> (tempfile::TempDir, Server) {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(&folder.path().join("data"));
    (folder, server)
}

fn has(path: &Path, word: &str) -> bool {
    std::fs::read_to_string(path).is_ok_and(|text| text.contains(word))
}

#[test]
fn e10_the_commands_exit_code_is_returned_and_the_claim_released() {
    let (_folder, server) = start();
    for (script, expected) in [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137)] {
        let ran = server.ask(&["run", "--key", "job", "--", "sh", "-c", script]).output().expect("runs");
        assert_eq!(code(&ran), expected, "{script}: {}", text(&ran.stderr));
        assert_eq!(server.json(&["ls", "--json"]), serde_json::json!([]));
    }
    let missing = server.ask(&["run", "--key", "job", "--", "no-such-command-here"]).output().expect("runs");
    assert_eq!(code(&missing), 127, "{}", text(&missing.stderr));
    assert_eq!(server.json(&["ls", "--json"]), serde_json::json!([]));
}

#[test]
fn e10_the_command_sees_its_claim_and_token() {
    let (_folder, server) = start();
    let script = "echo $TENURE_CLAIM $TENURE_TOKEN";
    let first =
        text(&server.ask(&["run", "--key", "a", "--", "sh", "-c", script]).output().expect("runs").stdout);
    let second =
        text(&server.ask(&["run", "--key", "a", "--", "sh", "-c", script]).output().expect("runs").stdout);
    let token = |said: &str| said.split_whitespace().nth(1).and_then(|token| token.parse::<u64>().ok());
    assert!(first.starts_with("lock~default~"), "{first}");
    assert!(token(&second).expect("a token") > token(&first).expect("a token"));
}

#[test]
fn e10_two_runs_with_one_key_never_overlap() {
    let (folder, server) = start();
    let log = folder.path().join("log");
    let script = format!("echo begin >> {0}; sleep 0.3; echo end >> {0}", log.display());
    let runs: Vec<_> = (0..3)
        .map(|_| {
            let arguments = ["run", "--key", "job", "--wait", "30s", "--", "sh", "-c", &script];
            server.ask(&arguments).spawn().expect("starts")
        })
        .collect();
    for mut run in runs {
        assert_eq!(run.wait().expect("ends").code(), Some(0));
    }
    let said = std::fs::read_to_string(&log).expect("a log");
    assert_eq!(said.split_whitespace().collect::<Vec<_>>(), ["begin", "end"].repeat(3));
}

#[test]
fn e10_what_is_held_is_not_acquired() {
    let (_folder, server) = start();
    let mut holder = server.ask(&["run", "--key", "job", "--", "sleep", "30"]).spawn().expect("starts");
    until("held", || server.json(&["ls", "--json"]) != serde_json::json!([]));
    let begun = Instant::now();
    let refused =
        server.ask(&["run", "--key", "job", "--wait", "300ms", "--", "true"]).output().expect("runs");
    assert_eq!(code(&refused), 11, "{}", text(&refused.stderr));
    assert!(text(&refused.stderr).contains("held by"), "{}", text(&refused.stderr));
    assert!(begun.elapsed() >= Duration::from_millis(300));
    send(&holder, Signal::TERM);
    assert_eq!(holder.wait().expect("ends").code(), Some(143));
}

#[test]
fn e10_signals_reach_the_command() {
    let (folder, server) = start();
    for (signal, name) in
        [(Signal::INT, "INT"), (Signal::TERM, "TERM"), (Signal::HUP, "HUP"), (Signal::USR1, "USR1")]
    {
        let log = folder.path().join(name);
        let script = format!(
            "trap 'echo {name} >> {0}; exit 9' {name}; echo ready >> {0}; while :; do sleep 0.05; done",
            log.display()
        );
        let mut run = server.ask(&["run", "--key", name, "--", "sh", "-c", &script]).spawn().expect("starts");
        until("ready", || has(&log, "ready"));
        send(&run, signal);
        assert_eq!(run.wait().expect("ends").code(), Some(9), "{name}");
        assert!(has(&log, name));
    }
}

#[test]
fn e10_a_forced_release_stops_the_command_at_once() {
    let (folder, server) = start();
    let log = folder.path().join("log");
    let script = format!(
        "trap 'echo TERM >> {0}; exit 0' TERM; echo ready >> {0}; while :; do sleep 0.05; done",
        log.display()
    );
    // The next heartbeat would come in ten minutes: the stream tells.
    let mut run = server
        .ask(&["run", "--key", "job", "--ttl", "30m", "--", "sh", "-c", &script])
        .spawn()
        .expect("starts");
    until("ready", || has(&log, "ready"));
    let forced = Instant::now();
    server.answer(&["release", "lock/default/job", "--force", "--reason", "maintenance"]);
    assert_eq!(run.wait().expect("ends").code(), Some(20));
    assert!(forced.elapsed() < Duration::from_secs(20), "{:?}", forced.elapsed());
    assert!(has(&log, "TERM"));
    let rows = server.json(&["audit", "--action", "LOCK_FORCE_RELEASE", "--json"]);
    assert_eq!(rows[0]["reason"], "maintenance");
}

#[test]
fn e10_a_command_that_ignores_term_is_killed_before_the_deadline_of_a_server_that_is_gone() {
    let (folder, mut server) = start();
    let log = folder.path().join("log");
    let script = format!(
        "trap 'echo TERM >> {0}' TERM; echo ready >> {0}; while :; do date +%s%N > {0}.new; mv {0}.new {0}.alive; sleep 0.05; done",
        log.display()
    );
    let mut run = server
        .ask(&["run", "--key", "job", "--ttl", "4s", "--", "sh", "-c", &script])
        .spawn()
        .expect("starts");
    until("ready", || has(&log, "ready"));
    server.child.kill().expect("killed");
    let silent = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    assert_eq!(run.wait().expect("ends").code(), Some(20));
    assert!(has(&log, "TERM"));
    // Whatever the last heartbeat was, it was sent before the server was gone. What counts is when the command was last
    // alive, by its own word, and not when we heard of its end.
    let alive = std::fs::read_to_string(folder.path().join("log.alive")).expect("it was alive");
    let alive = Duration::from_nanos(alive.trim().parse().expect("a number"));
    assert!(alive < silent + Duration::from_secs(4), "silent at {silent:?}, alive at {alive:?}");
}

#[test]
fn e10_wrong_usage_is_64_and_no_server_is_69() {
    let usage: &[&[&str]] =
        &[&["run"], &["run", "--key", "a"], &["run", "--key", "a", "--ttl", "soon", "--", "true"]];
    for arguments in usage {
        assert_eq!(code(&tenure().args(*arguments).output().expect("runs")), 64, "{arguments:?}");
    }
    let keyless = tenure().args(["run", "--key", "a", "--", "true"]).output().expect("runs");
    assert_eq!(code(&keyless), 64);
    assert!(text(&keyless.stderr).contains("TENURE_KEY"));
    let nobody = tenure()
        .args(["run", "--key", "a", "--server", "http://127.0.0.1:1", "--", "true"])
        .env("TENURE_KEY", "x")
        .output()
        .expect("runs");
    assert_eq!(code(&nobody), 69, "{}", text(&nobody.stderr));
    assert!(text(&nobody.stderr).contains("tenure serve"));
}

/// Whoever answers nothing is told of, once, while there is still hope; and not where the claim is merely held.
#[test]
fn e10_a_server_that_does_not_answer_is_told_of() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", silent.local_addr().expect("an address"));
    for wait in ["0s", "10m"] {
        let mut run = tenure();
        run.env("TENURE_KEY", "none").args(["run", "--server", &url, "--key", "job", "--wait", wait]);
        let run = run.args(["--", "true"]).stderr(std::process::Stdio::piped()).spawn();
        let mut run = run.expect("starts");
        let mut said = std::io::BufReader::new(run.stderr.take().expect("piped"));
        let mut line = String::new();
        std::io::BufRead::read_line(&mut said, &mut line).expect("a line");
        assert!(line.starts_with(&format!("tenure: waiting for the server at {url}: no answer")), "{line}");
        send(&run, Signal::TERM);
        run.wait().expect("ends");
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut said, &mut rest).expect("text");
        assert_eq!(rest, "", "once");
    }
    let (_folder, server) = start();
    let held = ["run", "--key", "job", "--", "sh", "-c", "sleep 60"];
    let mut holder = server.ask(&held).spawn().expect("starts");
    until("it is held", || server.json(&["ls", "--json"]) != serde_json::json!([]));
    let ran = server.ask(&["run", "--key", "job", "--wait", "4s", "--", "true"]).output().expect("runs");
    assert_eq!(code(&ran), 11);
    assert!(!text(&ran.stderr).contains("waiting for the server"), "{}", text(&ran.stderr));
    send(&holder, Signal::TERM);
    holder.wait().expect("ends");
}
