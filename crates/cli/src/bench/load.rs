//! Callers for the benchmarks: each waits for its answer before it asks again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tenure_core::command::{Acquire, ItemWrite, PutItem};
use tenure_core::{CollectionKey, Command, Expect, ItemId, Principal, Reply, Verb};
use tenure_engine::{Answer, Engine, ReplyTo};
use tokio::sync::mpsc;

/// What a run of callers measured.
pub(crate) struct Measured {
    pub(crate) commands: u64,
    pub(crate) elapsed: Duration,
    /// Microseconds from asking to the durable answer.
    pub(crate) latency: Histogram<u64>,
}

impl Measured {
    pub(crate) fn per_second(&self) -> f64 {
        as_f64(self.commands) / self.elapsed.as_secs_f64()
    }
}

/// Counts are far below 2^52.
#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
pub(crate) fn as_f64(count: u64) -> f64 {
    count as f64
}

/// A small generator of our own: the same items in every run.
#[derive(Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// The items of a benchmark, named once.
pub(crate) struct Items {
    pub(crate) collection: CollectionKey,
    pub(crate) ids: Vec<ItemId>,
}

impl Items {
    pub(crate) fn new(count: u64) -> Self {
        let id = |number| ItemId::new(format!("item-{number:07}")).expect("a valid id");
        let collection = CollectionKey::new("lock/bench").expect("a valid key");
        Self { collection, ids: (0..count).map(id).collect() }
    }

    /// Creates them all, through the engine's own door, a group at a time.
    pub(crate) fn create(&self, engine: &Engine, mut progress: impl FnMut(u64)) {
        let admin = Principal::new("bench", "Bench").expect("a valid principal");
        let ask = |verb| {
            let command = Command { collection: self.collection.clone(), actor: admin.clone(), verb };
            let answer = engine.execute_blocking(command);
            answer.outcome.expect("the engine creates the benchmark's items");
        };
        ask(Verb::CreateCollection);
        for chunk in self.ids.chunks(1_000) {
            let put = |item: &ItemId| {
                let write = ItemWrite { item: item.clone(), status: None, data: None };
                Verb::PutItem(PutItem { write, expect: Expect::Absent, guard: None })
            };
            ask(Verb::Group(chunk.iter().map(put).collect()));
            progress(chunk.len() as u64);
        }
    }
}

/// Keeps `callers` commands in flight for a time, as a pipelined socket does: one thread, one channel of
/// answers. Each caller claims `per_claim` random items of its own share and releases them, again and
/// again, and waits for its answer before it asks again.
pub(crate) fn claims(
    engine: &Engine,
    items: &Arc<Items>,
    callers: usize,
    per_claim: usize,
    time: Duration,
) -> Measured {
    let (sender, mut answers) = mpsc::unbounded_channel();
    let mut callers: Vec<_> =
        (0..callers).map(|number| Caller::new(number, callers, per_claim, items.clone())).collect();
    let submit = |caller: &mut Caller| {
        caller.asked = Instant::now();
        engine.submit(caller.next().into(), ReplyTo::Tagged(caller.number as u64, sender.clone()));
    };
    let started = Instant::now();
    callers.iter_mut().for_each(submit);
    let mut latency = new_histogram();
    let (mut commands, mut in_flight) = (0, callers.len());
    let mut arrived = Vec::with_capacity(callers.len());
    while in_flight > 0 {
        answers.blocking_recv_many(&mut arrived, callers.len());
        let now = Instant::now();
        let go_on = now.duration_since(started) < time;
        for (number, answer) in arrived.drain(..) {
            let caller = &mut callers[usize::try_from(number).expect("a caller's number")];
            latency.saturating_record(micros(now.duration_since(caller.asked)));
            commands += 1;
            caller.take(answer);
            // At the end everyone lets go, so that the next run finds all items free.
            if go_on || caller.claim.is_some() {
                submit(caller);
            } else {
                in_flight -= 1;
            }
        }
    }
    Measured { commands, elapsed: started.elapsed(), latency }
}

/// One caller: it holds nothing, or one claim.
struct Caller {
    number: usize,
    asked: Instant,
    actor: Principal,
    items: Arc<Items>,
    share: std::ops::Range<u64>,
    per_claim: usize,
    dice: Dice,
    claim: Option<u64>,
}

impl Caller {
    fn new(number: usize, callers: usize, per_claim: usize, items: Arc<Items>) -> Self {
        let size = (items.ids.len() / callers) as u64;
        let first = number as u64 * size;
        let actor = Principal::new(format!("caller-{number}"), "Caller").expect("a valid principal");
        let dice = Dice::new(number as u64 + 1);
        let asked = Instant::now();
        Self { number, asked, actor, items, share: first..first + size, per_claim, dice, claim: None }
    }

    fn next(&mut self) -> Command {
        let verb = match self.claim.take() {
            Some(claim) => Verb::Release { claim },
            None => Verb::Acquire(Acquire { items: self.pick(), ..Acquire::default() }),
        };
        Command { collection: self.items.collection.clone(), actor: self.actor.clone(), verb }
    }

    fn take(&mut self, answer: Answer) {
        match answer.outcome {
            Ok(Reply::Acquired { claim, .. }) => self.claim = Some(claim.number),
            Ok(_) => {}
            Err(refused) => panic!("a benchmark's caller was refused: {refused}"),
        }
    }

    fn pick(&mut self) -> Vec<ItemId> {
        let size = self.share.end - self.share.start;
        let first = self.share.start + self.dice.below(size - self.per_claim as u64);
        let index = usize::try_from(first).expect("an index");
        self.items.ids[index..index + self.per_claim].to_vec()
    }
}

pub(crate) fn new_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000, 3).expect("valid bounds")
}

pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX).max(1)
}
