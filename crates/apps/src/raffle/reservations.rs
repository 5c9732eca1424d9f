//! A reservation after it was made: shown, amended, taken to checkout, given up, run out.

use std::sync::atomic::{AtomicUsize, Ordering};

use tenure_core::{Claim, ClaimState, CollectionKey, ItemId, Refusal as Rule, Verb, seen_at};
use tenure_engine::ClaimFilter;

use super::model::{Link, ReservationDoc};
use super::reserve::{check_numbers, is_race};
use super::{
    Expired, KIND, Order, PAGE_MAX, RESERVATIONS, Raffles, Reservation, ReservationPage, ReservationStatus,
    number_item, reservation_id, status, unchanged,
};
use crate::{Actor, Desk, Document, Done, Permission, Person, Refusal, Result, Time};

/// Claims that one sweep by hand looks at.
const SWEEP_MAX: usize = 10_000;

impl Raffles {
    /// A reservation, for its owner or an administrator.
    pub fn get_reservation(&self, actor: &Actor, id: &str) -> Result<Reservation> {
        let (collection, document) = self.reservation(id)?;
        check_owner(actor, id, &document.data.owner)?;
        self.shown(&collection, &document.item.id)
    }

    /// The caller's own reservations, of one raffle or of all, newest first.
    pub async fn mine(&self, actor: &Actor, raffle: Option<String>) -> Result<ReservationPage> {
        let (raffles, who) = (self.clone(), actor.principal.id.clone());
        self.desk
            .read(move |desk| {
                let collections = match &raffle {
                    Some(raffle) => vec![raffles.raffle(raffle)?.0],
                    None => raffles.collections(None)?,
                };
                let mut reservations = Vec::new();
                for collection in collections {
                    for recent in raffles.buyer(&collection, &who)?.data().recent.iter().rev() {
                        let item = ItemId::new(recent.reservation.as_str())?;
                        reservations.push(raffles.shown(&collection, &item)?);
                    }
                }
                reservations.sort_by_key(|reservation| std::cmp::Reverse(reservation.selection_started_at));
                reservations.truncate(PAGE_MAX);
                Ok(ReservationPage { reservations, server_time: Time(desk.now_ms()) })
            })
            .await
    }

    /// Everybody's open reservations of a raffle, oldest first: what a draw waits for.
    pub async fn open_reservations(&self, actor: &Actor, raffle: String) -> Result<ReservationPage> {
        actor.require(Permission::RaffleManage)?;
        let raffles = self.clone();
        self.desk
            .read(move |desk| {
                let (collection, _) = raffles.raffle(&raffle)?;
                let filter = ClaimFilter {
                    collection: Some(collection.clone()),
                    state: Some(ClaimState::Active),
                    ..ClaimFilter::default()
                };
                let rows = desk.reader().claims(&filter, PAGE_MAX)?.rows;
                let mut reservations = Vec::with_capacity(rows.len());
                for row in rows {
                    // Claims that some other way made are of no reservation.
                    let Ok(item) = ItemId::new(Link::of(&row.claim).reservation.as_str()) else { continue };
                    let reservation = raffles.shown(&collection, &item)?;
                    if reservation.status == ReservationStatus::Pending {
                        reservations.push(reservation);
                    }
                }
                Ok(ReservationPage { reservations, server_time: Time(desk.now_ms()) })
            })
            .await
    }

    /// Adds a number, while the numbers are being chosen. The deadline stays.
    pub async fn add_number(&self, actor: &Actor, id: &str, number: u32) -> Result<Done<Reservation>> {
        let last = AtomicUsize::new(0);
        let plan = |order: &Order| {
            let (collection, claim) = (&order.collection, choosing(order)?);
            let (_, raffle) = self.raffle(collection.name())?;
            raffle.require_active(collection.name())?;
            check_numbers(&raffle, &[number]).map_err(|_| {
                Refusal::invalid("number_id", format!("must be 1 to {}", raffle.data.numbers))
            })?;
            let buyer = self.buyer(collection, order.owner_id())?;
            let held = self.held_by(collection, order.owner_id(), self.desk.now_ms())?;
            self.check_numbers(&buyer, held.iter().map(|(claim, _)| claim.items.len()).sum(), 1)?;
            let mut data = amended(actor, &order.document.data);
            data.numbers.push(number);
            let guard = Some(unchanged(&raffle));
            let mut verbs = vec![buyer.stays(guard)?, order.document.put(&status("pending"), &data, None)?];
            verbs.extend(self.made(collection, number)?);
            last.store(verbs.len(), Ordering::Relaxed);
            verbs.push(Verb::AddItem { claim: claim.number, item: number_item(number)? });
            Ok(verbs)
        };
        let is_race = |refusal: &Refusal| is_race(refusal, last.load(Ordering::Relaxed));
        self.amend(actor, id, is_race, plan).await
    }

