//! The engine's inbox: bounded, taken whole.

use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::limits::{BATCH_MAX, QUEUE_MAX};
use crate::turn::News;
use crate::{Pending, Refused, ReplyTo};

/// Requests for which the loop is woken while something is made safe: each time costs as much as deciding a few.
const PORTION: usize = 16;

#[derive(Debug, Default)]
pub(crate) struct Queue {
    inner: Mutex<Inner>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct Inner {
    waiting: Vec<Pending<ReplyTo>>,
    /// What other nodes did.
    news: News,
    closed: bool,
    /// Somebody wants a turn although nothing came.
    woken: bool,
    /// The loop sleeps until this many wait; 0 while it is awake.
    wake_at: usize,
    /// What the loop has begun is safe.
    safe: bool,
}

/// What the loop found.
pub(crate) enum Taken {
    Batch(Vec<Pending<ReplyTo>>),
    /// Closed, and nothing waits any more.
    Closed,
}

impl Queue {
    /// Queues a request, or gives it back with the reason.
    pub(crate) fn push(&self, pending: Pending<ReplyTo>) -> Option<(Pending<ReplyTo>, Refused)> {
        let mut inner = self.inner.lock();
        if inner.closed {
            return Some((pending, Refused::Stopped));
        }
        if inner.waiting.len() >= QUEUE_MAX {
            return Some((pending, Refused::Overloaded));
        }
        inner.waiting.push(pending);
        let wake = inner.wake_at > 0 && inner.waiting.len() >= inner.wake_at;
        drop(inner);
        if wake {
            self.arrived.notify_one();
        }
        None
    }

    pub(crate) fn close(&self) {
        self.inner.lock().closed = true;
        self.arrived.notify_one();
    }

    /// The loop is gone: gives back whoever still waits, to be told.
    pub(crate) fn abandon(&self) -> Vec<Pending<ReplyTo>> {
        self.close();
        std::mem::take(&mut self.inner.lock().waiting)
    }

    /// Tells the loop what other nodes did.
    pub(crate) fn tell(&self, news: News) {
        let mut inner = self.inner.lock();
        inner.news.timers.extend(news.timers);
        inner.news.freed.extend(news.freed);
        inner.woken = true;
        drop(inner);
        self.arrived.notify_one();
    }

    /// Takes what other nodes did.
    pub(crate) fn news(&self) -> News {
        std::mem::take(&mut self.inner.lock().news)
    }

    /// Makes the loop take a turn now.
    pub(crate) fn wake(&self) {
        self.inner.lock().woken = true;
        self.arrived.notify_one();
    }

    pub(crate) fn len(&self) -> usize {
        self.inner.lock().waiting.len()
    }

    /// The loop sleeps until somebody comes or a deadline does; or it is gone.
    pub(crate) fn is_resting(&self) -> bool {
        let inner = self.inner.lock();
        inner.closed || (inner.wake_at == 1 && inner.waiting.is_empty() && !inner.woken)
    }

    /// What the loop has begun is safe.
    pub(crate) fn tell_safe(&self) {
        self.inner.lock().safe = true;
        self.arrived.notify_one();
    }

    /// Takes what comes while something is made safe, in portions that are worth it, and at the end whatever is
    /// there. Answers `true` at the end. With no room left it only waits for that.
    pub(crate) fn take_meanwhile(&self, has_room: bool) -> (Vec<Pending<ReplyTo>>, bool) {
        let mut inner = self.inner.lock();
        let portion = if has_room { PORTION } else { usize::MAX };
        while !inner.safe && inner.waiting.len() < portion {
            inner.wake_at = portion;
            self.arrived.wait(&mut inner);
        }
        inner.wake_at = 0;
        let safe = std::mem::take(&mut inner.safe);
        (if has_room { inner.take() } else { Vec::new() }, safe)
    }

    /// Takes what waits, at most a batch. With nothing waiting, sleeps until something comes or the
    /// deadline passes. `expected` callers were just answered and will likely ask again at once: waits
    /// up to `linger` for that many, so that they share a commit instead of splitting into two.
    pub(crate) fn take(&self, deadline: Option<Instant>, expected: usize, linger: Duration) -> Taken {
        let mut inner = self.inner.lock();
        if expected > 1 && !linger.is_zero() {
            let until = Instant::now() + linger;
            while inner.waiting.len() < expected && !inner.closed {
                inner.wake_at = expected;
                if self.arrived.wait_until(&mut inner, until).timed_out() {
                    break;
                }
            }
            inner.wake_at = 0;
        }
        while inner.waiting.is_empty() && !inner.closed && !inner.woken {
            inner.wake_at = 1;
            let timed_out =
                deadline.is_some_and(|deadline| self.arrived.wait_until(&mut inner, deadline).timed_out());
            if deadline.is_none() {
                self.arrived.wait(&mut inner);
            }
            inner.wake_at = 0;
            if timed_out {
                break;
            }
        }
        inner.woken = false;
        if inner.waiting.is_empty() && inner.closed {
            return Taken::Closed;
        }
        Taken::Batch(inner.take())
    }
}

impl Inner {
    /// At most a batch.
    fn take(&mut self) -> Vec<Pending<ReplyTo>> {
        if self.waiting.len() <= BATCH_MAX {
            return std::mem::take(&mut self.waiting);
        }
        let rest = self.waiting.split_off(BATCH_MAX);
        std::mem::replace(&mut self.waiting, rest)
    }
}
