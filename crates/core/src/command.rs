//! What can be asked of the engine, and what it answers.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    Claim, Collection, CollectionKey, EndReason, Item, ItemId, Json, Policy, Principal, SessionId, Status,
    Text,
};

/// One request to one collection by one actor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Where.
    pub collection: CollectionKey,
    /// Who asks. Being allowed to ask is the server's concern; being the holder is decided here.
    pub actor: Principal,
    /// What.
    pub verb: Verb,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Make the collection, if it is not there.
    CreateCollection,
    /// Claim 1..n items, all or nothing.
    Acquire(Acquire),
    /// Keep a claim alive.
    Heartbeat {
        /// The claim's number.
        claim: u64,
        /// Its token.
        token: u64,
        /// How long the person has done nothing real.
        idle_ms: Option<i64>,
    },
    /// Add an item to a claim.
    AddItem {
        /// The claim's number.
        claim: u64,
        /// The item.
        item: ItemId,
    },
    /// Take an item out of a claim.
    RemoveItem {
        /// The claim's number.
        claim: u64,
        /// The item.
        item: ItemId,
    },
    /// Go to the next phase.
    Advance {
        /// The claim's number.
        claim: u64,
    },
    /// Enter a side phase, or come back from one. For applications: no route hands it on.
    Enter {
        /// The claim's number.
        claim: u64,
        /// The phase's name.
        phase: Text,
        /// How long it shall last, at most its own `ttl_ms`.
        ttl_ms: Option<i64>,
    },
    /// Finish: write the items and end the claim in one commit.
    Complete(Complete),
    /// Give up.
    Cancel {
        /// The claim's number.
        claim: u64,
    },
    /// Let go.
    Release {
        /// The claim's number.
        claim: u64,
    },
    /// An administrator frees an item, whoever holds it: the whole claim ends.
    ForceRelease {
        /// The item.
        item: ItemId,
        /// Why; kept in the audit log.
        reason: Text,
    },
    /// An administrator takes an item, whoever holds it: that claim ends.
    ForceClaim {
        /// The item.
        item: ItemId,
        /// Why; kept in the audit log.
        reason: Text,
        /// The administrator's tab.
        session: Option<SessionId>,
    },
    /// Ask the holder to let go.
    Nudge {
        /// The claim's number.
        claim: u64,
        /// What to say.
        message: Option<Text>,
    },
    /// Write an item.
    PutItem(PutItem),
    /// Delete an item.
    DeleteItem {
        /// The item.
        item: ItemId,
        /// What must be there.
        expect: Expect,
        /// Who may.
        guard: Option<Guard>,
    },
    /// Give a kind its policy. Asked of [`CollectionKey::policies`].
    SetPolicy {
        /// The kind.
        kind: Text,
        /// Its policy.
        policy: Arc<Policy>,
    },
    /// A claim's time may be up: find out. Asked by the timer; asking too early does nothing.
    Expire {
        /// The claim's number.
        claim: u64,
    },
    /// The server was away: give active claims the time back. Asked at start.
    Resume {
        /// For how long.
        shift_ms: i64,
    },
    /// The data came from a backup: jump ahead. Asked by a restore.
    Restore {
        /// The store's new epoch.
        epoch: u64,
    },
    /// Several of the above on this collection, all or nothing.
    Group(Vec<Verb>),
}

impl Verb {
    /// The claim that it names, and what is asked of it.
    pub fn of_claim(&self) -> Option<(u64, OfClaim)> {
        match self {
            Self::Heartbeat { claim, .. }
            | Self::AddItem { claim, .. }
            | Self::RemoveItem { claim, .. }
            | Self::Advance { claim }
            | Self::Enter { claim, .. } => Some((*claim, OfClaim::Own)),
            Self::Complete(complete) => Some((complete.claim, OfClaim::Own)),
            Self::Cancel { claim } => Some((*claim, OfClaim::End(EndReason::Cancelled))),
            Self::Release { claim } => Some((*claim, OfClaim::End(EndReason::Released))),
            Self::Nudge { claim, .. } => Some((*claim, OfClaim::Anyones)),
            _ => None,
        }
    }
}

