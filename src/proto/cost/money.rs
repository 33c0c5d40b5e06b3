//! Amounts of money, exactly.

use serde::de::{Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// An amount of money in billionths (10⁻⁹) of a currency unit. Which currency is
/// said by whoever holds it.
///
/// A price per million tokens has at most nine digits behind the point, as many
/// as there are here; and 64 bits hold 18 billion units. Written and read as a
/// decimal: `"1.25"`. Sums stop at the largest amount instead of overflowing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Money(u64);

/// Digits behind the point.
const DIGITS: usize = 9;
const NANOS: u64 = 1_000_000_000;

impl Money {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// So many billionths.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// In billionths.
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// Both together.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

/// As a decimal with two digits behind the point, or as many as it needs.
impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / NANOS, self.0 % NANOS);
        let rest = format!("{rest:09}");
        let rest = rest.trim_end_matches('0');
        f.pad(&format!("{whole}.{rest:0<2}"))
    }
}

/// What is no amount of money.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected an amount such as 1.25, with at most {DIGITS} digits behind the point, but found another text"
)]
pub struct NotMoney;

impl FromStr for Money {
    type Err = NotMoney;

    fn from_str(text: &str) -> Result<Self, NotMoney> {
        let (whole, rest) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if !digits(whole) || !digits(rest) || rest.len() > DIGITS {
            return Err(NotMoney);
        }
        let whole: u64 = whole.parse().map_err(|_| NotMoney)?;
        let rest: u64 = format!("{rest:0<DIGITS$}").parse().map_err(|_| NotMoney)?;
        whole
            .checked_mul(NANOS)
            .and_then(|nanos| nanos.checked_add(rest))
            .map(Self)
            .ok_or(NotMoney)
    }
}

impl Serialize for Money {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Money {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Amount)
    }
}

/// Takes an amount as text, or as a number that was written out in a file. A
/// float stands for the shortest decimal that reads as it: what was written.
struct Amount;

impl Visitor<'_> for Amount {
    type Value = Money;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an amount of money, such as 1.25")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Money, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_u64<E: serde::de::Error>(self, whole: u64) -> Result<Money, E> {
        whole.to_string().parse().map_err(E::custom)
    }

    fn visit_i64<E: serde::de::Error>(self, whole: i64) -> Result<Money, E> {
        whole.to_string().parse().map_err(E::custom)
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Money, E> {
        let written = number.to_string();
        written
            .parse()
            .map_err(|NotMoney| E::invalid_value(Unexpected::Float(number), &self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_reads_as_it_is_written() {
        for (text, nanos, shown) in [
            ("0", 0, "0.00"),
            ("1.25", 1_250_000_000, "1.25"),
            ("10", 10_000_000_000, "10.00"),
            ("0.075", 75_000_000, "0.075"),
            ("0.000000001", 1, "0.000000001"),
            ("18446744073.709551615", u64::MAX, "18446744073.709551615"),
        ] {
            let money: Money = text.parse().unwrap();
            assert_eq!((money.nanos(), money.to_string().as_str()), (nanos, shown));
        }
        for text in [
            "",
            ".5",
            "1.",
            "-1",
            "1,5",
            "1e3",
            "$1",
            "1.0000000001",
            "18446744073.709551616",
            "99999999999999999999",
        ] {
            assert_eq!(text.parse::<Money>(), Err(NotMoney), "{text}");
        }
    }

    #[test]
    fn a_number_in_a_file_is_the_decimal_that_was_written_there() {
        for (json, nanos) in [
            (r#""0.1""#, 100_000_000),
            ("0.1", 100_000_000),
            ("0.30", 300_000_000),
            ("1.0000001", 1_000_000_100),
            ("3", 3_000_000_000),
        ] {
            let money: Money = serde_json::from_str(json).unwrap();
            assert_eq!(money.nanos(), nanos, "{json}");
        }
        for json in ["-0.5", "-3", "1e30", "0.00000000001", "null", "[]", "true"] {
            assert!(serde_json::from_str::<Money>(json).is_err(), "{json}");
        }
    }

    #[test]
    fn a_sum_stops_at_the_largest_amount() {
        let most = Money::from_nanos(u64::MAX);
        assert_eq!(most.plus(Money::from_nanos(1)), most);
    }
}
