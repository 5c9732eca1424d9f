//! The decisions of one turn, made in order on the turn's own rows, before any of them is committed.

use std::collections::BTreeSet;
use std::sync::Arc;

use tenure_core::command::{Acquire, How};
use tenure_core::refusal::{Unavailable, Why};
use tenure_core::{
    Changed, Claim, ClaimState, CollectionKey, Command, Fact, ItemId, Principal, Refusal, Reply, Rows, Text,
    Verb, decide,
};
use tenure_store::{Entry, Kept, ReplyKey, View, encoded_bytes};

use crate::decided::Decided;
use crate::limits::{COMMAND_BYTES_MAX, DUE_MAX, EXPIRIES_MAX};
use crate::overlay::{Beneath, Overlay};
use crate::planted::{Bug, Planted};
use crate::timers::{Timer, Timers};
use crate::waiters::{Freed, Line, Waiter, Waiters};
use crate::{Answer, Answered, Idempotency, Pending, Refused, Request, Ticket};

/// What a turn has decided so far.
pub(crate) struct Round<'a, V, T> {
    overlay: Overlay<'a, Beneath<'a, V>>,
    /// The turn's time. A collection may have its own: see [`Self::now_in`].
    now_ms: i64,
    /// The time by which patience is measured: over a shared store this node's own clock, since the store's
    /// may jump when another database takes over.
    patience_ms: i64,
    timers: &'a mut Timers,
    waiters: &'a mut Waiters<T>,
    planted: Planted,
    /// Others work on the same data: rows are locked, deadlines are told of, a commit may have to be
    /// decided anew.
    shared: bool,
    pub(crate) decided: Decided<T>,
    /// Items that became free and may be waited for. Only a full commit leaves some here.
    pub(crate) freed: Freed,
}

impl<'a, V: View, T: Ticket> Round<'a, V, T> {
    /// Goes on with what has been decided for the same commit.
    pub(crate) fn new(
        overlay: Overlay<'a, Beneath<'a, V>>,
        decided: Decided<T>,
        (now_ms, patience_ms): (i64, i64),
        timers: &'a mut Timers,
        waiters: &'a mut Waiters<T>,
        planted: Planted,
        shared: bool,
    ) -> Self {
        let freed = waiters.begin_turn();
        Self { overlay, now_ms, patience_ms, timers, waiters, planted, shared, decided, freed }
    }

    /// The time by which everything in a collection is decided.
    fn now_in(&self, collection: &CollectionKey) -> i64 {
        self.overlay.now_ms(collection).unwrap_or(self.now_ms)
    }

    /// What is decided fills a commit; the rest must wait for the next.
    pub(crate) fn is_full(&self) -> bool {
        self.decided.is_full()
    }

    /// Claims whose time is up end before anything else is decided, so nobody overtakes a waiter.
    pub(crate) fn expire_due(&mut self) {
        let mut elsewhere = Vec::new();
        // Over a shared store as many as were named: each beyond them would be read on its own.
        for _ in 0..if self.shared { DUE_MAX } else { EXPIRIES_MAX } {
            if self.is_full() {
                break;
            }
            let Some(timer) = self.timers.pop_due(self.now_ms) else { break };
            // Its time came while the rows were being loaded: the next turn will name it.
            if !self.overlay.covers(&timer.collection) {
                elsewhere.push(timer);
                continue;
            }
            let now_ms = self.now_in(&timer.collection);
            let Some(claim) = self.overlay.barring(&timer.collection, timer.claim) else { continue };
            if claim.state == ClaimState::Active {
                if claim.expires_at_ms <= now_ms {
                    self.expire(&timer.collection, timer.claim);
                }
                self.set_again(&timer);
            } else if claim.blocked_until_ms > 0 && claim.blocked_until_ms <= now_ms {
                // Its lock delay is over.
                let items = claim.items.iter().cloned().collect();
                self.freed.push((timer.collection.clone(), items));
            }
            self.decided.due.push(timer);
        }
        for timer in elsewhere {
            self.timers.set_anyway(timer);
        }
        // Once all of them have ended: else one who waits for several items could take, with the first
        // that is free, another that somebody has waited for longer.
        self.serve_waiters();
    }

