//! What only the text of a message tells.
//!
//! Prose is read for the statuses under which a provider is known to hide a
//! failure of another kind; elsewhere it decides nothing
//! (docs/providers.md#rules/prose).

use crate::error::ErrorKind;

/// The kind that a message names, if its status is one that needs the message.
pub(super) fn kind_of(message: &str, status: Option<u16>) -> Option<ErrorKind> {
    let status = status?;
    let message = message.to_ascii_lowercase();
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| message.contains(phrase));
    match status {
        400 | 413 | 422 if says(TOO_LONG) => Some(ErrorKind::ContextLength),
        403 if says(&["context length"]) => Some(ErrorKind::ContextLength),
        400 if says(SPENT) => Some(ErrorKind::QuotaExhausted),
        400 if says(CONTENT) => Some(ErrorKind::ContentPolicy),
        429 if says(DAILY) || allows_nothing(&message) => Some(ErrorKind::QuotaExhausted),
        // More than a whole minute's allowance: no waiting makes room for it.
        429 if says(&["request too large for "]) => Some(ErrorKind::Rejected),
        _ => None,
    }
}

/// A prompt that does not fit.
const TOO_LONG: &[&str] = &[
    "prompt is too long",
    "maximum context length",
    "context window",
    "context length",
    "exceed context limit",
    "exceeds the available context size",
    "exceeds the maximum number of tokens",
    "input is too long",
    "too many tokens: total number of tokens in the prompt",
    "contextwindowexceedederror",
];

/// Anthropic: a limit that the customer set, and a balance that is used up.
const SPENT: &[&str] = &["specified api usage limits", "credit balance is too low"];

/// The name of `LiteLLM`'s exception.
const CONTENT: &[&str] = &["contentpolicyviolationerror"];

/// `OpenRouter`'s name for its limit of free requests by the day.
const DAILY: &[&str] = &["free-models-per-day"];

/// Google: a quota of nothing at all, which the advice to wait does not fit.
fn allows_nothing(message: &str) -> bool {
    message.contains("quota exceeded")
        && ["limit: 0", "limit:0"].iter().any(|limit| {
            let mut rests = message.split(limit).skip(1);
            rests.any(|rest| !rest.starts_with(|c: char| c.is_ascii_digit() || c == '.'))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_nothing_is_no_limit_of_something() {
        for (message, kind) in [
            ("Quota exceeded for metric: x, limit: 0, model: m", true),
            ("Quota exceeded for metric: x, limit: 0", true),
            ("Quota exceeded for metric: x, limit: 05", false),
            ("Quota exceeded for metric: x, limit: 0.5", false),
            ("Quota exceeded for metric: x, limit: 15", false),
            ("limit: 0", false),
        ] {
            let kind = kind.then_some(ErrorKind::QuotaExhausted);
            assert_eq!(kind_of(message, Some(429)), kind, "{message}");
            assert_eq!(kind_of(message, Some(503)), None);
        }
    }

    #[test]
    fn prose_decides_nothing_under_other_statuses() {
        for status in [None, Some(401), Some(404), Some(500), Some(503), Some(529)] {
            for message in TOO_LONG.iter().chain(SPENT).chain(CONTENT).chain(DAILY) {
                assert_eq!(kind_of(message, status), None, "{status:?} {message}");
            }
        }
    }
}
