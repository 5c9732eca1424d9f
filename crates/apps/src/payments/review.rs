//! A person compares with the bank, and decides about money. A decision is written in their name first; then it is
//! carried out, now or by the settler.

use super::attempt::AttemptId;
use super::model::{Decision, Payment, State, Verdict, WORDS_BYTES_MAX};
use super::provider::{Charge, Outcome};
use super::start::wrong_state;
use super::{MINOR_MAX, Money, Payments};
use crate::text::title;
use crate::{Actor, Desk, Done, Permission, Person, Refusal, Result};

impl Payments {
    /// A person has found the money in the bank. Unless it is exactly what was asked, nothing is sold.
    pub async fn approve(&self, actor: &Actor, id: &str, bank_amount_minor: i64) -> Result<Done<Payment>> {
        if !(0..=MINOR_MAX).contains(&bank_amount_minor) {
            return Err(Refusal::invalid("bank_amount_minor", "must be at least 0, in minor units"));
        }
        let verdict = Verdict::Approve { bank_amount_minor };
        self.on_review(actor, id, &[State::PendingReview, State::Conflicted, State::Expired], verdict).await
    }

    /// A person has not found it: the numbers are free again.
    pub async fn reject(&self, actor: &Actor, id: &str, reason: &str) -> Result<Done<Payment>> {
        let reason = title("reason", reason, WORDS_BYTES_MAX)?;
        self.on_review(actor, id, &[State::PendingReview], Verdict::Reject { reason }).await
    }

    /// Gives money back: puts it on record, and asks the provider to where that is a program. With the bank's
    /// reference: a person has sent it.
    pub async fn refund(&self, actor: &Actor, id: &str, sent: Option<&str>) -> Result<Done<Payment>> {
        const OWED: &[State] =
            &[State::Conflicted, State::PaidUnassigned, State::RefundPending, State::RefundFailed];
        let Some(sent) = sent else { return self.on_review(actor, id, OWED, Verdict::Refund).await };
        actor.require(Permission::PaymentsManage)?;
        let reference = title("sent_reference", sent, WORDS_BYTES_MAX)?;
        let attempt = self.attempt(&AttemptId::parse(id)?)?.data;
        let by_itself = self.provider(&attempt.provider)?.connector.capabilities().refund;
        // What a gateway is about to give back, nobody sends as well.
        let from: &[State] =
            if by_itself { &[State::RefundFailed] } else { &[State::RefundPending, State::RefundFailed] };
        self.on_review(actor, id, from, Verdict::Sent { reference }).await
    }

    /// Writes a person's decision in their own name; then it is carried out, now or by the settler.
    async fn on_review(
        &self,
        actor: &Actor,
        id: &str,
        from: &[State],
        verdict: Verdict,
    ) -> Result<Done<Payment>> {
        actor.require(Permission::PaymentsManage)?;
        let id = AttemptId::parse(id)?;
        let plan = || {
            let attempt = self.attempt(&id)?;
            let state = attempt.state()?;
            if *attempt.data.buyer.id == *actor.principal.id {
                return Err(Refusal::OwnPayment { id: id.to_string() });
            }
            // What nobody reviewed in time may still be found in the bank.
            let is_told = state != State::Expired || self.transfer_of(&id, &attempt.data)?.is_some();
            if !from.contains(&state) || !is_told {
                return Err(wrong_state(&id, state, "there is nothing to decide"));
            }
            let mut data = attempt.data.clone();
            let at_ms = self.desk.now_ms();
            data.decision =
                Some(Decision { by: Person::from(&actor.principal), at_ms, verdict: verdict.clone() });
            attempt.put(&attempt.item.status, &data, None)
        };
        let done = self.desk.change(actor, &id.collection, Desk::OWN_STEP, plan).await?;
        if !done.replayed {
            self.decide(&id).await?;
        }
        let payment = self.show(actor, &id)?;
        Ok(done.show(payment))
    }

    /// Carries out what a person decided.
    pub(super) async fn decide(&self, id: &AttemptId) -> Result<()> {
        let attempt = self.attempt(id)?;
        let (state, data) = (attempt.state()?, attempt.data);
        let Some(decision) = data.decision.clone() else { return Ok(()) };
        let who = &*decision.by.id;
        match decision.verdict {
            Verdict::Approve { bank_amount_minor } => {
                let amount = Money::new(bank_amount_minor, data.amount.currency);
                let outcome = Outcome { status: Charge::Approved, txn_id: None, amount, reason: None };
                tracing::info!(actor = who, payment = %id, bank_amount_minor, "a payment was reviewed");
                if amount == Some(data.amount) {
                    self.sell(id, &outcome).await
                } else {
                    self.conflict(id, &outcome).await?;
                    self.undecided(id).await
                }
            }
            Verdict::Reject { .. } => {
                tracing::info!(actor = who, payment = %id, "a payment was rejected");
                self.step(id, |attempt, state, order| {
                    if state != State::PendingReview {
                        return Ok(None);
                    }
                    let mut verbs = if order.claim.is_some() { order.give_up()? } else { Vec::new() };
                    verbs.push(attempt.moved(State::Failed, order.now_ms, |data| {
                        data.reason = Some("rejected".to_owned());
                        data.next_ms = None;
                    })?);
                    Ok(Some(verbs))
                })
                .await
                .map(drop)
            }
            Verdict::Refund => {
                // A gateway that refused before may have done it all the same.
                let is_first = state != State::RefundFailed;
                let moved = self
                    .step(id, |attempt, state, order| {
                        if !matches!(state, State::Conflicted | State::RefundFailed | State::PaidUnassigned) {
                            return Ok(None);
                        }
                        // The numbers are for others.
                        let is_kept = state == State::Conflicted && order.claim.is_some();
                        let mut verbs = if is_kept { order.give_up()? } else { Vec::new() };
                        verbs.push(self.owes(attempt, order)?);
                        Ok(Some(verbs))
                    })
                    .await?;
                // Whoever owes it already has asked, and asks again when it is time.
                if moved.is_some() { self.refund_now(id, is_first).await } else { self.refund_due(id).await }
            }
            Verdict::Sent { .. } => {
                tracing::info!(actor = who, payment = %id, "a person has given the money back");
                self.refund_ended(id, State::Refunded, None).await
            }
        }
    }

    /// A decision that led to nothing final is no decision for next time.
    async fn undecided(&self, id: &AttemptId) -> Result<()> {
        self.step(id, |attempt, state, order| {
            if state != State::Conflicted || attempt.data.decision.is_none() {
                return Ok(None);
            }
            Ok(Some(vec![attempt.moved(state, order.now_ms, |data| {
                data.decision = None;
                data.history.pop();
            })?]))
        })
        .await?;
        Ok(())
    }
}
