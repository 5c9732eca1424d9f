//! How many files may be open. A connection is one, and so is what keeps the data: whoever only connects must not take what
//! the journal needs.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What is not a connection of ours: the journal, the archive and its readers, uploads, the database, gateways.
const OTHERS: u64 = 256;

/// Raises this process's limit as far as it may, for so many connections. Answers how many fit.
pub(super) fn fit(connections: usize) -> usize {
    let wanted = OTHERS + connections as u64;
    let limit = getrlimit(Resource::Nofile);
    let allowed = limit.maximum.map_or(wanted, |maximum| maximum.min(wanted));
    if limit.current.is_some_and(|current| current < allowed) {
        // Where it fails, what is there counts.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(allowed), ..limit });
    }
    getrlimit(Resource::Nofile).current.map_or(connections, |open| connections.min(beside_others(open)))
}

/// Of a small limit the others get half.
fn beside_others(open: u64) -> usize {
    usize::try_from(open - OTHERS.min(open / 2)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_room_for_the_rest() {
        let check = |open, connections| assert_eq!(beside_others(open), connections, "{open}");
        check(20_256, 20_000);
        check(1_024, 768);
        check(64, 32);
        check(1, 1);
    }
}
