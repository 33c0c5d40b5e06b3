//! When a limit that is used up is whole again, by the provider's own headers.

use super::wait::{wait_of_seconds, wait_of_whole};
use crate::proto::model::{ResponseHead, WallTime};
use std::time::Duration;

/// How long until every limit that is used up is whole again.
///
/// For answers of 429 and 503 only, and only for limits whose `remaining` is 0: a
/// limit that has something left refused nothing. Of several the longest counts.
/// Known are `x-ratelimit-{remaining,reset}` with and without a name behind it
/// (`-requests`, `-tokens`), and `anthropic-ratelimit-{name}-{remaining,reset}`:
/// docs/providers.md#rules/reset-headers.
pub(super) fn wait_for_reset(head: &ResponseHead, now: WallTime) -> Option<Duration> {
    if !matches!(head.status, 429 | 503) {
        return None;
    }
    head.headers
        .iter()
        .take(MAX_HEADERS)
        .filter(|(_, left)| is_none_left(left))
        .filter_map(|(name, _)| head.header(&reset_of(name)?))
        .filter_map(|value| wait_of_reset(value, now))
        .max()
}

/// More headers than any server sends; it bounds the search for pairs.
const MAX_HEADERS: usize = 200;

/// The header that says when the limit is whole again of which `name` says how
/// much is left.
fn reset_of(name: &str) -> Option<String> {
    let rest = name.strip_prefix("x-ratelimit-remaining");
    if let Some(rest) = rest.filter(|rest| rest.is_empty() || rest.starts_with('-')) {
        return Some(format!("x-ratelimit-reset{rest}"));
    }
    let name = name
        .strip_prefix("anthropic-ratelimit-")?
        .strip_suffix("-remaining")?;
    Some(format!("anthropic-ratelimit-{name}-reset"))
}

/// Zero, and not -1, which Azure sends for "unknown".
fn is_none_left(value: &str) -> bool {
    value.trim().parse::<f64>().is_ok_and(|left| left == 0.0)
}

/// A reset as a length of time (`6m0s`), a moment (RFC 3339, or the Unix time in
/// seconds or milliseconds), or plain seconds. A moment that has passed is no
/// wait at all.
fn wait_of_reset(value: &str, now: WallTime) -> Option<Duration> {
    let value = value.trim();
    if let Some(wait) = wait_of_whole(value) {
        return Some(wait);
    }
    if let Some(at) = rfc3339(value) {
        return believable(at.since(now));
    }
    let is_number = value.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let number: f64 = value.parse().ok().filter(|_| is_number)?;
    // Nobody waits thirty years, and 1973 is over: the size tells the unit.
    let seconds = if number >= 1e11 {
        number / 1_000.0 - unix_seconds(now)
    } else if number >= 1e9 {
        number - unix_seconds(now)
    } else {
        number
    };
    wait_of_seconds(seconds.max(0.0))
}

fn believable(wait: Duration) -> Option<Duration> {
    wait_of_seconds(wait.as_secs_f64())
}

fn unix_seconds(now: WallTime) -> f64 {
    Duration::from_millis(now.as_millis()).as_secs_f64()
}

/// A moment in the form of RFC 3339 section 5.6, such as `2026-12-01T00:00:03Z` or
/// `2026-12-01T01:00:03.5+01:00`. Only moments since 1970.
fn rfc3339(text: &str) -> Option<WallTime> {
    if !text.is_ascii() || text.len() > 40 {
        return None;
    }
    let (date, time) = text.split_once(['T', 't', ' '])?;
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let zone = time.find(['Z', 'z', '+', '-'])?;
    let (time, zone) = time.split_at(zone);
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let [hour, minute, second] = numbers(time, ':', [2, 2, 2])?;
    let is_time = hour < 24 && minute < 60 && second <= 60;
    if !(1970..=9999).contains(&year) || !is_time || day == 0 || day > days_in(year, month)? {
        return None;
    }
    let is_fraction = !fraction.is_empty() && fraction.bytes().all(|b| b.is_ascii_digit());
    let millis: String = fraction.chars().chain("000".chars()).take(3).collect();
    let millis: i64 = millis.parse().ok().filter(|_| is_fraction)?;
    let whole = i64::from(days_before(year, month)?)
        .checked_add(i64::from(day))?
        .checked_sub(1)?
        .checked_mul(86_400)?
        .checked_add(i64::from(hour.checked_mul(3_600)?))?
        .checked_add(i64::from(minute.checked_mul(60)?))?
        .checked_add(i64::from(second))?
        .checked_sub(offset(zone)?)?;
    let at = whole.checked_mul(1_000)?.checked_add(millis)?;
    u64::try_from(at).ok().map(WallTime::from_millis)
}

/// Three numbers of these lengths.
fn numbers(text: &str, between: char, lengths: [usize; 3]) -> Option<[u32; 3]> {
    let mut parts = text.split(between);
    let mut next = |length: usize| {
        let part = parts.next()?;
        let fits = part.len() == length && part.bytes().all(|b| b.is_ascii_digit());
        part.parse::<u32>().ok().filter(|_| fits)
    };
    let [first, second, third] = lengths;
    let found = [next(first)?, next(second)?, next(third)?];
    parts.next().is_none().then_some(found)
}

