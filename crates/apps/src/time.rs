//! RFC 3339 in UTC, to the millisecond: how every time reads outside.

use std::fmt;
use std::time::{Duration, UNIX_EPOCH};

use serde::{Serialize, Serializer};

/// The server's time, in milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub i64);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let since = Duration::from_millis(u64::try_from(self.0).unwrap_or(0));
        humantime::format_rfc3339_millis(UNIX_EPOCH + since).fmt(f)
    }
}

impl Time {
    /// Reads a time as RFC 3339 has it, with its offset: `2026-01-02T03:04:05Z`, `2026-01-01T21:04:05-06:00`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (text, offset_ms) = match text.split_at_checked(text.len().checked_sub(6)?)? {
            (local, offset) if offset.starts_with(['+', '-']) => {
                let (hours, minutes) = offset[1..].split_once(':')?;
                let number = |digits: &str, max: i64| {
                    let is_plain = digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_digit());
                    digits.parse().ok().filter(|value: &i64| is_plain && *value <= max)
                };
                let ms = (number(hours, 23)? * 60 + number(minutes, 59)?) * 60_000;
                (format!("{local}Z"), if offset.starts_with('-') { -ms } else { ms })
            }
            _ => (text.to_owned(), 0),
        };
        // The parser lets things stand behind the seconds.
        if !text.strip_suffix('Z')?.ends_with(|last: char| last.is_ascii_digit()) {
            return None;
        }
        let since = humantime::parse_rfc3339(&text).ok()?.duration_since(UNIX_EPOCH).ok()?;
        Some(Self(i64::try_from(since.as_millis()).ok()? - offset_ms))
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_read_with_its_offset_and_only_as_the_standard_has_it() {
        let read = |text: &str| Time::parse(text).map(|time| time.to_string());
        for text in ["2026-01-02T03:04:05Z", "2026-01-01T21:04:05-06:00", "2026-01-02T08:34:05.000+05:30"] {
            assert_eq!(read(text).as_deref(), Some("2026-01-02T03:04:05.000Z"), "{text}");
        }
        for text in [
            "",
            "é",
            "yesterday",
            "2026-01-02 03:04:05",
            "2026-01-02T03:04:05",
            "2026-01-02T03:04:05-0600",
            "2026-01-02T03:04:05-24:00",
            "2026-01-02T03:04:05+-1:00",
            "2026-01-02T03:04:05ZZ",
            "2026-01-02T03:04:05Z-06:00",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
