//! The runner that posts analyses to somebody else. Whoever configures the URL may mean well and still name a
//! host that leads inside: an address is looked at after it is resolved, and that very address is connected
//! to. Redirects are not followed, times and answers are bounded.

mod address;

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::http::uri::Scheme;
use axum::http::{HeaderValue, Request, Uri, header};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_rustls::ConfigBuilderExt;
use hyper_util::rt::TokioIo;
use serde_json::json;
use tenure_apps::jobs::{Failure, Job, RESULT_BYTES_MAX, Runner, Running, Stop, result_of};
use tenure_core::Json;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::identity::Secret;
use crate::limits::RUNNER_HEAD_BYTES_MAX;
use crate::net::Network;
use address::is_public;

const SHAPE: &str = "must read https://host/path or http://host:port/path";

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
    url: Uri,
    host: String,
    port: u16,
    tls: Option<TlsConnector>,
    authorization: Option<HeaderValue>,
    settings: RunnerSettings,
}

impl fmt::Debug for HttpRunner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpRunner").field("url", &self.0.url).finish_non_exhaustive()
    }
}

impl HttpRunner {
    /// Checks everything that can be checked without asking; what is wrong is named by its key.
    pub fn new(url: &str, settings: RunnerSettings) -> Result<Self, (&'static str, String)> {
        let shape = || ("runner_url", SHAPE.to_owned());
        let parsed: Uri = url.parse().map_err(|_| shape())?;
        let authority = parsed.authority().ok_or_else(shape)?;
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        let is_tls = match parsed.scheme() {
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            Some(scheme) if *scheme == Scheme::HTTP => false,
            _ => return Err(shape()),
        };
        let port = authority.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        // A key belongs into runner_key, where it is masked.
        if host.is_empty() || port == 0 || authority.as_str().contains('@') || url.contains('#') {
            return Err(shape());
        }
        if let Ok(address) = host.parse::<IpAddr>()
            && !is_allowed(address, &settings.allowed)
        {
            return Err(("runner_url", refused(address)));
        }
        let tls = if is_tls { Some(connector(settings.ca_file.as_deref())?) } else { None };
        let authorization = settings.key.as_ref().map(|key| {
            let mut value = HeaderValue::try_from(format!("Bearer {}", key.expose()))
                .map_err(|_| ("runner_key", "has characters that cannot stand in a header".to_owned()))?;
            value.set_sensitive(true);
            Ok(value)
        });
        let authorization = authorization.transpose()?;
        Ok(Self(Arc::new(Inner { url: parsed, host, port, tls, authorization, settings })))
    }
}

