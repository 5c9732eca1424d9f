//! What a buyer's browser sees of a payment, without signing in: the way to the gateway, and back.

use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Bytes;
use tenure_apps::payments::State as PaymentState;

use crate::limits::{BODY_BYTES_MAX, BODY_TIME_MAX};
use crate::params::{Nothing, Query, Raw, no_query};
use crate::{App, Problem};

/// The provider's page
///
/// What `payment_url` leads to, for whoever has its token. It is the gateway's page: it runs apart from
/// this server's own pages, and can send its form to the gateway only.
#[utoipa::path(get, path = "/pay/{attempt}/{token}", tag = "payments",
    params(("attempt" = String, Path, description = "The payment's id."),
        ("token" = String, Path, description = "Its token.")),
    responses((status = 200, description = "The page.", body = String, content_type = "text/html")))]
pub(super) async fn show_page(
    State(app): State<App>,
    Raw(params): Raw,
    Query(Nothing {}): Query<Nothing>,
) -> Result<Response, Problem> {
    let [id, token] = two(&params)?;
    let page = app.payments().page(&id, &token)?;
    // The sandbox gives it an origin of its own: it sees no cookie and no other page of this server.
    let origin = page.origin.as_deref().unwrap_or("'none'");
    let policy = format!(
        "default-src 'none'; script-src 'unsafe-inline' {origin}; style-src 'unsafe-inline' {origin}; \
         img-src data: {origin}; form-action {origin}; base-uri 'none'; frame-ancestors 'none'; \
         sandbox allow-forms allow-scripts"
    );
    let mut response = Html(page.html.expose().to_owned()).into_response();
    let policy = HeaderValue::from_str(&policy).map_err(|_| Problem::internal())?;
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// The buyer comes back
///
/// The gateway's page sends the buyer's browser here, with a form. What is in it is believed by nobody: the
/// gateway itself is asked. The same again gets the same answer.
#[utoipa::path(post, path = "/payments/callback/{attempt}/{token}", tag = "payments",
    params(("attempt" = String, Path, description = "The payment's id."),
        ("token" = String, Path, description = "Its token.")),
    request_body(content = String, content_type = "application/x-www-form-urlencoded"),
    responses((status = 200, description = "How it stands, for a person.", body = String, content_type = "text/html")))]
pub(super) async fn payment_callback(
    State(app): State<App>,
    Raw(params): Raw,
    request: Request,
) -> Result<Response, Problem> {
    let [id, token] = two(&params)?;
    let form = form(request).await?;
    let returned = app.payments().callback(&id, &token, &form).await?;
    let mut response = Html(told(&returned.id, returned.state)).into_response();
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// The path's parameters, on a route that is for anybody.
fn two(params: &axum::extract::RawPathParams) -> Result<[String; 2], Problem> {
    let found: Vec<String> = params.iter().map(|(_, value)| value.to_owned()).collect();
    found.try_into().map_err(|_| Problem::internal())
}

/// A browser's form, bounded.
async fn form(request: Request) -> Result<Bytes, Problem> {
    let (parts, body) = request.into_parts();
    no_query(&parts.uri)?;
    let essence = parts.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    let essence = essence.split(';').next().unwrap_or("").trim();
    if !essence.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
        let (status, detail) = (StatusCode::UNSUPPORTED_MEDIA_TYPE, "send application/x-www-form-urlencoded");
        return Err(Problem::new(status, "unsupported_media_type", detail));
    }
    match tokio::time::timeout(BODY_TIME_MAX, Limited::new(body, BODY_BYTES_MAX).collect()).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let detail = format!("the body has more than {BODY_BYTES_MAX} bytes");
            Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail))
        }
        Ok(Err(_)) => Err(Problem::new(StatusCode::BAD_REQUEST, "malformed", "the body broke off")),
        Err(_) => Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "timeout", "the body took too long")),
    }
}

/// What a person reads who comes back from the gateway.
fn told(id: &str, state: PaymentState) -> String {
    let (es, en) = match state {
        PaymentState::Succeeded => ("Pago recibido. Los números son suyos.", "Paid. The numbers are yours."),
        PaymentState::Processing | PaymentState::Unknown | PaymentState::PendingReview => (
            "El banco aún no confirma el pago. Sus números siguen apartados; no pague otra vez.",
            "The bank has not confirmed the payment yet. Your numbers are kept; do not pay again.",
        ),
        PaymentState::Conflicted => (
            "El monto no coincide. Una persona lo revisará.",
            "The amount is not what was asked. A person will look at it.",
        ),
        PaymentState::PaidUnassigned
        | PaymentState::RefundPending
        | PaymentState::Refunded
        | PaymentState::RefundFailed => (
            "Los números ya no estaban disponibles. Su dinero será devuelto.",
            "The numbers were not available any more. Your money goes back.",
        ),
        _ => (
            "No se realizó el pago. Puede intentarlo de nuevo mientras quede tiempo.",
            "Nothing was paid. You can try again while there is time.",
        ),
    };
    format!(
        "<!doctype html><html lang=\"es\"><meta charset=\"utf-8\"><title>{es}</title>\
         <meta name=\"viewport\" content=\"width=device-width\"><body><main data-state=\"{}\">\
         <h1>{es}</h1><p lang=\"en\">{en}</p><p><a href=\"/app/pay/{id}\">Volver</a></p></main></body></html>",
        state.as_str()
    )
}
