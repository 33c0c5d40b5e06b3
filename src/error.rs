//! The one public error of the crate.
//!
//! Every floor may use this module, and it uses none of them. An [`Error`] says
//! what happened ([`ErrorKind`]), who has to act ([`ErrorClass`]), and where
//! ([`Place`]); [`Error::source`](std::error::Error::source) gives the level
//! below. Whether to try again is not a property of an error: that is policy,
//! and it lives in [`proto::classify`](crate::proto::classify).

use std::fmt;
use std::time::Duration;

/// What went wrong, as one flat list with stable string codes.
///
/// The codes are part of the public contract: they appear in journals, in
/// `--json` output and in logs, and never change their meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ErrorKind {
    // The caller has to act.
    /// A setting is missing, contradictory or out of range.
    Config,
    /// The request cannot be sent as it is (bad URL, body that is not JSON, ...).
    InvalidRequest,
    /// The cursor does not parse.
    InvalidCursor,
    /// The cursor names a position behind the last record.
    CursorAhead,
    /// The cursor names an older generation of the answer.
    OldGeneration,
    /// No journal has this key.
    NotFound,
    /// A journal with this key existed and has expired.
    Expired,
    /// The key was already used with another request.
    KeyConflict,
    /// Another writer holds the lease of this journal.
    Busy,
    /// What was asked for cannot be done with this answer (resume without a
    /// cursor, continuation of a tool call, ...).
    NotPossible,
    /// The caller cancelled the operation.
    Cancelled,

    // The network.
    /// The host name did not resolve.
    Dns,
    /// No connection could be made.
    Connect,
    /// The TLS handshake failed.
    Tls,
    /// The connection was closed before a response arrived.
    ConnectionClosed,
    /// The connection or the HTTP/2 stream was reset.
    Reset,
    /// The HTTP body broke its own framing (chunk size, missing last chunk,
    /// content length not reached).
    BodyFraming,
    /// The content coding of the body could not be decoded.
    Decode,
    /// The stream ended without the dialect's proof of completion.
    Truncated,

    // A clock of ours.
    /// No connection within the connect limit.
    ConnectTimeout,
    /// No output within the first-token limit.
    FirstTokenTimeout,
    /// No byte within the transport-idle limit.
    IdleTimeout,
    /// No output within the progress-idle limit.
    ProgressTimeout,
    /// The operation's deadline passed.
    DeadlineExceeded,

    // The provider said so.
    /// The credential was refused (401; a 403 is [`Rejected`](Self::Rejected)).
    Auth,
    /// Too many requests or tokens per unit of time; passes by itself.
    RateLimited,
    /// A quota, billing or spend limit; does not pass by waiting.
    QuotaExhausted,
    /// The provider has more work than it can do.
    Overloaded,
    /// The provider failed inside.
    ServerError,
    /// The provider or a proxy before it gave up waiting (408, 504, 524).
    UpstreamTimeout,
    /// The provider refused the request as it stands.
    Rejected,
    /// The input does not fit the model's context.
    ContextLength,
    /// A content policy refused the prompt or stopped the answer, or the model
    /// refused.
    ContentPolicy,

    // The answer is not what was promised.
    /// A payload that should be JSON is not, or has an impossible shape.
    Protocol,
    /// One event is larger than the limit.
    EventTooLarge,
    /// The answer is larger than the journal may grow.
    JournalFull,
    /// A response ended without a single event of substance.
    EmptyResponse,
    /// The continuation does not fit what was there before.
    ContinuationMismatch,
    /// The answer ended, but a limit cut it or the provider paused it, where a
    /// whole one was asked for.
    Incomplete,
    /// The answer is whole but not the JSON the caller asked for.
    NotJson,

    // Local limits.
    /// The shared retry budget is spent.
    BudgetExhausted,
    /// The endpoint failed so often that it is left alone for a while.
    CircuitOpen,
    /// More requests are waiting for the endpoint than it may have in flight.
    Saturated,
    /// The process is shutting down.
    ShuttingDown,

    // Storage.
    /// The store did not answer, or answered with an I/O error.
    StoreUnavailable,
    /// The writer's lease is no longer the current one.
    StaleLease,
    /// The append did not start at the expected sequence number.
    WrongSequence,
    /// Stored bytes do not pass their checksum.
    StoreCorrupt,
    /// There is no room left in the store.
    StoreFull,

    /// A defect of this crate. Please report it.
    Internal,
}

/// Who has to act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorClass {
    /// The caller of this crate.
    Caller,
    /// Nobody in particular: the network.
    Network,
    /// The provider of the model.
    Provider,
    /// The operator of this process: a limit or the store.
    Operator,
    /// The authors of this crate.
    Internal,
}

impl ErrorClass {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Caller => "caller",
            Self::Network => "network",
            Self::Provider => "provider",
            Self::Operator => "operator",
            Self::Internal => "internal",
        }
    }
}

