//! The sample configuration of nginx, with a real nginx in front of a real server.

use std::fs;
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::StreamExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use crate::process::{ADMIN, Server, serve, tenure, text, until};

const SAMPLE: &str = include_str!("../../../../deploy/nginx/tenure.conf");
const COMPOSE: &str = include_str!("../../../../deploy/nginx/compose.conf");
pub(crate) const NAME: &str = "tenure.example.com";
/// A node's lines in it.
const NODE: &str = "    server 127.0.0.1:8080 max_fails=1 fail_timeout=2s;\n";
const BACKUP: &str = "    # server 127.0.0.1:8080 max_fails=0 backup;\n";
pub(crate) const HERE: [u8; 4] = [127, 0, 0, 1];
/// In which the tests' nginx tells who has answered.
pub(crate) const ANSWERED_BY: &str = "x-node";

/// An nginx with the sample, changed only in what its first lines tell to change.
pub(crate) struct Nginx {
    process: Child,
    plain: u16,
    secure: u16,
    /// One for all: to make it takes as long as to connect, and there may be a thousand who do.
    tls: TlsConnector,
    /// Nodes' hosts and ports.
    nodes: Vec<String>,
}

impl Nginx {
    /// In front of the servers at these addresses.
    pub(crate) fn start(folder: &Path, nodes: &[&str]) -> Self {
        let made = rcgen::generate_simple_self_signed([NAME.to_owned(), "localhost".to_owned()])
            .expect("a certificate");
        fs::write(folder.join("cert.pem"), made.cert.pem()).expect("written");
        fs::write(folder.join("key.pem"), made.signing_key.serialize_pem()).expect("written");
        let mut ca = RootCertStore::empty();
        ca.add(CertificateDer::from_pem_file(folder.join("cert.pem")).expect("read")).expect("added");
        let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.expect("versions").with_root_certificates(ca).with_no_client_auth();

        let (plain, secure) = (free_port(), free_port());
        let mut site = SAMPLE.to_owned();
        let nodes: Vec<String> =
            nodes.iter().map(|url| url.trim_start_matches("http://").to_owned()).collect();
        let lines = |line: &str| -> String {
            nodes.iter().map(|node| line.replace("127.0.0.1:8080", node)).collect()
        };
        // As the sample says: from two nodes on.
        let backup = if nodes.len() > 1 { BACKUP.replace("# ", "") } else { BACKUP.to_owned() };
        for (sample, here) in [
            (NODE, lines(NODE)),
            (BACKUP, lines(&backup)),
            ("listen 80;", format!("listen 127.0.0.1:{plain};")),
            ("listen 443 ", format!("listen 127.0.0.1:{secure} ")),
            ("/etc/tenure/tls/cert.pem", folder.join("cert.pem").display().to_string()),
            ("/etc/tenure/tls/key.pem", folder.join("key.pem").display().to_string()),
        ] {
            assert_eq!(site.matches(sample).count(), 1, "{sample}");
            site = site.replace(sample, &here);
        }
        let process = run(folder, &site, secure);
        Self { process, plain, secure, tls: TlsConnector::from(Arc::new(config)), nodes }
    }

    /// Which of the nodes has answered, by what nginx says of it: all that it has asked, the last one last.
    pub(crate) fn node_of(&self, asked: &str) -> Option<usize> {
        let last = asked.rsplit([' ', ',']).next()?;
        self.nodes.iter().position(|node| node == last)
    }

    /// The same, of an answer.
    pub(crate) fn node_in(&self, answer: &str) -> Option<usize> {
        let (head, _) = answer.split_once("\r\n\r\n")?;
        self.node_of(head.lines().find_map(|line| line.strip_prefix(ANSWERED_BY)?.strip_prefix(": "))?)
    }

    /// From one of this machine's own addresses.
    pub(crate) async fn connect(&self, from: [u8; 4]) -> TlsStream<tokio::net::TcpStream> {
        self.try_connect(from).await.expect("TLS")
    }

    /// The same; an error where it took longer than nginx waits.
    pub(crate) async fn try_connect(
        &self,
        from: [u8; 4],
    ) -> std::io::Result<TlsStream<tokio::net::TcpStream>> {
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        socket.bind(SocketAddr::from((from, 0))).expect("an address");
        let stream = socket.connect(SocketAddr::from((Ipv4Addr::LOCALHOST, self.secure))).await?;
        self.tls.connect(ServerName::try_from(NAME).expect("a name"), stream).await
    }

