//! The runner that posts analyses: what it sends, what it takes, and where it does not go.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tenure_apps::jobs::{Failure, Job, Runner, Stop};
use tenure_core::Json;
use tenure_server::identity::Secret;
use tenure_server::{HttpRunner, RunnerSettings};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

fn settings() -> RunnerSettings {
    RunnerSettings {
        key: Some(Secret::new("the-runners-key")),
        ca_file: None,
        connect_time: Duration::from_secs(5),
        time: Duration::from_secs(10),
        allowed: vec!["127.0.0.1".parse().expect("a network")],
    }
}

fn job() -> Job {
    Job { analysis: "a-1".into(), input: "some text".into(), claim: "analysis~queue~7".into(), token: 7 }
}

async fn run(url: &str, settings: RunnerSettings) -> Result<Json, Failure> {
    let (_stopper, stop) = Stop::new();
    HttpRunner::new(url, settings).expect("is configured").run(job(), stop).await
}

/// Reads one request and answers it; gives the request.
async fn answer_one(mut stream: impl AsyncRead + AsyncWrite + Unpin, answer: &str) -> String {
    let mut request = Vec::new();
    loop {
        let mut part = [0; 1_024];
        let read = stream.read(&mut part).await.expect("reads");
        request.extend_from_slice(&part[..read]);
        let text = String::from_utf8_lossy(&request);
        if read == 0 || text.split_once("\r\n\r\n").is_some_and(|(_, body)| body.ends_with('}')) {
            // A client that has heard enough hangs up.
            let _ = stream.write_all(answer.as_bytes()).await;
            let _ = stream.shutdown().await;
            return text.into_owned();
        }
    }
}

/// A server that answers one request so; gives its address and what it heard.
async fn server(answer: String) -> (SocketAddr, oneshot::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let address = listener.local_addr().expect("an address");
    let (heard, hears) = oneshot::channel();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.expect("accepts");
        let _ = heard.send(answer_one(stream, &answer).await);
    });
    (address, hears)
}

fn http(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
}

