//! One file per command; what several share stands in `held`.

mod acquire;
mod advance;
mod amend;
mod documents;
mod end;
mod force;
mod heartbeat;
mod held;
mod nudge;
mod system;

pub(crate) use acquire::acquire;
pub(crate) use advance::{advance, enter};
pub(crate) use amend::{add_item, remove_item};
pub(crate) use documents::{delete_item, put_item};
pub use end::after_end;
pub(crate) use end::{cancel, complete, release};
pub(crate) use force::{force_claim, force_release};
pub(crate) use heartbeat::heartbeat;
pub(crate) use nudge::nudge;
pub(crate) use system::{begin_collection, expire, restore, resume, set_policy};
