//! The raffle itself: made, opened, paused, shown.

use std::borrow::Cow;

use tenure_core::{CollectionKey, Expect, Verb};

use super::model::{Commitment, RaffleDoc};
use super::seeds::{hash_of, nonce};
use super::{
    COLLECTIONS_MAX, Counts, KIND, NUMBERS_MAX, NewRaffle, PAGE_DEFAULT, PAGE_MAX, PRICE_MINOR_MAX,
    PatchRaffle, Raffle, RafflePage, RaffleStatus, Raffles, TITLE_BYTES_MAX, collection_of, raffle_item,
    status,
};
use crate::family::page_size;
use crate::payments::Currency;
use crate::{Actor, Desk, Document, Done, Permission, Refusal, Result, Time, put, text};

impl Raffles {
    /// Makes a raffle, as a draft.
    pub async fn create(&self, actor: &Actor, new: NewRaffle) -> Result<Done<Raffle>> {
        actor.require(Permission::RaffleManage)?;
        let id = match (&new.id, &actor.key) {
            (Some(id), _) => text::code("id", id)?.to_owned(),
            // A retry must find what the first one made.
            (None, Some(key)) => key.id("raffle-", &actor.principal),
            (None, None) => self.desk.fresh_id("raffle-"),
        };
        let document = check(new)?;
        let collection = collection_of(&id).ok_or_else(|| Refusal::invalid("id", "is no id of a raffle"))?;
        let plan = || {
            // A collection that somebody made by hand has items of its own, which are no numbers.
            if self.desk.reader().collection(&collection)?.is_some() {
                return Err(Refusal::invalid("id", "is taken"));
            }
            let draft = put(&raffle_item(), &status("draft"), &document, Expect::Absent, None)?;
            Ok(Verb::Group(vec![Verb::CreateCollection, draft]))
        };
        let done = self.desk.change(actor, &collection, Desk::OWN_STEP, plan).await?;
        let raffle = self.get(&id).await?;
        Ok(done.show(raffle))
    }

    /// Opens, pauses or reopens a raffle. Opening it for the first time binds its draw to a seed.
    pub async fn patch(&self, actor: &Actor, id: &str, patch: &PatchRaffle) -> Result<Done<Raffle>> {
        actor.require(Permission::RaffleManage)?;
        let (collection, _) = self.raffle(id)?;
        let plan = || {
            let (_, raffle) = self.raffle(id)?;
            let now = raffle.status()?;
            let mut data = raffle.data.clone();
            match (now, patch.status) {
                (now, then) if now == then => return Ok(None),
                (RaffleStatus::Draft | RaffleStatus::Paused, RaffleStatus::Active) => {
                    if data.commitment.is_none() {
                        data.commitment = Some(self.commit(id)?);
                    }
                }
                (RaffleStatus::Active, RaffleStatus::Paused) => {}
                (RaffleStatus::Drawn, _) => return Err(raffle.refuse(id, "it is over")),
                (_, RaffleStatus::Drawn) => return Err(raffle.refuse(id, "only its draw makes it drawn")),
                (_, RaffleStatus::Draft) => {
                    return Err(raffle.refuse(id, "what was open is no draft any more"));
                }
                _ => return Err(raffle.refuse(id, "only an active raffle is paused")),
            }
            Ok(Some(raffle.put(&status(patch.status.as_str()), &data, None)?))
        };
        let done = self.desk.change_if(actor, &collection, Desk::OWN_STEP, plan).await?;
        let raffle = self.get(id).await?;
        Ok(match done {
            Some(done) => done.show(raffle),
            None => Done { at_ms: raffle.server_time.0, value: raffle, replayed: false },
        })
    }

    /// A raffle, with how many numbers are what.
    pub async fn get(&self, id: &str) -> Result<Raffle> {
        let counts = self.counts(id).await?;
        let (_, raffle) = self.raffle(id)?;
        self.show(id, &raffle, Some(counts))
    }

    /// A page of raffles, by id.
    pub async fn list(&self, after: Option<String>, limit: Option<usize>) -> Result<RafflePage> {
        let limit = page_size(limit, PAGE_DEFAULT, PAGE_MAX)?;
        let raffles = self.clone();
        self.desk.read(move |_| raffles.page(after.as_deref(), limit)).await
    }

