//! Payments as they are shown: to their buyer, and with more to the operator.

use std::sync::Arc;

use tenure_core::{CollectionKey, Item};

use super::Payments;
use super::attempt::{ATTEMPTS, AttemptId};
use super::model::{AttemptDoc, Payment, PaymentPage, PaymentQuery, State, TransferView};
use crate::desk::status;
use crate::family::page_size;
use crate::{Actor, Document, Permission, Refusal, Result, Time};

/// Payments on a page when nobody says.
const PAGE_DEFAULT: usize = 50;
/// Payments on a page.
const PAGE_MAX: usize = 200;

impl Payments {
    /// One payment, for its buyer or an operator.
    pub fn get(&self, actor: &Actor, id: &str) -> Result<Payment> {
        let id = AttemptId::parse(id)?;
        self.check_may_see(actor, &id)?;
        self.show(actor, &id)
    }

    /// Payments of all raffles, for an operator.
    pub async fn list(&self, actor: &Actor, query: PaymentQuery) -> Result<PaymentPage> {
        actor.require(Permission::PaymentsManage)?;
        let limit = page_size(query.limit, PAGE_DEFAULT, PAGE_MAX)?;
        let after = query.after.as_deref().map(AttemptId::parse).transpose();
        let after = after.map_err(|_| Refusal::invalid("after", "is no cursor"))?;
        let (payments, actor) = (self.clone(), actor.clone());
        self.desk
            .read(move |desk| {
                let mut rows = Vec::new();
                let mut next = None;
                let from = |collection: &CollectionKey| {
                    after.as_ref().is_none_or(|after| *collection >= after.collection)
                };
                for collection in payments.raffle_collections()?.into_iter().filter(from) {
                    let keep = |item: Arc<Item>| {
                        let id = AttemptId { collection: collection.clone(), item: item.id.clone() };
                        payments.view(&actor, &id, &Document::of(item)?).map(Some)
                    };
                    let start = after.as_ref().filter(|after| after.collection == collection);
                    let word = query.state.map(|state| status(state.as_str()));
                    let which = (word.as_ref(), start.map(|after| after.item.as_str()), limit - rows.len());
                    let page = ATTEMPTS.page(desk, &collection, which, keep)?;
                    rows.extend(page.rows);
                    if let Some(item) = page.next {
                        let item = tenure_core::ItemId::new(item)?;
                        next = Some(AttemptId { collection, item }.to_string());
                        break;
                    }
                    if rows.len() == limit {
                        next = rows.last().map(|payment: &Payment| payment.id.clone());
                        break;
                    }
                }
                Ok(PaymentPage { payments: rows, next, server_time: Time(desk.now_ms()) })
            })
            .await
    }

    /// Refuses whoever is neither the buyer nor an operator.
    pub(super) fn check_may_see(&self, actor: &Actor, id: &AttemptId) -> Result<()> {
        let buyer = self.attempt(id)?.data.buyer.id;
        if *buyer == *actor.principal.id || actor.require(Permission::PaymentsManage).is_ok() {
            return Ok(());
        }
        Err(Refusal::NotOwner { what: "payment", id: id.to_string() })
    }

    pub(super) fn show(&self, actor: &Actor, id: &AttemptId) -> Result<Payment> {
        self.view(actor, id, &self.attempt(id)?)
    }

    fn view(&self, actor: &Actor, id: &AttemptId, attempt: &Document<AttemptDoc>) -> Result<Payment> {
        let (state, data, now_ms) = (attempt.state()?, &attempt.data, self.desk.now_ms());
        let is_manager = actor.require(Permission::PaymentsManage).is_ok();
        let can_pay = state == State::RequiresAction;
        let is_buyer = *data.buyer.id == *actor.principal.id;
        // Only the buyer's browser may open it.
        let pocket =
            if can_pay && is_buyer && data.instructions.is_none() { self.pocket(data)? } else { None };
        let payment_url = pocket.map(|pocket| format!("{}/pay/{id}/{}", self.till.public_url, pocket.token));
        let until_ms =
            data.until_ms.filter(|_| matches!(state, State::RequiresAction | State::PendingReview));
        let transfer = if is_manager { self.transfer_of(id, data)? } else { None };
        Ok(Payment {
            id: id.to_string(),
            state,
            reservation_id: data.reservation.clone(),
            provider: data.provider.clone(),
            amount_minor: data.amount.minor,
            currency: data.amount.currency.code().to_owned(),
            payment_url,
            instructions: data.instructions.clone().filter(|_| can_pay),
            expires_at: until_ms.map(Time),
            expires_in_ms: until_ms.map(|until_ms| (until_ms - now_ms).max(0)),
            reason: data.reason.clone(),
            started_at: Time(data.started_ms),
            buyer: is_manager.then(|| data.buyer.clone()),
            paid: data.paid.filter(|_| is_manager),
            txn_id: data.txn_id.clone().filter(|_| is_manager),
            transfer: transfer.map(|transfer| TransferView {
                reference: transfer.reference,
                payer_phone: transfer.payer_phone,
                payer_name: transfer.payer_name,
                payer_bank: transfer.payer_bank,
                amount_minor: transfer.amount_minor,
                transferred_at: transfer.transferred_at,
                submitted_at: Time(transfer.submitted_ms),
            }),
            decided_by: data.decision.as_ref().filter(|_| is_manager).map(|decision| decision.by.clone()),
            server_time: Time(now_ms),
        })
    }
}
