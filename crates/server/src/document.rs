//! The OpenAPI document: what the handlers say of themselves, completed with what all of them share. The
//! refusals of a route are listed here, one word each; status, text and example come from the codes.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use serde_json::{Value, json};
use utoipa::openapi::path::{Operation, ParameterBuilder, ParameterIn, PathItem};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::tag::TagBuilder;
use utoipa::openapi::{
    Components, Content, ContentBuilder, InfoBuilder, OpenApi, Ref, RefOr, Required, ResponseBuilder, Schema,
};

use utoipa::{PartialSchema, ToSchema};

use crate::access::{is_socket_path, rule_for};
use crate::codes::code_of;
use crate::limits::IDEMPOTENCY_KEY_BYTES_MAX;
use crate::problem::title_of;
use crate::{May, Problem, apps, docs, schema};

/// What the tags mean.
const TAGS: &[(&str, &str)] = &[
    ("claims", "Who holds what, until when."),
    ("collections", "The unit of consistency: inside one, every change is serialised and numbered."),
    ("items", "What can be claimed: small documents with a status and a version."),
    ("overrides", "What an administrator may do, whoever holds. Audited, with a reason."),
    ("events", "Every change of a collection, numbered without gaps."),
    ("batch", "Many commands in one request."),
    ("tasks", "Inventory tasks, processed by one editor at a time, and the stock that they change."),
    ("labels", "Images, annotated by one person at a time, and their versioned annotations."),
    ("jobs", "Analyses that a queue may deliver twice and that run once."),
    (
        "payments",
        "Paying for reservations: by card on a gateway's page, or by a transfer that a person compares.",
    ),
    ("raffle", "Numbers that buyers reserve under a timer and pay, and that are never sold twice."),
    ("audit", "The log of every change, and the proof that nobody changed it."),
    ("policies", "A kind's numbers."),
    ("identity", "API keys, browser sessions, socket tickets."),
    ("operations", "For whoever runs it."),
    ("documents", "This documentation."),
];

/// Ends of a claim's own commands.
const OWN_CLAIM: &[&str] = &["not_found", "not_holder", "lost"];

/// A route's own refusals: its method, its path, and their codes in two parts.
pub(crate) type Refusals = (&'static str, &'static str, &'static [&'static str], &'static [&'static str]);

/// The refusals that are a route's own. Those of the applications stand beside their routes.
const REFUSALS: &[Refusals] = &[
    ("POST", "/v1/claims", &["not_found", "held", "finished", "not_claimable", "limit"], &[]),
    ("GET", "/v1/claims/{id}", &["not_found"], &[]),
    ("DELETE", "/v1/claims/{id}", OWN_CLAIM, &[]),
    ("POST", "/v1/claims/{id}/heartbeat", OWN_CLAIM, &["stale_token"]),
    (
        "POST",
        "/v1/claims/{id}/items",
        OWN_CLAIM,
        &["held", "finished", "not_claimable", "limit", "wrong_phase"],
    ),
    ("DELETE", "/v1/claims/{id}/items/{item}", OWN_CLAIM, &["wrong_phase"]),
    ("POST", "/v1/claims/{id}/advance", OWN_CLAIM, &["wrong_phase"]),
    ("POST", "/v1/claims/{id}/complete", OWN_CLAIM, &["stale_token"]),
    ("POST", "/v1/claims/{id}/cancel", OWN_CLAIM, &[]),
    ("POST", "/v1/claims/{id}/nudge", &["not_found", "lost"], &[]),
    ("GET", "/v1/collections/{kind}/{name}", &["not_found"], &[]),
    ("PUT", "/v1/collections/{kind}/{name}", &["not_found"], &[]),
    ("GET", "/v1/collections/{kind}/{name}/items", &["not_found"], &[]),
    ("GET", "/v1/collections/{kind}/{name}/items/{item}", &["not_found"], &[]),
    ("PUT", "/v1/collections/{kind}/{name}/items/{item}", OWN_CLAIM, WRITING),
    ("DELETE", "/v1/collections/{kind}/{name}/items/{item}", OWN_CLAIM, WRITING),
    ("GET", "/v1/collections/{kind}/{name}/items/{item}/explain", &["not_found"], &[]),
    ("POST", "/v1/collections/{kind}/{name}/items/{item}/force-release", &["not_found"], &[]),
    (
        "POST",
        "/v1/collections/{kind}/{name}/items/{item}/force-claim",
        &["not_found", "finished", "not_claimable"],
        &[],
    ),
    ("GET", "/v1/collections/{kind}/{name}/events", &["not_found", "resync"], &[]),
    ("GET", "/v1/collections/{kind}/{name}/ws", &["upgrade_required", "stopped"], &[]),
    (
        "POST",
        "/v1/batch",
        &[
            "not_found",
            "not_holder",
            "stale_token",
            "lost",
            "held",
            "finished",
            "not_claimable",
            "limit",
            "conflict",
            "wrong_phase",
            "precondition_required",
        ],
        &[],
    ),
    ("GET", "/v1/policies/{kind}", &["not_found"], &[]),
    ("POST", "/v1/keys", &["conflict"], &[]),
    ("DELETE", "/v1/keys/{id}", &["not_found"], &[]),
    ("GET", "/v1/session", &["unauthenticated", "forbidden", "rate_limited"], &[]),
    ("GET", "/readyz", &["away", "stopped"], &[]),
    ("GET", "/metrics", &["internal"], &[]),
];

