//! Failures that users of LLM streams reported, as far as an interpreter shows
//! them. `fixtures/dialect/cases.json` holds stream and expectation.

use super::{Run, events};
use crate::proto::dialect::{EventKind, interpreter_after};
use crate::proto::model::{Answer, Completion, Dialect, StopReason};
use serde_json::Value;
use std::time::Duration;

const CASES: &str = include_str!("../../../../fixtures/dialect/cases.json");

fn cases() -> Vec<Value> {
    serde_json::from_str(CASES).unwrap()
}

fn case(name: &str) -> Value {
    cases()
        .into_iter()
        .find(|case| case["name"] == name)
        .unwrap_or_else(|| panic!("no case {name}"))
}

fn run(case: &Value) -> Run {
    let dialect = Dialect::from_name(case["dialect"].as_str().unwrap()).unwrap();
    Run::of(dialect, &events(case["stream"].as_str().unwrap()))
}

#[test]
fn every_case_reads_as_it_should() {
    let mut wrong = Vec::new();
    let cases = cases();
    for case in &cases {
        let found = observed(case);
        let mut expected = case["expect"].clone();
        normalise(&mut expected);
        for (field, value) in expected.as_object().unwrap() {
            if found[field] != *value {
                wrong.push(format!(
                    "{} {field}: expected {value}, but found {}",
                    case["name"], found[field]
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(cases.len() >= 70, "only {} cases", cases.len());
}

/// What the interpreter made of a case, in the words of the case file.
fn observed(case: &Value) -> Value {
    let run = run(case);
    let choice = run.answer.choices.get(&0).cloned().unwrap_or_default();
    let error = run
        .readings
        .iter()
        .find_map(|reading| reading.error.as_ref());
    let tool_calls: Vec<Value> = choice
        .tool_calls
        .values()
        .map(|call| {
            serde_json::json!({
                "id": call.id,
                "name": call.name,
                "arguments": call.arguments_or_empty_object(),
                "complete": call.done && call.arguments_are_json(),
            })
        })
        .collect();
    let choices: serde_json::Map<String, Value> = run
        .answer
        .choices
        .iter()
        .map(|(index, choice)| (index.to_string(), choice.text.clone().into()))
        .collect();
    let contains = case["expect"]["message_contains"]
        .as_str()
        .unwrap_or_default();
    serde_json::json!({
        "text": choice.text,
        "reasoning": choice.reasoning,
        "finish": run.answer.stop().map(StopReason::as_str),
        "terminal": run.completion > Completion::Open,
        "proven": run.completion == Completion::Proven,
        "usage": {"input": run.answer.usage.input, "output": run.answer.usage.output},
        "tool_calls": tool_calls,
        "choices": choices,
        "noise_events": run.count(EventKind::Noise),
        "malformed": run.malformed.is_some(),
        "provider_error": error.is_some(),
        "message_contains": error.filter(|e| e.message.contains(contains)).map(|_| contains),
        "http_equiv": error.and_then(|error| error.http_equivalent),
        "retry_after_ms": error
            .and_then(|error| error.retry_after)
            .map(|wait| u64::try_from(wait.as_millis()).unwrap()),
    })
}

/// Usage under one pair of names, and what is expected of the completion.
fn normalise(expected: &mut Value) {
    if let Some(usage) = expected.get("usage").cloned() {
        let pick = |a: &str, b: &str| usage.get(a).or_else(|| usage.get(b)).cloned();
        expected["usage"] = serde_json::json!({
            "input": pick("prompt_tokens", "input_tokens"),
            "output": pick("completion_tokens", "output_tokens"),
        });
    }
    let terminal = expected["terminal"] == true;
    expected["proven"] = (terminal && !expected["finish"].is_null()).into();
    if expected.get("malformed").is_none() {
        expected["malformed"] = false.into();
    }
    if expected.get("provider_error").is_none() {
        expected["provider_error"] = false.into();
    }
}

#[test]
fn a_done_marker_without_a_finish_reason_only_claims() {
    let run = run(&case("TM-09"));
    assert_eq!(run.completion, Completion::Claimed);
    assert_eq!(run.answer.text(), "Done");
}

#[test]
fn a_done_marker_behind_an_error_claims_nothing() {
    for name in ["IB-01", "IB-06", "IB-09", "IB-12"] {
        let run = run(&case(name));
        assert_eq!(run.completion, Completion::Open, "{name}");
        assert_eq!(run.count(EventKind::Error), 1, "{name}");
        assert_eq!(run.readings.last().unwrap().kind, EventKind::End, "{name}");
    }
}

#[test]
fn a_replay_of_known_events_after_a_resume_adds_nothing() {
    // The reader had "Hel"; the resumed stream brings "lo" and a terminal event
    // that repeats the whole text.
    let first = run(&case("DC-10"));
    assert_eq!(first.answer.text(), "Hel");
    assert_eq!(first.count(EventKind::Unknown), 1);
    let sequences: Vec<_> = first.readings.iter().map(|r| r.sequence).collect();
    assert_eq!(sequences, [Some(0), Some(1), Some(2), None]);

    let resumed = events(concat!(
        "event: response.output_text.delta\n",
        "data: {\"type\":\"response.output_text.delta\",\"sequence_number\":3,\"item_id\":\"item_1\",",
        "\"output_index\":0,\"content_index\":0,\"delta\":\"lo\"}\n\n",
        "event: response.completed\n",
        "data: {\"type\":\"response.completed\",\"sequence_number\":4,\"response\":{\"id\":\"resp_1\",",
        "\"status\":\"completed\",\"output\":[{\"type\":\"message\",\"id\":\"item_1\",\"content\":",
        "[{\"type\":\"output_text\",\"text\":\"Hello\"}]}],\"usage\":{\"input_tokens\":5,",
        "\"output_tokens\":3}}}\n\n",
    ));
    let interpreter = interpreter_after(Dialect::OpenAiResponses, &first.answer);
    let second = Run::with(interpreter, first.answer, &resumed);
    assert_eq!(second.answer.text(), "Hello");
    assert_eq!(second.answer.stop(), Some(&StopReason::Stop));
    assert_eq!(second.completion, Completion::Proven);
}

#[test]
fn an_error_event_and_the_failed_response_behind_it_are_one_failure() {
    let stream = concat!(
        "data: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":{\"id\":\"r\"}}\n\n",
        "data: {\"type\":\"keepalive\",\"sequence_number\":1}\n\n",
        "data: {\"type\":\"error\",\"code\":\"server_is_overloaded\",\"message\":\"busy\",\"sequence_number\":2}\n\n",
        "data: {\"type\":\"response.failed\",\"sequence_number\":3,\"response\":{\"status\":\"failed\",",
        "\"error\":{\"code\":\"server_is_overloaded\",\"message\":\"busy\"}}}\n\n",
    );
    let run = Run::of(Dialect::OpenAiResponses, &events(stream));
    let kinds: Vec<_> = run.readings.iter().map(|reading| reading.kind).collect();
    assert_eq!(
        kinds,
        [
            EventKind::Lifecycle,
            EventKind::KeepAlive,
            EventKind::Error,
            EventKind::Lifecycle
        ]
    );
    let error = run.readings[2].error.as_ref().unwrap();
    assert_eq!(error.http_equivalent, Some(503));
    assert_eq!(run.readings[3].sequence, Some(3));
    assert_eq!(run.completion, Completion::Open);
}

#[test]
fn the_wait_a_provider_names_is_kept() {
    let found = run(&case("IB-15"));
    let error = found.readings[1].error.as_ref().unwrap();
    assert_eq!(error.retry_after, Some(Duration::from_millis(1300)));
    assert_eq!(
        found.answer,
        Answer {
            response_id: Some("resp_1".into()),
            ..Answer::default()
        }
    );
}
