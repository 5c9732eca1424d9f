//! Callers that wait for held items: granted only while they are there (I7), in the order in which they
//! came, and not left waiting for what is free (I18).

use std::collections::BTreeMap;
use std::sync::Arc;

use tenure_core::{Fact, ItemId, Verb};

use super::books::Books;
use super::keys::{KeyId, key_id};
use super::{Asked, Check, violation};

#[derive(Clone, Debug, Default)]
pub(crate) struct Waiting {
    next: u64,
    waiters: BTreeMap<u64, Waiter>,
}

#[derive(Clone, Debug)]
pub(crate) struct Waiter {
    pub(crate) delivery: u64,
    pub(crate) asked: Arc<Asked>,
    pub(crate) until_ms: i64,
    pub(crate) gone: bool,
    /// Since when nothing stands in its way.
    free_since_ms: Option<i64>,
}

pub(crate) fn wait_ms(asked: &Asked) -> i64 {
    match &asked.command.verb {
        Verb::Acquire(acquire) => acquire.wait_ms.unwrap_or(0),
        _ => 0,
    }
}

impl Waiting {
    pub(crate) fn begin(&mut self, delivery: u64, asked: Arc<Asked>, now_ms: i64) {
        let until_ms = now_ms + wait_ms(&asked);
        self.waiters
            .insert(self.next, Waiter { delivery, asked, until_ms, gone: false, free_since_ms: None });
        self.next += 1;
    }

    pub(crate) fn leave(&mut self, delivery: u64) {
        if let Some(waiter) = self.waiters.values_mut().find(|waiter| waiter.delivery == delivery) {
            waiter.gone = true;
        }
    }

    pub(crate) fn end(&mut self, delivery: u64) -> Option<(u64, Waiter)> {
        let (order, _) = self.waiters.iter().find(|(_, waiter)| waiter.delivery == delivery)?;
        let order = *order;
        self.waiters.remove(&order).map(|waiter| (order, waiter))
    }

    /// Those who are still there, in the order in which they came.
    pub(crate) fn there(&self) -> impl Iterator<Item = (u64, &Waiter)> {
        self.waiters.iter().filter(|(_, waiter)| !waiter.gone).map(|(order, waiter)| (*order, waiter))
    }

    pub(crate) fn is_running(&self, id: &KeyId) -> bool {
        self.there().any(|(_, waiter)| {
            let idempotency = waiter.asked.idempotency.as_ref();
            idempotency.is_some_and(|idempotency| key_id(&waiter.asked.command, idempotency) == *id)
        })
    }

    pub(crate) fn clear(&mut self) {
        self.waiters.clear();
    }
}

/// Nobody who came earlier for this one item may be overtaken. `order` is the place of the one who is
/// about to be granted; one who never waited came last.
pub(crate) fn check_order(books: &Books, asked: &Asked, order: Option<u64>, now_ms: i64) -> Check {
    let Verb::Acquire(acquire) = &asked.command.verb else { return Ok(()) };
    for (place, waiter) in books.waiting.there() {
        let Verb::Acquire(wanted) = &waiter.asked.command.verb else { continue };
        let same_place = waiter.asked.command.collection == asked.command.collection;
        let [item]: &[ItemId] = &wanted.items[..] else { continue };
        if !same_place || !acquire.items.contains(item) || order.is_some_and(|order| order < place) {
            continue;
        }
        if would_be_granted(books, waiter, now_ms) {
            let (late, early) = (&asked.command.actor.id, &waiter.asked.command.actor.id);
            return violation(
                "fcfs",
                format!("{late} got item {item} of {} before {early}, who waited", asked.command.collection),
            );
        }
    }
    Ok(())
}

fn would_be_granted(books: &Books, waiter: &Waiter, now_ms: i64) -> bool {
    let prediction = books.predict(&waiter.asked, now_ms);
    prediction.events.iter().any(|event| matches!(event.fact, Fact::Granted(_)))
}

/// After a turn without faults nobody waits longer than a second for what is free, or after the end of
/// the wait that was asked for.
pub(crate) fn check_served(books: &mut Books, now_ms: i64) -> Check {
    let mut free = Vec::new();
    for (order, waiter) in books.waiting.there() {
        let who = &waiter.asked.command.actor.id;
        if now_ms >= waiter.until_ms + 1_000 {
            return violation(
                "I18",
                format!("{who} waited until {} and had no answer at {now_ms}", waiter.until_ms),
            );
        }
        // A holder that waits for what it got by another request is not counted: nothing is free.
        let is_free = would_be_granted(books, waiter, now_ms);
        let since_ms = is_free.then(|| waiter.free_since_ms.unwrap_or(now_ms));
        if since_ms.is_some_and(|since_ms| now_ms >= since_ms + 1_000) {
            let verb = &waiter.asked.command.verb;
            return violation(
                "I18",
                format!("{who} waits at {now_ms} for what has been free since {since_ms:?}: {verb:?}"),
            );
        }
        free.push((order, since_ms));
    }
    for (order, since_ms) in free {
        if let Some(waiter) = books.waiting.waiters.get_mut(&order) {
            waiter.free_since_ms = since_ms;
        }
    }
    books.waiting.waiters.retain(|_, waiter| !waiter.gone || now_ms < waiter.until_ms + 1_000);
    Ok(())
}
