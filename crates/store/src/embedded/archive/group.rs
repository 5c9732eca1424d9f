//! What one fold takes to the archive: several batches as one, each row only as it is at the end.

use std::collections::hash_map;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tenure_core::{
    Claim, Collection, CollectionKey, Fact, Item, ItemId, Policy, Rows, RowsMut, Sealed, Text,
};

use crate::embedded::kept::{KeptId, KeptKeys};
use crate::limits::KEPT_CHUNK_BYTES_MAX;
use crate::{Entry, Kept, Map, ReplyKey, State};

/// Consecutive batches, merged.
#[derive(Debug, Default)]
pub struct Group {
    /// The last batch in it; 0 while it is empty.
    pub through: u64,
    /// How many batches.
    pub batches: u64,
    /// The highest time of any batch.
    pub high_water_ms: i64,
    /// The store's epoch, if the group raised it.
    pub epoch: Option<u64>,
    /// Rows and events.
    pub collections: Map<CollectionKey, GroupRows>,
    /// Policies by kind.
    pub policies: Map<Text, Arc<Policy>>,
    /// Replies to keep, in order.
    pub kept: Vec<KeptChunk>,
    /// Kept replies from before this time are forgotten.
    pub kept_from_ms: i64,
    /// Events that each collection keeps at least.
    pub retain_events: Option<u64>,
    /// Nobody waits for it: others go first.
    pub aside: bool,
}

/// What a group changes in one collection.
#[derive(Debug, Default)]
pub struct GroupRows {
    /// Its head after it.
    pub head: Option<Arc<Collection>>,
    /// Items.
    pub items: Map<ItemId, GroupItem>,
    /// Claims, ended ones too.
    pub claims: Map<u64, Arc<Claim>>,
    /// Its events, in order.
    pub events: Vec<Arc<Sealed>>,
}

/// What a group makes of one item.
#[derive(Clone, Debug)]
pub struct GroupItem {
    /// As it is at the end; `None` for a deleted one.
    pub row: Option<Arc<Item>>,
    /// Some event of the group made, wrote or deleted it. Otherwise only its claim and its fence can be new.
    pub is_written: bool,
}

/// Where a kept reply is in the archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeptPlace {
    /// The group that brought it, by its last batch.
    pub through: u64,
    /// The chunk in that group.
    pub part: u32,
}

/// Some kept replies of a group.
#[derive(Clone, Debug)]
pub struct KeptChunk {
    /// The latest time in it.
    pub last_at_ms: i64,
    /// The replies.
    pub data: Vec<u8>,
    /// Their keys, as the store's index knows them, and their times: one key may be used again later.
    pub(crate) ids: Vec<(KeptId, i64)>,
}

impl Default for KeptChunk {
    fn default() -> Self {
        Self { last_at_ms: i64::MIN, data: Vec::new(), ids: Vec::new() }
    }
}

impl Group {
    /// Adds a batch that was just committed: the rows are in its entries.
    pub(crate) fn add_batch(&mut self, number: u64, at_ms: i64, entries: Vec<Entry>, keys: &KeptKeys) {
        self.add_time(number, at_ms);
        for entry in entries {
            let Entry { collection, events, changed, kept, .. } = entry;
            if let Some((key, kept)) = kept {
                self.add_kept(keys.id(&key), &key, &kept);
            }
            self.policies.extend(changed.policies);
            for sealed in &events {
                self.add_epoch(&sealed.event.fact);
            }
            if changed.collection.is_none() && changed.items.is_empty() && changed.claims.is_empty() {
                continue;
            }
            let is_written = events.iter().any(|sealed| sealed.event.fact.writes_items());
            let rows = self.rows_mut(&collection);
            rows.head = changed.collection.or_else(|| rows.head.take());
            for (id, row) in changed.items {
                rows.put_item(id, row, is_written);
            }
            rows.claims.extend(changed.claims.into_iter().map(|claim| (claim.number, claim)));
            rows.events.extend(events);
        }
    }

