//! `tenure serve` and `tenure config`: the configuration, the store and the server, put together.

mod demo;
mod descriptors;
mod memory;

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, Subcommand};
use tenure_engine::{Engine, LANES_MAX, Observer, Options, Report, StoreError, SystemClock};
use tenure_redis::Redis;
use tenure_server::config::{Config, ConfigError, Flags};
use tenure_server::{Metrics, Server, router, stop_signal};
use tenure_store::Store;
use tenure_store::embedded::Embedded;
use tenure_store::postgres::{Direct, Postgres};
use tokio::sync::Notify;

use crate::bench::Result;
use crate::out::{note, say};

/// What the configuration says, unless these say otherwise.
#[derive(Args)]
pub(crate) struct Settings {
    /// The configuration file [default: tenure.toml, if it is there].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where to listen [default: 127.0.0.1:8080].
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// The data folder [default: ./tenure-data].
    #[arg(long, value_name = "FOLDER")]
    data: Option<String>,
    /// PostgreSQL instead of a data folder, for one node or many: postgres://user:password@host/name.
    #[arg(long, value_name = "URL")]
    database_url: Option<String>,
    /// Hints between nodes over one database, and rates for all of them: redis://host.
    #[arg(long, value_name = "URL")]
    redis: Option<String>,
    /// Load people, a collection and items to try things on.
    #[arg(long)]
    demo: bool,
    /// The certificate chain, to speak HTTPS. Read again on SIGHUP.
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<String>,
    /// The certificate's key.
    #[arg(long, value_name = "FILE")]
    tls_key: Option<String>,
    /// How much is logged [default: info].
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,
    /// `pretty`, `json` or `auto` [default: auto].
    #[arg(long, value_name = "FORM")]
    log_format: Option<String>,
}

/// Run the server.
#[derive(Args)]
pub(crate) struct Serve {
    #[command(flatten)]
    settings: Settings,
}

/// Look at the configuration.
#[derive(Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print the whole configuration as a commented tenure.toml, secrets masked.
    Show(Settings),
    /// Say what is wrong with it.
    Check(Settings),
}

impl Settings {
    /// Reads every source and looks at the whole. All that is wrong is told at once.
    fn load(self) -> Result<Config> {
        let Self {
            config,
            listen,
            data,
            database_url,
            redis,
            demo,
            tls_cert,
            tls_key,
            log_level,
            log_format,
        } = self;
        let flags = Flags {
            config,
            listen,
            data,
            database_url,
            redis,
            demo,
            tls_cert,
            tls_key,
            log_level,
            log_format,
        };
        // A variable that is not UTF-8 is none of ours.
        let environment = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        let config = Config::load(&flags, environment).map_err(|errors| sentence(&errors))?;
        let mut errors = config.check();
        let addresses =
            [("database_url", &config.database_url), ("database_direct_url", &config.database_direct_url)];
        for (key, address) in addresses {
            let Some(address) = address.as_ref().filter(|_| errors.iter().all(|error| error.key != key))
            else {
                continue;
            };
            if let Err(error) = Postgres::check_address(address.expose()) {
                errors.push(ConfigError { key: key.to_owned(), reason: error.to_string(), source: None });
            }
        }
        if errors.is_empty() { Ok(config) } else { Err(sentence(&errors).into()) }
    }
}

fn sentence(errors: &[ConfigError]) -> String {
    let lines: Vec<_> = errors.iter().map(|error| format!("\n  {error}")).collect();
    format!("the configuration is wrong:{}", lines.concat())
}

impl ConfigCommand {
    pub(crate) fn run(self) -> Result {
        match self {
            Self::Show(settings) => print!("{}", settings.load()?.show()),
            Self::Check(settings) => {
                for warning in settings.load()?.warnings() {
                    say!("{warning}");
                }
                say!("The configuration is good.");
            }
        }
        Ok(())
    }
}

