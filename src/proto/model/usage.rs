//! Token counts as the provider reported them.

use serde::{Deserialize, Serialize};

/// Tokens, as far as the provider said. A field it did not send is `None`,
/// which is not the same as zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Tokens of the prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<u64>,
    /// Tokens of the answer, reasoning included where the provider includes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<u64>,
    /// Prompt tokens that were read from a cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached_input: Option<u64>,
    /// Prompt tokens that were written to a cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<u64>,
    /// Answer tokens spent on reasoning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<u64>,
}

impl Usage {
    /// Whether nothing was reported.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Takes a later report of the same attempt. Reports are cumulative in every
    /// dialect, so a later value replaces an earlier one, field by field.
    pub fn update(&mut self, later: &Self) {
        fn newer(slot: &mut Option<u64>, value: Option<u64>) {
            if value.is_some() {
                *slot = value;
            }
        }
        newer(&mut self.input, later.input);
        newer(&mut self.output, later.output);
        newer(&mut self.cached_input, later.cached_input);
        newer(&mut self.cache_write, later.cache_write);
        newer(&mut self.reasoning, later.reasoning);
    }

    /// Adds the usage of another attempt of the same answer (a continuation).
    pub fn add(&mut self, other: &Self) {
        fn sum(slot: &mut Option<u64>, value: Option<u64>) {
            if let Some(value) = value {
                *slot = Some(slot.unwrap_or(0).saturating_add(value));
            }
        }
        sum(&mut self.input, other.input);
        sum(&mut self.output, other.output);
        sum(&mut self.cached_input, other.cached_input);
        sum(&mut self.cache_write, other.cache_write);
        sum(&mut self.reasoning, other.reasoning);
    }

    /// This report without an earlier one that is part of it: what was used since.
    pub fn since(&self, earlier: &Self) -> Self {
        fn rest(total: Option<u64>, part: Option<u64>) -> Option<u64> {
            total.map(|total| total.saturating_sub(part.unwrap_or(0)))
        }
        Self {
            input: rest(self.input, earlier.input),
            output: rest(self.output, earlier.output),
            cached_input: rest(self.cached_input, earlier.cached_input),
            cache_write: rest(self.cache_write, earlier.cache_write),
            reasoning: rest(self.reasoning, earlier.reasoning),
        }
    }
}

/// What a number of tokens is known from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum UsageBasis {
    /// The provider's count of a whole answer.
    Reported,
    /// The provider's last count before the answer was cut: at least so many.
    LastSeen,
    /// The characters that came, at four to a token.
    Estimated,
}

impl UsageBasis {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reported => "reported",
            Self::LastSeen => "last_seen",
            Self::Estimated => "estimated",
        }
    }
}
