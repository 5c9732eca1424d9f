//! How things read in JSON. What a newer server adds is ignored.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
pub use tenure_core::{ClaimState, EndReason};

/// Who.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Decides who is the same person.
    pub id: String,
    /// Shown, never compared.
    pub name: String,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.id)
    }
}

/// A claim, as it was when the server answered.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClaimInfo {
    /// Its id.
    pub id: String,
    /// Where it lives.
    pub collection: String,
    /// What it holds.
    pub items: Vec<String>,
    /// Who holds.
    pub holder: Holder,
    /// In which tab or worker instance.
    pub session: Option<String>,
    /// `active`, or how it ended.
    pub state: ClaimState,
    /// The phase that it is in.
    pub phase: String,
    /// The fencing token.
    pub token: u64,
    /// When it was granted.
    pub since: String,
    /// When its holder last gave a sign of life.
    pub heartbeat_at: String,
    /// The server's deadline.
    pub expires_at: String,
    /// The time that was left at the answer.
    pub expires_in_ms: u64,
    /// The server's time at the answer.
    pub server_time: String,
    /// The holder's document.
    pub data: Option<Value>,
    /// Why it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<EndReason>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
}

/// What a heartbeat did.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Beat {
    /// The deadline moved.
    pub renewed: bool,
    /// Why it did not: `idle`, `max_hold` or `fixed_phase`.
    #[serde(default)]
    pub reason: Option<String>,
    /// The server's deadline.
    pub expires_at: String,
    /// The time that was left at the answer.
    pub expires_in_ms: u64,
}

/// An item, and who holds it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Item {
    /// Its id.
    pub id: String,
    /// Where it lives.
    pub collection: String,
    /// A word of the kind's policy.
    pub status: String,
    /// Counts its changes.
    pub version: u64,
    /// The document.
    pub data: Option<Value>,
    /// The token of its newest grant.
    pub fence: u64,
    /// The claim that holds it.
    #[serde(default)]
    pub claim: Option<ClaimInfo>,
}

/// Who holds an item, who waits for it, and what would come of claiming it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Explanation {
    /// Where the item lives.
    pub collection: String,
    /// The item.
    pub item: String,
    /// Its status; `None` if claiming it would create it.
    pub status: Option<String>,
    /// Who holds it.
    pub holder: Option<Holder>,
    /// The claim that holds it.
    pub claim: Option<ClaimInfo>,
    /// Those who wait.
    pub queue: Queue,
    /// The caller would get it now.
    pub claimable: bool,
    /// Why not.
    pub refusal: Option<Value>,
    /// When it can be had if its holder gives no further sign of life.
    pub frees_at: Option<String>,
    /// The time until then.
    pub frees_in_ms: Option<i64>,
    /// Who held it lately, newest first.
    pub history: Vec<Tenancy>,
}

/// Those who wait for an item.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Queue {
    /// How many.
    pub waiting: u64,
}

/// One holder's time with an item.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Tenancy {
    /// The claim.
    pub claim: String,
    /// Who.
    pub holder: Option<Holder>,
    /// Since when.
    pub since: Option<String>,
    /// Until when; `None` while it is held.
    pub ended_at: Option<String>,
    /// Why it ended.
    pub reason: Option<EndReason>,
}

/// Something that happened in a collection. A row of the audit log is one, with a hash.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Event {
    /// Its number in the collection.
    pub seq: u64,
    /// When.
    pub at: String,
    /// What.
    #[serde(rename = "type")]
    pub action: String,
    /// Who did it.
    pub actor: Holder,
    /// Where.
    pub collection: String,
    /// The claim that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<String>,
    /// The items that it is about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub items: Vec<String>,
    /// What events of this type say beside.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// An API key, without its text.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KeyInfo {
    /// Its name in lists.
    pub id: String,
    /// What it is for.
    pub name: String,
    /// Who acts with it.
    pub subject: Holder,
    /// `viewer`, `editor`, `worker` or `admin`.
    pub role: String,
    /// The kinds that it may touch; `None` for all.
    pub kinds: Option<Vec<String>>,
    /// When it was made.
    pub created_at: String,
    /// The key itself, only in the answer that made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// A kind's policy.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KindPolicy {
    /// The kind.
    pub kind: String,
    /// `preset` or `own`.
    pub source: String,
    /// Its numbers.
    pub policy: tenure_core::Policy,
}
