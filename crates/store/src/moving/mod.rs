//! Moving an installation between a data folder and a database, whole: heads, rows, events with their chain,
//! kept replies, policies, time and epoch.
//!
//! ```text
//! examine the source   every chain, every row against its events; nothing else may use it meanwhile
//! copy                 into a target that says "unfinished" until the end; what is there is not copied again
//! examine the target   the same again, and everything that there is to count or to sum up is the same
//! mark the source      "moved": it is not served any more, or its tokens would be given out twice
//! finish the target    the mark goes; from here on it is the installation
//! ```
//!
//! Numbers go on where they were, so tokens, cursors and kept replies stay good and no epoch begins. The
//! source is marked before the target is finished: a crash between the two leaves none to serve, never two,
//! and the same command again finishes it.

mod copy;
mod examine;
mod mark;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;
use tenure_core::{Claim, ClaimState, Collection, CollectionKey, Hash, Item, ItemId, Policy, Sealed, Text};

use crate::check::Bounds;
use crate::embedded::moving::{FolderSource, FolderTarget};
use crate::postgres::moving::{DatabaseSource, DatabaseTarget};
use crate::{Error, Kept, ReplyKey};
pub(crate) use mark::{Identity, Mark, refusal};

/// Where an installation is, or shall be.
#[derive(Clone)]
pub enum Place {
    /// A data folder.
    Folder(PathBuf),
    /// A PostgreSQL, by its address.
    Database(String),
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(path) => write!(f, "Folder({})", path.display()),
            // Its address may hold a password.
            Self::Database(_) => f.write_str("Database"),
        }
    }
}

/// What is being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The source is examined.
    Examining,
    /// It is copied.
    Copying,
    /// The target is examined.
    Verifying,
    /// The source is marked as moved; the target is about to be what is served.
    Finishing,
}

/// Told how many rows are done, out of how many.
pub type Progress<'a> = dyn FnMut(Step, u64, u64) + 'a;

/// What was moved.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Moved {
    /// Collections.
    pub collections: u64,
    /// Items.
    pub items: u64,
    /// Claims that hold, or whose lock delay runs.
    pub claims: u64,
    /// Events, whose chains were recomputed from the target.
    pub events: u64,
    /// Kept replies.
    pub replies: u64,
    /// Policies.
    pub policies: u64,
    /// The highest time ever committed.
    pub high_water_ms: i64,
    /// The epoch, which a move leaves as it is.
    pub epoch: u64,
    /// An earlier move that did not end was taken up.
    pub resumed: bool,
}

/// Rows in one page of a source and one commit of a target: a second's work, and some megabytes.
pub(crate) const PAGE_ROWS: usize = 1_000;
/// Bytes of events in a page, since an event may hold a hundred documents.
pub(crate) const PAGE_BYTES: usize = 4 << 20;

/// What a source says of the whole.
#[derive(Clone, Debug)]
pub(crate) struct About {
    pub(crate) identity: Identity,
    pub(crate) bounds: Bounds,
    /// Where it is, for people.
    pub(crate) label: String,
    /// What it said about itself.
    pub(crate) mark: Option<Mark>,
    /// Ended claims are rows, too.
    pub(crate) keeps_ended: bool,
    /// Rows and events, about, for a bar.
    pub(crate) size: u64,
}

