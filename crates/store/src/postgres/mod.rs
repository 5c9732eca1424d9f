//! The store of many nodes: rows, events and replies in one PostgreSQL (15 or newer). Nodes are equal and
//! keep nothing that they rely on unseen; whoever locks a collection's head row decides there.
//!
//! One batch is one transaction, in this order:
//!
//! ```text
//! load    BEGIN READ COMMITTED, timeouts          local to it: a pooler may give us another session next time
//!         INSERT heads that may be new            sorted, ON CONFLICT DO NOTHING
//!         SELECT heads … FOR UPDATE               sorted: from here on nobody else decides in these
//!         SELECT clock_timestamp()                the batch's time, after the locks
//!         SELECT items, claims, replies, policies a statement each: each sees all that was committed before it;
//!                                                 not what is still there from the batch before (`recent`)
//!         … decide …                              whatever was not foreseen is read when it is asked for
//! commit  UPDATE heads, INSERT events, UPSERT rows, replies, the batch's own row, DELETE unused heads
//!         COMMIT
//! ```
//!
//! A head that somebody keeps for longer than is waited is left out with what is wanted there (`stuck`).
//!
//! Both halves are sent as one pipeline each and answered as one, so a batch costs two round trips however large it is. Heads
//! are always locked in the order of their keys, so two batches never wait for each other in a circle.
//! Nothing is set for a session, and statements are prepared by name only where no pooler is between
//! (`session`): PgBouncer in transaction mode works.

mod columns;
mod commit;
mod connect;
mod due;
mod hints;
mod history;
mod hush;
mod load;
pub(crate) mod moving;
mod pipeline;
mod reader;
mod recent;
mod rows;
mod schema;
mod session;
mod stuck;
mod tidy;
mod tls;
mod view;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

use connect::Link;
use load::Open;
use reader::PostgresReader;
use session::Session;
pub use view::PostgresView;

use crate::moving::{Mark, refusal};
use crate::{Batch, Error, Reader, Store, Tidier, Want};
use tenure_core::{CollectionKey, Text};

/// The look for deadlines, for a test of its plan.
#[cfg(feature = "conformance")]
pub const DUE: &str = due::DUE;
/// The same, of what a claim asks about its holder.
#[cfg(feature = "conformance")]
pub const OF_HOLDERS: &str = load::OF_HOLDERS;
/// The same, of a page of items with their claims.
#[cfg(feature = "conformance")]
pub fn held_items() -> String {
    reader::with_claims(&format!(
        "{} WHERE i.collection = $1 AND i.id > $2 ORDER BY i.id LIMIT $3",
        reader::SELECT_ITEMS
    ))
}
/// The same, of the clock and the place.
#[cfg(feature = "conformance")]
pub const CLOCK_AND_PLACE: &str = load::CLOCK_AND_PLACE;

/// How a batch begins, for a wire that cuts batches off.
#[cfg(feature = "conformance")]
pub(crate) const BEGIN_BATCH: &str = load::BEGIN_BATCH;

/// How a database is used.
#[derive(Clone, Debug)]
pub struct Options {
    /// The longest that a batch waits for a collection that another node works on.
    pub lock_ms: u64,
    /// The longest that one statement may take.
    pub statement_ms: u64,
    /// How long it takes to believe that a database is not there.
    pub connect_ms: u64,
    /// How long the outcome of a commit is looked for whose answer was lost.
    pub resolve_ms: u64,
    /// Connections for readers.
    pub readers_max: usize,
    /// How old the operator's figures may be: counting reads whole tables.
    pub stats_ms: u64,
    /// Carries hints between nodes; without it the database does.
    pub redis: Option<tenure_redis::Redis>,
    /// Leads to the same database past a pooler, for hints.
    pub direct: Option<Direct>,
    /// Prepare statements by name, unless a pooler is found to be between.
    pub prepare: bool,
    /// The time, for tests that move it by hand. Everyone else goes by the database's.
    #[cfg(feature = "conformance")]
    pub clock: Option<TestClock>,
    /// A planted bug.
    #[cfg(feature = "planted")]
    pub bug: Option<Bug>,
}

