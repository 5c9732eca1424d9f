//! One seed: a world, its clients, the network and the machine, in one thread and in an order that only
//! the seed decides. Real time is a number that jumps from one happening to the next.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use sha2::{Digest, Sha256};
use tenure_core::{CollectionKey, Command, Hash, Reply, Text};
use tenure_engine::{Answer, Idempotency, Refused, Request, Ticket};

use crate::Options;
use crate::auditor::{Asked, Auditor, Violation};
use crate::bugs::Bug;
use crate::client::{Client, Outstanding, Sight};
use crate::history::History;
use crate::machine::Machine;
use crate::rng::Rng;
use crate::server::{Server, Watcher};
use crate::world::World;

/// Figures of one seed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Requests sent.
    pub sent: u64,
    /// Turns of the server.
    pub turns: u64,
    /// Deaths of the server, with or without the machine.
    pub crashes: u64,
    /// Stops in good order.
    pub stops: u64,
    /// Faults of the disk or the commit.
    pub faults: u64,
    /// Damages of the journal that a start refused to build on.
    pub damages: u64,
    /// Jumps of the clock.
    pub jumps: u64,
    /// Pauses of clients and of the server.
    pub pauses: u64,
    /// Messages lost, and sent twice.
    pub lost: u64,
    /// Messages that arrived twice.
    pub doubled: u64,
}

/// Something that will happen.
pub(crate) enum Happening {
    Arrives { request: u64 },
    Answered { request: u64, answer: Box<Answer> },
    Wakes { client: usize },
    Watches,
    Restarts,
}

/// A request on its way.
pub(crate) struct Sent {
    pub(crate) client: Option<usize>,
    pub(crate) request: Request,
    pub(crate) gone: Rc<Cell<bool>>,
}

/// Where an answer goes: a delivery, whose caller may have left.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) delivery: u64,
    pub(crate) gone: Rc<Cell<bool>>,
}

impl Ticket for Caller {
    fn is_gone(&self) -> bool {
        self.gone.get()
    }
}

/// One seed's run.
pub(crate) struct Driver<M: Machine> {
    pub(crate) rng: Rng,
    pub(crate) chance: Rng,
    pub(crate) now_ms: i64,
    pub(crate) history: History,
    pub(crate) auditor: Auditor,
    pub(crate) tally: Tally,
    pub(crate) world: World,
    pub(crate) machine: M,
    pub(crate) server: Option<Server<M::Store>>,
    pub(crate) skew_ms: i64,
    pub(crate) bug: Option<Bug>,
    pub(crate) quiet: bool,
    /// Turns since faults have stopped. The first may find what was late before.
    pub(crate) calm_turns: u64,
    agenda: BTreeMap<(i64, u64), Happening>,
    agenda_next: u64,
    pub(crate) sent: BTreeMap<u64, Sent>,
    request_next: u64,
    key_next: u64,
    /// When each key was first used.
    first_tries: BTreeMap<Text, i64>,
    pub(crate) deliveries: BTreeMap<u64, (u64, Rc<Cell<bool>>)>,
    pub(crate) delivery_next: u64,
    clients: Vec<Client>,
    known: Vec<(CollectionKey, u64, u64)>,
    pub(crate) watchers: Vec<Watcher>,
    /// Answers to requests that no client made.
    pub(crate) probed: BTreeMap<u64, Result<Reply, Refused>>,
}

impl<M: Machine> Driver<M> {
    pub(crate) fn new(seed: u64, options: &Options, machine: M) -> Self {
        let mut rng = Rng::new(seed);
        let world = World::new(&mut rng);
        let clients = (0..world.clients).map(|index| Client::new(index, &mut rng)).collect();
        let chance = rng.split();
        Self {
            chance,
            now_ms: 0,
            history: History::new(options.lines),
            auditor: Auditor::new(machine.retained(), machine.forgets()),
            tally: Tally::default(),
            machine,
            server: None,
            skew_ms: 1_700_000_000_000 + rng.range(0, 1_000_000_000),
            bug: options.bug,
            quiet: false,
            calm_turns: 0,
            agenda: BTreeMap::new(),
            agenda_next: 0,
            sent: BTreeMap::new(),
            request_next: 1,
            key_next: 1,
            first_tries: BTreeMap::new(),
            deliveries: BTreeMap::new(),
            delivery_next: 1,
            clients,
            known: Vec::new(),
            watchers: Watcher::some(&mut rng, &world),
            probed: BTreeMap::new(),
            rng,
            world,
        }
    }

