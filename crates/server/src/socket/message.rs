//! What comes in over a socket, and how the answers read.

use std::borrow::Cow;

use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::command::Rendered;
use crate::identity::Secret;
use crate::limits::SOCKET_ID_BYTES_MAX;
use crate::{Problem, body};

/// A message.
#[derive(Debug)]
pub(crate) enum Message<'a> {
    /// Who it is.
    Hello(Secret),
    /// A sign of life, to be answered.
    Ping,
    /// Something to do.
    Command {
        /// The client's own id, as it wrote it.
        id: &'a str,
        /// What to do.
        command: &'a str,
        /// Makes a retry get the first answer.
        key: Option<Cow<'a, str>>,
    },
}

/// What is wrong with a message, and which one it was, if that could be read.
#[derive(Debug)]
pub(crate) struct Wrong<'a> {
    pub(crate) id: Option<&'a str>,
    pub(super) problem: Box<Problem>,
}

impl<'a> Wrong<'a> {
    fn new(id: Option<&'a str>, problem: Problem) -> Self {
        Self { id, problem: Box::new(problem) }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields<'a> {
    #[serde(rename = "type", borrow)]
    sort: Option<Cow<'a, str>>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    command: Option<&'a RawValue>,
    #[serde(borrow)]
    key: Option<Cow<'a, str>>,
    #[serde(borrow)]
    idempotency_key: Option<Cow<'a, str>>,
}

/// Reads a message.
pub(crate) fn read(text: &str) -> Result<Message<'_>, Wrong<'_>> {
    if text.is_empty() {
        let problem = Problem::new(StatusCode::BAD_REQUEST, "malformed", "the message is empty");
        return Err(Wrong::new(None, problem));
    }
    let fields: Fields<'_> =
        body::parse(text.as_bytes(), "message").map_err(|problem| Wrong::new(id_of(text), problem))?;
    let id =
        fields.id.map(|id| check_id(id.get())).transpose().map_err(|problem| Wrong::new(None, problem))?;
    let wrong = |field: &str, detail: &str| Err(Wrong::new(id, Problem::invalid(field, detail)));
    match fields.sort.as_deref() {
        None | Some("command") => {}
        Some("ping") => return Ok(Message::Ping),
        Some("hello") => {
            return match fields.key {
                Some(key) => Ok(Message::Hello(Secret::new(&*key))),
                None => wrong("key", "say who you are: an API key or a token"),
            };
        }
        Some(_) => return wrong("type", "is hello, ping or command"),
    }
    match (id, fields.command) {
        (_, None) => wrong("command", "is missing"),
        (None, Some(_)) => wrong("id", "is missing: a command's answer carries it"),
        (Some(id), Some(command)) => {
            Ok(Message::Command { id, command: command.get(), key: fields.idempotency_key })
        }
    }
}

/// The id of a message that is wrong elsewhere: with several under way nobody else could say which one.
fn id_of(text: &str) -> Option<&str> {
    #[derive(Deserialize)]
    struct Id<'a> {
        #[serde(borrow)]
        id: &'a RawValue,
    }
    let id = serde_json::from_str::<Id<'_>>(text).ok()?.id;
    check_id(id.get()).ok()
}

/// A string or a number, short enough to be echoed.
fn check_id(id: &str) -> Result<&str, Problem> {
    let is_plain = id.starts_with('"') || id.starts_with('-') || id.starts_with(|c: char| c.is_ascii_digit());
    if is_plain && id.len() <= SOCKET_ID_BYTES_MAX {
        Ok(id)
    } else {
        Err(Problem::invalid("id", "is a number, or a string of at most 126 bytes"))
    }
}

/// The answer to a command: what its route would have answered.
pub(super) fn reply(id: &str, answer: Result<Rendered, Problem>) -> String {
    let (status, body) = match answer {
        Ok(rendered) => (rendered.status, rendered.body),
        Err(problem) => (problem.status, Some(problem.body().to_string())),
    };
    let body = body.as_deref().unwrap_or("null");
    // One after the other: a formatter takes as long as all of them.
    let parts = [r#"{"type":"reply","id":"#, id, r#","status":"#, status.as_str(), r#","body":"#, body, "}"];
    parts.concat()
}

/// A message that was no command, or whose id could not be read.
pub(super) fn error(problem: &Problem) -> String {
    format!(r#"{{"type":"error","status":{},"body":{}}}"#, problem.status.as_u16(), problem.body())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_told_with_the_id_that_could_be_read() {
        let check = |text, id: Option<&str>| assert_eq!(read(text).expect_err(text).id, id, "{text}");
        check(r#"{"id":4,"bogus":1}"#, Some("4"));
        check(r#"{"id":"a","command":{},"idempotency_key":7}"#, Some("\"a\""));
        check(r#"{"id":4}"#, Some("4"));
        check(r#"{"id":[4],"bogus":1}"#, None);
        check(r#"{"id":4,"id":5,"command":{}}"#, None);
        check(r#"{"bogus":1}"#, None);
        check("[]", None);
    }
}
