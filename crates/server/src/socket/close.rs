//! Why a socket ends, and what its other end is told: a code and a JSON reason with the cursor to come back
//! with.

use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use crate::Problem;

/// Why a socket ends.
#[derive(Clone, Debug)]
pub(super) enum End {
    /// The other end has left, or nothing can be sent to it.
    Gone,
    /// Nothing was heard from it for too long.
    Silent,
    /// It does not read what is written.
    Stalled,
    /// It reads more slowly than things happen.
    Slow,
    /// The server stops: come back with the cursor.
    Stopping,
    /// Its key, token or session is over.
    Revoked,
    /// It did not say who it is in time.
    NoHello,
    /// It may not, what it said it is is not known, or nobody could look.
    Refused(Problem),
    /// A frame that means nothing here.
    Binary,
    /// A message beyond the limit.
    TooLarge,
    /// Text that is not UTF-8.
    NotText,
    /// It does not speak the protocol.
    Protocol,
    /// Something went wrong here: come back with the cursor.
    Failed,
}

impl End {
    /// The word for it, also in the figures.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Gone => "gone",
            Self::Silent => "silent",
            Self::Stalled => "stalled",
            Self::Slow => "slow",
            Self::Stopping => "stopping",
            Self::Revoked => "revoked",
            Self::NoHello => "no_hello",
            Self::Refused(problem) => problem.code,
            Self::Binary => "binary",
            Self::TooLarge => "too_large",
            Self::NotText => "not_text",
            Self::Protocol => "protocol",
            Self::Failed => "failed",
        }
    }

    /// The code; `None` where nobody would read it.
    fn code(&self) -> Option<u16> {
        match self {
            Self::Gone | Self::Silent | Self::Stalled => None,
            Self::Slow => Some(4008),
            Self::Stopping => Some(1012),
            Self::Revoked | Self::NoHello => Some(4401),
            Self::Refused(problem) => Some(4000 + problem.status.as_u16()),
            Self::Binary => Some(1003),
            Self::TooLarge => Some(1009),
            Self::NotText => Some(1007),
            Self::Protocol => Some(1002),
            Self::Failed => Some(1011),
        }
    }

    /// The last words: at most 123 bytes, which this is far from.
    pub(super) fn frame(&self, cursor: Option<u64>, epoch: u64) -> Option<CloseFrame> {
        let word = self.word();
        let reason = match cursor {
            Some(cursor) => format!(r#"{{"reason":"{word}","cursor":{cursor},"epoch":{epoch}}}"#),
            None => format!(r#"{{"reason":"{word}"}}"#),
        };
        Some(CloseFrame { code: CloseCode::from(self.code()?), reason: reason.into() })
    }
}
