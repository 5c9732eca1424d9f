//! From the buyer's return to numbers that are sold, in three steps:
//!
//! ```text
//!  (a) commit: the reservation is held ─► processing
//!  (b) the provider charges; no lock is held, and it may take a while
//!  (c) commit: the outcome, and what becomes of the numbers
//! ```
//!
//! Of two returns at once one makes (a), and only that one charges. A crash between any two leaves an attempt in
//! `processing`, which the settler looks up.

use tenure_core::{Claim, Guard, Verb};

use super::attempt::{AttemptId, hash_of};
use super::model::{AttemptDoc, State};
use super::provider::{Charge, Outcome, Signal, Trouble};
use super::settle::{ABSENT_AFTER_MS, CHARGE_MS, LOOKS_MAX, backoff_ms, late_look_ms};
use super::{Payments, Sealed};
use crate::raffle::{KIND, Order, ReservationStatus};
use crate::{Refusal, RequestKey, Result};

/// How an attempt stands after a return, in so few words that anybody with its token may know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Returned {
    /// The attempt.
    pub id: String,
    /// Its state.
    pub state: State,
}

/// A provider's page, and where it may send its forms.
#[derive(Clone, Debug)]
pub struct Page {
    /// The page.
    pub html: Sealed,
    /// `https://host`; `None` for nowhere.
    pub origin: Option<String>,
}

impl Payments {
    /// The provider's page, for whoever has its token: as long as the buyer can pay.
    pub fn page(&self, id: &str, token: &str) -> Result<Page> {
        let id = self.by_token(id, token)?;
        let attempt = self.attempt(&id)?;
        let gone = || Refusal::not_found("payment page", &id);
        if attempt.state()? != State::RequiresAction || self.is_over(&attempt.data) {
            return Err(gone());
        }
        let html = self.pocket(&attempt.data)?.and_then(|pocket| pocket.html);
        let html = html.map(Sealed::new).ok_or_else(gone)?;
        let provider = self.provider(&attempt.data.provider)?;
        let origin = provider.connector.page_origin(&self.account(&provider)?);
        Ok(Page { html, origin })
    }

    /// The buyer's browser came back. What it brings is a signal; the provider is asked.
    pub async fn callback(&self, id: &str, token: &str, raw: &[u8]) -> Result<Returned> {
        let id = self.by_token(id, token)?;
        let attempt = self.attempt(&id)?;
        let provider = self.provider(&attempt.data.provider)?;
        let signal =
            provider.connector.parse_callback(&self.account(&provider)?, raw).map_err(|trouble| {
                tracing::info!(payment = %id, "a callback cannot be read: {trouble}");
                Refusal::invalid("Response", trouble.message)
            })?;
        match attempt.state()? {
            State::RequiresAction => {
                // By itself: it must end well although the browser may have gone.
                let (payments, asked) = (self.clone(), id.clone());
                let done = tokio::spawn(async move { payments.returned(&asked, signal).await }).await;
                done.unwrap_or_else(|error| {
                    tracing::error!(payment = %id, %error, "a payment's return did not end");
                    Err(Refusal::Broken)
                })?;
            }
            // A reload costs the gateway no more than a look now and then.
            state
                if state.is_unpaid_end()
                    && self.till.agenda.may_look(&id.to_string(), self.desk.now_ms()) =>
            {
                self.look_late(&id, false).await?;
            }
            // The same again: the same answer.
            _ => {}
        }
        Ok(Returned { id: id.to_string(), state: self.attempt(&id)?.state()? })
    }

    async fn returned(&self, id: &AttemptId, signal: Signal) -> Result<()> {
        let attempt = self.attempt(id)?.data;
        if let Signal::NotAuthenticated { reason } = signal {
            tracing::info!(payment = %id, reason, "the buyer's bank does not vouch for the buyer");
            return self.fail(id, &[State::RequiresAction], reason).await;
        }
        if self.is_over(&attempt) {
            return self.expire(id).await;
        }
        // Before anything moves: without it nothing can be charged.
        let Some(handle) = self.pocket(&attempt)?.and_then(|pocket| pocket.handle) else {
            tracing::error!(payment = %id, "what confirms a payment is gone; nothing is charged");
            return self.fail(id, &[State::RequiresAction], "secrets_lost").await;
        };
        if !self.secure(id).await? {
            return Ok(());
        }
        let provider = self.provider(&attempt.provider)?;
        let (account, bill) = (self.account(&provider)?, self.bill(id, &attempt, ""));
        let outcome = provider.connector.confirm(account, bill, Sealed::new(handle)).await;
        self.conclude(id, outcome, false).await
    }