impl Serve {
    pub(crate) fn run(self) -> Result {
        memory::settle();
        let mut config = self.settings.load()?;
        tenure_server::log::init(&config.log)?;
        for warning in config.warnings() {
            tracing::warn!(key = warning.key, "{}", warning.reason);
        }
        let asked = config.limits.connections;
        config.limits.connections = descriptors::fit(asked);
        if config.limits.connections < asked {
            tracing::warn!(
                asked,
                connections = config.limits.connections,
                "so many connections do not fit into the files that this process may open; raise its limit \
                 (ulimit -n, LimitNOFILE) or lower limits.connections"
            );
        }
        let metrics = Metrics::new();
        let failed = Arc::new(Notify::new());
        let observer = Arc::new(Watching { metrics: metrics.observer(), failed: failed.clone() });
        let redis = config.redis()?;
        let engine = start(&config, redis.as_ref(), Options { observer, ..Options::default() })?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let served = runtime.block_on(serve(&config, engine.clone(), metrics, (redis.as_ref(), &failed)));
        // The store's own words come first: what the server met may only follow from them.
        engine.stop()?;
        served
    }
}

/// The store that the configuration names, and the engine over it.
fn start(config: &Config, redis: Option<&Redis>, options: Options) -> Result<Engine> {
    let Some(url) = &config.database_url else {
        let store = Embedded::open(&config.data, &tenure_store::embedded::Options::default())?;
        return Ok(Engine::start(store, SystemClock::new(), options)?);
    };
    let options_of_store = tenure_store::postgres::Options {
        redis: redis.cloned(),
        direct: config.database_direct_url.as_ref().map(|url| Direct(url.expose().to_owned())),
        ..tenure_store::postgres::Options::default()
    };
    let store = Postgres::open(url.expose(), &options_of_store)?;
    if config.demo {
        demo::refuse_others(&*store.reader())?;
    }
    Ok(Engine::start_lanes(lanes_over(store), SystemClock::new(), options)?)
}

/// The writers of one node: at least two, so that not all collections wait for one that another node has locked, and
/// no more than there are cores, so that commands share commits.
pub(crate) fn lanes_over(store: Postgres) -> Vec<Postgres> {
    let lanes = std::thread::available_parallelism().map_or(2, usize::from).clamp(2, LANES_MAX);
    let others: Vec<_> = (1..lanes).map(|_| store.another()).collect();
    std::iter::once(store).chain(others).collect()
}

async fn serve(
    config: &Config,
    engine: Engine,
    metrics: Metrics,
    (redis, failed): (Option<&Redis>, &Notify),
) -> Result {
    let told = stop_signal()?;
    let mut server = Server::open(config, engine, metrics).await?;
    if let Some(redis) = redis {
        server = server.with_redis(redis);
    }
    if let Some(key) = server.take_first_key() {
        println!("The administrator's key, shown only now: {}", key.secret.expose());
    }
    if let Some(danger) = config.demo_danger() {
        // Whatever the log shows: this must not go unseen.
        note!("WARNING: --demo on {} {danger}.", config.listen);
    }
    if config.demo {
        demo::load(server.app()).await?;
    }
    let scheme = if server.is_tls() { "https" } else { "http" };
    println!("Listening on {scheme}://{}", server.address());
    let (routes, _) = router(server.app().clone());
    let shutdown = async {
        tokio::select! {
            () = told => {}
            () = failed.notified() => {}
        }
    };
    server.run(routes, shutdown).await;
    Ok(())
}

/// Passes on what the engine tells, and ends the process when the store has failed.
struct Watching {
    metrics: Arc<dyn Observer>,
    failed: Arc<Notify>,
}

impl Observer for Watching {
    fn turn(&self, report: &Report) {
        self.metrics.turn(report);
    }

    fn failed(&self, error: &StoreError) {
        self.metrics.failed(error);
        self.failed.notify_one();
    }
}
