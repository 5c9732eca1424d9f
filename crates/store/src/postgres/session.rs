//! A writer's connection, and the statements that are prepared on it.
//!
//! Planning a batch's statements takes longer than carrying them out, so they are prepared by name where that
//! is safe: a name means something in one process of the server only. Behind a pooler a transaction may run in
//! another process, so each load asks in which one it is. In another than expected nothing is decided, and
//! from then on nothing is prepared by name.
//!
//! Whoever waits for an answer moves the bytes itself: another thread would have to wake for it, only to wake the one
//! that waits. Nobody looks at the connection in between.

use std::future::Future;
use std::ops::Deref;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};

use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Statement};

use super::connect::{Link, aside};
use super::hush::Hush;
use super::recent::Recents;
use super::{Shared, columns, load};
use crate::{Error, Map};

/// A statement and the types of its parameters.
pub(super) type Typed = (&'static str, &'static [Type]);

/// Planned once, so they must not be planned by what a new installation's tables look like: every one of them
/// finds its rows by an index. Beside that it is [`SETTINGS`].
const SETTINGS_BY_INDEX: &str = "SELECT set_config('lock_timeout', $1, true), \
     set_config('idle_in_transaction_session_timeout', $1, true), set_config('statement_timeout', $2, true), \
     set_config('enable_bitmapscan', 'off', true), set_config('enable_seqscan', 'off', true), \
     set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true), \
     set_config('plan_cache_mode', 'force_generic_plan', true)";

/// In every transaction that searches, prepared or not. A search that collects places in a bitmap first never marks an
/// index's entries whose rows are gone, and reads all of them each time until the table is vacuumed: every deadline of a
/// claim that was released in time.
pub(super) const PLAINLY: &str = "SET LOCAL enable_bitmapscan = off";
/// The same for a writer, in one statement, which takes a fraction of what so many of them would. A node that is gone or
/// stuck lets go of its locks after the time that others wait for them.
const SETTINGS: &str = "SELECT set_config('lock_timeout', $1, true), \
     set_config('idle_in_transaction_session_timeout', $1, true), set_config('statement_timeout', $2, true), \
     set_config('enable_bitmapscan', 'off', true)";
/// What every batch begins with.
const PREPARED: &[Typed] = &[(SETTINGS_BY_INDEX, &[Type::TEXT, Type::TEXT])];

/// A connection.
#[derive(Debug)]
pub(super) struct Session {
    client: Client,
    /// `None` only while it is dropped; the connection ends with it.
    runtime: Option<Runtime>,
    prepared: Option<Prepared>,
    hush: Hush,
    /// What was read and written on it.
    pub(super) recent: Recents,
}

#[derive(Debug)]
pub(super) struct Prepared {
    /// The process that knows the names.
    pid: i32,
    statements: Map<&'static str, Statement>,
}

impl Prepared {
    pub(super) fn get(&self, sql: &str) -> Option<&Statement> {
        self.statements.get(sql)
    }
}

impl Deref for Session {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Perhaps on a thread that must not wait.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Session {
    pub(super) fn connect(link: &Link) -> Result<Self, Error> {
        Self::connect_within(link, Duration::MAX)
    }

    /// The same, or not at all after this time.
    pub(super) fn connect_within(link: &Link, limit: Duration) -> Result<Self, Error> {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(|source| Error::Io {
            path: "the database".into(),
            doing: "wait for",
            source,
        })?;
        let connect = || runtime.block_on(async { tokio::time::timeout(limit, link.connect_hushed()).await });
        // A store may be opened on a thread that drives a runtime, which then cannot drive this one.
        let connected = match Handle::try_current() {
            Ok(_) => {
                std::thread::scope(|scope| scope.spawn(connect).join()).expect("connecting does not panic")
            }
            Err(_) => connect(),
        };
        let late = |_| Error::Away { detail: "it did not answer in time".to_owned() };
        let (client, hush) = connected.map_err(late)??;
        Ok(Self { client, runtime: Some(runtime), prepared: None, hush, recent: Recents::default() })
    }

    /// Waits on the caller's own thread, and moves what comes and goes meanwhile. Not for a thread that drives a runtime
    /// alone: an engine's lanes have threads of their own.
    pub(super) fn wait<F: Future>(&self, future: F) -> F::Output {
        let runtime = self.runtime.as_ref().expect("it lives as long as the session");
        aside(|| runtime.block_on(future))
    }

    /// Whether it has ended: looks first, since nobody did while it was idle.
    pub(super) fn is_over(&self) -> bool {
        self.wait(async {
            // To hear of it, to read it, and to end.
            for _ in 0..3 {
                tokio::task::yield_now().await;
            }
        });
        self.client.is_closed()
    }

    pub(super) fn prepared(&self) -> Option<&Prepared> {
        self.prepared.as_ref()
    }

    /// Lets the statements of a pipeline share a `Sync`.
    pub(super) fn hush(&self) -> &Hush {
        &self.hush
    }

    /// What follows the beginning of a transaction: the longest that it waits for a lock, and for a statement.
    pub(super) fn settings(&self) -> &'static str {
        if self.prepared.is_some() { SETTINGS_BY_INDEX } else { SETTINGS }
    }

    /// Prepares what batches consist of, if nobody has found a pooler yet. Without it everything works, too.
    pub(super) fn prepare(&mut self, shared: &Shared) -> Result<(), Error> {
        if self.prepared.is_some() || !shared.direct.load(Ordering::Acquire) {
            return Ok(());
        }
        let prepared = self.wait(shared.link.in_time(async {
            let prepared = prepare(&self.client).await;
            if prepared.is_err() {
                // A connection that is gone is found out by what comes next.
                let _ = self.client.batch_execute("ROLLBACK").await;
            }
            prepared
        }))?;
        match prepared {
            Ok(prepared) => self.prepared = Some(prepared),
            Err(error) if is_name_lost(&error) => shared.found_pooler(),
            Err(_) => {}
        }
        Ok(())
    }

    /// Whether the statements' names mean here what they should.
    pub(super) fn is_at_home(&self, pid: i32) -> bool {
        self.prepared.as_ref().is_none_or(|prepared| prepared.pid == pid)
    }
}

/// In one transaction, and so in one process.
async fn prepare(client: &Client) -> Result<Prepared, tokio_postgres::Error> {
    client.batch_execute("BEGIN").await?;
    let pid = client.query_typed_one("SELECT pg_backend_pid()", &[]).await?.get(0);
    let mut statements = Map::default();
    for (sql, types) in PREPARED.iter().chain(load::PREPARED).chain(columns::PREPARED) {
        statements.insert(*sql, client.prepare_typed(sql, types).await?);
    }
    client.batch_execute("COMMIT").await?;
    Ok(Prepared { pid, statements })
}

/// A name that is not known, or that somebody else has given: a pooler is between.
pub(super) fn is_name_lost(error: &tokio_postgres::Error) -> bool {
    let lost = [SqlState::INVALID_SQL_STATEMENT_NAME, SqlState::DUPLICATE_PSTATEMENT];
    error.code().is_some_and(|code| lost.contains(code))
}