/// What is asked of a claim, as far as it matters once that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OfClaim {
    /// That it ends in this way: to ask twice is to ask once.
    End(EndReason),
    /// Something that only its holder may.
    Own,
    /// Something that anyone may.
    Anyones,
}

/// What to claim, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acquire {
    /// The items.
    pub items: Vec<ItemId>,
    /// The caller's tab or worker instance. In a kind that is exclusive to sessions, who names none cannot
    /// be told apart from anyone else.
    pub session: Option<SessionId>,
    /// Another TTL than the policy's, within its bounds.
    pub ttl_ms: Option<i64>,
    /// How long the caller would wait for held items. The engine queues; each try is decided afresh.
    pub wait_ms: Option<i64>,
    /// The caller's document.
    pub data: Option<Json>,
}

/// How to finish a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complete {
    /// The claim's number.
    pub claim: u64,
    /// Its token, if the caller wants it checked.
    pub token: Option<u64>,
    /// The status for every item; `None` leaves it.
    pub status: Option<Status>,
    /// The document for every item; `None` leaves it.
    pub data: Option<Json>,
    /// What single items become instead.
    pub items: Vec<ItemWrite>,
}

/// What one item becomes; `None` leaves what is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ItemWrite {
    /// Which.
    pub item: ItemId,
    /// Its status.
    pub status: Option<Status>,
    /// Its document.
    pub data: Option<Json>,
}

/// A write to an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutItem {
    /// Which, and what it becomes.
    pub write: ItemWrite,
    /// What must be there.
    pub expect: Expect,
    /// Who may.
    pub guard: Option<Guard>,
}

/// What a write expects to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Anything.
    Any,
    /// No such item.
    Absent,
    /// The item, at whatever version.
    Present,
    /// Exactly this version.
    Version(u64),
}

/// A condition on who may write. Without one, a write still never touches an item that another holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Guard {
    /// Only under the actor's own claim, with its token, before its deadline.
    Claim {
        /// The claim's number.
        claim: u64,
        /// Its token.
        token: u64,
    },
    /// Only while no one else holds that item (an image, when its annotation is written).
    NotHeldByOther {
        /// The item.
        item: ItemId,
    },
    /// Only while the actor holds that item (a task, when its line is written), in whichever claim.
    Holds {
        /// The item.
        item: ItemId,
        /// That claim's token, if the caller wants it checked.
        token: Option<u64>,
    },
    /// Only while that other item is at this version (a raffle, when its numbers are reserved): what was
    /// decided by reading it still stands, and it is not written for that.
    Unchanged {
        /// The item.
        item: ItemId,
        /// Its version.
        version: u64,
    },
}

/// What came of a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// The collection, and whether this command made it.
    Collection {
        /// Its head.
        collection: Arc<Collection>,
        /// It is new.
        created: bool,
    },
    /// A claim is the caller's.
    Acquired {
        /// It.
        claim: Arc<Claim>,
        /// New, renewed or as it was.
        how: How,
    },
    /// What a heartbeat did.
    Beat {
        /// The deadline moved.
        renewed: bool,
        /// Why it did not.
        reason: Option<NotRenewed>,
        /// The claim as it is now.
        claim: Arc<Claim>,
    },
    /// A claim, changed or ended by the command.
    Claim {
        /// It.
        claim: Arc<Claim>,
    },
    /// A claim was freed by force, or there was none.
    Freed {
        /// The claim that ended.
        claim: Option<Arc<Claim>>,
    },
    /// An item was written.
    Item {
        /// It.
        item: Arc<Item>,
        /// It is new.
        created: bool,
    },
    /// Done, nothing to show: deleted, policy set, timer looked at.
    Done,
    /// The answers of a group, in order.
    Group(Vec<Reply>),
}

/// How a claim came to be the caller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// Granted now.
    New,
    /// Held already, and renewed.
    Renewed,
    /// Held already, and left as it was.
    Existing,
}

/// Why a heartbeat moved nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NotRenewed {
    /// The holder is idle.
    Idle,
    /// Heartbeats alone have kept it long enough.
    MaxHold,
    /// The phase's deadline is fixed.
    FixedPhase,
}
