//! `/v1/keys`, `/v1/session`, `/v1/sessions`, `/v1/tickets`.

use axum::extract::{FromRequestParts, State};
use axum::http::header::SET_COOKIE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use tenure_core::{Principal, Text};
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::cookie;
use super::keys::{KeyDocument, NewKey};
use super::secret::Secret;
use crate::body::Body;
use crate::command::NoBody;
use crate::front::Client;
use crate::params::{Nothing, Query, Raw};
use crate::time::rfc3339;
use crate::{App, Caller, Credential, Problem, Role};

/// The routes of this file, to be merged into the whole.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list_keys, create_key))
        .routes(routes!(revoke_key))
        .routes(routes!(show_session, sign_in, sign_out))
        .routes(routes!(sign_out_everywhere))
        .routes(routes!(issue_ticket))
}

#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Subject {
    /// The id that the host application knows.
    #[schema(example = "ana")]
    id: String,
    /// The name that people see.
    #[schema(example = "Ana")]
    name: String,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"name": "nightly import", "subject": {"id": "import", "name": "Import"}, "role": "worker", "kinds": ["analysis"]}))]
struct CreateKey {
    /// What it is for.
    #[schema(example = "nightly import")]
    name: String,
    /// Who acts with it.
    #[serde(deserialize_with = "tenure_core::object::object")]
    subject: Subject,
    /// What it may do.
    role: Role,
    /// The kinds that it may touch; left out for all.
    #[serde(default)]
    kinds: Option<Vec<String>>,
}

#[derive(Debug, Serialize, ToSchema)]
struct KeyView {
    /// Its name in lists and in `DELETE /v1/keys/{id}`.
    #[schema(value_type = String, example = "key_1f2e3d4c5b6a7988")]
    id: Text,
    #[schema(value_type = String, example = "nightly worker")]
    name: Text,
    subject: Subject,
    role: Role,
    kinds: Option<Vec<String>>,
    /// RFC 3339.
    #[schema(example = "2026-01-02T03:04:05.678Z")]
    created_at: String,
}

#[derive(Serialize, ToSchema)]
struct MadeKeyView {
    #[serde(flatten)]
    view: KeyView,
    /// The key itself, shown this once.
    #[schema(example = "tk_…")]
    key: String,
}

#[derive(Debug, Serialize, ToSchema)]
struct KeyList {
    keys: Vec<KeyView>,
}

/// Either a key, or in a demonstration a person's name.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"demo": "ana"}))]
struct SignIn {
    /// An API key.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    key: Option<Secret>,
    /// Somebody of the demonstration.
    #[serde(default)]
    demo: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
struct SessionView {
    /// Who is signed in; null for nobody.
    subject: Option<Subject>,
    /// What they may do.
    role: Option<Role>,
    /// The kinds that they may touch; null for all.
    kinds: Option<Vec<String>>,
    /// How they proved it: `key`, `jwt` or `session`.
    #[schema(value_type = Option<String>, example = "session")]
    by: Option<&'static str>,
    /// The header that a page adds to whatever it changes, and its value.
    #[schema(value_type = Vec<String>, example = json!(["X-Tenure-CSRF", "1"]))]
    csrf: [&'static str; 2],
    /// The demonstration's people; empty when this is none.
    demo: Vec<DemoView>,
}

#[derive(Debug, Serialize, ToSchema)]
struct DemoView {
    #[schema(value_type = String, example = "ana")]
    id: Text,
    #[schema(value_type = String, example = "Ana")]
    name: Text,
    role: Role,
}

#[derive(Serialize, ToSchema)]
struct TicketView {
    /// Opens one socket.
    #[schema(example = "st_…")]
    ticket: String,
    /// RFC 3339.
    #[schema(example = "2026-01-02T03:04:35.678Z")]
    expires_at: String,
    /// From now.
    #[schema(example = 30_000)]
    expires_in_ms: i64,
}

/// List keys
///
/// The newest first. Never the keys themselves.
#[utoipa::path(get, path = "/v1/keys", tag = "identity",
    responses((status = 200, description = "Every key.", body = KeyList)))]
async fn list_keys(
    State(app): State<App>,
    caller: Caller,
    Query(Nothing {}): Query<Nothing>,
) -> Result<Json<KeyList>, Problem> {
    refuse_limited(&caller)?;
    let keys = app.identity().list_keys().await?;
    Ok(Json(KeyList { keys: keys.into_iter().map(|(id, key)| key_view(id, key)).collect() }))
}

