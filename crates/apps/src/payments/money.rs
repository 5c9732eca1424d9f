//! Amounts: whole minor units of an ISO 4217 currency. There is no fraction to round and no float to lose.
//!
//! ₡1,000.00 is `100000` in documents and requests, `1000.00` to a gateway, `₡1,000.00` to a person.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Refusal, Result};

/// The largest amount: what a JavaScript number holds exactly, so that no page ever shows another one.
pub const MINOR_MAX: i64 = (1 << 53) - 1;

/// One currency: its code, the number that gateways use, how many decimals, and its sign.
type Row = (&'static str, &'static str, u32, &'static str);

/// The currencies that a raffle can be in. The list grows when somebody needs another; the decimals are the
/// standard's, not what people usually say.
const TABLE: &[Row] = &[
    ("CRC", "188", 2, "₡"),
    ("USD", "840", 2, "$"),
    ("EUR", "978", 2, "€"),
    ("GTQ", "320", 2, "Q"),
    ("HNL", "340", 2, "L"),
    ("NIO", "558", 2, "C$"),
    ("PAB", "590", 2, "B/."),
    ("DOP", "214", 2, "RD$"),
    ("JMD", "388", 2, "J$"),
    ("TTD", "780", 2, "TT$"),
    ("MXN", "484", 2, "MX$"),
    ("COP", "170", 2, "COL$"),
    ("PEN", "604", 2, "S/"),
    ("BRL", "986", 2, "R$"),
    ("GBP", "826", 2, "£"),
    ("CAD", "124", 2, "CA$"),
    ("CHF", "756", 2, "CHF "),
    ("JPY", "392", 0, "¥"),
    ("CLP", "152", 0, "CLP$"),
    ("PYG", "600", 0, "₲"),
    ("KWD", "414", 3, "KD "),
    ("TND", "788", 3, "DT "),
];

/// A currency of the table.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Currency(&'static Row);

/// An amount in a currency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Money {
    /// Whole minor units: 100000 is ₡1,000.00.
    #[schema(example = 300_000)]
    pub minor: i64,
    /// ISO 4217.
    #[schema(value_type = String, example = "CRC")]
    pub currency: Currency,
}

impl Currency {
    /// By its three letters.
    pub fn new(code: &str) -> Option<Self> {
        TABLE.iter().find(|row| row.0 == code).map(Self)
    }

    /// By the standard's three digits.
    pub fn by_number(number: &str) -> Option<Self> {
        TABLE.iter().find(|row| row.1 == number).map(Self)
    }

    /// The same, with a refusal that names the field.
    pub fn parse(field: &str, code: &str) -> Result<Self> {
        Self::new(code).ok_or_else(|| {
            let codes: Vec<_> = TABLE.iter().map(|row| row.0).collect();
            Refusal::invalid(field, format!("must be one of {}", codes.join(", ")))
        })
    }

    /// Its three letters.
    pub fn code(self) -> &'static str {
        self.0.0
    }

    /// Its three digits.
    pub fn number(self) -> &'static str {
        self.0.1
    }

    /// Its decimals.
    pub fn decimals(self) -> u32 {
        self.0.2
    }
}

impl fmt::Debug for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

impl TryFrom<String> for Currency {
    type Error = &'static str;

    fn try_from(code: String) -> Result<Self, &'static str> {
        Self::new(&code).ok_or("is not a currency that is known here")
    }
}

impl From<Currency> for String {
    fn from(currency: Currency) -> Self {
        currency.code().to_owned()
    }
}

impl Money {
    /// So much of it, within bounds.
    pub fn new(minor: i64, currency: Currency) -> Option<Self> {
        (0..=MINOR_MAX).contains(&minor).then_some(Self { minor, currency })
    }

