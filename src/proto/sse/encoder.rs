//! The event-stream encoder.

use std::time::Duration;

use bytes::BytesMut;
use memchr::memchr2;

use super::Event;

/// One event to be sent. All fields are optional and written in a fixed order:
/// comment, event, id, retry, data, blank line.
///
/// No value can forge a field, an event or a line: data and comments are split
/// at every line end that a decoder knows (CR LF, LF, CR), and a name or an id
/// that holds one is refused. Decoded again the event is the same, but that CR
/// and CR LF in data have become LF.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outgoing<'a> {
    comment: Option<&'a str>,
    name: Option<&'a str>,
    id: Option<&'a str>,
    retry: Option<Duration>,
    data: Option<&'a str>,
}

impl<'a> Outgoing<'a> {
    /// An event without fields.
    pub const fn new() -> Self {
        Self {
            comment: None,
            name: None,
            id: None,
            retry: None,
            data: None,
        }
    }

    /// A comment in front of the event, see [`encode_comment`].
    pub const fn comment(mut self, comment: &'a str) -> Self {
        self.comment = Some(comment);
        self
    }

    /// The event type. Without one, and with an empty one, a decoder takes
    /// `message`.
    pub const fn name(mut self, name: &'a str) -> Self {
        self.name = Some(name);
        self
    }

    /// The last event ID from this event on. An empty one clears it.
    pub const fn id(mut self, id: &'a str) -> Self {
        self.id = Some(id);
        self
    }

    /// The reconnection time, sent in whole milliseconds, rounded down, and at
    /// most 2^64 - 1 of them.
    pub const fn retry(mut self, retry: Duration) -> Self {
        self.retry = Some(retry);
        self
    }

    /// The data. An event without data is not dispatched to readers, but its id
    /// and reconnection time count.
    pub const fn data(mut self, data: &'a str) -> Self {
        self.data = Some(data);
        self
    }

    /// Appends the event, blank line included.
    ///
    /// # Errors
    ///
    /// [`EncodeError`] for a name or id that cannot be sent; nothing is
    /// appended then.
    pub fn encode(&self, out: &mut impl Output) -> Result<(), EncodeError> {
        refuse_forgery("event type", self.name)?;
        refuse_forgery("id", self.id)?;
        if let Some(comment) = self.comment {
            lines(out, ":", comment);
        }
        if let Some(name) = self.name {
            line(out, "event: ", name);
        }
        if let Some(id) = self.id {
            line(out, "id: ", id);
        }
        if let Some(retry) = self.retry {
            let millis = u64::try_from(retry.as_millis()).unwrap_or(u64::MAX);
            line(out, "retry: ", &millis.to_string());
        }
        if let Some(data) = self.data {
            lines(out, "data: ", data);
        }
        out.append(b"\n");
        Ok(())
    }
}

impl<'a> From<&'a Event> for Outgoing<'a> {
    /// The event with its id, but without an id if that is empty, since the
    /// event itself does not tell "never set" from "cleared".
    fn from(event: &'a Event) -> Self {
        Self {
            name: (event.name != "message").then_some(event.name.as_str()),
            id: (!event.id.is_empty()).then_some(event.id.as_str()),
            data: Some(&event.data),
            ..Self::new()
        }
    }
}

/// Appends a comment that no reader is shown, and a blank line: a keep-alive,
/// to be sent between two events. Its text follows the colon as it is, so one
/// for people to read should start with a space. Text of several lines becomes
/// several comments.
///
/// The blank line is there for readers that only look at whole blocks; for all
/// others it is nothing. A comment inside an event is
/// [`Outgoing::comment`]'s.
pub fn encode_comment(comment: &str, out: &mut impl Output) {
    lines(out, ":", comment);
    out.append(b"\n");
}

/// Why an event cannot be encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected an {field} without NUL, CR and LF, but found U+{:04X} at byte {position}",
    u32::from(*character)
)]
pub struct EncodeError {
    field: &'static str,
    character: char,
    position: usize,
}

