//! Many commands in one request: each answered in order, or all or nothing.

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::value::RawValue;
use tenure_core::{CollectionKey, Command, Expect, ItemId, Refusal, Reply, Verb};
use tenure_engine::{Answer, Refused, Request};
use utoipa::ToSchema;

use crate::body::{self, LargeBody};
use crate::command::{Asked, CommandSchema, Question, Rendered, parse};
use crate::front::Client;
use crate::idempotency::Key;
use crate::limits::BATCH_COMMANDS_MAX;
use crate::line::Line;
use crate::rate::{Rates, Who};
use crate::{App, Caller, Group, Problem, schema};

/// Where it is kept which key is used for which batch. Nothing is ever written there.
const BATCHES: &str = "tenure/batches";

/// Many commands.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Batch, example = json!({"commands": [
    {"op": "acquire", "collection": "lock/jobs", "items": ["nightly"]},
    {"op": "heartbeat", "claim": "lock~jobs~2", "token": 2},
]}))]
pub(crate) struct BatchBody<'a> {
    /// The commands, 1 to 1,000.
    #[schema(value_type = Vec<CommandSchema>, min_items = 1, max_items = 1000)]
    #[serde(borrow)]
    commands: Vec<&'a RawValue>,
    /// All or nothing: then all commands are about one collection.
    #[serde(default)]
    atomic: bool,
}

/// The answers, in the order of the commands.
#[derive(ToSchema)]
#[schema(as = BatchAnswers)]
#[expect(dead_code, reason = "the answers are written as text; this is how they read")]
pub(crate) struct BatchAnswers {
    answers: Vec<StepAnswer>,
}

/// What came of one command: what its route would have answered.
#[derive(ToSchema)]
#[schema(as = BatchAnswer)]
#[expect(dead_code, reason = "the answers are written as text; this is how they read")]
pub(crate) struct StepAnswer {
    /// The status code.
    #[schema(minimum = 200, maximum = 599, example = 200)]
    status: u16,
    /// The body; `null` for 204.
    #[schema(schema_with = schema::any_answer)]
    body: (),
}

/// Run many commands
///
/// Each is carried out by itself and answered in order, also when others are refused. With `atomic` they
/// are carried out together or not at all, on one collection, without waiting; the refusal then names the
/// command as `index`. A retry with the same idempotency key carries out those that are left and answers the
/// others as before; the key with other commands is refused before any of them is carried out. A batch counts
/// against the rate as its commands would.
#[utoipa::path(post, path = "/v1/batch", tag = "batch", request_body = BatchBody<'static>,
    responses((status = 200, description = "The answers, in order.", body = BatchAnswers)))]
pub(crate) async fn run_batch(
    State(app): State<App>,
    caller: Caller,
    client: Client,
    line: Line,
    rates: Option<Extension<Rates>>,
    LargeBody { bytes, key }: LargeBody,
) -> Result<Response, Problem> {
    let BatchBody { commands, atomic } = body::parse(&bytes, "body")?;
    if commands.is_empty() || commands.len() > BATCH_COMMANDS_MAX {
        return Err(Problem::invalid("commands", "a batch has 1 to 1,000 commands"));
    }
    // The gate has counted the request itself.
    let allowance = match (rates, commands.len() - 1) {
        (None, _) | (_, 0) => None,
        (Some(Extension(rates)), more) => {
            rates.check_many(Group::Write, Who::of(Some(&caller), client.address), more).await?
        }
    };
    let steps = commands.iter().map(|command| parse(&app, command.get(), &caller));
    let rendered = if atomic {
        run_atomic(&app, &caller, steps, key.as_ref()).await
    } else {
        run_each(&app, &caller, &line, steps.collect(), key.as_ref()).await
    };
    let mut response = rendered.into_response();
    if let Some(allowance) = allowance {
        response.extensions_mut().insert(allowance);
    }
    Ok(response)
}

async fn run_each(
    app: &App,
    caller: &Caller,
    line: &Line,
    steps: Vec<Result<Asked, Problem>>,
    key: Option<&Key>,
) -> Result<Rendered, Problem> {
    if let Some(key) = key {
        register(app, caller, key).await?;
    }
    let waits = steps.iter().flatten().any(Asked::waits);
    let mut requests = Vec::with_capacity(steps.len());
    let steps = steps.into_iter().enumerate().map(|(index, step)| {
        let (question, verb) = step?.split();
        let (collection, actor) = (question.collection.clone(), caller.principal.clone());
        let idempotency = key.map(|key| key.batch_step(index).idempotency());
        requests.push(Request { command: Command { collection, actor, verb }, idempotency });
        Ok(question)
    });
    let steps: Vec<Result<Question, Problem>> = steps.collect();
    let answers = if waits {
        app.ask_patiently(caller, line, requests).await?
    } else {
        app.engine().execute_all(requests).await
    };
    check_running(&answers)?;
    let reader = &**app.reader();
    let mut answers = answers.iter();
    let rendered = steps.into_iter().map(|step| match (step, &mut answers) {
        (Err(problem), _) => Err(problem),
        (Ok(question), answers) => match answers.next() {
            Some(answer) => {
                question.render(answer, reader).map_err(|problem| app.with_longest_wait(problem, &question))
            }
            None => Err(Problem::internal()),
        },
    });
    Ok(written(rendered))
}

