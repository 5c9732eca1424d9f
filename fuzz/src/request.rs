//! A request: its first line is a method and a path, the rest its body. Whatever it says, there is an answer, which is no
//! failure of the server's own.

use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use serde_json::Value;
use tower::ServiceExt;

use crate::Target;
use crate::served::{ADMIN, Served};

/// A server collects what requests leave behind; after so many it is another one.
const REQUESTS_EACH: usize = 5_000;
/// Who waits is left after this: nobody lets go of what it waits for, and time stands still.
const WAIT_MAX: Duration = Duration::from_millis(5);
/// All others are answered. Never so late, but on a machine that does much else: it is there to find what hangs.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// A server, and somebody who may do everything.
pub struct Requests {
    served: Served,
    left: usize,
}

impl Requests {
    /// An empty one.
    pub fn new() -> Result<Self, String> {
        Ok(Self { served: Served::new()?, left: REQUESTS_EACH })
    }

    /// What it is answered; nothing if it is no request, or waits.
    fn answer(&mut self, bytes: &[u8]) -> Result<Option<StatusCode>, String> {
        if self.left == 0 {
            *self = Self::new()?;
        }
        self.left -= 1;
        let line_end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
        let (line, body) = bytes.split_at(line_end);
        let Ok(line) = std::str::from_utf8(line) else { return Ok(None) };
        let (method, path) = line.split_once(' ').unwrap_or((line, "/"));
        let body = body.get(1..).unwrap_or_default().to_vec();
        let (Ok(method), Ok(uri)) = (Method::from_bytes(method.as_bytes()), path.parse::<axum::http::Uri>())
        else {
            return Ok(None);
        };
        let may_wait = may_wait(&method, uri.path(), &body);
        let patience = if may_wait { WAIT_MAX } else { ANSWER_MAX };
        let request = Request::builder()
            .method(method)
            .uri(uri)
            .header("authorization", format!("Bearer {ADMIN}"))
            .header("content-type", "application/json")
            .body(Body::from(body));
        let Ok(request) = request else { return Ok(None) };
        let router = self.served.router.clone();
        let answered = async { tokio::time::timeout(patience, router.oneshot(request)).await };
        match self.served.runtime.block_on(answered) {
            // Nothing else is asked at the same time, and the store is always there: 503 is a failure, too.
            Ok(Ok(answer)) if answer.status().is_server_error() => {
                Err(format!("{line:?} was answered {}", answer.status()))
            }
            Ok(Ok(answer)) => Ok(Some(answer.status())),
            Err(_) if !may_wait => Err(format!("{line:?} was not answered in {patience:?}")),
            Err(_) => Ok(None),
        }
    }
}

impl Target for Requests {
    fn take(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.answer(bytes).map(drop)
    }
}

/// Only these wait, and only if they are told to. A stream is answered when it begins.
fn may_wait(method: &Method, path: &str, body: &[u8]) -> bool {
    fn says(value: &Value) -> bool {
        match value {
            Value::Object(fields) => fields.iter().any(|(name, value)| name == "wait_ms" || says(value)),
            Value::Array(values) => values.iter().any(says),
            _ => false,
        }
    }
    *method == Method::POST
        && matches!(path, "/v1/claims" | "/v1/batch")
        && serde_json::from_slice(body).is_ok_and(|body| says(&body))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise nothing behind the first checks would see what is spoiled.
    #[test]
    fn whatever_is_whole_in_the_corpus_is_carried_out_and_one_waits() {
        let mut requests = Requests::new().unwrap();
        let corpus = crate::corpus("request").unwrap();
        let answers =
            corpus.iter().map(|bytes| requests.answer(bytes).unwrap().map(|status| status.as_u16()));
        // In the order of their names; the heartbeat's claim was released by the batch.
        let expected = [200, 200, 410, 201, 200, 201, 200, 200, 201, 201].map(Some);
        assert_eq!(answers.collect::<Vec<_>>(), [&expected[..], &[None]].concat());
    }
}
