//! The event-stream decoder.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use memchr::memchr2;

use super::field::Field;
use super::storage::{self, Copies, Held};
use super::{DecodeError, DecoderConfig, EndOfInput, Event, Item};
use crate::proto::model::Text;

mod interpret;
mod whole;

use interpret::{Part, Pending};

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
    unknown_lines: bool,
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
            unknown_lines: config.unknown_lines,
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
    #[inline]
    pub fn next(&mut self) -> Result<Option<Item>, DecodeError> {
        if let Some(event) = self.whole_event() {
            return Ok(Some(Item::Event(event)));
        }
        self.next_in_steps()
    }

    /// The next item, line by line.
    fn next_in_steps(&mut self) -> Result<Option<Item>, DecodeError> {
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
                Field::Unknown if self.unknown_lines && from > 0 => {
                    line.start -= from;
                    return self.unknown(line);
                }
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
            Some(Item::Comment(_) | Item::Line(_)) | None => Ok(None),
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

    /// The line at the end of what was decoded, as far as it has come; empty when
    /// that ends with a line end.
    pub fn unfinished_line(&self) -> &[u8] {
        let line = self.buffered_line();
        self.bytes(if self.first_line {
            self.without_bom(line)
        } else {
            line
        })
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
