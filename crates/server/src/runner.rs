//! The runner that posts analyses to somebody else.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderValue, Request, header};
use http_body_util::Full;
use hyper::body::Bytes;
use serde_json::json;
use tenure_apps::jobs::{Failure, Job, RESULT_BYTES_MAX, Runner, Running, Stop, result_of};
use tenure_core::Json;

use crate::identity::Secret;
use crate::net::Network;
use crate::outbound::{Fault, Reach, Remote, Wrong};

/// How the runner behaves.
#[derive(Clone, Debug)]
pub struct RunnerSettings {
    /// Proves this server to the other.
    pub key: Option<Secret>,
    /// Its certificates, instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// Time to resolve and to connect.
    pub connect_time: Duration,
    /// Time for everything.
    pub time: Duration,
    /// Networks that are not public and are allowed.
    pub allowed: Vec<Network>,
}

/// Posts analyses to a URL. Cheap to clone.
#[derive(Clone)]
pub struct HttpRunner(Arc<Inner>);

struct Inner {
    remote: Remote,
    authorization: Option<HeaderValue>,
    time: Duration,
}

impl fmt::Debug for HttpRunner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpRunner").field("url", &self.0.remote.url).finish_non_exhaustive()
    }
}

impl HttpRunner {
    /// Checks everything that can be checked without asking; what is wrong is named by its key.
    pub fn new(url: &str, settings: RunnerSettings) -> Result<Self, (&'static str, String)> {
        let RunnerSettings { key, ca_file, connect_time, time, allowed } = settings;
        let reach = Reach { ca_file, connect_time, allowed, allowed_key: "jobs.allowed_networks" };
        let remote = Remote::new(url, reach).map_err(|wrong| match wrong {
            Wrong::Url(reason) => ("runner_url", reason),
            Wrong::CaFile(reason) => ("runner_ca_file", reason),
        })?;
        let authorization = key.as_ref().map(|key| {
            let mut value = HeaderValue::try_from(format!("Bearer {}", key.expose()))
                .map_err(|_| ("runner_key", "has characters that cannot stand in a header".to_owned()))?;
            value.set_sensitive(true);
            Ok(value)
        });
        let authorization = authorization.transpose()?;
        Ok(Self(Arc::new(Inner { remote, authorization, time })))
    }
}

impl Runner for HttpRunner {
    fn run(&self, job: Job, mut stop: Stop) -> Running {
        let inner = self.0.clone();
        Box::pin(async move {
            let time = inner.time;
            tokio::select! {
                posted = tokio::time::timeout(time, inner.post(&job)) => posted.unwrap_or_else(|_| {
                    Err(Failure::new("timeout", &format!("no result within {} ms", time.as_millis())))
                }),
                // The connection closes with the request that is dropped here.
                () = stop.asked() => Err(Failure::new("stopped", "the lock was lost")),
            }
        })
    }
}

impl Inner {
    async fn post(&self, job: &Job) -> Result<Json, Failure> {
        let asked = self.remote.ask(self.request(job)?, RESULT_BYTES_MAX).await;
        let (status, body) = asked.map_err(|fault| match fault {
            // It is away, or went away: nothing is known of the analysis.
            Fault::Unreachable { message, .. } => Failure::passing("unreachable", &message),
            Fault::Refused(message) => Failure::new("refused", &message),
            Fault::TooLarge => Failure::new("result_too_large", "the result is larger than 16 KiB"),
        })?;
        if status.is_redirection() {
            return Err(Failure::new("redirected", &format!("{status}: redirects are not followed")));
        }
        if matches!(status.as_u16(), 429 | 502 | 503 | 504) {
            return Err(Failure::passing("busy", &format!("the runner answered {status}")));
        }
        if !status.is_success() {
            return Err(Failure::new("status", &format!("the runner answered {status}")));
        }
        result_of(&body)
    }

    fn request(&self, job: &Job) -> Result<Request<Full<Bytes>>, Failure> {
        let path = self.remote.url.path_and_query().map_or("/", |path| path.as_str());
        let body = json!({"analysis_id": job.analysis, "input": job.input, "token": job.token});
        let mut request = Request::post(path)
            .header(header::HOST, self.remote.authority())
            .header(header::USER_AGENT, concat!("tenure/", env!("CARGO_PKG_VERSION")))
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json, text/plain")
            .header("tenure-token", job.token)
            .header("tenure-claim", &*job.claim);
        if let Some(authorization) = &self.authorization {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        let request = request.body(Full::from(body.to_string()));
        request.map_err(|error| Failure::new("unreachable", &error.to_string()))
    }
}
