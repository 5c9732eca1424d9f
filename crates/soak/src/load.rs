//! Callers that claim, hold, write, read and let go, and write down what they asked and what they heard. Whoever gets no
//! answer asks again, under the same idempotency key where there is one, or, every fourth caller, gives up and never knows.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Failure;
use crate::heard::understood;
use crate::history::{Asks, Got, Op, SeenItem};
use crate::http::Caller;
use crate::random::Random;
use crate::server::KEY;

/// Few items for many callers, so that they are in each other's way.
const ITEMS: u64 = 24;
/// Longer than a restart takes, so that claims go over it.
const TTL_MS: u64 = 60_000;
/// The shortest there is: for those who walk away.
const SHORT_MS: u64 = 1_000;
/// Who walked away comes back after this, and finds out.
const COMES_BACK: Duration = Duration::from_millis(SHORT_MS + 250);
/// Claims that a caller comes back to.
const LEFT_MAX: usize = 32;
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
            let running: Vec<_> =
                (0..callers).map(|number| scope.spawn(move || Calling::new(self, number).run())).collect();
            let result = during();
            self.over.store(true, Ordering::Relaxed);
            for caller in running {
                caller.join().map_err(|_| "a caller panicked")??;
            }
            result
        })
    }

    /// What has been asked so far, with the answers that there are.
    pub fn so_far(&self) -> Vec<Op> {
        self.ops.lock().map(|ops| ops.clone()).unwrap_or_default()
    }

    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// One caller.
struct Calling<'a> {
    load: &'a Load,
    wire: Caller,
    random: Random,
    /// Asks once and never again.
    forgets: bool,
    number: u64,
    /// Marks so far.
    marks: u64,
    /// Claims that it let run out.
    left: VecDeque<(Instant, Held)>,
}

/// A claim of one's own.
struct Held {
    number: u64,
    items: Vec<String>,
}

impl<'a> Calling<'a> {
    fn new(load: &'a Load, number: u64) -> Self {
        let (wire, random) = (Caller::new(load.address, KEY), Random::new(number + 1));
        Self { load, wire, random, forgets: number % 4 == 3, number, marks: 0, left: VecDeque::new() }
    }

    fn run(mut self) -> Result<(), Failure> {
        for round in 0.. {
            if self.load.over.load(Ordering::Relaxed) {
                break;
            }
            self.come_back()?;
            let session = format!("{}-{}-{round}", self.load.collection.replace('/', "~"), self.number);
            let walks_away = self.one_in(8) || self.forgets;
            let ttl_ms = if walks_away { SHORT_MS } else { TTL_MS };
            let items = some_items(&mut self.random);
            let asks = Asks::Claim { session, items: items.clone() };
            match self.ask(asks, &json!({ "ttl_ms": ttl_ms }))? {
                Got::Claim(number) => self.hold(Held { number, items }, walks_away)?,
                Got::Held(by) if self.one_in(8) => self.look_on(&by[0].0)?,
                // Or nearly all that happens would be refusals.
                _ => std::thread::sleep(GIVE_WAY),
            }
        }
        Ok(())
    }

    fn hold(&mut self, held: Held, walks_away: bool) -> Result<(), Failure> {
        match self.random.below(8) {
            0 => drop(self.beat(&held)?),
            1 | 2 => {
                let item = held.items[0].clone();
                if let Some(seen) = self.read(&item)? {
                    self.write(&item, seen.version, Some(&held))?;
                }
            }
            3 => drop(self.ask(Asks::ReadClaim(held.number), &Value::Null)?),
            _ => {}
        }
        if walks_away && self.one_in(2) {
            if self.left.len() < LEFT_MAX {
                self.left.push_back((Instant::now(), held));
            }
            return Ok(());
        }
        if self.one_in(4) {
            let mark = self.mark();
            self.ask(
                Asks::Complete { claim: held.number, mark: mark.clone() },
                &json!({"data": {"mark": mark}}),
            )?;
        } else {
            self.ask(Asks::Release(held.number), &Value::Null)?;
        }
        match self.random.below(16) {
            0 => drop(self.ask(Asks::ReadClaim(held.number), &Value::Null)?),
            // Whatever version it is: the claim is over.
            1 => self.write(&held.items[0], 1, Some(&held))?,
            _ => {}
        }
        Ok(())
    }

    /// To a claim that must have run out meanwhile.
    fn come_back(&mut self) -> Result<(), Failure> {
        let is_time = self.left.front().is_some_and(|(since, _)| since.elapsed() > COMES_BACK);
        let Some((_, held)) = self.left.pop_front_if(|_| is_time) else { return Ok(()) };
        match self.random.below(4) {
            0 => drop(self.beat(&held)?),
            1 => drop(self.ask(Asks::Release(held.number), &Value::Null)?),
            2 => drop(self.ask(Asks::ReadClaim(held.number), &Value::Null)?),
            _ => self.write(&held.items[0], 1, Some(&held))?,
        }
        Ok(())
    }

