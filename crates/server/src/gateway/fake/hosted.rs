//! What the fake gateway shows to the buyer: its page, and the bank's question.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use hyper::body::Bytes;

use super::cards::card;
use super::{Fault, Shared, Taken, pages};
use crate::gateway::form::field;

pub(super) async fn show(State(world): State<Shared>, Path(token): Path<String>) -> Response {
    match world.lock().sale_of(&token) {
        Some(sale) => Html(pages::card(&token, sale.amount)).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

pub(super) async fn give_card(
    State(world): State<Shared>,
    Path(token): Path<String>,
    body: Bytes,
) -> Response {
    let mut world = world.lock();
    let is_forged = world.fault == Fault::ForgedApproval;
    let Some(sale) = world.sale_of(&token) else { return StatusCode::NOT_FOUND.into_response() };
    let digits: String = field(&body, "CardNumber").unwrap_or_default().replace([' ', '-'], "");
    let Some(known) = card(&digits) else {
        return Html(pages::unknown_card(&token)).into_response();
    };
    sale.card = Some(known);
    if known.challenges {
        return Html(pages::challenge(&token)).into_response();
    }
    through(sale, known.authentication, is_forged)
}

pub(super) async fn challenge(
    State(world): State<Shared>,
    Path(token): Path<String>,
    body: Bytes,
) -> Response {
    let mut world = world.lock();
    let is_forged = world.fault == Fault::ForgedApproval;
    let Some(sale) = world.sale_of(&token) else { return StatusCode::NOT_FOUND.into_response() };
    let is_right = field(&body, "Password").as_deref() == Some("3ds2");
    through(sale, if is_right { "Y" } else { "N" }, is_forged)
}

/// The buyer is through: the page sends the browser back.
fn through(sale: &mut Taken, authentication: &'static str, is_forged: bool) -> Response {
    sale.authentication = Some(authentication);
    let response = pages::response(&sale.token, authentication, is_forged);
    Html(pages::back(&sale.response_url, &response)).into_response()
}