/// Bugs on demand: the tests that would find a real one must find each of these.
#[cfg(feature = "planted")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Heads are locked in an order that differs from one writer to the next.
    UnsortedLocks,
    /// Events are numbered from heads that nobody locked.
    EarlyNumbers,
}

/// An address, which may have a password in it.
#[derive(Clone)]
pub struct Direct(pub String);

impl std::fmt::Debug for Direct {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Direct(…)")
    }
}

/// A time that a test moves by hand.
#[cfg(feature = "conformance")]
#[derive(Clone)]
pub struct TestClock(pub Arc<dyn Fn() -> i64 + Send + Sync>);

#[cfg(feature = "conformance")]
impl std::fmt::Debug for TestClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TestClock({})", (self.0)())
    }
}

impl Options {
    /// A test's time, if there is one.
    fn test_ms(&self) -> Option<i64> {
        #[cfg(feature = "conformance")]
        return self.clock.as_ref().map(|clock| (clock.0)());
        #[cfg(not(feature = "conformance"))]
        None
    }
}

impl Default for Options {
    fn default() -> Self {
        use crate::limits::{CONNECT_MS, LOCK_MS, READERS_MAX, RESOLVE_MS, STATEMENT_MS, STATS_MS};
        Self {
            lock_ms: LOCK_MS,
            statement_ms: STATEMENT_MS,
            connect_ms: CONNECT_MS,
            resolve_ms: RESOLVE_MS,
            readers_max: READERS_MAX,
            stats_ms: STATS_MS,
            redis: None,
            direct: None,
            prepare: true,
            #[cfg(feature = "conformance")]
            clock: None,
            #[cfg(feature = "planted")]
            bug: None,
        }
    }
}

/// One writer over a database. Any number of them, on any number of machines, may work at once.
#[derive(Debug)]
pub struct Postgres {
    shared: Arc<Shared>,
    client: Option<Session>,
    /// The transaction that a load began.
    open: Option<Open>,
    /// Collections whose head row is there for good.
    known: HashSet<CollectionKey>,
    /// Collections that somebody kept locked when it was last looked, and how they were found.
    stuck: BTreeMap<CollectionKey, stuck::Seen>,
    /// Kinds by whose policy, as last read, no claim depends on what else its holder has. A decision that asks
    /// all the same is given it.
    lone: HashSet<Text>,
    /// It begins an epoch, in a history that nobody has taken over yet.
    raises: bool,
}

/// What the writers and readers of one process share.
#[derive(Debug)]
pub(crate) struct Shared {
    link: Link,
    epoch: AtomicU64,
    /// Where the data was when it was last looked at, where the database can tell.
    place: Mutex<Option<String>>,
    /// The highest time that this process knows to be committed.
    high_water_ms: AtomicI64,
    /// When the operator was last told of a collection that is ahead of the clock, and of one that is locked.
    told_of_time: Mutex<connect::Reminder>,
    told_of_stuck: Mutex<connect::Reminder>,
    /// Everybody's connections; the engine's own; and one for whether it is ready: lists that take long must
    /// neither hold up deadlines and revoked keys nor make the node look dead.
    reader: reader::Pool,
    follower: reader::Pool,
    readiness: reader::Pool,
    /// No pooler was found between us and the database, so statements can have names.
    direct: AtomicBool,
    /// One was found, or is to be expected.
    pooled: AtomicBool,
    /// Tells whoever listens meanwhile.
    pooler_found: Arc<Notify>,
}

impl Postgres {
    /// Whether an address can be read. Asks nobody.
    pub fn check_address(url: &str) -> Result<(), Error> {
        connect::check_address(url)
    }

