use super::*;
use crate::proto::dialect::tests::{Run, events};
use crate::proto::dialect::{interpreter_after, provider_error};
use crate::proto::model::{Completion, StopReason};
use serde_json::json;

const FULL_RESPONSE: &str = include_str!("../../../../fixtures/streams/openai_responses/full.sse");
const FULL_CHAT: &str = include_str!("../../../../fixtures/streams/openai_chat/full.sse");
const FULL_MESSAGE: &str = include_str!("../../../../fixtures/streams/anthropic_messages/full.sse");

/// The answer after `seen` and the expansion of `json` behind it.
fn answer(dialect: Dialect, json: &str, seen: Answer) -> Run {
    let events = expand(dialect, json, &seen).unwrap();
    Run::with(interpreter_after(dialect, &seen), seen, &events)
}

/// The whole response that the terminal event of the fixture carries.
fn stored_response() -> String {
    let all = events(FULL_RESPONSE);
    let terminal: Value = serde_json::from_str(&all.last().unwrap().data).unwrap();
    terminal["response"].to_string()
}

#[test]
fn a_whole_completion_keeps_calls_usage_and_the_real_reason() {
    let json = r#"{"id":"c1","object":"chat.completion","model":"m","choices":[{"index":0,
        "message":{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function",
        "function":{"name":"get_weather","arguments":"{\"city\":\"Riga\"}"}}]},
        "finish_reason":"tool_calls"}],
        "usage":{"prompt_tokens":9,"completion_tokens":7,"total_tokens":16}}"#;
    assert_eq!(provider_error(json), None);
    let run = answer(Dialect::OpenAiChat, json, Answer::default());
    let call = &run.answer.choices[&0].tool_calls[&0];
    assert_eq!(
        (
            call.id.as_str(),
            call.name.as_str(),
            call.arguments.as_str(),
            call.done
        ),
        ("call_1", "get_weather", "{\"city\":\"Riga\"}", true)
    );
    assert_eq!(run.answer.text(), "");
    assert_eq!(run.answer.stop(), Some(&StopReason::ToolCalls));
    assert_eq!(
        (run.answer.usage.input, run.answer.usage.output),
        (Some(9), Some(7))
    );
    assert_eq!(run.completion, Completion::Proven);
}

#[test]
fn a_polled_response_gives_what_is_missing_wherever_the_stream_was_cut() {
    let all = events(FULL_RESPONSE);
    let whole = Run::of(Dialect::OpenAiResponses, &all).answer;
    let stored = stored_response();
    for cut in 0..=all.len() {
        let seen = Run::of(Dialect::OpenAiResponses, &all[..cut]).answer;
        let run = answer(Dialect::OpenAiResponses, &stored, seen);
        assert_eq!(run.answer, whole, "cut at {cut}");
        assert_eq!(run.completion, Completion::Proven, "cut at {cut}");
        assert!(
            run.readings
                .iter()
                .all(|reading| reading.sequence.is_none())
        );
    }
}

#[test]
fn the_missing_part_comes_in_deltas_and_not_only_in_the_terminal_event() {
    let all = events(FULL_RESPONSE);
    for cut in 0..all.len() {
        let seen = Run::of(Dialect::OpenAiResponses, &all[..cut]).answer;
        let mut expanded = expand(Dialect::OpenAiResponses, &stored_response(), &seen).unwrap();
        let terminal = expanded.pop().unwrap();
        assert_eq!(terminal.name, "response.completed");
        let deltas: Vec<_> = expanded
            .into_iter()
            .filter(|event| !event.name.contains(".done"))
            .collect();
        let interpreter = interpreter_after(Dialect::OpenAiResponses, &seen);
        let run = Run::with(interpreter, seen, &deltas);
        let whole = Run::of(Dialect::OpenAiResponses, &all).answer;
        let (found, expected) = (&run.answer.choices[&0], &whole.choices[&0]);
        assert_eq!(found.text, expected.text, "cut at {cut}");
        assert_eq!(found.reasoning, expected.reasoning, "cut at {cut}");
        let arguments = |choice: &crate::proto::model::Choice| -> Vec<String> {
            let calls = choice.tool_calls.values();
            calls.map(|call| call.arguments.clone()).collect()
        };
        assert_eq!(arguments(found), arguments(expected), "cut at {cut}");
    }
}

