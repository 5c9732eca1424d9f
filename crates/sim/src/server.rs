//! The server's side of a seed: turns, deaths, starts, followers of the feed.

use std::sync::Arc;

use tenure_core::CollectionKey;
use tenure_engine::{Answered, Delivery, Feed, From, Pending, Planted, Subscription, Ticket, Turn};
use tenure_store::{Error, Reader, Store};

use crate::auditor::{Seen, Violation};
use crate::bugs::Bug;
use crate::driver::{Caller, Driver, Happening};
use crate::history::Brief;
use crate::machine::Machine;
use crate::rng::Rng;
use crate::world::World;

/// A running server.
pub(crate) struct Server<S> {
    pub(crate) turn: Turn<S, Caller>,
    pub(crate) feed: Feed,
    pub(crate) reader: Arc<dyn Reader>,
    /// Deliveries that wait, each with its request.
    pub(crate) inbox: Vec<(u64, u64)>,
    /// It commits, or it is paused.
    pub(crate) busy_until_ms: i64,
}

impl<S: Store> Server<S> {
    /// When its next turn is due, in real time.
    pub(crate) fn due_ms(&self, now_ms: i64, skew_ms: i64) -> Option<i64> {
        let next_ms = if self.inbox.is_empty() { self.turn.next_ms()? - skew_ms } else { now_ms };
        Some(next_ms.max(self.busy_until_ms).max(now_ms))
    }
}

/// Somebody who follows a collection.
pub(crate) struct Watcher {
    id: u64,
    key: CollectionKey,
    /// Its epoch and number.
    cursor: Option<(u64, u64)>,
    subscription: Option<Subscription>,
}

impl Watcher {
    pub(crate) fn some(rng: &mut Rng, world: &World) -> Vec<Self> {
        let watcher =
            |id| Self { id, key: rng.pick(&world.places).key.clone(), cursor: None, subscription: None };
        (1..=3).map(watcher).collect()
    }
}

impl<M: Machine> Driver<M> {
    /// One turn of the server, now.
    pub(crate) fn turn(&mut self) -> Result<(), Violation> {
        let gone = self.gone();
        let weather = self.world.weather.clone();
        let Some(server) = &mut self.server else { return Ok(()) };
        self.tally.turns += 1;
        let calm_turns = self.calm_turns;
        self.calm_turns += u64::from(self.quiet);
        let all = server.inbox.len();
        let taken = if !self.quiet && self.chance.chance(150) { self.chance.index(all + 1) } else { all };
        let delivered: Vec<(u64, u64)> = server.inbox.drain(..taken).collect();
        let inbox = delivered.iter().map(|(delivery, request)| {
            let sent = &self.sent[request];
            let ticket = Caller { delivery: *delivery, gone: sent.gone.clone() };
            Pending { request: sent.request.clone(), ticket }
        });
        let inbox: Vec<_> = inbox.collect();
        if !self.quiet && self.chance.chance(weather.faults) {
            self.machine.arm(&mut self.chance);
        }
        let (clock_ms, quiet) = (self.now_ms + self.skew_ms, calm_turns > 0);
        let ahead = server.turn.store().overlaps() && self.chance.chance(400);
        let split = if ahead { self.chance.index(inbox.len() + 1) } else { inbox.len() };
        let mut answers = Vec::new();
        if split == inbox.len() {
            let result = server.turn.run(clock_ms, inbox, &mut answers).map(drop);
            self.turned(delivered, gone, answers, &result, quiet)?;
            return self.beside_turn();
        }
        // The second part is decided while the first is being committed.
        let mut first = inbox;
        let second = first.split_off(split);
        let result = decide_ahead(&mut server.turn, clock_ms, first, second, &mut answers);
        let mut delivered = delivered;
        // If that failed, the second part went with it: refused, or never begun.
        let later = match &result {
            Ok(()) if !server.turn.is_ahead() => Vec::new(),
            _ => delivered.split_off(split),
        };
        self.turned(delivered, gone.clone(), answers, &result, quiet)?;
        let Some(server) = self.server.as_mut().filter(|_| !later.is_empty()) else {
            return self.beside_turn();
        };
        let mut answers = Vec::new();
        let result = server.turn.begin(None, &mut answers).and_then(|_| server.turn.complete(&mut answers));
        self.turned(later, gone, answers, &result.map(drop), quiet)?;
        self.beside_turn()
    }

