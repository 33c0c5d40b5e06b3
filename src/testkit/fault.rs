//! Faults: what goes wrong with one response, and where.

use super::gate::Gate;
use super::speak::failure::Failure;
use bytes::Bytes;
use std::time::Duration;

/// One thing that goes wrong with one response.
///
/// A constructor says what; [`after_event`](Self::after_event),
/// [`after_byte`](Self::after_byte), [`after_head`](Self::after_head) and
/// [`before_head`](Self::before_head) say where. Positions count the response's
/// body: its events from 1 as sent, and its bytes without chunk framing. A
/// position beyond the end means: after the last byte, before the body's own end
/// (the last chunk). Where no position is given, each constructor says its own.
///
/// Several faults of one request work together: give the same request number to
/// [`Scenario::on`](super::Scenario::on) again.
#[derive(Clone, Debug)]
pub struct Fault {
    pub(crate) kind: Kind,
    pub(crate) at: At,
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    None,
    Refuse,
    Close,
    Reset,
    Stall(Hold),
    End,
    InBand(Failure),
    Insert(Bytes),
    GarbageChunk,
    Duplicate,
    Malformed,
    SplitUtf8,
    CutUtf8,
    MissingMarker,
    MissingProof,
    MissingTerminal,
    ContentLength(i64),
    Status(Box<Status>),
    Replace(Replacement),
    ContentType(String),
    SlowHead(Hold),
    Pings(Duration),
}

/// A body that is not the one expected, on status 200.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replacement {
    Html,
    JsonError(Failure),
    Empty,
}

/// A wait inside a response.
#[derive(Clone, Debug)]
pub(crate) enum Hold {
    For(Duration),
    Until(Gate),
    /// Until the client leaves.
    Forever,
}

#[derive(Clone, Debug)]
pub(crate) struct Status {
    pub(crate) code: Option<u16>,
    pub(crate) failure: Option<Failure>,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) message: Option<String>,
    pub(crate) body: Option<Bytes>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// Where this kind of fault usually comes.
    Usual,
    BeforeHead,
    Event(usize),
    Byte(u64),
}

impl Fault {
    const fn of(kind: Kind, at: At) -> Self {
        Self { kind, at }
    }

    /// Nothing goes wrong.
    pub const fn none() -> Self {
        Self::of(Kind::None, At::Usual)
    }

    // The connection.

    /// The connection is reset before anything is read from it. It counts as one
    /// request. (For a port nobody listens on see
    /// [`ClosedPort`](super::ClosedPort).)
    pub const fn refuse() -> Self {
        Self::of(Kind::Refuse, At::Usual)
    }

    /// The server closes with a FIN. By default before the head; in a body, the
    /// last chunk is missing.
    pub const fn close() -> Self {
        Self::of(Kind::Close, At::BeforeHead)
    }

    /// The server closes with a RST. By default before the head.
    ///
    /// What was written before has reached the client's kernel, unless its
    /// buffers were full: a client that does not read loses what did not fit.
    /// Some systems also drop what the client has received and not yet read;
    /// Linux does not.
    pub const fn reset() -> Self {
        Self::of(Kind::Reset, At::BeforeHead)
    }

    /// The server says nothing more until the client leaves. By default before
    /// the head. See [`until`](Self::until).
    pub const fn stall() -> Self {
        Self::of(Kind::Stall(Hold::Forever), At::BeforeHead)
    }

    /// The head comes late by `wait`.
    pub const fn slow_head(wait: Duration) -> Self {
        Self::of(Kind::SlowHead(Hold::For(wait)), At::Usual)
    }

    /// After the head nothing but pings comes, one every `every` until the client
    /// leaves: a comment for Chat, a `ping` event for Anthropic, a `keepalive`
    /// event that takes a sequence number for Responses. By default right after
    /// the head.
    pub const fn pings_only(every: Duration) -> Self {
        Self::of(Kind::Pings(every), At::Usual)
    }

    // The end of the body.

    /// A clean HTTP end (last chunk, then FIN) without the dialect's terminal
    /// event. By default just before that event.
    pub const fn end() -> Self {
        Self::of(Kind::End, At::Usual)
    }

    /// The end marker is missing: Chat's `[DONE]`, Anthropic's `message_stop`.
    /// Responses has none, so nothing changes there. The finish or stop reason
    /// was sent: the answer is whole.
    pub const fn missing_done() -> Self {
        Self::of(Kind::MissingMarker, At::Usual)
    }

    /// The finish or stop reason is missing, the end marker comes: the answer is
    /// only claimed to be whole. With Responses this is
    /// [`missing_terminal`](Self::missing_terminal).
    pub const fn missing_finish() -> Self {
        Self::of(Kind::MissingProof, At::Usual)
    }

    /// Neither finish reason, nor usage, nor end marker; the HTTP end is clean.
    pub const fn missing_terminal() -> Self {
        Self::of(Kind::MissingTerminal, At::Usual)
    }

    /// The provider's error in band, in the dialect's shape, and the end of the
    /// body after it. By default before the first event.
    pub const fn error(failure: Failure) -> Self {
        Self::of(Kind::InBand(failure), At::Usual)
    }

    // The bytes of the body.

    /// Every chunk with a character of several bytes is cut in two inside that
    /// character. The content is right; needs text beyond ASCII, or the server
    /// answers 500 and says so.
    pub const fn split_utf8() -> Self {
        Self::of(Kind::SplitUtf8, At::Usual)
    }

    /// The body is cut inside the first character of several bytes (after the
    /// position, if there is one) and the connection closed with a FIN. Needs
    /// text beyond ASCII, as [`split_utf8`](Self::split_utf8).
    pub const fn cut_utf8() -> Self {
        Self::of(Kind::CutUtf8, At::Usual)
    }