/// Seconds that the zone is before UTC.
fn offset(zone: &str) -> Option<i64> {
    if zone.eq_ignore_ascii_case("z") {
        return Some(0);
    }
    let (sign, rest) = match zone.split_at_checked(1)? {
        ("+", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        _ => return None,
    };
    let [hours, minutes, _] = numbers(&format!("{rest}:00"), ':', [2, 2, 2])?;
    let seconds = hours.checked_mul(3_600)?.checked_add(minutes * 60)?;
    (hours < 24 && minutes < 60).then_some(sign * i64::from(seconds))
}

fn is_leap(year: u32) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn days_in(year: u32, month: u32) -> Option<u32> {
    Some(match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if is_leap(year) => 29,
        2 => 28,
        _ => return None,
    })
}

/// Days from 1970 to the first of this month.
fn days_before(year: u32, month: u32) -> Option<u32> {
    let before = year.checked_sub(1)?;
    let leaps = |year: u32| year / 4 - year / 100 + year / 400;
    let leap_days = leaps(before).checked_sub(leaps(1969))?;
    let years = year.checked_sub(1970)?.checked_mul(365)?;
    let months = (1..month)
        .map(|month| days_in(year, month).unwrap_or(0))
        .sum::<u32>();
    years.checked_add(leap_days)?.checked_add(months)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-12-01T00:00:00Z
    const NOW: WallTime = WallTime::from_millis(1_796_083_200_000);

    #[track_caller]
    fn check(status: u16, headers: &[(&str, &str)], millis: Option<u64>) {
        let head = ResponseHead {
            status,
            headers: headers
                .iter()
                .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()))
                .collect(),
        };
        let found = wait_for_reset(&head, NOW);
        assert_eq!(found, millis.map(Duration::from_millis), "{headers:?}");
    }

    #[test]
    fn the_longest_of_the_limits_that_are_used_up() {
        let headers = [
            ("x-ratelimit-remaining-requests", "0"),
            ("x-ratelimit-reset-requests", "1s"),
            ("x-ratelimit-remaining-tokens", "0"),
            ("x-ratelimit-reset-tokens", "6m0s"),
        ];
        check(429, &headers, Some(360_000));
        check(503, &headers, Some(360_000));
        check(500, &headers, None);
        check(200, &headers, None);
    }

    #[test]
    fn a_limit_with_something_left_refused_nothing() {
        for left in ["1", "-1", "", "many", "NaN"] {
            let headers = [
                ("x-ratelimit-remaining-tokens", left),
                ("x-ratelimit-reset-tokens", "6m0s"),
                ("x-ratelimit-remaining-requests", "0"),
                ("x-ratelimit-reset-requests", "28ms"),
            ];
            check(429, &headers, Some(28));
        }
        check(429, &[("x-ratelimit-reset-tokens", "6m0s")], None);
        check(429, &[("x-ratelimit-remaining-tokens", "0")], None);
    }

    #[test]
    fn every_form_of_a_reset() {
        for (value, millis) in [
            ("28ms", Some(28)),
            ("2m59.56s", Some(179_560)),
            ("7", Some(7_000)),
            ("33011.382867", Some(33_011_382)),
            ("1796083203", Some(3_000)),
            ("1796083203500", Some(3_500)),
            ("1796083100000", Some(0)),
            ("2026-12-01T00:00:03Z", Some(3_000)),
            ("2026-12-01T01:00:03.25+01:00", Some(3_250)),
            ("2026-11-30T19:00:03-05:00", Some(3_000)),
            ("2020-02-29T00:00:00Z", Some(0)),
            ("2021-02-29T00:00:00Z", None),
            ("2026-13-01T00:00:00Z", None),
            ("2026-12-01T24:00:00Z", None),
            ("2026-12-01T00:00:03", None),
            ("2026-12-01T00:00:03.Z", None),
            ("2026-12-01T00:00:03+25:00", None),
            ("9999-12-31T23:59:59Z", None),
            ("-5", None),
            ("1e3", None),
            ("99999999999999999999999", None),
            ("soon", None),
            ("", None),
        ] {
            let headers = [("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", value)];
            // Microseconds are cut, so that the table stays readable.
            let cut = |wait: Duration| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
            let head = ResponseHead {
                status: 429,
                headers: headers.map(|(n, v)| (n.to_owned(), v.to_owned())).to_vec(),
            };
            assert_eq!(wait_for_reset(&head, NOW).map(cut), millis, "{value:?}");
        }
    }

    #[test]
    fn anthropics_names_have_the_limit_in_the_middle() {
        check(
            429,
            &[
                ("anthropic-ratelimit-requests-remaining", "50"),
                ("anthropic-ratelimit-requests-reset", "2026-12-01T00:01:00Z"),
                ("anthropic-ratelimit-input-tokens-remaining", "0"),
                (
                    "anthropic-ratelimit-input-tokens-reset",
                    "2026-12-01T00:00:20Z",
                ),
            ],
            Some(20_000),
        );
    }
}
