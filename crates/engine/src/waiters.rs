//! Callers that wait for held items: first come, first served. Each try is a fresh decision at the
//! time of the try; this file only remembers who waits for what, and in which order they came.
//!
//! A caller that wants several items is served as soon as all of them are free; until then it does not
//! keep later callers from the ones that are.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};

use tenure_core::{CollectionKey, ItemId};
use tenure_store::ReplyKey;

use crate::limits::WAITERS_MAX;
use crate::{Pending, Ticket};

#[derive(Debug)]
pub(crate) struct Waiters<T> {
    next: u64,
    waiting: BTreeMap<u64, Waiter<T>>,
    by_item: HashMap<CollectionKey, HashMap<ItemId, BTreeSet<u64>>>,
    by_end: BTreeSet<(i64, u64)>,
    /// Idempotency keys whose first request still waits.
    keys: HashMap<ReplyKey, u64>,
    /// What became free in a commit that had no room for all who wait for it.
    owed: Freed,
    /// Those who have left were looked for in this turn.
    searched: bool,
}

/// Items that became free.
pub(crate) type Freed = Vec<(CollectionKey, BTreeSet<ItemId>)>;

/// Those who wait for some items, in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Line {
    /// The next one for each item.
    next: BinaryHeap<Reverse<(u64, ItemId)>>,
    last: Option<u64>,
}

#[derive(Debug)]
pub(crate) struct Waiter<T> {
    pub(crate) pending: Pending<T>,
    pub(crate) items: Vec<ItemId>,
    pub(crate) until_ms: i64,
    pub(crate) key: Option<ReplyKey>,
}

impl Line {
    /// Nobody is in it, or nobody any more.
    pub(crate) fn is_empty(&self) -> bool {
        self.next.is_empty()
    }
}

impl<T> Default for Waiters<T> {
    fn default() -> Self {
        Self {
            next: 0,
            waiting: BTreeMap::new(),
            by_item: HashMap::new(),
            by_end: BTreeSet::new(),
            keys: HashMap::new(),
            owed: Freed::new(),
            searched: false,
        }
    }
}

impl<T: Ticket> Waiters<T> {
    /// A turn begins: gives what is owed to those who wait.
    pub(crate) fn begin_turn(&mut self) -> Freed {
        self.searched = false;
        std::mem::take(&mut self.owed)
    }

    /// These are free and were not offered to all who wait for them.
    pub(crate) fn owe(&mut self, freed: Freed) {
        self.owed.extend(freed);
    }

    /// Something is owed.
    pub(crate) fn is_owed(&self) -> bool {
        !self.owed.is_empty()
    }

    /// Where something is owed, or somebody's patience ends by this time.
    pub(crate) fn due_by(&self, now_ms: i64) -> impl Iterator<Item = &CollectionKey> {
        let owed = self.owed.iter().map(|(collection, _)| collection);
        let ended = self.by_end.iter().take_while(move |(until_ms, _)| *until_ms <= now_ms);
        let ended = ended.filter_map(|(_, number)| self.waiting.get(number));
        owed.chain(ended.map(|waiter| &waiter.pending.request.command.collection))
    }

    /// The collections in which somebody waits.
    pub(crate) fn collections(&self) -> impl Iterator<Item = &CollectionKey> {
        self.by_item.keys()
    }

    /// Everything that somebody waits for in a collection.
    pub(crate) fn items(&self, collection: &CollectionKey) -> BTreeSet<ItemId> {
        self.by_item.get(collection).map(|items| items.keys().cloned().collect()).unwrap_or_default()
    }

    /// Queues a caller; gives it back when the queue is full even without those who have left.
    pub(crate) fn push(&mut self, waiter: Waiter<T>) -> Option<Waiter<T>> {
        if self.waiting.len() >= WAITERS_MAX {
            // Once in a turn: a crowd that is refused must not be searched for each of it.
            if !std::mem::replace(&mut self.searched, true) {
                self.drop_gone();
            }
            if self.waiting.len() >= WAITERS_MAX {
                return Some(waiter);
            }
        }
        let number = self.next;
        self.next += 1;
        let collection = &waiter.pending.request.command.collection;
        let by_item = self.by_item.entry(collection.clone()).or_default();
        for item in &waiter.items {
            by_item.entry(item.clone()).or_default().insert(number);
        }
        self.by_end.insert((waiter.until_ms, number));
        self.keys.extend(waiter.key.clone().map(|key| (key, number)));
        self.waiting.insert(number, waiter);
        None
    }

    pub(crate) fn remove(&mut self, number: u64) -> Option<Waiter<T>> {
        let waiter = self.waiting.remove(&number)?;
        self.by_end.remove(&(waiter.until_ms, number));
        let collection = &waiter.pending.request.command.collection;
        if let Some(by_item) = self.by_item.get_mut(collection) {
            for item in &waiter.items {
                if let Some(numbers) = by_item.get_mut(item) {
                    numbers.remove(&number);
                    if numbers.is_empty() {
                        by_item.remove(item);
                    }
                }
            }
            if by_item.is_empty() {
                self.by_item.remove(collection);
            }
        }
        if let Some(key) = &waiter.key {
            self.keys.remove(key);
        }
        Some(waiter)
    }

