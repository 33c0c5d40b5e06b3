//! What a provider said went wrong.

use std::time::Duration;

/// A provider's own error, from a non-200 body or from inside the stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProviderError {
    /// The provider's type or status word (`overloaded_error`, `UNAVAILABLE`).
    pub error_type: Option<String>,
    /// The provider's code, as text (`rate_limit_exceeded`, `503`).
    pub code: Option<String>,
    /// The HTTP status this stands for: the one the body named, else the one the
    /// provider documents for this code or type. `None` when neither is known.
    pub http_equivalent: Option<u16>,
    /// The provider's message: at most [`ProviderError::MAX_MESSAGE`] characters
    /// on one line, with what looks like a credential masked; empty when there
    /// was none.
    pub message: String,
    /// How long the body asked to wait.
    pub retry_after: Option<Duration>,
}

impl ProviderError {
    /// The longest message, in characters: enough for every documented one, and
    /// short enough for a log line.
    pub const MAX_MESSAGE: usize = 500;
}
