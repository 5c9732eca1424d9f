//! `/raffles`, `/reservations` and the sockets of a raffle's page.

mod form;
mod reservations;
mod socket;

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use parking_lot::Mutex;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use tenure_apps::Actor;
use tenure_apps::raffle::{Draw, Grid, KIND, NewRaffle, PatchRaffle, Raffle, RafflePage};
use tenure_core::CollectionKey;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(crate) use form::RaffleForm;

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
        .routes(routes!(create_raffle, list_raffles))
        .routes(routes!(get_raffle, patch_raffle))
        .routes(routes!(get_numbers))
        .routes(routes!(draw_raffle, get_draw))
        .routes(routes!(socket::open_raffle_socket))
        .routes(routes!(socket::get_socket_stats))
        .merge(reservations::routes())
}

/// What amends or ends an open reservation.
const RESERVATION: &[&str] = &["not_found", "wrong_status", "wrong_phase", "conflict", "not_holder"];

/// The routes' own refusals.
pub(crate) const REFUSALS: &[Refusals] = &[
    ("POST", "/raffles", &["conflict"], &[]),
    ("GET", "/raffles/{id}", &["not_found"], &[]),
    ("PATCH", "/raffles/{id}", &["not_found", "wrong_status", "conflict"], &[]),
    ("GET", "/raffles/{id}/numbers", &["not_found"], &[]),
    ("POST", "/raffles/{id}/draw", &["not_found", "wrong_status", "conflict"], &[]),
    ("GET", "/raffles/{id}/draw", &["not_found"], &[]),
    ("GET", "/raffles/{id}/ws", &["not_found", "upgrade_required", "stopped"], &[]),
    ("GET", "/raffles/{id}/ws/stats", &["not_found"], &[]),
    ("POST", "/reservations", &["not_found", "wrong_status", "held", "finished", "limit", "conflict"], &[]),
    ("GET", "/reservations", &["not_found"], &[]),
    ("GET", "/admin/reservations", &["not_found"], &[]),
    ("GET", "/reservations/{id}", &["not_found"], &[]),
    ("POST", "/reservations/{id}/numbers", RESERVATION, &["held", "finished", "limit"]),
    ("DELETE", "/reservations/{id}/numbers/{number}", RESERVATION, &[]),
    ("POST", "/reservations/{id}/move-to-checkout", RESERVATION, &[]),
    ("POST", "/reservations/{id}/cancel", RESERVATION, &[]),
];

/// Which raffles.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct RafflesQuery {
    /// Only after this one: the `next` of the page before.
    after: Option<String>,
    /// At most so many.
    #[param(minimum = 1, maximum = 200)]
    limit: Option<usize>,
}

/// Who asks the application.
fn asks(caller: &Caller, key: Option<&Key>) -> Result<Actor, Problem> {
    actor(caller, KIND, key)
}

/// Make a raffle
///
/// It begins as a draft, with the numbers 1 to `numbers`. Open it by `PATCH`.
#[utoipa::path(post, path = "/raffles", tag = "raffle", request_body = NewRaffle,
    responses((status = 201, description = "The raffle.", body = Raffle, headers(("Location" = String)))))]
async fn create_raffle(
    State(app): State<App>,
    caller: Caller,
    Body { value, key }: Body<NewRaffle>,
) -> Result<Rendered, Problem> {
    let actor = asks(&caller, key.as_ref())?;
    let made = app.raffles().create(&actor, value).await?;
    let location = format!("/raffles/{}", made.value.id);
    created(&made, location)
}

/// List raffles
///
/// By id.
#[utoipa::path(get, path = "/raffles", tag = "raffle", params(RafflesQuery),
    responses((status = 200, description = "A page.", body = RafflePage)))]
async fn list_raffles(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<RafflesQuery>,
) -> Result<Rendered, Problem> {
    asks(&caller, None)?;
    Rendered::json(&app.raffles().list(query.after, query.limit).await?)
}

/// Read a raffle
///
/// With how many numbers are available, reserved and sold.
#[utoipa::path(get, path = "/raffles/{id}", tag = "raffle",
    params(("id" = String, Path, description = "The raffle's id.")),
    responses((status = 200, description = "The raffle.", body = Raffle)))]
async fn get_raffle(
    State(app): State<App>,
    caller: Caller,
    Ids([id]): Ids<1>,
    Query(Nothing {}): Query<Nothing>,
) -> Result<Rendered, Problem> {
    asks(&caller, None)?;
    Rendered::json(&app.raffles().get(&id).await?)
}

