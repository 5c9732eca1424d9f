//! What a batch asks for beside its locks: what its wants name, less what is known from before.
//!
//! Where this writer is most probably alone it asks for nothing that it knows. Where others work too it asks which items
//! their events name since it was here, and for each claim that had not ended: an item's row changes only with an event
//! that names it, and a claim that has ended does not change any more.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use tenure_core::CollectionKey;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::load::Held;
use super::pipeline::{Pipeline, numbers, texts};
use super::recent::{Mark, Recent, has_ended};
use super::rows::int;
use super::session::Typed;
use crate::limits::RECENT_EVENTS_MAX;
use crate::{Map, Want};

/// Items, by the number 0; claims that are asked for or that last took one of these items, each once; and policies, by
/// the number -1. One statement, since each costs an answer of its own, and what is found by one search is not searched
/// for again.
pub(super) const ROWS: &str = "WITH i AS MATERIALIZED (SELECT i.collection, i.claim, i.body \
           FROM unnest($1, $2) AS w (collection, id) \
           JOIN tenure.items i ON i.collection = w.collection AND i.id = w.id) \
     SELECT i.collection, 0::bigint, i.body FROM i \
     UNION ALL SELECT c.collection, c.number, c.body \
     FROM (SELECT i.collection, i.claim FROM i WHERE i.claim > 0 UNION SELECT * FROM unnest($3, $4)) AS w \
     JOIN tenure.claims c ON c.collection = w.collection AND c.number = w.claim \
     UNION ALL SELECT p.kind, -1, convert_to(p.body, 'UTF8') FROM tenure.policies p WHERE p.kind = ANY($5)";
/// Holder by holder, which `OFFSET 0` makes sure of: a plan that was made on an empty table would rather read all
/// that is held, by whomever, and look through it.
pub(super) const OF_HOLDERS: &str = "SELECT c.collection, c.number, c.body, c.holder \
     FROM unnest($1, $2) AS w (collection, holder) CROSS JOIN LATERAL (SELECT * FROM tenure.claims c \
     WHERE c.collection = w.collection AND c.holder = w.holder AND c.state = 0 OFFSET 0) AS c \
     ORDER BY c.number";
pub(super) const POLICIES: &str = "SELECT kind, body FROM tenure.policies WHERE kind = ANY($1)";
pub(super) const REPLIES: &str = "SELECT r.collection, r.principal, r.key, r.body \
     FROM unnest($1, $2, $3) AS w (collection, principal, key) \
     JOIN tenure.replies r ON r.collection = w.collection AND r.principal = w.principal AND r.key = w.key";
/// The items that events name from there on, each event once and in order, but not more of them than reading the rows
/// would cost.
pub(super) const SINCE: &str = "SELECT e.collection, e.items FROM unnest($1, $2) AS w (collection, seq) \
     CROSS JOIN LATERAL (SELECT e.collection, e.items FROM tenure.events e \
     WHERE e.collection = w.collection AND e.seq > w.seq ORDER BY e.seq LIMIT $3) AS e";

/// What most batches read, planned once for each connection.
pub(super) const PREPARED: &[Typed] = &[
    (ROWS, &[Type::TEXT_ARRAY, Type::TEXT_ARRAY, Type::TEXT_ARRAY, Type::INT8_ARRAY, Type::TEXT_ARRAY]),
    (OF_HOLDERS, &[Type::TEXT_ARRAY, Type::TEXT_ARRAY]),
    (POLICIES, &[Type::TEXT_ARRAY]),
    (REPLIES, &[Type::TEXT_ARRAY, Type::TEXT_ARRAY, Type::TEXT_ARRAY]),
    (SINCE, &[Type::TEXT_ARRAY, Type::INT8_ARRAY, Type::INT8]),
];

