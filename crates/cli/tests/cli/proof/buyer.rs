//! Buyers: each asks until it has an answer, with the same idempotency key, and keeps every answer.

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;

use crate::nginx::{NAME, Nginx};

pub(crate) const NUMBERS: u64 = 200;
pub(crate) const SECRET: &str = "a-secret-that-only-the-tests-sign-tokens-with";
/// A node whose network is gone answers nothing; a person would reload the page by then.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long somebody waits who is told that it does not work now: what `Retry-After` says.
const PAUSE: Duration = Duration::from_secs(1);
/// The same, where only one node does not work.
const SHORT_PAUSE: Duration = Duration::from_millis(50);
/// What may be answered to somebody who does nothing wrong.
const EXPECTED: &[&str] = &["held", "finished", "lost", "in_progress", "away", "stopped"];

/// What everybody was told.
pub(crate) struct Told {
    /// Claims that were granted: whose, and on what.
    pub(crate) granted: Mutex<BTreeMap<String, (String, Vec<String>)>>,
    /// Claims that were completed: what they had is sold.
    pub(crate) sold: Mutex<BTreeMap<String, Vec<String>>>,
    pub(crate) released: Mutex<BTreeSet<String>>,
    pub(crate) refusals: Mutex<BTreeMap<String, u64>>,
    /// Answers that were no refusals.
    pub(crate) count: AtomicU64,
    /// Which node last answered each buyer, and when.
    pub(crate) served: Mutex<BTreeMap<u64, (usize, Instant)>>,
    /// Buyers from this number on take a rest: where each is looked at, as many are there as the machine can serve in time.
    pub(crate) first_to_rest: AtomicU64,
    pub(crate) resting: AtomicU64,
    pub(crate) over: AtomicBool,
}

impl Default for Told {
    fn default() -> Self {
        Self {
            granted: Mutex::default(),
            sold: Mutex::default(),
            released: Mutex::default(),
            refusals: Mutex::default(),
            count: AtomicU64::new(0),
            served: Mutex::default(),
            first_to_rest: AtomicU64::new(u64::MAX),
            resting: AtomicU64::new(0),
            over: AtomicBool::new(false),
        }
    }
}

