//! All numbers of a raffle at one moment, one character each.

use serde::Serialize;
use tenure_core::{Claim, CollectionKey, seen_at};
use tenure_engine::Snapshot;
use utoipa::ToSchema;

use super::model::RaffleDoc;
use super::{Counts, KIND, RaffleStatus, Raffles, number_of, raffle_item};
use crate::{Actor, Document, Refusal, Result, Time};

/// Can be reserved.
pub const AVAILABLE: u8 = b'-';
/// Somebody has it under a timer.
pub const RESERVED: u8 = b'r';
/// The caller has it under a timer.
pub const MINE: u8 = b'm';
/// Gone.
pub const SOLD: u8 = b's';
/// The caller has bought it.
pub const BOUGHT: u8 = b'b';

/// A raffle's numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = RaffleNumbers)]
pub struct Grid {
    /// Of which raffle.
    #[schema(example = "navidad")]
    pub raffle_id: String,
    /// One character for each number, from number 1 on: `-` available, `r` reserved, `m` reserved by the
    /// caller, `s` sold, `b` bought by the caller.
    #[schema(example = "--mm-r--s-")]
    pub numbers: String,
    /// The stream goes on after this number.
    #[schema(example = 1042)]
    pub seq: u64,
    /// How many are what.
    pub counts: Counts,
    /// The server's time at this answer.
    #[schema(value_type = String, format = DateTime)]
    pub server_time: Time,
}

impl Raffles {
    /// The numbers as this caller sees them.
    pub async fn numbers(&self, actor: &Actor, id: &str) -> Result<Grid> {
        let (collection, _) = self.raffle(id)?;
        let (raffles, id, who) = (self.clone(), id.to_owned(), actor.principal.id.clone());
        self.desk
            .read(move |desk| {
                let (_, snapshot) = raffles.at_once(&id, &collection)?;
                Ok(raffles.seen(&id, &snapshot, &who, desk.now_ms())?.1)
            })
            .await
    }

    /// The same, of a moment that somebody has at hand, with how far the raffle is.
    pub fn seen(
        &self,
        id: &str,
        snapshot: &Snapshot,
        who: &str,
        now_ms: i64,
    ) -> Result<(RaffleStatus, Grid)> {
        let raffle = in_it(id, snapshot)?;
        let cells = self.cells(&raffle, snapshot, Some(who), now_ms)?;
        let counts = count(&cells);
        let numbers = cells.into_iter().map(char::from).collect();
        let (seq, server_time) = (snapshot.head.seq, Time(now_ms));
        Ok((raffle.status()?, Grid { raffle_id: id.to_owned(), numbers, seq, counts, server_time }))
    }

    /// How many numbers are what.
    pub(super) async fn counts(&self, id: &str) -> Result<Counts> {
        let (collection, _) = self.raffle(id)?;
        let (raffles, id) = (self.clone(), id.to_owned());
        self.desk
            .read(move |desk| {
                let (raffle, snapshot) = raffles.at_once(&id, &collection)?;
                Ok(count(&raffles.cells(&raffle, &snapshot, None, desk.now_ms())?))
            })
            .await
    }

    /// The raffle and all that is in it, of one moment.
    pub(super) fn at_once(
        &self,
        id: &str,
        collection: &CollectionKey,
    ) -> Result<(Document<RaffleDoc>, Snapshot)> {
        let snapshot = self.desk.reader().snapshot(collection)?;
        let snapshot = snapshot.ok_or_else(|| Refusal::not_found("raffle", id))?;
        Ok((in_it(id, &snapshot)?, snapshot))
    }

    /// What each number is at this time, to this person. What nobody ever wanted has no item.
    pub(super) fn cells(
        &self,
        raffle: &Document<RaffleDoc>,
        snapshot: &Snapshot,
        who: Option<&str>,
        now_ms: i64,
    ) -> Result<Vec<u8>> {
        let mut cells = vec![AVAILABLE; usize::try_from(raffle.data.numbers).map_err(|_| Refusal::Broken)?];
        let mut set = |number: Option<u32>, cell: u8| {
            let index = number.and_then(|number| usize::try_from(number - 1).ok());
            if let Some(known) = index.and_then(|index| cells.get_mut(index)) {
                *known = cell;
            }
        };
        for claim in self.open(snapshot, now_ms)? {
            let cell = if who == Some(&*claim.holder.id) { MINE } else { RESERVED };
            claim.items.iter().for_each(|item| set(number_of(item), cell));
        }
        for item in &snapshot.items {
            // It is sold in its buyer's name.
            let cell = if who == Some(&*item.updated_by) { BOUGHT } else { SOLD };
            if item.status.as_str() == "sold" {
                set(number_of(&item.id), cell);
            }
        }
        Ok(cells)
    }

    /// The claims that hold at this time.
    pub(super) fn open(&self, snapshot: &Snapshot, now_ms: i64) -> Result<Vec<Claim>> {
        let policy = self.desk.policy(KIND)?.ok_or(Refusal::Broken)?;
        let seen = snapshot.claims.iter().map(|claim| seen_at(claim, &policy, now_ms));
        Ok(seen.filter(|claim| claim.holds_at(now_ms)).collect())
    }
}

/// The raffle's own document.
fn in_it(id: &str, snapshot: &Snapshot) -> Result<Document<RaffleDoc>> {
    let own = raffle_item();
    // They are in order of their ids.
    let place = snapshot.items.binary_search_by(|item| item.id.cmp(&own));
    let item = place.ok().and_then(|place| snapshot.items.get(place));
    Document::of(item.ok_or_else(|| Refusal::not_found("raffle", id))?.clone())
}

fn count(cells: &[u8]) -> Counts {
    let mut counts = Counts::default();
    for cell in cells {
        match *cell {
            RESERVED | MINE => counts.reserved += 1,
            SOLD | BOUGHT => counts.sold += 1,
            _ => counts.available += 1,
        }
    }
    counts
}
