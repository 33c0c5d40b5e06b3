//! Whether another route may answer instead.

use super::Failure;
use crate::error::ErrorKind;

/// Whether another route may take over after a failure before the commit point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Elsewhere {
    /// No: it would fail there too, or it is not ours to route around.
    Never,
    /// Yes, before the same route is asked again: it will not be better soon.
    AtOnce,
    /// Yes, when the same route has had its retries.
    WhenSpent,
    /// Yes, on a route that is declared to take a longer context.
    IfLarger,
}

/// Whether another route may take over after this failure.
///
/// The second half of the table of docs/providers.md#rules/verdicts. A refusal of
/// the content or of the credential is never routed around: the first would be
/// shopping for a laxer judge, the second would hide that the operator has to
/// act. Nor is a failure in words that nobody here knows. `server_error_at_once`
/// is the policy's: whether a 500 is answered by the next route at once.
pub fn elsewhere(failure: &Failure, server_error_at_once: bool) -> Elsewhere {
    use ErrorKind as K;
    if !failure.known {
        return Elsewhere::Never;
    }
    match failure.kind {
        // A silent route is not asked twice: each time costs the whole wait.
        K::FirstTokenTimeout | K::IdleTimeout | K::ProgressTimeout => Elsewhere::AtOnce,
        // Not even asked.
        K::CircuitOpen | K::Saturated => Elsewhere::AtOnce,
        // Somebody has to pay, but another account may already have.
        K::QuotaExhausted => Elsewhere::AtOnce,
        K::ServerError if server_error_at_once && failure.status == Some(500) => Elsewhere::AtOnce,

        // It may well pass by itself.
        K::Dns
        | K::Connect
        | K::Tls
        | K::ConnectTimeout
        | K::ConnectionClosed
        | K::Reset
        | K::BodyFraming
        | K::Decode
        | K::Truncated
        | K::EmptyResponse
        | K::UpstreamTimeout
        | K::RateLimited
        | K::Overloaded
        | K::ServerError
        | K::Protocol => Elsewhere::WhenSpent,

        K::ContextLength => Elsewhere::IfLarger,

        K::Auth
        | K::Rejected
        | K::ContentPolicy
        | K::EventTooLarge
        | K::JournalFull
        | K::ContinuationMismatch
        | K::Incomplete
        | K::NotJson
        | K::Config
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
        | K::ShuttingDown
        | K::StoreUnavailable
        | K::StaleLease
        | K::WrongSequence
        | K::StoreCorrupt
        | K::StoreFull
        | K::Internal => Elsewhere::Never,
    }
}
