//! The same work for a long time takes no more memory than for a short one.

use std::time::{Duration, Instant};

use super::{Given, Outcome};
use crate::history;
use crate::load::{Load, record};
use crate::server::Server;

const CALLERS: u64 = 8;
/// Each is judged and then forgotten, or the drill itself would grow.
const LEG: Duration = Duration::from_secs(3);
/// What allocators, caches and page tables may take meanwhile.
const SLACK_BYTES: u64 = 24 << 20;
/// Answers under an idempotency key that the server has in memory whole, and those that it knows at all: up to so
/// many, it is meant to grow, by so many bytes each.
const KEPT: [(u64, u64); 2] = [(100_000, 700), (2_000_000, 128)];

/// Works for so many seconds.
pub fn run(given: Given<'_>) -> Outcome {
    let mut server = Server::new(given.program, given.folder)?;
    server.start()?;
    let (whole, begun) = (Duration::from_secs(given.count), Instant::now());
    let (mut requests, mut early) = (0, None);
    for leg in 0.. {
        if begun.elapsed() >= whole {
            break;
        }
        let load = Load::new(server.address, &format!("lock/memory-{leg}"));
        load.beside(CALLERS, || {
            std::thread::sleep(LEG.min(whole));
            Ok(())
        })?;
        let ops = load.so_far();
        history::check(&ops, &record(&mut server.caller(), &load.collection)?, Some(given.late()))?;
        requests += ops.len() as u64;
        if early.is_none() && begun.elapsed() >= whole / 3 {
            early = Some((server.resident_bytes()?, requests));
        }
        given.bar.set_position(begun.elapsed().as_secs());
    }
    let late = server.resident_bytes()?;
    server.stop()?;
    let (early, by_then) = early.unwrap_or((late, requests));
    let kept = KEPT.map(|(most, bytes)| (requests.min(most) - by_then.min(most)) * bytes);
    let said = format!("{} MB after a third, {} MB at the end, {requests} requests", early >> 20, late >> 20);
    if late > early + early / 10 + SLACK_BYTES + kept.into_iter().sum::<u64>() {
        Err(format!("memory grows: {said}").into())
    } else {
        Ok(said)
    }
}
