//! Every word of the three vocabularies is known, and each is what it should be.

use super::{Run, events};
use crate::proto::dialect::{EventKind, interpreter};
use crate::proto::model::{Completion, Delta, Dialect, StopReason, Usage};
use crate::proto::sse::Event;
use serde_json::{Value, json};

/// The documented stream types of the Responses API (docs/providers.md#openai-responses/events).
const RESPONSES: &str = "
    response.queued response.created response.in_progress response.completed
    response.incomplete response.failed error
    response.output_item.added response.output_item.done
    response.content_part.added response.content_part.done
    response.output_text.delta response.output_text.done response.output_text.annotation.added
    response.refusal.delta response.refusal.done
    response.reasoning_text.delta response.reasoning_text.done
    response.reasoning_summary_part.added response.reasoning_summary_part.done
    response.reasoning_summary_text.delta response.reasoning_summary_text.done
    response.function_call_arguments.delta response.function_call_arguments.done
    response.custom_tool_call_input.delta response.custom_tool_call_input.done
    response.mcp_call_arguments.delta response.mcp_call_arguments.done
    response.mcp_call.in_progress response.mcp_call.completed response.mcp_call.failed
    response.mcp_list_tools.in_progress response.mcp_list_tools.completed
    response.mcp_list_tools.failed
    response.web_search_call.in_progress response.web_search_call.searching
    response.web_search_call.completed
    response.file_search_call.in_progress response.file_search_call.searching
    response.file_search_call.completed
    response.code_interpreter_call.in_progress response.code_interpreter_call.interpreting
    response.code_interpreter_call.completed
    response.code_interpreter_call_code.delta response.code_interpreter_call_code.done
    response.image_generation_call.in_progress response.image_generation_call.generating
    response.image_generation_call.partial_image response.image_generation_call.completed
    response.shell_call_command.added response.shell_call_command.delta
    response.shell_call_command.done
    response.shell_call_output_content.delta response.shell_call_output_content.done
    response.audio.delta response.audio.done
    response.audio.transcript.delta response.audio.transcript.done
";

fn read(dialect: Dialect, data: &Value) -> (EventKind, Vec<Delta>) {
    let name = data["type"].as_str().unwrap_or("message");
    let event = Event::synthetic(name, data.to_string());
    let mut deltas = Vec::new();
    let reading = interpreter(dialect).read(&event, &mut deltas).unwrap();
    (reading.kind, deltas)
}

#[test]
fn all_58_types_of_a_response_are_known() {
    let types: Vec<&str> = RESPONSES.split_whitespace().collect();
    assert_eq!(types.len(), 58);
    for event_type in types {
        let data = json!({
            "type": event_type, "sequence_number": 4, "output_index": 1, "content_index": 0,
            "summary_index": 0, "delta": "x", "message": "m", "response": {"id": "r"},
            "item": {"type": "message"}, "part": {"type": "output_text"},
        });
        let (kind, deltas) = read(Dialect::OpenAiResponses, &data);
        let expected = match event_type {
            "response.completed" | "response.incomplete" => EventKind::End,
            "response.failed" | "error" => EventKind::Error,
            "response.image_generation_call.partial_image"
            | "response.output_text.annotation.added" => EventKind::Output,
            other if other.rsplit('.').next() == Some("delta") => EventKind::Output,
            _ => EventKind::Lifecycle,
        };
        assert_eq!(kind, expected, "{event_type}");
        let is_output = deltas.iter().any(Delta::is_output);
        assert_eq!(is_output, expected == EventKind::Output, "{event_type}");
    }
    let (kind, _) = read(
        Dialect::OpenAiResponses,
        &json!({"type": "response.new_thing"}),
    );
    assert_eq!(kind, EventKind::Unknown);
    let (kind, _) = read(Dialect::OpenAiResponses, &json!({"type": "keepalive"}));
    assert_eq!(kind, EventKind::KeepAlive);
}

#[test]
fn every_event_type_of_a_message_is_known() {
    for (data, expected) in [
        (
            json!({"type": "message_start", "message": {"id": "m"}}),
            EventKind::Lifecycle,
        ),
        (
            json!({"type": "content_block_stop", "index": 0}),
            EventKind::Lifecycle,
        ),
        (
            json!({"type": "message_delta", "delta": {"stop_reason": null}}),
            EventKind::Lifecycle,
        ),
        (json!({"type": "message_stop"}), EventKind::End),
        (json!({"type": "ping"}), EventKind::KeepAlive),
        (
            json!({"type": "error", "error": {"type": "api_error"}}),
            EventKind::Error,
        ),
        (json!({"type": "vendor_event"}), EventKind::Unknown),
    ] {
        assert_eq!(
            read(Dialect::AnthropicMessages, &data).0,
            expected,
            "{data}"
        );
    }
}