    /// Forgets some of the timers that no active claim or running lock delay needs: as is committed, as it will be if what is
    /// under way succeeds, and as it will be if this does, too.
    pub(crate) fn sweep_timers(&mut self, active: usize) {
        // Who shares its store keeps only near ones, and each look would be a read.
        if self.shared {
            return;
        }
        let (overlay, now_ms) = (&self.overlay, self.now_ms);
        let needed = |claim: &Claim| claim.state == ClaimState::Active || claim.blocked_until_ms > now_ms;
        // One that is due is looked at by the turn: it may be all that tells those who wait of a lock delay's end.
        self.timers.sweep(active, |Timer { at_ms, collection, claim }| {
            *at_ms <= now_ms || overlay.any_of(collection, *claim, needed)
        });
    }

    /// A claim that goes on, renewed or in its next phase, needs its timer again.
    fn set_again(&mut self, timer: &Timer) {
        let claim = self.overlay.claim(&timer.collection, timer.claim);
        if let Some(claim) = claim.filter(|claim| claim.holds_at(self.now_in(&timer.collection))) {
            self.timers.set(Timer { at_ms: claim.expires_at_ms, ..timer.clone() });
        }
    }

    /// Carries a request out. Gives it back where the commit has no room for those who come before it.
    pub(crate) fn execute(&mut self, pending: Pending<T>) -> Option<Pending<T>> {
        let key = match reply_key(&pending.request) {
            Ok(key) => key,
            Err(refusal) => {
                self.answer(pending, Err(Refused::Rule(refusal)));
                return None;
            }
        };
        if let Some(key) = &key {
            if let Some(answer) = self.replay(&pending.request, key) {
                self.push_answer(pending, answer, None);
                return None;
            }
            if self.waiters.is_running(key) {
                self.answer(pending, Err(Refused::InProgress));
                return None;
            }
        }
        let command = &pending.request.command;
        if wait_ms(command) > 0 && pending.ticket.is_gone() && !self.planted.is(Bug::GrantToGone) {
            // Whoever was ready to wait and has left already is not granted anything either.
            self.answer(pending, Err(Refused::Stopped));
            return None;
        }
        self.settle_before(&command.collection, &command.verb);
        if !self.freed.is_empty() {
            return Some(pending);
        }
        match self.decide(command) {
            Err(Refusal::Held { items }) if wait_ms(command) > 0 => {
                self.wait(pending, key, Refusal::Held { items });
            }
            outcome => self.conclude(pending, key, outcome, false),
        }
        self.serve_waiters();
        None
    }

    /// What was answered before under this key.
    fn replay(&self, request: &Request, key: &ReplyKey) -> Option<Answer> {
        let idempotency = request.idempotency.as_ref()?;
        let kept = self.overlay.kept(key).filter(|kept| kept.is_kept_at(self.now_in(&key.collection)))?;
        if kept.fingerprint != idempotency.fingerprint {
            return Some(self.answer_of(&key.collection, Err(Refused::KeyReused)));
        }
        // The first answer, with its time: a retry reads the very same.
        let outcome = kept.outcome.clone().map_err(Refused::Rule);
        Some(Answer { server_time_ms: kept.at_ms, outcome, replayed: true })
    }

    /// Another node may have answered a retry while this one waited.
    fn replay_waiter(&mut self, number: u64) -> bool {
        if !self.shared {
            return false;
        }
        let waiter = self.waiters.get(number);
        let answer = waiter.and_then(|waiter| self.replay(&waiter.pending.request, waiter.key.as_ref()?));
        let Some((answer, waiter)) = answer.and_then(|answer| Some((answer, self.waiters.remove(number)?)))
        else {
            return false;
        };
        self.push_answer(waiter.pending, answer, None);
        true
    }

