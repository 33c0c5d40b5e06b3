//! Whole streams, cut anywhere.

use super::{Run, events};
use crate::proto::dialect::{EventKind, interpreter_after};
use crate::proto::model::{Answer, Completion, Delta, Dialect, PartKind, StopReason, Usage};
use serde_json::Value;

macro_rules! streams {
    ($($dialect:ident $folder:literal;)*) => {
        const STREAMS: &[(Dialect, &str, &str)] = &[$((
            Dialect::$dialect,
            include_str!(concat!("../../../../fixtures/streams/", $folder, "/text.sse")),
            include_str!(concat!("../../../../fixtures/streams/", $folder, "/full.sse")),
        ),)*];
    };
}

streams! {
    OpenAiChat "openai_chat";
    OpenAiResponses "openai_responses";
    AnthropicMessages "anthropic_messages";
    GeminiGenerate "gemini_generate";
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn expected() -> Value {
    serde_json::from_str(include_str!("../../../../fixtures/streams/expected.json")).unwrap()
}

#[test]
fn plain_text() {
    for (dialect, text, _) in STREAMS {
        let run = Run::of(*dialect, &events(text));
        assert_eq!(run.malformed, None, "{dialect}");
        assert_eq!(run.answer.text(), expected()["text"], "{dialect}");
        assert_eq!(run.answer.stop(), Some(&StopReason::Stop), "{dialect}");
        assert_eq!(run.completion, Completion::Proven, "{dialect}");
        let markers = usize::from(*dialect != Dialect::GeminiGenerate);
        assert_eq!(run.count(EventKind::End), markers, "{dialect}");
        assert!(run.count(EventKind::Output) >= 60, "{dialect}");
        assert_eq!(run.count(EventKind::Unknown), 0, "{dialect}");
    }
}

#[test]
fn reasoning_text_two_parallel_calls_and_usage() {
    let expected = expected();
    for (dialect, _, full) in STREAMS {
        let run = Run::of(*dialect, &events(full));
        let choice = &run.answer.choices[&0];
        assert_eq!(choice.text, expected["text"], "{dialect}");
        assert_eq!(choice.reasoning, expected["reasoning"], "{dialect}");
        let calls: Vec<_> = choice
            .tool_calls
            .values()
            .map(|call| (call.name.as_str(), json(&call.arguments), call.done))
            .collect();
        // Gemini sends the arguments as an object, so only their meaning is equal.
        let arguments = |n: usize| json(expected["arguments"][n].as_str().unwrap());
        assert_eq!(
            calls,
            [
                ("get_weather", arguments(0), true),
                ("get_rate", arguments(1), true)
            ],
            "{dialect}"
        );
        assert!(run.answer.tool_calls_are_json(), "{dialect}");
        assert_eq!(choice.stop, Some(StopReason::ToolCalls), "{dialect}");
        assert_eq!(run.completion, Completion::Proven, "{dialect}");
        assert_eq!(run.answer.usage.output, Some(238), "{dialect}");
        assert_eq!(run.answer.usage.cached_input, Some(256), "{dialect}");
        assert!(run.answer.response_id.is_some(), "{dialect}");
        assert!(run.answer.model.is_some(), "{dialect}");
        assert_eq!(run.count(EventKind::Unknown), 0, "{dialect}");
        let has_blocks = !matches!(dialect, Dialect::OpenAiChat | Dialect::GeminiGenerate);
        if has_blocks {
            let parts: Vec<_> = choice
                .parts
                .values()
                .map(|part| (part.kind.unwrap(), part.closed))
                .collect();
            assert_eq!(
                parts,
                [
                    (PartKind::Reasoning, true),
                    (PartKind::Text, true),
                    (PartKind::ToolCall, true),
                    (PartKind::ToolCall, true)
                ],
                "{dialect}"
            );
        }
    }
}

#[test]
fn a_stream_cut_anywhere_before_its_proof_is_open() {
    for (dialect, _, full) in STREAMS {
        let all = events(full);
        let proof = match dialect {
            // The finish chunk, the usage chunk, the marker.
            Dialect::OpenAiChat => all.len() - 3,
            Dialect::OpenAiResponses => all.len() - 1,
            Dialect::AnthropicMessages => all.len() - 2,
            Dialect::GeminiGenerate => all.len() - 1,
        };
        for cut in 0..=proof {
            let run = Run::of(*dialect, &all[..cut]);
            assert_eq!(run.completion, Completion::Open, "{dialect} cut at {cut}");
        }
        let run = Run::of(*dialect, &all[..=proof]);
        assert_eq!(run.completion, Completion::Proven, "{dialect}");
    }
}

#[test]
fn an_interpreter_that_starts_anywhere_makes_the_same_answer() {
    for (dialect, _, full) in STREAMS {
        let all = events(full);
        let whole = Run::of(*dialect, &all);
        for cut in 0..all.len() {
            let first = Run::of(*dialect, &all[..cut]);
            let interpreter = interpreter_after(*dialect, &first.answer);
            let second = Run::with(interpreter, first.answer, &all[cut..]);
            assert_eq!(second.answer, whole.answer, "{dialect} cut at {cut}");
        }
    }
}

#[test]
fn a_response_without_deltas_is_whole_all_the_same() {
    let (_, _, full) = STREAMS[1];
    let whole = Run::of(Dialect::OpenAiResponses, &events(full)).answer;
    let all = events(full);
    let without = |words: &[&str]| {
        let kept: Vec<_> = all
            .iter()
            .filter(|event| !words.iter().any(|word| event.name.ends_with(word)))
            .cloned()
            .collect();
        Run::of(Dialect::OpenAiResponses, &kept).answer
    };
    assert_eq!(without(&[".delta"]), whole);
    assert_eq!(
        without(&[".delta", "_text.done", "_part.done", "_arguments.done"]),
        whole
    );
    assert_eq!(
        without(&["_item.done", "_part.done", "_text.done", "_arguments.done"]),
        whole
    );
    let only_terminal = without(&[".delta", ".done", ".added"]);
    assert_eq!(only_terminal, whole);
}

#[test]
fn usage_is_the_last_report() {
    let (_, _, full) = STREAMS[2];
    let usage = Run::of(Dialect::AnthropicMessages, &events(full))
        .answer
        .usage;
    assert_eq!(
        usage,
        Usage {
            input: Some(156),
            output: Some(238),
            cached_input: Some(256),
            cache_write: Some(0),
            reasoning: None
        }
    );
}

#[test]
fn lifecycle_is_not_output() {
    // What comes before the first output may be retried from scratch, so nothing
    // of it may count as output (docs/providers.md#rules/output).
    for (dialect, text, _) in STREAMS {
        let mut interpreter = crate::proto::dialect::interpreter(*dialect);
        let mut deltas = Vec::new();
        let mut kinds = Vec::new();
        for event in events(text) {
            let reading = interpreter.read(&event, &mut deltas).unwrap();
            if reading.kind == EventKind::Output {
                break;
            }
            kinds.push(reading.kind);
        }
        // Gemini's first chunk has text already.
        assert_eq!(kinds.is_empty(), *dialect == Dialect::GeminiGenerate);
        assert_eq!(
            deltas.iter().filter(|d| d.is_output()).count(),
            1,
            "{dialect}"
        );
        let first = deltas.iter().rfind(|delta| delta.is_output()).unwrap();
        assert!(
            matches!(first, Delta::Text { text, .. } if text.trim_end() == "A"),
            "{first:?}"
        );
    }
}

#[test]
fn folding_is_deterministic() {
    for (dialect, _, full) in STREAMS {
        let first: Answer = Run::of(*dialect, &events(full)).answer;
        assert_eq!(first, Run::of(*dialect, &events(full)).answer);
    }
}
