//! WebSockets: commands without waiting for their answers, and one collection's events to very many.

use std::cell::{Cell, RefCell};
use std::io::{self, ErrorKind};
use std::rc::Rc;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use indicatif::ProgressBar;
use memchr::memmem;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::claims::id_of;
use super::run::Step;
use crate::bench::Result;
use crate::bench::load::{micros, new_histogram};
use tenure_load::wire::{Target, Wire, frame, push_frame};

/// Commands of one socket in flight. The server reads 1,024 ahead.
const IN_FLIGHT: usize = 256;
/// Sockets that are opened at the same time.
const OPENING: usize = 128;
/// Between events: ten a second.
const EVENT_EVERY: Duration = Duration::from_millis(100);
/// The answer to a ping: empty, and masked with zeros.
const PONG: &[u8] = &[0x8a, 0x80, 0, 0, 0, 0];
/// An event that is not there after so long is lost.
const LOST_AFTER: Duration = Duration::from_secs(20);

/// Claims and releases of as many items as may be in flight, each as soon as its answer is there.
pub(crate) struct Pipeline {
    wire: Wire,
    slots: Vec<Slot>,
    out: Vec<u8>,
    started: bool,
}

struct Slot {
    claim: Vec<u8>,
    is_held: bool,
    asked: Instant,
}

impl Pipeline {
    /// The socket follows a quiet collection: what is measured are the commands, and not the events beside.
    pub(crate) async fn connect(target: &Target, collection: &str, caller: usize) -> io::Result<Self> {
        let wire = target.open_socket(&format!("{collection}-quiet")).await?;
        let slot = |number: usize| {
            let command = format!(
                r#"{{"id":{number},"command":{{"op":"acquire","collection":"{collection}","items":["s{caller}-{number}"]}}}}"#
            );
            Slot { claim: command.into_bytes(), is_held: false, asked: Instant::now() }
        };
        let slots = (0..IN_FLIGHT).map(slot).collect();
        Ok(Self { wire, slots, out: Vec::new(), started: false })
    }
}

