//! What an application says instead of doing it.

use std::borrow::Cow;
use std::fmt;

use tenure_core::Refusal as Rule;
use tenure_core::limits::ITEM_ID_BYTES_MAX;
use tenure_engine::{Refused, StoreError};

use crate::{Permission, Person};

/// An application's answer, or why not.
pub type Result<T, E = Refusal> = std::result::Result<T, E>;

/// Why an application did not do what it was asked. What the engine refuses is passed on as it is.
#[derive(Debug)]
pub enum Refusal {
    /// The engine's own word.
    Engine {
        /// It, without the group that it stood in.
        refused: Refused,
        /// Which command of the group was refused.
        index: Option<usize>,
        /// The server's time at the decision.
        at_ms: i64,
    },
    /// A field is wrong.
    Invalid {
        /// Which.
        field: String,
        /// What is wrong with it.
        message: String,
    },
    /// No such thing of the application's.
    NotFound {
        /// `task`, `line`, `project` …
        what: &'static str,
        /// Its id.
        id: String,
    },
    /// The actor may not.
    Forbidden {
        /// What would be needed.
        permission: Permission,
    },
    /// It is another's, who alone may.
    NotAuthor {
        /// `annotation` …
        what: &'static str,
        /// Its id.
        id: String,
        /// Who made it.
        author: Person,
    },
    /// It is another's, and whose is nobody's business.
    NotOwner {
        /// `reservation` …
        what: &'static str,
        /// Its id.
        id: String,
    },
    /// Nobody reviews what they pay themselves.
    OwnPayment {
        /// The payment's id.
        id: String,
    },
    /// Numbers that somebody else has, or that are sold. Nobody learns who.
    Taken {
        /// Every one that could not be had.
        numbers: Vec<u32>,
        /// When trying again may succeed, unless one of them is sold.
        wait_ms: Option<i64>,
    },
    /// More than one person may have.
    Limit {
        /// Which limit.
        limit: &'static str,
        /// Its value.
        max: u64,
    },
    /// More often than one person may; time lifts it.
    TooOften {
        /// Which limit.
        limit: &'static str,
        /// Its value.
        max: u64,
        /// For how long.
        wait_ms: i64,
    },
    /// The actor does not hold it any more, or never did.
    Lost {
        /// `image` …
        what: &'static str,
        /// Its id.
        id: String,
        /// Who holds it now.
        holder: Option<Person>,
    },
    /// The application does not do this to a thing in that status.
    WrongStatus {
        /// `task`, `line` …
        what: &'static str,
        /// Its id.
        id: String,
        /// Its status.
        status: String,
        /// What can be done about it.
        message: Cow<'static, str>,
    },
    /// The store could not be read.
    Store(StoreError),
    /// Our own mistake: a document that we wrote does not read. The cause is logged.
    Broken,
}

impl Refusal {
    /// A wrong field.
    pub fn invalid(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Invalid { field: field.into(), message: message.into() }
    }

    /// No such thing. An id longer than any there is comes back cut off.
    pub fn not_found(what: &'static str, id: impl fmt::Display) -> Self {
        let mut id = id.to_string();
        if id.len() > ITEM_ID_BYTES_MAX {
            id.truncate(id.floor_char_boundary(ITEM_ID_BYTES_MAX));
            id.push('…');
        }
        Self::NotFound { what, id }
    }

    /// What the engine refused.
    pub(crate) fn engine(refused: Refused, at_ms: i64) -> Self {
        match refused {
            Refused::Rule(Rule::InGroup { index, refusal }) => {
                Self::Engine { refused: Refused::Rule(*refusal), index: Some(index), at_ms }
            }
            refused => Self::Engine { refused, index: None, at_ms },
        }
    }

    /// The rule that refused, if the engine's rules did.
    pub fn rule(&self) -> Option<&Rule> {
        match self {
            Self::Engine { refused: Refused::Rule(rule), .. } => Some(rule),
            _ => None,
        }
    }

    /// Asking again may help, and nothing happened: the engine or its store has no time or room for it now.
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Engine { refused, .. } => {
                matches!(refused, Refused::Overloaded | Refused::NoRoom | Refused::Away)
            }
            Self::Store(error) => !error.is_fatal(),
            _ => false,
        }
    }

    /// Which command of a group was refused.
    pub(crate) fn index(&self) -> Option<usize> {
        match self {
            Self::Engine { index, .. } => *index,
            _ => None,
        }
    }

    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Engine { refused, .. } => refused.code(),
            Self::Invalid { .. } => "invalid",
            Self::NotFound { .. } => "not_found",
            Self::Forbidden { .. }
            | Self::NotAuthor { .. }
            | Self::NotOwner { .. }
            | Self::OwnPayment { .. } => "forbidden",
            Self::Taken { wait_ms: Some(_), .. } => "held",
            Self::Taken { wait_ms: None, .. } => "finished",
            Self::Limit { .. } => "limit",
            Self::TooOften { .. } => "rate_limited",
            Self::Lost { .. } => "lost",
            Self::WrongStatus { .. } => "wrong_status",
            Self::Store(error) if !error.is_fatal() => "away",
            Self::Store(_) | Self::Broken => "internal",
        }
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// A rule that was found broken before anything was asked of the engine: a name that is none.
impl From<Rule> for Refusal {
    fn from(rule: Rule) -> Self {
        Self::engine(Refused::Rule(rule), 0)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Engine { refused, .. } => refused.fmt(f),
            Self::Invalid { field, message } => write!(f, "{field}: {message}"),
            Self::NotFound { what, id } => write!(f, "there is no {what} {id}"),
            Self::Forbidden { permission } => write!(f, "you lack the permission {permission}"),
            Self::NotAuthor { what, id, author } => {
                write!(
                    f,
                    "{what} {id} is {}'s: only its author and the project's owner change it",
                    author.name
                )
            }
            Self::OwnPayment { id } => write!(f, "payment {id} is your own; somebody else reviews it"),
            Self::NotOwner { what, id } => write!(f, "{what} {id} is somebody else's"),
            Self::Taken { numbers, .. } => {
                let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
                write!(f, "not available: {}", numbers.join(", "))
            }
            Self::Limit { limit, max } => write!(f, "{limit} allows {max}"),
            Self::TooOften { limit, max, wait_ms } => {
                write!(f, "{limit} allows {max}; try again in {} s", wait_ms.max(&0) / 1_000 + 1)
            }
            Self::Lost { what, id, holder: Some(holder) } => {
                write!(f, "you do not hold {what} {id} any more: {} does", holder.name)
            }
            Self::Lost { what, id, holder: None } => write!(f, "you do not hold {what} {id} any more"),
            Self::WrongStatus { what, id, status, message } => {
                write!(f, "{what} {id} is {status}: {message}")
            }
            Self::Store(error) => error.fmt(f),
            Self::Broken => f.write_str("a document of the application cannot be read"),
        }
    }
}

impl std::error::Error for Refusal {}
