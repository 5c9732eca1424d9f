//! Events in the archive: many in one row, as the bytes that were sealed, so that archiving an event
//! costs a copy and not an insert.

use std::sync::Arc;

use tenure_core::chain::link;
use tenure_core::{Event, Hash, Sealed};

use super::ChunkRef;
use super::bloom::{self, Word};
use crate::Error;
use crate::limits::CHUNK_BYTES_MAX;

/// Consecutive events of one collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The first event's number.
    pub first_seq: u64,
    /// The last event's number.
    pub last_seq: u64,
    /// The earliest time in it.
    pub first_at_ms: i64,
    /// The latest time in it.
    pub last_at_ms: i64,
    /// How many events.
    pub events: u64,
    /// The chain's hash before the first.
    pub before: Hash,
    /// What can be found in it.
    pub bloom: Vec<u8>,
    /// Each event's length in four bytes, and its bytes.
    pub data: Vec<u8>,
}

/// Puts events into chunks. `before` is the chain's hash before the first of them.
pub fn build_chunks(before: Hash, events: &[Arc<Sealed>]) -> Vec<Chunk> {
    let mut chunks = Vec::new();
    let mut words = Vec::new();
    let mut before = before;
    let mut start = 0;
    while start < events.len() {
        let mut bytes = 0;
        let fits = events[start..].iter().take_while(|sealed| {
            bytes += 4 + sealed.bytes.len();
            bytes <= CHUNK_BYTES_MAX
        });
        // An event that is larger than a chunk has one for itself.
        let end = start + fits.count().max(1);
        let part = &events[start..end];
        chunks.push(build_chunk(before, part, &mut words));
        before = part[part.len() - 1].hash;
        start = end;
    }
    chunks
}

fn build_chunk(before: Hash, events: &[Arc<Sealed>], words: &mut Vec<Word>) -> Chunk {
    words.clear();
    let mut data = Vec::with_capacity(events.iter().map(|sealed| 4 + sealed.bytes.len()).sum());
    let (mut first_at_ms, mut last_at_ms) = (i64::MAX, i64::MIN);
    for sealed in events {
        let length = u32::try_from(sealed.bytes.len()).expect("an event is smaller than a segment");
        data.extend_from_slice(&length.to_le_bytes());
        data.extend_from_slice(&sealed.bytes);
        first_at_ms = first_at_ms.min(sealed.event.at_ms);
        last_at_ms = last_at_ms.max(sealed.event.at_ms);
        bloom::words_of(&sealed.event, words);
    }
    Chunk {
        first_seq: events[0].event.seq,
        last_seq: events[events.len() - 1].event.seq,
        first_at_ms,
        last_at_ms,
        events: events.len() as u64,
        before,
        bloom: bloom::build(words),
        data,
    }
}

/// What stands beside a chunk's events is what they say, so that every search finds them.
pub(crate) fn is_labelled(chunk: &ChunkRef<'_>, events: &[Arc<Sealed>]) -> bool {
    let Some(true_chunk) = (!events.is_empty()).then(|| build_chunk(chunk.before, events, &mut Vec::new()))
    else {
        return false;
    };
    let Chunk { first_seq, last_seq, first_at_ms, last_at_ms, events, bloom, .. } = &true_chunk;
    (chunk.first_seq, chunk.last_seq, chunk.events) == (*first_seq, *last_seq, *events)
        && (chunk.first_at_ms, chunk.last_at_ms) == (*first_at_ms, *last_at_ms)
        && chunk.bloom == bloom
}

/// The events of a chunk's bytes, in order, each sealed onto the one before it.
pub fn read_events(before: Hash, data: &[u8]) -> impl Iterator<Item = Result<Sealed, Error>> {
    let mut previous = before;
    split(data).map(move |bytes| {
        let sealed = Sealed::read(&previous, bytes?.to_vec()).map_err(|error| damaged(&error.to_string()))?;
        previous = sealed.hash;
        Ok(sealed)
    })
}

/// The events that are wanted, without the cost of the others: only their hashes are computed.
pub(crate) fn read_wanted(
    before: Hash,
    data: &[u8],
    wanted: impl Fn(&Event) -> bool,
) -> impl Iterator<Item = Result<Sealed, Error>> {
    let mut hash = before;
    split(data).filter_map(move |bytes| {
        let bytes = match bytes {
            Ok(bytes) => bytes,
            Err(error) => return Some(Err(error)),
        };
        hash = link(&hash, bytes);
        match postcard::from_bytes::<Event>(bytes) {
            Ok(event) => wanted(&event).then(|| Ok(Sealed { event, bytes: bytes.to_vec(), hash })),
            Err(error) => Some(Err(damaged(&error.to_string()))),
        }
    })
}

fn split(mut rest: &[u8]) -> impl Iterator<Item = Result<&[u8], Error>> {
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let parts = rest
            .split_first_chunk::<4>()
            .and_then(|(length, after)| after.split_at_checked(u32::from_le_bytes(*length) as usize));
        let Some((bytes, after)) = parts else {
            rest = &[];
            return Some(Err(damaged("it ends inside an event")));
        };
        rest = after;
        Some(Ok(bytes))
    })
}

fn damaged(detail: &str) -> Error {
    Error::Corrupt {
        path: super::FILE_NAME.into(),
        detail: format!("a chunk of events cannot be read: {detail}"),
    }
}
