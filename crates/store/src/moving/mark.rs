//! What an installation says when it is none yet, or none any more.

use serde::{Deserialize, Serialize};

use crate::Error;

/// Which installation, and in which state: a move goes on only from the very same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    /// Given when it was made.
    pub(crate) id: String,
    /// Another one after every commit.
    pub(crate) version: String,
}

/// A mark. Whoever opens a marked installation to serve it is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub(crate) enum Mark {
    /// A move into it did not end.
    Unfinished {
        /// What is moved.
        source: Identity,
        /// Where that is, for people.
        from: String,
    },
    /// It is a copy of one that went on.
    Backup,
    /// It went elsewhere.
    Moved {
        /// The new one's own name.
        target: String,
        /// Where that is, for people.
        to: String,
    },
}

impl Mark {
    pub(crate) fn encode(&self) -> String {
        serde_json::to_string(self).expect("a mark always encodes")
    }

    pub(crate) fn decode(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}

/// Why a marked installation is not opened. `None` stands for a mark that cannot be read.
pub(crate) fn refusal(place: &str, mark: Option<&Mark>) -> Error {
    let detail = match mark {
        Some(Mark::Unfinished { from, .. }) => format!(
            "{place} holds an unfinished move from {from}; run the same tenure migrate again to finish it"
        ),
        Some(Mark::Moved { to, .. }) => format!(
            "{place} was moved to {to} and must not be used any more, or its tokens would be given out twice; \
             serve that one, or move it back"
        ),
        Some(Mark::Backup) => format!(
            "{place} is a backup, whose tokens may have been given out again since; make a data folder of it: \
             tenure restore {place} --data <new folder>"
        ),
        None => format!("{place} has a mark of a move that this program cannot read; update this program"),
    };
    Error::Unsupported { detail }
}
