//! Callers for the benchmarks: each waits for its answer before it asks again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tenure_core::command::{Acquire, ItemWrite, PutItem};
use tenure_core::{CollectionKey, Command, Expect, ItemId, Principal, Reply, Verb};
use tenure_engine::{Answer, Engine, ReplyTo};
pub(crate) use tenure_load::{Dice, Measured, as_f64, micros, new_histogram};
use tokio::sync::mpsc;

/// The items of a benchmark, named once.
pub(crate) struct Items {
    pub(crate) collection: CollectionKey,
    pub(crate) ids: Vec<ItemId>,
}

impl Items {
    pub(crate) fn new(count: u64) -> Self {
        Self::of("lock/bench", count)
    }

    pub(crate) fn of(collection: &str, count: u64) -> Self {
        let id = |number| ItemId::new(format!("item-{number:07}")).expect("a valid id");
        let collection = CollectionKey::new(collection).expect("a valid key");
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
    spread_claims(std::slice::from_ref(engine), std::slice::from_ref(items), callers, per_claim, time)
}

/// The same over several nodes and collections. Callers take turns at the nodes first, so that each
/// collection is worked on by all of them, as behind a proxy that knows nothing of collections.
pub(crate) fn spread_claims(
    engines: &[Engine],
    places: &[Arc<Items>],
    callers: usize,
    per_claim: usize,
    time: Duration,
) -> Measured {
    let (sender, mut answers) = mpsc::unbounded_channel();
    // So many callers share a place, this one as the so-manieth of them.
    let (nodes, around) = (engines.len(), engines.len() * places.len());
    let sharing = callers.div_ceil(around) * nodes;
    let mut callers: Vec<_> = (0..callers)
        .map(|number| {
            let place = &places[number / nodes % places.len()];
            let share = (number / around * nodes + number % nodes, sharing);
            Caller::new(number, share, per_claim, place.clone())
        })
        .collect();
    let submit = |caller: &mut Caller| {
        caller.asked = Instant::now();
        let engine = &engines[caller.number % engines.len()];
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
    fn new(number: usize, (rank, sharing): (usize, usize), per_claim: usize, items: Arc<Items>) -> Self {
        let size = (items.ids.len() / sharing) as u64;
        let first = rank as u64 * size;
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
