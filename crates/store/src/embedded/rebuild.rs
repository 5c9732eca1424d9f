//! An ended claim that memory has let go of, from the events that are about it.

use std::collections::BTreeMap;
use std::sync::Arc;

use tenure_core::{Claim, CollectionKey, Event, Fact, Hash, fold};

use super::archive::{ArchiveReader, ChunkAsk, Word, read_wanted};
use super::reader::all_of;
use crate::Error;
use crate::claims_only::ClaimsOnly;

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
    let mut rows = ClaimsOnly::only(number);
    for event in events.range(..=ended_seq).map(|(_, event)| event) {
        fold::apply(&mut rows, key, event, Hash::default());
    }
    Ok(rows.take_ended(number))
}
