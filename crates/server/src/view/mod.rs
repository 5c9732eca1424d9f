//! How things read outside. A view is made of a row and a time, and of nothing else: the same answer of
//! the engine always reads the same, also when it is repeated for an idempotency key.

mod claim;
mod event;
mod item;

pub(crate) use claim::{BeatView, ClaimView, FreedView, Holder};
pub(crate) use event::{AuditView, EventView};
pub(crate) use item::{CollectionView, DocumentView, ItemView};
