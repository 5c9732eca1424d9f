//! The gate: between the front and every handler. Route and method are looked up in the access table, the
//! caller is established, its role is checked, its requests are counted; then the handler runs.
//!
//! Deny by default. A path that no route has is a file for browsers or answers 404 to everyone, since the routes are public anyway
//! (`/openapi.json` lists them) and a 401 there would send people looking for a key that is not missing. A
//! route without a row in the table answers 403 to everyone, a method without one 405: nothing that the
//! table does not know can be reached.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::access::{
    BATCH_PATH, EVENTS_PATH, Group, May, Rule, SESSION_PATH, TABLE, is_socket_path, rule_of,
};
use crate::front::{Client, route_of};
use crate::identity::Shown;
use crate::rate::{Allowance, Rates, Who};
use crate::routes::events::wants_stream;
use crate::{App, Caller, Problem, web};

/// What the gate needs to know.
#[derive(Debug)]
pub(crate) struct Gate {
    pub(crate) app: App,
    pub(crate) rates: Rates,
}

/// The layer.
pub(crate) async fn pass<F: Future<Output = Response> + Send>(
    gate: &Gate,
    mut request: Request,
    next: impl FnOnce(Request) -> F + Send,
) -> Response {
    if request.method() == Method::OPTIONS
        && let Some(path) = route_of(request.extensions())
        && let Some(allow) = allowed(path)
    {
        // It only says what there is; no other site gets a permission from it.
        return (StatusCode::NO_CONTENT, [(header::ALLOW, allow)]).into_response();
    }
    let (caller, allowance) = match gate.enter(Seen::of(&request)).await {
        Ok(entered) => entered,
        Err(problem) => return problem.into_response(),
    };
    if let Some(caller) = caller {
        request.extensions_mut().insert(caller);
    }
    if counts_itself(&request) {
        // Each of its messages, or of its commands, is counted too.
        request.extensions_mut().insert(gate.rates.clone());
    }
    let mut response = next(request).await;
    // What counted more knows better what is left.
    let newer = response.extensions_mut().remove::<Allowance>();
    if let Some(allowance) = newer.or(allowance) {
        allowance.write(response.headers_mut());
    }
    response
}

/// A request as the gate looks at it, whichever way it came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<'a> {
    pub(crate) method: &'a Method,
    pub(crate) headers: &'a HeaderMap,
    /// As it was asked for.
    pub(crate) path: &'a str,
    /// As the access table names it.
    pub(crate) route: Option<&'a str>,
    pub(crate) client: Client,
    /// What its connection last showed, where that is remembered.
    pub(crate) shown: Option<&'a Shown>,
}

impl<'a> Seen<'a> {
    fn of(request: &'a Request) -> Self {
        Self {
            method: request.method(),
            headers: request.headers(),
            path: request.uri().path(),
            route: route_of(request.extensions()),
            client: Client::of(request.extensions()),
            shown: None,
        }
    }
}

/// What a request counts as, and what comes of it when that is allowed.
struct Visit {
    group: Group,
    who: Who,
    then: Result<Option<Caller>, Problem>,
    /// The answer says what is left.
    is_told: bool,
}

impl Gate {
    /// Who it is, and what the answer says of what is left; or why there is no more to say.
    pub(crate) async fn enter(&self, seen: Seen<'_>) -> Result<(Option<Caller>, Option<Allowance>), Problem> {
        let visit = self.admit(seen)?;
        let allowance = self.rates.check(visit.group, visit.who).await?;
        Ok((visit.then?, allowance.filter(|_| visit.is_told)))
    }

