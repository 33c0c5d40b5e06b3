//! What the tests of this folder share.

use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use streamkeep::proto::model::Text;
use streamkeep::proto::sse::{DecodeError, Decoder, DecoderConfig, EndOfInput, Event, Item};

/// All that a stream came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Each with the reconnection time as of that item.
    pub(crate) items: Vec<(Item, Option<Duration>)>,
    pub(crate) error: Option<DecodeError>,
    /// What flushing at the end of input added.
    pub(crate) cut_off: Option<Event>,
    /// Before the end of input; flushing may go on to `cut_off`'s.
    pub(crate) last_event_id: String,
    pub(crate) reconnection_time: Option<Duration>,
    pub(crate) offset: u64,
}

impl Outcome {
    pub(crate) fn events(&self) -> Vec<&Event> {
        self.items
            .iter()
            .filter_map(|(item, _)| match item {
                Item::Event(event) => Some(event),
                Item::Comment(_) | Item::Line(_) => None,
            })
            .collect()
    }

    pub(crate) fn comments(&self) -> Vec<&str> {
        self.items
            .iter()
            .filter_map(|(item, _)| match item {
                Item::Event(_) | Item::Line(_) => None,
                Item::Comment(text) => Some(text.as_str()),
            })
            .collect()
    }
}

/// Decodes the chunks with everything the decoder promises for any stream
/// checked on the way.
pub(crate) fn decode(
    config: DecoderConfig,
    chunks: impl IntoIterator<Item = Bytes>,
    end: EndOfInput,
) -> Outcome {
    let mut decoder = Decoder::new(config);
    let mut items = Vec::new();
    let mut error = None;
    let mut pushed = 0;
    for chunk in chunks {
        pushed += chunk.len() as u64;
        decoder.push(chunk);
        loop {
            match decoder.next() {
                Ok(Some(item)) => {
                    if let Item::Event(event) = &item {
                        assert_eq!(event.end_offset, decoder.offset());
                        assert_eq!(event.id, *decoder.last_event_id());
                        assert!(!event.unterminated);
                    }
                    items.push((item, decoder.reconnection_time()));
                }
                Ok(None) => break,
                Err(found) => {
                    assert_eq!(error.replace(found), None, "a second error");
                    assert_eq!(found.offset(), decoder.offset());
                }
            }
        }
        if error.is_none() {
            assert_eq!(decoder.offset(), pushed);
        }
        assert!(decoder.scanned() <= 16 * pushed, "work is not linear");
    }
    let last_event_id = decoder.last_event_id().to_string();
    // A cut-off event may yet prove too large, if it takes replacements.
    let cut_off = decoder.finish(end).unwrap_or_else(|found| {
        assert_eq!(error.replace(found), None, "a second error");
        None
    });
    assert_eq!(
        decoder.last_event_id().as_str(),
        cut_off
            .as_ref()
            .map_or(&last_event_id[..], |event| &event.id)
    );
    assert_eq!(decoder.finish(end), Ok(None));
    assert_eq!(decoder.next(), Ok(None));
    Outcome {
        items,
        error,
        cut_off,
        last_event_id,
        reconnection_time: decoder.reconnection_time(),
        offset: decoder.offset(),
    }
}

pub(crate) fn whole(bytes: &[u8], end: EndOfInput) -> Outcome {
    decode(DecoderConfig::new(), [Bytes::copy_from_slice(bytes)], end)
}

/// The events of a stream that ends well.
pub(crate) fn events(bytes: &[u8]) -> Vec<Event> {
    let outcome = whole(bytes, EndOfInput::Discard);
    assert_eq!(outcome.error, None);
    outcome.events().into_iter().cloned().collect()
}

/// The bytes in pieces of this size.
pub(crate) fn pieces(bytes: &Bytes, size: usize) -> Vec<Bytes> {
    (0..bytes.len())
        .step_by(size)
        .map(|at| bytes.slice(at..bytes.len().min(at + size)))
        .collect()
}

/// The bytes cut at random: the seed says where, and also whether the pieces
/// tend to be small or large.
pub(crate) fn random_pieces(bytes: &Bytes, seed: u64) -> Vec<Bytes> {
    let mut random = Random(seed);
    let longest = 1 << (random.next() % 12);
    let mut rest = bytes.clone();
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        let length = 1 + usize::try_from(random.next() % longest).unwrap();
        pieces.push(rest.split_to(length.min(rest.len())));
    }
    pieces
}

/// SplitMix64, so that a seed names the same run on every machine.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

/// Bytes made of what decoders trip over.
pub(crate) fn hostile_stream() -> impl Strategy<Value = Bytes> {
    const TOKENS: &[&[u8]] = &[
        b"\n",
        b"\n",
        b"\n",
        b"\n\n",
        b"\r",
        b"\r",
        b"\r\n",
        b"\r\n\r\n",
        b"\r\r",
        b":",
        b": ",
        b" ",
        b"data",
        b"data:",
        b"data: ",
        b"data: x\n\n",
        b"data:y\r\r",
        b"event",
        b"event: ",
        b"event:e\n",
        b"id",
        b"id:",
        b"id: ",
        b"id: 7\n",
        b"id\n",
        b"retry:",
        b"retry: 12\n",
        b"retry:+1\n",
        b"3",
        b"x",
        b"\0",
        b"\t",
        b"dat",
        b"i",
        b"\xEF\xBB\xBF",
        b"\xEF\xBB",
        b"\xEF",
        b"\xBF",
        b"\xE2\x82",
        b"\xE2\x82\xAC",
        b"\xF0\x9F\x98\x80",
        b"\xF0\x9F",
        b"\xFF",
        b"\xC0\x80",
        b"\xED\xA0\x80",
        b"\xC3\xA9",
        b"\xE2\x80\xA8",
        b"\xC2\x85",
    ];
    let token = prop_oneof![
        20 => (0..TOKENS.len()).prop_map(|n| TOKENS[n].to_vec()),
        1 => any::<u8>().prop_map(|byte| vec![byte]),
        1 => "[a-z ]{1,90}".prop_map(String::into_bytes),
    ];
    prop::collection::vec(token, 0..60).prop_map(|tokens| Bytes::from(tokens.concat()))
}

pub(crate) fn event(name: &str, data: &str, id: &str, end_offset: u64) -> Event {
    Event {
        name: Text::from(name),
        data: Text::from(data),
        id: Text::from(id),
        end_offset,
        unterminated: false,
    }
}
