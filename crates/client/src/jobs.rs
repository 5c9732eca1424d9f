//! Analyses: queue them, find those that wait, and finish one under its claim.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::claim::Claim;
use crate::clock::unique;
use crate::http::{Call, part};
use crate::{Acquire, Client, Error};

/// Where analyses live.
const COLLECTION: &str = "analysis/queue";
/// Rows of one page.
const PAGE_MAX: usize = 200;

/// An analysis, as it was when the server answered.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Analysis {
    /// Its id.
    pub id: String,
    /// `QUEUED`, `RUNNING`, `READY` or `FAILED`.
    pub status: String,
    /// What is analysed; not in lists.
    #[serde(default)]
    pub input: Option<String>,
    /// What came of it; not in lists.
    #[serde(default)]
    pub result: Option<Value>,
    /// Why nothing came of it.
    #[serde(default)]
    pub error: Option<AnalysisError>,
}

/// Why nothing came of an analysis.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnalysisError {
    /// For a program: `exit`, `timeout`, …
    pub reason: String,
    /// For a person.
    pub message: String,
}

#[derive(Deserialize)]
struct Analyses {
    analyses: Vec<Analysis>,
    next: Option<String>,
}

impl Client {
    /// Queues an analysis, under an id of one's own or a new one.
    pub async fn queue_analysis(&self, id: Option<&str>, input: &str) -> Result<Analysis, Error> {
        let mut body = Map::from_iter([("input".to_owned(), json!(input))]);
        if let Some(id) = id {
            body.insert("id".to_owned(), json!(id));
        }
        let call = Call::post("/analyses", Value::Object(body)).header("idempotency-key", unique()?);
        Ok(self.http().json(call).await?.1)
    }

    /// One analysis, with its input and its result.
    pub async fn analysis(&self, id: &str) -> Result<Analysis, Error> {
        Ok(self.http().json(Call::get(format!("/analyses/{}", part(id)))).await?.1)
    }

    /// At most `limit` analyses that could be locked at the time of the answer.
    pub async fn claimable_analyses(&self, limit: usize) -> Result<Vec<Analysis>, Error> {
        let mut found = Vec::new();
        let mut after: Option<String> = None;
        loop {
            let count = (limit - found.len()).clamp(1, PAGE_MAX);
            let mut path = format!("/analyses?claimable=true&limit={count}");
            if let Some(after) = after.take() {
                path.extend(["&after=", &part(&after)]);
            }
            let page: Analyses = self.http().json(Call::get(path)).await?.1;
            found.extend(page.analyses);
            match page.next {
                Some(next) if found.len() < limit => after = Some(next),
                _ => return Ok(found),
            }
        }
    }

    /// Locks an analysis: a claim like any other, to be awaited.
    pub fn acquire_analysis(&self, id: &str) -> Acquire {
        self.acquire(COLLECTION, [id])
    }
}

impl Claim {
    /// Writes the result of the analysis and ends the claim, in one commit under its token. Tried again until
    /// the deadline when the outcome is not known.
    pub async fn finish_analysis(&self, outcome: Result<Value, AnalysisError>) -> Result<(), Error> {
        let id = self.info().items.into_iter().next().unwrap_or_default();
        let (field, value) = match outcome {
            Ok(result) => ("result", result),
            Err(error) => ("error", json!(error)),
        };
        let body = Map::from_iter([("token".to_owned(), json!(self.token())), (field.to_owned(), value)]);
        let call = Call::post(format!("/analyses/{}/complete", part(&id)), Value::Object(body));
        let mut pause = Duration::from_millis(100);
        let call = call.header("idempotency-key", unique()?);
        loop {
            match self.end_by(call.clone()).await {
                Err(error) if error.is_temporary() && self.is_held() => {
                    tokio::time::sleep(pause.min(self.left())).await;
                    pause = (pause * 2).min(Duration::from_secs(5));
                }
                ended => return ended,
            }
        }
    }
}
