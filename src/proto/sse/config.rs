//! What a decoder starts with.

use crate::proto::model::Text;

/// What a [`Decoder`](super::Decoder) starts with.
///
/// | setting | default |
/// |---|---|
/// | [`max_event_bytes`](Self::max_event_bytes) | 16 MiB |
/// | [`last_event_id`](Self::last_event_id) | empty |
/// | [`unknown_lines`](Self::unknown_lines) | no |
#[derive(Clone, Debug)]
pub struct DecoderConfig {
    pub(super) max_event_bytes: usize,
    pub(super) last_event_id: Text,
    pub(super) unknown_lines: bool,
}

impl DecoderConfig {
    /// The largest events known to be legitimate carry an image as base64 or
    /// repeat a whole answer, and stay under 8 MiB; twice that leaves room, and
    /// a hostile stream still costs no more than a phone photograph or two.
    const MAX_EVENT_BYTES: usize = 16 * 1024 * 1024;

    /// The defaults.
    pub const fn new() -> Self {
        Self {
            max_event_bytes: Self::MAX_EVENT_BYTES,
            last_event_id: Text::from_static(""),
            unknown_lines: false,
        }
    }

    /// The largest event, in bytes as received: from the first byte after the
    /// event before it to the end of its blank line, all lines, names and line
    /// ends counted, and each replacement of invalid UTF-8 counted with the
    /// three bytes of U+FFFD. A comment counts alike, but comments in front of
    /// an event's first field are not part of it, so a server may send
    /// keep-alives for ever. Default 16 MiB, twice the largest events seen from
    /// providers (base64 images, answers repeated whole).
    ///
    /// A decoder's own memory stays under four times this, whatever arrives.
    pub const fn max_event_bytes(mut self, bytes: usize) -> Self {
        self.max_event_bytes = bytes;
        self
    }

    /// The last event ID that the stream continues from: what `Last-Event-ID`
    /// said in the request. Default empty: a fresh stream.
    pub fn last_event_id(mut self, id: Text) -> Self {
        self.last_event_id = id;
        self
    }

    /// Whether lines that are no field of the standard come out as
    /// [`Item::Line`](super::Item::Line). Default no: the standard passes over
    /// them (WHATWG 9.2.6: "Otherwise: The field is ignored."). Nothing else of
    /// the result depends on it.
    pub const fn unknown_lines(mut self, yes: bool) -> Self {
        self.unknown_lines = yes;
        self
    }
}

impl Default for DecoderConfig {
    fn default() -> Self {
        Self::new()
    }
}
