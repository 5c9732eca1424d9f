//! Where committed batches go to stay: the latest rows, every event, the kept replies. A trait, so that
//! a simulator can keep them in memory; [`SqliteArchive`] is the real one.
//!
//! An archive is behind the journal, never ahead of it, and says how far it is. It takes whole groups
//! of batches or nothing.

pub mod bloom;
mod chunk;
mod group;
pub mod memory;
mod sqlite;
mod sqlite_fold;
mod sqlite_load;
mod sqlite_read;

use std::ops::Range;

pub use bloom::Word;
pub use chunk::{Chunk, build_chunks, read_events};
pub(crate) use chunk::{is_labelled, read_wanted};
pub use group::{Group, GroupItem, GroupRows, KeptChunk, KeptPlace};
pub(crate) use group::{Recorder, read_kept};
pub use memory::MemoryArchive;
pub use sqlite::SqliteArchive;
pub(crate) use sqlite_read::{Inspection, copy_archive, is_without_tables};
use tenure_core::{CollectionKey, Hash};

use crate::{Error, State};

/// The real archive's file in the data folder.
pub const FILE_NAME: &str = "archive.db";

/// Keeps what was folded.
pub trait Archive: Send + 'static {
    /// Looks into it beside the writer.
    type Reader: ArchiveReader;

    /// Reads all rows, and hands each chunk of kept replies to `kept`, oldest first.
    fn load(&mut self, kept: &mut dyn FnMut(KeptPlace, &[u8])) -> Result<Loaded, Error>;

    /// Takes a group of batches: all of it, safe when this returns, or on an error nothing.
    fn fold(&mut self, group: &Group) -> Result<(), Error>;

    /// A way to read beside the writer.
    fn reader(&self) -> Self::Reader;

    /// Nothing more will be folded.
    fn close(&mut self) -> Result<(), Error>;
}

/// What an archive holds when a store opens it.
#[derive(Debug, Default)]
pub struct Loaded {
    /// How far it is.
    pub meta: Meta,
    /// The rows.
    pub state: State,
}

/// How far an archive is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// The store's own number, chosen when it was made.
    pub store: u64,
    /// The last batch that is in it.
    pub folded_through: u64,
    /// The highest time of any batch in it.
    pub high_water_ms: i64,
    /// The store's epoch.
    pub epoch: u64,
}

/// The readers' face of an archive. Each call sees one moment.
pub trait ArchiveReader: Clone + Send + Sync + 'static {
    /// Visits the chunks that may have what is asked for, until `visit` says `false`.
    fn chunks(&self, ask: &ChunkAsk<'_>, visit: &mut VisitChunk<'_>) -> Result<(), Error>;

    /// The bytes of a chunk of kept replies, if it is still there.
    fn kept(&self, place: KeptPlace) -> Result<Option<Vec<u8>>, Error>;
}

/// Takes a chunk of a collection; `false` ends the visit.
pub type VisitChunk<'a> = dyn FnMut(&CollectionKey, ChunkRef<'_>) -> Result<bool, Error> + 'a;

/// Which chunks, and in which order.
#[derive(Clone, Debug)]
pub struct ChunkAsk<'a> {
    /// Only of this collection.
    pub collection: Option<&'a CollectionKey>,
    /// Only those that can have an event with a number from here on.
    pub from_seq: u64,
    /// Only those that can have an event of this time.
    pub at_ms: Range<i64>,
    /// Only those that may have all of these.
    pub words: &'a [Word],
    /// By number, or by time with the latest first.
    pub order: ChunkOrder,
}

/// The order of chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkOrder {
    /// By collection and number.
    Oldest,
    /// By the time of their last event, the latest first.
    Latest,
}

/// A chunk as a visitor sees it.
#[derive(Clone, Copy, Debug)]
pub struct ChunkRef<'a> {
    /// The first event's number.
    pub first_seq: u64,
    /// The last event's number.
    pub last_seq: u64,
    /// The earliest time in it.
    pub first_at_ms: i64,
    /// The latest time in it.
    pub last_at_ms: i64,
    /// How many events.
    pub events: u64,
    /// The chain's hash before the first event.
    pub before: Hash,
    /// What can be found in it.
    pub bloom: &'a [u8],
    /// The events.
    pub data: &'a [u8],
}
