//! `/reservations`, and the sweep by hand.

use axum::extract::State;
use serde::Deserialize;
use tenure_apps::raffle::{Expired, NewReservation, Reservation, ReservationPage};
use tenure_apps::{Done, Refusal};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::asks;
use crate::apps::{created, done};
use crate::body::Body;
use crate::command::{NoBody, Rendered};
use crate::params::{Ids, Nothing, Query};
use crate::{App, Caller, Problem};

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::default()
        .routes(routes!(reserve, list_reservations))
        .routes(routes!(get_reservation))
        .routes(routes!(add_reserved_number))
        .routes(routes!(remove_reserved_number))
        .routes(routes!(move_to_checkout))
        .routes(routes!(cancel_reservation))
        .routes(routes!(list_open_reservations))
        .routes(routes!(expire_reservations))
}

/// Add a number.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = AddNumber, example = json!({"number_id": 43}))]
struct NumberBody {
    /// The number.
    #[schema(minimum = 1, maximum = 100_000)]
    number_id: u32,
}

/// Which reservations.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ReservationsQuery {
    /// Only of this raffle.
    raffle_id: Option<String>,
    /// The caller's own. There is no other list, so that it may be left out, or be empty.
    #[param(required = false)]
    mine: Option<String>,
}

/// Reserve numbers
///
/// All or none: 409 `held`, or `finished` where one is sold, names in `unavailable` those that could not be had. A
/// session that has an open reservation in the raffle gets that one back, with 200. The first timer runs from the first
/// number.
#[utoipa::path(post, path = "/reservations", tag = "raffle", request_body = NewReservation,
    responses((status = 201, description = "The reservation.", body = Reservation, headers(("Location" = String))),
        (status = 200, description = "The session's open reservation.", body = Reservation)))]
async fn reserve(
    State(app): State<App>,
    caller: Caller,
    Body { value, key }: Body<NewReservation>,
) -> Result<Rendered, Problem> {
    let actor = asks(&caller, key.as_ref())?;
    let reserved = app.raffles().reserve(&actor, &value).await?;
    let is_new = reserved.value.is_new;
    let shown =
        Done { at_ms: reserved.at_ms, replayed: reserved.replayed, value: reserved.value.reservation };
    if !is_new {
        return done(&shown);
    }
    if !shown.replayed {
        app.metrics().reservation("reserved");
    }
    let location = format!("/reservations/{}", shown.value.id);
    created(&shown, location)
}

/// List one's own reservations
///
/// Newest first, open and ended ones: the last fifty of each raffle.
#[utoipa::path(get, path = "/reservations", tag = "raffle", params(ReservationsQuery),
    responses((status = 200, description = "The reservations.", body = ReservationPage)))]
async fn list_reservations(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<ReservationsQuery>,
) -> Result<Rendered, Problem> {
    let actor = asks(&caller, None)?;
    if query.mine.is_some_and(|mine| !matches!(&*mine, "" | "true")) {
        return Err(Problem::invalid("mine", "is true or empty: other people's are not listed"));
    }
    Rendered::json(&app.raffles().mine(&actor, query.raffle_id).await?)
}

/// Read a reservation
///
/// One's own; an administrator reads anybody's.
#[utoipa::path(get, path = "/reservations/{id}", tag = "raffle",
    params(("id" = String, Path, description = "The reservation's id.")),
    responses((status = 200, description = "The reservation.", body = Reservation)))]
async fn get_reservation(
    State(app): State<App>,
    caller: Caller,
    Ids([id]): Ids<1>,
    Query(Nothing {}): Query<Nothing>,
) -> Result<Rendered, Problem> {
    let actor = asks(&caller, None)?;
    Rendered::json(&app.raffles().get_reservation(&actor, &id)?)
}

/// Add a number
///
/// While numbers are being chosen. The deadline stays what the first number made it. An administrator may do this
/// and what follows in the buyer's name; the event then tells who did.
#[utoipa::path(post, path = "/reservations/{id}/numbers", tag = "raffle",
    params(("id" = String, Path, description = "The reservation's id.")), request_body = NumberBody,
    responses((status = 200, description = "The reservation.", body = Reservation)))]
