//! From lines to events: WHATWG 9.2.6 "Interpreting an event stream".

use std::mem;

use bytes::Bytes;
use memchr::memchr;

use super::super::field::{Field, reconnection_time};
use super::super::storage::{self, Held};
use super::super::{DecodeError, Event, Item};
use super::{Decoder, Line};
use crate::proto::model::Text;

/// The event that is not complete yet. All is kept as it came and decoded when
/// the event is dispatched, so what a chunk cuts costs the same as what it
/// does not.
#[derive(Default)]
pub(super) struct Pending {
    /// Offset in the stream of its first byte.
    pub(super) start: u64,
    /// Bytes that replacements of invalid UTF-8 added.
    pub(super) added: u64,
    pub(super) has_field: bool,
    pub(super) name: Part,
    pub(super) id: Part,
    /// `None` if there was no data field. (After one, the "data buffer" of the
    /// standard is never empty: it ends in the LF that dispatching takes off.)
    pub(super) data: Part,
}

/// A value of the pending event.
#[derive(Default)]
pub(super) enum Part {
    #[default]
    None,
    /// In the current chunk, from here to there.
    Chunk(usize, usize),
    Owned(Bytes),
    /// In [`Decoder::joined`]: lines of data.
    Joined,
}

impl Decoder {
    /// A comment is surfaced at once. In front of an event it is not part of it.
    pub(super) fn comment(&mut self, value: Line) -> Result<Option<Item>, DecodeError> {
        let part = self.part(value);
        let text = self.decode_kept(part)?.text;
        if !self.pending.has_field {
            self.pending = Pending::starting_at(self.offset());
        }
        Ok(Some(Item::Comment(text)))
    }

    /// A line that is no field is part of the event it stands in, as far as its
    /// size goes.
    pub(super) fn unknown(&mut self, line: Line) -> Result<Option<Item>, DecodeError> {
        self.pending.has_field = true;
        let part = self.part(line);
        let text = self.decode_kept(part)?.text;
        Ok(Some(Item::Line(text)))
    }

    /// WHATWG "process the field".
    pub(super) fn process_field(&mut self, field: Field, value: Line) {
        match field {
            Field::Data => match self.pending.data {
                Part::None => self.pending.data = self.part(value),
                Part::Chunk(..) | Part::Owned(_) | Part::Joined => self.join(value),
            },
            Field::Event => self.pending.name = self.part(value),
            Field::Id => {
                self.scanned += (value.end - value.start) as u64;
                if memchr(0, self.bytes(value)).is_none() {
                    self.pending.id = self.part(value);
                }
            }
            Field::Retry => {
                self.scanned += (value.end - value.start) as u64;
                let time = reconnection_time(self.bytes(value));
                self.reconnection_time = time.or(self.reconnection_time);
            }
            Field::Comment | Field::Unknown => {}
        }
    }

    /// The value, to be kept. Of a buffered line this takes the buffer.
    #[inline]
    pub(super) fn part(&mut self, value: Line) -> Part {
        if value.buffered {
            self.scanned += (value.end - value.start) as u64;
            let bytes = storage::take(&mut self.line, value.start, &mut self.copies);
            return Part::Owned(bytes);
        }
        self.in_chunk = true;
        Part::Chunk(value.start, value.end)
    }

