//! Processes of the binary.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

pub(crate) const TENURE: &str = env!("CARGO_BIN_EXE_tenure");
pub(crate) const ADMIN: &str = "the-administrators-own-key-of-the-tests";

/// Held by tests whose results are times: a thousand buyers beside them would be all that they measure.
pub(crate) static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// The binary without what the environment of the tests might say.
pub(crate) fn tenure() -> Command {
    let mut command = Command::new(TENURE);
    for (name, _) in std::env::vars() {
        if name.starts_with("TENURE_") {
            command.env_remove(name);
        }
    }
    command
}

/// A running server.
pub(crate) struct Server {
    pub(crate) child: Child,
    /// What it printed before it listened.
    pub(crate) said: Vec<String>,
    pub(crate) url: String,
}

impl Server {
    /// With the administrator's key of the tests.
    pub(crate) fn start(data: &Path) -> Self {
        let mut command = serve(data);
        command.env("TENURE_ADMIN_KEY", ADMIN);
        Self::of(command)
    }

    pub(crate) fn of(command: Command) -> Self {
        Self::logging(command, Stdio::null())
    }

    /// With its log there.
    pub(crate) fn logging(mut command: Command, log: impl Into<Stdio>) -> Self {
        let child = command.stdout(Stdio::piped()).stderr(log).spawn().expect("starts");
        // Whole from the start, so that it is ended whatever comes.
        let mut server = Self { child, said: Vec::new(), url: String::new() };
        for line in BufReader::new(server.child.stdout.take().expect("piped")).lines() {
            let line = line.expect("text");
            if let Some(url) = line.strip_prefix("Listening on ") {
                url.clone_into(&mut server.url);
                return server;
            }
            server.said.push(line);
        }
        panic!("it never listened: {:?}", server.said);
    }

    /// A command that asks this server.
    pub(crate) fn ask(&self, arguments: &[&str]) -> Command {
        let mut command = tenure();
        command.args(arguments).env("TENURE_URL", &self.url).env("TENURE_KEY", ADMIN).stdin(Stdio::null());
        command
    }

    /// What such a command printed; it must succeed.
    pub(crate) fn answer(&self, arguments: &[&str]) -> String {
        let output = self.ask(arguments).output().expect("runs");
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    pub(crate) fn json(&self, arguments: &[&str]) -> serde_json::Value {
        serde_json::from_str(&self.answer(arguments)).expect("JSON")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn serve(data: &Path) -> Command {
    let mut command = tenure();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(data);
    command
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(crate) fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or(-1)
}

pub(crate) fn send(child: &Child, signal: Signal) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a process");
    kill_process(pid, signal).expect("sent");
}

/// Asks until it is so.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(30), "never: {what}");
        std::thread::yield_now();
    }
}
