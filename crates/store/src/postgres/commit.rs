//! The second half of a batch: what was decided, in one pipeline, and what became of it when its answer is
//! lost.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tenure_core::{Claim, Collection, CollectionKey, Item, ItemId, Policy, Sealed};
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use super::Postgres;
use super::connect::{failure, is_certain};
use super::load::{Held, begin_sql, lock};
use super::pipeline::{Column, Pipeline, bodies, bytes, numbers, texts};
use super::rows::{encode, int, items_text, state_code};
use super::session::{Session, Typed};
use crate::limits::RESOLVE_PAUSE_MS;
use crate::{Batch, Error, Kept, Map, ReplyKey};

const PUT_HEADS: &str = "UPDATE tenure.collections c \
     SET seq = w.seq, hash = w.hash, created_at_ms = w.created_at_ms, at_ms = greatest(c.at_ms, $5), \
     turn = c.turn + 1 \
     FROM unnest($1, $2, $3, $4) AS w (collection, seq, hash, created_at_ms) WHERE c.collection = w.collection";
/// Heartbeats and kept replies bring no event, but a collection's time goes on with them, and its turn.
const PUT_TIMES: &str = "UPDATE tenure.collections SET at_ms = greatest(at_ms, $2), turn = turn + 1 \
     WHERE collection = ANY($1) AND seq > 0";
const PUT_EVENTS: &str = "INSERT INTO tenure.events (collection, seq, at_ms, actor, action, items, hash, bytes) \
     SELECT * FROM unnest($1, $2, $3, $4, $5, $6, $7, $8)";
const PUT_ITEMS: &str = "INSERT INTO tenure.items (collection, id, status, claim, body) \
     SELECT * FROM unnest($1, $2, $3, $4, $5) \
     ON CONFLICT (collection, id) DO UPDATE SET status = excluded.status, claim = excluded.claim, body = excluded.body";
const DELETE_ITEMS: &str = "DELETE FROM tenure.items i USING unnest($1, $2) AS w (collection, id) \
     WHERE i.collection = w.collection AND i.id = w.id";
const PUT_CLAIMS: &str = "INSERT INTO tenure.claims (collection, number, holder, state, expires_at_ms, body) \
     SELECT * FROM unnest($1, $2, $3, $4, $5, $6) \
     ON CONFLICT (collection, number) DO UPDATE \
     SET state = excluded.state, expires_at_ms = excluded.expires_at_ms, body = excluded.body";
/// Of claims that this very batch granted: there is nothing to look for. Were there something, nothing is written.
const NEW_CLAIMS: &str = "INSERT INTO tenure.claims (collection, number, holder, state, expires_at_ms, body) \
     SELECT * FROM unnest($1, $2, $3, $4, $5, $6)";
const PUT_POLICIES: &str = "INSERT INTO tenure.policies (kind, body) SELECT * FROM unnest($1, $2) \
     ON CONFLICT (kind) DO UPDATE SET body = excluded.body";
const PUT_REPLIES: &str = "INSERT INTO tenure.replies (collection, principal, key, at_ms, body) \
     SELECT * FROM unnest($1, $2, $3, $4, $5) \
     ON CONFLICT (collection, principal, key) DO UPDATE SET at_ms = excluded.at_ms, body = excluded.body";
/// With the clock's time, and not that of a collection, which may be ahead: by it the row is deleted.
const PUT_BATCH: &str = "INSERT INTO tenure.batches (collection, id, at_ms) VALUES \
     ($1, $2, coalesce($3, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint))";
const FIND_BATCH: &str = "SELECT 1 FROM tenure.batches WHERE collection = $1 AND id = $2";
/// Heads that were made to be locked, and that no event came to.
const DROP_HEADS: &str = "DELETE FROM tenure.collections WHERE collection = ANY($1) AND seq = 0";
const PUT_TIME: &str = "UPDATE tenure.meta SET high_water_ms = greatest(high_water_ms, $1)";