impl EncodeError {
    /// The character that was found: U+0000, U+000A or U+000D.
    pub const fn character(&self) -> char {
        self.character
    }

    /// Where it was found: an offset in the field's bytes.
    pub const fn position(&self) -> usize {
        self.position
    }
}

/// A buffer that grows at its end.
pub trait Output {
    /// Appends the bytes.
    fn append(&mut self, bytes: &[u8]);
}

impl Output for Vec<u8> {
    fn append(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

impl Output for BytesMut {
    fn append(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// A line end would start another field. NUL makes a reader ignore an id, which
/// then would name another event; in a type it is refused with it, as no
/// dialect has a use for it.
fn refuse_forgery(field: &'static str, value: Option<&str>) -> Result<(), EncodeError> {
    let value = value.unwrap_or_default();
    match value
        .char_indices()
        .find(|(_, c)| matches!(c, '\0' | '\n' | '\r'))
    {
        None => Ok(()),
        Some((position, character)) => Err(EncodeError {
            field,
            character,
            position,
        }),
    }
}

fn line(out: &mut impl Output, prefix: &str, value: &str) {
    out.append(prefix.as_bytes());
    out.append(value.as_bytes());
    out.append(b"\n");
}

/// One line per line of the text; the text after a last line end is one too, be
/// it empty.
fn lines(out: &mut impl Output, prefix: &str, text: &str) {
    let mut rest = text;
    while let Some((first, end)) =
        memchr2(b'\n', b'\r', rest.as_bytes()).and_then(|at| rest.split_at_checked(at))
    {
        line(out, prefix, first);
        rest = end
            .strip_prefix("\r\n")
            .or_else(|| end.get(1..))
            .unwrap_or_default();
    }
    line(out, prefix, rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(event: Outgoing<'_>, expected: &str) {
        let mut out = Vec::new();
        event.encode(&mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn fields_come_in_a_fixed_order() {
        let event = Outgoing::new()
            .data("x")
            .retry(Duration::from_secs(2))
            .id("7")
            .name("tick")
            .comment(" hello");
        check(
            event,
            ": hello\nevent: tick\nid: 7\nretry: 2000\ndata: x\n\n",
        );
        check(Outgoing::new(), "\n");
        check(Outgoing::new().id(""), "id: \n\n");
        check(
            Outgoing::new().retry(Duration::MAX),
            "retry: 18446744073709551615\n\n",
        );
    }

    #[test]
    fn data_is_split_at_every_line_end() {
        let data = |data| Outgoing::new().data(data);
        check(data(""), "data: \n\n");
        check(data("\n"), "data: \ndata: \n\n");
        check(data("a\n"), "data: a\ndata: \n\n");
        check(
            data("a\rb\r\nc\n\rd"),
            "data: a\ndata: b\ndata: c\ndata: \ndata: d\n\n",
        );
        check(
            data(" a\0\u{FEFF}é\u{2028}"),
            "data:  a\0\u{FEFF}é\u{2028}\n\n",
        );
        check(
            data("x\r\revent: forged"),
            "data: x\ndata: \ndata: event: forged\n\n",
        );
    }

    #[test]
    fn a_comment_cannot_forge_a_field() {
        let mut out = BytesMut::new();
        encode_comment(" beat\n\ndata: forged\r", &mut out);
        assert_eq!(out, ": beat\n:\n:data: forged\n:\n\n");
    }

    #[test]
    fn a_name_or_id_with_a_line_end_or_nul_is_refused_and_nothing_written() {
        for bad in ["a\nb", "a\rb", "a\0b"] {
            for event in [Outgoing::new().name(bad), Outgoing::new().id(bad)] {
                let mut out = Vec::new();
                let error = event.comment("c").data("d").encode(&mut out).unwrap_err();
                assert_eq!(error.position(), 1);
                assert_eq!(Some(error.character()), bad.chars().nth(1));
                assert_eq!(out, b"");
            }
        }
        let error = Outgoing::new()
            .id("é\r")
            .encode(&mut Vec::new())
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "expected an id without NUL, CR and LF, but found U+000D at byte 2"
        );
    }
}