/// Make a key
///
/// The key is in the answer and nowhere else. A retry with the same `Idempotency-Key` shows the same.
#[utoipa::path(post, path = "/v1/keys", tag = "identity", request_body = CreateKey,
    responses((status = 201, description = "The key, shown this once.", body = MadeKeyView)))]
async fn create_key(
    State(app): State<App>,
    caller: Caller,
    body: Body<CreateKey>,
) -> Result<Response, Problem> {
    refuse_limited(&caller)?;
    let CreateKey { name, subject, role, kinds } = body.value;
    let subject = Principal::new(subject.id, subject.name).map_err(|refusal| {
        // Core speaks of holders; here they are subjects.
        let mut problem = Problem::from(refusal);
        problem.detail = problem.detail.replace("holder.", "subject.");
        if let Some(serde_json::Value::String(field)) = problem.more.get_mut("field") {
            *field = field.replace("holder.", "subject.");
        }
        problem
    })?;
    let kinds = kinds.map(|kinds| kinds.into_iter().map(Text::from).collect());
    let new = NewKey { name: Text::from(name), subject, role, kinds };
    let made = app.identity().create_key(&caller.principal, new, body.key.as_ref()).await?;
    let view = MadeKeyView { key: made.secret.expose().to_owned(), view: key_view(made.id, made.document) };
    Ok((StatusCode::CREATED, secret_reply(Json(view))).into_response())
}

/// Revoke a key
///
/// It opens nothing more, on every node, and its sessions and sockets are closed. The last key of an administrator of
/// all kinds stays: without it nobody could make another.
#[utoipa::path(delete, path = "/v1/keys/{id}", tag = "identity",
    params(("id" = String, Path, description = "The key's id.", example = "key_1f2e3d4c5b6a7988")),
    responses((status = 204, description = "It is revoked.")))]
async fn revoke_key(
    State(app): State<App>,
    caller: Caller,
    AtKey(id): AtKey,
    Query(Nothing {}): Query<Nothing>,
) -> Result<StatusCode, Problem> {
    refuse_limited(&caller)?;
    app.identity().revoke_key(&caller.principal, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Who am I
///
/// Who is signed in, if anyone; how a page shows that it is the server's own; the demonstration's people. A header that
/// names nobody is refused, with the reason.
#[utoipa::path(get, path = "/v1/session", tag = "identity",
    responses((status = 200, description = "Who is signed in.", body = SessionView)))]
async fn show_session(State(app): State<App>, caller: Option<Extension<Caller>>) -> Response {
    let caller = caller.map(|Extension(caller)| caller);
    secret_reply(Json(session_view(&app, caller.as_ref())))
}

/// Sign in
///
/// With a key, or as one of the demonstration's people. Sets the session's cookie.
#[utoipa::path(post, path = "/v1/session", tag = "identity", request_body = SignIn,
    responses((status = 201, description = "Who is signed in now.", body = SessionView)))]
async fn sign_in(
    State(app): State<App>,
    client: Client,
    headers: HeaderMap,
    body: Body<SignIn>,
) -> Result<Response, Problem> {
    let identity = app.identity();
    identity.check_origin(&headers, &client)?;
    let caller = match (&body.value.key, &body.value.demo) {
        (Some(secret), None) => identity
            .caller_of_key(secret)?
            .ok_or_else(|| Problem::unauthenticated("the API key is not known here"))?,
        (None, Some(name)) => demo_caller(&app, name)?,
        _ => return Err(Problem::invalid("key", "send either key or demo")),
    };
    let (secret, document) = identity.open_session(&caller, body.key.as_ref()).await?;
    let age_ms = identity.settings().sessions.absolute_ms;
    let set = cookie::set(&headers, &client, &secret, age_ms);
    let mut view = session_view(&app, Some(&caller));
    view.by = Some("session");
    view.subject = Some(subject_of(&document.subject));
    let mut response = secret_reply(Json(view));
    *response.status_mut() = StatusCode::CREATED;
    response.headers_mut().insert(SET_COOKIE, set);
    Ok(response)
}