async fn add_reserved_number(
    State(app): State<App>,
    caller: Caller,
    Ids([id]): Ids<1>,
    Body { value, key }: Body<NumberBody>,
) -> Result<Rendered, Problem> {
    let actor = asks(&caller, key.as_ref())?;
    done(&app.raffles().add_number(&actor, &id, value.number_id).await?)
}

/// Take a number out
///
/// While numbers are being chosen, and not the last one: cancel the reservation instead.
#[utoipa::path(delete, path = "/reservations/{id}/numbers/{number}", tag = "raffle",
    params(("id" = String, Path, description = "The reservation's id."),
        ("number" = String, Path, description = "The number.")),
    responses((status = 200, description = "The reservation.", body = Reservation)))]
async fn remove_reserved_number(
    State(app): State<App>,
    caller: Caller,
    Ids([id, number]): Ids<2>,
    Query(Nothing {}): Query<Nothing>,
) -> Result<Rendered, Problem> {
    let actor = asks(&caller, None)?;
    let parsed = number.parse::<u32>().ok().filter(|parsed| parsed.to_string() == number);
    let number = parsed.ok_or_else(|| Refusal::not_found("number", &number))?;
    done(&app.raffles().remove_number(&actor, &id, number).await?)
}

/// Pay now
///
/// From selection to checkout, whose timer begins. A selection that runs out goes there by itself.
#[utoipa::path(post, path = "/reservations/{id}/move-to-checkout", tag = "raffle",
    params(("id" = String, Path, description = "The reservation's id.")), request_body = Option<NoBody>,
    responses((status = 200, description = "The reservation.", body = Reservation)))]
async fn move_to_checkout(
    State(app): State<App>,
    caller: Caller,
    Ids([id]): Ids<1>,
    Body { value: NoBody {}, key }: Body<NoBody>,
) -> Result<Rendered, Problem> {
    let actor = asks(&caller, key.as_ref())?;
    done(&app.raffles().move_to_checkout(&actor, &id).await?)
}

/// Cancel a reservation
///
/// While it is pending and nobody is being charged for it. Its numbers are available at once.
#[utoipa::path(post, path = "/reservations/{id}/cancel", tag = "raffle",
    params(("id" = String, Path, description = "The reservation's id.")), request_body = Option<NoBody>,
    responses((status = 200, description = "The reservation.", body = Reservation)))]
async fn cancel_reservation(
    State(app): State<App>,
    caller: Caller,
    Ids([id]): Ids<1>,
    Body { value: NoBody {}, key }: Body<NoBody>,
) -> Result<Rendered, Problem> {
    let actor = asks(&caller, key.as_ref())?;
    let cancelled = app.raffles().cancel(&actor, &id).await?;
    if !cancelled.replayed {
        app.metrics().reservation("cancelled");
    }
    done(&cancelled)
}

/// Which raffle's.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct OpenQuery {
    /// The raffle.
    raffle_id: String,
}

/// List a raffle's open reservations
///
/// Everybody's, at most two hundred: what a draw waits for. An administrator can cancel them.
#[utoipa::path(get, path = "/admin/reservations", tag = "raffle", params(OpenQuery),
    responses((status = 200, description = "The reservations.", body = ReservationPage)))]
async fn list_open_reservations(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<OpenQuery>,
) -> Result<Rendered, Problem> {
    let actor = asks(&caller, None)?;
    Rendered::json(&app.raffles().open_reservations(&actor, query.raffle_id).await?)
}

/// Sweep by hand
///
/// Records the ends of reservations whose time is up. The server does so by itself within a second, and
/// their numbers are available from the deadline on in any case.
#[utoipa::path(post, path = "/admin/jobs/expire-reservations", tag = "raffle", request_body = Option<NoBody>,
    responses((status = 200, description = "How many.", body = Expired)))]
async fn expire_reservations(
    State(app): State<App>,
    caller: Caller,
    Body { value: NoBody {}, .. }: Body<NoBody>,
) -> Result<Rendered, Problem> {
    let actor = asks(&caller, None)?;
    Rendered::json(&app.raffles().expire(&actor).await?)
}
