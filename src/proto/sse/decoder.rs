//! The event-stream decoder.

use std::collections::VecDeque;
use std::fmt;
use std::mem;
use std::time::Duration;

use bytes::Bytes;
use memchr::{memchr, memchr2};

use super::field::{Field, reconnection_time};
use super::storage::{self, Copies, Held};
use super::{DecodeError, DecoderConfig, EndOfInput, Event, Item};
use crate::proto::model::Text;

/// Decodes an event stream, chunk by chunk, without IO.
///
/// [`push`](Self::push) a chunk, call [`next`](Self::next) until it returns
/// `None`, and so on; at the end of input call [`finish`](Self::finish). The
/// items do not depend on how the stream was cut into chunks, and an event
/// comes out as soon as the byte that completes it went in.
///
/// The texts of an event that lies in one chunk, with one line of data, are
/// slices of that chunk: nothing is copied or allocated. What is still pending
/// when a chunk ends is copied, so the decoder itself keeps no chunk alive.
/// Each byte is looked at a constant number of times (see
/// [`scanned`](Self::scanned)).
#[expect(
    clippy::struct_excessive_bools,
    reason = "they are independent: every combination occurs"
)]
pub struct Decoder {
    limit: usize,
    /// The chunk being decoded, and how much of it has been.
    chunk: Bytes,
    position: usize,
    /// Offset in the stream of the chunk's first byte.
    base: u64,
    waiting: VecDeque<Bytes>,
    /// The line that is still without its end, as far as it came in chunks that
    /// are gone. Not empty exactly in the middle of a line.
    line: Vec<u8>,
    first_line: bool,
    /// Whether the byte before was a CR: an LF now belongs to it.
    after_cr: bool,
    pending: Pending,
    /// The data of the pending event if it has more than one line.
    joined: Vec<u8>,
    last_event_id: Held,
    reconnection_time: Option<Duration>,
    /// Whether anything may be a slice of the current chunk.
    in_chunk: bool,
    copies: Copies,
    scanned: u64,
    closed: bool,
}

/// The event that is not complete yet.
#[derive(Default)]
struct Pending {
    /// Offset in the stream of its first byte.
    start: u64,
    /// Bytes that replacements of invalid UTF-8 added.
    added: u64,
    has_field: bool,
    name: Option<Held>,
    id: Option<Held>,
    data: Data,
}

#[derive(Default)]
enum Data {
    /// There was no data field. (After one the "data buffer" of the standard is
    /// never empty: it ends in the LF that dispatching takes off.)
    #[default]
    None,
    Line(Held),
    /// In [`Decoder::joined`].
    Joined,
}

/// A complete line, without its line end: a range of the current chunk or of
/// [`Decoder::line`].
#[derive(Clone, Copy)]
struct Line {
    buffered: bool,
    start: usize,
    end: usize,
}

impl Decoder {
    /// A decoder at the start of a stream.
    pub fn new(config: DecoderConfig) -> Self {
        Self {
            limit: config.max_event_bytes,
            chunk: Bytes::new(),
            position: 0,
            base: 0,
            waiting: VecDeque::new(),
            line: Vec::new(),
            first_line: true,
            after_cr: false,
            pending: Pending::default(),
            joined: Vec::new(),
            last_event_id: Held {
                text: config.last_event_id,
                in_chunk: false,
            },
            reconnection_time: None,
            in_chunk: false,
            copies: Copies::default(),
            scanned: 0,
            closed: false,
        }
    }

    /// Adds the next chunk of the stream. Chunks that were not decoded yet wait
    /// in a queue, so a caller that pushes without calling [`next`](Self::next)
    /// is who bounds it. After an error, and after [`finish`](Self::finish),
    /// chunks are dropped.
    pub fn push(&mut self, chunk: Bytes) {
        if chunk.is_empty() || self.closed {
            return;
        }
        if self.position == self.chunk.len() && self.waiting.is_empty() {
            self.retire_chunk(chunk);
        } else {
            self.waiting.push_back(chunk);
        }
    }

