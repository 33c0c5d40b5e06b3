//! Waits that providers write in prose, and prose that is fit to be shown.

use crate::proto::retry::wait_of_text;
use std::time::Duration;

/// How far into a text a hint is looked for, in bytes. Documented messages are
/// a few hundred bytes; the rest of a hostile one is not worth reading.
const LOOKED_AT: usize = 4096;

/// How often one phrase is followed: a message repeats its hint once or twice.
const MAX_PHRASES: usize = 8;

/// The wait in a message such as `Please try again in 1.3s`.
///
/// OpenAI, Azure and Google put it there, often without a header
/// (docs/providers.md#openai-chat/retry-headers).
pub(super) fn wait_in_prose(message: &str) -> Option<Duration> {
    let lower = head(message, LOOKED_AT).to_ascii_lowercase();
    [
        "try again in ",
        "try again after ",
        "retry in ",
        "retry after ",
    ]
    .iter()
    .find_map(|phrase| {
        let mut rests = lower.split(phrase).skip(1).take(MAX_PHRASES);
        rests.find_map(wait_of_text)
    })
}

/// A text of one line and at most `max` characters, with what looks like a
/// credential masked: providers quote the key they refuse.
pub(super) fn clean(text: &str, max: usize) -> String {
    // Masking comes first, so that the cut cannot leave half a key unmasked.
    let mut shown = String::new();
    let mut rest = head(text, LOOKED_AT);
    let mut at_start_of_word = true;
    while let Some(first) = rest.chars().next() {
        if at_start_of_word && let Some(length) = credential(rest) {
            shown.push_str("[credential]");
            rest = rest.get(length..).unwrap_or_default();
            at_start_of_word = false;
            continue;
        }
        shown.push(if is_unfit(first) { ' ' } else { first });
        at_start_of_word = !first.is_ascii_alphanumeric();
        rest = rest.get(first.len_utf8()..).unwrap_or_default();
    }
    let shown = shown.trim();
    shown
        .char_indices()
        .nth(max)
        .map_or(shown, |(end, _)| shown.get(..end).unwrap_or_default())
        .to_owned()
}

/// The prefixes that providers, and those who host their keys, give to
/// credentials (docs/providers.md#rules/credentials).
const PREFIXES: &[&str] = &[
    "sk-",
    "sk_",
    "rk_",
    "AIza",
    "ya29.",
    "gsk_",
    "xai-",
    "hf_",
    "pplx-",
    "nvapi-",
    "csk-",
    "fw_",
    "r8_",
    "tgp_v1_",
    "AKIA",
    "ASIA",
    "ghp_",
    "github_pat_",
    "eyJ",
];

/// What stands before a credential of any form, in lower case.
const SCHEMES: &[&str] = &["bearer ", "basic ", "key=", "api_key=", "apikey=", "token="];

/// The length of the credential at the start of a text, with the scheme before it.
fn credential(text: &str) -> Option<usize> {
    let scheme = SCHEMES
        .iter()
        .find(|scheme| {
            text.get(..scheme.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(scheme))
        })
        .map(|scheme| scheme.len());
    let start = match scheme {
        Some(length) => length,
        None => PREFIXES
            .iter()
            .find(|prefix| text.starts_with(**prefix))?
            .len(),
    };
    let key = text.get(start..)?;
    let of_key = |c: char| c.is_ascii_alphanumeric() || "-_*.+/~=".contains(c);
    let length = key.find(|c: char| !of_key(c)).unwrap_or(key.len());
    // Shorter than any key: a word that happens to begin alike.
    (length >= 8).then_some(start.saturating_add(length))
}

/// Whether a character breaks a line, or changes how a terminal shows the rest of it.
fn is_unfit(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The first `max` bytes, cut back to a character's border.
fn head(text: &str, max: usize) -> &str {
    if text.len() <= max {
        return text;
    }
    let end = (0..=max).rev().find(|end| text.is_char_boundary(*end));
    text.get(..end.unwrap_or(0)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_as_providers_write_them() {
        for (text, millis) in [
            (
                "Rate limit reached for m. Please try again in 1.3s.",
                Some(1_300),
            ),
            ("Please try again in 28ms. Visit ...", Some(28)),
            ("Try again in 35 seconds.", Some(35_000)),
            ("Please try again in 6m0s.", Some(360_000)),
            ("please retry in 46.5s", Some(46_500)),
            ("try again in 1 hour, 5 minutes", Some(3_900_000)),
            ("Please retry after 2 minutes", Some(120_000)),
            ("try again in a moment", None),
            ("try again in 5", None),
            ("try again in .s", None),
            ("try again in 1.2.3s", None),
            ("try again in 99999999999999999999 days", None),
            ("try again in -3s", None),
            ("", None),
        ] {
            assert_eq!(
                wait_in_prose(text),
                millis.map(Duration::from_millis),
                "{text}"
            );
        }
    }

    #[test]
    fn a_message_is_one_bounded_line_without_credentials() {
        assert_eq!(clean("a\nb\u{7}c  ", 500), "a b c");
        assert_eq!(clean(&"é".repeat(600), 500), "é".repeat(500));
        assert_eq!(
            clean(
                "Incorrect API key provided: sk-proj-abcd****wxyz. Find it at",
                500
            ),
            "Incorrect API key provided: [credential] Find it at"
        );
        assert_eq!(
            clean("header Bearer abc.def-ghi_jkl!", 500),
            "header [credential]!"
        );
        assert_eq!(
            clean("a task-oriented sk- model", 500),
            "a task-oriented sk- model"
        );
        let key = format!("{} sk-{}", "x".repeat(490), "k".repeat(60));
        assert!(!clean(&key, 500).contains("sk-k"));
    }

    #[test]
    fn every_known_form_of_a_credential_is_masked() {
        for key in [
            "sk-proj-AbCdEf0123456789",
            "sk-ant-api03-AbCd_0123-456789",
            "sk-or-v1-0123456789abcdef",
            "AIzaSyA0123456789abcdefghi",
            "ya29.a0AfH6SM-0123456789",
            "gsk_0123456789abcdefABCDEF",
            "xai-0123456789abcdefABCDEF",
            "hf_0123456789abcdefABCDEF",
            "AKIAIOSFODNN7EXAMPLE",
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln",
            "Bearer 0123456789+/abcdef==",
            "BEARER 0123456789abcdef",
            "Basic dXNlcjpwYXNzd29yZA==",
            "key=0123456789abcdef",
            "api_key=0123456789abcdef",
        ] {
            for (before, after) in [("", ""), ("key: ", ", told"), ("\"", "\""), ("(", ")")] {
                let text = format!("{before}{key}{after}");
                let shown = format!("{before}[credential]{after}");
                assert_eq!(clean(&text, 500), shown);
            }
        }
        let words = "Basic rules; a bearer of news; key=short; task_sk-1; risk-averse ideas";
        assert_eq!(clean(words, 500), words);
    }

    #[test]
    fn what_a_terminal_would_obey_is_blank() {
        assert_eq!(
            clean("a\u{1b}[31mb\u{2028}c\u{202e}d\u{2066}e", 500),
            "a [31mb c d e"
        );
    }
}