    /// Takes a number out, while the numbers are being chosen.
    pub async fn remove_number(&self, actor: &Actor, id: &str, number: u32) -> Result<Done<Reservation>> {
        let plan = |order: &Order| {
            let claim = choosing(order)?;
            let mut data = amended(actor, &order.document.data);
            if !data.numbers.contains(&number) {
                return Err(Refusal::not_found("number", number));
            }
            data.numbers.retain(|held| *held != number);
            Ok(vec![
                order.document.put(&status("pending"), &data, None)?,
                Verb::RemoveItem { claim: claim.number, item: number_item(number)? },
            ])
        };
        self.amend(actor, id, |refusal| is_race(refusal, 0), plan).await
    }

    /// "Pay now": from selection to checkout, whose time begins.
    pub async fn move_to_checkout(&self, actor: &Actor, id: &str) -> Result<Done<Reservation>> {
        let plan = |order: &Order| {
            let claim = order.held()?;
            let now_ms = self.desk.now_ms();
            let data = ReservationDoc { checkout_ms: Some(now_ms), ..amended(actor, &order.document.data) };
            Ok(vec![
                order.document.put(&status("pending"), &data, None)?,
                Verb::Advance { claim: claim.number },
            ])
        };
        self.amend(actor, id, |refusal| is_race(refusal, 0), plan).await
    }

    /// Gives it up: the numbers are available again. Not while somebody is charged for them.
    pub async fn cancel(&self, actor: &Actor, id: &str) -> Result<Done<Reservation>> {
        let plan = |order: &Order| {
            let claim = order.held()?;
            if !matches!(&*claim.phase, "selection" | "checkout") {
                return Err(Rule::WrongPhase { phase: claim.phase.clone() }.into());
            }
            let ended_ms = Some(self.desk.now_ms());
            let checkout_ms = order.document.data.checkout_began_ms(Some(claim));
            let data = ReservationDoc { checkout_ms, ended_ms, ..order.document.data.clone() };
            let written = order.document.put(&status("cancelled"), &data, None)?;
            let is_own = claim.holder.id == actor.principal.id;
            // An administrator ends what is another's, and the audit log says so.
            let end = match claim.items.first() {
                Some(item) if !is_own => {
                    let reason = "the reservation was cancelled by an administrator".into();
                    Verb::ForceRelease { item: item.clone(), reason }
                }
                _ => Verb::Cancel { claim: claim.number },
            };
            Ok(vec![written, end])
        };
        self.on_own((actor, actor), id, |refusal| is_race(refusal, 0), plan).await
    }

    /// Records the ends of reservations whose time is up, now. Nobody has to: they hold nothing any more.
    pub async fn expire(&self, actor: &Actor) -> Result<Expired> {
        actor.require(Permission::RaffleManage)?;
        let raffles = self.clone();
        let due = self.desk.read(move |desk| raffles.due(desk.now_ms())).await?;
        let mut expired = 0;
        for (collection, claim) in due {
            let plan = || Ok(Verb::Expire { claim });
            // Each is its own commit, and none of them is the caller's alone: no key.
            let system = Actor { key: None, ..actor.clone() };
            self.desk.change(&system, &collection, Desk::OWN_STEP, plan).await?;
            expired += 1;
        }
        Ok(Expired { expired })
    }

    /// Claims that are over although no event says so yet.
    fn due(&self, now_ms: i64) -> Result<Vec<(CollectionKey, u64)>> {
        let policy = self.desk.policy(KIND)?.ok_or(Refusal::Broken)?;
        let mut due = Vec::new();
        for collection in self.collections(None)? {
            let filter = ClaimFilter {
                collection: Some(collection.clone()),
                state: Some(ClaimState::Active),
                ..ClaimFilter::default()
            };
            let rows = self.desk.reader().claims(&filter, SWEEP_MAX)?.rows;
            let over =
                rows.iter().filter(|row| seen_at(&row.claim, &policy, now_ms).state == ClaimState::Expired);
            due.extend(over.map(|row| (collection.clone(), row.claim.number)));
        }
        Ok(due)
    }

