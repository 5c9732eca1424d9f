//! The same work for a long time takes no more memory than for a short one.

use std::time::{Duration, Instant};

use super::{Given, Outcome};
use crate::history;
use crate::load::{Load, record};
use crate::server::Server;

const CALLERS: u64 = 8;
/// What allocators, caches and page tables may take meanwhile.
const SLACK_BYTES: u64 = 24 << 20;

/// Works for so many seconds.
pub fn run(given: Given<'_>) -> Outcome {
    let mut server = Server::new(given.program, given.folder)?;
    server.start()?;
    let load = Load::new(server.address, "lock/memory");
    let whole = Duration::from_secs(given.count);
    let (early, late) = load.beside(CALLERS, || {
        let begun = Instant::now();
        let mut early = 0;
        while begun.elapsed() < whole {
            std::thread::sleep(Duration::from_millis(200).min(whole));
            if early == 0 && begun.elapsed() >= whole / 3 {
                early = server.resident_bytes()?;
            }
            given.bar.set_position(begun.elapsed().as_secs());
        }
        Ok((early, server.resident_bytes()?))
    })?;
    let ops = load.so_far();
    history::check(&ops, &record(&mut server.caller(), &load.collection)?)?;
    server.stop()?;
    let said =
        format!("{} MB after a third, {} MB at the end, {} requests", early >> 20, late >> 20, ops.len());
    if late > early + early / 10 + SLACK_BYTES {
        Err(format!("memory grows: {said}").into())
    } else {
        Ok(said)
    }
}
