//! Requests and answers. Knows nothing of claims.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as Pool;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::{Error, Problem};

/// The largest answer that is read.
const ANSWER_BYTES_MAX: usize = 16 << 20;
/// A server that does not take a connection within this is not there.
const CONNECT_TIME: Duration = Duration::from_secs(5);
/// An answer takes at most this, beside the time that the request asked to wait.
pub(crate) const ANSWER_TIME: Duration = Duration::from_secs(15);
/// Shorter than the server keeps idle connections.
const IDLE_TIME: Duration = Duration::from_secs(4);

/// A server's address and the key to it. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Http(Arc<Inner>);

struct Inner {
    pool: Pool<HttpsConnector<HttpConnector>, Full<Bytes>>,
    base: String,
    authorization: HeaderValue,
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http").field("base", &self.0.base).finish_non_exhaustive()
    }
}

/// A request to be sent.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) body: Option<Value>,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) time: Duration,
}

impl Call {
    pub(crate) fn new(method: Method, path: impl Into<String>) -> Self {
        Self { method, path: path.into(), body: None, headers: Vec::new(), time: ANSWER_TIME }
    }

    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path)
    }

    pub(crate) fn post(path: impl Into<String>, body: Value) -> Self {
        Self { body: Some(body), ..Self::new(Method::POST, path) }
    }

    pub(crate) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

impl Http {
    pub(crate) fn new(url: &str, key: &str, authority: Option<&Path>) -> Result<Self, Error> {
        let base = url.trim_end_matches('/').to_owned();
        let uri: Uri = base.parse().map_err(|_| Error::Invalid(format!("{url:?} is not a URL")))?;
        if !matches!(uri.scheme_str(), Some("http" | "https"))
            || uri.host().is_none()
            || uri.query().is_some()
        {
            return Err(Error::Invalid(format!("{url:?} must read http://host:port or https://host:port")));
        }
        let mut authorization = HeaderValue::from_str(&format!("Bearer {key}"))
            .map_err(|_| Error::Invalid("the API key has characters that no key has".to_owned()))?;
        authorization.set_sensitive(true);
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT_TIME));
        let builder = HttpsConnectorBuilder::new();
        let builder = match authority {
            Some(path) => builder.with_tls_config(trusting(path)?),
            None if uri.scheme_str() == Some("https") => builder.with_native_roots().map_err(|error| {
                Error::Invalid(format!("the system's certificates cannot be read: {error}"))
            })?,
            // Nothing will be verified, so nothing needs to be read.
            None => builder.with_tls_config(config(RootCertStore::empty())?),
        };
        let connector = builder.https_or_http().enable_http1().wrap_connector(connector);
        let pool = Pool::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIME)
            .build(connector);
        Ok(Self(Arc::new(Inner { pool, base, authorization })))
    }

    /// Sends and reads the whole answer as JSON; a refusal becomes an error.
    pub(crate) async fn json<T: DeserializeOwned>(&self, call: Call) -> Result<(StatusCode, T), Error> {
        let (status, bytes) = self.bytes(call).await?;
        let value = serde_json::from_slice(&bytes).map_err(|error| Error::Confused(error.to_string()))?;
        Ok((status, value))
    }

    /// The same, where the answer has nothing to read.
    pub(crate) async fn nothing(&self, call: Call) -> Result<(), Error> {
        self.bytes(call).await.map(drop)
    }

    async fn bytes(&self, call: Call) -> Result<(StatusCode, Bytes), Error> {
        let time = call.time;
        let answered = async {
            let response = self.send(call).await?;
            let status = response.status();
            let bytes = read(response).await?;
            if status.is_success() { Ok((status, bytes)) } else { Err(refusal(status, &bytes)) }
        };
        let late = |_| Error::Unreachable(format!("no answer within {} s", time.as_secs()));
        tokio::time::timeout(time, answered).await.map_err(late)?
    }

    /// Sends, and gives the answer as it begins. A refusal becomes an error.
    pub(crate) async fn open(&self, call: Call) -> Result<Response<Incoming>, Error> {
        let time = call.time;
        let late = |_| Error::Unreachable(format!("no answer within {} s", time.as_secs()));
        let response = tokio::time::timeout(time, self.send(call)).await.map_err(late)??;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        Err(refusal(status, &read(response).await?))
    }

    async fn send(&self, call: Call) -> Result<Response<Incoming>, Error> {
        let Call { method, path, body, headers, .. } = call;
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.0.base))
            .header(AUTHORIZATION, self.0.authorization.clone());
        if !headers.iter().any(|(name, _)| *name == "accept") {
            request = request.header(ACCEPT, "application/json");
        }
        for (name, value) in headers {
            request = request.header(HeaderName::from_static(name), value);
        }
        let bytes = match body {
            Some(body) => {
                request = request.header(CONTENT_TYPE, "application/json");
                Bytes::from(body.to_string())
            }
            None => Bytes::new(),
        };
        let request = request.body(Full::new(bytes)).map_err(|error| Error::Invalid(error.to_string()))?;
        self.0.pool.request(request).await.map_err(|error| Error::Unreachable(root(&error)))
    }
}

async fn read(response: Response<Incoming>) -> Result<Bytes, Error> {
    let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
    Ok(body.map_err(|error| Error::Unreachable(root(&*error)))?.to_bytes())
}

fn refusal(status: StatusCode, bytes: &[u8]) -> Error {
    match Problem::parse(status.as_u16(), bytes) {
        Some(problem) => Error::Refused(Box::new(problem)),
        // A proxy in between says so in its own words.
        None if status.is_server_error() => Error::Unreachable(format!("the answer is {status}")),
        None => Error::Confused(format!("the answer is {status}, without a code")),
    }
}

fn config(roots: RootCertStore) -> Result<ClientConfig, Error> {
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Invalid(error.to_string()))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

fn trusting(path: &Path) -> Result<ClientConfig, Error> {
    let wrong = |error: String| Error::Invalid(format!("{}: {error}", path.display()));
    let certificates = CertificateDer::pem_file_iter(path).map_err(|error| wrong(error.to_string()))?;
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
        roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(wrong("holds no certificate".to_owned()));
    }
    config(roots)
}

/// The innermost cause says the most: "connection refused", not "client error".
fn root(error: &(dyn std::error::Error + 'static)) -> String {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}

/// One part of a path, so that an item's id cannot become two parts.
pub(crate) fn part(text: &str) -> String {
    let mut part = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            part.push(char::from(byte));
        } else {
            let digit = |value: u8| char::from(b"0123456789ABCDEF"[usize::from(value)]);
            part.extend(['%', digit(byte >> 4), digit(byte & 15)]);
        }
    }
    part
}
