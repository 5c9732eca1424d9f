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
use std::time::Duration;

use clap::Args;
use serde_json::Value;
use tenure_apps::jobs::{Failure, Job, Runner, Stop};
use tenure_client::{AnalysisError, Claim, Client, Error, Lost, State};
use tenure_core::{Json, Text};
use tokio::signal::unix::SignalKind;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::bench::Result;
use crate::exit::{CANNOT_RUN, Exit};
use crate::out::note;
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

/// What came of one analysis.
enum Came {
    /// Its result or its error is written.
    Written,
    /// It was given up or given back; another run will tell.
    Nothing,
    /// What came of it could not be written.
    Unwritten,
    /// The command could not be run at all: the worker's fault, or this analysis'.
    CannotRun(String),
}

/// What the worker has learned about its command.
#[derive(Default)]
struct Learned {
    /// It has run once: whatever cannot be run from then on is the analysis' own fault.
    runs: bool,
    /// The first that could not be run, left aside until another has told whose fault that is.
    aside: Option<(String, String)>,
    /// Something could not be written.
    unwritten: bool,
}

impl Worker {
    pub(crate) fn run(self) -> Result {
        let client = self.remote.client()?;
        block_on(self.work(&client))
    }

    async fn work(&self, client: &Client) -> Result {
        let mut signals = Signals::of(&[SignalKind::terminate(), SignalKind::interrupt()])?;
        let stop_all = watch::Sender::new(false);
        let mut running: JoinSet<(String, Came)> = JoinSet::new();
        let mut ids: HashSet<String> = HashSet::new();
        let mut learned = Learned::default();
        let mut broken: Option<Box<dyn std::error::Error>> = None;
        let mut is_ending = false;
        loop {
            let mut found = 0;
            if !is_ending {
                let aside = learned.aside.as_ref().filter(|_| !learned.runs).map(|(id, _)| id.as_str());
                let room = usize::from(self.jobs) - running.len();
                let taken = match self.take(client, room, &ids, aside).await {
                    Ok(taken) => taken,
                    // Without a server that takes its word the worker holds nothing; what runs ends with it.
                    Err(error) => {
                        stop_all.send_replace(true);
                        (is_ending, broken) = (true, Some(error));
                        Vec::new()
                    }
                };
                found = taken.len();
                for (id, claim) in taken {
                    ids.insert(id.clone());
                    let (client, command, runs) = (client.clone(), self.command.clone(), learned.runs);
                    let one = One { client, command, id, claim, runs };
                    running.spawn(one.run(stop_all.subscribe()));
                }
            }
            // Nothing has run yet, and nothing but what cannot be is left: whoever looks after the worker must know.
            let is_stuck = !learned.runs && learned.aside.is_some();
            if running.is_empty() && (is_ending || (self.drain || is_stuck) && found == 0) {
                break;
            }
            tokio::select! {
                _ = signals.next() => {
                    if is_ending {
                        note!("tenure: stopping {} and giving them back", running.len());
                        stop_all.send_replace(true);
                    } else {
                        note!("tenure: taking nothing more, {} to finish", running.len());
                        is_ending = true;
                    }
                }
                Some(ended) = running.join_next(), if !running.is_empty() => {
                    let (id, came) = ended?;
                    ids.remove(&id);
                    if let Some(why) = learned.hear(id, came) {
                        (is_ending, broken) = (true, Some(Exit::new(CANNOT_RUN, why).into()));
                    }
                }
                () = tokio::time::sleep(self.poll), if !is_ending && running.len() < usize::from(self.jobs) => {}
            }
        }
        match (broken, learned) {
            (Some(why), _) => Err(why),
            (None, Learned { runs: false, aside: Some((_, why)), .. }) => {
                Err(Exit::new(CANNOT_RUN, why).into())
            }
            (None, Learned { unwritten: true, .. }) => Err("not everything could be written".into()),
            (None, _) => Ok(()),
        }
    }

