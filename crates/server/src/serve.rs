//! The server, put together: configuration, engine and routes in, a running server out.

use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use tenure_apps::files::Folder;
use tenure_apps::payments::{BAC_CREDOMATIC, FileVault, Till};
use tenure_engine::{Engine, StoreError};
use tenure_redis::{Counts, Redis};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::App;
use crate::accept::{self, Limits, Routes};
use crate::access::Group;
use crate::config::{Config, ConfigError};
use crate::front::{self, Front};
use crate::gate::{self, Gate};
use crate::gateway::fake::FakeGateway;
use crate::identity::{Identity, MadeKey};
use crate::limits::{CERTIFICATE_LOOK_EVERY, RATE_FORGET_EVERY};
use crate::metrics::Metrics;
use crate::net::Network;
use crate::rate::Rates;
use crate::settler;
use crate::short::Shield;
use crate::time::rfc3339;
use crate::tls::Tls;

/// Samples are folded this often, scraped or not.
const UPKEEP_EVERY: Duration = Duration::from_secs(5);

/// Why the server cannot start: a sentence for the operator.
#[derive(Debug)]
pub enum ServeError {
    /// A key of the configuration.
    Config(ConfigError),
    /// The address.
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why not.
        source: std::io::Error,
    },
    /// The store.
    Store(StoreError),
    /// The keys.
    Identity(crate::identity::Error),
    /// A demonstration where real payments are configured.
    NoDemo(&'static str),
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) => error.fmt(f),
            Self::Listen { address, source } => write!(f, "cannot listen on {address}: {source}"),
            Self::Store(error) => error.fmt(f),
            Self::Identity(error) => error.fmt(f),
            Self::NoDemo(why) => write!(f, "--demo: {why}; use another data folder"),
        }
    }
}

impl std::error::Error for ServeError {}

/// A server that is bound to its address but does not answer yet.
#[derive(Debug)]
pub struct Server {
    app: App,
    listener: TcpListener,
    address: SocketAddr,
    tls: Option<Tls>,
    limits: Limits,
    rates: Rates,
    trusted: Vec<Network>,
    first_key: Option<MadeKey>,
    /// The demonstration's gateway, as long as the server runs.
    fake: Option<FakeGateway>,
    hangups: Option<Signal>,
    redis: Option<Redis>,
}

impl Server {
    /// Binds the address, reads keys and sessions, and on a first start makes the administrator's key.
    /// The engine should have been started with `metrics.observer()`.
    pub async fn open(config: &Config, engine: Engine, metrics: Metrics) -> Result<Self, ServeError> {
        let tls = config.tls().map_err(ServeError::Config)?;
        let trusted = config.trusted_proxies().map_err(ServeError::Config)?;
        let workshop = config.workshop().map_err(ServeError::Config)?;
        let missing_secret = config.missing_secret();
        let settings = config.identity().map_err(ServeError::Config)?;
        if let Some(file) = missing_secret
            && engine.reader().stats().collections > 0
        {
            tracing::warn!(
                file = %file.display(),
                "there was no server's secret beside data that had one: a new one was made. Raffles that are open cannot be \
                 drawn with it; stop, and put the old one in its place"
            );
        }
        let identity = Identity::new(engine.clone(), settings).map_err(ServeError::Identity)?;
        // Before anyone can know that it runs: a hangup that nobody hears ends a process.
        let hangups = hangups();
        let unbound = |source| ServeError::Listen { address: config.listen, source };
        let listener = TcpListener::bind(config.listen).await.map_err(unbound)?;
        let address = listener.local_addr().map_err(unbound)?;
        identity.start().map_err(ServeError::Store)?;
        let files = Arc::new(Folder::new(config.files_folder()));
        let app = App::with_workshop(engine, identity.clone(), metrics, files, workshop);
        let fake = open_till(config, &app, (tls.is_some(), address)).await?;
        let limits = config.accept_limits(&trusted);
        let slow = [(Group::Reserve, config.rates.reserve), (Group::Amend, config.rates.amend)];
        let rates = Rates::of(config.rate_groups(), slow.map(|(group, rate)| (group, rate.per_minute)));
        // After all that can fail: a key that is made is to be shown.
        let first_key = identity.bootstrap(config.admin_key.clone()).await.map_err(ServeError::Identity)?;
        Ok(Self {
            app,
            listener,
            address,
            tls,
            limits,
            rates,
            trusted,
            first_key,
            fake,
            hangups,
            redis: None,
        })
    }