/// An installation that is read and that nobody else uses meanwhile. Pages follow what came before them;
/// an empty one is the end.
pub(crate) trait Source {
    fn about(&self) -> &About;
    fn heads(&mut self) -> Result<Vec<(CollectionKey, Arc<Collection>)>, Error>;
    fn policies(&mut self) -> Result<Policies, Error>;
    fn items(&mut self, key: &CollectionKey, after: Option<&ItemId>) -> Result<Vec<Arc<Item>>, Error>;
    fn claims(&mut self, key: &CollectionKey, after: u64) -> Result<Vec<Arc<Claim>>, Error>;
    /// `after` is the number of the event before, and the chain's hash after it.
    fn events(&mut self, key: &CollectionKey, after: (u64, Hash)) -> Result<Vec<Arc<Sealed>>, Error>;
    /// All kept replies, oldest first, in pages.
    fn replies(&mut self, visit: &mut VisitReplies<'_>) -> Result<(), Error>;
    /// It must not be served any more.
    fn mark(&mut self, mark: &Mark) -> Result<(), Error>;
}

/// Policies by kind.
pub(crate) type Policies = Vec<(Text, Arc<Policy>)>;
/// A page of kept replies.
pub(crate) type Replies = Vec<(ReplyKey, Arc<Kept>)>;
/// Takes such a page.
pub(crate) type VisitReplies<'a> = dyn FnMut(Replies) -> Result<(), Error> + 'a;

/// What goes into a target at once.
#[derive(Debug, Default)]
pub(crate) struct Part {
    /// Of which collection, and its head after the events.
    pub(crate) head: Option<(CollectionKey, Option<Arc<Collection>>)>,
    pub(crate) items: Vec<Arc<Item>>,
    pub(crate) claims: Vec<Arc<Claim>>,
    pub(crate) events: Vec<Arc<Sealed>>,
    pub(crate) policies: Policies,
    pub(crate) replies: Replies,
}

/// An installation that comes to be, marked as unfinished until the end.
pub(crate) trait Target {
    /// Its own name, which its source is told.
    fn id(&self) -> &str;
    fn label(&self) -> &str;
    /// It goes on from an earlier try.
    fn is_resumed(&self) -> bool;
    /// Ended claims are rows, too.
    fn keeps_ended(&self) -> bool;
    /// How far each collection is.
    fn heads(&mut self) -> Result<Vec<(CollectionKey, Arc<Collection>)>, Error>;
    /// Forgets replies that an earlier try put there.
    fn begin_replies(&mut self) -> Result<(), Error>;
    fn put(&mut self, part: Part) -> Result<(), Error>;
    /// Everything is put: sets time and epoch, and answers what is to be examined.
    fn close(&mut self, bounds: Bounds) -> Result<Box<dyn Source>, Error>;
    /// Takes the mark away.
    fn finish(&mut self) -> Result<(), Error>;
}

/// A claim that an installation needs to decide: it holds, or nobody may have its items yet.
pub(crate) fn stays(claim: &Claim, high_water_ms: i64) -> bool {
    claim.state == ClaimState::Active || claim.blocked_until_ms > high_water_ms
}

/// Moves an installation, or goes on with a move that did not end.
pub fn migrate(from: &Place, to: &Place, progress: &mut Progress<'_>) -> Result<Moved, Error> {
    let mut source: Box<dyn Source> = match (from, to) {
        (Place::Folder(dir), Place::Database(_)) => Box::new(FolderSource::open(dir)?),
        (Place::Database(url), Place::Folder(_)) => Box::new(DatabaseSource::open(url)?),
        _ => {
            let detail = "a move is from a folder to a database, or back: name one of each".to_owned();
            return Err(Error::Unsupported { detail });
        }
    };
    let about = source.about().clone();
    if let Some(Mark::Unfinished { .. }) = &about.mark {
        return Err(refusal(&about.label, about.mark.as_ref()));
    }
    let said = examine::examine(&mut *source, &mut |done| {
        progress(Step::Examining, done, about.size);
    })?;
    said.require_good(&about.label)?;
    let target: Result<Box<dyn Target>, Error> = match to {
        Place::Folder(dir) => FolderTarget::open(dir, &about).map(|target| Box::new(target) as _),
        Place::Database(url) => DatabaseTarget::open(url, &about).map(|target| Box::new(target) as _),
    };
    // Where the last step was done and its answer was lost, the mark says what is to know.
    let moved = || refusal(&about.label, about.mark.as_ref());
    let mut target = target.map_err(|error| if about.mark.is_some() { moved() } else { error })?;
    // A source that was marked can only be at the last step of this very move.
    if let Some(Mark::Moved { target: known, .. }) = &about.mark
        && (known != target.id() || !target.is_resumed())
    {
        return Err(moved());
    }
    let total = said.rows();
    copy::copy(&mut *source, &mut *target, &mut |done| progress(Step::Copying, done, total))?;
    let mut copied = target.close(about.bounds)?;
    let found = examine::examine(&mut *copied, &mut |done| progress(Step::Verifying, done, total));
    let found = found.map_err(|error| not_whole(target.label(), &error))?;
    drop(copied);
    let compared =
        found.require_good(target.label()).and_then(|()| said.require_same(&found, target.label()));
    compared.map_err(|error| not_whole(target.label(), &error))?;
    if about.mark.is_none() {
        source.mark(&Mark::Moved { target: target.id().to_owned(), to: target.label().to_owned() })?;
    }
    progress(Step::Finishing, total, total);
    target.finish()?;
    Ok(found.moved(target.is_resumed()))
}

/// The same again would take for done what is there: it must go first.
fn not_whole(label: &str, error: &Error) -> Error {
    let why = match error {
        Error::Corrupt { detail, .. } => detail.clone(),
        other => other.to_string(),
    };
    let detail = format!(
        "the copy in {label} is not what was copied: {why}. It is not served, and the original is as it was; \
         empty {label} and run the same command again"
    );
    Error::Unsupported { detail }
}
