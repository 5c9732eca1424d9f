//! The engine on its thread, and the handle that everyone else holds.

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tenure_core::{ClaimState, CollectionKey, ItemId, Refusal};
use tenure_store::{Error, Reader, Store};
use tokio::sync::{mpsc, oneshot};

use crate::feed::{Feed, From, Subscription};
use crate::planted::Planted;
use crate::queue::{Queue, Taken};
use crate::turn::{Pending, Report, Turn};
use crate::waiters::Waiters;
use crate::{Answer, Clock, Refused, ReplyTo, Request};

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
}

struct Silent;
impl Observer for Silent {}

impl Default for Options {
    fn default() -> Self {
        Self { observer: Arc::new(Silent), linger: Duration::from_micros(50) }
    }
}

/// A handle on the running engine. Clones share it; when the last is dropped the engine finishes what
/// it has taken and ends.
#[derive(Clone)]
pub struct Engine(Arc<Handle>);

struct Handle {
    queue: Arc<Queue>,
    time: Arc<Time>,
    feed: Feed,
    reader: Arc<dyn Reader>,
    /// The loop's own: gone with it, however it ends, so that nobody waits for a loop that is gone.
    waiters: Weak<Mutex<Waiters<ReplyTo>>>,
    thread: Mutex<Option<JoinHandle<Result<(), Error>>>>,
}

/// The engine's time, for everyone who only reads.
struct Time {
    clock: Box<dyn Clock>,
    offset_ms: i64,
    newest_ms: AtomicI64,
}

impl Time {
    fn now_ms(&self) -> i64 {
        (self.clock.now_ms() + self.offset_ms).max(self.newest_ms.load(Ordering::Acquire))
    }
}

impl Engine {
    /// Takes over a store and starts to run. Claims that were active get back the time that passed
    /// while nobody could renew them.
    pub fn start<S: Store + 'static>(store: S, clock: impl Clock, options: Options) -> Result<Self, Error> {
        let feed = Feed::default();
        let reader = store.reader();
        let turn = Turn::open(store, clock.now_ms(), feed.clone(), Planted::default())?;
        let time = Arc::new(Time {
            clock: Box::new(clock),
            offset_ms: turn.offset_ms(),
            newest_ms: AtomicI64::new(turn.now_ms()),
        });
        let queue = Arc::new(Queue::default());
        let waiters = turn.waiters();
        let thread = {
            let (queue, time) = (queue.clone(), time.clone());
            std::thread::Builder::new()
                .name("tenure-engine".to_owned())
                .spawn(move || run(turn, &queue, &time, &options))
                .map_err(|source| Error::Io { path: "engine".into(), doing: "start the thread of", source })?
        };
        Ok(Self(Arc::new(Handle { queue, time, feed, reader, waiters, thread: Mutex::new(Some(thread)) })))
    }

    /// Carries out a request and waits for its answer, which is durable. Dropping the future leaves
    /// the queue of a held item.
    pub async fn execute(&self, request: impl Into<Request>) -> Answer {
        let request = request.into();
        let (collection, claim) = (request.command.collection.clone(), request.command.verb.claim());
        let (sender, receiver) = oneshot::channel();
        self.submit(request, ReplyTo::Once(sender));
        let answer = receiver.await.unwrap_or_else(|_| self.stopped());
        if !Self::is_unexplained(claim, &answer) {
            return answer;
        }
        let engine = self.clone();
        self.aside(answer, move |answer| engine.explain_lost(&collection, claim, answer)).await
    }

    /// Carries out several requests, in their order, and waits for all their answers.
    pub async fn execute_all(&self, requests: Vec<Request>) -> Vec<Answer> {
        let named =
            requests.iter().map(|Request { command, .. }| (command.collection.clone(), command.verb.claim()));
        let named: Vec<_> = named.collect();
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
        let mut pairs = answers.iter().zip(&named);
        if !pairs.any(|(answer, (_, claim))| Self::is_unexplained(*claim, answer)) {
            return answers;
        }
        let engine = self.clone();
        let explain = move |answers: Vec<Answer>| {
            let answers = answers.into_iter().zip(named);
            answers.map(|(answer, (key, claim))| engine.explain_lost(&key, claim, answer)).collect()
        };
        self.aside(answers, explain).await
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
        let (collection, claim) = (request.command.collection.clone(), request.command.verb.claim());
        let (sender, receiver) = oneshot::channel();
        self.submit(request, ReplyTo::Once(sender));
        let answer = receiver.blocking_recv().unwrap_or_else(|_| self.stopped());
        self.explain_lost(&collection, claim, answer)
    }

    /// Hands a request in; the answer goes to `reply_to`. Answers at once when too many wait.
    pub fn submit(&self, request: Request, reply_to: ReplyTo) {
        if let Some((pending, refused)) = self.0.queue.push(Pending { request, ticket: reply_to }) {
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
        self.0.queue.len()
    }

    /// How many callers wait for an item, and are still there.
    pub fn waiting(&self, collection: &CollectionKey, item: &ItemId) -> usize {
        self.0.waiters.upgrade().map_or(0, |waiters| waiters.lock().count(collection, item))
    }

    /// Looks at the timers now: for a clock that was moved by hand.
    pub fn tick(&self) {
        self.0.queue.wake();
    }

    /// Takes nothing more, finishes what it has taken, closes the store and ends. Callers who wait for
    /// held items are told that it stops.
    pub fn stop(&self) -> Result<(), Error> {
        self.0.queue.close();
        // Held to the end: whoever else stops it waits until it has stopped.
        let mut thread = self.0.thread.lock();
        match thread.take().map(JoinHandle::join) {
            None | Some(Ok(Ok(()))) => Ok(()),
            Some(Ok(Err(error))) => Err(error),
            Some(Err(panic)) => std::panic::resume_unwind(panic),
        }
    }

    fn stopped(&self) -> Answer {
        Answer { server_time_ms: self.now_ms(), outcome: Err(Refused::Stopped), replayed: false }
    }

    /// The answer says that there is no such claim, which [`Self::explain_lost`] may know better.
    pub fn is_unexplained(claim: Option<u64>, answer: &Answer) -> bool {
        let unknown = matches!(&answer.outcome, Err(Refused::Rule(Refusal::NotFound { what, .. })) if &**what == "claim");
        claim.is_some() && unknown
    }

    /// The loop keeps only recent ends in memory. A claim that it does not know may have ended long
    /// ago: then the caller is told so, from the store, off the loop's thread. Whoever submits on its
    /// own calls this with [`tenure_core::Verb::claim`], where reading the disk holds nobody up.
    pub fn explain_lost(&self, collection: &CollectionKey, claim: Option<u64>, mut answer: Answer) -> Answer {
        if let Some(number) = claim
            && Self::is_unexplained(claim, &answer)
            && let Ok(Some(claim)) = self.0.reader.claim(collection, number)
            && claim.state != ClaimState::Active
            && let (Some(reason), Some(ended_at_ms)) = (claim.reason, claim.ended_at_ms)
        {
            let lost = Refusal::Lost { reason, ended_at_ms, holder: None };
            answer.outcome = Err(Refused::Rule(lost));
        }
        answer
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.queue.close();
        if let Some(thread) = self.thread.get_mut().take()
            && thread.join().is_err()
        {
            tracing::error!("the engine's thread had panicked");
        }
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("queued", &self.queued()).finish_non_exhaustive()
    }
}

