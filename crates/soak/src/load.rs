//! Callers that claim, hold and let go, and write down what they asked and what they heard. Whoever gets no answer asks
//! again under the same idempotency key, or, every fourth caller, gives up and never knows.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Failure;
use crate::history::{Asks, Got, Op};
use crate::http::{Answer, Caller};
use crate::random::Random;
use crate::server::KEY;

/// Few items for many callers, so that they are in each other's way.
const ITEMS: u64 = 24;
/// Longer than a restart takes, so that claims go over it.
const TTL_MS: u64 = 60_000;
/// The shortest there is: for those who walk away.
const SHORT_MS: u64 = 1_000;
/// Whoever is refused lets others go first.
const GIVE_WAY: Duration = Duration::from_millis(1);
/// After so long without an answer something is wrong with the drill's server.
const GIVE_UP: Duration = Duration::from_mins(1);

/// A load on one collection.
#[derive(Debug)]
pub struct Load {
    /// `kind/name`.
    pub collection: String,
    address: SocketAddr,
    begun: Instant,
    over: AtomicBool,
    ops: Mutex<Vec<Op>>,
}

impl Load {
    /// Nobody calls yet.
    pub fn new(address: SocketAddr, collection: &str) -> Self {
        let (over, ops) = (AtomicBool::new(false), Mutex::default());
        Self { collection: collection.to_owned(), address, begun: Instant::now(), over, ops }
    }

    /// Lets so many callers work while `during` runs, and waits until each has its last answer.
    pub fn beside<T>(&self, callers: u64, during: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
        std::thread::scope(|scope| {
            let running: Vec<_> = (0..callers).map(|caller| scope.spawn(move || self.call(caller))).collect();
            let result = during();
            self.over.store(true, Ordering::Relaxed);
            for caller in running {
                caller.join().map_err(|_| "a caller panicked")??;
            }
            result
        })
    }

    /// What has been answered so far, or given up.
    pub fn so_far(&self) -> Vec<Op> {
        self.ops.lock().map(|ops| ops.clone()).unwrap_or_default()
    }

    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn call(&self, caller: u64) -> Result<(), Failure> {
        let forgets = caller % 4 == 3;
        let mut random = Random::new(caller + 1);
        let mut wire = Caller::new(self.address, KEY);
        let name = self.collection.replace('/', "~");
        for round in 0.. {
            if self.over.load(Ordering::Relaxed) {
                break;
            }
            let session = format!("{name}-{caller}-{round}");
            let walks_away = random.below(8) == 0 || forgets;
            let ttl_ms = if walks_away { SHORT_MS } else { TTL_MS };
            let items = some_items(&mut random);
            let body =
                json!({"collection": self.collection, "items": items, "session": session, "ttl_ms": ttl_ms});
            let asks = Asks::Claim { session: session.clone(), items };
            let got = self.ask(&mut wire, forgets, asks, "POST", "/v1/claims", &session, &body)?;
            let Got::Claim(number) = got else {
                // Or nearly all that happens would be refusals.
                std::thread::sleep(GIVE_WAY);
                continue;
            };
            if walks_away && random.below(2) == 0 {
                continue;
            }
            let path = format!("/v1/claims/{name}~{number}");
            let key = format!("{session}-r");
            self.ask(&mut wire, forgets, Asks::Release(number), "DELETE", &path, &key, &Value::Null)?;
        }
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "it is one request")]
    fn ask(
        &self,
        wire: &mut Caller,
        forgets: bool,
        asks: Asks,
        method: &str,
        path: &str,
        key: &str,
        body: &Value,
    ) -> Result<Got, Failure> {
        let asked = self.now();
        let first = Instant::now();
        let got = loop {
            match wire.ask(method, path, Some(key), body).map(|answer| understood(&answer)) {
                Ok(Some(got)) => break got?,
                _ if forgets => break Got::Nothing,
                _ if first.elapsed() > GIVE_UP => {
                    return Err("no answer for a minute".into());
                }
                // The server is away, or says so.
                _ => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        let op = Op { asked, answered: self.now(), asks, got: got.clone() };
        self.ops.lock().map_err(|_| "a caller panicked")?.push(op);
        Ok(got)
    }
}

fn some_items(random: &mut Random) -> Vec<String> {
    let mut items: Vec<_> = (0..=random.below(3)).map(|_| format!("i{:02}", random.below(ITEMS))).collect();
    items.sort_unstable();
    items.dedup();
    items
}

/// `None`: not an answer to this yet.
fn understood(answer: &Answer) -> Option<Result<Got, Failure>> {
    let body = &answer.body;
    let code = body["code"].as_str().unwrap_or_default();
    match (answer.status, code) {
        (201, _) => {
            let number = body["id"].as_str().and_then(|id| id.rsplit('~').next()?.parse().ok());
            Some(number.map(Got::Claim).ok_or_else(|| "a claim without a number".into()))
        }
        (204, _) | (409 | 410, "expired" | "ended" | "gone") => Some(Ok(Got::Ended)),
        (409, "held") => {
            let first = &body["items"][0];
            let text = |name: &str| first[name].as_str().unwrap_or_default().to_owned();
            Some(Ok(Got::Held(text("item"), text("session"))))
        }
        // Without room nothing is done, and it is said at once.
        (507, _) => Some(Ok(Got::Full)),
        (503, _) => None,
        _ => Some(Err(format!("an answer that no drill expects: {} {body}", answer.status).into())),
    }
}

/// A collection's whole record.
pub fn record(wire: &mut Caller, collection: &str) -> Result<Vec<Value>, Failure> {
    let mut record: Vec<Value> = Vec::new();
    loop {
        let since = record.last().and_then(|event| event["seq"].as_u64()).unwrap_or(0);
        let path = format!("/v1/collections/{collection}/events?since={since}");
        let page = wire.ask("GET", &path, None, &Value::Null)?;
        if page.status != 200 {
            return Err(format!("the record cannot be read: {} {}", page.status, page.body).into());
        }
        let events = page.body["events"].as_array().cloned().unwrap_or_default();
        let newest = page.body["newest"].as_u64().unwrap_or(0);
        record.extend(events);
        let last = record.last().and_then(|event| event["seq"].as_u64()).unwrap_or(0);
        if last >= newest {
            return Ok(record);
        }
        if last == since {
            return Err(format!("the record stands still at {last} of {newest}").into());
        }
    }
}
