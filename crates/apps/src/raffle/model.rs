//! What is kept, what is asked and what is answered.

use serde::{Deserialize, Serialize};
use tenure_core::{Claim, Json};
use utoipa::ToSchema;

use crate::{Person, Time};

/// A raffle's document. Its status is the item's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RaffleDoc {
    pub(super) title: String,
    pub(super) numbers: u32,
    pub(super) price_minor: u64,
    pub(super) currency: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) draw_at_ms: Option<i64>,
    /// What the draw is bound to, from the opening on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) commitment: Option<Commitment>,
    /// Counts numbers that were taken again for a payment that came late. Each changes the document, so
    /// that a draw that has not seen it is made anew.
    #[serde(default)]
    pub(super) retaken: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) draw: Option<DrawDoc>,
}

/// What was published of the seed. Nothing of it tells the seed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Commitment {
    pub(super) nonce: String,
    pub(super) seed_hash: String,
}

/// What a draw came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DrawDoc {
    pub(super) seed: String,
    pub(super) sold: u32,
    pub(super) sold_hash: String,
    pub(super) winner: u32,
    pub(super) at_ms: i64,
}

/// A reservation's document: what outlives its claim. The item's status is `pending` until somebody ends it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ReservationDoc {
    pub(super) owner: Person,
    pub(super) session: String,
    pub(super) numbers: Vec<u32>,
    /// The price when it was made.
    pub(super) price_minor: u64,
    pub(super) currency: String,
    pub(super) since_ms: i64,
    /// When selection ends by itself: once others have all of its numbers nothing else tells when checkout began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) selection_until_ms: Option<i64>,
    /// When checkout began, where that is written: by "pay now", when a payment begins, and at an end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) checkout_ms: Option<i64>,
    /// How much of checkout was left when a payment began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) checkout_left_ms: Option<i64>,
    /// The administrator who last changed it in its owner's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) amended_by: Option<Person>,
    /// When it was confirmed or cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ended_ms: Option<i64>,
}

/// What one person has done in a raffle. Written with each reservation of theirs, so that two at once,
/// from two tabs, cannot both find room for themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct BuyerDoc {
    /// Their newest reservations, newest last.
    pub(super) recent: Vec<Recent>,
    /// Numbers that they have bought.
    pub(super) bought: u32,
}

/// A reservation of a buyer's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Recent {
    /// The reservation's item.
    pub(super) reservation: String,
    pub(super) since_ms: i64,
}

/// A claim's document: the reservation that it is of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Link {
    /// The reservation's item.
    pub(super) reservation: String,
}

impl Link {
    /// A claim that some other way made is of no reservation.
    pub(super) fn of(claim: &Claim) -> Self {
        claim.data.as_ref().and_then(|data| Json::read(data).ok()).unwrap_or_default()
    }
}

/// How far a raffle is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RaffleStatus {
    /// Being prepared.
    Draft,
    /// Numbers can be reserved.
    Active,
    /// No new reservations; open ones can be paid.
    Paused,
    /// Over.
    Drawn,
}

impl RaffleStatus {
    /// Its word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Draft => "draft",
            Self::Active => "active",
            Self::Paused => "paused",
            Self::Drawn => "drawn",
        }
    }

    pub(super) fn of(word: &str) -> Option<Self> {
        [Self::Draft, Self::Active, Self::Paused, Self::Drawn]
            .into_iter()
            .find(|status| status.as_str() == word)
    }
}

/// Make a raffle.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"id": "navidad", "title": "Rifa de Navidad", "numbers": 100,
    "price_minor": 100_000, "currency": "CRC", "draw_at": "2026-12-24T18:00:00.000Z"}))]
pub struct NewRaffle {
    /// Its id; one is made where none is given.
    #[schema(pattern = "^[A-Za-z0-9._-]{1,64}$")]
    pub id: Option<String>,
    /// What people call it.
    #[schema(min_length = 1, max_length = 200)]
    pub title: String,
    /// It has the numbers 1 to this.
    #[schema(minimum = 1, maximum = 100_000)]
    pub numbers: u32,
    /// The price of one number, in minor units: ₡1,000.00 is 100000.
    #[schema(minimum = 1, maximum = 100_000_000_000_u64)]
    pub price_minor: u64,
    /// The currency's ISO 4217 code.
    #[schema(pattern = "^[A-Z]{3}$", example = "CRC")]
    pub currency: String,
    /// When it is to be drawn. Shown; the draw itself is an administrator's.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub draw_at: Option<String>,
}

/// Change a raffle.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"status": "active"}))]
pub struct PatchRaffle {
    /// What it shall be.
    pub status: RaffleStatus,
}

