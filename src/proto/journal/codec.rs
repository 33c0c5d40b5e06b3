//! The byte format of records. `docs/journal-format.md` draws it.
//!
//! One record is one frame, and a frame stands for itself: frames written one
//! after the other, in any grouping, are a run that decodes. The checksum comes
//! first and covers everything after it, the length included, so that a length
//! that lies is found out before anything is believed.

use super::{Body, Control, Delivered, Record};
use crate::proto::model::{Seq, Text, WallTime};
use bytes::{BufMut, Bytes, BytesMut};

/// The version that is written. Frames of a later one are an error that says so,
/// never a guess.
pub const FORMAT_VERSION: u8 = 1;

/// Bytes of a frame before its payload.
pub const HEADER_LEN: usize = 28;

/// The largest payload, in bytes: 256 MiB. Providers take requests of up to some
/// tens of MiB, and the opening record holds the request as a JSON string, where
/// quotes grow; this leaves room, and bounds what a damaged length can ask for.
pub const MAX_PAYLOAD: usize = 256 << 20;

const KIND_EVENT: u8 = 1;
const KIND_CONTROL: u8 = 2;

/// Set when eight bytes of the provider's sequence number follow the name's length.
const FLAG_PROVIDER_SEQ: u16 = 1;

/// Why bytes are not a record. Each variant names the offset at which the bad
/// frame begins, counted from the start of the run; everything before it is whole.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CodecError {
    /// The run ends inside a frame.
    #[error("expected {needed} bytes of a record at offset {offset}, but found {found}")]
    Truncated {
        /// Where the frame begins.
        offset: u64,
        /// Bytes the frame needs.
        needed: u64,
        /// Bytes there are.
        found: u64,
    },
    /// The bytes are not the ones that were written.
    #[error(
        "expected checksum {expected:08x} of the record at offset {offset}, but found {found:08x}"
    )]
    Checksum {
        /// Where the frame begins.
        offset: u64,
        /// The checksum that was written.
        expected: u32,
        /// The checksum of what is there.
        found: u32,
    },
    /// The frame was written by a later version of this crate.
    #[error(
        "expected a record of format version {FORMAT_VERSION} at offset {offset}, but found version {found}"
    )]
    Version {
        /// Where the frame begins.
        offset: u64,
        /// Its version.
        found: u8,
    },
    /// The payload is, or says it is, larger than [`MAX_PAYLOAD`].
    #[error(
        "expected a record of at most {MAX_PAYLOAD} bytes at offset {offset}, but found {length}"
    )]
    TooLarge {
        /// Where the frame begins.
        offset: u64,
        /// Its length.
        length: u64,
    },
    /// The checksum is right, and yet the payload is not what its kind calls for.
    #[error("expected {expected} in the record at offset {offset}, but found something else")]
    Malformed {
        /// Where the frame begins.
        offset: u64,
        /// What should have been there.
        expected: &'static str,
    },
}

impl CodecError {
    /// Where the bad frame begins.
    pub const fn offset(&self) -> u64 {
        match *self {
            Self::Truncated { offset, .. }
            | Self::Checksum { offset, .. }
            | Self::Version { offset, .. }
            | Self::TooLarge { offset, .. }
            | Self::Malformed { offset, .. } => offset,
        }
    }
}

/// Appends the records to `out`, one frame each.
///
/// # Errors
///
/// [`CodecError::TooLarge`] for a payload over [`MAX_PAYLOAD`]; `out` is then as
/// it was before the call.
pub fn encode(records: &[Record], out: &mut BytesMut) -> Result<(), CodecError> {
    let start = out.len();
    let size: usize = records.iter().map(size_hint).sum();
    out.reserve(size);
    for record in records {
        if let Err(error) = encode_frame(record, out) {
            out.truncate(start);
            return Err(error);
        }
    }
    Ok(())
}

/// Decodes a run of frames. Texts share the buffer; nothing is copied and nothing
/// is allocated by what a length says.
pub fn decode(run: Bytes) -> Decoder {
    Decoder {
        run,
        offset: 0,
        failed: false,
    }
}

