use super::*;
use crate::proto::journal::{
    Anchored, AttemptEnded, AttemptKind, AttemptStarted, End, Ended, FailureNote, Interrupted,
    Opened, RecoveryOption, RouteNote, Spliced,
};
use crate::proto::model::{Dialect, Fingerprint, Key, Phase, StopReason, Usage, UsageBasis};
use proptest::prelude::*;

fn record(seq: u64, body: Body) -> Record {
    Record {
        seq: Seq::new(seq),
        at: WallTime::from_millis(1_700_000_000_000 + seq),
        body,
    }
}

fn event(seq: u64, name: &str, data: &str, provider_seq: Option<u64>) -> Record {
    record(
        seq,
        Body::Event(Delivered {
            name: name.into(),
            data: data.into(),
            provider_seq,
        }),
    )
}

fn control(seq: u64, control: Control) -> Record {
    record(seq, Body::Control(Box::new(control)))
}

/// One of everything that can be written. Version 1 of the fixture holds these.
fn one_of_each() -> Vec<Record> {
    let failure = FailureNote {
        kind: "reset".to_owned(),
        message: "the connection was reset".to_owned(),
        status: Some(200),
        provider_type: Some("overloaded_error".to_owned()),
        provider_code: None,
        http_equivalent: None,
        retry_after_ms: Some(1500),
    };
    let usage = Usage {
        input: Some(10),
        output: Some(20),
        ..Usage::default()
    };
    vec![
        control(
            1,
            Control::Opened(Opened {
                key: Key::new("order-7").unwrap(),
                fingerprint: Fingerprint::from_bytes([7; 32]),
                dialect: Dialect::OpenAiResponses,
                url: "https://api.example.com/v1/responses".to_owned(),
                headers: vec![("openai-beta".to_owned(), "x=1".to_owned())],
                body: r#"{"model":"m","input":"\"quoted\" and 日本"}"#.to_owned(),
                route: String::new(),
                fallbacks: Vec::new(),
                prompt_version: None,
            }),
        ),
        control(
            2,
            Control::AttemptStarted(AttemptStarted::new(1, AttemptKind::First)),
        ),
        event(3, "response.created", r#"{"id":"resp_1"}"#, Some(0)),
        control(
            4,
            Control::Anchored(Anchored {
                attempt: 1,
                response_id: "resp_1".to_owned(),
                resumable: true,
            }),
        ),
        event(5, "", "plain", None),
        event(
            6,
            "response.output_text.delta",
            "naïve 日本 🦀",
            Some(u64::MAX),
        ),
        event(7, "", "", None),
        control(
            8,
            Control::AttemptEnded(AttemptEnded {
                failure: Some(failure.clone()),
                delay_ms: 250,
                took_ms: 1234,
                first_output_ms: Some(321),
                usage,
                request_id: Some("req_1".to_owned()),
                ..AttemptEnded::new(1, Phase::MidStream, "resume")
            }),
        ),
        control(
            9,
            Control::Interrupted(Interrupted {
                failure: failure.clone(),
                options: vec![RecoveryOption::Resume, RecoveryOption::Continue],
            }),
        ),
        control(
            10,
            Control::Spliced(Spliced {
                attempt: 2,
                kind: AttemptKind::Resume,
                after: Some(41),
            }),
        ),
        control(
            11,
            Control::Ended(Ended {
                end: End::Truncated,
                stop: Some(StopReason::Length),
                failure: Some(failure),
                usage,
                attempts: 2,
                warnings: vec!["missing_stop_reason".to_owned()],
            }),
        ),
    ]
}

/// What has been added to version 1 since.
fn added_since() -> Record {
    control(
        12,
        Control::AttemptEnded(AttemptEnded {
            class: Some("network".to_owned()),
            usage_basis: Some(UsageBasis::LastSeen),
            output_chars: 12,
            longest_gap_ms: Some(87),
            model: Some("m-2026".to_owned()),
            ..AttemptEnded::new(2, Phase::MidStream, "interrupt")
        }),
    )
}

fn encoded(records: &[Record]) -> Bytes {
    let mut out = BytesMut::new();
    encode(records, &mut out).unwrap();
    out.freeze()
}

/// Makes the checksum of the frame at the start right again.
fn reseal(frame: &mut [u8]) {
    let crc = crc32fast::hash(&frame[4..]);
    frame[..4].copy_from_slice(&crc.to_le_bytes());
}

/// The whole records before the first error, and the error.
fn prefix_of(run: Bytes) -> (Vec<Record>, Option<CodecError>) {
    let mut decoder = decode(run);
    let mut records = Vec::new();
    for item in &mut decoder {
        match item {
            Ok(record) => records.push(record),
            Err(error) => {
                assert!(decoder.next().is_none(), "it ends after an error");
                assert_eq!(decoder.offset(), error.offset());
                return (records, Some(error));
            }
        }
    }
    (records, None)
}

/// The offsets at which the frames of these records begin, and the end.
fn boundaries(records: &[Record]) -> Vec<usize> {
    let mut ends = vec![0];
    let mut out = BytesMut::new();
    for record in records {
        encode(std::slice::from_ref(record), &mut out).unwrap();
        ends.push(out.len());
    }
    ends
}

#[test]
fn every_record_reads_back_as_it_was_written() {
    let mut records = one_of_each();
    records.push(added_since());
    assert_eq!(prefix_of(encoded(&records)), (records, None));
}

/// The file was written once and is never written again. When this fails, a
/// journal that somebody keeps can no longer be read.
#[test]
fn a_file_of_version_1_reads_for_ever() {
    let file: &[u8] = include_bytes!("../../../../fixtures/journal/v1/one-of-each.journal");
    assert_eq!(prefix_of(Bytes::from_static(file)), (one_of_each(), None));
}

#[test]
fn a_frame_has_the_widths_that_the_document_draws() {
    let run = encoded(&[event(0x0102, "n", "dd", Some(0x0a0b))]);
    let crc = crc32fast::hash(&run[4..]).to_le_bytes();
    let mut expected = crc.to_vec();
    expected.extend([15, 0, 0, 0]); // length
    expected.extend([1, 1, 1, 0]); // version, kind, flags
    expected.extend([2, 1, 0, 0, 0, 0, 0, 0]); // seq
    expected.extend((1_700_000_000_000_u64 + 0x0102).to_le_bytes()); // at
    expected.extend([1, 0, 0, 0]); // length of the name
    expected.extend([0x0b, 0x0a, 0, 0, 0, 0, 0, 0]); // provider's number
    expected.extend(b"ndd");
    assert_eq!(run, expected);
}

#[test]
fn data_shares_the_buffer_it_was_read_from() {
    let run = encoded(&[event(1, "", "shared", None)]);
    let Body::Event(event) = decode(run.clone()).next().unwrap().unwrap().body else {
        panic!("expected an event");
    };
    let run = run.as_ptr_range();
    assert!(run.contains(&event.data.as_bytes().as_ptr()));
}

#[test]
fn a_kind_and_a_flag_of_a_later_writer_are_passed_over() {
    for (at, value) in [(9, 77), (10, 0x80), (11, 1)] {
        let mut frame = encoded(&[event(5, "", "x", None)]).to_vec();
        frame[at] = value;
        reseal(&mut frame);
        frame.extend(encoded(&[event(6, "", "y", None)]));
        assert_eq!(
            prefix_of(frame.into()),
            (
                vec![control(5, Control::Unknown), event(6, "", "y", None)],
                None
            )
        );
    }
}

#[test]
fn a_control_record_of_a_later_writer_is_kept_as_unknown() {
    for json in [
        r#"{"record":"teleported","to":{"deep":[1,2,3]}}"#,
        r#"{"record":"ended","end":"ascended","attempts":1}"#,
        r#"{"record":"unknown"}"#,
    ] {
        let mut frame = encoded(&[control(1, Control::Unknown)]).to_vec();
        frame.truncate(HEADER_LEN);
        frame.extend(json.as_bytes());
        frame[4..8].copy_from_slice(&u32::try_from(json.len()).unwrap().to_le_bytes());
        reseal(&mut frame);
        assert_eq!(
            prefix_of(frame.into()),
            (vec![control(1, Control::Unknown)], None),
            "{json}"
        );
    }
}

#[test]
fn a_control_record_that_is_not_json_is_an_error() {
    let mut frame = encoded(&[control(1, Control::Unknown)]).to_vec();
    let last = frame.len() - 1;
    frame[last] = b'!';
    reseal(&mut frame);
    assert_eq!(
        prefix_of(frame.into()).1,
        Some(CodecError::Malformed {
            offset: 0,
            expected: "a control record in JSON"
        })
    );
}

#[test]
fn a_later_format_is_named_and_not_guessed_at() {
    let mut run = encoded(&[event(1, "", "x", None)]).to_vec();
    let second = run.len();
    let mut later = encoded(&[event(2, "", "y", None)]).to_vec();
    later[8] = 2;
    reseal(&mut later);
    run.extend(later);
    assert_eq!(
        prefix_of(run.into()),
        (
            vec![event(1, "", "x", None)],
            Some(CodecError::Version {
                offset: second as u64,
                found: 2
            })
        )
    );
}

#[test]
fn a_length_that_lies_is_refused_before_it_is_believed() {
    let mut frame = encoded(&[event(1, "", "x", None)]).to_vec();
    frame[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
    reseal(&mut frame);
    assert_eq!(
        prefix_of(frame.into()).1,
        Some(CodecError::TooLarge {
            offset: 0,
            length: u64::from(u32::MAX)
        })
    );
    // A name that reaches over the end of its own frame.
    let mut frame = encoded(&[event(1, "n", "x", None)]).to_vec();
    frame[HEADER_LEN..HEADER_LEN + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    reseal(&mut frame);
    assert!(matches!(
        prefix_of(frame.into()).1,
        Some(CodecError::Malformed { offset: 0, .. })
    ));
}

#[test]
fn a_payload_over_the_limit_leaves_the_buffer_as_it_was() {
    let mut out = BytesMut::from(&b"before"[..]);
    let data = String::from_utf8(vec![b'x'; MAX_PAYLOAD]).unwrap();
    let error = encode(
        &[event(1, "", "small", None), event(2, "", &data, None)],
        &mut out,
    )
    .unwrap_err();
    assert!(matches!(error, CodecError::TooLarge { .. }));
    assert_eq!(out, &b"before"[..]);
}

#[test]
fn bytes_that_are_not_utf8_are_an_error_and_are_not_replaced() {
    let mut frame = encoded(&[event(1, "", "x", None)]).to_vec();
    let last = frame.len() - 1;
    frame[last] = 0xff;
    reseal(&mut frame);
    assert!(matches!(
        prefix_of(frame.into()).1,
        Some(CodecError::Malformed { .. })
    ));
}

fn any_body() -> impl Strategy<Value = Body> {
    let event =
        (".{0,12}", ".{0,80}", any::<Option<u64>>()).prop_map(|(name, data, provider_seq)| {
            Body::Event(Delivered {
                name: name.into(),
                data: data.into(),
                provider_seq,
            })
        });
    let spliced = (any::<u32>(), any::<Option<u64>>()).prop_map(|(attempt, after)| {
        Body::Control(Box::new(Control::Spliced(Spliced {
            attempt,
            kind: AttemptKind::Poll,
            after,
        })))
    });
    let opened = (".{0,40}", "[!-~]{1,255}", any::<[u8; 32]>()).prop_map(|(body, key, digest)| {
        Body::Control(Box::new(Control::Opened(Opened {
            key: Key::new(key).unwrap(),
            fingerprint: Fingerprint::from_bytes(digest),
            dialect: Dialect::AnthropicMessages,
            url: body.clone(),
            headers: vec![(body.clone(), body.clone())],
            route: body.clone(),
            fallbacks: vec![RouteNote {
                name: body.clone(),
                dialect: Dialect::OpenAiChat,
                url: body.clone(),
                headers: Vec::new(),
                body: Some(body.clone()),
                model: None,
                degraded: true,
                larger_context: false,
            }],
            prompt_version: Some(body.clone()),
            body,
        })))
    });
    prop_oneof![4 => event, 1 => spliced, 1 => opened]
}

fn any_run() -> impl Strategy<Value = Vec<Record>> {
    proptest::collection::vec(
        (any::<u64>(), any::<u64>(), any_body()).prop_map(|(seq, at, body)| Record {
            seq: Seq::new(seq),
            at: WallTime::from_millis(at),
            body,
        }),
        0..12,
    )
}

proptest! {
    #[test]
    fn encode_then_decode_is_the_identity(records in any_run()) {
        prop_assert_eq!(prefix_of(encoded(&records)), (records, None));
    }

    #[test]
    fn a_cut_anywhere_leaves_the_whole_records_before_it(records in any_run(), at in any::<prop::sample::Index>()) {
        let run = encoded(&records);
        let cut = at.index(run.len() + 1);
        let ends = boundaries(&records);
        let whole = ends.iter().filter(|end| **end <= cut).count() - 1;
        let (found, error) = prefix_of(run.slice(..cut));
        prop_assert_eq!(&found[..], &records[..whole]);
        if ends.contains(&cut) {
            prop_assert_eq!(error, None);
        } else {
            let offset = error.as_ref().map(CodecError::offset);
            prop_assert_eq!(offset, Some(ends[whole] as u64));
            let truncated = matches!(error, Some(CodecError::Truncated { .. }));
            prop_assert!(truncated);
        }
    }

    #[test]
    fn a_flipped_bit_leaves_the_whole_records_before_it(
        records in any_run().prop_filter("something to flip", |r| !r.is_empty()),
        at in any::<prop::sample::Index>(),
        bit in 0..8_u8,
    ) {
        let mut run = encoded(&records).to_vec();
        let at = at.index(run.len());
        run[at] ^= 1 << bit;
        let ends = boundaries(&records);
        let whole = ends.iter().filter(|end| **end <= at).count() - 1;
        let (found, error) = prefix_of(run.into());
        prop_assert_eq!(&found[..], &records[..whole]);
        prop_assert_eq!(error.map(|e| e.offset()), Some(ends[whole] as u64));
    }

    #[test]
    fn noise_is_never_a_panic(noise in proptest::collection::vec(any::<u8>(), 0..400)) {
        let (found, error) = prefix_of(noise.clone().into());
        prop_assert!(found.is_empty());
        prop_assert_eq!(error.is_none(), noise.is_empty());
    }

    #[test]
    fn noise_with_a_right_checksum_is_never_a_panic(
        noise in proptest::collection::vec(any::<u8>(), HEADER_LEN..200),
        kind in 0..4_u8,
        flags in 0..3_u8,
    ) {
        let mut frame = noise;
        let length = u32::try_from(frame.len() - HEADER_LEN).unwrap();
        frame[4..8].copy_from_slice(&length.to_le_bytes());
        frame[8..12].copy_from_slice(&[FORMAT_VERSION, kind, flags, 0]);
        reseal(&mut frame);
        let total = frame.len();
        let (found, error) = prefix_of(frame.into());
        prop_assert_eq!(found.len() + usize::from(error.is_some()), 1, "{} bytes", total);
    }
}
