//! The readers' face: memory first, and for what is no longer there the archive.
//!
//! A fold moves events from memory to the archive while readers look. Whoever needs both looks into
//! memory first: what has left it by then is already in the archive.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;
use tenure_core::{Claim, Collection, CollectionKey, Event, Item, ItemId, Policy, Rows, Sealed};

use super::archive::{ArchiveReader, ChunkAsk, ChunkOrder, Word, read_events, read_wanted};
use super::live::Live;
use super::rebuild::ended_claim;
use crate::read::follows;
use crate::{
    AuditFilter, ClaimFilter, ClaimRow, Error, EventPage, HeldItem, ItemFilter, Page, Reader, Snapshot, Stats,
};

pub(super) struct EmbeddedReader<R> {
    pub(super) live: Arc<RwLock<Live>>,
    pub(super) archive: R,
    pub(super) journal_bytes: Arc<AtomicU64>,
}

impl<R: ArchiveReader> EmbeddedReader<R> {
    /// Archived events after a number and before another, oldest first.
    fn archived(
        &self,
        key: &CollectionKey,
        since: u64,
        before: u64,
        limit: usize,
    ) -> Result<Vec<Arc<Sealed>>, Error> {
        let mut found = Vec::new();
        let ask = ChunkAsk { from_seq: since.saturating_add(1), ..all_of(key) };
        self.archive.chunks(&ask, &mut |_, chunk| {
            for sealed in read_events(chunk.before, chunk.data) {
                let sealed = sealed?;
                if sealed.event.seq >= before || found.len() >= limit {
                    return Ok(false);
                }
                if sealed.event.seq > since {
                    found.push(Arc::new(sealed));
                }
            }
            Ok(true)
        })?;
        Ok(found)
    }

    fn resync(&self, key: &CollectionKey, tail_first: Option<u64>, last: u64) -> Result<EventPage, Error> {
        let mut first = tail_first.unwrap_or(last);
        self.archive.chunks(&all_of(key), &mut |_, chunk| {
            first = first.min(chunk.first_seq);
            Ok(false)
        })?;
        Ok(EventPage::Resync { first, last })
    }
}

impl<R: ArchiveReader> Reader for EmbeddedReader<R> {
    fn epoch(&self) -> u64 {
        self.live.read().epoch
    }

    fn policy(&self, kind: &str) -> Result<Option<Arc<Policy>>, Error> {
        Ok(self.live.read().state.policy(kind))
    }

    fn collection(&self, key: &CollectionKey) -> Result<Option<Arc<Collection>>, Error> {
        Ok(self.live.read().state.collection(key))
    }

    fn collections(
        &self,
        after: Option<&CollectionKey>,
        limit: usize,
    ) -> Result<Page<(CollectionKey, Arc<Collection>)>, Error> {
        Ok(self.live.read().state.collections(after, limit))
    }

    fn item(&self, key: &CollectionKey, id: &ItemId) -> Result<Option<Arc<Item>>, Error> {
        Ok(self.live.read().state.item(key, id))
    }

    fn items(
        &self,
        key: &CollectionKey,
        filter: &ItemFilter,
        limit: usize,
    ) -> Result<Page<Arc<Item>>, Error> {
        Ok(self.live.read().state.items(key, filter, limit))
    }

    fn held_item(&self, key: &CollectionKey, id: &ItemId) -> Result<Option<HeldItem>, Error> {
        Ok(self.live.read().state.held_item(key, id))
    }

    fn held_items(
        &self,
        key: &CollectionKey,
        filter: &ItemFilter,
        limit: usize,
    ) -> Result<Page<HeldItem>, Error> {
        Ok(self.live.read().state.held_items(key, filter, limit))
    }

    fn claim(&self, key: &CollectionKey, number: u64) -> Result<Option<Arc<Claim>>, Error> {
        let seq = {
            let live = self.live.read();
            if let Some(claim) = live.state.claim(key, number) {
                return Ok(Some(claim));
            }
            live.state.collection(key).map_or(0, |head| head.seq)
        };
        if number == 0 || number > seq { Ok(None) } else { ended_claim(&self.archive, key, number) }
    }

    fn claims(&self, filter: &ClaimFilter, limit: usize) -> Result<Page<ClaimRow>, Error> {
        Ok(self.live.read().state.claims(filter, limit))
    }

