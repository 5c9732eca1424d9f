//! Connections, the runtime that drives them, and what their failures mean.

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Handle, Runtime, RuntimeFlavor};
use tokio_postgres::config::{ChannelBinding, Host, SslMode, SslNegotiation, TargetSessionAttrs};
use tokio_postgres::error::SqlState;
use tokio_postgres::{CancelToken, Client, Config, Connection, Socket};

use super::Options;
use super::hush::{Hush, Hushed};
use super::tls::{Asked, Stream, Tls};
use crate::Error;
use crate::limits::TOLD_AGAIN_MS;

/// An address, and how to speak there.
struct Place {
    config: Config,
    tls: Tls,
}

/// What moves a connection's bytes.
pub(super) type Wire = Connection<Socket, Hushed<Stream>>;

/// Where the database is, and the threads that talk to it.
pub(super) struct Link {
    place: Place,
    /// The same past a pooler, where hints must go.
    direct: Option<Place>,
    /// Host and name, for people.
    label: String,
    pub(super) options: Options,
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
}

impl Place {
    fn new(url: &str, options: &Options) -> Result<Self, Error> {
        let (url, asked) = Asked::split(url)?;
        // The parser's own words may repeat what it was given, a password for one.
        let mut config: Config = url.parse().map_err(|_| Error::Unsupported {
            detail: "the database's address is not of the form postgres://user:password@host:port/database"
                .to_owned(),
        })?;
        let tls = Tls::new(&asked)?;
        // The driver hands a connection over to be wrapped only as one with TLS, and that to a named host only; without
        // having asked the server for it, where it is none.
        let is_named = config.get_hosts().iter().all(|host| matches!(host, Host::Tcp(_)));
        let is_wrapped = asked.is_on || (is_named && !config.get_hosts().is_empty());
        if !asked.is_on {
            config.ssl_negotiation(SslNegotiation::Direct);
        }
        config
            .ssl_mode(if is_wrapped { SslMode::Require } else { SslMode::Disable })
            .channel_binding(ChannelBinding::Disable);
        // Of several hosts the one that writes: a standby would refuse every batch, and show readers the past.
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        config.connect_timeout(Duration::from_millis(options.connect_ms));
        config.keepalives(true).keepalives_idle(Duration::from_secs(10));
        config.tcp_user_timeout(Duration::from_millis(options.statement_ms + options.lock_ms));
        if config.get_application_name().is_none() {
            config.application_name("tenure");
        }
        Ok(Self { config, tls })
    }
}

impl Link {
    pub(super) fn new(url: &str, options: &Options) -> Result<Self, Error> {
        let place = Place::new(url, options)?;
        let direct = options.direct.as_ref().map(|direct| Place::new(&direct.0, options)).transpose()?;
        let runtime = Builder::new_multi_thread()
            // They only move bytes between sockets and those who wait.
            .worker_threads(2)
            .thread_name("tenure-postgres")
            .enable_all()
            .build()
            .map_err(|source| Error::Io {
                path: "the database".into(),
                doing: "start the threads for",
                source,
            })?;
        let label = label(&place.config);
        Ok(Self { place, direct, label, options: options.clone(), runtime: Some(runtime) })
    }

    /// Host and name, without what is secret.
    pub(super) fn label(&self) -> &str {
        &self.label
    }

    /// A connection, driven until it is dropped, by the runtime that it is made on.
    pub(super) async fn connect(&self) -> Result<Client, Error> {
        Ok(self.connect_hushed().await?.0)
    }

    /// The same, and what hushes it.
    pub(super) async fn connect_hushed(&self) -> Result<(Client, Hush), Error> {
        let (tls, hush) = self.place.tls.hushed();
        let (client, connection) = self.connect_to(&self.place, tls).await?;
        tokio::spawn(async move {
            // Whoever waits for an answer hears of it; for the operator one line is enough.
            if let Err(error) = connection.await {
                tracing::warn!(%error, "a connection to the database ended");
            }
        });
        Ok((client, hush))
    }

    /// A connection for hints, which somebody else drives: past a pooler, if we were told how.
    pub(super) async fn connect_direct(&self) -> Result<(Client, Wire), Error> {
        let place = self.direct.as_ref().unwrap_or(&self.place);
        self.connect_to(place, place.tls.clone()).await
    }

    /// It was told how to go past a pooler.
    pub(super) fn is_past_poolers(&self) -> bool {
        self.direct.is_some()
    }

    async fn connect_to(&self, place: &Place, tls: Tls) -> Result<(Client, Wire), Error> {
        let limit = Duration::from_millis(self.options.connect_ms);
        let connected = tokio::time::timeout(limit, place.config.connect(tls)).await;
        match connected {
            Ok(Ok(pair)) => Ok(pair),
            Ok(Err(error)) => Err(at(place, &words(&error))),
            Err(_) => Err(at(place, "it did not answer in time")),
        }
    }

    /// Asks the server to stop what it does for a connection. Nobody waits for that, and it may fail.
    pub(super) fn cancel(&self, token: CancelToken) {
        let (tls, limit) = (self.place.tls.clone(), Duration::from_millis(self.options.connect_ms));
        self.spawn(async move { drop(tokio::time::timeout(limit, token.cancel_query(tls)).await) });
    }

