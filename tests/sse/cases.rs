//! `fixtures/sse.json`: real streams and the standard's own, in all chunkings.

use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;
use streamkeep::proto::sse::{DecoderConfig, EndOfInput, Item};

use crate::support::{Outcome, decode, pieces, random_pieces};

#[derive(Debug, Deserialize)]
struct Case {
    name: String,
    /// Base64.
    chunks: Vec<String>,
    expected: Vec<Expected>,
    comments: Vec<String>,
    final_last_event_id: String,
    final_retry: Option<u64>,
    /// What flushing at a clean end of input adds.
    lenient_eof_events: Vec<Expected>,
    retry_implementation_defined: bool,
}

#[derive(Debug, Deserialize)]
struct Expected {
    event: String,
    data: String,
    id: String,
    /// The reconnection time, if it was set since the event before.
    retry: Option<u64>,
}

impl Case {
    fn all() -> Vec<Self> {
        let cases: Vec<Self> =
            serde_json::from_str(include_str!("../../fixtures/sse.json")).unwrap();
        assert_eq!(cases.len(), 107);
        cases
    }

    fn chunks(&self) -> Vec<Bytes> {
        self.chunks.iter().map(|chunk| base64(chunk)).collect()
    }

    fn bytes(&self) -> Bytes {
        self.chunks().concat().into()
    }

    /// Checks one chunking.
    fn check(&self, chunks: &[Bytes], chunking: &str) {
        let at = || format!("{}, {chunking}", self.name);
        let config = DecoderConfig::new();
        let outcome = decode(config, chunks.iter().cloned(), EndOfInput::Flush);
        self.check_items(&outcome, &at());
        assert_eq!(outcome.last_event_id, self.final_last_event_id, "{}", at());
        let retry = match self.final_retry {
            _ if self.retry_implementation_defined => Some(u64::MAX),
            retry => retry,
        };
        let retry = retry.map(Duration::from_millis);
        assert_eq!(outcome.reconnection_time, retry, "{}", at());
        let cut_off: Vec<_> = outcome
            .cut_off
            .iter()
            .map(|event| {
                assert!(event.unterminated, "{}", at());
                (event.name.as_str(), event.data.as_str(), event.id.as_str())
            })
            .collect();
        let expected: Vec<_> = self.lenient_eof_events.iter().map(Expected::key).collect();
        assert_eq!(cut_off, expected, "{}", at());
    }

    fn check_items(&self, outcome: &Outcome, at: &str) {
        assert_eq!(outcome.error, None, "{at}");
        let events: Vec<_> = outcome
            .events()
            .into_iter()
            .map(|event| (event.name.as_str(), event.data.as_str(), event.id.as_str()))
            .collect();
        let expected: Vec<_> = self.expected.iter().map(Expected::key).collect();
        assert_eq!(events, expected, "{at}");
        assert_eq!(outcome.comments(), self.comments, "{at}");

        if self.retry_implementation_defined {
            return;
        }
        let mut retry = None;
        let times = outcome
            .items
            .iter()
            .filter_map(|(item, time)| matches!(item, Item::Event(_)).then_some(*time));
        for (expected, time) in self.expected.iter().zip(times) {
            retry = expected.retry.or(retry);
            assert_eq!(time, retry.map(Duration::from_millis), "{at}");
        }
    }
}

impl Expected {
    fn key(&self) -> (&str, &str, &str) {
        (&self.event, &self.data, &self.id)
    }
}

fn base64(text: &str) -> Bytes {
    let mut bytes = Vec::new();
    for group in text.as_bytes().chunks(4) {
        let padding = 4 - group.iter().take_while(|&&c| c != b'=').count();
        let bits = group.iter().fold(0_u32, |bits, &c| {
            let value = match c {
                b'A'..=b'Z' => c - b'A',
                b'a'..=b'z' => c - b'a' + 26,
                b'0'..=b'9' => c - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                b'=' => 0,
                _ => panic!("expected base64, but found {c:#x}"),
            };
            bits << 6 | u32::from(value)
        });
        bytes.extend_from_slice(&bits.to_be_bytes()[1..4 - padding]);
    }
    bytes.into()
}

#[test]
fn every_case_holds_as_recorded_and_whole() {
    for case in Case::all() {
        case.check(&case.chunks(), "as recorded");
        case.check(&[case.bytes()], "whole");
    }
}

#[test]
fn every_case_holds_byte_by_byte() {
    for case in Case::all() {
        case.check(&pieces(&case.bytes(), 1), "byte by byte");
    }
}

#[test]
fn every_case_holds_at_every_two_way_split() {
    for case in Case::all() {
        let bytes = case.bytes();
        for at in 0..=bytes.len() {
            let halves = [bytes.slice(..at), bytes.slice(at..)];
            case.check(&halves, &format!("split at {at}"));
        }
    }
}

#[test]
fn every_case_holds_in_random_chunks() {
    for case in Case::all() {
        let bytes = case.bytes();
        for seed in 0..50 {
            case.check(&random_pieces(&bytes, seed), &format!("seed {seed}"));
        }
    }
}

#[test]
fn a_discarding_end_adds_nothing_to_any_case() {
    for case in Case::all() {
        let chunks = [case.bytes()];
        let strict = decode(DecoderConfig::new(), chunks.clone(), EndOfInput::Discard);
        let lenient = decode(DecoderConfig::new(), chunks, EndOfInput::Flush);
        let expected = Outcome {
            cut_off: None,
            ..lenient
        };
        assert_eq!(strict, expected, "{}", case.name);
    }
}