    /// Counts rates together with the other nodes, over this.
    #[must_use]
    pub fn with_redis(mut self, redis: &Redis) -> Self {
        self.rates = self.rates.with_counts(Counts::start(redis));
        self.redis = Some(redis.clone());
        self
    }

    /// What the routes are built around.
    pub fn app(&self) -> &App {
        &self.app
    }

    /// Where it listens: the port is known now, also if the configuration said 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// It speaks HTTPS.
    pub fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// The administrator's key, if one was made just now. To be shown once.
    pub fn take_first_key(&mut self) -> Option<MadeKey> {
        self.first_key.take()
    }

    /// Answers until `shutdown` ends; then finishes what is in flight. Stopping the engine is the caller's.
    pub async fn run(self, routes: Router, shutdown: impl Future<Output = ()>) {
        let Self { app, listener, address, tls, limits, rates, trusted, fake, hangups, redis, .. } = self;
        let shield = shield_of(&app, rates.clone(), trusted);
        let routes = Routes { router: around(routes, &shield), shield };
        let settling = tokio::spawn(settler::run(app.clone()));
        let chores = tokio::spawn(chores(app.metrics().clone(), rates, redis, tls.clone()));
        let reloads = hangups
            .map(|hangups| tokio::spawn(reload_on_hangup(hangups, tls.clone(), app.metrics().clone())));
        if let Some(tls) = &tls {
            tell_end(tls, app.metrics());
        }
        tracing::info!(%address, tls = tls.is_some(), "listening");
        let drain_time = limits.drain_time;
        let accepting = accept::run(listener, routes, tls, limits, app.metrics().clone(), app.stopping());
        let told = async {
            shutdown.await;
            tracing::info!("stopping: no new connections, finishing what is in flight");
            app.stop();
            Instant::now()
        };
        let ((), stopped_at) = tokio::join!(accepting, told);
        // What was begun for a caller who has hung up is in flight too.
        app.workshop().close(drain_time.saturating_sub(stopped_at.elapsed())).await;
        chores.abort();
        settling.abort();
        drop(fake);
        if let Some(reloads) = reloads {
            reloads.abort();
        }
        tracing::info!("stopped");
    }
}

/// Gives payments their gateway and their secrets. In the demonstration the gateway is a fake one, set up so
/// that anybody can pay with a test card.
async fn open_till(
    config: &Config,
    app: &App,
    (is_tls, address): (bool, SocketAddr),
) -> Result<Option<FakeGateway>, ServeError> {
    let scheme = if is_tls { "https" } else { "http" };
    let here = if address.ip().is_unspecified() {
        format!("localhost:{}", address.port())
    } else {
        address.to_string()
    };
    let public_url = config.public_url().map_err(ServeError::Config)?;
    let public_url = public_url.map_or_else(|| format!("{scheme}://{here}"), str::to_owned);
    let till = Till::new(FileVault::new(config.secrets_folder()), &public_url);
    if !config.demo {
        let gateway = config.gateway(config.payments.gateway_url.as_deref()).map_err(ServeError::Config)?;
        app.open_till(till.with(BAC_CREDOMATIC, gateway));
        return Ok(None);
    }
    // Nothing real is touched: its key would be replaced, and its open charges looked up where they are not.
    if config.payments.gateway_url.is_some() {
        return Err(ServeError::NoDemo(
            "payments.gateway_url names a gateway, and the demonstration has its own",
        ));
    }
    let unbound = |source| ServeError::Listen { address, source };
    let fake = FakeGateway::start().await.map_err(unbound)?;
    app.open_till(till.with(BAC_CREDOMATIC, fake.connector()));
    if !fake.is_ours(app.payments()).await {
        return Err(ServeError::NoDemo("this folder's payments by card are configured for another gateway"));
    }
    if let Err(refusal) = fake.set_up(app.payments()).await {
        tracing::warn!("the demonstration's payments are not set up: {refusal}");
    }
    tracing::info!(gateway = fake.base(), "payments by card go to a fake gateway, with test cards only");
    Ok(Some(fake))
}

