use super::*;
use crate::proto::dialect::tests::{Run, events};
use crate::proto::dialect::{EventKind, interpreter_after};
use crate::proto::model::{Completion, Dialect, Usage};
use crate::proto::sse::Event;

const BODY: &str =
    r#"{"model":"m","max_tokens":64,"messages":[{"role":"user","content":"Hi"}],"stream":true}"#;

fn start(id: &str) -> String {
    format!(
        "data: {{\"type\":\"message_start\",\"message\":{{\"id\":\"{id}\",\"model\":\"m\",\"usage\":\
         {{\"input_tokens\":31,\"output_tokens\":1}}}}}}\n\n"
    )
}

fn block(index: u32, block: &str) -> String {
    format!(
        "data: {{\"type\":\"content_block_start\",\"index\":{index},\"content_block\":{block}}}\n\n"
    )
}

fn text(index: u32, text: &str) -> String {
    let text = Value::from(text);
    format!(
        "data: {{\"type\":\"content_block_delta\",\"index\":{index},\
         \"delta\":{{\"type\":\"text_delta\",\"text\":{text}}}}}\n\n"
    )
}

fn stop(index: u32) -> String {
    format!("data: {{\"type\":\"content_block_stop\",\"index\":{index}}}\n\n")
}

const END: &str = concat!(
    "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},",
    "\"usage\":{\"output_tokens\":12}}\n\n",
    "data: {\"type\":\"message_stop\"}\n\n",
);
const TEXT: &str = r#"{"type":"text","text":""}"#;
const THINKING: &str = r#"{"type":"thinking","thinking":"","signature":""}"#;

fn answer(stream: &[&str]) -> Answer {
    Run::of(Dialect::AnthropicMessages, &events(&stream.concat())).answer
}

fn partial(captured: &str) -> Answer {
    answer(&[&start("msg_1"), &block(0, TEXT), &text(0, captured)])
}

fn prefill(body: &str, answer: &Answer) -> Result<Value, NotContinuable> {
    continuation(body, answer, ContinuationForm::Prefill, "")
        .map(|built| serde_json::from_str(&built.body).unwrap())
}

#[test]
fn a_prefill_ends_with_the_partial_text() {
    let built = continuation(BODY, &partial("Hello, wor"), ContinuationForm::Prefill, "").unwrap();
    assert_eq!(
        built.body,
        r#"{"model":"m","max_tokens":64,"messages":[{"role":"user","content":"Hi"},{"content":"Hello, wor","role":"assistant"}],"stream":true}"#
    );
    assert_eq!((built.captured.as_str(), built.trimmed), ("Hello, wor", 0));
}

#[test]
fn a_prefill_never_ends_with_white_space() {
    let built = continuation(BODY, &partial("One.\n\n "), ContinuationForm::Prefill, "").unwrap();
    let body: Value = serde_json::from_str(&built.body).unwrap();
    assert_eq!(body["messages"][1]["content"], "One.");
    assert_eq!((built.captured.as_str(), built.trimmed), ("One.\n\n ", 3));
}