impl Told {
    async fn rest(&self, number: u64) {
        let rests =
            || number >= self.first_to_rest.load(Ordering::SeqCst) && !self.over.load(Ordering::SeqCst);
        if !rests() {
            return;
        }
        self.resting.fetch_add(1, Ordering::SeqCst);
        while rests() {
            let _ = timeout(SHORT_PAUSE, pending::<()>()).await;
        }
        self.resting.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A buyer, at an address and a connection of its own.
pub(crate) struct Buyer {
    pub(crate) nginx: Arc<Nginx>,
    pub(crate) told: Arc<Told>,
    pub(crate) number: u64,
}

impl Buyer {
    pub(crate) async fn run(self) {
        let [_, _, high, low] = u32::try_from(self.number).expect("few").to_be_bytes();
        let mut line =
            Line { nginx: self.nginx, number: self.number, from: [127, 1, high, low], stream: None };
        let name = format!("buyer-{}", self.number);
        let token = token(&name);
        for visit in 0_u64.. {
            if self.told.over.load(Ordering::SeqCst) && visit > 0 {
                return;
            }
            self.told.rest(self.number).await;
            let mixed = (self.number * 7_919 + visit + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16;
            visit_once(&mut line, &self.told, (&name, &token), (visit, mixed)).await;
        }
    }
}

/// Claims one to three numbers; buys them, or thinks better of it.
async fn visit_once(line: &mut Line, told: &Told, (name, token): (&str, &str), (visit, mixed): (u64, u64)) {
    let items: Vec<String> =
        (0..=mixed % 3).map(|nth| format!("{:03}", (mixed / 3 + nth * 37) % NUMBERS)).collect();
    let body = json!({ "collection": "ticket/hall", "items": items });
    let Some(claim) = ask(line, told, token, ("/v1/claims", &body, &format!("{visit}-claim"))).await else {
        return;
    };
    let id = claim["id"].as_str().expect("an id").to_owned();
    told.granted.lock().insert(id.clone(), (name.to_owned(), items.clone()));
    // Few buy, so that there is something to buy until the end.
    if (mixed >> 8).is_multiple_of(40) {
        let (path, body) = (format!("/v1/claims/{id}/complete"), json!({ "status": "sold" }));
        if ask(line, told, token, (&path, &body, &format!("{visit}-buy"))).await.is_some() {
            told.sold.lock().insert(id, items);
        }
    } else {
        let path = format!("/v1/claims/{id}/cancel");
        if ask(line, told, token, (&path, &json!({}), &format!("{visit}-cancel"))).await.is_some() {
            told.released.lock().insert(id);
        }
    }
}

/// Asks until there is an answer; `None` when it is no.
async fn ask(
    line: &mut Line,
    told: &Told,
    token: &str,
    (path, body, key): (&str, &Value, &str),
) -> Option<Value> {
    loop {
        line.connect().await;
        let answer = timeout(PATIENCE, line.post(path, token, key, &body.to_string())).await.ok().flatten();
        let Some(Answer { status, body: answer, node }) = answer else {
            // Nobody knows what came of it: the same key finds out.
            line.stream = None;
            continue;
        };
        let serve = || {
            let node = node.expect("nginx says who answered");
            told.served.lock().insert(line.number, (node, Instant::now()));
        };
        if let 200 | 201 = status {
            serve();
            told.count.fetch_add(1, Ordering::SeqCst);
            return serde_json::from_str(&answer).ok();
        }
        let refusal: Value = serde_json::from_str(&answer).unwrap_or_default();
        let code = if let Some(code) = refusal["code"].as_str() {
            assert!(EXPECTED.contains(&code), "{status} {path}: {answer}");
            // A node that can do nothing now serves nobody.
            if status != 503 {
                serve();
            }
            code.to_owned()
        } else {
            // nginx, of a node that is gone.
            assert!(matches!(status, 502 | 504), "{status} {path}: {answer}");
            format!("nginx {status}")
        };
        *told.refusals.lock().entry(code.clone()).or_default() += 1;
        if matches!(&*code, "held" | "finished" | "lost") {
            return None;
        }
        let pause = if code == "away" { PAUSE } else { SHORT_PAUSE };
        let _ = timeout(pause, pending::<()>()).await;
    }
}

/// What came back.
struct Answer {
    status: u16,
    body: String,
    /// Which node it came from.
    node: Option<usize>,
}

/// A connection to nginx that is used again.
struct Line {
    nginx: Arc<Nginx>,
    /// Whose.
    number: u64,
    from: [u8; 4],
    stream: Option<TlsStream<TcpStream>>,
}

impl Line {
    /// With all the patience that there is: nginx is always there, and a thousand who give up and come again only keep
    /// it busy.
    async fn connect(&mut self) {
        while self.stream.is_none() {
            self.stream = self.nginx.try_connect(self.from).await.ok();
        }
    }

    /// The answer; `None` when there was none.
    async fn post(&mut self, path: &str, token: &str, key: &str, body: &str) -> Option<Answer> {
        let mut stream = self.stream.take()?;
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: {NAME}\r\nAuthorization: Bearer {token}\r\nIdempotency-Key: {key}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut answer = Vec::new();
        let head = loop {
            if let Some(end) = answer.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
            if stream.read_buf(&mut answer).await.ok()? == 0 {
                return None;
            }
        };
        let text = String::from_utf8_lossy(&answer[..head]).to_ascii_lowercase();
        let status = text.split(' ').nth(1)?.parse().ok()?;
        let length =
            text.lines().find_map(|line| line.strip_prefix("content-length: "))?.parse::<usize>().ok()?;
        while answer.len() < head + length {
            if stream.read_buf(&mut answer).await.ok()? == 0 {
                return None;
            }
        }
        if !text.contains("connection: close") {
            self.stream = Some(stream);
        }
        let node = self.nginx.node_in(&text);
        Some(Answer { status, body: String::from_utf8_lossy(&answer[head..]).into_owned(), node })
    }
}

/// A token of the application that buyers have signed in to.
pub(crate) fn token(name: &str) -> String {
    let claims = json!({
        "sub": name, "name": name, "role": "editor", "iss": "tests", "aud": "tenure", "exp": 4_000_000_000_u64
    });
    let signed =
        format!("{}.{}", base64(br#"{"alg":"HS256","typ":"JWT"}"#), base64(claims.to_string().as_bytes()));
    let pad = |with: u8| {
        let mut block = [with; 64];
        block.iter_mut().zip(SECRET.bytes()).for_each(|(block, byte)| *block ^= byte);
        block
    };
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(&signed).finalize();
    let mac = Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize();
    format!("{signed}.{}", base64(&mac))
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let bits = three.iter().fold(0_usize, |bits, byte| bits << 8 | usize::from(*byte))
            << (8 * (3 - three.len()));
        text.extend((0..=three.len()).map(|nth| char::from(DIGITS[bits >> (18 - 6 * nth) & 63])));
    }
    text
}