/// Puts the gate and the front before the routes. Nothing is reachable without them.
pub fn shield(routes: Router, app: &App, rates: Rates, trusted: Vec<Network>) -> Router {
    around(routes, &shield_of(app, rates, trusted))
}

fn shield_of(app: &App, rates: Rates, trusted: Vec<Network>) -> Arc<Shield> {
    let gate = Gate { app: app.clone(), rates };
    let front = Front::new(app.metrics().clone(), trusted);
    Arc::new(Shield { front, gate })
}

fn around(routes: Router, shield: &Arc<Shield>) -> Router {
    routes.layer(from_fn_with_state(shield.clone(), pass))
}

/// One layer for both: each would clone and box the routes behind it for every request.
async fn pass(State(shield): State<Arc<Shield>>, request: Request, next: Next) -> Response {
    let Shield { front, gate } = &*shield;
    front::pass(front, request, |request| gate::pass(gate, request, |request| next.run(request))).await
}

/// Opens and runs in one go, for whoever needs neither the address nor the first key in between.
pub async fn serve(
    config: &Config,
    engine: Engine,
    metrics: Metrics,
    routes: impl FnOnce(App) -> Router,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let server = Server::open(config, engine, metrics).await?;
    let routes = routes(server.app().clone());
    server.run(routes, shutdown).await;
    Ok(())
}

async fn chores(metrics: Metrics, rates: Rates, redis: Option<Redis>, tls: Option<Tls>) {
    let (mut upkeep, mut forget) =
        (tokio::time::interval(UPKEEP_EVERY), tokio::time::interval(RATE_FORGET_EVERY));
    // The first look is at the start.
    let mut days = tokio::time::interval(CERTIFICATE_LOOK_EVERY);
    days.reset();
    loop {
        tokio::select! {
            _ = upkeep.tick() => {
                if let Some(redis) = &redis {
                    metrics.redis(redis);
                }
                metrics.upkeep();
            }
            _ = forget.tick() => rates.forget_quiet(),
            _ = days.tick() => {
                if let Some(tls) = &tls {
                    tell_end(tls, &metrics);
                }
            }
        }
    }
}

fn hangups() -> Option<Signal> {
    let heard = signal(SignalKind::hangup());
    heard
        .inspect_err(|error| {
            tracing::warn!(%error, "SIGHUP cannot be heard: certificates are read only at start");
        })
        .ok()
}

/// Says when the certificate ends, and aloud if that is soon: nobody else notices before clients do.
fn tell_end(tls: &Tls, metrics: &Metrics) {
    let Some(ends_at_s) = tls.ends_at_s() else { return };
    metrics.certificate(ends_at_s);
    // Clients go by the wall clock too.
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now_s = i64::try_from(since_1970.as_secs()).unwrap_or(i64::MAX);
    if let Some(warning) = crate::tls::warning(ends_at_s, now_s) {
        let expires_at = rfc3339(ends_at_s.saturating_mul(1_000));
        tracing::warn!(%expires_at, "{warning}");
    }
}

async fn reload_on_hangup(mut hangups: Signal, tls: Option<Tls>, metrics: Metrics) {
    while hangups.recv().await.is_some() {
        let Some(tls) = &tls else {
            tracing::info!("SIGHUP: there is no certificate to read again");
            continue;
        };
        match tls.reload() {
            Ok(()) => {
                tracing::info!("the certificate was read again");
                tell_end(tls, &metrics);
            }
            Err(error) => tracing::error!(%error, "the new certificate is bad; the old one goes on serving"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_certificate_is_looked_at_every_day() {
        let folder = tempfile::tempdir().expect("a folder");
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
        std::fs::write(&certificate, made.cert.pem()).expect("written");
        std::fs::write(&key, made.signing_key.serialize_pem()).expect("written");
        let (tls, metrics) = (Tls::open(&certificate, &key).expect("read"), Metrics::new());
        let chores = tokio::spawn(chores(metrics.clone(), Rates::new([]), None, Some(tls)));
        let is_told = || metrics.page(true).contains("\ntenure_tls_certificate_expires_at_seconds ");
        tokio::time::sleep(CERTIFICATE_LOOK_EVERY / 2).await;
        assert!(!is_told());
        tokio::time::sleep(CERTIFICATE_LOOK_EVERY).await;
        assert!(is_told());
        chores.abort();
    }
}
