//! How the server writes times and numbers, read.

use std::time::UNIX_EPOCH;

use serde_json::Value;

/// A time of an answer or an event, in milliseconds since 1970.
pub(crate) fn ms(value: &Value) -> Option<i64> {
    let at = humantime::parse_rfc3339(value.as_str()?).ok()?;
    i64::try_from(at.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()
}

/// The number of a claim in its id.
pub(crate) fn last_number(id: &str) -> Option<u64> {
    id.rsplit('~').next()?.parse().ok()
}
