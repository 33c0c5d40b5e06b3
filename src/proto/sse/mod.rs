//! Server-sent events, decoded and encoded exactly as the WHATWG text has them
//! (HTML, section 9.2 "Server-sent events"). Floor 0.

use super::model::Text;

/// One event, as dispatched (WHATWG 9.2.6 "Interpreting an event stream").
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The event type; `message` when the stream named none.
    pub name: Text,
    /// The data, lines joined by U+000A.
    pub data: Text,
    /// The last event ID as of this event; empty when there is none.
    pub id: Text,
    /// Offset in the stream of the byte after the event's last one.
    pub end_offset: u64,
    /// Whether the end of input, not a blank line, ended this event. Only an
    /// end-of-input policy that asks for it yields such an event.
    pub unterminated: bool,
}

impl Event {
    /// An event that did not come from a stream.
    pub fn synthetic(name: impl Into<Text>, data: impl Into<Text>) -> Self {
        Self {
            name: name.into(),
            data: data.into(),
            id: Text::default(),
            end_offset: 0,
            unterminated: false,
        }
    }
}