#[test]
fn every_block_type_of_a_message_is_known() {
    for (block, expected) in [
        (json!({"type": "text", "text": ""}), EventKind::Lifecycle),
        (json!({"type": "text", "text": "x"}), EventKind::Output),
        (
            json!({"type": "thinking", "thinking": "", "signature": ""}),
            EventKind::Lifecycle,
        ),
        (
            json!({"type": "thinking", "thinking": "x"}),
            EventKind::Output,
        ),
        (
            json!({"type": "tool_use", "id": "t", "name": "f", "input": {}}),
            EventKind::Output,
        ),
        (
            json!({"type": "redacted_thinking", "data": "x"}),
            EventKind::Output,
        ),
        (
            json!({"type": "server_tool_use", "id": "s", "name": "web_search"}),
            EventKind::Output,
        ),
        (
            json!({"type": "web_search_tool_result", "content": []}),
            EventKind::Output,
        ),
        (
            json!({"type": "code_execution_tool_result", "content": {}}),
            EventKind::Output,
        ),
        (
            json!({"type": "container_upload", "file_id": "f"}),
            EventKind::Output,
        ),
        (json!({"type": "fallback"}), EventKind::Output),
        (json!({"type": "a_later_kind"}), EventKind::Output),
    ] {
        let data = json!({"type": "content_block_start", "index": 3, "content_block": block});
        let (kind, deltas) = read(Dialect::AnthropicMessages, &data);
        assert_eq!(kind, expected, "{data}");
        assert!(
            matches!(
                deltas[0],
                Delta::Part {
                    part: 3,
                    open: true,
                    ..
                }
            ),
            "{data}"
        );
    }
}

#[test]
fn every_delta_type_of_a_message_is_output() {
    for delta in [
        json!({"type": "text_delta", "text": "x"}),
        json!({"type": "input_json_delta", "partial_json": "x"}),
        json!({"type": "thinking_delta", "thinking": "x"}),
        json!({"type": "signature_delta", "signature": "x"}),
        json!({"type": "citations_delta", "citation": {}}),
        json!({"type": "compaction_delta", "content": "x"}),
        json!({"type": "a_later_delta"}),
    ] {
        let data = json!({"type": "content_block_delta", "index": 0, "delta": delta});
        assert_eq!(
            read(Dialect::AnthropicMessages, &data).0,
            EventKind::Output,
            "{data}"
        );
    }
    // An empty fragment carries nothing.
    let delta = json!({"type": "input_json_delta", "partial_json": ""});
    let data = json!({"type": "content_block_delta", "index": 0, "delta": delta});
    assert_eq!(
        read(Dialect::AnthropicMessages, &data).0,
        EventKind::Lifecycle
    );
}

#[test]
fn every_stop_reason_has_its_word() {
    use StopReason::{ContentFilter, Length, Other, Paused, Refusal, Stop, ToolCalls};
    let chat = |word: &str| json!({"choices": [{"index": 0, "delta": {}, "finish_reason": word}]});
    for (word, expected) in [
        ("stop", Some(Stop)),
        ("length", Some(Length)),
        ("model_length", Some(Length)),
        ("tool_calls", Some(ToolCalls)),
        ("function_call", Some(ToolCalls)),
        ("content_filter", Some(ContentFilter)),
        ("eos", Some(Other("eos".into()))),
        ("", None),
    ] {
        assert_eq!(stop(Dialect::OpenAiChat, &chat(word)), expected, "{word}");
    }
    let message = |word: &str| json!({"type": "message_delta", "delta": {"stop_reason": word}});
    for (word, expected) in [
        ("end_turn", Some(Stop)),
        ("stop_sequence", Some(Stop)),
        ("max_tokens", Some(Length)),
        ("model_context_window_exceeded", Some(Length)),
        ("tool_use", Some(ToolCalls)),
        ("pause_turn", Some(Paused)),
        ("refusal", Some(Refusal)),
        ("compaction", Some(Other("compaction".into()))),
        ("", None),
    ] {
        assert_eq!(
            stop(Dialect::AnthropicMessages, &message(word)),
            expected,
            "{word}"
        );
    }
    let incomplete = |word: &str| {
        json!({"type": "response.incomplete",
            "response": {"status": "incomplete", "incomplete_details": {"reason": word}}})
    };
    for (word, expected) in [
        ("max_output_tokens", Length),
        ("content_filter", ContentFilter),
        ("later", Length),
        ("", Length),
    ] {
        let found = stop(Dialect::OpenAiResponses, &incomplete(word));
        assert_eq!(found, Some(expected), "{word}");
    }
}

