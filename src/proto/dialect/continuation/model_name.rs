//! Which form a model takes, by its name.

use super::ContinuationForm;

/// The form of continuation that a model takes: prefill up to Claude 4.5, a user
/// message from 4.6 on (docs/providers.md#anthropic-messages/continuation) and for every name
/// without a version: a user message is a request like any other, while a refused
/// prefill costs an attempt.
///
/// Reads the names of the API itself (`claude-sonnet-4-5-20250929`), and what
/// Bedrock, Vertex and gateways make of them
/// (`us.anthropic.claude-3-5-sonnet-20241022-v2:0`, `claude-opus-4-1@20250805`,
/// `anthropic/claude-opus-4.6`).
pub fn preferred_form(model: &str) -> ContinuationForm {
    match version(model) {
        Some(version) if version <= (4, 5) => ContinuationForm::Prefill,
        _ => ContinuationForm::UserMessage,
    }
}

/// The version of a Claude model: the first figures behind `claude` that are no
/// date.
fn version(model: &str) -> Option<(u32, u32)> {
    let model = model.to_ascii_lowercase();
    let (_, name) = model.rsplit_once("claude")?;
    let mut words = name
        .split(['-', '_', '@', ':', '/', ' '])
        .filter(|word| !word.is_empty());
    let mut behind_family = false;
    loop {
        let word = words.next()?;
        // `claude-v2` and `claude-instant-v1` are the only names with a `v` before
        // the version; in later ones it numbers the deployment, and ends the name.
        let figures = match word.strip_prefix('v') {
            Some(figures) if figures.bytes().all(|byte| byte.is_ascii_digit()) => {
                if behind_family {
                    return None;
                }
                figures
            }
            _ => word,
        };
        if let Some((major, minor)) = figures.split_once('.') {
            if let (Some(major), Some(minor)) = (number(major), number(minor)) {
                return Some((major, minor));
            }
        } else if let Some(major) = number(figures) {
            let minor = words.next().and_then(number).unwrap_or(0);
            return Some((major, minor));
        }
        behind_family = word != "instant";
    }
}

/// A part of a version: one or two digits. A date has eight.
fn number(word: &str) -> Option<u32> {
    let fits = (1..=2).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_digit());
    fits.then(|| word.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_models() {
        for (model, expected) in [
            ("claude-2.1", Some((2, 1))),
            ("claude-instant-1.2", Some((1, 2))),
            ("anthropic.claude-v2:1", Some((2, 1))),
            ("anthropic.claude-instant-v1", Some((1, 0))),
            ("claude-3-opus-20240229", Some((3, 0))),
            ("claude-3-5-sonnet-20241022", Some((3, 5))),
            ("us.anthropic.claude-3-5-sonnet-20241022-v2:0", Some((3, 5))),
            ("claude-3-7-sonnet-latest", Some((3, 7))),
            ("anthropic/claude-3.7-sonnet:thinking", Some((3, 7))),
            ("claude-sonnet-4-20250514", Some((4, 0))),
            ("claude-opus-4-1@20250805", Some((4, 1))),
            ("claude-sonnet-4-5", Some((4, 5))),
            ("claude-sonnet-4-5-20250929", Some((4, 5))),
            ("Claude-Haiku-4-5", Some((4, 5))),
            ("claude-opus-4-6-20260101", Some((4, 6))),
            ("anthropic/claude-opus-4.6", Some((4, 6))),
            ("claude-opus-4-10", Some((4, 10))),
            ("claude-5-sonnet-20260601", Some((5, 0))),
            ("claude-sonnet-5", Some((5, 0))),
            ("claude-latest", None),
            ("claude-opus-latest-v1:0", None),
            ("claude-opus-latest-v2:1", None),
            ("claude-20260101", None),
            ("claude-", None),
            ("claude", None),
            ("gpt-4-5", None),
            ("", None),
        ] {
            assert_eq!(version(model), expected, "{model}");
        }
    }

    #[test]
    fn the_form_changes_after_4_5() {
        use ContinuationForm::{Prefill, UserMessage};
        for (model, expected) in [
            ("claude-3-5-sonnet-20241022", Prefill),
            ("claude-sonnet-4-5", Prefill),
            ("claude-opus-4-6-20260101", UserMessage),
            ("claude-5-sonnet-20260601", UserMessage),
            ("my-alias", UserMessage),
        ] {
            assert_eq!(preferred_form(model), expected, "{model}");
        }
    }
}
