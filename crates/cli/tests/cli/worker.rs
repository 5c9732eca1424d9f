//! `tenure worker`: queued analyses, each run once by a command.

use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;
use tenure_client::{Analysis, Client, Error};

use crate::process::{ADMIN, Server, code, send, tenure, text, until};

struct World {
    folder: tempfile::TempDir,
    server: Server,
    client: Client,
    runtime: tokio::runtime::Runtime,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let server = Server::start(&folder.path().join("data"));
        let client = Client::new(&server.url, ADMIN).expect("a client");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        Self { folder, server, client, runtime }
    }

    fn queue(&self, id: &str, input: &str) {
        self.runtime.block_on(self.client.queue_analysis(Some(id), input)).expect("is queued");
    }

    fn analysis(&self, id: &str) -> Analysis {
        self.runtime.block_on(self.client.analysis(id)).expect("is there")
    }

    fn is(&self, id: &str, status: &str) -> bool {
        self.analysis(id).status == status
    }

    fn is_claimable(&self, id: &str) -> bool {
        let waiting = self.runtime.block_on(self.client.claimable_analyses(10)).expect("is read");
        waiting.iter().any(|analysis| analysis.id == id)
    }

    fn file(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    fn worker(&self, command: &str, more: &[&str]) -> Worker {
        let arguments = [&["worker", "--command", command, "--poll", "50ms"], more].concat();
        Worker(self.server.ask(&arguments).stderr(std::process::Stdio::piped()).spawn().expect("starts"))
    }

    /// Runs the command until nothing is left; what the worker said.
    fn drain(&self, command: &str, more: &[&str]) -> String {
        let arguments = [&["worker", "--command", command, "--poll", "50ms", "--drain"], more].concat();
        let ran = self.server.ask(&arguments).output().expect("runs");
        assert_eq!(code(&ran), 0, "{}", text(&ran.stderr));
        text(&ran.stderr)
    }

    /// Asks the server until it is so, as often as its rates allow.
    fn until(&self, what: &str, is_so: impl Fn() -> bool) {
        until(what, || {
            self.runtime.block_on(async { tokio::time::sleep(Duration::from_millis(20)).await });
            is_so()
        });
    }

    /// How often the analysis was finished.
    fn completions(&self, id: &str) -> usize {
        let rows = self.server.json(&["audit", "--collection", "analysis/queue", "--item", id, "--json"]);
        let rows = rows.as_array().expect("rows");
        rows.iter().filter(|row| row["type"] == "claim_completed").count()
    }
}

/// A worker that ends with the test.
struct Worker(Child);

impl Worker {
    fn send(&self, signal: Signal) {
        send(&self.0, signal);
    }

