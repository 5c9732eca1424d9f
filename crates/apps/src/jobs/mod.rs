//! Jobs: a queue delivers an analysis to workers, maybe twice; it runs once.
//!
//! ```text
//!  create ─► QUEUED ─ lock ─► RUNNING ─ complete ─► READY | FAILED
//!                               ▲  │
//!                          lock └──┘ released, or run out: RUNNING and free
//! ```
//!
//! An analysis is an item; running it is a claim on it, held by the caller's principal in the session of
//! one worker, its `owner`. Taking the lock is the claim; the result, the status and the end of the claim
//! are one commit under its token. So whoever lost the lock can run on as long as it likes: its result is
//! refused.
//!
//! Read in this order: `model`, `locks` (what a worker of one's own needs), [`Runner`] (what runs), and
//! `deliver` (the worker in the server). `text` is the analysis that is built in.

mod create;
mod deliver;
mod demo;
mod finish;
mod locks;
mod model;
mod read;
mod runner;
mod text;

use std::sync::Arc;
use std::time::Duration;

use tenure_core::{Claim, CollectionKey, ItemId};
use tokio::sync::{Semaphore, watch};

pub(crate) use demo::load_demo;
pub use model::{
    Analysis, AnalysisPage, AnalysisQuery, AnalysisStatus, Delivery, Finish, Hold, Locked, NewAnalysis,
    NotAcquired, Outcome, Refreshed, Released,
};
pub use runner::{Failure, Job, Pace, Runner, Running, Stop, Stopper, WallPace, result_of};
pub use text::TextAnalyst;

use crate::{Desk, Document, Family, Refusal, Result};
use model::AnalysisDoc;

/// Where analyses live.
pub const COLLECTION: &str = "analysis/queue";

/// Its items are written by the application alone.
pub(crate) fn is_own(collection: &CollectionKey) -> bool {
    collection.as_str() == COLLECTION
}

/// Nothing else lives there.
const ANALYSES: Family = Family("");

/// The input, as JSON writes it. With the result beside it, it is one document of the engine.
pub const INPUT_BYTES_MAX: usize = 40 * 1024;
/// The result, as JSON writes it.
pub const RESULT_BYTES_MAX: usize = 16 * 1024;
/// Why it failed, in words: the end of what a command said. JSON may write each byte as two.
pub const MESSAGE_BYTES_MAX: usize = 2_000;
/// The word for why it failed.
pub const REASON_BYTES_MAX: usize = 64;
/// The beginning of the input that lists show, in characters.
pub const EXCERPT_CHARS: usize = 120;
/// Analyses on a page when nobody says.
pub const PAGE_DEFAULT: usize = 50;
/// Analyses on a page.
pub const PAGE_MAX: usize = 200;
/// Runs at once when nobody says: enough to keep a few cores or a remote runner busy.
pub const AT_ONCE_DEFAULT: usize = 16;
/// What runners get to stop, and their locks to be given back, when the server must end.
const CLOSE_TIME: Duration = Duration::from_secs(8);

/// The application.
#[derive(Clone, Debug)]
pub struct Jobs {
    desk: Desk,
    collection: CollectionKey,
    workshop: Workshop,
}

/// Where the server itself runs analyses: with what, and how many at once. Clones share the room.
#[derive(Clone, Debug)]
pub struct Workshop {
    runner: Arc<dyn Runner>,
    pace: Arc<dyn Pace>,
    room: Arc<Semaphore>,
    at_once: usize,
    /// Becomes true when what still runs must be given back.
    closing: watch::Sender<bool>,
}

impl Workshop {
    /// Runs at most `at_once` with this runner.
    pub fn new(runner: impl Runner, at_once: usize) -> Self {
        Self {
            runner: Arc::new(runner),
            pace: Arc::new(WallPace),
            room: Arc::new(Semaphore::new(at_once)),
            at_once,
            closing: watch::Sender::new(false),
        }
    }

    /// For a server that stops: waits until nothing runs, at most so long; then stops what does and gives its
    /// locks back. Nothing may be delivered any more.
    pub async fn close(&self, within: Duration) {
        let all = u32::try_from(self.at_once).unwrap_or(u32::MAX);
        let idle = async || drop(self.room.acquire_many(all).await);
        if tokio::time::timeout(within, idle()).await.is_err() {
            let count = self.at_once - self.room.available_permits();
            tracing::warn!(count, "analyses still run: they are stopped and given back");
            self.closing.send_replace(true);
            let _ = tokio::time::timeout(CLOSE_TIME, idle()).await;
        }
    }

    /// With another way to wait between heartbeats.
    #[must_use]
    pub fn at_pace(self, pace: impl Pace) -> Self {
        Self { pace: Arc::new(pace), ..self }
    }
}

impl Default for Workshop {
    fn default() -> Self {
        Self::new(TextAnalyst, AT_ONCE_DEFAULT)
    }
}

impl Jobs {
    /// On a desk.
    pub fn new(desk: Desk, workshop: Workshop) -> Self {
        let collection = CollectionKey::new(COLLECTION).expect("the collection's key is valid");
        Self { desk, collection, workshop }
    }

    /// An analysis as it is.
    fn analysis(&self, id: &str) -> Result<Document<AnalysisDoc>> {
        self.desk.find(&self.collection, &item_of(id)?)?.ok_or_else(|| unknown(id))
    }

    /// The same with the claim that holds it at this time.
    fn held(&self, id: &str, now_ms: i64) -> Result<(Document<AnalysisDoc>, Option<Claim>)> {
        self.desk.find_held(&self.collection, &item_of(id)?, now_ms)?.ok_or_else(|| unknown(id))
    }
}

fn item_of(id: &str) -> Result<ItemId> {
    ItemId::new(id).map_err(|_| unknown(id))
}

fn unknown(id: &str) -> Refusal {
    Refusal::not_found("analysis", id)
}
