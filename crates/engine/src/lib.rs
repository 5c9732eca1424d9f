//! `engine` RUNS the loop: take everything that waits, load the rows it names, decide each in order,
//! commit once, answer each caller, tell the feed.
//!
//! It owns time, timers, waiters, kept replies and the feed. It never decides who holds (that is
//! [`tenure_core::decide`]) and knows no HTTP. Expiry goes through the same door as every command.
//!
//! [`Turn`] is the loop's body without threads or clocks, so that a simulator can drive it; [`Engine`]
//! puts it on a thread.

mod clock;
mod decided;
mod engine;
mod explain;
mod feed;
mod follow;
mod limits;
mod overlay;
mod planted;
mod queue;
mod request;
mod round;
mod running;
mod sight;
mod timers;
mod turn;
mod waiters;
mod wants;

pub use clock::{Clock, ManualClock, SystemClock};
pub use engine::{Engine, Observer, Options};
pub use explain::{Explanation, Tenancy};
pub use feed::{Delivery, Feed, From, Missing, Step, Subscription};
pub use limits::{BATCH_MAX, FEED_RING_MAX, LANES_MAX, MARK_MS, QUEUE_MAX, WAITERS_MAX};
pub use planted::{Bug, Planted};
pub use request::{Answer, Idempotency, Named, Refused, ReplyTo, Request, Ticket};
pub use turn::{Answered, Pending, Report, Turn};

/// What a store's readers can be asked, so that the layers above need not know the store.
pub use tenure_store::{
    AuditFilter, ClaimFilter, ClaimRow, Error as StoreError, EventPage, HeldItem, ItemFilter, Page, Reader,
    Snapshot, Stats,
};

/// The README's example, kept compiling and running.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