/// The records of a run, in order. After an error it ends: what came before is
/// whole, what follows cannot be told from noise.
#[derive(Clone, Debug)]
pub struct Decoder {
    run: Bytes,
    offset: usize,
    failed: bool,
}

impl Decoder {
    /// Where the next frame begins; after an error, where the bad one does.
    pub fn offset(&self) -> u64 {
        self.offset as u64
    }
}

impl Iterator for Decoder {
    type Item = Result<Record, CodecError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed || self.offset >= self.run.len() {
            return None;
        }
        match decode_frame(&self.run, self.offset) {
            Ok((record, end)) => {
                self.offset = end;
                Some(Ok(record))
            }
            Err(error) => {
                self.failed = true;
                Some(Err(error))
            }
        }
    }
}

impl std::iter::FusedIterator for Decoder {}

fn size_hint(record: &Record) -> usize {
    let payload = match &record.body {
        Body::Event(event) => 12 + event.name.len() + event.data.len(),
        // A request and its headers, or a handful of short fields.
        Body::Control(control) => match &**control {
            Control::Opened(opened) => 512 + opened.body.len(),
            _ => 256,
        },
    };
    HEADER_LEN + payload
}

fn encode_frame(record: &Record, out: &mut BytesMut) -> Result<(), CodecError> {
    let start = out.len();
    let offset = start as u64;
    let too_large = |length: usize| CodecError::TooLarge {
        offset,
        length: length as u64,
    };
    out.put_bytes(0, HEADER_LEN);
    let (kind, flags) = match &record.body {
        Body::Event(event) => {
            // Checked before the copy: a caller's mistake should not cost memory.
            let length = 12_usize
                .saturating_add(event.name.len())
                .saturating_add(event.data.len());
            if length > MAX_PAYLOAD {
                return Err(too_large(length));
            }
            out.put_u32_le(u32::try_from(event.name.len()).map_err(|_| too_large(length))?);
            let mut flags = 0;
            if let Some(number) = event.provider_seq {
                flags |= FLAG_PROVIDER_SEQ;
                out.put_u64_le(number);
            }
            out.put_slice(event.name.as_bytes());
            out.put_slice(event.data.as_bytes());
            (KIND_EVENT, flags)
        }
        Body::Control(control) => {
            serde_json::to_writer(out.writer(), control).map_err(|_| CodecError::Malformed {
                offset,
                expected: "a control record that can be written as JSON",
            })?;
            (KIND_CONTROL, 0)
        }
    };
    let frame = out.get_mut(start..).unwrap_or_default();
    let length = frame.len().saturating_sub(HEADER_LEN);
    let stored = u32::try_from(length)
        .ok()
        .filter(|_| length <= MAX_PAYLOAD)
        .ok_or_else(|| too_large(length))?;
    if let Some((mut header, _)) = frame.split_at_mut_checked(HEADER_LEN) {
        header.put_u32_le(0);
        header.put_u32_le(stored);
        header.put_u8(FORMAT_VERSION);
        header.put_u8(kind);
        header.put_u16_le(flags);
        header.put_u64_le(record.seq.get());
        header.put_u64_le(record.at.as_millis());
    }
    if let Some((mut crc, covered)) = frame.split_at_mut_checked(4) {
        crc.put_u32_le(crc32fast::hash(covered));
    }
    Ok(())
}

/// The fixed part of a frame.
struct Header {
    crc: u32,
    length: u32,
    version: u8,
    kind: u8,
    flags: u16,
    seq: u64,
    at: u64,
}

impl Header {
    fn read(bytes: &[u8]) -> Option<Self> {
        let (crc, rest) = bytes.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let (version, rest) = rest.split_first()?;
        let (kind, rest) = rest.split_first()?;
        let (flags, rest) = rest.split_first_chunk()?;
        let (seq, rest) = rest.split_first_chunk()?;
        let (at, _) = rest.split_first_chunk()?;
        Some(Self {
            crc: u32::from_le_bytes(*crc),
            length: u32::from_le_bytes(*length),
            version: *version,
            kind: *kind,
            flags: u16::from_le_bytes(*flags),
            seq: u64::from_le_bytes(*seq),
            at: u64::from_le_bytes(*at),
        })
    }
}