    /// This part of the chunk as text.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "measured: a call returns the text through memory, which costs an event 5 ns of 70"
    )]
    fn decode(&mut self, start: usize, end: usize) -> Result<Held, DecodeError> {
        self.scanned += (end - start) as u64;
        if let Some(text) = Text::from_utf8(self.chunk.slice(start..end)) {
            return Ok(Held {
                text,
                in_chunk: true,
            });
        }
        self.replace(&self.chunk.slice(start..end))
    }

    /// A part that was kept as text.
    fn decode_kept(&mut self, part: Part) -> Result<Held, DecodeError> {
        let bytes = match part {
            Part::Chunk(start, end) => return self.decode(start, end),
            Part::Owned(bytes) => bytes,
            Part::Joined => self.take_joined(),
            Part::None => Bytes::new(),
        };
        self.scanned += bytes.len() as u64;
        match Text::from_utf8(bytes.clone()) {
            Some(text) => Ok(Held {
                text,
                in_chunk: false,
            }),
            None => self.replace(&bytes),
        }
    }

    /// WHATWG "UTF-8 decode" of bytes that are not UTF-8. One line by itself
    /// gives the same as the whole stream: CR and LF are ASCII, and an ASCII
    /// byte ends whatever sequence was begun.
    #[cold]
    fn replace(&mut self, bytes: &[u8]) -> Result<Held, DecodeError> {
        const REPLACEMENT: char = char::REPLACEMENT_CHARACTER;
        let added: usize = bytes
            .utf8_chunks()
            .filter(|chunk| !chunk.invalid().is_empty())
            .map(|chunk| REPLACEMENT.len_utf8().saturating_sub(chunk.invalid().len()))
            .sum();
        self.pending.added += added as u64;
        self.check_size()?;
        let mut text = String::with_capacity(bytes.len() + added);
        for chunk in bytes.utf8_chunks() {
            text.push_str(chunk.valid());
            if !chunk.invalid().is_empty() {
                text.push(REPLACEMENT);
            }
        }
        self.scanned += (bytes.len() + text.len()) as u64;
        Ok(Held {
            text: text.into(),
            in_chunk: false,
        })
    }

    /// Adds one more line of data.
    fn join(&mut self, value: Line) {
        let first = match mem::replace(&mut self.pending.data, Part::Joined) {
            Part::Chunk(start, end) => self.chunk.slice(start..end),
            Part::Owned(bytes) => bytes,
            Part::None | Part::Joined => Bytes::new(),
        };
        let bytes: &[u8] = if value.buffered {
            &self.line
        } else {
            &self.chunk
        };
        let bytes = bytes.get(value.start..value.end).unwrap_or_default();
        let length = first.len() + 1 + bytes.len();
        self.scanned += length as u64;
        storage::reserve(&mut self.joined, length, self.limit);
        self.joined.extend_from_slice(&first);
        self.joined.push(b'\n');
        self.joined.extend_from_slice(bytes);
    }

    fn take_joined(&mut self) -> Bytes {
        self.scanned += self.joined.len() as u64;
        storage::take(&mut self.joined, 0, &mut self.copies)
    }

    /// WHATWG "dispatch the event", for one that has data.
    pub(super) fn dispatch(&mut self, unterminated: bool) -> Result<Option<Item>, DecodeError> {
        let mut name = Text::from_static("message");
        if !matches!(self.pending.name, Part::None) {
            let named = if let Part::Chunk(start, end) = self.pending.name {
                self.pending.name = Part::None;
                self.decode(start, end)?.text
            } else {
                let part = mem::take(&mut self.pending.name);
                self.decode_kept(part)?.text
            };
            if !named.is_empty() {
                name = named;
            }
        }
        let data = if let Part::Chunk(start, end) = self.pending.data {
            self.pending.data = Part::None;
            self.decode(start, end)?.text
        } else {
            let part = mem::take(&mut self.pending.data);
            self.decode_kept(part)?.text
        };
        self.commit_id()?;
        let end_offset = self.offset();
        self.pending.start = end_offset;
        self.pending.added = 0;
        self.pending.has_field = false;
        Ok(Some(Item::Event(Event {
            name,
            data,
            id: self.event_id(),
            end_offset,
            unterminated,
        })))
    }

    /// The last event ID for one more event. None is the common case, and
    /// cloning the empty text is a call.
    #[inline]
    pub(super) fn event_id(&self) -> Text {
        let id = &self.last_event_id.text;
        if id.is_empty() {
            return Text::from_static("");
        }
        id.clone()
    }

    /// WHATWG "dispatch the event", for one without data: of it only its id
    /// counts.
    pub(super) fn reset(&mut self) -> Result<(), DecodeError> {
        self.commit_id()?;
        self.pending = Pending::starting_at(self.offset());
        Ok(())
    }

    /// The id of an event counts once nothing else of the event can fail: to
    /// resume after an event that never came out would be to lose it.
    #[inline]
    fn commit_id(&mut self) -> Result<(), DecodeError> {
        if !matches!(self.pending.id, Part::None) {
            let part = mem::take(&mut self.pending.id);
            self.last_event_id = self.decode_kept(part)?;
        }
        Ok(())
    }

    /// Dispatches the event that the end of input cut off.
    pub(super) fn flush(&mut self) -> Result<Option<Item>, DecodeError> {
        let mut line = self.buffered_line();
        if self.first_line {
            line = self.without_bom(line);
        }
        let (field, value) = self.field(line);
        if field == Field::Data {
            self.process_field(field, value);
        }
        if !self.pending.has_data() {
            return Ok(None);
        }
        self.dispatch(true)
    }
}

impl Pending {
    pub(super) fn has_data(&self) -> bool {
        !matches!(self.data, Part::None)
    }

    pub(super) fn starting_at(start: u64) -> Self {
        Self {
            start,
            ..Self::default()
        }
    }
}
