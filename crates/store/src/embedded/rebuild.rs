//! An ended claim that memory has let go of, from the events that are about it.

use std::collections::BTreeMap;
use std::sync::Arc;

use tenure_core::{
    Claim, ClaimState, Collection, CollectionKey, Event, Fact, Hash, Item, ItemId, Policy, Rows, RowsMut,
    Status, fold,
};

use super::archive::{ArchiveReader, ChunkAsk, Word, read_wanted};
use super::reader::all_of;
use crate::Error;

/// The claim, if an archived event granted it and another ended it. Heartbeats are no events: its last
/// sign of life is the last that was one.
pub(super) fn ended_claim(
    archive: &impl ArchiveReader,
    key: &CollectionKey,
    number: u64,
) -> Result<Option<Arc<Claim>>, Error> {
    let mut events: BTreeMap<u64, Event> = BTreeMap::new();
    let mut ended_seq = u64::MAX;
    // Two searches, since a filter answers for all of its words: a pause names no claim.
    for words in [[Word::claim(number)], [Word::action("resumed")]] {
        let ask = ChunkAsk { from_seq: number, words: &words, ..all_of(key) };
        archive.chunks(&ask, &mut |_, chunk| {
            if chunk.first_seq > ended_seq {
                return Ok(false);
            }
            let about = |event: &Event| {
                event.seq >= number
                    && (event.claim() == Some(number) || matches!(event.fact, Fact::Resumed { .. }))
            };
            for sealed in read_wanted(chunk.before, chunk.data, about) {
                let event = sealed?.event;
                if matches!(event.fact, Fact::Ended(_)) {
                    ended_seq = event.seq;
                }
                events.insert(event.seq, event);
            }
            Ok(true)
        })?;
        if !events.get(&number).is_some_and(|event| matches!(event.fact, Fact::Granted(_))) {
            return Ok(None);
        }
    }
    let mut rows = OneClaim { number, claim: None };
    for event in events.range(..=ended_seq).map(|(_, event)| event) {
        fold::apply(&mut rows, key, event, Hash::default());
    }
    let claim = rows.claim.filter(|claim| claim.state != ClaimState::Active);
    Ok(claim.map(|mut claim| {
        if claim.state == ClaimState::Expired {
            // It ended at its deadline, wherever heartbeats had moved that.
            let claim = Arc::make_mut(&mut claim);
            claim.expires_at_ms = claim.ended_at_ms.unwrap_or(claim.expires_at_ms);
        }
        claim
    }))
}

/// Rows in which only one claim matters. Every item seems to be there, and no change to one is kept.
struct OneClaim {
    number: u64,
    claim: Option<Arc<Claim>>,
}

impl Rows for OneClaim {
    fn policy(&self, _kind: &str) -> Option<Arc<Policy>> {
        None
    }

    fn collection(&self, _key: &CollectionKey) -> Option<Arc<Collection>> {
        None
    }

    fn item(&self, _key: &CollectionKey, id: &ItemId) -> Option<Arc<Item>> {
        Some(Arc::new(Item {
            id: id.clone(),
            status: Status::new("any").expect("a valid status"),
            version: 0,
            data: None,
            fence: 0,
            claim: 0,
            updated_at_ms: 0,
            updated_by: Arc::from(""),
        }))
    }

    fn claim(&self, _key: &CollectionKey, number: u64) -> Option<Arc<Claim>> {
        self.claim.clone().filter(|claim| claim.number == number)
    }

    fn claims_of(&self, _key: &CollectionKey, _holder_id: &str) -> Vec<Arc<Claim>> {
        Vec::new()
    }

    fn active_claims(&self, _key: &CollectionKey) -> Vec<u64> {
        let active = self.claim.iter().filter(|claim| claim.state == ClaimState::Active);
        active.map(|claim| claim.number).collect()
    }
}

impl RowsMut for OneClaim {
    fn put_policy(&mut self, _kind: &str, _policy: Arc<Policy>) {}

    fn put_collection(&mut self, _key: &CollectionKey, _collection: Arc<Collection>) {}

    fn put_item(&mut self, _key: &CollectionKey, _item: Arc<Item>) {}

    fn remove_item(&mut self, _key: &CollectionKey, _id: &ItemId) {}

    fn put_claim(&mut self, _key: &CollectionKey, claim: Arc<Claim>) {
        if claim.number == self.number {
            self.claim = Some(claim);
        }
    }
}
