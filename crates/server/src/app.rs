//! What the handlers share.

use std::sync::{Arc, OnceLock};

use futures_util::FutureExt;
use tenure_apps::Desk;
use tenure_apps::files::{Files, InMemory};
use tenure_apps::jobs::Workshop;
use tenure_apps::labels::Labels;
use tenure_apps::payments::{BAC_CREDOMATIC, MemoryVault, Payments, Till};
use tenure_apps::raffle::{Raffles, Seeds};
use tenure_core::{Claim, CollectionKey, Command, Policy, Reply, Verb, seen_at};
use tenure_engine::{Answer, Engine, Reader, Refused, Request, StoreError};
use tokio::sync::{Semaphore, watch};

use crate::apps::Uploading;
use crate::apps::check_owned;
use crate::apps::raffle::Audience;
use crate::command::{Asked, Question, Rendered};
use crate::gateway::PowerTranz;
use crate::idempotency::Key;
use crate::identity::{Identity, ServerSecret, Settings};
use crate::line::Line;
use crate::metrics::Metrics;
use crate::problem::from_store;
use crate::socket::Fans;
use crate::stream::Hub;
use crate::{Caller, Problem};

/// The application: cheap to clone.
#[derive(Clone, Debug)]
pub struct App(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    engine: Engine,
    /// Where the applications work.
    desk: Desk,
    identity: Identity,
    metrics: Metrics,
    /// Keeps files, and counts what it unpacks at once.
    labels: Labels,
    /// Its seeds come from the server's secret.
    raffles: Raffles,
    /// Set once at the start; without that, its secrets are gone with the process.
    payments: OnceLock<Payments>,
    /// Who has which raffle's page open.
    audience: Audience,
    /// Uploads that are being read: each is held in memory.
    uploading: Uploading,
    /// The texts of events that somebody follows.
    hub: Hub,
    /// The sockets that follow a collection, told together.
    fans: Fans,
    /// The server is stopping.
    stopping: watch::Sender<bool>,
    /// Walking all chains reads everything: one walk at a time.
    verifying: Semaphore,
    /// Where the server itself runs analyses.
    workshop: Workshop,
}

impl App {
    /// Around a running engine, with API keys and nothing else configured. Files are gone with the process.
    pub fn new(engine: Engine) -> Self {
        let secret = ServerSecret::random().expect("the system gives randomness");
        let identity = Identity::new(engine.clone(), Settings::new(secret));
        let identity = identity.expect("keys alone need no configuration");
        Self::with(engine, identity, Metrics::new(), Arc::new(InMemory::default()))
    }

    /// Around a running engine, with a place for files and the analysis that is built in.
    pub fn with(engine: Engine, identity: Identity, metrics: Metrics, files: Arc<dyn Files>) -> Self {
        Self::with_workshop(engine, identity, metrics, files, Workshop::default())
    }

    /// The same, where analyses are run otherwise.
    pub fn with_workshop(
        engine: Engine,
        identity: Identity,
        metrics: Metrics,
        files: Arc<dyn Files>,
        workshop: Workshop,
    ) -> Self {
        let (verifying, stopping) = (Semaphore::new(1), watch::Sender::new(false));
        let (hub, uploading) = (Hub::default(), Uploading::default());
        let labels = Labels::new(Desk::new(engine.clone()), files);
        let seeds = Seeds::new(identity.derive("raffle seeds"));
        let raffles = Raffles::new(Desk::new(engine.clone()), seeds);
        Self(Arc::new(Inner {
            desk: Desk::new(engine.clone()),
            engine,
            identity,
            metrics,
            labels,
            raffles,
            payments: OnceLock::new(),
            audience: Audience::default(),
            uploading,
            hub,
            fans: Fans::default(),
            stopping,
            verifying,
            workshop,
        }))
    }

    /// Where the applications work.
    pub(crate) fn desk(&self) -> &Desk {
        &self.0.desk
    }

    /// The application of images and annotations.
    pub fn labels(&self) -> &Labels {
        &self.0.labels
    }

    /// The application of raffles.
    pub fn raffles(&self) -> &Raffles {
        &self.0.raffles
    }

    /// The application of payments.
    pub fn payments(&self) -> &Payments {
        self.0.payments.get_or_init(|| {
            let till = Till::new(MemoryVault::default(), "").with(BAC_CREDOMATIC, PowerTranz::default());
            Payments::new(self.0.raffles.clone(), till)
        })
    }

    /// Gives payments their gateways and a place for secrets. To be called once, before anybody pays.
    pub fn open_till(&self, till: Till) {
        if self.0.payments.set(Payments::new(self.0.raffles.clone(), till)).is_err() {
            tracing::error!("payments are in use already; their gateways stay as they were");
        }
    }

    /// Who has which raffle's page open.
    pub(crate) fn audience(&self) -> &Audience {
        &self.0.audience
    }

    /// Lets so many in at a time with a file.
    pub(crate) fn uploading(&self) -> &Uploading {
        &self.0.uploading
    }

    /// Knows who somebody is.
    pub fn identity(&self) -> &Identity {
        &self.0.identity
    }

    /// The server's figures.
    pub fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    /// Where the server itself runs analyses.
    pub(crate) fn workshop(&self) -> &Workshop {
        &self.0.workshop
    }

    /// The texts of events that somebody follows.
    pub(crate) fn hub(&self) -> &Hub {
        &self.0.hub
    }

    /// The sockets that follow a collection, told together.
    pub(crate) fn fans(&self) -> &Fans {
        &self.0.fans
    }

    /// Becomes true when the server is to stop: sockets close then, with a code that lets them come back.
    pub fn stopping(&self) -> watch::Receiver<bool> {
        self.0.stopping.subscribe()
    }