    /// (a): the numbers are the buyer's, and stay so while the provider charges. `false` if there is nothing
    /// to charge: another return did this, or the numbers are gone.
    async fn secure(&self, id: &AttemptId) -> Result<bool> {
        // Taking the numbers again is a commit of its own, after which they may be lost again.
        for _ in 0..3 {
            let (mut is_lost, mut is_other) = (false, false);
            let done = self
                .step(id, |attempt, state, order| {
                    (is_lost, is_other) = (false, false);
                    if state != State::RequiresAction {
                        return Ok(None);
                    }
                    if !is_price_of(&attempt.data, order) {
                        is_other = true;
                        return Ok(None);
                    }
                    let Some(claim) = &order.claim else {
                        is_lost = true;
                        return Ok(None);
                    };
                    let mut verbs = self.covered(order, claim)?;
                    // Nobody charges for a claim that ended since it was read: its own heartbeat would be
                    // refused, and so is this.
                    verbs.push(under(
                        claim,
                        attempt.moved(State::Processing, order.now_ms, |data| {
                            data.charging_ms = Some(order.now_ms);
                        })?,
                    ));
                    Ok(Some(verbs))
                })
                .await?;
            if done.is_some() {
                return Ok(true);
            }
            if is_other {
                tracing::error!(payment = %id, "nothing is charged: the reservation costs something else now");
                self.fail(id, &[State::RequiresAction], "amount").await?;
                return Ok(false);
            }
            if !is_lost {
                return Ok(false);
            }
            if let Err(refusal) = self.retake(id).await {
                tracing::info!(payment = %id, "nothing is charged, the numbers are gone: {refusal}");
                self.end(id, &[State::RequiresAction], State::Expired, "numbers_gone").await?;
                return Ok(false);
            }
        }
        self.end(id, &[State::RequiresAction], State::Expired, "numbers_gone").await?;
        Ok(false)
    }

    /// The numbers are kept at least for as long as a charge takes: `paying`, and where too little is left of that,
    /// `verification`.
    fn covered(&self, order: &Order, claim: &Claim) -> Result<Vec<Verb>> {
        let policy = self.desk.policy(KIND)?.ok_or(Refusal::Broken)?;
        let ttl_ms = |name: &str| policy.phase(name).map_or(0, |(phase, _)| phase.ttl_ms);
        let is_paying = &*claim.phase == "paying";
        let left_ms = if is_paying { claim.expires_at_ms - order.now_ms } else { ttl_ms("paying") };
        if left_ms >= CHARGE_MS || ttl_ms("verification") <= left_ms || &*claim.phase == "verification" {
            return if is_paying { Ok(Vec::new()) } else { order.pay(None) };
        }
        order.verify(None)
    }

    /// Takes all numbers again, or none.
    async fn retake(&self, id: &AttemptId) -> Result<()> {
        let taken = self
            .step(id, |_, _, order| if order.claim.is_some() { Ok(None) } else { order.retake().map(Some) })
            .await?;
        if taken.is_some() {
            self.till.figures.late();
        }
        Ok(())
    }