    /// The next item, or `None` if it takes another chunk to complete one.
    ///
    /// # Errors
    ///
    /// [`DecodeError::EventTooLarge`] once. After it the stream is over, as
    /// nobody knows where the next event starts: every call returns `None`.
    #[expect(
        clippy::should_implement_trait,
        reason = "an iterator is at its end with `None`; a decoder goes on with the next chunk"
    )]
    pub fn next(&mut self) -> Result<Option<Item>, DecodeError> {
        loop {
            let rest = self.chunk.get(self.position..).unwrap_or_default();
            let Some(&first) = rest.first() else {
                let next = self.waiting.pop_front().unwrap_or_default();
                let done = next.is_empty();
                self.retire_chunk(next);
                if done {
                    return Ok(None);
                }
                continue;
            };
            if self.after_cr {
                self.after_cr = false;
                if first == b'\n' {
                    self.scanned += 1;
                    self.position += 1;
                    if !self.pending.has_field {
                        self.pending.start = self.offset();
                    }
                    self.check_size()?;
                    continue;
                }
            }
            if matches!(first, b'\n' | b'\r') && self.line.is_empty() {
                self.scanned += 1;
                self.position += 1;
                self.after_cr = first == b'\r';
                self.first_line = false;
                self.check_size()?;
                if let Some(event) = self.dispatch()? {
                    return Ok(Some(Item::Event(event)));
                }
                continue;
            }
            if let Some(length) = memchr2(b'\n', b'\r', rest) {
                self.after_cr = rest.get(length) == Some(&b'\r');
                if let Some(item) = self.end_line(length)? {
                    return Ok(Some(item));
                }
            } else {
                self.scanned += rest.len() as u64;
                self.buffer(rest.len());
                self.position = self.chunk.len();
                self.check_size()?;
            }
        }
    }

    /// Ends the stream: events that [`next`](Self::next) was not asked for yet,
    /// one per call, then the event that the end cut off if `end` wants it,
    /// then `None` for ever. Comments are passed over.
    ///
    /// # Errors
    ///
    /// As [`next`](Self::next).
    pub fn finish(&mut self, end: EndOfInput) -> Result<Option<Event>, DecodeError> {
        while let Some(item) = self.next()? {
            if let Item::Event(event) = item {
                return Ok(Some(event));
            }
        }
        let event = match end {
            EndOfInput::Flush if !self.closed => self.flush()?,
            EndOfInput::Flush | EndOfInput::Discard => None,
        };
        self.close(self.offset());
        Ok(event)
    }

    /// The last event ID: what `Last-Event-ID` should say when the stream is
    /// continued. It changes when an event that has an id is complete, also if
    /// that event has no data and is not dispatched.
    pub fn last_event_id(&self) -> &Text {
        &self.last_event_id.text
    }

    /// How long the server asks to wait before a reconnection; `None` if it did
    /// not say. A `retry` field counts at once, without the end of its event.
    /// It is ASCII digits, in milliseconds; 2^64 - 1 also stands for all that
    /// is larger.
    pub fn reconnection_time(&self) -> Option<Duration> {
        self.reconnection_time
    }

    /// Offset in the stream of the next byte to decode. Bytes that were pushed
    /// but not looked at yet do not count.
    pub fn offset(&self) -> u64 {
        self.base + self.position as u64
    }

    /// Size of the incomplete event at the end of what was decoded, in bytes.
    /// Zero means that the stream is between two events.
    pub fn pending_bytes(&self) -> u64 {
        self.offset() - self.pending.start
    }

    /// Work done, in bytes: how often a byte was searched for the end of its
    /// line, checked as UTF-8, or copied, summed over all bytes. One to four
    /// times [`offset`](Self::offset) for real streams, at most sixteen times
    /// for any stream in any chunks.
    pub fn scanned(&self) -> u64 {
        self.scanned
    }

    /// Puts the next chunk in the place of the one that is decoded.
    fn retire_chunk(&mut self, next: Bytes) {
        if self.in_chunk {
            self.detach();
        }
        self.base += self.chunk.len() as u64;
        self.position = 0;
        self.chunk = next;
    }

    /// Copies what the stream's state and the pending event have in the chunk.
    #[cold]
    fn detach(&mut self) {
        let mut copied = self.last_event_id.detach(&mut self.copies);
        for held in [&mut self.pending.name, &mut self.pending.id] {
            copied += held
                .as_mut()
                .map_or(0, |held| held.detach(&mut self.copies));
        }
        if let Data::Line(held) = &mut self.pending.data {
            copied += held.detach(&mut self.copies);
        }
        self.scanned += 2 * copied as u64;
        self.in_chunk = false;
    }

    /// Adds this many bytes at the position to the buffered line.
    fn buffer(&mut self, length: usize) {
        let end = self.position + length;
        let bytes = self.chunk.get(self.position..end).unwrap_or_default();
        self.scanned += length as u64;
        storage::reserve(&mut self.line, length, self.limit);
        self.line.extend_from_slice(bytes);
    }

    /// Errs if the pending event is too large.
    #[inline]
    fn check_size(&mut self) -> Result<(), DecodeError> {
        if self.pending_bytes() + self.pending.added > self.limit as u64 {
            return Err(self.fail());
        }
        Ok(())
    }

    #[cold]
    fn fail(&mut self) -> DecodeError {
        let (start, limit) = (self.pending.start, self.limit as u64);
        let offset = start + limit.saturating_sub(self.pending.added);
        self.close(offset);
        DecodeError::EventTooLarge {
            start,
            offset,
            limit,
        }
    }

    /// Ends decoding at this offset, and gives back all memory but the state of
    /// the stream.
    fn close(&mut self, offset: u64) {
        if self.in_chunk {
            self.detach();
        }
        self.chunk = Bytes::new();
        self.position = 0;
        self.base = offset;
        self.waiting = VecDeque::new();
        self.line = Vec::new();
        self.joined = Vec::new();
        self.pending = Pending::starting_at(offset);
        self.closed = true;
    }

    /// Ends the line whose end is this far from the position.
    #[inline]
    fn end_line(&mut self, length: usize) -> Result<Option<Item>, DecodeError> {
        self.scanned += length as u64 + 1;
        let mut line = Line {
            buffered: false,
            start: self.position,
            end: self.position + length,
        };
        if !self.line.is_empty() {
            self.buffer(length);
            line = self.buffered_line();
        }
        self.position += length + 1;
        self.check_size()?;
        if self.first_line {
            self.first_line = false;
            line = self.without_bom(line);
            if line.start == line.end {
                self.line.clear();
                return Ok(self.dispatch()?.map(Item::Event));
            }
        }
        let (field, value) = self.field(line);
        let item = if field == Field::Comment {
            let text = self.text(value)?.text;
            if !self.pending.has_field {
                self.pending = Pending::starting_at(self.offset());
            }
            Some(Item::Comment(text))
        } else {
            self.pending.has_field = true;
            self.process_field(field, value)?;
            None
        };
        if line.buffered {
            storage::clear(&mut self.line);
        }
        Ok(item)
    }

    fn buffered_line(&self) -> Line {
        Line {
            buffered: true,
            start: 0,
            end: self.line.len(),
        }
    }

    /// The stream's first line without the byte order mark. That is a mark only
    /// there, and only once (WHATWG "UTF-8 decode").
    #[cold]
    fn without_bom(&self, line: Line) -> Line {
        let bom = self.bytes(line).starts_with(b"\xEF\xBB\xBF");
        Line {
            start: line.start + if bom { 3 } else { 0 },
            ..line
        }
    }

    fn bytes(&self, line: Line) -> &[u8] {
        let bytes: &[u8] = if line.buffered {
            &self.line
        } else {
            &self.chunk
        };
        bytes.get(line.start..line.end).unwrap_or_default()
    }

    /// The line's field, and the part of the line that is its value.
    fn field(&self, line: Line) -> (Field, Line) {
        let (field, from) = Field::of(self.bytes(line));
        let start = line.start + from;
        (field, Line { start, ..line })
    }

    /// WHATWG "process the field".
    #[inline]
    fn process_field(&mut self, field: Field, value: Line) -> Result<(), DecodeError> {
        match field {
            Field::Data => match self.pending.data {
                Data::None => self.pending.data = Data::Line(self.text(value)?),
                Data::Line(_) | Data::Joined => self.join(value),
            },
            Field::Event => self.pending.name = Some(self.text(value)?),
            Field::Id => {
                self.scanned += (value.end - value.start) as u64;
                if memchr(0, self.bytes(value)).is_none() {
                    self.pending.id = Some(self.text(value)?);
                }
            }
            Field::Retry => {
                self.scanned += (value.end - value.start) as u64;
                let time = reconnection_time(self.bytes(value));
                self.reconnection_time = time.or(self.reconnection_time);
            }
            Field::Comment | Field::Unknown => {}
        }
        Ok(())
    }

    /// The value as text. Of a buffered line this takes the buffer.
    #[inline]
    fn text(&mut self, value: Line) -> Result<Held, DecodeError> {
        self.scanned += (value.end - value.start) as u64;
        if value.buffered {
            self.scanned += (value.end - value.start) as u64;
            let bytes = storage::take(&mut self.line, value.start, &mut self.copies);
            return Ok(Held {
                text: self.decode(&bytes)?,
                in_chunk: false,
            });
        }
        if value.start == value.end {
            return Ok(Held::default());
        }
        let bytes = self.chunk.slice(value.start..value.end);
        if let Some(text) = Text::from_utf8(bytes) {
            self.in_chunk = true;
            return Ok(Held {
                text,
                in_chunk: true,
            });
        }
        let bytes = self.chunk.slice(value.start..value.end);
        Ok(Held {
            text: self.replace(&bytes)?,
            in_chunk: false,
        })
    }

    fn decode(&mut self, bytes: &Bytes) -> Result<Text, DecodeError> {
        match Text::from_utf8(bytes.clone()) {
            Some(text) => Ok(text),
            None => self.replace(bytes),
        }
    }

    /// WHATWG "UTF-8 decode" of bytes that are not UTF-8. One line by itself
    /// gives the same as the whole stream: CR and LF are ASCII, and an ASCII
    /// byte ends whatever sequence was begun.
    #[cold]
    fn replace(&mut self, bytes: &[u8]) -> Result<Text, DecodeError> {
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
        Ok(text.into())
    }

    /// Adds one more line of data. What is joined is decoded when it is whole.
    fn join(&mut self, value: Line) {
        if let Data::Line(first) = mem::replace(&mut self.pending.data, Data::Joined) {
            self.joined.clear();
            self.scanned += first.text.len() as u64;
            storage::reserve(&mut self.joined, first.text.len(), self.limit);
            self.joined.extend_from_slice(first.text.as_bytes());
        }
        let length = value.end - value.start;
        self.scanned += length as u64;
        storage::reserve(&mut self.joined, length + 1, self.limit);
        self.joined.push(b'\n');
        let bytes: &[u8] = if value.buffered {
            &self.line
        } else {
            &self.chunk
        };
        self.joined
            .extend_from_slice(bytes.get(value.start..value.end).unwrap_or_default());
    }

    /// WHATWG "dispatch the event", at a blank line.
    #[inline]
    fn dispatch(&mut self) -> Result<Option<Event>, DecodeError> {
        if let Some(id) = self.pending.id.take() {
            self.last_event_id = id;
        }
        let data = match mem::take(&mut self.pending.data) {
            Data::Line(held) => held.text,
            Data::Joined => self.take_joined()?,
            Data::None => {
                self.pending = Pending::starting_at(self.offset());
                return Ok(None);
            }
        };
        let name = match self.pending.name.take() {
            Some(held) if !held.text.is_empty() => held.text,
            _ => Text::from_static("message"),
        };
        let end_offset = self.offset();
        self.pending.start = end_offset;
        self.pending.added = 0;
        self.pending.has_field = false;
        Ok(Some(Event {
            name,
            data,
            id: self.last_event_id.text.clone(),
            end_offset,
            unterminated: false,
        }))
    }

    #[cold]
    fn take_joined(&mut self) -> Result<Text, DecodeError> {
        self.scanned += 2 * self.joined.len() as u64;
        let bytes = storage::take(&mut self.joined, 0, &mut self.copies);
        self.decode(&bytes)
    }

    /// Dispatches the event that the end of input cut off.
    fn flush(&mut self) -> Result<Option<Event>, DecodeError> {
        let mut line = self.buffered_line();
        if self.first_line {
            line = self.without_bom(line);
        }
        let (field, value) = self.field(line);
        if field == Field::Data {
            self.process_field(field, value)?;
        }
        if matches!(self.pending.data, Data::None) {
            return Ok(None);
        }
        let event = self.dispatch()?;
        Ok(event.map(|event| Event {
            unterminated: true,
            ..event
        }))
    }
}

impl Pending {
    fn starting_at(start: u64) -> Self {
        Self {
            start,
            ..Self::default()
        }
    }
}

impl fmt::Debug for Decoder {
    /// Tells sizes only: the stream may hold what must not be in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoder")
            .field("offset", &self.offset())
            .field("pending_bytes", &self.pending_bytes())
            .field("limit", &self.limit)
            .field("closed", &self.closed)
            .finish_non_exhaustive()
    }
}
