//! Numbers and times for people.

use std::time::Duration;
use streamkeep::proto::model::Usage;

/// `850 ms`, `1.2 s`, `2 min 5 s`, `3 h 10 min`.
pub(crate) fn time(duration: Duration) -> String {
    let millis = duration.as_millis();
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{millis} ms"),
        1..60 => format!("{}.{} s", seconds, (millis % 1000) / 100),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// As [`time`], from milliseconds.
pub(crate) fn millis(millis: u64) -> String {
    time(Duration::from_millis(millis))
}

/// `2026-12-01 03:36:26 UTC`, from milliseconds since 1970.
pub(crate) fn date(millis: u64) -> String {
    let seconds = millis / 1000;
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    // Days to a date of the proleptic Gregorian calendar, in eras of 400 years
    // that begin on 1 March (Howard Hinnant, "chrono-compatible low-level date
    // algorithms", `civil_from_days`).
    let days = seconds / 86_400 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// `512 B`, `5.2 KiB`, `1.0 MiB`.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut tenths = u128::from(bytes) * 10 / 1024;
    let mut units = UNITS.iter();
    let mut unit = units.next().copied().unwrap_or_default();
    while tenths >= 10_240 {
        let Some(next) = units.next() else { break };
        unit = next;
        tenths /= 1024;
    }
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
}

/// `1 attempt`, `2 attempts`.
pub(crate) fn count(number: u64, one: &str) -> String {
    if number == 1 {
        format!("1 {one}")
    } else {
        format!("{number} {one}s")
    }
}

/// `10 in, 60 out (12 reasoning)`; `None` when nothing was reported.
pub(crate) fn usage(usage: &Usage) -> Option<String> {
    let mut parts = Vec::new();
    if let Some(input) = usage.input {
        let cached = usage.cached_input.filter(|cached| *cached > 0);
        let cached = cached
            .map(|cached| format!(" ({cached} cached)"))
            .unwrap_or_default();
        parts.push(format!("{input} in{cached}"));
    }
    if let Some(output) = usage.output {
        let reasoning = usage.reasoning.filter(|reasoning| *reasoning > 0);
        let reasoning = reasoning
            .map(|reasoning| format!(" ({reasoning} reasoning)"))
            .unwrap_or_default();
        parts.push(format!("{output} out{reasoning}"));
    }
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// A word for the shell: quoted if it needs to be.
pub(crate) fn shell(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+=,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_well() {
        let told = [
            (0, "0 ms"),
            (850, "850 ms"),
            (1_234, "1.2 s"),
            (59_999, "59.9 s"),
            (125_000, "2 min 5 s"),
            (11_400_000, "3 h 10 min"),
        ];
        for (given, text) in told {
            assert_eq!(millis(given), text);
        }
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        let told = [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_399_000, "2000-02-28 23:59:59 UTC"),
            (951_782_400_000, "2000-02-29 00:00:00 UTC"),
            (1_796_096_186_123, "2026-12-01 03:36:26 UTC"),
            (4_107_542_400_000, "2100-03-01 00:00:00 UTC"),
        ];
        for (given, text) in told {
            assert_eq!(date(given), text);
        }
        // The largest stored time there can be is no reason to panic.
        assert!(date(u64::MAX).ends_with("UTC"));
    }

    #[test]
    fn sizes_read_well() {
        let told = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (5_325, "5.2 KiB"),
            (1 << 20, "1.0 MiB"),
            (u64::MAX, "16777215.9 TiB"),
        ];
        for (given, text) in told {
            assert_eq!(bytes(given), text);
        }
    }

    #[test]
    fn a_word_comes_through_the_shell_unchanged() {
        let told = [
            ("0199-a.b", "0199-a.b"),
            ("two words", "'two words'"),
            ("it's", r"'it'\''s'"),
            ("$HOME", "'$HOME'"),
            ("", "''"),
        ];
        for (given, text) in told {
            assert_eq!(shell(given), text);
        }
    }
}
