//! Dialects: what a provider's events mean. Floor 1.
//!
//! An [`Interpreter`] reads one attempt's events in order and says, for each,
//! what kind it is and which [`Delta`]s it carries. It never drops an event:
//! what it does not know passes through as [`EventKind::Unknown`] and is counted
//! by the operation.
//!
//! What holds for every dialect:
//!
//! - An event of any kind may carry deltas; apply them before acting on the kind.
//!   A terminal event of the Responses API brings the text for which no delta came.
//! - An event that is an error carries no output, only usage: it is not delivered,
//!   so what it says must not count as delivered.
//! - A stop reason is a delta, not the end: usage may follow it. The end is
//!   [`EventKind::End`], and whether the answer is whole says
//!   [`Interpreter::completion`].
//! - Proof of completion: chat, a finish reason of every candidate that was seen;
//!   Responses, `response.completed` or `response.incomplete`; Anthropic, a stop
//!   reason with every block closed, or with `message_stop` behind it; Gemini, a
//!   finish reason of every candidate, at the end of the body. An end marker alone only claims, and behind an error it does not even that.
//! - Text of a refusal without any answer text makes a plain stop a
//!   [`StopReason::Refusal`](super::model::StopReason::Refusal): neither chat nor
//!   Responses has a reason of its own for it.
//! - Beside the interpreters stand pure functions for the rest of a dialect: the
//!   request ([`Request`]), bodies that are no stream ([`provider_error_from_body`],
//!   [`expand`]) and continuations ([`continuation()`], [`Splicer`]).

mod anthropic;
mod body;
mod chat;
mod continuation;
mod errors;
mod gemini;
mod head;
mod hint;
mod lenient;
mod payload;
mod peek;
mod responses;
#[cfg(test)]
mod tests;
mod tool_router;
mod track;
mod whole;
mod wire;

pub use body::{provider_error, provider_error_from_body, stray_error};
pub use continuation::{
    Continuation, ContinuationForm, DEFAULT_INSTRUCTION, NotContinuable, SpliceError, Splicer,
    continuation, is_prefill_refusal, preferred_form,
};
pub use peek::{is_cut_payload, is_whole_payload, response_id_of, sequence_of};
pub use whole::{ExpandError, ResponseStatus, expand, response_status};
pub use wire::Request;

use super::model::{Answer, Completion, Delta, Dialect, ProviderError};
use super::sse::Event;
#[cfg(test)]
use payload::Payload;
use std::fmt;

/// An interpreter for the first attempt at an answer.
pub fn interpreter(dialect: Dialect) -> Box<dyn Interpreter> {
    match dialect {
        Dialect::OpenAiChat => Box::<chat::Chat>::default(),
        Dialect::OpenAiResponses => Box::<responses::Responses>::default(),
        Dialect::AnthropicMessages => Box::<anthropic::Anthropic>::default(),
        Dialect::GeminiGenerate => Box::<gemini::Gemini>::default(),
    }
}

/// An interpreter for an attempt that goes on with the same answer: a resume, a
/// poll, a spliced continuation. It knows what `seen` holds, so that what a
/// terminal event repeats is not taken for new output, and fragments find the
/// calls and blocks that were opened before.
pub fn interpreter_after(dialect: Dialect, seen: &Answer) -> Box<dyn Interpreter> {
    match dialect {
        Dialect::OpenAiChat => Box::new(chat::Chat::after(seen)),
        Dialect::OpenAiResponses => Box::new(responses::Responses::after(seen)),
        Dialect::AnthropicMessages => Box::new(anthropic::Anthropic::after(seen)),
        Dialect::GeminiGenerate => Box::new(gemini::Gemini::after(seen)),
    }
}

/// What one event is to the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EventKind {
    /// It carries model output.
    Output,
    /// It carries state but no output: start, created, role, usage, stop reason,
    /// block borders.
    Lifecycle,
    /// It only says that the peer is alive: ping, keepalive, an empty data field.
    KeepAlive,
    /// The dialect's end marker: nothing of the answer follows (`[DONE]`,
    /// `message_stop`, `response.completed`).
    End,
    /// An error in band; [`Reading::error`] has it.
    Error,
    /// A payload that is not JSON at all where JSON is expected. Skipped,
    /// counted, never delivered.
    Noise,
    /// An event type this crate does not know. Delivered and counted.
    Unknown,
}

/// What an interpreter says about one event.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// What the event is.
    pub kind: EventKind,
    /// The provider's own sequence number, if the event had one.
    pub sequence: Option<u64>,
    /// The provider's error, when `kind` is [`EventKind::Error`].
    pub error: Option<ProviderError>,
}

impl Reading {
    /// A reading of this kind and nothing more.
    pub fn of(kind: EventKind) -> Self {
        Self {
            kind,
            sequence: None,
            error: None,
        }
    }

    /// A reading of an error in band.
    pub fn failed(error: ProviderError) -> Self {
        Self {
            kind: EventKind::Error,
            sequence: None,
            error: Some(error),
        }
    }
}

/// A payload that should be JSON of the dialect and is not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a JSON payload of {dialect}, but {found}")]
pub struct Malformed {
    /// The dialect that was expected.
    pub dialect: Dialect,
    /// What was found, without any of the payload's text.
    pub found: String,
}

/// Reads the events of one upstream attempt.
pub trait Interpreter: fmt::Debug + Send {
    /// Reads the next event; appends its deltas to `deltas`.
    ///
    /// # Errors
    ///
    /// [`Malformed`] when the payload begins like JSON but is not, or has an
    /// impossible shape. The caller treats the attempt as broken there.
    fn read(&mut self, event: &Event, deltas: &mut Vec<Delta>) -> Result<Reading, Malformed>;

    /// How sure it is, after the events read so far, that the answer is whole.
    fn completion(&self) -> Completion;

    /// Whether only the end of the body says that nothing follows a proof: then
    /// the connection is not closed soon after it (default: no).
    fn ends_with_its_body(&self) -> bool {
        false
    }
}
