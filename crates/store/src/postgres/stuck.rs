//! Collections that somebody keeps locked for longer than is waited: a statement by hand, a node that hangs. A batch leaves
//! them out, so that nobody waits for or is refused with what is not its own. They are told apart from those that are
//! only busy by looking several times: where work goes on a head is free at times, or its turn moves. The next batch looks
//! once before it waits again.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tenure_core::CollectionKey;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use super::connect::{failure, is_ending};
use super::load::{MAKE_HEADS, begin};
use super::pipeline::{Pipeline, texts};
use super::session::Session;
use super::{Postgres, Shared};
use crate::limits::{KNOWN_HEADS_MAX, STUCK_LOCK_MS, STUCK_LOOKS, STUCK_MAKING_MS, STUCK_PAUSE_MS};
use crate::{Error, Map};

/// Heads that are there: their turns, and which of them nobody has locked.
const LOOK: &str = "WITH free AS MATERIALIZED (SELECT collection FROM tenure.collections \
       WHERE collection = ANY($1) FOR UPDATE SKIP LOCKED) \
     SELECT c.collection, c.turn, EXISTS (SELECT FROM free WHERE free.collection = c.collection) \
     FROM tenure.collections c WHERE c.collection = ANY($1)";
const WAIT_BRIEFLY: &str = "SELECT set_config('lock_timeout', $1, true)";

/// How a head was found that somebody had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// Nobody has looked yet.
    Never,
    /// Somebody was making it.
    BeingMade,
    /// Locked, at this turn.
    At(i64),
}

impl Postgres {
    /// Looks several times which of these somebody keeps.
    pub(super) fn find_stuck<'a>(
        &mut self,
        keys: impl Iterator<Item = &'a CollectionKey>,
    ) -> Result<(), Error> {
        self.keep_stuck(&keys.map(|key| (key.clone(), Seen::Never)).collect(), STUCK_LOOKS)
    }

    /// Looks once which of these are kept still.
    pub(super) fn find_still_stuck<'a>(
        &mut self,
        keys: impl Iterator<Item = &'a CollectionKey>,
    ) -> Result<(), Error> {
        if self.stuck.is_empty() {
            return Ok(());
        }
        let before: BTreeMap<_, _> =
            keys.filter_map(|key| Some((key.clone(), *self.stuck.get(key)?))).collect();
        if before.is_empty() { Ok(()) } else { self.keep_stuck(&before, 1) }
    }

    /// Of these those are stuck that nobody gets on with, however often one looks.
    fn keep_stuck(&mut self, suspects: &BTreeMap<CollectionKey, Seen>, looks: u32) -> Result<(), Error> {
        for key in suspects.keys() {
            self.stuck.remove(key);
        }
        let stuck = loop {
            let open_still = self.client.take().filter(|client| !client.is_over());
            let was_open = open_still.is_some();
            let session = if let Some(session) = open_still {
                session
            } else {
                // What was believed to be there may be gone with the connection's database.
                self.known.clear();
                Session::connect(&self.shared.link)?
            };
            let looked = session.wait(self.shared.link.in_time(look(&session, suspects.clone(), looks)))?;
            match looked {
                Ok(stuck) => {
                    self.client = Some(session);
                    break stuck;
                }
                // It broke while it was idle, and nobody had noticed. To look twice does no harm.
                Err(error) if was_open && (is_ending(&error) || session.is_over()) => drop(error),
                Err(error) => return Err(failure(&error)),
            }
        };
        if self.stuck.len() + stuck.len() > KNOWN_HEADS_MAX {
            self.stuck.clear();
        }
        self.shared.tell_of_stuck(&stuck);
        self.stuck.extend(stuck);
        Ok(())
    }
}

impl Shared {
    /// Only whoever looks after the database can let go of a lock, or end its owner.
    fn tell_of_stuck(&self, stuck: &BTreeMap<CollectionKey, Seen>) {
        let Some((first, _)) = stuck.first_key_value() else { return };
        if self.told_of_stuck.lock().is_due() {
            tracing::warn!(collection = %first, count = stuck.len(), "collections are locked by somebody else for longer \
                than is waited: callers there are refused, others are not");
        }
    }
}