impl Runner for HttpRunner {
    fn run(&self, job: Job, mut stop: Stop) -> Running {
        let inner = self.0.clone();
        Box::pin(async move {
            let time = inner.settings.time;
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
        let connecting = tokio::time::timeout(self.settings.connect_time, self.connect());
        let late = |_| Failure::passing("unreachable", "connecting took too long");
        let stream = connecting.await.map_err(late)??;
        match &self.tls {
            None => self.speak(stream, job).await,
            Some(tls) => {
                let name = ServerName::try_from(self.host.clone()).map_err(|error| unreachable(&error))?;
                let stream = tls.connect(name, stream).await.map_err(|error| unreachable(&error))?;
                self.speak(stream, job).await
            }
        }
    }

    /// Connects to an address that was looked at, not to a name that may lead elsewhere a moment later.
    async fn connect(&self) -> Result<TcpStream, Failure> {
        let found: Vec<SocketAddr> = match self.host.parse::<IpAddr>() {
            Ok(address) => vec![SocketAddr::new(address, self.port)],
            Err(_) => tokio::net::lookup_host((self.host.as_str(), self.port))
                .await
                .map_err(|error| unreachable(&error))?
                .collect(),
        };
        let mut last = Failure::passing("unreachable", "the name has no address");
        for address in found {
            if !is_allowed(address.ip(), &self.settings.allowed) {
                last = Failure::new("refused", &refused(address.ip()));
                continue;
            }
            match TcpStream::connect(address).await {
                Ok(stream) => return Ok(stream),
                Err(error) => last = unreachable(&error),
            }
        }
        Err(last)
    }

    async fn speak(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        job: &Job,
    ) -> Result<Json, Failure> {
        let handshake =
            http1::Builder::new().max_buf_size(RUNNER_HEAD_BYTES_MAX).handshake(TokioIo::new(stream));
        let (mut sender, connection) = handshake.await.map_err(|error| unreachable(&error))?;
        let _connection = Connection(tokio::spawn(async move { drop(connection.await) }));
        let response = sender.send_request(self.request(job)?).await.map_err(|error| unreachable(&error))?;
        let status = response.status();
        if status.is_redirection() {
            return Err(Failure::new("redirected", &format!("{status}: redirects are not followed")));
        }
        if matches!(status.as_u16(), 429 | 502 | 503 | 504) {
            return Err(Failure::passing("busy", &format!("the runner answered {status}")));
        }
        if !status.is_success() {
            return Err(Failure::new("status", &format!("the runner answered {status}")));
        }
        match Limited::new(response.into_body(), RESULT_BYTES_MAX).collect().await {
            Ok(body) => result_of(&body.to_bytes()),
            Err(error) if error.is::<LengthLimitError>() => {
                Err(Failure::new("result_too_large", "the result is larger than 16 KiB"))
            }
            Err(error) => Err(Failure::passing("unreachable", &error.to_string())),
        }
    }

    fn request(&self, job: &Job) -> Result<Request<Full<Bytes>>, Failure> {
        let path = self.url.path_and_query().map_or("/", |path| path.as_str());
        let authority = self.url.authority().map_or("", |authority| authority.as_str());
        let body = json!({"analysis_id": job.analysis, "input": job.input, "token": job.token});
        let mut request = Request::post(path)
            .header(header::HOST, authority)
            .header(header::USER_AGENT, concat!("tenure/", env!("CARGO_PKG_VERSION")))
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json, text/plain")
            .header("tenure-token", job.token)
            .header("tenure-claim", &*job.claim);
        if let Some(authorization) = &self.authorization {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        request.body(Full::from(body.to_string())).map_err(|error| unreachable(&error))
    }
}

/// A connection at work; dropped, it is closed.
struct Connection(JoinHandle<()>);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn is_allowed(address: IpAddr, allowed: &[Network]) -> bool {
    is_public(address) || allowed.iter().any(|network| network.contains(address))
}

fn refused(address: IpAddr) -> String {
    format!("{address} is not public; name its network in jobs.allowed_networks if it is meant")
}

/// The runner is away, or went away: nothing is known of the analysis.
fn unreachable(error: &dyn std::error::Error) -> Failure {
    Failure::passing("unreachable", &error.to_string())
}

fn connector(ca_file: Option<&Path>) -> Result<TlsConnector, (&'static str, String)> {
    let broken = |error: &dyn fmt::Display| ("runner_url", error.to_string());
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| broken(&error))?;
    let builder = match ca_file {
        Some(path) => builder.with_root_certificates(roots(path)?),
        None => builder
            .with_native_roots()
            .map_err(|error| broken(&format!("the system's certificates cannot be read: {error}")))?,
    };
    let mut config = builder.with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

fn roots(path: &Path) -> Result<RootCertStore, (&'static str, String)> {
    let wrong = |error: &dyn fmt::Display| ("runner_ca_file", format!("{}: {error}", path.display()));
    let found: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let mut roots = RootCertStore::empty();
    for certificate in found.map_err(|error| wrong(&error))? {
        roots.add(certificate).map_err(|error| wrong(&error))?;
    }
    if roots.is_empty() { Err(wrong(&"there is no certificate in it")) } else { Ok(roots) }
}
