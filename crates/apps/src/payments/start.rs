//! Begins to pay, and gives it up.

use tenure_core::{Expect, Verb, hex};

use super::attempt::{ATTEMPTS, AttemptId, Pocket, hash_of, is_step_race, key_for};
use super::catalog::Configured;
use super::model::{AttemptDoc, NewPayment, Payment, State, TabDoc, Was};
use super::provider::Started;
use super::{Charge, Currency, Money, Payments};
use crate::desk::{digit, status};
use crate::raffle::{KIND, Order};
use crate::random::random;
use crate::{Actor, Desk, Document, Done, Permission, Person, Refusal, RequestKey, Result, put};

/// Attempts for one reservation: enough for every card in a wallet, and no place to try stolen ones.
const ATTEMPTS_MAX: u32 = 10;

impl Payments {
    /// Begins to pay for a reservation. It is kept from now on until the provider's page is over, once past its
    /// own deadline; an attempt with another provider that is still open is given up for it.
    pub async fn start(&self, actor: &Actor, new: &NewPayment) -> Result<Done<Payment>> {
        let done = self.try_start(actor, new).await;
        done.inspect_err(|refusal| {
            let (who, code) = (&*actor.principal.id, refusal.code());
            tracing::info!(actor = who, reservation = new.reservation_id, code, "payment denied: {refusal}");
        })
    }

    async fn try_start(&self, actor: &Actor, new: &NewPayment) -> Result<Done<Payment>> {
        actor.require(Permission::RaffleBuy)?;
        let order = self.raffles.order(&new.reservation_id)?;
        check_owner(actor, &order)?;
        let collection = order.collection.clone();
        let asked = (actor, &collection, Desk::OWN_STEP);
        if let Some(done) = self.desk.decided_unless(asked, is_step_race).await? {
            let id = AttemptId { collection, item: done.written(ATTEMPTS)?.id.clone() };
            // The answer to its commit may have been lost, and then nobody began it or knows that it is due.
            self.note(&id)?;
            let payment = self.show(actor, &id)?;
            return Ok(Done { replayed: true, ..done.show(payment) });
        }
        self.startable(&new.provider, &order)?;
        self.make_room(&order, &new.provider).await?;
        let id = AttemptId { collection: collection.clone(), item: ATTEMPTS.id(&self.desk.fresh_id(""))? };
        let pocket = Pocket { token: hex(&random::<32>()?), html: None, handle: None };
        let vault = self.desk.fresh_id("attempt.");
        self.fill_pocket(&vault, &pocket)?;
        let plan = || {
            let order = self.raffles.order(&new.reservation_id)?;
            check_owner(actor, &order)?;
            let (_, amount) = self.startable(&new.provider, &order)?;
            let claim = order.held()?;
            let (tab_id, tab) = self.tab(&order)?;
            if let Some((open, state)) = self.open_attempt(&order, tab.as_ref())? {
                return Err(Refusal::WrongStatus {
                    what: "payment",
                    id: open.to_string(),
                    status: state.as_str().to_owned(),
                    message: "it is open: finish it or cancel it first".into(),
                });
            }
            let attempts = tab.as_ref().map_or(0, |tab| tab.data.attempts);
            if attempts >= ATTEMPTS_MAX {
                return Err(Refusal::Limit { limit: "attempts_per_reservation", max: ATTEMPTS_MAX.into() });
            }
            let policy = self.desk.policy(KIND)?.ok_or(Refusal::Broken)?;
            let deadline_ms = match &*claim.phase {
                "selection" => {
                    order.now_ms + policy.phase("checkout").map_or(0, |(checkout, _)| checkout.ttl_ms)
                }
                "checkout" => claim.expires_at_ms,
                // Left there by an attempt that is over.
                _ => tab.as_ref().map_or(claim.expires_at_ms, |tab| tab.data.deadline_ms),
            };
            let last = id.item.to_string();
            let written = TabDoc { last, attempts: attempts + 1, deadline_ms };
            let mut verbs = if &*claim.phase == "paying" { Vec::new() } else { order.pay(None)? };
            verbs.push(match &tab {
                Some(tab) => tab.put(&status("tab"), &written, None)?,
                None => put(&tab_id, &status("tab"), &written, Expect::Absent, None)?,
            });
            let data = AttemptDoc {
                reservation: order.id(),
                buyer: Person::from(&actor.principal),
                provider: new.provider.clone(),
                amount,
                number: guid(random()?),
                code: random::<6>()?.map(|byte| digit(byte.into()).to_ascii_uppercase()).iter().collect(),
                token_hash: hash_of(&pocket.token),
                vault: vault.clone(),
                started_ms: order.now_ms,
                until_ms: None,
                instructions: None,
                charging_ms: None,
                tries: 0,
                next_ms: None,
                txn_id: None,
                paid: None,
                reason: None,
                transfer: None,
                decision: None,
                history: vec![Was { state: State::Created, at_ms: order.now_ms }],
            };
            verbs.push(put(&id.item, &status(State::Created.as_str()), &data, Expect::Absent, None)?);
            Ok(Some(Verb::Group(verbs)))
        };
        let made = self.desk.attempt((actor, &collection, Desk::OWN_STEP), is_step_race, plan).await;
        let done = match made {
            Ok(Some(done)) => done,
            Ok(None) => return Err(Refusal::Broken),
            Err(refusal) => {
                self.forget(&vault);
                return Err(refusal);
            }
        };
        let made = AttemptId { collection, item: done.written(ATTEMPTS)?.id.clone() };
        if done.replayed {
            // The same request, at once: the other one begins it.
            self.forget(&vault);
        } else {
            self.note(&made)?;
            self.till.figures.started(&new.provider);
            // By itself: it must end well although its caller may have gone.
            let (payments, id) = (self.clone(), made.clone());
            let begun = tokio::spawn(async move { payments.begin(&id).await }).await;
            begun.unwrap_or_else(|error| {
                tracing::error!(payment = %made, %error, "a payment did not begin");
                Err(Refusal::Broken)
            })?;
        }
        let payment = self.show(actor, &made)?;
        Ok(done.show(payment))
    }

