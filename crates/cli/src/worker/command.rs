//! The runner that runs a command: input on stdin, result on stdout, the end of stderr if it fails.

use std::pin::pin;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::FusedFuture;
use tenure_apps::jobs::{
    Failure, Job, MESSAGE_BYTES_MAX, RESULT_BYTES_MAX, Runner, Running, Stop, result_of,
};
use tenure_core::Json;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

use crate::child::Child;
use crate::exit::{CANNOT_RUN, NOT_THERE};

/// The reason of a failure that is the worker's own: the command is not there, or cannot be run.
pub(super) const CANNOT: &str = "cannot_run";

/// What a command that has ended gets for its last words to come through. Somebody it left behind may keep
/// its pipes open for ever.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The end of stderr that is kept, with room for the exit code before it.
const COMPLAINT_BYTES_MAX: usize = MESSAGE_BYTES_MAX - 32;

/// Runs a command for each analysis.
#[derive(Debug)]
pub(super) struct CommandRunner {
    /// By `sh -c`.
    pub(super) command: String,
    /// The time between TERM and KILL.
    pub(super) grace: Duration,
}

impl Runner for CommandRunner {
    fn run(&self, job: Job, stop: Stop) -> Running {
        Box::pin(run(self.command.clone(), self.grace, job, stop))
    }
}

async fn run(text: String, grace: Duration, job: Job, mut stop: Stop) -> Result<Json, Failure> {
    let mut command = Command::new("sh");
    command
        .args(["-c", &text])
        .env("TENURE_ANALYSIS", &*job.analysis)
        .env("TENURE_CLAIM", &*job.claim)
        .env("TENURE_TOKEN", job.token.to_string())
        // The key is the worker's; the command gets the token, which is good for this run alone.
        .env_remove("TENURE_KEY");
    let cannot = |error: std::io::Error| Failure::new(CANNOT, &format!("sh: {error}"));
    let (mut child, mut stdin, stdout, stderr) = Child::start_piped(command).map_err(cannot)?;
    let (mut said, mut complained) = (Vec::new(), Vec::new());
    let ended = {
        let feed = async move {
            // A command that does not read its input is none the worse for it.
            let _ = stdin.write_all(job.input.as_bytes()).await;
        };
        let talk = async { tokio::join!(feed, read(stdout, &mut said), read_end(stderr, &mut complained)) };
        let mut talk = pin!(talk.fuse());
        let ended = loop {
            tokio::select! {
                code = child.wait() => break Some(code),
                () = stop.asked() => break None,
                _ = &mut talk => {}
            }
        };
        if ended.is_some() && !talk.is_terminated() {
            let _ = tokio::time::timeout(LAST_WORDS, &mut talk).await;
        } else if ended.is_none() {
            child.terminate();
            let mut leaving = pin!(tokio::time::timeout(grace * 3 / 4, child.wait()));
            loop {
                // Its pipes stay open: a shell that cannot say that it was terminated dies before its trap.
                tokio::select! {
                    _ = &mut leaving => break,
                    _ = &mut talk => {}
                }
            }
        }
        ended
    };
    // Also what the command itself has started and left behind.
    child.kill();
    let Some(code) = ended else {
        let _ = child.wait().await;
        return Err(Failure::new("stopped", "the lock was lost"));
    };
    let complained = String::from_utf8_lossy(&complained);
    match code.map_err(cannot)? {
        _ if said.len() > RESULT_BYTES_MAX => {
            Err(Failure::new("result_too_large", "the command wrote more than 16 KiB"))
        }
        0 => result_of(&said),
        code if code == i32::from(CANNOT_RUN) || code == i32::from(NOT_THERE) => {
            Err(Failure::new(CANNOT, &complained))
        }
        code => Err(Failure::new("exit", &format!("exit code {code}: {}", complained.trim()))),
    }
}

/// Reads until the end, or until it is too much: then the pipe closes, and the command hears of it.
async fn read(mut pipe: impl AsyncRead + Unpin, said: &mut Vec<u8>) {
    let mut part = [0; 4_096];
    while said.len() <= RESULT_BYTES_MAX {
        match pipe.read(&mut part).await {
            Ok(0) | Err(_) => return,
            Ok(count) => said.extend_from_slice(&part[..count]),
        }
    }
}

/// Reads until the end, and keeps the end.
async fn read_end(mut pipe: impl AsyncRead + Unpin, said: &mut Vec<u8>) {
    let mut part = [0; 4_096];
    loop {
        match pipe.read(&mut part).await {
            Ok(0) | Err(_) => return,
            Ok(count) => said.extend_from_slice(&part[..count]),
        }
        let extra = said.len().saturating_sub(COMPLAINT_BYTES_MAX);
        said.drain(..extra);
    }
}
