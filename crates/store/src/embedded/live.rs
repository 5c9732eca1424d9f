//! What an open store has in memory: all rows, the events that the archive does not have yet, and the
//! kept replies.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use tenure_core::{Changed, Claim, ClaimState, CollectionKey, Fact, ItemId, Sealed};

use super::archive::Group;
use super::kept::KeptIndex;
use super::options::Options;
use crate::limits::{DELAY_OVER_MS, ENDED_BYTES_MAX, FORGET_MIN};
use crate::{Batch, Map, State};

/// Committed and nothing else. Guarded by one lock: a commit changes it at once, readers look at it.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) state: State,
    pub(crate) kept: KeptIndex,
    /// Events that are not yet in the archive, in order, for each collection that has some.
    pub(crate) tails: Map<CollectionKey, VecDeque<Arc<Sealed>>>,
    /// Ended claims that are in memory, in the order of their ends.
    ended: VecDeque<Ended>,
    ended_max: usize,
    /// What they take.
    ended_bytes: usize,
    /// Those that are in the archive and whose lock delay runs, by its end.
    delayed: BTreeSet<(i64, CollectionKey, u64)>,
    /// The highest time that was committed.
    pub(crate) high_water_ms: i64,
    pub(crate) epoch: u64,
    /// The newest batch.
    pub(crate) last: u64,
    /// The newest batch that the archive has.
    pub(crate) folded_through: u64,
    /// The time of the batch after that one.
    pub(crate) unfolded_at_ms: Option<i64>,
}

#[derive(Debug)]
struct Ended {
    collection: CollectionKey,
    number: u64,
    /// The batch that ended it.
    batch: u64,
    bytes: usize,
}

impl Live {
    pub(crate) fn new(state: State, kept: KeptIndex, options: &Options) -> Self {
        let delayed =
            state.delayed().map(|(key, number, until_ms)| (until_ms, key.clone(), number)).collect();
        Self {
            state,
            kept,
            tails: Map::default(),
            ended: VecDeque::new(),
            ended_max: options.ended_claims_max,
            ended_bytes: 0,
            delayed,
            high_water_ms: 0,
            epoch: 1,
            last: 0,
            folded_through: 0,
            unfolded_at_ms: None,
        }
    }

    /// A batch is committed.
    pub(crate) fn apply(&mut self, number: u64, batch: &Batch) {
        self.add_time(number, batch.at_ms);
        let before = self.ended.len();
        for entry in &batch.entries {
            self.add_ended(number, &entry.collection, &entry.changed);
            self.state.take(&entry.collection, &entry.changed);
            for sealed in &entry.events {
                self.add_epoch(&sealed.event.fact);
            }
            self.add_events(&entry.collection, &entry.events);
            if let Some((key, kept)) = &entry.kept {
                self.kept.insert(key, kept.clone());
            }
        }
        self.forget_ended(2 * (self.ended.len() - before) + FORGET_MIN);
    }

    pub(crate) fn add_time(&mut self, number: u64, at_ms: i64) {
        self.last = number;
        self.high_water_ms = self.high_water_ms.max(at_ms);
        self.unfolded_at_ms.get_or_insert(at_ms);
    }

    pub(crate) fn add_epoch(&mut self, fact: &Fact) {
        if let Fact::Restored { epoch, .. } = fact {
            self.epoch = self.epoch.max(*epoch);
        }
    }

    pub(crate) fn add_events(&mut self, key: &CollectionKey, events: &[Arc<Sealed>]) {
        if events.is_empty() {
            return;
        }
        if let Some(tail) = self.tails.get_mut(key) {
            tail.extend(events.iter().cloned());
        } else {
            self.tails.insert(key.clone(), events.iter().cloned().collect());
        }
    }

