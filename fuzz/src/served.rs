//! A server in memory for targets that ask it: nothing of it outlives the process.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response};
use serde_json::Value;
use tenure_apps::files::InMemory;
use tenure_engine::{Engine, ManualClock, Options};
use tenure_server::identity::{Identity, Secret, ServerSecret, Settings};
use tenure_server::{App, Metrics, Rates, router, shield};
use tenure_store::memory::Memory;
use tokio::runtime::Runtime;
use tower::ServiceExt;

/// The key of somebody who may do everything.
pub(crate) const ADMIN: &str = "tnr_the-administrators-own-key";

/// A server, and what it runs on.
pub(crate) struct Served {
    pub(crate) runtime: Runtime,
    pub(crate) router: Router,
    pub(crate) engine: Engine,
}

impl Served {
    /// An empty one.
    pub(crate) fn new() -> Result<Self, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(told)?;
        let (router, engine) = runtime.block_on(async {
            let clock = ManualClock::at(1_700_000_000_001);
            let engine = Engine::start(Memory::default(), clock, Options::default()).map_err(told)?;
            let settings = Settings::new(ServerSecret::new(b"the-servers-own-secret-of-this-target"));
            let identity = Identity::new(engine.clone(), settings).map_err(told)?;
            identity.start().map_err(told)?;
            identity.bootstrap(Some(Secret::new(ADMIN))).await.map_err(told)?;
            let app = App::with(engine.clone(), identity, Metrics::new(), Arc::new(InMemory::default()));
            let (routes, _) = router(app.clone());
            Ok::<_, String>((shield(routes, &app, Rates::new([]), Vec::new()), engine))
        })?;
        Ok(Self { runtime, router, engine })
    }

    /// Asks for something that works, and gives its answer.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &Value) -> Result<Value, String> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("authorization", format!("Bearer {ADMIN}"))
            .header("content-type", "application/json")
            .body(Body::from(body.to_string()))
            .map_err(told)?;
        self.runtime.block_on(async {
            let Ok(answer) = self.router.clone().oneshot(request).await;
            let (status, text) = (answer.status(), text_of(answer).await?);
            if !status.is_success() {
                return Err(format!("{method} {path} was answered {status}: {text}"));
            }
            serde_json::from_str(&text).map_err(told)
        })
    }
}

/// All of an answer's body.
pub(crate) async fn text_of(answer: Response<Body>) -> Result<String, String> {
    let bytes = axum::body::to_bytes(answer.into_body(), usize::MAX).await.map_err(told)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

pub(crate) fn told(error: impl std::fmt::Display) -> String {
    error.to_string()
}