    /// Reads `1000.00` or `1000` or `1000.0`: what gateways write. More decimals than the currency has are
    /// refused unless they are zeros, since nobody rounds money here.
    pub fn of_major(text: &str, currency: Currency) -> Option<Self> {
        let (whole, part) = text.split_once('.').unwrap_or((text, ""));
        let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || !is_digits(whole) || !is_digits(part) || text.ends_with('.') {
            return None;
        }
        let decimals = usize::try_from(currency.decimals()).ok()?;
        let (kept, beyond) = part.split_at(decimals.min(part.len()));
        if beyond.bytes().any(|byte| byte != b'0') {
            return None;
        }
        // What is missing are zeros; a text too long for a number is none.
        let minor = format!("{whole}{kept:0<decimals$}").parse().ok()?;
        Self::new(minor, currency)
    }

    /// `1000.00`: what gateways read.
    pub fn major(self) -> String {
        let (whole, part) = self.split();
        match self.decimals() {
            0 => whole.to_string(),
            decimals => format!("{whole}.{part:0decimals$}"),
        }
    }

    fn decimals(self) -> usize {
        usize::try_from(self.currency.decimals()).unwrap_or(0)
    }

    fn split(self) -> (i64, i64) {
        let unit = 10_i64.pow(self.currency.decimals());
        (self.minor / unit, self.minor % unit)
    }
}

/// `₡1,000.00`: what people read.
impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = self.split();
        let digits = whole.to_string();
        f.write_str(self.currency.0.3)?;
        for (index, digit) in digits.chars().enumerate() {
            if index > 0 && (digits.len() - index).is_multiple_of(3) {
                f.write_str(",")?;
            }
            write!(f, "{digit}")?;
        }
        match self.decimals() {
            0 => Ok(()),
            decimals => write!(f, ".{part:0decimals$}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crc() -> Currency {
        Currency::new("CRC").expect("known")
    }

    /// R5: one amount in its three forms, there and back.
    #[test]
    fn r05_colones_read_the_same_everywhere() {
        let check = |code: &str, minor: i64, major: &str, shown: &str| {
            let currency = Currency::new(code).expect("known");
            let money = Money::new(minor, currency).expect("an amount");
            assert_eq!((money.major().as_str(), money.to_string().as_str()), (major, shown));
            assert_eq!(Money::of_major(major, currency), Some(money));
        };
        check("CRC", 100_000, "1000.00", "₡1,000.00");
        check("CRC", 5, "0.05", "₡0.05");
        check("CRC", 0, "0.00", "₡0.00");
        check("CRC", 123_456_789, "1234567.89", "₡1,234,567.89");
        check("JPY", 1_000, "1000", "¥1,000");
        check("KWD", 1_500, "1.500", "KD 1.500");
        check("CRC", MINOR_MAX, "90071992547409.91", "₡90,071,992,547,409.91");
    }

    #[test]
    fn r05_a_gateways_number_is_read_by_its_digits() {
        let check = |text: &str, minor: Option<i64>| {
            assert_eq!(Money::of_major(text, crc()).map(|money| money.minor), minor, "{text}");
        };
        check("1000", Some(100_000));
        check("1000.0", Some(100_000));
        check("1000.000", Some(100_000));
        check("1000.5", Some(100_050));
        // No rounding, no signs, no other ways to write a number.
        for text in ["1000.005", "-1", "+1", "1e3", "1,000.00", ".5", "5.", "", " 1", "1.2.3", "NaN"] {
            check(text, None);
        }
        check("90071992547409.92", None);
        check("99999999999999999999999999", None);
    }

    #[test]
    fn currencies_are_known_by_letters_and_by_number_once_each() {
        for row in TABLE {
            assert_eq!(Currency::new(row.0).map(Currency::number), Some(row.1));
            assert_eq!(Currency::by_number(row.1).map(Currency::code), Some(row.0));
        }
        let refused = Currency::parse("currency", "crc").expect_err("is not upper case");
        assert!(refused.to_string().starts_with("currency: must be one of CRC, USD"), "{refused}");
    }
}
