//! Rubbish on the wire: what never becomes a request, and sockets that never open.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use tenure_engine::Engine;
use tenure_server::config::Config;
use tenure_server::gateway::fake::FakeGateway;
use tenure_server::identity::Secret;
use tenure_server::{Metrics, Rates, Server, router, shield};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::inputs;
use crate::judge;
use crate::random::Random;
use crate::spoil::{Spoiled, spoil};
use crate::templates::templates;
use crate::world::{ADMIN, Known, SERVER_SECRET, engine, furnish, state};

pub(crate) const SOON: Duration = Duration::from_secs(20);

/// A server on a port of its own, with something to lose.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) engine: Engine,
    pub(crate) known: Known,
    _kept: (FakeGateway, tempfile::TempDir),
}

impl Running {
    pub(crate) async fn start() -> Self {
        let mut config = Config { listen: "127.0.0.1:0".parse().expect("an address"), ..Config::default() };
        config.secret = Some(Secret::new(SERVER_SECRET));
        config.admin_key = Some(Secret::new(ADMIN));
        let rates = &mut config.rates;
        for rate in
            [&mut rates.read, &mut rates.write, &mut rates.stream, &mut rates.admin, &mut rates.sign_in]
        {
            rate.per_second = 0;
        }
        rates.reserve.per_minute = 0;
        let fake = FakeGateway::start().await.expect("starts");
        let folder = tempfile::tempdir().expect("a folder");
        config.payments.gateway_url = Some(fake.base());
        config.payments.allowed_networks = vec!["127.0.0.1".to_owned()];
        config.payments.secrets_dir = Some(folder.path().join("secrets"));
        let engine = engine();
        let server = Server::open(&config, engine.clone(), Metrics::new()).await.expect("opens");
        let (address, app) = (server.address(), server.app().clone());
        let (routes, _) = router(app.clone());
        let known = furnish(&shield(routes.clone(), &app, Rates::new([]), Vec::new())).await;
        tokio::spawn(server.run(routes, std::future::pending()));
        Self { address, engine, known, _kept: (fake, folder) }
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("connects")
    }

    /// Everything that the server says to these bytes and the end of them.
    pub(crate) async fn say(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect().await;
        // It may refuse before it has heard all.
        let _ = stream.write_all(bytes).await;
        let _ = stream.shutdown().await;
        heard(&mut stream).await
    }

    /// It still works.
    pub(crate) async fn is_well(&self) -> bool {
        let request = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        self.say(request).await.starts_with("HTTP/1.1 200")
    }
}

/// What comes until the other end closes.
pub(crate) async fn heard(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let read = tokio::time::timeout(SOON, stream.read_to_end(&mut bytes)).await;
    // A reset says the same as an end.
    let _ = read.expect("the server closes");
    String::from_utf8_lossy(&bytes).into_owned()
}

fn head(spoiled: &Spoiled) -> Vec<u8> {
    let mut bytes =
        format!("{} {} HTTP/1.1\r\nconnection: close\r\n", spoiled.method, spoiled.target).into_bytes();
    for (name, value) in &spoiled.headers {
        bytes.extend([name.as_bytes(), b": ", value, b"\r\n"].concat());
    }
    bytes
}