    /// The body has a `Content-Length` that is wrong by `difference`: positive
    /// and bytes are missing at the end, negative and there are too many.
    pub const fn content_length_off_by(difference: i64) -> Self {
        Self::of(Kind::ContentLength(difference), At::Usual)
    }

    /// A chunk whose size is no number, then a FIN. By default before the first
    /// event.
    pub const fn garbage_chunk_size() -> Self {
        Self::of(Kind::GarbageChunk, At::Usual)
    }

    /// One event comes twice: the one named by [`after_event`](Self::after_event),
    /// by default the first with output.
    pub const fn duplicate_event() -> Self {
        Self::of(Kind::Duplicate, At::Usual)
    }

    /// One event's JSON is cut in half: the one after
    /// [`after_event`](Self::after_event), by default the first with output.
    pub const fn malformed_event() -> Self {
        Self::of(Kind::Malformed, At::Usual)
    }

    /// These bytes come in between, as a chunk of their own. By default before
    /// the first event.
    pub fn insert(bytes: impl Into<Bytes>) -> Self {
        Self::of(Kind::Insert(bytes.into()), At::Usual)
    }

    // Another response.

    /// Another status, with the dialect's error body for it. See
    /// [`header`](Self::header), [`retry_after`](Self::retry_after),
    /// [`body`](Self::body).
    pub fn status(status: u16) -> Self {
        Self::with_status(Some(status), None)
    }

    /// The status and body by which the provider reports this failure.
    pub fn failure(failure: Failure) -> Self {
        Self::with_status(None, Some(failure))
    }

    /// `400`: the response can no longer be streamed because it is too old
    /// (<https://github.com/openai/openai-python/issues/2828>).
    pub fn window_closed() -> Self {
        Self::status(400).message(WINDOW_CLOSED)
    }

    /// A page of HTML with status 200, as from a login wall or a proxy.
    pub const fn html_page() -> Self {
        Self::of(Kind::Replace(Replacement::Html), At::Usual)
    }

    /// An error as plain JSON, with status 200.
    pub const fn json_error(failure: Failure) -> Self {
        Self::of(Kind::Replace(Replacement::JsonError(failure)), At::Usual)
    }

    /// Status 200 and an event stream without a byte.
    pub const fn empty() -> Self {
        Self::of(Kind::Replace(Replacement::Empty), At::Usual)
    }

    /// The right body under another content type.
    pub fn content_type(value: impl Into<String>) -> Self {
        Self::of(Kind::ContentType(value.into()), At::Usual)
    }

    // Where.

    /// After the `n`th event of the body; 0 is right after the head.
    pub const fn after_event(mut self, n: usize) -> Self {
        self.at = At::Event(n);
        self
    }

    /// After the `n`th byte of the body, in the middle of an event if need be.
    pub const fn after_byte(mut self, n: u64) -> Self {
        self.at = At::Byte(n);
        self
    }

    /// Right after the head.
    pub const fn after_head(self) -> Self {
        self.after_event(0)
    }

    /// Before the head: the client gets no byte.
    pub const fn before_head(mut self) -> Self {
        self.at = At::BeforeHead;
        self
    }

    // More about it. Each changes the faults it is about and no others.

    /// A stall or a slow head lasts until the gate lets it through; then the
    /// response goes on.
    pub fn until(mut self, gate: &Gate) -> Self {
        match &mut self.kind {
            Kind::Stall(hold) | Kind::SlowHead(hold) => *hold = Hold::Until(gate.clone()),
            _ => {}
        }
        self
    }

    /// A stall lasts this long; then the response goes on.
    pub fn lasting(mut self, time: Duration) -> Self {
        match &mut self.kind {
            Kind::Stall(hold) | Kind::SlowHead(hold) => *hold = Hold::For(time),
            _ => {}
        }
        self
    }

    /// A header of a [`status`](Self::status) or [`failure`](Self::failure).
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        if let Kind::Status(status) = &mut self.kind {
            status.headers.push((name.into(), value.into()));
        }
        self
    }

    /// `Retry-After` of a status, in seconds. For a date, or for nonsense, use
    /// [`header`](Self::header).
    pub fn retry_after(self, seconds: u64) -> Self {
        self.header("Retry-After", seconds.to_string())
    }

    /// `retry-after-ms` of a status.
    pub fn retry_after_ms(self, milliseconds: u64) -> Self {
        self.header("retry-after-ms", milliseconds.to_string())
    }

    /// `x-should-retry` of a status.
    pub fn should_retry(self, value: bool) -> Self {
        self.header("x-should-retry", value.to_string())
    }

    /// The message inside the dialect's error body of a status.
    pub fn message(mut self, message: impl Into<String>) -> Self {
        if let Kind::Status(status) = &mut self.kind {
            status.message = Some(message.into());
        }
        self
    }

    /// The whole body of a status, in place of the dialect's error body. Its
    /// content type is `application/json` unless [`header`](Self::header) says
    /// otherwise.
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        if let Kind::Status(status) = &mut self.kind {
            status.body = Some(body.into());
        }
        self
    }

    fn with_status(code: Option<u16>, failure: Option<Failure>) -> Self {
        Self::of(
            Kind::Status(Box::new(Status {
                code,
                failure,
                headers: Vec::new(),
                message: None,
                body: None,
            })),
            At::Usual,
        )
    }
}

pub(crate) const WINDOW_CLOSED: &str =
    "This response can no longer be streamed because it is more than 5 minutes old.";