/// The pairs that the statements take, column by column.
#[derive(Default)]
pub(super) struct Asked<'a> {
    items: (Vec<&'a str>, Vec<&'a str>),
    claims: (Vec<&'a str>, Vec<i64>),
    since: (Vec<&'a str>, Vec<i64>),
    holders: (Vec<&'a str>, Vec<&'a str>),
    replies: (Vec<&'a str>, Vec<&'a str>, Vec<&'a str>),
    kinds: Vec<&'a str>,
}

/// Items and claims, each once: a join would otherwise find it several times.
#[derive(Default)]
struct Pairs<'a> {
    items: BTreeSet<(&'a str, &'a str)>,
    claims: BTreeSet<(&'a str, i64)>,
}

impl<'a> Pairs<'a> {
    /// What is not known, or may have changed since.
    fn add(&mut self, want: &'a Want, recent: Option<&Recent>) {
        let key = want.collection.as_str();
        let alone = recent.is_some_and(Recent::is_likely);
        let lasts = |number: u64| match recent.and_then(|recent| recent.rows.claim(number)) {
            Some(claim) => alone || claim.as_deref().is_some_and(has_ended),
            None => false,
        };
        for id in &want.items {
            match recent.and_then(|recent| recent.rows.item(id.as_str())) {
                None => drop(self.items.insert((key, id.as_str()))),
                // Whoever looks at an item looks at the claim that last took it.
                Some(Some(item)) if item.claim > 0 && !lasts(item.claim) => {
                    self.claims.insert((key, int(item.claim)));
                }
                Some(_) => {}
            }
        }
        let changing = want.claims.iter().filter(|number| !lasts(**number));
        self.claims.extend(changing.map(|number| (key, int(*number))));
    }
}

impl<'a> Asked<'a> {
    pub(super) fn of(
        wants: &'a [Want],
        lone: &HashSet<Arc<str>>,
        recent: &Map<CollectionKey, Recent>,
    ) -> Self {
        let (mut pairs, mut holders, mut replies, mut kinds, mut since) =
            (Pairs::default(), BTreeSet::new(), BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for want in wants {
            let key = want.collection.as_str();
            let known = recent.get(&want.collection);
            pairs.add(want, known);
            let shared = known.filter(|recent| !recent.is_likely());
            since.extend(shared.map(|recent| (key, int(recent.mark.seq()))));
            holders.extend(holder_of(want, lone).map(|holder| (key, &**holder)));
            replies.extend(
                want.reply.iter().map(|reply| (reply.collection.as_str(), &*reply.principal, &*reply.key)),
            );
            kinds.insert(want.collection.kind());
        }
        let mut asked = Self { kinds: kinds.into_iter().collect(), ..Self::of_pairs(pairs) };
        asked.holders = holders.into_iter().unzip();
        for (collection, principal, key) in replies {
            asked.replies.0.push(collection);
            asked.replies.1.push(principal);
            asked.replies.2.push(key);
        }
        asked.since = since.into_iter().unzip();
        asked
    }

    fn of_pairs(pairs: Pairs<'a>) -> Self {
        let (items, claims) = (pairs.items.into_iter().unzip(), pairs.claims.into_iter().unzip());
        Self { items, claims, ..Self::default() }
    }

    /// Items and claims that were believed to be known and are not, under the locks.
    pub(super) fn missing(
        &self,
        wants: &'a [Want],
        collections: &Map<CollectionKey, Held>,
        overtaken: &BTreeSet<CollectionKey>,
    ) -> Self {
        let mut pairs = Pairs::default();
        for want in wants.iter().filter(|want| overtaken.contains(&want.collection)) {
            let (key, Some(held)) = (want.collection.as_str(), collections.get(&want.collection)) else {
                continue;
            };
            let items = want.items.iter().filter(|id| held.rows.item(id.as_str()).is_none());
            pairs.items.extend(items.map(|id| (key, id.as_str())));
            let claims = want.claims.iter().filter(|number| held.rows.claim(**number).is_none());
            pairs.claims.extend(claims.map(|number| (key, int(*number))));
        }
        for (key, id) in self.items.0.iter().zip(&self.items.1) {
            pairs.items.remove(&(*key, *id));
        }
        for (key, number) in self.claims.0.iter().zip(&self.claims.1) {
            pairs.claims.remove(&(*key, *number));
        }
        Self::of_pairs(pairs)
    }

    /// Only what somebody asks for: an empty question costs as much as another.
    pub(super) fn send(&'a self, pipeline: &mut Pipeline<'a>) -> Sent {
        let (mut sent, texts) = (Sent::default(), Type::TEXT_ARRAY);
        let rows = !(self.items.0.is_empty() && self.claims.0.is_empty());
        if rows {
            sent.rows = Some(pipeline.len());
            let (items, claims) = (&self.items, &self.claims);
            ask_rows(pipeline, (&items.0, &items.1), (&claims.0, &claims.1), &self.kinds);
        }
        if !self.since.0.is_empty() {
            sent.since = Some(pipeline.len());
            let of = [
                (&self.since.0 as _, texts.clone()),
                (&self.since.1 as _, Type::INT8_ARRAY),
                (&MANY as _, Type::INT8),
            ];
            pipeline.typed(SINCE, of);
        }
        if !self.holders.0.is_empty() {
            sent.holders = Some(pipeline.len());
            pipeline.typed(OF_HOLDERS, [(&self.holders.0, texts.clone()), (&self.holders.1, texts.clone())]);
        }
        if !rows && !self.kinds.is_empty() {
            sent.policies = Some(pipeline.len());
            pipeline.typed(POLICIES, [(&self.kinds, texts.clone())]);
        }
        let (collections, principals, keys) = &self.replies;
        if !collections.is_empty() {
            sent.replies = Some(pipeline.len());
            pipeline
                .typed(REPLIES, [(collections, texts.clone()), (principals, texts.clone()), (keys, texts)]);
        }
        sent
    }
}

/// One more than is believed tells that there are more.
static MANY: i64 = RECENT_EVENTS_MAX + 1;

/// Asks for items, claims and policies, column by column.
pub(super) fn ask_rows<'a>(
    pipeline: &mut Pipeline<'a>,
    (places, ids): (&[&'a str], &[&'a str]),
    (homes, claims): (&[&'a str], &[i64]),
    kinds: &[&'a str],
) {
    let [places, ids, homes, kinds] = [places, ids, homes, kinds].map(|column| texts(column.iter().copied()));
    pipeline.columns(ROWS, [places, ids, homes, numbers(claims.iter().copied()), kinds]);
}

/// Where in a pipeline the answers are.
#[derive(Default)]
pub(super) struct Sent {
    pub(super) rows: Option<usize>,
    pub(super) since: Option<usize>,
    pub(super) holders: Option<usize>,
    pub(super) policies: Option<usize>,
    pub(super) replies: Option<usize>,
}

/// Whose other claims the decision will ask for.
pub(super) fn holder_of<'a>(want: &'a Want, lone: &HashSet<Arc<str>>) -> Option<&'a Arc<str>> {
    want.holder.as_ref().filter(|_| !lone.contains(want.collection.kind()))
}

/// What others did, by the items that their events name.
#[derive(Default)]
pub(super) struct Since<'a>(Map<&'a str, Vec<&'a str>>);

impl<'a> Since<'a> {
    pub(super) fn of(rows: &'a [Row]) -> Self {
        let mut since = Self::default();
        for row in rows {
            since.0.entry(row.get(0)).or_default().push(row.get(1));
        }
        since
    }

    /// What is still true of these rows: none, unless every event since is known.
    pub(super) fn bring_up(&self, key: &CollectionKey, recent: Recent, now: &Mark) -> Option<Recent> {
        let Recent { mark, mut rows, .. } = recent;
        let named = self.0.get(key.as_str()).map_or(&[][..], Vec::as_slice);
        if now.seq().checked_sub(mark.seq()) != Some(named.len() as u64) {
            return None;
        }
        // Between lines' ends, as they are kept to be searched for.
        named.iter().flat_map(|names| names.split('\n')).for_each(|id| rows.forget_item(id));
        rows.forget_open_claims();
        Some(Recent { mark: now.clone(), rows, alone: 0 })
    }
}
