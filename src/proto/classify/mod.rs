//! What failed, and what follows from it. Floor 1.
//!
//! [`Failure`] is the fact; [`judge`] is the policy: one exhaustive function, an
//! allow-list. A kind that is not listed as retryable is not retried, and a new
//! kind does not compile until somebody decides.

mod elsewhere;
mod prose;
mod words;

pub use elsewhere::{Elsewhere, elsewhere};

use super::journal::FailureNote;
use super::model::{Phase, ProviderError, ResponseHead, TransportFailure};
use super::retry::{RetryHints, names_a_wait};
use crate::error::{Error, ErrorKind, Place};
use std::time::Duration;

/// A fact: what went wrong with one exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What.
    pub kind: ErrorKind,
    /// One lower-case line, bounded, without secrets.
    pub message: String,
    /// HTTP status, if a response came.
    pub status: Option<u16>,
    /// What the provider said, if it said something.
    pub provider: Option<Box<ProviderError>>,
    /// What the other side asked for.
    pub hints: RetryHints,
    /// Whether the request may have left this machine.
    pub sent: bool,
    /// Whether the provider's words are ones this crate knows. Unknown means stop.
    pub known: bool,
}

/// What follows from a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Send the whole request again.
    Retry {
        /// Once at once, as the failure passes by itself.
        at_once: bool,
        /// By how much the schedule's bound is stretched; above 1 for overload.
        stretch: u32,
    },
    /// As [`Verdict::Retry`], but what the first request did is unknown: only an
    /// operation under an idempotency key may do it.
    RetryIfKeyed,
    /// The credential was refused: once, and only if there is another one now.
    RefreshCredential,
    /// Nothing will change: tell the caller.
    Stop,
    /// Output was committed: never replay. Resume, continue, or offer.
    Interrupt,
}

impl Failure {
    /// A failure of this kind that nobody but us noticed.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            status: None,
            provider: None,
            hints: RetryHints::default(),
            sent: true,
            known: true,
        }
    }

    /// The exchange broke below HTTP.
    pub fn from_transport(failure: &TransportFailure) -> Self {
        Self {
            sent: failure.sent,
            ..Self::new(failure.kind, failure.message.clone())
        }
    }

    /// A response came whose status says that it is not the answer.
    pub fn from_response(head: &ResponseHead, provider: ProviderError, hints: RetryHints) -> Self {
        let provider = words::named_by_header(head, provider);
        let (kind, known) = words::kind_of(&provider, Some(head.status));
        let said = if provider.message.is_empty() {
            String::new()
        } else {
            format!(": {}", provider.message)
        };
        let after = if names_a_wait(head) {
            hints.after.or(provider.retry_after)
        } else {
            provider.retry_after.or(hints.after)
        };
        let hints = RetryHints { after, ..hints };
        Self {
            kind,
            message: format!("provider answered with status {}{said}", head.status),
            status: Some(head.status),
            provider: Some(Box::new(provider)),
            hints,
            sent: true,
            known,
        }
    }

    /// An error came inside a stream whose status was fine.
    ///
    /// Judged by its type and code; the status of the response says nothing.
    pub fn in_band(provider: ProviderError) -> Self {
        let (kind, known) = words::kind_of(&provider, provider.http_equivalent);
        let message = if provider.message.is_empty() {
            "provider sent an error without a message".to_owned()
        } else {
            format!("provider sent an error: {}", provider.message)
        };
        Self {
            kind,
            message,
            status: None,
            hints: RetryHints {
                after: provider.retry_after,
                should_retry: None,
            },
            provider: Some(Box::new(provider)),
            sent: true,
            known,
        }
    }

    /// The failure as a journal tells it.
    pub fn note(&self) -> FailureNote {
        FailureNote {
            kind: self.kind.code().to_owned(),
            message: self.message.clone(),
            status: self.status,
            provider_type: self.provider.as_ref().and_then(|p| p.error_type.clone()),
            provider_code: self.provider.as_ref().and_then(|p| p.code.clone()),
            http_equivalent: self.provider.as_ref().and_then(|p| p.http_equivalent),
            retry_after_ms: self
                .hints
                .after
                .map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
        }
    }
}

