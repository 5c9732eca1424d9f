//! Short words for payments, and a provider that does as it is told.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tenure_apps::payments::{
    Account, Asking, BAC_CREDOMATIC, Bill, Capabilities, Charge, EditProvider, Field, MINOR_MAX, MemoryVault,
    Mode, Money, NewPayment, NewTransfer, Outcome, Payment, Payments, Provider, SINPE_MOVIL, Sealed, Signal,
    Started, State, Till, Trouble,
};
use tenure_apps::{Actor, Refusal};
use tenure_core::command::Acquire;
use tenure_core::{Command, ItemId, Verb};

use crate::raffle::world::World;

pub(crate) const SECOND_MS: i64 = 1_000;
pub(crate) const MINUTE_MS: i64 = 60 * SECOND_MS;
pub(crate) const HOUR_MS: i64 = 60 * MINUTE_MS;

/// What the provider shall answer, and what it was asked.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) start: Result<(), Trouble>,
    pub(crate) signal: Signal,
    /// `None` never answers.
    pub(crate) confirm: Option<Result<Outcome, Trouble>>,
    pub(crate) lookup: Result<Outcome, Trouble>,
    pub(crate) refund: Result<(), Trouble>,
    /// Neither lookups nor refunds are ever answered.
    pub(crate) is_hung: bool,
    pub(crate) confirms: usize,
    pub(crate) lookups: usize,
    pub(crate) refunds: Vec<Money>,
    pub(crate) bills: Vec<Bill>,
}

#[derive(Clone, Debug)]
pub(crate) struct Script(Arc<Mutex<Said>>);

pub(crate) fn outcome(status: Charge, amount: Option<Money>) -> Outcome {
    Outcome { status, txn_id: Some("R1".to_owned()), amount, reason: None }
}

pub(crate) fn crc(minor: i64) -> Money {
    Money { minor, currency: tenure_apps::payments::Currency::new("CRC").expect("known") }
}

impl Script {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(Said {
            start: Ok(()),
            signal: Signal::Done,
            confirm: Some(Ok(outcome(Charge::Approved, Some(crc(200_000))))),
            lookup: Ok(outcome(Charge::Absent, None)),
            refund: Ok(()),
            is_hung: false,
            confirms: 0,
            lookups: 0,
            refunds: Vec::new(),
            bills: Vec::new(),
        })))
    }
}

impl Provider for Script {
    fn capabilities(&self) -> Capabilities {
        let mode = Mode::Redirect;
        Capabilities { mode, refund: true, lookup: true, currencies: &["CRC"], max_minor: MINOR_MAX }
    }

    fn fields(&self) -> &'static [Field] {
        &[
            Field { name: "merchant_id", is_secret: false, is_needed: true },
            Field { name: "api_key", is_secret: true, is_needed: true },
            Field { name: "environment", is_secret: false, is_needed: true },
        ]
    }

    fn validate_config(&self, config: &Map<String, Value>) -> Result<(), Refusal> {
        match config.get("environment").and_then(Value::as_str) {
            None | Some("sandbox" | "production") => Ok(()),
            Some(_) => Err(Refusal::invalid("config.environment", "must be sandbox or production")),
        }
    }

    fn start(&self, account: Account, bill: Bill) -> Asking<Started> {
        assert_eq!(account.secret("api_key"), "the-secret-key");
        let mut said = self.0.lock();
        said.bills.push(bill);
        let page = said.start.clone().map(|()| Started::Page {
            html: Sealed::new("<p>the page</p>"),
            handle: Sealed::new("the-handle"),
            good_for_ms: 300_000,
        });
        Box::pin(async { page })
    }

    fn parse_callback(&self, _account: &Account, raw: &[u8]) -> Result<Signal, Trouble> {
        match raw {
            b"rubbish" => Err(Trouble::harmless("malformed", "is rubbish")),
            _ => Ok(self.0.lock().signal.clone()),
        }
    }

    fn confirm(&self, _account: Account, _bill: Bill, handle: Sealed) -> Asking<Outcome> {
        assert_eq!(handle.expose(), "the-handle");
        let mut said = self.0.lock();
        said.confirms += 1;
        let answer = said.confirm.clone();
        Box::pin(async move {
            match answer {
                Some(answer) => answer,
                None => std::future::pending().await,
            }
        })
    }

    fn lookup(&self, _account: Account, _bill: Bill) -> Asking<Outcome> {
        let mut said = self.0.lock();
        said.lookups += 1;
        let (answer, is_hung) = (said.lookup.clone(), said.is_hung);
        Box::pin(async move { if is_hung { std::future::pending().await } else { answer } })
    }

    fn refund(&self, _account: Account, bill: Bill) -> Asking<()> {
        let mut said = self.0.lock();
        said.refunds.push(bill.amount);
        let (answer, is_hung) = (said.refund.clone(), said.is_hung);
        Box::pin(async move { if is_hung { std::future::pending().await } else { answer } })
    }

    fn cancel(&self, _account: Account, _bill: Bill) -> Asking<()> {
        Box::pin(async { Ok(()) })
    }
}

/// A raffle with both providers set up.
pub(crate) struct Shop {
    pub(crate) world: World,
    pub(crate) payments: Payments,
    pub(crate) script: Script,
    pub(crate) vault: MemoryVault,
}

impl Shop {
    pub(crate) async fn new() -> Self {
        let shop = Self::bare(World::new().await, Script::new(), MemoryVault::default());
        let config = json!({"merchant_id": "777", "api_key": "the-secret-key"});
        shop.edit(BAC_CREDOMATIC, json!({"is_enabled": true, "config": config})).await.expect("is set up");
        let config = json!({"phone_number": "8888-0000", "account_holder": "Asociación Ejemplo"});
        shop.edit(SINPE_MOVIL, json!({"config": config})).await.expect("is set up");
        shop
    }

