//! Which history the data is of. A database that takes over from another, or data that was restored, may lack what
//! was confirmed before: its numbers and tokens would be given out a second time, and nobody would notice. The
//! first node that meets another history begins an epoch, as a restore does: every collection goes on from numbers that
//! nobody can have used, and whoever has a cursor from before starts anew.
//!
//! `tenure.place` tells it by what is kept beside the data:
//! - `place`, the cluster, the database and the timeline: each takeover begins one, and a database that was made as a copy
//!   of another, page by page, is another.
//! - `written`, the transaction that wrote the row. PostgreSQL knows that by itself (`xmin`), and a dump takes along
//!   what the row says, not who wrote it. So data that was loaded says another transaction than the one that loaded it,
//!   whichever way it came.
//!
//! Every batch looks whether the row is still the one that it knows. A migration writes it anew, so that nodes that know
//! nothing of the new tables look again, find a version that is not theirs, and stop.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio_postgres::Client;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use super::connect::{Link, Reminder, failure};
use super::load::{CLOCK, CLOCK_AND_PLACE};
use super::rows::{int, uint};
use super::schema::check_version;
use super::{Postgres, Shared};
use crate::embedded::backup::{next_epoch, restore_entry};
use crate::limits::RESTORE_MAX;
use crate::{Batch, Error, Store, View, Want};

/// The cluster, the database in it, and which timeline is written now.
const HERE: &str = "SELECT (SELECT system_identifier::text FROM pg_control_system()) || '/' || \
     (SELECT oid FROM pg_database WHERE datname = current_database()) || '/' || \
     left(pg_walfile_name(pg_current_wal_lsn()), 8)";

/// Looks which history this is, where the database can tell. At a start there is time: another node that begins an
/// epoch walks through all collections, and is waited for.
pub(super) fn begin(shared: &Arc<Shared>, client: &Client) -> Result<(), Error> {
    let link = &shared.link;
    if link.wait(here(link, client))?.is_none() {
        return Ok(());
    }
    let mut reminder = Reminder::default();
    loop {
        match settle_once(shared) {
            Err(Unsettled::Locked(error)) => reminder
                .of_a_wait(&error, "another node begins an epoch, which takes a moment for each collection"),
            Err(Unsettled::Store(error)) => return Err(error),
            Ok(()) => return Ok(()),
        }
    }
}

/// Where the data is, if the database tells.
pub(super) async fn here(link: &Link, client: &Client) -> Result<Option<String>, Error> {
    match link.in_time(client.query_typed_one(HERE, &[])).await? {
        Ok(row) => Ok(Some(row.get(0))),
        // Functions that it does not have, or not for this user.
        Err(error) if error.code().is_some_and(|code| matches!(&code.code()[..2], "0A" | "42" | "55")) => {
            tracing::warn!(%error, "this database does not tell its timeline: after a takeover that lost commits \
                tokens may repeat");
            Ok(None)
        }
        Err(error) => Err(failure(&error)),
    }
}

/// The row says where it was written, and that is here: what somebody asks who only reads.
pub(super) const IS_OF: &str =
    "SELECT place IS NULL OR place = $1 AND coalesce(written = xmin, true) FROM tenure.place WHERE one";
/// The row is written here and now.
pub(super) const STAMP: &str = "UPDATE tenure.place SET place = $1, written = pg_current_xact_id()::xid \
     WHERE (place, written) IS DISTINCT FROM ($1, xmin)";

/// The row is written anew by this transaction, if it was written by the one that it names.
pub(super) const STAMP_AGAIN: &str =
    "UPDATE tenure.place SET written = pg_current_xact_id()::xid WHERE written = xmin";

/// Why it was not settled.
enum Unsettled {
    /// Somebody else has the row.
    Locked(Error),
    Store(Error),
}

