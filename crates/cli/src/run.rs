//! `tenure run`: a claim around a command. The command never runs on without it: when the claim is lost,
//! or may be before long, the command is stopped before the deadline.

use std::future::IntoFuture;
use std::io::{ErrorKind, IsTerminal};
use std::pin::pin;
use std::time::Duration;

use clap::Args;
use tenure_client::{Claim, Client, Error, Moment, State};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::bench::Result;
use crate::child::Child;
use crate::exit::{CANNOT_RUN, Exit, LOST, NOT_ACQUIRED, NOT_THERE};
use crate::remote::{Remote, block_on};

pub(crate) const EXIT_CODES: &str = "Exit codes: the command's own (128 and the signal's number if one ended it); \
11 the claim could not be had; 20 the claim was lost and the command stopped; 64 wrong usage; 69 no server, or one that \
cannot serve now; 77 the key is not accepted; 126 and 127 the command cannot be run or is not there.";

/// After so long without an answer it is said who is waited for.
const NOTICE_AFTER: Duration = Duration::from_secs(3);
/// The time between TERM and KILL, at most.
const GRACE_MAX: Duration = Duration::from_secs(10);

/// Hold a claim around a command.
#[derive(Args)]
pub(crate) struct Run {
    /// What to claim. Several are claimed together or not at all.
    #[arg(long, required = true, value_name = "KEY")]
    key: Vec<String>,
    /// Where.
    #[arg(long, default_value = "lock/default", value_name = "KIND/NAME")]
    collection: String,
    /// How long to wait while somebody else holds it.
    #[arg(long, default_value = "0s", value_name = "TIME", value_parser = humantime::parse_duration)]
    wait: Duration,
    /// The claim's time to live. It is renewed at a third of it.
    #[arg(long, default_value = "30s", value_name = "TIME", value_parser = humantime::parse_duration)]
    ttl: Duration,
    #[command(flatten)]
    remote: Remote,
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<std::ffi::OsString>,
}

impl Run {
    pub(crate) fn run(self) -> Result {
        let client = self.remote.client()?;
        let code = block_on(async {
            let mut signals = Signals::listen()?;
            let acquire =
                client.acquire(&self.collection, self.key.clone()).ttl(self.ttl).wait(self.wait).follow();
            let mut acquiring = acquire.into_future();
            let mut notice = pin!(self.notice(&client));
            let mut is_said = false;
            let claim = loop {
                tokio::select! {
                    claim = &mut acquiring => break claim.map_err(|error| self.not_acquired(&error))?,
                    () = &mut notice, if !is_said => is_said = true,
                    // Whoever waits holds nothing: gone from the queue with the connection.
                    number = signals.next() => return Ok(128 + number),
                }
            };
            let code = self.hold(&claim, &mut signals).await;
            if claim.is_held()
                && let Err(error) = claim.release().await
            {
                eprintln!("tenure: the claim runs out by itself, releasing it failed: {error}");
            }
            code
        })?;
        if code == 0 { Ok(()) } else { Err(Exit::silent(u8::try_from(code).unwrap_or(1)).into()) }
    }

    /// Says, once, that there is no answer. Who waits for a held claim has none either: then the server is asked
    /// whether it is there.
    async fn notice(&self, client: &Client) {
        tokio::time::sleep(NOTICE_AFTER).await;
        let why = if self.wait.is_zero() {
            "no answer yet".to_owned()
        } else {
            match client.ready().await {
                Ok(()) => return,
                Err(Error::Unreachable(why)) => why,
                Err(error) => error.to_string(),
            }
        };
        eprintln!("tenure: waiting for the server at {}: {why}", self.remote.server());
    }

    /// Runs the command as long as the claim can be counted on; its exit code.
    async fn hold(&self, claim: &Claim, signals: &mut Signals) -> Result<i32> {
        let mut child = self.start(claim)?;
        let grace = GRACE_MAX.min(self.ttl / 4);
        let mut states = claim.states();
        loop {
            let stop_at = claim.deadline().minus(grace);
            tokio::select! {
                code = child.wait() => return Ok(code?),
                number = signals.next() => child.pass(number),
                () = stop_at.reached() => {
                    // A heartbeat may just have moved it.
                    if claim.deadline().minus(grace).is_past() {
                        let why = "the server cannot be reached and the deadline is near";
                        return self.stop(claim, &mut child, why).await;
                    }
                }
                changed = states.changed() => {
                    let state = states.borrow_and_update().clone();
                    match state {
                        State::Lost(lost) => return self.stop(claim, &mut child, &lost.to_string()).await,
                        State::Uncertain => eprintln!("tenure: a heartbeat failed, trying again until the deadline"),
                        State::Held if changed.is_ok() => eprintln!("tenure: the claim is renewed again"),
                        State::Held => {}
                    }
                }
            }
        }
    }

    fn start(&self, claim: &Claim) -> Result<Child> {
        let Some((program, arguments)) = self.command.split_first() else {
            return Err("there is no command".into());
        };
        let mut command = tokio::process::Command::new(program);
        command
            .args(arguments)
            .env("TENURE_CLAIM", claim.id())
            .env("TENURE_TOKEN", claim.token().to_string());
        // At a terminal the command shares our group, or it could not read its keys.
        let started = Child::start(command, !std::io::stdin().is_terminal());
        Ok(started.map_err(|error| {
            let code = if error.kind() == ErrorKind::NotFound { NOT_THERE } else { CANNOT_RUN };
            Exit::new(code, format!("{}: {error}", program.display()))
        })?)
    }

    /// TERM, then KILL: in the grace time, and in any case before the deadline.
    async fn stop(&self, claim: &Claim, child: &mut Child, why: &str) -> Result<i32> {
        eprintln!("tenure: {} is lost: {why}; stopping the command", self.key.join(", "));
        child.terminate();
        let latest = Moment::now().plus(GRACE_MAX.min(self.ttl / 4)).min(claim.deadline());
        tokio::select! {
            _ = child.wait() => {}
            () = latest.reached() => {}
        }
        // Also what the command itself has started and left behind.
        child.kill();
        child.wait().await?;
        Ok(i32::from(LOST))
    }

    fn not_acquired(&self, error: &Error) -> Exit {
        match error.code() {
            Some("held" | "finished" | "not_claimable" | "limit") => {
                Exit::new(NOT_ACQUIRED, error.to_string())
            }
            _ => self.remote.exit(error),
        }
    }
}

/// The signals that are heard.
pub(crate) struct Signals(Vec<(i32, Signal)>);

impl Signals {
    /// All that a command may want to hear of.
    fn listen() -> std::io::Result<Self> {
        Self::of(&[
            SignalKind::hangup(),
            SignalKind::interrupt(),
            SignalKind::quit(),
            SignalKind::terminate(),
            SignalKind::user_defined1(),
            SignalKind::user_defined2(),
        ])
    }

    pub(crate) fn of(kinds: &[SignalKind]) -> std::io::Result<Self> {
        let listened = kinds.iter().map(|kind| Ok((kind.as_raw_value(), signal(*kind)?)));
        Ok(Self(listened.collect::<std::io::Result<_>>()?))
    }

    pub(crate) async fn next(&mut self) -> i32 {
        std::future::poll_fn(|cx| {
            for (number, signal) in &mut self.0 {
                if signal.poll_recv(cx).is_ready() {
                    return std::task::Poll::Ready(*number);
                }
            }
            std::task::Poll::Pending
        })
        .await
    }
}
