//! The second half of a batch: what was decided, in one pipeline, and what became of it when its answer is
//! lost.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use tenure_core::CollectionKey;
use tokio_postgres::types::Type;

use super::Postgres;
use super::columns::{Columns, Name};
use super::connect::{failure, is_certain};
use super::load::{begin, limits, lock};
use super::pipeline::{Pipeline, texts};
use super::session::Session;
use crate::limits::RESOLVE_PAUSE_MS;
use crate::{Batch, Error};

const FIND_BATCH: &str = "SELECT 1 FROM tenure.batches WHERE collection = $1 AND id = $2";
/// Heads that were made to be locked, and that no event came to.
const DROP_HEADS: &str = "DELETE FROM tenure.collections WHERE collection = ANY($1) AND seq = 0";
const PUT_TIME: &str = "UPDATE tenure.meta SET high_water_ms = greatest(high_water_ms, $1)";

/// What a commit came to.
enum Ended {
    Done,
    /// The server said no.
    Refused(Error),
    /// Nobody said anything.
    Unknown(String),
}

impl Postgres {
    pub(super) fn commit_batch(&mut self, batch: Batch) -> Result<(), Error> {
        let at_ms = batch.at_ms;
        if batch.entries.is_empty() {
            self.roll_back()?;
            return self.move_time(at_ms);
        }
        let stopped = |detail: &str| Error::Away { detail: detail.to_owned() };
        let open = self.open.take().ok_or_else(|| stopped("a batch was committed that was never begun"))?;
        let client = self.client.take().ok_or_else(|| stopped("its connection is gone"))?;
        // From here on the connection is given back only by what ends the transaction.
        if let Some(error) = open.failed.into_inner() {
            return Err(error);
        }
        let forgets = open.forgets;
        let mut locked = open.rows.into_inner().collections;
        let columns = Columns::of(batch, &locked);
        if let Some(other) = columns.touched.iter().find(|key| !locked.contains_key(*key)) {
            return Err(stopped(&format!("{other} was decided without being locked")));
        }
        let unused: Vec<&str> = locked
            .iter()
            .filter(|(key, held)| held.mark.head.is_none() && !columns.heads.contains_key(*key))
            .map(|(key, _)| key.as_str())
            .collect();
        let mut id = [0_u8; 16];
        super::fill_random(&mut id)?;
        let link = &self.shared.link;
        let ended = client.wait(async {
            let times = (at_ms, link.options.test_ms());
            match link.in_time(write(&client, &columns, times, &id, (forgets, &unused))).await {
                Ok(ended) => ended,
                Err(late) => Ended::Unknown(late.to_string()),
            }
        });
        let ended = match ended {
            Ended::Done => {
                self.client = Some(client);
                Ok(())
            }
            Ended::Refused(error) => Err(error),
            Ended::Unknown(detail) => {
                drop(client);
                self.resolve(&columns.touched, &id, &detail)
            }
        };
        if ended.is_ok() {
            self.shared.reached(at_ms);
            columns.leave_in(&mut locked, at_ms);
            self.keep_recent(locked);
            self.known.extend(columns.heads.into_keys());
        }
        ended
    }

    /// An empty batch: nothing but the time.
    fn move_time(&mut self, at_ms: i64) -> Result<(), Error> {
        let link = &self.shared.link;
        let client = match self.client.take().filter(|client| !client.is_over()) {
            Some(client) => client,
            None => Session::connect(link)?,
        };
        let moved = client.wait(link.in_time(client.execute_typed(PUT_TIME, &[(&at_ms, Type::INT8)])))?;
        moved.map_err(|error| failure(&error))?;
        self.client = Some(client);
        self.shared.reached(at_ms);
        Ok(())
    }

    /// The answer to a COMMIT was lost: whether it happened is asked of the database, never guessed. One of
    /// the locks is taken again first, so that a transaction that is still ending has ended: it held them all.
    fn resolve(
        &mut self,
        touched: &BTreeSet<CollectionKey>,
        id: &[u8; 16],
        detail: &str,
    ) -> Result<(), Error> {
        tracing::warn!(detail, "the answer to a commit was lost; looking for it");
        let until = Instant::now() + Duration::from_millis(self.shared.link.options.resolve_ms);
        let first = touched.first().map_or("", CollectionKey::as_str);
        loop {
            let link = &self.shared.link;
            let left = until.saturating_duration_since(Instant::now());
            let look = || {
                let client = Session::connect_within(link, left)?;
                let limits = limits(&link.options);
                let found = find(&client, &limits, first, id);
                let left = until.saturating_duration_since(Instant::now());
                let late = |_| Error::Away { detail: "it did not answer in time".to_owned() };
                let found = client.wait(async { tokio::time::timeout(left, link.in_time(found)).await });
                let found = found.map_err(late)???;
                Ok::<_, Error>((client, found))
            };
            let found = look();
            match found {
                Ok((client, found)) => {
                    self.client = Some(client);
                    let again = "its commit was lost with the connection".to_owned();
                    return if found { Ok(()) } else { Err(Error::Conflict { detail: again }) };
                }
                Err(error) if Instant::now() >= until => {
                    return Err(Error::Unknown { detail: format!("{detail}; then: {error}") });
                }
                Err(_) => std::thread::sleep(Duration::from_millis(RESOLVE_PAUSE_MS)),
            }
        }
    }
}

async fn find(session: &Session, limits: &[String; 2], first: &str, id: &[u8; 16]) -> Result<bool, Error> {
    let (keys, id) = ([first], &id[..]);
    let mut pipeline = Pipeline::on(session);
    begin(&mut pipeline, session, limits);
    lock(&mut pipeline, &keys, &keys);
    pipeline.typed(FIND_BATCH, [(&first, Type::TEXT), (&id, Type::BYTEA)]);
    pipeline.typed("ROLLBACK", []);
    let answers = pipeline.run().await.map_err(|error| failure(&error))?;
    Ok(answers.iter().rev().nth(1).is_some_and(|found| !found.is_empty()))
}

async fn write(
    session: &Session,
    columns: &Columns,
    (at_ms, test_ms): (i64, Option<i64>),
    id: &[u8; 16],
    (forgets, unused): (bool, &[&str]),
) -> Ended {
    let first = columns.touched.first().map_or("", CollectionKey::as_str);
    let mut pipeline = Pipeline::on(session);
    // Durability is what the database is set to, but never none.
    if forgets {
        pipeline.typed("SET LOCAL synchronous_commit = on", []);
    }
    columns.put(&mut pipeline, at_ms, Some(Name { collection: first, id: &id[..], test_ms }));
    if !unused.is_empty() {
        pipeline.columns(DROP_HEADS, [texts(unused.iter().copied())]);
    }
    pipeline.typed("COMMIT", []);
    match pipeline.run().await {
        Ok(_) => Ended::Done,
        Err(error) if is_certain(&error) => Ended::Refused(failure(&error)),
        Err(error) => Ended::Unknown(error.to_string()),
    }
}
