//! A writer's connection, and the statements that are prepared on it.
//!
//! Planning a batch's statements takes longer than carrying them out, so they are prepared by name where that
//! is safe: a name means something in one process of the server only. Behind a pooler a transaction may run in
//! another process, so each load asks in which one it is. In another than expected nothing is decided, and
//! from then on nothing is prepared by name.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Statement};

use super::recent::Recents;
use super::{commit, load};
use crate::Map;

/// A statement and the types of its parameters.
pub(super) type Typed = (&'static str, &'static [Type]);

/// Planned once, so they must not be planned by what a new installation's tables look like: every one of them
/// finds its rows by an index.
const BY_INDEX: &str = "SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off; \
     SET LOCAL enable_mergejoin = off; SET LOCAL plan_cache_mode = force_generic_plan";

/// In every transaction that searches, prepared or not. A search that collects places in a bitmap first never marks an
/// index's entries whose rows are gone, and reads all of them each time until the table is vacuumed: every deadline of a
/// claim that was released in time.
pub(super) const PLAINLY: &str = "SET LOCAL enable_bitmapscan = off";

/// A connection.
#[derive(Debug)]
pub(super) struct Session {
    client: Client,
    prepared: Option<Prepared>,
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

impl From<Client> for Session {
    fn from(client: Client) -> Self {
        Self { client, prepared: None, recent: Recents::default() }
    }
}

impl Session {
    pub(super) fn prepared(&self) -> Option<&Prepared> {
        self.prepared.as_ref()
    }

    /// What follows the beginning of a transaction.
    pub(super) fn planning(&self) -> &'static str {
        if self.prepared.is_some() { BY_INDEX } else { "" }
    }

    /// Prepares what batches consist of, if nobody has found a pooler yet. Without it everything works, too.
    pub(super) async fn prepare(&mut self, direct: &AtomicBool) {
        if self.prepared.is_none() && direct.load(Ordering::Acquire) {
            match prepare(&self.client).await {
                Ok(prepared) => self.prepared = Some(prepared),
                Err(error) => {
                    if is_name_lost(&error) {
                        direct.store(false, Ordering::Release);
                    }
                    // A connection that is gone is found out by what comes next.
                    let _ = self.client.batch_execute("ROLLBACK").await;
                }
            }
        }
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
    for (sql, types) in load::PREPARED.iter().chain(commit::PREPARED) {
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