    /// Callers whose patience has ended get the answer of one last try.
    pub(crate) fn end_waits(&mut self) {
        while !self.is_full()
            && let Some(number) = self.waiters.first_ended(self.patience_ms)
        {
            let waiter = self.waiters.get(number);
            if waiter.is_some_and(|waiter| !self.overlay.covers(&waiter.pending.request.command.collection)) {
                break;
            }
            // It still stands in the queue while an overdue claim on its items ends: it comes before
            // those behind it, and not before those ahead.
            if let Some(waiter) = self.waiters.get(number) {
                let command = waiter.pending.request.command.clone();
                self.settle_before(&command.collection, &command.verb);
            }
            if !self.freed.is_empty() {
                break;
            }
            if self.replay_waiter(number) {
                continue;
            }
            let Some(waiter) = self.waiters.remove(number) else { continue };
            if waiter.pending.ticket.is_gone() && !self.planted.is(Bug::GrantToGone) {
                continue;
            }
            let outcome = self.decide(&waiter.pending.request.command);
            self.conclude(waiter.pending, waiter.key, outcome, true);
            self.serve_waiters();
        }
    }

    /// Someone may wait for what this takes: a claim on it that is over ends now, so that the one who
    /// waits is served before the one who comes, even where the timers are behind.
    fn settle_before(&mut self, collection: &CollectionKey, verb: &Verb) {
        if self.waiters.len() == 0 {
            return;
        }
        match verb {
            Verb::Acquire(acquire) => {
                acquire.items.iter().for_each(|item| self.settle_item(collection, item));
            }
            Verb::AddItem { item, .. } => self.settle_item(collection, item),
            Verb::Group(verbs) => verbs.iter().for_each(|verb| self.settle_before(collection, verb)),
            _ => {}
        }
    }

    fn settle_item(&mut self, collection: &CollectionKey, id: &ItemId) {
        let now_ms = self.now_in(collection);
        let Some(item) = self.overlay.item(collection, id) else { return };
        let Some(claim) = self.overlay.barring(collection, item.claim) else { return };
        if claim.state == ClaimState::Active {
            if claim.expires_at_ms > now_ms {
                return;
            }
            self.expire(collection, claim.number);
        } else if claim.blocked_until_ms > 0 && claim.blocked_until_ms <= now_ms {
            // Its lock delay is over.
            self.freed.push((collection.clone(), BTreeSet::from([id.clone()])));
        }
        self.serve_waiters();
    }

    fn expire(&mut self, collection: &CollectionKey, claim: u64) {
        let command = Command {
            collection: collection.clone(),
            actor: Principal::system(),
            verb: Verb::Expire { claim },
        };
        // An expiry is refused only where its kind is gone; then nothing can hold there either.
        let _ = self.decide(&command);
    }

    /// Decides on the rows as this turn has left them, and notes what follows.
    fn decide(&mut self, command: &Command) -> Result<Reply, Refusal> {
        let decision = decide(&self.overlay, command, self.now_in(&command.collection))?;
        let bytes: usize = decision.events.iter().map(|sealed| sealed.bytes.len()).sum();
        // A single reply is small; a group's may be as large as all that its commands touch.
        let reply = if let Reply::Group(_) = &decision.reply { encoded_bytes(&decision.reply) } else { 0 };
        if bytes.max(reply) > COMMAND_BYTES_MAX {
            return Err(Refusal::Limit { limit: Text::from("bytes"), max: COMMAND_BYTES_MAX as u64 });
        }
        self.decided.bytes += bytes;
        if decision.events.is_empty() && decision.beats.is_empty() {
            return Ok(decision.reply);
        }
        for sealed in &decision.events {
            self.follow(&command.collection, sealed.event.seq, &sealed.event.fact);
        }
        if !self.planted.is(Bug::StaleRows) {
            self.overlay.take(&command.collection, &decision.changed);
        }
        self.decided.entries.push(Entry {
            collection: command.collection.clone(),
            events: decision.events,
            beats: decision.beats,
            changed: decision.changed,
            kept: None,
        });
        Ok(decision.reply)
    }