    /// Changes a reservation, in its owner's name where an administrator does it: the claim is the owner's. Who
    /// it was stands in the document then, and so in the event.
    async fn amend(
        &self,
        actor: &Actor,
        id: &str,
        is_race: impl Fn(&Refusal) -> bool,
        plan: impl Fn(&Order) -> Result<Vec<Verb>>,
    ) -> Result<Done<Reservation>> {
        let order = self.order(id)?;
        let is_own = order.owner_id() == &*actor.principal.id;
        let holder = (!is_own).then(|| order.holder()).transpose()?;
        self.on_own((actor, holder.as_ref().unwrap_or(actor)), id, is_race, plan).await
    }

    /// Changes a reservation in one commit, asked for by one and done in the name of another. What has ended
    /// meanwhile is planned anew, and refused as what it then is.
    async fn on_own(
        &self,
        (actor, name): (&Actor, &Actor),
        id: &str,
        is_race: impl Fn(&Refusal) -> bool,
        plan: impl Fn(&Order) -> Result<Vec<Verb>>,
    ) -> Result<Done<Reservation>> {
        actor.require(Permission::RaffleBuy)?;
        let (collection, _) = self.reservation(id)?;
        let plan = || {
            let order = self.order(id)?;
            check_owner(actor, id, &order.document.data.owner)?;
            Ok(Some(Verb::Group(plan(&order)?)))
        };
        let is_race =
            |refusal: &Refusal| is_race(refusal) || matches!(refusal.rule(), Some(Rule::Lost { .. }));
        let done = self.desk.attempt((name, &collection, Desk::OWN_STEP), is_race, plan).await;
        let done = done.map_err(|refusal| self.taken(of_number(refusal))).inspect_err(|refusal| {
            let (who, code) = (&*actor.principal.id, refusal.code());
            tracing::info!(actor = who, reservation = id, code, "change of a reservation denied: {refusal}");
        })?;
        let done = done.ok_or(Refusal::Broken)?;
        let written = done.written(RESERVATIONS)?;
        let reservation = self.shown(&collection, &written.id)?;
        Ok(done.show(reservation))
    }

    /// The claim that holds for the reservation now, and what has become of it.
    pub(super) fn state(
        &self,
        collection: &CollectionKey,
        document: &Document<ReservationDoc>,
        now_ms: i64,
    ) -> Result<(Option<Claim>, ReservationStatus)> {
        let (claim, status, _) = self.whole(collection, document, now_ms)?;
        Ok((claim, status))
    }

    /// The same with the document, all of one moment: whoever ends a claim writes its document in the same
    /// commit, so a document that was read after the claim was gone says how.
    pub(super) fn whole(
        &self,
        collection: &CollectionKey,
        document: &Document<ReservationDoc>,
        now_ms: i64,
    ) -> Result<(Option<Claim>, ReservationStatus, Document<ReservationDoc>)> {
        let item = document.item.id.clone();
        let held = self.held_by(collection, &document.data.owner.id, now_ms)?;
        let own = held.into_iter().find(|(_, link)| link.reservation == item.as_str());
        let document: Document<ReservationDoc> = self.desk.find(collection, &item)?.ok_or(Refusal::Broken)?;
        let word = |document: &Document<ReservationDoc>| match document.item.status.as_str() {
            "confirmed" => ReservationStatus::Confirmed,
            "cancelled" => ReservationStatus::Cancelled,
            _ => ReservationStatus::Expired,
        };
        Ok(match own {
            // Ended between the two reads.
            Some(_) if document.data.ended_ms.is_some() => (None, word(&document), document),
            Some((claim, _)) => (Some(claim), ReservationStatus::Pending, document),
            None => (None, word(&document), document),
        })
    }

