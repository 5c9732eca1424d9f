//! After a crash: what was acknowledged is there, what was refused left no trace, and what is unknown
//! happened wholly or not at all (I11). Claims that were alive keep the time they had (`resume`).

use std::collections::BTreeMap;
use std::sync::Arc;

use tenure_core::{CollectionKey, Fact, Refusal, Reply, Sealed};
use tenure_engine::{Answer, Refused};
use tenure_store::Reader;

use super::books::Books;
use super::keys::key_id;
use super::time::Time;
use super::waiting::wait_ms;
use super::{Asked, Auditor, Check, Violation, violation};

/// The turn in which the server died.
#[derive(Clone, Debug)]
pub(crate) struct Unknown {
    pub(crate) delivered: Vec<(u64, Arc<Asked>)>,
    /// Answers that left before the death: they must be true.
    pub(crate) promised: Vec<(u64, Answer)>,
    pub(crate) server_ms: i64,
}

impl Auditor {
    /// The server is back, or up for the first time.
    pub fn started(&mut self, real_ms: i64, server_ms: i64, reader: &dyn Reader) -> Check {
        self.time.started(real_ms, server_ms)?;
        self.read_events(reader)?;
        self.feeds.check_rumours(&self.log)?;
        let unknown = self.unknown.take();
        let without = self.suppose(None, server_ms, reader);
        let with = unknown.as_ref().map(|unknown| self.suppose(Some(unknown), server_ms, reader));
        let promised = unknown.as_ref().is_some_and(|unknown| !unknown.promised.is_empty());
        self.books = match (without, with) {
            (Ok(_), Some(Err(lost))) if promised => {
                let detail = format!("answered, but not there after the crash; {}", lost.detail);
                return violation("I11", detail);
            }
            (_, Some(Ok(books))) if promised => books,
            // Nothing tells the two apart but the kept answers: a retry will show.
            (Ok(mut books), Some(Ok(perhaps))) => {
                books.keys.perhaps(&perhaps.keys);
                books
            }
            (Ok(books), _) => {
                self.figures.unknown[1] += u64::from(unknown.is_some());
                books
            }
            (Err(_), Some(Ok(books))) => {
                self.figures.unknown[0] += 1;
                books
            }
            (Err(_), Some(Err(violation))) | (Err(violation), None) => return Err(violation),
        };
        self.books.waiting.clear();
        self.books.learn_from_rows();
        self.books.quiet_commit = false;
        let resumed = self.books.explained.iter().any(|(_, sealed)| is_resumed(sealed));
        self.time.maybe_ms = self.time.maybe_ms.max(server_ms);
        if resumed {
            self.time.committed_ms = server_ms;
        }
        self.look_at_explained(false, true)?;
        self.beliefs.compare_all(&self.books, &self.time)
    }

    /// The books as they must be if the unknown turn was committed, or if there was none.
    fn suppose(
        &self,
        unknown: Option<&Unknown>,
        server_ms: i64,
        reader: &dyn Reader,
    ) -> Result<Books, Violation> {
        let mut books = self.books.clone();
        if let Some(unknown) = unknown {
            replay(&mut books, unknown)?;
        }
        resume(&mut books, &self.time, server_ms)?;
        let keys: Vec<CollectionKey> = self.log.keys().cloned().collect();
        for key in &keys {
            books.compare_rows(key, reader)?;
        }
        Ok(books)
    }
}

/// A turn without answers, explained from what it left behind.
fn replay(books: &mut Books, unknown: &Unknown) -> Check {
    let now_ms = unknown.server_ms;
    books.take_all_by_themselves(now_ms)?;
    serve(books, now_ms)?;
    for (delivery, asked) in &unknown.delivered {
        let answer = unknown.promised.iter().find(|(promised, _)| promised == delivery);
        let answer = answer.map(|(_, answer)| &answer.outcome);
        replay_one(books, *delivery, asked, answer, now_ms)?;
        serve(books, now_ms)?;
    }
    let ended: Vec<u64> = books
        .waiting
        .there()
        .filter(|(_, waiter)| waiter.until_ms <= now_ms)
        .map(|(_, waiter)| waiter.delivery)
        .collect();
    for delivery in ended {
        if let Some((_, waiter)) = books.waiting.end(delivery) {
            let prediction = books.predict(&waiter.asked, now_ms);
            if books.next_are(&waiter.asked.command.collection, &prediction) {
                books.apply(&waiter.asked.command.collection, &prediction)?;
                books.keep(&waiter.asked, now_ms, &prediction, (false, false));
            }
        }
    }
    books.take_all_by_themselves(now_ms)
}