    /// (c): what the provider says, made true.
    pub(super) async fn conclude(
        &self,
        id: &AttemptId,
        outcome: Result<Outcome, Trouble>,
        is_lookup: bool,
    ) -> Result<()> {
        const CHARGING: &[State] = &[State::RequiresAction, State::Processing, State::Unknown];
        let attempt = self.attempt(id)?;
        let (state, data) = (attempt.state()?, attempt.data);
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(trouble) if trouble.is_harmless && !is_lookup => {
                tracing::warn!(payment = %id, "nothing was charged: {trouble}");
                return self.fail(id, CHARGING, trouble.reason).await;
            }
            Err(trouble) => {
                tracing::warn!(payment = %id, "whether it was charged is unknown: {trouble}");
                return self.unclear(id, trouble.reason).await;
            }
        };
        let reason = outcome.reason.clone().unwrap_or_else(|| "declined".to_owned());
        match outcome.status {
            Charge::Approved if outcome.amount == Some(data.amount) => self.sell(id, &outcome).await,
            Charge::Approved => self.conflict(id, &outcome).await,
            Charge::Declined if state == State::Succeeded => {
                tracing::warn!(payment = %id, reason, "a late refusal of what was paid is ignored");
                Ok(())
            }
            Charge::Declined => self.fail(id, CHARGING, &reason).await,
            Charge::Refunded => self.end(id, &State::ALL, State::Refunded, "refunded").await,
            Charge::Absent => {
                // A charge may still be on its way to where it is looked up.
                let since_ms = data.charging_ms.unwrap_or(i64::MIN);
                if self.desk.now_ms().saturating_sub(since_ms) < ABSENT_AFTER_MS {
                    return self.unclear(id, "absent").await;
                }
                self.fail(id, CHARGING, "absent").await
            }
        }
    }

    /// Paid: the numbers are sold. If they are not the buyer's any more they are taken again; if they cannot
    /// be, the money goes back.
    pub(super) async fn sell(&self, id: &AttemptId, outcome: &Outcome) -> Result<()> {
        for _ in 0..3 {
            let (mut is_lost, mut is_other) = (false, false);
            let done = self
                .step(id, |attempt, state, order| {
                    (is_lost, is_other) = (false, false);
                    if is_settled(state) {
                        return Ok(None);
                    }
                    if order.claim.is_none() {
                        is_lost = true;
                        return Ok(None);
                    }
                    if !is_price_of(&attempt.data, order) {
                        is_other = true;
                        return Ok(None);
                    }
                    let mut verbs = order.sell()?;
                    verbs.push(attempt.moved(State::Succeeded, order.now_ms, |data| paid(data, outcome))?);
                    Ok(Some(verbs))
                })
                .await?;
            if done.is_some() {
                let provider = self.attempt(id)?.data.provider;
                self.till.figures.succeeded(&provider);
                tracing::info!(payment = %id, provider, "paid, and sold");
                return Ok(());
            }
            if is_other {
                return self.conflict(id, outcome).await;
            }
            if !is_lost {
                return Ok(());
            }
            if let Err(refusal) = self.retake(id).await {
                if refusal.is_temporary() {
                    return Err(refusal);
                }
                tracing::warn!(payment = %id, "paid, but the numbers cannot be had: {refusal}");
                break;
            }
        }
        self.unassigned(id, outcome).await
    }

    /// Paid for numbers that the buyer does not get: the money goes back, and that is on record first.
    async fn unassigned(&self, id: &AttemptId, outcome: &Outcome) -> Result<()> {
        self.step(id, |attempt, state, order| {
            if is_settled(state) {
                return Ok(None);
            }
            let is_paid = order.status == ReservationStatus::Confirmed;
            let reason = if is_paid { "already_paid" } else { "numbers_gone" };
            let moved = attempt.moved(State::PaidUnassigned, order.now_ms, |data| {
                paid(data, outcome);
                data.reason = Some(reason.to_owned());
            })?;
            Ok(Some(vec![moved]))
        })
        .await?;
        self.to_refund(id).await
    }

    /// Paid, but not what was asked. Nothing is sold by itself; the numbers are kept for a person to decide.
    pub(super) async fn conflict(&self, id: &AttemptId, outcome: &Outcome) -> Result<()> {
        tracing::error!(payment = %id, paid = ?outcome.amount, "the amount or the currency is not what was asked");
        self.step(id, |attempt, state, order| {
            if is_settled(state) || state == State::Conflicted {
                return Ok(None);
            }
            let mut verbs = aside(order)?;
            verbs.push(attempt.moved(State::Conflicted, order.now_ms, |data| {
                paid(data, outcome);
                data.reason = Some("amount".to_owned());
            })?);
            Ok(Some(verbs))
        })
        .await?;
        Ok(())
    }

    /// Nobody knows: the numbers are kept, and the provider is asked again, for a while.
    async fn unclear(&self, id: &AttemptId, reason: &str) -> Result<()> {
        self.step(id, |attempt, state, order| {
            // Another node looked at the same time, and has counted it.
            if attempt.data.next_ms.is_some_and(|next_ms| next_ms > order.now_ms) {
                return Ok(None);
            }
            let tries = attempt.data.tries + 1;
            let to = match state {
                State::Processing | State::Unknown if tries > LOOKS_MAX => State::PendingReview,
                State::Processing | State::Unknown => State::Unknown,
                _ => return Ok(None),
            };
            let mut verbs = aside(order)?;
            verbs.push(attempt.moved(to, order.now_ms, |data| {
                data.tries = tries;
                data.next_ms = (to == State::Unknown).then_some(order.now_ms + backoff_ms(tries));
                data.reason = Some(reason.to_owned());
            })?);
            Ok(Some(verbs))
        })
        .await?;
        Ok(())
    }

    /// Not paid: the buyer may try again while there is time.
    pub(super) async fn fail(&self, id: &AttemptId, from: &[State], reason: &str) -> Result<()> {
        self.end(id, from, State::Failed, reason).await
    }

    /// Ends an attempt that is in one of these states; the reservation goes back to checkout.
    pub(super) async fn end(&self, id: &AttemptId, from: &[State], to: State, reason: &str) -> Result<()> {
        self.end_under(id, None, from, (to, reason)).await
    }

    /// The same as the decision of somebody's request.
    pub(super) async fn end_under(
        &self,
        id: &AttemptId,
        key: Option<&RequestKey>,
        from: &[State],
        (to, reason): (State, &str),
    ) -> Result<()> {
        self.step_under(id, key, |attempt, state, order| {
            if !from.contains(&state) || state == to {
                return Ok(None);
            }
            let mut verbs = if state.is_open() { self.back(order)? } else { Vec::new() };
            verbs.push(attempt.moved(to, order.now_ms, |data| {
                data.reason = Some(reason.to_owned());
                data.tries = 0;
                data.next_ms = late_look_ms(data, to, order.now_ms);
            })?);
            Ok(Some(verbs))
        })
        .await?;
        Ok(())
    }

    fn is_over(&self, attempt: &AttemptDoc) -> bool {
        attempt.until_ms.is_none_or(|until_ms| self.desk.now_ms() >= until_ms)
    }

    /// The attempt, if the token is its own. Whoever guesses learns nothing, not even whether it exists.
    fn by_token(&self, id: &str, token: &str) -> Result<AttemptId> {
        let unknown = || Refusal::not_found("payment", id);
        let found = AttemptId::parse(id).and_then(|id| Ok((self.attempt(&id)?, id)));
        // Hashes are compared: what their comparison tells by its time is of no use.
        match found {
            Ok((attempt, id)) if attempt.data.token_hash == hash_of(token) => Ok(id),
            Ok((_, id)) => {
                tracing::warn!(payment = %id, "a payment was asked for with a token that is not its own");
                Err(unknown())
            }
            Err(refusal) if refusal.code() == "not_found" => Err(unknown()),
            Err(refusal) => Err(refusal),
        }
    }
}

