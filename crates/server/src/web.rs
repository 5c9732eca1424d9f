//! What a browser gets: the SDK, the elements and the pages, from inside the binary. In a debug build they
//! are read from `web/` at each request, so that a page changes when its file does.

use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Redirect, Response};
use rust_embed::{EmbeddedFile, RustEmbed};
use tenure_core::hex;

use crate::Problem;

#[derive(RustEmbed)]
#[folder = "../../web/"]
#[include = "elements/*"]
#[include = "i18n/*"]
#[include = "pages/*"]
#[include = "sdk/*.js"]
#[include = "sdk/src/*"]
#[include = "style/*"]
#[exclude = "sdk/test/*"]
struct Files;

/// Where the pages live: every path below is the same document, whose script finds the page.
const PAGES: &str = "/app/";
const SHELL: &str = "pages/index.html";

/// There is a file or a page at this path.
pub(crate) fn has(method: &Method, path: &str) -> bool {
    is_read(method) && (meant(path).is_some() || find(path).is_some())
}

/// Answers with it.
pub(crate) async fn serve(method: Method, uri: Uri, headers: HeaderMap) -> Response {
    let path = uri.path();
    let Some((content_type, file)) = is_read(&method).then(|| find(path)).flatten() else {
        return match meant(path).filter(|_| is_read(&method)) {
            Some(page) => Redirect::to(page).into_response(),
            None => Problem::not_found("route", path).into_response(),
        };
    };
    let tag = tag_of(&file);
    // Asked again each time, answered with 304 mostly: a new version is seen at once.
    let kept = [(header::ETAG, tag.clone()), (header::CACHE_CONTROL, HeaderValue::from_static("no-cache"))];
    if headers.get(header::IF_NONE_MATCH) == Some(&tag) {
        return (StatusCode::NOT_MODIFIED, kept).into_response();
    }
    (kept, [(header::CONTENT_TYPE, content_type)], file.data).into_response()
}

fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

/// The page that people mean by what they type.
fn meant(path: &str) -> Option<&'static str> {
    match path {
        "/" | "/app" => Some(PAGES),
        "/docs/" => Some("/docs"),
        _ => None,
    }
}

fn find(path: &str) -> Option<(&'static str, EmbeddedFile)> {
    let name = if path.starts_with(PAGES) { SHELL } else { path.strip_prefix('/')? };
    let content_type = match name.rsplit_once('.')?.1 {
        "css" => "text/css; charset=utf-8",
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "svg" => "image/svg+xml",
        _ => return None,
    };
    Some((content_type, Files::get(name)?))
}

fn tag_of(file: &EmbeddedFile) -> HeaderValue {
    let tag = hex(&file.metadata.sha256_hash()[..16]);
    HeaderValue::try_from(format!("\"{tag}\"")).unwrap_or(HeaderValue::from_static("\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_browser_needs_is_served() {
        for path in [
            "/",
            "/app",
            "/app/",
            "/docs/",
            "/app/tasks/a.b",
            "/sdk/tenure.js",
            "/sdk/src/claim.js",
            "/style/tokens.css",
        ] {
            assert!(has(&Method::GET, path), "{path}");
        }
        let none = [
            "/apple",
            "/package.json",
            "/sdk/README.md",
            "/sdk/test/helpers/world.js",
            "/node_modules/x.js",
            "/sdk/../package.json",
            "/sdk/src/../../README.md",
            "//sdk/tenure.js",
            "/sdk/",
            "/pages/none.js",
        ];
        for path in none {
            assert!(!has(&Method::GET, path), "{path}");
        }
        assert!(!has(&Method::POST, "/sdk/tenure.js"));
    }
}
