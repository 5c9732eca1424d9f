//! Folding: committed batches move from the journal to the archive, behind the commits' back. A thread
//! of the store's own does it, or the caller.
//!
//! While there is time it is done at a lower priority: what it computes and copies would else hold up whoever waits for an
//! answer, for as long as the system lets a thread run.
//!
//! A fold that finds no room is tried again and commits go on until the journal is full. Any other
//! failure ends the store: the archive is then not what it should be.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, RwLock};
use rustix::process::nice;
use tenure_core::Sealed;

use super::archive::{Archive, Group};
use super::kept::KeptKeys;
use super::live::Live;
use super::options::{Fold, Options};
use crate::limits::{FOLD_NICE, FOLD_RETRY_MS_MAX};
use crate::{Batch, Entry, Error, Kept};

/// The owner's handle.
pub(crate) struct Folder<A: Archive> {
    work: Arc<Work<A>>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread and the owner share.
struct Work<A> {
    queue: Mutex<Queue>,
    /// Something is to be done.
    wake: Condvar,
    /// A try is over.
    tried: Condvar,
    archive: Mutex<A>,
    live: Arc<RwLock<Live>>,
    keys: KeptKeys,
    /// The newest batch that the archive has.
    folded_through: AtomicU64,
    fold_bytes: u64,
    fold_after: Duration,
    retain_events: Option<u64>,
}

#[derive(Default)]
struct Queue {
    /// A group that was replayed at start, or whose fold failed. It comes first.
    group: Option<Group>,
    batches: VecDeque<Pending>,
    /// Bytes of the batches.
    bytes: u64,
    /// Somebody waits for the fold.
    hurry: bool,
    /// The thread shall end.
    stop: bool,
    /// Tries so far.
    tries: u64,
    /// Why the newest try did not succeed, where the next one may.
    trouble: Option<Error>,
    /// Why folding is over for good.
    failed: Option<String>,
}

/// How a group is folded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    /// After everything else.
    Aside,
    /// Somebody waits for it, or it falls behind.
    AtOnce,
}

/// A committed batch that waits to be folded.
pub(crate) struct Pending {
    pub(crate) number: u64,
    pub(crate) at_ms: i64,
    pub(crate) entries: Vec<Entry>,
    /// Its bytes, without what fills a page of the journal: many small ones are folded as rarely as few
    /// large ones.
    pub(crate) bytes: u64,
}

impl Pending {
    pub(crate) fn new(number: u64, batch: Batch, bytes: u64) -> Self {
        Self { number, at_ms: batch.at_ms, entries: batch.entries, bytes }
    }
}

impl<A: Archive> Folder<A> {
    /// Starts folding, with the group that was replayed.
    pub(crate) fn start(archive: A, live: Arc<RwLock<Live>>, replayed: Group, options: &Options) -> Self {
        let (keys, folded_through) = {
            let live = live.read();
            (live.kept.keys().clone(), live.folded_through)
        };
        let work = Arc::new(Work {
            queue: Mutex::new(Queue {
                group: (replayed.batches > 0).then_some(replayed),
                ..Queue::default()
            }),
            wake: Condvar::new(),
            tried: Condvar::new(),
            archive: Mutex::new(archive),
            live,
            keys,
            folded_through: AtomicU64::new(folded_through),
            fold_bytes: options.fold_bytes.max(1),
            fold_after: Duration::from_millis(options.fold_after_ms),
            retain_events: options.retain_events,
        });
        let thread = (options.fold == Fold::Thread).then(|| {
            let work = work.clone();
            let builder = std::thread::Builder::new().name("tenure-fold".to_owned());
            builder.spawn(move || work.run()).expect("the system can start a thread")
        });
        Self { work, thread }
    }

    /// The newest batch that the archive has.
    pub(crate) fn folded_through(&self) -> u64 {
        self.work.folded_through.load(Ordering::Acquire)
    }

    /// Queues a batch that is committed and visible.
    pub(crate) fn push(&self, batch: Pending) {
        let mut queue = self.work.queue.lock();
        queue.bytes += batch.bytes;
        queue.batches.push_back(batch);
        // The first one starts the clock; the one that fills the measure ends the wait.
        if queue.batches.len() == 1 || queue.bytes >= self.work.fold_bytes {
            self.work.wake.notify_one();
        }
    }

