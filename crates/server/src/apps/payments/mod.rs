//! `/payments`, `/payment-providers` and what their operator does under `/admin`.

mod page;

use axum::extract::State;
use serde::Deserialize;
use tenure_apps::Actor;
use tenure_apps::payments::{
    ChoiceList, EditProvider, NewPayment, NewProvider, NewTransfer, Payment, PaymentPage, PaymentQuery,
    Payments, ProviderList, ProviderView, State as PaymentState,
};
use tenure_apps::raffle::KIND;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{actor, created, done};
use crate::body::Body;
use crate::command::{NoBody, Rendered};
use crate::document::Refusals;
use crate::idempotency::Key;
use crate::params::{Ids, Nothing, Query};
use crate::{App, Caller, Problem};

/// The application's routes.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::default()
        .routes(routes!(list_choices))
        .routes(routes!(list_providers, add_provider))
        .routes(routes!(edit_provider))
        .routes(routes!(start_payment))
        .routes(routes!(get_payment))
        .routes(routes!(page::show_page))
        .routes(routes!(page::payment_callback))
        .routes(routes!(tell_transfer))
        .routes(routes!(cancel_payment))
        .routes(routes!(list_payments))
        .routes(routes!(approve_payment))
        .routes(routes!(reject_payment))
        .routes(routes!(refund_payment))
}

/// A payment that is not there, or whose state does not allow it.
const PAYMENT: &[&str] = &["not_found", "wrong_status", "conflict"];

/// The routes' own refusals.
pub(crate) const REFUSALS: &[Refusals] = &[
    ("POST", "/admin/payment-providers", &[], &["conflict"]),
    ("PATCH", "/admin/payment-providers/{id}", &["not_found", "conflict"], &[]),
    ("POST", "/payments", PAYMENT, &["limit", "held", "lost"]),
    ("GET", "/payments/{id}", &["not_found"], &[]),
    ("GET", "/pay/{attempt}/{token}", &["not_found", "malformed", "rate_limited", "internal", "away"], &[]),
    ("POST", "/payments/callback/{attempt}/{token}", PAYMENT, &[]),
    ("POST", "/payments/{id}/transfer", PAYMENT, &["lost"]),
    ("POST", "/payments/{id}/cancel", PAYMENT, &[]),
    ("POST", "/admin/payments/{id}/approve", PAYMENT, &[]),
    ("POST", "/admin/payments/{id}/reject", PAYMENT, &[]),
    ("POST", "/admin/payments/{id}/refund", PAYMENT, &[]),
];

/// What the bank shows.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"bank_amount_minor": 100_000}))]
struct ApproveBody {
    /// Typed from the bank's list, not from the payment: unless it is equal, nothing is sold.
    #[schema(minimum = 0)]
    bank_amount_minor: i64,
}

/// Why it is not taken.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"reason": "no such transfer in the bank"}))]
struct RejectBody {
    /// Why; kept in the audit log.
    #[schema(min_length = 1, max_length = 200)]
    reason: String,
}

/// What was sent back by hand.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"sent_reference": "2026010298765432109876543"}))]
struct RefundBody {
    /// The bank's number of the transfer with which a person has sent the money back. Without it the money is
    /// put on record as owed, and a card's gateway is asked for it.
    #[schema(min_length = 1, max_length = 200)]
    sent_reference: Option<String>,
}

/// Which payments.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct PaymentsQuery {
    /// Only in this state.
    #[param(value_type = Option<String>)]
    state: Option<PaymentState>,
    /// Only after this one: the `next` of the page before.
    after: Option<String>,
    /// At most so many.
    #[param(minimum = 1, maximum = 200)]
    limit: Option<usize>,
}

/// The application, and who asks it.
fn payments<'a>(app: &'a App, caller: &Caller, key: Option<&Key>) -> Result<(&'a Payments, Actor), Problem> {
    Ok((app.payments(), actor(caller, KIND, key)?))
}

/// What one can pay with
///
/// Providers that are on and set up, by priority.
#[utoipa::path(get, path = "/payment-providers", tag = "payments",
    responses((status = 200, description = "The choice.", body = ChoiceList)))]
