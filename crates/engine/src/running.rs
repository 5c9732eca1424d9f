//! The loop on its thread: waits, takes what came, runs turns, sends the answers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tenure_store::{Done, Error, Store};

use crate::engine::{Options, Time, tell_of_panic};
use crate::limits::BESIDE_MIN;
use crate::queue::{Queue, Taken};
use crate::turn::{Answered, Pending, Turn};
use crate::{Answer, Refused, ReplyTo};

/// Until the queue is closed, or the store fails.
pub(crate) fn run<S: Store>(
    turn: Turn<S, ReplyTo>,
    queue: &Arc<Queue>,
    time: &Time,
    options: &Options,
) -> Result<(), Error> {
    let closing = Closing(queue, time, options);
    let shared = turn.store().is_shared();
    let mut running = Running { turn, queue, time, options, answers: Vec::new(), answered: 0 };
    loop {
        let deadline = running.turn.next_ms().map(|next_ms| {
            let ahead_ms = u64::try_from(next_ms - time.clock_ms()).unwrap_or(0);
            Instant::now() + Duration::from_millis(ahead_ms)
        });
        let inbox = match queue.take(deadline, running.answered, options.linger) {
            Taken::Batch(inbox) => inbox,
            Taken::Closed if running.turn.is_behind() => Vec::new(),
            Taken::Closed => break,
        };
        if shared {
            running.turn.set_offset_ms(time.offset_ms());
            running.turn.hear(queue.news());
            // Told of a deadline that has not come: a turn would only ask for the time.
            let due = running.turn.next_ms().is_some_and(|next_ms| next_ms <= time.clock_ms());
            if inbox.is_empty() && !due {
                continue;
            }
        }
        if let Err(error) = running.turns(inbox) {
            running.turn.dismiss(&mut running.answers);
            running.send();
            tracing::error!(%error, "the store failed; the engine stops");
            options.observer.failed(&error);
            return Err(error);
        }
    }
    drop(closing);
    let Running { turn, mut answers, .. } = running;
    let closed = turn.close(&mut answers);
    for done in answers {
        done.ticket.send(done.answer);
    }
    closed.map(drop)
}

/// The loop at work.
struct Running<'a, S, T> {
    turn: Turn<S, T>,
    queue: &'a Arc<Queue>,
    time: &'a Time,
    options: &'a Options,
    answers: Vec<Answered<T>>,
    /// How many were answered last.
    answered: usize,
}

impl<S: Store> Running<'_, S, ReplyTo> {
    /// Decides and commits what came, and what comes meanwhile: while one commit is made safe the next is decided. Ends
    /// when nothing is left that is decided and not committed.
    fn turns(&mut self, inbox: Vec<Pending<ReplyTo>>) -> Result<(), Error> {
        self.decide(inbox)?;
        loop {
            let is_worth_it = self.turn.ahead() >= BESIDE_MIN && self.turn.store().overlaps();
            let beside = is_worth_it.then(|| {
                let queue = self.queue.clone();
                Arc::new(move || queue.tell_safe()) as Done
            });
            let meanwhile = beside.is_some();
            let is_begun = self.turn.begin(beside, &mut self.answers);
            self.send();
            let mut is_safe = !(is_begun? && meanwhile);
            while !is_safe {
                let inbox;
                (inbox, is_safe) = self.queue.take_meanwhile(self.turn.has_room());
                if !inbox.is_empty() {
                    self.decide(inbox)?;
                }
            }
            let completed = self.turn.complete(&mut self.answers);
            self.send();
            self.options.observer.turn(&completed?);
            if !self.turn.is_ahead() {
                return Ok(());
            }
        }
    }

    fn decide(&mut self, inbox: Vec<Pending<ReplyTo>>) -> Result<(), Error> {
        let decided = self.turn.decide(self.time.clock_ms(), inbox, &mut self.answers);
        self.time.went_on(self.turn.now_ms());
        decided
    }

    /// Sends what is answered.
    fn send(&mut self) {
        self.answered = self.answers.len();
        for done in self.answers.drain(..) {
            if !done.ticket.send(done.answer)
                && let Some(command) = done.if_gone
            {
                // Refused only when the queue is full or closing; the claim then runs out by itself.
                let _ = self.queue.push(Pending { request: (*command).into(), ticket: ReplyTo::Nobody });
            }
        }
    }
}

/// Closes the queue however the loop ends, and tells those in it, so that nobody waits for a thread
/// that is gone.
struct Closing<'a>(&'a Queue, &'a Time, &'a Options);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        tell_of_panic(self.2);
        let server_time_ms = self.1.now_ms();
        for pending in self.0.abandon() {
            pending.ticket.send(Answer { server_time_ms, outcome: Err(Refused::Stopped), replayed: false });
        }
    }
}
