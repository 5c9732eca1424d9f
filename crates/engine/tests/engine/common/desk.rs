//! A desk: the engine's loop, one turn at a time, by hand.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tenure_engine::{
    Answer, Answered, Feed, From, Pending, Planted, Report, Request, Subscription, Ticket, Turn,
};
use tenure_store::memory::Memory;
use tenure_store::{Error, Reader, Store};

use super::{Probe, item, key};
use crate::common::probe::ProbeStore;

pub(crate) const START_MS: i64 = 1_000_000;

/// A caller's slip: it can leave.
#[derive(Clone, Debug)]
pub(crate) struct Slip {
    number: u64,
    gone: Arc<AtomicBool>,
}

impl Slip {
    pub(crate) fn leave(&self) {
        self.gone.store(true, Ordering::SeqCst);
    }
}

impl Ticket for Slip {
    fn is_gone(&self) -> bool {
        self.gone.load(Ordering::SeqCst)
    }
}

pub(crate) struct Desk<S> {
    pub(crate) turn: Turn<S, Slip>,
    pub(crate) clock_ms: i64,
    pub(crate) feed: Feed,
    inbox: Vec<Pending<Slip>>,
    answers: BTreeMap<u64, Answer>,
    next: u64,
}

impl Desk<Memory> {
    pub(crate) fn new() -> Self {
        Self::open(Memory::default(), START_MS)
    }

    /// The process ends without a word; another starts at this clock.
    pub(crate) fn crash(mut self, clock_ms: i64) -> Self {
        Self::open(std::mem::take(self.turn.store_mut()), clock_ms)
    }
}

impl Desk<ProbeStore> {
    pub(crate) fn probed() -> (Self, Probe) {
        let probe = Probe::default();
        (Self::open(probe.store(), START_MS), probe)
    }

    /// The process ends without a word; another tries to start at this clock.
    pub(crate) fn crash(self, clock_ms: i64) -> Result<Self, Error> {
        let store = self.turn.store().clone();
        Self::try_open(store, clock_ms)
    }
}

impl<S: Store> Desk<S> {
    pub(crate) fn open(store: S, clock_ms: i64) -> Self {
        Self::try_open(store, clock_ms).expect("the store opens")
    }

    pub(crate) fn try_open(store: S, clock_ms: i64) -> Result<Self, Error> {
        let feed = Feed::default();
        let turn = Turn::open(store, clock_ms, feed.clone(), Planted::default())?;
        Ok(Self { turn, clock_ms, feed, inbox: Vec::new(), answers: BTreeMap::new(), next: 0 })
    }

    /// Hands a request in for the next turn.
    pub(crate) fn put(&mut self, request: impl Into<Request>) -> Slip {
        self.next += 1;
        let slip = Slip { number: self.next, gone: Arc::default() };
        self.inbox.push(Pending { request: request.into(), ticket: slip.clone() });
        slip
    }

    /// One turn, as the engine's thread runs it: an answer that finds nobody becomes an errand.
    pub(crate) fn try_run(&mut self) -> Result<Report, Error> {
        self.step(Turn::run)
    }

    /// Decides what was handed in, and commits nothing.
    pub(crate) fn decide(&mut self) {
        self.try_decide().expect("it decides");
    }

    pub(crate) fn try_decide(&mut self) -> Result<(), Error> {
        self.step(Turn::decide)
    }

    /// All that is left to do after a fatal error.
    pub(crate) fn dismiss(&mut self) {
        self.step(|turn, _, _, answers| turn.dismiss(answers));
    }

    /// Begins to commit what is decided.
    pub(crate) fn begin(&mut self) -> bool {
        self.step(|turn, _, _, answers| turn.begin(Some(Arc::new(|| ())), answers)).expect("it begins")
    }

    /// The end of what was begun.
    pub(crate) fn complete(&mut self) -> Result<Report, Error> {
        self.step(|turn, _, _, answers| turn.complete(answers))
    }

    fn step<R>(
        &mut self,
        step: impl FnOnce(&mut Turn<S, Slip>, i64, Vec<Pending<Slip>>, &mut Vec<Answered<Slip>>) -> R,
    ) -> R {
        let mut answers = Vec::new();
        let inbox = std::mem::take(&mut self.inbox);
        let done = step(&mut self.turn, self.clock_ms, inbox, &mut answers);
        for Answered { ticket, answer, if_gone, .. } in answers {
            if ticket.is_gone() {
                if let Some(command) = if_gone {
                    self.put(*command);
                }
            } else {
                let earlier = self.answers.insert(ticket.number, answer);
                assert!(earlier.is_none(), "a request is answered once");
            }
        }
        done
    }

    #[track_caller]
    pub(crate) fn run(&mut self) -> Report {
        self.try_run().expect("the turn runs")
    }

    /// Moves the clock and runs a turn.
    #[track_caller]
    pub(crate) fn tick(&mut self, by_ms: i64) -> Report {
        self.clock_ms += by_ms;
        self.run()
    }

    /// A request in a turn of its own.
    #[track_caller]
    pub(crate) fn ask(&mut self, request: impl Into<Request>) -> Answer {
        let slip = self.put(request);
        self.run();
        self.answer(&slip)
    }

    /// The answer that came.
    #[track_caller]
    pub(crate) fn answer(&mut self, slip: &Slip) -> Answer {
        self.answers.remove(&slip.number).expect("the request was answered")
    }

    /// No answer has come.
    pub(crate) fn waits(&self, slip: &Slip) -> bool {
        !self.answers.contains_key(&slip.number)
    }

    pub(crate) fn reader(&self) -> Arc<dyn Reader> {
        self.turn.store().reader()
    }

    pub(crate) fn waiting(&self, collection: &str, id: &str) -> usize {
        self.turn.waiting(&key(collection), &item(id))
    }

    #[track_caller]
    pub(crate) fn subscribe(&self, collection: &str, from: From) -> Subscription {
        self.feed.subscribe(&self.reader(), &key(collection), from).expect("the store can be read")
    }

    /// A graceful stop, and a start at this clock. Gives back who was told that it stops.
    pub(crate) fn restart(self, clock_ms: i64) -> (Self, Vec<(u64, Answer)>) {
        let mut answers = Vec::new();
        let store = self.turn.close(&mut answers).expect("the store closes");
        let told = answers.into_iter().map(|done| (done.ticket.number, done.answer)).collect();
        (Self::open(store, clock_ms), told)
    }
}
