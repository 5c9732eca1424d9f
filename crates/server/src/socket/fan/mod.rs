//! One collection's events to very many sockets: a task for thousands of them writes each event's frame, made
//! once, straight to their connections. Waking every socket's own task for it costs half as much again.
//!
//! A socket joins when it has nothing else to say and has been told everything. It is its own master again as
//! soon as it writes anything itself, its connection takes no more, or the fan comes upon what is not simply the
//! next event. So whatever takes longer than a write is dealt with in one place, its own task, and a reader that
//! is slow, behind or gone costs the others nothing. Who writes what follows from numbers alone: the fan writes to a
//! socket only what comes right after the last event that went out there.

mod batch;
mod outlet;

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tenure_core::{CollectionKey, Sealed};
use tenure_engine::{Delivery, Step};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;

use crate::apps::raffle::RaffleForm;
use crate::limits::{FAN_BATCH_BYTES, FAN_TURN};
use crate::stream::{Live, Tail};
pub(super) use batch::Batch;
pub(super) use outlet::Outlet;

/// The fans of all collections that sockets follow.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fans(Arc<Mutex<HashMap<CollectionKey, Weak<Fan>>>>);

/// One collection's sockets, in parts that can be served at the same time.
#[derive(Debug)]
struct Fan {
    parts: Box<[Arc<Mutex<Part>>]>,
    seated: AtomicUsize,
}

#[derive(Debug, Default)]
struct Part {
    /// Everyone who may join; a place is used again.
    outlets: Vec<Option<Arc<Outlet>>>,
    free: Vec<usize>,
    /// Whoever writes to them, and in which epoch; `None` before the first has joined.
    task: Option<(AbortHandle, u64)>,
    /// Counts the tasks, so that one that ends late does not take its successor for itself.
    tasks: u64,
    /// The newest event with which the task has begun: nobody joins who has not been told it.
    until: u64,
}

impl Fans {
    /// A place for a socket that follows this collection.
    pub(super) fn seat(&self, key: &CollectionKey, stream: Arc<TcpStream>, form: Option<RaffleForm>) -> Seat {
        let fan = self.fan(key);
        // In blocks, so that a few sockets need one task and not several.
        let number = fan.seated.fetch_add(1, Ordering::Relaxed) / FAN_TURN;
        let part = fan.parts[number % fan.parts.len()].clone();
        let outlet = Arc::new(Outlet::new(stream, form));
        let place = part.lock().place(outlet.clone());
        Seat { _fan: fan, part, place, outlet, is_joined: false }
    }

    fn fan(&self, key: &CollectionKey) -> Arc<Fan> {
        let mut all = self.0.lock();
        if let Some(fan) = all.get(key).and_then(Weak::upgrade) {
            return fan;
        }
        all.retain(|_, fan| fan.strong_count() > 0);
        let parts = tokio::runtime::Handle::current().metrics().num_workers();
        let parts = (0..parts.max(1)).map(|_| Arc::default()).collect();
        let fan = Arc::new(Fan { parts, seated: AtomicUsize::new(0) });
        all.insert(key.clone(), Arc::downgrade(&fan));
        fan
    }
}

impl Part {
    fn place(&mut self, outlet: Arc<Outlet>) -> usize {
        if let Some(place) = self.free.pop() {
            self.outlets[place] = Some(outlet);
            return place;
        }
        self.outlets.push(Some(outlet));
        self.outlets.len() - 1
    }

    /// The task will come to whatever this reader has not been told: it has not begun with any of that. What it has
    /// begun with it might have done with already.
    fn admits(&self, cursor: u64, epoch: u64) -> bool {
        self.task.as_ref().is_none_or(|(_, known)| *known == epoch && self.until <= cursor)
    }

    /// A task begins with events up to this one. One that was ended while it ran says nothing of its successor.
    fn begin(&mut self, task: u64, last: u64) {
        if self.tasks == task {
            self.until = last;
        }
    }

    /// Those of the next places; `false` after the last.
    fn some(&self, from: usize, into: &mut Vec<Arc<Outlet>>) -> bool {
        let places = self.outlets.get(from..).unwrap_or_default();
        into.extend(places.iter().take(FAN_TURN).flatten().cloned());
        !places.is_empty()
    }
}

/// A socket's place in its collection's fan, as long as it is there.
pub(super) struct Seat {
    /// Kept for the next who comes.
    _fan: Arc<Fan>,
    part: Arc<Mutex<Part>>,
    place: usize,
    outlet: Arc<Outlet>,
    /// It has joined, and has not looked since what it was told.
    is_joined: bool,
}

impl Seat {
    /// Where both write.
    pub(super) fn outlet(&self) -> &Arc<Outlet> {
        &self.outlet
    }

    /// It has joined: until [`Self::handed`] it is told by the fan.
    pub(super) fn is_joined(&self) -> bool {
        self.is_joined
    }

