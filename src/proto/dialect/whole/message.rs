//! A message of Anthropic as events.

use super::{ExpandError, Object, indexed, list, missing, named, text};
use crate::proto::model::{Answer, Part, ToolCall};
use crate::proto::sse::Event;
use serde_json::{Value, json};

pub(super) fn expand(root: &Object, seen: &Answer) -> Result<Vec<Event>, ExpandError> {
    let mut out = Vec::new();
    let choice = seen.choices.get(&0);
    if seen.response_id.is_none() && choice.is_none() {
        out.push(named(
            &json!({"type": "message_start", "message": started(root)}),
        ));
    }
    for (index, block) in indexed(list(root.get("content"))) {
        let part = choice.and_then(|choice| choice.parts.get(&index));
        let call = choice.and_then(|choice| choice.tool_calls.get(&index));
        expand_block(index, block, part, call, &mut out)?;
    }
    let mut delta = Object::new();
    for name in ["stop_reason", "stop_sequence", "stop_details", "container"] {
        if let Some(value) = root.get(name) {
            delta.insert(name.to_owned(), value.clone());
        }
    }
    let mut end = json!({"type": "message_delta", "delta": delta});
    if let (Some(usage), Some(end)) = (root.get("usage"), end.as_object_mut()) {
        end.insert("usage".to_owned(), usage.clone());
    }
    out.push(named(&end));
    out.push(named(&json!({"type": "message_stop"})));
    Ok(out)
}

/// The message as it is at its start: without content, reason and output.
fn started(root: &Object) -> Value {
    let mut message = root.clone();
    message.insert("content".to_owned(), json!([]));
    for name in ["stop_reason", "stop_sequence"] {
        message.insert(name.to_owned(), Value::Null);
    }
    if let Some(usage) = message.get_mut("usage").and_then(Value::as_object_mut) {
        usage.insert("output_tokens".to_owned(), 0.into());
    }
    Value::Object(message)
}

fn expand_block(
    index: u32,
    block: &Value,
    part: Option<&Part>,
    call: Option<&ToolCall>,
    out: &mut Vec<Event>,
) -> Result<(), ExpandError> {
    let delta = |delta: Value| {
        named(&json!({"type": "content_block_delta", "index": index, "delta": delta}))
    };
    let start = |block: Value| {
        named(&json!({"type": "content_block_start", "index": index, "content_block": block}))
    };
    let opened = |emptied: &[(&str, Value)]| {
        let mut block = block.clone();
        for (name, empty) in emptied {
            if let Some(member) = block.get_mut(*name) {
                *member = empty.clone();
            }
        }
        start(block)
    };
    let seen = |pick: fn(&Part) -> &str| part.map_or("", pick);
    match text(block.get("type")) {
        "text" => {
            let rest = missing(text(block.get("text")), seen(|part| &part.text), index)?;
            if part.is_none() {
                out.push(opened(&[("text", json!("")), ("citations", json!([]))]));
                for citation in list(block.get("citations")) {
                    out.push(delta(
                        json!({"type": "citations_delta", "citation": citation}),
                    ));
                }
            }
            if !rest.is_empty() {
                out.push(delta(json!({"type": "text_delta", "text": rest})));
            }
        }
        "thinking" => {
            let whole = text(block.get("thinking"));
            let rest = missing(whole, seen(|part| &part.reasoning), index)?;
            if part.is_none() {
                out.push(opened(&[("thinking", json!("")), ("signature", json!(""))]));
            }
            if !rest.is_empty() {
                out.push(delta(json!({"type": "thinking_delta", "thinking": rest})));
            }
            let signature = text(block.get("signature"));
            if !signature.is_empty() && part.is_none_or(|part| !part.opaque) {
                out.push(delta(
                    json!({"type": "signature_delta", "signature": signature}),
                ));
            }
        }
        "tool_use" => {
            let input = match block.get("input") {
                Some(Value::Object(input)) if input.is_empty() => String::new(),
                Some(input) if !input.is_null() => input.to_string(),
                _ => String::new(),
            };
            let known = call.map_or("", |call| call.arguments.as_str());
            let rest = missing(&input, known, index)?;
            if part.is_none() {
                out.push(opened(&[("input", json!({}))]));
            }
            if !rest.is_empty() {
                out.push(delta(
                    json!({"type": "input_json_delta", "partial_json": rest}),
                ));
            }
        }
        _ if part.is_none() => out.push(start(block.clone())),
        _ => {}
    }
    if part.is_none_or(|part| !part.closed) {
        out.push(named(
            &json!({"type": "content_block_stop", "index": index}),
        ));
    }
    Ok(())
}
