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

/// The event that is not complete yet. All is kept as it came and decoded when
/// the event is dispatched, so what a chunk cuts costs the same as what it
/// does not.
#[derive(Default)]
struct Pending {
    /// Offset in the stream of its first byte.
    start: u64,
    /// Bytes that replacements of invalid UTF-8 added.
    added: u64,
    has_field: bool,
    name: Part,
    id: Part,
    /// `None` if there was no data field. (After one, the "data buffer" of the
    /// standard is never empty: it ends in the LF that dispatching takes off.)
    data: Part,
}

/// A value of the pending event.
#[derive(Default)]
enum Part {
    #[default]
    None,
    /// In the current chunk, from here to there.
    Chunk(usize, usize),
    Owned(Bytes),
    /// In [`Decoder::joined`]: lines of data.
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
    #[inline]
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
                if self.pending.has_data() {
                    return self.dispatch(false);
                }
                self.reset()?;
                continue;
            }
            let Some(length) = memchr2(b'\n', b'\r', rest) else {
                self.scanned += rest.len() as u64;
                self.buffer(rest.len());
                self.position = self.chunk.len();
                self.check_size()?;
                continue;
            };
            self.scanned += length as u64 + 1;
            self.after_cr = rest.get(length) == Some(&b'\r');
            let (mut line, (field, from)) = if self.line.is_empty() && !self.first_line {
                let bytes = rest.get(..length).unwrap_or_default();
                (self.line_in_chunk(length), Field::of(bytes))
            } else {
                let line = self.long_line(length);
                (line, Field::of(self.bytes(line)))
            };
            self.position += length + 1;
            self.check_size()?;
            line.start += from;
            match field {
                Field::Data if !self.pending.has_data() => self.pending.data = self.part(line),
                Field::Event => self.pending.name = self.part(line),
                Field::Comment => return self.comment(line),
                _ if line.start == line.end && from == 0 => {
                    // Nothing but a byte order mark: a blank line.
                    self.line.clear();
                    self.reset()?;
                    continue;
                }
                Field::Data | Field::Id | Field::Retry | Field::Unknown => {
                    self.process_field(field, line);
                }
            }
            self.pending.has_field = true;
            if line.buffered {
                storage::clear(&mut self.line);
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
        let item = match end {
            EndOfInput::Flush if !self.closed => self.flush()?,
            EndOfInput::Flush | EndOfInput::Discard => None,
        };
        self.close(self.offset());
        match item {
            Some(Item::Event(event)) => Ok(Some(event)),
            Some(Item::Comment(_)) | None => Ok(None),
        }
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
    #[inline]
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
        self.in_chunk = false;
        let mut copied = self.last_event_id.detach(&mut self.copies);
        let pending = &mut self.pending;
        for part in [&mut pending.name, &mut pending.id, &mut pending.data] {
            if let Part::Chunk(start, end) = *part {
                let bytes = self.chunk.get(start..end).unwrap_or_default();
                copied += bytes.len();
                *part = Part::Owned(self.copies.copy(bytes));
            }
        }
        self.scanned += copied as u64;
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
        let offset = start.saturating_add(limit.saturating_sub(self.pending.added));
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
        self.pending = Pending::starting_at(offset);
        if self.in_chunk {
            self.detach();
        }
        self.copies = Copies::default();
        self.chunk = Bytes::new();
        self.position = 0;
        self.base = offset;
        self.waiting = VecDeque::new();
        self.line = Vec::new();
        self.joined = Vec::new();
        self.closed = true;
    }

    /// The line that ends this far from the position, if part of it is buffered
    /// or it is the stream's first.
    #[cold]
    fn long_line(&mut self, length: usize) -> Line {
        let mut line = self.line_in_chunk(length);
        if !self.line.is_empty() {
            storage::reserve_last(&mut self.line, length);
            self.buffer(length);
            line = self.buffered_line();
        }
        if self.first_line {
            self.first_line = false;
            line = self.without_bom(line);
        }
        line
    }

    /// The line from the position on, if none of it is buffered.
    #[inline]
    fn line_in_chunk(&self, length: usize) -> Line {
        Line {
            buffered: false,
            start: self.position,
            end: self.position + length,
        }
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

    /// A comment is surfaced at once. In front of an event it is not part of it.
    fn comment(&mut self, value: Line) -> Result<Option<Item>, DecodeError> {
        let part = self.part(value);
        let text = self.decode_kept(part)?.text;
        if !self.pending.has_field {
            self.pending = Pending::starting_at(self.offset());
        }
        Ok(Some(Item::Comment(text)))
    }

    /// WHATWG "process the field".
    fn process_field(&mut self, field: Field, value: Line) {
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
    fn part(&mut self, value: Line) -> Part {
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
    fn dispatch(&mut self, unterminated: bool) -> Result<Option<Item>, DecodeError> {
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
        let mut id = Text::from_static("");
        if !self.last_event_id.text.is_empty() {
            id = self.last_event_id.text.clone();
        }
        let end_offset = self.offset();
        self.pending.start = end_offset;
        self.pending.added = 0;
        self.pending.has_field = false;
        Ok(Some(Item::Event(Event {
            name,
            data,
            id,
            end_offset,
            unterminated,
        })))
    }

    /// WHATWG "dispatch the event", for one without data: of it only its id
    /// counts.
    fn reset(&mut self) -> Result<(), DecodeError> {
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
    fn flush(&mut self) -> Result<Option<Item>, DecodeError> {
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
    fn has_data(&self) -> bool {
        !matches!(self.data, Part::None)
    }

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