/// Open or pause a raffle
///
/// A draft becomes `active`, which publishes the hash of its draw's seed; `active` and `paused` change into
/// each other. `drawn` is what its draw makes it.
#[utoipa::path(patch, path = "/raffles/{id}", tag = "raffle",
    params(("id" = String, Path, description = "The raffle's id.")), request_body = PatchRaffle,
    responses((status = 200, description = "The raffle.", body = Raffle)))]
async fn patch_raffle(
    State(app): State<App>,
    caller: Caller,
    Ids([id]): Ids<1>,
    Body { value, .. }: Body<PatchRaffle>,
) -> Result<Rendered, Problem> {
    let actor = asks(&caller, None)?;
    done(&app.raffles().patch(&actor, &id, &value).await?)
}

/// Read all numbers
///
/// One character each: 10,000 numbers are 10 KB. `seq` is where the socket goes on (`since`). The `ETag`
/// changes with the characters: send it as `If-None-Match`.
#[utoipa::path(get, path = "/raffles/{id}/numbers", tag = "raffle",
    params(("id" = String, Path, description = "The raffle's id.")),
    responses((status = 200, description = "The numbers.", body = Grid, headers(("ETag" = String))),
        (status = 304, description = "As you know them.")))]
async fn get_numbers(
    State(app): State<App>,
    caller: Caller,
    Ids([id]): Ids<1>,
    Query(Nothing {}): Query<Nothing>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let actor = asks(&caller, None)?;
    let grid = app.raffles().numbers(&actor, &id).await?;
    let etag = etag(&grid);
    let known = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let is_known = known.flat_map(|value| value.split(',')).any(|known| known.trim() == etag);
    let mut response = if is_known {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        Rendered::json(&grid)?.into_response()
    };
    if let Ok(etag) = HeaderValue::try_from(etag) {
        response.headers_mut().insert(header::ETAG, etag);
    }
    // It is one person's view: to be asked for again each time, and not to be shared.
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    Ok(response)
}

/// Of what is shown, not of the number alone: a timer that ends changes it before an event says so.
fn etag(grid: &Grid) -> String {
    let digest = Sha256::digest(grid.numbers.as_bytes());
    let hash = digest.iter().take(8).fold(0_u64, |hash, byte| hash << 8 | u64::from(*byte));
    format!("\"{}-{hash:016x}\"", grid.seq)
}

/// Draw
///
/// Picks one of the sold numbers by the seed to which the raffle was bound when it opened, and reveals that.
/// Only a paused raffle with no open reservation is drawn, and only once.
#[utoipa::path(post, path = "/raffles/{id}/draw", tag = "raffle",
    params(("id" = String, Path, description = "The raffle's id.")), request_body = Option<NoBody>,
    responses((status = 200, description = "The draw.", body = Draw)))]
async fn draw_raffle(
    State(app): State<App>,
    caller: Caller,
    Ids([id]): Ids<1>,
    Body { value: NoBody {}, key }: Body<NoBody>,
) -> Result<Rendered, Problem> {
    let actor = asks(&caller, key.as_ref())?;
    done(&app.raffles().draw(&actor, &id).await?)
}

/// Read a draw
///
/// With all that is needed to do it again: `tenure raffle verify` does.
#[utoipa::path(get, path = "/raffles/{id}/draw", tag = "raffle",
    params(("id" = String, Path, description = "The raffle's id.")),
    responses((status = 200, description = "The draw.", body = Draw)))]
async fn get_draw(
    State(app): State<App>,
    caller: Caller,
    Ids([id]): Ids<1>,
    Query(Nothing {}): Query<Nothing>,
) -> Result<Rendered, Problem> {
    asks(&caller, None)?;
    Rendered::json(&app.raffles().drawn(&id).await?)
}

/// Who has a raffle's page open. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Audience(Arc<Mutex<HashMap<CollectionKey, u64>>>);

/// Somebody is there as long as this lives.
#[derive(Debug)]
pub(crate) struct Present {
    audience: Audience,
    key: CollectionKey,
}

impl Audience {
    /// Somebody comes.
    pub(crate) fn enter(&self, key: &CollectionKey) -> Present {
        *self.0.lock().entry(key.clone()).or_default() += 1;
        Present { audience: self.clone(), key: key.clone() }
    }

    /// How many are there.
    pub(crate) fn count(&self, key: &CollectionKey) -> u64 {
        self.0.lock().get(key).copied().unwrap_or(0)
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        let mut all = self.audience.0.lock();
        if let Some(count) = all.get_mut(&self.key) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                all.remove(&self.key);
            }
        }
    }
}
