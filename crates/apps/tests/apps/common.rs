//! What the applications' tests share: an engine over a store (in memory, or the one that
//! `TENURE_TEST_STORE` names), with a clock that is moved by
//! hand, and a store that outlives its engine and can be made to stop anywhere.

use std::sync::Arc;

use parking_lot::Mutex;
use tenure_apps::demo::{People, load};
use tenure_apps::files::InMemory;
use tenure_apps::labels::Labels;
use tenure_apps::raffle::{Raffles, Seeds};
use tenure_apps::{Actor, Desk, Permission, Refusal, RequestKey};
use tenure_core::{CollectionKey, Event, Hash, Principal};
use tenure_engine::{Clock, Engine, ManualClock, Options};
use tenure_store::conformance::{AnyStore, AnyView};
use tenure_store::{Batch, Error, EventPage, Reader, Store, Want};

/// When every engine starts: 2026-01-02T03:04:05.678Z.
pub(crate) const START_MS: i64 = 1_767_323_045_678;

/// An engine, its clock and its store.
pub(crate) struct Office {
    pub(crate) engine: Engine,
    pub(crate) desk: Desk,
    pub(crate) clock: ManualClock,
    lent: Arc<Mutex<Lending>>,
}

impl Office {
    /// What every application has to show.
    pub(crate) async fn load_demo(&self, people: &People) {
        let labels = Labels::new(self.desk.clone(), Arc::new(InMemory::default()));
        load(&self.desk, &labels, &self.raffles(), people).await.expect("the demonstration loads");
    }

    /// The raffles of a server with a secret of its own.
    pub(crate) fn raffles(&self) -> Raffles {
        Raffles::new(self.desk.clone(), Seeds::new([5; 32]))
    }

    pub(crate) fn new() -> Self {
        let clock = ManualClock::at(START_MS);
        let time = clock.clone();
        Self::over(AnyStore::new(move || time.now_ms()), clock)
    }

    fn over(store: AnyStore, clock: ManualClock) -> Self {
        let lent = Arc::new(Mutex::new(Lending::default()));
        let store = Lent { store: Some(store), lending: lent.clone() };
        let engine = Engine::start(store, clock.clone(), Options::default()).expect("starts");
        Self { desk: Desk::new(engine.clone()), engine, clock, lent }
    }

    /// Time passes. Nobody sweeps until somebody asks.
    pub(crate) fn pass(&self, by_ms: i64) {
        while !self.engine.is_resting() {
            std::thread::yield_now();
        }
        self.clock.advance(by_ms);
    }

    /// The process dies at the commit after so many more. With `kept`, that one was durable, but nobody
    /// was told.
    pub(crate) fn crash_after(&self, commits: usize, kept: bool) {
        self.lent.lock().crash = Some((commits, kept));
    }

    /// How many commits there were.
    pub(crate) fn commits(&self) -> usize {
        self.lent.lock().commits
    }

    /// A new process on what was kept.
    pub(crate) fn restart(self) -> Self {
        let Self { engine, desk, clock, lent } = self;
        // It may have died already; that is the point.
        let _ = engine.stop();
        drop((engine, desk));
        let store = lent.lock().home.take().expect("the store came back");
        Self::over(store, clock)
    }

    /// Everything that happened in a collection.
    pub(crate) fn events(&self, collection: &str) -> Vec<Event> {
        let key = CollectionKey::new(collection).expect("a test's key");
        match self.engine.reader().events(&key, 0, usize::MAX).expect("reads") {
            EventPage::Events(events) => events.iter().map(|sealed| sealed.event.clone()).collect(),
            EventPage::Resync { .. } => panic!("events from 1 are retained"),
        }
    }

    /// What happened, as the audit log names it.
    pub(crate) fn actions(&self, collection: &str) -> Vec<&'static str> {
        self.events(collection).iter().map(|event| event.fact.action()).collect()
    }
}

/// A person who may do what an editor may; `root` is an administrator and `vera` only looks.
pub(crate) fn person(id: &str) -> Actor {
    let name = id[..1].to_uppercase() + &id[1..];
    let principal = Principal::new(id, name).expect("a test's person");
    let editor = [
        Permission::InventoryManage,
        Permission::LabelsManage,
        Permission::JobsQueue,
        Permission::JobsRun,
        Permission::RaffleBuy,
    ];
    match id {
        "vera" => Actor::new(principal, []),
        "root" => Actor::new(
            principal,
            [&editor[..], &[Permission::Override, Permission::RaffleManage, Permission::PaymentsManage]]
                .concat(),
        ),
        _ => Actor::new(principal, editor),
    }
}

/// The same person, asking with an idempotency key.
pub(crate) fn keyed(actor: &Actor, key: &str) -> Actor {
    Actor { key: Some(RequestKey::new(key, Hash([7; 32]))), ..actor.clone() }
}

/// `ok`, or the refusal's code.
pub(crate) fn code<T>(outcome: &Result<T, Refusal>) -> &'static str {
    outcome.as_ref().map_or_else(Refusal::code, |_| "ok")
}

#[derive(Default)]
struct Lending {
    home: Option<AnyStore>,
    commits: usize,
    crash: Option<(usize, bool)>,
}

/// A store that goes home when its engine ends, however it ends.
struct Lent {
    store: Option<AnyStore>,
    lending: Arc<Mutex<Lending>>,
}

impl Lent {
    fn store(&self) -> &AnyStore {
        self.store.as_ref().expect("in use")
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.lending.lock().home = self.store.take();
    }
}

impl Store for Lent {
    type View<'a> = AnyView<'a>;

    fn load(&mut self, wants: &[Want]) -> Result<AnyView<'_>, Error> {
        self.store.as_mut().expect("in use").load(wants)
    }

    fn commit(&mut self, batch: Batch) -> Result<(), Error> {
        let failed =
            || Error::SyncFailed { path: "test".into(), source: std::io::Error::other("the power went") };
        let store = self.store.as_mut().expect("in use");
        let mut lending = self.lending.lock();
        match &mut lending.crash {
            Some((0, true)) => {
                store.commit(batch)?;
                return Err(failed());
            }
            Some((0, false)) => return Err(failed()),
            Some((left, _)) => *left -= 1,
            None => {}
        }
        lending.commits += 1;
        store.commit(batch)
    }

    fn abandon(&mut self) -> Result<(), Error> {
        self.store.as_mut().expect("in use").abandon()
    }

    fn wants_rows(&self) -> bool {
        self.store().wants_rows()
    }

    fn is_shared(&self) -> bool {
        self.store().is_shared()
    }

    fn high_water_ms(&self) -> i64 {
        self.store().high_water_ms()
    }

    fn epoch(&self) -> u64 {
        self.store().epoch()
    }

    fn reader(&self) -> Arc<dyn Reader> {
        self.store().reader()
    }

    fn close(&mut self) -> Result<(), Error> {
        self.store.as_mut().expect("in use").close()
    }
}
