//! The journal: records, and their byte format. Floor 1.
//!
//! A journal is the append-only log of one operation. Its records are the events
//! as delivered downstream, interleaved with control records; an operation's
//! state is the fold of them.

mod codec;

pub use codec::{CodecError, Decoder, FORMAT_VERSION, HEADER_LEN, MAX_PAYLOAD, decode, encode};

use super::model::{
    Dialect, Fingerprint, Key, Phase, Seq, StopReason, Text, Usage, UsageBasis, WallTime,
};
use super::sse::Event;
use serde::{Deserialize, Serialize};

/// One record.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Its number, dense from 1 in its generation.
    pub seq: Seq,
    /// When it was made.
    pub at: WallTime,
    /// What it says.
    pub body: Body,
}

/// What a record says.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Body {
    /// One event as delivered downstream.
    Event(Delivered),
    /// A control record.
    Control(Box<Control>),
}

/// An event as delivered downstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// The event type; empty stands for an event that named none.
    pub name: Text,
    /// The data.
    pub data: Text,
    /// The provider's own sequence number, if it had one.
    pub provider_seq: Option<u64>,
}

impl Delivered {
    /// An event that is to be delivered. `message` is what a stream calls an
    /// event it did not name (WHATWG 9.2.6), so it is stored as no name.
    pub fn from_event(event: &Event, provider_seq: Option<u64>) -> Self {
        let name = if event.name == "message" {
            Text::default()
        } else {
            event.name.clone()
        };
        Self {
            name,
            data: event.data.clone(),
            provider_seq,
        }
    }

    /// The event type; `message` when it had no name.
    pub fn event_name(&self) -> Text {
        if self.name.is_empty() {
            Text::from_static("message")
        } else {
            self.name.clone()
        }
    }
}

/// What the operation did, as opposed to what the model said.
///
/// The serialised form is a stored format: fields are only ever added, and
/// readers pass over what they do not know (`docs/journal-format.md`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Control {
    /// The first record of every generation: what was asked.
    Opened(Opened),
    /// An upstream exchange began.
    AttemptStarted(AttemptStarted),
    /// An upstream exchange ended.
    AttemptEnded(AttemptEnded),
    /// The provider named the answer: from here on it can be resumed by cursor.
    Anchored(Anchored),
    /// Another upstream stream was joined on.
    Spliced(Spliced),
    /// The answer stopped after the commit point without its proof of
    /// completion. Not final: it can be resumed, continued or regenerated.
    Interrupted(Interrupted),
    /// The end. Nothing follows it.
    Ended(Ended),
    /// A control record of a later version. Kept as it was.
    #[serde(other)]
    Unknown,
}

/// See [`Control::Opened`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opened {
    /// The operation's key.
    pub key: Key,
    /// The fingerprint of its request.
    pub fingerprint: Fingerprint,
    /// The dialect.
    pub dialect: Dialect,
    /// Where the request goes. Never holds a credential.
    pub url: String,
    /// The headers that shape the request. Never a credential.
    #[serde(default)]
    pub headers: Vec<(String, String)>,
    /// The request body, JSON. Needed to continue or regenerate by key.
    pub body: String,
    /// The name of the route that the request takes first.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub route: String,
    /// The routes that may take over, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fallbacks: Vec<RouteNote>,
    /// The caller's own version of the prompt, if it named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_version: Option<String>,
}

/// A route that may take over, as the first record keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteNote {
    /// Its name.
    pub name: String,
    /// Its dialect.
    pub dialect: Dialect,
    /// Where its request goes. Never holds a credential.
    pub url: String,
    /// The headers that shape its request. Never a credential.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
    /// The body of its request. Without one it is the first route's body, with
    /// the model of this route.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// Its model, where only that is different.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Whether its answers are known to be worse.
    #[serde(default, skip_serializing_if = "is_false")]
    pub degraded: bool,
    /// Whether it takes a longer context than the first.
    #[serde(default, skip_serializing_if = "is_false")]
    pub larger_context: bool,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature that serde asks for"
)]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// Why an upstream exchange was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AttemptKind {
    /// The first.
    First,
    /// The whole request again, before any output was committed.
    Retry,
    /// The whole request again, after output that nobody was shown.
    Rerun,
    /// The provider's stream from a cursor.
    Resume,
    /// The provider's stored response, asked for until it is done.
    Poll,
    /// A request to go on from the partial answer.
    Continue,
    /// The whole request on the next route, before any output was committed.
    Failover,
    /// The whole request beside one that is still silent; the first output wins.
    Hedge,
}

impl AttemptKind {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Retry => "retry",
            Self::Rerun => "rerun",
            Self::Resume => "resume",
            Self::Poll => "poll",
            Self::Continue => "continue",
            Self::Failover => "failover",
            Self::Hedge => "hedge",
        }
    }

    /// Whether it sends the whole request, as opposed to going on with an answer.
    pub const fn is_send(self) -> bool {
        matches!(
            self,
            Self::First | Self::Retry | Self::Rerun | Self::Failover | Self::Hedge
        )
    }
}

/// See [`Control::AttemptStarted`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptStarted {
    /// Its number, from 1 in this generation.
    pub attempt: u32,
    /// Why.
    pub kind: AttemptKind,
    /// The provider's cursor it asked to go on after, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// The name of the route it took.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub route: String,
    /// Where it went: scheme, host and path, no query.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub endpoint: String,
    /// The model that was asked for, if the request names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

