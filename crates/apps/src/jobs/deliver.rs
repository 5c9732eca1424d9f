//! The worker in the server: claims first, renews while it runs, and writes the result under the token.
//!
//! ```text
//!  take ── not had ─► skipped
//!    │
//!    ├─ runner ends ─────► result, status and end of the lock in one commit ─► completed | failed
//!    └─ lock lost first ─► runner stopped; another has it or had it ─► skipped, else the refusal
//! ```
//!
//! A run goes on when whoever delivered it has hung up. A process that dies leaves the lock to its TTL, and
//! the next delivery takes over.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tenure_core::{Claim, ClaimId, Json, Refusal as Rule, Reply, SessionId, Text, Verb};
use tenure_engine::Refused;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinHandle;

use super::finish::{bounded, completion};
use super::locks::is_not_ours;
use super::model::AnalysisDoc;
use super::{Delivery, Failure, Job, Jobs, NotAcquired, Outcome, Stop, Stopper};
use crate::limits::ATTEMPTS_MAX;
use crate::{Actor, Document, Done, Permission, Refusal, Result};

/// The pause after a heartbeat or a result that the engine had no time for.
const RETRY: Duration = Duration::from_secs(1);
/// What a runner gets to end by itself when it is told to stop. Its effects are void already.
const STOP_TIME: Duration = Duration::from_secs(5);

/// What a delivery found.
enum Taken {
    /// The lock: run it.
    Run(Arc<Claim>),
    /// Nothing to run.
    Settled(Done<Delivery>),
}

/// A runner at work; dropped, it is stopped.
struct Work(JoinHandle<Result<Json, Failure>>);

impl Drop for Work {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Jobs {
    /// Runs the analysis, unless another does or did. A retry under the actor's key gets what became of the
    /// first; while that one runs it is told so.
    pub async fn deliver(&self, actor: &Actor, id: &str) -> Result<Done<Delivery>> {
        actor.require(Permission::JobsRun)?;
        let claim = match self.take_delivery(actor, id).await? {
            Taken::Settled(done) => return Ok(done),
            Taken::Run(claim) => claim,
        };
        let actor = Actor { key: None, ..actor.clone() };
        let Ok(room) = self.workshop.room.clone().try_acquire_owned() else {
            self.let_go(&actor, id, &claim).await;
            return Err(self.overloaded());
        };
        let running = self.clone().run(actor, Text::from(id), claim, room);
        // By itself, so that it ends well although its caller may have gone.
        tokio::spawn(running).await.unwrap_or_else(|error| {
            tracing::error!(analysis = id, %error, "a delivery did not end");
            Err(Refusal::Broken)
        })
    }

    async fn take_delivery(&self, actor: &Actor, id: &str) -> Result<Taken> {
        let owner = SessionId::new(self.desk.fresh_id("delivery-"))?;
        for attempt in 0..ATTEMPTS_MAX {
            let taken = self.take(actor, id, &owner, None, &format!("deliver-{attempt}")).await?;
            let claim = match &taken.value {
                Ok(claim) if !taken.replayed => return Ok(Taken::Run(claim.clone())),
                Ok(claim) => claim.clone(),
                // What was locked when this key was first used may be free by now.
                Err(NotAcquired::Locked) if !self.is_held(id)? => continue,
                Err(reason) => return Ok(Taken::Settled(self.skipped(id, *reason, taken.at_ms)?)),
            };
            // A retry: the first request took the lock, and must not run twice.
            let now_ms = self.desk.now_ms();
            let (analysis, holding) = self.held(id, now_ms)?;
            if analysis.data.finished_under == Some(claim.number) {
                let done = Done { replayed: true, ..finished(&analysis, taken.at_ms) };
                return Ok(Taken::Settled(done));
            }
            if holding.is_some_and(|holding| holding.number == claim.number) {
                return Err(Refusal::Engine { refused: Refused::InProgress, index: None, at_ms: now_ms });
            }
            // Nothing came of it: the server died, or lost the lock. This is a delivery like any other.
        }
        Err(Refusal::Broken)
    }

    fn is_held(&self, id: &str) -> Result<bool> {
        Ok(self.held(id, self.desk.now_ms())?.1.is_some())
    }

    async fn run(
        self,
        actor: Actor,
        id: Text,
        claim: Arc<Claim>,
        _room: OwnedSemaphorePermit,
    ) -> Result<Done<Delivery>> {
        let analysis = self.analysis(&id)?;
        let (stopper, stop) = Stop::new();
        let job = Job {
            analysis: id.clone(),
            input: Text::from(analysis.data.input.as_str()),
            claim: Text::from(
                ClaimId { collection: self.collection.clone(), number: claim.number }.to_string(),
            ),
            token: claim.token,
        };
        let deadline_ms = AtomicI64::new(claim.expires_at_ms);
        let mut closing = Stop::when(&self.workshop.closing);
        let mut work = Work(tokio::spawn(self.workshop.runner.run(job, stop)));
        let outcome = tokio::select! {
            outcome = &mut work.0 => outcome.unwrap_or_else(|error| {
                tracing::error!(analysis = &*id, %error, "a runner did not end");
                Err(Failure::new("broken", "the runner broke; the server's log says how"))
            }),
            refusal = self.keep(&actor, &claim, &deadline_ms) => {
                tracing::warn!(analysis = &*id, token = claim.token, "the lock is lost, the run is stopped: {refusal}");
                self.end(work, stopper).await;
                return self.lost(&id, &claim, refusal);
            }
            () = closing.asked() => {
                self.end(work, stopper).await;
                self.let_go(&actor, &id, &claim).await;
                return Err(self.overloaded());
            }
        };
        drop(work);
        if let Err(failure) = outcome.as_ref()
            && failure.is_passing
        {
            tracing::warn!(analysis = &*id, token = claim.token, "given back: {failure}");
            self.let_go(&actor, &id, &claim).await;
            return Err(self.overloaded());
        }
        let written =
            self.write(&actor, &analysis, (&claim, deadline_ms.into_inner()), bounded(outcome)).await;
        match written {
            Ok(at_ms) => {
                let analysis = self.analysis(&id)?;
                let status = analysis.item.status.as_str();
                tracing::info!(analysis = &*id, token = claim.token, status, "analysis finished");
                Ok(finished(&analysis, at_ms))
            }
            Err(refusal) => self.lost(&id, &claim, refusal),
        }
    }