    /// The server is stopping.
    pub fn is_stopping(&self) -> bool {
        *self.0.stopping.borrow()
    }

    /// Tells everyone to stop.
    pub(crate) fn stop(&self) {
        self.0.stopping.send_replace(true);
    }

    /// The engine.
    pub fn engine(&self) -> &Engine {
        &self.0.engine
    }

    /// Committed rows and events.
    pub fn reader(&self) -> &Arc<dyn Reader> {
        self.0.engine.reader()
    }

    /// The server's time.
    pub fn now_ms(&self) -> i64 {
        self.0.engine.now_ms()
    }

    /// Asks the engine on the caller's behalf. The only way in which a handler changes anything.
    pub async fn ask(
        &self,
        caller: &Caller,
        collection: CollectionKey,
        verb: Verb,
        key: Option<&Key>,
    ) -> Answer {
        let command = Command { collection, actor: caller.principal.clone(), verb };
        let idempotency = key.map(Key::idempotency);
        self.0.engine.execute(Request { command, idempotency }).await
    }

    /// Asks the engine what a caller asked for, and renders its answer.
    pub(crate) async fn answer(
        &self,
        caller: &Caller,
        asked: Asked,
        key: Option<&Key>,
    ) -> Result<Rendered, Problem> {
        check_owned(self, caller, &asked)?;
        let (question, verb) = asked.split();
        let answer = self.ask(caller, question.collection.clone(), verb, key).await;
        question.render(&answer, &**self.reader())
    }

    /// The same, where the answer may wait for held items.
    pub(crate) async fn answer_patiently(
        &self,
        caller: &Caller,
        line: &Line,
        asked: Asked,
        key: Option<&Key>,
    ) -> Result<Rendered, Problem> {
        if !asked.waits() {
            return self.answer(caller, asked, key).await;
        }
        check_owned(self, caller, &asked)?;
        let (question, verb) = asked.split();
        let command =
            Command { collection: question.collection.clone(), actor: caller.principal.clone(), verb };
        let request = Request { command, idempotency: key.map(Key::idempotency) };
        // In a box: the future of those who need not wait stays small, and is moved about.
        let answers = Box::pin(self.ask_patiently(caller, line, vec![request])).await?;
        let answer = answers.first().ok_or_else(Problem::internal)?;
        let rendered = question.render(answer, &**self.reader());
        rendered.map_err(|problem| self.with_longest_wait(problem, &question))
    }

    /// A wait that is too long is refused with the longest that the kind allows, so that a client can ask anew.
    pub(crate) fn with_longest_wait(&self, problem: Problem, question: &Question) -> Problem {
        if problem.code != "invalid" || problem.more.get("field").is_none_or(|field| field != "wait_ms") {
            return problem;
        }
        match self.policy(question.collection.kind()) {
            Ok(Some(policy)) => problem.with("max", policy.max_wait_ms),
            _ => problem,
        }
    }

    /// Asks on behalf of somebody who is ready to wait for held items: as long as they are there and known, and
    /// the server does not stop. Leaving early leaves the queue.
    pub(crate) async fn ask_patiently(
        &self,
        caller: &Caller,
        line: &Line,
        requests: Vec<Request>,
    ) -> Result<Vec<Answer>, Problem> {
        let collections: Vec<_> = requests.iter().map(|request| request.command.collection.clone()).collect();
        let mut stopping = self.stopping();
        let mut asking = std::pin::pin!(self.0.engine.execute_all(requests));
        let over = tokio::select! {
            biased;
            _ = stopping.wait_for(|stopping| *stopping) => {
                return Err(Problem::from_refused(&Refused::Stopped, self.now_ms()));
            }
            revoked = self.identity().revoked(caller) => match revoked {
                Ok(()) => Problem::unauthenticated("the key, token or session is over"),
                Err(unsure) => unsure,
            },
            // Nobody reads this answer.
            () = line.cut() => return Err(Problem::from_refused(&Refused::Stopped, self.now_ms())),
            answers = asking.as_mut() => return Ok(answers),
        };
        // What was granted in the same moment is let go, since nobody may hear of it.
        let granted = asking.now_or_never().into_iter().flatten().zip(collections);
        for (answer, collection) in granted {
            if let Ok(Reply::Acquired { claim, .. }) = &answer.outcome {
                self.ask(caller, collection, Verb::Release { claim: claim.number }, None).await;
            }
        }
        Err(over)
    }

    /// Reads what may take a while, away from the threads that answer everyone.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&dyn Reader) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Problem> {
        let reader = self.reader().clone();
        match tokio::task::spawn_blocking(move || read(&*reader)).await {
            Ok(result) => result.map_err(|error| from_store(&error)),
            Err(error) => {
                tracing::error!(%error, "a read did not end");
                Err(Problem::internal())
            }
        }
    }

    /// The policy that a kind has now.
    pub(crate) fn policy(&self, kind: &str) -> Result<Option<Arc<Policy>>, Problem> {
        let own = self.reader().policy(kind).map_err(|error| from_store(&error))?;
        Ok(own.or_else(|| Policy::preset(kind)))
    }

    /// The claim as it is at this time, whether or not anyone has swept.
    pub(crate) fn seen(&self, key: &CollectionKey, claim: &Claim, now_ms: i64) -> Result<Claim, Problem> {
        Ok(seen_by(self.policy(key.kind())?.as_deref(), claim, now_ms))
    }

    /// Lets one in at a time to walk all chains.
    pub(crate) fn verifying(&self) -> &Semaphore {
        &self.0.verifying
    }
}

/// The claim as its kind's policy makes it at this time.
pub(crate) fn seen_by(policy: Option<&Policy>, claim: &Claim, now_ms: i64) -> Claim {
    policy.map_or_else(|| claim.clone(), |policy| seen_at(claim, policy, now_ms))
}
