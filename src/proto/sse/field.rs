//! One line of an event stream (WHATWG 9.2.6, "process the line" and "process
//! the field").

use std::time::Duration;

/// What a line that is not blank says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Comment,
    Data,
    Event,
    Id,
    Retry,
    /// Any other name. The field is ignored.
    Unknown,
}

impl Field {
    /// The field of this line, without its line end, and where its value
    /// starts: after the first colon and at most one space. The text of a
    /// comment is all that follows its colon: a comment has no value, so no
    /// rule takes its space.
    #[inline]
    pub(super) fn of(line: &[u8]) -> (Self, usize) {
        let (field, rest) = match line {
            [b'd', b'a', b't', b'a', rest @ ..] => (Self::Data, rest),
            [b':', ..] => return (Self::Comment, 1),
            [b'e', b'v', b'e', b'n', b't', rest @ ..] => (Self::Event, rest),
            [b'i', b'd', rest @ ..] => (Self::Id, rest),
            [b'r', b'e', b't', b'r', b'y', rest @ ..] => (Self::Retry, rest),
            _ => return (Self::Unknown, line.len()),
        };
        let value = match rest {
            [b':', b' ', value @ ..] | [b':', value @ ..] => value,
            [] => rest,
            _ => return (Self::Unknown, line.len()),
        };
        (field, line.len() - value.len())
    }
}

/// The reconnection time of a `retry` field: ASCII digits in base ten, in
/// milliseconds; anything else is no value at all. The standard sets no upper
/// bound: what does not fit becomes the largest that does, since a server that
/// asks for an absurd wait asks for a long one, not for none.
pub(super) fn reconnection_time(value: &[u8]) -> Option<Duration> {
    if value.is_empty() {
        return None;
    }
    value
        .iter()
        .try_fold(0_u64, |millis, byte| {
            let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
            Some(millis.saturating_mul(10).saturating_add(digit))
        })
        .map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_its_exact_name_and_its_value_loses_one_space() {
        for (line, field, value) in [
            ("data:x", Field::Data, "x"),
            ("data: x", Field::Data, "x"),
            ("data:  x", Field::Data, " x"),
            ("data:\tx", Field::Data, "\tx"),
            ("data", Field::Data, ""),
            ("data:", Field::Data, ""),
            ("data: ", Field::Data, ""),
            ("data::", Field::Data, ":"),
            ("event: a", Field::Event, "a"),
            ("id:1", Field::Id, "1"),
            ("retry: 5", Field::Retry, "5"),
            (":", Field::Comment, ""),
            (": x", Field::Comment, " x"),
            ("data :x", Field::Unknown, ""),
            (" data:x", Field::Unknown, ""),
            ("Data:x", Field::Unknown, ""),
            ("database:x", Field::Unknown, ""),
            ("dat", Field::Unknown, ""),
            ("idle", Field::Unknown, ""),
        ] {
            let (found, start) = Field::of(line.as_bytes());
            assert_eq!((found, &line[start..]), (field, value), "{line:?}");
        }
    }

    #[test]
    fn a_reconnection_time_is_digits_and_saturates() {
        let millis = |n| Some(Duration::from_millis(n));
        for (value, expected) in [
            ("0", millis(0)),
            ("03000", millis(3000)),
            ("18446744073709551615", millis(u64::MAX)),
            ("18446744073709551616", millis(u64::MAX)),
            ("99999999999999999999999999999999", millis(u64::MAX)),
            ("", None),
            ("+1", None),
            ("-1", None),
            ("1 ", None),
            ("1.5", None),
            ("\u{0661}", None),
            ("99999999999999999999999999999999x", None),
        ] {
            assert_eq!(reconnection_time(value.as_bytes()), expected, "{value:?}");
        }
    }
}
