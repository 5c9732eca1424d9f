//! Reserve numbers: all or none, in one commit with everything that has to hold for it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use tenure_core::command::Acquire;
use tenure_core::refusal::Why;
use tenure_core::{AtEnd, Claim, CollectionKey, Expect, ItemId, Json, Refusal as Rule, SessionId, Verb};

use super::model::{Link, RaffleDoc, ReservationDoc};
use super::{
    KIND, NewReservation, RESERVATIONS, Raffles, Reservation, number_item, number_of, status, unchanged,
};
use crate::desk::is_raced;
use crate::{Actor, Desk, Document, Done, Permission, Person, Refusal, Result, put};

/// A reservation, and whether this request made it.
#[derive(Clone, Debug)]
pub struct Reserved {
    /// It.
    pub reservation: Reservation,
    /// It is new; otherwise the session had it already.
    pub is_new: bool,
}

impl Raffles {
    /// Reserves numbers. A session that has an open reservation in the raffle gets that one back.
    pub async fn reserve(&self, actor: &Actor, new: &NewReservation) -> Result<Done<Reserved>> {
        let done = self.try_reserve(actor, new).await;
        done.inspect_err(|refusal| {
            let (who, raffle, code) = (&*actor.principal.id, &*new.raffle_id, refusal.code());
            tracing::info!(actor = who, raffle, code, "reservation denied: {refusal}");
        })
    }

    async fn try_reserve(&self, actor: &Actor, new: &NewReservation) -> Result<Done<Reserved>> {
        actor.require(Permission::RaffleBuy)?;
        let session = SessionId::new(new.session_id.as_str())
            .map_err(|_| Refusal::invalid("session_id", "has 1 to 128 bytes and no control characters"))?;
        self.check_count(&new.number_ids)?;
        let (collection, _) = self.raffle(&new.raffle_id)?;
        let item = RESERVATIONS.id(&self.desk.fresh_id(""))?;
        let (mut existing, last) = (None, AtomicUsize::new(0));
        let plan = || {
            let (_, raffle) = self.raffle(&new.raffle_id)?;
            let now_ms = self.desk.now_ms();
            // Read before the claims: who reserves meanwhile has written it, and this plan is made anew.
            let buyer = self.buyer(&collection, &actor.principal.id)?;
            let held = self.held_by(&collection, &actor.principal.id, now_ms)?;
            let of_session = held.iter().find(|(claim, _)| claim.session.as_ref() == Some(&session));
            if let Some((_, link)) = of_session {
                let item = ItemId::new(link.reservation.as_str()).map_err(|_| Refusal::Broken)?;
                // Nothing changes; but a key must be kept with this answer, and that takes a commit.
                let kept = actor.key.as_ref().map(|_| self.rewritten(&collection, &item)).transpose()?;
                existing = Some(item);
                return Ok(kept);
            }
            raffle.require_active(&new.raffle_id)?;
            check_numbers(&raffle, &new.number_ids)?;
            own_already(&held, &new.number_ids, now_ms)?;
            self.check_open(held.len())?;
            let count = held.iter().map(|(claim, _)| claim.items.len()).sum();
            self.check_numbers(&buyer, count, new.number_ids.len())?;
            self.check_churn(&collection, &buyer, now_ms)?;
            let document = ReservationDoc {
                owner: Person::from(&actor.principal),
                session: new.session_id.clone(),
                numbers: new.number_ids.clone(),
                price_minor: raffle.data.price_minor,
                currency: raffle.data.currency.clone(),
                since_ms: now_ms,
                selection_until_ms: self.selection_ms()?.map(|ttl_ms| now_ms + ttl_ms),
                checkout_ms: None,
                checkout_left_ms: None,
                amended_by: None,
                ended_ms: None,
            };
            let mut verbs = vec![
                buyer.reserves(&item, now_ms, unchanged(&raffle))?,
                put(&item, &status("pending"), &document, Expect::Absent, None)?,
            ];
            let mut items = Vec::with_capacity(new.number_ids.len());
            for number in &new.number_ids {
                verbs.extend(self.made(&collection, *number)?);
                items.push(number_item(*number)?);
            }
            let data = Some(Json::of(&Link { reservation: item.to_string() })?);
            let session = Some(session.clone());
            last.store(verbs.len(), Ordering::Relaxed);
            verbs.push(Verb::Acquire(Acquire { items, session, data, ..Acquire::default() }));
            Ok(Some(Verb::Group(verbs)))
        };
        let is_race = |refusal: &Refusal| is_race(refusal, last.load(Ordering::Relaxed));
        let done = self.desk.attempt((actor, &collection, Desk::OWN_STEP), is_race, plan).await;
        let done = done.map_err(|refusal| self.taken(refusal))?;
        let Some(done) = done else {
            let item = existing.ok_or(Refusal::Broken)?;
            let reservation = self.shown(&collection, &item)?;
            let at_ms = reservation.server_time.0;
            return Ok(Done { value: Reserved { reservation, is_new: false }, at_ms, replayed: false });
        };
        // A retry's own id is not the one that was made.
        let made = done.written(RESERVATIONS)?;
        let reservation = self.shown(&collection, &made.id)?;
        Ok(done.show(Reserved { reservation, is_new: made.version == 1 }))
    }