    /// Waits for its end; its exit code and what it said.
    fn end(mut self) -> (Option<i32>, String) {
        let mut said = String::new();
        let code = self.0.wait().expect("ends").code();
        if let Some(mut stderr) = self.0.stderr.take() {
            std::io::Read::read_to_string(&mut stderr, &mut said).expect("text");
        }
        (code, said)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // A worker that stands still does not hear anything else.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn has(path: &Path, word: &str) -> bool {
    std::fs::read_to_string(path).is_ok_and(|text| text.contains(word))
}

#[test]
fn the_command_reads_the_input_and_writes_the_result() {
    let w = World::new();
    w.queue("words", "one two three");
    w.drain("wc -w", &[]);
    let analysis = w.analysis("words");
    assert_eq!((analysis.status.as_str(), analysis.result), ("READY", Some(json!(3))));
    w.queue("json", "x");
    w.drain(r#"cat >/dev/null; echo "{\"id\": \"$TENURE_ANALYSIS\", \"claim\": \"$TENURE_CLAIM\", \"n\": $TENURE_TOKEN, \"key\": \"$TENURE_KEY\"}""#, &[]);
    let result = w.analysis("json").result.expect("a result");
    let token = result["n"].as_u64().expect("a token");
    let claim = format!("analysis~queue~{token}");
    assert_eq!(result, json!({"id": "json", "claim": claim, "n": token, "key": ""}));
    w.queue("text", "x");
    // One that does not read, and leaves somebody behind who keeps its pipes.
    w.drain("sleep 60 & echo not JSON", &[]);
    assert_eq!(w.analysis("text").result, Some(json!("not JSON")));
    w.queue("large", &"word ".repeat(8_000));
    w.drain("wc -w", &[]);
    assert_eq!(w.analysis("large").result, Some(json!(8_000)));
}

#[test]
fn a_command_that_fails_makes_it_failed_with_the_end_of_what_it_said() {
    let w = World::new();
    let cases = [
        ("exit", "echo bad luck >&2; exit 3", "exit", "exit code 3: bad luck"),
        ("signal", "kill -9 $$", "exit", "exit code 137:"),
        ("much", "yes", "result_too_large", "the command wrote more than 16 KiB"),
    ];
    for (id, command, reason, message) in cases {
        w.queue(id, "x");
        w.drain(command, &[]);
        let analysis = w.analysis(id);
        let error = analysis.error.expect("why");
        assert_eq!((analysis.status.as_str(), error.reason.as_str()), ("FAILED", reason), "{error:?}");
        assert_eq!((error.message.as_str(), analysis.result), (message, None));
    }
    w.queue("long", "x");
    w.drain("for i in $(seq 1 2000); do echo line $i >&2; done; exit 1", &[]);
    let message = w.analysis("long").error.expect("why").message;
    assert!(message.starts_with("exit code 1: ") && message.ends_with("line 2000"), "{message}");
    assert!(message.len() <= 2_000);
}

/// A command that is not there fails no analysis: the worker ends and gives it back.
#[test]
fn a_command_that_is_not_there_ends_the_worker_and_fails_nothing() {
    let w = World::new();
    w.queue("a", "x");
    let ran = w.server.ask(&["worker", "--command", "no-such-command-here"]).output().expect("runs");
    assert_eq!(code(&ran), 126, "{}", text(&ran.stderr));
    assert!(text(&ran.stderr).contains("no-such-command-here"), "{}", text(&ran.stderr));
    assert!(w.is_claimable("a"));
}

#[test]
fn so_many_run_at_once_and_no_more() {
    let w = World::new();
    for id in ["a", "b", "c"] {
        w.queue(id, "x");
    }
    let log = w.file("log");
    let go = w.file("go");
    let command = format!(
        "echo begin >> {0}; while [ ! -e {1} ]; do sleep 0.02; done; echo ok",
        log.display(),
        go.display()
    );
    let begun = || std::fs::read_to_string(&log).map_or(0, |text| text.lines().count());
    let worker = w.worker(&command, &["--jobs", "2", "--drain"]);
    until("two run", || begun() == 2);
    assert!(w.is_claimable("c") && begun() == 2);
    std::fs::write(&go, "").expect("written");
    let (code, said) = worker.end();
    assert_eq!(code, Some(0), "{said}");
    assert!(["a", "b", "c"].iter().all(|id| w.is(id, "READY") && w.completions(id) == 1));
}

/// J4: many workers with one key, and each analysis runs once.
#[test]
fn j04_many_workers_with_one_key_run_each_analysis_once() {
    let w = World::new();
    for number in 0..12 {
        w.queue(&format!("n-{number}"), "x");
    }
    let log = w.file("log");
    let command = format!("echo $TENURE_ANALYSIS >> {}", log.display());
    let workers: Vec<_> = (0..3).map(|_| w.worker(&command, &["--jobs", "3", "--drain"])).collect();
    for worker in workers {
        let (code, said) = worker.end();
        assert_eq!(code, Some(0), "{said}");
    }
    let ran = std::fs::read_to_string(&log).expect("a log");
    let mut ran: Vec<_> = ran.lines().collect();
    ran.sort_unstable();
    let mut all: Vec<_> = (0..12).map(|number| format!("n-{number}")).collect();
    all.sort_unstable();
    assert_eq!(ran, all);
}

/// J9: a worker is killed in the middle; after the TTL another takes over, and it is READY once.
#[test]
fn j09_a_killed_worker_is_taken_over_after_the_ttl() {
    let w = World::new();
    w.queue("a", "x");
    let log = w.file("log");
    let first = w.worker(&format!("echo ready > {}; sleep 3; echo first", log.display()), &["--ttl", "1s"]);
    until("it runs", || has(&log, "ready"));
    let second = w.worker("echo second", &[]);
    assert!(w.is("a", "RUNNING"));
    first.send(Signal::KILL);
    w.until("the other takes over", || w.is("a", "READY"));
    assert_eq!((w.analysis("a").result, w.completions("a")), (Some(json!("second")), 1));
    second.send(Signal::TERM);
    assert_eq!(second.end().0, Some(0));
}

/// J8: a worker stands still past its TTL while its command ends; its late result is refused.
#[test]
fn j08_the_late_result_of_a_paused_worker_is_not_written() {
    let w = World::new();
    w.queue("a", "x");
    let (log, go) = (w.file("log"), w.file("go"));
    let command = format!(
        "echo ready > {0}; while [ ! -e {1} ]; do sleep 0.02; done; echo done >> {0}; echo late",
        log.display(),
        go.display()
    );
    let paused = w.worker(&command, &["--ttl", "1s"]);
    until("it runs", || has(&log, "ready"));
    paused.send(Signal::STOP);
    std::fs::write(&go, "").expect("written");
    until("its command ends", || has(&log, "done"));
    w.until("its lock runs out", || w.is_claimable("a"));
    w.drain("echo in time", &[]);
    paused.send(Signal::CONT);
    paused.send(Signal::TERM);
    let (code, said) = paused.end();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("a is given up") || said.contains("was not written"), "{said}");
    assert_eq!((w.analysis("a").result, w.completions("a")), (Some(json!("in time")), 1));
}

/// J5: a lock that is lost stops the command before the deadline: TERM, and KILL for one that does not listen.
#[test]
fn j05_a_lost_lock_stops_the_command_before_the_deadline() {
    let w = World::new();
    for (id, at_term) in [("polite", "exit 0"), ("deaf", "")] {
        w.queue(id, "x");
        let log = w.file(id);
        let command = format!(
            "trap 'echo TERM >> {0}; {at_term}' TERM; echo ready >> {0}; while :; do sleep 0.05; done",
            log.display()
        );
        let ttl = Duration::from_secs(4);
        let worker = w.worker(&command, &["--ttl", "4s"]);
        until("it runs", || has(&log, "ready"));
        // It goes on with what runs, and must not take the same one up again once that is lost.
        worker.send(Signal::TERM);
        let forced = Instant::now();
        w.server.answer(&["release", &format!("analysis/queue/{id}"), "--force", "--reason", "it hangs"]);
        let (code, said) = worker.end();
        assert_eq!(code, Some(0), "{said}");
        assert!(forced.elapsed() < ttl, "{id}: {:?}", forced.elapsed());
        assert!(has(&log, "TERM") && said.contains("an administrator freed it"), "{said}");
        assert!(w.is(id, "RUNNING") && w.analysis(id).result.is_none());
    }
}

#[test]
fn told_to_end_it_finishes_what_runs_and_takes_nothing_more() {
    let w = World::new();
    w.queue("a", "x");
    w.queue("b", "x");
    let (log, go) = (w.file("log"), w.file("go"));
    let command = format!(
        "echo ready > {0}; while [ ! -e {1} ]; do sleep 0.02; done; echo ok",
        log.display(),
        go.display()
    );
    let worker = w.worker(&command, &[]);
    until("it runs", || has(&log, "ready"));
    worker.send(Signal::TERM);
    std::fs::write(&go, "").expect("written");
    let (code, said) = worker.end();
    assert_eq!(code, Some(0), "{said}");
    assert!(w.is("a", "READY") && w.is("b", "QUEUED"));
}

/// Told twice, it stops what runs and gives it back.
#[test]
fn told_twice_it_stops_what_runs_and_gives_it_back() {
    let w = World::new();
    w.queue("a", "x");
    let log = w.file("log");
    let command = format!(
        "trap 'echo TERM >> {0}; exit 0' TERM; echo ready >> {0}; while :; do sleep 0.05; done",
        log.display()
    );
    let worker = w.worker(&command, &[]);
    until("it runs", || has(&log, "ready"));
    // Two that come at once may be heard as one.
    let begun = Instant::now();
    w.until("it stops", || {
        worker.send(Signal::TERM);
        has(&log, "TERM")
    });
    let (code, said) = worker.end();
    assert_eq!(code, Some(0), "{said}");
    assert!(begun.elapsed() < Duration::from_secs(20) && w.is_claimable("a"));
}

#[test]
fn wrong_usage_is_64_no_server_is_69_and_no_permission_77() {
    for arguments in [&["worker"][..], &["worker", "--command", "true", "--jobs", "0"]] {
        assert_eq!(code(&tenure().args(arguments).output().expect("runs")), 64, "{arguments:?}");
    }
    let w = World::new();
    w.queue("a", "x");
    let key =
        w.runtime.block_on(w.client.create_key("looks", ("vera", "Vera"), "viewer", None)).expect("a key");
    let mut looks = w.server.ask(&["worker", "--command", "true", "--drain"]);
    let looks = looks.env("TENURE_KEY", key.key.expect("shown once")).output().expect("runs");
    assert_eq!(code(&looks), 77, "{}", text(&looks.stderr));
    // A worker's key is enough, and for its own kind alone.
    let kinds = ["analysis".to_owned()];
    let key = w
        .runtime
        .block_on(w.client.create_key("runs", ("wes", "Wes"), "worker", Some(&kinds)))
        .expect("a key");
    let mut runs = w.server.ask(&["worker", "--command", "wc -c", "--drain"]);
    let runs = runs.env("TENURE_KEY", key.key.expect("shown once")).output().expect("runs");
    assert_eq!(code(&runs), 0, "{}", text(&runs.stderr));
    assert!(w.is("a", "READY"));
    let twice = w.runtime.block_on(w.client.queue_analysis(Some("a"), "again")).expect_err("is taken");
    assert!(matches!(&twice, Error::Refused(problem) if problem.code == "conflict"), "{twice}");
}

#[test]
fn one_analysis_whose_command_cannot_be_run_does_not_keep_the_others_from_it() {
    let w = World::new();
    for (id, input) in [("aa", "poison"), ("bb", "good"), ("cc", "nothing")] {
        w.queue(id, input);
    }
    let command = "case $(cat) in poison) no-such-tool;; nothing) echo null;; *) echo 7;; esac";
    let said = w.drain(command, &[]);
    assert!(said.contains("aa is left aside"), "{said}");
    assert_eq!(w.analysis("bb").result, Some(json!(7)));
    // `null` is a result like any other, and is written once.
    assert!(w.is("cc", "READY") && w.completions("cc") == 1);
    assert!(w.is("aa", "FAILED"), "the command runs for others: it is this one");
}

#[test]
fn a_worker_that_may_not_go_on_leaves_no_command_behind() {
    let w = World::new();
    w.queue("a", "text");
    let made = w.server.json(&["keys", "create", "w", "--subject", "w", "--role", "worker", "--json"]);
    let (id, key) = (made["id"].as_str().expect("an id"), made["key"].as_str().expect("a key"));
    let started = w.file("started");
    let command = format!("echo $$ > {}; sleep 600", started.display());
    let arguments = ["worker", "--command", &command, "--poll", "50ms", "--jobs", "2"];
    let mut worker = w.server.ask(&arguments);
    worker.env("TENURE_KEY", key).stderr(std::process::Stdio::piped());
    let worker = Worker(worker.spawn().expect("starts"));
    w.until("it runs", || has(&started, "\n"));
    let leader = std::fs::read_to_string(&started).expect("a number");
    w.server.ask(&["keys", "revoke", id]).output().expect("runs");
    let (code, said) = worker.end();
    assert_eq!(code, Some(77), "{said}");
    let group = rustix::process::Pid::from_raw(leader.trim().parse().expect("a number")).expect("a process");
    w.until("nothing of it is left", || rustix::process::test_kill_process_group(group).is_err());
}
