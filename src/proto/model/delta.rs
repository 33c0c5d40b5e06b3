//! One normalised increment of an answer.

use super::Usage;
use serde::{Deserialize, Serialize};

/// One increment, the same for every dialect.
///
/// `choice` is the candidate's index (chat `n > 1`; 0 elsewhere). `part` is the
/// block the increment belongs to: the content block index (Anthropic), the
/// output index (Responses), 0 where the dialect has no blocks.
///
/// The `index` of a tool call is the provider's own: `tool_calls[].index` in
/// chat, the content block index in Anthropic, the output index in Responses.
/// So it is dense only in chat, and it names the same call across attempts that
/// resume one response.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Delta {
    /// The provider's name for the answer.
    ResponseId(String),
    /// The model that answers.
    Model(String),
    /// Answer text.
    Text {
        /// Candidate.
        choice: u32,
        /// Block.
        part: u32,
        /// The text to append.
        text: String,
    },
    /// Reasoning or thinking text, or a summary of it.
    Reasoning {
        /// Candidate.
        choice: u32,
        /// Block.
        part: u32,
        /// The text to append.
        text: String,
    },
    /// The text of a refusal.
    Refusal {
        /// Candidate.
        choice: u32,
        /// Block.
        part: u32,
        /// The text to append.
        text: String,
    },
    /// A tool call opens, or its id or name becomes known.
    ToolCall {
        /// Candidate.
        choice: u32,
        /// The call's index in its candidate.
        index: u32,
        /// The call's id.
        id: Option<String>,
        /// The tool's name.
        name: Option<String>,
    },
    /// A fragment of a tool call's arguments.
    ToolArguments {
        /// Candidate.
        choice: u32,
        /// The call's index in its candidate.
        index: u32,
        /// The text to append; not valid JSON by itself.
        fragment: String,
    },
    /// The provider said that this call is whole.
    ToolCallDone {
        /// Candidate.
        choice: u32,
        /// The call's index in its candidate.
        index: u32,
    },
    /// A fragment came that belongs to no known call while several were open:
    /// the calls of this candidate can no longer be trusted.
    ToolCallsAmbiguous {
        /// Candidate.
        choice: u32,
    },
    /// Output of a kind that has no text: audio, an image, a search result, a
    /// signature, redacted thinking. The event itself carries it.
    Opaque {
        /// Candidate.
        choice: u32,
        /// Block.
        part: u32,
        /// The provider's word for it.
        kind: String,
    },
    /// A block opened (`open`) or closed. Not output by itself.
    Part {
        /// Candidate.
        choice: u32,
        /// Block.
        part: u32,
        /// What the block holds.
        kind: PartKind,
        /// Whether it opened.
        open: bool,
    },
    /// Token counts so far; later reports replace earlier ones.
    Usage(Usage),
    /// Why the candidate stopped.
    Stop {
        /// Candidate.
        choice: u32,
        /// Why.
        reason: StopReason,
    },
}

impl Delta {
    /// Whether this is output: what a model produced, as opposed to lifecycle.
    /// The first output is what stops the first-token clock and what makes the
    /// commit point.
    pub fn is_output(&self) -> bool {
        match self {
            Self::Text { text, .. } | Self::Reasoning { text, .. } | Self::Refusal { text, .. } => {
                !text.is_empty()
            }
            Self::ToolArguments { fragment, .. } => !fragment.is_empty(),
            Self::ToolCall { .. } | Self::Opaque { .. } | Self::ToolCallsAmbiguous { .. } => true,
            Self::ResponseId(_)
            | Self::Model(_)
            | Self::ToolCallDone { .. }
            | Self::Part { .. }
            | Self::Usage(_)
            | Self::Stop { .. } => false,
        }
    }

    /// How many characters of output it carries: text, reasoning, a refusal, a
    /// tool's name and its arguments. 0 for output that has no text.
    pub fn output_chars(&self) -> usize {
        match self {
            Self::Text { text, .. } | Self::Reasoning { text, .. } | Self::Refusal { text, .. } => {
                text.chars().count()
            }
            Self::ToolArguments { fragment, .. } => fragment.chars().count(),
            Self::ToolCall { name, .. } => name.as_ref().map_or(0, |name| name.chars().count()),
            _ => 0,
        }
    }
}

/// What a block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PartKind {
    /// Answer text, or a refusal in its place.
    Text,
    /// Reasoning: thinking in the clear, omitted, encrypted or redacted.
    Reasoning,
    /// A tool call that the caller has to run.
    ToolCall,
    /// Anything else: a tool the provider ran, its result, an image, a marker.
    Opaque,
}

/// Why an answer stopped.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StopReason {
    /// The model was done, or hit a stop sequence.
    Stop,
    /// A token limit cut it.
    Length,
    /// The model wants tools to be run.
    ToolCalls,
    /// A content filter stopped it.
    ContentFilter,
    /// The model refused.
    Refusal,
    /// The provider paused a long turn; sending it back continues it.
    Paused,
    /// A reason of the provider's own that is none of the above.
    Other(String),
}

impl StopReason {
    /// Whether an answer that stopped for this reason is whole.
    pub fn is_whole(&self) -> bool {
        matches!(self, Self::Stop | Self::ToolCalls)
    }

    /// The word for it, as in the serialised form; the provider's own for `Other`.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ToolCalls => "tool_calls",
            Self::ContentFilter => "content_filter",
            Self::Refusal => "refusal",
            Self::Paused => "paused",
            Self::Other(raw) => raw,
        }
    }
}