#[test]
fn whole_answers_of_the_other_dialects() {
    let streamed = Run::of(Dialect::OpenAiChat, &events(FULL_CHAT)).answer;
    let choice = &streamed.choices[&0];
    let calls: Vec<_> = choice
        .tool_calls
        .values()
        .map(|call| {
            json!({"id": call.id, "type": "function",
                "function": {"name": call.name, "arguments": call.arguments}})
        })
        .collect();
    let completion = json!({"id": streamed.response_id, "object": "chat.completion",
        "created": 1, "model": streamed.model,
        "choices": [{"index": 0, "logprobs": null, "finish_reason": "tool_calls",
            "message": {"role": "assistant", "content": choice.text, "refusal": null,
                "reasoning_content": choice.reasoning, "tool_calls": calls}}],
        "usage": {"prompt_tokens": 412, "completion_tokens": 238,
            "prompt_tokens_details": {"cached_tokens": 256},
            "completion_tokens_details": {"reasoning_tokens": 64}}})
    .to_string();
    let all = events(FULL_CHAT);
    for cut in 0..=all.len() {
        let seen = Run::of(Dialect::OpenAiChat, &all[..cut]).answer;
        let run = answer(Dialect::OpenAiChat, &completion, seen);
        assert_eq!(run.answer, streamed, "cut at {cut}");
    }

    let streamed = Run::of(Dialect::AnthropicMessages, &events(FULL_MESSAGE)).answer;
    let choice = &streamed.choices[&0];
    let input = |index: u32| -> Value {
        serde_json::from_str(&choice.tool_calls[&index].arguments).unwrap()
    };
    let tool = |index: u32| {
        let call = &choice.tool_calls[&index];
        json!({"type": "tool_use", "id": call.id, "name": call.name, "input": input(index)})
    };
    let message = json!({"id": streamed.response_id, "type": "message", "role": "assistant",
        "model": streamed.model, "stop_reason": "tool_use", "stop_sequence": null,
        "content": [{"type": "thinking", "thinking": choice.reasoning, "signature": "s"},
            {"type": "text", "text": choice.text}, tool(2), tool(3)],
        "usage": {"input_tokens": 156, "output_tokens": 238, "cache_read_input_tokens": 256,
            "cache_creation_input_tokens": 0}})
    .to_string();
    let mut run = answer(Dialect::AnthropicMessages, &message, Answer::default());
    assert_eq!(run.completion, Completion::Proven);
    for index in [2, 3] {
        // A document has no one text: the same value is the same input.
        let calls = &mut run.answer.choices.get_mut(&0).unwrap().tool_calls;
        let call = calls.get_mut(&index).unwrap();
        assert_eq!(
            serde_json::from_str::<Value>(&call.arguments).unwrap(),
            input(index)
        );
        call.arguments = choice.tool_calls[&index].arguments.clone();
    }
    assert_eq!(run.answer, streamed);
}

