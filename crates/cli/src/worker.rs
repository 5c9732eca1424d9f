//! `tenure worker`: takes queued analyses and runs a command for each, under a claim. What is lost is
//! stopped before the deadline, and its result would be refused.
//!
//! ```text
//!  look ─► lock ─► run ─┬─ exits 0 ─► READY   ┐
//!    ▲                  ├─ else ────► FAILED  ├ one commit under the token
//!    │                  └─ lock lost: TERM, KILL, nothing written
//!    └── TERM: takes nothing more, lets what runs end; again: stops what runs and gives it back
//! ```

mod command;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde_json::Value;
use tenure_apps::jobs::{Failure, Job, Runner, Stop};
use tenure_client::{AnalysisError, Claim, Client, Error, State};
use tenure_core::Json;
use tokio::signal::unix::SignalKind;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::bench::Result;
use crate::exit::{CANNOT_RUN, Exit};
use crate::remote::{Remote, block_on};
use crate::run::Signals;
use command::{CANNOT, CommandRunner};

pub(crate) const HELP: &str = "The command reads the input on stdin and writes the result on stdout, as JSON or as \
text. Exit code 0 makes the analysis READY, any other FAILED with the end of stderr. TENURE_ANALYSIS, TENURE_CLAIM and \
TENURE_TOKEN are in its environment.";

/// The time between TERM and KILL, at most.
const GRACE_MAX: Duration = Duration::from_secs(10);
/// Analyses that are looked at for each one that could be run: other workers are after them too.
const LOOK_AT: usize = 4;
/// The most that run at once: each is a process and a few connections' worth of heartbeats.
const JOBS_MAX: u16 = 256;

/// Up to so many at once each lock follows the queue's events, and hears of a loss at once; beyond it they hear
/// of it at their next heartbeat, since every one that follows costs a connection.
const FOLLOW_MAX: u16 = 8;

/// Run queued analyses by a command.
#[derive(Args)]
pub(crate) struct Worker {
    /// What to run for each analysis, by `sh -c`.
    #[arg(long, value_name = "COMMAND")]
    command: String,
    /// How many at once.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=i64::from(JOBS_MAX)))]
    jobs: u16,
    /// The lock's time to live [default: the kind's]. It is renewed at a third of it.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    ttl: Option<Duration>,
    /// How often to look for analyses when there are none.
    #[arg(long, default_value = "2s", value_name = "TIME", value_parser = humantime::parse_duration)]
    poll: Duration,
    /// End when nothing is left to take.
    #[arg(long)]
    drain: bool,
    #[command(flatten)]
    remote: Remote,
}

/// What came of one analysis: its id, and why the worker cannot go on at all.
type Ended = (String, Option<String>);

impl Worker {
    pub(crate) fn run(self) -> Result {
        let client = self.remote.client()?;
        block_on(self.work(&client))
    }

    async fn work(&self, client: &Client) -> Result {
        let mut signals = Signals::of(&[SignalKind::terminate(), SignalKind::interrupt()])?;
        let stop_all = watch::Sender::new(false);
        let mut running: JoinSet<Ended> = JoinSet::new();
        let mut ids: HashSet<String> = HashSet::new();
        let mut broken = None;
        let mut is_ending = false;
        loop {
            let mut found = 0;
            if !is_ending {
                let taken = self.take(client, usize::from(self.jobs) - running.len(), &ids).await?;
                found = taken.len();
                for (id, claim) in taken {
                    ids.insert(id.clone());
                    let one = One { client: client.clone(), command: self.command.clone(), id, claim };
                    running.spawn(one.run(stop_all.subscribe()));
                }
            }
            if running.is_empty() && (is_ending || self.drain && found == 0) {
                break;
            }
            tokio::select! {
                _ = signals.next() => {
                    if is_ending {
                        eprintln!("tenure: stopping {} and giving them back", running.len());
                        stop_all.send_replace(true);
                    } else {
                        eprintln!("tenure: taking nothing more, {} to finish", running.len());
                        is_ending = true;
                    }
                }
                Some(ended) = running.join_next(), if !running.is_empty() => {
                    let (id, why) = ended?;
                    ids.remove(&id);
                    if let Some(why) = why {
                        is_ending = true;
                        broken = Some(why);
                    }
                }
                () = tokio::time::sleep(self.poll), if !is_ending && running.len() < usize::from(self.jobs) => {}
            }
        }
        broken.map_or(Ok(()), |why| Err(Exit::new(CANNOT_RUN, why).into()))
    }

