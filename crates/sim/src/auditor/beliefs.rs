//! What clients may believe (I5): each works out its deadline from before it asked, and must never
//! believe longer than the server.

use std::collections::BTreeMap;

use tenure_core::{Claim, ClaimState, CollectionKey, Event, Fact, Reply, Verb};
use tenure_engine::Answer;

use super::books::Books;
use super::space::ran_out;
use super::time::Time;
use super::{Asked, Check, SYSTEM_ID, violation};

/// Until when, in real time, the holder of a claim relies on it.
#[derive(Debug, Default)]
pub(crate) struct Beliefs(BTreeMap<(CollectionKey, u64), i64>);

impl Beliefs {
    /// Whoever asks for another phase or an end relies on nothing until it is answered.
    pub(crate) fn asked(&mut self, asked: &Asked) {
        let claim = match &asked.command.verb {
            Verb::Advance { claim }
            | Verb::Enter { claim, .. }
            | Verb::Release { claim }
            | Verb::Cancel { claim } => *claim,
            Verb::Complete(complete) => complete.claim,
            _ => return,
        };
        self.0.remove(&(asked.command.collection.clone(), claim));
    }

    pub(crate) fn learned(
        &mut self,
        real_ms: i64,
        asked: &Asked,
        answer: &Answer,
        books: &Books,
        time: &Time,
    ) -> Check {
        let Ok(Reply::Acquired { claim, .. } | Reply::Beat { claim, .. } | Reply::Claim { claim }) =
            &answer.outcome
        else {
            return Ok(());
        };
        if claim.state != ClaimState::Active || claim.holder.id != asked.command.actor.id {
            return Ok(());
        }
        let until_ms = asked.first_real_ms + (claim.expires_at_ms - answer.server_time_ms);
        let key = &asked.command.collection;
        let now = books.space(key).claim(claim.number);
        if now.is_none_or(|now| now.state != ClaimState::Active || now.phase != claim.phase) {
            // It has ended or gone on since; a deadline says nothing about that.
            return Ok(());
        }
        if until_ms <= real_ms {
            return Ok(());
        }
        self.0.insert((key.clone(), claim.number), until_ms);
        match now {
            Some(now) => self.compare(key, now, now.expires_at_ms, time),
            None => Ok(()),
        }
    }

    /// A deadline was reached or moved. `recovered`: by a server that is gone, whose deadlines are not
    /// the ones that count now.
    pub(crate) fn happened(
        &mut self,
        key: &CollectionKey,
        event: &Event,
        time: &Time,
        recovered: bool,
    ) -> Check {
        let (claim, deadline_ms) = match &event.fact {
            Fact::Ended(end) if ran_out(end.reason) => {
                let judged = self.compare_number(key, end.claim, end.ended_at_ms, time);
                self.0.remove(&(key.clone(), end.claim));
                return judged;
            }
            Fact::Ended(end) => {
                self.0.remove(&(key.clone(), end.claim));
                return Ok(());
            }
            Fact::Advanced { claim, .. } if &*event.actor.id != SYSTEM_ID => {
                self.0.remove(&(key.clone(), *claim));
                return Ok(());
            }
            Fact::Renewed { claim, expires_at_ms, .. } | Fact::Advanced { claim, expires_at_ms, .. } => {
                (*claim, *expires_at_ms)
            }
            Fact::ItemPut { under: Some(acted), .. } => (acted.claim, acted.expires_at_ms),
            _ => return Ok(()),
        };
        if recovered { Ok(()) } else { self.compare_number(key, claim, deadline_ms, time) }
    }

    /// After a restart, when all deadlines may have moved.
    pub(crate) fn compare_all(&self, books: &Books, time: &Time) -> Check {
        for (key, number) in self.0.keys() {
            if let Some(claim) = books.space(key).claim(*number) {
                self.compare(key, claim, claim.expires_at_ms, time)?;
            }
        }
        Ok(())
    }

    fn compare(&self, key: &CollectionKey, claim: &Claim, deadline_ms: i64, time: &Time) -> Check {
        self.compare_number(key, claim.number, deadline_ms, time)
    }

    fn compare_number(&self, key: &CollectionKey, claim: u64, deadline_ms: i64, time: &Time) -> Check {
        let Some(until_ms) = self.0.get(&(key.clone(), claim)) else { return Ok(()) };
        let real_ms = time.real_ms(deadline_ms);
        if *until_ms > real_ms {
            return violation(
                "I5",
                format!(
                    "{key}: the holder of claim {claim} relies on it until {until_ms}, the server until {real_ms}"
                ),
            );
        }
        Ok(())
    }
}
