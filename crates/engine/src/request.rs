//! What callers hand in and get back.

use std::fmt;

use tenure_core::{CollectionKey, Command, Hash, OfClaim, Principal, Refusal, Reply, Text};
use tokio::sync::{mpsc, oneshot};

/// A command, and the key under which its answer is kept for a retry.
#[derive(Clone, Debug)]
pub struct Request {
    /// What is asked.
    pub command: Command,
    /// Makes a retry get the first answer.
    pub idempotency: Option<Idempotency>,
}

impl From<Command> for Request {
    fn from(command: Command) -> Self {
        Self { command, idempotency: None }
    }
}

/// The client's key and what it was used for.
#[derive(Clone, Debug)]
pub struct Idempotency {
    /// The client's key.
    pub key: Text,
    /// A hash over the request: the same key with another request is refused.
    pub fingerprint: Hash,
}

/// What an answer has to know of its command, should the loop not know the claim that it names.
#[derive(Clone, Debug)]
pub struct Named {
    pub(crate) collection: CollectionKey,
    pub(crate) actor: Principal,
    pub(crate) claim: u64,
    pub(crate) asked: OfClaim,
}

impl Named {
    /// `None` where the command names no claim.
    pub fn of(command: &Command) -> Option<Self> {
        let (claim, asked) = command.verb.of_claim()?;
        let (collection, actor) = (command.collection.clone(), command.actor.clone());
        Some(Self { collection, actor, claim, asked })
    }

    /// The answer says that there is no such claim, which [`crate::Engine::look_up`] may know better.
    pub fn is_unknown(&self, answer: &Answer) -> bool {
        matches!(&answer.outcome, Err(Refused::Rule(Refusal::NotFound { what, .. })) if &**what == "claim")
    }
}

/// What came of a request. Whatever it says is durable.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The server's time at the decision.
    pub server_time_ms: i64,
    /// The reply, or why not.
    pub outcome: Result<Reply, Refused>,
    /// The request had been answered before; this is that answer.
    pub replayed: bool,
}

/// Why a request was not carried out. Nothing of it happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The rules say no.
    Rule(Refusal),
    /// The key was used for another request.
    KeyReused,
    /// The first request with this key is still waiting.
    InProgress,
    /// Too many requests wait already.
    Overloaded,
    /// The disk is full: reads go on.
    NoRoom,
    /// The store cannot be reached now.
    Away,
    /// The engine has stopped, or is stopping. For a request that was already taken the outcome is
    /// unknown: ask again with the same key.
    Stopped,
}

impl Refused {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Rule(refusal) => refusal.code(),
            Self::KeyReused => "key_reused",
            Self::InProgress => "in_progress",
            Self::Overloaded => "overloaded",
            Self::NoRoom => "no_room",
            Self::Away => "away",
            Self::Stopped => "stopped",
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule(refusal) => refusal.fmt(f),
            Self::KeyReused => f.write_str("this idempotency key was used for another request"),
            Self::InProgress => f.write_str("the first request with this idempotency key is still running"),
            Self::Overloaded => f.write_str("too many requests are waiting; try again shortly"),
            Self::NoRoom => {
                f.write_str("the disk is full; reads go on, changes are refused until there is room")
            }
            Self::Away => f.write_str("the store cannot be reached; try again shortly"),
            Self::Stopped => f.write_str("the engine is stopping"),
        }
    }
}

impl std::error::Error for Refused {}

/// Where an answer goes. A ticket whose caller has left is gone: a waiter is granted only while it is
/// still there.
pub trait Ticket {
    /// Nobody waits for this answer any more.
    fn is_gone(&self) -> bool;
}

/// The tickets of the running engine.
#[derive(Debug)]
pub enum ReplyTo {
    /// One caller, one answer.
    Once(oneshot::Sender<Answer>),
    /// Many answers of one caller, told apart by its own numbers: a pipelined socket.
    Tagged(u64, mpsc::UnboundedSender<(u64, Answer)>),
    /// Nobody: the engine's own errands.
    Nobody,
}

impl ReplyTo {
    /// Hands the answer over; `false` if the caller had left.
    pub fn send(self, answer: Answer) -> bool {
        match self {
            Self::Once(sender) => sender.send(answer).is_ok(),
            Self::Tagged(tag, sender) => sender.send((tag, answer)).is_ok(),
            Self::Nobody => true,
        }
    }
}

impl Ticket for ReplyTo {
    fn is_gone(&self) -> bool {
        match self {
            Self::Once(sender) => sender.is_closed(),
            Self::Tagged(_, sender) => sender.is_closed(),
            Self::Nobody => false,
        }
    }
}