impl FailureNote {
    /// The error a caller gets for a failure that a journal tells of.
    pub fn to_error(&self) -> Error {
        let kind = ErrorKind::from_code(&self.kind).unwrap_or(ErrorKind::Internal);
        Error::new(kind, self.message.clone())
            .at(Place {
                status: self.status,
                ..Place::default()
            })
            .with_retry_after(self.retry_after_ms.map(Duration::from_millis))
    }
}

/// How much longer an overloaded provider is left alone than a failing one.
/// Four times puts the first retry of the interactive preset at up to two seconds.
const OVERLOAD_STRETCH: u32 = 4;

/// What follows from a failure in this phase.
///
/// The table of docs/providers.md#rules/verdicts, row by row. `Retry-After`, attempts,
/// budget and deadline are the operation's business: a verdict says what may be
/// done, not whether there is time for it.
pub fn judge(failure: &Failure, phase: Phase) -> Verdict {
    use ErrorKind as K;
    const RETRY: Verdict = Verdict::Retry {
        at_once: false,
        stretch: 1,
    };

    if failure.kind == K::Cancelled {
        return Verdict::Stop;
    }
    if phase == Phase::MidStream {
        return Verdict::Interrupt;
    }
    if !failure.known {
        return Verdict::Stop;
    }
    match failure.hints.should_retry {
        Some(false) => return Verdict::Stop,
        Some(true) if failure.status.is_some() => return RETRY,
        _ => {}
    }
    match failure.kind {
        // Nothing was sent: trying again cannot cost anything.
        K::Dns | K::Connect | K::Tls | K::ConnectTimeout => RETRY,

        // Sent, and no word of what became of it. A reset that provably
        // precedes processing (RFC 9113 section 8.7) is as good as unsent.
        K::ConnectionClosed | K::Reset | K::BodyFraming | K::Decode => {
            if failure.sent {
                Verdict::RetryIfKeyed
            } else {
                RETRY
            }
        }
        K::UpstreamTimeout | K::FirstTokenTimeout | K::IdleTimeout | K::ProgressTimeout => {
            Verdict::RetryIfKeyed
        }
        K::Truncated | K::EmptyResponse => Verdict::RetryIfKeyed,

        // The provider says that it did not do the work.
        K::RateLimited => RETRY,
        K::Overloaded => Verdict::Retry {
            at_once: false,
            stretch: OVERLOAD_STRETCH,
        },
        K::ServerError => match failure.status {
            // A proxy that lost its upstream for a moment has it back at once.
            Some(502) => Verdict::Retry {
                at_once: true,
                stretch: 1,
            },
            // A bare 500 without the provider's own words may have done anything.
            Some(500) if failure.provider.as_deref().is_none_or(names_nothing) => {
                Verdict::RetryIfKeyed
            }
            _ => RETRY,
        },

        // A malformed payload is the provider's hiccup; the answer so far was
        // shown to nobody.
        K::Protocol if failure.status.is_none() => Verdict::RetryIfKeyed,

        // It may have expired, or been rotated, since it was read.
        K::Auth if failure.status == Some(401) => Verdict::RefreshCredential,

        // The same request will fail the same way, or somebody else has to act.
        K::Protocol
        | K::Auth
        | K::QuotaExhausted
        | K::Rejected
        | K::ContextLength
        | K::ContentPolicy
        | K::EventTooLarge
        | K::JournalFull
        | K::ContinuationMismatch
        | K::Incomplete
        | K::NotJson => Verdict::Stop,

        // Ours and the caller's.
        K::Config
        | K::InvalidRequest
        | K::InvalidCursor
        | K::CursorAhead
        | K::OldGeneration
        | K::NotFound
        | K::Expired
        | K::KeyConflict
        | K::Busy
        | K::NotPossible
        | K::Cancelled
        | K::DeadlineExceeded
        | K::BudgetExhausted
        | K::CircuitOpen
        | K::Saturated
        // To ask ourselves again at once helps nobody; to wait, or to go
        // elsewhere, is the business of who was refused.
        | K::ShuttingDown
        | K::StoreUnavailable
        | K::StaleLease
        | K::WrongSequence
        | K::StoreCorrupt
        | K::StoreFull
        | K::Internal => Verdict::Stop,
    }
}

fn names_nothing(provider: &ProviderError) -> bool {
    provider.error_type.is_none() && provider.code.is_none()
}

#[cfg(test)]
mod tests;