    /// Tells a runner to stop, and does not wait for ever.
    async fn end(&self, mut work: Work, stopper: Stopper) {
        stopper.stop();
        tokio::select! {
            _ = &mut work.0 => {}
            () = self.workshop.pace.pause(STOP_TIME) => {}
        }
    }

    /// Renews the lock until it is lost; ends with why.
    async fn keep(&self, actor: &Actor, claim: &Claim, deadline_ms: &AtomicI64) -> Refusal {
        let every = self.beat_every(claim);
        let mut wait = every;
        loop {
            let expires_at_ms = deadline_ms.load(Ordering::Relaxed);
            let left_ms = u64::try_from(expires_at_ms - self.desk.now_ms()).unwrap_or(0);
            self.workshop.pace.pause(wait.min(Duration::from_millis(left_ms))).await;
            let beat = Verb::Heartbeat { claim: claim.number, token: claim.token, idle_ms: None };
            match self.desk.change(actor, &self.collection, "keep", || Ok(beat.clone())).await {
                Ok(done) => {
                    if let Reply::Beat { claim, .. } = &done.value {
                        deadline_ms.store(claim.expires_at_ms, Ordering::Relaxed);
                    }
                    wait = every;
                }
                Err(refusal) if refusal.is_temporary() && self.desk.now_ms() < expires_at_ms => wait = RETRY,
                Err(refusal) => return refusal,
            }
        }
    }

    /// As often as the kind's policy says, and often enough for a lock of this length.
    fn beat_every(&self, claim: &Claim) -> Duration {
        let policy = self.desk.policy(self.collection.kind()).ok().flatten();
        let third_ms = claim.ttl_ms / 3;
        let every_ms = policy.map_or(third_ms, |policy| policy.heartbeat_ms.min(third_ms));
        Duration::from_millis(u64::try_from(every_ms).unwrap_or(1).max(1))
    }

    /// Result, status and the end of the lock, in one commit; when.
    async fn write(
        &self,
        actor: &Actor,
        analysis: &Document<AnalysisDoc>,
        (claim, expires_at_ms): (&Claim, i64),
        outcome: Result<Json, Failure>,
    ) -> Result<i64> {
        let verb = completion(analysis, claim.number, claim.token, outcome)?;
        loop {
            match self.desk.change(actor, &self.collection, "finish", || Ok(verb.clone())).await {
                Ok(done) => return Ok(done.at_ms),
                Err(refusal) if refusal.is_temporary() && self.desk.now_ms() < expires_at_ms => {
                    self.workshop.pace.pause(RETRY).await;
                }
                Err(refusal) => return Err(refusal),
            }
        }
    }

    /// The lock went before the result was written. If another has it or had it there is nothing to deliver
    /// again; otherwise the refusal says that there is.
    fn lost(&self, id: &str, claim: &Claim, refusal: Refusal) -> Result<Done<Delivery>> {
        if !is_not_ours(&refusal) {
            tracing::error!(analysis = id, token = claim.token, "what came of it was not written: {refusal}");
            return Err(refusal);
        }
        let now_ms = self.desk.now_ms();
        let (analysis, holding) = self.held(id, now_ms)?;
        if analysis.data.finished_under == Some(claim.number) {
            return Ok(finished(&analysis, now_ms));
        }
        let policy = self.desk.policy(self.collection.kind())?;
        if policy.is_some_and(|policy| policy.finished.contains(&analysis.item.status)) {
            return self.skipped(id, NotAcquired::AlreadyFinished, now_ms);
        }
        match holding {
            Some(_) => self.skipped(id, NotAcquired::Locked, now_ms),
            None => Err(refusal),
        }
    }

    fn skipped(&self, id: &str, reason: NotAcquired, at_ms: i64) -> Result<Done<Delivery>> {
        let status = self.analysis(id)?.item.status.clone();
        let delivery = Delivery { outcome: Outcome::Skipped, reason: Some(reason), status };
        Ok(Done { value: delivery, at_ms, replayed: false })
    }

    /// Not now: deliver it again.
    fn overloaded(&self) -> Refusal {
        Refusal::Engine { refused: Refused::Overloaded, index: None, at_ms: self.desk.now_ms() }
    }

    /// Gives the lock back unused. If that fails it runs out by itself.
    async fn let_go(&self, actor: &Actor, id: &str, claim: &Claim) {
        let release = Verb::Release { claim: claim.number };
        let released = self.desk.change(actor, &self.collection, "let-go", || Ok(release.clone())).await;
        match released {
            Err(refusal) if !matches!(refusal.rule(), Some(Rule::Lost { .. })) => {
                tracing::warn!(analysis = id, "the lock runs out by itself, releasing it failed: {refusal}");
            }
            _ => {}
        }
    }
}

/// What became of an analysis that this delivery finished.
fn finished(analysis: &Document<AnalysisDoc>, at_ms: i64) -> Done<Delivery> {
    let outcome = if analysis.data.error.is_none() { Outcome::Completed } else { Outcome::Failed };
    let value = Delivery { outcome, reason: None, status: analysis.item.status.clone() };
    Done { value, at_ms, replayed: false }
}
