//! A holder that is stopped for longer than its claim lasts, and then goes on as if nothing had happened (I20). Its writes
//! go to a database of its own. Where that checks the token, nothing is lost; where it does not, the same drill must lose
//! something, or it would prove nothing.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{Given, Outcome};
use crate::Failure;
use crate::http::Caller;
use crate::server::{KEY, Server, signal};

const TTL_MS: u64 = 1_000;
/// Longer than a claim takes to run out and be had by the next.
const PATIENCE: Duration = Duration::from_secs(20);

/// Pauses so often, with the check and without.
pub fn run(given: Given<'_>) -> Outcome {
    let mut server = Server::new(given.program, given.folder)?;
    server.start()?;
    let (fenced, plain) = std::thread::scope(|scope| {
        let address = server.address;
        let fenced = scope.spawn(move || round(given, address, true));
        let plain = round(given, address, false);
        let fenced = fenced.join().map_err(|_| "a drill panicked")?;
        Ok::<_, Failure>((fenced?, plain?))
    })?;
    server.stop()?;
    if fenced.written != fenced.value {
        return Err(format!(
            "with fencing {} updates were acknowledged and {} are there",
            fenced.written, fenced.value
        )
        .into());
    }
    if plain.written == plain.value {
        return Err("without fencing nothing was lost: the drill proves nothing".into());
    }
    let (lost, pauses) = (plain.written - plain.value, given.count);
    Ok(format!("{pauses} pauses: no update lost with fencing, {lost} of {} lost without", plain.written))
}

struct Tally {
    written: i64,
    value: i64,
}

fn round(given: Given<'_>, server: SocketAddr, is_fenced: bool) -> Result<Tally, Failure> {
    let name = if is_fenced { "fenced" } else { "plain" };
    let database = given.folder.join(name);
    let table = Connection::open(&database)?;
    table.execute_batch(
        "PRAGMA journal_mode = WAL; CREATE TABLE counter (id INTEGER PRIMARY KEY, value INTEGER, fence INTEGER);
         INSERT INTO counter VALUES (1, 0, 0);",
    )?;
    let mut written = 0;
    for _ in 0..given.count {
        let mut paused = Worker::start(&database, server, is_fenced)?;
        let mut other = Worker::start(&database, server, is_fenced)?;
        paused.hear("read")?;
        signal(paused.child.id(), Signal::STOP)?;
        paused.say("write")?;
        // Gets in when the claim of the one that is stopped has run out.
        other.hear("read")?;
        other.say("write")?;
        written += i64::from(other.hear_whether("written", "refused")?);
        signal(paused.child.id(), Signal::CONT)?;
        written += i64::from(paused.hear_whether("written", "refused")?);
        if is_fenced {
            given.bar.inc(1);
        }
    }
    let value = table.query_row("SELECT value FROM counter", [], |row| row.get(0))?;
    Ok(Tally { written, value })
}

/// A process that adds one to the counter, under a claim.
struct Worker {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Worker {
    fn start(database: &Path, server: SocketAddr, is_fenced: bool) -> Result<Self, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["worker", &server.to_string()]).arg(database);
        if is_fenced {
            command.arg("--fenced");
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = child.stdin.take().ok_or("no input")?;
        let output = BufReader::new(child.stdout.take().ok_or("no output")?);
        Ok(Self { child, input, output })
    }

    fn say(&mut self, word: &str) -> Result<(), Failure> {
        Ok(writeln!(self.input, "{word}")?)
    }

    fn hear(&mut self, word: &str) -> Result<(), Failure> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        if line.trim() == word {
            Ok(())
        } else {
            Err(format!("a worker said {line:?} instead of {word}").into())
        }
    }

    fn hear_whether(&mut self, yes: &str, no: &str) -> Result<bool, Failure> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        match line.trim() {
            word if word == yes => Ok(true),
            word if word == no => Ok(false),
            other => Err(format!("a worker said {other:?}").into()),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the worker's process does. It looks at no clock of its own: a process cannot know that it was stopped between
/// looking and writing.
pub fn work(server: SocketAddr, database: &Path, is_fenced: bool) -> Result<(), Failure> {
    let mut wire = Caller::new(server, KEY);
    let item = database.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let session = format!("w{}", std::process::id());
    let body = json!({"collection": "lock/counters", "items": [item], "ttl_ms": TTL_MS, "session": session});
    let begun = Instant::now();
    let claim = loop {
        let answer = wire.ask("POST", "/v1/claims", None, &body)?;
        match answer.status {
            201 => break answer.body,
            409 if begun.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(20)),
            status => return Err(format!("{status} {}", answer.body).into()),
        }
    };
    let token = claim["token"].as_i64().ok_or("a claim without a token")?;
    let table = Connection::open(database)?;
    table.busy_timeout(Duration::from_secs(5))?;
    if is_fenced {
        table.execute("UPDATE counter SET fence = ?1 WHERE id = 1 AND fence < ?1", [token])?;
    }
    let value: i64 = table.query_row("SELECT value FROM counter WHERE id = 1", [], |row| row.get(0))?;
    println!("read");
    std::io::stdin().lock().read_line(&mut String::new())?;
    let changed = if is_fenced {
        table.execute("UPDATE counter SET value = ?1 WHERE id = 1 AND fence <= ?2", [value + 1, token])?
    } else {
        table.execute("UPDATE counter SET value = ?1 WHERE id = 1", [value + 1])?
    };
    println!("{}", if changed == 1 { "written" } else { "refused" });
    let id = claim["id"].as_str().unwrap_or_default();
    wire.ask("DELETE", &format!("/v1/claims/{id}"), None, &Value::Null)?;
    Ok(())
}