    /// Adds the time of a batch.
    pub(crate) fn add_time(&mut self, number: u64, at_ms: i64) {
        self.through = number;
        self.batches += 1;
        self.high_water_ms = self.high_water_ms.max(at_ms);
    }

    /// Takes note of a restore.
    pub(crate) fn add_epoch(&mut self, fact: &Fact) {
        if let Fact::Restored { epoch, .. } = fact {
            self.epoch = Some(self.epoch.unwrap_or(0).max(*epoch));
        }
    }

    /// The collection's part, made if it is not there.
    pub(crate) fn rows_mut(&mut self, key: &CollectionKey) -> &mut GroupRows {
        if !self.collections.contains_key(key) {
            self.collections.insert(key.clone(), GroupRows::default());
        }
        self.collections.get_mut(key).expect("just inserted")
    }

    /// The collections in order of their keys, so that an archive writes its pages in order.
    pub fn sorted(&self) -> Vec<(&CollectionKey, &GroupRows)> {
        let mut sorted: Vec<_> = self.collections.iter().collect();
        sorted.sort_unstable_by_key(|(key, _)| *key);
        sorted
    }

    /// Adds a reply to keep.
    pub(crate) fn add_kept(&mut self, id: KeptId, key: &ReplyKey, kept: &Kept) {
        let mut data = self.kept.last_mut().map(|chunk| std::mem::take(&mut chunk.data)).unwrap_or_default();
        let before = data.len();
        data = postcard::to_extend(&KeptOut { key, kept }, data).expect("a reply always encodes");
        // One of megabytes has a chunk of its own, or each of the small ones would be read with it.
        if before > 0 && data.len() > KEPT_CHUNK_BYTES_MAX {
            let own = data.split_off(before);
            data.shrink_to_fit();
            self.kept.last_mut().expect("it had bytes").data = std::mem::replace(&mut data, own);
            self.kept.push(KeptChunk::default());
        } else if self.kept.is_empty() {
            self.kept.push(KeptChunk::default());
        }
        let chunk = self.kept.last_mut().expect("just pushed");
        chunk.data = data;
        chunk.last_at_ms = chunk.last_at_ms.max(kept.at_ms);
        chunk.ids.push((id, kept.at_ms));
    }

    /// The kept replies with where each chunk is to be found.
    pub fn kept_places(&self) -> impl Iterator<Item = (KeptPlace, &KeptChunk)> {
        (0..).zip(&self.kept).map(|(part, chunk)| (KeptPlace { through: self.through, part }, chunk))
    }
}

impl GroupRows {
    fn put_item(&mut self, id: ItemId, row: Option<Arc<Item>>, is_written: bool) {
        match self.items.entry(id) {
            hash_map::Entry::Occupied(mut known) => {
                let known = known.get_mut();
                known.row = row;
                known.is_written |= is_written;
            }
            hash_map::Entry::Vacant(new) => drop(new.insert(GroupItem { row, is_written })),
        }
    }
}

#[derive(Serialize)]
struct KeptOut<'a> {
    key: &'a ReplyKey,
    kept: &'a Kept,
}

#[derive(Deserialize)]
struct KeptIn {
    key: ReplyKey,
    kept: Arc<Kept>,
}

/// The replies of a chunk's bytes, in order. Stops at one that cannot be read, which it answers.
pub(crate) fn read_kept(
    mut data: &[u8],
) -> impl Iterator<Item = Result<(ReplyKey, Arc<Kept>), postcard::Error>> {
    std::iter::from_fn(move || {
        if data.is_empty() {
            return None;
        }
        match postcard::take_from_bytes::<KeptIn>(data) {
            Ok((reply, rest)) => {
                data = rest;
                Some(Ok((reply.key, reply.kept)))
            }
            Err(error) => {
                data = &[];
                Some(Err(error))
            }
        }
    })
}

