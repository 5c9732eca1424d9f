//! `apps` USES: applications on the engine's verbs and documents, one folder each. An application owns
//! its words, its requests and answers, and which verbs go into one commit.
//!
//! Deliberately absent: HTTP, tables, SQL, a clock, and every rule about who holds what. Whether somebody
//! holds, whether a version is current, whether a status can be claimed: an application asks the engine
//! and passes the refusal on.
//!
//! Read in this order: [`Actor`] (who asks), [`Desk`] (how an application reads and writes), [`Refusal`]
//! (what can be said instead), [`Lock`] (how a hold reads), then one application.

mod actor;
pub mod demo;
mod desk;
pub mod durable;
mod family;
pub mod files;
pub mod jobs;
pub mod labels;
mod limits;
mod lock;
pub mod payments;
pub mod raffle;
mod random;
mod refusal;
pub mod tasks;
mod text;
mod time;

use tenure_core::{CollectionKey, ItemId};

pub use actor::{Actor, Permission, RequestKey};
pub use desk::{Desk, Document, Done, put};
pub use family::{Family, Listed};
pub use lock::{Lock, LockState, Person};
pub use refusal::{Refusal, Result};
pub use time::Time;

/// The item is an application's own: its document is written by the application alone, since every rule of
/// the application would be worth nothing if anybody could write around it. Without an item: some item of the
/// collection is.
pub fn is_own(collection: &CollectionKey, item: Option<&ItemId>) -> bool {
    tasks::is_own(collection)
        || jobs::is_own(collection)
        || labels::is_own(collection, item)
        || raffle::is_own(collection, item)
}
