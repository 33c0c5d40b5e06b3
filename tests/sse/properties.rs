//! What holds for every stream and every event.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use streamkeep::proto::model::Text;
use streamkeep::proto::sse::{Decoder, DecoderConfig, EndOfInput, Item, Outgoing, encode_comment};

use crate::support::{decode, hostile_stream, pieces, random_pieces, whole};

const ENDS: [EndOfInput; 2] = [EndOfInput::Discard, EndOfInput::Flush];

/// Text with all that needs care on the wire.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("\n".to_owned()),
        Just("\r".to_owned()),
        Just("\r\n".to_owned()),
        Just("\0".to_owned()),
        Just("\u{FEFF}".to_owned()),
        Just("data: x".to_owned()),
        Just(":".to_owned()),
        Just(" ".to_owned()),
        any::<char>().prop_map(String::from),
        "[a-z ]{0,20}",
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

/// A text that may be a name or an id.
fn token() -> impl Strategy<Value = String> {
    text().prop_map(|text| text.replace(['\0', '\n', '\r'], "_"))
}

/// What a decoder makes of line ends inside data.
fn with_lf(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n")
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn chunks_make_no_difference(
        bytes in hostile_stream(),
        seed in any::<u64>(),
        limit in prop_oneof![1 => Just(usize::MAX), 2 => 0..80_usize],
        lines in any::<bool>(),
    ) {
        for end in ENDS {
            let run = |chunks: Vec<Bytes>| {
                let config = DecoderConfig::new().max_event_bytes(limit).unknown_lines(lines);
                decode(config, chunks, end)
            };
            let expected = run(vec![bytes.clone()]);
            prop_assert_eq!(&run(pieces(&bytes, 1)), &expected);
            prop_assert_eq!(&run(random_pieces(&bytes, seed)), &expected);
        }
    }

    #[test]
    fn unknown_lines_come_out_beside_all_that_comes_out_without_them(bytes in hostile_stream()) {
        let expected = whole(&bytes, EndOfInput::Flush);
        let config = DecoderConfig::new().unknown_lines(true);
        let mut found = decode(config, [bytes], EndOfInput::Flush);
        found.items.retain(|(item, _)| !matches!(item, Item::Line(_)));
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn pushing_ahead_makes_no_difference(bytes in hostile_stream(), seed in any::<u64>()) {
        let expected = whole(&bytes, EndOfInput::Flush);
        let mut decoder = Decoder::new(DecoderConfig::new());
        for piece in random_pieces(&bytes, seed) {
            decoder.push(piece);
        }
        let mut events = Vec::new();
        while let Some(event) = decoder.finish(EndOfInput::Flush).unwrap() {
            events.push(event);
        }
        let expected: Vec<_> = expected.events().into_iter().chain(&expected.cut_off).collect();
        prop_assert_eq!(events.iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn random_bytes_never_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..400).prop_map(Bytes::from),
        seed in any::<u64>(),
    ) {
        let expected = whole(&bytes, EndOfInput::Flush);
        let pieces = random_pieces(&bytes, seed);
        prop_assert_eq!(decode(DecoderConfig::new(), pieces, EndOfInput::Flush), expected);
    }

    #[test]
    fn what_comes_out_early_stays(bytes in hostile_stream(), at in any::<prop::sample::Index>()) {
        let cut = at.index(bytes.len() + 1);
        let early = whole(&bytes[..cut], EndOfInput::Discard).items;
        let all = whole(&bytes, EndOfInput::Discard).items;
        prop_assert_eq!(&early[..], &all[..early.len()]);
    }

    #[test]
    fn encoded_events_come_back(
        events in prop::collection::vec((token(), text(), token(), 0..u64::MAX, text()), 1..5),
        seed in any::<u64>(),
    ) {
        let mut stream = BytesMut::new();
        for (name, data, id, retry, comment) in &events {
            Outgoing::new()
                .name(name)
                .data(data)
                .id(id)
                .retry(Duration::from_millis(*retry))
                .comment(comment)
                .encode(&mut stream)
                .unwrap();
            encode_comment(comment, &mut stream);
        }
        let pieces = random_pieces(&stream.freeze(), seed);
        let outcome = decode(DecoderConfig::new(), pieces, EndOfInput::Flush);
        prop_assert_eq!(&outcome.cut_off, &None);

        let mut items = outcome.items.into_iter();
        for (name, data, id, retry, comment) in &events {
            let comment = with_lf(comment);
            for line in comment.split('\n') {
                prop_assert_eq!(items.next().unwrap().0, Item::Comment(Text::from(line)));
            }
            let (item, time) = items.next().unwrap();
            let Item::Event(event) = item else { panic!("expected an event, but found {item:?}") };
            let expected = if name.is_empty() { "message" } else { name };
            prop_assert_eq!(event.name, expected);
            prop_assert_eq!(event.data.as_str(), with_lf(data));
            prop_assert_eq!(event.id, id.as_str());
            prop_assert_eq!(time, Some(Duration::from_millis(*retry)));
            for line in comment.split('\n') {
                prop_assert_eq!(items.next().unwrap().0, Item::Comment(Text::from(line)));
            }
        }
        prop_assert_eq!(items.next(), None);
    }

    #[test]
    fn a_decoded_event_can_be_sent_on(bytes in hostile_stream()) {
        for event in whole(&bytes, EndOfInput::Discard).events() {
            // NUL is legal in a decoded type, and is the one thing not sent on.
            if event.name.contains('\0') {
                prop_assert!(Outgoing::from(event).encode(&mut Vec::new()).is_err());
                continue;
            }
            let mut out = Vec::new();
            Outgoing::from(event).encode(&mut out).unwrap();
            let again = whole(&out, EndOfInput::Discard);
            let again = again.events()[0];
            prop_assert_eq!(
                (&again.name, &again.data, &again.id),
                (&event.name, &event.data, &event.id)
            );
        }
    }
}

#[test]
fn work_is_linear_in_every_shape_and_chunk_size() {
    let long = |start: &[u8], byte| [start, &vec![byte; 100_000], b"\n\n"].concat();
    let many = |line: &[u8]| [&line.repeat(100_000 / line.len()), &b"\n"[..]].concat();
    let types_after_data = [many(b"data: x"), many(b"event: e\nid: 1\n")].concat();
    let shapes = [
        ("long data", long(b"data: ", b'x')),
        ("long comment", long(b":", b' ')),
        ("long unknown", long(b"", b'x')),
        ("long invalid", long(b"data: ", 0xFF)),
        ("data lines", many(b"data: x\n")),
        ("invalid lines", many(b"data: \xFF\n")),
        ("comments", many(b": c\n")),
        ("deltas", many(b"event: d\nid: 17\ndata: {}\n\n")),
        ("types after data", types_after_data),
        ("invalid events", many(b"event: d\xFF\ndata: x\xFF\n\n")),
        ("not whole at the end", many(b"event: d\ndata: x\n:\n\n")),
        ("carriage returns", many(b"\r")),
        ("line feeds", many(b"\n")),
    ];
    for (name, bytes) in shapes {
        let bytes = Bytes::from(bytes);
        for size in [1, 2, 3, 7, 100, 1_400, 16_384, usize::MAX >> 1] {
            let mut decoder = Decoder::new(DecoderConfig::new());
            for piece in pieces(&bytes, size) {
                decoder.push(piece);
                while decoder.next().unwrap().is_some() {}
            }
            let (work, offset) = (decoder.scanned(), decoder.offset());
            assert_eq!(offset, bytes.len() as u64);
            assert!(work >= offset, "{name}, {size}: counts {work} of {offset}");
            assert!(work <= 16 * offset, "{name}, {size}: {work} for {offset}");
        }
    }
}

/// A whole event may be taken in one step; the same event byte by byte cannot.
#[test]
fn whole_events_are_what_their_bytes_make_in_every_variation() {
    let befores: [&[u8]; 4] = [b"", b"id: 7\n\n", b": c\ndata: w\r\r", b"data: w\r\n\r\n"];
    let names: [&[u8]; 5] = [b"", b"event: n", b"event: ", b"event:n", b"event: \xFF"];
    let datas: [&[u8]; 5] = [b"data: d", b"data: ", b"data:d", b"data: \xFF", b"id: 8"];
    let ends: [&[u8]; 4] = [b"\n", b"\r\n", b"\r", b"\r\r"];
    let afters: [&[u8]; 4] = [b"", b"\n", b"\xEF\xBB\xBFdata: x\n\n", b"data: x\n\n"];
    let mut streams = 0;
    for before in befores {
        for name in names {
            for [name_end, data_end, blank] in triples(ends) {
                for (data, after) in datas
                    .iter()
                    .flat_map(|data| afters.map(|after| (data, after)))
                {
                    let name_end: &[u8] = if name.is_empty() { b"" } else { name_end };
                    let parts = [before, name, name_end, data, data_end, blank, after];
                    let bytes = Bytes::from(parts.concat());
                    let run = |size| decode(DecoderConfig::new(), pieces(&bytes, size), ENDS[1]);
                    assert_eq!(run(bytes.len()), run(1), "{bytes:?}");
                    streams += 1;
                }
            }
        }
    }
    assert_eq!(streams, 4 * 5 * 64 * 5 * 4);
}

fn triples(ends: [&[u8]; 4]) -> impl Iterator<Item = [&[u8]; 3]> {
    (0..64).map(move |n| [ends[n % 4], ends[n / 4 % 4], ends[n / 16]])
}
