//! A batch as columns: one statement for each table and way of writing it, whatever the batch consists of.
//!
//! What was read under the lock tells whether a row is there, so most are written without looking for them first: a
//! row that is there is updated, and one that is not is inserted. If that were not so nothing of the batch is written.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tenure_core::{Claim, Collection, CollectionKey, Item, ItemId, Policy, Sealed, Text};
use tokio_postgres::types::Type;

use super::load::Held;
use super::pipeline::{Column, Pipeline, bodies, bytes, numbers, texts};
use super::rows::{encode, int, items_text, state_code};
use super::session::Typed;
use crate::{Batch, Kept, Map, ReplyKey};

/// What nearly every batch writes, at once: each statement costs an answer of its own, and somebody who wakes for it.
/// The batch's own row is there with the clock's time, and not that of a collection, which may be ahead: by it the row
/// is deleted. Claims are those that this very batch granted; were one there already, nothing is written.
const PUT_BATCH: &str = "WITH heads AS (UPDATE tenure.collections c \
           SET seq = w.seq, hash = w.hash, created_at_ms = w.created_at_ms, at_ms = greatest(c.at_ms, $5), \
           turn = c.turn + 1 FROM unnest($1, $2, $3, $4) AS w (collection, seq, hash, created_at_ms) \
           WHERE c.collection = w.collection), \
     events AS (INSERT INTO tenure.events (collection, seq, at_ms, actor, action, items, hash, bytes) \
           SELECT * FROM unnest($6, $7, $8, $9, $10, $11, $12, $13)), \
     claims AS (INSERT INTO tenure.claims (collection, number, holder, state, expires_at_ms, body) \
           SELECT * FROM unnest($14, $15, $16, $17, $18, $19)) \
     INSERT INTO tenure.batches (collection, id, at_ms) \
     SELECT w.collection, w.id, coalesce($22, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) \
     FROM unnest($20, $21) AS w (collection, id)";
/// Heartbeats and kept replies bring no event, but a collection's time goes on with them, and its turn.
const PUT_TIMES: &str = "UPDATE tenure.collections SET at_ms = greatest(at_ms, $2), turn = turn + 1 \
     WHERE collection = ANY($1) AND seq > 0";
const NEW_ITEMS: &str = "INSERT INTO tenure.items (collection, id, status, claim, body) \
     SELECT * FROM unnest($1, $2, $3, $4, $5)";
/// Divides by nothing, and so ends the transaction, if one of them is not there.
const CHANGE_ITEMS: &str = "WITH changed AS (UPDATE tenure.items i \
           SET status = w.status, claim = w.claim, body = w.body \
           FROM unnest($1, $2, $3, $4, $5) AS w (collection, id, status, claim, body) \
           WHERE i.collection = w.collection AND i.id = w.id RETURNING 1) \
     SELECT 1 / CASE WHEN count(*) = cardinality($1) THEN 1 ELSE 0 END FROM changed";
const PUT_ITEMS: &str = "INSERT INTO tenure.items (collection, id, status, claim, body) \
     SELECT * FROM unnest($1, $2, $3, $4, $5) \
     ON CONFLICT (collection, id) DO UPDATE SET status = excluded.status, claim = excluded.claim, body = excluded.body";
const DELETE_ITEMS: &str = "DELETE FROM tenure.items i USING unnest($1, $2) AS w (collection, id) \
     WHERE i.collection = w.collection AND i.id = w.id";
/// As items are. Who holds a claim never changes.
const CHANGE_CLAIMS: &str = "WITH changed AS (UPDATE tenure.claims c \
           SET state = w.state, expires_at_ms = w.expires_at_ms, body = w.body \
           FROM unnest($1, $2, $3, $4, $5, $6) AS w (collection, number, holder, state, expires_at_ms, body) \
           WHERE c.collection = w.collection AND c.number = w.number RETURNING 1) \
     SELECT 1 / CASE WHEN count(*) = cardinality($1) THEN 1 ELSE 0 END FROM changed";
const PUT_CLAIMS: &str = "INSERT INTO tenure.claims (collection, number, holder, state, expires_at_ms, body) \
     SELECT * FROM unnest($1, $2, $3, $4, $5, $6) \
     ON CONFLICT (collection, number) DO UPDATE \
     SET state = excluded.state, expires_at_ms = excluded.expires_at_ms, body = excluded.body";
const PUT_POLICIES: &str = "INSERT INTO tenure.policies (kind, body) SELECT * FROM unnest($1, $2) \
     ON CONFLICT (kind) DO UPDATE SET body = excluded.body";
const PUT_REPLIES: &str = "INSERT INTO tenure.replies (collection, principal, key, at_ms, body) \
     SELECT * FROM unnest($1, $2, $3, $4, $5) \
     ON CONFLICT (collection, principal, key) DO UPDATE SET at_ms = excluded.at_ms, body = excluded.body";