/// Closes the queue however the loop ends, and tells those in it, so that nobody waits for a thread
/// that is gone.
struct Closing<'a>(&'a Queue, &'a Time);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        let server_time_ms = self.1.now_ms();
        for pending in self.0.abandon() {
            pending.ticket.send(Answer { server_time_ms, outcome: Err(Refused::Stopped), replayed: false });
        }
    }
}

fn run<S: Store>(
    mut turn: Turn<S, ReplyTo>,
    queue: &Queue,
    time: &Time,
    options: &Options,
) -> Result<(), Error> {
    let closing = Closing(queue, time);
    let mut answers = Vec::new();
    let mut answered = 0;
    loop {
        let deadline = turn.next_ms().map(|next_ms| {
            let ahead_ms = u64::try_from(next_ms - time.clock.now_ms()).unwrap_or(0);
            Instant::now() + Duration::from_millis(ahead_ms)
        });
        let inbox = match queue.take(deadline, answered, options.linger) {
            Taken::Batch(inbox) => inbox,
            Taken::Closed if turn.is_behind() => Vec::new(),
            Taken::Closed => break,
        };
        let result = turn.run(time.clock.now_ms(), inbox, &mut answers);
        if result.is_err() {
            turn.dismiss(&mut answers);
        }
        time.newest_ms.fetch_max(turn.now_ms(), Ordering::AcqRel);
        answered = answers.len();
        let mut errands = Vec::new();
        for done in answers.drain(..) {
            if !done.ticket.send(done.answer) {
                errands.extend(done.if_gone);
            }
        }
        match result {
            Ok(report) => options.observer.turn(&report),
            Err(error) => {
                tracing::error!(%error, "the store failed; the engine stops");
                options.observer.failed(&error);
                return Err(error);
            }
        }
        for command in errands {
            // Refused only when the queue is full or closing; the claim then runs out by itself.
            let _ = queue.push(Pending { request: command.into(), ticket: ReplyTo::Nobody });
        }
    }
    drop(closing);
    let closed = turn.close(&mut answers);
    for done in answers {
        done.ticket.send(done.answer);
    }
    closed.map(drop)
}