/// Keeps for which batch the caller uses this key, before anything of it is carried out; refused if it was used
/// for another. The commands' own keys could not tell: each is kept with its own collection, and those of
/// malformed commands are not kept at all.
async fn register(app: &App, caller: &Caller, key: &Key) -> Result<(), Problem> {
    // The engine keeps the answer to every request with a key, also a refusal, which changes nothing: and
    // this item is never there.
    let (collection, item) = (CollectionKey::new(BATCHES)?, ItemId::new("none")?);
    let verb = Verb::DeleteItem { item, expect: Expect::Present, guard: None };
    let answer = app.ask(caller, collection, verb, Some(&key.step("batch"))).await;
    match &answer.outcome {
        Err(Refused::Rule(Refusal::NotFound { .. })) => Ok(()),
        Err(refused) => Err(Problem::from_refused(refused, answer.server_time_ms)),
        Ok(_) => {
            tracing::error!("a batch's mark was answered as something else");
            Err(Problem::internal())
        }
    }
}

/// A command whose first request still waits answers the whole batch.
fn check_running(answers: &[Answer]) -> Result<(), Problem> {
    let refused = answers.iter().find_map(|answer| match &answer.outcome {
        Err(refused @ Refused::InProgress) => Some((refused, answer.server_time_ms)),
        _ => None,
    });
    refused.map_or(Ok(()), |(refused, now_ms)| Err(Problem::from_refused(refused, now_ms)))
}

async fn run_atomic(
    app: &App,
    caller: &Caller,
    steps: impl Iterator<Item = Result<Asked, Problem>>,
    key: Option<&Key>,
) -> Result<Rendered, Problem> {
    let (mut group, mut verbs): (Vec<Question>, Vec<Verb>) = <_>::default();
    for (index, step) in steps.enumerate() {
        let asked = step.map_err(|problem| problem.with("index", index))?;
        if group.first().is_some_and(|first| asked.collection != first.collection) {
            return Err(at(index, "collection", "an atomic batch is about one collection"));
        }
        if let Verb::Acquire(acquire) = &asked.verb
            && acquire.wait_ms.is_some_and(|wait_ms| wait_ms != 0)
        {
            return Err(at(index, "wait_ms", "an atomic batch does not wait"));
        }
        let (question, verb) = asked.split();
        group.push(question);
        verbs.push(verb);
    }
    let Some(collection) = group.first().map(|first| first.collection.clone()) else {
        return Err(Problem::internal());
    };
    if let Some(key) = key {
        register(app, caller, key).await?;
    }
    let answer = app.ask(caller, collection, Verb::Group(verbs), key).await;
    let now_ms = answer.server_time_ms;
    let reader = &**app.reader();
    match &answer.outcome {
        Ok(Reply::Group(replies)) if replies.len() == group.len() => {
            let steps = group.iter().zip(replies);
            let rendered = written(steps.map(|(question, reply)| question.reply(reply, now_ms, reader)));
            Ok(Rendered { replayed: answer.replayed, ..rendered })
        }
        Ok(_) => {
            tracing::error!("a group was answered as something else");
            Err(Problem::internal())
        }
        Err(Refused::Rule(Refusal::InGroup { index, refusal })) => {
            let refused = Refused::Rule((**refusal).clone());
            let problem = match group.get(*index) {
                Some(question) => question.refused(&refused, now_ms),
                None => Problem::from_refused(&refused, now_ms),
            };
            Err(problem.with("index", *index))
        }
        Err(refused) => Err(Problem::from_refused(refused, now_ms)),
    }
}

fn at(index: usize, field: &str, detail: &str) -> Problem {
    Problem::invalid(&format!("commands[{index}].{field}"), detail).with("index", index)
}

/// The answers as one body. Each is JSON already, so they are put together as text.
fn written(answers: impl Iterator<Item = Result<Rendered, Problem>>) -> Rendered {
    let mut body = String::from("{\"answers\":[");
    for (index, answer) in answers.enumerate() {
        let (status, step) = match answer {
            Ok(rendered) => (rendered.status, rendered.body),
            Err(problem) => (problem.status, Some(problem.body().to_string())),
        };
        let comma = if index == 0 { "" } else { "," };
        let step = step.as_deref().unwrap_or("null");
        for part in [comma, "{\"status\":", status.as_str(), ",\"body\":", step, "}"] {
            body.push_str(part);
        }
    }
    body.push_str("]}");
    Rendered { status: StatusCode::OK, body: Some(body), etag: None, location: None, replayed: false }
}
