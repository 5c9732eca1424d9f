//! The order of deadlines. Entries are hints: one that comes too early is put back, one for a claim
//! that has ended is dropped, so what moves a deadline later never touches this. Each active claim has
//! one at its deadline or before.
//!
//! Near deadlines are in exact order; far ones lie in buckets, unsorted. Most claims end long before
//! their deadline: their entries are swept out of the buckets in small portions, a turn at a time, so
//! that neither memory nor a pause grows with the claims that were.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashSet};
use std::ops::RangeInclusive;

use tenure_core::CollectionKey;

/// The width of a bucket: about a quarter of a second, 2^8 ms.
const BUCKET_BITS: u32 = 8;
/// Entries that a sweep looks at in one turn: a few even where nothing comes, and no more than a commit grants claims.
const SWEEP: RangeInclusive<usize> = 16..=4_096;
/// Dead entries that are not worth a sweep.
const DEAD_MAX: usize = 10_000;

#[derive(Debug)]
pub(crate) struct Timers {
    near: BinaryHeap<Reverse<Timer>>,
    far: BTreeMap<i64, Bucket>,
    /// Entries in `far`.
    far_count: usize,
    /// Entries that came since the newest sweep.
    new_count: usize,
    /// Where the sweep goes on: a bucket and a place in it.
    swept_to: (i64, usize),
    /// Later deadlines are not kept: whoever shares its store is told of them when they come near.
    horizon_ms: i64,
    /// What is there already, for whoever is told of a deadline again and again.
    known: Option<HashSet<Timer>>,
}

impl Default for Timers {
    fn default() -> Self {
        let (near, far) = (BinaryHeap::new(), BTreeMap::new());
        Self { near, far, far_count: 0, new_count: 0, swept_to: (0, 0), horizon_ms: i64::MAX, known: None }
    }
}

#[derive(Debug)]
struct Bucket {
    /// Not after the earliest of its timers.
    first_ms: i64,
    timers: Vec<Timer>,
}

/// Look at this claim at this time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Timer {
    pub(crate) at_ms: i64,
    pub(crate) claim: u64,
    pub(crate) collection: CollectionKey,
}

impl Timers {
    /// For a store that tells of the same deadlines again and again: each is kept once.
    pub(crate) fn told() -> Self {
        Self { known: Some(HashSet::new()), ..Self::default() }
    }

    /// Deadlines after this are somebody else's to tell of.
    pub(crate) fn keep_until(&mut self, horizon_ms: i64) {
        self.horizon_ms = horizon_ms;
    }

    /// Sets a claim's deadline.
    pub(crate) fn set(&mut self, timer: Timer) {
        if timer.at_ms <= self.horizon_ms {
            self.set_anyway(timer);
        }
    }

    /// Sets a time that no store would tell of: the end of a lock delay.
    pub(crate) fn set_anyway(&mut self, timer: Timer) {
        if self.known.as_mut().is_some_and(|known| !known.insert(timer.clone())) {
            return;
        }
        let empty = || Bucket { first_ms: i64::MAX, timers: Vec::new() };
        let bucket = self.far.entry(timer.at_ms >> BUCKET_BITS).or_insert_with(empty);
        bucket.first_ms = bucket.first_ms.min(timer.at_ms);
        bucket.timers.push(timer);
        self.far_count += 1;
        self.new_count += 1;
    }

    /// The next one, if its time has come. Several for the same claim and time are one.
    pub(crate) fn pop_due(&mut self, now_ms: i64) -> Option<Timer> {
        while let Some(bucket) = self.far.first_entry().filter(|bucket| bucket.get().first_ms <= now_ms) {
            let timers = bucket.remove().timers;
            self.far_count -= timers.len();
            self.near.extend(timers.into_iter().map(Reverse));
        }
        if self.near.peek()?.0.at_ms > now_ms {
            return None;
        }
        let Reverse(timer) = self.near.pop()?;
        while self.near.peek().is_some_and(|Reverse(next)| *next == timer) {
            self.near.pop();
        }
        if let Some(known) = &mut self.known {
            known.remove(&timer);
        }
        Some(timer)
    }