    /// The reservation's document over itself.
    fn rewritten(&self, collection: &CollectionKey, item: &ItemId) -> Result<Verb> {
        let document: Document<ReservationDoc> = self.desk.find(collection, item)?.ok_or(Refusal::Broken)?;
        document.put(&document.item.status, &document.data, None)
    }

    /// R1: 1 to 10 distinct numbers; how many is the policy's to say.
    fn check_count(&self, numbers: &[u32]) -> Result<()> {
        let max = self.desk.policy(KIND)?.ok_or(Refusal::Broken)?.max_items;
        if numbers.is_empty() || numbers.len() > max {
            return Err(Refusal::invalid("number_ids", format!("must be 1 to {max} numbers")));
        }
        let mut seen = BTreeSet::new();
        match numbers.iter().position(|number| !seen.insert(number)) {
            Some(index) => Err(Refusal::invalid(format!("number_ids[{index}]"), "stands twice")),
            None => Ok(()),
        }
    }

    /// How long numbers are chosen, where checkout follows by itself.
    fn selection_ms(&self) -> Result<Option<i64>> {
        let policy = self.desk.policy(KIND)?.ok_or(Refusal::Broken)?;
        let first = policy.phases.first().filter(|first| first.at_end == AtEnd::Advance);
        Ok(first.map(|first| first.ttl_ms))
    }

    /// Makes the number, if nobody ever wanted it before.
    pub(super) fn made(&self, collection: &CollectionKey, number: u32) -> Result<Option<Verb>> {
        let item = number_item(number)?;
        if self.desk.reader().item(collection, &item)?.is_some() {
            return Ok(None);
        }
        let write = tenure_core::ItemWrite { item, status: Some(status("available")), data: None };
        let (expect, guard) = (Expect::Absent, None);
        Ok(Some(Verb::PutItem(tenure_core::command::PutItem { write, expect, guard })))
    }

    /// The engine says who has which number; outside only which ones nobody could have.
    pub(super) fn taken(&self, refusal: Refusal) -> Refusal {
        let (Some(rule), now_ms) = (refusal.rule(), self.desk.now_ms()) else { return refusal };
        let (Rule::Held { items } | Rule::Finished { items } | Rule::NotClaimable { items }) = rule else {
            return refusal;
        };
        let numbers = items.iter().filter_map(|unavailable| number_of(&unavailable.item)).collect();
        let is_final = items.iter().any(|unavailable| !matches!(unavailable.why, Why::Held { .. }));
        let wait_ms = rule.retry_at_ms().filter(|_| !is_final).map(|at_ms| (at_ms - now_ms).max(0));
        Refusal::Taken { numbers, wait_ms }
    }
}

/// A number that the same person holds in another tab is as taken as any: the engine would give them their own
/// claim back, and the new reservation would hold nothing.
fn own_already(held: &[(Claim, Link)], numbers: &[u32], now_ms: i64) -> Result<()> {
    let (mut taken, mut wait_ms) = (Vec::new(), 0);
    for (claim, _) in held {
        let own: Vec<u32> = claim.items.iter().filter_map(number_of).collect();
        let asked = numbers.iter().copied().filter(|number| own.contains(number));
        let before = taken.len();
        taken.extend(asked);
        if taken.len() > before {
            wait_ms = wait_ms.max(claim.expires_at_ms - now_ms);
        }
    }
    if taken.is_empty() {
        return Ok(());
    }
    taken.sort_unstable();
    Err(Refusal::Taken { numbers: taken, wait_ms: Some(wait_ms) })
}

/// Numbers of this raffle.
pub(super) fn check_numbers(raffle: &Document<RaffleDoc>, numbers: &[u32]) -> Result<()> {
    let last = raffle.data.numbers;
    match numbers.iter().position(|number| !(1..=last).contains(number)) {
        Some(index) => Err(Refusal::invalid(format!("number_ids[{index}]"), format!("must be 1 to {last}"))),
        None => Ok(()),
    }
}

/// Besides what every plan calls a race: a number that the plan wanted to make is there by now, and held. Who
/// then claims it learns of all numbers that cannot be had, not only of this one. The claim is at `last`.
pub(super) fn is_race(refusal: &Refusal, last: usize) -> bool {
    let is_before = matches!(refusal, Refusal::Engine { index: Some(index), .. } if *index < last);
    is_raced(refusal) || is_before && matches!(refusal.rule(), Some(Rule::Held { .. }))
}