/// What came of the money is decided.
fn is_settled(state: State) -> bool {
    matches!(
        state,
        State::Succeeded
            | State::PaidUnassigned
            | State::RefundPending
            | State::Refunded
            | State::RefundFailed
    )
}

/// What is asked for is what the reservation costs.
fn is_price_of(attempt: &AttemptDoc, order: &Order) -> bool {
    let total_minor = i64::try_from(order.total_minor()).ok();
    total_minor == Some(attempt.amount.minor) && attempt.amount.currency.code() == order.currency()
}

fn paid(data: &mut AttemptDoc, outcome: &Outcome) {
    data.paid = outcome.amount.or(data.paid);
    data.txn_id = outcome.txn_id.clone().or(data.txn_id.take());
    data.reason = None;
    data.next_ms = None;
    data.tries = 0;
}

/// Keeps the numbers for as long as a person may take.
fn aside(order: &Order) -> Result<Vec<Verb>> {
    match &order.claim {
        Some(claim) if &*claim.phase != "verification" => order.verify(None),
        _ => Ok(Vec::new()),
    }
}

/// The same write, only while the claim holds.
pub(super) fn under(claim: &Claim, verb: Verb) -> Verb {
    match verb {
        Verb::PutItem(mut put) => {
            put.guard = Some(Guard::Claim { claim: claim.number, token: claim.token });
            Verb::PutItem(put)
        }
        verb => verb,
    }
}