    /// A turn has ended: everyone is told, and it is judged.
    fn turned(
        &mut self,
        delivered: Vec<(u64, u64)>,
        gone: Vec<u64>,
        answers: Vec<Answered<Caller>>,
        result: &Result<(), Error>,
        quiet: bool,
    ) -> Result<(), Violation> {
        let fault = self.machine.disarm();
        self.tally.faults += u64::from(fault);
        let Some(server) = &self.server else { return Ok(()) };
        let server_ms = server.turn.now_ms();
        let reader = server.reader.clone();
        let names: Vec<u64> = delivered.iter().map(|(_, request)| *request).collect();
        self.history.add(self.now_ms, format_args!("turn at {server_ms}: {names:?}"));
        let mut errands = Vec::new();
        let mut seen = Seen {
            real_ms: self.now_ms,
            server_ms,
            delivered,
            gone,
            answers: Vec::new(),
            died: result.is_err(),
            fault,
            quiet,
        };
        for done in answers {
            let delivery = done.ticket.delivery;
            if done.ticket.gone.get() {
                errands.extend(done.if_gone.map(|command| *command));
            }
            seen.answers.push((delivery, done.answer));
        }
        self.tell_history(&seen);
        if let Err(error) = result {
            self.history.add(self.now_ms, format_args!("the server dies: {error}"));
            if !fault {
                return Err(Violation::new("I11", format!("the server died without a fault: {error}")));
            }
        }
        self.auditor.turn(&seen, &*reader)?;
        let died = seen.died;
        for (delivery, answer) in seen.answers {
            if let Some((request, _)) = self.deliveries.remove(&delivery) {
                self.reply(request, answer);
            }
        }
        if died {
            self.watch(true)?;
            self.crash();
            return Ok(());
        }
        for command in errands {
            // The one who was granted has left: the engine gives its claim back.
            let request = self.send(None, command, None);
            self.deliver(request);
        }
        self.after_turn(fault);
        Ok(())
    }

    /// Puts a request straight into the inbox.
    pub(crate) fn deliver(&mut self, request: u64) {
        let gone = self.sent[&request].gone.clone();
        self.deliveries.insert(self.delivery_next, (request, gone));
        if let Some(server) = &mut self.server {
            server.inbox.push((self.delivery_next, request));
        }
        self.delivery_next += 1;
    }

    fn after_turn(&mut self, fault: bool) {
        let pauses = if self.quiet { 0 } else { self.world.weather.pauses };
        let busy_ms = if self.chance.chance(pauses) {
            self.tally.pauses += 1;
            *self.chance.pick(&[700, 2_000, 8_000, 30_000])
        } else if fault {
            self.chance.range(20, 400)
        } else {
            self.chance.range(1, 12)
        };
        if let Some(server) = &mut self.server {
            server.busy_until_ms = self.now_ms + busy_ms;
        }
    }

    /// Folding, deaths and stops happen between turns.
    fn beside_turn(&mut self) -> Result<(), Violation> {
        if self.server.is_none() {
            return Ok(());
        }
        if self.chance.chance(60) {
            let fault = !self.quiet && self.chance.chance(self.world.weather.faults);
            if fault {
                self.machine.arm(&mut self.chance);
            }
            let Some(server) = &mut self.server else { return Ok(()) };
            let folded = self.machine.errand(server.turn.store_mut(), &mut self.chance);
            let fired = self.machine.disarm();
            self.tally.faults += u64::from(fired);
            if let Err(error) = folded {
                self.history.add(self.now_ms, format_args!("folding failed: {error}"));
                if !fired {
                    return Err(Violation::new("I11", format!("folding failed without a fault: {error}")));
                }
                if error.is_fatal() {
                    self.crash();
                    return Ok(());
                }
            }
        }
        if !self.quiet && self.chance.chance(self.world.weather.crashes) {
            if self.chance.chance(250) {
                self.stop()?;
            } else {
                self.crash();
            }
        }
        Ok(())
    }

