//! One turn of the loop: due deadlines, then what waits, one commit, the answers. No threads, no clock:
//! a simulator drives it as the engine's thread does.

mod held_up;
mod opening;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tenure_core::{CollectionKey, Command, ItemId};
use tenure_store::{Batch, Done, Error, Store, View};

use crate::decided::{Decided, Flight};
use crate::feed::Feed;
use crate::limits::{AHEAD_MS, AHEAD_TOLD_MS, CONFLICTS_MAX, DUE_MAX, MARK_MS, RETRY_MS, TOLD_AGAIN_MS};
use crate::overlay::{Beneath, Changes, Overlay};
use crate::planted::{Bug, Planted};
use crate::round::Round;
use crate::timers::{Timer, Timers};
use crate::waiters::{Freed, Waiters};
use crate::wants::{wants, wants_of_time};
use crate::{Answer, Refused, Request, Ticket};
use held_up::HeldUp;

/// A request and where its answer goes.
#[derive(Debug)]
pub struct Pending<T> {
    /// What is asked.
    pub request: Request,
    /// Where the answer goes.
    pub ticket: T,
}

/// An answer on its way.
#[derive(Debug)]
pub struct Answered<T> {
    /// Where it goes.
    pub ticket: T,
    /// It.
    pub answer: Answer,
    /// What to do if the caller has left: a granted waiter that can't be told gives its claim back.
    /// Boxed, as what follows: both are rare, and answers are moved several times on their way.
    pub if_gone: Option<Box<Command>>,
    /// What was asked, where a commit may fail because another node came first.
    pub(crate) request: Option<Box<Request>>,
}

/// What a turn did, for the operator's figures.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Requests answered.
    pub answered: usize,
    /// Decisions committed.
    pub committed: usize,
    /// Claims that ran out.
    pub expired: usize,
    /// The same by kind.
    pub expired_of: BTreeMap<String, usize>,
    /// How late the latest of them was noticed.
    pub expiry_lag_ms: i64,
    /// How long the commit took.
    pub commit: Duration,
}

/// The loop's state between turns.
pub struct Turn<S, T> {
    store: S,
    timers: Timers,
    /// What is decided for the next commit, and the rows as that leaves them.
    decided: Decided<T>,
    changes: Changes,
    /// The commit that is under way, and the rows as it will leave them.
    flight: Option<Flight<T>>,
    /// Something was loaded, and decided upon, since the newest commit began.
    is_loaded: bool,
    beneath: Changes,
    /// Locked while a turn decides, never while it commits; others only count.
    waiters: Arc<Mutex<Waiters<T>>>,
    /// Requests that did not fit into the newest commit.
    late: VecDeque<Pending<T>>,
    feed: Feed,
    planted: Planted,
    /// Added to the clock, so that time goes on from the highest committed one.
    offset_ms: i64,
    /// The time of the newest turn: over a shared store its clock's, which may run back when another database
    /// takes over. Nothing is decided by it there; each collection has its own.
    now_ms: i64,
    /// The clock that drives it, at the newest turn.
    clock_ms: i64,
    /// How many claims are active, as last committed.
    active: i64,
    /// The store refused: what is overdue is not tried again before this, on the clock that drives it.
    retry_at_ms: Option<i64>,
    /// What loads have left out lately, and whether the newest did.
    held_up: HeldUp,
    is_held_up: bool,
    /// Commits in a row that another node came before.
    conflicts: u32,
    /// When it was last said why the store refused.
    told_at_ms: Option<i64>,
}

/// What a node hears of the others over a store that they share.
#[derive(Debug, Default)]
pub(crate) struct News {
    pub(crate) timers: Vec<Timer>,
    pub(crate) freed: Freed,
}

