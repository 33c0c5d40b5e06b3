//! Whole answers as streams: a JSON answer where a stream was asked for, or a
//! stored response that was polled after a cut.

mod chat;
mod message;
mod response;

use super::payload::malformed;
use super::{Malformed, gemini};
use crate::proto::model::{Answer, Dialect};
use crate::proto::sse::Event;
use serde_json::{Map, Value};

/// Why a whole answer does not become a stream.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExpandError {
    /// It is not a JSON object.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// It does not begin with what was seen. Nothing of it may be delivered: the
    /// two are not the same answer.
    #[error(
        "expected an answer that begins with what was delivered, but found another in block {part}"
    )]
    Mismatch {
        /// The block (of the first candidate that differs).
        part: u32,
    },
}

/// The events that a stream of this whole answer would have had, without those
/// whose content `seen` already holds.
///
/// What is missing is found by content: the rest of each text and of each call's
/// arguments, blocks and calls that never came, then the terminal events. With an
/// empty `seen` the result is a whole stream. A response that is still running
/// (see [`response_status`]) gives what it has and no terminal event.
///
/// The events carry no `sequence_number`: the provider gave them none, and an
/// invented one could be taken for a cursor.
///
/// A body that is an error is for [`provider_error`](super::provider_error), and
/// should be asked about first.
///
/// # Errors
///
/// [`ExpandError`], by name.
pub fn expand(dialect: Dialect, json: &str, seen: &Answer) -> Result<Vec<Event>, ExpandError> {
    let root: Value = serde_json::from_str(json).map_err(|error| malformed(dialect, &error))?;
    let unlike = |found: &str| {
        ExpandError::Malformed(Malformed {
            dialect,
            found: found.to_owned(),
        })
    };
    let object = || {
        root.as_object()
            .ok_or_else(|| unlike("it is not an object"))
    };
    match dialect {
        Dialect::OpenAiChat => chat::expand(object()?, seen),
        Dialect::OpenAiResponses => response::expand(object()?, seen),
        Dialect::AnthropicMessages => message::expand(object()?, seen),
        Dialect::GeminiGenerate => gemini::expand(&root)
            .ok_or_else(|| unlike("it is neither an answer nor a list of its fragments")),
    }
}

/// What a stored response says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ResponseStatus {
    /// `queued` or `in_progress`: ask again later.
    Running,
    /// `completed`.
    Completed,
    /// `incomplete`: a token limit or a filter cut it.
    Incomplete,
    /// `failed`; [`provider_error`](super::provider_error) has the error.
    Failed,
    /// `cancelled`. No stream event says this, only the status does
    /// (docs/providers.md#openai-responses/terminators).
    Cancelled,
}

/// The status of a polled response; `None` when the body is not a response, or
/// the status is not a documented one.
pub fn response_status(json: &str) -> Option<ResponseStatus> {
    let root: Value = serde_json::from_str(json).ok()?;
    response::status(root.as_object()?)
}

type Object = Map<String, Value>;

fn named(value: &Value) -> Event {
    let name = text(value.get("type")).to_owned();
    Event::synthetic(name, value.to_string())
}

fn text(value: Option<&Value>) -> &str {
    value.and_then(Value::as_str).unwrap_or_default()
}

fn list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Positions as the indexes of blocks.
fn indexed(items: &[Value]) -> impl Iterator<Item = (u32, &Value)> {
    (0_u32..).zip(items)
}

fn missing<'a>(whole: &'a str, seen: &str, part: u32) -> Result<&'a str, ExpandError> {
    whole
        .strip_prefix(seen)
        .ok_or(ExpandError::Mismatch { part })
}

#[cfg(test)]
mod tests;
