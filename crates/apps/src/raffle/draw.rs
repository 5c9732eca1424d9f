//! The draw: a sold number, picked so that anyone can pick it again. The seed was bound when the raffle
//! opened, by its hash; nobody knew then what would be sold, and nobody who sells knows the seed.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tenure_core::{Claim, ClaimId, CollectionKey, ItemId, hex};
use utoipa::ToSchema;

use super::grid::SOLD;
use super::model::{DrawDoc, Link};
use super::seeds::hash_of;
use super::{RaffleStatus, Raffles, reservation_id, status};
use crate::{Actor, Desk, Done, Permission, Refusal, Result};

/// So many of the reservations that a draw waits for are named: enough to look at, and still one sentence.
const OPEN_NAMED_MAX: usize = 5;

/// A draw, with all that is needed to do it again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = RaffleDraw)]
pub struct Draw {
    /// Of which raffle.
    #[schema(example = "navidad")]
    pub raffle_id: String,
    /// The SHA-256 of the seed's 32 bytes, published when the raffle opened.
    #[schema(example = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08")]
    pub seed_hash: String,
    /// The seed, in hexadecimal digits.
    #[schema(example = "b5bb9d8014a0f9b1d61e21e796d78dccdf1352f23cd32812f4850b878ae4944c")]
    pub seed: String,
    /// The numbers that were sold, in order.
    #[schema(example = json!([7, 41, 42]))]
    pub sold: Vec<u32>,
    /// The SHA-256 of those numbers in decimal digits, each followed by a line feed.
    #[schema(example = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08")]
    pub sold_hash: String,
    /// The number that won.
    #[schema(example = 42)]
    pub winner: u32,
    /// When it was drawn.
    #[schema(format = DateTime)]
    pub drawn_at: String,
}

impl Raffles {
    /// Draws a paused raffle. Once: whoever asks again gets the same draw.
    ///
    /// It is decided on one moment at which nothing was open. From then on nothing can be sold without a new
    /// claim, and no claim is made without a raffle that is active, or taken again without changing it: either
    /// is another version of the raffle than the one that this is written over.
    pub async fn draw(&self, actor: &Actor, id: &str) -> Result<Done<Draw>> {
        actor.require(Permission::RaffleManage)?;
        let (collection, _) = self.raffle(id)?;
        // Reading all numbers takes a while, and a plan is made anew if somebody was faster.
        let plan = || {
            let (raffle, snapshot) = self.at_once(id, &collection)?;
            let now_ms = self.desk.now_ms();
            match raffle.status()? {
                RaffleStatus::Paused => {}
                RaffleStatus::Drawn => return Err(raffle.refuse(id, "it is drawn already")),
                _ => return Err(raffle.refuse(id, "pause it first, so that nobody buys while it is drawn")),
            }
            let open = self.open(&snapshot, now_ms)?;
            if !open.is_empty() {
                return Err(raffle.refuse(id, waits_for(&collection, &open)));
            }
            let sold = sold(&self.cells(&raffle, &snapshot, None, now_ms)?);
            let commitment = raffle.data.commitment.as_ref().ok_or(Refusal::Broken)?;
            let seed = self.seeds.seed(id, &commitment.nonce);
            if hash_of(&seed) != commitment.seed_hash {
                tracing::error!(
                    raffle = id,
                    "the server's secret is not the one that the raffle opened with"
                );
                return Err(raffle.refuse(id, "its seed cannot be made: the server's secret has changed"));
            }
            let Some(winner) = pick(&seed, &sold) else {
                return Err(raffle.refuse(id, "nothing is sold"));
            };
            let mut data = raffle.data.clone();
            data.draw = Some(DrawDoc {
                seed: hex(&seed),
                sold: u32::try_from(sold.len()).map_err(|_| Refusal::Broken)?,
                sold_hash: sold_hash(&sold),
                winner,
                at_ms: now_ms,
            });
            raffle.put(&status("drawn"), &data, None)
        };
        let done = self.desk.change(actor, &collection, Desk::OWN_STEP, plan).await?;
        let draw = self.drawn(id).await?;
        Ok(done.show(draw))
    }