/// Which of these somebody has in every look, without getting on.
async fn look(
    session: &Session,
    mut suspects: BTreeMap<CollectionKey, Seen>,
    looks: u32,
) -> Result<BTreeMap<CollectionKey, Seen>, tokio_postgres::Error> {
    for number in 0..looks {
        if number > 0 {
            tokio::time::sleep(Duration::from_millis(STUCK_PAUSE_MS << (number - 1))).await;
        }
        let names: Vec<&str> = suspects.keys().map(CollectionKey::as_str).collect();
        let taken = taken_now(session, &names).await?;
        suspects.retain(|key, before| {
            let Some(now) = taken.get(key.as_str()) else { return false };
            let was = std::mem::replace(before, *now);
            was == Seen::Never || was == *now
        });
        if suspects.is_empty() {
            break;
        }
    }
    Ok(suspects)
}

/// Which of these somebody has at this moment. Statements have no names here, which might mean something else behind a
/// pooler, and what stands behind one that fails is carried out all the same: each transaction ends.
async fn taken_now(session: &Session, names: &[&str]) -> Result<Map<String, Seen>, tokio_postgres::Error> {
    // Only a lock on the whole table is waited for: everything else is passed over.
    let limits = [STUCK_LOCK_MS.to_string(), STUCK_LOCK_MS.to_string()];
    let mut pipeline = Pipeline::new(session);
    begin(&mut pipeline, session, &limits);
    let at = pipeline.len();
    pipeline.typed(LOOK, [(&names, Type::TEXT_ARRAY)]);
    pipeline.typed("ROLLBACK", []);
    let answers = pipeline.run().await?;
    let mut found: Map<String, Option<Seen>> = Map::default();
    for row in &answers[at] {
        let is_free: bool = row.get(2);
        found.insert(row.get(0), (!is_free).then(|| Seen::At(row.get(1))));
    }
    let absent: Vec<&str> = names.iter().filter(|name| !found.contains_key(**name)).copied().collect();
    let being_made = being_made(session, &absent).await?;
    let taken = found.into_iter().filter_map(|(name, seen)| Some((name, seen?)));
    Ok(taken.chain(being_made.into_iter().map(|name| (name.to_owned(), Seen::BeingMade))).collect())
}

/// Which of these somebody is making: nobody sees that but who tries the same and has to wait. They are tried together,
/// and in halves where one of them is waited for.
async fn being_made<'a>(session: &Session, names: &[&'a str]) -> Result<Vec<&'a str>, tokio_postgres::Error> {
    let limits = [STUCK_LOCK_MS.to_string(), STUCK_LOCK_MS.to_string()];
    let (briefly, begun) = (STUCK_MAKING_MS.to_string(), Instant::now());
    let (mut being_made, mut parts): (Vec<&'a str>, _) = (Vec::new(), vec![names]);
    while let Some(part) = parts.pop() {
        if part.is_empty() {
            continue;
        }
        if begun.elapsed() > Duration::from_millis(STUCK_LOCK_MS) {
            // So many that to know each would take too long.
            being_made.extend(part);
            continue;
        }
        let mut pipeline = Pipeline::new(session);
        begin(&mut pipeline, session, &limits);
        pipeline.typed(WAIT_BRIEFLY, [(&briefly, Type::TEXT)]);
        pipeline.columns(MAKE_HEADS, [texts(part.iter().copied())]);
        pipeline.typed("ROLLBACK", []);
        match pipeline.run().await {
            Ok(_) => {}
            Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => match part {
                [one] => being_made.push(*one),
                _ => parts.extend(<[_; 2]>::from(part.split_at(part.len() / 2))),
            },
            Err(error) => return Err(error),
        }
    }
    Ok(being_made)
}