const WRITING: &[&str] = &["held", "conflict", "stale_token", "precondition_failed", "precondition_required"];

/// Completes what the router collected.
pub(crate) fn finish(api: &mut OpenApi) {
    api.info = InfoBuilder::new()
        .title("Tenure")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(
            "Who holds what, until when: exclusive claims on items, with a visible holder, a timer, a fencing \
             token and a numbered stream of every change. Times are the server's, RFC 3339 in UTC. Refusals are \
             problems (RFC 9457) with a stable `code`. Unknown fields are refused.",
        ))
        .build();
    api.tags = Some(
        TAGS.iter()
            .map(|(name, text)| TagBuilder::new().name(*name).description(Some(*text)).build())
            .collect(),
    );
    let components = api.components.get_or_insert_with(Components::new);
    components.schemas.insert(schema::Problem::name().into_owned(), schema::Problem::schema());
    let bearer = Http::new(HttpAuthScheme::Bearer);
    components.add_security_scheme("bearer", SecurityScheme::Http(bearer));
    let schemas = json!(components);
    for (path, item) in &mut api.paths.paths {
        for (method, operation) in operations_mut(item) {
            complete(method, path, operation);
            show_example(operation, components);
            show_samples(operation, &schemas);
        }
    }
}

/// A body that may be left out is still no `null`; and the example of its schema is also the request's.
fn show_example(operation: &mut Operation, components: &Components) {
    let Some(RefOr::T(body)) = &mut operation.request_body else { return };
    for content in body.content.values_mut() {
        let RefOr::T(content) = content else { continue };
        if let Some(RefOr::T(Schema::OneOf(parts))) = &content.schema {
            let named = parts.items.iter().find(|part| matches!(part, RefOr::Ref(_)));
            content.schema = named.cloned();
        }
        let Some(RefOr::Ref(named)) = &content.schema else { continue };
        let name = named.ref_location.rsplit('/').next().unwrap_or("");
        if let Some(RefOr::T(Schema::Object(object))) = components.schemas.get(name) {
            content.example = object.example.clone().or_else(|| object.examples.first().cloned());
        }
    }
}

/// What succeeds is shown as it may look.
fn show_samples(operation: &mut Operation, components: &Value) {
    let succeeded = operation.responses.responses.iter_mut().filter(|(status, _)| status.starts_with('2'));
    for (_, response) in succeeded {
        let RefOr::T(response) = response else { continue };
        let Some(RefOr::T(content)) = response.content.get_mut("application/json") else { continue };
        if content.example.is_none() && content.examples.is_empty() {
            content.example = docs::sample(&json!(content.schema), components);
        }
    }
}

fn operations_mut(item: &mut PathItem) -> impl Iterator<Item = (&'static str, &mut Operation)> {
    let PathItem { get, put, post, delete, patch, .. } = item;
    let all = [("GET", get), ("PUT", put), ("POST", post), ("DELETE", delete), ("PATCH", patch)];
    all.into_iter().filter_map(|(method, operation)| Some((method, operation.as_mut()?)))
}

fn complete(method: &str, path: &str, operation: &mut Operation) {
    let is_public = rule_for(method, path).is_none_or(|rule| matches!(rule.may, May::Anyone));
    if !is_public {
        let mut ways = vec![SecurityRequirement::new::<_, _, String>("bearer", [])];
        if is_socket_path(path) {
            // It can also say who it is by a ticket or its first message.
            ways.push(SecurityRequirement::default());
        }
        operation.security = Some(ways);
    }
    if method == "POST" {
        operation.parameters.get_or_insert_default().push(idempotency_key().into());
    }
    let mut by_status: BTreeMap<u16, Vec<&str>> = BTreeMap::new();
    let all = REFUSALS.iter().chain(apps::REFUSALS.iter().copied().flatten());
    let own = all.filter(|(m, p, ..)| *m == method && *p == path);
    let own = own.flat_map(|(_, _, some, more)| some.iter().chain(*more)).copied();
    // Reading what is public fails in its own ways only.
    let shared = if is_public && method == "GET" { Vec::new() } else { shared(method, operation) };
    for word in shared.into_iter().chain(own) {
        if let Some(code) = code_of(word) {
            let words = by_status.entry(code.status).or_default();
            if !words.contains(&word) {
                words.push(word);
            }
        }
    }
    for (status, words) in by_status {
        operation.responses.responses.insert(status.to_string(), RefOr::T(refusal(&words)));
    }
}