fn stop(dialect: Dialect, data: &Value) -> Option<StopReason> {
    read(dialect, data)
        .1
        .into_iter()
        .find_map(|delta| match delta {
            Delta::Stop { reason, .. } => Some(reason),
            _ => None,
        })
}

#[test]
fn finish_reasons_that_are_errors_are_no_finish() {
    for word in ["error", "abort", "insufficient_system_resource"] {
        let stream = format!(
            "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"a\"}}}}]}}\n\n\
             data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"b\"}},\
             \"finish_reason\":\"{word}\"}}],\"usage\":{{\"completion_tokens\":7}}}}\n\n\
             data: [DONE]\n\n"
        );
        let run = Run::of(Dialect::OpenAiChat, &events(&stream));
        assert_eq!(run.answer.text(), "a", "{word}");
        assert_eq!(run.answer.stop(), None, "{word}");
        assert_eq!(run.answer.usage.output, Some(7), "{word}");
        assert_eq!(run.completion, Completion::Open, "{word}");
        let error = run.readings[1].error.as_ref().unwrap();
        assert_eq!(error.code.as_deref(), Some(word));
        let overload = word == "insufficient_system_resource";
        assert_eq!(error.http_equivalent, overload.then_some(503), "{word}");
    }
}

// `event: error` with bare text passed as noise: the reader was told of a cut, or,
// with an end marker behind it, of a whole answer.
#[test]
fn an_error_event_is_one_whatever_its_data_is() {
    for dialect in Dialect::ALL {
        for (data, message) in [
            ("upstream died", "upstream died"),
            (" \"upstream died\"", "upstream died"),
            ("503", "503"),
            ("", ""),
        ] {
            let mut deltas = Vec::new();
            let mut interpreter = interpreter(*dialect);
            let error = Event::synthetic("error", data);
            let reading = interpreter.read(&error, &mut deltas).unwrap();
            assert_eq!(reading.kind, EventKind::Error, "{dialect} {data:?}");
            assert_eq!(reading.error.unwrap().message, message, "{dialect}");
            let done = Event::synthetic("message", "[DONE]");
            interpreter.read(&done, &mut deltas).unwrap();
            assert_eq!(interpreter.completion(), Completion::Open, "{dialect}");
        }
    }
}

#[test]
fn what_compatible_servers_send_instead() {
    let chat = |data: Value| read(Dialect::OpenAiChat, &data);
    // The prompt filter chunk of Azure, and the heartbeat of a gateway.
    let (kind, deltas) = chat(json!({"id": "", "model": "", "object": "", "choices": [],
        "prompt_filter_results": [{"prompt_index": 0}]}));
    assert_eq!((kind, deltas), (EventKind::Lifecycle, vec![]));
    assert_eq!(chat(json!({"choices": null})).0, EventKind::KeepAlive);
    assert_eq!(chat(json!({"type": "ping"})).0, EventKind::KeepAlive);
    assert_eq!(chat(json!({"event": "vendor"})).0, EventKind::Unknown);
    // Reasoning under either name, and under both at once.
    for delta in [
        json!({"reasoning": "r"}),
        json!({"reasoning_content": "r"}),
        json!({"reasoning": "r", "reasoning_content": "r", "content": null}),
    ] {
        let (kind, deltas) = chat(json!({"choices": [{"index": 0, "delta": delta}]}));
        assert_eq!(kind, EventKind::Output);
        assert!(matches!(&deltas[..], [Delta::Reasoning { text, .. }] if text == "r"));
    }
    // Usage inside `x_groq`, with and without choices.
    let usage = Usage {
        input: Some(3),
        output: Some(1),
        ..Usage::default()
    };
    let (kind, deltas) = chat(json!({"choices": [],
        "x_groq": {"id": "r", "usage": {"prompt_tokens": 3, "completion_tokens": 1}}}));
    assert_eq!(
        (kind, deltas),
        (EventKind::Lifecycle, vec![Delta::Usage(usage)])
    );
    // A whole message where a delta should be, and content that is no text.
    let (_, deltas) = chat(json!({"choices": [{"index": 0, "message": {"content": "hi"}}]}));
    assert!(matches!(&deltas[..], [Delta::Text { text, .. }] if text == "hi"));
    let (kind, deltas) = chat(json!({"choices": [{"delta": {"content": [{"type": "x"}]}}]}));
    assert_eq!(kind, EventKind::Output);
    assert!(matches!(&deltas[..], [Delta::Opaque { .. }]));
    // Arguments as an object, and the deprecated function call.
    let (_, deltas) = chat(json!({"choices": [{"delta": {"tool_calls": [
        {"index": 0, "id": "a", "function": {"name": "f", "arguments": {"x": 1}}}]}}]}));
    assert!(matches!(&deltas[1], Delta::ToolArguments { fragment, .. } if fragment == "{\"x\":1}"));
    let (_, deltas) = chat(json!({"choices": [{"delta": {"function_call":
        {"name": "f", "arguments": "{}"}}, "finish_reason": "function_call"}]}));
    assert_eq!(deltas.len(), 4);
    assert!(matches!(deltas[2], Delta::ToolCallDone { index: 0, .. }));
}