    /// The whole life of a seed.
    pub(crate) fn run(&mut self, steps: u64) -> Result<(), Violation> {
        self.restart()?;
        self.set_up()?;
        for client in 0..self.clients.len() {
            let at_ms = self.now_ms + self.rng.range(0, self.world.weather.think_ms);
            self.schedule(at_ms, Happening::Wakes { client });
        }
        self.schedule(self.now_ms + 100, Happening::Watches);
        for _ in 0..steps {
            self.step()?;
        }
        self.calm_down()
    }

    fn step(&mut self) -> Result<(), Violation> {
        let next = self.agenda.keys().next().copied();
        let turn_ms = self.server.as_ref().and_then(|server| server.due_ms(self.now_ms, self.skew_ms));
        match (next, turn_ms) {
            (Some((at_ms, _)), Some(turn_ms)) if turn_ms <= at_ms => self.turn_at(turn_ms),
            (None, Some(turn_ms)) => self.turn_at(turn_ms),
            (Some(next), _) => {
                self.now_ms = self.now_ms.max(next.0);
                match self.agenda.remove(&next) {
                    Some(happening) => self.happens(happening),
                    None => Ok(()),
                }
            }
            (None, None) => Ok(()),
        }
    }

    fn turn_at(&mut self, at_ms: i64) -> Result<(), Violation> {
        self.now_ms = self.now_ms.max(at_ms);
        self.turn()
    }

    fn happens(&mut self, happening: Happening) -> Result<(), Violation> {
        match happening {
            Happening::Arrives { request } => {
                if let Some(server) = &mut self.server {
                    server.inbox.push((self.delivery_next, request));
                    let gone = self.sent[&request].gone.clone();
                    self.deliveries.insert(self.delivery_next, (request, gone));
                    self.delivery_next += 1;
                }
                Ok(())
            }
            Happening::Answered { request, answer } => self.answered(request, &answer),
            Happening::Wakes { client } => {
                self.wake(client);
                Ok(())
            }
            Happening::Watches => {
                let at_ms = self.now_ms + self.rng.range(1, 2_000);
                self.schedule(at_ms, Happening::Watches);
                self.watch(false)
            }
            Happening::Restarts => self.restart(),
        }
    }

    pub(crate) fn schedule(&mut self, at_ms: i64, happening: Happening) {
        self.agenda.insert((at_ms.max(self.now_ms), self.agenda_next), happening);
        self.agenda_next += 1;
    }

    /// Nothing is planned any more but what the server does by itself.
    pub(crate) fn clear_agenda(&mut self) {
        self.agenda.clear();
    }

    fn wake(&mut self, index: usize) {
        let think_ms = self.rng.range(0, self.world.weather.think_ms);
        let again_ms = self.now_ms + 1 + think_ms;
        if self.clients[index].paused_until_ms > self.now_ms {
            let until_ms = self.clients[index].paused_until_ms;
            return self.schedule(until_ms, Happening::Wakes { client: index });
        }
        if let Some(outstanding) = self.clients[index].outstanding.clone() {
            if self.now_ms < outstanding.until_ms {
                return self.schedule(outstanding.until_ms, Happening::Wakes { client: index });
            }
            self.give_up(index, outstanding);
            return self.schedule(again_ms, Happening::Wakes { client: index });
        }
        if self.rng.chance(15) {
            let pause_ms = *self.rng.pick(&[500, 3_000, 10_000, 60_000]);
            self.clients[index].paused_until_ms = self.now_ms + pause_ms;
            self.tally.pauses += 1;
        }
        let sight = Sight {
            world: &self.world,
            reader: self.server.as_ref().map(|server| &*server.reader),
            known: &self.known,
        };
        let command = self.clients[index].next(&mut self.rng, &sight);
        // A second advance would be another step, so a careful client always names its request.
        let careful = matches!(command.verb, tenure_core::Verb::Advance { .. });
        let keyed = careful || self.rng.chance(self.world.weather.keyed);
        let key = keyed.then(|| self.choose_key(index));
        let patience_ms = *self.rng.pick(&[300, 1_000, 3_000, 40_000]);
        self.ask(index, command, key, self.now_ms + patience_ms, 1);
        self.schedule(again_ms, Happening::Wakes { client: index });
    }

    fn choose_key(&mut self, index: usize) -> Text {
        if self.rng.chance(15)
            && let Some(used) = &self.clients[index].used_key
        {
            return used.clone();
        }
        let key: Text = Text::from(format!("k{}", self.key_next));
        self.key_next += 1;
        self.clients[index].used_key = Some(key.clone());
        key
    }