async fn list_choices(
    State(app): State<App>,
    caller: Caller,
    Query(Nothing {}): Query<Nothing>,
) -> Result<Rendered, Problem> {
    let (payments, _) = payments(&app, &caller, None)?;
    Rendered::json(&payments.choices().await?)
}

/// List providers
///
/// All of them, with their configuration. A secret that is set reads `********`.
#[utoipa::path(get, path = "/admin/payment-providers", tag = "payments",
    responses((status = 200, description = "By priority.", body = ProviderList)))]
async fn list_providers(
    State(app): State<App>,
    caller: Caller,
    Query(Nothing {}): Query<Nothing>,
) -> Result<Rendered, Problem> {
    let (payments, actor) = payments(&app, &caller, None)?;
    Rendered::json(&payments.providers(&actor).await?)
}

/// Add a provider
///
/// One that is not automatic is a transfer that a person compares with the bank.
#[utoipa::path(post, path = "/admin/payment-providers", tag = "payments", request_body = NewProvider,
    responses((status = 201, description = "The provider.", body = ProviderView, headers(("Location" = String)))))]
async fn add_provider(
    State(app): State<App>,
    caller: Caller,
    Body { value, key }: Body<NewProvider>,
) -> Result<Rendered, Problem> {
    let (payments, actor) = payments(&app, &caller, key.as_ref())?;
    let made = payments.add_provider(&actor, value).await?;
    let location = format!("/admin/payment-providers/{}", made.value.id);
    created(&made, location)
}

/// Change a provider
///
/// Switching it off stops new payments; running ones finish. A secret that is left out stays.
#[utoipa::path(patch, path = "/admin/payment-providers/{id}", tag = "payments",
    params(("id" = String, Path, description = "The provider's code.")), request_body = Option<EditProvider>,
    responses((status = 200, description = "The provider.", body = ProviderView)))]
async fn edit_provider(
    State(app): State<App>,
    caller: Caller,
    Ids([id]): Ids<1>,
    Body { value, .. }: Body<EditProvider>,
) -> Result<Rendered, Problem> {
    let (payments, actor) = payments(&app, &caller, None)?;
    done(&payments.edit_provider(&actor, &id, &value).await?)
}

/// Pay for a reservation
///
/// Answers with a `payment_url` to open as a page of its own, or with instructions for a transfer. From
/// selection the reservation moves to checkout first. It is kept while the buyer pays, once past its own
/// deadline; an open attempt with another provider is given up for this one.
#[utoipa::path(post, path = "/payments", tag = "payments", request_body = NewPayment,
    responses((status = 201, description = "The payment.", body = Payment, headers(("Location" = String)))))]
async fn start_payment(
    State(app): State<App>,
    caller: Caller,
    Body { value, key }: Body<NewPayment>,
) -> Result<Rendered, Problem> {
    let (payments, actor) = payments(&app, &caller, key.as_ref())?;
    let made = payments.start(&actor, &value).await?;
    let location = format!("/payments/{}", made.value.id);
    created(&made, location)
}

/// Read a payment
///
/// For its buyer, and with more for an administrator.
#[utoipa::path(get, path = "/payments/{id}", tag = "payments",
    params(("id" = String, Path, description = "The payment's id.")),
    responses((status = 200, description = "The payment.", body = Payment)))]
async fn get_payment(
    State(app): State<App>,
    caller: Caller,
    Ids([id]): Ids<1>,
    Query(Nothing {}): Query<Nothing>,
) -> Result<Rendered, Problem> {
    let (payments, actor) = payments(&app, &caller, None)?;
    Rendered::json(&payments.get(&actor, &id)?)
}

/// Tell a transfer
///
/// In time, the reservation is kept until a person has compared it with the bank, for up to twelve hours. A
/// reference counts once, and a person or a phone has one transfer in review at a time.
#[utoipa::path(post, path = "/payments/{id}/transfer", tag = "payments",
    params(("id" = String, Path, description = "The payment's id.")), request_body = NewTransfer,
    responses((status = 200, description = "The payment.", body = Payment)))]
