//! What an open store has in memory: all rows, the events that the archive does not have yet, and the
//! kept replies.

use std::collections::VecDeque;
use std::sync::Arc;

use tenure_core::{Changed, Claim, ClaimState, CollectionKey, Fact, Sealed};

use super::archive::Group;
use super::kept::KeptIndex;
use super::options::Options;
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
}

impl Live {
    pub(crate) fn new(state: State, kept: KeptIndex, options: &Options) -> Self {
        Self {
            state,
            kept,
            tails: Map::default(),
            ended: VecDeque::new(),
            ended_max: options.ended_claims_max,
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
        self.forget_ended();
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
            self.ended.push_back(Ended { collection: key.clone(), number: claim.number, batch });
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

    /// Lets go of the oldest ended claims. One that is not in the archive stays.
    pub(crate) fn forget_ended(&mut self) {
        for _ in self.ended_max..self.ended.len() {
            if self.ended.front().is_none_or(|ended| ended.batch > self.folded_through) {
                break;
            }
            let Some(ended) = self.ended.pop_front() else { break };
            if self.state.forget_claim(&ended.collection, ended.number, self.high_water_ms) {
                self.ended.push_back(ended);
            }
        }
    }

    fn add_ended(&mut self, batch: u64, key: &CollectionKey, changed: &Changed) {
        for claim in &changed.claims {
            self.note_ended(batch, key, claim);
        }
    }
}

#[cfg(test)]
mod tests {
    use tenure_core::{Event, Hash, Principal};

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
}
