//! What this process knows of payments without reading: when which is to be looked at, and figures. All of it can
//! be found again by reading.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::model::{AttemptDoc, State};
use super::settle::due_ms;

/// Between two looks that a buyer's reloads bring about.
const LOOK_PAUSE_MS: i64 = 5_000;

/// Attempts that wait for something, and until when.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    due: Mutex<BTreeMap<String, i64>>,
    /// Those that a process left behind, to be looked at whatever their time.
    urgent: Mutex<BTreeSet<String>>,
    /// Those that somebody looks at just now.
    running: Mutex<BTreeSet<String>>,
    /// When a buyer last made the provider be asked out of turn.
    looks: Mutex<BTreeMap<String, i64>>,
    /// Money that somebody is owed.
    owed: Mutex<BTreeSet<String>>,
}

impl Agenda {
    pub(super) fn note(&self, id: &str, attempt: &AttemptDoc, state: State) {
        let mut due = self.due.lock();
        match due_ms(attempt, state) {
            Some(due_ms) => due.insert(id.to_owned(), due_ms),
            None => due.remove(id),
        };
        drop(due);
        let mut owed = self.owed.lock();
        if matches!(state, State::PaidUnassigned | State::RefundPending | State::RefundFailed) {
            owed.insert(id.to_owned());
        } else {
            owed.remove(id);
        }
    }

    /// This one is due, whatever its time.
    pub(super) fn hurry(&self, id: &str) {
        self.urgent.lock().insert(id.to_owned());
    }

    /// What is due, at most so many, and whether it is urgent. Each notes itself again, and is not given out a
    /// second time before it is [`Self::done`].
    pub(super) fn due(&self, now_ms: i64, at_most: usize) -> Vec<(String, bool)> {
        let (mut due, mut urgent, mut running) = (self.due.lock(), self.urgent.lock(), self.running.lock());
        let timely = due.iter().filter(|(_, due_ms)| **due_ms <= now_ms).map(|(id, _)| id.clone());
        let all: BTreeSet<String> = urgent.iter().cloned().chain(timely).collect();
        let now: Vec<_> = all.into_iter().filter(|id| !running.contains(id)).take(at_most).collect();
        let taken = now.into_iter().map(|id| {
            due.remove(&id);
            running.insert(id.clone());
            let is_urgent = urgent.remove(&id);
            (id, is_urgent)
        });
        taken.collect()
    }

    /// Nobody looks at it any more.
    pub(super) fn done(&self, id: &str) {
        self.running.lock().remove(id);
    }

    /// Notes a look out of turn, unless there was one just now.
    pub(super) fn may_look(&self, id: &str, now_ms: i64) -> bool {
        let mut looks = self.looks.lock();
        looks.retain(|_, at_ms| now_ms - *at_ms < LOOK_PAUSE_MS);
        let is_new = !looks.contains_key(id);
        if is_new {
            looks.insert(id.to_owned(), now_ms);
        }
        is_new
    }

    fn owed(&self) -> usize {
        self.owed.lock().len()
    }
}

/// Counts since the start.
#[derive(Debug, Default)]
pub(super) struct Figures {
    by_provider: Mutex<BTreeMap<String, (u64, u64)>>,
    late: AtomicU64,
}

/// Figures for the operator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PaymentFigures {
    /// By provider: attempts that began, and that succeeded. One by the other is the conversion.
    pub by_provider: Vec<(String, u64, u64)>,
    /// Payments whose numbers had to be taken again.
    pub late: u64,
    /// Money that somebody is owed: attempts whose refund is open or has failed.
    pub refunds_open: u64,
}

impl Figures {
    pub(super) fn started(&self, provider: &str) {
        self.by_provider.lock().entry(provider.to_owned()).or_default().0 += 1;
    }

    pub(super) fn succeeded(&self, provider: &str) {
        self.by_provider.lock().entry(provider.to_owned()).or_default().1 += 1;
    }

    pub(super) fn late(&self) {
        self.late.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn read(&self, agenda: &Agenda) -> PaymentFigures {
        let by_provider = self.by_provider.lock();
        let by_provider =
            by_provider.iter().map(|(code, (begun, paid))| (code.clone(), *begun, *paid)).collect();
        let refunds_open = agenda.owed() as u64;
        PaymentFigures { by_provider, late: self.late.load(Ordering::Relaxed), refunds_open }
    }
}