    /// At what somebody else has, and may write to it: all of them are one person to the server.
    fn look_on(&mut self, item: &str) -> Result<(), Failure> {
        match self.read(item)? {
            Some(seen) if self.one_in(4) => self.write(item, seen.version, None),
            _ => Ok(()),
        }
    }

    fn beat(&mut self, held: &Held) -> Result<Got, Failure> {
        self.ask(Asks::Beat(held.number), &json!({"token": held.number}))
    }

    fn read(&mut self, item: &str) -> Result<Option<SeenItem>, Failure> {
        match self.ask(Asks::ReadItem(item.to_owned()), &Value::Null)? {
            Got::Item(seen) => Ok(Some(seen)),
            _ => Ok(None),
        }
    }

    fn write(&mut self, item: &str, version: u64, held: Option<&Held>) -> Result<(), Failure> {
        let mark = self.mark();
        let body = json!({"data": {"mark": mark}, "version": version});
        let under = held.map(|held| held.number);
        self.ask(Asks::Write { item: item.to_owned(), version, under, mark }, &body)?;
        Ok(())
    }

    /// Asks until there is an answer, or once.
    fn ask(&mut self, asks: Asks, body: &Value) -> Result<Got, Failure> {
        let request = Request::of(&asks, &self.load.collection, body);
        let first = Instant::now();
        let op =
            Op { asked: self.load.now(), answered: u64::MAX, is_repeated: false, asks, got: Got::Nothing };
        let asks = op.asks.clone();
        // Before it is sent: whoever judges meanwhile must know that somebody asks.
        let at = self.note(|ops| {
            ops.push(op);
            ops.len() - 1
        })?;
        let got = loop {
            let key = request.key.as_deref();
            let answer = self.wire.ask(request.method, &request.path, key, &request.body);
            match answer.map(|answer| understood(&asks, &answer)) {
                Ok(Some(got)) => break got?,
                _ if self.forgets => break Got::Nothing,
                _ if first.elapsed() > GIVE_UP => {
                    return Err("no answer for a minute".into());
                }
                // The server is away, or says so.
                _ => {
                    self.note(|ops| ops[at].is_repeated = true)?;
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
        };
        let answered = self.load.now();
        self.note(|ops| {
            ops[at].answered = answered;
            ops[at].got = got.clone();
        })?;
        Ok(got)
    }

    fn note<T>(&self, note: impl FnOnce(&mut Vec<Op>) -> T) -> Result<T, Failure> {
        Ok(note(&mut *self.load.ops.lock().map_err(|_| "a caller panicked")?))
    }

    fn mark(&mut self) -> String {
        self.marks += 1;
        format!("m{}-{}", self.number, self.marks)
    }

    fn one_in(&mut self, so_many: u64) -> bool {
        self.random.below(so_many) == 0
    }
}

/// How it is asked.
struct Request {
    method: &'static str,
    path: String,
    key: Option<String>,
    body: Value,
}

impl Request {
    /// With what else stands in the body.
    fn of(asks: &Asks, collection: &str, body: &Value) -> Self {
        let id = |claim: &u64| format!("{}~{claim}", collection.replace('/', "~"));
        let at_claim = |claim: &u64| format!("/v1/claims/{}", id(claim));
        let at_item = |item: &str| format!("/v1/collections/{collection}/items/{item}");
        let mut body = body.clone();
        let (method, path, key) = match asks {
            Asks::Claim { session, items } => {
                body["collection"] = json!(collection);
                body["items"] = json!(items);
                body["session"] = json!(session);
                ("POST", "/v1/claims".to_owned(), Some(session.clone()))
            }
            Asks::Beat(claim) => ("POST", format!("{}/heartbeat", at_claim(claim)), None),
            Asks::Release(claim) => ("DELETE", at_claim(claim), None),
            Asks::Complete { claim, mark } => {
                body["token"] = json!(claim);
                ("POST", format!("{}/complete", at_claim(claim)), Some(mark.clone()))
            }
            Asks::Write { item, under, .. } => {
                if let Some(claim) = under {
                    body["claim_id"] = json!(id(claim));
                    body["token"] = json!(claim);
                }
                ("PUT", at_item(item), None)
            }
            Asks::ReadItem(item) => ("GET", at_item(item), None),
            Asks::ReadClaim(claim) => ("GET", at_claim(claim), None),
        };
        Self { method, path, key, body }
    }
}

fn some_items(random: &mut Random) -> Vec<String> {
    let mut items: Vec<_> = (0..=random.below(3)).map(|_| format!("i{:02}", random.below(ITEMS))).collect();
    items.sort_unstable();
    items.dedup();
    items
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
