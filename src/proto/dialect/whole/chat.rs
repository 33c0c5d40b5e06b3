//! `chat.completion` as chunks.

use super::{ExpandError, Object, indexed, list, missing, text};
use crate::proto::model::{Answer, Choice};
use crate::proto::sse::Event;
use serde_json::{Value, json};

pub(super) fn expand(root: &Object, seen: &Answer) -> Result<Vec<Event>, ExpandError> {
    let mut base = root.clone();
    base.remove("usage");
    base.insert("object".to_owned(), "chat.completion.chunk".into());
    base.insert("choices".to_owned(), json!([]));
    let mut out = Chunks {
        base,
        events: Vec::new(),
    };
    let nothing = Choice::default();
    for (position, choice) in indexed(list(root.get("choices"))) {
        let index = choice
            .get("index")
            .and_then(Value::as_u64)
            .and_then(|index| u32::try_from(index).ok())
            .unwrap_or(position);
        let seen = seen.choices.get(&index);
        if seen.is_none() {
            out.push(index, &json!({"role": "assistant", "content": ""}), None);
        }
        out.message(index, choice, seen.unwrap_or(&nothing))?;
        let mut finish = json!({
            "index": index, "delta": {},
            "finish_reason": choice.get("finish_reason").cloned().unwrap_or_default(),
        });
        if let (Some(error), Some(finish)) = (choice.get("error"), finish.as_object_mut()) {
            finish.insert("error".to_owned(), error.clone());
        }
        out.choice(&finish);
    }
    if let Some(usage) = root.get("usage").filter(|usage| usage.is_object()) {
        let mut last = out.base.clone();
        last.insert("usage".to_owned(), usage.clone());
        out.events
            .push(Event::synthetic("message", Value::Object(last).to_string()));
    }
    out.events.push(Event::synthetic("message", "[DONE]"));
    Ok(out.events)
}

struct Chunks {
    base: Object,
    events: Vec<Event>,
}

impl Chunks {
    fn message(&mut self, index: u32, choice: &Value, seen: &Choice) -> Result<(), ExpandError> {
        let message = choice.get("message").unwrap_or(&Value::Null);
        for name in ["reasoning_content", "reasoning"] {
            let reasoning = text(message.get(name));
            if !reasoning.is_empty() {
                let rest = missing(reasoning, &seen.reasoning, 0)?;
                self.text(index, name, rest, None);
                break;
            }
        }
        match message.get("content") {
            Some(Value::String(content)) => {
                let rest = missing(content, &seen.text, 0)?;
                // Logprobs belong to the whole text, not to the rest of one.
                let logprobs = choice.get("logprobs").filter(|_| seen.text.is_empty());
                self.text(index, "content", rest, logprobs);
            }
            Some(content @ (Value::Array(_) | Value::Object(_))) => {
                self.push(index, &json!({"content": content}), None);
            }
            _ if !seen.text.is_empty() => return Err(ExpandError::Mismatch { part: 0 }),
            _ => {}
        }
        let refusal = missing(text(message.get("refusal")), &seen.refusal, 0)?;
        self.text(index, "refusal", refusal, None);
        for (position, call) in indexed(list(message.get("tool_calls"))) {
            self.tool_call(index, position, call, seen)?;
        }
        if let Some(call) = message.get("function_call").filter(|call| call.is_object())
            && seen.tool_calls.is_empty()
        {
            self.push(index, &json!({"function_call": call}), None);
        }
        Ok(())
    }

    fn tool_call(
        &mut self,
        index: u32,
        position: u32,
        call: &Value,
        seen: &Choice,
    ) -> Result<(), ExpandError> {
        let Some(known) = seen.tool_calls.get(&position) else {
            let mut call = call.clone();
            if let Some(call) = call.as_object_mut() {
                call.insert("index".to_owned(), position.into());
            }
            self.push(index, &json!({"tool_calls": [call]}), None);
            return Ok(());
        };
        let id = text(call.get("id"));
        if !known.id.is_empty() && !id.is_empty() && known.id != id {
            return Err(ExpandError::Mismatch { part: 0 });
        }
        let function = call.get("function");
        let arguments = text(function.and_then(|function| function.get("arguments")));
        let rest = missing(arguments, &known.arguments, 0)?;
        if !rest.is_empty() {
            let call = json!({"index": position, "function": {"arguments": rest}});
            self.push(index, &json!({"tool_calls": [call]}), None);
        }
        Ok(())
    }

    fn text(&mut self, index: u32, name: &str, text: &str, logprobs: Option<&Value>) {
        if !text.is_empty() {
            let mut delta = Object::new();
            delta.insert(name.to_owned(), text.into());
            self.push(index, &Value::Object(delta), logprobs);
        }
    }

    fn push(&mut self, index: u32, delta: &Value, logprobs: Option<&Value>) {
        self.choice(&json!({
            "index": index, "delta": delta, "finish_reason": null,
            "logprobs": logprobs.cloned().unwrap_or_default(),
        }));
    }

    fn choice(&mut self, choice: &Value) {
        let mut chunk = self.base.clone();
        chunk.insert("choices".to_owned(), json!([choice]));
        self.events.push(Event::synthetic(
            "message",
            Value::Object(chunk).to_string(),
        ));
    }
}
