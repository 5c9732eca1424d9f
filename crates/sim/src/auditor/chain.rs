//! The audit chain, verified with the auditor's own hashing (I17), and the numbering (I14).

use std::collections::BTreeMap;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use tenure_core::{CollectionKey, Event, Sealed};

use super::{Check, violation};

/// Every event that was ever seen committed, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log(BTreeMap<CollectionKey, Vec<Arc<Sealed>>>);

impl Log {
    pub(crate) fn of(&self, key: &CollectionKey) -> &[Arc<Sealed>] {
        self.0.get(key).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &CollectionKey> {
        self.0.keys()
    }

    pub(crate) fn last_seq(&self, key: &CollectionKey) -> u64 {
        self.of(key).last().map_or(0, |sealed| sealed.event.seq)
    }

    /// The event of that number. Numbers have no gaps, so it stands at its own place.
    pub(crate) fn get(&self, key: &CollectionKey, seq: u64) -> Option<&Arc<Sealed>> {
        let place = usize::try_from(seq.checked_sub(1)?).ok()?;
        self.of(key).get(place)
    }

    /// Adds the next event, which must follow the one before it in number, time and hash.
    pub(crate) fn add(&mut self, key: &CollectionKey, sealed: Arc<Sealed>) -> Check {
        let last = self.of(key).last().cloned();
        let expected_seq = last.as_ref().map_or(0, |last| last.event.seq) + 1;
        let event = &sealed.event;
        if event.seq != expected_seq {
            return violation("I14", format!("{key}: event {} came where {expected_seq} was due", event.seq));
        }
        if last.as_ref().is_some_and(|last| event.at_ms < last.event.at_ms) {
            return violation("time", format!("{key}: event {} is older than the one before it", event.seq));
        }
        let mut hasher = Sha256::new();
        hasher.update(last.as_ref().map_or([0; 32], |last| last.hash.0));
        hasher.update(&sealed.bytes);
        let hash: [u8; 32] = hasher.finalize().into();
        if hash != sealed.hash.0 {
            return violation("I17", format!("{key}: the chain breaks at event {}", event.seq));
        }
        if postcard::from_bytes::<Event>(&sealed.bytes).ok().as_ref() != Some(event) {
            return violation("I17", format!("{key}: event {} is not what its bytes say", event.seq));
        }
        self.0.entry(key.clone()).or_default().push(sealed);
        Ok(())
    }
}