    fn admit(&self, seen: Seen<'_>) -> Result<Visit, Problem> {
        let Seen { method, headers, path: target, route, client, shown } = seen;
        let Some(path) = route else {
            let then = if web::has(method, target) {
                Ok(None)
            } else {
                Err(Problem::new(StatusCode::NOT_FOUND, "not_found", "there is no such route"))
            };
            let who = Who::of(None, client.address);
            return Ok(Visit { group: Group::Read, who, then, is_told: false });
        };
        let rule = find_rule(method, path)?;
        let found = self.app.identity().authenticate(method, headers, &client, shown);
        let asks_who = path == SESSION_PATH && method == Method::GET;
        let caller = match (rule.may, found) {
            // Nobody could look who it is, and whoever asks must not believe to be signed out: neither a page that asks
            // who it is, nor a socket, which would not come back.
            (may, Err(problem)) if problem.is_unsure() && (asks_who || matches!(may, May::Roles { .. })) => {
                return unsure(&client, problem);
            }
            // Who asks who it is, and shows something, is told what is wrong with that.
            (May::Anyone, Err(problem)) if asks_who && has_bearer(headers) => {
                return Ok(guessing(&client, problem));
            }
            // Whoever comes to a public route with credentials that are over is nobody there.
            (May::Anyone, found) => found.ok().flatten(),
            // A socket can also say who it is by a ticket or its first message; a page may do so whose
            // cookie is over.
            (May::Roles { .. }, Ok(None)) if is_socket_path(path) => None,
            (May::Roles { .. }, Err(_)) if is_socket_path(path) && !has_bearer(headers) => None,
            (May::Roles { .. }, Ok(None)) => return Err(Caller::nobody()),
            (May::Roles { own, other }, Ok(Some(caller))) => {
                if !own.has(caller.role) && !other.has(caller.role) {
                    let role = caller.role.as_str();
                    let actor = &*caller.principal.id;
                    // A refusal leaves no event: the log is where it can be found.
                    tracing::info!(actor, role, %method, target, "denied: the role may not do this");
                    return Err(Problem::forbidden(format!("the role {role} may not do this")));
                }
                Some(caller)
            }
            (May::Roles { .. }, Err(problem)) => return Ok(guessing(&client, problem)),
        };
        // The same route, but as a stream it stays.
        let is_stream = rule.path == EVENTS_PATH && wants_stream(headers);
        let group = if is_stream { Group::Stream } else { rule.group };
        let who = Who::of(caller.as_ref(), client.address);
        Ok(Visit { group, who, then: Ok(caller), is_told: true })
    }
}

/// Where the store is away that is no guess. Where too much is looked for, somebody guesses: it counts as that.
fn unsure(client: &Client, problem: Problem) -> Result<Visit, Problem> {
    if problem.is_away() { Err(problem) } else { Ok(guessing(client, problem)) }
}

/// Guessing is signing in, at any route.
fn guessing(client: &Client, problem: Problem) -> Visit {
    let who = Who::of(None, client.address);
    Visit { group: Group::SignIn, who, then: Err(problem), is_told: false }
}

fn counts_itself(request: &Request) -> bool {
    route_of(request.extensions()).is_some_and(|path| is_socket_path(path) || path == BATCH_PATH)
}

fn has_bearer(headers: &HeaderMap) -> bool {
    headers.contains_key(header::AUTHORIZATION)
}

fn find_rule(method: &Method, path: &str) -> Result<&'static Rule, Problem> {
    if let Some(rule) = rule_of(method, path) {
        return Ok(rule);
    }
    let Some(allow) = allowed(path) else {
        tracing::error!(path, "a route has no row in the access table");
        return Err(Problem::forbidden("nobody may use this route"));
    };
    let detail = format!("{method} is not supported here");
    let mut problem = Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", detail);
    problem.headers.push((header::ALLOW, allow));
    Err(problem)
}

/// The methods that the table knows for a path.
fn allowed(path: &str) -> Option<HeaderValue> {
    let mut methods: Vec<&str> =
        TABLE.iter().filter(|rule| rule.path == path).map(|rule| rule.method).collect();
    if methods.contains(&"GET") {
        methods.push("HEAD");
    }
    (!methods.is_empty()).then(|| HeaderValue::from_str(&methods.join(",")).ok()).flatten()
}
