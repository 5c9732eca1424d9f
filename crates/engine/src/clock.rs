//! Time. Integer milliseconds, the server's alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// Where time comes from.
pub trait Clock: Send + Sync + 'static {
    /// Milliseconds since 1970, never running backwards within a process.
    fn now_ms(&self) -> i64;
}

/// The wall time read once at start, advanced by the boot-time clock: a jump of the wall clock neither
/// frees nor prolongs a claim, and time goes on while the machine sleeps.
#[derive(Debug)]
pub struct SystemClock {
    wall_at_start_ms: i64,
    boot_at_start_ms: i64,
}

impl SystemClock {
    /// Reads the wall clock, for the only time.
    #[expect(clippy::new_without_default, reason = "reading a clock is not a default")]
    pub fn new() -> Self {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let wall_at_start_ms = i64::try_from(wall.as_millis()).unwrap_or(i64::MAX / 2);
        Self { wall_at_start_ms, boot_at_start_ms: boot_ms() }
    }
}

impl Clock for SystemClock {
    fn now_ms(&self) -> i64 {
        self.wall_at_start_ms + (boot_ms() - self.boot_at_start_ms)
    }
}

fn boot_ms() -> i64 {
    let time = clock_gettime(ClockId::Boottime);
    time.tv_sec * 1_000 + time.tv_nsec / 1_000_000
}

/// A clock that tests move by hand.
#[derive(Clone, Debug, Default)]
pub struct ManualClock(Arc<AtomicI64>);

impl ManualClock {
    /// Starts at a time.
    pub fn at(now_ms: i64) -> Self {
        Self(Arc::new(AtomicI64::new(now_ms)))
    }

    /// Moves on.
    pub fn advance(&self, by_ms: i64) {
        self.0.fetch_add(by_ms, Ordering::SeqCst);
    }

    /// Jumps, also backwards: what a wall clock might do between two starts.
    pub fn set(&self, now_ms: i64) {
        self.0.store(now_ms, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now_ms(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }
}