    /// The provider can be paid with now, and takes this amount.
    fn startable(&self, code: &str, order: &Order) -> Result<(Configured, Money)> {
        let provider =
            self.provider(code).map_err(|_| Refusal::invalid("provider", "there is none of this code"))?;
        if !provider.data.is_enabled || !self.missing(&provider).is_empty() {
            return Err(Refusal::WrongStatus {
                what: "provider",
                id: code.to_owned(),
                status: "disabled".to_owned(),
                message: "choose another one".into(),
            });
        }
        let can = provider.connector.capabilities();
        let currency = Currency::new(order.currency())
            .filter(|currency| can.currencies.is_empty() || can.currencies.contains(&currency.code()))
            .ok_or_else(|| Refusal::invalid("provider", format!("does not take {}", order.currency())))?;
        let amount = i64::try_from(order.total_minor()).ok().filter(|minor| *minor <= can.max_minor);
        let amount = amount.and_then(|minor| Money::new(minor, currency));
        let amount =
            amount.ok_or_else(|| Refusal::invalid("provider", "does not take so large an amount"))?;
        Ok((provider, amount))
    }

    fn open_attempt(
        &self,
        order: &Order,
        tab: Option<&Document<TabDoc>>,
    ) -> Result<Option<(AttemptId, State)>> {
        let Some(tab) = tab else { return Ok(None) };
        let item = tenure_core::ItemId::new(tab.data.last.as_str())?;
        let id = AttemptId { collection: order.collection.clone(), item };
        let state = self.attempt(&id)?.state()?;
        Ok(state.is_open().then_some((id, state)))
    }

    /// A buyer who picks another provider gives the first attempt up.
    async fn make_room(&self, order: &Order, provider: &str) -> Result<()> {
        let (_, tab) = self.tab(order)?;
        let Some((open, state)) = self.open_attempt(order, tab.as_ref())? else { return Ok(()) };
        if state == State::RequiresAction && self.attempt(&open)?.data.provider != provider {
            self.give_up(&open, None).await?;
        }
        Ok(())
    }

