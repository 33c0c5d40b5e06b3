//! What the other side asked for: `Retry-After` and its relatives.

use crate::proto::model::{ResponseHead, WallTime};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What a response's headers say about trying again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetryHints {
    /// How long to wait, if a valid hint came.
    pub after: Option<Duration>,
    /// `x-should-retry`, if it came: `false` forbids, `true` allows a status
    /// that is otherwise final.
    pub should_retry: Option<bool>,
}

impl RetryHints {
    /// Reads the headers. `retry-after-ms` beats `retry-after`: it is the more
    /// exact of the two, and what the official SDKs prefer.
    pub fn from_head(head: &ResponseHead, now: WallTime) -> Self {
        let millis = head
            .header("retry-after-ms")
            .and_then(|value| decimal(value.trim()))
            .map(|millis| seconds(millis / 1000.0));
        let after = millis.or_else(|| {
            let date = head.header("date").and_then(http_date);
            head.header("retry-after")
                .and_then(|value| parse_retry_after(value, date.unwrap_or(now)))
        });
        let should_retry = match head.header("x-should-retry").map(str::trim) {
            Some("true") => Some(true),
            Some("false") => Some(false),
            _ => None,
        };
        Self {
            after,
            should_retry,
        }
    }
}

/// Reads `Retry-After` (RFC 9110 section 10.2.3): seconds, or an HTTP date.
///
/// Decimal fractions are accepted because providers send them. A sign, an
/// exponent, `NaN` or any other text counts as absent. A date in the past is a
/// wait of zero; `now` should be the server's own `Date` where it sent one, so
/// that a wrong clock here does not matter.
pub fn parse_retry_after(value: &str, now: WallTime) -> Option<Duration> {
    let value = value.trim();
    match decimal(value) {
        Some(number) => Some(seconds(number)),
        None => http_date(value).map(|at| at.since(now)),
    }
}

/// Digits with at most one fraction; nothing else that `f64` would take.
fn decimal(text: &str) -> Option<f64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if digits(whole) && digits(fraction) {
        text.parse().ok()
    } else {
        None
    }
}

/// A hundred years stands for every longer wait: absurd, but still a number.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

fn seconds(number: f64) -> Duration {
    Duration::try_from_secs_f64(number).map_or(LONGEST, |wait| wait.min(LONGEST))
}

fn http_date(value: &str) -> Option<WallTime> {
    let at: SystemTime = httpdate::parse_http_date(value.trim()).ok()?;
    let since = at.duration_since(UNIX_EPOCH).ok()?;
    Some(WallTime::from_millis(0).after(since))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-12-01T00:00:00Z
    const NOW: WallTime = WallTime::from_millis(1_796_083_200_000);

    fn head(headers: &[(&str, &str)]) -> ResponseHead {
        ResponseHead {
            status: 429,
            headers: headers
                .iter()
                .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()))
                .collect(),
        }
    }

    #[test]
    fn seconds_fractions_and_dates_are_read() {
        let check = |value: &str, millis: u64| {
            assert_eq!(
                parse_retry_after(value, NOW),
                Some(Duration::from_millis(millis)),
                "{value}"
            );
        };
        check("0", 0);
        check("7", 7_000);
        check(" 7 ", 7_000);
        check("0.5", 500);
        check("0.503", 503);
        check("Tue, 01 Dec 2026 00:00:03 GMT", 3_000);
        check("Mon, 30 Nov 2026 23:59:00 GMT", 0);
    }

    #[test]
    fn anything_else_counts_as_absent() {
        for value in [
            "", "-3", "+3", "soon", "1e9", "1e9x", "NaN", "Infinity", "1.", ".5", "1.2.3", "0x10",
            "1,5",
        ] {
            assert_eq!(parse_retry_after(value, NOW), None, "{value:?}");
        }
    }

    #[test]
    fn an_absurd_number_is_a_very_long_wait_and_no_panic() {
        assert_eq!(parse_retry_after(&"9".repeat(400), NOW), Some(LONGEST));
        assert_eq!(
            parse_retry_after("99999999999999999999", NOW),
            Some(LONGEST)
        );
    }

    #[test]
    fn the_millisecond_header_wins_and_a_bad_one_does_not() {
        let hints = RetryHints::from_head(
            &head(&[("retry-after-ms", "250"), ("retry-after", "5")]),
            NOW,
        );
        assert_eq!(hints.after, Some(Duration::from_millis(250)));
        let hints = RetryHints::from_head(
            &head(&[("retry-after-ms", "soon"), ("retry-after", "5")]),
            NOW,
        );
        assert_eq!(hints.after, Some(Duration::from_secs(5)));
    }

    #[test]
    fn a_date_is_measured_against_the_servers_own_clock() {
        let hints = RetryHints::from_head(
            &head(&[
                ("date", "Tue, 01 Dec 2026 01:00:00 GMT"),
                ("retry-after", "Tue, 01 Dec 2026 01:00:02 GMT"),
            ]),
            NOW,
        );
        assert_eq!(hints.after, Some(Duration::from_secs(2)));
    }

    #[test]
    fn should_retry_is_read_as_true_false_or_nothing() {
        let read =
            |value| RetryHints::from_head(&head(&[("x-should-retry", value)]), NOW).should_retry;
        assert_eq!(read("true"), Some(true));
        assert_eq!(read("false"), Some(false));
        assert_eq!(read("maybe"), None);
    }
}