    /// A request over TLS, and the whole answer.
    pub(crate) async fn ask(&self, from: [u8; 4], head: &str, body: &str) -> String {
        let mut stream = self.connect(from).await;
        let request = format!(
            "{head}\r\nHost: {NAME}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
             X-Tenure-CSRF: 1\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await.expect("sent");
        let mut answer = Vec::new();
        // nginx ends the connection, and not always TLS before it.
        let _ = stream.read_to_end(&mut answer).await;
        text(&answer)
    }
}

/// An nginx that serves this site, once it listens there.
fn run(folder: &Path, site: &str, port: u16) -> Child {
    fs::write(folder.join("site.conf"), site).expect("written");
    let at = folder.display();
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let temporary = temporary.map(|word| format!("{word}_temp_path {at}/{word};")).join(" ");
    let whole = format!(
        "daemon off; master_process off; worker_rlimit_nofile 8192; pid {at}/pid; error_log {at}/error.log; events {{ worker_connections 4096; }}\n\
         http {{ access_log off; add_header {ANSWERED_BY} $upstream_addr always; {temporary} include {at}/site.conf; }}\n"
    );
    let main = folder.join("nginx.conf");
    fs::write(&main, whole).expect("written");

    let nginx = |more: &[&str]| {
        let mut command = Command::new("nginx");
        command.args(["-e", "stderr", "-c"]).arg(&main).args(more).stdin(Stdio::null());
        command
    };
    let checked = nginx(&["-t"]).output().expect("nginx is there");
    assert!(checked.status.success(), "{}", text(&checked.stderr));
    let process = nginx(&[]).stderr(Stdio::null()).spawn().expect("starts");
    until("nginx listens", || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok());
    process
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn free_port() -> u16 {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    TcpListener::bind(address).and_then(|listener| listener.local_addr()).expect("a port").port()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn r25_behind_the_sample_nginx_requests_sessions_and_sockets_work() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = serve(&folder.path().join("data"));
    command.env("TENURE_ADMIN_KEY", ADMIN).env("TENURE_NETWORK_TRUSTED_PROXIES", "127.0.0.1");
    let server = Server::of(command);
    let nginx = Nginx::start(folder.path(), &[&server.url]);

    // A socket, upgraded through TLS and nginx.
    let stream = nginx.connect(HERE).await;
    let mut request =
        format!("wss://{NAME}/v1/collections/lock/default/ws").into_client_request().expect("a request");
    let bearer = format!("Bearer {ADMIN}").parse().expect("a header");
    request.headers_mut().insert("authorization", bearer);
    let (mut socket, upgraded) = tokio_tungstenite::client_async(request, stream).await.expect("upgraded");
    assert_eq!(upgraded.status(), 101);
    let mut next = async || {
        let message = socket.next().await.expect("a message").expect("whole");
        message.into_text().expect("text").to_string()
    };
    assert!(next().await.contains(r#""type":"snapshot""#));

    // The command line, over HTTPS: what it does comes out of the socket.
    let ran = tenure()
        .args(["run", "--key", "nightly", "--ca-file"])
        .arg(folder.path().join("cert.pem"))
        .args(["--", "true"])
        .env("TENURE_URL", format!("https://localhost:{}", nginx.secure))
        .env("TENURE_KEY", ADMIN)
        .output()
        .expect("runs");
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    let mut seen = next().await;
    while !seen.contains("claim_granted") {
        seen = next().await;
    }
    assert!(seen.contains("nightly"), "{seen}");

    // The server knows that there is TLS in front of it: it tells browsers to stay with it.
    let signed_in = nginx.ask(HERE, "POST /v1/session HTTP/1.1", &format!(r#"{{"key":"{ADMIN}"}}"#)).await;
    assert!(signed_in.starts_with("HTTP/1.1 201"), "{signed_in}");
    assert!(signed_in.contains("; Secure"), "{signed_in}");
    assert_eq!(signed_in.to_lowercase().matches("strict-transport-security:").count(), 1, "{signed_in}");

    // Figures stay with the operator, who is on this machine; a page without TLS is sent to the one with it.
    let figures = nginx.ask(HERE, "GET /metrics HTTP/1.1", "").await;
    assert!(figures.starts_with("HTTP/1.1 200") && figures.contains("tenure_"), "{figures}");
    let figures = nginx.ask([127, 0, 0, 2], "GET /metrics HTTP/1.1", "").await;
    assert!(figures.starts_with("HTTP/1.1 403") && !figures.contains("tenure_"), "{figures}");
    let mut plain =
        tokio::net::TcpStream::connect((Ipv4Addr::LOCALHOST, nginx.plain)).await.expect("connects");
    let head = format!("GET /app/tasks HTTP/1.1\r\nHost: {NAME}\r\nConnection: close\r\n\r\n");
    plain.write_all(head.as_bytes()).await.expect("sent");
    let mut moved = String::new();
    plain.read_to_string(&mut moved).await.expect("read");
    assert!(moved.starts_with("HTTP/1.1 308"), "{moved}");
    assert!(moved.contains(&format!("https://{NAME}/app/tasks")), "{moved}");
}

/// A node that dies with every answer, and counts what it was asked.
fn dying() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = [0; 4096];
            // Read whole before it ends, so that nginx knows that it was taken.
            if stream.read(&mut head).is_ok_and(|read| read > 0) {
                count.fetch_add(1, Ordering::SeqCst);
            }
        }
    });
    (url, asked)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn i11_a_change_that_reached_a_node_is_sent_to_no_other() {
    const KEY: &str = "\r\nIdempotency-Key: 1";
    const ITEM: &str = "/v1/collections/lock/a/items/b";
    const BEAT: &str = "/v1/claims/lock~a~1/heartbeat";
    // What changes nothing is asked again, as often as there are tries: that is what nginx would do with PUT and DELETE,
    // too. With a key it may be asked once more where keys count, and so may a heartbeat.
    for (method, path, key, times) in [
        ("GET", ITEM, "", 3),
        ("PUT", ITEM, "", 1),
        ("PUT", ITEM, KEY, 1),
        ("PUT", BEAT, "", 1),
        ("DELETE", ITEM, "", 1),
        ("POST", ITEM, "", 1),
        ("POST", ITEM, "\r\nIdempotency-Key:", 1),
        ("POST", ITEM, KEY, 2),
        ("POST", BEAT, "", 2),
        ("POST", "/v1/claims/lock~a~1/release?as=/heartbeat", "", 1),
        ("PATCH", ITEM, "", 1),
        ("PATCH", ITEM, KEY, 1),
    ] {
        // Anew for each, since nginx remembers for a while which nodes have failed.
        let folder = tempfile::tempdir().expect("a folder");
        let (first, second) = (dying(), dying());
        let nginx = Nginx::start(folder.path(), &[&first.0, &second.0]);
        let head = format!("{method} {path} HTTP/1.1{key}");
        let answer = nginx.ask(HERE, &head, "").await;
        assert!(answer.starts_with("HTTP/1.1 502"), "{head}: {answer}");
        let asked = first.1.load(Ordering::SeqCst) + second.1.load(Ordering::SeqCst);
        assert_eq!(asked, times, "{head}");
        let asked = by_compose(&head).await;
        assert_eq!(asked, times, "{head}, by the compose file's nginx");
    }
}

/// How often nodes that die with their answer are asked by the nginx of the compose file.
async fn by_compose(head: &str) -> usize {
    let folder = tempfile::tempdir().expect("a folder");
    let (first, second, third, port) = (dying(), dying(), dying(), free_port());
    let mut site = COMPOSE.replace("listen 8080;", &format!("listen 127.0.0.1:{port};"));
    for (name, node) in [("node-1:8080", &first.0), ("node-2:8080", &second.0), ("node-3:8080", &third.0)] {
        assert_eq!(site.matches(name).count(), 2, "{name}");
        site = site.replace(name, node.trim_start_matches("http://"));
    }
    let mut process = run(folder.path(), &site, port);
    let mut stream = tokio::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.expect("connects");
    let request = format!("{head}\r\nHost: a\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    let _ = process.kill();
    let _ = process.wait();
    assert!(text(&answer).starts_with("HTTP/1.1 502"), "{head}: {}", text(&answer));
    [first, second, third].iter().map(|node| node.1.load(Ordering::SeqCst)).sum()
}