/// A head that is none, or a body that does not fit it.
fn bad_head(good: &Spoiled, random: &mut Random) -> Vec<u8> {
    let Spoiled { method, target, body, .. } = good;
    let line = format!("{method} {target} HTTP/1.1\r\n");
    let length = format!("content-length: {}\r\n\r\n", body.len());
    let with = |more: &[u8]| [&head(good), more, length.as_bytes(), body].concat();
    let long = format!("x: {}\r\n", "a".repeat(9_000));
    let many = "x-many: 1\r\n".repeat(200);
    let chunked =
        |body: &str| [&head(good), format!("transfer-encoding: chunked\r\n\r\n{body}").as_bytes()].concat();
    match random.below(26) {
        0 => with(long.as_bytes()),
        1 => with(many.as_bytes()),
        2 => with(b"no colon\r\n"),
        3 => with(b": no name\r\n"),
        4 => with(b"a name: x\r\n"),
        5 => with(b"x\0y: z\r\n"),
        6 => with(b"x: y\0z\r\n"),
        7 => with(b"x : y\r\n"),
        8 => with(b"content-length: 1\r\n"),
        9 => [&head(good), &b"content-length: -1\r\n\r\n"[..], body].concat(),
        10 => [&head(good), &b"content-length: seven\r\n\r\n"[..], body].concat(),
        11 => [&head(good), &b"content-length: 99999999999999999999999\r\n\r\n"[..], body].concat(),
        12 => [&head(good), format!("content-length: {}\r\n\r\n", body.len() + 9).as_bytes(), body].concat(),
        13 => chunked("zz\r\n{}\r\n0\r\n\r\n"),
        14 => chunked("ffffffffffffffff0\r\n{}\r\n"),
        15 => chunked("5\r\n{\"a\":"),
        16 => [&head(good), &b"transfer-encoding: gzip\r\n\r\n"[..], body].concat(),
        17 => format!("{method} {target}\r\n\r\n").into_bytes(),
        18 => format!("{method} {target} HTTP/7.3\r\n\r\n").into_bytes(),
        19 => format!("{method}{target} HTTP/1.1\r\n\r\n").into_bytes(),
        20 => format!("{method} nowhere HTTP/1.1\r\n\r\n").into_bytes(),
        21 => format!("{method} {target} and more HTTP/1.1\r\n\r\n").into_bytes(),
        22 => [line.as_bytes(), &random.bytes(300)].concat(),
        23 => [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), random.bytes(60)].concat(),
        24 => format!("{method} /{} HTTP/1.1\r\n\r\n", "a".repeat(9_000)).into_bytes(),
        _ => random.bytes(400),
    }
}

/// A problem, or hyper's own bare refusal, or nothing at all.
fn judged(answer: &str) -> Result<(), String> {
    if answer.is_empty() {
        return Ok(());
    }
    let (head, body) = answer.split_once("\r\n\r\n").ok_or("no whole answer")?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let lines = head.lines().filter(|line| !line.starts_with("x-request-id"));
    judge::told(&lines.collect::<Vec<_>>().join("\n"))?;
    if head.contains("application/problem+json") {
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        // What a request leaves behind may be taken for another one, and is answered too.
        let (body, next) = body.split_at_checked(length.unwrap_or(body.len())).ok_or("no whole answer")?;
        judge::problem(status, body)?;
        judged(next)
    } else if matches!(status, 400 | 414 | 431) && body.is_empty() {
        Ok(())
    } else {
        Err(format!("answered {status} as no problem"))
    }
}

/// E9
#[tokio::test]
async fn spoiled_bytes_that_never_become_a_request_are_refused_or_closed_and_change_nothing() {
    let server = Running::start().await;
    let all = templates(&server.known);
    let before = state(&server.engine);
    let mut random = Random(11);
    for number in 0..inputs() {
        let template = &all[number % all.len()];
        // Where nobody reads a body, a broken one is nobody's trouble.
        let bytes = if template.body.is_some() && random.below(4) > 0 {
            bad_head(&Spoiled::new(template), &mut random)
        } else {
            let spoiled = spoil(template, &mut random);
            let length = format!("content-length: {}\r\n\r\n", spoiled.body.len());
            [&head(&spoiled), length.as_bytes(), &spoiled.body].concat()
        };
        let answer = server.say(&bytes).await;
        let is_batch = template.is_batch && answer.starts_with("HTTP/1.1 200");
        let verdict = if is_batch {
            judge::batch(answer.split_once("\r\n\r\n").map_or("", |(_, body)| body))
        } else {
            judged(&answer)
        };
        let sent = String::from_utf8_lossy(&bytes);
        assert_eq!(verdict, Ok(()), "{number}: {sent:.600}\n→ {answer}");
        if number % 50 == 0 {
            assert_eq!(state(&server.engine), before, "{number}: {sent:.600}\n→ {answer}");
        }
    }
    assert_eq!(state(&server.engine), before);
    assert!(server.is_well().await);
}

/// The headers that make a request a socket.
pub(crate) const UPGRADE: &[(&str, &str)] = &[
    ("connection", "upgrade"),
    ("upgrade", "websocket"),
    ("sec-websocket-version", "13"),
    ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
];

pub(crate) fn upgrade(line: &str, headers: &[(&str, &str)]) -> String {
    let mut head = format!("{line}\r\nhost: localhost\r\nauthorization: Bearer {ADMIN}\r\n");
    for (name, value) in headers {
        head.extend([name, ": ", value, "\r\n"]);
    }
    head + "\r\n"
}