/// What any route of this sort can refuse.
fn shared(method: &str, operation: &Operation) -> Vec<&'static str> {
    let mut words =
        vec!["malformed", "unauthenticated", "forbidden", "invalid", "rate_limited", "internal", "away"];
    if operation.request_body.is_some() {
        words.extend(["timeout", "too_large", "unsupported_media_type"]);
    }
    if method != "GET" {
        words.extend(["overloaded", "stopped", "no_room"]);
    }
    if method == "POST" {
        words.extend(["in_progress", "key_reused"]);
    }
    words
}

fn refusal(words: &[&str]) -> utoipa::openapi::Response {
    let titles: Vec<_> = words.iter().map(|word| format!("`{word}`: {}.", title_of(word))).collect();
    let examples = words.iter().map(|word| {
        let value = Some(example(word));
        let example =
            utoipa::openapi::example::ExampleBuilder::new().summary(title_of(word)).value(value).build();
        ((*word).to_owned(), RefOr::T(example))
    });
    let content: Content = ContentBuilder::new()
        .schema(Some(Ref::from_schema_name("Problem")))
        .examples_from_iter(examples)
        .build();
    ResponseBuilder::new().description(titles.join(" ")).content("application/problem+json", content).build()
}

fn idempotency_key() -> utoipa::openapi::path::Parameter {
    let text = ObjectBuilder::new()
        .schema_type(Type::String)
        .min_length(Some(1))
        .max_length(Some(IDEMPOTENCY_KEY_BYTES_MAX))
        .pattern(Some("^[!-~]+$"))
        .examples([json!("6b1f0c52-5a3c-4f0e-9a53-8f6a2b1f9d10")]);
    ParameterBuilder::new()
        .name("Idempotency-Key")
        .parameter_in(ParameterIn::Header)
        .required(Required::False)
        .description(Some(
            "A retry with the same key and body gets the first answer, for a day, also after a restart; another \
             body is refused as `key_reused`. The key counts for this caller and the collection that the request is \
             about, that of a batch for this caller: elsewhere the same key is another.",
        ))
        .schema(Some(text))
        .build()
}

/// A problem of this code, as it may look.
pub(crate) fn example(word: &str) -> Value {
    let ana = json!({"id": "u-7", "name": "Ana"});
    let at = "2026-01-02T03:04:35.678Z";
    let since = "2026-01-02T03:04:05.678Z";
    let one = |value: Value| vec![("items", json!([value]))];
    let (detail, more): (&str, Vec<(&str, Value)>) = match word {
        "held" => (
            "nightly is held by Ana in another session",
            one(json!({
                "item": "nightly", "why": "held", "holder": ana, "session": "worker-3",
                "since": since, "expires_at": at,
            })),
        ),
        "finished" => (
            "a-1 is READY, which is final",
            one(json!({"item": "a-1", "why": "finished", "status": "READY"})),
        ),
        "not_claimable" => (
            "t-1 is draft, which cannot be claimed",
            one(json!({"item": "t-1", "why": "not_claimable", "status": "draft"})),
        ),
        "not_found" => ("there is no item nightly", vec![("what", json!("item")), ("id", json!("nightly"))]),
        "limit" => ("max_items allows 10", vec![("limit", json!("max_items")), ("max", json!(10))]),
        "lost" => (
            "the claim was lost (expired); Ana holds it now",
            vec![("reason", json!("expired")), ("ended_at", json!(at)), ("holder", ana)],
        ),
        "not_holder" => ("the claim is Ana's", vec![("holder", ana)]),
        "stale_token" => {
            ("token 2 is not this claim's; its token is 5", vec![("given", json!(2)), ("current", json!(5))])
        }
        "conflict" | "precondition_failed" => (
            "expected version 1, found version 2",
            vec![("expected_version", json!(1)), ("current_version", json!(2))],
        ),
        "precondition_required" => {
            ("the item exists; say which version you know", vec![("current_version", json!(2))])
        }
        "wrong_phase" => {
            ("the claim is in phase checkout, which does not allow it", vec![("phase", json!("checkout"))])
        }
        "not_held" => {
            ("you do not hold task-1, and nobody else does; claim it first", vec![("item", json!("task-1"))])
        }
        "wrong_status" => (
            "task task-1 is processing: only a draft becomes ready",
            vec![("what", json!("task")), ("id", json!("task-1")), ("item_status", json!("processing"))],
        ),
        "invalid" => ("limit: must be 1 to 1000", vec![("field", json!("limit"))]),
        "resync" => (
            "these events are not retained, or the number is of another epoch; start anew",
            vec![("epoch", json!(1)), ("first", json!(100)), ("last", json!(250))],
        ),
        _ => (title_of(word), Vec::new()),
    };
    let status = code_of(word).and_then(|code| StatusCode::from_u16(code.status).ok());
    let code = code_of(word).map_or("internal", |code| code.code);
    let problem = Problem::new(status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), code, detail);
    let problem = more.into_iter().fold(problem, |problem, (name, value)| problem.with(name, value));
    match word {
        "held" | "in_progress" | "rate_limited" | "overloaded" | "away" | "stopped" | "no_room" => {
            problem.retry(1).body()
        }
        _ => problem.body(),
    }
}
