//! Arbitrary input: nothing panics, and reading is a function of the input.

use super::Run;
use crate::proto::dialect::{
    Continuation, ContinuationForm, DEFAULT_INSTRUCTION, Payload, Splicer, continuation, expand,
    interpreter, interpreter_after, provider_error, provider_error_from_body,
};
use crate::proto::model::{Answer, Dialect, ProviderError};
use crate::proto::sse::Event;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// The words the interpreters look for, so that arbitrary objects reach the
/// code behind the first `if`.
const WORDS: &[&str] = &[
    "id",
    "object",
    "model",
    "choices",
    "index",
    "delta",
    "message",
    "content",
    "text",
    "refusal",
    "reasoning",
    "reasoning_content",
    "tool_calls",
    "function",
    "function_call",
    "name",
    "arguments",
    "finish_reason",
    "usage",
    "prompt_tokens",
    "output_tokens",
    "error",
    "type",
    "code",
    "details",
    "x_groq",
    "output_index",
    "content_index",
    "summary_index",
    "item",
    "part",
    "response",
    "output",
    "status",
    "summary",
    "input",
    "content_block",
    "thinking",
    "partial_json",
    "stop_reason",
    "sequence_number",
    "incomplete_details",
    "reason",
    "call_id",
    "retry_after",
];

const VALUES: &[&str] = &[
    "",
    "stop",
    "error",
    "abort",
    "length",
    "tool_calls",
    "message",
    "reasoning",
    "function_call",
    "output_text",
    "refusal",
    "text",
    "tool_use",
    "thinking",
    "redacted_thinking",
    "text_delta",
    "input_json_delta",
    "thinking_delta",
    "signature_delta",
    "message_start",
    "message_delta",
    "message_stop",
    "content_block_start",
    "content_block_delta",
    "content_block_stop",
    "ping",
    "response.created",
    "response.completed",
    "response.incomplete",
    "response.failed",
    "response.output_item.added",
    "response.output_item.done",
    "response.content_part.done",
    "response.output_text.delta",
    "response.output_text.done",
    "response.refusal.done",
    "response.function_call_arguments.delta",
    "response.function_call_arguments.done",
    "response.reasoning_summary_text.done",
    "response.reasoning_text.delta",
    "keepalive",
    "failed",
    "chat.completion.chunk",
    "max_output_tokens",
    "try again in 1.5s",
];

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0_u32..4).prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(VALUES).prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 48, 6, |inner| {
        let key = prop_oneof![
            9 => prop::sample::select(WORDS).prop_map(str::to_owned),
            1 => ".{0,6}",
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key, inner), 0..8)
                .prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// An event whose outer shape is one that the dialects know.
