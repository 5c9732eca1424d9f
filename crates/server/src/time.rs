//! RFC 3339 in UTC, to the millisecond: how every time reads outside.

use std::time::UNIX_EPOCH;

use serde::{Serialize, Serializer};

const DAY_MS: u64 = 86_400_000;
/// The first millisecond of the year 10000, of which RFC 3339 knows nothing.
const END_MS: u64 = 253_402_300_800_000;

/// The text for a time.
pub(crate) fn rfc3339(at_ms: i64) -> String {
    Stamp::of(at_ms).as_str().to_owned()
}

/// A time as it reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp([u8; 24]);

impl Stamp {
    /// Written digit by digit: an answer has four of them, and a formatter takes longer for those than everything
    /// else in it together.
    pub(crate) fn of(at_ms: i64) -> Self {
        Self(digits(at_ms))
    }

    fn as_str(&self) -> &str {
        // They are digits.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl Serialize for Stamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

fn digits(at_ms: i64) -> [u8; 24] {
    let at_ms = u64::try_from(at_ms).unwrap_or(0).min(END_MS - 1);
    let (year, month, day) = date(at_ms / DAY_MS);
    let left_ms = at_ms % DAY_MS;
    let mut text = *b"0000-00-00T00:00:00.000Z";
    let mut put = |at: usize, digits: usize, mut value: u64| {
        for place in text[at..at + digits].iter_mut().rev() {
            *place = b"0123456789"[usize::try_from(value % 10).unwrap_or(0)];
            value /= 10;
        }
    };
    put(0, 4, year);
    put(5, 2, month);
    put(8, 2, day);
    put(11, 2, left_ms / 3_600_000);
    put(14, 2, left_ms / 60_000 % 60);
    put(17, 2, left_ms / 1_000 % 60);
    put(20, 3, left_ms % 1_000);
    text
}

/// Year, month and day of a day since 1970. Years are counted from March, so that a leap day is their last.
fn date(day: u64) -> (u64, u64, u64) {
    let since = day + 719_468;
    let (era, of_era) = (since / 146_097, since % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

/// The time of a text.
pub(crate) fn parse(text: &str) -> Option<i64> {
    let at = humantime::parse_rfc3339(text).ok()?;
    i64::try_from(at.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn every_day_of_five_centuries_reads_as_a_formatter_writes_it() {
        for day in 0..366 * 500 {
            let at_ms = day * DAY_MS + day * 7_919 % DAY_MS;
            let expected = humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_millis(at_ms));
            assert_eq!(rfc3339(i64::try_from(at_ms).unwrap()), expected.to_string());
        }
        assert_eq!(rfc3339(-1), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(i64::MAX), "9999-12-31T23:59:59.999Z");
    }
}