/// Rows of one collection that are replayed, with a note of every change for the next fold.
pub(crate) struct Recorder<'a> {
    pub(crate) state: &'a mut State,
    pub(crate) rows: &'a mut GroupRows,
    /// What is replayed writes items.
    pub(crate) is_written: bool,
    pub(crate) policies: &'a mut Map<Text, Arc<Policy>>,
}

impl Rows for Recorder<'_> {
    fn policy(&self, kind: &str) -> Option<Arc<Policy>> {
        self.state.policy(kind)
    }

    fn collection(&self, key: &CollectionKey) -> Option<Arc<Collection>> {
        self.state.collection(key)
    }

    fn item(&self, key: &CollectionKey, id: &ItemId) -> Option<Arc<Item>> {
        self.state.item(key, id)
    }

    fn claim(&self, key: &CollectionKey, number: u64) -> Option<Arc<Claim>> {
        self.state.claim(key, number)
    }

    fn claims_of(&self, key: &CollectionKey, holder_id: &str) -> Vec<Arc<Claim>> {
        self.state.claims_of(key, holder_id)
    }

    fn active_claims(&self, key: &CollectionKey) -> Vec<u64> {
        self.state.active_claims(key)
    }
}

impl RowsMut for Recorder<'_> {
    fn put_policy(&mut self, kind: &str, policy: Arc<Policy>) {
        self.policies.insert(Text::from(kind), policy.clone());
        self.state.put_policy(kind, policy);
    }

    fn put_collection(&mut self, key: &CollectionKey, collection: Arc<Collection>) {
        self.rows.head = Some(collection.clone());
        self.state.put_collection(key, collection);
    }

    fn put_item(&mut self, key: &CollectionKey, item: Arc<Item>) {
        self.rows.put_item(item.id.clone(), Some(item.clone()), self.is_written);
        self.state.put_item(key, item);
    }

    fn remove_item(&mut self, key: &CollectionKey, id: &ItemId) {
        self.rows.put_item(id.clone(), None, self.is_written);
        self.state.remove_item(key, id);
    }

    fn put_claim(&mut self, key: &CollectionKey, claim: Arc<Claim>) {
        self.rows.claims.insert(claim.number, claim.clone());
        self.state.put_claim(key, claim);
    }
}

#[cfg(test)]
mod tests {
    use tenure_core::{Hash, Json, Reply, Status};

    use super::*;

    #[test]
    fn a_small_reply_is_not_kept_in_one_chunk_with_a_large_one() {
        let key = |name: &str| ReplyKey {
            collection: CollectionKey::new("lock/a").unwrap(),
            principal: Text::from("ana"),
            key: Text::from(name),
        };
        let reply = |bytes: usize| Kept {
            fingerprint: Hash::default(),
            at_ms: 1,
            outcome: Ok(Reply::Item {
                item: Arc::new(Item {
                    id: ItemId::new("a").unwrap(),
                    status: Status::new("open").unwrap(),
                    version: 1,
                    data: Some(Json::of(&"x".repeat(bytes)).unwrap()),
                    fence: 0,
                    claim: 0,
                    updated_at_ms: 1,
                    updated_by: Text::from("ana"),
                }),
                created: true,
            }),
        };
        let mut group = Group::default();
        let kept = [("a", 100), ("b", 100), ("large", 60_000), ("c", 100), ("d", 31_000), ("e", 31_000)];
        for (name, bytes) in kept {
            group.add_kept(0, &key(name), &reply(bytes));
        }
        let chunks: Vec<Vec<String>> = group
            .kept
            .iter()
            .map(|chunk| read_kept(&chunk.data).map(|reply| reply.unwrap().0.key.to_string()).collect())
            .collect();
        assert_eq!(chunks, [vec!["a", "b"], vec!["large"], vec!["c", "d"], vec!["e"]]);
        assert!(group.kept.iter().zip(&chunks).all(|(chunk, names)| chunk.ids.len() == names.len()));
    }
}