impl<S: Store, T: Ticket> Turn<S, T> {
    /// Takes over a store: finds the deadlines, and gives active claims the time back that passed
    /// while nobody could renew them.
    pub fn open(store: S, clock_ms: i64, feed: Feed, planted: Planted) -> Result<Self, Error> {
        let high_water_ms = store.high_water_ms();
        // A shared store has its own time, whatever the clock of this node says.
        let own_ms = if store.is_shared() { store.reader().pulse(&[], 0, 0)?.now_ms } else { None };
        let offset_ms = match own_ms {
            Some(own_ms) => own_ms - clock_ms,
            None if planted.is(Bug::TimeRunsBack) => 0,
            None => (high_water_ms - clock_ms).max(0),
        };
        if own_ms.is_none() && offset_ms >= AHEAD_TOLD_MS {
            let ahead_s = offset_ms / 1_000;
            tracing::error!(
                ahead_s,
                "the newest time in the data lies ahead of this machine's clock, and time goes on from there: was the \
                 clock wrong then, or is it now?"
            );
        }
        let now_ms = clock_ms + offset_ms;
        let timers = if store.is_shared() { Timers::told() } else { Timers::default() };
        let (changes, beneath, waiters) = (Changes::default(), Changes::default(), Arc::default());
        let (late, active, retry_at_ms) = (VecDeque::new(), 0, None);
        let mut turn = Self {
            store,
            timers,
            decided: Decided::default(),
            changes,
            flight: None,
            is_loaded: false,
            beneath,
            waiters,
            late,
            feed,
            planted,
            offset_ms,
            now_ms,
            clock_ms,
            active,
            retry_at_ms,
            held_up: HeldUp::default(),
            is_held_up: false,
            conflicts: 0,
            told_at_ms: None,
        };
        // Over a shared store deadlines are told of when they come near, whoever granted the claims.
        if !planted.is(Bug::ForgetTimers) && !turn.store.is_shared() {
            turn.find_timers()?;
        }
        let away_ms = now_ms - high_water_ms;
        let paused = high_water_ms > 0 && away_ms > 0 && !turn.store.is_shared();
        if paused && !planted.is(Bug::NoResume) {
            turn.expire_overdue(high_water_ms)?;
            turn.resume(high_water_ms, away_ms)?;
        }
        Ok(turn)
    }

    /// Runs one turn at the clock's time. Every request that came in, and every waiter whose turn it
    /// is, is answered in `answers`; after a fatal error with [`Refused::Stopped`].
    pub fn run(
        &mut self,
        clock_ms: i64,
        inbox: Vec<Pending<T>>,
        answers: &mut Vec<Answered<T>>,
    ) -> Result<Report, Error> {
        self.decide(clock_ms, inbox, answers)?;
        self.begin(None, answers)?;
        self.complete(answers)
    }

    /// Decides what came in, on the rows as what is decided already and what is under way will leave them. Only those
    /// are answered whose requests could not be read.
    pub fn decide(
        &mut self,
        clock_ms: i64,
        mut inbox: Vec<Pending<T>>,
        answers: &mut Vec<Answered<T>>,
    ) -> Result<(), Error> {
        let shared = self.store.is_shared();
        let mut wants = wants(self.late.iter().chain(&inbox), self.store.wants_rows());
        let before_ms = self.now_ms;
        self.clock_ms = clock_ms;
        if shared {
            let about_ms = clock_ms + self.offset_ms;
            self.timers.keep_until(about_ms + AHEAD_MS);
            self.held_up.put_off(about_ms, &mut self.timers);
            let due = self.timers.first_due(about_ms, DUE_MAX);
            let waiters = self.waiters.lock();
            wants.extend(wants_of_time(due.iter(), waiters.due_by(clock_ms)));
        }
        let retry_at_ms = self.retry_at_ms();
        let view = match self.store.load(&wants) {
            Ok(view) => view,
            Err(error) => {
                tell(&error, self.clock_ms, &mut self.told_at_ms);
                let refused = refused_by(&error);
                self.retry_at_ms = Some(retry_at_ms);
                answers
                    .extend(inbox.into_iter().map(|pending| refuse(pending.ticket, self.now_ms, &refused)));
                return if error.is_fatal() { Err(error) } else { Ok(()) };
            }
        };
        self.is_loaded = true;
        let own_ms = view.clock_ms();
        self.now_ms = match own_ms {
            // As it is: what it says of one collection must not leak into others.
            Some(own_ms) => own_ms,
            None => (clock_ms + self.offset_ms).max(self.now_ms),
        };
        let left_out = self.held_up.note(&wants, &view, self.now_ms, &mut self.timers);
        self.is_held_up = !left_out.is_empty();
        let decide_at_ms = if self.planted.is(Bug::StaleTime) { before_ms } else { self.now_ms };
        let patience_ms = if own_ms.is_some() { clock_ms } else { decide_at_ms };
        let mut waiters = self.waiters.lock();
        if self.is_held_up {
            self.retry_at_ms = Some(retry_at_ms);
            let late = std::mem::take(&mut self.late);
            let is_kept = |pending: &Pending<T>| !left_out.contains(&pending.request.command.collection);
            let (kept, refused): (Vec<_>, Vec<_>) = late.into_iter().chain(inbox).partition(is_kept);
            inbox = kept;
            let ended = waiters.take_ended(patience_ms, &left_out).into_iter().map(|waiter| waiter.pending);
            let refused = refused.into_iter().chain(ended);
            answers.extend(refused.map(|pending| refuse(pending.ticket, self.now_ms, &Refused::Away)));
        }
        let mut decided = std::mem::take(&mut self.decided);
        decided.first_joined.get_or_insert(waiters.next_number());
        let beneath = Beneath::new(&view, &self.beneath);
        let mut round = Round::new(
            Overlay::new(&beneath, &mut self.changes),
            decided,
            (decide_at_ms, patience_ms),
            &mut self.timers,
            &mut waiters,
            self.planted,
            shared,
        );
        let owed = round.freed.extract_if(.., |(collection, _)| left_out.contains(collection));
        let owed: Freed = owed.collect();
        round.decided.owed.extend(round.freed.iter().cloned());
        round.sweep_timers(usize::try_from(self.active).unwrap_or(0));
        round.expire_due();
        let mut inbox = VecDeque::from(inbox);
        if !self.late.is_empty() {
            self.late.extend(inbox);
            inbox = std::mem::take(&mut self.late);
        }
        round.decided.reserve(inbox.len());
        while !round.is_full()
            && let Some(pending) = inbox.pop_front()
        {
            if let Some(pending) = round.execute(pending) {
                inbox.push_front(pending);
            }
        }
        self.late = inbox;
        round.end_waits();
        let Round { decided, freed, .. } = round;
        self.decided = decided;
        waiters.owe(freed);
        waiters.owe(owed);
        Ok(())
    }

