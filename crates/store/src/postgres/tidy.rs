//! Deleting what nobody needs any more: replies whose day is over, and the rows of batches whose answers
//! nobody looks for. By the database's clock alone: a node's, or a collection's that is ahead, would delete what
//! others still need.

use tokio_postgres::Client;
use tokio_postgres::types::Type;

use super::Shared;
use super::connect::failure;
use super::load::CLOCK;
use super::pipeline::Pipeline;
use crate::limits::{BATCH_ROW_MS, TIDY_MAX};
use crate::{Error, Kept};

/// Some at a time, the oldest, and none that another node is deleting just now.
fn slice_of(table: &str) -> String {
    format!(
        "DELETE FROM tenure.{table} WHERE ctid = ANY (ARRAY (SELECT ctid FROM tenure.{table} \
         WHERE at_ms < coalesce($3, ({CLOCK})) - $1 ORDER BY at_ms LIMIT $2 FOR UPDATE SKIP LOCKED)) RETURNING 1"
    )
}

/// Deletes a slice of each. Answers whether there may be more; the connection stays only as long.
pub(super) fn tidy(shared: &Shared, kept: &mut Option<Client>) -> Result<bool, Error> {
    let link = &shared.link;
    let statement_ms = link.options.statement_ms;
    let (begin, test_ms) =
        (format!("BEGIN; SET LOCAL statement_timeout = {statement_ms}"), link.options.test_ms());
    let client = match kept.take().filter(|client| !client.is_closed()) {
        Some(client) => client,
        None => link.wait(link.connect())?,
    };
    let mut more = false;
    for (table, keep_ms) in [("replies", Kept::KEEP_MS), ("batches", BATCH_ROW_MS)] {
        let sql = slice_of(table);
        let mut pipeline = Pipeline::new(&client);
        pipeline.plain(&begin);
        pipeline.typed(&sql, [(&keep_ms, Type::INT8), (&TIDY_MAX, Type::INT8), (&test_ms, Type::INT8)]);
        pipeline.plain("COMMIT");
        let answers = link.wait(link.in_time(pipeline.run()))?.map_err(|error| failure(&error))?;
        more |= answers[1].len() >= usize::try_from(TIDY_MAX).unwrap_or(usize::MAX);
    }
    *kept = more.then_some(client);
    Ok(more)
}