    /// Locks at most so many analyses that nobody has.
    async fn take(
        &self,
        client: &Client,
        room: usize,
        ids: &HashSet<String>,
    ) -> Result<Vec<(String, Claim)>> {
        let mut taken = Vec::new();
        if room == 0 {
            return Ok(taken);
        }
        let waiting = match client.claimable_analyses(room * LOOK_AT + ids.len()).await {
            Err(error) if error.is_temporary() => {
                eprintln!("tenure: {error}; trying again");
                return Ok(taken);
            }
            waiting => waiting.map_err(|error| self.remote.exit(&error))?,
        };
        for analysis in waiting.into_iter().filter(|analysis| !ids.contains(&analysis.id)) {
            let mut acquire = client.acquire_analysis(&analysis.id);
            if let Some(ttl) = self.ttl {
                acquire = acquire.ttl(ttl);
            }
            if self.jobs <= FOLLOW_MAX {
                acquire = acquire.follow();
            }
            match acquire.await {
                Ok(claim) => taken.push((analysis.id, claim)),
                // Somebody was faster.
                Err(Error::Refused(problem))
                    if matches!(problem.code.as_str(), "held" | "finished" | "not_found") => {}
                Err(error) if error.is_temporary() => {
                    eprintln!("tenure: {error}; trying again");
                    break;
                }
                Err(error) => return Err(self.remote.exit(&error).into()),
            }
            if taken.len() == room {
                break;
            }
        }
        Ok(taken)
    }
}

/// One analysis, locked.
struct One {
    client: Client,
    command: String,
    id: String,
    claim: Claim,
}

/// How a run ended.
enum Run {
    /// By itself.
    Done(std::result::Result<Json, Failure>),
    /// The lock is lost, or too near its deadline.
    Lost(String),
    /// The worker was told to stop at once.
    Stopped,
}

impl One {
    async fn run(self, stop_all: watch::Receiver<bool>) -> Ended {
        let run = match self.client.analysis(&self.id).await {
            Ok(analysis) => self.hold(analysis.input.unwrap_or_default(), stop_all).await,
            Err(error) => Run::Lost(format!("its input cannot be read: {error}")),
        };
        let Self { id, claim, .. } = self;
        let outcome = match run {
            Run::Done(Err(failure)) if failure.reason == CANNOT => {
                // It is not the analysis that is at fault.
                release(claim, &id).await;
                return (id, Some(failure.message));
            }
            Run::Done(outcome) => outcome,
            Run::Lost(why) => {
                eprintln!("tenure: {id} is given up: {why}");
                if claim.is_held() {
                    release(claim, &id).await;
                }
                return (id, None);
            }
            Run::Stopped => {
                release(claim, &id).await;
                return (id, None);
            }
        };
        let word = if outcome.is_ok() { "READY" } else { "FAILED" };
        let said = outcome.as_ref().err().map_or(String::new(), |failure| format!(" ({failure})"));
        let outcome = outcome.map(|json| json.read::<Value>().unwrap_or(Value::Null));
        let outcome = outcome.map_err(|Failure { reason, message }| AnalysisError { reason, message });
        match claim.finish_analysis(outcome).await {
            Ok(()) => eprintln!("tenure: {id} is {word}{said}"),
            Err(error) => eprintln!("tenure: {id}: its result was not written: {error}"),
        }
        (id, None)
    }

    /// Runs the command as long as the lock can be counted on.
    async fn hold(&self, input: String, mut stop_all: watch::Receiver<bool>) -> Run {
        let claim = &self.claim;
        let ttl = Duration::from_millis(claim.info().expires_in_ms);
        let grace = GRACE_MAX.min(ttl / 4);
        let (stopper, stop) = Stop::new();
        let job = Job {
            analysis: Arc::from(self.id.as_str()),
            input: Arc::from(input),
            claim: Arc::from(claim.id()),
            token: claim.token(),
        };
        let runner = CommandRunner { command: self.command.clone(), grace };
        let mut running = runner.run(job, stop);
        let mut states = claim.states();
        let ended = loop {
            let stop_at = claim.deadline().minus(grace);
            tokio::select! {
                outcome = &mut running => return Run::Done(outcome),
                () = stop_at.reached() => {
                    // A heartbeat may just have moved it.
                    if claim.deadline().minus(grace).is_past() {
                        break Run::Lost("the server cannot be reached and the deadline is near".to_owned());
                    }
                }
                _ = states.changed() => {
                    if let State::Lost(lost) = &*states.borrow_and_update() {
                        break Run::Lost(lost.to_string());
                    }
                }
                _ = stop_all.wait_for(|stop| *stop) => break Run::Stopped,
            }
        };
        stopper.stop();
        let _ = running.await;
        ended
    }
}

async fn release(claim: Claim, id: &str) {
    if let Err(error) = claim.release().await {
        eprintln!("tenure: {id}: its lock runs out by itself, releasing it failed: {error}");
    }
}
