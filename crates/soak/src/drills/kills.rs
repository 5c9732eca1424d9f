//! kill -9 in the middle of work. Callers in this process know what they were told; it is compared with the server's own
//! record after each restart, and as one serial history at the end.

use std::time::Duration;

use super::{Given, Outcome};
use crate::history;
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
    let mut total = history::Compared::default();
    let mut left = given.count;
    server.start()?;
    for span in 0.. {
        if left == 0 {
            break;
        }
        let load = Load::new(server.address, &format!("lock/drill-{span}"));
        load.beside(CALLERS, || {
            for _ in 0..left.min(PER_COLLECTION) {
                std::thread::sleep(Duration::from_millis(20 + random.below(200)));
                server.kill();
                // All of this was answered by a process that is gone.
                let answered = load.so_far();
                server.start()?;
                history::check(&answered, &record(&mut server.caller(), &load.collection)?)?;
                given.bar.inc(1);
            }
            Ok(())
        })?;
        left -= left.min(PER_COLLECTION);
        let compared = history::check(&load.so_far(), &record(&mut server.caller(), &load.collection)?)?;
        total = total.and(compared);
    }
    server.stop()?;
    server.check()?;
    if total.grants == 0 || total.refusals == 0 || total.releases == 0 {
        return Err(format!("hardly anything happened: {total:?}").into());
    }
    let history::Compared { grants, releases, refusals, unheard } = total;
    Ok(format!(
        "{grants} grants, {releases} releases, {refusals} refusals in one serial history; {unheard} grants unheard of"
    ))
}
