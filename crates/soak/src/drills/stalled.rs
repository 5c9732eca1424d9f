//! Clients that stall: subscribers that never read, and requests that come byte by byte. Whoever behaves beside them must
//! not notice: their p99 is at most twice what it was, and a few milliseconds of a busy machine.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::{Given, Outcome};
use crate::Failure;
use crate::history::{self, Op};
use crate::load::{Load, record};
use crate::server::{KEY, Server};

const CALLERS: u64 = 4;
const ROUNDS: usize = 3;
const SPAN: Duration = Duration::from_millis(1_500);
const SLACK_MS: f64 = 5.0;

/// Beside so many.
pub fn run(given: Given<'_>) -> Outcome {
    let mut server = Server::new(given.program, given.folder)?;
    server.start()?;
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    // Taken in turns: the machine is not equally busy all the time.
    for round in 0..ROUNDS {
        alone.push(p99_ms(&worked(&server, round * 2)?));
        let over = AtomicBool::new(false);
        let collection = name(round * 2 + 1);
        let p99 = std::thread::scope(|scope| {
            let mut stalled = Stalled::connect(server.address, &collection, given.count)?;
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
    if beside > 2.0 * alone + SLACK_MS { Err(said.into()) } else { Ok(said) }
}

fn name(round: usize) -> String {
    format!("lock/stalled-{round}")
}

fn worked(server: &Server, round: usize) -> Result<Vec<Op>, Failure> {
    let load = Load::new(server.address, &name(round));
    load.beside(CALLERS, || {
        std::thread::sleep(SPAN);
        Ok(())
    })?;
    let ops = load.so_far();
    history::check(&ops, &record(&mut server.caller(), &load.collection)?)?;
    Ok(ops)
}

struct Stalled {
    /// Never read from.
    _subscribed: Vec<TcpStream>,
    /// Never finished.
    dribbling: Vec<TcpStream>,
}

impl Stalled {
    fn connect(server: SocketAddr, collection: &str, count: u64) -> Result<Self, Failure> {
        let (mut subscribed, mut dribbling) = (Vec::new(), Vec::new());
        for nth in 0..count {
            let mut stream = TcpStream::connect(server)?;
            if nth % 2 == 0 {
                let request = format!(
                    "GET /v1/collections/{collection}/events?since=0 HTTP/1.1\r\nhost: tenure\r\nauthorization: Bearer {KEY}\r\n\
                     accept: text/event-stream\r\n\r\n"
                );
                stream.write_all(request.as_bytes())?;
                subscribed.push(stream);
            } else {
                stream.write_all(b"POST /v1/claims HTTP/1.1\r\nhost: tenure\r\nx-slow: ")?;
                dribbling.push(stream);
            }
        }
        Ok(Self { _subscribed: subscribed, dribbling })
    }

    /// A byte each, now and then, until it is over or they are cut off.
    fn dribble(&mut self, over: &AtomicBool) {
        while !over.load(Ordering::Relaxed) {
            self.dribbling.retain_mut(|stream| stream.write_all(b"a").is_ok());
            std::thread::sleep(Duration::from_millis(50));
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
