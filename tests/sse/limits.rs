//! The size of an event is limited.

use bytes::Bytes;
use streamkeep::proto::sse::{DecodeError, Decoder, DecoderConfig, EndOfInput, Item};

use crate::support::{Outcome, decode, pieces};

#[track_caller]
fn check(limit: usize, stream: &[u8]) -> Outcome {
    let stream = Bytes::copy_from_slice(stream);
    let run = |size| {
        let config = DecoderConfig::new().max_event_bytes(limit);
        decode(config, pieces(&stream, size), EndOfInput::Flush)
    };
    let outcome = run(stream.len());
    assert_eq!(run(1), outcome);
    assert_eq!(run(3), outcome);
    outcome
}

fn too_large(start: u64, offset: u64, limit: u64) -> DecodeError {
    DecodeError::EventTooLarge {
        start,
        offset,
        limit,
    }
}

#[test]
fn an_event_may_be_as_large_as_the_limit_with_its_blank_line() {
    for stream in [&b"data: x\n\n"[..], b"data: x\r\r", b"data: \xC3\xA9\n\n"] {
        let fits = check(stream.len(), stream);
        assert_eq!((fits.events().len(), fits.error), (1, None));
        let size = stream.len() - 1;
        let limit = size as u64;
        let outcome = check(size, stream);
        assert_eq!(
            (outcome.events().len(), outcome.error),
            (0, Some(too_large(0, limit, limit)))
        );
    }
}

#[test]
fn the_limit_is_on_each_event_and_the_error_says_where() {
    let outcome = check(
        10,
        b"data: a\n\n: c\ndata: b\n\ndata: too long\n\ndata: c\n\n",
    );
    assert_eq!(outcome.events().len(), 2);
    assert_eq!(outcome.error, Some(too_large(22, 32, 10)));
    assert_eq!(outcome.cut_off, None);
    assert_eq!(outcome.offset, 32);
}

#[test]
fn short_lines_without_end_are_one_event() {
    for line in [
        "data: x\n",
        "data\n",
        "id: 1\n",
        "event: e\n",
        "retry: 1\n",
        "unknown\n",
        "x\r\n",
    ] {
        let outcome = check(100, line.repeat(50).as_bytes());
        assert_eq!(outcome.error, Some(too_large(0, 100, 100)), "{line:?}");
    }
    let outcome = check(100, format!("data: x\n{}", ": c\n".repeat(50)).as_bytes());
    assert_eq!(outcome.error, Some(too_large(0, 100, 100)));
    assert_eq!(outcome.comments().len(), 23);
}

#[test]
fn a_line_without_end_is_too_large_whatever_it_is() {
    for start in ["data: ", ":", "x", "id: ", "event: ", ""] {
        let stream = format!("{start}{}", "x".repeat(200));
        let outcome = check(100, stream.as_bytes());
        assert_eq!(outcome.error, Some(too_large(0, 100, 100)), "{start:?}");
        assert_eq!(outcome.items, []);
    }
}

#[test]
fn keep_alives_between_events_are_never_too_large() {
    for comment in [
        ": ping\n",
        ": ping\r\n",
        ": ping\n\n",
        ":\r",
        "\n",
        "\r\n",
        ":é\n",
    ] {
        let outcome = check(10, comment.repeat(100).as_bytes());
        assert_eq!(outcome.error, None, "{comment:?}");
    }
}

#[test]
fn replacements_of_invalid_bytes_count_with_their_own_size() {
    let stream = [b"data: ".as_slice(), &[0xFF; 10], b"\n\n"].concat();
    assert_eq!(check(38, &stream).error, None);
    assert_eq!(check(36, &stream).error, Some(too_large(0, 16, 36)));
    let lines = [b"data: \xFF\n".repeat(10), b"\n".to_vec()].concat();
    assert_eq!(check(101, &lines).error, None);
    assert!(check(100, &lines).error.is_some());
}

#[test]
fn a_cut_off_event_can_be_too_large_only_when_it_is_flushed() {
    let outcome = check(12, b"data: \xFF\xFF\xFF");
    assert_eq!(outcome.error, Some(too_large(0, 6, 12)));
    assert_eq!(outcome.cut_off, None);
}

#[test]
fn the_id_of_an_event_that_is_too_large_does_not_count() {
    for data in [&b"too long"[..], b"\xFF\xFF\xFF"] {
        let stream = [b"id:1\ndata:\n\nid:2\ndata:", data, b"\n\n"].concat();
        let outcome = check(15, &stream);
        assert!(outcome.error.is_some());
        assert_eq!(outcome.last_event_id, "1");
    }
}

#[test]
fn after_the_error_there_is_nothing_more() {
    let mut decoder = Decoder::new(DecoderConfig::new().max_event_bytes(8));
    decoder.push(Bytes::from_static(b"data:x\n\ndata: too long"));
    assert!(matches!(decoder.next(), Ok(Some(Item::Event(_)))));
    assert!(decoder.next().is_err());
    decoder.push(Bytes::from_static(b"\n\ndata:y\n\n"));
    assert_eq!(decoder.next(), Ok(None));
    assert_eq!(decoder.finish(EndOfInput::Flush), Ok(None));
    assert_eq!(decoder.offset(), 16);
}

#[test]
fn the_default_limit_lets_eight_mebibytes_pass_and_stops_an_endless_line() {
    let mut decoder = Decoder::new(DecoderConfig::default());
    let chunk = Bytes::from(vec![b'x'; 1 << 20]);
    decoder.push(Bytes::from_static(b"data:"));
    for _ in 0..8 {
        decoder.push(chunk.clone());
        assert_eq!(decoder.next(), Ok(None));
    }
    decoder.push(Bytes::from_static(b"\n\n"));
    let Ok(Some(Item::Event(event))) = decoder.next() else {
        panic!("expected an event of 8 MiB, but found none");
    };
    assert_eq!(event.data.len(), 8 << 20);

    let found = (0..17).find_map(|_| {
        decoder.push(chunk.clone());
        decoder.next().err()
    });
    let start = 7 + (8 << 20);
    assert_eq!(found, Some(too_large(start, start + (16 << 20), 16 << 20)));
}