fn replay_one(
    books: &mut Books,
    delivery: u64,
    asked: &Arc<Asked>,
    answer: Option<&Result<Reply, Refused>>,
    now_ms: i64,
) -> Check {
    if let Some(idempotency) = &asked.idempotency {
        let id = key_id(&asked.command, idempotency);
        if books.keys.is_kept(&id, now_ms) || books.waiting.is_running(&id) {
            return Ok(());
        }
    }
    let prediction = books.predict(asked, now_ms);
    if wait_ms(asked) > 0 && matches!(prediction.outcome, Err(Refusal::Held { .. })) {
        books.waiting.begin(delivery, asked.clone(), now_ms);
        return Ok(());
    }
    let prediction = books.explain(asked, now_ms, answer)?;
    books.keep(asked, now_ms, &prediction, (true, answer.is_some()));
    Ok(())
}

/// Waiters whose grant is the next event.
fn serve(books: &mut Books, now_ms: i64) -> Check {
    loop {
        let next = books.waiting.there().find_map(|(_, waiter)| {
            let prediction = books.predict(&waiter.asked, now_ms);
            let next = !prediction.events.is_empty()
                && books.next_are(&waiter.asked.command.collection, &prediction);
            next.then_some((waiter.delivery, prediction))
        });
        let Some((delivery, prediction)) = next else { return Ok(()) };
        let Some((_, waiter)) = books.waiting.end(delivery) else { return Ok(()) };
        books.apply(&waiter.asked.command.collection, &prediction)?;
        books.keep(&waiter.asked, now_ms, &prediction, (true, false));
    }
}

/// Each live claim gets back the time that passed since the last commit: not less, and not more. Those
/// that had run out before are ended first.
fn resume(books: &mut Books, time: &Time, server_ms: i64) -> Check {
    let mut shifts: BTreeMap<i64, i64> = BTreeMap::new();
    for (key, queue) in &books.queue {
        for sealed in queue {
            let event = &sealed.event;
            if let Fact::Resumed { shift_ms } = &event.fact
                && *shifts.entry(event.at_ms).or_insert(*shift_ms) != *shift_ms
            {
                return violation("resume", format!("{key}: resumed by {shift_ms}, others by another time"));
            }
        }
    }
    let (mut low_ms, mut high_ms) = (time.committed_ms, time.maybe_ms);
    for (at_ms, shift_ms) in &shifts {
        let stopped_at_ms = at_ms - shift_ms;
        if stopped_at_ms < low_ms || stopped_at_ms > high_ms {
            return violation(
                "resume",
                format!("resumed at {at_ms} as if stopped at {stopped_at_ms}; it was {low_ms} to {high_ms}"),
            );
        }
        (low_ms, high_ms) = (*at_ms, *at_ms);
        resume_all(books, *at_ms, stopped_at_ms)?;
    }
    let keys: Vec<CollectionKey> = books.queue.keys().cloned().collect();
    for key in keys {
        // Where nothing was alive, only ends are told.
        while books.take_as_of(&key, high_ms, None)? {}
    }
    books.all_explained()?;
    if server_ms > high_ms {
        for (key, space) in books.spaces() {
            let live = |number: &u64| space.claim(*number).is_some_and(|claim| claim.expires_at_ms > high_ms);
            if let Some(number) = space.active.iter().find(|number| live(number)) {
                return violation(
                    "resume",
                    format!("{key}: claim {number} lost the time from {high_ms} to {server_ms}"),
                );
            }
        }
    }
    Ok(())
}

/// Every collection with active claims must have heard of this resumption.
fn resume_all(books: &mut Books, at_ms: i64, stopped_at_ms: i64) -> Check {
    let keys: Vec<CollectionKey> = books.spaces().map(|(key, _)| key.clone()).collect();
    for key in keys {
        // What was over by then is told as of then, before the time moves.
        while books.take_as_of(&key, stopped_at_ms, Some(stopped_at_ms))? {}
        let told = books.queue.get(&key).and_then(|queue| queue.front());
        if told.is_some_and(|sealed| is_resumed(sealed) && sealed.event.at_ms == at_ms) {
            books.pop_and_fold(&key)?;
            continue;
        }
        let space = books.space(&key);
        let live =
            |number: &u64| space.claim(*number).is_some_and(|claim| claim.expires_at_ms > stopped_at_ms);
        if let Some(number) = space.active.iter().find(|number| live(number)) {
            return violation("resume", format!("{key}: claim {number} got no time back at {at_ms}"));
        }
    }
    Ok(())
}

fn is_resumed(sealed: &Sealed) -> bool {
    matches!(sealed.event.fact, Fact::Resumed { .. })
}
