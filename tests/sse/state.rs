//! Ids, reconnection times, offsets, comments and ends: one rule per test.

use std::time::Duration;

use bytes::Bytes;
use streamkeep::proto::model::Text;
use streamkeep::proto::sse::{Decoder, DecoderConfig, EndOfInput, Event, Item};

use crate::support::{event, events, whole};

fn decoder() -> Decoder {
    Decoder::new(DecoderConfig::new())
}

fn push(decoder: &mut Decoder, bytes: &'static str) -> Vec<Item> {
    decoder.push(Bytes::from_static(bytes.as_bytes()));
    std::iter::from_fn(|| decoder.next().unwrap()).collect()
}

#[test]
fn an_event_is_dispatched_at_its_last_byte() {
    for ends in ["\n\n", "\r\r", "\n\r", "\r\n\n", "\r\n\r"] {
        let mut decoder = decoder();
        let bytes = format!("data: x{ends}");
        let (last, before) = bytes.as_bytes().split_last().unwrap();
        decoder.push(Bytes::copy_from_slice(before));
        assert_eq!(decoder.next(), Ok(None), "{ends:?}");
        decoder.push(Bytes::copy_from_slice(&[*last]));
        let expected = event("message", "x", "", bytes.len() as u64);
        assert_eq!(decoder.next(), Ok(Some(Item::Event(expected))), "{ends:?}");
    }
}

#[test]
fn a_line_feed_after_the_carriage_return_that_ended_an_event_is_no_blank_line() {
    let mut decoder = decoder();
    assert_eq!(push(&mut decoder, "data: x\r\n\r").len(), 1);
    assert_eq!(decoder.pending_bytes(), 0);
    assert_eq!(push(&mut decoder, "\n"), []);
    assert_eq!(decoder.pending_bytes(), 0);
    let expected = event("message", "y", "", 21);
    assert_eq!(
        push(&mut decoder, "data: y\r\n\r\n"),
        [Item::Event(expected)]
    );
}

#[test]
fn a_seeded_id_stays_until_the_stream_sets_another() {
    let config = DecoderConfig::new().last_event_id(Text::from("41"));
    let mut decoder = Decoder::new(config);
    assert_eq!(
        push(&mut decoder, "data: x\n\n"),
        [Item::Event(event("message", "x", "41", 9))]
    );
    assert_eq!(*decoder.last_event_id(), "41");
    assert_eq!(
        push(&mut decoder, "id: 42\ndata: y\n\n"),
        [Item::Event(event("message", "y", "42", 25))]
    );
    assert_eq!(*decoder.last_event_id(), "42");
}

#[test]
fn an_id_counts_from_the_blank_line_on_with_data_or_without() {
    let mut decoder = decoder();
    push(&mut decoder, "id: 1\n");
    assert_eq!(*decoder.last_event_id(), "");
    push(&mut decoder, "\n");
    assert_eq!(*decoder.last_event_id(), "1");
    push(&mut decoder, "id\n");
    assert_eq!(*decoder.last_event_id(), "1");
    push(&mut decoder, "\n");
    assert_eq!(*decoder.last_event_id(), "");
}

#[test]
fn an_id_with_nul_is_ignored_and_an_earlier_one_in_the_event_counts() {
    let expected = [event("message", "x", "1", 22)];
    assert_eq!(events(b"id: 1\nid: \x002\ndata: x\n\n"), expected);
}

#[test]
fn an_id_survives_the_chunk_it_came_in() {
    let mut decoder = decoder();
    push(&mut decoder, "id: 1\ndata: x\n\n");
    for n in 1..100_u64 {
        let at = 15 + 9 * n;
        let expected = event("message", "y", "1", at);
        assert_eq!(push(&mut decoder, "data: y\n\n"), [Item::Event(expected)]);
    }
}

