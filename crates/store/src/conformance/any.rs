//! The store that a run of tests is told to use, so that the same tests speak for each of them.

use std::sync::Arc;

use tenure_core::{Claim, Collection, CollectionKey, Item, ItemId, Policy, Rows};

use super::Server;
use crate::embedded::{Embedded, EmbeddedView};
use crate::memory::{Memory, MemoryView};
use crate::postgres::{Options, Postgres, PostgresView, TestClock};
use crate::{Batch, Error, Kept, Reader, ReplyKey, Store, View, Want};

/// The variable that names it: `memory`, or `postgres` for a new database of [`Server::shared`].
pub const TEST_STORE: &str = "TENURE_TEST_STORE";

/// The tests run over PostgreSQL.
pub fn is_over_postgres() -> bool {
    std::env::var(TEST_STORE).is_ok_and(|store| store == "postgres")
}

/// The variable that asks for as often as takes minutes: `cargo xtask soak` sets it.
const SOAK: &str = "TENURE_SOAK";

/// How often: so many times in the test command, so many in a soak.
pub fn times(in_tests: u64, in_a_soak: u64) -> u64 {
    if std::env::var_os(SOAK).is_some() { in_a_soak } else { in_tests }
}

/// One of the stores.
#[derive(Debug)]
pub enum AnyStore {
    /// In memory.
    Memory(Memory),
    /// In a database of its own.
    Postgres(Box<Postgres>),
    /// In a folder.
    Embedded(Box<Embedded>),
}

impl AnyStore {
    /// An empty one, which goes by the test's time.
    pub fn new(now_ms: impl Fn() -> i64 + Send + Sync + 'static) -> Self {
        Self::at(Self::place().as_deref(), now_ms)
    }

    /// Where the stores of several nodes meet: a new database. What is in memory meets nobody.
    pub fn place() -> Option<String> {
        match std::env::var(TEST_STORE).as_deref() {
            Ok("postgres") => Some(Server::shared().database()),
            Ok("memory") | Err(_) => None,
            Ok(other) => panic!("{TEST_STORE}={other}: memory or postgres"),
        }
    }

    /// One more store in that place; without a place an empty one.
    pub fn at(place: Option<&str>, now_ms: impl Fn() -> i64 + Send + Sync + 'static) -> Self {
        let Some(url) = place else { return Self::Memory(Memory::default()) };
        let clock = Some(TestClock(Arc::new(now_ms)));
        let options = Options { clock, stats_ms: 0, ..Options::default() };
        Self::Postgres(Box::new(Postgres::open(url, &options).expect("opens")))
    }
}

/// Its rows.
#[derive(Debug)]
#[expect(missing_docs, reason = "named as the stores are")]
pub enum AnyView<'a> {
    Memory(MemoryView<'a>),
    Postgres(PostgresView<'a>),
    Embedded(EmbeddedView<'a>),
}

macro_rules! each {
    ($value:expr, $type:ident, $it:ident => $call:expr) => {
        match $value {
            $type::Memory($it) => $call,
            $type::Postgres($it) => $call,
            $type::Embedded($it) => $call,
        }
    };
}

impl Store for AnyStore {
    type View<'a> = AnyView<'a>;

    fn load(&mut self, wants: &[Want]) -> Result<AnyView<'_>, Error> {
        match self {
            Self::Memory(store) => store.load(wants).map(AnyView::Memory),
            Self::Postgres(store) => store.load(wants).map(AnyView::Postgres),
            Self::Embedded(store) => store.load(wants).map(AnyView::Embedded),
        }
    }

    fn commit(&mut self, batch: Batch) -> Result<(), Error> {
        each!(self, Self, store => store.commit(batch))
    }

    fn abandon(&mut self) -> Result<(), Error> {
        each!(self, Self, store => store.abandon())
    }

    fn wants_rows(&self) -> bool {
        each!(self, Self, store => store.wants_rows())
    }

    fn is_shared(&self) -> bool {
        each!(self, Self, store => store.is_shared())
    }

    fn high_water_ms(&self) -> i64 {
        each!(self, Self, store => store.high_water_ms())
    }

    fn epoch(&self) -> u64 {
        each!(self, Self, store => store.epoch())
    }

    fn follower(&self) -> Arc<dyn Reader> {
        each!(self, Self, store => store.follower())
    }

    fn reader(&self) -> Arc<dyn Reader> {
        each!(self, Self, store => store.reader())
    }

    fn close(&mut self) -> Result<(), Error> {
        each!(self, Self, store => store.close())
    }
}

impl Rows for AnyView<'_> {
    fn epoch(&self) -> u64 {
        each!(self, Self, view => view.epoch())
    }

    fn policy(&self, kind: &str) -> Option<Arc<Policy>> {
        each!(self, Self, view => view.policy(kind))
    }

    fn collection(&self, key: &CollectionKey) -> Option<Arc<Collection>> {
        each!(self, Self, view => view.collection(key))
    }

    fn item(&self, key: &CollectionKey, id: &ItemId) -> Option<Arc<Item>> {
        each!(self, Self, view => view.item(key, id))
    }

    fn claim(&self, key: &CollectionKey, number: u64) -> Option<Arc<Claim>> {
        each!(self, Self, view => view.claim(key, number))
    }

    fn barring(&self, key: &CollectionKey, number: u64) -> Option<Arc<Claim>> {
        each!(self, Self, view => view.barring(key, number))
    }

    fn claims_of(&self, key: &CollectionKey, holder_id: &str) -> Vec<Arc<Claim>> {
        each!(self, Self, view => view.claims_of(key, holder_id))
    }

    fn active_claims(&self, key: &CollectionKey) -> Vec<u64> {
        each!(self, Self, view => view.active_claims(key))
    }
}

impl View for AnyView<'_> {
    fn clock_ms(&self) -> Option<i64> {
        each!(self, Self, view => view.clock_ms())
    }

    fn now_ms(&self, collection: &CollectionKey) -> Option<i64> {
        each!(self, Self, view => view.now_ms(collection))
    }

    fn covers(&self, collection: &CollectionKey) -> bool {
        each!(self, Self, view => view.covers(collection))
    }

    fn kept(&self, key: &ReplyKey) -> Option<Arc<Kept>> {
        each!(self, Self, view => view.kept(key))
    }
}