/// How many numbers are what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = RaffleCounts)]
pub struct Counts {
    /// Can be reserved.
    #[schema(example = 97)]
    pub available: u32,
    /// Somebody has them under a timer.
    #[schema(example = 2)]
    pub reserved: u32,
    /// Gone.
    #[schema(example = 1)]
    pub sold: u32,
}

/// A raffle as it is shown.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Raffle {
    /// Its id.
    #[schema(example = "navidad")]
    pub id: String,
    /// What people call it.
    #[schema(example = "Rifa de Navidad")]
    pub title: String,
    /// How far it is.
    pub status: RaffleStatus,
    /// It has the numbers 1 to this.
    #[schema(example = 100)]
    pub numbers: u32,
    /// The price of one number, in minor units.
    #[schema(example = 100_000)]
    pub price_minor: u64,
    /// The currency's ISO 4217 code.
    #[schema(example = "CRC")]
    pub currency: String,
    /// When it is to be drawn.
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    pub draw_at: Option<Time>,
    /// The SHA-256 of the draw's seed, published when the raffle opened.
    #[schema(required = true, example = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08")]
    pub seed_hash: Option<String>,
    /// The number that won, once it is drawn.
    #[schema(required = true)]
    pub winner: Option<u32>,
    /// How many numbers are what; only where one raffle is read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counts: Option<Counts>,
    /// Counts its changes.
    #[schema(example = 4)]
    pub version: u64,
    /// The server's time at this answer.
    #[schema(value_type = String, format = DateTime)]
    pub server_time: Time,
}

/// A page of raffles, by id.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Raffles)]
pub struct RafflePage {
    /// The raffles.
    pub raffles: Vec<Raffle>,
    /// Where the next page begins; `null` on the last one. A page may be short and have a next.
    #[schema(required = true)]
    pub next: Option<String>,
    /// The server's time at this answer.
    #[schema(value_type = String, format = DateTime)]
    pub server_time: Time,
}

/// Reserve numbers.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"raffle_id": "navidad", "number_ids": [7, 41, 42], "session_id": "tab-1"}))]
pub struct NewReservation {
    /// Of which raffle.
    pub raffle_id: String,
    /// The numbers, all or none of them.
    #[schema(min_items = 1, max_items = 10)]
    pub number_ids: Vec<u32>,
    /// The page's own name. A session has one open reservation, and asking again gives it back.
    #[schema(min_length = 1, max_length = 128)]
    pub session_id: String,
}

/// What has become of a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReservationStatus {
    /// Its numbers are held, under a timer.
    Pending,
    /// Paid: its numbers are sold.
    Confirmed,
    /// Given up.
    Cancelled,
    /// Its time ran out.
    Expired,
}

impl ReservationStatus {
    /// Its word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Confirmed => "confirmed",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
        }
    }
}

/// A reservation as it is shown, at the time of the answer.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Reservation {
    /// Its id.
    #[schema(example = "navidad~01kdzvq2me0x7f3")]
    pub id: String,
    /// Of which raffle.
    #[schema(example = "navidad")]
    pub raffle_id: String,
    /// Whose it is.
    #[schema(example = "u-7")]
    pub user_id: String,
    /// The page that made it.
    #[schema(example = "tab-1")]
    pub session_id: String,
    /// Its numbers.
    #[schema(example = json!([7, 41, 42]))]
    pub numbers: Vec<u32>,
    /// `selection`, `checkout`, `paying` or `verification` while it is pending, then `completed` or `ended`.
    #[schema(example = "selection")]
    pub phase: String,
    /// What has become of it.
    pub status: ReservationStatus,
    /// The price of one number when it was made.
    #[schema(example = 100_000)]
    pub price_minor: u64,
    /// The price of all.
    #[schema(example = 300_000)]
    pub total_minor: u64,
    /// The currency's ISO 4217 code.
    #[schema(example = "CRC")]
    pub currency: String,
    /// When the first number was taken.
    #[schema(value_type = String, format = DateTime)]
    pub selection_started_at: Time,
    /// When checkout began.
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    pub checkout_started_at: Option<Time>,
    /// When the phase ends; `null` when it is over.
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    pub expires_at: Option<Time>,
    /// The time left. Count down from this, not from your own clock.
    #[schema(required = true, example = 287_000)]
    pub expires_in_ms: Option<i64>,
    /// The server's time at this answer.
    #[schema(value_type = String, format = DateTime)]
    pub server_time: Time,
}

/// Reservations of one person, newest first in each raffle.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Reservations)]
pub struct ReservationPage {
    /// The reservations.
    pub reservations: Vec<Reservation>,
    /// The server's time at this answer.
    #[schema(value_type = String, format = DateTime)]
    pub server_time: Time,
}

/// What a sweep by hand did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = ExpiredReservations)]
pub struct Expired {
    /// Reservations whose end was recorded by it.
    #[schema(example = 3)]
    pub expired: u64,
}
