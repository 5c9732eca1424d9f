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
use tokio_postgres::types::Type;

use super::connect::failure;
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

/// Looks which history this is, where the database can tell.
pub(super) fn begin(shared: &Arc<Shared>, client: &Client) -> Result<(), Error> {
    let link = &shared.link;
    match link.wait(link.in_time(client.query_typed_one(HERE, &[])))? {
        Ok(_) => settle(shared),
        // Functions that it does not have, or not for this user.
        Err(error) if error.code().is_some_and(|code| matches!(&code.code()[..2], "0A" | "42" | "55")) => {
            tracing::warn!(%error, "this database does not tell its timeline: after a takeover that lost commits \
                tokens may repeat");
            Ok(())
        }
        Err(error) => Err(failure(&error)),
    }
}

/// The row is written anew by this transaction, if it was written by the one that it names.
pub(super) const STAMP_AGAIN: &str =
    "UPDATE tenure.place SET written = pg_current_xact_id()::xid WHERE written = xmin";

/// Takes over the history that is kept, and begins an epoch where the data is of another.
pub(super) fn settle(shared: &Arc<Shared>) -> Result<(), Error> {
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
        let row = link.in_time(row).await?.map_err(|error| failure(&error))?;
        Ok::<_, Error>((client, row))
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
        let keep = "UPDATE tenure.place SET place = $1, written = pg_current_xact_id()::xid \
                    WHERE (place, written) IS DISTINCT FROM ($1, xmin)";
        client.execute_typed(keep, &[(&here, Type::TEXT)]).await?;
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