#[tokio::test]
async fn an_analysis_is_posted_with_its_token_and_the_answer_is_the_result() {
    let (address, heard) = server(http("200 OK", "", r#"{"words": 2}"#)).await;
    let result = run(&format!("http://{address}/run?v=1"), settings()).await.expect("runs");
    assert_eq!(result.as_str(), r#"{"words": 2}"#);
    let request = heard.await.expect("was asked");
    let (head, body) = request.split_once("\r\n\r\n").expect("a head");
    let head = head.to_lowercase();
    assert!(head.starts_with("post /run?v=1 http/1.1\r\n"), "{head}");
    for line in [
        "tenure-token: 7",
        "tenure-claim: analysis~queue~7",
        "content-type: application/json",
        "authorization: bearer the-runners-key",
        &format!("host: {address}"),
    ] {
        assert!(head.contains(&format!("\r\n{line}")), "{line} is not in {head}");
    }
    let body: serde_json::Value = serde_json::from_str(body).expect("JSON");
    assert_eq!(body, json!({"analysis_id": "a-1", "input": "some text", "token": 7}));
}

#[tokio::test]
async fn an_answer_that_is_no_result_is_a_failure_with_its_reason() {
    let long = "x".repeat(20_000);
    let answers = [
        (http("200 OK", "", "two words"), Ok("\"two words\"")),
        (http("204 No Content", "", ""), Ok("\"\"")),
        (http("302 Found", "location: http://127.0.0.1/\r\n", ""), Err("redirected")),
        (http("307 Temporary Redirect", "location: /other\r\n", ""), Err("redirected")),
        (http("500 Internal Server Error", "", "{}"), Err("status")),
        (http("404 Not Found", "", "{}"), Err("status")),
        (http("200 OK", "", &long), Err("result_too_large")),
        (
            format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5000\r\n{long}"),
            Err("result_too_large"),
        ),
        (http("200 OK", &format!("x: {long}\r\n"), "{}"), Err("unreachable")),
        ("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n{".to_owned(), Err("unreachable")),
        ("rubbish\r\n\r\n".to_owned(), Err("unreachable")),
        (String::new(), Err("unreachable")),
    ];
    for (answer, expected) in answers {
        let shown = answer.chars().take(60).collect::<String>();
        let (address, _heard) = server(answer).await;
        let result = run(&format!("http://{address}/"), settings()).await;
        let result = result.as_ref().map(Json::as_str).map_err(|failure| failure.reason.as_str());
        assert_eq!(result, expected, "{shown}");
    }
}

/// Nobody is connected to, however the address is written, whatever the name resolves to.
#[tokio::test]
async fn an_address_that_is_not_public_is_refused_unless_it_is_allowed() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let port = listener.local_addr().expect("an address").port();
    let strict = || RunnerSettings { allowed: Vec::new(), ..settings() };
    for host in ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "169.254.169.254", "10.0.0.1", "0.0.0.0"] {
        let (key, reason) =
            HttpRunner::new(&format!("http://{host}:{port}/"), strict()).expect_err("not public");
        assert!(key == "runner_url" && reason.contains("is not public"), "{host}: {reason}");
    }
    // A name is looked at once it is resolved.
    let failure = run(&format!("http://localhost:{port}/"), strict()).await.expect_err("leads inside");
    assert_eq!(failure.reason, "refused", "{failure}");
    let other = RunnerSettings { allowed: vec!["10.0.0.0/8".parse().expect("a network")], ..settings() };
    let failure = run(&format!("http://localhost:{port}/"), other).await.expect_err("leads elsewhere");
    assert_eq!(failure.reason, "refused", "{failure}");
    let asked = tokio::time::timeout(Duration::from_millis(50), listener.accept()).await;
    assert!(asked.is_err(), "somebody connected");
}

/// A runner that says nothing is given up, and one that is told to stop hangs up.
#[tokio::test]
async fn a_run_ends_in_time_or_when_it_is_told() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let url = format!("http://{}/", listener.local_addr().expect("an address"));
    let short = RunnerSettings { time: Duration::from_millis(100), ..settings() };
    let failure = run(&url, short).await.expect_err("nobody answers");
    assert_eq!(failure.reason, "timeout");
    drop(listener.accept().await.expect("was asked"));
    let (stopper, stop) = Stop::new();
    let running = tokio::spawn(HttpRunner::new(&url, settings()).expect("is configured").run(job(), stop));
    let (mut stream, _) = listener.accept().await.expect("is asked");
    stopper.stop();
    assert_eq!(running.await.expect("ends").expect_err("is stopped").reason, "stopped");
    // The other side hears that nobody waits any more.
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
    drop(listener);
    assert_eq!(run(&url, settings()).await.expect_err("nobody is there").reason, "unreachable");
}

/// Over TLS, trusting the certificates that the configuration names and no others.
#[tokio::test]
async fn over_tls_only_a_trusted_runner_is_spoken_to() {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    let folder = tempfile::tempdir().expect("a folder");
    let ca_file = folder.path().join("ca.pem");
    std::fs::write(&ca_file, made.cert.pem()).expect("written");
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a key");
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .expect("a pair");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let url = format!("https://localhost:{}/", listener.local_addr().expect("an address").port());
    tokio::spawn(async move {
        let acceptor = TlsAcceptor::from(Arc::new(config));
        while let Ok((stream, _)) = listener.accept().await {
            if let Ok(stream) = acceptor.accept(stream).await {
                answer_one(stream, &http("200 OK", "", "42")).await;
            }
        }
    });
    let trusting = RunnerSettings { ca_file: Some(ca_file), ..settings() };
    assert_eq!(run(&url, trusting.clone()).await.expect("is trusted").as_str(), "42");
    let other = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    let ca_file = folder.path().join("other.pem");
    std::fs::write(&ca_file, other.cert.pem()).expect("written");
    let failure =
        run(&url, RunnerSettings { ca_file: Some(ca_file), ..trusting }).await.expect_err("a stranger");
    assert_eq!(failure.reason, "unreachable", "{failure}");
}