#[test]
fn a_reconnection_time_counts_at_once_and_only_digits_are_one() {
    let mut decoder = decoder();
    assert_eq!(decoder.reconnection_time(), None);
    push(&mut decoder, "retry: 1500\n");
    let expected = Some(Duration::from_millis(1500));
    assert_eq!(decoder.reconnection_time(), expected);
    push(
        &mut decoder,
        "retry: +1\nretry: 1.5\nretry\nretry:\nretry: -1\nretry: 1 \n",
    );
    assert_eq!(decoder.reconnection_time(), expected);
}

#[test]
fn comments_come_out_in_their_place_and_at_their_line_end() {
    let mut decoder = decoder();
    let comment = |text: &str| Item::Comment(Text::from(text));
    assert_eq!(push(&mut decoder, ": ping\n"), [comment(" ping")]);
    assert_eq!(push(&mut decoder, "data: x\n:\n"), [comment("")]);
    let expected = [Item::Event(event("message", "x", "", 18)), comment("é")];
    assert_eq!(push(&mut decoder, "\n:é\r"), expected);
}

#[test]
fn lines_that_are_no_field_come_out_where_they_are_asked_for() {
    let stream = "\u{feff}{\"error\":1}\n: c\ndata: x\nerror: y\r\n\ndat\n\nlast";
    let mut decoder = Decoder::new(DecoderConfig::new().unknown_lines(true));
    let line = |text: &str| Item::Line(Text::from(text));
    assert_eq!(
        push(&mut decoder, stream),
        [
            line("{\"error\":1}"),
            Item::Comment(Text::from(" c")),
            line("error: y"),
            Item::Event(event("message", "x", "", 38)),
            line("dat"),
        ]
    );
    assert_eq!(decoder.unfinished_line(), b"last");
    assert_eq!(push(&mut decoder, "ing\n"), [line("lasting")]);
    assert_eq!(decoder.unfinished_line(), b"");
    let mut decoder = Decoder::new(DecoderConfig::new());
    push(&mut decoder, "\u{feff}{");
    assert_eq!(decoder.unfinished_line(), b"{");
}

#[test]
fn the_type_of_an_event_without_data_is_forgotten() {
    let expected = [event("message", "x", "", 19)];
    assert_eq!(events(b"event: e\n\ndata: x\n\n"), expected);
}

#[test]
fn a_byte_order_mark_is_one_only_at_the_start_and_once() {
    assert_eq!(events(b"\xEF\xBB\xBFdata: x\n\n")[0].data, "x");
    assert_eq!(events(b"\xEF\xBB\xBF\xEF\xBB\xBFdata: x\n\n"), []);
    assert_eq!(events(b"\n\xEF\xBB\xBFdata: x\n\n"), []);
    assert_eq!(events(b"\xEF\xBB\xBF\ndata: x\n\n")[0].data, "x");
    assert_eq!(events(b"data: \xEF\xBB\xBFx\n\n")[0].data, "\u{FEFF}x");
    assert_eq!(events(b"data: x\n\n\xEF\xBB\xBFdata: y\n\n").len(), 1);
}

#[test]
fn invalid_utf8_is_replaced_one_maximal_part_at_a_time() {
    for (bytes, expected) in [
        (&b"\xFFa"[..], "\u{FFFD}a"),
        (b"\xE2\x82", "\u{FFFD}"),
        (b"\xE2\x82a", "\u{FFFD}a"),
        (b"\xED\xA0\x80", "\u{FFFD}\u{FFFD}\u{FFFD}"),
        (b"\xF0\x9F\x98", "\u{FFFD}"),
        (b"\xC0\x80", "\u{FFFD}\u{FFFD}"),
        (b"\xE2\x82\ndata: \xAC", "\u{FFFD}\n\u{FFFD}"),
    ] {
        let stream = [b"data: ", bytes, b"\n\n"].concat();
        assert_eq!(events(&stream)[0].data, expected, "{bytes:?}");
    }
    let stream = b"event: \xFF\nid: \xFF\n:\xFF\ndata: x\n\n";
    let outcome = whole(stream, EndOfInput::Discard);
    assert_eq!(outcome.comments(), ["\u{FFFD}"]);
    let expected = event("\u{FFFD}", "x", "\u{FFFD}", stream.len() as u64);
    assert_eq!(outcome.events(), [&expected]);
}

