//! What this process knows of payments without reading: when which is to be looked at, and figures. All of it can
//! be found again by reading.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::model::{AttemptDoc, State};
use super::settle::due_ms;

/// Attempts that wait for something, and until when.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    due: Mutex<BTreeMap<String, i64>>,
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

    /// What is due, each once: it notes itself again.
    pub(super) fn due(&self, now_ms: i64) -> Vec<String> {
        let mut due = self.due.lock();
        let now: Vec<String> =
            due.iter().filter(|(_, due_ms)| **due_ms <= now_ms).map(|(id, _)| id.clone()).collect();
        for id in &now {
            due.remove(id);
        }
        now
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
