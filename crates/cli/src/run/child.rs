//! The command, and what is sent to it.

use std::ffi::OsString;
use std::io::{ErrorKind, IsTerminal};
use std::os::unix::process::ExitStatusExt;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tenure_client::Claim;

use crate::bench::Result;
use crate::exit::{CANNOT_RUN, Exit, NOT_THERE};

pub(super) struct Child {
    process: tokio::process::Child,
    pid: Option<Pid>,
    /// At a terminal the command shares our group, or it could not read its keys; otherwise it leads one of
    /// its own, and what it starts is stopped with it.
    leads_group: bool,
    code: Option<i32>,
}

impl Child {
    pub(super) fn start(command: &[OsString], claim: &Claim) -> Result<Self> {
        let Some((program, arguments)) = command.split_first() else {
            return Err("there is no command".into());
        };
        let leads_group = !std::io::stdin().is_terminal();
        let mut command = tokio::process::Command::new(program);
        command
            .args(arguments)
            .env("TENURE_CLAIM", claim.id())
            .env("TENURE_TOKEN", claim.token().to_string())
            .kill_on_drop(true);
        if leads_group {
            command.process_group(0);
        }
        let process = command.spawn().map_err(|error| {
            let code = if error.kind() == ErrorKind::NotFound { NOT_THERE } else { CANNOT_RUN };
            Exit::new(code, format!("{}: {error}", program.display()))
        })?;
        let pid = process.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Ok(Self { process, pid, leads_group, code: None })
    }

    /// Its exit code, as shells say it.
    pub(super) async fn wait(&mut self) -> Result<i32> {
        let status = self.process.wait().await?;
        let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
        self.code = Some(code);
        Ok(code)
    }

    /// Hands on a signal that we got.
    pub(super) fn pass(&self, number: i32) {
        // The terminal has sent these to everyone in the group already.
        let from_keys = number == Signal::INT.as_raw() || number == Signal::QUIT.as_raw();
        if (!from_keys || self.leads_group)
            && let Some(signal) = Signal::from_named_raw(number)
        {
            self.send(signal);
        }
    }

    pub(super) fn terminate(&self) {
        self.send(Signal::TERM);
    }

    pub(super) fn kill(&self) {
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
