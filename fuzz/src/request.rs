//! A request: its first line is a method and a path, the rest its body. Whatever it says, the answer is no failure of the
//! server's own.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{Method, Request};
use tenure_apps::files::InMemory;
use tenure_engine::{Engine, ManualClock, Options};
use tenure_server::identity::{Identity, Secret, ServerSecret, Settings};
use tenure_server::{App, Metrics, Rates, router, shield};
use tenure_store::memory::Memory;
use tokio::runtime::Runtime;
use tower::ServiceExt;

use crate::Target;

const ADMIN: &str = "tnr_the-administrators-own-key";
/// A server collects what requests leave behind; after so many it is another one.
const REQUESTS_EACH: usize = 5_000;

/// A server in memory, and somebody who may do everything.
pub struct Requests {
    runtime: Runtime,
    router: Router,
    left: usize,
}

impl Requests {
    /// An empty one.
    pub fn new() -> Result<Self, String> {
        let told = |error: &dyn std::fmt::Display| error.to_string();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| told(&error))?;
        let router = runtime.block_on(async {
            let engine =
                Engine::start(Memory::default(), ManualClock::at(1_700_000_000_001), Options::default())
                    .map_err(|error| told(&error))?;
            let settings = Settings::new(ServerSecret::new(b"the-servers-own-secret-of-this-target"));
            let identity = Identity::new(engine.clone(), settings).map_err(|error| told(&error))?;
            identity.start().map_err(|error| told(&error))?;
            identity.bootstrap(Some(Secret::new(ADMIN))).await.map_err(|error| told(&error))?;
            let app = App::with(engine, identity, Metrics::new(), Arc::new(InMemory::default()));
            let (routes, _) = router(app.clone());
            Ok::<_, String>(shield(routes, &app, Rates::new([]), Vec::new()))
        })?;
        Ok(Self { runtime, router, left: REQUESTS_EACH })
    }
}

impl Target for Requests {
    fn take(&mut self, bytes: &[u8]) -> Result<(), String> {
        if self.left == 0 {
            *self = Self::new()?;
        }
        self.left -= 1;
        let line_end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
        let (line, body) = bytes.split_at(line_end);
        let Ok(line) = std::str::from_utf8(line) else { return Ok(()) };
        let (method, path) = line.split_once(' ').unwrap_or((line, "/"));
        let body = body.get(1..).unwrap_or_default().to_vec();
        let (Ok(method), Ok(uri)) = (Method::from_bytes(method.as_bytes()), path.parse::<axum::http::Uri>())
        else {
            return Ok(());
        };
        // A wait is as long as it asks for, and a stream never ends.
        let request = Request::builder()
            .method(method)
            .uri(uri)
            .header("authorization", format!("Bearer {ADMIN}"))
            .header("content-type", "application/json")
            .body(Body::from(body));
        let Ok(request) = request else { return Ok(()) };
        let router = self.router.clone();
        let answer = self.runtime.block_on(async {
            tokio::time::timeout(std::time::Duration::from_millis(50), router.oneshot(request)).await
        });
        match answer {
            Ok(Ok(answer)) if answer.status().is_server_error() && answer.status() != 503 => {
                Err(format!("{line:?} was answered {}", answer.status()))
            }
            _ => Ok(()),
        }
    }
}