    /// Sets the timers that an event calls for, and notes what it freed. The rows are still those from
    /// before the decision.
    fn follow(&mut self, collection: &CollectionKey, seq: u64, fact: &Fact) {
        let timer = |claim, at_ms| Timer { at_ms, claim, collection: collection.clone() };
        let now_ms = self.now_in(collection);
        match fact {
            Fact::Granted(grant) => {
                self.decided.active += 1;
                self.timers.set(timer(seq, grant.expires_at_ms));
            }
            Fact::Renewed { claim, expires_at_ms, .. } | Fact::Advanced { claim, expires_at_ms, .. } => {
                // A deadline that moved later has its timer: the one that comes too early.
                let before = self.overlay.claim(collection, *claim);
                if before.is_none_or(|before| *expires_at_ms < before.expires_at_ms) {
                    self.timers.set(timer(*claim, *expires_at_ms));
                }
            }
            Fact::Ended(end) => {
                self.decided.active -= 1;
                if end.reason.state() == ClaimState::Expired {
                    self.decided.report.expired += 1;
                    match self.decided.report.expired_of.get_mut(collection.kind()) {
                        Some(count) => *count += 1,
                        None => drop(self.decided.report.expired_of.insert(collection.kind().to_owned(), 1)),
                    }
                    let lag_ms = now_ms - end.ended_at_ms;
                    self.decided.report.expiry_lag_ms = self.decided.report.expiry_lag_ms.max(lag_ms);
                }
                if end.blocked_until_ms > now_ms {
                    if !self.shared || self.waiters.len() > 0 {
                        self.timers.set_anyway(timer(end.claim, end.blocked_until_ms));
                    }
                } else if self.waiters.len() > 0 {
                    self.freed.push((collection.clone(), end.items.iter().cloned().collect()));
                }
            }
            Fact::ItemRemoved { item, .. } => {
                self.freed.push((collection.clone(), BTreeSet::from([item.clone()])));
            }
            // With the item its lock delay is gone; whoever waits may make it anew, or hears of it.
            Fact::ItemDeleted { before, .. } => {
                self.freed.push((collection.clone(), BTreeSet::from([before.id.clone()])));
            }
            _ => {}
        }
    }

    /// Offers what became free to those who wait, in the order in which they came. What a full commit has
    /// no room for stays, to be offered in the next.
    fn serve_waiters(&mut self) {
        while let Some((collection, mut items)) = self.freed.pop() {
            self.freed.retain_mut(|(other, more)| {
                let same = *other == collection;
                if same {
                    items.extend(std::mem::take(more));
                }
                !same
            });
            let mut line = self.waiters.line(&collection, &items);
            while let Some(number) = self.next_waiter(&collection, &mut line, &items) {
                if self.is_full() {
                    self.freed.push((collection, items));
                    return;
                }
                if self.replay_waiter(number) {
                    continue;
                }
                let Some(waiter) = self.waiters.get(number) else { break };
                let command = waiter.pending.request.command.clone();
                match self.decide(&command) {
                    // A delay may have begun where nobody here saw it.
                    Err(Refusal::Held { items }) if self.shared => self.time_delays(&collection, &items),
                    Err(Refusal::Held { .. }) => {}
                    outcome => {
                        let Some(waiter) = self.waiters.remove(number) else { break };
                        // What it was given may be another claim of its session: the items are then
                        // still free for the next.
                        if let Ok(Reply::Acquired { claim, .. }) = &outcome {
                            claim.items.iter().for_each(|item| drop(items.take(item)));
                        }
                        self.conclude(waiter.pending, waiter.key, outcome, true);
                    }
                }
            }
        }
    }

    fn next_waiter(
        &mut self,
        collection: &CollectionKey,
        line: &mut Line,
        items: &BTreeSet<ItemId>,
    ) -> Option<u64> {
        if self.planted.is(Bug::LastComeFirstServed) && !std::mem::take(line).is_empty() {
            return self.waiters.last_for(collection, items);
        }
        let even_gone = self.planted.is(Bug::GrantToGone);
        self.waiters.next_in(collection, line, items, even_gone)
    }

    fn wait(&mut self, pending: Pending<T>, key: Option<ReplyKey>, refusal: Refusal) {
        let command = &pending.request.command;
        let Verb::Acquire(Acquire { items, .. }) = &command.verb else {
            return self.conclude(pending, key, Err(refusal), false);
        };
        let until_ms = self.patience_ms + wait_ms(command);
        // A running claim has its timer; a lock delay from before a restart does not.
        if let Refusal::Held { items } = &refusal {
            self.time_delays(&command.collection.clone(), items);
        }
        let waiter = Waiter { items: items.clone(), until_ms, key, pending };
        if let Some(waiter) = self.waiters.push(waiter) {
            self.answer(waiter.pending, Err(Refused::Overloaded));
        }
    }

