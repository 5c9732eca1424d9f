//! What the auditor knows of the server's clock. Inside one process it runs beside real time at a fixed
//! distance; a restart sets the distance anew, but committed time never comes again.

use super::{Check, violation};

/// While claims are active the server commits the time at least this often.
const MARK_MS: i64 = 5_000;

#[derive(Clone, Debug, Default)]
pub(crate) struct Time {
    /// The newest time that the server showed in this process.
    pub(crate) server_ms: i64,
    /// The highest time that was surely committed.
    pub(crate) committed_ms: i64,
    /// The highest time that may have been committed.
    pub(crate) maybe_ms: i64,
    /// Each process: its first server time, and server time minus real time.
    processes: Vec<(i64, i64)>,
}

impl Time {
    pub(crate) fn started(&mut self, real_ms: i64, server_ms: i64) -> Check {
        if server_ms < self.committed_ms {
            return violation(
                "time",
                format!("the server started at {server_ms}, but {} was committed", self.committed_ms),
            );
        }
        self.server_ms = server_ms;
        self.processes.push((server_ms, server_ms - real_ms));
        Ok(())
    }

    pub(crate) fn turned(&mut self, real_ms: i64, server_ms: i64) -> Check {
        if server_ms < self.server_ms {
            return violation(
                "time",
                format!("the server's time went from {} to {server_ms}", self.server_ms),
            );
        }
        if self.processes.last().is_some_and(|(_, ahead_ms)| server_ms - real_ms != *ahead_ms) {
            return violation("time", format!("the server's clock jumped to {server_ms} within a process"));
        }
        self.server_ms = server_ms;
        self.maybe_ms = self.maybe_ms.max(server_ms);
        Ok(())
    }

    /// A turn went well: with live claims the committed time is at most one mark behind.
    pub(crate) fn marked(&mut self, committed: bool, live: bool) {
        let surely_ms = match (committed, live) {
            (true, _) => self.server_ms,
            (false, true) => self.server_ms - MARK_MS,
            (false, false) => return,
        };
        self.committed_ms = self.committed_ms.max(surely_ms);
    }

    /// When, in real time, the server's clock shows this. A time before the newest start was shown by
    /// an earlier process.
    pub(crate) fn real_ms(&self, server_ms: i64) -> i64 {
        let process = self.processes.iter().rev().find(|(first_ms, _)| *first_ms <= server_ms);
        let process = process.or(self.processes.first());
        server_ms - process.map_or(0, |(_, ahead_ms)| *ahead_ms)
    }
}