    /// Refuses to go on once folding has failed for good.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.work.queue.lock().check()
    }

    /// Waits until the archive has a batch. `Full` where it has no room for it.
    pub(crate) fn fold_through(&self, number: u64) -> Result<(), Error> {
        if self.thread.is_none() {
            while self.folded_through() < number {
                self.work.fold_once(u64::MAX, Pace::AtOnce)?;
            }
            return Ok(());
        }
        let mut queue = self.work.queue.lock();
        queue.hurry = true;
        let before = queue.tries;
        self.work.wake.notify_one();
        while self.folded_through() < number {
            queue.check()?;
            if queue.tries > before
                && let Some(trouble) = &queue.trouble
            {
                return Err(passing(trouble));
            }
            self.work.tried.wait(&mut queue);
        }
        Ok(())
    }

    /// Folds up to so many batches now. Answers how many.
    pub(crate) fn fold_now(&self, max_batches: u64) -> Result<u64, Error> {
        self.work.fold_once(max_batches, Pace::AtOnce)
    }

    /// Ends the thread, after what it is at.
    pub(crate) fn stop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.work.queue.lock().stop = true;
            self.work.wake.notify_one();
            // A panic of the thread's is told by `check`.
            let _ = thread.join();
        }
    }

    /// Folds everything and closes the archive.
    pub(crate) fn close(&mut self) -> Result<(), Error> {
        self.stop();
        self.check()?;
        while self.work.fold_once(u64::MAX, Pace::AtOnce)? > 0 {}
        self.work.archive.lock().close()
    }

    /// Folds a batch that the journal does not have: the planted bug.
    pub(crate) fn fold_early(&self, batch: Pending) -> Result<(), Error> {
        self.push(batch);
        while self.work.fold_once(u64::MAX, Pace::AtOnce)? > 0 {}
        Ok(())
    }
}

impl<A: Archive> Drop for Folder<A> {
    fn drop(&mut self) {
        self.stop();
    }
}

impl<A: Archive> Work<A> {
    /// The thread.
    fn run(&self) {
        let _ending = Ending(self);
        let mut pause_ms = 100;
        while let Some(pace) = self.wait_until_due() {
            match self.fold_once(u64::MAX, pace) {
                Ok(_) => pause_ms = 100,
                Err(error) if error.is_fatal() => {
                    tracing::error!(%error, "the fold has ended; no more is committed");
                    return;
                }
                Err(error) => {
                    tracing::warn!(%error, pause_ms, "a fold found no room and will be tried again");
                    let mut queue = self.queue.lock();
                    if !queue.stop && !queue.hurry {
                        self.wake.wait_for(&mut queue, Duration::from_millis(pause_ms));
                    }
                    pause_ms = (pause_ms * 2).min(FOLD_RETRY_MS_MAX);
                }
            }
        }
    }

    /// `None` when the thread shall end.
    fn wait_until_due(&self) -> Option<Pace> {
        let mut queue = self.queue.lock();
        let mut since: Option<Instant> = None;
        loop {
            if queue.stop {
                return None;
            }
            if queue.batches.is_empty() && queue.group.is_none() {
                // Nobody can wait for nothing.
                queue.hurry = false;
                self.wake.wait(&mut queue);
                continue;
            }
            let due = *since.get_or_insert_with(Instant::now) + self.fold_after;
            let now = Instant::now();
            if queue.group.is_some() || queue.hurry || queue.bytes >= self.fold_bytes || now >= due {
                let is_behind = queue.bytes >= 2 * self.fold_bytes;
                let hurries = std::mem::take(&mut queue.hurry) || is_behind;
                return Some(if hurries { Pace::AtOnce } else { Pace::Aside });
            }
            self.wake.wait_until(&mut queue, due);
        }
    }

