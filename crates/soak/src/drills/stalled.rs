//! Clients that stall: subscribers that never read, over sockets and streams, and requests that come byte by byte. Whoever
//! behaves beside them must not notice: their p99 is at most twice what it was while nobody stalled.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_recv_buffer_size;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};

use super::{Given, Outcome};
use crate::Failure;
use crate::history::{self, Op};
use crate::http::Caller;
use crate::load::{Load, record};
use crate::server::{KEY, Server};

const CALLERS: u64 = 4;
const ROUNDS: usize = 3;
const SPAN: Duration = Duration::from_millis(1_500);
/// Below this nobody notices, and a busy machine is slower than that by itself.
const NOTICED_MS: f64 = 5.0;
/// What subscribers are told of: a document, ten times a second, which they don't take.
const NEWS: &str = "lock/news";
const NEWS_EVERY: Duration = Duration::from_millis(100);
const NEWS_BYTES: usize = 100;
/// What fills a connection whose other end has room for next to nothing.
const NEWS_UNTIL_FULL: usize = 16;
const FILL_BYTES: usize = 16_000;
const ROOM_BYTES: usize = 4_096;
/// A byte of a request, as those who mean to keep a server busy send it.
const DRIBBLE_EVERY: Duration = Duration::from_millis(500);
/// Files beside those of the clients.
const OTHER_FILES: u64 = 256;

/// Beside so many.
pub fn run(given: Given<'_>) -> Outcome {
    allow_connections(given.count)?;
    let mut server = Server::new(given.program, given.folder)?;
    server.start()?;
    put(&mut server.caller(), &format!("/v1/collections/{NEWS}"), &json!({}))?;
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    // Taken in turns: the machine is not equally busy all the time.
    for round in 0..ROUNDS {
        alone.push(p99_ms(&worked(&server, round * 2)?));
        let over = AtomicBool::new(false);
        let p99 = std::thread::scope(|scope| {
            let mut stalled = Stalled::connect(server.address, given.count)?;
            // Until nothing more goes into them: what is measured is those that stall, not what it takes to tell so many.
            let mut wire = server.caller();
            for nth in 0..NEWS_UNTIL_FULL {
                tell(&mut wire, &format!("f{round}-{nth}"), FILL_BYTES)?;
            }
            let over = &over;
            let dribble = scope.spawn(move || stalled.dribble(over));
            let ops = worked(&server, round * 2 + 1);
            over.store(true, Ordering::Relaxed);
            dribble.join().map_err(|_| "the dribbling one panicked")?;
            Ok::<_, Failure>(p99_ms(&ops?))
        })?;
        beside.push(p99);
        given.bar.inc(given.count / ROUNDS as u64);
    }
    server.stop()?;
    let (alone, beside) = (median(alone), median(beside));
    let said = format!("p99 {alone:.1} ms alone, {beside:.1} ms beside {} that stall", given.count);
    if beside > (2.0 * alone).max(NOTICED_MS) { Err(said.into()) } else { Ok(said) }
}

/// For this process and the server that it starts.
fn allow_connections(count: u64) -> Result<(), Failure> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|now| now < count + OTHER_FILES) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(count + OTHER_FILES), ..limit })
            .map_err(|_| format!("{count} connections are more than this system allows: ulimit -Hn"))?;
    }
    Ok(())
}

/// What callers saw, while there was news now and then.
fn worked(server: &Server, round: usize) -> Result<Vec<Op>, Failure> {
    let load = Load::new(server.address, &format!("lock/stalled-{round}"));
    load.beside(CALLERS, || {
        let (mut wire, begun) = (server.caller(), Instant::now());
        for nth in 0.. {
            if begun.elapsed() >= SPAN {
                break;
            }
            tell(&mut wire, &format!("n{round}-{nth}"), NEWS_BYTES)?;
            std::thread::sleep(NEWS_EVERY);
        }
        Ok(())
    })?;
    let ops = load.so_far();
    history::check(&ops, &record(&mut server.caller(), &load.collection)?)?;
    Ok(ops)
}

fn tell(wire: &mut Caller, item: &str, bytes: usize) -> Result<(), Failure> {
    let news = json!({"data": {"text": "x".repeat(bytes)}});
    put(wire, &format!("/v1/collections/{NEWS}/items/{item}"), &news)
}

fn put(wire: &mut Caller, path: &str, body: &Value) -> Result<(), Failure> {
    let answer = wire.ask("PUT", path, None, body)?;
    if answer.status / 100 == 2 {
        Ok(())
    } else {
        Err(format!("{path}: {} {}", answer.status, answer.body).into())
    }
}

struct Stalled {
    /// Never read from once they are subscribed.
    _subscribed: Vec<TcpStream>,
    /// Never finished.
    dribbling: Vec<TcpStream>,
}

impl Stalled {
    /// A third each.
    fn connect(server: SocketAddr, count: u64) -> Result<Self, Failure> {
        let (mut subscribed, mut dribbling) = (Vec::new(), Vec::new());
        for nth in 0..count {
            let mut stream = TcpStream::connect(server)?;
            set_socket_recv_buffer_size(&stream, ROOM_BYTES)?;
            let of = match nth % 3 {
                0 => "events?since=0 HTTP/1.1\r\naccept: text/event-stream",
                1 => {
                    "ws HTTP/1.1\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
                     sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA=="
                }
                _ => {
                    stream.write_all(b"POST /v1/claims HTTP/1.1\r\nhost: tenure\r\nx-slow: ")?;
                    dribbling.push(stream);
                    continue;
                }
            };
            let request = format!(
                "GET /v1/collections/{NEWS}/{of}\r\nhost: tenure\r\nauthorization: Bearer {KEY}\r\n\r\n"
            );
            stream.write_all(request.as_bytes())?;
            // Or they would stall without being subscribed.
            let mut first = String::new();
            BufReader::with_capacity(64, &stream).read_line(&mut first)?;
            if !first.starts_with("HTTP/1.1 200") && !first.starts_with("HTTP/1.1 101") {
                return Err(format!("a subscriber was refused: {first}").into());
            }
            subscribed.push(stream);
        }
        Ok(Self { _subscribed: subscribed, dribbling })
    }

    /// A byte each, now and then, until it is over or they are cut off.
    fn dribble(&mut self, over: &AtomicBool) {
        while !over.load(Ordering::Relaxed) {
            self.dribbling.retain_mut(|stream| stream.write_all(b"a").is_ok());
            std::thread::sleep(DRIBBLE_EVERY);
        }
    }
}

fn p99_ms(ops: &[Op]) -> f64 {
    let mut took: Vec<u64> = ops.iter().map(|op| op.answered - op.asked).collect();
    took.sort_unstable();
    let at = (took.len() * 99 / 100).min(took.len().saturating_sub(1));
    Duration::from_nanos(took.get(at).copied().unwrap_or_default()).as_secs_f64() * 1_000.0
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
