//! What the handlers share.

use std::sync::Arc;

use tenure_core::{CollectionKey, Command, Verb};
use tenure_engine::{Answer, Engine, Reader, Request};
use tokio::sync::watch;

use crate::Caller;
use crate::idempotency::Key;
use crate::identity::{Identity, ServerSecret, Settings};
use crate::metrics::Metrics;

/// The application: cheap to clone.
#[derive(Clone, Debug)]
pub struct App(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    engine: Engine,
    identity: Identity,
    metrics: Metrics,
    /// The server is stopping.
    stopping: watch::Sender<bool>,
}

impl App {
    /// Around a running engine, with API keys and nothing else configured.
    pub fn new(engine: Engine) -> Self {
        let secret = ServerSecret::random().expect("the system gives randomness");
        let identity = Identity::new(engine.clone(), Settings::new(secret));
        Self::with(engine, identity.expect("keys alone need no configuration"), Metrics::new())
    }

    /// Around a running engine.
    pub fn with(engine: Engine, identity: Identity, metrics: Metrics) -> Self {
        Self(Arc::new(Inner { engine, identity, metrics, stopping: watch::Sender::new(false) }))
    }

    /// Knows who somebody is.
    pub fn identity(&self) -> &Identity {
        &self.0.identity
    }

    /// The server's figures.
    pub fn metrics(&self) -> &Metrics {
        &self.0.metrics
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
}
