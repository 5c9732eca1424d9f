//! Taking over a store: its deadlines, and the time that nobody could use.

use tenure_core::{ClaimState, CollectionKey, Command, Principal, Verb, decide};
use tenure_store::{Batch, ClaimFilter, Entry, Error, Store};

use super::Turn;
use crate::Ticket;
use crate::decided::Decided;
use crate::limits::RESUME_MAX;
use crate::overlay::{Beneath, Overlay};
use crate::round::Round;
use crate::timers::Timer;

impl<S: Store, T: Ticket> Turn<S, T> {
    pub(super) fn find_timers(&mut self) -> Result<(), Error> {
        let reader = self.store.reader();
        let mut filter = ClaimFilter { state: Some(ClaimState::Active), ..ClaimFilter::default() };
        loop {
            let page = reader.claims(&filter, 100_000)?;
            for row in &page.rows {
                self.active += 1;
                self.timers.set(Timer {
                    at_ms: row.claim.expires_at_ms,
                    claim: row.claim.number,
                    collection: row.collection.clone(),
                });
            }
            match page.rows.last() {
                Some(last) if page.more => filter.after = Some((last.collection.clone(), last.claim.number)),
                _ => return Ok(()),
            }
        }
    }

    /// Ends what was over when the server went away, as of then, in commits of the usual size: nothing of
    /// that is left for the one commit that gives the others their time back.
    pub(super) fn expire_overdue(&mut self, at_ms: i64) -> Result<(), Error> {
        while self.timers.next_ms().is_some_and(|next_ms| next_ms <= at_ms) {
            let view = self.store.load(&[])?;
            let mut waiters = self.waiters.lock();
            let beneath = Beneath::new(&view, &self.beneath);
            let mut round = Round::new(
                Overlay::new(&beneath, &mut self.changes),
                Decided::default(),
                (at_ms, at_ms),
                &mut self.timers,
                &mut waiters,
                self.planted,
                false,
            );
            round.expire_due();
            let Decided { entries, active, .. } = round.decided;
            drop(waiters);
            drop(view);
            self.changes.clear();
            self.active += active;
            self.store.commit(Batch { at_ms, entries })?;
        }
        Ok(())
    }

    pub(super) fn resume(&mut self, high_water_ms: i64, away_ms: i64) -> Result<(), Error> {
        let reader = self.store.reader();
        let mut after = None;
        loop {
            let page = reader.collections(after.as_ref(), RESUME_MAX)?;
            let verb = Verb::Resume { shift_ms: away_ms };
            let keys: Vec<CollectionKey> = page.rows.into_iter().map(|(key, _)| key).collect();
            // Only the last page moves the time. After a crash between two pages the next start gives
            // everyone their time back again: too much for some, too little for none.
            let at_ms = if page.more { high_water_ms } else { self.now_ms };
            self.commit_for_each(&keys, &verb, at_ms)?;
            match keys.into_iter().next_back() {
                Some(last) if page.more => after = Some(last),
                _ => return Ok(()),
            }
        }
    }

    /// The system's own command, decided in each of these collections and committed at once.
    fn commit_for_each(&mut self, keys: &[CollectionKey], verb: &Verb, at_ms: i64) -> Result<(), Error> {
        let mut entries = Vec::new();
        let view = self.store.load(&[])?;
        for key in keys {
            let command = Command { collection: key.clone(), actor: Principal::system(), verb: verb.clone() };
            if let Ok(decision) = decide(&view, &command, at_ms)
                && !decision.events.is_empty()
            {
                entries.push(Entry {
                    collection: key.clone(),
                    events: decision.events,
                    beats: decision.beats,
                    changed: decision.changed,
                    kept: None,
                });
            }
        }
        drop(view);
        if entries.is_empty() {
            return Ok(());
        }
        self.store.commit(Batch { at_ms, entries })
    }
}
