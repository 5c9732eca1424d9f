//! A collection over a WebSocket: its events as they happen, and commands on the same connection.
//!
//! The handshake is done here and not by axum, whose sockets send only whole messages: the buffer of each
//! would grow to the largest snapshot that it ever sent, and stay so.

mod close;
mod commands;
mod fan;
mod gate;
pub(crate) mod message;
mod pump;
mod session;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tenure_core::CollectionKey;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use utoipa::IntoParams;

use crate::access::{SOCKET_PATH, rule_for};
use crate::apps::check_seen;
use crate::front::Client;
use crate::identity::Secret;
use crate::limits::{
    SOCKET_MESSAGE_BYTES_MAX, SOCKET_READ_BYTES, SOCKET_WRITE_BYTES, SOCKET_WRITE_BYTES_MAX,
};
use crate::line::Line;
use crate::params::{At, Query, Raw};
use crate::rate::Rates;
use crate::stream::Cursor;
use crate::{App, Caller, Credential, May, Problem, schema};
pub(crate) use fan::Fans;
use gate::Gate;
use session::Asked;

/// From where, and as whom.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct SocketQuery {
    /// Go on after this number instead of beginning with a snapshot.
    #[param(schema_with = schema::number, required = false)]
    since: Option<u64>,
    /// The epoch in which that number was seen: of another epoch it means nothing.
    #[param(schema_with = schema::number, required = false)]
    epoch: Option<u64>,
    /// A ticket of `POST /v1/tickets`, for a page, which cannot send a header. It works once.
    ticket: Option<String>,
}

/// Open a socket
///
/// **Who.** `Authorization`; or a session's cookie, from a page of an allowed origin; or `ticket`; or a first
/// message `{"type":"hello","key":"…"}` within 5 seconds. A key never stands in the query.
///
/// **What comes.** `{"type":"snapshot","collection","epoch","seq","server_time","items":[…],"claims":[…]}`;
/// with `since`, the events after it instead. Then `{"type":"event","epoch","seq","event":{…}}` for each, in
/// order, without a gap. `{"type":"resync","reason"}` when the number is of another epoch (`other_epoch`) or
/// outside of what is kept (`not_retained`): a snapshot follows.
///
/// **Commands.** `{"id":1,"command":{"op":"acquire",…},"idempotency_key"?}`, as in a batch, as many as you
/// like without waiting (1,024 are read ahead). Each is answered once, as it is done:
/// `{"type":"reply","id":1,"status":201,"body":{…}}`. `id` is a number or a string of yours. `{"type":"ping"}`
/// is answered by `{"type":"pong"}`. What is no command and cannot be read is answered by
/// `{"type":"error","status","body"}`.
///
/// **How it ends.** The server pings every 54 seconds, and closes what is silent for 60. The reason of a close
/// is JSON: `{"reason","cursor","epoch"}`; come back with the cursor as `since`. 4008 `slow`: more than 1,000
/// events or 256 KiB waited. 1012 `stopping`: the server stops. 4401: not known, no `hello`, or `revoked`. 4403:
/// not allowed. 4429: too often. 4503: nobody can tell now whether your key or session is good: come back. 1003: a
/// binary frame. 1009: a message of more than 64 KiB. 1011: the store.
#[utoipa::path(get, path = "/v1/collections/{kind}/{name}/ws", tag = "events", params(At, SocketQuery),
    responses((status = 101, description = "The socket is open.")))]
pub(crate) async fn open_socket(
    State(app): State<App>,
    Raw(path): Raw,
    Query(query): Query<SocketQuery>,
    client: Client,
    request: Request,
) -> Result<Response, Problem> {
    let part = |name| path.iter().find(|(known, _)| *known == name).map_or("", |(_, value)| value);
    let key = CollectionKey::from_parts(part("kind"), part("name"))?;
    open(app, key, query, (client, request), false).await
}

