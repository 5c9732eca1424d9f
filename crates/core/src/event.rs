//! What can happen. An event is one numbered fact of a collection; folding them gives the rows, and
//! with their hash chain they are the audit log.
//!
//! Events are for ever: their binary form is hashed and kept. New variants go to the end; a variant's
//! fields never change (make a new variant instead).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{EndReason, ItemId, Json, Policy, Principal, SessionId, Status, Text};

/// One fact that happened in a collection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// 1, 2, 3 … without gaps. Only a restore jumps ahead.
    pub seq: u64,
    /// When, by the server's time.
    pub at_ms: i64,
    /// Who caused it.
    pub actor: Principal,
    /// What happened.
    pub fact: Fact,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fact {
    /// The collection exists from here on.
    CollectionCreated,
    /// A claim was granted; its number and token are this event's number.
    Granted(Grant),
    /// The holder claimed again what it holds: `since` and token stay.
    Renewed {
        /// The claim.
        claim: u64,
        /// How long each renewal lasts from here on.
        ttl_ms: i64,
        /// The new deadline.
        expires_at_ms: i64,
        /// An administrator's words, where it was claimed by force.
        note: Option<Text>,
    },
    /// An item joined a claim, whose token is this event's number from here on.
    ItemAdded {
        /// The claim.
        claim: u64,
        /// The item.
        item: GrantedItem,
    },
    /// An item left a claim.
    ItemRemoved {
        /// The claim.
        claim: u64,
        /// The item.
        item: ItemId,
    },
    /// The claim is in its next phase.
    Advanced {
        /// The claim.
        claim: u64,
        /// The phase that ended.
        from: Text,
        /// The phase that began.
        phase: Text,
        /// When it began: at the end of the one before it, even if nobody looked until later.
        since_ms: i64,
        /// How long it lasts.
        ttl_ms: i64,
        /// Its deadline.
        expires_at_ms: i64,
    },
    /// The claim is over.
    Ended(End),
    /// Somebody asked the holder to let go. It changes no lock.
    Nudged {
        /// The claim.
        claim: u64,
        /// What was said.
        message: Option<Text>,
    },
    /// An item was written.
    ItemPut {
        /// What it is now.
        write: Written,
        /// What it was; `None` for a new item.
        before: Option<Written>,
        /// The claim under which it was written.
        under: Option<Acted>,
    },
    /// An item was deleted.
    ItemDeleted {
        /// What it was.
        before: Written,
        /// The claim under which it was deleted.
        under: Option<Acted>,
    },
    /// A kind has a new policy. Happens in `tenure/policies`.
    PolicySet {
        /// The kind.
        kind: Text,
        /// Its policy from here on.
        policy: Arc<Policy>,
        /// Its policy before, preset included.
        before: Option<Arc<Policy>>,
    },
    /// The server was away; each active claim keeps the time that it had left.
    Resumed {
        /// How far all deadlines moved.
        shift_ms: i64,
    },
    /// The data came back from a backup: numbers jump, so that no token repeats.
    Restored {
        /// The store's epoch from here on.
        epoch: u64,
        /// The last number before the jump.
        from_seq: u64,
    },
}

/// A claim as it was granted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// What it holds.
    pub items: Vec<GrantedItem>,
    /// Who holds.
    pub holder: Principal,
    /// In which tab or worker instance.
    pub session: Option<SessionId>,
    /// The phase it begins in.
    pub phase: Text,
    /// That phase's duration.
    pub ttl_ms: i64,
    /// The deadline.
    pub expires_at_ms: i64,
    /// The caller's document.
    pub data: Option<Json>,
    /// Set when an administrator took it.
    pub forced: Option<Forced>,
}

/// An item as a grant found and left it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantedItem {
    /// Which.
    pub id: ItemId,
    /// Its new status, if the grant changed it or created the item.
    pub status: Option<Status>,
    /// The status that it had; `None` if the grant created it.
    pub before: Option<Status>,
}

/// Why an administrator took it, and from whom.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forced {
    /// The administrator's words.
    pub reason: Text,
    /// Who held it.
    pub previous: Option<Principal>,
}

/// How a claim ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// The claim.
    pub claim: u64,
    /// Why.
    pub reason: EndReason,
    /// Who held it.
    pub holder: Principal,
    /// What it held.
    pub items: Arc<[ItemId]>,
    /// When it ended: for an expiry the deadline itself.
    pub ended_at_ms: i64,
    /// Nobody gets its items before this.
    pub blocked_until_ms: i64,
    /// An administrator's words.
    pub note: Option<Text>,
    /// What its items became, in the same commit.
    pub writes: Vec<Completed>,
}

