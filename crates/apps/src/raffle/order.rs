//! What a payment does to a reservation. A payment's documents lie in the raffle's collection, so that each
//! step is one commit: the verbs from here, and the payment's own writes, in one group, in the holder's name.
//!
//! ```text
//!  selection ─ pay ─► paying ─ sell ─► confirmed             (the gateway charges)
//!  checkout  ─ pay ─►    │  └─ back ─► checkout              (declined: try again while time is left)
//!            ─ verify ─► verification ─ sell ─► confirmed    (a person compares with the bank)
//!                            └─ give_up ─► cancelled
//!  expired, cancelled ─ retake ─► selection, then as above   (paid, but late: all numbers again, or none)
//! ```

use tenure_core::command::{Acquire, Complete};
use tenure_core::{Claim, CollectionKey, Json, Principal, Refusal as Rule, SessionId, Verb};

use super::model::{Link, ReservationDoc};
use super::{RaffleStatus, Raffles, ReservationStatus, number_item, reservation_id, status};
use crate::{Actor, Document, Refusal, Result};

/// A reservation as a payment sees it, at one moment. Read it anew in each plan.
#[derive(Clone, Debug)]
pub struct Order {
    raffles: Raffles,
    /// The raffle's collection: where a payment's own documents go.
    pub collection: CollectionKey,
    pub(super) document: Document<ReservationDoc>,
    /// The claim that holds its numbers, judged at `now_ms`.
    pub claim: Option<Claim>,
    /// What has become of it.
    pub status: ReservationStatus,
    /// The server's time.
    pub now_ms: i64,
}

impl Raffles {
    /// A reservation for a payment, whoever asks. Who may is the payment's to check: see [`Order::owner_id`].
    pub fn order(&self, id: &str) -> Result<Order> {
        let (collection, document) = self.reservation(id)?;
        let now_ms = self.desk.now_ms();
        let (claim, status, document) = self.whole(&collection, &document, now_ms)?;
        Ok(Order { raffles: self.clone(), collection, document, claim, status, now_ms })
    }
}

impl Order {
    /// The reservation's id.
    pub fn id(&self) -> String {
        reservation_id(&self.collection, &self.document.item.id)
    }

    /// Whose it is.
    pub fn owner_id(&self) -> &str {
        &self.document.data.owner.id
    }

    /// Its numbers.
    pub fn numbers(&self) -> &[u32] {
        &self.document.data.numbers
    }

    /// What all numbers cost, frozen when they were reserved.
    pub fn total_minor(&self) -> u64 {
        self.document.data.total_minor()
    }

    /// The currency's ISO 4217 code.
    pub fn currency(&self) -> &str {
        &self.document.data.currency
    }

    /// How much of checkout was left when a payment last began; `None` before the first.
    pub fn checkout_left_ms(&self) -> Option<i64> {
        self.document.data.checkout_left_ms
    }

    /// Acts for the owner: only the holder of a claim takes it further. It has no permissions of its own.
    pub fn holder(&self) -> Result<Actor> {
        let owner = &self.document.data.owner;
        Ok(Actor::new(Principal::new(owner.id.as_str(), owner.name.as_str())?, []))
    }

    /// The claim that holds its numbers, or what has become of the reservation.
    pub fn held(&self) -> Result<&Claim> {
        let message = match self.status {
            ReservationStatus::Expired => "its time is up",
            _ => "only a pending one is changed",
        };
        self.claim.as_ref().ok_or_else(|| Refusal::WrongStatus {
            what: "reservation",
            id: self.id(),
            status: self.status.as_str().to_owned(),
            message: message.into(),
        })
    }

    /// A gateway is about to charge: from selection, checkout or verification to `paying`, for its own time or
    /// a shorter one.
    pub fn pay(&self, ttl_ms: Option<i64>) -> Result<Vec<Verb>> {
        self.enter("paying", ttl_ms)
    }

    /// A person compares a transfer with the bank: to `verification`.
    pub fn verify(&self, ttl_ms: Option<i64>) -> Result<Vec<Verb>> {
        self.enter("verification", ttl_ms)
    }

    /// Nothing was charged: from `paying` or `verification` back to checkout, for so long.
    pub fn back(&self, ttl_ms: i64) -> Result<Vec<Verb>> {
        let claim = self.held()?.number;
        Ok(vec![Verb::Enter { claim, phase: "checkout".into(), ttl_ms: Some(ttl_ms) }])
    }

    /// Paid: the numbers are sold for ever, and the reservation is confirmed.
    pub fn sell(&self) -> Result<Vec<Verb>> {
        let claim = self.held()?;
        let buyer = self.raffles.buyer(&self.collection, self.owner_id())?;
        Ok(vec![
            buyer.buys(claim.items.len())?,
            self.ends("confirmed")?,
            Verb::Complete(Complete {
                claim: claim.number,
                token: Some(claim.token),
                status: Some(status("sold")),
                data: None,
                items: Vec::new(),
            }),
        ])
    }