fn event() -> impl Strategy<Value = Event> {
    let shaped = (
        prop::sample::select(VALUES),
        0_u32..3,
        value(),
        value(),
        value(),
    )
        .prop_map(|(kind, index, a, b, c)| {
            json!({
                "type": kind, "index": index, "output_index": index, "content_index": 0,
                "delta": a, "content_block": b, "item": b, "part": c, "response": c, "message": c,
                "text": a, "arguments": a, "choices": [{"index": index, "delta": b,
                "finish_reason": c}],
            })
            .to_string()
        });
    let data = prop_oneof![
        4 => shaped,
        4 => value().prop_map(|value| value.to_string()),
        1 => ".{0,40}",
        1 => "[{\\[\"].{0,40}",
        1 => Just("[DONE]".to_owned()),
    ];
    let name = prop_oneof![Just("message"), prop::sample::select(VALUES)];
    (name, data).prop_map(|(name, data)| Event::synthetic(name, data))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn no_input_panics_and_reading_is_deterministic(
        all in prop::collection::vec(event(), 0..12),
        cut in 0_usize..12,
    ) {
        for dialect in Dialect::ALL {
            let first = Run::of(*dialect, &all);
            let again = Run::of(*dialect, &all);
            prop_assert_eq!(&first.answer, &again.answer);
            prop_assert_eq!(&first.readings, &again.readings);
            prop_assert_eq!(first.completion, again.completion);
            // An interpreter can start behind any answer.
            let cut = cut.min(all.len());
            let head = Run::of(*dialect, &all[..cut]);
            Run::with(interpreter_after(*dialect, &head.answer), head.answer, &all[cut..]);
        }
    }

    #[test]
    fn a_payload_that_is_no_json_is_noise_or_malformed(data in ".{1,60}") {
        prop_assume!(serde_json::from_str::<Value>(&data).is_err());
        prop_assume!(!data.trim_start().starts_with("[DONE]"));
        for dialect in Dialect::ALL {
            let mut deltas = Vec::new();
            let event = Event::synthetic("message", data.clone());
            let reading = interpreter(*dialect).read(&event, &mut deltas);
            prop_assert!(deltas.is_empty());
            match Payload::of(&event) {
                Payload::Object(_) | Payload::List(_) => prop_assert!(reading.is_err()),
                _ => prop_assert!(reading.is_ok()),
            }
        }
    }

    #[test]
    fn a_head_that_is_left_out_changes_nothing(
        rests in prop::collection::vec((value(), value(), 0_usize..3), 1..8),
    ) {
        // The same chunks, once with one head for all, and once with white space
        // that makes every head another.
        let heads = [
            "\"id\":\"a\",\"model\":\"m\"",
            "\"id\":\"b\",\"object\":\"chat.completion.chunk\"",
            "\"id\":\"a\",\"usage\":{\"prompt_tokens\":1}",
        ];
        let chunks = |spaced: bool| -> Vec<Event> {
            let chunk = |(n, (delta, more, head)): (usize, &(Value, Value, usize))| {
                let space = " ".repeat(if spaced { n + 1 } else { 0 });
                let head = heads[*head];
                let data = format!(
                    "{{{space}{head},\"choices\":[{{\"index\":0,\"delta\":{delta}}}],\"x\":{more}}}"
                );
                Event::synthetic("message", data)
            };
            rests.iter().enumerate().map(chunk).collect()
        };
        let plain = Run::of(Dialect::OpenAiChat, &chunks(false));
        let spaced = Run::of(Dialect::OpenAiChat, &chunks(true));
        prop_assert_eq!(plain.answer, spaced.answer);
        prop_assert_eq!(plain.readings, spaced.readings);
        prop_assert_eq!(plain.completion, spaced.completion);
    }

    #[test]
    fn no_whole_answer_panics(value in value(), all in prop::collection::vec(event(), 0..8)) {
        for dialect in Dialect::ALL {
            let seen = Run::of(*dialect, &all).answer;
            let json = match value.clone() {
                Value::Object(mut root) => {
                    for name in ["output", "content", "choices"] {
                        if let Some(inner) = root.get(name).filter(|inner| !inner.is_array()) {
                            let inner = json!([inner, {"message": inner, "index": 0}]);
                            root.insert(name.to_owned(), inner);
                        }
                    }
                    root.insert("status".to_owned(), "completed".into());
                    Value::Object(root)
                }
                other => other,
            };
            let json = json.to_string();
            provider_error(&json);
            if let Ok(events) = expand(*dialect, &json, &seen) {
                Run::with(interpreter_after(*dialect, &seen), seen, &events);
            }
        }
    }

    #[test]
    fn no_continuation_panics(
        first in prop::collection::vec(event(), 0..8),
        second in prop::collection::vec(event(), 0..8),
        body in value(),
        prefill in any::<bool>(),
    ) {
        let form = if prefill { ContinuationForm::Prefill } else { ContinuationForm::UserMessage };
        let seen = Run::of(Dialect::AnthropicMessages, &first).answer;
        let _refused = continuation(&body.to_string(), &seen, form, DEFAULT_INSTRUCTION);
        let built = Continuation {
            body: String::new(),
            form,
            captured: seen.text().to_owned(),
            trimmed: if prefill { seen.text().len() } else { 0 },
        };
        let mut splicer = Splicer::new(&built, &seen);
        let mut out = Vec::new();
        let all = second.iter().try_for_each(|event| splicer.push(event, &mut out));
        if all.is_ok() {
            let _restarted = splicer.finish(&mut out);
        }
    }

    #[test]
    fn no_body_panics(bytes in prop::collection::vec(any::<u8>(), 0..200), html in any::<bool>()) {
        let kind = html.then_some("text/html");
        let error = provider_error_from_body(&bytes, kind);
        prop_assert!(error.message.chars().count() <= ProviderError::MAX_MESSAGE);
    }

    #[test]
    fn what_is_malformed_says_so_without_the_payload(secret in "[a-z]{12}") {
        let event = Event::synthetic("message", format!("{{\"content\":\"{secret}\""));
        for dialect in Dialect::ALL {
            let error = interpreter(*dialect).read(&event, &mut Vec::new()).unwrap_err();
            prop_assert!(!error.to_string().contains(&secret));
        }
    }
}

#[test]
fn an_empty_run_is_an_empty_answer() {
    for dialect in Dialect::ALL {
        assert_eq!(Run::of(*dialect, &[]).answer, Answer::default());
    }
}