    /// Begins to commit what is decided. With `beside` the store may do so on a thread of its own, and tells when it is
    /// done; until [`Self::complete`] more can be decided. Answers whether the store has anything under way.
    pub fn begin(&mut self, beside: Option<Done>, answers: &mut Vec<Answered<T>>) -> Result<bool, Error> {
        debug_assert!(self.flight.is_none(), "one commit at a time");
        if !std::mem::take(&mut self.is_loaded) {
            return Ok(false);
        }
        if !self.is_held_up {
            self.retry_at_ms = None;
        }
        let mut decided = std::mem::take(&mut self.decided);
        decided.report.answered = decided.answers.len();
        decided.report.committed = decided.entries.len();
        let entries = std::mem::take(&mut decided.entries);
        let mark = self.marks() && self.now_ms >= self.store.high_water_ms() + MARK_MS;
        let (told, told_of) = if entries.is_empty() && !mark {
            // A refusal leaves nothing to commit, and is no truer than what it was decided on.
            if let Err(error) = self.store.abandon() {
                return self.fail(error, decided, answers).map(|()| false);
            }
            (None, Vec::new())
        } else {
            let told = self.feed.begin(&entries);
            let told_of = if self.store.is_shared() { Feed::shared_of(&entries) } else { Vec::new() };
            if self.planted.is(Bug::TellBeforeCommit) {
                Feed::tell(told.clone());
            }
            if self.planted.is(Bug::AnswerBeforeCommit) {
                answers.append(&mut decided.answers);
            }
            (Some(told), told_of)
        };
        let started = Instant::now();
        let mut ended = None;
        if told.is_some() {
            let batch = Batch { at_ms: self.now_ms, entries };
            let begun = match beside {
                Some(done) => self.store.begin(batch, noting(ended.insert(Arc::default()), done)),
                None => self.store.commit(batch),
            };
            if let Err(error) = begun {
                self.feed.end(Vec::new());
                return self.fail(error, decided, answers).map(|()| false);
            }
        }
        std::mem::swap(&mut self.changes, &mut self.beneath);
        if self.planted.is(Bug::BlindAhead) {
            self.beneath.clear();
        }
        let is_under_way = told.is_some();
        self.flight = Some(Flight { decided, told, told_of, started, ended });
        Ok(is_under_way)
    }

