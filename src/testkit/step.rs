//! One step of a raw script, as data.

use bytes::Bytes;
use serde::Deserialize;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// One step of a script that a [`RawServer`](super::RawServer) plays.
///
/// In JSON each step is an object: `{"send_text": ".."}`, `{"send_b64": ".."}`,
/// `{"send_template": ".."}`, `{"repeat_text": "..", "times": n}`,
/// `{"sleep_ms": n}`, `{"close": "fin"}` or `{"close": "rst"}`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Written")]
#[non_exhaustive]
pub enum Step {
    /// Sends these bytes.
    Send(Bytes),
    /// Sends a text with times in it, made when it is sent.
    SendTemplate(Template),
    /// Sends these bytes many times.
    Repeat {
        /// The bytes.
        bytes: Bytes,
        /// How many times.
        times: u64,
    },
    /// Waits; ends early only if the client leaves.
    Sleep(Duration),
    /// Closes the connection. What follows is not played.
    Close(Close),
}

/// How a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Close {
    /// In order, with a FIN.
    Fin,
    /// Broken off, with a RST.
    Rst,
}

/// A text with times relative to now: `{{http_date:+3s}}` (RFC 9110 section
/// 5.6.7) and `{{rfc3339:+2s}}`, to the second, rounded down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Time { format: Format, offset: i64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    HttpDate,
    Rfc3339,
}

/// Why a step cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StepError {
    /// Not exactly one of the known steps.
    #[error(
        "expected exactly one of send_text, send_b64, send_template, repeat_text with times, sleep_ms and close"
    )]
    Shape,
    /// `send_b64` is not base64.
    #[error("expected base64 with padding, but found byte {0:#04x} at {1}")]
    Base64(u8, usize),
    /// `send_b64` does not end where base64 can.
    #[error("expected base64 in groups of four, but found {0} characters")]
    Base64Length(usize),
    /// A placeholder of `send_template` is unknown.
    #[error("expected a placeholder such as http_date:+3s or rfc3339:+2s, but found {0:?}")]
    Placeholder(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    send_text: Option<String>,
    send_b64: Option<String>,
    send_template: Option<String>,
    repeat_text: Option<String>,
    times: Option<u64>,
    sleep_ms: Option<u64>,
    close: Option<Close>,
}

impl TryFrom<Written> for Step {
    type Error = StepError;

    fn try_from(written: Written) -> Result<Self, StepError> {
        match written {
            Written {
                send_text: Some(text),
                send_b64: None,
                send_template: None,
                repeat_text: None,
                times: None,
                sleep_ms: None,
                close: None,
            } => Ok(Self::Send(text.into())),
            Written {
                send_text: None,
                send_b64: Some(text),
                send_template: None,
                repeat_text: None,
                times: None,
                sleep_ms: None,
                close: None,
            } => Ok(Self::Send(base64(&text)?)),
            Written {
                send_text: None,
                send_b64: None,
                send_template: Some(text),
                repeat_text: None,
                times: None,
                sleep_ms: None,
                close: None,
            } => Ok(Self::SendTemplate(Template::parse(&text)?)),
            Written {
                send_text: None,
                send_b64: None,
                send_template: None,
                repeat_text: Some(text),
                times: Some(times),
                sleep_ms: None,
                close: None,
            } => Ok(Self::Repeat {
                bytes: text.into(),
                times,
            }),
            Written {
                send_text: None,
                send_b64: None,
                send_template: None,
                repeat_text: None,
                times: None,
                sleep_ms: Some(ms),
                close: None,
            } => Ok(Self::Sleep(Duration::from_millis(ms))),
            Written {
                send_text: None,
                send_b64: None,
                send_template: None,
                repeat_text: None,
                times: None,
                sleep_ms: None,
                close: Some(close),
            } => Ok(Self::Close(close)),
            _ => Err(StepError::Shape),
        }
    }
}

impl Step {
    /// Sends this text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Send(text.into().into())
    }
}

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    ///
    /// [`StepError::Placeholder`] when what stands between `{{` and `}}` is not
    /// known.
    pub fn parse(text: &str) -> Result<Self, StepError> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{{") {
            let (name, after) = after
                .split_once("}}")
                .ok_or_else(|| StepError::Placeholder(after.to_owned()))?;
            parts.push(Part::Text(before.to_owned()));
            parts.push(time_part(name).ok_or_else(|| StepError::Placeholder(name.to_owned()))?);
            rest = after;
        }
        parts.push(Part::Text(rest.to_owned()));
        Ok(Self(parts))
    }

    /// The text at this time.
    pub fn render(&self, now: SystemTime) -> String {
        self.0
            .iter()
            .map(|part| match part {
                Part::Text(text) => text.clone(),
                Part::Time { format, offset } => {
                    let distance = Duration::from_secs(offset.unsigned_abs());
                    let time = if *offset < 0 {
                        now.checked_sub(distance)
                    } else {
                        now.checked_add(distance)
                    };
                    format.write(time.unwrap_or(now))
                }
            })
            .collect()
    }
}

