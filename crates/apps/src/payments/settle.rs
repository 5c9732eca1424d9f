//! What time alone brings about: attempts that nobody finished are looked up and settled, at the start and with
//! longer and longer pauses, and money that is owed is given back.

use super::Payments;
use tokio::task::JoinSet;

use super::attempt::{ATTEMPTS, AttemptId};
use super::model::{AttemptDoc, NOT_REVIEWED, State, Verdict};
use super::provider::{Charge, Outcome, Trouble};
use crate::raffle::KIND;
use crate::{Desk, Document, Result};

/// A provider's page must have begun within this, or the process that asked is gone.
const BEGIN_MS: i64 = 60_000;
/// A charge is answered within this, or the process that asked is gone.
pub(super) const CHARGE_MS: i64 = 60_000;
/// A charge that the provider does not know after this was never made.
pub(super) const ABSENT_AFTER_MS: i64 = 60_000;
/// Lookups before a person looks: with their pauses, about half an hour.
pub(super) const LOOKS_MAX: u32 = 12;
/// Whoever asks for a refund is answered within this, lookup included; nobody else asks meanwhile.
const REFUND_MS: i64 = 90_000;
/// Refunds before a person is told.
const REFUNDS_MAX: u32 = 5;
/// What ended without money is looked up once more after this: a lost charge has long been made by then.
const LATE_LOOK_MS: i64 = 600_000;
/// The longest pause between two lookups.
const BACKOFF_MS_MAX: i64 = 300_000;
/// Attempts that one scan at the start reads at once.
const PAGE: usize = 500;

/// Attempts that are settled at once: a gateway that hangs must not hold up what another one would answer.
const AT_ONCE: usize = 64;

/// The pause before the next try: 2, 4, 8 … seconds.
pub(super) fn backoff_ms(tries: u32) -> i64 {
    (1_000_i64 << tries.min(16)).min(BACKOFF_MS_MAX)
}

/// When the attempt is to be looked at next, if ever.
pub(super) fn due_ms(attempt: &AttemptDoc, state: State) -> Option<i64> {
    match state {
        State::Created => Some(attempt.started_ms + BEGIN_MS),
        State::RequiresAction => attempt.until_ms.or(Some(attempt.started_ms + BEGIN_MS)),
        State::Processing => attempt.charging_ms.map(|at_ms| at_ms + CHARGE_MS),
        State::Unknown => attempt.next_ms.or(Some(0)),
        State::PaidUnassigned => Some(0),
        State::PendingReview | State::Expired if attempt.decision.is_some() => Some(0),
        // A charge that nobody could look up has no instructions, and waits for a person however long.
        State::PendingReview => attempt.until_ms.filter(|_| attempt.instructions.is_some()),
        State::Conflicted => is_to_refund(attempt).then_some(0),
        State::RefundPending | State::RefundFailed if is_sent(attempt) => Some(0),
        State::Failed | State::Expired | State::Canceled | State::RefundPending => attempt.next_ms,
        State::Succeeded | State::Refunded | State::RefundFailed => None,
    }
}

/// A person decided that it goes back, and nothing came of that yet.
fn is_to_refund(attempt: &AttemptDoc) -> bool {
    attempt.decision.as_ref().is_some_and(|decision| decision.verdict == Verdict::Refund)
}

/// A person said that it was sent back, and nothing came of that yet.
fn is_sent(attempt: &AttemptDoc) -> bool {
    attempt.decision.as_ref().is_some_and(|decision| matches!(decision.verdict, Verdict::Sent { .. }))
}

impl Payments {
    /// Finds every attempt that is open; at the start, those that a process left behind are due at once. Again, it
    /// finds what other nodes have begun. How many are due at once.
    pub async fn recover(&self, is_start: bool) -> Result<usize> {
        let payments = self.clone();
        let found = self.desk.read(move |desk| payments.unfinished(desk)).await?;
        let mut urgent = 0;
        for (id, attempt, state) in found {
            self.till.agenda.note(&id.to_string(), &attempt, state);
            if is_start && matches!(state, State::Processing | State::Unknown | State::PaidUnassigned) {
                urgent += 1;
                self.till.agenda.hurry(&id.to_string());
            }
        }
        Ok(urgent)
    }

