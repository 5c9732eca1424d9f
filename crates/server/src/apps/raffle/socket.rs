//! `/raffles/{id}/ws`.

use axum::extract::{Request, State};
use axum::response::Response;
use serde::Serialize;
use tenure_apps::Refusal;
use tenure_apps::raffle::{KIND, is_raffle};
use tenure_core::CollectionKey;
use utoipa::ToSchema;

use super::asks;
use crate::command::Rendered;
use crate::front::Client;
use crate::params::{Ids, Nothing, Query, Raw};
use crate::socket::{SocketQuery, open};
use crate::{App, Caller, Problem};

/// Who listens.
#[derive(Serialize, ToSchema)]
#[schema(as = RaffleSockets)]
struct SocketStats {
    /// Open sockets of this raffle, on this server.
    #[schema(example = 12)]
    connected: u64,
}

/// Open a raffle's socket
///
/// **Who.** As every socket: `Authorization`, a session's cookie, `ticket`, or a first message
/// `{"type":"hello","key":"…"}`.
///
/// **What comes.** `{"type":"snapshot","raffle_id","epoch","seq","status","numbers":"--mr…","counts"}`, as
/// `GET …/numbers` gives it; with `since`, what happened after it instead. Then, each with its `seq`:
/// `{"type":"number_update","number_id","status","user_id"?}` with `available`, `reserved` or `sold`;
/// `{"type":"reservation_expired","number_ids"}` after the updates of its numbers;
/// `{"type":"raffle_update","status"}`. `user_id` is there for one's own numbers, and for administrators.
/// Come back with the highest `seq` that you saw: several messages may be about one event, and then only the
/// last one carries its number, so that none is lost. `{"type":"resync"}` is followed by a new snapshot.
///
/// **How it ends.** As every socket: see `/v1/collections/{kind}/{name}/ws`.
#[utoipa::path(get, path = "/raffles/{id}/ws", tag = "raffle",
    params(("id" = String, Path, description = "The raffle's id."), SocketQuery),
    responses((status = 101, description = "The socket is open.")))]
pub(super) async fn open_raffle_socket(
    State(app): State<App>,
    Raw(path): Raw,
    Query(query): Query<SocketQuery>,
    client: Client,
    request: Request,
) -> Result<Response, Problem> {
    // A page may still have to say who it is.
    let id = path.iter().next().map_or("", |(_, id)| id);
    let key = collection(&app, id)?;
    open(app, key, query, (client, request), true).await
}

/// Count a raffle's sockets
#[utoipa::path(get, path = "/raffles/{id}/ws/stats", tag = "raffle",
    params(("id" = String, Path, description = "The raffle's id.")),
    responses((status = 200, description = "Who listens.", body = SocketStats)))]
pub(super) async fn get_socket_stats(
    State(app): State<App>,
    caller: Caller,
    Ids([id]): Ids<1>,
    Query(Nothing {}): Query<Nothing>,
) -> Result<Rendered, Problem> {
    asks(&caller, None)?;
    let key = collection(&app, &id)?;
    Rendered::json(&SocketStats { connected: app.audience().count(&key) })
}

fn collection(app: &App, id: &str) -> Result<CollectionKey, Problem> {
    let unknown = || Problem::from(Refusal::not_found("raffle", id));
    let key = CollectionKey::from_parts(KIND, id).map_err(|_| unknown())?;
    if is_raffle(app.desk(), &key)? { Ok(key) } else { Err(unknown()) }
}
