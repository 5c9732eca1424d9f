//! The real server: the binary, in a folder, at an address that it keeps through every restart.

use std::fs::{File, OpenOptions};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::Failure;
use crate::http::Caller;

/// The administrator's key of every drill.
pub const KEY: &str = "the-administrators-own-key-of-the-drills";
/// A start reads the archive and the journal's tail; more than this is a fault.
const START: Duration = Duration::from_mins(1);

/// How and where it runs.
#[derive(Debug)]
pub struct Server {
    program: PathBuf,
    folder: PathBuf,
    /// Where it listens.
    pub address: SocketAddr,
    environment: Vec<(String, String)>,
    child: Option<Child>,
}

impl Server {
    /// Not started yet. The folder holds the data and the log.
    pub fn new(program: &Path, folder: &Path) -> Result<Self, Failure> {
        // Asked for and given back: nobody else on this machine takes ports at random within a drill.
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let program = program.to_owned();
        Ok(Self { program, folder: folder.to_owned(), address, environment: Vec::new(), child: None })
    }

    /// One more variable for the next start.
    pub fn set(&mut self, name: &str, value: &str) {
        self.environment.retain(|(known, _)| known != name);
        self.environment.push((name.to_owned(), value.to_owned()));
    }

    /// Starts it, and waits until it is ready.
    pub fn start(&mut self) -> Result<(), Failure> {
        let mut command = self.command();
        for group in ["READ", "WRITE", "STREAM", "ADMIN", "SIGN_IN"] {
            command.env(format!("TENURE_RATES_{group}_PER_SECOND"), "0");
        }
        command
            .args(["serve", "--listen", &self.address.to_string(), "--data"])
            .arg(self.folder.join("data"))
            .env("TENURE_ADMIN_KEY", KEY)
            .env("TENURE_LOG_LEVEL", "warn")
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdout(Stdio::null())
            .stderr(self.log()?);
        self.child = Some(command.spawn()?);
        let begun = Instant::now();
        loop {
            if let Ok(answer) = self.caller().ask("GET", "/readyz", None, &Value::Null)
                && answer.status == 200
            {
                return Ok(());
            }
            if let Some(status) = self.child.as_mut().and_then(|child| child.try_wait().ok().flatten()) {
                return Err(format!("the server ended at its start ({status}): {}", self.last_words()).into());
            }
            if begun.elapsed() > START {
                return Err("the server was not ready within a minute".into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("TENURE_") {
                command.env_remove(name);
            }
        }
        // A configuration file that happens to lie elsewhere is not meant.
        command.current_dir(&self.folder).stdin(Stdio::null());
        command
    }

    fn log(&self) -> std::io::Result<File> {
        OpenOptions::new().create(true).append(true).open(self.folder.join("log"))
    }

    /// The newest lines of its log.
    fn last_words(&self) -> String {
        let said = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        let lines: Vec<_> = said.lines().collect();
        lines[lines.len().saturating_sub(5)..].join("\n")
    }

    /// Somebody who asks it, with the administrator's key.
    pub fn caller(&self) -> Caller {
        Caller::new(self.address, KEY)
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
    }

    /// Ends it without a warning, as the kernel does when it needs the memory.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Ends it as an operator does.
    pub fn stop(&mut self) -> Result<(), Failure> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        signal(child.id(), Signal::TERM)?;
        let status = child.wait()?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("it stopped with {status}: {}", self.last_words()).into())
        }
    }

    /// Verifies the folder of a server that is stopped: journal, archive, rows against events, audit chain.
    pub fn check(&self) -> Result<(), Failure> {
        let output = self.command().arg("check").arg(self.folder.join("data")).output()?;
        if output.status.success() {
            return Ok(());
        }
        let said = [output.stdout, output.stderr].concat();
        Err(format!("tenure check: {}", String::from_utf8_lossy(&said).trim()).into())
    }

    /// Memory that it takes.
    pub fn resident_bytes(&self) -> Result<u64, Failure> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
        let kilobytes: u64 = line.trim().trim_end_matches(" kB").trim().parse()?;
        Ok(kilobytes * 1024)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Sends a signal to a process that this drill started.
pub fn signal(process: u32, signal: Signal) -> Result<(), Failure> {
    let pid = i32::try_from(process).ok().and_then(Pid::from_raw).ok_or("no such process")?;
    Ok(kill_process(pid, signal)?)
}