    /// Connects, brings the tables up to date and looks whether the database keeps what it confirms.
    pub fn open(url: &str, options: &Options) -> Result<Self, Error> {
        let link = Link::new(url, options)?;
        let (client, found) = link.wait(async {
            let client = link.connect().await?;
            let found = schema::migrate(&client, &link).await?;
            if let Some(mark) = &found.mark {
                return Err(refusal(link.label(), Mark::decode(mark).as_ref()));
            }
            Ok::<_, Error>((client, found))
        })?;
        let shared = Shared {
            link,
            epoch: AtomicU64::new(found.epoch),
            place: Mutex::default(),
            high_water_ms: AtomicI64::new(found.high_water_ms),
            told_of_time: Mutex::default(),
            told_of_stuck: Mutex::default(),
            reader: reader::Pool::new(options.readers_max),
            follower: reader::Pool::new(1),
            readiness: reader::Pool::new(1),
            direct: AtomicBool::new(options.prepare),
            pooled: AtomicBool::new(!options.prepare),
            pooler_found: Arc::default(),
        };
        let shared = Arc::new(shared);
        history::begin(&shared, &client)?;
        // Before the first one ends: whoever is about to move the database must see that somebody is there.
        let session = Session::connect(&shared.link)?;
        Ok(Self { client: Some(session), ..Self::of(shared) })
    }

    fn of(shared: Arc<Shared>) -> Self {
        let (known, stuck, lone) = (HashSet::new(), BTreeMap::new(), HashSet::new());
        Self { shared, client: None, open: None, known, stuck, lone, raises: false }
    }

    /// One more writer over the same database, with a connection of its own: collections that it works on
    /// don't wait for those of this one.
    #[must_use]
    pub fn another(&self) -> Self {
        Self::of(self.shared.clone())
    }
}

impl Shared {
    fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Transactions may run in another process of the server each.
    fn found_pooler(&self) {
        self.direct.store(false, Ordering::Release);
        if !self.pooled.swap(true, Ordering::AcqRel) {
            self.pooler_found.notify_one();
        }
    }

    fn is_pooled(&self) -> bool {
        self.pooled.load(Ordering::Acquire)
    }

    fn reached(&self, at_ms: i64) {
        self.high_water_ms.fetch_max(at_ms, Ordering::AcqRel);
    }
}

impl Store for Postgres {
    type View<'a> = PostgresView<'a>;

    fn load(&mut self, wants: &[Want]) -> Result<PostgresView<'_>, Error> {
        self.begin(wants)?;
        PostgresView::new(self)
    }

    fn commit(&mut self, batch: Batch) -> Result<(), Error> {
        self.commit_batch(batch)
    }

    fn abandon(&mut self) -> Result<(), Error> {
        self.roll_back()
    }

    fn tidier(&self) -> Option<Tidier> {
        let (shared, mut client) = (self.shared.clone(), None);
        Some(Box::new(move || tidy::tidy(&shared, &mut client)))
    }

    fn wants_rows(&self) -> bool {
        true
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn high_water_ms(&self) -> i64 {
        self.shared.high_water_ms.load(Ordering::Acquire)
    }

    fn epoch(&self) -> u64 {
        self.shared.epoch()
    }

    fn reader(&self) -> Arc<dyn Reader> {
        Arc::new(PostgresReader::new(self.shared.clone(), false))
    }

    fn follower(&self) -> Arc<dyn Reader> {
        Arc::new(PostgresReader::new(self.shared.clone(), true))
    }

    fn close(&mut self) -> Result<(), Error> {
        // Whoever decided on it has been answered.
        let _ = self.roll_back();
        self.client = None;
        Ok(())
    }
}

/// Random bytes of the system's.
fn fill_random(bytes: &mut [u8]) -> Result<(), Error> {
    let filled = rustix::rand::getrandom(bytes, rustix::rand::GetRandomFlags::empty());
    let failed = |error: rustix::io::Errno| Error::Io {
        path: "the system's random numbers".into(),
        doing: "read",
        source: error.into(),
    };
    filled.map(drop).map_err(failed)
}