    /// Settles what is due now; how many.
    pub async fn settle_due(&self) -> usize {
        let due = self.till.agenda.due(self.desk.now_ms(), usize::MAX);
        let count = due.len();
        let mut running = JoinSet::new();
        for (id, is_urgent) in due {
            if running.len() >= AT_ONCE {
                running.join_next().await;
            }
            self.settle_aside(&mut running, id, is_urgent);
        }
        while running.join_next().await.is_some() {}
        count
    }

    /// Begins to settle what is due now, beside what is running already and waits for a gateway.
    pub fn settle_beside(&self, running: &mut JoinSet<()>) {
        while running.try_join_next().is_some() {}
        let room = AT_ONCE.saturating_sub(running.len());
        for (id, is_urgent) in self.till.agenda.due(self.desk.now_ms(), room) {
            self.settle_aside(running, id, is_urgent);
        }
    }

    fn settle_aside(&self, running: &mut JoinSet<()>, name: String, is_urgent: bool) {
        let payments = self.clone();
        running.spawn(async move {
            let run = Run { payments, name };
            if let Ok(id) = AttemptId::parse(&run.name) {
                run.payments.settle_logged(&id, is_urgent).await;
            }
        });
    }

    async fn settle_logged(&self, id: &AttemptId, is_start: bool) {
        if let Err(refusal) = self.settle(id, is_start).await {
            tracing::warn!(payment = %id, "a payment could not be settled yet: {refusal}");
        }
        if let Err(refusal) = self.note(id) {
            tracing::warn!(payment = %id, "a payment cannot be read: {refusal}");
        }
    }

    fn unfinished(&self, desk: &Desk) -> Result<Vec<(AttemptId, AttemptDoc, State)>> {
        let mut found = Vec::new();
        for collection in self.raffle_collections()? {
            let mut after = None;
            loop {
                let keep = |item: std::sync::Arc<tenure_core::Item>| {
                    let attempt = Document::<AttemptDoc>::of(item)?;
                    let state = attempt.state()?;
                    let is_due = due_ms(&attempt.data, state).is_some() || state == State::RefundFailed;
                    let id = AttemptId { collection: collection.clone(), item: attempt.item.id.clone() };
                    Ok(is_due.then_some((id, attempt.data, state)))
                };
                let page = ATTEMPTS.page(desk, &collection, (None, after.as_deref(), PAGE), keep)?;
                found.extend(page.rows);
                match page.next {
                    Some(next) => after = Some(next),
                    None => break,
                }
            }
        }
        Ok(found)
    }

    pub(super) fn raffle_collections(&self) -> Result<Vec<tenure_core::CollectionKey>> {
        let mut found = Vec::new();
        let mut after = tenure_core::CollectionKey::from_parts(KIND, "+").ok();
        loop {
            let page = self.desk.reader().collections(after.as_ref(), PAGE)?;
            after = page.rows.last().map(|(key, _)| key.clone());
            let is_past = page.rows.iter().any(|(key, _)| key.kind() > KIND);
            found.extend(page.rows.into_iter().map(|(key, _)| key).filter(|key| key.kind() == KIND));
            if !page.more || is_past {
                return Ok(found);
            }
        }
    }

    /// Takes an attempt further, if it is time.
    pub(super) async fn settle(&self, id: &AttemptId, is_start: bool) -> Result<()> {
        let attempt = self.attempt(id)?;
        let (state, data) = (attempt.state()?, attempt.data);
        let is_due = due_ms(&data, state).is_some_and(|due_ms| due_ms <= self.desk.now_ms());
        if !is_due && !is_start {
            return Ok(());
        }
        match state {
            State::Created => self.fail(id, &[State::Created], "not_begun").await,
            State::RequiresAction => self.expire(id).await,
            State::Processing | State::Unknown => match self.look(id, &data).await {
                Some(outcome) => self.conclude(id, outcome, true).await,
                None => Ok(()),
            },
            State::PendingReview | State::Conflicted | State::Expired if data.decision.is_some() => {
                self.decide(id).await
            }
            State::PendingReview => self.review_over(id).await,
            State::PaidUnassigned => self.to_refund(id).await,
            State::RefundPending | State::RefundFailed if is_sent(&data) => self.decide(id).await,
            State::RefundPending => self.refund_due(id).await,
            State::Failed | State::Expired | State::Canceled => self.look_late(id, true).await,
            _ => Ok(()),
        }
    }

