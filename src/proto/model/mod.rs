//! The words of the crate as plain values. Floor 0: uses nothing but the error.

mod answer;
mod cursor;
mod delta;
mod endpoint;
mod key;
mod provider_error;
mod text;
mod time;
mod transport;
mod usage;

pub use answer::{Answer, Choice, Completion, Part, ToolCall};
pub use cursor::{Cursor, Generation, Seq};
pub use delta::{Delta, PartKind, StopReason};
pub use endpoint::EndpointId;
pub use key::{Fingerprint, Key};
pub use provider_error::ProviderError;
pub use text::Text;
pub use time::{Moment, WallTime};
pub use transport::{HttpRequest, Method, ResponseHead, TransportFailure};
pub use usage::{Usage, UsageBasis};

use serde::{Deserialize, Serialize};

/// One provider API's event vocabulary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Dialect {
    /// OpenAI Chat Completions, and the many servers that speak it.
    #[serde(rename = "openai_chat")]
    OpenAiChat,
    /// OpenAI Responses: the only one of these with a cursor of its own.
    #[serde(rename = "openai_responses")]
    OpenAiResponses,
    /// Anthropic Messages.
    AnthropicMessages,
    /// Google Gemini, `streamGenerateContent`.
    GeminiGenerate,
}

impl Dialect {
    /// Every dialect, for tables and tests.
    pub const ALL: &'static [Self] = &[
        Self::OpenAiChat,
        Self::OpenAiResponses,
        Self::AnthropicMessages,
        Self::GeminiGenerate,
    ];

    /// The dialect's name in configuration, journals and output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OpenAiChat => "openai_chat",
            Self::OpenAiResponses => "openai_responses",
            Self::AnthropicMessages => "anthropic_messages",
            Self::GeminiGenerate => "gemini_generate",
        }
    }

    /// The dialect with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|d| d.name() == name)
    }
}

impl std::fmt::Display for Dialect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// How far an attempt had come when it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Provably nothing was sent.
    PreSend,
    /// The request was sent, no output was committed.
    PreStream,
    /// Output was committed: there is no transparent retry any more.
    MidStream,
}
