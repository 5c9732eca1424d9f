//! A batch in the journal: its time, and for each decision the sealed events as they are, the
//! heartbeats and the kept reply. Rows are not in it: they follow from the events.
//!
//! The form is positional. Any change to it, to `Beat`, `Kept`, `Reply` or `Refusal` is a new
//! [`super::journal::FORMAT`].

use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};
use tenure_core::{Beat, CollectionKey, Sealed};

use crate::{Batch, Entry, Kept};

/// Appends a batch's bytes.
pub(crate) fn encode(batch: &Batch, into: Vec<u8>) -> Vec<u8> {
    let out = BatchOut { at_ms: batch.at_ms, entries: Entries(&batch.entries) };
    postcard::to_extend(&out, into).expect("a batch always encodes")
}

/// Reads a batch back; the events' bytes stay where they are.
pub(crate) fn decode(bytes: &[u8]) -> Result<BatchIn<'_>, postcard::Error> {
    postcard::from_bytes(bytes)
}

/// A batch as it was journaled.
#[derive(Debug, Deserialize)]
pub(crate) struct BatchIn<'a> {
    pub(crate) at_ms: i64,
    #[serde(borrow)]
    pub(crate) entries: Vec<EntryIn<'a>>,
}

/// One decision of it.
#[derive(Debug, Deserialize)]
pub(crate) struct EntryIn<'a> {
    pub(crate) collection: &'a str,
    #[serde(borrow)]
    pub(crate) events: Vec<&'a [u8]>,
    pub(crate) beats: Vec<Beat>,
    #[serde(borrow)]
    pub(crate) kept: Option<KeptIn<'a>>,
}

/// A kept reply; its collection is the entry's.
#[derive(Debug, Deserialize)]
pub(crate) struct KeptIn<'a> {
    pub(crate) principal: &'a str,
    pub(crate) key: &'a str,
    pub(crate) kept: Arc<Kept>,
}

#[derive(Serialize)]
struct BatchOut<'a> {
    at_ms: i64,
    entries: Entries<'a>,
}

#[derive(Serialize)]
struct EntryOut<'a> {
    collection: &'a CollectionKey,
    events: Events<'a>,
    beats: &'a [Beat],
    kept: Option<KeptOut<'a>>,
}

#[derive(Serialize)]
struct KeptOut<'a> {
    principal: &'a str,
    key: &'a str,
    kept: &'a Kept,
}

struct Entries<'a>(&'a [Entry]);

impl Serialize for Entries<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|entry| EntryOut {
            collection: &entry.collection,
            events: Events(&entry.events),
            beats: &entry.beats,
            kept: entry.kept.as_ref().map(|(key, kept)| KeptOut {
                principal: &key.principal,
                key: &key.key,
                kept,
            }),
        }))
    }
}

struct Events<'a>(&'a [Arc<Sealed>]);

impl Serialize for Events<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|sealed| Bytes(&sealed.bytes)))
    }
}

/// Bytes as one piece, not as a list of numbers.
struct Bytes<'a>(&'a [u8]);

impl Serialize for Bytes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.0)
    }
}
