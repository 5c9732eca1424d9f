//! How much of a raffle one person may have, over all their tabs and devices. The limits are judged by a plan
//! and hold at its commit: each plan writes the buyer's document over the version that it read.

use sha2::{Digest, Sha256};
use tenure_core::{CollectionKey, Expect, Guard, ItemId, Status, Verb, hex};

use super::model::{BuyerDoc, Recent};
use super::{BUYERS, Raffles, ReservationStatus, status};
use crate::{Document, Refusal, Result, put};

/// A buyer's reservations that are remembered: those of the window, and a page of older ones to show.
const RECENT_MAX: usize = 50;

/// A buyer as they are.
pub(super) struct Buyer {
    id: ItemId,
    found: Option<Document<BuyerDoc>>,
}

impl Raffles {
    pub(super) fn buyer(&self, collection: &CollectionKey, who: &str) -> Result<Buyer> {
        // A person's id may be as long as an item's.
        let id = BUYERS.id(&hex(&Sha256::digest(who.as_bytes())[..16]))?;
        let found = self.desk.find(collection, &id)?;
        Ok(Buyer { id, found })
    }

    /// Refuses whoever has, with `more`, too many numbers of the raffle.
    pub(super) fn check_numbers(&self, buyer: &Buyer, held: usize, more: usize) -> Result<()> {
        let max = self.limits.numbers;
        let bought = usize::try_from(buyer.data().bought).unwrap_or(usize::MAX);
        if bought.saturating_add(held).saturating_add(more) > usize::try_from(max).unwrap_or(usize::MAX) {
            return Err(Refusal::Limit { limit: "numbers_per_buyer", max: u64::from(max) });
        }
        Ok(())
    }

    /// Refuses whoever has too many reservations open.
    pub(super) fn check_open(&self, open: usize) -> Result<()> {
        let max = self.limits.open;
        if open >= max {
            return Err(Refusal::Limit { limit: "open_reservations", max: max as u64 });
        }
        Ok(())
    }

    /// Refuses whoever took numbers and let them go too often of late, and says until when.
    pub(super) fn check_churn(&self, collection: &CollectionKey, buyer: &Buyer, now_ms: i64) -> Result<()> {
        let (max, from_ms) = (self.limits.abandoned, now_ms - self.limits.window_ms);
        let mut abandoned = Vec::new();
        for recent in buyer.data().recent.iter().filter(|recent| recent.since_ms > from_ms) {
            let item = ItemId::new(recent.reservation.as_str())?;
            let Some(document) = self.desk.find(collection, &item)? else { continue };
            let (_, state) = self.state(collection, &document, now_ms)?;
            if matches!(state, ReservationStatus::Cancelled | ReservationStatus::Expired) {
                abandoned.push(recent.since_ms);
            }
        }
        match abandoned.len().checked_sub(max) {
            None => Ok(()),
            // So many of the oldest must be out of sight before there is room for one more.
            Some(over) => {
                let wait_ms = abandoned[over] + self.limits.window_ms - now_ms;
                Err(Refusal::TooOften { limit: "abandoned_reservations", max: max as u64, wait_ms })
            }
        }
    }
}

impl Buyer {
    pub(super) fn data(&self) -> BuyerDoc {
        self.found.as_ref().map(|found| found.data.clone()).unwrap_or_default()
    }

    /// With a new reservation of theirs.
    pub(super) fn reserves(&self, item: &ItemId, now_ms: i64, guard: Guard) -> Result<Verb> {
        let mut data = self.data();
        data.recent.push(Recent { reservation: item.to_string(), since_ms: now_ms });
        let over = data.recent.len().saturating_sub(RECENT_MAX);
        data.recent.drain(..over);
        self.put(&data, Some(guard))
    }

    /// As they are: what this is written with was decided by what they have.
    pub(super) fn stays(&self, guard: Option<Guard>) -> Result<Verb> {
        self.put(&self.data(), guard)
    }

    /// With so many numbers bought.
    pub(super) fn buys(&self, count: usize) -> Result<Verb> {
        let mut data = self.data();
        data.bought = data.bought.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
        self.put(&data, None)
    }

    fn put(&self, data: &BuyerDoc, guard: Option<Guard>) -> Result<Verb> {
        let status: Status = status("buyer");
        match &self.found {
            Some(found) => found.put(&status, data, guard),
            None => put(&self.id, &status, data, Expect::Absent, guard),
        }
    }
}
