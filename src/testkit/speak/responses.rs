//! OpenAI Responses: the one dialect with sequence numbers.

use super::{Asked, Beat, CREATED, vendor_note};
use crate::testkit::answer::{Answer, Ending, ToolCall, interleaved};
use crate::testkit::frame::{Frame, FrameKind, with};
use serde_json::{Value, json};

/// Frames at the front of a background response during which its status is
/// `queued`: `response.created` and `response.queued`.
pub(crate) const QUEUED_FRAMES: usize = 2;

pub(crate) fn frames(asked: &Asked, answer: &Answer) -> Vec<Frame> {
    let mut out = Out {
        frames: Vec::new(),
        sequence: 0,
        keepalive: Beat::new(answer.keepalive_every),
        note: Beat::new(answer.vendor_note_every),
    };
    if asked.background {
        let queued = snapshot(asked, "queued");
        out.state(json!({"type": "response.created", "response": queued}));
        out.state(json!({"type": "response.queued", "response": queued}));
    } else {
        let response = snapshot(asked, "in_progress");
        out.state(json!({"type": "response.created", "response": response}));
    }
    let response = snapshot(asked, "in_progress");
    out.state(json!({"type": "response.in_progress", "response": response}));

    let mut position = 0_usize;
    if !answer.reasoning.is_empty() {
        out.reasoning(asked, answer, position);
        position = position.saturating_add(1);
    }
    if has_message(answer) {
        out.message(asked, answer, position);
        position = position.saturating_add(1);
    }
    out.calls(asked, &answer.tools, position);

    let kind = match answer.ending {
        Ending::Stop => "response.completed",
        Ending::Length | Ending::ContentFilter => "response.incomplete",
    };
    let response = finished(asked, answer);
    out.push(
        FrameKind::Proof,
        json!({"type": kind, "response": response}),
    );
    out.frames
}

/// The undocumented `keepalive` event. It takes a sequence number.
pub(crate) fn keepalive(sequence: u64) -> Frame {
    Frame {
        sequence: Some(sequence),
        ..Frame::named(
            FrameKind::KeepAlive,
            &json!({"type": "keepalive", "sequence_number": sequence}),
        )
    }
}

/// The response's id.
pub(crate) fn id(asked: &Asked) -> String {
    format!("resp_{}", asked.number)
}

/// The response object while there is nothing in it.
pub(crate) fn snapshot(asked: &Asked, status: &str) -> Value {
    json!({
        "id": id(asked),
        "object": "response",
        "created_at": CREATED,
        "status": status,
        "background": asked.background,
        "model": asked.model,
        "output": [],
        "error": null,
        "incomplete_details": null,
        "usage": null,
    })
}

/// The response object at the end of the answer.
pub(crate) fn finished(asked: &Asked, answer: &Answer) -> Value {
    let (status, reason) = match answer.ending {
        Ending::Stop => ("completed", None),
        Ending::Length => ("incomplete", Some("max_output_tokens")),
        Ending::ContentFilter => ("incomplete", Some("content_filter")),
    };
    let mut output = Vec::new();
    if !answer.reasoning.is_empty() {
        output.push(reasoning_item(asked, Some(&answer.reasoning.text())));
    }
    if has_message(answer) {
        output.push(message_item(asked, status, &parts(answer)));
    }
    for (index, tool) in answer.tools.iter().enumerate() {
        output.push(call_item(asked, index, tool, status, &tool.arguments));
    }
    let usage = json!({
        "input_tokens": answer.input_tokens,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": answer.output_tokens(),
        "output_tokens_details": {"reasoning_tokens": answer.reasoning_tokens()},
        "total_tokens": answer.total_tokens(),
    });
    let response = snapshot(asked, status);
    let response = with(response, "output", Value::Array(output));
    let response = with(response, "usage", usage);
    let details = reason.map(|reason| json!({"reason": reason}));
    with(response, "incomplete_details", json!(details))
}

struct Out {
    frames: Vec<Frame>,
    sequence: u64,
    keepalive: Beat,
    note: Beat,
}

impl Out {
    fn push(&mut self, kind: FrameKind, payload: Value) {
        let payload = with(payload, "sequence_number", json!(self.sequence));
        self.frames.push(Frame {
            sequence: Some(self.sequence),
            ..Frame::named(kind, &payload)
        });
        self.sequence = self.sequence.saturating_add(1);
    }

    fn state(&mut self, payload: Value) {
        self.push(FrameKind::Lifecycle, payload);
    }

    fn output(&mut self, payload: Value) {
        self.push(FrameKind::Output, payload);
        if self.keepalive.tick() {
            self.frames.push(keepalive(self.sequence));
            self.sequence = self.sequence.saturating_add(1);
        }
        if self.note.tick() {
            self.frames
                .push(Frame::named(FrameKind::KeepAlive, &vendor_note()));
        }
    }

    fn reasoning(&mut self, asked: &Asked, answer: &Answer, at: usize) {
        let item = format!("rs_{}", asked.number);
        let text = answer.reasoning.text();
        self.state(json!({
            "type": "response.output_item.added",
            "output_index": at,
            "item": reasoning_item(asked, None),
        }));
        self.state(json!({
            "type": "response.reasoning_summary_part.added",
            "item_id": item, "output_index": at, "summary_index": 0,
            "part": {"type": "summary_text", "text": ""},
        }));
        for word in answer.reasoning.deltas() {
            self.output(json!({
                "type": "response.reasoning_summary_text.delta",
                "item_id": item, "output_index": at, "summary_index": 0,
                "delta": word,
            }));
        }
        self.state(json!({
            "type": "response.reasoning_summary_text.done",
            "item_id": item, "output_index": at, "summary_index": 0,
            "text": text,
        }));
        self.state(json!({
            "type": "response.reasoning_summary_part.done",
            "item_id": item, "output_index": at, "summary_index": 0,
            "part": {"type": "summary_text", "text": text},
        }));
        self.state(json!({
            "type": "response.output_item.done",
            "output_index": at,
            "item": reasoning_item(asked, Some(&text)),
        }));
    }