    /// The draw of a raffle that is drawn.
    pub async fn drawn(&self, id: &str) -> Result<Draw> {
        let (collection, _) = self.raffle(id)?;
        let (raffles, id) = (self.clone(), id.to_owned());
        self.desk
            .read(move |desk| {
                let (raffle, snapshot) = raffles.at_once(&id, &collection)?;
                let (Some(draw), Some(commitment)) = (&raffle.data.draw, &raffle.data.commitment) else {
                    return Err(Refusal::not_found("draw", &id));
                };
                let sold = sold(&raffles.cells(&raffle, &snapshot, None, desk.now_ms())?);
                Ok(Draw {
                    raffle_id: id,
                    seed_hash: commitment.seed_hash.clone(),
                    seed: draw.seed.clone(),
                    sold,
                    sold_hash: draw.sold_hash.clone(),
                    winner: draw.winner,
                    drawn_at: crate::Time(draw.at_ms).to_string(),
                })
            })
            .await
    }
}

impl Draw {
    /// Does the draw again, and says what does not fit.
    pub fn verify(&self) -> std::result::Result<(), &'static str> {
        let seed = unhex(&self.seed).ok_or("the seed is not 64 hexadecimal digits")?;
        if hash_of(&seed) != self.seed_hash {
            return Err("the seed is not the one that was bound when the raffle opened");
        }
        if !self.sold.is_sorted_by(|a, b| a < b) {
            return Err("the sold numbers are not in order, or one stands twice");
        }
        if sold_hash(&self.sold) != self.sold_hash {
            return Err("the sold numbers are not those of the draw");
        }
        match pick(&seed, &self.sold) {
            Some(winner) if winner == self.winner => Ok(()),
            Some(_) => Err("another number wins with this seed"),
            None => Err("nothing was sold"),
        }
    }
}

/// Picks one of the sold numbers, each as likely as any other; `None` of none.
///
/// Round `n` = 0, 1, 2 …: x is the first 8 bytes, as a big-endian integer, of SHA-256 over the seed, the 32
/// bytes of the hash of the sold numbers, and n as 8 big-endian bytes. An x in the incomplete last run of
/// `count` values below 2^64 is skipped, since it would favour the first numbers; otherwise x modulo `count`
/// is the place in the sorted list, from 0.
pub fn pick(seed: &[u8; 32], sold: &[u32]) -> Option<u32> {
    let count = u64::try_from(sold.len()).ok().filter(|count| *count > 0)?;
    let hash = hash_sold(sold);
    // 2^64 modulo count, without 2^64.
    let rest = (u64::MAX % count + 1) % count;
    let values = (0_u64..).map(|round| {
        let digest = Sha256::new().chain_update(seed).chain_update(hash).chain_update(round.to_be_bytes());
        let mut first = [0; 8];
        first.copy_from_slice(&digest.finalize()[..8]);
        u64::from_be_bytes(first)
    });
    let mut fair = values.filter(|value| *value <= u64::MAX - rest);
    let place = usize::try_from(fair.next()? % count).ok()?;
    sold.get(place).copied()
}

/// Which reservations a draw waits for: the first few by their ids, the others as a count.
fn waits_for(collection: &CollectionKey, open: &[Claim]) -> String {
    let named =
        open.iter().take(OPEN_NAMED_MAX).map(|claim| match ItemId::new(Link::of(claim).reservation) {
            Ok(reservation) => reservation_id(collection, &reservation),
            // Claims that some other way made are of no reservation.
            Err(_) => ClaimId { collection: collection.clone(), number: claim.number }.text(),
        });
    let named = named.collect::<Vec<_>>().join(", ");
    let more = match open.len().saturating_sub(OPEN_NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("reservations are open: {named}{more}; wait for them, or cancel them")
}

/// The hash of the sold numbers, in hexadecimal digits.
pub fn sold_hash(sold: &[u32]) -> String {
    hex(&hash_sold(sold))
}

fn hash_sold(sold: &[u32]) -> [u8; 32] {
    let mut digest = Sha256::new();
    for number in sold {
        digest.update(format!("{number}\n").as_bytes());
    }
    digest.finalize().into()
}

fn sold(cells: &[u8]) -> Vec<u32> {
    (1..).zip(cells).filter(|(_, cell)| **cell == SOLD).map(|(number, _)| number).collect()
}

fn unhex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).ok()?;
    }
    Some(bytes)
}
