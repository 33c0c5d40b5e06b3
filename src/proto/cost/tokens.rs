//! The tokens of one attempt, told apart by what they cost.

use crate::proto::journal::AttemptEnded;
use crate::proto::model::{Dialect, Usage, UsageBasis};
use serde::{Deserialize, Serialize};

/// Characters to a token, where nobody counted: a rule of thumb for English text,
/// too many for code and for other scripts. An estimate says that it is one.
pub const CHARS_PER_TOKEN: u64 = 4;

/// The tokens of one attempt. No token is in two of the counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    /// Of the prompt, at the full price; `None` when nobody said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<u64>,
    /// Of the prompt, read from a cache.
    pub cached_input: u64,
    /// Of the prompt, written to a cache.
    pub cache_write: u64,
    /// Of the answer, reasoning included.
    pub output: u64,
    /// What the output is known from.
    pub basis: UsageBasis,
}

impl Tokens {
    /// The tokens of an attempt; `None` when nothing was reported and no output
    /// came.
    pub fn of(dialect: Dialect, ended: &AttemptEnded) -> Option<Self> {
        let usage = &ended.usage;
        // Records of before there was a basis have none.
        let basis = match ended.usage_basis {
            Some(basis) => basis,
            None if usage.is_empty() => return None,
            None if ended.failure.is_some() => UsageBasis::LastSeen,
            None => UsageBasis::Reported,
        };
        let output = match basis {
            UsageBasis::Estimated => ended.output_chars.div_ceil(CHARS_PER_TOKEN),
            _ => usage.output.unwrap_or(0),
        };
        let cached_input = usage.cached_input.unwrap_or(0);
        let cache_write = usage.cache_write.unwrap_or(0);
        Some(Self {
            input: uncached(dialect, usage),
            cached_input,
            cache_write,
            output,
            basis,
        })
    }

    /// The whole prompt; `None` when nobody said.
    pub fn prompt(&self) -> Option<u64> {
        self.input.map(|input| {
            input
                .saturating_add(self.cached_input)
                .saturating_add(self.cache_write)
        })
    }

    /// Whether the provider counted the output.
    pub fn is_counted(&self) -> bool {
        self.basis != UsageBasis::Estimated
    }
}

/// The tokens of the prompt that no cache had a part in. Anthropic counts those
/// alone as input, the others count all (docs/providers.md#usage).
fn uncached(dialect: Dialect, usage: &Usage) -> Option<u64> {
    let input = usage.input?;
    Some(match dialect {
        Dialect::AnthropicMessages => input,
        _ => input
            .saturating_sub(usage.cached_input.unwrap_or(0))
            .saturating_sub(usage.cache_write.unwrap_or(0)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::model::Phase;

    fn ended(usage: Usage, basis: Option<UsageBasis>, chars: u64) -> AttemptEnded {
        AttemptEnded {
            usage,
            usage_basis: basis,
            output_chars: chars,
            ..AttemptEnded::new(1, Phase::MidStream, "finish")
        }
    }

    fn usage(input: u64, cached: u64, write: u64, output: u64) -> Usage {
        Usage {
            input: Some(input),
            output: Some(output),
            cached_input: Some(cached),
            cache_write: Some(write),
            reasoning: None,
        }
    }

    #[test]
    fn no_token_of_the_prompt_is_counted_twice_in_any_dialect() {
        let reported = Some(UsageBasis::Reported);
        // The same prompt of 412 tokens, 256 of them cached.
        for (dialect, said) in [
            (Dialect::OpenAiChat, usage(412, 256, 0, 9)),
            (Dialect::OpenAiResponses, usage(412, 256, 0, 9)),
            (Dialect::AnthropicMessages, usage(156, 256, 0, 9)),
        ] {
            let tokens = Tokens::of(dialect, &ended(said, reported, 0)).unwrap();
            assert_eq!((tokens.input, tokens.cached_input), (Some(156), 256));
            assert_eq!(tokens.prompt(), Some(412), "{dialect}");
        }
        // A server whose numbers cannot be is no reason to overflow.
        let odd = ended(usage(1, 256, u64::MAX, 9), reported, 0);
        let tokens = Tokens::of(Dialect::OpenAiChat, &odd).unwrap();
        assert_eq!((tokens.input, tokens.prompt()), (Some(0), Some(u64::MAX)));
    }

    #[test]
    fn an_estimate_is_made_of_the_characters_and_rounded_up() {
        for (chars, tokens) in [(1, 1), (4, 1), (5, 2), (u64::MAX, u64::MAX / 4 + 1)] {
            let cut = ended(Usage::default(), Some(UsageBasis::Estimated), chars);
            let told = Tokens::of(Dialect::OpenAiChat, &cut).unwrap();
            assert_eq!((told.output, told.input), (tokens, None));
            assert!(!told.is_counted());
        }
    }

    #[test]
    fn a_record_of_before_there_was_a_basis_has_the_one_that_follows() {
        let mut old = ended(usage(5, 0, 0, 3), None, 0);
        let basis = |ended: &AttemptEnded| Tokens::of(Dialect::OpenAiChat, ended).map(|t| t.basis);
        assert_eq!(basis(&old), Some(UsageBasis::Reported));
        old.failure = Some(crate::proto::cost::noted("reset", None));
        assert_eq!(basis(&old), Some(UsageBasis::LastSeen));
        old.usage = Usage::default();
        assert_eq!(basis(&old), None);
    }
}
