//! Failures as providers really tell them, and what follows from each.
//!
//! The rows are data, `fixtures/classification.json`: where the form was read (a
//! tag of `docs/providers.md#sources`), what came, and what it has to become. Each
//! goes the way that the operation takes it.

#![cfg(test)] // else the lints take the helpers for production code

use serde_json::Value;
use std::collections::BTreeSet;
use std::time::Duration;
use streamkeep::ErrorKind;
use streamkeep::proto::classify::{Failure, Verdict, judge};
use streamkeep::proto::dialect::{interpreter, provider_error, provider_error_from_body};
use streamkeep::proto::model::{Dialect, Phase, ProviderError, ResponseHead, WallTime};
use streamkeep::proto::retry::RetryHints;
use streamkeep::proto::sse::Event;

/// 2026-12-01T00:00:00Z, the moment at which every row arrives.
const NOW: WallTime = WallTime::from_millis(1_796_083_200_000);

/// The grade of the fact sheet for what was read nowhere.
const FROM_MEMORY: &str = "M";

/// Every kind that a provider's own words or status can have.
const BORNE_BY_PROVIDERS: &[ErrorKind] = &[
    ErrorKind::Auth,
    ErrorKind::RateLimited,
    ErrorKind::QuotaExhausted,
    ErrorKind::Overloaded,
    ErrorKind::ServerError,
    ErrorKind::UpstreamTimeout,
    ErrorKind::Rejected,
    ErrorKind::ContextLength,
    ErrorKind::ContentPolicy,
    ErrorKind::EmptyResponse,
];

