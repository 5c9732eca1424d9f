//! When a claim is over, by what events and answers say. Heartbeats are no events, so that what nobody heard of may have
//! moved a deadline further: what is known is the earliest that it can be.

use super::book::{Claimed, Moved};

/// A heartbeat that was answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Beat {
    pub(super) answered: u64,
    pub(super) at_ms: i64,
    pub(super) until_ms: i64,
}

/// What has happened by then.
#[derive(Clone, Copy, Debug)]
pub(super) struct AsOf {
    /// Events below this number,
    pub(super) seq: u64,
    /// not later than this,
    pub(super) at_ms: i64,
    /// and heartbeats that were answered before this.
    pub(super) answered: u64,
}

impl AsOf {
    /// Everything.
    pub(super) const END: Self = Self { seq: u64::MAX, at_ms: i64::MAX, answered: u64::MAX };
}

/// The deadline as of then. Time that the server was away is given back to those that held then.
pub(super) fn deadline_ms(claimed: &Claimed, shifts: &[Moved], beats: &[Beat], by: AsOf) -> i64 {
    let ended = claimed.end.as_ref().map_or(u64::MAX, |end| end.seq);
    let first = shifts.partition_point(|shift| shift.seq < claimed.begun);
    let shifts = shifts[first..].iter().filter(|shift| shift.seq < ended).map(|shift| (shift, true));
    let deadlines = claimed.deadlines.iter().map(|moved| (moved, false));
    let events = deadlines.chain(shifts).filter(|(moved, _)| moved.seq < by.seq);
    let mut steps: Vec<(i64, u64, bool, i64)> =
        events.map(|(moved, is_shift)| (moved.at_ms, moved.seq, is_shift, moved.ms)).collect();
    // A heartbeat of the same millisecond as an event came after it: the time that was away lay between them.
    let heard = beats.iter().filter(|beat| beat.answered < by.answered);
    steps.extend(heard.map(|beat| (beat.at_ms, u64::MAX, false, beat.until_ms)));
    steps.retain(|(at_ms, ..)| *at_ms <= by.at_ms);
    steps.sort_unstable();
    steps.into_iter().fold(
        i64::MIN,
        |deadline, (.., is_shift, ms)| {
            if is_shift { deadline + ms } else { deadline.max(ms) }
        },
    )
}
