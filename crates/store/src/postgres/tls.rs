//! TLS to the database, by rustls. Whoever asks for it gets all of it: a certificate that some authority
//! vouches for, and for the very host that was asked. Encryption towards whoever answers would protect nobody.

use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::Socket;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore};
use tokio_rustls::{TlsConnector, client};

use super::hush::{Hush, Hushed};
use crate::Error;

/// What an address says about TLS, and the address without it: the driver knows neither the stricter modes nor
/// files of authorities.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) is_on: bool,
    /// The file of those to believe; the system's without one.
    pub(super) authorities: Option<PathBuf>,
}

impl Asked {
    pub(super) fn split(url: &str) -> Result<(String, Self), Error> {
        let mut asked = Self::default();
        let Some((address, query)) = url.split_once('?') else { return Ok((url.to_owned(), asked)) };
        let mut rest = Vec::new();
        for parameter in query.split('&') {
            match parameter.split_once('=') {
                // Less than `require` promises nothing to anybody, so it is not tried.
                Some(("sslmode", "disable" | "allow" | "prefer") | ("sslrootcert", "system")) => {}
                Some(("sslmode", "require" | "verify-ca" | "verify-full")) => asked.is_on = true,
                Some(("sslmode", _)) => {
                    return Err(refused("sslmode is disable, require or verify-full"));
                }
                Some(("sslrootcert", path)) => asked.authorities = Some(decoded(path)?),
                _ => rest.push(parameter),
            }
        }
        if asked.authorities.is_some() && !asked.is_on {
            return Err(refused("sslrootcert is of no use without sslmode=verify-full"));
        }
        let url = if rest.is_empty() { address.to_owned() } else { format!("{address}?{}", rest.join("&")) };
        Ok((url, asked))
    }
}

fn refused(what: &str) -> Error {
    Error::Unsupported { detail: format!("the database's address: {what}") }
}

/// A path as it stands in an address, where `%20` is a space.
fn decoded(text: &str) -> Result<PathBuf, Error> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'%' {
            bytes.push(*byte);
            continue;
        }
        let wrong = || refused("sslrootcert has a % that is followed by no number");
        let (digits, after) = rest.split_at_checked(2).ok_or_else(wrong)?;
        let digits = std::str::from_utf8(digits).map_err(|_| wrong())?;
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| wrong())?);
        rest = after;
    }
    let path = String::from_utf8(bytes).map_err(|_| refused("sslrootcert is not text"))?;
    Ok(path.into())
}

/// Makes connections, with TLS where that was asked for.
#[derive(Clone)]
pub(super) struct Tls {
    connector: Option<TlsConnector>,
    hush: Hush,
}

impl Tls {
    pub(super) fn new(asked: &Asked) -> Result<Self, Error> {
        if !asked.is_on {
            return Ok(Self { connector: None, hush: Hush::default() });
        }
        let roots = match &asked.authorities {
            Some(path) => of_file(path)?,
            None => of_system()?,
        };
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| refused(&format!("TLS cannot be set up: {error}")))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let connector = Some(TlsConnector::from(Arc::new(config)));
        Ok(Self { connector, hush: Hush::default() })
    }

    /// For one connection, and what hushes that.
    pub(super) fn hushed(&self) -> (Self, Hush) {
        let hush = Hush::default();
        (Self { connector: self.connector.clone(), hush: hush.clone() }, hush)
    }
}

fn of_file(path: &Path) -> Result<RootCertStore, Error> {
    let wrong = |why: &dyn std::fmt::Display| refused(&format!("sslrootcert: {}: {why}", path.display()));
    let found: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let mut roots = RootCertStore::empty();
    for certificate in found.map_err(|error| wrong(&error))? {
        roots.add(certificate).map_err(|error| wrong(&error))?;
    }
    if roots.is_empty() { Err(wrong(&"there is no certificate in it")) } else { Ok(roots) }
}

fn of_system() -> Result<RootCertStore, Error> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // One that cannot be read vouches for nobody; the others still do.
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        return Err(refused("this machine knows no authorities; name a file of them with sslrootcert"));
    }
    Ok(roots)
}

impl MakeTlsConnect<Socket> for Tls {
    type Stream = Hushed<Stream>;
    type TlsConnect = Handshake;
    type Error = io::Error;

    fn make_tls_connect(&mut self, host: &str) -> io::Result<Handshake> {
        Ok(Handshake { tls: self.clone(), host: host.to_owned() })
    }
}

/// One connection's beginning.
pub(super) struct Handshake {
    tls: Tls,
    host: String,
}

impl TlsConnect<Socket> for Handshake {
    type Stream = Hushed<Stream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Hushed<Stream>>> + Send>>;

    fn connect(self, socket: Socket) -> Self::Future {
        Box::pin(async move {
            let Tls { connector, hush } = self.tls;
            let Some(connector) = connector else { return Ok(Hushed::new(Stream::Plain(socket), hush)) };
            let name = ServerName::try_from(self.host).map_err(io::Error::other)?;
            match connector.connect(name, socket).await {
                Ok(stream) => Ok(Hushed::new(Stream::Tls(Box::new(stream)), hush)),
                Err(error) => Err(explained(error)),
            }
        })
    }
}

/// A certificate that is not believed is the usual mistake: says what would help.
fn explained(error: io::Error) -> io::Error {
    let found = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    if let Some(rustls::Error::InvalidCertificate(why)) = found {
        let said = format!(
            "its certificate is not believed ({why}); sslrootcert names the authorities, and the address must \
             name the host as the certificate does"
        );
        return io::Error::other(said);
    }
    error
}

/// A connection, inside TLS or not.
pub(super) enum Stream {
    Plain(Socket),
    Tls(Box<client::TlsStream<Socket>>),
}

impl tokio_postgres::tls::TlsStream for Hushed<Stream> {
    fn channel_binding(&self) -> ChannelBinding {
        // The certificate was verified; nothing is bound to it beyond that.
        ChannelBinding::none()
    }
}

/// Passes a call on to whichever it is.
macro_rules! inner {
    ($stream:expr, $inner:ident => $call:expr) => {
        match &mut *$stream {
            Stream::Plain($inner) => $call,
            Stream::Tls($inner) => $call,
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        inner!(self, inner => Pin::new(inner).poll_read(context, buffer))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        inner!(self, inner => Pin::new(inner).poll_write(context, bytes))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        inner!(self, inner => Pin::new(inner).poll_flush(context))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        inner!(self, inner => Pin::new(inner).poll_shutdown(context))
    }
}