    /// Waits until what was begun is safe, and answers. If it fails, what was decided on top of it never happens either.
    pub fn complete(&mut self, answers: &mut Vec<Answered<T>>) -> Result<Report, Error> {
        let Some(flight) = self.flight.take() else { return Ok(Report::default()) };
        let Flight { mut decided, told, told_of, started, ended } = flight;
        let completed = if told.is_some() { self.store.complete() } else { Ok(()) };
        self.beneath.clear();
        if let Err(error) = completed {
            self.feed.end(Vec::new());
            if self.planted.is(Bug::KeepOnTop) {
                return self.fail(error, decided, answers).map(|()| Report::default());
            }
            let on_top = std::mem::take(&mut self.decided);
            self.is_loaded = false;
            decided.answers.extend(on_top.answers);
            decided.due.extend(on_top.due);
            decided.owed.extend(on_top.owed);
            return self.fail(error, decided, answers).map(|()| Report::default());
        }
        self.conflicts = 0;
        if let Some(told) = told {
            // More may have been decided since it was safe.
            let ended = ended.and_then(|ended| ended.get().copied()).unwrap_or_else(Instant::now);
            decided.report.commit = ended - started;
            self.active += decided.active;
            self.feed.end(told);
            self.feed.offer_all(told_of);
        }
        answers.append(&mut decided.answers);
        Ok(decided.report)
    }

    /// Something is decided that is not committed.
    pub fn is_ahead(&self) -> bool {
        self.is_loaded
    }

    /// How many answers wait for the next commit.
    pub fn ahead(&self) -> usize {
        self.decided.answers.len()
    }

    /// More can be decided for the next commit.
    pub fn has_room(&self) -> bool {
        self.decided.has_room() && self.late.is_empty()
    }

    /// When the next turn is due even if nobody asks for anything, on the clock that drives it.
    pub fn next_ms(&self) -> Option<i64> {
        let mark_ms = self.marks().then(|| self.store.high_water_ms() + MARK_MS);
        let waiters = self.waiters.lock();
        // At once: the store's clock may be ahead of what drives this.
        let at_once_ms = if self.store.is_shared() { 0 } else { self.now_ms };
        let late_ms = (!self.late.is_empty() || waiters.is_owed()).then_some(at_once_ms);
        let of_store = [self.timers.next_ms(), mark_ms, late_ms].into_iter().flatten();
        let of_store = of_store.min().map(|next_ms| next_ms - self.offset_ms);
        let patience_offset_ms = if self.store.is_shared() { 0 } else { self.offset_ms };
        let patience = waiters.next_ms().map(|until_ms| until_ms - patience_offset_ms);
        let next = of_store.into_iter().chain(patience).min();
        next.map(|next_ms| self.retry_at_ms.map_or(next_ms, |retry_at_ms| next_ms.max(retry_at_ms)))
    }

    /// When a store that refuses now is tried again.
    fn retry_at_ms(&self) -> i64 {
        // A shared one may have another time when it is back.
        let from_ms = if self.store.is_shared() { i64::MIN } else { self.now_ms - self.offset_ms };
        self.clock_ms.max(from_ms) + RETRY_MS
    }

    /// Requests wait that did not fit into the newest commit, and the next turn can take them.
    pub fn is_behind(&self) -> bool {
        !self.late.is_empty() && self.retry_at_ms.is_none()
    }

    /// The time of the newest turn.
    pub fn now_ms(&self) -> i64 {
        self.now_ms
    }

    /// What the clock lags behind the committed time.
    pub fn offset_ms(&self) -> i64 {
        self.offset_ms
    }

    /// How many callers wait for an item.
    pub fn waiting(&self, collection: &CollectionKey, item: &ItemId) -> usize {
        self.waiters.lock().count(collection, item)
    }

    /// Those who wait, for others to count.
    pub(crate) fn waiters(&self) -> Weak<Mutex<Waiters<T>>> {
        Arc::downgrade(&self.waiters)
    }

    /// The store, to read from or to look into.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// The store, for a simulator's own errands.
    pub fn store_mut(&mut self) -> &mut S {
        &mut self.store
    }

    /// Ends: everyone who waits is told, and the store is closed.
    pub fn close(mut self, answers: &mut Vec<Answered<T>>) -> Result<S, Error> {
        self.dismiss(answers);
        self.store.close()?;
        Ok(self.store)
    }