async fn tell_transfer(
    State(app): State<App>,
    caller: Caller,
    Ids([id]): Ids<1>,
    Body { value, key }: Body<NewTransfer>,
) -> Result<Rendered, Problem> {
    let (payments, actor) = payments(&app, &caller, key.as_ref())?;
    done(&payments.submit(&actor, &id, &value).await?)
}

/// Cancel a payment
///
/// While the buyer can still pay it. The reservation goes back to checkout for what is left of its time.
#[utoipa::path(post, path = "/payments/{id}/cancel", tag = "payments",
    params(("id" = String, Path, description = "The payment's id.")), request_body = Option<NoBody>,
    responses((status = 200, description = "The payment.", body = Payment)))]
async fn cancel_payment(
    State(app): State<App>,
    caller: Caller,
    Ids([id]): Ids<1>,
    Body { value: NoBody {}, key }: Body<NoBody>,
) -> Result<Rendered, Problem> {
    let (payments, actor) = payments(&app, &caller, key.as_ref())?;
    done(&payments.cancel(&actor, &id).await?)
}

/// List payments
///
/// Of all raffles, oldest first in each.
#[utoipa::path(get, path = "/admin/payments", tag = "payments", params(PaymentsQuery),
    responses((status = 200, description = "A page.", body = PaymentPage)))]
async fn list_payments(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<PaymentsQuery>,
) -> Result<Rendered, Problem> {
    let (payments, actor) = payments(&app, &caller, None)?;
    let PaymentsQuery { state, after, limit } = query;
    Rendered::json(&payments.list(&actor, PaymentQuery { state, after, limit }).await?)
}

/// Approve a payment
///
/// The bank shows exactly what was asked: the numbers are sold. Any other amount makes it `conflicted`.
/// Nobody approves their own.
#[utoipa::path(post, path = "/admin/payments/{id}/approve", tag = "payments",
    params(("id" = String, Path, description = "The payment's id.")), request_body = ApproveBody,
    responses((status = 200, description = "The payment.", body = Payment)))]
async fn approve_payment(
    State(app): State<App>,
    caller: Caller,
    Ids([id]): Ids<1>,
    Body { value, key }: Body<ApproveBody>,
) -> Result<Rendered, Problem> {
    let (payments, actor) = payments(&app, &caller, key.as_ref())?;
    done(&payments.approve(&actor, &id, value.bank_amount_minor).await?)
}

/// Reject a payment
///
/// The bank shows nothing of it: the numbers are free again.
#[utoipa::path(post, path = "/admin/payments/{id}/reject", tag = "payments",
    params(("id" = String, Path, description = "The payment's id.")), request_body = RejectBody,
    responses((status = 200, description = "The payment.", body = Payment)))]
async fn reject_payment(
    State(app): State<App>,
    caller: Caller,
    Ids([id]): Ids<1>,
    Body { value, key }: Body<RejectBody>,
) -> Result<Rendered, Problem> {
    let (payments, actor) = payments(&app, &caller, key.as_ref())?;
    done(&payments.reject(&actor, &id, &value.reason).await?)
}

/// Give money back
///
/// Of a payment that is `conflicted`, or whose refund is open or has failed. A card's gateway is asked. A
/// transfer is put on record as owed; whoever has sent it back says so with `sent_reference`.
#[utoipa::path(post, path = "/admin/payments/{id}/refund", tag = "payments",
    params(("id" = String, Path, description = "The payment's id.")), request_body = Option<RefundBody>,
    responses((status = 200, description = "The payment.", body = Payment)))]
async fn refund_payment(
    State(app): State<App>,
    caller: Caller,
    Ids([id]): Ids<1>,
    Body { value, key }: Body<RefundBody>,
) -> Result<Rendered, Problem> {
    let (payments, actor) = payments(&app, &caller, key.as_ref())?;
    done(&payments.refund(&actor, &id, value.sent_reference.as_deref()).await?)
}
