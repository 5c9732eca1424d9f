//! What exists: the rows that a decision reads and that the events change.
//!
//! A claim's life, drawn once:
//!
//! ```text
//!                      ┌── release ──────────────► released   (released)
//!                      ├── complete ─────────────► completed  (completed)
//!  acquire ─► active ──┼── cancel ───────────────► cancelled  (cancelled)
//!               ▲  │   ├── deadline ─────────────► expired    (expired, idle, max_hold)
//!               └──┘   └── force-release/-claim ─► revoked    (force_released, taken_over)
//!         heartbeat, renew,
//!         amend, advance
//! ```

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::chain::Hash;
use crate::limits::{PRINCIPAL_ID_BYTES_MAX, PRINCIPAL_NAME_BYTES_MAX};
use crate::{CollectionKey, ItemId, Json, Policy, Refusal, SessionId, Status, Text};

/// The id under which Tenure itself acts.
const SYSTEM_ID: &str = "system";

/// Who: an id that the host application knows, and the name that people see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Principal {
    /// Decides who is the same person.
    pub id: Text,
    /// Shown, never compared.
    pub name: Text,
}

impl Principal {
    /// Checks both parts.
    pub fn new(id: impl Into<Text>, name: impl Into<Text>) -> Result<Self, Refusal> {
        let (id, name) = (id.into(), name.into());
        if id.is_empty() || id.len() > PRINCIPAL_ID_BYTES_MAX || id.chars().any(char::is_control) {
            return Err(Refusal::invalid("holder.id", "has 1 to 256 bytes and no control characters"));
        }
        if id == SYSTEM_ID {
            return Err(Refusal::invalid("holder.id", "system is Tenure's own"));
        }
        if name.len() > PRINCIPAL_NAME_BYTES_MAX || name.chars().any(char::is_control) {
            return Err(Refusal::invalid("holder.name", "has at most 200 bytes and no control characters"));
        }
        Ok(Self { id, name })
    }

    /// Tenure itself: expiry, start, restore.
    pub fn system() -> Self {
        Self { id: Text::new_static(SYSTEM_ID), name: Text::new_static("Tenure") }
    }
}

/// A collection's head: its last event number and the hash of its chain up to there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Collection {
    /// The number of its newest event.
    pub seq: u64,
    /// The chain's hash after that event.
    pub hash: Hash,
    /// When it was created.
    pub created_at_ms: i64,
}

/// One thing that can be claimed, and a small document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    /// Its id in the collection.
    pub id: ItemId,
    /// A word of the kind's policy, or another of the application's.
    pub status: Status,
    /// Counts changes of status or data, from 1.
    pub version: u64,
    /// The document.
    pub data: Option<Json>,
    /// The token of the newest grant; 0 before the first.
    pub fence: u64,
    /// The number of the claim that last took it; 0 for none. It holds only while that claim is
    /// active and before its deadline: an ended claim needs no second write here.
    pub claim: u64,
    /// When status or data last changed.
    pub updated_at_ms: i64,
    /// The id of who changed it.
    pub updated_by: Text,
}

/// What a claim is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimState {
    /// Holds, unless its deadline is past.
    Active,
    /// Let go by its holder.
    Released,
    /// Finished by its holder.
    Completed,
    /// Ran out.
    Expired,
    /// Given up by its holder.
    Cancelled,
    /// Taken away by an administrator.
    Revoked,
}

/// Why a claim ended. Each claim has one end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// The holder let go.
    Released,
    /// The holder finished.
    Completed,
    /// The deadline passed.
    Expired,
    /// The deadline passed after heartbeats that told of an idle holder.
    Idle,
    /// The deadline passed because heartbeats alone had kept it long enough.
    MaxHold,
    /// The holder gave up.
    Cancelled,
    /// An administrator freed it.
    ForceReleased,
    /// An administrator took it.
    TakenOver,
}

impl EndReason {
    /// The state that an end for this reason leads to.
    pub fn state(self) -> ClaimState {
        match self {
            Self::Released => ClaimState::Released,
            Self::Completed => ClaimState::Completed,
            Self::Expired | Self::Idle | Self::MaxHold => ClaimState::Expired,
            Self::Cancelled => ClaimState::Cancelled,
            Self::ForceReleased | Self::TakenOver => ClaimState::Revoked,
        }
    }

    /// The holder did not end it: after this the kind's lock delay runs.
    pub fn is_unclean(self) -> bool {
        matches!(self, Self::Expired | Self::Idle | Self::MaxHold | Self::ForceReleased)
    }

