//! Raffle: buyers reserve numbers under a timer and pay; no number is sold twice.
//!
//! ```text
//!  raffle:       create ─► draft ─► active ◄─► paused ─ draw ─► drawn
//!
//!  reservation:  reserve ─► selection ─► checkout ─► paying | verification ─► confirmed (numbers sold)
//!                (pending)      └────────────┴─────────────┴─ cancelled | expired (numbers available)
//! ```
//!
//! Each raffle is a collection. A number is an item there, made when somebody first wants it, so that a
//! raffle of 100,000 opens at once. A reservation is a claim on numbers, and a document beside it with what
//! outlives the claim. The claim decides: its document says how it ended only where somebody ended it, and
//! otherwise a reservation without a claim that holds has expired. So nothing waits for a sweeper.
//!
//! Read in this order: `model`, `raffles` (the raffle itself), `reserve` and `reservations` (what buyers do),
//! `order` (what payments need), `draw`.

mod buyer;
mod demo;
mod draw;
mod grid;
mod model;
mod order;
mod raffles;
mod reservations;
mod reserve;
mod seeds;

use tenure_core::{Claim, ClaimState, CollectionKey, Guard, ItemId, seen_at};
use tenure_engine::ClaimFilter;

pub(crate) use demo::load_demo;
pub use draw::{Draw, pick, sold_hash};
pub use grid::{AVAILABLE, BOUGHT, Grid, MINE, RESERVED, SOLD};
pub use model::{
    Counts, Expired, NewRaffle, NewReservation, PatchRaffle, Raffle, RafflePage, RaffleStatus, Reservation,
    ReservationPage, ReservationStatus,
};
pub use order::Order;
pub use reserve::Reserved;
pub use seeds::Seeds;

use crate::desk::status;
use crate::{Desk, Document, Family, Refusal, Result};
use model::{Link, RaffleDoc, ReservationDoc};

/// The kind of every raffle's collection.
pub const KIND: &str = "raffle";

/// The raffle's own document.
const RAFFLE: &str = "raffle";
const RESERVATIONS: Family = Family("reservation-");
const BUYERS: Family = Family("buyer-");

/// Numbers of one raffle: the grid of a page has as many characters.
pub const NUMBERS_MAX: u32 = 100_000;
/// One number's price in minor units: ten of them still fit a JavaScript integer by far.
pub const PRICE_MINOR_MAX: u64 = 100_000_000_000;
/// A title is a line on a page.
pub const TITLE_BYTES_MAX: usize = 200;
/// Raffles or reservations on a page when nobody says.
pub const PAGE_DEFAULT: usize = 50;
/// Raffles or reservations on a page.
pub const PAGE_MAX: usize = 200;
/// Collections that one page of raffles looks at.
const COLLECTIONS_MAX: usize = 1_000;
/// Claims of one person that are looked at: far more than `open_max` ever lets be.
const CLAIMS_OF_ONE_MAX: usize = 100;
/// Numbers of one raffle that one person holds or has bought: the rest is for others.
const NUMBERS_PER_BUYER_MAX: u32 = 100;
/// Reservations that one person has open in one raffle, over all tabs and devices.
const OPEN_MAX: usize = 3;
/// Reservations given up or run out, of those begun within [`CHURN_WINDOW_MS`], before one must wait: whoever
/// takes numbers again and again and never pays keeps them from others for free.
const ABANDONED_MAX: usize = 6;
/// How far back that looks, and so how long one may have to wait: an hour holds four whole timers.
const CHURN_WINDOW_MS: i64 = 3_600_000;

/// How much of a raffle one person may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Numbers held and bought, in one raffle.
    pub numbers: u32,
    /// Open reservations in one raffle.
    pub open: usize,
    /// Abandoned reservations within the window.
    pub abandoned: usize,
    /// The window.
    pub window_ms: i64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            numbers: NUMBERS_PER_BUYER_MAX,
            open: OPEN_MAX,
            abandoned: ABANDONED_MAX,
            window_ms: CHURN_WINDOW_MS,
        }
    }
}

/// The application.
#[derive(Clone, Debug)]
pub struct Raffles {
    desk: Desk,
    seeds: Seeds,
    limits: Limits,
}

