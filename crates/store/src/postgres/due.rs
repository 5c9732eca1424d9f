//! What happens elsewhere: what time it is, how far collections are, whose deadline comes.

use tenure_core::CollectionKey;
use tokio_postgres::types::{ToSql, Type};

use super::Shared;
use super::connect::failure;
use super::reader::{Query, key_of};
use super::rows::{page, uint};
use crate::limits::{BATCH_ROW_MS, TIDY_MAX};
use crate::read::{Due, Pulse};
use crate::{Error, Kept};

const CLOCK: &str = "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";
const HEADS: &str = "SELECT collection, seq FROM tenure.collections WHERE collection = ANY($1) AND seq > 0";
/// The clock is read in a query of its own: only then is it one value, by which an index can be searched.
pub const DUE: &str = "SELECT collection, number, expires_at_ms FROM tenure.claims \
     WHERE state = 0 AND expires_at_ms <= $1 + \
     coalesce($3, (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint)) \
     ORDER BY expires_at_ms LIMIT $2";

/// Some at a time, and none that another node is deleting just now.
const TIDY_REPLIES: &str = "DELETE FROM tenure.replies WHERE (collection, principal, key) IN \
     (SELECT collection, principal, key FROM tenure.replies WHERE at_ms < $1 ORDER BY at_ms LIMIT $2 \
      FOR UPDATE SKIP LOCKED)";
const TIDY_BATCHES: &str = "DELETE FROM tenure.batches WHERE (collection, id) IN \
     (SELECT collection, id FROM tenure.batches WHERE at_ms < $1 ORDER BY at_ms LIMIT $2 \
      FOR UPDATE SKIP LOCKED)";

/// Deletes replies whose day is over, and the rows of batches whose answers nobody looks for any more.
pub(super) fn tidy(shared: &Shared, now_ms: i64) -> Result<(), Error> {
    let link = &shared.link;
    link.wait(async {
        let client = link.connect().await?;
        for (sql, before_ms) in
            [(TIDY_REPLIES, now_ms - Kept::KEEP_MS), (TIDY_BATCHES, now_ms - BATCH_ROW_MS)]
        {
            let parameters: [(&(dyn ToSql + Sync), Type); 2] =
                [(&before_ms, Type::INT8), (&TIDY_MAX, Type::INT8)];
            link.in_time(client.execute_typed(sql, &parameters)).await?.map_err(|error| failure(&error))?;
        }
        Ok(())
    })
}

pub(super) fn pulse(
    shared: &Shared,
    watched: &[CollectionKey],
    ahead_ms: i64,
    limit: usize,
) -> Result<Pulse, Error> {
    let keys: Vec<&str> = watched.iter().map(CollectionKey::as_str).collect();
    let (limit, test_ms) = (page(limit), shared.link.options.test_ms());
    let answers = shared.read(&[
        Query {
            sql: DUE,
            parameters: vec![(&ahead_ms, Type::INT8), (&limit, Type::INT8), (&test_ms, Type::INT8)],
        },
        Query { sql: HEADS, parameters: vec![(&keys, Type::TEXT_ARRAY)] },
        // Last, so that what it says is nearest to when the answer arrives.
        Query { sql: CLOCK, parameters: Vec::new() },
    ])?;
    let [due, heads, clock] = &answers[..] else { unreachable!("three statements were sent") };
    let due = due
        .iter()
        .map(|row| Ok(Due { collection: key_of(row.get(0))?, claim: uint(row.get(1)), at_ms: row.get(2) }));
    let heads = heads.iter().map(|row| Ok((key_of(row.get(0))?, uint(row.get(1)))));
    Ok(Pulse {
        now_ms: test_ms.or_else(|| clock.first().map(|row| row.get(0))),
        heads: heads.collect::<Result<_, Error>>()?,
        due: due.collect::<Result<_, Error>>()?,
    })
}
