//! The engine on its thread, and the handle that everyone else holds.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tenure_core::{ClaimState, CollectionKey, ItemId, after_end};
use tenure_store::{Error, Reader, Store, Tidier};
use tokio::sync::{mpsc, oneshot};

use crate::feed::{Feed, From, Subscription};
use crate::follow::{Follower, Wake};
use crate::limits::{LANES_MAX, PULSE_MS, SAMPLE_MS_MAX, TIDY_MS};
use crate::planted::Planted;
use crate::queue::Queue;
use crate::turn::{News, Pending, Report, Turn};
use crate::waiters::Waiters;
use crate::{Answer, Clock, Named, Refused, ReplyTo, Request, running};

/// Hears what the engine does: the server's metrics, a benchmark's figures.
pub trait Observer: Send + Sync + 'static {
    /// A turn has ended.
    fn turn(&self, report: &Report) {
        let _ = report;
    }

    /// The store failed in a way that cannot be mended while running: the process must end.
    fn failed(&self, error: &Error) {
        let _ = error;
    }
}

/// How the engine runs.
pub struct Options {
    /// Hears what happens.
    pub observer: Arc<dyn Observer>,
    /// The longest that a commit waits for callers who were just answered and will likely ask again.
    /// Nothing waits when the commit before it had one caller or none.
    pub linger: Duration,
    /// How often it looks what other nodes do, over a store that they share.
    pub pulse: Duration,
    /// Nodes tell each other to look sooner.
    pub hints: bool,
    /// How often it deletes what nobody needs any more, where the store does not do so by itself.
    pub tidy: Duration,
}

struct Silent;
impl Observer for Silent {}

impl Default for Options {
    fn default() -> Self {
        let (linger, pulse) = (Duration::from_micros(50), Duration::from_millis(PULSE_MS));
        let tidy = Duration::from_millis(TIDY_MS);
        Self { observer: Arc::new(Silent), linger, pulse, hints: true, tidy }
    }
}

/// A handle on the running engine. Clones share it; when the last is dropped the engine finishes what
/// it has taken and ends.
#[derive(Clone)]
pub struct Engine(Arc<Handle>);

struct Handle {
    lanes: Arc<Lanes>,
    time: Arc<Time>,
    feed: Feed,
    reader: Arc<dyn Reader>,
    threads: Mutex<Vec<JoinHandle<Result<(), Error>>>>,
    /// Looks what other nodes do, over a store that they share.
    wake: Arc<Wake>,
    /// Ends the thread that tidies.
    tidying: Arc<Wake>,
}

/// The loops of one engine, each with the collections that fall to it.
pub(crate) struct Lanes(Vec<Lane>);

struct Lane {
    queue: Arc<Queue>,
    /// The loop's own: gone with it, however it ends, so that nobody waits for a loop that is gone.
    waiters: Weak<Mutex<Waiters<ReplyTo>>>,
}

impl Lanes {
    /// A collection is always the same lane's, so that its commands keep their order.
    fn of(&self, collection: &CollectionKey) -> &Lane {
        let count = self.0.len();
        if count == 1 {
            return &self.0[0];
        }
        // FNV: the same on every start, and good enough to spread names.
        let hash = collection.as_str().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        &self.0[usize::try_from(hash % count as u64).unwrap_or(0)]
    }

    /// Tells a collection's lane what other nodes did.
    pub(crate) fn tell(&self, collection: &CollectionKey, news: News) {
        if !(news.timers.is_empty() && news.freed.is_empty()) {
            self.of(collection).queue.tell(news);
        }
    }

    /// Where somebody waits.
    pub(crate) fn waited(&self) -> BTreeSet<CollectionKey> {
        let mut waited = BTreeSet::new();
        for waiters in self.0.iter().filter_map(|lane| lane.waiters.upgrade()) {
            waited.extend(waiters.lock().collections().cloned());
        }
        waited
    }

    /// For what somebody waits.
    pub(crate) fn waited_items(&self, collection: &CollectionKey) -> BTreeSet<ItemId> {
        let waiters = self.of(collection).waiters.upgrade();
        waiters.map(|waiters| waiters.lock().items(collection)).unwrap_or_default()
    }
}

/// The engine's time, for everyone who only reads.
pub(crate) struct Time {
    clock: Box<dyn Clock>,
    /// For whoever waits for a time: never early.
    offset_ms: AtomicI64,
    /// For whoever is told the time: never late, so that nobody believes to hold for longer than it does.
    told_offset_ms: AtomicI64,
    newest_ms: AtomicI64,
    /// The time is the store's, and may run back when another database takes over.
    shared: bool,
}

