//! Anthropic Messages.

use super::{Asked, Beat};
use crate::testkit::answer::{Answer, Ending};
use crate::testkit::frame::{Frame, FrameKind, with};
use serde_json::{Value, json};

pub(crate) fn frames(asked: &Asked, answer: &Answer) -> Vec<Frame> {
    let mut out = Out {
        frames: Vec::new(),
        block: 0,
        keepalive: Beat::new(answer.keepalive_every),
        note: Beat::new(answer.vendor_note_every),
    };
    let message = envelope(asked, &[]);
    // The figure at the start is a placeholder; the last one counts.
    let usage = json!({"input_tokens": answer.input_tokens, "output_tokens": 1});
    let message = with(message, "usage", usage);
    out.state(&json!({"type": "message_start", "message": message}));
    if !answer.reasoning.is_empty() {
        out.open(&json!({"type": "thinking", "thinking": "", "signature": ""}));
        for word in answer.reasoning.deltas() {
            out.delta(&json!({"type": "thinking_delta", "thinking": word}));
        }
        // The signature comes last: an interrupted block has none.
        out.delta(&json!({"type": "signature_delta", "signature": SIGNATURE}));
        out.close();
    }
    if !answer.text.is_empty() || !answer.refusal_words().is_empty() {
        out.open(&json!({"type": "text", "text": ""}));
        for word in answer.text.deltas().iter().chain(answer.refusal_words()) {
            out.delta(&json!({"type": "text_delta", "text": word}));
        }
        out.close();
    }
    for (index, tool) in answer.tools.iter().enumerate() {
        out.open(&json!({
            "type": "tool_use",
            "id": call_id(asked, index),
            "name": tool.name,
            "input": {},
        }));
        // The first partial may be empty.
        out.delta(&json!({"type": "input_json_delta", "partial_json": ""}));
        for piece in tool.fragments() {
            out.delta(&json!({"type": "input_json_delta", "partial_json": piece}));
        }
        out.close();
    }
    out.frames.push(Frame::named(
        FrameKind::Proof,
        &json!({
            "type": "message_delta",
            "delta": stop(answer),
            "usage": {"output_tokens": answer.output_tokens()},
        }),
    ));
    out.frames.push(Frame::named(
        FrameKind::Marker,
        &json!({"type": "message_stop"}),
    ));
    out.frames
}

pub(crate) fn keepalive() -> Frame {
    Frame::named(FrameKind::KeepAlive, &json!({"type": "ping"}))
}

pub(crate) fn whole(asked: &Asked, answer: &Answer) -> Value {
    let mut content = Vec::new();
    if !answer.reasoning.is_empty() {
        content.push(json!({
            "type": "thinking",
            "thinking": answer.reasoning.text(),
            "signature": SIGNATURE,
        }));
    }
    let text = answer.text.text() + &answer.refusal_text().unwrap_or_default();
    if !text.is_empty() {
        content.push(json!({"type": "text", "text": text}));
    }
    for (index, tool) in answer.tools.iter().enumerate() {
        let input: Value = serde_json::from_str(&tool.arguments).unwrap_or_default();
        content.push(json!({
            "type": "tool_use",
            "id": call_id(asked, index),
            "name": tool.name,
            "input": input,
        }));
    }
    let mut message = envelope(asked, &content);
    if let (Some(message), Value::Object(stop)) = (message.as_object_mut(), stop(answer)) {
        message.extend(stop);
    }
    let usage = json!({
        "input_tokens": answer.input_tokens,
        "output_tokens": answer.output_tokens(),
    });
    with(message, "usage", usage)
}

const SIGNATURE: &str = "c2lnbmF0dXJl";

struct Out {
    frames: Vec<Frame>,
    block: usize,
    keepalive: Beat,
    note: Beat,
}

impl Out {
    fn state(&mut self, payload: &Value) {
        self.frames
            .push(Frame::named(FrameKind::Lifecycle, payload));
    }

    fn open(&mut self, content_block: &Value) {
        self.state(&json!({
            "type": "content_block_start",
            "index": self.block,
            "content_block": content_block,
        }));
    }

    fn delta(&mut self, delta: &Value) {
        self.frames.push(Frame::named(
            FrameKind::Output,
            &json!({"type": "content_block_delta", "index": self.block, "delta": delta}),
        ));
        if self.keepalive.tick() {
            self.frames.push(keepalive());
        }
        if self.note.tick() {
            self.frames.push(Frame::named(
                FrameKind::KeepAlive,
                &json!({"type": "vendor_note", "note": "x"}),
            ));
        }
    }

    fn close(&mut self) {
        self.state(&json!({"type": "content_block_stop", "index": self.block}));
        self.block = self.block.saturating_add(1);
    }
}

fn envelope(asked: &Asked, content: &[Value]) -> Value {
    json!({
        "id": format!("msg_{}", asked.number),
        "type": "message",
        "role": "assistant",
        "model": asked.model,
        "content": content,
        "stop_reason": null,
        "stop_sequence": null,
    })
}

fn call_id(asked: &Asked, index: usize) -> String {
    format!("toolu_{}_{}", asked.number, index.saturating_add(1))
}

fn stop(answer: &Answer) -> Value {
    let refused = || {
        json!({
            "stop_reason": "refusal",
            "stop_sequence": null,
            "stop_details": {
                "type": "refusal",
                "category": "cyber",
                "explanation": "declined by the test kit",
            },
        })
    };
    let reason = match answer.ending {
        Ending::ContentFilter => return refused(),
        Ending::Stop if answer.refusal.is_some() => return refused(),
        Ending::Length => "max_tokens",
        Ending::Stop if answer.tools.is_empty() => "end_turn",
        Ending::Stop => "tool_use",
    };
    json!({"stop_reason": reason, "stop_sequence": null})
}
