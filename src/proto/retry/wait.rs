//! Lengths of time as providers write them.

use std::time::Duration;

/// The longest wait that is believed: beyond a year a figure is a mistake.
const LONGEST: f64 = 366.0 * 86_400.0;

/// How many figures one wait may have: days, hours, minutes, seconds, milliseconds.
const MAX_FIGURES: usize = 5;

/// The wait at the start of a text: `46s`, `1.3s`, `28ms`, `6m0s`, `35 seconds`,
/// `1 hour 5 minutes`. A figure without a unit is not a wait.
pub(in crate::proto) fn wait_of_text(text: &str) -> Option<Duration> {
    wait_and_rest(text).map(|(wait, _)| wait)
}

/// The wait that a whole text is; text behind it makes it none.
pub(super) fn wait_of_whole(text: &str) -> Option<Duration> {
    wait_and_rest(text)
        .filter(|(_, rest)| rest.trim().is_empty())
        .map(|(wait, _)| wait)
}

/// A wait of this many seconds; none when it is negative or absurd.
pub(in crate::proto) fn wait_of_seconds(seconds: f64) -> Option<Duration> {
    if (0.0..=LONGEST).contains(&seconds) {
        Duration::try_from_secs_f64(seconds).ok()
    } else {
        None
    }
}

fn wait_and_rest(text: &str) -> Option<(Duration, &str)> {
    let mut rest = text.trim_start();
    let mut seconds = None;
    for _ in 0..MAX_FIGURES {
        let Some((more, behind)) = figure(rest) else {
            break;
        };
        seconds = Some(seconds.unwrap_or(0.0) + more);
        rest = behind;
        let next = behind.trim_start_matches([' ', ',']);
        let next = next.strip_prefix("and ").unwrap_or(next);
        if figure(next).is_some() {
            rest = next;
        }
    }
    Some((seconds.and_then(wait_of_seconds)?, rest))
}

/// One figure with its unit, in seconds, and what stands behind it.
fn figure(text: &str) -> Option<(f64, &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (figure, behind) = text.split_at(end);
    let behind = behind.trim_start_matches(' ');
    let end = behind
        .find(|c: char| !c.is_ascii_alphabetic())
        .unwrap_or(behind.len());
    let (unit, behind) = behind.split_at(end);
    let number: f64 = figure.parse().ok()?;
    Some((number * seconds_of(unit)?, behind))
}

fn seconds_of(unit: &str) -> Option<f64> {
    Some(match unit {
        "ms" | "millisecond" | "milliseconds" => 0.001,
        "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
        "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
        "h" | "hr" | "hrs" | "hour" | "hours" => 3_600.0,
        "d" | "day" | "days" => 86_400.0,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time() {
        for (text, millis) in [
            ("46s", Some(46_000)),
            ("46.2s", Some(46_200)),
            ("28ms", Some(28)),
            ("6m0s", Some(360_000)),
            ("7m12.48s", Some(432_480)),
            ("10h17m5.5s", Some(37_025_500)),
            ("1 hour, 5 minutes and 3 seconds.", Some(3_903_000)),
            ("5 minutes and then", Some(300_000)),
            ("0s", Some(0)),
            ("5", None),
            ("s", None),
            ("-3s", None),
            ("1.2.3s", None),
            ("9999999999d", None),
            ("1s1s1s1s1s1s1s1s", Some(5_000)),
            ("", None),
        ] {
            let millis = millis.map(Duration::from_millis);
            assert_eq!(wait_of_text(text), millis, "{text}");
        }
    }

    #[test]
    fn a_whole_text_has_nothing_behind_it() {
        assert_eq!(wait_of_whole(" 1s "), Some(Duration::from_secs(1)));
        assert_eq!(wait_of_whole("1s or so"), None);
        assert_eq!(wait_of_whole("1s1s1s1s1s1s"), None);
    }
}
