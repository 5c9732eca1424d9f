//! An archive in memory: what a simulated disk goes with. Clones share what they hold, so one that a
//! test keeps is what survives a simulated crash; a fold is in it wholly or not at all.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use tenure_core::{ClaimState, CollectionKey, Hash, Item, Policy, RowsMut, Text};

use super::bloom::may_have;
use super::chunk::{Chunk, build_chunks};
use super::group::{Group, GroupItem, GroupRows, KeptPlace};
use super::{Archive, ArchiveReader, ChunkAsk, ChunkOrder, ChunkRef, Loaded, Meta, VisitChunk};
use crate::{Error, State};

/// Shared by its clones.
#[derive(Clone, Debug, Default)]
pub struct MemoryArchive(Arc<Mutex<Held>>);

#[derive(Debug)]
struct Held {
    meta: Meta,
    collections: BTreeMap<CollectionKey, HeldCollection>,
    policies: HashMap<Text, Arc<Policy>>,
    kept: BTreeMap<KeptPlace, (i64, Vec<u8>)>,
}

#[derive(Debug, Default)]
struct HeldCollection {
    rows: GroupRows,
    chunks: Vec<Chunk>,
}

impl Default for Held {
    fn default() -> Self {
        Self {
            meta: Meta { epoch: 1, ..Meta::default() },
            collections: BTreeMap::new(),
            policies: HashMap::new(),
            kept: BTreeMap::new(),
        }
    }
}

impl MemoryArchive {
    /// How far it is.
    pub fn meta(&self) -> Meta {
        self.0.lock().meta
    }
}

impl Archive for MemoryArchive {
    type Reader = Self;

    fn load(&mut self, kept: &mut dyn FnMut(KeptPlace, &[u8])) -> Result<Loaded, Error> {
        let held = self.0.lock();
        let mut state = State::default();
        for (kind, policy) in &held.policies {
            state.put_policy(kind, policy.clone());
        }
        for (key, collection) in &held.collections {
            let rows = &collection.rows;
            if let Some(head) = &rows.head {
                state.put_collection(key, head.clone());
            }
            for item in rows.items.values().filter_map(|item| item.row.clone()) {
                state.put_item(key, item);
            }
            for claim in rows.claims.values() {
                state.put_claim(key, claim.clone());
            }
        }
        for (place, (_, data)) in &held.kept {
            kept(*place, data);
        }
        Ok(Loaded { meta: held.meta, state })
    }

    fn fold(&mut self, group: &Group) -> Result<(), Error> {
        let held = &mut *self.0.lock();
        for (key, rows) in &group.collections {
            held.collections.entry(key.clone()).or_default().fold(rows, group);
        }
        held.policies.extend(group.policies.iter().map(|(kind, policy)| (kind.clone(), policy.clone())));
        for (place, chunk) in group.kept_places() {
            held.kept.insert(place, (chunk.last_at_ms, chunk.data.clone()));
        }
        held.kept.retain(|_, (last_at_ms, _)| *last_at_ms >= group.kept_from_ms);
        held.meta.folded_through = group.through;
        held.meta.high_water_ms = held.meta.high_water_ms.max(group.high_water_ms);
        held.meta.epoch = held.meta.epoch.max(group.epoch.unwrap_or(0));
        Ok(())
    }

    fn reader(&self) -> Self {
        self.clone()
    }

    fn close(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

impl HeldCollection {
    fn fold(&mut self, rows: &GroupRows, group: &Group) {
        let before = self.rows.head.as_ref().map_or_else(Hash::default, |head| head.hash);
        self.chunks.extend(build_chunks(before, &rows.events));
        if rows.head.is_some() {
            self.rows.head.clone_from(&rows.head);
        }
        for (id, item) in &rows.items {
            let Some(row) = &item.row else {
                self.rows.items.remove(id);
                continue;
            };
            let known = self.rows.items.get(id).and_then(|known| known.row.as_deref());
            // As little as the real one, so that the simulator sees what a mark that is wrong would lose.
            let row = match known.filter(|_| !item.is_written) {
                Some(known) => Arc::new(Item { fence: row.fence, claim: row.claim, ..known.clone() }),
                None => row.clone(),
            };
            self.rows.items.insert(id.clone(), GroupItem { row: Some(row), ..item.clone() });
        }
        self.rows.claims.extend(rows.claims.iter().map(|(number, claim)| (*number, claim.clone())));
        let time_ms = group.high_water_ms;
        self.rows
            .claims
            .retain(|_, claim| claim.state == ClaimState::Active || claim.blocked_until_ms > time_ms);
        if let Some(retained) = group.retain_events {
            let mut found = 0;
            let needed = self.chunks.iter().rev().take_while(|chunk| {
                let needed = found < retained;
                found += chunk.events;
                needed
            });
            let needed = needed.count();
            self.chunks.drain(..self.chunks.len() - needed);
        }
    }
}

impl ArchiveReader for MemoryArchive {
    fn chunks(&self, ask: &ChunkAsk<'_>, visit: &mut VisitChunk<'_>) -> Result<(), Error> {
        // Copied out, so that the writer never waits for a visitor.
        let mut found: Vec<(CollectionKey, Chunk)> = Vec::new();
        for (key, collection) in &self.0.lock().collections {
            let wanted = |chunk: &&Chunk| {
                chunk.last_seq >= ask.from_seq
                    && chunk.last_at_ms >= ask.at_ms.start
                    && chunk.first_at_ms < ask.at_ms.end
                    && may_have(&chunk.bloom, ask.words)
            };
            if ask.collection.is_none_or(|wanted| wanted == key) {
                found.extend(
                    collection.chunks.iter().filter(wanted).map(|chunk| (key.clone(), chunk.clone())),
                );
            }
        }
        if ask.order == ChunkOrder::Latest {
            found.sort_by_key(|(_, chunk)| std::cmp::Reverse(chunk.last_at_ms));
        }
        for (key, chunk) in &found {
            let chunk = ChunkRef {
                first_seq: chunk.first_seq,
                last_seq: chunk.last_seq,
                first_at_ms: chunk.first_at_ms,
                last_at_ms: chunk.last_at_ms,
                events: chunk.events,
                before: chunk.before,
                bloom: &chunk.bloom,
                data: &chunk.data,
            };
            if !visit(key, chunk)? {
                break;
            }
        }
        Ok(())
    }

    fn kept(&self, place: KeptPlace) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.0.lock().kept.get(&place).map(|(_, data)| data.clone()))
    }
}
