//! kill -9 in the middle of work. Callers in this process know what they were told; it is compared with the server's own
//! record after each restart, and as one serial history at the end.

use std::time::{Duration, Instant};

use super::{Given, Outcome};
use crate::history::{self, Compared};
use crate::load::{Load, record};
use crate::random::Random;
use crate::server::Server;

const CALLERS: u64 = 8;
/// Then another collection, so that comparing all does not grow with the square of the kills.
const PER_COLLECTION: u64 = 10;

/// Kills it so often.
pub fn run(given: Given<'_>) -> Outcome {
    let mut server = Server::new(given.program, given.folder)?;
    let mut random = Random::new(given.count);
    let mut total = Compared::default();
    let mut left = given.count;
    server.start()?;
    for span in 0.. {
        if left == 0 {
            break;
        }
        let load = Load::new(server.address, &format!("lock/drill-{span}"));
        let mut away = Duration::ZERO;
        load.beside(CALLERS, || {
            for _ in 0..left.min(PER_COLLECTION) {
                std::thread::sleep(Duration::from_millis(20 + random.below(200)));
                let killed = Instant::now();
                server.kill();
                // All of this was answered by a process that is gone.
                let answered = load.so_far();
                server.start()?;
                away = away.max(killed.elapsed());
                let record = record(&mut server.caller(), &load.collection)?;
                history::check(&answered, &record, Some(given.late() + away))?;
                given.bar.inc(1);
            }
            Ok(())
        })?;
        left -= left.min(PER_COLLECTION);
        let record = record(&mut server.caller(), &load.collection)?;
        // What ran out while nobody was there is noticed at the next start.
        total = total.and(history::check(&load.so_far(), &record, Some(given.late() + away))?);
    }
    server.stop()?;
    server.check()?;
    if !total.is_of_all() {
        return Err(format!("hardly anything happened: {total:?}").into());
    }
    let Compared { grants, unheard, beats, ends, writes, refusals, losses, reads, expiries } = total;
    Ok(format!(
        "{grants} grants, {ends} ends, {expiries} expiries, {beats} heartbeats, {writes} writes, {reads} reads, {losses} \
         losses, {refusals} refusals in one serial history; {unheard} changes unheard of"
    ))
}
