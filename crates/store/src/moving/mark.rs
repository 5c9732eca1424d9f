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

#[cfg(test)]
mod tests {
    use super::*;

    /// E9: whatever stands there, nobody serves it; and a mark that is read is written and read again as the same.
    #[test]
    fn e9_a_spoiled_mark_is_read_as_what_it_says_or_not_at_all_and_always_refuses() {
        let source = Identity { id: "4f1c".to_owned(), version: "17".to_owned() };
        let corpus = [
            Mark::Unfinished { source, from: "tenure-data".to_owned() },
            Mark::Backup,
            Mark::Moved { target: "9b20".to_owned(), to: "postgres://db.example/tenure".to_owned() },
        ];
        let judged = tenure_spoil::spoiled(&corpus.map(|mark| mark.encode().into_bytes()), |bytes| {
            let mark = std::str::from_utf8(bytes).ok().and_then(Mark::decode);
            let Error::Unsupported { detail } = refusal("here", mark.as_ref()) else {
                return Err("it is no refusal".to_owned());
            };
            let what = match &mark {
                Some(Mark::Unfinished { .. }) => "here holds an unfinished move",
                Some(Mark::Backup) => "here is a backup",
                Some(Mark::Moved { .. }) => "here was moved to",
                None => "here has a mark of a move that this program cannot read",
            };
            if !detail.starts_with(what) {
                return Err(detail);
            }
            if mark.as_ref().is_some_and(|mark| Mark::decode(&mark.encode()).as_ref() != Some(mark)) {
                return Err(format!("read again it is another: {mark:?}"));
            }
            Ok(mark.is_some())
        });
        assert!(judged.reaches_both(), "{judged:?}");
    }
}