#[test]
fn the_end_of_input_discards_or_flushes_a_cut_off_event() {
    let cut_off = |stream: &[u8], end| whole(stream, end).cut_off;
    let flushed = |data, id, end_offset| Event {
        unterminated: true,
        ..event("message", data, id, end_offset)
    };
    for stream in [&b"data: x"[..], b"data: x\n", b"data: x\r", b"data: x\r\n"] {
        assert_eq!(cut_off(stream, EndOfInput::Discard), None);
        let expected = Some(flushed("x", "", stream.len() as u64));
        assert_eq!(cut_off(stream, EndOfInput::Flush), expected);
    }
    for stream in [
        &b""[..],
        b"\n",
        b"data: x\n\n",
        b": c",
        b"id: 1\n",
        b"event: e",
        b"dat",
    ] {
        assert_eq!(cut_off(stream, EndOfInput::Flush), None);
    }
    let expected = Some(flushed("a\nb", "1", 21));
    assert_eq!(
        cut_off(b"id: 1\ndata: a\ndata: b", EndOfInput::Flush),
        expected
    );
    let bom = b"\xEF\xBB\xBFdata: x";
    assert_eq!(cut_off(bom, EndOfInput::Flush), Some(flushed("x", "", 10)));
}

#[test]
fn half_an_id_type_or_time_at_the_end_of_input_is_not_taken() {
    let outcome = whole(b"data: x\nid: 12", EndOfInput::Flush);
    assert_eq!(outcome.cut_off.unwrap().id, "");
    assert_eq!(outcome.last_event_id, "");
    let outcome = whole(b"data: x\nevent: err", EndOfInput::Flush);
    assert_eq!(outcome.cut_off.unwrap().name, "message");
    let outcome = whole(b"data: x\nretry: 10", EndOfInput::Flush);
    assert_eq!(outcome.reconnection_time, None);
}

#[test]
fn an_id_of_an_event_without_data_does_not_count_if_it_was_cut_off() {
    for end in [EndOfInput::Discard, EndOfInput::Flush] {
        assert_eq!(whole(b"id: 1\n", end).last_event_id, "");
    }
}

#[test]
fn finishing_hands_out_what_was_not_asked_for_yet() {
    let mut decoder = decoder();
    decoder.push(Bytes::from_static(b"data: a\n\n: c\ndata: b\n\ndata: c"));
    let mut data = || {
        let event = decoder.finish(EndOfInput::Flush).unwrap()?;
        Some((event.data.to_string(), event.unterminated))
    };
    assert_eq!(data(), Some(("a".to_owned(), false)));
    assert_eq!(data(), Some(("b".to_owned(), false)));
    assert_eq!(data(), Some(("c".to_owned(), true)));
    assert_eq!(data(), None);
    decoder.push(Bytes::from_static(b"data: d\n\n"));
    assert_eq!(decoder.next(), Ok(None));
}

#[test]
fn the_pending_size_tells_whether_a_stream_ended_between_events() {
    let mut decoder = decoder();
    for (bytes, pending) in [
        ("data: x\n\n", 0),
        (": c\n", 0),
        ("data", 4),
        (": x\n", 8),
        (": c\n", 12),
        ("\n", 0),
        ("\r\n", 0),
    ] {
        push(&mut decoder, bytes);
        assert_eq!(decoder.pending_bytes(), pending, "{bytes:?}");
    }
}

#[test]
fn debug_output_tells_nothing_of_the_stream() {
    let mut decoder = decoder();
    push(&mut decoder, "id: secret\ndata: secret\n\ndata: secret");
    assert!(!format!("{decoder:?}").contains("secret"));
}