    /// Those who wait for one of these items.
    pub(crate) fn line(&self, collection: &CollectionKey, items: &BTreeSet<ItemId>) -> Line {
        let by_item = self.by_item.get(collection);
        let first = |item: &ItemId| Some(Reverse((*by_item?.get(item)?.first()?, item.clone())));
        Line { next: items.iter().filter_map(first).collect(), last: None }
    }

    /// The next caller in a line that waits for one of these items, fewer by now, and is still there.
    pub(crate) fn next_in(
        &mut self,
        collection: &CollectionKey,
        line: &mut Line,
        items: &BTreeSet<ItemId>,
        even_gone: bool,
    ) -> Option<u64> {
        use std::ops::Bound::{Excluded, Unbounded};
        while let Some(Reverse((number, item))) = line.next.pop() {
            if !items.contains(&item) {
                continue;
            }
            let numbers = self.by_item.get(collection).and_then(|by_item| by_item.get(&item));
            let behind = numbers.and_then(|numbers| numbers.range((Excluded(number), Unbounded)).next());
            line.next.extend(behind.map(|behind| Reverse((*behind, item))));
            // It stands in the line once for each of its items.
            if line.last.replace(number) == Some(number) {
                continue;
            }
            match self.waiting.get(&number) {
                Some(waiter) if even_gone || !waiter.pending.ticket.is_gone() => return Some(number),
                _ => drop(self.remove(number)),
            }
        }
        None
    }

    /// The caller who came last: what a planted bug serves first.
    pub(crate) fn last_for(&self, collection: &CollectionKey, items: &BTreeSet<ItemId>) -> Option<u64> {
        let by_item = self.by_item.get(collection)?;
        items.iter().filter_map(|item| by_item.get(item)?.last()).max().copied()
    }

    /// The first caller whose patience has ended.
    pub(crate) fn first_ended(&self, now_ms: i64) -> Option<u64> {
        self.by_end.first().filter(|(until_ms, _)| *until_ms <= now_ms).map(|(_, number)| *number)
    }

    /// Takes those out whose patience has ended in one of these collections.
    pub(crate) fn take_ended(
        &mut self,
        now_ms: i64,
        collections: &BTreeSet<CollectionKey>,
    ) -> Vec<Waiter<T>> {
        let ended = self.by_end.iter().take_while(|(until_ms, _)| *until_ms <= now_ms);
        let is_there = |number: &u64| {
            let waiter = self.waiting.get(number);
            waiter.is_some_and(|waiter| collections.contains(&waiter.pending.request.command.collection))
        };
        let numbers: Vec<u64> = ended.map(|(_, number)| *number).filter(is_there).collect();
        numbers.into_iter().filter_map(|number| self.remove(number)).collect()
    }

    pub(crate) fn next_ms(&self) -> Option<i64> {
        self.by_end.first().map(|(until_ms, _)| *until_ms)
    }

    /// The first request with this key still waits. One whose caller has left waits no more: the
    /// retry takes over.
    pub(crate) fn is_running(&mut self, key: &ReplyKey) -> bool {
        let Some(&number) = self.keys.get(key) else { return false };
        let gone = self.waiting.get(&number).is_none_or(|waiter| waiter.pending.ticket.is_gone());
        if gone {
            self.remove(number);
        }
        !gone
    }

    /// How many wait for this item, and are still there.
    pub(crate) fn count(&self, collection: &CollectionKey, item: &ItemId) -> usize {
        let numbers = self.by_item.get(collection).and_then(|by_item| by_item.get(item));
        let waiters = numbers.into_iter().flatten().filter_map(|number| self.waiting.get(number));
        waiters.filter(|waiter| !waiter.pending.ticket.is_gone()).count()
    }

    pub(crate) fn get(&self, number: u64) -> Option<&Waiter<T>> {
        self.waiting.get(&number)
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// The number that the next caller will have.
    pub(crate) fn next_number(&self) -> u64 {
        self.next
    }

    /// Everyone with this number or a later one leaves, in the order in which they came.
    pub(crate) fn drain_from(&mut self, number: u64) -> Vec<Waiter<T>> {
        let numbers: Vec<u64> = self.waiting.range(number..).map(|(number, _)| *number).collect();
        numbers.into_iter().filter_map(|number| self.remove(number)).collect()
    }

    fn drop_gone(&mut self) {
        let gone = self.waiting.iter().filter(|(_, waiter)| waiter.pending.ticket.is_gone());
        let gone: Vec<u64> = gone.map(|(number, _)| *number).collect();
        for number in gone {
            self.remove(number);
        }
    }
}
