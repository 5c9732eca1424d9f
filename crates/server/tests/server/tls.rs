//! HTTPS: the handshake, what it adds, and certificates that are read again.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tenure_server::config::Config;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::wire::Running;

/// A new certificate for `localhost` in these files.
fn write_certificate(folder: &Path) -> CertificateDer<'static> {
    write_certificate_until(folder, 2090)
}

/// One that ends with the first day of a year.
fn write_certificate_until(folder: &Path, year: i32) -> CertificateDer<'static> {
    let mut parameters = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    parameters.not_after = rcgen::date_time_ymd(year, 1, 1);
    let key = rcgen::KeyPair::generate().unwrap();
    let made = parameters.self_signed(&key).unwrap();
    std::fs::write(folder.join("cert.pem"), made.pem()).unwrap();
    std::fs::write(folder.join("key.pem"), key.serialize_pem()).unwrap();
    made.der().clone()
}

fn config(folder: &Path) -> Config {
    let mut config = Config::default();
    config.tls.cert = Some(folder.join("cert.pem"));
    config.tls.key = Some(folder.join("key.pem"));
    config.limits.headers_timeout_ms = 500;
    config
}

/// Asks for `/healthz`, trusting this certificate alone.
async fn ask(server: &Running, trusted: &CertificateDer<'static>) -> Result<String, std::io::Error> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let client = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(server.address).await?;
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = TlsConnector::from(Arc::new(client)).connect(name, stream).await?;
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    Ok(text)
}

#[tokio::test]
async fn https_answers_with_hsts_and_plain_http_is_not_spoken() {
    let folder = tempfile::tempdir().unwrap();
    let certificate = write_certificate(folder.path());
    let server = Running::start(config(folder.path()), Router::new()).await;
    let answer = ask(&server, &certificate).await.unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.contains("strict-transport-security: max-age="),
        "{answer}"
    );
    let mut plain = TcpStream::connect(server.address).await.unwrap();
    plain.write_all(b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    let mut bytes = Vec::new();
    let _ = plain.read_to_end(&mut bytes).await;
    assert!(!bytes.starts_with(b"HTTP"));
}

#[tokio::test]
async fn a_handshake_that_never_ends_is_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    write_certificate(folder.path());
    let server = Running::start(config(folder.path()), Router::new()).await;
    let mut silent = TcpStream::connect(server.address).await.unwrap();
    let mut bytes = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(10), silent.read_to_end(&mut bytes)).await;
    assert_eq!(read.expect("cut off").unwrap_or(0), 0);
}

#[tokio::test]
async fn on_hangup_a_new_certificate_is_served_and_a_bad_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let old = write_certificate(folder.path());
    let server = Running::start(config(folder.path()), Router::new()).await;
    assert!(ask(&server, &old).await.is_ok());

    std::fs::write(folder.path().join("cert.pem"), "not a certificate").unwrap();
    hang_up();
    let fresh = write_certificate(folder.path());
    hang_up();
    crate::world::eventually(async || ask(&server, &fresh).await.is_ok()).await;
    assert!(ask(&server, &old).await.is_err());

    // A key that does not fit is refused; what is served stays.
    let served = fresh;
    write_certificate(folder.path());
    std::fs::write(folder.path().join("key.pem"), rcgen::KeyPair::generate().unwrap().serialize_pem())
        .unwrap();
    hang_up();
    for _ in 0..20 {
        assert!(ask(&server, &served).await.is_ok());
    }
}

#[tokio::test]
async fn the_figures_say_when_the_certificate_ends_also_after_a_new_one() {
    let folder = tempfile::tempdir().unwrap();
    write_certificate_until(folder.path(), 2060);
    let server = Running::start(config(folder.path()), Router::new()).await;
    let ends = |at_s: &str| {
        let line = format!("\ntenure_tls_certificate_expires_at_seconds {at_s}\n");
        server.figures().contains(&line)
    };
    crate::world::eventually(async || ends("2840140800")).await;
    write_certificate_until(folder.path(), 2061);
    hang_up();
    crate::world::eventually(async || ends("2871763200")).await;

    let plain = Running::start(Config::default(), Router::new()).await;
    assert!(!plain.figures().contains("certificate_expires_at_seconds "), "there is none");
}

fn hang_up() {
    let process = std::process::id().to_string();
    assert!(std::process::Command::new("kill").args(["-HUP", &process]).status().unwrap().success());
}
