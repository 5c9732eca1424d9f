//! `/healthz`, `/readyz`, `/metrics`: for whoever runs it.

use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::{App, Problem};

/// The store must answer a read within this, or it is not ready.
const READY_WITHIN: Duration = Duration::from_secs(2);

/// The routes of this file, to be merged into the whole.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(health)).routes(routes!(ready)).routes(routes!(metrics))
}

/// Is the process there
///
/// Says nothing of the store: a process that waits for it need not be killed.
#[utoipa::path(get, path = "/healthz", tag = "operations",
    responses((status = 200, description = "It is.", body = String, content_type = "text/plain")))]
async fn health() -> Response {
    plain("ok\n")
}

/// Can it serve
///
/// The store answers, and the server is not stopping.
#[utoipa::path(get, path = "/readyz", tag = "operations",
    responses((status = 200, description = "It can.", body = String, content_type = "text/plain")))]
async fn ready(State(app): State<App>) -> Response {
    if app.is_stopping() {
        return away("stopped", "the server is stopping").into_response();
    }
    let reader = app.reader().clone();
    // On a thread of its own: a store that hangs must not hang this answer.
    let read = tokio::task::spawn_blocking(move || reader.ready());
    match tokio::time::timeout(READY_WITHIN, read).await {
        Ok(Ok(Ok(()))) => plain("ready\n"),
        Ok(Ok(Err(error))) => {
            tracing::warn!(%error, "the store is not ready");
            away("away", "the store cannot be read").into_response()
        }
        Ok(Err(_)) | Err(_) => away("away", "the store does not answer").into_response(),
    }
}

/// Figures for Prometheus
#[utoipa::path(get, path = "/metrics", tag = "operations",
    responses((status = 200, description = "In its text form.", body = String, content_type = "text/plain")))]
async fn metrics(State(app): State<App>) -> Response {
    let figures = app.metrics().clone();
    figures.payments(&app.payments().figures());
    let (engine, looking) = (app.engine().clone(), figures.clone());
    // Counting claims reads the store, and whoever scrapes has no patience: late figures are those of before.
    let looked = tokio::task::spawn_blocking(move || looking.look(&engine));
    let answers = matches!(tokio::time::timeout(READY_WITHIN, looked).await, Ok(Ok(true)));
    let mut response = figures.page(answers).into_response();
    let form = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, form);
    response
}

fn plain(text: &'static str) -> Response {
    let mut response = text.into_response();
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn away(code: &'static str, detail: &str) -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, code, detail)
}
