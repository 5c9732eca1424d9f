//! `core` DECIDES. It owns the model (collections, items, claims, policies), the commands, the
//! refusals and the events, and one pure function, [`decide`], that turns rows, a command and the
//! time into a reply and the events that happened, or into a refusal that leaves no trace.
//!
//! Deliberately absent: I/O, clocks, randomness, async, locks. Time is an argument; a claim's id and
//! token come from the collection's own event numbers. `clippy.toml` beside this crate enforces it.
//!
//! Read in this order: [`names`] and [`rows`] (what exists), [`policy`] (a kind's numbers),
//! [`command`] (what can be asked), [`event`] (what can happen), [`fold`] (how an event changes the
//! rows), then [`decide`] and the files under `commands/`, one per command.

pub mod chain;
pub mod command;
mod commands;
mod decide;
pub mod draft;
pub mod event;
pub mod fold;
pub mod json;
pub mod limits;
pub mod names;
pub mod object;
pub mod policy;
pub mod refusal;
pub mod rows;
mod timer;

pub use chain::{Hash, Sealed, hex};
pub use command::{Command, Expect, Guard, ItemWrite, OfClaim, Reply, Verb};
pub use commands::after_end;
pub use decide::{Changed, Decision, decide};
pub use event::{Event, Fact};
pub use json::Json;
pub use names::{ClaimId, CollectionKey, ItemId, SessionId, Status, Text};
pub use policy::{AtEnd, Phase, Policy};
pub use refusal::Refusal;
pub use rows::{Beat, Claim, ClaimState, Collection, EndReason, Item, Principal, Rows, RowsMut};
pub use timer::{frees_at_ms, seen_at};
