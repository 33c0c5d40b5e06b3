//! Server-sent events, decoded and encoded exactly as the WHATWG text has them
//! (HTML, section 9.2 "Server-sent events"). Floor 0.
//!
//! [`Decoder`] turns chunks of bytes into [`Item`]s, [`Outgoing`] turns fields
//! into bytes. Neither knows what an event means: that is a dialect's business.

mod config;
mod decoder;
mod encoder;
mod error;
mod field;
mod storage;

pub use config::DecoderConfig;
pub use decoder::Decoder;
pub use encoder::{EncodeError, Outgoing, Output, encode_comment};
pub use error::DecodeError;

use super::model::Text;

/// One event, as dispatched (WHATWG 9.2.6 "Interpreting an event stream").
///
/// The texts of a decoded event share memory with what they arrived in: each
/// keeps alive at most the chunk that held it, or a block of 8 KiB, or a buffer
/// of its own size. Keep [`Text::detached`] copies to keep less.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The event type; `message` when the stream named none.
    pub name: Text,
    /// The data, lines joined by U+000A.
    pub data: Text,
    /// The last event ID as of this event; empty when there is none.
    pub id: Text,
    /// Offset in the stream of the byte after the event's last one. When CR LF
    /// ends the event this is the offset of the LF: the CR alone is enough to
    /// dispatch it, and whether an LF follows may not be known yet.
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

/// What a stream says, in its order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// An event was dispatched.
    Event(Event),
    /// A comment line: all that stood between its colon and its line end. It
    /// has no meaning, but shows that the server is alive. A comment inside an
    /// event comes out before that event.
    Comment(Text),
    /// A line that is no field of the standard, without its line end. It has no
    /// meaning either, but what a broken server writes into its stream beside
    /// the events stands there. Comes out only where
    /// [`DecoderConfig::unknown_lines`] asks for it.
    Line(Text),
}

/// What becomes of an event that the end of input cut off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EndOfInput {
    /// It is discarded, and neither its id nor anything else of it counts.
    /// WHATWG 9.2.6: "Once the end of the file is reached, any pending data
    /// must be discarded."
    #[default]
    Discard,
    /// It is dispatched as [`unterminated`](Event::unterminated) if it has
    /// data, for servers that leave out the last blank line. The event may be
    /// half of one: only its data can tell. From a last line that was cut too
    /// only data is taken, since half an id would be another id.
    Flush,
}
