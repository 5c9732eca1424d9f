//! Rows that a writer still has from its last batches, so that a collection in which nobody else works is not read
//! again and again.
//!
//! They are believed only under the lock, and only if the head is the very one that this writer left behind: its
//! number, its hash, its time and its `turn`, which every commit moves on, whatever it writes. And only in the process
//! of the server that they were read in: with the connection they are forgotten, so no failover, restart or restored
//! database lies between. Where others work too, the rows of a batch are asked for together with the lock, and these
//! are not used: to be wrong costs a round trip more, never a decision.

use std::sync::Arc;

use tenure_core::{Claim, Collection, CollectionKey, Item, ItemId, Json};

use crate::Map;
use crate::limits::{RECENT_TURNS, RECENT_WEIGHT_MAX};

/// What a head said when its lock was had.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) head: Option<Arc<Collection>>,
    /// The newest time that was committed here.
    pub(super) at_ms: i64,
    /// How often something was committed here.
    pub(super) turn: i64,
}

/// Rows of a collection. `None`: looked for, and not there.
#[derive(Debug, Default)]
pub(super) struct Rows {
    items: Map<ItemId, Option<Arc<Item>>>,
    claims: Map<u64, Option<Arc<Claim>>>,
    /// About how much memory they take.
    weight: usize,
}

impl Rows {
    pub(super) fn item(&self, id: &str) -> Option<&Option<Arc<Item>>> {
        self.items.get(id)
    }

    pub(super) fn claim(&self, number: u64) -> Option<&Option<Arc<Claim>>> {
        self.claims.get(&number)
    }

    /// Looked for.
    pub(super) fn miss_item(&mut self, id: &ItemId) {
        if !self.items.contains_key(id) {
            self.put_item(id.clone(), None);
        }
    }

    /// Looked for.
    pub(super) fn miss_claim(&mut self, number: u64) {
        if !self.claims.contains_key(&number) {
            self.put_claim(number, None);
        }
    }

    pub(super) fn put_item(&mut self, id: ItemId, item: Option<Arc<Item>>) {
        self.weight += weight_of_item(item.as_ref());
        if let Some(before) = self.items.insert(id, item) {
            self.weight -= weight_of_item(before.as_ref());
        }
    }

    pub(super) fn put_claim(&mut self, number: u64, claim: Option<Arc<Claim>>) {
        self.weight += weight_of_claim(claim.as_ref());
        if let Some(before) = self.claims.insert(number, claim) {
            self.weight -= weight_of_claim(before.as_ref());
        }
    }
}

/// In units of 256 bytes: a row's own, and what comes on top of it.
fn weight_of(more: usize, data: Option<&Json>) -> usize {
    1 + (more + data.map_or(0, |data| data.as_str().len())) / 256
}

fn weight_of_item(item: Option<&Arc<Item>>) -> usize {
    item.map_or(1, |item| weight_of(2 * item.id.as_str().len(), item.data.as_ref()))
}

fn weight_of_claim(claim: Option<&Arc<Claim>>) -> usize {
    let names = |claim: &Claim| claim.items.iter().map(|item| 32 + item.as_str().len()).sum::<usize>();
    claim.map_or(1, |claim| weight_of(names(claim), claim.data.as_ref()))
}

/// The rows, and by what they are known to be true.
#[derive(Debug)]
pub(super) struct Recent {
    pub(super) mark: Mark,
    pub(super) rows: Rows,
    /// How often in a row nobody else had been here.
    pub(super) alone: u32,
}

impl Recent {
    /// Most probably true: its rows are not asked for together with the lock.
    pub(super) fn is_likely(&self) -> bool {
        self.alone >= RECENT_TURNS
    }

    /// Without any row, too, it takes room.
    fn weight(&self) -> usize {
        1 + self.rows.weight
    }
}

/// Of all collections of one writer.
#[derive(Debug, Default)]
pub(super) struct Recents {
    of: Map<CollectionKey, Recent>,
    weight: usize,
}

impl Recents {
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Takes it out: who does not bring it back has lost it.
    pub(super) fn take(&mut self, key: &CollectionKey) -> Option<Recent> {
        let taken = self.of.remove(key)?;
        self.weight -= taken.weight();
        Some(taken)
    }

    pub(super) fn keep(&mut self, key: CollectionKey, recent: Recent) {
        // Without a head there is nothing that a commit would move on.
        if recent.mark.head.is_none() {
            return;
        }
        // All at once, which is rare: what is used comes back with its next use.
        if self.weight + recent.weight() > RECENT_WEIGHT_MAX {
            self.clear();
            return;
        }
        self.weight += recent.weight();
        self.of.insert(key, recent);
    }
}
