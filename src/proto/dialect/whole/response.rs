//! A response of the Responses API as events.

use super::{ExpandError, Object, ResponseStatus, indexed, list, missing, named, text};
use crate::proto::model::{Answer, Part, ToolCall};
use crate::proto::sse::Event;
use serde_json::{Value, json};

pub(super) fn status(root: &Object) -> Option<ResponseStatus> {
    Some(match text(root.get("status")) {
        "queued" | "in_progress" => ResponseStatus::Running,
        "completed" => ResponseStatus::Completed,
        "incomplete" => ResponseStatus::Incomplete,
        "failed" => ResponseStatus::Failed,
        "cancelled" => ResponseStatus::Cancelled,
        _ => return None,
    })
}

pub(super) fn expand(root: &Object, seen: &Answer) -> Result<Vec<Event>, ExpandError> {
    let mut out = Vec::new();
    let choice = seen.choices.get(&0);
    if seen.response_id.is_none() && choice.is_none() {
        out.push(named(
            &json!({"type": "response.created", "response": created(root)}),
        ));
    }
    let items = list(root.get("output"));
    let known = choice.and_then(|choice| choice.parts.last_key_value());
    if let Some((last, _)) = known
        && usize::try_from(*last).is_ok_and(|last| last >= items.len())
    {
        return Err(ExpandError::Mismatch { part: *last });
    }
    let running = status(root) == Some(ResponseStatus::Running);
    for (index, value) in indexed(items) {
        let is_last = usize::try_from(index).is_ok_and(|i| i.saturating_add(1) == items.len());
        let unfinished = match text(value.get("status")) {
            "" => running && is_last,
            word => word == "in_progress",
        };
        let mut item = Item {
            index,
            value,
            part: choice.and_then(|choice| choice.parts.get(&index)),
            call: choice.and_then(|choice| choice.tool_calls.get(&index)),
            done: !unfinished,
            out: &mut out,
        };
        item.expand()?;
    }
    let terminal = match status(root) {
        Some(ResponseStatus::Completed) => "response.completed",
        Some(ResponseStatus::Incomplete) => "response.incomplete",
        Some(ResponseStatus::Failed) => "response.failed",
        Some(ResponseStatus::Running | ResponseStatus::Cancelled) | None => return Ok(out),
    };
    out.push(named(&json!({"type": terminal, "response": root})));
    Ok(out)
}

/// The response as it is at its start.
fn created(root: &Object) -> Value {
    let mut response = root.clone();
    for (name, value) in [
        ("status", json!("in_progress")),
        ("output", json!([])),
        ("usage", Value::Null),
        ("error", Value::Null),
        ("incomplete_details", Value::Null),
    ] {
        response.insert(name.to_owned(), value);
    }
    response.remove("output_text");
    Value::Object(response)
}

/// One output item, and what of it was seen.
struct Item<'a> {
    index: u32,
    value: &'a Value,
    part: Option<&'a Part>,
    call: Option<&'a ToolCall>,
    /// Whether the item is as it will stay.
    done: bool,
    out: &'a mut Vec<Event>,
}