    /// Lets the fan write what comes, if it has not begun with anything that this reader has not been told. Who is
    /// refused has something to read.
    pub(super) fn join(&mut self, live: &Live) -> bool {
        let (Some(cursor), epoch) = (live.cursor(), live.epoch()) else { return false };
        let mut part = self.part.lock();
        if !part.admits(cursor, epoch) {
            return false;
        }
        // Under the part's lock: whatever the task begins with from here on, it finds this socket joined.
        if !self.outlet.join(cursor) {
            return false;
        }
        if part.task.is_none() {
            part.tasks += 1;
            part.until = cursor;
            let task = tokio::spawn(run(self.part.clone(), part.tasks, live.tail()));
            part.task = Some((task.abort_handle(), epoch));
        }
        self.is_joined = true;
        true
    }

    /// The last event that the fan has written, when it writes no more. Cancelling it loses nothing.
    pub(super) async fn handed(&mut self) -> u64 {
        let cursor = poll_fn(|cx| self.outlet.poll_handed(cx)).await;
        self.is_joined = false;
        cursor
    }

    /// The same at once: the socket ends.
    pub(super) fn leave(&mut self) -> Option<u64> {
        let cursor = self.outlet.leave();
        std::mem::take(&mut self.is_joined).then_some(cursor)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.outlet.leave();
        let mut part = self.part.lock();
        part.outlets[self.place] = None;
        part.free.push(self.place);
        if part.free.len() == part.outlets.len() {
            (part.outlets, part.free) = (Vec::new(), Vec::new());
            if let Some((task, _)) = part.task.take() {
                task.abort();
            }
        }
    }
}

/// Writes what happens, until it comes upon what is not simply the next event: then everyone looks for itself.
async fn run(part: Arc<Mutex<Part>>, task: u64, mut tail: Tail) {
    let _ending = Ending { part: &part, task };
    loop {
        let mut after = tail.subscription.cursor();
        match tail.subscription.step() {
            Step::Nothing => tail.subscription.changed().await,
            Step::Ready(Delivery::Events(events)) => {
                let mut left = events.as_slice();
                while !left.is_empty() {
                    let (now, later) = left.split_at(batch_len(left));
                    let mut batch = Batch::new(&tail.place, after, now);
                    pass(&part, task, &mut batch).await;
                    (after, left) = (batch.last(), later);
                }
            }
            Step::Ready(_) | Step::Store(_) => return,
        }
    }
}

/// How many of these are written at once: at least one.
fn batch_len(events: &[Arc<Sealed>]) -> usize {
    let mut bytes = 0;
    let fits = events.iter().take_while(|sealed| {
        bytes += sealed.bytes.len();
        bytes <= FAN_BATCH_BYTES
    });
    fits.count().max(1)
}

/// Once to everyone, some at a time: others want to be served in between.
async fn pass(part: &Mutex<Part>, task: u64, batch: &mut Batch<'_>) {
    let mut some: Vec<Arc<Outlet>> = Vec::with_capacity(FAN_TURN);
    let mut from = 0;
    part.lock().begin(task, batch.last());
    while part.lock().some(from, &mut some) {
        for outlet in some.drain(..) {
            outlet.tell(batch);
        }
        from += FAN_TURN;
        tokio::task::yield_now().await;
    }
}

/// However a task ends, nobody waits for it.
struct Ending<'a> {
    part: &'a Mutex<Part>,
    task: u64,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        let mut part = self.part.lock();
        if part.tasks == self.task {
            part.task = None;
        }
        for outlet in part.outlets.iter().flatten() {
            outlet.hand_over();
        }
    }
}

/// The first events of some collection.
#[cfg(test)]
pub(super) fn samples(count: u64) -> (crate::stream::Place, Vec<Arc<Sealed>>) {
    use tenure_core::{Event, Fact, Hash, Principal};
    let key = CollectionKey::new("lock/a").expect("a test's key");
    let event = |seq| Event { seq, at_ms: 1, actor: Principal::system(), fact: Fact::CollectionCreated };
    let events = (1..=count).map(|seq| Arc::new(Sealed::new(&Hash::default(), event(seq)))).collect();
    let texts = crate::stream::Hub::default().texts(&key);
    (crate::stream::Place::new(key, 1, texts), events)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn r14_nobody_joins_who_has_not_been_told_what_was_begun() {
        let mut part = Part { until: 7, ..Part::default() };
        assert!(part.admits(3, 1), "nobody writes: its place is where writing begins");
        part.task = Some((tokio::spawn(async {}).abort_handle(), 1));
        let admitted = [(6, 1), (7, 1), (8, 1), (7, 2)].map(|(cursor, epoch)| part.admits(cursor, epoch));
        assert_eq!(admitted, [false, true, true, false]);
    }
}
