//! Values on the command line: durations, hold-back, headers.

use clap::ValueEnum;
use std::time::Duration;
use streamkeep::proto::operation::Hold;
use streamkeep::proto::retry::RetryPolicy;
use streamkeep::{Dialect, Error, ErrorKind};

/// A duration with its unit: `500ms`, `30s`, `1.5m`, `2h`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let expected = || {
        format!(
            "expected a duration such as 500ms, 30s, 2m or 1h, but found `{}`",
            shown(text)
        )
    };
    let split = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .ok_or_else(expected)?;
    let (number, unit) = text.split_at(split);
    let unit_seconds = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(expected()),
    };
    let number: f64 = number.parse().map_err(|_| expected())?;
    Duration::try_from_secs_f64(number * unit_seconds).map_err(|_| expected())
}

/// The limit of a clock: a duration of more than zero, or `off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit(pub(crate) Option<Duration>);

pub(crate) fn limit(text: &str) -> Result<Limit, String> {
    if text == "off" {
        return Ok(Limit(None));
    }
    let limit = duration(text)?;
    if limit.is_zero() {
        return Err("expected a limit of more than zero, or `off`, but found zero".to_owned());
    }
    Ok(Limit(Some(limit)))
}

/// `none`, `until-complete`, or `TOKENS[/MS]`.
pub(crate) fn hold(text: &str) -> Result<Hold, String> {
    let expected = || {
        format!(
            "expected none, until-complete, or TOKENS[/MS] such as 20/400, but found `{}`",
            shown(text)
        )
    };
    match text {
        "none" => return Ok(Hold::None),
        "until-complete" => return Ok(Hold::UntilComplete),
        _ => {}
    }
    let (tokens, time) = match text.split_once('/') {
        Some((tokens, ms)) => (
            tokens,
            Duration::from_millis(ms.parse().map_err(|_| expected())?),
        ),
        // Without a time only the tokens count.
        None => (text, Duration::MAX),
    };
    let tokens = tokens.parse().map_err(|_| expected())?;
    Ok(Hold::Until { tokens, time })
}

/// `Name: value`. Whether it may be sent is the request's to say: it refuses
/// headers that carry a credential.
pub(crate) fn header(text: &str) -> Result<(String, String), Error> {
    match text.split_once(':') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        }
        // What was found is not shown: it may be a secret in the wrong place.
        _ => Err(Error::new(
            ErrorKind::Config,
            "expected a header as `Name: value`, but found no colon after a name",
        )),
    }
}

/// A dialect by its name.
pub(crate) fn dialect(text: &str) -> Result<Dialect, String> {
    Dialect::from_name(text).ok_or_else(|| {
        let names: Vec<&str> = Dialect::ALL.iter().map(|dialect| dialect.name()).collect();
        format!(
            "expected one of {}, but found `{}`",
            names.join(", "),
            shown(text)
        )
    })
}

/// The dialect that a URL's path speaks of.
pub(crate) fn dialect_of_url(url: &str) -> Option<Dialect> {
    let path = url
        .split(['?', '#'])
        .next()
        .unwrap_or_default()
        .trim_end_matches('/');
    let ends = |tail: &str| path.ends_with(tail);
    if ends("/chat/completions") {
        Some(Dialect::OpenAiChat)
    } else if ends("/responses") {
        Some(Dialect::OpenAiResponses)
    } else if ends("/messages") {
        Some(Dialect::AnthropicMessages)
    } else if ends(":streamGenerateContent") || ends(":generateContent") {
        Some(Dialect::GeminiGenerate)
    } else {
        None
    }
}

/// A retry preset by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Retry {
    /// 3 attempts within 25 s: somebody waits
    Interactive,
    /// 5 attempts, waits up to 60 s: nobody watches
    Batch,
    /// 5 attempts, 1 s base, 30 s cap
    Reference,
    /// One attempt
    Never,
}

impl Retry {
    pub(crate) const fn policy(self) -> RetryPolicy {
        match self {
            Self::Interactive => RetryPolicy::INTERACTIVE,
            Self::Batch => RetryPolicy::BATCH,
            Self::Reference => RetryPolicy::REFERENCE,
            Self::Never => RetryPolicy::NEVER,
        }
    }
}

fn shown(text: &str) -> String {
    text.chars()
        .take(40)
        .collect::<String>()
        .escape_debug()
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_number_and_a_unit() {
        let reads = [
            ("500ms", 500),
            ("30s", 30_000),
            ("1.5s", 1_500),
            ("2m", 120_000),
            ("1h", 3_600_000),
            ("0s", 0),
        ];
        for (text, millis) in reads {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in [
            "",
            "30",
            "s",
            "-1s",
            "1.2.3s",
            "1d",
            "30 s",
            "1e3s",
            "999999999999999999999999h",
            ".s",
        ] {
            assert!(
                duration(text).unwrap_err().contains("expected a duration"),
                "{text}"
            );
        }
    }

    #[test]
    fn a_limit_can_be_off_but_not_zero() {
        assert_eq!(limit("off"), Ok(Limit(None)));
        assert_eq!(limit("2s"), Ok(Limit(Some(Duration::from_secs(2)))));
        assert!(limit("0ms").is_err());
    }

    #[test]
    fn hold_back_has_three_forms() {
        assert_eq!(hold("none"), Ok(Hold::None));
        assert_eq!(hold("until-complete"), Ok(Hold::UntilComplete));
        let until = |tokens, time| Ok(Hold::Until { tokens, time });
        assert_eq!(hold("20"), until(20, Duration::MAX));
        assert_eq!(hold("20/400"), until(20, Duration::from_millis(400)));
        for text in ["", "all", "20/", "/400", "-1", "20/4/1"] {
            assert!(hold(text).unwrap_err().contains("TOKENS[/MS]"), "{text}");
        }
    }

    #[test]
    fn a_header_without_a_name_is_refused_and_not_shown() {
        assert_eq!(
            header("X-Team:  blue ").unwrap(),
            ("X-Team".to_owned(), "blue".to_owned())
        );
        for text in ["sk-secret", ": sk-secret", ""] {
            assert!(
                !header(text).unwrap_err().to_string().contains("secret"),
                "{text}"
            );
        }
    }

    #[test]
    fn the_path_tells_the_dialect() {
        let told = [
            (
                "https://a.example/v1/chat/completions",
                Some(Dialect::OpenAiChat),
            ),
            (
                "https://a.example/v1/responses?api-version=1",
                Some(Dialect::OpenAiResponses),
            ),
            (
                "https://a.example/v1/messages/",
                Some(Dialect::AnthropicMessages),
            ),
            ("https://a.example/v1/completions", None),
            ("https://a.example/x?y=/messages", None),
            ("", None),
        ];
        for (url, dialect) in told {
            assert_eq!(dialect_of_url(url), dialect, "{url}");
        }
    }
}
