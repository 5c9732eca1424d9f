//! The short way: claiming, keeping and letting go, on a connection that asks for nothing else. What a request
//! means is decided where it always is (the front, the gate, the handlers); what is left out is hyper's and axum's
//! share, which costs more than all of that together.
//!
//! It takes a request only if it has come whole, is plain (`heads`), and is for one of three routes. With the
//! first that is not, hyper takes the connection over, with what was read and not used, and keeps it.

mod buffer;
mod heads;
mod wire;

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderMap, Method};
use tenure_core::ClaimId;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::body::Body;
use crate::command::Rendered;
use crate::fields::{ANSWER_FIELDS, List};
use crate::front::{Connection, Front};
use crate::gate::{Gate, Seen};
use crate::identity::Shown;
use crate::line::Line;
use crate::params::{AtClaim, Nothing, Query};
use crate::routes::claims::{create_claim, heartbeat_claim, release_claim};
use crate::{App, Caller, Problem};
use buffer::Buffer;
use heads::{Heads, Plain};
use wire::Answered;

const CLAIMS: &str = "/v1/claims";

/// What stands before the routes: the same for each way to them.
#[derive(Debug)]
pub(crate) struct Shield {
    pub(crate) front: Front,
    pub(crate) gate: Gate,
}

/// Where a plain request goes.
#[derive(Debug, PartialEq, Eq)]
enum Goal {
    Create,
    Heartbeat(ClaimId),
    Release(ClaimId),
}

impl Goal {
    fn of(plain: &Plain<'_>) -> Option<Self> {
        let rest = plain.target.strip_prefix(CLAIMS)?;
        if *plain.method == Method::POST && rest.is_empty() {
            return Some(Self::Create);
        }
        // An id in any other spelling, or with something behind it, goes the long way.
        let rest = rest.strip_prefix('/')?;
        if *plain.method == Method::DELETE && plain.body.is_empty() {
            return rest.parse().ok().map(Self::Release);
        }
        let id = rest.strip_suffix("/heartbeat").filter(|_| *plain.method == Method::POST)?;
        id.parse().ok().map(Self::Heartbeat)
    }

    /// As the access table names it.
    fn route(&self) -> &'static str {
        match self {
            Self::Create => CLAIMS,
            Self::Heartbeat(_) => "/v1/claims/{id}/heartbeat",
            Self::Release(_) => "/v1/claims/{id}",
        }
    }
}

/// One connection, for as long as it goes the short way.
pub(crate) struct Short<'a> {
    pub(crate) shield: &'a Arc<Shield>,
    pub(crate) connection: Connection,
    pub(crate) line: &'a Line,
    /// The longest that a connection may be idle.
    pub(crate) idle_time: Duration,
    pub(crate) shown: Shown,
}