#[test]
fn a_key_that_occurs_twice_is_read_as_the_last() {
    let event = Event::synthetic(
        "message",
        "{\"id\":\"a\",\"id\":\"b\",\"choices\":[{\"delta\":{\"content\":\"x\",\"content\":\"y\"}}]}",
    );
    let mut deltas = Vec::new();
    let reading = interpreter(Dialect::OpenAiChat)
        .read(&event, &mut deltas)
        .unwrap();
    assert_eq!(reading.kind, EventKind::Output);
    assert!(matches!(&deltas[0], Delta::ResponseId(id) if id == "b"));
    assert!(matches!(&deltas[1], Delta::Text { text, .. } if text == "y"));
}

#[test]
fn a_refusal_is_no_plain_stop() {
    let chat = concat!(
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"refusal\":\"I can't.\"}}]}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
    );
    let run = Run::of(Dialect::OpenAiChat, &events(chat));
    assert_eq!(run.answer.stop(), Some(&StopReason::Refusal));
    assert_eq!(run.answer.choices[&0].refusal, "I can't.");
    assert_eq!(run.answer.text(), "");

    let response = json!({"type": "response.completed", "response": {"status": "completed",
        "output": [{"type": "reasoning", "summary": []},
            {"type": "message", "content": [{"type": "refusal", "refusal": "I can't."}]}]}});
    let data = format!("data: {response}\n\n");
    let run = Run::of(Dialect::OpenAiResponses, &events(&data));
    assert_eq!(run.answer.stop(), Some(&StopReason::Refusal));
    assert_eq!(run.answer.choices[&0].parts[&1].refusal, "I can't.");
}

#[test]
fn a_message_without_a_stop_reason_only_claims_to_be_whole() {
    let stream = concat!(
        "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\"}}\n\n",
        "data: {\"type\":\"content_block_stop\",\"index\":0}\n\n",
        "data: {\"type\":\"message_stop\"}\n\n",
    );
    let run = Run::of(Dialect::AnthropicMessages, &events(stream));
    assert_eq!(run.completion, Completion::Claimed);
    // A stop reason proves nothing while a block is open.
    let stream = concat!(
        "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\"}}\n\n",
        "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}}\n\n",
    );
    let run = Run::of(Dialect::AnthropicMessages, &events(stream));
    assert_eq!(run.completion, Completion::Open);
}

#[test]
fn tool_input_that_comes_with_the_block_is_given_once() {
    let start = "data: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":\
        {\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"f\",\"input\":{\"a\":1}}}\n\n";
    let fragment = "data: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":\
        {\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"a\\\":2}\"}}\n\n";
    let stop = "data: {\"type\":\"content_block_stop\",\"index\":1}\n\n";
    let arguments = |stream: String| {
        let run = Run::of(Dialect::AnthropicMessages, &events(&stream));
        run.answer.choices[&0].tool_calls[&1].arguments.clone()
    };
    assert_eq!(arguments([start, stop].concat()), "{\"a\":1}");
    assert_eq!(arguments([start, fragment, stop].concat()), "{\"a\":2}");
}
