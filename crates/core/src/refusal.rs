//! An expected "no". A refusal is a value with a stable code; it leaves nothing behind.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{EndReason, ItemId, Principal, SessionId, Status, Text};

/// Why a command was not carried out, with what a person or a program needs to go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// Somebody holds at least one item; all that could not be had are named.
    Held {
        /// Every item that could not be had.
        items: Vec<Unavailable>,
    },
    /// At least one item is in a final status.
    Finished {
        /// Every item that could not be had.
        items: Vec<Unavailable>,
    },
    /// At least one item is in a status that cannot be claimed.
    NotClaimable {
        /// Every item that could not be had.
        items: Vec<Unavailable>,
    },
    /// No such kind, collection, item or claim.
    NotFound {
        /// `kind`, `collection`, `item` or `claim`.
        what: Text,
        /// Its name.
        id: Text,
    },
    /// More than the policy allows.
    Limit {
        /// Which limit: the policy's field.
        limit: Text,
        /// Its value.
        max: u64,
    },
    /// The claim has ended.
    Lost {
        /// Why it ended.
        reason: EndReason,
        /// When.
        ended_at_ms: i64,
        /// Who holds one of its items now, if anyone.
        holder: Option<Principal>,
    },
    /// The claim is another's.
    NotHolder {
        /// Whose it is.
        holder: Principal,
    },
    /// The token is not one of this claim's.
    StaleToken {
        /// The token that was given.
        given: u64,
        /// The claim's own.
        current: u64,
    },
    /// The document has another version.
    Conflict {
        /// The version that the caller knew; 0 for "does not exist".
        expected: u64,
        /// The version that is there; 0 for none.
        current: u64,
    },
    /// The claim's phase does not allow it.
    WrongPhase {
        /// The phase it is in.
        phase: Text,
    },
    /// A field is wrong.
    Invalid {
        /// Which.
        field: Text,
        /// What is wrong with it.
        detail: Text,
    },
    /// A command of an atomic group was refused, so none took place.
    InGroup {
        /// Its place in the group, from 0.
        index: usize,
        /// Its refusal.
        refusal: Box<Refusal>,
    },
    /// Nobody holds the item that the actor should hold.
    NotHeld {
        /// Which.
        item: ItemId,
    },
}

/// One item that could not be had, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unavailable {
    /// Which.
    pub item: ItemId,
    /// Why.
    pub why: Why,
}

/// Why one item could not be had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// Somebody holds it.
    Held {
        /// Who.
        holder: Principal,
        /// In which session, where the kind tells sessions apart.
        session: Option<SessionId>,
        /// Since when.
        since_ms: i64,
        /// Until when, as things stand.
        until_ms: i64,
    },
    /// Its last claim ended uncleanly and the kind's lock delay still runs.
    Delayed {
        /// Who had it.
        holder: Principal,
        /// When it can be had.
        until_ms: i64,
    },
    /// Its status is final.
    Finished {
        /// The status.
        status: Status,
    },
    /// Its status cannot be claimed.
    NotClaimable {
        /// The status.
        status: Status,
    },
}

impl Refusal {
    /// A wrong field.
    pub fn invalid(field: impl Into<Text>, detail: impl Into<Text>) -> Self {
        Self::Invalid { field: field.into(), detail: detail.into() }
    }

    /// Something that does not exist.
    pub fn not_found(what: &str, id: impl fmt::Display) -> Self {
        Self::NotFound { what: Text::from(what), id: Text::from(id.to_string()) }
    }

    /// The refusal for a set of items, under the gravest of their reasons: waiting helps only where
    /// every one of them is merely held.
    pub(crate) fn unavailable(items: Vec<Unavailable>) -> Self {
        let any = |test: fn(&Why) -> bool| items.iter().any(|unavailable| test(&unavailable.why));
        if any(|why| matches!(why, Why::Finished { .. })) {
            Self::Finished { items }
        } else if any(|why| matches!(why, Why::NotClaimable { .. })) {
            Self::NotClaimable { items }
        } else {
            Self::Held { items }
        }
    }

    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Held { .. } => "held",
            Self::Finished { .. } => "finished",
            Self::NotClaimable { .. } => "not_claimable",
            Self::NotFound { .. } => "not_found",
            Self::Limit { .. } => "limit",
            Self::Lost { .. } => "lost",
            Self::NotHolder { .. } => "not_holder",
            Self::StaleToken { .. } => "stale_token",
            Self::Conflict { .. } => "conflict",
            Self::WrongPhase { .. } => "wrong_phase",
            Self::Invalid { .. } => "invalid",
            Self::InGroup { refusal, .. } => refusal.code(),
            Self::NotHeld { .. } => "not_held",
        }
    }

    /// When trying again may succeed, for a refusal that time alone can lift.
    pub fn retry_at_ms(&self) -> Option<i64> {
        let Self::Held { items } = self else { return None };
        items
            .iter()
            .map(|unavailable| match &unavailable.why {
                Why::Held { until_ms, .. } | Why::Delayed { until_ms, .. } => *until_ms,
                Why::Finished { .. } | Why::NotClaimable { .. } => i64::MAX,
            })
            .max()
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Held { items } | Self::Finished { items } | Self::NotClaimable { items } => {
                for (index, unavailable) in items.iter().enumerate() {
                    let gap = if index == 0 { "" } else { "; " };
                    write!(f, "{gap}{unavailable}")?;
                }
                Ok(())
            }
            Self::NotFound { what, id } => write!(f, "there is no {what} {id}"),
            Self::Limit { limit, max } => write!(f, "{limit} allows {max}"),
            Self::Lost { reason, holder: Some(holder), .. } => {
                write!(f, "the claim was lost ({}); {} holds it now", reason.as_str(), holder.name)
            }
            Self::Lost { reason, holder: None, .. } => write!(f, "the claim was lost ({})", reason.as_str()),
            Self::NotHolder { holder } => write!(f, "the claim is {}'s", holder.name),
            Self::StaleToken { given, current } => {
                write!(f, "token {given} is not this claim's; its token is {current}")
            }
            Self::Conflict { expected: 0, .. } => f.write_str("something of that id is there already"),
            Self::Conflict { expected, current } => {
                write!(f, "expected version {expected}, found version {current}")
            }
            Self::WrongPhase { phase } => write!(f, "the claim is in phase {phase}, which does not allow it"),
            Self::Invalid { field, detail } => write!(f, "{field}: {detail}"),
            Self::InGroup { index, refusal } => write!(f, "command {index} of the group: {refusal}"),
            Self::NotHeld { item } => {
                write!(f, "you do not hold {item}, and nobody else does; claim it first")
            }
        }
    }
}

impl std::error::Error for Refusal {}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let item = &self.item;
        match &self.why {
            // Which one is for programs: a session's id says nothing to a person.
            Why::Held { holder, session: Some(_), .. } => {
                write!(f, "{item} is held by {} in another session", holder.name)
            }
            Why::Held { holder, session: None, .. } => write!(f, "{item} is held by {}", holder.name),
            Why::Delayed { holder, .. } => {
                write!(f, "{item} is not free yet: {}'s claim on it did not end cleanly", holder.name)
            }
            Why::Finished { status } => write!(f, "{item} is {status}, which is final"),
            Why::NotClaimable { status } => write!(f, "{item} is {status}, which cannot be claimed"),
        }
    }
}