impl Raffles {
    /// On a desk, with what seeds are made of.
    pub fn new(desk: Desk, seeds: Seeds) -> Self {
        Self { desk, seeds, limits: Limits::default() }
    }

    /// With other limits.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// The desk that it works on.
    pub fn desk(&self) -> &Desk {
        &self.desk
    }

    /// A raffle's collection and document as they are.
    fn raffle(&self, id: &str) -> Result<(CollectionKey, Document<RaffleDoc>)> {
        let unknown = || Refusal::not_found("raffle", id);
        let collection = collection_of(id).ok_or_else(unknown)?;
        let raffle = self.desk.find(&collection, &raffle_item())?.ok_or_else(unknown)?;
        Ok((collection, raffle))
    }

    /// A reservation's collection and document as they are.
    fn reservation(&self, id: &str) -> Result<(CollectionKey, Document<ReservationDoc>)> {
        let unknown = || Refusal::not_found("reservation", id);
        let (raffle, name) = id.split_once('~').ok_or_else(unknown)?;
        let collection = collection_of(raffle).ok_or_else(unknown)?;
        let item = RESERVATIONS.id(name).map_err(|_| unknown())?;
        let found = self.desk.find(&collection, &item)?.ok_or_else(unknown)?;
        Ok((collection, found))
    }

    /// This person's claims in the raffle that hold at this time, each with the reservation that it is of.
    fn held_by(&self, collection: &CollectionKey, who: &str, now_ms: i64) -> Result<Vec<(Claim, Link)>> {
        let filter = ClaimFilter {
            collection: Some(collection.clone()),
            holder: Some(who.into()),
            state: Some(ClaimState::Active),
            after: None,
        };
        let rows = self.desk.reader().claims(&filter, CLAIMS_OF_ONE_MAX)?.rows;
        let policy = self.desk.policy(KIND)?.ok_or(Refusal::Broken)?;
        let seen = rows.iter().map(|row| seen_at(&row.claim, &policy, now_ms));
        let held = seen.filter(|claim| claim.holds_at(now_ms));
        // A claim that an administrator took by the general routes is of no reservation.
        Ok(held.map(|claim| (Link::of(&claim), claim)).map(|(link, claim)| (claim, link)).collect())
    }
}

/// What the application alone writes: its documents, and the numbers of what is a raffle of its own.
pub(crate) fn is_own(collection: &CollectionKey, item: Option<&ItemId>) -> bool {
    let is_document = |item: &ItemId| {
        let id = item.as_str();
        id == RAFFLE || RESERVATIONS.has(id) || BUYERS.has(id) || crate::payments::is_own(item)
    };
    collection.kind() == KIND && item.is_some_and(is_document)
}

/// The collection is a raffle of the application's, where numbers are reserved through it alone.
pub fn is_raffle(desk: &Desk, collection: &CollectionKey) -> Result<bool> {
    Ok(collection.kind() == KIND && desk.reader().item(collection, &raffle_item())?.is_some())
}

fn raffle_item() -> ItemId {
    ItemId::new(RAFFLE).expect("the raffle's item is valid")
}

fn collection_of(raffle: &str) -> Option<CollectionKey> {
    CollectionKey::from_parts(KIND, raffle).ok().filter(|_| crate::text::is_code(raffle))
}

/// A number's item.
fn number_item(number: u32) -> Result<ItemId> {
    Ok(ItemId::new(number.to_string())?)
}

/// The number that an item is; `None` for the application's documents.
pub fn number_of(item: &ItemId) -> Option<u32> {
    let id = item.as_str();
    id.parse().ok().filter(|number: &u32| *number > 0 && number.to_string() == id)
}

/// A reservation's id outside: the raffle's, and the document's own part.
fn reservation_id(collection: &CollectionKey, item: &ItemId) -> String {
    let name = item.as_str().strip_prefix(RESERVATIONS.0).unwrap_or("");
    format!("{}~{name}", collection.name())
}

/// Only while the raffle is as it was read.
fn unchanged(raffle: &Document<RaffleDoc>) -> Guard {
    Guard::Unchanged { item: raffle.item.id.clone(), version: raffle.item.version }
}