    fn tell_history(&mut self, seen: &Seen) {
        for (delivery, answer) in &seen.answers {
            let request = self.deliveries.get(delivery).map_or(0, |(request, _)| *request);
            let replayed = if answer.replayed { " again" } else { "" };
            match &answer.outcome {
                Ok(reply) => {
                    let reply = Brief(reply);
                    self.history.add(self.now_ms, format_args!("{request} is answered{replayed}: {reply}"));
                }
                Err(refused) => {
                    self.history
                        .add(self.now_ms, format_args!("{request} is refused{replayed}: {refused:?}"));
                }
            }
        }
    }

    fn crash(&mut self) {
        let Some(server) = self.server.take() else { return };
        self.tally.crashes += 1;
        self.history.add(self.now_ms, format_args!("crash"));
        self.drop_followers();
        self.machine.crash(server.turn, &mut self.chance);
        self.down();
    }

    /// A stop in good order and a start right after it.
    pub(crate) fn stop_and_start(&mut self) -> Result<(), Violation> {
        self.stop()?;
        self.clear_agenda();
        self.restart()
    }

    fn stop(&mut self) -> Result<(), Violation> {
        let Some(server) = self.server.take() else { return Ok(()) };
        self.tally.stops += 1;
        self.history.add(self.now_ms, format_args!("stop"));
        self.drop_followers();
        let closed = server.turn.close(&mut Vec::new());
        let closed = closed.map(|store| self.machine.stopped(store));
        self.down();
        closed.map_err(|error| Violation::new("I11", format!("the server does not stop: {error}")))
    }

    fn down(&mut self) {
        self.deliveries.clear();
        let down_ms = *self.chance.pick(&[0, 20, 500, 3_000, 20_000, 200_000]);
        if self.chance.chance(350) {
            self.tally.jumps += 1;
            let jump_ms = self.jump_ms();
            self.skew_ms += if self.chance.chance(500) { jump_ms } else { -jump_ms };
            self.history.add(self.now_ms, format_args!("the clock jumps to {}", self.now_ms + self.skew_ms));
        }
        self.schedule(self.now_ms + down_ms, Happening::Restarts);
    }

    /// A second to ten years, each size as likely.
    fn jump_ms(&mut self) -> i64 {
        const YEAR_MS: i64 = 365 * 24 * 3_600 * 1_000;
        let size = *self.chance.pick(&[
            1_000,
            60_000,
            3_600_000,
            86_400_000,
            30 * 86_400_000,
            YEAR_MS,
            10 * YEAR_MS,
        ]);
        self.chance.range(size / 2, size)
    }

    /// A process starts. It may die in the attempt.
    pub(crate) fn restart(&mut self) -> Result<(), Violation> {
        if self.server.is_some() {
            return Ok(());
        }
        if !self.quiet && self.tally.turns > 0 && self.chance.chance(self.world.weather.faults * 4) {
            self.machine.arm(&mut self.chance);
        }
        let feed = Feed::default();
        let planted = self.bug.map_or_else(Planted::default, Bug::planted);
        let clock_ms = self.now_ms + self.skew_ms;
        let rotten = !self.quiet && self.chance.chance(60) && self.machine.rot(&mut self.chance);
        let mut store = self.machine.start();
        if let (true, Err(Error::Corrupt { .. } | Error::Newer { .. })) = (rotten, &store) {
            // It noticed. Had it started, the auditor would look for what is missing.
            self.history.add(self.now_ms, format_args!("damage was found and mended"));
            self.tally.damages += 1;
            self.machine.mend();
            store = self.machine.start();
        }
        let opened = store.and_then(|store| Turn::open(store, clock_ms, feed.clone(), planted));
        let fault = self.machine.disarm();
        self.tally.faults += u64::from(fault);
        let turn = match opened {
            Ok(turn) => turn,
            Err(error) if fault => {
                self.history.add(self.now_ms, format_args!("it could not start: {error}"));
                self.tally.crashes += 1;
                self.machine.mend();
                self.machine.reboot(&mut self.chance);
                self.down();
                return Ok(());
            }
            Err(error) => return Err(Violation::new("I11", format!("the server does not start: {error}"))),
        };
        let (reader, server_ms) = (turn.store().reader(), turn.now_ms());
        self.history.add(self.now_ms, format_args!("start at {server_ms}"));
        self.auditor.started(self.now_ms, server_ms, &*reader)?;
        self.server = Some(Server { turn, feed, reader, inbox: Vec::new(), busy_until_ms: self.now_ms });
        Ok(())
    }