    /// Locks at most so many analyses that nobody has.
    async fn take(
        &self,
        client: &Client,
        room: usize,
        ids: &HashSet<String>,
        aside: Option<&str>,
    ) -> Result<Vec<(String, Claim)>> {
        let mut taken = Vec::new();
        if room == 0 {
            return Ok(taken);
        }
        let waiting = match client.claimable_analyses(room * LOOK_AT + ids.len() + 1).await {
            Err(error) if error.is_temporary() => {
                note!("tenure: {error}; trying again");
                return Ok(taken);
            }
            waiting => waiting.map_err(|error| self.remote.exit(&error))?,
        };
        let is_ours = |id: &str| ids.contains(id) || aside == Some(id);
        for analysis in waiting.into_iter().filter(|analysis| !is_ours(&analysis.id)) {
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
                    note!("tenure: {error}; trying again");
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

impl Learned {
    /// Takes note of what came of an analysis; says why the worker cannot go on.
    fn hear(&mut self, id: String, came: Came) -> Option<String> {
        match came {
            Came::Written => self.runs = true,
            Came::Nothing => {}
            Came::Unwritten => self.unwritten = true,
            Came::CannotRun(why) => match &self.aside {
                // Two of them, and none that ran: it is the command.
                Some((other, _)) if *other != id && !self.runs => return Some(why),
                _ => {
                    note!("tenure: {id} is left aside, its command could not be run: {}", why.trim());
                    self.aside = Some((id, why));
                }
            },
        }
        None
    }
}

/// One analysis, locked.
struct One {
    client: Client,
    command: String,
    id: String,
    claim: Claim,
    /// The command has run for another.
    runs: bool,
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
    async fn run(self, stop_all: watch::Receiver<bool>) -> (String, Came) {
        let run = match self.client.analysis(&self.id).await {
            Ok(analysis) => self.hold(analysis.input.unwrap_or_default(), stop_all).await,
            Err(error) => Run::Lost(format!("its input cannot be read: {error}")),
        };
        let Self { id, claim, runs, .. } = self;
        let outcome = match run {
            Run::Done(Err(failure)) if failure.reason == CANNOT && !runs => {
                release(claim, &id).await;
                return (id, Came::CannotRun(failure.message));
            }
            Run::Done(outcome) => outcome,
            Run::Lost(why) => {
                note!("tenure: {id} is given up: {why}");
                if claim.is_held() {
                    release(claim, &id).await;
                }
                return (id, Came::Nothing);
            }
            Run::Stopped => {
                release(claim, &id).await;
                return (id, Came::Nothing);
            }
        };
        let word = if outcome.is_ok() { "READY" } else { "FAILED" };
        let said = outcome.as_ref().err().map_or(String::new(), |failure| format!(" ({failure})"));
        let outcome = outcome.map(|json| json.read::<Value>().unwrap_or(Value::Null));
        let outcome = outcome.map_err(|Failure { reason, message, .. }| AnalysisError { reason, message });
        let mut written = claim.finish_analysis(outcome).await;
        if let Err(Error::Refused(problem)) = &written
            && problem.code == "invalid"
        {
            // Run again it would say the same: that is what came of it.
            let Failure { reason, message, .. } = Failure::new("result_refused", &problem.detail);
            written = claim.finish_analysis(Err(AnalysisError { reason, message })).await;
        }
        match written {
            Ok(()) => {
                note!("tenure: {id} is {word}{said}");
                (id, Came::Written)
            }
            // Whoever has it now tells what comes of it, as where the loss is noticed before the command ends.
            Err(error) if Lost::of(&error).is_some() => {
                note!("tenure: {id} is given up: its result was not written: {error}");
                (id, Came::Nothing)
            }
            Err(error) => {
                note!("tenure: {id}: its result was not written: {error}");
                (id, Came::Unwritten)
            }
        }
    }

    /// Runs the command as long as the lock can be counted on.
    async fn hold(&self, input: String, mut stop_all: watch::Receiver<bool>) -> Run {
        let claim = &self.claim;
        let ttl = Duration::from_millis(claim.info().expires_in_ms);
        let grace = GRACE_MAX.min(ttl / 4);
        let (stopper, stop) = Stop::new();
        let job = Job {
            analysis: Text::from(self.id.as_str()),
            input: Text::from(input),
            claim: Text::from(claim.id()),
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
        note!("tenure: {id}: its lock runs out by itself, releasing it failed: {error}");
    }
}