    fn page(&self, after: Option<&str>, limit: usize) -> Result<RafflePage> {
        let (mut shown, mut next) = (Vec::new(), None);
        for (index, collection) in self.collections(after)?.into_iter().enumerate() {
            if shown.len() == limit || index == COLLECTIONS_MAX {
                break;
            }
            let raffle: Option<Document<RaffleDoc>> = self.desk.find(&collection, &raffle_item())?;
            if let Some(raffle) = raffle {
                shown.push(self.show(collection.name(), &raffle, None)?);
            }
            next = Some(collection);
        }
        let next = match next {
            Some(last) if !self.collections(Some(last.name()))?.is_empty() => Some(last.name().to_owned()),
            _ => None,
        };
        Ok(RafflePage { raffles: shown, next, server_time: Time(self.desk.now_ms()) })
    }

    /// Collections of the kind after one, in order. Not all of them are the application's.
    pub(super) fn collections(&self, after: Option<&str>) -> Result<Vec<CollectionKey>> {
        let invalid = || Refusal::invalid("after", "is no cursor");
        // The smallest name there could be, and no raffle's.
        let start = match after {
            Some(after) => collection_of(after).ok_or_else(invalid)?,
            None => CollectionKey::from_parts(KIND, "+")?,
        };
        let page = self.desk.reader().collections(Some(&start), COLLECTIONS_MAX)?;
        let of_kind = page.rows.into_iter().map(|(key, _)| key).take_while(|key| key.kind() == KIND);
        Ok(of_kind.collect())
    }

    fn commit(&self, id: &str) -> Result<Commitment> {
        let nonce = nonce()?;
        let seed_hash = hash_of(&self.seeds.seed(id, &nonce));
        Ok(Commitment { nonce, seed_hash })
    }

    fn show(&self, id: &str, raffle: &Document<RaffleDoc>, counts: Option<Counts>) -> Result<Raffle> {
        let data = &raffle.data;
        Ok(Raffle {
            id: id.to_owned(),
            title: data.title.clone(),
            status: raffle.status()?,
            numbers: data.numbers,
            price_minor: data.price_minor,
            currency: data.currency.clone(),
            draw_at: data.draw_at_ms.map(Time),
            seed_hash: data.commitment.as_ref().map(|commitment| commitment.seed_hash.clone()),
            winner: data.draw.as_ref().map(|draw| draw.winner),
            counts,
            version: raffle.item.version,
            server_time: Time(self.desk.now_ms()),
        })
    }
}

impl Document<RaffleDoc> {
    pub(super) fn status(&self) -> Result<RaffleStatus> {
        RaffleStatus::of(self.item.status.as_str()).ok_or(Refusal::Broken)
    }

    /// Its status does not allow it.
    pub(super) fn refuse(&self, id: &str, message: impl Into<Cow<'static, str>>) -> Refusal {
        let (id, status) = (id.to_owned(), self.item.status.to_string());
        Refusal::WrongStatus { what: "raffle", id, status, message: message.into() }
    }

    /// R4: only an active raffle takes reservations.
    pub(super) fn require_active(&self, id: &str) -> Result<()> {
        if self.status()? == RaffleStatus::Active {
            return Ok(());
        }
        Err(self.refuse(id, "numbers are reserved while it is active"))
    }
}

/// Refuses a raffle that says nothing sensible, naming the field.
fn check(new: NewRaffle) -> Result<RaffleDoc> {
    let invalid = |field: &str, message: String| Err(Refusal::invalid(field, message));
    let title = text::title("title", &new.title, TITLE_BYTES_MAX)?;
    if !(1..=NUMBERS_MAX).contains(&new.numbers) {
        return invalid("numbers", format!("must be 1 to {NUMBERS_MAX}"));
    }
    if !(1..=PRICE_MINOR_MAX).contains(&new.price_minor) {
        return invalid("price_minor", format!("must be 1 to {PRICE_MINOR_MAX} minor units"));
    }
    Currency::parse("currency", &new.currency)?;
    let draw_at_ms = new.draw_at.as_deref().map(time).transpose()?;
    Ok(RaffleDoc {
        title,
        numbers: new.numbers,
        price_minor: new.price_minor,
        currency: new.currency,
        draw_at_ms,
        commitment: None,
        retaken: 0,
        draw: None,
    })
}

fn time(text: &str) -> Result<i64> {
    let time = Time::parse(text).map(|Time(ms)| ms);
    time.ok_or_else(|| Refusal::invalid("draw_at", "must be a time such as 2026-12-24T18:00:00-06:00"))
}
