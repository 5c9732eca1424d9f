//! What the handlers share.

use std::sync::Arc;

use tenure_core::{CollectionKey, Command, Verb};
use tenure_engine::{Answer, Engine, Reader, Request};

use crate::Caller;
use crate::idempotency::Key;

/// The application: cheap to clone.
#[derive(Clone, Debug)]
pub struct App(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    engine: Engine,
}

impl App {
    /// Around a running engine.
    pub fn new(engine: Engine) -> Self {
        Self(Arc::new(Inner { engine }))
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