fn time_part(name: &str) -> Option<Part> {
    let (format, offset) = name.split_once(':')?;
    let format = match format {
        "http_date" => Format::HttpDate,
        "rfc3339" => Format::Rfc3339,
        _ => return None,
    };
    let offset: i64 = offset.strip_suffix('s')?.parse().ok()?;
    // Beyond a century the calendars of the two formats part.
    (offset.unsigned_abs() <= 3_155_760_000).then_some(Part::Time { format, offset })
}

impl Format {
    fn write(self, time: SystemTime) -> String {
        match self {
            Self::HttpDate => httpdate::fmt_http_date(time.max(UNIX_EPOCH)),
            Self::Rfc3339 => rfc3339(time),
        }
    }
}

fn rfc3339(time: SystemTime) -> String {
    let seconds = time
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Days to a date in the proleptic Gregorian calendar, with years that begin
    // in March so that the leap day comes last.
    let days = days.saturating_add(719_468);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 {
        march_month + 3
    } else {
        march_month - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
        second / 3_600,
        second / 60 % 60,
        second % 60
    )
}

/// Base64 with padding (RFC 4648 section 4).
fn base64(text: &str) -> Result<Bytes, StepError> {
    let stripped = text.trim_end_matches('=');
    let padding = text.len().saturating_sub(stripped.len());
    if !text.len().is_multiple_of(4) || padding > 2 {
        return Err(StepError::Base64Length(text.len()));
    }
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count) = (0_u32, 0_u32);
    for (at, byte) in stripped.bytes().enumerate() {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return Err(StepError::Base64(byte, at)),
        };
        bits = (bits << 6 | u32::from(value)) & 0xFFFF;
        count += 6;
        if count >= 8 {
            count -= 8;
            // The shift leaves more than a byte; the lowest one is meant.
            out.push(u8::try_from(bits >> count & 0xFF).unwrap_or_default());
        }
    }
    Ok(out.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(json: &str) -> Result<Step, serde_json::Error> {
        serde_json::from_str(json)
    }

    #[test]
    fn each_step_reads_from_its_object() {
        assert_eq!(step(r#"{"send_text": "a"}"#).unwrap(), Step::text("a"));
        assert_eq!(
            step(r#"{"send_b64": "AP8="}"#).unwrap(),
            Step::Send(Bytes::from_static(&[0, 255]))
        );
        assert_eq!(
            step(r#"{"repeat_text": "x", "times": 3}"#).unwrap(),
            Step::Repeat {
                bytes: "x".into(),
                times: 3
            }
        );
        assert_eq!(
            step(r#"{"sleep_ms": 5}"#).unwrap(),
            Step::Sleep(Duration::from_millis(5))
        );
        assert_eq!(
            step(r#"{"close": "rst"}"#).unwrap(),
            Step::Close(Close::Rst)
        );
    }

    #[test]
    fn anything_else_is_an_error() {
        for bad in [
            "{}",
            r#"{"send_text": "a", "close": "fin"}"#,
            r#"{"repeat_text": "a"}"#,
            r#"{"send_b64": "AP8"}"#,
            r#"{"send_b64": "A*8="}"#,
            r#"{"send_b64": "===="}"#,
            r#"{"send_template": "{{http_date:soon}}"}"#,
            r#"{"send_template": "{{http_date:+3s"}"#,
            r#"{"close": "maybe"}"#,
            r#"{"send": "a"}"#,
        ] {
            assert!(step(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn base64_decodes_every_length() {
        for (text, bytes) in [
            ("", ""),
            ("Zg==", "f"),
            ("Zm8=", "fo"),
            ("Zm9v", "foo"),
            ("Zm9vYmFy", "foobar"),
        ] {
            assert_eq!(base64(text).unwrap(), bytes);
        }
    }

    #[test]
    fn a_template_is_made_at_the_time_it_is_sent() {
        let template = Template::parse("a {{http_date:+3s}} b {{rfc3339:-2s}}").unwrap();
        let now = UNIX_EPOCH + Duration::from_secs(951_782_399);
        assert_eq!(
            template.render(now),
            "a Tue, 29 Feb 2000 00:00:02 GMT b 2000-02-28T23:59:57Z"
        );
    }

    #[test]
    fn rfc3339_knows_leap_years() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_868_799, "2000-02-29T23:59:59Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (1_798_761_599, "2026-12-31T23:59:59Z"),
        ] {
            assert_eq!(rfc3339(UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
    }
}