#[test]
fn every_row_becomes_what_it_has_to() {
    let mut wrong = Vec::new();
    for (number, row) in rows().iter().enumerate() {
        let Some(failure) = failure_of(row) else {
            wrong.push(format!("row {number}: {row}\n  no error was found in it"));
            continue;
        };
        let expect = &row["expect"];
        let found = (
            failure.kind.code(),
            failure.known,
            failure.hints.after.map(millis),
            name_of(judge(&failure, Phase::PreStream)),
        );
        let expected = (
            expect["kind"].as_str().expect("a kind"),
            expect["known"].as_bool().expect("known or not"),
            expect["retry_after_ms"].as_u64(),
            expect["verdict"].as_str().expect("a verdict"),
        );
        if found != expected {
            wrong.push(format!(
                "row {number}: {row}\n  expected {expected:?}\n  found    {found:?}"
            ));
        }
        assert_eq!(judge(&failure, Phase::MidStream), Verdict::Interrupt);
        assert!(is_presentable(&failure.message), "row {number}: {row}");
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

#[test]
fn every_row_says_where_its_form_was_read() {
    let page = std::fs::read_to_string("docs/providers.md").expect("the fact sheet");
    let (_, sources) = page.split_once("\n## sources\n").expect("its sources");
    let tags: BTreeSet<&str> = sources
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(" | ").next())
        .collect();
    let rows = rows();
    let named: Vec<&str> = rows
        .iter()
        .map(|row| row["source"].as_str().expect("a tag"))
        .collect();
    let unknown: BTreeSet<_> = named
        .iter()
        .filter(|tag| **tag != FROM_MEMORY && !tags.contains(*tag))
        .collect();
    assert!(unknown.is_empty(), "no such source: {unknown:?}");
    let from_memory = named.iter().filter(|tag| **tag == FROM_MEMORY).count();
    assert!(from_memory <= 10, "{from_memory} rows without a source");
}

#[test]
fn every_kind_that_providers_bear_is_reached_both_known_and_in_band() {
    let rows = rows();
    assert!(rows.len() >= 120, "{} rows", rows.len());
    let reached: BTreeSet<&str> = rows
        .iter()
        .filter_map(|row| row["expect"]["kind"].as_str())
        .collect();
    let borne: BTreeSet<&str> = BORNE_BY_PROVIDERS.iter().map(|kind| kind.code()).collect();
    assert_eq!(reached, borne);
    let verdicts: BTreeSet<&str> = rows
        .iter()
        .filter_map(|row| row["expect"]["verdict"].as_str())
        .collect();
    assert_eq!(verdicts.len(), 6, "{verdicts:?}");
    let count = |name: &str| rows.iter().filter(|row| row.get(name).is_some()).count();
    assert!(count("in_band") >= 40 && count("status") >= 80);
    assert_eq!(count("in_band") + count("status"), rows.len());
}

#[test]
fn no_two_rows_are_the_same_case() {
    let mut seen = BTreeSet::new();
    for row in rows() {
        assert!(seen.insert(row.to_string()), "twice: {row}");
    }
}

/// A provider may quote what it was sent anywhere; where the error is read, a key
/// is masked by its form, whatever else the message is.
#[test]
fn a_key_in_any_text_of_any_row_is_told_by_no_failure() {
    let keys = [
        "sk-proj-AbCdEf0123456789",
        "AIzaSyA0123456789abcdefghi",
        "gsk_0123456789abcdefABCDEF",
        "xai-0123456789abcdefABCDEF",
        "Bearer 0123456789abcdef",
    ];
    let mut told = 0;
    for row in rows() {
        for key in keys {
            let mut planted = row.clone();
            for part in ["body", "in_band"] {
                if let Some(part) = planted.get_mut(part) {
                    plant(part, key);
                }
            }
            let Some(failure) = failure_of(&planted) else {
                continue;
            };
            let shown = format!("{failure:?}");
            assert!(!shown.contains(key), "{key} in {shown}");
            told += usize::from(shown.contains("[credential]"));
        }
    }
    assert!(told > 500, "only {told} failures had room for a key");
}

/// Puts a key behind every text of a value.
fn plant(value: &mut Value, key: &str) {
    match value {
        Value::String(text) => text.extend([" key: ", key]),
        Value::Array(items) => items.iter_mut().for_each(|item| plant(item, key)),
        Value::Object(members) => members.values_mut().for_each(|value| plant(value, key)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// A body that was cut, at any byte, is an error of some kind and no panic.
#[test]
fn a_row_that_is_cut_anywhere_still_becomes_a_failure() {
    for row in &rows() {
        let Some(status) = row["status"].as_u64() else {
            continue;
        };
        let body = body_of(row);
        for end in 0..body.len() {
            let provider = provider_error_from_body(&body.as_bytes()[..end], None);
            let head = ResponseHead {
                status: u16::try_from(status).expect("a status"),
                headers: Vec::new(),
            };
            let failure = Failure::from_response(&head, provider, RetryHints::default());
            assert!(is_one_bounded_line(&failure.message), "{end} of {row}");
        }
    }
}

fn rows() -> Vec<Value> {
    let text = std::fs::read_to_string("fixtures/classification.json").expect("the rows");
    serde_json::from_str(&text).expect("a list of rows")
}

fn body_of(row: &Value) -> String {
    match &row["body"] {
        Value::String(text) => text.clone(),
        body => body.to_string(),
    }
}

/// `None` for an event in which no error is found.
fn failure_of(row: &Value) -> Option<Failure> {
    if let Some(payload) = row.get("in_band") {
        return in_band(row, payload).map(Failure::in_band);
    }
    let head = ResponseHead {
        status: row["status"]
            .as_u64()
            .and_then(|status| u16::try_from(status).ok())
            .expect("a status"),
        headers: row
            .get("headers")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .map(|(name, value)| (name.clone(), value.as_str().expect("a text").to_owned()))
            .collect(),
    };
    let provider = provider_error_from_body(body_of(row).as_bytes(), head.header("content-type"));
    let hints = RetryHints::from_head(&head, NOW);
    Some(Failure::from_response(&head, provider, hints))
}

/// The error in an event, by the interpreter of its dialect where there is one.
fn in_band(row: &Value, payload: &Value) -> Option<ProviderError> {
    let Some(dialect) = row.get("dialect").and_then(Value::as_str) else {
        return provider_error(&payload.to_string());
    };
    let dialect = Dialect::ALL
        .iter()
        .find(|known| known.name() == dialect)
        .expect("a dialect");
    let name = row.get("event").and_then(Value::as_str);
    let event = Event::synthetic(name.unwrap_or("message"), payload.to_string());
    let reading = interpreter(*dialect).read(&event, &mut Vec::new());
    reading.expect("a payload of the dialect").error
}

fn millis(wait: Duration) -> u64 {
    u64::try_from(wait.as_millis()).expect("a wait that fits")
}

fn name_of(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Retry { at_once: true, .. } => "retry_at_once",
        Verdict::Retry { stretch: 1, .. } => "retry",
        Verdict::Retry { .. } => "retry_slow",
        Verdict::RetryIfKeyed => "retry_if_keyed",
        Verdict::RefreshCredential => "refresh_credential",
        Verdict::Stop => "stop",
        Verdict::Interrupt => "interrupt",
    }
}

/// Without a key and without markup, too.
fn is_presentable(message: &str) -> bool {
    is_one_bounded_line(message) && !message.contains("sk-") && !message.contains("<html")
}

fn is_one_bounded_line(message: &str) -> bool {
    let bound = ProviderError::MAX_MESSAGE + 100;
    message.chars().count() <= bound && !message.contains(char::is_control)
}