    fn events(&self, key: &CollectionKey, since: u64, limit: usize) -> Result<EventPage, Error> {
        let (last, tail_first, tail) = {
            let live = self.live.read();
            let last = live.state.collection(key).map_or(0, |head| head.seq);
            let tail = live.tails.get(key);
            let start = tail.map_or(0, |tail| tail.partition_point(|sealed| sealed.event.seq <= since));
            let found: Vec<_> =
                tail.into_iter().flat_map(|tail| tail.range(start..)).take(limit).cloned().collect();
            (last, tail.and_then(first_seq), found)
        };
        if since > last {
            return self.resync(key, tail_first, last);
        }
        if since == last || limit == 0 {
            return Ok(EventPage::Events(Vec::new()));
        }
        let in_memory = tail.first().is_some_and(|first| follows(&first.event, since));
        let mut events = match tail_first {
            _ if in_memory => Vec::new(),
            Some(first) => self.archived(key, since, first, limit)?,
            None => self.archived(key, since, u64::MAX, limit)?,
        };
        let room = limit - events.len();
        events.extend(tail.into_iter().take(room));
        if events.first().is_some_and(|first| follows(&first.event, since)) {
            Ok(EventPage::Events(events))
        } else {
            self.resync(key, tail_first, last)
        }
    }

    fn audit(&self, filter: &AuditFilter, limit: usize) -> Result<Page<(CollectionKey, Arc<Sealed>)>, Error> {
        let mut best = Newest { rows: BTreeMap::new(), limit };
        let mut firsts = HashMap::new();
        {
            let live = self.live.read();
            for (key, tail) in &live.tails {
                firsts.extend(first_seq(tail).map(|first| (key.clone(), first)));
                for sealed in tail.iter().filter(|sealed| filter.matches(key, &sealed.event)) {
                    best.add(key, || sealed.clone(), &sealed.event);
                }
            }
        }
        let words = [
            filter.actor.as_ref().map(|actor| Word::actor(actor)),
            filter.action.as_ref().map(|action| Word::action(action)),
            filter.item.as_ref().map(|item| Word::item(item.as_str())),
        ];
        let words: Vec<Word> = words.into_iter().flatten().collect();
        let before_ms = filter.before.as_ref().map_or(i64::MAX, |(at_ms, ..)| at_ms.saturating_add(1));
        let ask = ChunkAsk {
            collection: filter.collection.as_ref(),
            from_seq: 0,
            at_ms: filter.from_ms.unwrap_or(i64::MIN)..filter.to_ms.unwrap_or(i64::MAX).min(before_ms),
            words: &words,
            order: ChunkOrder::Latest,
        };
        self.archive.chunks(&ask, &mut |key, chunk| {
            if best.is_past(chunk.last_at_ms) {
                return Ok(false);
            }
            let first_in_memory = firsts.get(key).copied().unwrap_or(u64::MAX);
            let wanted = |event: &Event| event.seq < first_in_memory && filter.matches(key, event);
            for sealed in read_wanted(chunk.before, chunk.data, wanted) {
                let sealed = Arc::new(sealed?);
                best.add(key, || sealed.clone(), &sealed.event);
            }
            Ok(true)
        })?;
        Ok(best.page())
    }

    fn snapshot(&self, key: &CollectionKey) -> Result<Option<Snapshot>, Error> {
        let live = self.live.read();
        Ok(live.state.snapshot(key, live.epoch))
    }

    fn stats(&self) -> Stats {
        let live = self.live.read();
        Stats {
            journal_bytes: self.journal_bytes.load(Ordering::Relaxed),
            fold_lag_batches: live.last - live.folded_through,
            unfolded_at_ms: live.unfolded_at_ms,
            ..live.state.stats()
        }
    }
}

/// The newest rows of an audit, newest last.
struct Newest {
    rows: BTreeMap<(i64, CollectionKey, u64), Arc<Sealed>>,
    limit: usize,
}

impl Newest {
    fn add(&mut self, key: &CollectionKey, sealed: impl FnOnce() -> Arc<Sealed>, event: &Event) {
        if self.is_past(event.at_ms) {
            return;
        }
        self.rows.insert((event.at_ms, key.clone(), event.seq), sealed());
        // One more than a page, to know whether there is more.
        if self.rows.len() > self.limit.saturating_add(1) {
            self.rows.pop_first();
        }
    }

    /// Nothing of this time or before it can still get in.
    fn is_past(&self, at_ms: i64) -> bool {
        self.rows.len() > self.limit
            && self.rows.first_key_value().is_some_and(|((oldest_ms, ..), _)| at_ms < *oldest_ms)
    }

    fn page(self) -> Page<(CollectionKey, Arc<Sealed>)> {
        let more = self.rows.len() > self.limit;
        let rows = self.rows.into_iter().rev().take(self.limit);
        Page { rows: rows.map(|((_, key, _), sealed)| (key, sealed)).collect(), more }
    }
}

fn first_seq(tail: &VecDeque<Arc<Sealed>>) -> Option<u64> {
    tail.front().map(|sealed| sealed.event.seq)
}

pub(super) fn all_of(key: &CollectionKey) -> ChunkAsk<'_> {
    ChunkAsk {
        collection: Some(key),
        from_seq: 0,
        at_ms: i64::MIN..i64::MAX,
        words: &[],
        order: ChunkOrder::Oldest,
    }
}