    pub(crate) fn bare(world: World, script: Script, vault: MemoryVault) -> Self {
        let till = Till::new(vault.clone(), "https://rifa.example/").with(BAC_CREDOMATIC, script.clone());
        let payments = Payments::new(world.raffles.clone(), till);
        Self { world, payments, script, vault }
    }

    /// Nothing is set up.
    pub(crate) async fn empty() -> Self {
        Self::bare(World::new().await, Script::new(), MemoryVault::default())
    }

    /// The process dies, and another goes on that has run for a while: it does not look for what was forgotten.
    pub(crate) fn elsewhere(self) -> Self {
        let Self { world, payments, script, vault } = self;
        drop(payments);
        Self::bare(world.restart(), script, vault)
    }

    /// The process dies and comes back; what it forgot it finds again.
    pub(crate) async fn restart(self) -> Self {
        let shop = self.elsewhere();
        shop.payments.recover(true).await.expect("recovers");
        shop.payments.settle_due().await;
        shop
    }

    pub(crate) async fn edit(&self, code: &str, edit: Value) -> Result<(), Refusal> {
        let edit: EditProvider = serde_json::from_value(edit).expect("an edit");
        self.payments.edit_provider(&self.world.root, code, &edit).await.map(drop)
    }

    pub(crate) fn say(&self, change: impl FnOnce(&mut Said)) {
        change(&mut self.script.0.lock());
    }

    /// `(confirms, lookups, refunds)`.
    pub(crate) fn asked(&self) -> (usize, usize, usize) {
        let said = self.script.0.lock();
        (said.confirms, said.lookups, said.refunds.len())
    }

    pub(crate) fn refunded(&self) -> Vec<i64> {
        self.script.0.lock().refunds.iter().map(|money| money.minor).collect()
    }

    pub(crate) fn pass(&self, by_ms: i64) {
        self.world.office.pass(by_ms);
    }

    /// Time passes, and the settler looks.
    pub(crate) async fn wait(&self, by_ms: i64) {
        self.pass(by_ms);
        self.payments.settle_due().await;
    }

    /// Reserves 7 and 8, which cost ₡2,000.00.
    pub(crate) async fn reserved(&self, who: &Actor) -> String {
        self.world.reserve(who, &[7, 8]).await.expect("are free").id
    }

    pub(crate) async fn start(
        &self,
        who: &Actor,
        reservation: &str,
        provider: &str,
    ) -> Result<Payment, Refusal> {
        let new = NewPayment { reservation_id: reservation.to_owned(), provider: provider.to_owned() };
        self.payments.start(who, &new).await.map(|done| done.value)
    }

    /// Ana has 7 and 8 and is on the card page.
    pub(crate) async fn paying(&self) -> Payment {
        let reservation = self.reserved(&self.world.ana).await;
        self.start(&self.world.ana, &reservation, BAC_CREDOMATIC).await.expect("begins")
    }

    /// The same with instructions for a transfer.
    pub(crate) async fn sending(&self) -> Payment {
        let reservation = self.reserved(&self.world.ana).await;
        self.start(&self.world.ana, &reservation, SINPE_MOVIL).await.expect("begins")
    }

    pub(crate) async fn back(&self, payment: &Payment) -> Result<State, Refusal> {
        self.payments.callback(&payment.id, token(payment), b"done").await.map(|returned| returned.state)
    }

    pub(crate) fn state(&self, payment: &Payment) -> State {
        self.now(payment).state
    }

    pub(crate) fn now(&self, payment: &Payment) -> Payment {
        self.payments.get(&self.world.root, &payment.id).expect("reads")
    }

    /// The reservation's status and phase, and how 7 and 8 look to Bea.
    pub(crate) async fn numbers(&self, payment: &Payment) -> (String, String) {
        let reservation = self.world.get(&payment.reservation_id);
        let grid = self.world.grid(&self.world.bea).await;
        (reservation.phase, grid[6..8].to_owned())
    }

    /// An administrator frees what Ana holds, whatever she is doing.
    pub(crate) async fn force_free(&self) {
        let verb = Verb::ForceRelease { item: ItemId::new("7").expect("a number"), reason: "a test".into() };
        self.ask(&self.world.root, verb).await;
    }

    /// Somebody takes a number by itself.
    pub(crate) async fn take(&self, who: &Actor, number: &str) {
        let items = vec![ItemId::new(number).expect("a number")];
        self.ask(who, Verb::Acquire(Acquire { items, ..Acquire::default() })).await;
    }

    async fn ask(&self, who: &Actor, verb: Verb) {
        let collection = tenure_core::CollectionKey::new("raffle/navidad").expect("a key");
        let command = Command { collection, actor: who.principal.clone(), verb };
        self.world.office.engine.execute(command).await.outcome.expect("is done");
    }
}

/// The token in the payment's page.
pub(crate) fn token(payment: &Payment) -> &str {
    payment.payment_url.as_deref().expect("has a page").rsplit('/').next().expect("a token")
}

pub(crate) fn transfer(reference: &str, phone: &str) -> NewTransfer {
    NewTransfer {
        reference: reference.to_owned(),
        payer_phone: phone.to_owned(),
        payer_name: None,
        payer_bank: None,
        amount_minor: 200_000,
        transferred_at: None,
    }
}

/// Waits until it is so; what is awaited happens in another task.
pub(crate) async fn until(mut is_so: impl FnMut() -> bool) {
    for _ in 0..1_000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("it never came to that");
}