impl Step for Pipeline {
    async fn step(&mut self, latency: &mut Histogram<u64>) -> io::Result<u64> {
        if std::mem::replace(&mut self.started, true) {
            self.wire.more().await?;
        } else {
            for slot in &mut self.slots {
                push_frame(&slot.claim, &mut self.out);
                slot.asked = Instant::now();
            }
        }
        let mut answered = 0;
        let now = Instant::now();
        while let Some(message) = self.wire.message() {
            let Some(reply) = message.strip_prefix(b"{\"type\":\"reply\",\"id\":") else { continue };
            let (number, status, body) =
                read_reply(reply).ok_or_else(|| io::Error::other("a strange reply"))?;
            let slot = self.slots.get_mut(number).ok_or_else(|| io::Error::other("nobody asked that"))?;
            if status != if slot.is_held { b"204" } else { b"201" } {
                return Err(io::Error::other(String::from_utf8_lossy(reply).into_owned()));
            }
            slot.is_held = !slot.is_held;
            if slot.is_held {
                let id = id_of(body).ok_or_else(|| io::Error::other("a claim without an id"))?;
                let mut release =
                    format!(r#"{{"id":{number},"command":{{"op":"release","claim":""#).into_bytes();
                release.extend_from_slice(id);
                release.extend_from_slice(b"\"}}");
                push_frame(&release, &mut self.out);
            } else {
                push_frame(&slot.claim, &mut self.out);
            }
            latency.saturating_record(micros(now - slot.asked));
            slot.asked = now;
            answered += 1;
        }
        self.wire.send(&self.out).await?;
        self.out.clear();
        Ok(answered)
    }

    /// What is held runs out by itself.
    async fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// `17,"status":201,"body":{…}}`
fn read_reply(reply: &[u8]) -> Option<(usize, &[u8], &[u8])> {
    let comma = memchr::memchr(b',', reply)?;
    let number = std::str::from_utf8(&reply[..comma]).ok()?.parse().ok()?;
    let rest = reply[comma..].strip_prefix(b",\"status\":")?;
    let body = rest.get(3..)?.strip_prefix(b",\"body\":")?;
    Some((number, &rest[..3], body))
}

/// What a fan-out measured.
pub(crate) struct Fanned {
    /// Microseconds from sending the command to the event's arrival, at each socket.
    pub(crate) latency: Histogram<u64>,
    pub(crate) deliveries: u64,
}

/// Sockets on one collection.
pub(crate) struct Audience {
    heard: Rc<Heard>,
    collection: String,
    count: u64,
    /// They listen until this is dropped.
    _listening: JoinSet<()>,
}

/// What all sockets have heard, and one buffer for them all: one of them reads at a time.
struct Heard {
    latency: RefCell<Histogram<u64>>,
    sent: RefCell<Vec<Instant>>,
    count: Cell<u64>,
    failed: RefCell<Option<io::Error>>,
    /// The socket that reads now was asked whether it is still there.
    pinged: Cell<bool>,
    buffer: RefCell<Vec<u8>>,
}

impl Audience {
    pub(crate) async fn open(
        target: &Target,
        collection: &str,
        count: u64,
        bar: &ProgressBar,
    ) -> Result<Self> {
        let heard = Rc::new(Heard {
            latency: RefCell::new(new_histogram()),
            sent: RefCell::default(),
            count: Cell::new(0),
            failed: RefCell::default(),
            pinged: Cell::new(false),
            buffer: RefCell::new(vec![0; 64 * 1024]),
        });
        let (mut opening, mut listening) = (JoinSet::new(), JoinSet::new());
        let mut left = count;
        loop {
            while left > 0 && opening.len() < OPENING {
                let (target, collection) = (target.clone(), collection.to_owned());
                opening.spawn_local(async move { target.open_socket(&collection).await });
                left -= 1;
            }
            let Some(opened) = opening.join_next().await else { break };
            let (stream, before) = opened??.into_parts();
            let heard = heard.clone();
            listening.spawn_local(async move {
                if let Err(error) = listen(stream, before, &heard).await {
                    heard.failed.borrow_mut().get_or_insert(error);
                }
            });
            bar.inc(1);
        }
        Ok(Self { heard, collection: collection.to_owned(), count, _listening: listening })
    }

    /// Lets so many events happen and waits until each socket has heard each.
    pub(crate) async fn tell(&self, target: &Target, events: u64, bar: &ProgressBar) -> Result<Fanned> {
        let mut wire = target.connect().await?;
        let mut pace = tokio::time::interval(EVENT_EVERY);
        pace.tick().await;
        for number in 0..events {
            pace.tick().await;
            let body = format!(r#"{{"collection":"{}","items":["event-{number}."]}}"#, self.collection);
            let request = target.request("POST", "/v1/claims", &body);
            self.heard.sent.borrow_mut().push(Instant::now());
            wire.send(&request).await?;
            wire.answer().await?.expect(201)?;
            bar.inc(1);
        }
        let (all, last) = (self.count * events, Instant::now());
        while self.heard.count.get() < all {
            if let Some(error) = self.heard.failed.borrow_mut().take() {
                return Err(error.into());
            }
            if last.elapsed() > LOST_AFTER {
                let heard = self.heard.count.get();
                return Err(format!("only {heard} of {all} events arrived").into());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(Fanned { latency: self.heard.latency.borrow().clone(), deliveries: all })
    }
}

/// Hears one socket to its end. What was not a whole frame waits for the rest.
async fn listen(stream: TcpStream, mut before: Vec<u8>, heard: &Heard) -> io::Result<()> {
    let mut used = note(&before, heard);
    before.drain(..used);
    loop {
        stream.readable().await?;
        let mut buffer = heard.buffer.borrow_mut();
        let read = match stream.try_read(&mut buffer) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error),
        };
        if before.is_empty() {
            used = note(&buffer[..read], heard);
            before.extend_from_slice(&buffer[used..read]);
        } else {
            before.extend_from_slice(&buffer[..read]);
            used = note(&before, heard);
            before.drain(..used);
        }
        if before.is_empty() {
            before = Vec::new();
        }
        if heard.pinged.take() {
            stream.try_write(PONG)?;
        }
    }
}

/// Notes the events among these frames; how many bytes they were.
fn note(bytes: &[u8], heard: &Heard) -> usize {
    let mut at = 0;
    while let Some((from, to)) = frame(&bytes[at..]) {
        if let Some(number) = event_of(&bytes[at + from..at + to])
            && let Some(sent) = heard.sent.borrow().get(number)
        {
            heard.latency.borrow_mut().saturating_record(micros(sent.elapsed()));
            heard.count.set(heard.count.get() + 1);
        }
        if bytes[at] & 0x0f == 0x9 {
            heard.pinged.set(true);
        }
        at += to;
    }
    at
}

/// The number in `"event-17."`, the name of the item that it is about.
fn event_of(message: &[u8]) -> Option<usize> {
    let start = memmem::find(message, b"\"event-")? + 7;
    let end = start + memchr::memchr(b'.', &message[start..])?;
    std::str::from_utf8(&message[start..end]).ok()?.parse().ok()
}
