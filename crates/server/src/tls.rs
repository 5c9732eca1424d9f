//! TLS by rustls: certificate and key from files, read again on demand. A bad new pair changes nothing:
//! the old one goes on serving.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use der::asn1::{AnyRef, GeneralizedTime, UtcTime};
use der::{Decode, SliceReader, Tag, Tagged};
use parking_lot::RwLock;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// A certificate is warned of when so much of its time is left: most are renewed before that.
const WARNED_S: i64 = 30 * DAY_S;
const DAY_S: i64 = 24 * 60 * 60;

/// What is wrong with the files: a sentence for the operator.
#[derive(Debug)]
pub(crate) struct TlsError(String);

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TlsError {}

/// The certificate that is served. Clones share it.
#[derive(Clone)]
pub(crate) struct Tls(Arc<Inner>);

struct Inner {
    certificate: PathBuf,
    key: PathBuf,
    current: RwLock<Served>,
}

/// What was last read.
struct Served {
    config: Arc<ServerConfig>,
    /// When the server's own certificate ends, in seconds since 1970.
    ends_at_s: Option<i64>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("certificate", &self.0.certificate).finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads both files.
    pub(crate) fn open(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let current = RwLock::new(read(certificate, key)?);
        Ok(Self(Arc::new(Inner { certificate: certificate.to_owned(), key: key.to_owned(), current })))
    }

    /// Reads both files again. Connections that are open keep what they have.
    pub(crate) fn reload(&self) -> Result<(), TlsError> {
        let fresh = read(&self.0.certificate, &self.0.key)?;
        *self.0.current.write() = fresh;
        Ok(())
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.0.current.read().config.clone())
    }

    /// When the certificate that is served ends, in seconds since 1970; `None` where it does not tell.
    pub(crate) fn ends_at_s(&self) -> Option<i64> {
        self.0.current.read().ends_at_s
    }
}

/// What to say at this time of a certificate that ends at that one: nothing while it is far from it.
pub(crate) fn warning(ends_at_s: i64, now_s: i64) -> Option<String> {
    match ends_at_s.saturating_sub(now_s) {
        left_s if left_s < 0 => Some("the certificate has expired: clients refuse it".to_owned()),
        left_s if left_s < DAY_S => Some("the certificate expires within a day".to_owned()),
        left_s if left_s < WARNED_S => Some(format!("the certificate expires in {} days", left_s / DAY_S)),
        _ => None,
    }
}

fn read(certificate: &Path, key: &Path) -> Result<Served, TlsError> {
    let wrong = |path: &Path, detail: &dyn fmt::Display| TlsError(format!("{}: {detail}", path.display()));
    let chain: Result<Vec<_>, _> = CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect);
    let chain = chain.map_err(|error| wrong(certificate, &error))?;
    if chain.is_empty() {
        return Err(wrong(certificate, &"there is no certificate in it"));
    }
    let ends_at_s = chain.first().and_then(|own| not_after_s(own));
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, &error))?;
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(certificate, &error))?;
    let mut config = builder
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(|error| wrong(certificate, &error))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Served { config: Arc::new(config), ends_at_s })
}

/// RFC 5280 §4.1: the end of a certificate's validity, behind version, serial number, algorithm and issuer.
fn not_after_s(certificate: &[u8]) -> Option<i64> {
    let certificate = AnyRef::from_der(certificate).ok()?;
    let signed = AnyRef::decode(&mut SliceReader::new(certificate.value()).ok()?).ok()?;
    let mut fields = SliceReader::new(signed.value()).ok()?;
    let first = AnyRef::decode(&mut fields).ok()?;
    // The oldest form has no version.
    let before = if matches!(first.tag(), Tag::ContextSpecific { .. }) { 3 } else { 2 };
    for _ in 0..before {
        AnyRef::decode(&mut fields).ok()?;
    }
    let validity = AnyRef::decode(&mut fields).ok()?;
    let mut times = SliceReader::new(validity.value()).ok()?;
    AnyRef::decode(&mut times).ok()?;
    let end = AnyRef::decode(&mut times).ok()?;
    let since_1970 = match end.tag() {
        Tag::UtcTime => end.decode_as::<UtcTime>().ok()?.to_unix_duration(),
        _ => end.decode_as::<GeneralizedTime>().ok()?.to_unix_duration(),
    };
    i64::try_from(since_1970.as_secs()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_certificate_is_read_in_both_forms_of_time() {
        // Years from 2050 on are written in another form.
        for (year, expected_s) in [(2031, 1_927_411_200), (2051, 2_558_563_200)] {
            let mut parameters = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
            parameters.not_after = rcgen::date_time_ymd(year, 1, 29);
            let key = rcgen::KeyPair::generate().expect("a key");
            let made = parameters.self_signed(&key).expect("a certificate");
            assert_eq!(not_after_s(made.der()), Some(expected_s), "{year}");
            let cut = &made.der()[..made.der().len() / 2];
            assert_eq!(not_after_s(cut), None, "what is no certificate says nothing");
        }
    }

    #[test]
    fn a_certificate_is_warned_of_in_its_last_thirty_days() {
        let ends_at_s = 1_000 * DAY_S;
        let said = |left_s| warning(ends_at_s, ends_at_s - left_s);
        assert_eq!(said(30 * DAY_S), None);
        assert_eq!(said(30 * DAY_S - 1).as_deref(), Some("the certificate expires in 29 days"));
        assert_eq!(said(2 * DAY_S).as_deref(), Some("the certificate expires in 2 days"));
        assert_eq!(said(DAY_S - 1).as_deref(), Some("the certificate expires within a day"));
        assert_eq!(said(0).as_deref(), Some("the certificate expires within a day"));
        assert_eq!(said(-1).as_deref(), Some("the certificate has expired: clients refuse it"));
    }
}