    pub(crate) fn note_ended(&mut self, batch: u64, key: &CollectionKey, claim: &Claim) {
        if claim.state != ClaimState::Active {
            let bytes = claim_bytes(claim);
            self.ended_bytes += bytes;
            self.ended.push_back(Ended { collection: key.clone(), number: claim.number, batch, bytes });
        }
    }

    /// The archive has a group's rows from here on. Answers the events that need not be here any more, to be dropped
    /// without the lock: a hundred thousand of them take as long as a dozen commits.
    #[must_use]
    pub(crate) fn folded(
        &mut self,
        group: &Group,
        unfolded_at_ms: Option<i64>,
    ) -> Vec<VecDeque<Arc<Sealed>>> {
        self.folded_through = group.through;
        self.unfolded_at_ms = unfolded_at_ms;
        let mut dropped = Vec::new();
        for (key, rows) in &group.collections {
            let (Some(last), Some(tail)) = (rows.events.last(), self.tails.get_mut(key)) else { continue };
            let folded = tail.partition_point(|sealed| sealed.event.seq <= last.event.seq);
            let unfolded = tail.split_off(folded);
            dropped.push(std::mem::replace(tail, unfolded));
            if tail.is_empty() {
                self.tails.remove(key);
            }
        }
        dropped
    }

    /// Lets go of the oldest ended claims, up to so many. One that is not in the archive stays.
    pub(crate) fn forget_ended(&mut self, mut most: usize) {
        let over_ms = self.high_water_ms - DELAY_OVER_MS;
        while most > 0 && self.delayed.first().is_some_and(|(until_ms, ..)| *until_ms <= over_ms) {
            let Some((_, collection, number)) = self.delayed.pop_first() else { break };
            self.state.forget_claim(&collection, number, over_ms);
            most -= 1;
        }
        while most > 0 && (self.ended.len() > self.ended_max || self.ended_bytes > ENDED_BYTES_MAX) {
            if self.ended.front().is_none_or(|ended| ended.batch > self.folded_through) {
                break;
            }
            let Some(Ended { collection, number, bytes, .. }) = self.ended.pop_front() else { break };
            self.ended_bytes -= bytes;
            if let Some(until_ms) = self.state.forget_claim(&collection, number, over_ms) {
                self.delayed.insert((until_ms, collection, number));
            }
            most -= 1;
        }
    }

    fn add_ended(&mut self, batch: u64, key: &CollectionKey, changed: &Changed) {
        for claim in &changed.claims {
            self.note_ended(batch, key, claim);
        }
    }
}

/// About what a claim takes.
pub(super) fn claim_bytes(claim: &Claim) -> usize {
    let data = claim.data.as_ref().map_or(0, |data| data.as_str().len());
    size_of::<Claim>() + claim.items.len() * size_of::<ItemId>() + data
}

#[cfg(test)]
mod tests {
    use tenure_core::{EndReason, Event, Hash, Principal, Rows, RowsMut};

    use super::*;

    fn sealed(seq: u64) -> Arc<Sealed> {
        let actor = Principal::new("ana", "Ana").expect("a person");
        Arc::new(Sealed::new(&Hash::default(), Event { seq, at_ms: 1, actor, fact: Fact::CollectionCreated }))
    }

    #[test]
    fn what_was_folded_is_handed_out_whole_and_what_was_not_stays() {
        let key = CollectionKey::new("lock/a").expect("a key");
        let mut live = Live::new(State::default(), KeptIndex::new(1, 1), &Options::default());
        let events: Vec<_> = (1..=3).map(sealed).collect();
        live.add_events(&key, &events);
        let weak: Vec<_> = events.iter().map(Arc::downgrade).collect();
        let mut group = Group { through: 9, batches: 1, ..Group::default() };
        group.rows_mut(&key).events.push(sealed(2));
        drop(events);
        let dropped = live.folded(&group, None);
        let alive = || weak.iter().map(std::sync::Weak::strong_count).collect::<Vec<_>>();
        assert_eq!(alive(), [1, 1, 1], "nothing is freed while the lock is held");
        drop(dropped);
        assert_eq!(alive(), [0, 0, 1]);
        assert_eq!(live.tails[&key].len(), 1);
        group.rows_mut(&key).events.push(sealed(3));
        drop(live.folded(&group, None));
        assert!(live.tails.is_empty());
    }

