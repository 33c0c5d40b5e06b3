//! Events as bytes, with what a fault needs to know about each.

use bytes::Bytes;
use serde_json::Value;

/// What a frame is to its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameKind {
    /// State without output.
    Lifecycle,
    /// Output of the model.
    Output,
    /// A sign of life.
    KeepAlive,
    /// The dialect's proof that the answer is whole, and what belongs to it.
    Proof,
    /// The end marker after the proof.
    Marker,
}

/// One event of a response body.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) bytes: Bytes,
    pub(crate) kind: FrameKind,
    /// The dialect's sequence number, if this event has one.
    pub(crate) sequence: Option<u64>,
    /// Position in the answer as it was generated; a frame that a fault put in
    /// has none.
    pub(crate) index: Option<usize>,
}

impl Frame {
    pub(crate) fn new(kind: FrameKind, bytes: Bytes) -> Self {
        Self {
            bytes,
            kind,
            sequence: None,
            index: None,
        }
    }

    /// An unnamed event with a JSON payload.
    pub(crate) fn data(kind: FrameKind, payload: &Value) -> Self {
        Self::new(kind, event(None, &payload.to_string()))
    }

    /// An event named like the payload's `type`.
    pub(crate) fn named(kind: FrameKind, payload: &Value) -> Self {
        let name = payload.get("type").and_then(Value::as_str);
        Self::new(kind, event(name, &payload.to_string()))
    }
}

/// An event as bytes. `data` is one line, as JSON text is.
pub(crate) fn event(name: Option<&str>, data: &str) -> Bytes {
    match name {
        None => format!("data: {data}\n\n"),
        Some(name) => format!("event: {name}\ndata: {data}\n\n"),
    }
    .into()
}

/// The object with one more member.
pub(crate) fn with(mut object: Value, key: &str, value: Value) -> Value {
    if let Some(members) = object.as_object_mut() {
        members.insert(key.to_owned(), value);
    }
    object
}

/// Numbers the frames by position.
pub(crate) fn numbered(mut frames: Vec<Frame>) -> Vec<Frame> {
    for (position, frame) in frames.iter_mut().enumerate() {
        frame.index = Some(position);
    }
    frames
}