const OF_CLAIMS: &[Type] = &[
    Type::TEXT_ARRAY,
    Type::INT8_ARRAY,
    Type::TEXT_ARRAY,
    Type::INT2_ARRAY,
    Type::INT8_ARRAY,
    Type::BYTEA_ARRAY,
];

/// What most batches write, planned once for each connection.
pub(super) const PREPARED: &[Typed] = &[
    (PUT_HEADS, &[Type::TEXT_ARRAY, Type::INT8_ARRAY, Type::BYTEA_ARRAY, Type::INT8_ARRAY, Type::INT8]),
    (PUT_TIMES, &[Type::TEXT_ARRAY, Type::INT8]),
    (
        PUT_EVENTS,
        &[
            Type::TEXT_ARRAY,
            Type::INT8_ARRAY,
            Type::INT8_ARRAY,
            Type::TEXT_ARRAY,
            Type::TEXT_ARRAY,
            Type::TEXT_ARRAY,
            Type::BYTEA_ARRAY,
            Type::BYTEA_ARRAY,
        ],
    ),
    (PUT_ITEMS, &[Type::TEXT_ARRAY, Type::TEXT_ARRAY, Type::TEXT_ARRAY, Type::INT8_ARRAY, Type::BYTEA_ARRAY]),
    (PUT_CLAIMS, OF_CLAIMS),
    (NEW_CLAIMS, OF_CLAIMS),
    (
        PUT_REPLIES,
        &[Type::TEXT_ARRAY, Type::TEXT_ARRAY, Type::TEXT_ARRAY, Type::INT8_ARRAY, Type::BYTEA_ARRAY],
    ),
    (PUT_BATCH, &[Type::TEXT, Type::BYTEA, Type::INT8]),
];

/// A batch as columns: of each row only what it is in the end, since a statement may touch it once.
#[derive(Default)]
pub(super) struct Columns {
    pub(super) heads: BTreeMap<CollectionKey, Arc<Collection>>,
    pub(super) items: BTreeMap<(CollectionKey, ItemId), Option<Arc<Item>>>,
    pub(super) claims: BTreeMap<(CollectionKey, u64), Arc<Claim>>,
    /// Those that nobody has seen yet.
    new_claims: BTreeMap<(CollectionKey, u64), Arc<Claim>>,
    pub(super) policies: BTreeMap<Arc<str>, Arc<Policy>>,
    pub(super) replies: BTreeMap<ReplyKey, Arc<Kept>>,
    pub(super) events: Vec<(CollectionKey, Arc<Sealed>)>,
    pub(super) touched: BTreeSet<CollectionKey>,
}

impl Columns {
    fn of(batch: Batch, locked: &Map<CollectionKey, Held>) -> Self {
        let mut columns = Self::default();
        for entry in batch.entries {
            let key = entry.collection;
            columns.touched.insert(key.clone());
            if let Some(head) = entry.changed.collection {
                columns.heads.insert(key.clone(), head);
            }
            for (id, item) in entry.changed.items {
                columns.items.insert((key.clone(), id), item);
            }
            // A claim's number is that of the event that granted it.
            let newest = locked.get(&key).and_then(|held| held.mark.head.as_ref()).map_or(0, |head| head.seq);
            for claim in entry.changed.claims {
                let is_new = claim.number > newest;
                let claims = if is_new { &mut columns.new_claims } else { &mut columns.claims };
                claims.insert((key.clone(), claim.number), claim);
            }
            columns.policies.extend(entry.changed.policies);
            columns.replies.extend(entry.kept);
            columns.events.extend(entry.events.into_iter().map(|sealed| (key.clone(), sealed)));
        }
        columns
    }