impl AttemptStarted {
    /// The record of an attempt, without where it went.
    pub fn new(attempt: u32, kind: AttemptKind) -> Self {
        Self {
            attempt,
            kind,
            after: None,
            route: String::new(),
            endpoint: String::new(),
            model: None,
        }
    }
}

/// See [`Control::AttemptEnded`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttemptEnded {
    /// Its number.
    pub attempt: u32,
    /// `None` when it ended well, else what went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureNote>,
    /// How far it had come.
    pub phase: Phase,
    /// What follows: `finish`, `retry`, `rerun`, `failover`, `resume`, `poll`,
    /// `continue`, `interrupt`, `stop`; `lost` when another attempt was first.
    pub decision: String,
    /// How long until what follows, in milliseconds.
    #[serde(default)]
    pub delay_ms: u64,
    /// How long the exchange took, in milliseconds.
    pub took_ms: u64,
    /// From its start to its first output, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_output_ms: Option<u64>,
    /// Who has to act about the failure: the word of its
    /// [`ErrorClass`](crate::ErrorClass).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// What it cost, as far as the provider said. A count of output that came
    /// before any output is a placeholder and left out
    /// (docs/providers.md#anthropic-messages/events).
    #[serde(default)]
    pub usage: Usage,
    /// What the tokens of its output are known from; `None` when nothing was
    /// reported and no output came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage_basis: Option<UsageBasis>,
    /// Characters of output that came, delivered or not.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub output_chars: u64,
    /// The longest time between two arrivals of output, in milliseconds; `None`
    /// when output came once or never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_gap_ms: Option<u64>,
    /// The model that answered, as the provider calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The provider's id of the exchange (`x-request-id`, `request-id`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

impl AttemptEnded {
    /// The record of an attempt that brought nothing and took no time.
    pub fn new(attempt: u32, phase: Phase, decision: impl Into<String>) -> Self {
        Self {
            attempt,
            failure: None,
            phase,
            decision: decision.into(),
            delay_ms: 0,
            took_ms: 0,
            first_output_ms: None,
            class: None,
            usage: Usage::default(),
            usage_basis: None,
            output_chars: 0,
            longest_gap_ms: None,
            model: None,
            request_id: None,
        }
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature that serde asks for"
)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// A failure as it is told in a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureNote {
    /// The code of the [`ErrorKind`](crate::ErrorKind).
    pub kind: String,
    /// One line for people. Holds no secret.
    pub message: String,
    /// HTTP status, if a response came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The provider's error type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_type: Option<String>,
    /// The provider's error code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_code: Option<String>,
    /// The HTTP status that an error in band stands for: the one it named, else
    /// the one its provider documents for such words. Lets whoever passes the
    /// failure on over HTTP answer with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http_equivalent: Option<u16>,
    /// How long the provider asked to wait, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

/// See [`Control::Anchored`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Anchored {
    /// The attempt in which the provider named it.
    pub attempt: u32,
    /// The provider's name for the answer.
    pub response_id: String,
    /// Whether the provider can replay it from a cursor.
    pub resumable: bool,
}

/// See [`Control::Spliced`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spliced {
    /// The attempt whose stream was joined on.
    pub attempt: u32,
    /// How: `resume`, `poll` or `continue`.
    pub kind: AttemptKind,
    /// The provider's cursor after which it goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
}

/// See [`Control::Interrupted`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interrupted {
    /// Why.
    pub failure: FailureNote,
    /// What can be done about it: `resume`, `continue`, `regenerate`.
    pub options: Vec<RecoveryOption>,
}

/// What can be done about an interruption.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RecoveryOption {
    /// Go on through the provider's own cursor. Nothing is generated twice.
    Resume,
    /// Ask the model to go on from the partial answer. A new request.
    Continue,
    /// Ask for a new answer; the partial one is kept as an older generation.
    Regenerate,
}

impl RecoveryOption {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Resume => "resume",
            Self::Continue => "continue",
            Self::Regenerate => "regenerate",
        }
    }
}

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum End {
    /// Whole, by the dialect's own proof.
    Complete,
    /// An end marker came, but no stop reason.
    Claimed,
    /// Cut by a token limit.
    Truncated,
    /// The model refused.
    Refused,
    /// A content filter stopped it.
    Filtered,
    /// Failed before any output was committed.
    Failed,
    /// The caller stopped it.
    Cancelled,
}

/// See [`Control::Ended`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    /// How.
    pub end: End,
    /// The stop reason of the first candidate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<StopReason>,
    /// What went wrong, when something did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureNote>,
    /// Token counts of the answer, all spliced attempts summed.
    #[serde(default)]
    pub usage: Usage,
    /// Upstream exchanges made.
    pub attempts: u32,
    /// Warnings, such as `missing_stop_reason`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// Where a journal stands, as a store keeps it beside the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// A writer is at work, or died at it: the lease tells which.
    Running,
    /// It rests after an interruption; nobody writes.
    Interrupted,
    /// It has its final record.
    Ended(End),
}

impl Status {
    /// Whether nothing may follow.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Ended(_))
    }

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Interrupted => "interrupted",
            Self::Ended(end) => end.as_str(),
        }
    }
}

impl End {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Claimed => "claimed",
            Self::Truncated => "truncated",
            Self::Refused => "refused",
            Self::Filtered => "filtered",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}
