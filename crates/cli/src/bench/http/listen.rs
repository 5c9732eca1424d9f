//! Those who listen, all in one thread: each message of each socket is read, and its time taken when it is there.
//! A task for each socket would cost as much as the server's part, on the same two cores.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Instant;

use hdrhistogram::Histogram;
use memchr::memmem;
use parking_lot::Mutex;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};

use crate::bench::load::{micros, new_histogram};
use tenure_load::wire::frame;

/// The answer to a ping: empty, and masked with zeros.
const PONG: &[u8] = &[0x8a, 0x80, 0, 0, 0, 0];
/// Sockets that are looked at together.
const TOGETHER: usize = 1_024;
/// How often new sockets are looked for while nothing is heard.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// A thread that listens until this is dropped.
pub(super) struct Listening {
    shared: Arc<Shared>,
    sockets: Sender<Socket>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    started: Instant,
    /// When each event was asked for, in microseconds since the start; 0 before that.
    sent_us: Vec<AtomicU64>,
    heard: AtomicU64,
    latency: Mutex<Histogram<u64>>,
    failed: Mutex<Option<io::Error>>,
    is_over: AtomicBool,
}

/// A socket, and what was not a whole frame yet.
struct Socket {
    stream: TcpStream,
    before: Vec<u8>,
}

impl Listening {
    /// For so many events.
    pub(super) fn start(events: u64) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            started: Instant::now(),
            sent_us: (0..events).map(|_| AtomicU64::new(0)).collect(),
            heard: AtomicU64::new(0),
            latency: Mutex::new(new_histogram()),
            failed: Mutex::new(None),
            is_over: AtomicBool::new(false),
        });
        let (sockets, new) = channel();
        let poll = epoll::create(CreateFlags::CLOEXEC)?;
        let theirs = shared.clone();
        let thread = std::thread::Builder::new().name("listeners".to_owned()).spawn(move || {
            if let Err(error) = listen(&theirs, &poll, &new) {
                theirs.failed.lock().get_or_insert(error);
            }
        })?;
        Ok(Self { shared, sockets, thread: Some(thread) })
    }

    /// One more socket, of which this was read already.
    pub(super) fn add(&self, stream: TcpStream, before: Vec<u8>) -> io::Result<()> {
        self.sockets.send(Socket { stream, before }).map_err(|_| self.why())
    }

    /// An event is asked for now.
    pub(super) fn note_sent(&self, number: u64) {
        if let Some(sent_us) = usize::try_from(number).ok().and_then(|number| self.shared.sent_us.get(number))
        {
            sent_us.store(micros(self.shared.started.elapsed()), Ordering::Release);
        }
    }

    /// How many messages about events were heard by now, or why nobody listens any more.
    pub(super) fn heard(&self) -> io::Result<u64> {
        if self.shared.failed.lock().is_some() {
            return Err(self.why());
        }
        Ok(self.shared.heard.load(Ordering::Acquire))
    }

    /// Microseconds from asking to hearing.
    pub(super) fn latency(&self) -> Histogram<u64> {
        self.shared.latency.lock().clone()
    }

    fn why(&self) -> io::Error {
        self.shared.failed.lock().take().unwrap_or_else(|| io::Error::other("nobody listens"))
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn listen(shared: &Shared, poll: &OwnedFd, new: &Receiver<Socket>) -> io::Result<()> {
    let mut sockets: Vec<Socket> = Vec::new();
    let mut events: Vec<Event> = Vec::with_capacity(TOGETHER);
    let mut buffer = vec![0; 64 * 1024];
    while !shared.is_over.load(Ordering::Acquire) {
        while let Ok(mut socket) = new.try_recv() {
            let used = note(&socket.before, shared).0;
            socket.before.drain(..used);
            let number = EventData::new_u64(sockets.len() as u64);
            // Each arrival is told once: what was read to its end needs no second look.
            epoll::add(poll, &socket.stream, number, EventFlags::IN | EventFlags::RDHUP | EventFlags::ET)?;
            sockets.push(socket);
        }
        events.clear();
        match epoll::wait(poll, rustix::buffer::spare_capacity(&mut events), Some(&LOOK_EVERY)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in &events {
            let (number, flags) = (event.data.u64(), event.flags);
            let Some(socket) = usize::try_from(number).ok().and_then(|number| sockets.get_mut(number)) else {
                continue;
            };
            while socket.hear(&mut buffer, shared)? {}
            if flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR) {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
    }
    Ok(())
}

impl Socket {
    /// Reads once; whether there may be more.
    fn hear(&mut self, buffer: &mut [u8], shared: &Shared) -> io::Result<bool> {
        let read = match self.stream.read(buffer) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        };
        let is_pinged;
        if self.before.is_empty() {
            let used;
            (used, is_pinged) = note(&buffer[..read], shared);
            if used < read {
                self.before.extend_from_slice(&buffer[used..read]);
            }
        } else {
            self.before.extend_from_slice(&buffer[..read]);
            let used;
            (used, is_pinged) = note(&self.before, shared);
            self.before.drain(..used);
            if self.before.is_empty() {
                self.before = Vec::new();
            }
        }
        if is_pinged {
            self.stream.write_all(PONG)?;
        }
        Ok(read == buffer.len())
    }
}

/// Notes the events among these frames; how many bytes they were, and whether one of them is a ping.
fn note(bytes: &[u8], shared: &Shared) -> (usize, bool) {
    let (mut at, mut is_pinged) = (0, false);
    while let Some((from, to)) = frame(&bytes[at..]) {
        let sent_us = event_of(&bytes[at + from..at + to])
            .and_then(|number| shared.sent_us.get(number))
            .map_or(0, |sent_us| sent_us.load(Ordering::Acquire));
        if sent_us > 0 {
            let took_us = micros(shared.started.elapsed()).saturating_sub(sent_us);
            shared.latency.lock().saturating_record(took_us);
            shared.heard.fetch_add(1, Ordering::Release);
        }
        is_pinged |= bytes[at] & 0x0f == 0x9;
        at += to;
    }
    (at, is_pinged)
}

/// The number in `"event-17."`, the name of the item that it is about.
pub(crate) fn event_of(message: &[u8]) -> Option<usize> {
    let start = memmem::find(message, b"\"event-")? + 7;
    let end = start + memchr::memchr(b'.', &message[start..])?;
    std::str::from_utf8(&message[start..end]).ok()?.parse().ok()
}
