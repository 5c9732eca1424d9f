//! A real server in this process, on a port of its own.

use std::net::SocketAddr;

use tenure_engine::{Engine, ManualClock, Options};
use tenure_server::config::Config;
use tenure_server::identity::Secret;
use tenure_server::{Metrics, Server as Inner, router};
use tenure_store::memory::Memory;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub(crate) const ADMIN: &str = "the-administrators-own-key-of-the-tests";

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) clock: ManualClock,
    pub(crate) engine: Engine,
    stop: Option<oneshot::Sender<()>>,
    running: Option<JoinHandle<()>>,
}

impl Server {
    pub(crate) async fn start() -> Self {
        let clock = ManualClock::at(1_767_323_045_678);
        let metrics = Metrics::new();
        let options = Options { observer: metrics.observer(), ..Options::default() };
        let engine = Engine::start(Memory::default(), clock.clone(), options).expect("starts");
        Self::on(engine, clock, metrics, "127.0.0.1:0".parse().expect("an address")).await
    }

    async fn on(engine: Engine, clock: ManualClock, metrics: Metrics, listen: SocketAddr) -> Self {
        let mut config = Config { listen, ..Config::default() };
        config.admin_key = Some(Secret::new(ADMIN));
        config.secret = Some(Secret::new("the same secret on every start of the tests"));
        config.limits.drain_timeout_ms = 200;
        let server = Inner::open(&config, engine.clone(), metrics).await.expect("opens");
        let address = server.address();
        let (routes, _) = router(server.app().clone());
        let (stop, stopped) = oneshot::channel();
        let running = tokio::spawn(async move {
            server.run(routes, async move { drop(stopped.await) }).await;
        });
        Self { address, clock, engine, stop: Some(stop), running: Some(running) }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Nobody answers any more; the engine goes on.
    pub(crate) async fn close(&mut self) {
        drop(self.stop.take());
        if let Some(running) = self.running.take() {
            running.await.expect("ends");
        }
    }

    /// Answers again, at the same address.
    pub(crate) async fn reopen(&mut self) {
        self.close().await;
        let (engine, clock) = (self.engine.clone(), self.clock.clone());
        *self = Self::on(engine, clock, Metrics::new(), self.address).await;
    }
}