    /// What was read, as it is once this is committed.
    fn leave_in(&self, locked: &mut Map<CollectionKey, Held>, at_ms: i64) {
        for key in &self.touched {
            let Some(Held { mark, .. }) = locked.get_mut(key) else { continue };
            mark.head = self.heads.get(key).cloned().or(mark.head.take());
            mark.at_ms = mark.at_ms.max(at_ms);
            mark.turn += 1;
        }
        for ((key, id), item) in &self.items {
            let Some(held) = locked.get_mut(key) else { continue };
            held.rows.put_item(id.clone(), item.clone());
        }
        for ((key, number), claim) in self.claims.iter().chain(&self.new_claims) {
            let Some(held) = locked.get_mut(key) else { continue };
            held.rows.put_claim(*number, Some(claim.clone()));
        }
    }
}

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
        let ended = link.wait(async {
            let times = (at_ms, link.options.test_ms());
            match link.in_time(write(&client, &columns, times, &id, &unused)).await {
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
        let client = match self.client.take().filter(|client| !client.is_closed()) {
            Some(client) => client,
            None => link.wait(link.connect())?.into(),
        };
        let moved = link.wait(link.in_time(client.execute_typed(PUT_TIME, &[(&at_ms, Type::INT8)])))?;
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
            let late = |_| Error::Away { detail: "it did not answer in time".to_owned() };
            let found = link.wait(async {
                let look = async {
                    let client = link.connect().await?;
                    let found = link.in_time(find(&client, &begin_sql(&link.options), first, id)).await??;
                    Ok::<_, Error>((Session::from(client), found))
                };
                tokio::time::timeout(left, look).await.map_err(late)?
            });
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

async fn find(client: &Client, begin: &str, first: &str, id: &[u8; 16]) -> Result<bool, Error> {
    let (keys, id) = ([first], &id[..]);
    let mut pipeline = Pipeline::new(client);
    pipeline.plain(begin);
    lock(&mut pipeline, &keys, &keys);
    pipeline.typed(FIND_BATCH, [(&first, Type::TEXT), (&id, Type::BYTEA)]);
    pipeline.plain("ROLLBACK");
    let answers = pipeline.run().await.map_err(|error| failure(&error))?;
    Ok(answers.iter().rev().nth(1).is_some_and(|found| !found.is_empty()))
}

async fn write(
    session: &Session,
    columns: &Columns,
    (at_ms, test_ms): (i64, Option<i64>),
    id: &[u8; 16],
    unused: &[&str],
) -> Ended {
    let first = columns.touched.first().map_or("", CollectionKey::as_str);
    let id = &id[..];
    let mut pipeline = Pipeline::on(session);
    columns.put(&mut pipeline, at_ms);
    pipeline.typed(PUT_BATCH, [(&first, Type::TEXT), (&id, Type::BYTEA), (&test_ms, Type::INT8)]);
    if !unused.is_empty() {
        pipeline.columns(DROP_HEADS, [texts(unused.iter().copied())]);
    }
    pipeline.plain("COMMIT");
    match pipeline.run().await {
        Ok(_) => Ended::Done,
        Err(error) if is_certain(&error) => Ended::Refused(failure(&error)),
        Err(error) => Ended::Unknown(error.to_string()),
    }
}

/// One statement each, and none where there is nothing to write.
impl Columns {
    /// All of them. Heads must be there already.
    pub(super) fn put<'a>(&'a self, pipeline: &mut Pipeline<'a>, at_ms: i64) {
        self.put_heads(pipeline, at_ms);
        self.put_events(pipeline);
        self.put_items(pipeline);
        self.put_claims(pipeline);
        self.put_policies(pipeline);
        self.put_replies(pipeline);
    }

    fn put_heads<'a>(&'a self, pipeline: &mut Pipeline<'a>, at_ms: i64) {
        let heads = &self.heads;
        let time = || (Box::new(at_ms) as Box<_>, Type::INT8);
        if !heads.is_empty() {
            let columns = [
                texts(heads.keys().map(CollectionKey::as_str)),
                numbers(heads.values().map(|head| int(head.seq))),
                bytes(heads.values().map(|head| &head.hash.0[..])),
                numbers(heads.values().map(|head| head.created_at_ms)),
                time(),
            ];
            pipeline.columns(PUT_HEADS, columns);
        }
        let quiet = || self.touched.iter().filter(|key| !heads.contains_key(*key)).map(CollectionKey::as_str);
        if quiet().next().is_some() {
            pipeline.columns(PUT_TIMES, [texts(quiet()), time()]);
        }
    }

    fn put_events<'a>(&'a self, pipeline: &mut Pipeline<'a>) {
        if self.events.is_empty() {
            return;
        }
        let events = || self.events.iter().map(|(_, sealed)| sealed);
        let named =
            events().map(|sealed| items_text(sealed.event.fact.items().into_iter().map(ItemId::as_str)));
        let named: Column<'_> = (Box::new(named.collect::<Vec<_>>()), Type::TEXT_ARRAY);
        let columns = [
            texts(self.events.iter().map(|(key, _)| key.as_str())),
            numbers(events().map(|sealed| int(sealed.event.seq))),
            numbers(events().map(|sealed| sealed.event.at_ms)),
            texts(events().map(|sealed| &*sealed.event.actor.id)),
            texts(events().map(|sealed| sealed.event.fact.action())),
            named,
            bytes(events().map(|sealed| &sealed.hash.0[..])),
            bytes(events().map(|sealed| &sealed.bytes[..])),
        ];
        pipeline.columns(PUT_EVENTS, columns);
    }

    fn put_items<'a>(&'a self, pipeline: &mut Pipeline<'a>) {
        let gone = || self.items.iter().filter(|(_, item)| item.is_none()).map(|(place, _)| place);
        if gone().next().is_some() {
            let columns =
                [texts(gone().map(|(key, _)| key.as_str())), texts(gone().map(|(_, id)| id.as_str()))];
            pipeline.columns(DELETE_ITEMS, columns);
        }
        let put = || self.items.iter().filter_map(|((key, _), item)| Some((key, item.as_deref()?)));
        if put().next().is_some() {
            let columns = [
                texts(put().map(|(key, _)| key.as_str())),
                texts(put().map(|(_, item)| item.id.as_str())),
                texts(put().map(|(_, item)| item.status.as_str())),
                numbers(put().map(|(_, item)| int(item.claim))),
                bodies(put().map(|(_, item)| encode(item))),
            ];
            pipeline.columns(PUT_ITEMS, columns);
        }
    }

    fn put_claims<'a>(&'a self, pipeline: &mut Pipeline<'a>) {
        for (sql, claims) in [(NEW_CLAIMS, &self.new_claims), (PUT_CLAIMS, &self.claims)] {
            if claims.is_empty() {
                continue;
            }
            let states: Vec<i16> = claims.values().map(|claim| state_code(claim.state)).collect();
            let columns = [
                texts(claims.keys().map(|(key, _)| key.as_str())),
                numbers(claims.values().map(|claim| int(claim.number))),
                texts(claims.values().map(|claim| &*claim.holder.id)),
                (Box::new(states) as Box<_>, Type::INT2_ARRAY),
                numbers(claims.values().map(|claim| claim.expires_at_ms)),
                bodies(claims.values().map(|claim| encode(&**claim))),
            ];
            pipeline.columns(sql, columns);
        }
    }

    fn put_policies<'a>(&'a self, pipeline: &mut Pipeline<'a>) {
        if self.policies.is_empty() {
            return;
        }
        let encode = |policy| serde_json::to_string(policy).expect("a policy always encodes");
        let policies: Vec<String> = self.policies.values().map(encode).collect();
        let columns = [
            texts(self.policies.keys().map(|kind| &**kind)),
            (Box::new(policies) as Box<_>, Type::TEXT_ARRAY),
        ];
        pipeline.columns(PUT_POLICIES, columns);
    }

    fn put_replies<'a>(&'a self, pipeline: &mut Pipeline<'a>) {
        if self.replies.is_empty() {
            return;
        }
        let keys = || self.replies.keys();
        let columns = [
            texts(keys().map(|reply| reply.collection.as_str())),
            texts(keys().map(|reply| &*reply.principal)),
            texts(keys().map(|reply| &*reply.key)),
            numbers(self.replies.values().map(|kept| kept.at_ms)),
            bodies(self.replies.values().map(|kept| encode(&**kept))),
        ];
        pipeline.columns(PUT_REPLIES, columns);
    }
}
