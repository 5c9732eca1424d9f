//! Short words for raffles.

use tenure_apps::raffle::{
    NewRaffle, NewReservation, Order, PatchRaffle, RaffleStatus, Raffles, Reservation, ReservationStatus,
};
use tenure_apps::{Actor, Desk, Refusal};
use tenure_core::{CollectionKey, ItemId, Verb};

use crate::common::{Office, person};

pub(crate) const SECOND_MS: i64 = 1_000;
pub(crate) const SELECTION_MS: i64 = 600 * SECOND_MS;
pub(crate) const CHECKOUT_MS: i64 = 300 * SECOND_MS;

/// An office with an open raffle in it: `navidad`, 100 numbers at ₡1,000.00.
pub(crate) struct World {
    pub(crate) office: Office,
    pub(crate) raffles: Raffles,
    pub(crate) ana: Actor,
    pub(crate) bea: Actor,
    pub(crate) root: Actor,
}

impl World {
    /// With the raffle as a draft.
    pub(crate) async fn draft(numbers: u32) -> Self {
        let world = Self::in_office(Office::new());
        world.raffles.create(&world.root, new(numbers)).await.expect("is made");
        world
    }

    pub(crate) async fn new() -> Self {
        Self::of(100).await
    }

    pub(crate) async fn of(numbers: u32) -> Self {
        let world = Self::draft(numbers).await;
        world.becomes(RaffleStatus::Active).await.expect("opens");
        world
    }

    fn in_office(office: Office) -> Self {
        let raffles = office.raffles();
        Self { raffles, office, ana: person("ana"), bea: person("bea"), root: person("root") }
    }

    pub(crate) fn restart(self) -> Self {
        let Self { office, raffles, .. } = self;
        drop(raffles);
        Self::in_office(office.restart())
    }

    pub(crate) async fn becomes(&self, status: RaffleStatus) -> Result<(), Refusal> {
        self.raffles.patch(&self.root, "navidad", &PatchRaffle { status }).await.map(drop)
    }

    /// Reserves, from the person's one tab.
    pub(crate) async fn reserve(&self, who: &Actor, numbers: &[u32]) -> Result<Reservation, Refusal> {
        self.reserve_in(who, "tab", numbers).await
    }

    pub(crate) async fn reserve_in(
        &self,
        who: &Actor,
        session: &str,
        numbers: &[u32],
    ) -> Result<Reservation, Refusal> {
        let reserved = self.raffles.reserve(who, &asked(session, numbers)).await?;
        Ok(reserved.value.reservation)
    }

    pub(crate) fn get(&self, id: &str) -> Reservation {
        self.raffles.get_reservation(&self.root, id).expect("reads")
    }

    pub(crate) fn status(&self, id: &str) -> ReservationStatus {
        self.get(id).status
    }

    /// The numbers as this person sees them.
    pub(crate) async fn grid(&self, who: &Actor) -> String {
        self.raffles.numbers(who, "navidad").await.expect("reads").numbers
    }

    /// One step of a payment, in one commit.
    pub(crate) async fn step(
        &self,
        id: &str,
        plan: impl Fn(&Order) -> Result<Vec<Verb>, Refusal>,
    ) -> Result<(), Refusal> {
        let order = self.raffles.order(id)?;
        let plan = || Ok(Verb::Group(plan(&self.raffles.order(id)?)?));
        let holder = order.holder()?;
        let done = self.office.desk.change(&holder, &order.collection, Desk::OWN_STEP, plan).await;
        done.map(drop).map_err(|refusal| order.plain(refusal))
    }

    /// An administrator takes the number from whoever has it.
    pub(crate) async fn force_free(&self, number: u32) {
        let item = ItemId::new(number.to_string()).expect("a number");
        let plan = || Ok(Verb::ForceRelease { item: item.clone(), reason: "a test".into() });
        let collection = CollectionKey::new("raffle/navidad").expect("a key");
        let done = self.office.desk.change(&self.root, &collection, Desk::OWN_STEP, plan).await;
        done.expect("somebody has it");
    }

    /// Reserves, pays, and has the numbers.
    pub(crate) async fn buy(&self, who: &Actor, numbers: &[u32]) -> String {
        let session = format!("buys-{}", numbers[0]);
        let id = self.reserve_in(who, &session, numbers).await.expect("are free").id;
        self.step(&id, Order::sell).await.expect("are sold");
        id
    }
}

pub(crate) fn new(numbers: u32) -> NewRaffle {
    NewRaffle {
        id: Some("navidad".to_owned()),
        title: "Rifa de Navidad".to_owned(),
        numbers,
        price_minor: 100_000,
        currency: "CRC".to_owned(),
        draw_at: None,
    }
}

pub(crate) fn asked(session: &str, numbers: &[u32]) -> NewReservation {
    let (raffle_id, session_id) = ("navidad".to_owned(), session.to_owned());
    NewReservation { raffle_id, number_ids: numbers.to_vec(), session_id }
}

/// The field that a refusal names.
pub(crate) fn field<T: std::fmt::Debug>(outcome: Result<T, Refusal>) -> String {
    match outcome.expect_err("is refused") {
        Refusal::Invalid { field, .. } => field,
        other => panic!("no field in {other:?}"),
    }
}

/// The numbers that could not be had.
pub(crate) fn taken<T: std::fmt::Debug>(outcome: Result<T, Refusal>) -> Vec<u32> {
    match outcome.expect_err("is refused") {
        Refusal::Taken { numbers, .. } => numbers,
        other => panic!("nothing taken in {other:?}"),
    }
}
