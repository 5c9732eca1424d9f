//! One turn of the loop: due deadlines, then what waits, one commit, the answers. No threads, no clock:
//! a simulator drives it as the engine's thread does.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tenure_core::{ClaimState, CollectionKey, Command, ItemId, Principal, Verb, decide};
use tenure_store::{Batch, ClaimFilter, Entry, Error, Store, View};

use crate::feed::Feed;
use crate::limits::{AHEAD_MS, CONFLICTS_MAX, DUE_MAX, MARK_MS, RESUME_MAX, RETRY_MS};
use crate::overlay::{Changes, Overlay};
use crate::planted::{Bug, Planted};
use crate::round::Round;
use crate::timers::{Timer, Timers};
use crate::waiters::{Freed, Waiters};
use crate::wants::{wants, wants_of_time};
use crate::{Answer, Refused, Request, Ticket};

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
    pub if_gone: Option<Command>,
    /// What was asked, where a commit may fail because another node came first.
    pub(crate) request: Option<Request>,
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
    changes: Changes,
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
    /// Commits in a row that another node came before.
    conflicts: u32,
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
        let now_ms = clock_ms + offset_ms;
        let timers = if store.is_shared() { Timers::told() } else { Timers::default() };
        let (changes, waiters) = (Changes::default(), Arc::default());
        let (late, active, retry_at_ms) = (VecDeque::new(), 0, None);
        let mut turn = Self {
            store,
            timers,
            changes,
            waiters,
            late,
            feed,
            planted,
            offset_ms,
            now_ms,
            clock_ms,
            active,
            retry_at_ms,
            conflicts: 0,
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
        let shared = self.store.is_shared();
        let mut wants = wants(self.late.iter().chain(&inbox), self.store.wants_rows());
        let before_ms = self.now_ms;
        self.clock_ms = clock_ms;
        if shared {
            let about_ms = clock_ms + self.offset_ms;
            self.timers.keep_until(about_ms + AHEAD_MS);
            let due = self.timers.first_due(about_ms, DUE_MAX);
            let waiters = self.waiters.lock();
            wants.extend(wants_of_time(due.iter(), waiters.due_by(clock_ms)));
        }
        let retry_at_ms = self.retry_at_ms();
        let view = match self.store.load(&wants) {
            Ok(view) => view,
            Err(error) => {
                let refused = refused_by(&error);
                self.retry_at_ms = Some(retry_at_ms);
                answers
                    .extend(inbox.into_iter().map(|pending| refuse(pending.ticket, self.now_ms, &refused)));
                return if error.is_fatal() { Err(error) } else { Ok(Report::default()) };
            }
        };
        let own_ms = view.clock_ms();
        self.now_ms = match own_ms {
            // As it is: what it says of one collection must not leak into others.
            Some(own_ms) => own_ms,
            None => (clock_ms + self.offset_ms).max(self.now_ms),
        };
        let decide_at_ms = if self.planted.is(Bug::StaleTime) { before_ms } else { self.now_ms };
        let patience_ms = if own_ms.is_some() { clock_ms } else { decide_at_ms };
        let mut waiters = self.waiters.lock();
        let first_joined = waiters.next_number();
        let overlay = Overlay::new(&view, &mut self.changes);
        let mut round = Round::new(
            overlay,
            (decide_at_ms, patience_ms),
            &mut self.timers,
            &mut waiters,
            self.planted,
            shared,
        );
        let owed = round.freed.clone();
        // While the rows are still the committed ones: what this turn ends may not have ended.
        round.sweep_timers(usize::try_from(self.active).unwrap_or(0));
        round.expire_due();
        let mut inbox = self.late.drain(..).chain(inbox).collect::<VecDeque<_>>();
        while !round.is_full()
            && let Some(pending) = inbox.pop_front()
        {
            if let Some(pending) = round.execute(pending) {
                inbox.push_front(pending);
            }
        }
        self.late = inbox;
        round.end_waits();
        let Round { entries, answers: answered, due, active, freed, mut report, .. } = round;
        waiters.owe(freed);
        drop(waiters);
        drop(view);
        report.answered = answered.len();
        report.committed = entries.len();
        self.finish(entries, answered, Outcome { due, first_joined, owed, active }, answers, report)
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
        let stopped = waiters.into_iter().map(|waiter| waiter.pending.ticket).chain(late);
        answers.extend(stopped.map(|ticket| refuse(ticket, self.now_ms, &Refused::Stopped)));
    }

    fn finish(
        &mut self,
        entries: Vec<Entry>,
        mut answered: Vec<Answered<T>>,
        outcome: Outcome,
        answers: &mut Vec<Answered<T>>,
        mut report: Report,
    ) -> Result<Report, Error> {
        self.retry_at_ms = None;
        let mark = self.marks() && self.now_ms >= self.store.high_water_ms() + MARK_MS;
        if entries.is_empty() && !mark {
            return match self.store.abandon() {
                Ok(()) => {
                    self.conflicts = 0;
                    answers.append(&mut answered);
                    Ok(report)
                }
                // A refusal leaves nothing to commit, and is no truer than what it was decided on.
                Err(error) => self.fail(error, answered, outcome, answers),
            };
        }
        let told = self.feed.begin(&entries);
        let told_of = if self.store.is_shared() { Feed::shared_of(&entries) } else { Vec::new() };
        if self.planted.is(Bug::TellBeforeCommit) {
            Feed::tell(told.clone());
        }
        if self.planted.is(Bug::AnswerBeforeCommit) {
            answers.append(&mut answered);
        }
        let started = Instant::now();
        match self.store.commit(Batch { at_ms: self.now_ms, entries }) {
            Ok(()) => {
                report.commit = started.elapsed();
                self.conflicts = 0;
                self.active += outcome.active;
                self.feed.end(told);
                self.feed.offer_all(told_of);
                answers.append(&mut answered);
                Ok(report)
            }
            Err(error) => {
                self.feed.end(Vec::new());
                self.fail(error, answered, outcome, answers)
            }
        }
    }

    /// Nothing of this turn happened, so no answer of it is true.
    fn fail(
        &mut self,
        error: Error,
        answered: Vec<Answered<T>>,
        outcome: Outcome,
        answers: &mut Vec<Answered<T>>,
    ) -> Result<Report, Error> {
        self.retry_at_ms = Some(self.retry_at_ms());
        for timer in outcome.due {
            self.timers.set(timer);
        }
        let refused = refused_by(&error);
        let mut waiters = self.waiters.lock();
        waiters.owe(outcome.owed);
        // Whoever began to wait may wait for a claim that was never granted.
        let joined = waiters.drain_from(outcome.first_joined);
        drop(waiters);
        if matches!(error, Error::Conflict { .. }) && self.conflicts < CONFLICTS_MAX {
            self.conflicts += 1;
            self.retry_at_ms = None;
            self.ask_again(answered, joined.into_iter().map(|waiter| waiter.pending));
            return Ok(Report::default());
        }
        answers.extend(joined.into_iter().map(|waiter| refuse(waiter.pending.ticket, self.now_ms, &refused)));
        answers.extend(answered.into_iter().map(|done| refuse(done.ticket, self.now_ms, &refused)));
        if error.is_fatal() { Err(error) } else { Ok(Report::default()) }
    }

    /// Nothing of these happened, since another node came first: they are decided anew in the next turn,
    /// before all that came after them.
    fn ask_again(&mut self, answered: Vec<Answered<T>>, joined: impl Iterator<Item = Pending<T>>) {
        let again = answered.into_iter().filter_map(|done| {
            let Answered { ticket, request, .. } = done;
            request.map(|request| Pending { request, ticket })
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

    fn find_timers(&mut self) -> Result<(), Error> {
        let reader = self.store.reader();
        let mut filter = ClaimFilter { state: Some(ClaimState::Active), ..ClaimFilter::default() };
        loop {
            let page = reader.claims(&filter, 100_000)?;
            for row in &page.rows {
                self.active += 1;
                self.timers.set(Timer {
                    at_ms: row.claim.expires_at_ms,
                    claim: row.claim.number,
                    collection: row.collection.clone(),
                });
            }
            match page.rows.last() {
                Some(last) if page.more => filter.after = Some((last.collection.clone(), last.claim.number)),
                _ => return Ok(()),
            }
        }
    }

    /// Ends what was over when the server went away, as of then, in commits of the usual size: nothing of
    /// that is left for the one commit that gives the others their time back.
    fn expire_overdue(&mut self, at_ms: i64) -> Result<(), Error> {
        while self.timers.next_ms().is_some_and(|next_ms| next_ms <= at_ms) {
            let view = self.store.load(&[])?;
            let mut waiters = self.waiters.lock();
            let overlay = Overlay::new(&view, &mut self.changes);
            let mut round =
                Round::new(overlay, (at_ms, at_ms), &mut self.timers, &mut waiters, self.planted, false);
            round.expire_due();
            let Round { entries, active, .. } = round;
            drop(waiters);
            drop(view);
            self.active += active;
            self.store.commit(Batch { at_ms, entries })?;
        }
        Ok(())
    }

    fn resume(&mut self, high_water_ms: i64, away_ms: i64) -> Result<(), Error> {
        let reader = self.store.reader();
        let mut after = None;
        loop {
            let page = reader.collections(after.as_ref(), RESUME_MAX)?;
            let verb = Verb::Resume { shift_ms: away_ms };
            let keys: Vec<CollectionKey> = page.rows.into_iter().map(|(key, _)| key).collect();
            // Only the last page moves the time. After a crash between two pages the next start gives
            // everyone their time back again: too much for some, too little for none.
            let at_ms = if page.more { high_water_ms } else { self.now_ms };
            self.commit_for_each(&keys, &verb, at_ms)?;
            match keys.into_iter().next_back() {
                Some(last) if page.more => after = Some(last),
                _ => return Ok(()),
            }
        }
    }

    /// The system's own command, decided in each of these collections and committed at once.
    fn commit_for_each(&mut self, keys: &[CollectionKey], verb: &Verb, at_ms: i64) -> Result<(), Error> {
        let mut entries = Vec::new();
        let view = self.store.load(&[])?;
        for key in keys {
            let command = Command { collection: key.clone(), actor: Principal::system(), verb: verb.clone() };
            if let Ok(decision) = decide(&view, &command, at_ms)
                && !decision.events.is_empty()
            {
                entries.push(Entry {
                    collection: key.clone(),
                    events: decision.events,
                    beats: decision.beats,
                    changed: decision.changed,
                    kept: None,
                });
            }
        }
        drop(view);
        if entries.is_empty() {
            return Ok(());
        }
        self.store.commit(Batch { at_ms, entries })
    }
}

/// What follows from a turn when its commit is through, or has failed.
struct Outcome {
    /// Timers that it took out: put back after a failure.
    due: Vec<Timer>,
    /// From this number on callers began to wait in it: refused after a failure.
    first_joined: u64,
    /// What was owed to those who wait when it began: owed again after a failure.
    owed: Freed,
    /// How many more claims are active after a success.
    active: i64,
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