/// Opens a socket on a collection, in the form of a raffle's page or as it is.
pub(crate) async fn open(
    app: App,
    key: CollectionKey,
    query: SocketQuery,
    (client, request): (Client, Request),
    is_raffle: bool,
) -> Result<Response, Problem> {
    let (mut parts, _) = request.into_parts();
    let from = Cursor::of(query.since, query.epoch)?;
    app.identity().check_origin(&parts.headers, &client)?;
    let caller = parts.extensions.get::<Caller>().cloned();
    if let Some(caller) = &caller {
        // A browser always says where a socket's page is from; without that a cookie proves nothing.
        if matches!(caller.credential, Credential::Session(_)) && !parts.headers.contains_key(header::ORIGIN)
        {
            return Err(Problem::forbidden("a session opens sockets from a page only: send Origin"));
        }
        check_access(caller, &key)?;
        check_form(&app, caller, &key, is_raffle)?;
    }
    let handshake = Handshake::of(&mut parts)?;
    if app.is_stopping() {
        let detail = "the server is stopping; try again shortly";
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "stopped", detail).retry(1));
    }
    let rates = parts.extensions.get::<Rates>().cloned();
    let line = Line::of(&parts.extensions);
    let mut asked = Asked { app, key, from, caller, rates, address: client.address, is_raffle, line };
    if let Some(ticket) = query.ticket {
        let found = asked.app.identity().redeem(&Secret::new(ticket)).await;
        asked.caller = Some(session::admit(&asked, found).await?);
    }
    Ok(handshake.accept(asked))
}

/// The caller may read this collection.
fn check_access(caller: &Caller, key: &CollectionKey) -> Result<(), Problem> {
    match rule_for("GET", SOCKET_PATH).map(|rule| rule.may) {
        Some(May::Roles { own, .. }) if own.has(caller.role) => caller.check_kind(key.kind()),
        _ => Err(Problem::forbidden("your role may not do this")),
    }
}

/// A raffle as it is, with everybody's claims, is for administrators.
fn check_form(app: &App, caller: &Caller, key: &CollectionKey, is_raffle: bool) -> Result<(), Problem> {
    if is_raffle { Ok(()) } else { check_seen(app, caller, key) }
}

/// A request that wants to become a socket.
struct Handshake {
    upgrade: OnUpgrade,
    accept: HeaderValue,
}

impl Handshake {
    fn of(parts: &mut Parts) -> Result<Self, Problem> {
        let headers = &parts.headers;
        let is_socket = parts.method == Method::GET
            && says(headers, &header::CONNECTION, "upgrade")
            && says(headers, &header::UPGRADE, "websocket")
            && says(headers, &header::SEC_WEBSOCKET_VERSION, "13");
        let accept = headers
            .get(header::SEC_WEBSOCKET_KEY)
            .filter(|key| is_socket && is_key(key.as_bytes()))
            .and_then(|key| HeaderValue::try_from(derive_accept_key(key.as_bytes())).ok());
        if let (Some(accept), Some(upgrade)) = (accept, parts.extensions.remove::<OnUpgrade>()) {
            Ok(Self { upgrade, accept })
        } else {
            let detail = "this route opens WebSockets, version 13";
            let mut problem = Problem::new(StatusCode::UPGRADE_REQUIRED, "upgrade_required", detail);
            problem.headers = vec![
                (header::UPGRADE, HeaderValue::from_static("websocket")),
                (header::CONNECTION, HeaderValue::from_static("upgrade")),
                (header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13")),
            ];
            Err(problem)
        }
    }

    /// The answer after which the connection is a socket, which runs by itself.
    fn accept(self, asked: Asked) -> Response {
        let upgrade = self.upgrade;
        tokio::spawn(async move {
            let upgraded = match upgrade.await {
                Ok(upgraded) => Gate::new(TokioIo::new(upgraded)),
                Err(error) => return tracing::debug!(%error, "a connection did not become a socket"),
            };
            let config = WebSocketConfig::default()
                .read_buffer_size(SOCKET_READ_BYTES)
                .write_buffer_size(SOCKET_WRITE_BYTES)
                .max_write_buffer_size(SOCKET_WRITE_BYTES_MAX)
                .max_message_size(Some(SOCKET_MESSAGE_BYTES_MAX))
                .max_frame_size(Some(SOCKET_MESSAGE_BYTES_MAX));
            let socket = WebSocketStream::from_raw_socket(upgraded, Role::Server, Some(config)).await;
            session::run(asked, socket).await;
        });
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, self.accept);
        response
    }
}

/// Sixteen bytes in base64, as RFC 6455 wants it.
fn is_key(key: &[u8]) -> bool {
    let is_digit = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    key.strip_suffix(b"==").is_some_and(|digits| digits.len() == 22 && digits.iter().all(is_digit))
}

/// One of the header's words is this.
fn says(headers: &HeaderMap, name: &HeaderName, word: &str) -> bool {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|given| given.trim().eq_ignore_ascii_case(word))
}