    fn time_delays(&mut self, collection: &CollectionKey, items: &[Unavailable]) {
        for Unavailable { item, why } in items {
            if let Why::Delayed { until_ms, .. } = why
                && let Some(item) = self.overlay.item(collection, item)
            {
                let (claim, collection) = (item.claim, collection.clone());
                self.timers.set_anyway(Timer { at_ms: *until_ms, claim, collection });
            }
        }
    }

    /// The request has its outcome: keep it if it is to be kept, and answer.
    fn conclude(
        &mut self,
        pending: Pending<T>,
        key: Option<ReplyKey>,
        outcome: Result<Reply, Refusal>,
        waited: bool,
    ) {
        let keyed = key.is_some();
        let request = &pending.request;
        if let (Some(key), Some(idempotency)) = (key, &request.idempotency) {
            self.keep(&request.command.collection, key, idempotency, &outcome);
        }
        let if_gone = match &outcome {
            Ok(Reply::Acquired { claim, how: How::New }) if waited && !keyed => {
                let verb = Verb::Release { claim: claim.number };
                Some(Box::new(Command { verb, ..request.command.clone() }))
            }
            _ => None,
        };
        let answer = self.answer_of(&request.command.collection, outcome.map_err(Refused::Rule));
        self.push_answer(pending, answer, if_gone);
    }

    fn keep(
        &mut self,
        collection: &CollectionKey,
        key: ReplyKey,
        idempotency: &Idempotency,
        outcome: &Result<Reply, Refusal>,
    ) {
        // A malformed request, alone or in a group, has no outcome worth keeping: the client must
        // change it anyway.
        let malformed = outcome.as_ref().is_err_and(|refusal| refusal.code() == "invalid");
        if malformed || self.planted.is(Bug::ForgetReply) {
            return;
        }
        let kept = Arc::new(Kept {
            fingerprint: idempotency.fingerprint,
            at_ms: self.now_in(collection),
            outcome: outcome.clone(),
        });
        self.decided.bytes += encoded_bytes(&*kept);
        self.overlay.keep(key.clone(), kept.clone());
        let own = self
            .decided
            .entries
            .last_mut()
            .filter(|entry| outcome.is_ok() && entry.kept.is_none() && entry.collection == *collection);
        match own {
            Some(entry) => entry.kept = Some((key, kept)),
            None => self.decided.entries.push(Entry {
                collection: collection.clone(),
                events: Vec::new(),
                beats: Vec::new(),
                changed: Changed::default(),
                kept: Some((key, kept)),
            }),
        }
    }

    fn answer(&mut self, pending: Pending<T>, outcome: Result<Reply, Refused>) {
        let answer = self.answer_of(&pending.request.command.collection, outcome);
        self.push_answer(pending, answer, None);
    }

    fn push_answer(&mut self, pending: Pending<T>, answer: Answer, if_gone: Option<Box<Command>>) {
        let Pending { request, ticket } = pending;
        let request = self.shared.then(|| Box::new(request));
        self.decided.answers.push(Answered { ticket, answer, if_gone, request });
    }

    fn answer_of(&self, collection: &CollectionKey, outcome: Result<Reply, Refused>) -> Answer {
        Answer { server_time_ms: self.now_in(collection), outcome, replayed: false }
    }
}

fn wait_ms(command: &Command) -> i64 {
    match &command.verb {
        Verb::Acquire(acquire) => acquire.wait_ms.unwrap_or(0),
        _ => 0,
    }
}

pub(crate) fn reply_key(request: &Request) -> Result<Option<ReplyKey>, Refusal> {
    let Some(idempotency) = &request.idempotency else { return Ok(None) };
    if idempotency.key.is_empty() || idempotency.key.len() > tenure_core::limits::ITEM_ID_BYTES_MAX {
        return Err(Refusal::invalid("idempotency_key", "has 1 to 256 bytes"));
    }
    Ok(Some(ReplyKey {
        collection: request.command.collection.clone(),
        principal: request.command.actor.id.clone(),
        key: idempotency.key.clone(),
    }))
}