    /// Claims that ended in the first batch, with this lock delay's end.
    fn ended(live: &mut Live, count: u64, blocked_until_ms: i64) -> CollectionKey {
        let key = CollectionKey::new("lock/a").expect("a key");
        let holder = Principal::new("ana", "Ana").expect("a person");
        for number in 1..=count {
            let claim = Arc::new(Claim {
                number,
                token: number,
                items: [ItemId::new("a").expect("an item")].into(),
                holder: holder.clone(),
                session: None,
                state: ClaimState::Expired,
                reason: Some(EndReason::Expired),
                ended_at_ms: Some(1),
                blocked_until_ms,
                phase: "held".into(),
                phase_since_ms: 1,
                ttl_ms: 1,
                since_ms: 1,
                heartbeat_at_ms: 1,
                acted_at_ms: 1,
                expires_at_ms: 1,
                idle: false,
                data: None,
            });
            live.note_ended(1, &key, &claim);
            live.state.put_claim(&key, claim);
        }
        key
    }

    fn kept(live: &Live, key: &CollectionKey, count: u64) -> usize {
        (1..=count).filter(|number| live.state.claim(key, *number).is_some()).count()
    }

    #[test]
    fn what_a_fold_sets_free_is_let_go_of_bit_by_bit() {
        let options = Options { ended_claims_max: 10, ..Options::default() };
        let mut live = Live::new(State::default(), KeptIndex::new(1, 1), &options);
        let key = ended(&mut live, 1_000, 0);
        let commit = |live: &mut Live, number| live.apply(number, &Batch { at_ms: 5, entries: Vec::new() });
        commit(&mut live, 2);
        assert_eq!(kept(&live, &key, 1_000), 1_000, "the archive has none of them");
        live.folded_through = 1;
        for (number, expected) in [(3, 1_000 - FORGET_MIN), (4, 1_000 - 2 * FORGET_MIN)] {
            commit(&mut live, number);
            assert_eq!(kept(&live, &key, 1_000), expected);
        }
        (5..9).for_each(|number| commit(&mut live, number));
        assert_eq!(kept(&live, &key, 1_000), 10);
    }

    /// Those who wait for its items may hear of its end later than it is over.
    #[test]
    fn i18_a_claim_outlives_its_lock_delay_and_costs_nothing_meanwhile() {
        let options = Options { ended_claims_max: 0, ..Options::default() };
        let mut live = Live::new(State::default(), KeptIndex::new(1, 1), &options);
        let key = ended(&mut live, 100, 9_000);
        live.folded_through = 1;
        let commit = |live: &mut Live, at_ms| {
            live.apply(live.last + 1, &Batch { at_ms, entries: Vec::new() });
            (kept(live, &key, 100), live.ended.len(), live.ended_bytes)
        };
        assert_eq!(commit(&mut live, 5), (100, 0, 0), "none of them is looked at again");
        assert_eq!(commit(&mut live, 9_000 + DELAY_OVER_MS - 1), (100, 0, 0));
        assert_eq!(commit(&mut live, 9_000 + DELAY_OVER_MS), (0, 0, 0));
        // After a restart, too.
        let mut again = Live::new(State::default(), KeptIndex::new(1, 1), &options);
        ended(&mut again, 100, 9_000);
        let mut again = Live::new(again.state, KeptIndex::new(1, 1), &options);
        assert_eq!(commit(&mut again, 9_000), (100, 0, 0));
        assert_eq!(commit(&mut again, 9_000 + DELAY_OVER_MS), (0, 0, 0));
    }
}