impl Time {
    pub(crate) fn now_ms(&self) -> i64 {
        let newest_ms = self.newest_ms.load(Ordering::Acquire);
        if !self.shared {
            return (self.clock.now_ms() + self.offset_ms()).max(newest_ms);
        }
        let now_ms = self.clock.now_ms() + self.told_offset_ms.load(Ordering::Acquire);
        // Two looks differ by a little: that much is waited for. A clock that was set back is followed.
        if newest_ms - now_ms <= SAMPLE_MS_MAX { now_ms.max(newest_ms) } else { now_ms }
    }

    pub(crate) fn offset_ms(&self) -> i64 {
        self.offset_ms.load(Ordering::Acquire)
    }

    /// The clock that measures the time between two looks.
    pub(crate) fn clock_ms(&self) -> i64 {
        self.clock.now_ms()
    }

    /// The loop has come to this time.
    pub(crate) fn went_on(&self, now_ms: i64) {
        self.newest_ms.fetch_max(now_ms, Ordering::AcqRel);
    }

    /// A shared store has just told its time, when asked at this one of the clock. An answer that took long
    /// may have been on its way for most of that: the next will be better.
    pub(crate) fn heard(&self, now_ms: i64, asked_ms: i64) {
        let clock_ms = self.clock.now_ms();
        if clock_ms - asked_ms <= SAMPLE_MS_MAX {
            self.offset_ms.store(now_ms - clock_ms, Ordering::Release);
            self.told_offset_ms.store(now_ms - asked_ms, Ordering::Release);
        }
        self.newest_ms.fetch_max(now_ms, Ordering::AcqRel);
    }
}