/// Heads that open a socket, and some that miss it by a word.
fn upgrades() -> Vec<Vec<u8>> {
    const PATH: &str = "/v1/collections/task/x/ws";
    let lines = [
        format!("GET {PATH} HTTP/1.1"),
        format!("GET {PATH}?since=0&epoch=1 HTTP/1.1"),
        format!("GET {PATH}?ticket=no HTTP/1.1"),
        format!("GET {PATH}?since=99999999999999999999 HTTP/1.1"),
        format!("POST {PATH} HTTP/1.1"),
        format!("GET {PATH} HTTP/1.0"),
        "GET /v1/collections/task/%FF/ws HTTP/1.1".to_owned(),
        "GET /v1/collections/task/../ws HTTP/1.1".to_owned(),
    ];
    let mut heads: Vec<_> = lines.iter().map(|line| upgrade(line, UPGRADE)).collect();
    for place in 0..UPGRADE.len() {
        let mut headers = UPGRADE.to_vec();
        headers[place].1 = "dGhl, 12";
        heads.push(upgrade(&lines[0], &headers));
    }
    heads.push(upgrade(&lines[0], &[UPGRADE, &[("origin", "null")]].concat()));
    heads.into_iter().map(String::into_bytes).collect()
}

/// A request that may become a socket, as another reader reads it.
fn may_open(bytes: &[u8]) -> bool {
    let mut fields = [httparse::EMPTY_HEADER; 100];
    let mut request = httparse::Request::new(&mut fields);
    if !request.parse(bytes).is_ok_and(|parsed| parsed.is_complete()) {
        return false;
    }
    let says = |name: &str, word: &str| {
        let found = request.headers.iter().filter(|field| field.name.eq_ignore_ascii_case(name));
        found
            .map(|field| String::from_utf8_lossy(field.value).to_lowercase())
            .any(|value| value.contains(word))
    };
    let key = |value: &[u8]| value.len() == 24 && value.ends_with(b"==");
    request.method == Some("GET")
        && request.path.is_some_and(|path| path.split('?').next().is_some_and(|path| path.ends_with("/ws")))
        && says("connection", "upgrade")
        && says("upgrade", "websocket")
        && says("sec-websocket-version", "13")
        && request
            .headers
            .iter()
            .any(|field| field.name.eq_ignore_ascii_case("sec-websocket-key") && key(field.value))
}

/// The answer without the name that it quotes: a parameter's name is the caller's, and can spell anything.
fn unnamed(answer: &str) -> String {
    let after = answer.split_once(r#""field":""#).and_then(|(_, rest)| rest.split_once(r#"","status""#));
    let Some((name, _)) = after else { return answer.to_owned() };
    let plain = "f".repeat(name.len());
    let detail = (format!(r#""detail":"{name}"#), format!(r#""detail":"{plain}"#));
    let field = (format!(r#""field":"{name}""#), format!(r#""field":"{plain}""#));
    answer.replacen(&detail.0, &detail.1, 1).replacen(&field.0, &field.1, 1)
}

/// E9, R13: an upgrade that is spoiled is refused, is a request of another sort that only reads, or is still one.
#[tokio::test]
async fn r13_a_spoiled_upgrade_opens_no_socket() {
    let server = Running::start().await;
    let corpus = upgrades();
    for (head, opens) in corpus.iter().zip([true, true, false, false, false, false, false, false]) {
        let answer = server.say(head).await;
        assert_eq!(answer.starts_with("HTTP/1.1 101"), opens, "{} → {answer}", head.escape_ascii());
        if !opens {
            assert_eq!(judged(&answer), Ok(()), "{} → {answer}", head.escape_ascii());
        }
    }
    let before = state(&server.engine);
    let (mut opened, mut distinct) = (0_u64, BTreeSet::new());
    for number in 1..=tenure_spoil::inputs() {
        let bytes = tenure_spoil::mutate(&corpus, &mut tenure_spoil::Random::new(number));
        let answer = server.say(&bytes).await;
        let verdict = match answer.get(9..12) {
            Some("101") if may_open(&bytes) => {
                opened += 1;
                Ok(())
            }
            Some("101") => Err("a socket".to_owned()),
            // Another route, which only reads.
            Some("200" | "304") if !may_open(&bytes) => Ok(()),
            _ => judged(&unnamed(&answer)),
        };
        assert_eq!(verdict, Ok(()), "{number}: {} → {answer}", bytes.escape_ascii());
        if number <= tenure_spoil::INPUTS {
            distinct.insert(bytes);
        }
    }
    assert!(opened > 0 && distinct.len() > 9_000, "{opened} of {}", distinct.len());
    assert_eq!(state(&server.engine), before);
    assert!(server.is_well().await);
}