    /// Tells everyone who waits that it stops: all that is left to do after a fatal error.
    pub fn dismiss(&mut self, answers: &mut Vec<Answered<T>>) {
        let waiters = self.waiters.lock().drain_from(0);
        let late = self.late.drain(..).map(|pending| pending.ticket);
        // What becomes of a commit that nobody waits for any more is unknown.
        let flight = self.flight.take().map(|flight| flight.decided).unwrap_or_default();
        let decided = flight.answers.into_iter().chain(std::mem::take(&mut self.decided).answers);
        let waiters = waiters.into_iter().map(|waiter| waiter.pending.ticket);
        let stopped = waiters.chain(late).chain(decided.map(|done| done.ticket));
        answers.extend(stopped.map(|ticket| refuse(ticket, self.now_ms, &Refused::Stopped)));
    }

    /// Nothing of this happened, so no answer of it is true.
    fn fail(
        &mut self,
        error: Error,
        decided: Decided<T>,
        answers: &mut Vec<Answered<T>>,
    ) -> Result<(), Error> {
        self.changes.clear();
        tell(&error, self.clock_ms, &mut self.told_at_ms);
        self.retry_at_ms = Some(self.retry_at_ms());
        for timer in decided.due {
            self.timers.set(timer);
        }
        let refused = refused_by(&error);
        let mut waiters = self.waiters.lock();
        waiters.owe(decided.owed);
        // Whoever began to wait may wait for a claim that was never granted.
        let joined = decided.first_joined.map(|first| waiters.drain_from(first)).unwrap_or_default();
        drop(waiters);
        if matches!(error, Error::Conflict { .. }) && self.conflicts < CONFLICTS_MAX {
            self.conflicts += 1;
            self.retry_at_ms = None;
            self.ask_again(decided.answers, joined.into_iter().map(|waiter| waiter.pending));
            return Ok(());
        }
        let joined = joined.into_iter().map(|waiter| waiter.pending.ticket);
        let tickets = joined.chain(decided.answers.into_iter().map(|done| done.ticket));
        answers.extend(tickets.map(|ticket| refuse(ticket, self.now_ms, &refused)));
        if error.is_fatal() { Err(error) } else { Ok(()) }
    }

    /// Nothing of these happened, since another node came first: they are decided anew in the next turn,
    /// before all that came after them.
    fn ask_again(&mut self, answered: Vec<Answered<T>>, joined: impl Iterator<Item = Pending<T>>) {
        let again = answered.into_iter().filter_map(|done| {
            let Answered { ticket, request, .. } = done;
            request.map(|request| Pending { request: *request, ticket })
        });
        let mut again: VecDeque<Pending<T>> = again.chain(joined).collect();
        again.append(&mut self.late);
        self.late = again;
    }

    /// Time is committed for its own sake: while nobody else is there to keep it.
    fn marks(&self) -> bool {
        self.active > 0 && !self.store.is_shared()
    }

    /// Takes over what others did.
    pub(crate) fn hear(&mut self, news: News) {
        news.timers.into_iter().for_each(|timer| self.timers.set_anyway(timer));
        self.waiters.lock().owe(news.freed);
    }

    /// What the clock that drives it lags behind the store's.
    pub(crate) fn set_offset_ms(&mut self, offset_ms: i64) {
        self.offset_ms = offset_ms;
    }
}

/// Takes note of the moment before it tells.
fn noting(ended: &Arc<OnceLock<Instant>>, done: Done) -> Done {
    let ended = ended.clone();
    Arc::new(move || {
        ended.get_or_init(Instant::now);
        done();
    })
}

/// Says why callers are refused, now and then: they hear only that they are. What is fatal is said by whoever stops.
fn tell(error: &Error, clock_ms: i64, told_at_ms: &mut Option<i64>) {
    let is_known = told_at_ms.is_some_and(|at_ms| clock_ms < at_ms + TOLD_AGAIN_MS.cast_signed());
    if !error.is_fatal() && !matches!(error, Error::Conflict { .. }) && !is_known {
        *told_at_ms = Some(clock_ms);
        tracing::warn!(%error, "the store refuses");
    }
}

fn refuse<T>(ticket: T, now_ms: i64, refused: &Refused) -> Answered<T> {
    let answer = Answer { server_time_ms: now_ms, outcome: Err(refused.clone()), replayed: false };
    Answered { ticket, answer, if_gone: None, request: None }
}

fn refused_by(error: &Error) -> Refused {
    match error {
        Error::Full { .. } => Refused::NoRoom,
        // Others came first again and again: nothing of it happened.
        Error::Away { .. } | Error::Conflict { .. } => Refused::Away,
        _ => Refused::Stopped,
    }
}
