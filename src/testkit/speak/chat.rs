//! OpenAI Chat Completions.

use super::{Asked, Beat, CREATED};
use crate::testkit::answer::{Answer, Ending, interleaved};
use crate::testkit::frame::{Frame, FrameKind, event};
use serde_json::{Map, Value, json};

pub(crate) fn frames(asked: &Asked, answer: &Answer) -> Vec<Frame> {
    let mut out = Out {
        asked,
        frames: Vec::new(),
        keepalive: Beat::new(answer.keepalive_every),
        note: Beat::new(answer.vendor_note_every),
    };
    out.state(&json!({"role": "assistant", "content": ""}));
    for word in answer.reasoning.deltas() {
        out.output(&json!({"reasoning_content": word}));
    }
    for word in answer.text.deltas() {
        out.output(&json!({"content": word}));
    }
    for word in answer.refusal_words() {
        out.output(&json!({"refusal": word}));
    }
    for (index, tool) in answer.tools.iter().enumerate() {
        out.output(&json!({"tool_calls": [{
            "index": index,
            "id": call_id(asked, index),
            "type": "function",
            "function": {"name": tool.name, "arguments": ""},
        }]}));
    }
    for (index, piece) in interleaved(&answer.tools) {
        out.output(&json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}));
    }
    out.chunk(FrameKind::Proof, &json!({}), Some(finish_reason(answer)));
    if asked.include_usage {
        let mut chunk = envelope(asked, "chat.completion.chunk");
        chunk.insert("choices".into(), json!([]));
        chunk.insert("usage".into(), usage(answer));
        out.frames
            .push(Frame::data(FrameKind::Proof, &Value::Object(chunk)));
    }
    out.frames.push(done());
    out.frames
}

/// `data: [DONE]`.
pub(crate) fn done() -> Frame {
    Frame::new(FrameKind::Marker, event(None, "[DONE]"))
}

/// A comment: the one sign of life that an unnamed stream has.
pub(crate) fn keepalive() -> Frame {
    Frame::new(FrameKind::KeepAlive, ": keep-alive\n\n".into())
}

pub(crate) fn whole(asked: &Asked, answer: &Answer) -> Value {
    let mut message = Map::new();
    message.insert("role".into(), json!("assistant"));
    let text = (!answer.text.is_empty()).then(|| answer.text.text());
    message.insert("content".into(), json!(text));
    message.insert("refusal".into(), json!(answer.refusal_text()));
    if !answer.reasoning.is_empty() {
        message.insert("reasoning_content".into(), json!(answer.reasoning.text()));
    }
    if !answer.tools.is_empty() {
        let calls: Vec<Value> = answer
            .tools
            .iter()
            .enumerate()
            .map(|(index, tool)| {
                json!({
                    "id": call_id(asked, index),
                    "type": "function",
                    "function": {"name": tool.name, "arguments": tool.arguments},
                })
            })
            .collect();
        message.insert("tool_calls".into(), json!(calls));
    }
    let mut body = envelope(asked, "chat.completion");
    body.insert(
        "choices".into(),
        json!([{
            "index": 0,
            "message": message,
            "logprobs": null,
            "finish_reason": finish_reason(answer),
        }]),
    );
    body.insert("usage".into(), usage(answer));
    Value::Object(body)
}

struct Out<'a> {
    asked: &'a Asked,
    frames: Vec<Frame>,
    keepalive: Beat,
    note: Beat,
}

impl Out<'_> {
    fn state(&mut self, delta: &Value) {
        self.chunk(FrameKind::Lifecycle, delta, None);
    }

    fn output(&mut self, delta: &Value) {
        self.chunk(FrameKind::Output, delta, None);
        if self.keepalive.tick() {
            self.frames.push(keepalive());
        }
        if self.note.tick() {
            // A gateway's heartbeat chunk: no choices at all.
            let mut chunk = envelope(self.asked, "chat.completion.chunk");
            chunk.insert("choices".into(), Value::Null);
            self.frames
                .push(Frame::data(FrameKind::KeepAlive, &Value::Object(chunk)));
        }
    }

    fn chunk(&mut self, kind: FrameKind, delta: &Value, finish_reason: Option<&str>) {
        let mut chunk = envelope(self.asked, "chat.completion.chunk");
        chunk.insert(
            "choices".into(),
            json!([{
                "index": 0,
                "delta": delta,
                "logprobs": null,
                "finish_reason": finish_reason,
            }]),
        );
        if self.asked.include_usage {
            chunk.insert("usage".into(), Value::Null);
        }
        self.frames.push(Frame::data(kind, &Value::Object(chunk)));
    }
}

fn envelope(asked: &Asked, object: &str) -> Map<String, Value> {
    let mut map = Map::new();
    map.insert("id".into(), json!(format!("chatcmpl-{}", asked.number)));
    map.insert("object".into(), json!(object));
    map.insert("created".into(), json!(CREATED));
    map.insert("model".into(), json!(asked.model));
    map
}

fn call_id(asked: &Asked, index: usize) -> String {
    format!("call_{}_{}", asked.number, index.saturating_add(1))
}

fn finish_reason(answer: &Answer) -> &'static str {
    match answer.ending {
        Ending::Length => "length",
        Ending::ContentFilter => "content_filter",
        Ending::Stop if answer.tools.is_empty() => "stop",
        Ending::Stop => "tool_calls",
    }
}

fn usage(answer: &Answer) -> Value {
    json!({
        "prompt_tokens": answer.input_tokens,
        "completion_tokens": answer.output_tokens(),
        "total_tokens": answer.total_tokens(),
        "completion_tokens_details": {"reasoning_tokens": answer.reasoning_tokens()},
    })
}
