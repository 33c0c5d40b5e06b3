//! Positions in an answer.

use crate::error::{Error, ErrorKind};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The number of an answer to one operation, from 1. A second one exists only
/// when the caller asked to regenerate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Generation(u32);

impl Generation {
    /// The first answer.
    pub const FIRST: Self = Self(1);

    /// Generation number `number`; 0 is not one.
    pub const fn new(number: u32) -> Option<Self> {
        if number == 0 {
            None
        } else {
            Some(Self(number))
        }
    }

    /// The number, from 1.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The one after this.
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number of a record in its generation, dense from 1. [`Seq::ZERO`] is the
/// position before the first record.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Seq(u64);

impl Seq {
    /// Before the first record.
    pub const ZERO: Self = Self(0);

    /// Sequence number `number`.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The one after this.
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// The one `count` further on.
    pub const fn plus(self, count: u64) -> Self {
        Self(self.0.saturating_add(count))
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// "After this record": `<generation>-<seq>`. The SSE `id` that is sent and the
/// `Last-Event-ID` that is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cursor {
    /// Which answer.
    pub generation: Generation,
    /// After which record of it.
    pub seq: Seq,
}

impl Cursor {
    /// Before the first record of the first answer.
    pub const START: Self = Self {
        generation: Generation::FIRST,
        seq: Seq::ZERO,
    };

    /// After record `seq` of `generation`.
    pub const fn new(generation: Generation, seq: Seq) -> Self {
        Self { generation, seq }
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.generation, self.seq)
    }
}

impl FromStr for Cursor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        fn number(digits: &str) -> Option<u64> {
            let canonical = !digits.is_empty()
                && digits.len() <= 20
                && digits.bytes().all(|b| b.is_ascii_digit())
                && (digits == "0" || !digits.starts_with('0'));
            if canonical { digits.parse().ok() } else { None }
        }
        text.split_once('-')
            .and_then(|(generation, seq)| {
                let generation = u32::try_from(number(generation)?).ok()?;
                Some(Self {
                    generation: Generation::new(generation)?,
                    seq: Seq::new(number(seq)?),
                })
            })
            .ok_or_else(|| {
                let shown: String = text.chars().take(40).collect();
                Error::new(
                    ErrorKind::InvalidCursor,
                    format!(
                        "expected a cursor such as `1-42`, but found `{}`",
                        shown.escape_debug()
                    ),
                )
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_reads_back_what_it_wrote() {
        for text in ["1-0", "1-42", "7-18446744073709551615"] {
            assert_eq!(text.parse::<Cursor>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn anything_else_is_a_clear_error_and_never_the_start() {
        for text in [
            "",
            "1",
            "1-",
            "-1",
            "0-1",
            "01-1",
            "1-01",
            "1-+2",
            "1- 2",
            "\0",
            "4294967296-1",
            "1-2-3",
            "1-99999999999999999999",
        ] {
            let error = text.parse::<Cursor>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidCursor, "{text:?}");
        }
    }
}
