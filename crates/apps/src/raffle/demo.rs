//! A raffle to try things on: a hundred numbers, a few of them sold and a few held.

use tenure_core::Verb;

use super::{NewRaffle, NewReservation, PatchRaffle, RaffleStatus, Raffles};
use crate::demo::People;
use crate::{Actor, Desk, Result};

const ID: &str = "navidad";

/// Loads it, unless there are raffles already.
pub(crate) async fn load_demo(raffles: &Raffles, people: &People) -> Result<()> {
    if !raffles.list(None, Some(1)).await?.raffles.is_empty() {
        return Ok(());
    }
    let new = NewRaffle {
        id: Some(ID.to_owned()),
        title: "Rifa de Navidad".to_owned(),
        numbers: 100,
        price_minor: 100_000,
        currency: "CRC".to_owned(),
        draw_at: Some("2026-12-24T18:00:00Z".to_owned()),
    };
    raffles.create(&people.admin, new).await?;
    raffles.patch(&people.admin, ID, &PatchRaffle { status: RaffleStatus::Active }).await?;
    let [ana, bruno] = &people.editors;
    let sold = reserve(raffles, ana, "demo-bought", &[7, 13, 21]).await?;
    let plan = || raffles.order(&sold)?.sell().map(Verb::Group);
    let order = raffles.order(&sold)?;
    raffles.desk().change(&order.holder()?, &order.collection, Desk::OWN_STEP, plan).await?;
    reserve(raffles, ana, "demo-held", &[42, 43]).await?;
    reserve(raffles, bruno, "demo-held", &[5, 77, 100]).await?;
    Ok(())
}

async fn reserve(raffles: &Raffles, who: &Actor, session: &str, numbers: &[u32]) -> Result<String> {
    let (raffle_id, session_id) = (ID.to_owned(), session.to_owned());
    let new = NewReservation { raffle_id, number_ids: numbers.to_vec(), session_id };
    Ok(raffles.reserve(who, &new).await?.value.reservation.id)
}
