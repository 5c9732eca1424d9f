//! Why a claim is gone.

use std::fmt;

use serde_json::Value;

use crate::types::{EndReason, Holder};
use crate::{Error, Problem};

/// Why a claim is gone.
#[derive(Clone, Debug, PartialEq)]
pub enum Lost {
    /// The server's deadline passed.
    Expired {
        /// Who holds an item of it now.
        holder: Option<Holder>,
    },
    /// It passed after heartbeats that told of an idle holder.
    Idle,
    /// It passed because heartbeats alone had kept it long enough.
    MaxHold,
    /// An administrator freed it.
    ForceReleased {
        /// Who holds an item of it now.
        holder: Option<Holder>,
    },
    /// An administrator took it.
    TakenOver {
        /// Who, if the server knows.
        by: Option<Holder>,
    },
    /// Its holder let go, here or elsewhere.
    Released,
    /// Its holder finished, here or elsewhere.
    Completed,
    /// Its holder gave up, here or elsewhere.
    Cancelled,
    /// The server could not be reached until the safe deadline. The claim may still be there; nobody here
    /// may count on it.
    OutOfReach {
        /// What was heard last.
        last: String,
    },
    /// The server does not let this key act on the claim.
    Refused {
        /// The refusal's code.
        code: String,
    },
}

impl Lost {
    /// What a refusal says about the claim, if it says that it is gone.
    pub fn of(error: &Error) -> Option<Self> {
        let Error::Refused(problem) = error else { return None };
        match problem.code.as_str() {
            "lost" => Some(Self::of_end(problem)),
            "not_holder" | "stale_token" | "not_found" => Some(Self::Refused { code: problem.code.clone() }),
            _ => None,
        }
    }

    fn of_end(problem: &Problem) -> Self {
        let read = |name: &str| problem.body.get(name).cloned().unwrap_or(Value::Null);
        let holder: Option<Holder> = serde_json::from_value(read("holder")).ok();
        match serde_json::from_value(read("reason")) {
            Ok(EndReason::Expired) => Self::Expired { holder },
            Ok(EndReason::Idle) => Self::Idle,
            Ok(EndReason::MaxHold) => Self::MaxHold,
            Ok(EndReason::ForceReleased) => Self::ForceReleased { holder },
            Ok(EndReason::TakenOver) => Self::TakenOver { by: holder },
            Ok(EndReason::Released) => Self::Released,
            Ok(EndReason::Completed) => Self::Completed,
            Ok(EndReason::Cancelled) => Self::Cancelled,
            // A word of a newer server.
            Err(_) => Self::Refused { code: problem.code.clone() },
        }
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let now = |holder: &Option<Holder>| match holder {
            Some(holder) => format!("; {holder} holds it now"),
            None => String::new(),
        };
        match self {
            Self::Expired { holder } => write!(f, "it ran out{}", now(holder)),
            Self::Idle => f.write_str("it ran out, idle"),
            Self::MaxHold => f.write_str("it was kept by heartbeats alone for too long"),
            Self::ForceReleased { holder } => write!(f, "an administrator freed it{}", now(holder)),
            Self::TakenOver { by: Some(by) } => write!(f, "{by} took it over"),
            Self::TakenOver { by: None } => f.write_str("it was taken over"),
            Self::Released => f.write_str("it was released"),
            Self::Completed => f.write_str("it was completed"),
            Self::Cancelled => f.write_str("it was cancelled"),
            Self::OutOfReach { last } => write!(f, "the server was out of reach until the deadline: {last}"),
            Self::Refused { code } => write!(f, "the server no longer accepts it ({code})"),
        }
    }
}