    fn drop_followers(&mut self) {
        for watcher in &mut self.watchers {
            watcher.subscription = None;
        }
    }

    /// Everyone who follows reads what there is.
    pub(crate) fn watch(&mut self, dying: bool) -> Result<(), Violation> {
        let Some(server) = &self.server else { return Ok(()) };
        let broken =
            |error: tenure_store::Error| Violation::new("I11", format!("the feed cannot be read: {error}"));
        for watcher in &mut self.watchers {
            if watcher.subscription.is_none() && !dying {
                let from = match watcher.cursor {
                    Some((epoch, seq)) => From::Event { epoch, seq },
                    None => From::Snapshot,
                };
                let seq = watcher.cursor.map(|(_, seq)| seq);
                self.auditor.follows(watcher.id, &watcher.key, seq, false);
                let subscription =
                    server.feed.subscribe(&server.reader, &watcher.key, from).map_err(broken)?;
                watcher.subscription = Some(subscription);
            }
            let Some(subscription) = &mut watcher.subscription else { continue };
            watcher.cursor = None;
            while let Some(delivery) = subscription.try_next().map_err(broken)? {
                self.auditor.delivered(watcher.id, &delivery, dying)?;
                if matches!(delivery, Delivery::Resync) {
                    watcher.subscription = None;
                    break;
                }
            }
            if let Some(subscription) = &watcher.subscription {
                watcher.cursor = Some((server.reader.epoch(), subscription.cursor()));
            }
        }
        if !dying {
            self.watch_from_nowhere()?;
        }
        // Once in a while somebody starts anew.
        if self.chance.chance(100) {
            let watcher = self.chance.index(self.watchers.len());
            self.watchers[watcher].subscription = None;
            if self.chance.chance(300) {
                self.watchers[watcher].cursor = None;
            }
        }
        Ok(())
    }

    /// A follower whose number was never reached, or comes from another epoch.
    fn watch_from_nowhere(&mut self) -> Result<(), Violation> {
        const STRANGER: u64 = 99;
        let Some(server) = &self.server else { return Ok(()) };
        let key = &self.watchers[0].key;
        let broken =
            |error: tenure_store::Error| Violation::new("I11", format!("the feed cannot be read: {error}"));
        let head = server.reader.collection(key).map_err(broken)?.map_or(0, |head| head.seq);
        let epoch = server.reader.epoch();
        let ahead = 1 + self.chance.below(1_000);
        let (epoch, seq) = if self.chance.chance(500) { (epoch, head + ahead) } else { (epoch + 1, head) };
        self.auditor.follows(STRANGER, key, Some(seq), true);
        let mut subscription =
            server.feed.subscribe(&server.reader, key, From::Event { epoch, seq }).map_err(broken)?;
        match subscription.try_next().map_err(broken)? {
            Some(delivery) => self.auditor.delivered(STRANGER, &delivery, false)?,
            None => {
                return Err(Violation::new("I15", format!("{key}: a follower from {seq} was told nothing")));
            }
        }
        self.auditor.unfollows(STRANGER);
        Ok(())
    }
}

/// Decides the second part while the first is being committed, and ends that commit.
fn decide_ahead<S: Store, T: Ticket>(
    turn: &mut Turn<S, T>,
    clock_ms: i64,
    first: Vec<Pending<T>>,
    second: Vec<Pending<T>>,
    answers: &mut Vec<Answered<T>>,
) -> Result<(), Error> {
    turn.decide(clock_ms, first, answers)?;
    turn.begin(Some(Arc::new(|| ())), answers)?;
    turn.decide(clock_ms, second, answers)?;
    turn.complete(answers).map(drop)
}
