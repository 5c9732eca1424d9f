//! Followers of a feed: no gap, no duplicate, nothing that was not committed (I14), and a number that
//! cannot be resumed from is said to be so (I15).

use std::collections::BTreeMap;

use tenure_core::{CollectionKey, Hash};
use tenure_engine::Delivery;

use super::books::Books;
use super::chain::Log;
use super::{Auditor, Check, violation};

#[derive(Debug, Default)]
pub(crate) struct Feeds {
    followers: BTreeMap<u64, Follower>,
    /// Told by a server that died before anybody could look: they must be there afterwards.
    rumours: Vec<(CollectionKey, u64, Hash)>,
}

#[derive(Debug)]
struct Follower {
    key: CollectionKey,
    /// The newest number that it knows; `None` before its first snapshot.
    cursor: Option<u64>,
    must_resync: bool,
}

impl Auditor {
    /// Somebody follows a collection after that number, or from a snapshot. `must_resync`: the number
    /// is one that cannot be resumed from.
    pub fn follows(&mut self, follower: u64, key: &CollectionKey, cursor: Option<u64>, must_resync: bool) {
        self.feeds.followers.insert(follower, Follower { key: key.clone(), cursor, must_resync });
    }

    /// Somebody follows no more.
    pub fn unfollows(&mut self, follower: u64) {
        self.feeds.followers.remove(&follower);
    }

    /// Something was delivered. `dying`: by a server that died in this turn.
    pub fn delivered(&mut self, follower: u64, delivery: &Delivery, dying: bool) -> Check {
        self.figures.feed += 1;
        let oldest = |key: &CollectionKey| {
            // Older numbers than this need not be retained.
            self.retained.map(|retained| self.log.last_seq(key).saturating_sub(retained))
        };
        if let Some(resumed) = self.feeds.may_start_anew(follower, delivery, &oldest) {
            return resumed;
        }
        self.feeds.delivered(follower, delivery, dying, &self.log, &self.books)
    }
}

impl Feeds {
    /// A follower that fell behind what is retained is told so, and starts with a snapshot.
    fn may_start_anew(
        &mut self,
        id: u64,
        delivery: &Delivery,
        oldest: &dyn Fn(&CollectionKey) -> Option<u64>,
    ) -> Option<Check> {
        let follower = self.followers.get_mut(&id)?;
        let behind = follower.cursor.is_some_and(|cursor| Some(cursor) < oldest(&follower.key));
        let resync = matches!(delivery, Delivery::Resync) && !follower.must_resync;
        (resync && behind).then(|| {
            follower.cursor = None;
            Ok(())
        })
    }

    fn delivered(&mut self, id: u64, delivery: &Delivery, dying: bool, log: &Log, books: &Books) -> Check {
        let Some(follower) = self.followers.get_mut(&id) else { return Ok(()) };
        let key = &follower.key;
        if follower.must_resync && !matches!(delivery, Delivery::Resync) {
            return violation(
                "I15",
                format!("{key}: a follower with a number from nowhere was not told to start anew"),
            );
        }
        match delivery {
            Delivery::Resync if follower.must_resync => Ok(()),
            Delivery::Resync => {
                violation("I15", format!("{key}: told to start anew from {:?}", follower.cursor))
            }
            Delivery::Lagging { .. } => Ok(()),
            Delivery::Snapshot(snapshot) => {
                follower.cursor = Some(snapshot.head.seq);
                let space = books.space(key);
                let items = snapshot.items.iter().eq(space.items.values());
                let active = space.active.iter().filter_map(|number| space.claims.get(number));
                if snapshot.head.seq != space.seq || !items || !snapshot.claims.iter().eq(active) {
                    return violation(
                        "I14",
                        format!("{key}: a snapshot at {} is not what was committed", snapshot.head.seq),
                    );
                }
                Ok(())
            }
            Delivery::Events(events) => {
                for sealed in events {
                    let seq = sealed.event.seq;
                    if follower.cursor.is_some_and(|cursor| seq != cursor + 1) {
                        return violation(
                            "I14",
                            format!("{key}: event {seq} was told after {:?}", follower.cursor),
                        );
                    }
                    follower.cursor = Some(seq);
                    match log.get(key, seq) {
                        Some(known) if known.hash == sealed.hash => {}
                        None if dying => self.rumours.push((key.clone(), seq, sealed.hash)),
                        _ => {
                            return violation(
                                "I14",
                                format!("{key}: event {seq} was told, but is not what was committed"),
                            );
                        }
                    }
                }
                Ok(())
            }
        }
    }

    pub(crate) fn check_rumours(&mut self, log: &Log) -> Check {
        for (key, seq, hash) in std::mem::take(&mut self.rumours) {
            if log.get(&key, seq).is_none_or(|known| known.hash != hash) {
                return violation(
                    "I14",
                    format!("{key}: event {seq} was told and then taken back by a crash"),
                );
            }
        }
        Ok(())
    }

    /// At the end everyone has heard everything.
    pub(crate) fn finish(&self, log: &Log) -> Check {
        for follower in self.followers.values().filter(|follower| !follower.must_resync) {
            let (cursor, last) = (follower.cursor.unwrap_or(0), log.last_seq(&follower.key));
            if cursor != last {
                return violation(
                    "I14",
                    format!("{}: a follower heard up to {cursor} of {last}", follower.key),
                );
            }
        }
        Ok(())
    }
}