    /// Asks the provider for its page or its instructions.
    async fn begin(&self, id: &AttemptId) -> Result<()> {
        let attempt = self.attempt(id)?.data;
        let provider = self.provider(&attempt.provider)?;
        let account = self.account(&provider)?;
        let Some(pocket) = self.pocket(&attempt)? else {
            // It was given up meanwhile, and its secrets with it.
            let is_over = self.attempt(id)?.state()? != State::Created;
            return if is_over { Ok(()) } else { Err(Refusal::Broken) };
        };
        let bill = self.bill(id, &attempt, &pocket.token);
        let (good_for_ms, instructions) = match provider.connector.start(account, bill).await {
            Ok(Started::Page { html, handle, good_for_ms }) => {
                let (html, handle) = (Some(html.expose().to_owned()), Some(handle.expose().to_owned()));
                self.fill_pocket(&attempt.vault, &Pocket { html, handle, ..pocket })?;
                (good_for_ms, None)
            }
            Ok(Started::Instructions(instructions)) => (i64::MAX, Some(instructions)),
            Err(trouble) => {
                tracing::warn!(payment = %id, provider = attempt.provider, "a payment cannot begin: {trouble}");
                return self.fail(id, &[State::Created], trouble.reason).await;
            }
        };
        let begun = self.step(id, |attempt, state, order| {
            if state != State::Created {
                return Ok(None);
            }
            let held_ms = order.claim.as_ref().map_or(order.now_ms, |claim| claim.expires_at_ms);
            let until_ms = attempt.data.started_ms.saturating_add(good_for_ms).min(held_ms);
            let moved = attempt.moved(State::RequiresAction, order.now_ms, |data| {
                data.until_ms = Some(until_ms);
                data.instructions.clone_from(&instructions);
            })?;
            Ok(Some(vec![moved]))
        });
        if begun.await?.is_none() {
            // What was kept of its page is forgotten again.
            self.note(id)?;
        }
        Ok(())
    }

    /// The buyer gives an attempt up; again: the same.
    pub async fn cancel(&self, actor: &Actor, id: &str) -> Result<Done<Payment>> {
        actor.require(Permission::RaffleBuy)?;
        let id = AttemptId::parse(id)?;
        self.check_may_see(actor, &id)?;
        let attempt = self.attempt(&id)?;
        let key = key_for(actor, &attempt.data);
        if let Some(done) = self.repeated(actor, &id, key.as_ref()).await? {
            return Ok(done);
        }
        let before = attempt.state()?;
        self.give_up(&id, key.as_ref()).await?;
        let state = self.attempt(&id)?.state()?;
        // Whoever cancels what turns out to be paid is told so.
        if state == State::Canceled || before == State::RequiresAction {
            return self.carried_out(actor, &id);
        }
        Err(wrong_state(&id, state, "only what the buyer can still pay is canceled"))
    }

    /// Ends an attempt that nobody has paid; the provider is asked first whether that is so.
    pub(super) async fn give_up(&self, id: &AttemptId, key: Option<&RequestKey>) -> Result<()> {
        if self.attempt(id)?.state()? == State::Created {
            // Nobody has its page yet, so nobody can have paid; and where the process that asked for it is gone, nobody
            // ever will.
            self.end_under(id, key, &[State::Created], (State::Canceled, "canceled")).await?;
        }
        let attempt = self.attempt(id)?;
        if attempt.state()? != State::RequiresAction {
            return Ok(());
        }
        match self.look(id, &attempt.data).await {
            Some(Ok(outcome)) if !matches!(outcome.status, Charge::Absent | Charge::Declined) => {
                self.conclude(id, Ok(outcome), true).await
            }
            // An answer that is missing changes nothing: only this server charges, and it has not.
            _ => self.end_under(id, key, &[State::RequiresAction], (State::Canceled, "canceled")).await,
        }
    }

    fn forget(&self, vault: &str) {
        if let Err(error) = self.till.vault.remove(vault) {
            tracing::warn!(vault, %error, "a secret that nobody needs could not be deleted");
        }
    }
}

/// Only the owner pays.
fn check_owner(actor: &Actor, order: &Order) -> Result<()> {
    if order.owner_id() == &*actor.principal.id {
        Ok(())
    } else {
        Err(Refusal::NotOwner { what: "reservation", id: order.id() })
    }
}

/// The attempt's state does not allow it.
pub(super) fn wrong_state(id: &AttemptId, state: State, message: &'static str) -> Refusal {
    let (id, status, message) = (id.to_string(), state.as_str().to_owned(), message.into());
    Refusal::WrongStatus { what: "payment", id, status, message }
}

/// Random bits as a GUID, version 4.
fn guid(mut bytes: [u8; 16]) -> String {
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let text = hex(&bytes);
    [&text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..]].join("-")
}
