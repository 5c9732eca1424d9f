//! The documentation that is served: the OpenAPI document, and pages made from it once at start. Plain
//! HTML and one style sheet; no scripts, nothing from another host.

mod page;
mod problems;
mod sample;

use std::sync::Arc;

use axum::Extension;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use utoipa::openapi::OpenApi;

pub(crate) use sample::sample;

/// What a page may load: its style sheet.
const POLICY: &str =
    "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The pages, ready to send.
#[derive(Debug)]
pub(crate) struct Documents {
    openapi: String,
    docs: String,
    problems: String,
}

impl Documents {
    /// Renders the pages.
    pub(crate) fn of(api: &OpenApi) -> Self {
        let value = serde_json::to_value(api).unwrap_or_default();
        Self { openapi: value.to_string(), docs: page::render(&value), problems: problems::render() }
    }
}

/// The OpenAPI document
#[utoipa::path(get, path = "/openapi.json", tag = "documents",
    responses((status = 200, description = "OpenAPI 3.1.", content_type = "application/json", body = Object)))]
pub(crate) async fn get_openapi(Extension(documents): Extension<Arc<Documents>>) -> Response {
    sent("application/json", documents.openapi.clone())
}

/// The documentation as a page
#[utoipa::path(get, path = "/docs", tag = "documents",
    responses((status = 200, description = "A page.", content_type = "text/html", body = String)))]
pub(crate) async fn get_docs(Extension(documents): Extension<Arc<Documents>>) -> Response {
    sent("text/html; charset=utf-8", documents.docs.clone())
}

/// Every problem's code as a page
#[utoipa::path(get, path = "/docs/problems", tag = "documents",
    responses((status = 200, description = "A page.", content_type = "text/html", body = String)))]
pub(crate) async fn get_problems(Extension(documents): Extension<Arc<Documents>>) -> Response {
    sent("text/html; charset=utf-8", documents.problems.clone())
}

/// The pages' style sheet
#[utoipa::path(get, path = "/docs/style.css", tag = "documents",
    responses((status = 200, description = "A style sheet.", content_type = "text/css", body = String)))]
pub(crate) async fn get_style() -> Response {
    sent("text/css; charset=utf-8", include_str!("style.css").to_owned())
}

fn sent(content_type: &'static str, body: String) -> Response {
    let headers: [(HeaderName, HeaderValue); 4] = [
        (header::CONTENT_TYPE, HeaderValue::from_static(content_type)),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
    ];
    (headers, body).into_response()
}

/// Text as HTML: nothing in it is markup, except that `…` is code.
fn html(text: &str) -> String {
    let escaped = text
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace('\'', "&#39;");
    let mut parts = escaped.split('`');
    let mut out = parts.next().unwrap_or("").to_owned();
    let mut is_code = true;
    for part in parts {
        out.push_str(if is_code { "<code>" } else { "</code>" });
        out.push_str(part);
        is_code = !is_code;
    }
    if !is_code {
        out.push_str("</code>");
    }
    out
}

/// A whole page.
fn whole(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<link rel=\"stylesheet\" href=\"/docs/style.css\">\n</head>\n\
         <body>\n{body}\n</body>\n</html>\n",
        title = html(title),
    )
}
