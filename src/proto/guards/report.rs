//! What became of an attempt, and what that says about its endpoint.

use crate::error::ErrorKind;
use crate::proto::breaker::Verdict;
use crate::proto::classify::Failure;
use std::time::Duration;

/// What became of an attempt that had been let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// How it ended.
    pub outcome: Reported,
    /// How long the first token took, if one came and was not told before.
    pub first_token: Option<Duration>,
    /// How long the provider asked to wait, if it did.
    pub retry_after: Option<Duration>,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reported {
    /// With an answer, whole or cut by a limit of its own.
    Succeeded,
    /// With a failure of this kind.
    Failed(ErrorKind),
    /// Because the caller stopped it, or nobody reported. It says nothing.
    Cancelled,
}

impl Report {
    /// An answer came.
    pub const fn success() -> Self {
        Self::of(Reported::Succeeded)
    }

    /// It failed.
    pub const fn failure(kind: ErrorKind) -> Self {
        Self::of(Reported::Failed(kind))
    }

    /// It was stopped.
    pub const fn cancelled() -> Self {
        Self::of(Reported::Cancelled)
    }

    /// Adds how long the first token took.
    pub const fn with_first_token(mut self, took: Duration) -> Self {
        self.first_token = Some(took);
        self
    }

    /// Adds how long the provider asked to wait.
    pub const fn with_retry_after(mut self, wait: Option<Duration>) -> Self {
        self.retry_after = wait;
        self
    }

    const fn of(outcome: Reported) -> Self {
        Self {
            outcome,
            first_token: None,
            retry_after: None,
        }
    }
}

impl From<&Failure> for Report {
    fn from(failure: &Failure) -> Self {
        Self::failure(failure.kind).with_retry_after(failure.hints.after)
    }
}

/// What a failure of this kind says about the endpoint.
///
/// An allow-list: only what the endpoint did itself counts against it. A refusal
/// of the request, the credential or the content is an answer. So is a spent
/// quota: an open circuit would hide the one message that helps.
pub const fn verdict(kind: ErrorKind) -> Verdict {
    use ErrorKind as K;
    match kind {
        K::Dns
        | K::Connect
        | K::Tls
        | K::ConnectTimeout
        | K::ConnectionClosed
        | K::Reset
        | K::BodyFraming
        | K::Decode
        | K::Truncated
        | K::FirstTokenTimeout
        | K::IdleTimeout
        | K::ProgressTimeout
        | K::UpstreamTimeout
        | K::Overloaded
        | K::ServerError
        | K::Protocol
        | K::EmptyResponse => Verdict::Failure,

        K::RateLimited => Verdict::Throttled,

        // The caller's, or the model's own way of answering.
        K::Auth
        | K::QuotaExhausted
        | K::Rejected
        | K::ContextLength
        | K::ContentPolicy
        | K::Incomplete
        | K::NotJson
        | K::ContinuationMismatch
        | K::Cancelled
        | K::DeadlineExceeded
        | K::Config
        | K::InvalidRequest
        | K::InvalidCursor
        | K::CursorAhead
        | K::OldGeneration
        | K::NotFound
        | K::Expired
        | K::KeyConflict
        | K::Busy
        | K::NotPossible => Verdict::Neutral,

        // Ours.
        K::EventTooLarge
        | K::JournalFull
        | K::BudgetExhausted
        | K::CircuitOpen
        | K::Saturated
        | K::ShuttingDown
        | K::StoreUnavailable
        | K::StaleLease
        | K::WrongSequence
        | K::StoreCorrupt
        | K::StoreFull
        | K::Internal => Verdict::Neutral,
    }
}