impl From<Error> for Unsettled {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

/// Takes over the history that is kept, and begins an epoch where the data is of another. While another node does so
/// callers hear that the store is away.
pub(super) fn settle(shared: &Arc<Shared>) -> Result<(), Error> {
    settle_once(shared).map_err(|(Unsettled::Locked(error) | Unsettled::Store(error))| error)
}

fn settle_once(shared: &Arc<Shared>) -> Result<(), Unsettled> {
    let link = &shared.link;
    let (lock_ms, statement_ms) = (link.options.lock_ms, link.options.statement_ms);
    // One node at a time; the others wait for its row, and then find that it is done.
    let begin = format!(
        "BEGIN; SET LOCAL lock_timeout = {lock_ms}; SET LOCAL statement_timeout = {statement_ms}; \
         SET LOCAL idle_in_transaction_session_timeout = 0"
    );
    let look = format!(
        "SELECT m.epoch, p.place, ({HERE}), ({CLOCK}), (SELECT coalesce(max(seq), 0) FROM tenure.collections), \
         coalesce(p.written = p.xmin, true), (SELECT version FROM tenure.schema) \
         FROM tenure.meta m, tenure.place p FOR UPDATE OF m, p"
    );
    let (client, row) = link.wait(async {
        let client = link.connect().await?;
        let row = async {
            client.batch_execute(&begin).await?;
            client.query_typed_one(&look, &[]).await
        };
        let row = link.in_time(row).await?.map_err(|error| {
            // Two rows are waited for, each for so long, and for both together no longer than for a statement.
            let locked = [SqlState::LOCK_NOT_AVAILABLE, SqlState::QUERY_CANCELED];
            match error.code() {
                Some(code) if locked.contains(code) => Unsettled::Locked(failure(&error)),
                _ => failure(&error).into(),
            }
        })?;
        Ok::<_, Unsettled>((client, row))
    })?;
    check_version(u32::try_from(row.get::<_, i32>(6)).unwrap_or(u32::MAX))?;
    let (mut epoch, kept, here): (u64, Option<String>, String) = (uint(row.get(0)), row.get(1), row.get(2));
    let was_written_here: bool = row.get(5);
    if kept.is_some_and(|kept| kept != here || !was_written_here) {
        epoch = next_epoch(epoch, uint(row.get(4)), row.get(3));
        tracing::error!(
            epoch,
            "the database was promoted or restored, and may have lost what it had confirmed: a new epoch begins"
        );
        raise(shared, epoch)?;
    }
    let place = link.wait(link.in_time(async {
        let raise = "UPDATE tenure.meta SET epoch = $1 WHERE epoch < $1";
        client.execute_typed(raise, &[(&int(epoch), Type::INT8)]).await?;
        client.execute_typed(STAMP, &[(&here, Type::TEXT)]).await?;
        let place = client.query_typed_one(CLOCK_AND_PLACE, &[]).await?.get(3);
        client.batch_execute("COMMIT").await?;
        Ok::<String, tokio_postgres::Error>(place)
    }))?;
    let place = place.map_err(|error| failure(&error))?;
    shared.epoch.store(epoch, Ordering::Release);
    *shared.place.lock() = Some(place);
    Ok(())
}

/// A restore in every collection, some at a time. What a crash leaves is done again, with a later epoch.
fn raise(shared: &Arc<Shared>, epoch: u64) -> Result<(), Error> {
    let mut writer = Postgres::of(shared.clone());
    writer.raises = true;
    let reader = writer.follower();
    let mut after = None;
    loop {
        let page = reader.collections(after.as_ref(), RESTORE_MAX)?;
        let Some((last, _)) = page.rows.last() else { return Ok(()) };
        after = Some(last.clone());
        let wants: Vec<Want> = page.rows.iter().map(|(key, _)| Want::of(key)).collect();
        let view = writer.load(&wants)?;
        let at_ms = view.clock_ms().unwrap_or(0);
        let entries = page
            .rows
            .iter()
            .map(|(key, _)| restore_entry(&view, key, epoch, view.now_ms(key).unwrap_or(at_ms)));
        let entries = entries.collect();
        writer.commit(Batch { at_ms, entries })?;
    }
}