const OF_ITEMS: &[Type] =
    &[Type::TEXT_ARRAY, Type::TEXT_ARRAY, Type::TEXT_ARRAY, Type::INT8_ARRAY, Type::BYTEA_ARRAY];
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
    (
        PUT_BATCH,
        &[
            // Heads.
            Type::TEXT_ARRAY,
            Type::INT8_ARRAY,
            Type::BYTEA_ARRAY,
            Type::INT8_ARRAY,
            Type::INT8,
            // Events.
            Type::TEXT_ARRAY,
            Type::INT8_ARRAY,
            Type::INT8_ARRAY,
            Type::TEXT_ARRAY,
            Type::TEXT_ARRAY,
            Type::TEXT_ARRAY,
            Type::BYTEA_ARRAY,
            Type::BYTEA_ARRAY,
            // Claims.
            Type::TEXT_ARRAY,
            Type::INT8_ARRAY,
            Type::TEXT_ARRAY,
            Type::INT2_ARRAY,
            Type::INT8_ARRAY,
            Type::BYTEA_ARRAY,
            // Its own row.
            Type::TEXT_ARRAY,
            Type::BYTEA_ARRAY,
            Type::INT8,
        ],
    ),
    (PUT_TIMES, &[Type::TEXT_ARRAY, Type::INT8]),
    (NEW_ITEMS, OF_ITEMS),
    (CHANGE_ITEMS, OF_ITEMS),
    (CHANGE_CLAIMS, OF_CLAIMS),
    (
        PUT_REPLIES,
        &[Type::TEXT_ARRAY, Type::TEXT_ARRAY, Type::TEXT_ARRAY, Type::INT8_ARRAY, Type::BYTEA_ARRAY],
    ),
];

/// What is known of a row before it is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Was {
    /// Nobody looked.
    #[default]
    Unknown,
    Absent,
    There,
}

impl Was {
    /// By what was read under the lock.
    fn read<T>(row: Option<&Option<T>>) -> Self {
        match row {
            None => Self::Unknown,
            Some(None) => Self::Absent,
            Some(Some(_)) => Self::There,
        }
    }
}

/// What is written, and what is known of it.
type Written<T> = (Was, T);

/// A batch as columns: of each row only what it is in the end, since a statement may touch it once.
#[derive(Default)]
pub(super) struct Columns {
    pub(super) heads: BTreeMap<CollectionKey, Arc<Collection>>,
    pub(super) items: BTreeMap<(CollectionKey, ItemId), Written<Option<Arc<Item>>>>,
    pub(super) claims: BTreeMap<(CollectionKey, u64), Written<Arc<Claim>>>,
    pub(super) policies: BTreeMap<Text, Arc<Policy>>,
    pub(super) replies: BTreeMap<ReplyKey, Arc<Kept>>,
    pub(super) events: Vec<(CollectionKey, Arc<Sealed>)>,
    pub(super) touched: BTreeSet<CollectionKey>,
}

impl Columns {
    pub(super) fn of(batch: Batch, locked: &Map<CollectionKey, Held>) -> Self {
        let mut columns = Self::default();
        for entry in batch.entries {
            let key = entry.collection;
            let held = locked.get(&key);
            if let Some(head) = entry.changed.collection {
                columns.heads.insert(key.clone(), head);
            }
            for (id, item) in entry.changed.items {
                let was = Was::read(held.and_then(|held| held.rows.item(id.as_str())));
                columns.items.insert((key.clone(), id), (was, item));
            }
            // A claim's number is that of the event that granted it.
            let newest = held.and_then(|held| held.mark.head.as_ref()).map_or(0, |head| head.seq);
            for claim in entry.changed.claims {
                let is_new = claim.number > newest;
                let read = held.and_then(|held| held.rows.claim(claim.number));
                let was = if is_new { Was::Absent } else { Was::read(read) };
                columns.claims.insert((key.clone(), claim.number), (was, claim));
            }
            columns.policies.extend(entry.changed.policies);
            columns.replies.extend(entry.kept);
            columns.events.extend(entry.events.into_iter().map(|sealed| (key.clone(), sealed)));
            columns.touched.insert(key);
        }
        columns
    }

    /// What was read, as it is once this is committed.
    pub(super) fn leave_in(&self, locked: &mut Map<CollectionKey, Held>, at_ms: i64) {
        for key in &self.touched {
            let Some(Held { mark, .. }) = locked.get_mut(key) else { continue };
            mark.head = self.heads.get(key).cloned().or(mark.head.take());
            mark.at_ms = mark.at_ms.max(at_ms);
            mark.turn += 1;
        }
        for ((key, id), (_, item)) in &self.items {
            let Some(held) = locked.get_mut(key) else { continue };
            held.rows.put_item(id.clone(), item.clone());
        }
        for ((key, number), (_, claim)) in &self.claims {
            let Some(held) = locked.get_mut(key) else { continue };
            held.rows.put_claim(*number, Some(claim.clone()));
        }
    }
}

/// What a batch is known by, should its answer be lost.
#[derive(Clone, Copy)]
pub(super) struct Name<'a> {
    pub(super) collection: &'a str,
    pub(super) id: &'a [u8],
    /// A test's time.
    pub(super) test_ms: Option<i64>,
}

