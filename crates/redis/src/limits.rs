//! Every number that bounds what is said to Redis, with its reason.

use std::time::Duration;

/// How long it takes to believe that a Redis is not there.
pub(crate) const CONNECT: Duration = Duration::from_secs(2);
/// How long it may take over something that it does in microseconds, before the line counts as dead.
pub(crate) const REPLY: Duration = Duration::from_millis(500);
/// A listener that hears nothing asks this often whether the line is still there.
pub(crate) const PING_EVERY: Duration = Duration::from_secs(5);
/// The first pause before a connection is made anew; it doubles with each failure …
pub(crate) const RETRY_FIRST: Duration = Duration::from_millis(100);
/// … up to this: whoever starts Redis again does not wait long to see it used.
pub(crate) const RETRY_MOST: Duration = Duration::from_secs(3);
/// The longest text in an answer: several times the longest hint.
pub(crate) const TEXT_MAX: usize = 64 << 10;
/// The longest line that announces something: a number, or an error's words.
pub(crate) const LINE_MAX: usize = 1 << 10;
/// Parts of an answer: a message on a channel has three.
pub(crate) const PARTS_MAX: usize = 8;
/// What a request waits for Redis before its node counts alone: a fraction of what anyone notices.
pub(crate) const COUNT: Duration = Duration::from_millis(50);
/// Requests that wait to be counted; beyond it the node counts alone.
pub(crate) const COUNTS_WAITING_MAX: usize = 4_096;
/// Requests that are counted in one round trip.
pub(crate) const COUNTS_AT_ONCE_MAX: usize = 256;