    /// When checkout began by itself, of a reservation that is over and whose document does not say. Its claim tells, to
    /// which its numbers point until somebody else takes them. Once others have them all, checkout began when it was due,
    /// unless one of them was there before: then it was ended while numbers were chosen.
    fn checkout_passed_ms(
        &self,
        collection: &CollectionKey,
        document: &Document<ReservationDoc>,
        now_ms: i64,
    ) -> Result<Option<i64>> {
        let Document { item, data } = document;
        let (reader, mut over_ms) = (self.desk.reader(), now_ms);
        for number in &data.numbers {
            let Some(held) = reader.item(collection, &number_item(*number)?)? else { continue };
            let Some(claim) = reader.claim(collection, held.claim)? else { continue };
            if Link::of(&claim).reservation == item.id.as_str() {
                let policy = self.desk.policy(KIND)?.ok_or(Refusal::Broken)?;
                return Ok(data.checkout_began_ms(Some(&seen_at(&claim, &policy, now_ms))));
            }
            over_ms = over_ms.min(claim.since_ms);
        }
        Ok(data.selection_until_ms.filter(|until_ms| *until_ms <= over_ms))
    }

    /// The reservation as it is now.
    pub(super) fn shown(&self, collection: &CollectionKey, item: &ItemId) -> Result<Reservation> {
        let found = self.desk.find(collection, item)?.ok_or(Refusal::Broken)?;
        let now_ms = self.desk.now_ms();
        let (claim, status, document) = self.whole(collection, &found, now_ms)?;
        let data = &document.data;
        let checkout_ms = match (data.checkout_began_ms(claim.as_ref()), status) {
            (None, ReservationStatus::Expired) => self.checkout_passed_ms(collection, &document, now_ms)?,
            (began_ms, _) => began_ms,
        };
        let phase = match (&claim, status) {
            (Some(claim), _) => &*claim.phase,
            (None, ReservationStatus::Confirmed) => "completed",
            (None, _) => "ended",
        };
        let expires_at_ms = claim.as_ref().map(|claim| claim.expires_at_ms);
        Ok(Reservation {
            id: reservation_id(collection, item),
            raffle_id: collection.name().to_owned(),
            user_id: data.owner.id.clone(),
            session_id: data.session.clone(),
            numbers: data.numbers.clone(),
            phase: phase.to_owned(),
            status,
            price_minor: data.price_minor,
            total_minor: data.total_minor(),
            currency: data.currency.clone(),
            selection_started_at: Time(data.since_ms),
            checkout_started_at: checkout_ms.map(Time),
            expires_at: expires_at_ms.map(Time),
            expires_in_ms: expires_at_ms.map(|at_ms| at_ms - now_ms),
            server_time: Time(now_ms),
        })
    }
}

impl ReservationDoc {
    /// R5: count × price, in whole minor units. Both are bounded, so that this cannot overflow.
    pub(super) fn total_minor(&self) -> u64 {
        self.price_minor.saturating_mul(self.numbers.len() as u64)
    }

    /// When checkout began, written or by itself, while the claim still tells.
    pub(super) fn checkout_began_ms(&self, claim: Option<&Claim>) -> Option<i64> {
        let in_checkout = claim.filter(|claim| &*claim.phase == "checkout");
        self.checkout_ms.or(in_checkout.map(|claim| claim.phase_since_ms))
    }
}

/// The claim, while numbers may still be changed. Whoever has once gone on to pay has a price: numbers that are
/// taken again for a late payment are in selection for a moment, and must stay those that were paid.
fn choosing(order: &Order) -> Result<&Claim> {
    let claim = order.held()?;
    if order.document.data.checkout_ms.is_some() {
        return Err(Rule::WrongPhase { phase: claim.phase.clone() }.into());
    }
    Ok(claim)
}

/// The document, with who changes it unless that is its owner.
fn amended(actor: &Actor, data: &ReservationDoc) -> ReservationDoc {
    let by = Person::from(&actor.principal);
    ReservationDoc { amended_by: Some(by).filter(|by| by.id != data.owner.id), ..data.clone() }
}

/// Only its owner and an administrator.
fn check_owner(actor: &Actor, id: &str, owner: &Person) -> Result<()> {
    let may = *owner.id == *actor.principal.id || actor.require(Permission::RaffleManage).is_ok();
    if may { Ok(()) } else { Err(Refusal::NotOwner { what: "reservation", id: id.to_owned() }) }
}

/// What the engine says of an item, in the words of whoever sent a number.
fn of_number(refusal: Refusal) -> Refusal {
    match refusal.rule() {
        Some(Rule::Invalid { field, detail }) if &**field == "item" => {
            Refusal::invalid("number_id", &**detail)
        }
        _ => refusal,
    }
}