    /// Runs beside everything else.
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.handle().spawn(work);
    }

    /// Waits on the caller's own thread, which may belong to another runtime.
    pub(super) fn wait<F: Future>(&self, future: F) -> F::Output {
        aside(|| self.wait_here(future))
    }

    /// No answer within the time of a statement and its locks: the connection is of no more use.
    pub(super) async fn in_time<T>(&self, future: impl Future<Output = T>) -> Result<T, Error> {
        let limit = Duration::from_millis(self.options.statement_ms + self.options.lock_ms);
        let late = || Error::Away { detail: "it did not answer in time".to_owned() };
        tokio::time::timeout(limit, future).await.map_err(|_| late())
    }

    fn wait_here<F: Future>(&self, future: F) -> F::Output {
        let _entered = self.handle().enter();
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut context = Context::from_waker(&waker);
        // Without a budget: on a thread of another runtime nobody would fill it up again.
        let mut future = pin!(tokio::task::unconstrained(future));
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                return output;
            }
            std::thread::park();
        }
    }

    fn handle(&self) -> &Handle {
        self.runtime.as_ref().expect("it lives as long as the link").handle()
    }
}

/// Waits on a thread that may belong to a runtime: its other tasks go on elsewhere meanwhile.
pub(super) fn aside<T>(wait: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(wait),
        _ => wait(),
    }
}

fn label(config: &Config) -> String {
    let host = config.get_hosts().first().map_or_else(String::new, |host| match host {
        Host::Tcp(name) => name.clone(),
        Host::Unix(path) => path.display().to_string(),
    });
    let port = config.get_ports().first().copied().unwrap_or(5432);
    let name = config.get_dbname().or(config.get_user()).unwrap_or_default();
    format!("the database {host}:{port}/{name}")
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // The last reader may be dropped on a thread that must not wait.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the configuration: it has the password.
        f.debug_struct("Link").field("options", &self.options).finish_non_exhaustive()
    }
}

/// What lasts is told to the operator now and then: when it was last.
#[derive(Debug, Default)]
pub(super) struct Reminder(Option<Instant>);

impl Reminder {
    /// It is to be told, and then not again for a while.
    pub(super) fn is_due(&mut self) -> bool {
        let is_due = self.0.is_none_or(|told| told.elapsed() >= Duration::from_millis(TOLD_AGAIN_MS));
        if is_due {
            self.0 = Some(Instant::now());
        }
        is_due
    }

    /// What somebody else does was waited for in vain once more.
    pub(super) fn of_a_wait(&mut self, error: &Error, why: &str) {
        if self.is_due() {
            tracing::warn!(%error, "waiting to start: {why}");
        }
    }
}

/// What a failure means for a batch that was not committed.
pub(super) fn failure(error: &tokio_postgres::Error) -> Error {
    let Some(found) = error.as_db_error() else { return away(error) };
    let code = found.code();
    if is_conflict(code) {
        return Error::Conflict { detail: found.message().to_owned() };
    }
    if *code == SqlState::DISK_FULL {
        return Error::Full { path: "the database".into() };
    }
    // A row that was read under the lock is not there, or one is that was not: somebody writes who holds no lock.
    if *code == SqlState::DIVISION_BY_ZERO {
        let detail = "a row is gone that was there under the lock".to_owned();
        return Error::Corrupt { path: "the database".into(), detail };
    }
    if code.code().starts_with("23") {
        return Error::Corrupt { path: "the database".into(), detail: found.message().to_owned() };
    }
    Error::Away { detail: format!("{} ({})", found.message(), code.code()) }
}

/// Another transaction came first; deciding anew is all that it takes.
fn is_conflict(code: &SqlState) -> bool {
    *code == SqlState::T_R_SERIALIZATION_FAILURE || *code == SqlState::T_R_DEADLOCK_DETECTED
}

/// The server ends the connection, and says so before it does.
pub(super) fn is_ending(error: &tokio_postgres::Error) -> bool {
    error.code().is_some_and(|code| [SqlState::ADMIN_SHUTDOWN, SqlState::CRASH_SHUTDOWN].contains(code))
}

/// The server said no to a COMMIT before it was one; after any other failure nobody knows.
pub(super) fn is_certain(error: &tokio_postgres::Error) -> bool {
    // Of those that roll back one says that it does not know whether they did.
    error.code().is_some_and(|code| {
        *code != SqlState::T_R_STATEMENT_COMPLETION_UNKNOWN
            && !matches!(&code.code()[..2], "08" | "57" | "58" | "XX")
    })
}

pub(super) fn away(error: &tokio_postgres::Error) -> Error {
    Error::Away { detail: words(error) }
}

/// Which one, for whoever mistyped it.
fn at(place: &Place, why: &str) -> Error {
    Error::Away { detail: format!("{}: {why}", label(&place.config)) }
}

fn words(error: &tokio_postgres::Error) -> String {
    use std::error::Error as _;
    match (error.as_db_error(), error.source()) {
        (Some(found), _) => found.message().to_owned(),
        (None, Some(source)) => format!("{error}: {source}"),
        (None, None) => error.to_string(),
    }
}

/// Whether an address can be read, without asking anybody.
pub(super) fn check_address(url: &str) -> Result<(), Error> {
    Place::new(url, &Options::default()).map(drop)
}