fn decode_frame(run: &Bytes, start: usize) -> Result<(Record, usize), CodecError> {
    let offset = start as u64;
    let rest = run.get(start..).unwrap_or_default();
    let truncated = |needed: usize| CodecError::Truncated {
        offset,
        needed: needed as u64,
        found: rest.len() as u64,
    };
    let header = Header::read(rest).ok_or_else(|| truncated(HEADER_LEN))?;
    let length = usize::try_from(header.length)
        .ok()
        .filter(|length| *length <= MAX_PAYLOAD)
        .ok_or_else(|| CodecError::TooLarge {
            offset,
            length: u64::from(header.length),
        })?;
    let size = HEADER_LEN + length;
    let frame = rest.get(..size).ok_or_else(|| truncated(size))?;
    let found = crc32fast::hash(frame.get(4..).unwrap_or_default());
    if found != header.crc {
        return Err(CodecError::Checksum {
            offset,
            expected: header.crc,
            found,
        });
    }
    // After the checksum: a flipped bit in the version is damage, not the future.
    if header.version != FORMAT_VERSION {
        return Err(CodecError::Version {
            offset,
            found: header.version,
        });
    }
    let end = start + size;
    let payload = run.slice(start + HEADER_LEN..end);
    let body = match (header.kind, header.flags) {
        (KIND_EVENT, 0 | FLAG_PROVIDER_SEQ) => Body::Event(decode_event(
            &payload,
            header.flags & FLAG_PROVIDER_SEQ != 0,
            offset,
        )?),
        (KIND_CONTROL, 0) => Body::Control(Box::new(decode_control(&payload, offset)?)),
        // A kind, or a flag, of a later writer that kept the format version
        // because it may be passed over.
        _ => Body::Control(Box::new(Control::Unknown)),
    };
    let record = Record {
        seq: Seq::new(header.seq),
        at: WallTime::from_millis(header.at),
        body,
    };
    Ok((record, end))
}

fn decode_event(payload: &Bytes, numbered: bool, offset: u64) -> Result<Delivered, CodecError> {
    fn split(payload: &Bytes, numbered: bool) -> Option<(Option<u64>, Bytes, Bytes)> {
        let (name_len, rest) = payload.split_first_chunk()?;
        let name_len = usize::try_from(u32::from_le_bytes(*name_len)).ok()?;
        let mut name_at = 4;
        let mut number = None;
        if numbered {
            let (bytes, _) = rest.split_first_chunk()?;
            number = Some(u64::from_le_bytes(*bytes));
            name_at += 8;
        }
        let data_at = name_len.checked_add(name_at)?;
        if data_at > payload.len() {
            return None;
        }
        // An empty name is the common case, and needs no share of the buffer.
        let name = if name_len == 0 {
            Bytes::new()
        } else {
            payload.slice(name_at..data_at)
        };
        Some((number, name, payload.slice(data_at..)))
    }
    let malformed = |expected| CodecError::Malformed { offset, expected };
    let (provider_seq, name, data) =
        split(payload, numbered).ok_or_else(|| malformed("an event's name and data"))?;
    let name = Text::from_utf8(name).ok_or_else(|| malformed("a name in UTF-8"))?;
    let data = Text::from_utf8(data).ok_or_else(|| malformed("data in UTF-8"))?;
    Ok(Delivered {
        name,
        data,
        provider_seq,
    })
}

fn decode_control(payload: &[u8], offset: u64) -> Result<Control, CodecError> {
    /// What every version of a control record has.
    #[derive(serde::Deserialize)]
    struct Tagged {
        #[serde(rename = "record")]
        _record: String,
    }
    serde_json::from_slice(payload).or_else(|_| {
        // A record we know by name, with a word in it that we do not: a later
        // writer's. The checksum says that it is what was written.
        serde_json::from_slice::<Tagged>(payload)
            .map(|_| Control::Unknown)
            .map_err(|_| CodecError::Malformed {
                offset,
                expected: "a control record in JSON",
            })
    })
}

#[cfg(test)]
mod tests;