    /// Folds one group of up to so many batches, and tells whoever waits. Answers how many batches.
    fn fold_once(&self, max_batches: u64, pace: Pace) -> Result<u64, Error> {
        // Held from here to the end, so that groups reach the archive in order.
        let mut held = self.archive.lock();
        let archive = &mut *held;
        let (mut group, mut taken) = self.next_group(max_batches)?;
        if group.batches == 0 && taken.is_empty() {
            return Ok(0);
        }
        let oldest_kept_ms = self.live.read().kept.oldest_ms();
        let folded = at_pace(pace, &mut || {
            for batch in std::mem::take(&mut taken) {
                group.add_batch(batch.number, batch.at_ms, batch.entries, &self.keys);
            }
            group.kept_from_ms = oldest_kept_ms.unwrap_or(i64::MIN).max(group.high_water_ms - Kept::KEEP_MS);
            group.retain_events = self.retain_events;
            group.aside = pace == Pace::Aside;
            archive.fold(&group)
        });
        let batches = group.batches;
        let mut gone = None;
        if folded.is_ok() {
            gone = Some((self.show(&group), std::mem::take(&mut group)));
        }
        let mut queue = self.queue.lock();
        queue.group = (group.batches > 0).then_some(group);
        queue.tries += 1;
        queue.trouble = None;
        match &folded {
            Err(error) if error.is_fatal() => queue.failed = Some(error.to_string()),
            Err(error) => queue.trouble = Some(passing(error)),
            Ok(()) => {}
        }
        drop(queue);
        self.tried.notify_all();
        // A hundred thousand rows and events take as long as a dozen commits.
        at_pace(pace, &mut || drop(gone.take()));
        folded.map(|()| batches)
    }

    /// The archive has a group: lets go of what need not be in memory any more, and answers it. Never at a lower priority,
    /// for commits wait for its locks.
    fn show(&self, group: &Group) -> Vec<VecDeque<Arc<Sealed>>> {
        let unfolded_at_ms = self.queue.lock().batches.front().map(|batch| batch.at_ms);
        let dropped = self.live.write().folded(group, unfolded_at_ms);
        // A lock for each: commits come in between.
        for (place, chunk) in group.kept_places() {
            self.live.write().kept.folded(place, &chunk.ids);
        }
        self.folded_through.store(group.through, Ordering::Release);
        dropped
    }

    /// What comes next: a group that is put together already, or batches.
    fn next_group(&self, max_batches: u64) -> Result<(Group, Vec<Pending>), Error> {
        let mut queue = self.queue.lock();
        queue.check()?;
        let mut taken = Vec::new();
        if let Some(group) = queue.group.take() {
            return Ok((group, taken));
        }
        let mut bytes = 0;
        // Bounded, so that one transaction never has to hold a whole journal.
        while (taken.len() as u64) < max_batches && bytes < 2 * self.fold_bytes {
            let Some(batch) = queue.batches.pop_front() else { break };
            bytes += batch.bytes;
            taken.push(batch);
        }
        queue.bytes -= bytes;
        Ok((Group::default(), taken))
    }
}

/// Works at its pace. Only a thread of its own can be given a lower priority and not keep it.
fn at_pace<T: Send>(pace: Pace, work: &mut (impl FnMut() -> T + Send)) -> T {
    if pace == Pace::AtOnce {
        return work();
    }
    let done = std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().name("tenure-fold".to_owned());
        let spawned = builder.spawn_scoped(scope, || {
            // Where it may not, it works as everyone does.
            let _ = nice(FOLD_NICE);
            work()
        });
        spawned.ok().map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    done.unwrap_or_else(work)
}

impl Queue {
    fn check(&self) -> Result<(), Error> {
        self.failed.as_ref().map_or(Ok(()), |detail| Err(Error::Stopped { detail: detail.clone() }))
    }
}

/// Tells whoever waits when the thread ends by a panic.
struct Ending<'a, A: Archive>(&'a Work<A>);

impl<A: Archive> Drop for Ending<'_, A> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.queue.lock().failed = Some("the fold ended by a panic".to_owned());
            self.0.tried.notify_all();
        }
    }
}

/// An error that may pass, once more.
fn passing(error: &Error) -> Error {
    match error {
        Error::Full { path } => Error::Full { path: path.clone() },
        other => Error::Away { detail: other.to_string() },
    }
}
