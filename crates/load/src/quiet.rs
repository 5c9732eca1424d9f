//! Waiting for the machine to be quiet: what one design leaves behind (a fold, a rewrite of a log, processes
//! that end) must not be measured as the next one's.

use std::time::{Duration, Instant};

/// How long it is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// The longest wait. A shared machine may never be quiet.
const WAIT_MAX: Duration = Duration::from_secs(3);
/// The share of the processors' time that may be used.
const BUSY_PERCENT_MAX: u64 = 10;

/// Returns when little else runs, or after three seconds.
pub fn wait() {
    let started = Instant::now();
    let mut before = spent();
    while started.elapsed() < WAIT_MAX {
        std::thread::sleep(LOOK);
        let now = spent();
        if let (Some(before), Some(now)) = (before, now)
            && is_quiet(before, now)
        {
            return;
        }
        before = now;
    }
}

/// What the processors did since the start, in ticks.
#[derive(Clone, Copy)]
struct Spent {
    idle: u64,
    all: u64,
}

fn spent() -> Option<Spent> {
    parse(&std::fs::read_to_string("/proc/stat").ok()?)
}

fn parse(stat: &str) -> Option<Spent> {
    let fields = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = fields.split_whitespace().map_while(|field| field.parse().ok()).collect();
    // user, nice, system, idle, waiting for a disk, …
    let idle = ticks.get(3)? + ticks.get(4)?;
    Some(Spent { idle, all: ticks.iter().take(8).sum() })
}

fn is_quiet(before: Spent, now: Spent) -> bool {
    let all = now.all.saturating_sub(before.all);
    let idle = now.idle.saturating_sub(before.idle);
    all > 0 && all.saturating_sub(idle) * 100 <= all * BUSY_PERCENT_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_quiet_when_it_is_idle_or_waits_for_its_disk() {
        let at = |text| parse(text).expect("a line of ticks");
        let before = at("cpu  100 0 100 1000 50 0 0 0 0 0\ncpu0 1 2 3");
        assert!(is_quiet(before, at("cpu  101 0 100 1015 54 0 0 0 0 0")));
        assert!(!is_quiet(before, at("cpu  105 0 103 1010 52 0 0 0 0 0")));
        assert!(!is_quiet(before, before), "nothing is known yet");
        assert!(parse("intr 1").is_none());
    }
}
