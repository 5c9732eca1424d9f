//! What happens elsewhere: what time it is, how far collections are, whose deadline comes.

use std::sync::atomic::Ordering;

use tenure_core::CollectionKey;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::Shared;
use super::load::CLOCK;
use super::reader::{Query, key_of};
use super::rows::{page, uint};
use crate::Error;
use crate::read::{Due, Pulse};

const HEADS: &str = "SELECT collection, seq FROM tenure.collections WHERE collection = ANY($1) AND seq > 0";
/// The clock is read in a query of its own: only then is it one value, by which an index can be searched.
pub(super) const DUE: &str = "SELECT collection, number, expires_at_ms FROM tenure.claims \
     WHERE state = 0 AND expires_at_ms <= $1 + \
     coalesce($3, (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint)) \
     ORDER BY expires_at_ms LIMIT $2";

pub(super) fn pulse(
    shared: &Shared,
    read: impl Fn(&[Query<'_>]) -> Result<Vec<Vec<Row>>, Error>,
    watched: &[CollectionKey],
    ahead_ms: i64,
    limit: usize,
) -> Result<Pulse, Error> {
    let keys: Vec<&str> = watched.iter().map(CollectionKey::as_str).collect();
    let (limit, test_ms) = (page(limit), shared.link.options.test_ms());
    let answers = read(&[
        Query {
            sql: DUE,
            parameters: vec![(&ahead_ms, Type::INT8), (&limit, Type::INT8), (&test_ms, Type::INT8)],
        },
        Query { sql: HEADS, parameters: vec![(&keys, Type::TEXT_ARRAY)] },
        Query { sql: "SELECT epoch FROM tenure.meta", parameters: Vec::new() },
        // Last, so that what it says is nearest to when the answer arrives.
        Query { sql: CLOCK, parameters: Vec::new() },
    ])?;
    let [due, heads, epoch, clock] = &answers[..] else { unreachable!("four statements were sent") };
    // Another node may have begun one.
    if let Some(row) = epoch.first() {
        shared.epoch.fetch_max(uint(row.get(0)), Ordering::AcqRel);
    }
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
