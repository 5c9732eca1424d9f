//! A process that runs under a claim, and the signals that are sent to it.

use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};

pub(crate) struct Child {
    process: tokio::process::Child,
    pid: Option<Pid>,
    /// It leads a group of its own, and what it starts is stopped with it.
    leads_group: bool,
    code: Option<i32>,
}

impl Child {
    pub(crate) fn start(mut command: Command, leads_group: bool) -> std::io::Result<Self> {
        command.kill_on_drop(true);
        if leads_group {
            command.process_group(0);
        }
        let process = command.spawn()?;
        let pid = process.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Ok(Self { process, pid, leads_group, code: None })
    }

    /// The same, with pipes to talk to it.
    pub(crate) fn start_piped(
        mut command: Command,
    ) -> std::io::Result<(Self, ChildStdin, ChildStdout, ChildStderr)> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = Self::start(command, true)?;
        let process = &mut child.process;
        match (process.stdin.take(), process.stdout.take(), process.stderr.take()) {
            (Some(stdin), Some(stdout), Some(stderr)) => Ok((child, stdin, stdout, stderr)),
            _ => Err(std::io::Error::other("a pipe is missing")),
        }
    }

    /// Its exit code, as shells say it.
    pub(crate) async fn wait(&mut self) -> std::io::Result<i32> {
        let status = self.process.wait().await?;
        let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
        self.code = Some(code);
        Ok(code)
    }

    /// Hands on a signal that we got.
    pub(crate) fn pass(&self, number: i32) {
        // The terminal has sent these to everyone in the group already.
        let from_keys = number == Signal::INT.as_raw() || number == Signal::QUIT.as_raw();
        if (!from_keys || self.leads_group)
            && let Some(signal) = Signal::from_named_raw(number)
        {
            self.send(signal);
        }
    }

    pub(crate) fn terminate(&self) {
        self.send(Signal::TERM);
    }

    pub(crate) fn kill(&self) {
        self.send(Signal::KILL);
    }

    /// Best effort: who is gone hears nothing.
    fn send(&self, signal: Signal) {
        let Some(pid) = self.pid else { return };
        if self.leads_group {
            let _ = kill_process_group(pid, signal);
        } else if self.code.is_none() {
            let _ = kill_process(pid, signal);
        }
    }
}

/// A worker that fails must not leave behind what runs without a lock; `kill_on_drop` knows the leader alone.
impl Drop for Child {
    fn drop(&mut self) {
        if self.leads_group {
            self.kill();
        }
    }
}