/// What completing a claim made of one item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Completed {
    /// What it is now.
    pub write: Written,
    /// What it was.
    pub before: Written,
}

/// An item's document at one version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// Which.
    pub id: ItemId,
    /// Its version.
    pub version: u64,
    /// Its status.
    pub status: Status,
    /// Its document.
    pub data: Option<Json>,
}

/// A real action under a claim: it also counts as a sign of life.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acted {
    /// The claim.
    pub claim: u64,
    /// Its deadline after the action.
    pub expires_at_ms: i64,
}

impl Event {
    /// The number of the claim that it is about; a grant's is its own.
    pub fn claim(&self) -> Option<u64> {
        match &self.fact {
            Fact::Granted(_) => Some(self.seq),
            Fact::Renewed { claim, .. }
            | Fact::ItemAdded { claim, .. }
            | Fact::ItemRemoved { claim, .. }
            | Fact::Advanced { claim, .. }
            | Fact::Nudged { claim, .. } => Some(*claim),
            Fact::Ended(end) => Some(end.claim),
            Fact::ItemPut { under, .. } | Fact::ItemDeleted { under, .. } => {
                under.as_ref().map(|acted| acted.claim)
            }
            Fact::CollectionCreated
            | Fact::PolicySet { .. }
            | Fact::Resumed { .. }
            | Fact::Restored { .. } => None,
        }
    }
}

impl Fact {
    /// The action's name in the audit log. Overrides stand out in capitals.
    pub fn action(&self) -> &'static str {
        match self {
            Self::CollectionCreated => "collection_created",
            Self::Granted(Grant { forced: Some(_), .. }) | Self::Renewed { note: Some(_), .. } => {
                "LOCK_FORCE_CLAIM"
            }
            Self::Granted(_) => "claim_granted",
            Self::Renewed { .. } => "claim_renewed",
            Self::ItemAdded { .. } => "item_added",
            Self::ItemRemoved { .. } => "item_removed",
            Self::Advanced { .. } => "claim_advanced",
            Self::Ended(end) => match end.reason {
                EndReason::Released => "claim_released",
                EndReason::Completed => "claim_completed",
                EndReason::Expired | EndReason::Idle | EndReason::MaxHold => "claim_expired",
                EndReason::Cancelled => "claim_cancelled",
                EndReason::ForceReleased => "LOCK_FORCE_RELEASE",
                EndReason::TakenOver => "claim_taken_over",
            },
            Self::Nudged { .. } => "release_requested",
            Self::ItemPut { .. } => "item_put",
            Self::ItemDeleted { .. } => "item_deleted",
            Self::PolicySet { .. } => "policy_set",
            Self::Resumed { .. } => "resumed",
            Self::Restored { .. } => "restored",
        }
    }

    /// It makes, writes or deletes an item; where it does not, all that an item can have got by it is another claim.
    pub fn writes_items(&self) -> bool {
        match self {
            Self::Granted(grant) => grant.items.iter().any(|item| item.status.is_some()),
            Self::ItemAdded { item, .. } => item.status.is_some(),
            Self::Ended(end) => !end.writes.is_empty(),
            Self::ItemPut { .. } | Self::ItemDeleted { .. } => true,
            Self::CollectionCreated
            | Self::Renewed { .. }
            | Self::ItemRemoved { .. }
            | Self::Advanced { .. }
            | Self::Nudged { .. }
            | Self::PolicySet { .. }
            | Self::Resumed { .. }
            | Self::Restored { .. } => false,
        }
    }

    /// The items that it speaks of.
    pub fn items(&self) -> Vec<&ItemId> {
        match self {
            Self::Granted(grant) => grant.items.iter().map(|item| &item.id).collect(),
            Self::ItemAdded { item, .. } => vec![&item.id],
            Self::ItemRemoved { item, .. } => vec![item],
            Self::Ended(end) => end.items.iter().collect(),
            Self::ItemPut { write, .. } => vec![&write.id],
            Self::ItemDeleted { before, .. } => vec![&before.id],
            Self::CollectionCreated
            | Self::Renewed { .. }
            | Self::Advanced { .. }
            | Self::Nudged { .. }
            | Self::PolicySet { .. }
            | Self::Resumed { .. }
            | Self::Restored { .. } => Vec::new(),
        }
    }
}
