//! RFC 3339 in UTC, to the millisecond: how every time reads outside.

use std::time::{Duration, UNIX_EPOCH};

/// The text for a time.
pub(crate) fn rfc3339(at_ms: i64) -> String {
    let since = Duration::from_millis(u64::try_from(at_ms).unwrap_or(0));
    humantime::format_rfc3339_millis(UNIX_EPOCH + since).to_string()
}

/// The time of a text.
pub(crate) fn parse(text: &str) -> Option<i64> {
    let at = humantime::parse_rfc3339(text).ok()?;
    i64::try_from(at.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()
}