    /// No answer came in time: the caller leaves, and asks again if it can.
    fn give_up(&mut self, index: usize, outstanding: Outstanding) {
        self.clients[index].outstanding = None;
        let leaves = self.rng.chance(850);
        if leaves && let Some(sent) = self.sent.get(&outstanding.request) {
            sent.gone.set(true);
        }
        self.history.add(
            self.now_ms,
            format_args!("h{index} had no answer to {} (leaves: {leaves})", outstanding.request),
        );
        if outstanding.key.is_some() && outstanding.tries < 5 && self.rng.chance(850) {
            let Outstanding { command, key, tries, .. } = outstanding;
            let patience_ms = *self.rng.pick(&[300, 1_000, 3_000, 40_000]);
            self.ask(index, command, key, self.now_ms + patience_ms, tries + 1);
        }
    }

    fn ask(&mut self, index: usize, command: Command, key: Option<Text>, until_ms: i64, tries: u32) {
        let request = self.send(Some(index), command.clone(), key.clone());
        self.clients[index].outstanding = Some(Outstanding { request, command, key, until_ms, tries });
        if self.lost() {
            return;
        }
        let arrives_ms = self.now_ms + self.delay_ms();
        self.schedule(arrives_ms, Happening::Arrives { request });
        if self.rng.chance(self.world.weather.duplicates) {
            self.tally.doubled += 1;
            let again_ms = self.now_ms + self.delay_ms() + self.delay_ms();
            self.schedule(again_ms, Happening::Arrives { request });
        }
    }

    /// Notes a request as sent now.
    pub(crate) fn send(&mut self, client: Option<usize>, command: Command, key: Option<Text>) -> u64 {
        let id = self.request_next;
        self.request_next += 1;
        self.tally.sent += 1;
        let idempotency = key.map(|key| Idempotency { key, fingerprint: fingerprint(&command) });
        let key = idempotency.as_ref().map_or("-", |idempotency| &*idempotency.key);
        self.history.add(
            self.now_ms,
            format_args!("{id} {} asks {} [{key}]: {:?}", command.actor.id, command.collection, command.verb),
        );
        let first_real_ms = match &idempotency {
            Some(idempotency) => *self.first_tries.entry(idempotency.key.clone()).or_insert(self.now_ms),
            None => self.now_ms,
        };
        self.auditor.asked(Asked {
            id,
            real_ms: self.now_ms,
            first_real_ms,
            command: command.clone(),
            idempotency: idempotency.clone(),
        });
        let request = Request { command, idempotency };
        self.sent.insert(id, Sent { client, request, gone: Rc::default() });
        id
    }

    /// An answer leaves the server.
    pub(crate) fn reply(&mut self, request: u64, answer: Answer) {
        if let Ok(Reply::Acquired { claim, .. } | Reply::Claim { claim }) = &answer.outcome {
            let key = self.sent[&request].request.command.collection.clone();
            self.known.push((key, claim.number, claim.token));
        }
        if self.sent[&request].client.is_none() {
            self.probed.insert(request, answer.outcome);
            return;
        }
        if self.lost() {
            return;
        }
        let at_ms = self.now_ms + self.delay_ms();
        self.schedule(at_ms, Happening::Answered { request, answer: Box::new(answer) });
    }

    fn answered(&mut self, request: u64, answer: &Answer) -> Result<(), Violation> {
        let Some(index) = self.sent[&request].client else { return Ok(()) };
        let current = self.clients[index].outstanding.as_ref().is_some_and(|out| out.request == request);
        let paused = self.clients[index].paused_until_ms > self.now_ms;
        if paused {
            // It reads its mail when it wakes.
            let until_ms = self.clients[index].paused_until_ms;
            self.schedule(until_ms, Happening::Answered { request, answer: Box::new(answer.clone()) });
            return Ok(());
        }
        if !current {
            return Ok(());
        }
        let Some(outstanding) = self.clients[index].outstanding.take() else { return Ok(()) };
        self.clients[index].learn(&outstanding.command, answer);
        self.auditor.learned(self.now_ms, request, answer)
    }

    fn lost(&mut self) -> bool {
        let lost = self.rng.chance(self.world.weather.loss);
        self.tally.lost += u64::from(lost);
        lost
    }

    fn delay_ms(&mut self) -> i64 {
        if self.rng.chance(self.world.weather.slow) {
            self.rng.range(0, 8_000)
        } else {
            self.rng.range(0, self.world.weather.delay_ms)
        }
    }

    /// Open deliveries whose caller has left.
    pub(crate) fn gone(&self) -> Vec<u64> {
        let gone: BTreeSet<u64> = self
            .deliveries
            .iter()
            .filter(|(_, (_, gone))| gone.get())
            .map(|(delivery, _)| *delivery)
            .collect();
        gone.into_iter().collect()
    }
}

fn fingerprint(command: &Command) -> Hash {
    Hash(Sha256::digest(format!("{command:?}")).into())
}