    /// It will not be paid: the numbers are available again.
    pub fn give_up(&self) -> Result<Vec<Verb>> {
        let claim = self.held()?.number;
        Ok(vec![self.ends("cancelled")?, Verb::Cancel { claim }])
    }

    /// Paid, but late: takes all its numbers again, or none of them ([`Refusal::Taken`]). The reservation is
    /// pending again, in selection, until the next commit takes it further.
    pub fn retake(&self) -> Result<Vec<Verb>> {
        if self.status == ReservationStatus::Confirmed || self.claim.is_some() {
            return Err(Rule::WrongPhase { phase: self.status.as_str().into() }.into());
        }
        let (_, raffle) = self.raffles.raffle(self.collection.name())?;
        if !matches!(raffle.status()?, RaffleStatus::Active | RaffleStatus::Paused) {
            return Err(raffle.refuse(self.collection.name(), "it is drawn"));
        }
        // Who reserves meanwhile writes the buyer's document too: their own newer claim on these numbers
        // must not pass for the one that is taken here.
        let buyer = self.raffles.buyer(&self.collection, self.owner_id())?;
        self.check_free()?;
        let mut open = raffle.data.clone();
        open.retaken = open.retaken.saturating_add(1);
        let data = ReservationDoc { ended_ms: None, ..self.document.data.clone() };
        let items = self.numbers().iter().map(|number| number_item(*number)).collect::<Result<_>>()?;
        let link = Some(Json::of(&Link { reservation: self.document.item.id.to_string() })?);
        // Its session finds it again, unless that has another one by now.
        let session = SessionId::new(self.document.data.session.as_str()).ok();
        let held = self.raffles.held_by(&self.collection, self.owner_id(), self.now_ms)?;
        let session = session.filter(|own| held.iter().all(|(claim, _)| claim.session.as_ref() != Some(own)));
        Ok(vec![
            raffle.put(&raffle.item.status, &open, None)?,
            buyer.stays(None)?,
            self.document.put(&status("pending"), &data, None)?,
            Verb::Acquire(Acquire { items, session, data: link, ..Acquire::default() }),
        ])
    }

    /// What the engine refused, without the names of others: numbers that are taken are [`Refusal::Taken`].
    pub fn plain(&self, refusal: Refusal) -> Refusal {
        self.raffles.taken(refusal)
    }

    /// Refuses if anybody, its own owner included, holds or has bought one of its numbers.
    fn check_free(&self) -> Result<()> {
        let desk = &self.raffles.desk;
        let (mut taken, mut wait_ms) = (Vec::new(), Some(0));
        for number in self.numbers() {
            let found = desk.held(&self.collection, &number_item(*number)?, self.now_ms)?;
            let Some((item, claim)) = found else { continue };
            if item.status.as_str() == "sold" {
                taken.push(*number);
                wait_ms = None;
            } else if let Some(claim) = claim {
                taken.push(*number);
                wait_ms = wait_ms.map(|wait_ms: i64| wait_ms.max(claim.expires_at_ms - self.now_ms));
            }
        }
        if taken.is_empty() { Ok(()) } else { Err(Refusal::Taken { numbers: taken, wait_ms }) }
    }

    fn enter(&self, phase: &str, ttl_ms: Option<i64>) -> Result<Vec<Verb>> {
        let claim = self.held()?;
        let mut data = self.document.data.clone();
        let mut verbs = Vec::new();
        match &*claim.phase {
            // Who pays while choosing goes to checkout first, so that its time is the same for all.
            "selection" => {
                let policy = self.raffles.desk.policy(super::KIND)?.ok_or(Refusal::Broken)?;
                data.checkout_ms = Some(self.now_ms);
                data.checkout_left_ms = policy.phase("checkout").map(|(checkout, _)| checkout.ttl_ms);
                verbs.push(Verb::Advance { claim: claim.number });
            }
            "checkout" => {
                data.checkout_ms = data.checkout_began_ms(Some(claim));
                data.checkout_left_ms = Some(claim.expires_at_ms - self.now_ms);
            }
            _ => {}
        }
        verbs.insert(0, self.document.put(&status("pending"), &data, None)?);
        verbs.push(Verb::Enter { claim: claim.number, phase: phase.into(), ttl_ms });
        Ok(verbs)
    }

    fn ends(&self, word: &'static str) -> Result<Verb> {
        let data = &self.document.data;
        let checkout_ms = data.checkout_began_ms(self.claim.as_ref());
        let data = ReservationDoc { ended_ms: Some(self.now_ms), checkout_ms, ..data.clone() };
        self.document.put(&status(word), &data, None)
    }
}