impl Short<'_> {
    /// Answers until the connection ends, and then there is nothing left; or until somebody else must go on, with
    /// what was read and is not answered.
    pub(crate) async fn run(
        &self,
        stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
        stop: &mut watch::Receiver<bool>,
    ) -> Option<Vec<u8>> {
        let stopping = self.shield.gate.app.stopping();
        let mut told = pin!(async { drop(stop.wait_for(|stop| *stop).await) });
        let mut idle = pin!(sleep(self.idle_time));
        let (mut buffer, mut out, mut heads) = (Buffer::default(), Vec::new(), Heads::default());
        loop {
            let until = Instant::now() + self.idle_time;
            let heard = poll_fn(|cx| {
                let read = buffer.poll_more(stream, cx);
                if read.is_ready() {
                    return read.map(Result::ok);
                }
                if told.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(None);
                }
                // It is set anew when it has run out, and not with each request.
                while idle.as_mut().poll(cx).is_ready() {
                    if Instant::now() >= until {
                        return Poll::Ready(None);
                    }
                    idle.as_mut().reset(until);
                }
                Poll::Pending
            });
            // Gone, silent for too long, or nothing was being asked when the server stopped.
            heard.await.filter(|count| *count > 0)?;
            while !buffer.filled().is_empty() {
                let Some(plain) = heads.read(buffer.filled()) else { return Some(buffer.into_filled()) };
                let Some(goal) = Goal::of(&plain) else { return Some(buffer.into_filled()) };
                let length = plain.length;
                let answered = self.answer(goal, &plain).await;
                let is_last = *stopping.borrow();
                out.clear();
                wire::write(&answered, is_last, &mut out);
                stream.write_all(&out).await.ok()?;
                if is_last {
                    let _ = stream.shutdown().await;
                    return None;
                }
                buffer.consume(length);
            }
        }
    }

    async fn answer(&self, goal: Goal, plain: &Plain<'_>) -> Answered {
        let Shield { front, gate } = &**self.shield;
        let Plain { method, target, headers, .. } = *plain;
        let route = goal.route();
        let client = front.client(self.connection, headers);
        let mut visit = front.arrive(method, headers, route.into(), client);
        let shown = Some(&self.shown);
        let seen = Seen { method, headers, path: target, route: Some(route), client, shown };
        let work = async {
            match gate.enter(seen).await {
                Ok((caller, allowance)) => (self.handle(&gate.app, goal, caller, plain).await, allowance),
                Err(problem) => (Err(problem), None),
            }
        };
        let handled = visit.run(pin!(work)).await;
        let (answer, allowance) = handled.unwrap_or_else(|problem| (Err(problem), None));
        let mut fields = List::with_capacity(ANSWER_FIELDS);
        let code = answer.as_ref().err().map(|problem| problem.code);
        let (status, body) = match answer {
            Ok(rendered) => rendered.write(&mut fields),
            Err(problem) => problem.write(&mut fields),
        };
        if let Some(allowance) = allowance {
            allowance.write(&mut fields);
        }
        visit.leave(status, code, &mut fields);
        Answered { status, fields, body }
    }

    async fn handle(
        &self,
        app: &App,
        goal: Goal,
        caller: Option<Caller>,
        plain: &Plain<'_>,
    ) -> Result<Rendered, Problem> {
        let Plain { method, target, headers, body, .. } = *plain;
        let caller = caller.ok_or_else(Caller::nobody)?;
        let state = State(app.clone());
        match goal {
            Goal::Create => {
                let body = Body::of((method, target), headers, body)?;
                create_claim(state, caller, self.line.clone(), body).await
            }
            Goal::Heartbeat(id) => {
                let (at, body) = (AtClaim::of(app, &caller, id)?, Body::of((method, target), headers, body)?);
                heartbeat_claim(state, caller, at, body).await
            }
            Goal::Release(id) => {
                let at = AtClaim::of(app, &caller, id)?;
                release_claim(state, caller, at, Query(Nothing {})).await
            }
        }
    }
}

/// Reads a connection's bytes, for whoever tests it with anything: each request that is taken, as its bytes, its first
/// line, its headers and its body. Wherever it goes: another route ends the short way, and so takes less.
#[doc(hidden)]
pub fn read_heads<E>(
    mut bytes: &[u8],
    mut taken: impl FnMut(&[u8], (&Method, &str), &HeaderMap, &[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let mut heads = Heads::default();
    while let Some(plain) = heads.read(bytes) {
        let (request, rest) = bytes.split_at(plain.length);
        taken(request, (plain.method, plain.target), plain.headers, plain.body)?;
        bytes = rest;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_routes_are_known_in_their_plainest_spelling() {
        let check = |line: &str, expected: Option<&str>| {
            let text = format!("{line} HTTP/1.1\r\nhost: a\r\n\r\n");
            let mut heads = Heads::default();
            let plain = heads.read(text.as_bytes()).expect("it is plain");
            assert_eq!(Goal::of(&plain).map(|goal| goal.route()), expected, "{line}");
        };
        check("POST /v1/claims", Some("/v1/claims"));
        check("POST /v1/claims/lock~a~1/heartbeat", Some("/v1/claims/{id}/heartbeat"));
        check("DELETE /v1/claims/lock~a~1", Some("/v1/claims/{id}"));
        for other in [
            "GET /v1/claims",
            "POST /v1/claims?x=1",
            "POST /v1/claims/",
            "POST /v1/claims2",
            "DELETE /v1/claims/lock~a~1?x=1",
            "DELETE /v1/claims/lock%7Ea~1",
            "DELETE /v1/claims/lock~a~01",
            "DELETE /v1/claims/lock~a~1/items/b",
            "POST /v1/claims/lock~a~1/advance",
            "GET /v1/claims/lock~a~1",
        ] {
            check(other, None);
        }
    }
}