    fn message(&mut self, asked: &Asked, answer: &Answer, at: usize) {
        let item = format!("item_{}", asked.number);
        self.state(json!({
            "type": "response.output_item.added",
            "output_index": at,
            "item": message_item(asked, "in_progress", &[]),
        }));
        let mut content = 0_usize;
        if !answer.text.is_empty() {
            self.text_part(&item, at, content, answer);
            content = content.saturating_add(1);
        }
        if answer.refusal.is_some() {
            self.refusal_part(&item, at, content, answer);
        }
        let status = match answer.ending {
            Ending::Stop => "completed",
            Ending::Length | Ending::ContentFilter => "incomplete",
        };
        self.state(json!({
            "type": "response.output_item.done",
            "output_index": at,
            "item": message_item(asked, status, &parts(answer)),
        }));
    }

    fn text_part(&mut self, item: &str, at: usize, content: usize, answer: &Answer) {
        let text = answer.text.text();
        self.state(json!({
            "type": "response.content_part.added",
            "item_id": item, "output_index": at, "content_index": content,
            "part": text_part(""),
        }));
        for word in answer.text.deltas() {
            self.output(json!({
                "type": "response.output_text.delta",
                "item_id": item, "output_index": at, "content_index": content,
                "delta": word, "logprobs": [],
            }));
        }
        self.state(json!({
            "type": "response.output_text.done",
            "item_id": item, "output_index": at, "content_index": content,
            "text": text, "logprobs": [],
        }));
        self.state(json!({
            "type": "response.content_part.done",
            "item_id": item, "output_index": at, "content_index": content,
            "part": text_part(&text),
        }));
    }

    fn refusal_part(&mut self, item: &str, at: usize, content: usize, answer: &Answer) {
        let text = answer.refusal_text().unwrap_or_default();
        self.state(json!({
            "type": "response.content_part.added",
            "item_id": item, "output_index": at, "content_index": content,
            "part": {"type": "refusal", "refusal": ""},
        }));
        for word in answer.refusal_words() {
            self.output(json!({
                "type": "response.refusal.delta",
                "item_id": item, "output_index": at, "content_index": content,
                "delta": word,
            }));
        }
        self.state(json!({
            "type": "response.refusal.done",
            "item_id": item, "output_index": at, "content_index": content,
            "refusal": text,
        }));
        self.state(json!({
            "type": "response.content_part.done",
            "item_id": item, "output_index": at, "content_index": content,
            "part": {"type": "refusal", "refusal": text},
        }));
    }

    fn calls(&mut self, asked: &Asked, tools: &[ToolCall], first: usize) {
        for (index, tool) in tools.iter().enumerate() {
            self.state(json!({
                "type": "response.output_item.added",
                "output_index": first.saturating_add(index),
                "item": call_item(asked, index, tool, "in_progress", ""),
            }));
        }
        for (index, piece) in interleaved(tools) {
            self.output(json!({
                "type": "response.function_call_arguments.delta",
                "item_id": call_item_id(asked, index),
                "output_index": first.saturating_add(index),
                "delta": piece,
            }));
        }
        for (index, tool) in tools.iter().enumerate() {
            self.state(json!({
                "type": "response.function_call_arguments.done",
                "item_id": call_item_id(asked, index),
                "output_index": first.saturating_add(index),
                "name": tool.name,
                "arguments": tool.arguments,
            }));
            self.state(json!({
                "type": "response.output_item.done",
                "output_index": first.saturating_add(index),
                "item": call_item(asked, index, tool, "completed", &tool.arguments),
            }));
        }
    }
}

fn has_message(answer: &Answer) -> bool {
    !answer.text.is_empty() || answer.refusal.is_some()
}

fn text_part(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
}

fn parts(answer: &Answer) -> Vec<Value> {
    let text = (!answer.text.is_empty()).then(|| text_part(&answer.text.text()));
    let refusal = answer
        .refusal_text()
        .map(|text| json!({"type": "refusal", "refusal": text}));
    text.into_iter().chain(refusal).collect()
}

fn reasoning_item(asked: &Asked, summary: Option<&str>) -> Value {
    let summary: Vec<Value> = summary
        .map(|text| json!({"type": "summary_text", "text": text}))
        .into_iter()
        .collect();
    json!({"id": format!("rs_{}", asked.number), "type": "reasoning", "summary": summary})
}

fn message_item(asked: &Asked, status: &str, content: &[Value]) -> Value {
    json!({
        "id": format!("item_{}", asked.number),
        "type": "message",
        "status": status,
        "role": "assistant",
        "content": content,
    })
}

fn call_item_id(asked: &Asked, index: usize) -> String {
    format!("fc_{}_{}", asked.number, index.saturating_add(1))
}

fn call_item(asked: &Asked, index: usize, tool: &ToolCall, status: &str, arguments: &str) -> Value {
    json!({
        "id": call_item_id(asked, index),
        "type": "function_call",
        "status": status,
        "call_id": format!("call_{}_{}", asked.number, index.saturating_add(1)),
        "name": tool.name,
        "arguments": arguments,
    })
}
