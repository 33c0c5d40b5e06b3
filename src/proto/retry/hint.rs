//! What the other side asked for: `Retry-After` and its relatives.

use super::reset::wait_for_reset;
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
    /// exact of the two, and what the official SDKs prefer. Of several lines of
    /// one name the longest wait counts, and one that cannot be read counts not
    /// at all. Only without both, and only for 429 and 503, the provider's limits
    /// say when one that is used up is whole again
    /// (docs/providers.md#rules/reset-headers).
    pub fn from_head(head: &ResponseHead, now: WallTime) -> Self {
        let now = head.header("date").and_then(http_date).unwrap_or(now);
        let after = stated(head, now).or_else(|| wait_for_reset(head, now));
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

/// Whether a response's headers name a wait outright, as `Retry-After` does. One
/// that only follows from its limits gives way to the words of the body.
pub(in crate::proto) fn names_a_wait(head: &ResponseHead) -> bool {
    stated(head, WallTime::from_millis(0)).is_some()
}

/// The wait of `retry-after-ms`, or else of `retry-after`.
fn stated(head: &ResponseHead, now: WallTime) -> Option<Duration> {
    let lines = |name: &'static str| {
        head.headers
            .iter()
            .filter(move |(header, _)| header == name)
            .map(|(_, value)| value.as_str())
    };
    lines("retry-after-ms")
        .filter_map(|value| decimal(value.trim()))
        .map(|millis| seconds(millis / 1000.0))
        .max()
        .or_else(|| {
            lines("retry-after")
                .filter_map(|value| parse_retry_after(value, now))
                .max()
        })
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

    #[test]
    fn every_form_of_a_date_is_read() {
        for value in [
            "Tue, 01 Dec 2026 00:00:03 GMT",
            "Tuesday, 01-Dec-26 00:00:03 GMT",
            "Tue Dec  1 00:00:03 2026",
        ] {
            assert_eq!(
                parse_retry_after(value, NOW),
                Some(Duration::from_secs(3)),
                "{value}"
            );
        }
        for value in [
            "Tue, 01 Dec 2026 00:00:03",
            "Tue, 41 Dec 2026 00:00:03 GMT",
            "Thu, 01 Jan 1900 00:00:00 GMT",
            "2026-12-01T00:00:03Z",
        ] {
            assert_eq!(parse_retry_after(value, NOW), None, "{value}");
        }
    }

    #[test]
    fn of_several_lines_the_longest_counts_and_the_unreadable_does_not() {
        let read = |headers: &[(&str, &str)]| RetryHints::from_head(&head(headers), NOW).after;
        let lines = [
            ("retry-after", "soon"),
            ("retry-after", "2"),
            ("retry-after", "Tue, 01 Dec 2026 00:00:09 GMT"),
            ("retry-after", "5"),
        ];
        assert_eq!(read(&lines), Some(Duration::from_secs(9)));
        let lines = [("retry-after-ms", "x"), ("retry-after-ms", "250.5")];
        assert_eq!(read(&lines), Some(Duration::from_micros(250_500)));
    }

    #[test]
    fn what_is_named_outright_wins_over_the_limits() {
        let limits = [
            ("x-ratelimit-remaining-tokens", "0"),
            ("x-ratelimit-reset-tokens", "6m0s"),
        ];
        let with = |header| {
            let mut headers = limits.to_vec();
            headers.push(header);
            RetryHints::from_head(&head(&headers), NOW).after
        };
        assert_eq!(with(("retry-after", "1")), Some(Duration::from_secs(1)));
        assert_eq!(with(("retry-after", "-1")), Some(Duration::from_secs(360)));
        assert!(!names_a_wait(&head(&limits)));
        assert!(names_a_wait(&head(&[("retry-after", "0")])));
        assert!(!names_a_wait(&head(&[("retry-after", "-1")])));
    }

    proptest::proptest! {
        #[test]
        fn no_header_panics_and_no_wait_is_endless(
            status in proptest::sample::select(vec![429_u16, 503, 402, 500]),
            now in proptest::num::u64::ANY,
            headers in proptest::collection::vec((
                proptest::sample::select(vec![
                    "date", "retry-after", "retry-after-ms", "x-ratelimit-remaining",
                    "x-ratelimit-reset", "anthropic-ratelimit-tokens-remaining",
                    "anthropic-ratelimit-tokens-reset",
                ]),
                "0|[0-9]{1,30}|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{8}[Z+-][0-9:]{0,5}|[0-9.hms]{1,12}|\\PC{0,12}",
            ), 0..8),
        ) {
            let head = ResponseHead {
                status,
                headers: headers.into_iter().map(|(n, v)| (n.to_owned(), v)).collect(),
            };
            let hints = RetryHints::from_head(&head, WallTime::from_millis(now));
            proptest::prop_assert!(hints.after.is_none_or(|wait| wait <= FAR));
        }
    }

    /// A date may lie as far ahead as its four digits reach.
    const FAR: Duration = Duration::from_secs(9_000 * 366 * 86_400);
}
