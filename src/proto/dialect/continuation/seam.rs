//! Where the old text ends and the new one begins.

use super::{Continuation, ContinuationForm};

/// The continuation begins the answer anew instead of going on with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Restarted;

/// Decides, for the first text of a continuation, what of it is new.
///
/// **Prefill.** The model goes on inside the same message, so everything is new;
/// only white space that the request had to leave out is taken off again where
/// the model repeats it.
///
/// **User message.** The model may repeat the last words, or start over. An
/// overlap is cut out when the text begins with exactly what the old text ends
/// with, and that is at least [`MIN_OVERLAP`] characters, or the whole old text of
/// at least [`MIN_WHOLE`]: shorter ones occur by chance. A text that begins as the
/// old one begins, for [`RESTART`] characters, and is no such overlap, has started
/// over: appending it would say everything twice. Anything else is new. Text is
/// held back until that is decided, never more than [`MAX_OVERLAP`] bytes of it.
#[derive(Debug)]
pub(super) enum Seam {
    /// What is left of the white space that the request left out.
    Space(String),
    /// Not decided yet: the old text, and the new text so far.
    Open { old: String, held: String },
    /// Everything from here on is new.
    Closed,
}

/// Characters. Two words; "of the " at the end of one sentence and the start of
/// the next is a coincidence.
const MIN_OVERLAP: usize = 12;

/// Characters. A repetition of everything is recognised earlier than one of the
/// last words.
const MIN_WHOLE: usize = 8;

/// Characters. Longer than a heading or the start of a list item that an answer
/// may repeat for its own reasons.
const RESTART: usize = 32;

/// Bytes. Models repeat a sentence, not a page; and it bounds the work.
const MAX_OVERLAP: usize = 512;

impl Seam {
    pub(super) fn of(continuation: &Continuation) -> Self {
        match continuation.form {
            ContinuationForm::Prefill => {
                let old = &continuation.captured;
                let start = old.len().saturating_sub(continuation.trimmed);
                Self::Space(old.get(start..).unwrap_or_default().to_owned())
            }
            ContinuationForm::UserMessage => Self::Open {
                old: continuation.captured.clone(),
                held: String::new(),
            },
        }
    }

    /// Takes new text; gives what of the text so far is new and decided.
    pub(super) fn push(&mut self, text: &str) -> Result<String, Restarted> {
        match self {
            Self::Closed => Ok(text.to_owned()),
            Self::Space(space) => {
                let common = common_prefix(space, text);
                let new = text.get(common..).unwrap_or_default().to_owned();
                let left = space.get(common..).unwrap_or_default().to_owned();
                // Text that goes on differently has passed the seam.
                *self = if new.is_empty() && !left.is_empty() {
                    Self::Space(left)
                } else {
                    Self::Closed
                };
                Ok(new)
            }
            Self::Open { old, held } => {
                held.push_str(text);
                if may_still_repeat(old, held) {
                    return Ok(String::new());
                }
                self.close()
            }
        }
    }

    /// No more text comes: decides with what there is.
    pub(super) fn close(&mut self) -> Result<String, Restarted> {
        let Self::Open { old, held } = std::mem::replace(self, Self::Closed) else {
            return Ok(String::new());
        };
        let overlap = overlap(&old, &held);
        let repeats_all = overlap == old.len() && overlap > 0;
        let common = common_prefix(&old, &held);
        if !repeats_all && held.get(..common).unwrap_or_default().chars().count() >= RESTART {
            return Err(Restarted);
        }
        Ok(held.get(overlap..).unwrap_or_default().to_owned())
    }
}

/// Whether more text could make an overlap, or a restart, of what is held.
fn may_still_repeat(old: &str, held: &str) -> bool {
    if held.len() >= MAX_OVERLAP {
        return false;
    }
    let restarts = old.len() > held.len()
        && old.starts_with(held)
        && (old.len() <= MAX_OVERLAP || held.chars().count() < RESTART);
    restarts || suffixes(old).any(|suffix| suffix.len() > held.len() && suffix.starts_with(held))
}