#[test]
fn an_answer_that_does_not_begin_with_what_was_seen_is_refused() {
    let response = |text: &str| {
        json!({"id": "r", "object": "response", "status": "completed", "output": [
            {"type": "message", "id": "m", "content": [{"type": "output_text", "text": text}]}]})
        .to_string()
    };
    let seen = answer(
        Dialect::OpenAiResponses,
        &response("Hello"),
        Answer::default(),
    )
    .answer;
    for text in ["Help", "Hell", ""] {
        assert_eq!(
            expand(Dialect::OpenAiResponses, &response(text), &seen),
            Err(ExpandError::Mismatch { part: 0 }),
            "{text}"
        );
    }
    let empty = json!({"id": "r", "status": "completed", "output": []}).to_string();
    assert_eq!(
        expand(Dialect::OpenAiResponses, &empty, &seen),
        Err(ExpandError::Mismatch { part: 0 })
    );
    let completion = |text: &str| {
        json!({"choices": [{"index": 0, "finish_reason": "stop", "message": {"content": text}}]})
            .to_string()
    };
    let seen = answer(Dialect::OpenAiChat, &completion("Hello"), Answer::default()).answer;
    assert!(expand(Dialect::OpenAiChat, &completion("Hello you"), &seen).is_ok());
    assert!(expand(Dialect::OpenAiChat, &completion("Help"), &seen).is_err());
    let message = |text: &str| json!({"content": [{"type": "text", "text": text}]}).to_string();
    let seen = answer(
        Dialect::AnthropicMessages,
        &message("Hello"),
        Answer::default(),
    )
    .answer;
    assert!(expand(Dialect::AnthropicMessages, &message("Help"), &seen).is_err());
}

#[test]
fn a_running_response_has_no_end_yet() {
    let json = json!({"id": "r", "object": "response", "status": "in_progress", "output": [
        {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "So"}]},
        {"type": "message", "id": "m", "status": "in_progress",
            "content": [{"type": "output_text", "text": "Hel"}]}]})
    .to_string();
    let run = answer(Dialect::OpenAiResponses, &json, Answer::default());
    assert_eq!(run.answer.text(), "Hel");
    assert_eq!(run.completion, Completion::Open);
    let parts = &run.answer.choices[&0].parts;
    assert_eq!((parts[&0].closed, parts[&1].closed), (true, false));
    assert_eq!(response_status(&json), Some(ResponseStatus::Running));
    // Asking again gives only what came since.
    let later = json.replace("Hel", "Hello");
    let events = expand(Dialect::OpenAiResponses, &later, &run.answer).unwrap();
    assert_eq!(events.len(), 1);
    let run = Run::with(
        interpreter_after(Dialect::OpenAiResponses, &run.answer),
        run.answer,
        &events,
    );
    assert_eq!(run.answer.text(), "Hello");
}

#[test]
fn every_end_of_a_response() {
    let with = |status: &str| {
        json!({"id": "r", "object": "response", "status": status, "output": [],
            "incomplete_details": {"reason": "max_output_tokens"},
            "error": {"code": "server_error", "message": "m"}})
        .to_string()
    };
    let last = |status: &str| {
        let events = expand(Dialect::OpenAiResponses, &with(status), &Answer::default()).unwrap();
        events.last().unwrap().name.to_string()
    };
    assert_eq!(last("incomplete"), "response.incomplete");
    assert_eq!(last("failed"), "response.failed");
    assert_eq!(last("cancelled"), "response.created");
    assert_eq!(
        response_status(&with("cancelled")),
        Some(ResponseStatus::Cancelled)
    );
    assert_eq!(response_status(&with("later")), None);
    assert_eq!(response_status("[]"), None);
    let failed = answer(Dialect::OpenAiResponses, &with("failed"), Answer::default());
    assert_eq!(
        failed
            .readings
            .last()
            .unwrap()
            .error
            .as_ref()
            .unwrap()
            .http_equivalent,
        Some(500)
    );
}

#[test]
fn what_is_no_object_is_malformed() {
    for dialect in Dialect::ALL {
        for json in ["", "[1]", "{", "1", "<html>"] {
            let error = expand(*dialect, json, &Answer::default()).unwrap_err();
            assert!(matches!(error, ExpandError::Malformed(_)), "{json}");
        }
        // An object of another kind is no reason to fail, and none to panic.
        assert!(expand(*dialect, "{}", &Answer::default()).is_ok());
    }
}
