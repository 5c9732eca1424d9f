//! Requests by hand, where it matters to which node they go.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use serde_json::Value;

use crate::process::ADMIN;

/// Longer than a node looks for its database before it says that there is none.
const PATIENCE: Duration = Duration::from_secs(30);

/// One request as an administrator: the status and the body, or nothing where nobody answered.
pub(crate) fn ask(url: &str, method: &str, path: &str, key: &str, body: &Value) -> Option<(u16, Value)> {
    let address = url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let key = if key.is_empty() { String::new() } else { format!("Idempotency-Key: {key}\r\n") };
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {ADMIN}\r\nConnection: close\r\n\
         Content-Type: application/json\r\n{key}Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, serde_json::from_str(body).unwrap_or(Value::Null)))
}

/// Somebody who hears of a collection's events from one node, from the first on, and comes back where it was cut off.
pub(crate) struct Listener {
    heard: Arc<Heard>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Heard {
    events: Mutex<Vec<(Instant, Value)>>,
    more: Condvar,
    over: AtomicBool,
}

impl Listener {
    pub(crate) fn on(url: &str, collection: &str) -> Self {
        let heard = Arc::<Heard>::default();
        let (url, collection, shared) = (url.to_owned(), collection.to_owned(), heard.clone());
        let thread = std::thread::spawn(move || {
            while !shared.over.load(Ordering::SeqCst) {
                // What ends a stream, and a node that answers nothing: both are tried again.
                let _ = listen(&url, &collection, &shared);
            }
        });
        Self { heard, thread: Some(thread) }
    }

    /// What it heard so far.
    pub(crate) fn events(&self) -> Vec<(Instant, Value)> {
        self.heard.events.lock().clone()
    }

    /// Waits until it heard of so many events; when it heard of the last of them.
    pub(crate) fn until(&self, count: usize) -> Instant {
        let mut events = self.heard.events.lock();
        while events.len() < count {
            let waited = self.heard.more.wait_for(&mut events, PATIENCE);
            assert!(!waited.timed_out(), "it heard of {} events, and never of {count}", events.len());
        }
        events[count - 1].0
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.heard.over.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn listen(url: &str, collection: &str, heard: &Heard) -> std::io::Result<()> {
    let address = url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address)?;
    // To see now and then whether it is over.
    stream.set_read_timeout(Some(Duration::from_millis(100)))?;
    let since = heard.events.lock().last().map_or(Value::from(0), |(_, event)| event["seq"].clone());
    let request = format!(
        "GET /v1/collections/{collection}/events?since={since} HTTP/1.1\r\nHost: {address}\r\n\
         Authorization: Bearer {ADMIN}\r\nAccept: text/event-stream\r\n\r\n"
    );
    stream.write_all(request.as_bytes())?;
    let mut lines = BufReader::new(stream);
    let mut line = String::new();
    while !heard.over.load(Ordering::SeqCst) {
        match lines.read_line(&mut line) {
            Ok(0) => return Ok(()),
            // A node that is without its database refuses.
            Ok(_) if line.starts_with("HTTP/1.1 ") && !line.starts_with("HTTP/1.1 200") => return Ok(()),
            Ok(_) => {
                if let Some(data) = line.strip_prefix("data: ") {
                    let event: Value = serde_json::from_str(data)?;
                    assert!(event["seq"].is_u64(), "it hears of events alone: {event}");
                    heard.events.lock().push((Instant::now(), event));
                    heard.more.notify_all();
                }
                line.clear();
            }
            // The part of a line that has come stays.
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