    /// The stable word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Released => "released",
            Self::Completed => "completed",
            Self::Expired => "expired",
            Self::Idle => "idle",
            Self::MaxHold => "max_hold",
            Self::Cancelled => "cancelled",
            Self::ForceReleased => "force_released",
            Self::TakenOver => "taken_over",
        }
    }
}

/// One holder's exclusive hold on 1..n items of one collection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The number of the event that granted it: its identity inside the collection.
    pub number: u64,
    /// The fencing token: the number of the newest event that granted it an item.
    pub token: u64,
    /// What it holds. Shared with the event of its end.
    pub items: Arc<[ItemId]>,
    /// Who holds.
    pub holder: Principal,
    /// In which tab or worker instance.
    pub session: Option<SessionId>,
    /// Active, or how it ended.
    pub state: ClaimState,
    /// Why it ended.
    pub reason: Option<EndReason>,
    /// When it ended: for an expiry the deadline itself, not the moment of the sweep.
    pub ended_at_ms: Option<i64>,
    /// Nobody can claim its items before this (lock delay after an unclean end).
    pub blocked_until_ms: i64,
    /// The phase's name.
    pub phase: Text,
    /// When the phase began.
    pub phase_since_ms: i64,
    /// How long a renewal lasts, or how long the fixed phase is.
    pub ttl_ms: i64,
    /// When it was granted. A renewal keeps it.
    pub since_ms: i64,
    /// When its holder last gave a sign of life.
    pub heartbeat_at_ms: i64,
    /// When its holder last did something real: claimed, edited, amended, advanced.
    pub acted_at_ms: i64,
    /// The deadline. At this very millisecond it is past.
    pub expires_at_ms: i64,
    /// The newest heartbeat was refused because the holder was idle: the reason, should it now run out.
    pub idle: bool,
    /// The caller's document.
    pub data: Option<Json>,
}

impl Claim {
    /// It holds at this time. Never ask the state alone: a claim past its deadline is void, swept or not.
    pub fn holds_at(&self, now_ms: i64) -> bool {
        self.state == ClaimState::Active && now_ms < self.expires_at_ms
    }
}

/// The trace of a heartbeat: the one change that is not an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beat {
    /// The claim's number.
    pub claim: u64,
    /// Its new heartbeat time.
    pub heartbeat_at_ms: i64,
    /// Its new deadline.
    pub expires_at_ms: i64,
    /// The holder was idle; times are then as before.
    pub idle: bool,
}

/// The rows that a decision can see. A store answers it from memory or from what it loaded.
pub trait Rows {
    /// The store's epoch, which a restore raises. A new collection begins with its numbers.
    fn epoch(&self) -> u64 {
        1
    }
    /// The kind's own policy; `None` where only a preset can apply.
    fn policy(&self, kind: &str) -> Option<Arc<Policy>>;
    /// The head of a collection.
    fn collection(&self, key: &CollectionKey) -> Option<Arc<Collection>>;
    /// One item.
    fn item(&self, key: &CollectionKey, id: &ItemId) -> Option<Arc<Item>>;
    /// One claim, active or ended.
    fn claim(&self, key: &CollectionKey, number: u64) -> Option<Arc<Claim>>;
    /// The claim, if it may keep anybody from its items: an active one, or one with a lock delay. Of others nothing need be
    /// said: what ended long ago is looked up for nobody who only wants its items.
    fn barring(&self, key: &CollectionKey, number: u64) -> Option<Arc<Claim>> {
        self.claim(key, number)
    }
    /// The holder's claims whose state is active, oldest first. Their deadlines may be past.
    fn claims_of(&self, key: &CollectionKey, holder_id: &str) -> Vec<Arc<Claim>>;
    /// The numbers of all claims whose state is active, in order.
    fn active_claims(&self, key: &CollectionKey) -> Vec<u64>;
}

/// Rows that [`crate::fold`] can change.
pub trait RowsMut: Rows {
    /// Sets a kind's policy.
    fn put_policy(&mut self, kind: &str, policy: Arc<Policy>);
    /// Sets a collection's head.
    fn put_collection(&mut self, key: &CollectionKey, collection: Arc<Collection>);
    /// Sets an item.
    fn put_item(&mut self, key: &CollectionKey, item: Arc<Item>);
    /// Removes an item.
    fn remove_item(&mut self, key: &CollectionKey, id: &ItemId);
    /// Sets a claim.
    fn put_claim(&mut self, key: &CollectionKey, claim: Arc<Claim>);
}