impl Columns {
    /// All of them. Heads must be there already. A copy has no name.
    pub(super) fn put<'a>(&'a self, pipeline: &mut Pipeline<'a>, at_ms: i64, name: Option<Name<'a>>) {
        self.put_batch(pipeline, at_ms, name);
        self.put_items(pipeline);
        self.put_claims(pipeline);
        self.put_policies(pipeline);
        self.put_replies(pipeline);
    }

    fn put_batch<'a>(&'a self, pipeline: &mut Pipeline<'a>, at_ms: i64, name: Option<Name<'a>>) {
        let heads = &self.heads;
        let quiet = || self.touched.iter().filter(|key| !heads.contains_key(*key)).map(CollectionKey::as_str);
        if quiet().next().is_some() {
            pipeline.columns(PUT_TIMES, [texts(quiet()), number(at_ms)]);
        }
        let events = || self.events.iter().map(|(_, sealed)| sealed);
        let named =
            events().map(|sealed| items_text(sealed.event.fact.items().into_iter().map(ItemId::as_str)));
        let named: Column<'_> = (Box::new(named.collect::<Vec<_>>()), Type::TEXT_ARRAY);
        let [c1, c2, c3, c4, c5, c6] = of_claims(&self.claims_that(Was::Absent));
        let columns = [
            texts(heads.keys().map(CollectionKey::as_str)),
            numbers(heads.values().map(|head| int(head.seq))),
            bytes(heads.values().map(|head| &head.hash.0[..])),
            numbers(heads.values().map(|head| head.created_at_ms)),
            number(at_ms),
            texts(self.events.iter().map(|(key, _)| key.as_str())),
            numbers(events().map(|sealed| int(sealed.event.seq))),
            numbers(events().map(|sealed| sealed.event.at_ms)),
            texts(events().map(|sealed| &*sealed.event.actor.id)),
            texts(events().map(|sealed| sealed.event.fact.action())),
            named,
            bytes(events().map(|sealed| &sealed.hash.0[..])),
            bytes(events().map(|sealed| &sealed.bytes[..])),
            c1,
            c2,
            c3,
            c4,
            c5,
            c6,
            texts(name.iter().map(|name| name.collection)),
            bytes(name.iter().map(|name| name.id)),
            (Box::new(name.and_then(|name| name.test_ms)), Type::INT8),
        ];
        pipeline.columns(PUT_BATCH, columns);
    }

    fn claims_that(&self, so: Was) -> Vec<(&str, &Claim)> {
        let claims = self.claims.iter().filter(|(_, (was, _))| *was == so);
        claims.map(|((key, _), (_, claim))| (key.as_str(), &**claim)).collect()
    }

    fn put_items<'a>(&'a self, pipeline: &mut Pipeline<'a>) {
        let gone = || self.items.iter().filter(|(_, (_, item))| item.is_none()).map(|(place, _)| place);
        if gone().next().is_some() {
            let columns =
                [texts(gone().map(|(key, _)| key.as_str())), texts(gone().map(|(_, id)| id.as_str()))];
            pipeline.columns(DELETE_ITEMS, columns);
        }
        for (sql, so) in [(NEW_ITEMS, Was::Absent), (CHANGE_ITEMS, Was::There), (PUT_ITEMS, Was::Unknown)] {
            let items = self.items.iter().filter(|(_, (was, _))| *was == so);
            let items: Vec<(&str, &Item)> =
                items.filter_map(|((key, _), (_, item))| Some((key.as_str(), item.as_deref()?))).collect();
            if items.is_empty() {
                continue;
            }
            let columns = [
                texts(items.iter().map(|(key, _)| *key)),
                texts(items.iter().map(|(_, item)| item.id.as_str())),
                texts(items.iter().map(|(_, item)| item.status.as_str())),
                numbers(items.iter().map(|(_, item)| int(item.claim))),
                bodies(items.iter().map(|(_, item)| encode(item))),
            ];
            pipeline.columns(sql, columns);
        }
    }

    /// Those that were there before.
    fn put_claims<'a>(&'a self, pipeline: &mut Pipeline<'a>) {
        for (sql, so) in [(CHANGE_CLAIMS, Was::There), (PUT_CLAIMS, Was::Unknown)] {
            let claims = self.claims_that(so);
            if !claims.is_empty() {
                pipeline.columns(sql, of_claims(&claims));
            }
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

fn number(value: i64) -> Column<'static> {
    (Box::new(value), Type::INT8)
}

fn of_claims<'a>(claims: &[(&'a str, &'a Claim)]) -> [Column<'a>; 6] {
    let states: Vec<i16> = claims.iter().map(|(_, claim)| state_code(claim.state)).collect();
    [
        texts(claims.iter().map(|(key, _)| *key)),
        numbers(claims.iter().map(|(_, claim)| int(claim.number))),
        texts(claims.iter().map(|(_, claim)| &*claim.holder.id)),
        (Box::new(states) as Box<_>, Type::INT2_ARRAY),
        numbers(claims.iter().map(|(_, claim)| claim.expires_at_ms)),
        bodies(claims.iter().map(|(_, claim)| encode(*claim))),
    ]
}
