//! What can go wrong, and what it means for the caller.

use std::fmt;

use serde_json::{Map, Value};

/// Why a call gave nothing.
#[derive(Debug)]
pub enum Error {
    /// The server said no, and why. Nothing happened.
    Refused(Box<Problem>),
    /// No answer: the server cannot be reached, or the connection broke. Whether something happened is not
    /// known.
    Unreachable(String),
    /// An answer that makes no sense: probably not a Tenure server.
    Confused(String),
    /// The URL or the key cannot be used.
    Invalid(String),
    /// The claim that this guard had is gone.
    Lost(crate::Lost),
}

/// A refusal, as the server sent it.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// The HTTP status.
    pub status: u16,
    /// The stable code: `held`, `lost`, `not_found`, …
    pub code: String,
    /// A sentence about this very case.
    pub detail: String,
    /// Seconds after which trying again makes sense.
    pub retry_after_s: Option<u64>,
    /// Everything that the server said.
    pub body: Map<String, Value>,
}

impl Problem {
    pub(crate) fn parse(status: u16, bytes: &[u8]) -> Option<Self> {
        let body: Map<String, Value> = serde_json::from_slice(bytes).ok()?;
        let text = |name: &str| body.get(name).and_then(Value::as_str).map(str::to_owned);
        let (code, detail) = (text("code")?, text("detail").unwrap_or_default());
        let retry_after_s = body.get("retry_after").and_then(Value::as_u64);
        Some(Self { status, code, detail, retry_after_s, body })
    }
}

impl Error {
    /// The refusal's code, if it is one.
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Refused(problem) => Some(&problem.code),
            _ => None,
        }
    }

    /// Asking again may help: nothing is known against the request itself.
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Unreachable(_) => true,
            Self::Refused(problem) => {
                matches!(problem.status, 408 | 429 | 500..=599) || problem.code == "in_progress"
            }
            Self::Confused(_) | Self::Invalid(_) | Self::Lost(_) => false,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(problem) => write!(f, "{} ({})", problem.detail, problem.code),
            Self::Unreachable(why) => write!(f, "the server cannot be reached: {why}"),
            Self::Confused(what) => write!(f, "the answer makes no sense: {what}"),
            Self::Invalid(what) => f.write_str(what),
            Self::Lost(lost) => write!(f, "the claim is lost: {lost}"),
        }
    }
}

impl std::error::Error for Error {}