    /// Nobody paid in time, as far as the provider knows.
    pub(super) async fn expire(&self, id: &AttemptId) -> Result<()> {
        let data = self.attempt(id)?.data;
        match self.look(id, &data).await {
            Some(Ok(outcome)) if matches!(outcome.status, Charge::Approved | Charge::Refunded) => {
                self.conclude(id, Ok(outcome), true).await
            }
            _ => self.end(id, &[State::RequiresAction], State::Expired, "too_late").await,
        }
    }

    /// What the provider says has become of it; `None` where it cannot be asked.
    pub(super) async fn look(&self, id: &AttemptId, data: &AttemptDoc) -> Option<Result<Outcome, Trouble>> {
        let provider = self.provider(&data.provider).ok()?;
        if !provider.connector.capabilities().lookup {
            return None;
        }
        let account = self.account(&provider).ok()?;
        Some(provider.connector.lookup(account, self.bill(id, data, "")).await)
    }

    /// Looks once more at what ended without money. If it was paid after all, the numbers are taken again or
    /// the money goes back.
    ///
    /// Only when it is due is that the last look: a buyer who reloads a page asks out of turn.
    pub(super) async fn look_late(&self, id: &AttemptId, is_due: bool) -> Result<()> {
        let data = self.attempt(id)?.data;
        match self.look(id, &data).await {
            Some(Ok(outcome)) if outcome.status == Charge::Approved => {
                tracing::warn!(payment = %id, "paid after all");
                return self.conclude(id, Ok(outcome), true).await;
            }
            _ if !is_due => return Ok(()),
            Some(Err(trouble)) => {
                tracing::warn!(payment = %id, "a last look was not answered: {trouble}");
                return self.again(id).await;
            }
            _ => {}
        }
        self.step(id, |attempt, state, order| {
            if !state.is_unpaid_end() || attempt.data.next_ms.is_none() {
                return Ok(None);
            }
            Ok(Some(vec![attempt.moved(state, order.now_ms, |data| {
                data.next_ms = None;
                // It has not been anywhere else.
                data.history.pop();
            })?]))
        })
        .await?;
        Ok(())
    }

    /// The last look is tried again, a few times.
    async fn again(&self, id: &AttemptId) -> Result<()> {
        self.step(id, |attempt, state, order| {
            if !state.is_unpaid_end() || attempt.data.next_ms.is_none() {
                return Ok(None);
            }
            let tries = attempt.data.tries + 1;
            Ok(Some(vec![attempt.moved(state, order.now_ms, |data| {
                data.tries = tries;
                data.next_ms = (tries <= LOOKS_MAX).then_some(order.now_ms + backoff_ms(tries));
                data.history.pop();
            })?]))
        })
        .await?;
        Ok(())
    }

    /// The money is to be given back: that is on record before anybody is asked for it.
    pub(super) async fn to_refund(&self, id: &AttemptId) -> Result<()> {
        let moved = self
            .step(id, |attempt, state, order| {
                if state != State::PaidUnassigned {
                    return Ok(None);
                }
                Ok(Some(vec![self.owes(attempt, order)?]))
            })
            .await?;
        if moved.is_some() { self.refund_now(id, true).await } else { Ok(()) }
    }

    /// In the state from which money is given back.
    pub(super) fn owes(
        &self,
        attempt: &Document<AttemptDoc>,
        order: &crate::raffle::Order,
    ) -> Result<tenure_core::Verb> {
        let provider = self.provider(&attempt.data.provider)?;
        let by_itself = provider.connector.capabilities().refund;
        attempt.moved(State::RefundPending, order.now_ms, |data| {
            data.tries = 0;
            // A transfer is given back by a person. A gateway is asked by whoever makes this commit.
            data.next_ms = by_itself.then_some(order.now_ms + REFUND_MS);
        })
    }

    /// Asks again, if it is time: only whoever commits that it is their turn.
    pub(super) async fn refund_due(&self, id: &AttemptId) -> Result<()> {
        let taken = self
            .step(id, |attempt, state, order| {
                let is_due = attempt.data.next_ms.is_some_and(|next_ms| next_ms <= order.now_ms);
                if state != State::RefundPending || !is_due {
                    return Ok(None);
                }
                Ok(Some(vec![attempt.moved(state, order.now_ms, |data| {
                    data.next_ms = Some(order.now_ms + REFUND_MS);
                    data.history.pop();
                })?]))
            })
            .await?;
        if taken.is_some() { self.refund_now(id, false).await } else { Ok(()) }
    }