impl Item<'_> {
    fn expand(&mut self) -> Result<(), ExpandError> {
        match text(self.value.get("type")) {
            "message" => {
                self.added(&[("content", json!([]))]);
                self.contents()?;
            }
            "reasoning" => {
                self.added(&[
                    ("summary", json!([])),
                    ("content", json!([])),
                    ("encrypted_content", Value::Null),
                ]);
                self.reasoning()?;
            }
            "function_call" => {
                self.added(&[("arguments", json!(""))]);
                self.arguments("arguments", "response.function_call_arguments")?;
            }
            "custom_tool_call" => {
                self.added(&[("input", json!(""))]);
                self.arguments("input", "response.custom_tool_call_input")?;
            }
            _ => self.added(&[]),
        }
        if self.done && self.part.is_none_or(|part| !part.closed) {
            self.push("response.output_item.done", json!({"item": self.value}));
        }
        Ok(())
    }

    /// The start of an item that never came, with the members that are streamed
    /// emptied.
    fn added(&mut self, emptied: &[(&str, Value)]) {
        if self.part.is_some() {
            return;
        }
        let mut item = self.value.clone();
        for (name, empty) in emptied {
            if let Some(member) = item.get_mut(*name) {
                *member = empty.clone();
            }
        }
        if let Some(status) = item.get_mut("status") {
            *status = json!("in_progress");
        }
        self.push("response.output_item.added", json!({"item": item}));
    }

    fn contents(&mut self) -> Result<(), ExpandError> {
        let mut seen_text = self.part.map_or("", |part| part.text.as_str());
        let mut seen_refusal = self.part.map_or("", |part| part.refusal.as_str());
        let value = self.value;
        for (piece, content) in indexed(list(value.get("content"))) {
            let (seen, member, event) = match text(content.get("type")) {
                "output_text" => (&mut seen_text, "text", "response.output_text"),
                "refusal" => (&mut seen_refusal, "refusal", "response.refusal"),
                _ => continue,
            };
            let whole = text(content.get(member));
            let rest = self.take(whole, seen)?;
            let nothing_seen = rest.len() == whole.len();
            if nothing_seen {
                let mut empty = content.clone();
                if let Some(member) = empty.get_mut(member) {
                    *member = json!("");
                }
                let added = json!({"content_index": piece, "part": empty});
                self.push("response.content_part.added", added);
            }
            if !rest.is_empty() {
                let delta = json!({"content_index": piece, "delta": rest, "logprobs": []});
                self.push(&format!("{event}.delta"), delta);
            }
            if self.done && (nothing_seen || !rest.is_empty()) {
                let mut done = json!({"content_index": piece, "logprobs": []});
                if let Some(done) = done.as_object_mut() {
                    done.insert(member.to_owned(), whole.into());
                }
                self.push(&format!("{event}.done"), done);
                let done = json!({"content_index": piece, "part": content});
                self.push("response.content_part.done", done);
            }
        }
        self.all_found(seen_text)?;
        self.all_found(seen_refusal)
    }

    fn reasoning(&mut self) -> Result<(), ExpandError> {
        let value = self.value;
        let seen = self.part.map_or("", |part| part.reasoning.as_str());
        let lists = [
            (
                "summary",
                "response.reasoning_summary_text",
                "summary_index",
            ),
            ("content", "response.reasoning_text", "content_index"),
        ];
        // Which of the two was seen is not known; the first that fits it was.
        let fitting = lists.iter().position(|(name, ..)| {
            let pieces = list(value.get(*name)).iter();
            let whole: String = pieces.map(|piece| text(piece.get("text"))).collect();
            !seen.is_empty() && whole.starts_with(seen)
        });
        if fitting.is_none() {
            self.all_found(seen)?;
        }
        for (position, (name, event, index_name)) in lists.iter().enumerate() {
            let mut seen = match fitting {
                Some(fitting) if fitting == position => seen,
                Some(_) => continue,
                None => "",
            };
            for (piece, content) in indexed(list(value.get(*name))) {
                let whole = text(content.get("text"));
                let rest = self.take(whole, &mut seen)?;
                if rest.is_empty() {
                    continue;
                }
                for (end, member, text) in [("delta", "delta", rest), ("done", "text", whole)] {
                    if end == "done" && !self.done {
                        continue;
                    }
                    let mut fields = Object::new();
                    fields.insert((*index_name).to_owned(), piece.into());
                    fields.insert(member.to_owned(), text.into());
                    self.push(&format!("{event}.{end}"), Value::Object(fields));
                }
            }
        }
        Ok(())
    }

    fn arguments(&mut self, member: &str, event: &str) -> Result<(), ExpandError> {
        let whole = text(self.value.get(member));
        let seen = self.call.map_or("", |call| call.arguments.as_str());
        let rest = missing(whole, seen, self.index)?;
        if !rest.is_empty() {
            self.push(&format!("{event}.delta"), json!({"delta": rest}));
        }
        if self.done && self.call.is_none_or(|call| !call.done) {
            let mut done = Object::new();
            done.insert(member.to_owned(), whole.into());
            self.push(&format!("{event}.done"), Value::Object(done));
        }
        Ok(())
    }

    /// The rest of a piece behind what was seen of it; `seen` keeps what belongs
    /// to the pieces after it.
    fn take<'t>(&self, whole: &'t str, seen: &mut &str) -> Result<&'t str, ExpandError> {
        if let Some(later) = seen.strip_prefix(whole) {
            // An empty piece that nothing was seen of is still all there is.
            *seen = later;
            return Ok("");
        }
        let rest = missing(whole, seen, self.index)?;
        *seen = "";
        Ok(rest)
    }

    fn all_found(&self, left: &str) -> Result<(), ExpandError> {
        if left.is_empty() {
            Ok(())
        } else {
            Err(ExpandError::Mismatch { part: self.index })
        }
    }

    fn push(&mut self, kind: &str, fields: Value) {
        let mut event = Object::new();
        event.insert("type".to_owned(), kind.into());
        event.insert("output_index".to_owned(), self.index.into());
        if let Some(id) = self.value.get("id")
            && !kind.starts_with("response.output_item.")
        {
            event.insert("item_id".to_owned(), id.clone());
        }
        if let Value::Object(fields) = fields {
            event.extend(fields);
        }
        self.out.push(named(&Value::Object(event)));
    }
}
