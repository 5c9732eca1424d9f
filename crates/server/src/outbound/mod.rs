//! Requests to somebody else. Whoever configures a URL may mean well and still name a host that leads inside:
//! an address is looked at after it is resolved, and that very address is connected to. Redirects are not
//! followed, times and answers are bounded.

mod address;

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::http::uri::Scheme;
use axum::http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_rustls::ConfigBuilderExt;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::limits::RUNNER_HEAD_BYTES_MAX;
use crate::net::Network;
use address::is_public;

const SHAPE: &str = "must read https://host/path or http://host:port/path";

/// How a server is reached.
#[derive(Clone, Debug)]
pub(crate) struct Reach {
    /// Its certificates, instead of the system's.
    pub(crate) ca_file: Option<PathBuf>,
    /// Time to resolve and to connect.
    pub(crate) connect_time: Duration,
    /// Networks that are not public and are allowed.
    pub(crate) allowed: Vec<Network>,
    /// The key of the configuration that allows them.
    pub(crate) allowed_key: &'static str,
}

/// What of it is wrong.
#[derive(Debug)]
pub(crate) enum Wrong {
    /// The URL.
    Url(String),
    /// The file with certificates.
    CaFile(String),
}

/// One server, at one URL.
pub(crate) struct Remote {
    /// The URL.
    pub(crate) url: Uri,
    host: String,
    port: u16,
    tls: Option<TlsConnector>,
    reach: Reach,
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Fault {
    /// Nobody was there, or the connection broke.
    Unreachable {
        /// How.
        message: String,
        /// Something of the request may have arrived.
        is_sent: bool,
    },
    /// The address is not to be asked.
    Refused(String),
    /// The answer is larger than anyone wants.
    TooLarge,
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Remote {
    /// Checks everything that can be checked without asking.
    pub(crate) fn new(url: &str, reach: Reach) -> Result<Self, Wrong> {
        let shape = || Wrong::Url(SHAPE.to_owned());
        let parsed: Uri = url.parse().map_err(|_| shape())?;
        let authority = parsed.authority().ok_or_else(shape)?;
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        let is_tls = match parsed.scheme() {
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            Some(scheme) if *scheme == Scheme::HTTP => false,
            _ => return Err(shape()),
        };
        let port = authority.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        // A key belongs where it is masked.
        if host.is_empty() || port == 0 || authority.as_str().contains('@') || url.contains('#') {
            return Err(shape());
        }
        if let Ok(address) = host.parse::<IpAddr>()
            && !reach.allows(address)
        {
            return Err(Wrong::Url(reach.refused(address)));
        }
        let tls = if is_tls { Some(connector(reach.ca_file.as_deref())?) } else { None };
        Ok(Self { url: parsed, host, port, tls, reach })
    }

    /// `host:port`, as it stands in the URL.
    pub(crate) fn authority(&self) -> &str {
        self.url.authority().map_or("", |authority| authority.as_str())
    }

    /// Asks once. The answer's body has at most `bytes_max`; of an answer that is no success it is not read.
    pub(crate) async fn ask(
        &self,
        request: Request<Full<Bytes>>,
        bytes_max: usize,
    ) -> Result<(StatusCode, Bytes), Fault> {
        let connecting = tokio::time::timeout(self.reach.connect_time, self.connect());
        let late = |_| unreachable(&"connecting took too long");
        let stream = connecting.await.map_err(late)??;
        match &self.tls {
            None => speak(stream, request, bytes_max).await,
            Some(tls) => {
                let name = ServerName::try_from(self.host.clone()).map_err(|error| unreachable(&error))?;
                let stream = tls.connect(name, stream).await.map_err(|error| unreachable(&error))?;
                speak(stream, request, bytes_max).await
            }
        }
    }

    /// Connects to an address that was looked at, not to a name that may lead elsewhere a moment later.
    async fn connect(&self) -> Result<TcpStream, Fault> {
        let found: Vec<SocketAddr> = match self.host.parse::<IpAddr>() {
            Ok(address) => vec![SocketAddr::new(address, self.port)],
            Err(_) => tokio::net::lookup_host((self.host.as_str(), self.port))
                .await
                .map_err(|error| unreachable(&error))?
                .collect(),
        };
        let mut last = unreachable(&"the name has no address");
        for address in found {
            if !self.reach.allows(address.ip()) {
                last = Fault::Refused(self.reach.refused(address.ip()));
                continue;
            }
            match TcpStream::connect(address).await {
                Ok(stream) => return Ok(stream),
                Err(error) => last = unreachable(&error),
            }
        }
        Err(last)
    }
}

impl Reach {
    fn allows(&self, address: IpAddr) -> bool {
        is_public(address) || self.allowed.iter().any(|network| network.contains(address))
    }

    fn refused(&self, address: IpAddr) -> String {
        format!("{address} is not public; name its network in {} if it is meant", self.allowed_key)
    }
}

async fn speak(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
    bytes_max: usize,
) -> Result<(StatusCode, Bytes), Fault> {
    let handshake = http1::Builder::new().max_buf_size(RUNNER_HEAD_BYTES_MAX).handshake(TokioIo::new(stream));
    let (mut sender, connection) = handshake.await.map_err(|error| unreachable(&error))?;
    let _connection = Connection(tokio::spawn(async move { drop(connection.await) }));
    let broken = |message: String| Fault::Unreachable { message, is_sent: true };
    let response = sender.send_request(request).await.map_err(|error| broken(error.to_string()))?;
    let status = response.status();
    if !status.is_success() {
        return Ok((status, Bytes::new()));
    }
    match Limited::new(response.into_body(), bytes_max).collect().await {
        Ok(body) => Ok((status, body.to_bytes())),
        Err(error) if error.is::<LengthLimitError>() => Err(Fault::TooLarge),
        Err(error) => Err(broken(error.to_string())),
    }
}

/// A connection at work; dropped, it is closed.
struct Connection(JoinHandle<()>);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn unreachable(error: &dyn fmt::Display) -> Fault {
    Fault::Unreachable { message: error.to_string(), is_sent: false }
}

fn connector(ca_file: Option<&Path>) -> Result<TlsConnector, Wrong> {
    let broken = |error: &dyn fmt::Display| Wrong::Url(error.to_string());
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

fn roots(path: &Path) -> Result<RootCertStore, Wrong> {
    let wrong = |error: &dyn fmt::Display| Wrong::CaFile(format!("{}: {error}", path.display()));
    let found: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let mut roots = RootCertStore::empty();
    for certificate in found.map_err(|error| wrong(&error))? {
        roots.add(certificate).map_err(|error| wrong(&error))?;
    }
    if roots.is_empty() { Err(wrong(&"there is no certificate in it")) } else { Ok(roots) }
}