    pub(crate) fn next_ms(&self) -> Option<i64> {
        let near_ms = self.near.peek().map(|Reverse(timer)| timer.at_ms);
        let far_ms = self.far.first_key_value().map(|(_, bucket)| bucket.first_ms);
        near_ms.into_iter().chain(far_ms).min()
    }

    /// The first of those whose time will have come: what [`Self::pop_due`] gives next.
    pub(crate) fn first_due(&mut self, now_ms: i64, limit: usize) -> Vec<Timer> {
        let mut first = Vec::new();
        while first.len() < limit
            && let Some(timer) = self.pop_due(now_ms)
        {
            first.push(timer);
        }
        for timer in &first {
            self.set_anyway(timer.clone());
        }
        first
    }

    /// What is due in these collections is due at a later time.
    pub(crate) fn put_off(&mut self, now_ms: i64, until_ms: i64, collections: &BTreeSet<CollectionKey>) {
        let mut due = Vec::new();
        while let Some(timer) = self.pop_due(now_ms) {
            let at_ms = if collections.contains(&timer.collection) { until_ms } else { timer.at_ms };
            due.push(Timer { at_ms, ..timer });
        }
        for timer in due {
            self.set_anyway(timer);
        }
    }

    /// Looks at a few of the far entries and drops those that nobody needs, if there are many more
    /// entries than active claims. What it looks at goes by what came, so that somewhat more go than come: a look is a miss
    /// in the processor's caches, and turns may be as small as a request.
    pub(crate) fn sweep(&mut self, active: usize, needed: impl Fn(&Timer) -> bool) {
        let came = std::mem::take(&mut self.new_count);
        if self.far_count <= 2 * active + DEAD_MAX {
            return;
        }
        // At least every second one is dead, and the more of them are the fewer looks find as many.
        let looks = came * self.far_count / (self.far_count - active) + came / 8;
        let mut looks = looks.clamp(*SWEEP.start(), *SWEEP.end());
        // A step to the next bucket is none, or where deadlines are sparse nothing would be left for their entries. There
        // are no more steps than entries to look at: no bucket is empty but the one where this is.
        while looks > 0 {
            let (from, place) = self.swept_to;
            let Some((&key, bucket)) = self.far.range_mut(from..).next() else {
                self.swept_to = (i64::MIN, 0);
                return;
            };
            let place = if key == from { place } else { 0 };
            let Some(timer) = bucket.timers.get(place) else {
                self.swept_to = (key + 1, 0);
                if bucket.timers.is_empty() {
                    self.far.remove(&key);
                }
                continue;
            };
            looks -= 1;
            if needed(timer) {
                self.swept_to = (key, place + 1);
            } else {
                bucket.timers.swap_remove(place);
                self.far_count -= 1;
                self.swept_to = (key, place);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timer(at_ms: i64, claim: u64) -> Timer {
        Timer { at_ms, claim, collection: CollectionKey::new("lock/x").unwrap() }
    }

    #[test]
    fn timers_come_in_order_and_not_before_their_time() {
        let mut timers = Timers::default();
        for at_ms in [5_000, 1, 300, 299, 255, 256, 5_001] {
            timers.set(timer(at_ms, 1));
        }
        assert_eq!(timers.pop_due(0), None);
        let mut seen = Vec::new();
        for now_ms in 0..6_000 {
            while let Some(due) = timers.pop_due(now_ms) {
                assert_eq!(due.at_ms, now_ms, "exactly at its time");
                seen.push(due.at_ms);
            }
            assert!(timers.next_ms().is_none_or(|next_ms| next_ms > now_ms));
        }
        assert_eq!(seen, [1, 255, 256, 299, 300, 5_000, 5_001]);
    }

    /// A collection that somebody keeps has more deadlines than a turn names: they stand before nobody else's.
    #[test]
    fn i18_what_is_put_off_comes_once_and_after_the_others() {
        let mut timers = Timers::told();
        let other = Timer { collection: CollectionKey::new("lock/y").unwrap(), ..timer(2_000, 1) };
        timers.set_anyway(other.clone());
        for _ in 0..3 {
            (0..1_000).for_each(|claim| timers.set_anyway(timer(1_000, claim)));
            timers.put_off(2_000, 3_000, &BTreeSet::from([timer(0, 0).collection]));
        }
        assert_eq!(timers.first_due(2_999, 512), std::slice::from_ref(&other));
        assert_eq!(timers.pop_due(2_999), Some(other));
        let popped = std::iter::from_fn(|| timers.pop_due(3_000));
        assert_eq!(popped.count(), 1_000, "each once, however often it was told of");
    }

    #[test]
    fn i18_what_is_told_again_and_again_is_there_once_and_what_is_named_is_what_comes() {
        let mut timers = Timers::told();
        for _ in 0..5 {
            (0..1_000_u64)
                .rev()
                .for_each(|claim| timers.set_anyway(timer(1_000 + claim.cast_signed() / 10, claim)));
        }
        assert_eq!(timers.far_count, 1_000);
        let named = timers.first_due(1_090, 512);
        assert_eq!(named.len(), 512, "all of them different");
        let popped: Vec<Timer> = std::iter::from_fn(|| timers.pop_due(1_200)).collect();
        assert_eq!(popped[..512], named);
        assert_eq!(popped.len(), 1_000);
        assert!(timers.known.is_some_and(|known| known.is_empty()), "and can be told of anew");
    }

    #[test]
    fn a_small_turn_looks_at_few_entries_and_a_large_one_at_no_more_than_are_not_felt() {
        let mut timers = Timers::default();
        (0..50_000).for_each(|claim| timers.set(timer(1_000_000, claim)));
        let looks = std::cell::Cell::new(0);
        let needed = |_: &Timer| {
            looks.set(looks.get() + 1);
            true
        };
        // The first has all that came before it to answer for.
        for (came, expected) in [(0, 4_096), (0, 16), (1, 16), (16, 18), (64, 72), (2_000, 2_250)] {
            (0..came).for_each(|claim| timers.set(timer(1_000_000, claim)));
            looks.set(0);
            timers.sweep(0, needed);
            assert_eq!(looks.get(), expected, "after {came} new ones");
        }
    }

    #[test]
    fn entries_of_claims_that_ended_are_swept_out_and_the_others_stay() {
        // However many a turn grants.
        [64, 2_000].into_iter().for_each(check_sweeps);
    }

    /// Most buckets have one entry then, and many are passed for as many entries.
    #[test]
    fn entries_of_claims_that_ended_are_swept_out_however_far_apart_they_are() {
        const DAY_MS: i64 = 24 * 3_600_000;
        let mut timers = Timers::default();
        for number in 0..200_000 {
            let claim = u64::try_from(number).unwrap();
            timers.set(timer(1_000_000 + number * 7_919_993 % DAY_MS, claim));
            if claim % 100 == 0 {
                timers.sweep(0, |_| false);
            }
        }
        assert!(timers.far_count <= 2 * DEAD_MAX, "{}", timers.far_count);
    }

    fn check_sweeps(portion: u64) {
        let mut timers = Timers::default();
        let needed = |timer: &Timer| timer.claim.is_multiple_of(100);
        for claim in 0..200_000 {
            timers.set(timer(1_000_000 + i64::try_from(claim % 7_000).unwrap(), claim));
            if claim % portion == 0 {
                timers.sweep(2_000, needed);
            }
        }
        // Nearly as few as there may be, although as many came as were looked at.
        assert!(timers.far_count <= 2 * (2 * 2_000 + DEAD_MAX), "{}", timers.far_count);
        for _ in 0..1_000 {
            timers.sweep(2_000, needed);
        }
        assert!(timers.far_count <= 2 * 2_000 + DEAD_MAX, "{}", timers.far_count);
        let mut kept = 0;
        while let Some(timer) = timers.pop_due(i64::MAX) {
            kept += usize::from(needed(&timer));
        }
        assert_eq!(kept, 2_000);
    }
}