macro_rules! kinds {
    ($($kind:ident => $code:literal, $class:ident;)*) => {
        impl ErrorKind {
            /// Every kind, for tables and tests.
            pub const ALL: &'static [Self] = &[$(Self::$kind),*];

            /// The stable code: lower-case words joined by underscores.
            pub const fn code(self) -> &'static str {
                match self { $(Self::$kind => $code),* }
            }

            /// Who has to act.
            pub const fn class(self) -> ErrorClass {
                match self { $(Self::$kind => ErrorClass::$class),* }
            }

            /// The kind with this code.
            pub fn from_code(code: &str) -> Option<Self> {
                match code { $($code => Some(Self::$kind),)* _ => None }
            }
        }
    };
}

kinds! {
    Config => "config", Caller;
    InvalidRequest => "invalid_request", Caller;
    InvalidCursor => "invalid_cursor", Caller;
    CursorAhead => "cursor_ahead", Caller;
    OldGeneration => "old_generation", Caller;
    NotFound => "not_found", Caller;
    Expired => "expired", Caller;
    KeyConflict => "key_conflict", Caller;
    Busy => "busy", Caller;
    NotPossible => "not_possible", Caller;
    Cancelled => "cancelled", Caller;
    Dns => "dns", Network;
    Connect => "connect", Network;
    Tls => "tls", Network;
    ConnectionClosed => "connection_closed", Network;
    Reset => "reset", Network;
    BodyFraming => "body_framing", Network;
    Decode => "decode", Network;
    Truncated => "truncated", Network;
    ConnectTimeout => "connect_timeout", Network;
    FirstTokenTimeout => "first_token_timeout", Provider;
    IdleTimeout => "idle_timeout", Network;
    ProgressTimeout => "progress_timeout", Provider;
    DeadlineExceeded => "deadline_exceeded", Caller;
    Auth => "auth", Caller;
    RateLimited => "rate_limited", Provider;
    QuotaExhausted => "quota_exhausted", Caller;
    Overloaded => "overloaded", Provider;
    ServerError => "server_error", Provider;
    UpstreamTimeout => "upstream_timeout", Provider;
    Rejected => "rejected", Caller;
    ContextLength => "context_length", Caller;
    ContentPolicy => "content_policy", Caller;
    Protocol => "protocol", Provider;
    EventTooLarge => "event_too_large", Provider;
    JournalFull => "journal_full", Operator;
    EmptyResponse => "empty_response", Provider;
    ContinuationMismatch => "continuation_mismatch", Provider;
    Incomplete => "incomplete", Provider;
    NotJson => "not_json", Provider;
    BudgetExhausted => "budget_exhausted", Operator;
    CircuitOpen => "circuit_open", Operator;
    Saturated => "saturated", Operator;
    ShuttingDown => "shutting_down", Operator;
    StoreUnavailable => "store_unavailable", Operator;
    StaleLease => "stale_lease", Operator;
    WrongSequence => "wrong_sequence", Internal;
    StoreCorrupt => "store_corrupt", Operator;
    StoreFull => "store_full", Operator;
    Internal => "internal", Internal;
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// Where an error happened. Never holds a query string, a header or a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place {
    /// Number of the upstream attempt, from 1.
    pub attempt: Option<u32>,
    /// Host of the upstream.
    pub host: Option<String>,
    /// HTTP status of the upstream's response.
    pub status: Option<u16>,
    /// Byte offset in the upstream body.
    pub offset: Option<u64>,
}

/// The error of this crate: one word wide, details boxed.
///
/// `Display` prints this level only; walk `source()` for the rest.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    place: Place,
    retry_after: Option<Duration>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error of this kind. The message is lower-case, says what was expected
    /// and what was found, and carries no secret.
    #[cold]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            place: Place::default(),
            retry_after: None,
            source: None,
        }))
    }

    /// Adds the level below.
    pub fn with_source(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// Says where.
    pub fn at(mut self, place: Place) -> Self {
        self.0.place = place;
        self
    }

    /// Adds how long the other side asked to wait.
    pub fn with_retry_after(mut self, wait: Option<Duration>) -> Self {
        self.0.retry_after = wait;
        self
    }

    /// What went wrong.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Who has to act.
    pub fn class(&self) -> ErrorClass {
        self.0.kind.class()
    }

    /// The message of this level.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Where it happened.
    pub fn place(&self) -> &Place {
        &self.0.place
    }

    /// How long the provider asked to wait before trying again, if it did.
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.kind, self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Error");
        out.field("kind", &self.0.kind)
            .field("message", &self.0.message);
        if self.0.place != Place::default() {
            out.field("place", &self.0.place);
        }
        if let Some(wait) = self.0.retry_after {
            out.field("retry_after", &wait);
        }
        if let Some(source) = &self.0.source {
            out.field("source", source);
        }
        out.finish()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|s| s as _)
    }
}

/// A result with the crate's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_word_wide_and_crosses_threads() {
        fn crosses<T: Send + Sync + 'static>() {}
        crosses::<Error>();
        assert_eq!(size_of::<Error>(), size_of::<usize>());
    }

    #[test]
    fn every_kind_has_a_code_of_its_own_that_leads_back_to_it() {
        for kind in ErrorKind::ALL {
            assert_eq!(ErrorKind::from_code(kind.code()), Some(*kind));
        }
    }
}