/// Sign out
#[utoipa::path(delete, path = "/v1/session", tag = "identity",
    responses((status = 204, description = "This session is over.")))]
async fn sign_out(
    State(app): State<App>,
    caller: Caller,
    client: Client,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    if let Credential::Session(id) = &caller.credential {
        app.identity().close_session(&caller.principal, id).await?;
    }
    Ok(signed_out(&headers, &client))
}

/// Sign out everywhere
#[utoipa::path(delete, path = "/v1/sessions", tag = "identity",
    responses((status = 204, description = "Every session of this principal is over.")))]
async fn sign_out_everywhere(
    State(app): State<App>,
    caller: Caller,
    client: Client,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    app.identity().close_all_sessions(&caller.principal).await?;
    Ok(signed_out(&headers, &client))
}

/// Ask for a socket ticket
///
/// It opens one socket within 30 seconds, for clients that cannot send a header with it.
#[utoipa::path(post, path = "/v1/tickets", tag = "identity", request_body = Option<NoBody>,
    responses((status = 201, description = "The ticket.", body = TicketView)))]
async fn issue_ticket(
    State(app): State<App>,
    caller: Caller,
    body: Body<NoBody>,
) -> Result<Response, Problem> {
    let ticket = app.identity().issue_ticket(&caller, body.key.as_ref()).await?;
    let view = TicketView {
        ticket: ticket.secret.expose().to_owned(),
        expires_at: rfc3339(ticket.expires_at_ms),
        expires_in_ms: (ticket.expires_at_ms - app.now_ms()).max(0),
    };
    Ok((StatusCode::CREATED, secret_reply(Json(view))).into_response())
}

/// `keys/{id}`.
struct AtKey(String);

impl<S: Send + Sync> FromRequestParts<S> for AtKey {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Raw(params) = Raw::from_request_parts(parts, state).await?;
        Ok(Self(params.iter().next().map_or("", |(_, id)| id).to_owned()))
    }
}

/// An administrator of some kinds could otherwise make a key for all of them.
fn refuse_limited(caller: &Caller) -> Result<(), Problem> {
    match caller.kinds {
        None => Ok(()),
        Some(_) => Err(Problem::forbidden("keys are managed by administrators of all kinds")),
    }
}

fn demo_caller(app: &App, name: &str) -> Result<Caller, Problem> {
    let person = app.identity().settings().people.iter().find(|person| &*person.principal.id == name);
    let person = person.ok_or_else(|| Problem::unauthenticated("there is no such person here"))?;
    // The credential is the session that is about to be opened.
    let credential = Credential::Session(Text::from(""));
    Ok(Caller { principal: person.principal.clone(), role: person.role, kinds: None, credential })
}

fn signed_out(headers: &HeaderMap, client: &Client) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    response.headers_mut().insert(SET_COOKIE, cookie::clear(headers, client));
    response
}

fn session_view(app: &App, caller: Option<&Caller>) -> SessionView {
    let people = &app.identity().settings().people;
    let kinds = caller.and_then(|caller| caller.kinds.as_ref());
    SessionView {
        subject: caller.map(|caller| subject_of(&caller.principal)),
        role: caller.map(|caller| caller.role),
        kinds: kinds.map(|kinds| kinds.iter().map(ToString::to_string).collect()),
        by: caller.map(|caller| match caller.credential {
            Credential::Key(_) => "key",
            Credential::Jwt { .. } => "jwt",
            Credential::Session(_) => "session",
        }),
        csrf: ["X-Tenure-CSRF", "1"],
        demo: people
            .iter()
            .map(|person| DemoView {
                id: person.principal.id.clone(),
                name: person.principal.name.clone(),
                role: person.role,
            })
            .collect(),
    }
}

fn key_view(id: Text, key: KeyDocument) -> KeyView {
    KeyView {
        id,
        name: key.name,
        subject: subject_of(&key.subject),
        role: key.role,
        kinds: key.kinds.map(|kinds| kinds.iter().map(ToString::to_string).collect()),
        created_at: rfc3339(key.created_at_ms),
    }
}

fn subject_of(principal: &Principal) -> Subject {
    Subject { id: principal.id.to_string(), name: principal.name.to_string() }
}

/// Nobody in between may keep it.
fn secret_reply(body: impl IntoResponse) -> Response {
    let mut response = body.into_response();
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