#[test]
fn a_prefill_of_the_callers_is_carried_on() {
    let with = |content: &str| {
        let body = format!(
            r#"{{"messages":[{{"role":"user","content":"Hi"}},{{"role":"assistant","content":{content}}}]}}"#
        );
        prefill(&body, &partial("lo, wor")).unwrap()["messages"][1]["content"].clone()
    };
    assert_eq!(with(r#""Hel""#), "Hello, wor");
    assert_eq!(
        with(r#"[{"type":"text","text":"Hel"}]"#),
        json!([{"type": "text", "text": "Hello, wor"}])
    );
    assert_eq!(
        with(r#"[{"type":"image"}]"#),
        json!([{"type": "image"}, {"type": "text", "text": "lo, wor"}])
    );
}

#[test]
fn a_user_message_holds_the_partial_text_and_the_instruction() {
    let form = ContinuationForm::UserMessage;
    let built = continuation(BODY, &partial("Hello, wor "), form, "Go on.").unwrap();
    let body: Value = serde_json::from_str(&built.body).unwrap();
    assert_eq!(
        body["messages"][1],
        json!({"role": "user",
            "content": "<partial_answer>\nHello, wor \n</partial_answer>\n\nGo on."})
    );
    assert_eq!(built.trimmed, 0);
}

#[test]
fn unfinished_thinking_is_dropped_and_text_before_it_kept() {
    let seen = answer(&[
        &start("m"),
        &block(0, THINKING),
        &stop(0),
        &block(1, TEXT),
        &text(1, "One."),
        &stop(1),
        &block(2, TEXT),
        &text(2, "Two."),
        &stop(2),
        &block(3, THINKING),
    ]);
    assert_eq!(
        prefill(BODY, &seen).unwrap()["messages"][1]["content"],
        json!([{"type": "text", "text": "One."}, {"type": "text", "text": "Two."}])
    );
}

#[test]
fn what_cannot_be_continued_says_why() {
    let tool = r#"{"type":"tool_use","id":"t","name":"f","input":{}}"#;
    for (seen, expected) in [
        (answer(&[]), NotContinuable::NothingCaptured),
        (
            answer(&[&start("m"), &block(0, TEXT)]),
            NotContinuable::NothingCaptured,
        ),
        (partial(" \n"), NotContinuable::NothingCaptured),
        (
            answer(&[&block(0, THINKING)]),
            NotContinuable::OnlyReasoning,
        ),
        (
            answer(&[&block(0, TEXT), &text(0, "a"), &stop(0), &block(1, tool)]),
            NotContinuable::ToolCallStarted,
        ),
        (
            answer(&[
                &block(0, TEXT),
                &text(0, "a"),
                &stop(0),
                &block(1, r#"{"type":"server_tool_use","id":"s"}"#),
            ]),
            NotContinuable::OpaqueContent,
        ),
        (
            answer(&[
                &block(0, TEXT),
                &text(0, "a"),
                "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"refusal\"}}\n\n",
            ]),
            NotContinuable::Refused,
        ),
    ] {
        for form in [ContinuationForm::Prefill, ContinuationForm::UserMessage] {
            assert_eq!(continuation(BODY, &seen, form, "").unwrap_err(), expected);
        }
    }
}

#[test]
fn requests_that_cannot_be_continued_say_why() {
    let seen = partial("a");
    for (member, expected) in [
        (
            r#""output_format":{"type":"json_schema"}"#,
            NotContinuable::ConstrainedOutput,
        ),
        (
            r#""output_config":{"format":{"type":"json_schema"}}"#,
            NotContinuable::ConstrainedOutput,
        ),
        (
            r#""response_format":{"type":"json_object"}"#,
            NotContinuable::ConstrainedOutput,
        ),
        (
            r#""tool_choice":{"type":"tool","name":"f"}"#,
            NotContinuable::ConstrainedOutput,
        ),
        (
            r#""tool_choice":{"type":"any"}"#,
            NotContinuable::ConstrainedOutput,
        ),
        (
            r#""thinking":{"type":"enabled"}"#,
            NotContinuable::PrefillWithThinking,
        ),
        (r#""messages":{}"#, NotContinuable::UnknownBody),
    ] {
        let body = format!(r#"{{"messages":[],{member}}}"#);
        assert_eq!(prefill(&body, &seen).unwrap_err(), expected, "{member}");
    }
    for member in [
        r#""output_format":null"#,
        r#""output_config":{"effort":"high"}"#,
        r#""tool_choice":{"type":"auto"}"#,
        r#""thinking":{"type":"disabled"}"#,
    ] {
        let body = format!(r#"{{"messages":[],{member}}}"#);
        assert!(prefill(&body, &seen).is_ok(), "{member}");
    }
    let body = r#"{"messages":[],"thinking":{"type":"enabled"}}"#;
    assert!(continuation(body, &seen, ContinuationForm::UserMessage, "").is_ok());
    assert_eq!(
        prefill("[]", &seen).unwrap_err(),
        NotContinuable::UnknownBody
    );
}

#[test]
fn the_refusal_of_a_prefill_is_known() {
    let error = |http, message: &str| ProviderError {
        error_type: Some("invalid_request_error".to_owned()),
        http_equivalent: http,
        message: message.to_owned(),
        ..ProviderError::default()
    };
    let documented = "This model does not support assistant message prefill. The conversation must end with a user message.";
    assert!(is_prefill_refusal(&error(Some(400), documented)));
    assert!(is_prefill_refusal(&error(None, documented)));
    assert!(!is_prefill_refusal(&error(Some(500), documented)));
    assert!(!is_prefill_refusal(&error(Some(400), "prompt is too long")));
}

/// The message as the reader has it: the first stream, then what the splicer
/// makes of the second.
fn spliced(first: &[&str], second: &[&str], form: ContinuationForm) -> (Vec<Event>, Run) {
    let first = events(&first.concat());
    let seen = Run::of(Dialect::AnthropicMessages, &first).answer;
    let continuation = continuation(BODY, &seen, form, "").unwrap();
    let mut splicer = Splicer::new(&continuation, &seen);
    let mut out = Vec::new();
    for event in events(&second.concat()) {
        splicer.push(&event, &mut out).unwrap();
    }
    splicer.finish(&mut out).unwrap();
    // An interpreter that goes on, and one that reads the whole message, agree.
    let went_on = Run::with(
        interpreter_after(Dialect::AnthropicMessages, &seen),
        seen,
        &out,
    );
    let mut all = first;
    all.extend(out);
    let whole = Run::of(Dialect::AnthropicMessages, &all);
    assert_eq!(went_on.answer, whole.answer);
    assert_eq!(went_on.completion, whole.completion);
    well_formed(&all);
    (all, whole)
}

/// One start, one stop, blocks in order, each opened once and closed once.
#[track_caller]
fn well_formed(all: &[Event]) {
    let mut open = None;
    let mut next = 0;
    let mut starts = 0;
    let mut stops = 0;
    for event in all {
        let data: Value = serde_json::from_str(&event.data).unwrap();
        let index = data["index"].as_u64();
        match data["type"].as_str().unwrap() {
            "message_start" => starts += 1,
            "message_stop" => stops += 1,
            "content_block_start" => {
                assert_eq!((open, index), (None, Some(next)), "{data}");
                open = index;
                next += 1;
            }
            "content_block_delta" => assert_eq!(open, index, "{data}"),
            "content_block_stop" => {
                assert_eq!(open, index, "{data}");
                open = None;
            }
            _ => {}
        }
    }
    assert_eq!((starts, stops, open), (1, 1, None));
}

#[test]
fn a_prefill_continuation_makes_one_message() {
    let (all, run) = spliced(
        &[
            &start("msg_1"),
            &block(0, TEXT),
            &text(0, "We need tests. "),
        ],
        &[
            &start("msg_2"),
            &block(0, TEXT),
            "data: {\"type\":\"ping\"}\n\n",
            &text(0, "We need tests for the parser, too."),
            &stop(0),
            END,
        ],
        ContinuationForm::Prefill,
    );
    assert_eq!(
        run.answer.text(),
        "We need tests. We need tests for the parser, too."
    );
    assert_eq!(run.answer.response_id.as_deref(), Some("msg_1"));
    assert_eq!(run.completion, Completion::Proven);
    assert_eq!(run.count(EventKind::KeepAlive), 1);
    let expected = Usage {
        input: Some(62),
        output: Some(13),
        ..Usage::default()
    };
    assert_eq!(run.answer.usage, expected);
    assert_eq!(all.len(), 3 + 5);
}

#[test]
fn white_space_that_was_left_out_is_not_doubled() {
    let (_, run) = spliced(
        &[&start("a"), &block(0, TEXT), &text(0, "One.\n\n")],
        &[
            &start("b"),
            &block(0, TEXT),
            &text(0, "\n"),
            &text(0, "\nTwo."),
            &stop(0),
            END,
        ],
        ContinuationForm::Prefill,
    );
    assert_eq!(run.answer.text(), "One.\n\nTwo.");
}

#[test]
fn an_overlap_in_a_user_message_continuation_is_cut_out() {
    let (_, run) = spliced(
        &[&start("a"), &block(0, TEXT), &text(0, "The quick brown ")],
        &[
            &start("b"),
            &block(0, TEXT),
            &text(0, "quick "),
            &text(0, "brown "),
            &text(0, "fox."),
            &stop(0),
            END,
        ],
        ContinuationForm::UserMessage,
    );
    assert_eq!(run.answer.text(), "The quick brown fox.");
}

#[test]
fn a_closed_block_is_followed_by_a_new_one() {
    let (_, run) = spliced(
        &[&start("a"), &block(0, TEXT), &text(0, "One."), &stop(0)],
        &[
            &start("b"),
            &block(0, r#"{"type":"text","text":" T"}"#),
            &text(0, "wo."),
            &stop(0),
            END,
        ],
        ContinuationForm::Prefill,
    );
    let parts = &run.answer.choices[&0].parts;
    assert_eq!(
        (parts[&0].text.as_str(), parts[&1].text.as_str()),
        ("One.", " Two.")
    );
}

#[test]
fn thinking_of_the_continuation_closes_the_open_block() {
    let thinking = "data: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":\
        {\"type\":\"thinking_delta\",\"thinking\":\"hm\"}}\n\n";
    let (_, run) = spliced(
        &[&start("a"), &block(0, TEXT), &text(0, "One.")],
        &[
            &start("b"),
            &block(0, THINKING),
            thinking,
            &stop(0),
            &block(1, TEXT),
            &text(1, " Two."),
            &stop(1),
            END,
        ],
        ContinuationForm::UserMessage,
    );
    let parts = &run.answer.choices[&0].parts;
    assert_eq!(run.answer.text(), "One. Two.");
    assert_eq!(
        (parts[&1].reasoning.as_str(), parts[&2].text.as_str()),
        ("hm", " Two.")
    );
}

#[test]
fn open_thinking_of_the_first_attempt_is_closed() {
    let (_, run) = spliced(
        &[
            &start("a"),
            &block(0, TEXT),
            &text(0, "One."),
            &stop(0),
            &block(1, THINKING),
        ],
        &[
            &start("b"),
            &block(0, TEXT),
            &text(0, " Two."),
            &stop(0),
            END,
        ],
        ContinuationForm::Prefill,
    );
    assert_eq!(run.answer.text(), "One. Two.");
    assert!(run.answer.choices[&0].parts[&1].closed);
}

#[test]
fn a_continuation_without_content_closes_the_message() {
    for form in [ContinuationForm::Prefill, ContinuationForm::UserMessage] {
        let (_, run) = spliced(
            &[&start("a"), &block(0, TEXT), &text(0, "All of it")],
            &[&start("b"), END],
            form,
        );
        assert_eq!(run.answer.text(), "All of it");
        assert_eq!(run.completion, Completion::Proven);
    }
}

#[test]
fn a_continuation_that_starts_over_is_refused() {
    let old = "It was a bright cold day in April, and all the clocks were wrong.";
    let seen = partial(old);
    let built = continuation(BODY, &seen, ContinuationForm::UserMessage, "").unwrap();
    let mut splicer = Splicer::new(&built, &seen);
    let mut out = Vec::new();
    let again = events(
        &[
            start("b"),
            block(0, TEXT),
            text(0, "It was a bright cold day in April, but"),
        ]
        .concat(),
    );
    let result: Result<(), SpliceError> = again
        .iter()
        .try_for_each(|event| splicer.push(event, &mut out));
    assert_eq!(result, Err(SpliceError::Restarted));
    assert_eq!(out, []);
}

#[test]
fn text_that_is_held_comes_before_an_error() {
    let seen = partial("The quick brown ");
    let built = continuation(BODY, &seen, ContinuationForm::UserMessage, "").unwrap();
    let mut splicer = Splicer::new(&built, &seen);
    let mut out = Vec::new();
    let error = "data: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n";
    for event in events(&[&start("b"), &block(0, TEXT), &text(0, "brown"), error].concat()) {
        splicer.push(&event, &mut out).unwrap();
    }
    let run = Run::with(
        interpreter_after(Dialect::AnthropicMessages, &seen),
        seen,
        &out,
    );
    assert_eq!(run.answer.text(), "The quick brown brown");
    assert_eq!(run.count(EventKind::Error), 1);
}