    /// Asks the provider to give the money back. Unless it is the first to ask, the provider must be able to say
    /// whether that was done already.
    pub(super) async fn refund_now(&self, id: &AttemptId, is_first: bool) -> Result<()> {
        let attempt = self.attempt(id)?;
        if attempt.state()? != State::RefundPending {
            return Ok(());
        }
        let data = attempt.data;
        let provider = self.provider(&data.provider)?;
        if !provider.connector.capabilities().refund {
            return Ok(());
        }
        // An answer may have been lost: what was given back is not given back again.
        match self.look(id, &data).await {
            Some(Ok(outcome)) if outcome.status == Charge::Refunded => {
                return self.refund_ended(id, State::Refunded, None).await;
            }
            Some(Err(trouble)) if !is_first => {
                tracing::warn!(payment = %id, "whether money was given back cannot be asked: {trouble}");
                return self.refund_later(id).await;
            }
            _ => {}
        }
        let mut bill = self.bill(id, &data, "");
        bill.amount = data.paid.unwrap_or(data.amount);
        match provider.connector.refund(self.account(&provider)?, bill).await {
            Ok(()) => self.refund_ended(id, State::Refunded, None).await,
            Err(trouble) if trouble.is_harmless || data.tries >= REFUNDS_MAX => {
                tracing::error!(payment = %id, "money that is owed could not be given back: {trouble}");
                self.refund_ended(id, State::RefundFailed, Some(trouble.reason)).await
            }
            Err(trouble) => {
                tracing::warn!(payment = %id, "whether money was given back is unknown: {trouble}");
                self.refund_later(id).await
            }
        }
    }

    /// After a pause; too often, and a person looks before anything is paid twice.
    async fn refund_later(&self, id: &AttemptId) -> Result<()> {
        let mut is_over = false;
        self.step(id, |attempt, state, order| {
            is_over = false;
            if state != State::RefundPending {
                return Ok(None);
            }
            let tries = attempt.data.tries + 1;
            if tries > REFUNDS_MAX {
                is_over = true;
                return Ok(None);
            }
            let moved = attempt.moved(state, order.now_ms, |data| {
                data.tries = tries;
                data.next_ms = Some(order.now_ms + backoff_ms(tries));
                data.history.pop();
            })?;
            Ok(Some(vec![moved]))
        })
        .await?;
        if is_over {
            tracing::error!(payment = %id, "whether money that is owed was given back is not known");
            self.refund_ended(id, State::RefundFailed, Some("unclear")).await?;
        }
        Ok(())
    }

    pub(super) async fn refund_ended(&self, id: &AttemptId, to: State, reason: Option<&str>) -> Result<()> {
        self.step(id, |attempt, state, order| {
            if !matches!(state, State::RefundPending | State::RefundFailed) || state == to {
                return Ok(None);
            }
            let moved = attempt.moved(to, order.now_ms, |data| {
                data.next_ms = None;
                data.reason = reason.map(str::to_owned).or(data.reason.take());
            })?;
            Ok(Some(vec![moved]))
        })
        .await?;
        Ok(())
    }

    /// Nobody found the transfer before the numbers' time was up.
    async fn review_over(&self, id: &AttemptId) -> Result<()> {
        self.step(id, |attempt, state, order| {
            if state != State::PendingReview || order.claim.is_some() || attempt.data.decision.is_some() {
                return Ok(None);
            }
            let moved = attempt.moved(State::Expired, order.now_ms, |data| {
                data.reason = Some(NOT_REVIEWED.to_owned());
            })?;
            Ok(Some(vec![moved]))
        })
        .await?;
        Ok(())
    }
}

/// Somebody looks at an attempt, as long as this lives: however that ends.
struct Run {
    payments: Payments,
    name: String,
}

impl Drop for Run {
    fn drop(&mut self) {
        self.payments.till.agenda.done(&self.name);
    }
}

/// When to look once more at what ends like this.
pub(super) fn late_look_ms(data: &AttemptDoc, to: State, now_ms: i64) -> Option<i64> {
    // What never had a page cannot have been paid on one.
    let had_page = data.until_ms.is_some() && data.instructions.is_none();
    (to.is_unpaid_end() && had_page).then_some(now_ms + LATE_LOOK_MS)
}
