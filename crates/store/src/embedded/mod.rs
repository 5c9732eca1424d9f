//! The embedded store: one process owns a data folder.
//!
//! ```text
//!              stage, write, sync              apply                  queue
//!  commit ──► journal ─────────────► answered: live (memory) ──► fold ──► archive
//!                                              ▲                            │
//!                            every reader ─────┴── older events, replies ◄──┘
//! ```
//!
//! - [`disk`]: what is asked of a disk.
//! - `journal`: makes a commit safe; reads it back after a crash.
//! - `wire`: a batch as bytes.
//! - `live`: what is in memory: rows, unfolded events, kept replies.
//! - `fold` and [`archive`]: behind the commits, rows, events and replies go to SQLite.
//! - `recover`: opening a folder.
//! - `unmade`: a folder whose first start has not ended.
//! - `reader`, `rebuild`: what readers see.
//! - [`backup`], [`check`], `moving`: the operator's tools.

pub mod archive;
pub mod backup;
pub mod check;
mod commit;
pub mod disk;
mod fold;
mod journal;
mod kept;
mod live;
pub(crate) mod moving;
mod options;
mod reader;
mod rebuild;
mod recover;
mod unmade;
mod wire;
mod writer;

pub use commit::{Embedded, EmbeddedView};
pub use options::{Faults, Fold, Options};
