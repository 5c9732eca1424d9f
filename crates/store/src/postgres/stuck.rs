//! Collections that somebody keeps locked for longer than is waited: a statement by hand, a node that hangs. A batch leaves
//! them out, so that nobody waits for or is refused with what is not its own. They are told apart from those that are
//! only busy by looking several times; the next batch looks once before it waits again.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use tenure_core::CollectionKey;
use tokio_postgres::types::Type;

use super::connect::failure;
use super::load::begin;
use super::pipeline::Pipeline;
use super::session::Session;
use super::{Postgres, Shared};
use crate::Error;
use crate::limits::{KNOWN_HEADS_MAX, STUCK_LOCK_MS, STUCK_PAUSE_MS, TOLD_AGAIN_MS};

/// Heads that are there and that somebody has locked. One that is not there yet is nobody's.
const LOCKED_NOW: &str = "WITH free AS MATERIALIZED (SELECT collection FROM tenure.collections \
       WHERE collection = ANY($1) FOR UPDATE SKIP LOCKED) \
     SELECT collection FROM tenure.collections \
     WHERE collection = ANY($1) AND NOT EXISTS (SELECT FROM free WHERE free.collection = collections.collection)";

impl Postgres {
    /// Leaves out of these collections what is locked, however often one looks. Answers what is left.
    pub(super) fn leave_out_stuck(
        &mut self,
        keys: &BTreeSet<CollectionKey>,
        looks: usize,
    ) -> Result<BTreeSet<CollectionKey>, Error> {
        let open_still = self.client.take().filter(|client| !client.is_over());
        let session = if let Some(session) = open_still {
            session
        } else {
            // What was believed to be there may be gone with the connection's database.
            self.known.clear();
            Session::connect(&self.shared.link)?
        };
        let mut stuck = keys.clone();
        for look in 0..looks {
            if look > 0 {
                std::thread::sleep(Duration::from_millis(STUCK_PAUSE_MS));
            }
            let names: Vec<&str> = stuck.iter().map(CollectionKey::as_str).collect();
            let link = &self.shared.link;
            let locked = session.wait(link.in_time(locked_now(&session, &names)))??;
            stuck.retain(|key| locked.contains(key.as_str()));
            if stuck.is_empty() {
                break;
            }
        }
        self.client = Some(session);
        let left = keys.difference(&stuck).cloned().collect();
        for key in keys {
            self.stuck.remove(key);
        }
        if self.stuck.len() + stuck.len() > KNOWN_HEADS_MAX {
            self.stuck.clear();
        }
        self.shared.tell_of_stuck(&stuck);
        self.stuck.extend(stuck);
        Ok(left)
    }
}

impl Shared {
    /// Only whoever looks after the database can let go of a lock, or end its owner.
    fn tell_of_stuck(&self, stuck: &BTreeSet<CollectionKey>) {
        let Some(first) = stuck.first() else { return };
        let mut told = self.told_of_stuck.lock();
        if told.is_none_or(|told| told.elapsed() >= Duration::from_millis(TOLD_AGAIN_MS)) {
            *told = Some(Instant::now());
            tracing::warn!(collection = %first, count = stuck.len(), "collections are locked by somebody else for longer \
                than is waited: callers there are refused, others are not");
        }
    }
}

/// Which of these somebody has locked at this moment.
async fn locked_now(session: &Session, names: &[&str]) -> Result<BTreeSet<String>, Error> {
    // Only a lock on the whole table is waited for: everything else is passed over.
    let limits = [STUCK_LOCK_MS.to_string(), STUCK_LOCK_MS.to_string()];
    let mut pipeline = Pipeline::on(session);
    begin(&mut pipeline, session, &limits);
    let at = pipeline.len();
    pipeline.typed(LOCKED_NOW, [(&names, Type::TEXT_ARRAY)]);
    pipeline.typed("ROLLBACK", []);
    let answers = pipeline.run().await.map_err(|error| failure(&error))?;
    Ok(answers[at].iter().map(|row| row.get(0)).collect())
}
