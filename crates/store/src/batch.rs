//! What is committed at once.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tenure_core::{Beat, Changed, CollectionKey, Hash, Refusal, Reply, Sealed, Text};

/// Everything that one group commit makes durable. An empty batch only moves the time.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// The time of all its decisions; where a store has a clock of its own, that clock's: what was decided in a
    /// collection that is ahead of it is later.
    pub at_ms: i64,
    /// The decisions, in order.
    pub entries: Vec<Entry>,
}

/// One decision.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Where.
    pub collection: CollectionKey,
    /// What happened.
    pub events: Vec<Arc<Sealed>>,
    /// The heartbeats.
    pub beats: Vec<Beat>,
    /// The rows after it.
    pub changed: Changed,
    /// The reply to keep for a retry.
    pub kept: Option<(ReplyKey, Arc<Kept>)>,
}

/// The bytes that something takes in a commit.
pub fn encoded_bytes(value: &impl Serialize) -> usize {
    postcard::serialize_with_flavor(value, postcard::ser_flavors::Size::default()).expect("it always encodes")
}

/// Under which a reply is kept: the same key of another principal or collection is another key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ReplyKey {
    /// The collection.
    pub collection: CollectionKey,
    /// The principal's id.
    pub principal: Text,
    /// What the client sent as its idempotency key.
    pub key: Text,
}

/// A kept reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// The request's fingerprint: the same key with another request is refused.
    pub fingerprint: Hash,
    /// When it was answered; it is kept for [`Kept::KEEP_MS`] from then.
    pub at_ms: i64,
    /// The answer.
    pub outcome: Result<Reply, Refusal>,
}

impl Kept {
    /// A day: longer than any client retries.
    pub const KEEP_MS: i64 = 24 * 3_600 * 1_000;

    /// Still kept at this time.
    pub fn is_kept_at(&self, now_ms: i64) -> bool {
        now_ms < self.at_ms + Self::KEEP_MS
    }
}
