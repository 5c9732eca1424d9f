//! What every request passes first and every answer last: its id, its client, its span and figures, a
//! panic's end, and the headers that keep browsers safe.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use axum::extract::{FromRequestParts, MatchedPath, Request};
use axum::http::header::{self, HeaderName};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use tracing::Instrument;

use crate::Problem;
use crate::metrics::Metrics;
use crate::net::{Network, came_over_tls, client_address};
use crate::problem::Code;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const REQUEST_ID_BYTES_MAX: usize = 128;
const CSP: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                   connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// The connection a request came on, as the accept loop knows it.
#[derive(Clone, Copy, Debug)]
pub struct Connection {
    /// The other end.
    pub peer: SocketAddr,
    /// It is encrypted.
    pub is_tls: bool,
}

/// The route of a request that no router has matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Route(pub(crate) &'static str);

/// The route that a request was matched to, as the access table names it.
pub(crate) fn route_of(extensions: &Extensions) -> Option<&str> {
    let short = || extensions.get::<Route>().map(|route| route.0);
    extensions.get::<MatchedPath>().map(MatchedPath::as_str).or_else(short)
}

/// Whose request it is, behind proxies that are trusted.
#[derive(Clone, Copy, Debug)]
pub struct Client {
    /// Its address.
    pub address: IpAddr,
    /// It speaks TLS with us or with the proxy.
    pub is_tls: bool,
}

impl<S: Sync> FromRequestParts<S> for Client {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        Ok(Self::of(&parts.extensions))
    }
}

impl Client {
    pub(crate) fn of(extensions: &axum::http::Extensions) -> Self {
        // Without an accept loop there is a test on this machine.
        let here = Self { address: IpAddr::V4(Ipv4Addr::LOCALHOST), is_tls: false };
        extensions.get::<Self>().copied().unwrap_or(here)
    }
}

/// What the front needs to know.
#[derive(Debug)]
pub(crate) struct Front {
    metrics: Metrics,
    trusted: Vec<Network>,
    ids: Ids,
}

impl Front {
    pub(crate) fn new(metrics: Metrics, trusted: Vec<Network>) -> Self {
        Self { metrics, trusted, ids: Ids::new() }
    }
}

/// Request ids: this process's own number, then a count.
#[derive(Debug)]
struct Ids {
    process: u64,
    count: AtomicU64,
}

impl Ids {
    fn new() -> Self {
        Self { process: getrandom::u64().unwrap_or_default(), count: AtomicU64::new(1) }
    }

    fn next(&self) -> String {
        format!("{:016x}-{:x}", self.process, self.count.fetch_add(1, Ordering::Relaxed))
    }
}

/// The outermost layer.
pub(crate) async fn pass<F: Future<Output = Response> + Send>(
    front: &Front,
    mut request: Request,
    inner: impl FnOnce(Request) -> F,
) -> Response {
    let started = Instant::now();
    let id = request_id(request.headers()).unwrap_or_else(|| front.ids.next());
    let matched = request.extensions().get::<MatchedPath>().cloned();
    let short = request.extensions().get::<Route>().map(|route| route.0);
    let route = matched.as_ref().map(MatchedPath::as_str).or(short).unwrap_or("none");
    let method = request.method().clone();
    let client = client_of(&request, &front.trusted);
    request.extensions_mut().insert(client);
    let trace = trace_id(request.headers()).unwrap_or_default();
    let span = tracing::info_span!("request", id, %method, route, trace, client = %client.address);
    let handled = AssertUnwindSafe(inner(request)).catch_unwind().instrument(span.clone()).await;
    let _entered = span.enter();
    let mut response = handled.unwrap_or_else(|_| {
        tracing::error!("a handler panicked");
        Problem::internal().into_response()
    });
    let (status, took) = (response.status(), started.elapsed());
    let code = response.extensions().get::<Code>().map(|code| code.0);
    front.metrics.request(route, &method, status, took);
    if let Some(code) = code {
        front.metrics.refused(code);
    }
    let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
    if status.is_server_error() {
        tracing::warn!(status = status.as_u16(), code, took_us, "answered");
    } else {
        tracing::debug!(status = status.as_u16(), code, took_us, "answered");
    }
    protect(response.headers_mut(), client, &id);
    response
}

fn client_of(request: &Request, trusted: &[Network]) -> Client {
    let Some(connection) = request.extensions().get::<Connection>() else {
        return Client::of(request.extensions());
    };
    let (peer, headers) = (connection.peer.ip(), request.headers());
    Client {
        address: client_address(peer, headers, trusted),
        is_tls: connection.is_tls || came_over_tls(peer, headers, trusted),
    }
}

/// Headers that a handler may have set itself, and those that it may not.
fn protect(headers: &mut HeaderMap, client: Client, id: &str) {
    // A page with needs of its own has said so; everything else gets the strict one.
    headers.entry(header::CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static(CSP));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    if client.is_tls {
        let year = HeaderValue::from_static("max-age=31536000");
        headers.insert(header::STRICT_TRANSPORT_SECURITY, year);
    }
    if let Ok(id) = HeaderValue::from_str(id) {
        headers.insert(REQUEST_ID, id);
    }
}

/// The client's own id, if it can stand in a log.
fn request_id(headers: &HeaderMap) -> Option<String> {
    let id = headers.get(REQUEST_ID)?.to_str().ok()?;
    let plain = id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    (plain && !id.is_empty() && id.len() <= REQUEST_ID_BYTES_MAX).then(|| id.to_owned())
}

/// The trace that the request belongs to (W3C trace context, version 00 and compatible ones).
fn trace_id(headers: &HeaderMap) -> Option<&str> {
    let mut parts = headers.get("traceparent")?.to_str().ok()?.split('-');
    let (version, trace, parent, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let is_hex = |text: &str, length| {
        text.len() == length && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let valid = is_hex(version, 2) && version != "ff" && is_hex(trace, 32) && is_hex(parent, 16);
    let known = trace.bytes().any(|byte| byte != b'0') && parent.bytes().any(|byte| byte != b'0');
    let ends = version != "00" || parts.next().is_none();
    (valid && known && ends && is_hex(flags, 2)).then_some(trace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sane_request_ids_are_kept_and_others_are_not() {
        let check = |id: &'static str, expected: bool| {
            let mut headers = HeaderMap::new();
            headers.insert(REQUEST_ID, HeaderValue::from_static(id));
            assert_eq!(request_id(&headers).is_some(), expected, "{id}");
        };
        check("7f3a-b.c_D", true);
        check("", false);
        check("a b", false);
        check("<script>", false);
        check(
            "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789",
            false,
        );
    }

    #[test]
    fn traceparent_is_read_by_the_letter() {
        let check = |line: &'static str, expected: Option<&str>| {
            let mut headers = HeaderMap::new();
            headers.insert("traceparent", HeaderValue::from_static(line));
            assert_eq!(trace_id(&headers), expected, "{line}");
        };
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
        check("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", Some(trace));
        check("01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more", Some(trace));
        check("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more", None);
        check("ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", None);
        check("00-00000000000000000000000000000000-00f067aa0ba902b7-01", None);
        check("00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01", None);
        check("rubbish", None);
    }
}