impl Engine {
    /// Takes over a store and starts to run. Claims that were active get back the time that passed
    /// while nobody could renew them.
    pub fn start<S: Store + 'static>(store: S, clock: impl Clock, options: Options) -> Result<Self, Error> {
        Self::start_lanes(vec![store], clock, options)
    }

    /// The same with several writers over one shared store: collections of different lanes don't wait for
    /// each other.
    pub fn start_lanes<S: Store + 'static>(
        stores: Vec<S>,
        clock: impl Clock,
        options: Options,
    ) -> Result<Self, Error> {
        let shared = stores.first().is_some_and(Store::is_shared);
        if stores.is_empty() || stores.len() > if shared { LANES_MAX } else { 1 } {
            let detail = format!("an engine has 1 to {LANES_MAX} writers over a shared store, and else one");
            return Err(Error::Unsupported { detail });
        }
        let wake = Arc::new(Wake::default());
        let feed = if shared { Feed::shared(wake.clone()) } else { Feed::default() };
        let (reader, own_reader, tidier) = (stores[0].reader(), stores[0].follower(), stores[0].tidier());
        let open = |store| Turn::open(store, clock.now_ms(), feed.clone(), Planted::default());
        let turns = stores.into_iter().map(open).collect::<Result<Vec<_>, Error>>()?;
        let time = Arc::new(Time {
            offset_ms: AtomicI64::new(turns[0].offset_ms()),
            told_offset_ms: AtomicI64::new(turns[0].offset_ms()),
            newest_ms: AtomicI64::new(turns[0].now_ms()),
            clock: Box::new(clock),
            shared,
        });
        let lane = |turn: &Turn<S, ReplyTo>| Lane { queue: Arc::default(), waiters: turn.waiters() };
        let lanes = Arc::new(Lanes(turns.iter().map(lane).collect()));
        let options = Arc::new(options);
        let mut threads = Vec::new();
        for (number, turn) in turns.into_iter().enumerate() {
            let (queue, time, options) = (lanes.0[number].queue.clone(), time.clone(), options.clone());
            let work = move || running::run(turn, &queue, &time, &options);
            threads.push(spawn("tenure-engine", work)?);
        }
        if shared {
            let reader_of_hints = reader.clone();
            let feed = feed.clone();
            let follower = Follower::new(own_reader, feed, time.clone(), lanes.clone(), wake.clone());
            if options.hints {
                wake.listen(&*reader_of_hints);
            }
            let (pulse, alarm) = (options.pulse, Alarm(options.clone()));
            threads.push(spawn("tenure-follower", move || {
                let _alarm = alarm;
                follower.run(pulse);
                Ok(())
            })?);
        }
        let tidying = Arc::new(Wake::default());
        if let Some(tidier) = tidier {
            let (end, pause, alarm) = (tidying.clone(), options.tidy, Alarm(options.clone()));
            threads.push(spawn("tenure-tidier", move || {
                let _alarm = alarm;
                tidy(tidier, &end, pause);
                Ok(())
            })?);
        }
        let threads = Mutex::new(threads);
        Ok(Self(Arc::new(Handle { lanes, time, feed, reader, threads, wake, tidying })))
    }

    /// Carries out a request and waits for its answer, which is durable. Dropping the future leaves
    /// the queue of a held item.
    pub async fn execute(&self, request: impl Into<Request>) -> Answer {
        let request = request.into();
        let named = Named::of(&request.command);
        let (sender, receiver) = oneshot::channel();
        self.submit(request, ReplyTo::Once(sender));
        let answer = receiver.await.unwrap_or_else(|_| self.stopped());
        let Some(named) = named.filter(|named| named.is_unknown(&answer)) else { return answer };
        let engine = self.clone();
        self.aside(answer, move |answer| engine.look_up(&named, answer)).await
    }

    /// Carries out several requests, in their order, and waits for all their answers.
    pub async fn execute_all(&self, requests: Vec<Request>) -> Vec<Answer> {
        let named: Vec<_> = requests.iter().map(|request| Named::of(&request.command)).collect();
        let (sender, mut receiver) = mpsc::unbounded_channel();
        let mut answers = vec![None; requests.len()];
        for (tag, request) in (0..).zip(requests) {
            self.submit(request, ReplyTo::Tagged(tag, sender.clone()));
        }
        // The channel closes once every ticket is answered or lost.
        drop(sender);
        while let Some((tag, answer)) = receiver.recv().await {
            if let Some(slot) = usize::try_from(tag).ok().and_then(|index| answers.get_mut(index)) {
                *slot = Some(answer);
            }
        }
        let answers = answers.into_iter().map(|answer| answer.unwrap_or_else(|| self.stopped()));
        let answers: Vec<_> = answers.collect();
        let is_unknown = |(answer, named): (&Answer, &Option<Named>)| {
            named.as_ref().is_some_and(|named| named.is_unknown(answer))
        };
        if !answers.iter().zip(&named).any(is_unknown) {
            return answers;
        }
        let engine = self.clone();
        let look_up = move |answers: Vec<Answer>| {
            let answers = answers.into_iter().zip(&named);
            answers.map(|(answer, named)| engine.look_up_if(named.as_ref(), answer)).collect()
        };
        self.aside(answers, look_up).await
    }

    /// Does what may read the disk away from the threads that answer everyone.
    async fn aside<T: Clone + Send + 'static>(
        &self,
        value: T,
        work: impl FnOnce(T) -> T + Send + 'static,
    ) -> T {
        match tokio::runtime::Handle::try_current() {
            // What is not explained is still an answer.
            Ok(runtime) => {
                let kept = value.clone();
                runtime.spawn_blocking(move || work(value)).await.unwrap_or(kept)
            }
            Err(_) => work(value),
        }
    }

    /// The same, for a caller without a runtime.
    pub fn execute_blocking(&self, request: impl Into<Request>) -> Answer {
        let request = request.into();
        let named = Named::of(&request.command);
        let (sender, receiver) = oneshot::channel();
        self.submit(request, ReplyTo::Once(sender));
        let answer = receiver.blocking_recv().unwrap_or_else(|_| self.stopped());
        self.look_up_if(named.as_ref(), answer)
    }

    /// Hands a request in; the answer goes to `reply_to`. Answers at once when too many wait.
    pub fn submit(&self, request: Request, reply_to: ReplyTo) {
        let lane = self.0.lanes.of(&request.command.collection);
        if let Some((pending, refused)) = lane.queue.push(Pending { request, ticket: reply_to }) {
            let server_time_ms = self.now_ms();
            pending.ticket.send(Answer { server_time_ms, outcome: Err(refused), replayed: false });
        }
    }

    /// Follows a collection's events.
    pub fn subscribe(&self, collection: &CollectionKey, from: From) -> Result<Subscription, Error> {
        self.0.feed.subscribe(&self.0.reader, collection, from)
    }

    /// Committed rows and events.
    pub fn reader(&self) -> &Arc<dyn Reader> {
        &self.0.reader
    }

    /// The server's time.
    pub fn now_ms(&self) -> i64 {
        self.0.time.now_ms()
    }

    /// How many requests wait for the loop.
    pub fn queued(&self) -> usize {
        self.0.lanes.0.iter().map(|lane| lane.queue.len()).sum()
    }

    /// Everything that was asked is done, and the next deadline is waited for: a clock that is moved by hand now wakes
    /// nobody.
    pub fn is_resting(&self) -> bool {
        self.0.lanes.0.iter().all(|lane| lane.queue.is_resting())
    }

    /// How many callers of this node wait for an item, and are still there.
    pub fn waiting(&self, collection: &CollectionKey, item: &ItemId) -> usize {
        let waiters = self.0.lanes.of(collection).waiters.upgrade();
        waiters.map_or(0, |waiters| waiters.lock().count(collection, item))
    }

    /// Looks at the timers now: for a clock that was moved by hand.
    pub fn tick(&self) {
        self.0.lanes.0.iter().for_each(|lane| lane.queue.wake());
        self.0.wake.wake();
    }

    /// Takes nothing more, finishes what it has taken, closes the store and ends. Callers who wait for
    /// held items are told that it stops.
    pub fn stop(&self) -> Result<(), Error> {
        self.0.close();
        // Held to the end: whoever else stops it waits until it has stopped.
        let mut threads = self.0.threads.lock();
        let mut ended = Ok(());
        for thread in threads.drain(..) {
            match thread.join() {
                Ok(outcome) => ended = ended.and(outcome),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        ended
    }

    fn stopped(&self) -> Answer {
        Answer { server_time_ms: self.now_ms(), outcome: Err(Refused::Stopped), replayed: false }
    }

    /// The loop keeps only recent ends in memory. A claim that it does not know may have ended long
    /// ago: then the caller is told so, from the store, off the loop's thread. Whoever submits on its
    /// own calls this where [`Named::is_unknown`] says so and reading the disk holds nobody up.
    pub fn look_up(&self, named: &Named, mut answer: Answer) -> Answer {
        if let Ok(Some(claim)) = self.0.reader.claim(&named.collection, named.claim)
            && claim.state != ClaimState::Active
        {
            answer.outcome = after_end(&claim, &named.actor, named.asked).map_err(Refused::Rule);
        }
        answer
    }

    fn look_up_if(&self, named: Option<&Named>, answer: Answer) -> Answer {
        match named.filter(|named| named.is_unknown(&answer)) {
            Some(named) => self.look_up(named, answer),
            None => answer,
        }
    }
}

impl Handle {
    fn close(&self) {
        self.lanes.0.iter().for_each(|lane| lane.queue.close());
        self.wake.close();
        self.tidying.close();
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.close();
        for thread in self.threads.get_mut().drain(..) {
            if thread.join().is_err() {
                tracing::error!("the engine's thread had panicked");
            }
        }
    }
}

type Work = Result<(), Error>;

fn spawn(name: &str, work: impl FnOnce() -> Work + Send + 'static) -> Result<JoinHandle<Work>, Error> {
    std::thread::Builder::new().name(name.to_owned()).spawn(work).map_err(|source| Error::Io {
        path: "engine".into(),
        doing: "start the thread of",
        source,
    })
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("queued", &self.queued()).finish_non_exhaustive()
    }
}

/// Tidies now and then, on a thread of its own: nobody waits for it. While there is more it goes on, half of
/// the time.
fn tidy(mut tidier: Tidier, end: &Wake, often: Duration) {
    let mut pause = often;
    while end.wait(Instant::now() + pause) {
        let started = Instant::now();
        pause = match tidier() {
            Ok(true) => started.elapsed(),
            Ok(false) => often,
            Err(error) => {
                tracing::warn!(%error, "the store could not be tidied");
                often
            }
        };
    }
}

/// A thread that panicked is gone for good, and with it what it did for everyone: the process must end, as after
/// any other failure that cannot be mended while running.
pub(crate) fn tell_of_panic(options: &Options) {
    if std::thread::panicking() {
        let error = Error::Stopped { detail: "a thread of the engine panicked".to_owned() };
        tracing::error!(%error, "the engine stops");
        options.observer.failed(&error);
    }
}

/// Tells of a panic of whoever holds it.
struct Alarm(Arc<Options>);

impl Drop for Alarm {
    fn drop(&mut self) {
        tell_of_panic(&self.0);
    }
}