/// The bytes of the longest overlap that is certain, or 0.
fn overlap(old: &str, held: &str) -> usize {
    suffixes(old)
        .find(|suffix| {
            let least = if suffix.len() == old.len() {
                MIN_WHOLE
            } else {
                MIN_OVERLAP
            };
            held.starts_with(suffix) && suffix.chars().count() >= least
        })
        .map_or(0, str::len)
}

/// The ends of a text, the longest first.
fn suffixes(old: &str) -> impl Iterator<Item = &str> {
    let first = old.len().saturating_sub(MAX_OVERLAP);
    (first..old.len()).filter_map(|start| old.get(start..))
}

/// Bytes that two texts have in common at their beginning, whole characters only.
fn common_prefix(a: &str, b: &str) -> usize {
    a.chars()
        .zip(b.chars())
        .take_while(|(a, b)| a == b)
        .map(|(a, _)| a.len_utf8())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seam(form: ContinuationForm, captured: &str) -> Seam {
        let trimmed = match form {
            ContinuationForm::Prefill => captured.len() - captured.trim_end().len(),
            ContinuationForm::UserMessage => 0,
        };
        Seam::of(&Continuation {
            body: String::new(),
            form,
            captured: captured.to_owned(),
            trimmed,
        })
    }

    /// What is new, whole and in pieces of one character.
    #[track_caller]
    fn check(form: ContinuationForm, old: &str, new: &str, expected: Result<&str, Restarted>) {
        let run = |pieces: Vec<String>| {
            let mut seam = seam(form, old);
            let mut out = String::new();
            for piece in pieces {
                out.push_str(&seam.push(&piece)?);
            }
            out.push_str(&seam.close()?);
            Ok(out)
        };
        let expected = expected.map(str::to_owned);
        assert_eq!(run(vec![new.to_owned()]), expected, "whole: {new:?}");
        let pieces = new.chars().map(String::from).collect();
        assert_eq!(run(pieces), expected, "in pieces: {new:?}");
    }

    #[test]
    fn a_prefill_is_appended_as_it_is() {
        let check = |old, new, expected| check(ContinuationForm::Prefill, old, new, Ok(expected));
        // Legitimate prose may begin as earlier prose did.
        check(
            "We need tests. ",
            "We need tests for the parser, too.",
            "We need tests for the parser, too.",
        );
        check("a. ", " b", "b");
        check("a.\n\n", "\n\nb", "b");
        check("a.\n\n", "\nb", "b");
        check("a. ", "  b", " b");
        check("a", " b", " b");
    }

    #[test]
    fn a_certain_overlap_is_cut_out() {
        let check =
            |old, new, expected| check(ContinuationForm::UserMessage, old, new, Ok(expected));
        check("The quick brown ", "quick brown fox.", "fox.");
        check("Step one. ", "Step one. Step two.", "Step two.");
        check("one two three four", "two three four five", " five");
        check("der Fluß läuft über", "ß läuft über die Ufer", " die Ufer");
        check("exactly all of it", "exactly all of it", "");
    }

    #[test]
    fn an_uncertain_overlap_is_kept() {
        let check = |old, new| check(ContinuationForm::UserMessage, old, new, Ok(new));
        check("The quick brown ", "brown fox.");
        check("The quick brown ", "fox.");
        check("I ", "I think");
        check("ends with the same words", "the same");
        // The words occur in the old text, but not at its end.
        check(
            "We need tests. And more.",
            "We need tests for the parser, too.",
        );
        check("x", "");
    }

    #[test]
    fn a_text_that_starts_over_is_refused() {
        let old = "It was a bright cold day in April, and all the clocks were wrong. Nobody minded";
        check(
            ContinuationForm::UserMessage,
            old,
            "It was a bright cold day in April, and the clocks",
            Err(Restarted),
        );
        let long = format!("{old}{}", " and so on".repeat(100));
        check(ContinuationForm::UserMessage, &long, &long, Err(Restarted));
    }

    #[test]
    fn what_is_held_is_bounded() {
        let old = "ab".repeat(5_000);
        let mut seam = seam(ContinuationForm::UserMessage, &old);
        let mut pushed = 0;
        while let Ok(text) = seam.push("b") {
            pushed += 1;
            if !text.is_empty() {
                break;
            }
            assert!(pushed <= MAX_OVERLAP + 1);
        }
    }
}
