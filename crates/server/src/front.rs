//! What every request passes first and every answer last: its id, its client, its span and figures, a
//! panic's end, and the headers that keep browsers safe.

use std::borrow::Cow;
use std::future::poll_fn;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{self, Poll};
use std::time::Instant;

use axum::extract::{FromRequestParts, MatchedPath, Request};
use axum::http::header::{self, HeaderName};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};

use crate::Problem;
use crate::context::{Context, Scope};
use crate::fields::Fields;
use crate::metrics::Metrics;
use crate::net::{Network, came_over_tls, client_address};
use crate::problem::Code;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const TRACE_PARENT: HeaderName = HeaderName::from_static("traceparent");
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

/// The route that a request was matched to, as the access table names it.
pub(crate) fn route_of(extensions: &Extensions) -> Option<&str> {
    extensions.get::<MatchedPath>().map(MatchedPath::as_str)
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
    process: String,
    count: AtomicU64,
}

impl Ids {
    fn new() -> Self {
        let process = format!("{:016x}-", getrandom::u64().unwrap_or_default());
        Self { process, count: AtomicU64::new(1) }
    }

    fn next(&self) -> String {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let mut id = String::with_capacity(self.process.len() + 16);
        id.push_str(&self.process);
        // By hand: a formatter takes longer than all else that an id takes.
        let digits = (64 - count.leading_zeros()).div_ceil(4).max(1);
        let digits = (0..digits).rev().map(|place| (count >> (4 * place)) & 15);
        id.extend(digits.filter_map(|digit| char::from_digit(u32::try_from(digit).ok()?, 16)));
        id
    }
}

/// A request on its way through, whichever that is.
#[derive(Debug)]
pub(crate) struct Visit<'a> {
    front: &'a Front,
    pub(crate) client: Client,
    started: Instant,
    scope: Scope,
}

impl Front {
    /// Whose request it is that came on this connection.
    pub(crate) fn client(&self, connection: Connection, headers: &HeaderMap) -> Client {
        let (peer, trusted) = (connection.peer.ip(), &*self.trusted);
        Client {
            address: client_address(peer, headers, trusted),
            is_tls: connection.is_tls || came_over_tls(peer, headers, trusted),
        }
    }

    pub(crate) fn arrive(
        &self,
        method: &Method,
        headers: &HeaderMap,
        route: Cow<'static, str>,
        client: Client,
    ) -> Visit<'_> {
        let started = Instant::now();
        let id = request_id(headers).unwrap_or_else(|| self.ids.next());
        let trace = trace_id(headers).unwrap_or_default().to_owned();
        let scope = Scope::new(Context { id, method: method.clone(), route, trace, client: client.address });
        Visit { front: self, client, started, scope }
    }
}

impl Visit<'_> {
    /// What comes of it. A panic ends here.
    pub(crate) async fn run<T>(
        &mut self,
        mut work: Pin<&mut (impl Future<Output = T> + Send)>,
    ) -> Result<T, Problem> {
        let polled = |cx: &mut task::Context<'_>| {
            let poll = AssertUnwindSafe(|| work.as_mut().poll(cx));
            if let Ok(polled) = self.scope.enter(|| catch_unwind(poll)) {
                return polled.map(Ok);
            }
            self.scope.enter(|| tracing::error!("a handler panicked"));
            Poll::Ready(Err(Problem::internal()))
        };
        poll_fn(polled).await
    }

    /// Counts and logs its answer, and puts the headers that every answer has.
    pub(crate) fn leave(mut self, status: StatusCode, code: Option<&'static str>, fields: &mut impl Fields) {
        let (metrics, took) = (&self.front.metrics, self.started.elapsed());
        if let Some(Context { id, method, route, .. }) = self.scope.context() {
            metrics.request(route, method, status, took);
            protect(fields, self.client, id);
        }
        if let Some(code) = code {
            metrics.refused(code);
        }
        let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.scope.enter(|| {
            if status.is_server_error() {
                tracing::warn!(status = status.as_u16(), code, took_us, "answered");
            } else {
                tracing::debug!(status = status.as_u16(), code, took_us, "answered");
            }
        });
    }
}

/// The outermost layer.
pub(crate) async fn pass<F: Future<Output = Response> + Send>(
    front: &Front,
    mut request: Request,
    inner: impl FnOnce(Request) -> F,
) -> Response {
    let connection = request.extensions().get::<Connection>().copied();
    let here = || Client::of(request.extensions());
    let client = connection.map_or_else(here, |connection| front.client(connection, request.headers()));
    let route = route_of(request.extensions()).unwrap_or("none").to_owned();
    let mut visit = front.arrive(request.method(), request.headers(), route.into(), client);
    request.extensions_mut().insert(client);
    let handled = visit.run(pin!(inner(request))).await;
    let mut response = handled.unwrap_or_else(IntoResponse::into_response);
    let code = response.extensions().get::<Code>().map(|code| code.0);
    visit.leave(response.status(), code, response.headers_mut());
    response
}

/// Headers that a handler may have set itself, and those that it may not.
fn protect(fields: &mut impl Fields, client: Client, id: &str) {
    // A page with needs of its own has said so; everything else gets the strict one.
    fields.put_default(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(CSP));
    fields.put(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    fields.put(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    if client.is_tls {
        fields.put(header::STRICT_TRANSPORT_SECURITY, HeaderValue::from_static("max-age=31536000"));
    }
    if let Ok(id) = HeaderValue::from_str(id) {
        fields.put(REQUEST_ID, id);
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
    let mut parts = headers.get(TRACE_PARENT)?.to_str().ok()?.split('-');
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
    fn ids_count_in_hexadecimal() {
        let ids = Ids::new();
        for count in [0, 1, 15, 16, 255, 256, 0xabc_def0, u64::MAX - 1] {
            ids.count.store(count, Ordering::Relaxed);
            assert_eq!(ids.next(), format!("{}{count:x}", ids.process));
        }
    }

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
