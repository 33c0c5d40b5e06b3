//! Google Gemini, `streamGenerateContent`.

use super::{Asked, Beat};
use crate::testkit::answer::{Answer, Ending};
use crate::testkit::frame::{Frame, FrameKind};
use serde_json::{Map, Value, json};

/// One fragment for each word; a call comes whole. The last fragment has the
/// finish reason and the usage, and there is no end marker.
pub(crate) fn frames(asked: &Asked, answer: &Answer) -> Vec<Frame> {
    let mut frames = Vec::new();
    let mut keepalive = Beat::new(answer.keepalive_every);
    let mut note = Beat::new(answer.vendor_note_every);
    for part in parts(asked, answer, false) {
        let chunk = fragment(asked, &json!([part]), None);
        frames.push(Frame::data(FrameKind::Output, &Value::Object(chunk)));
        if keepalive.tick() {
            frames.push(super::chat::keepalive());
        }
        if note.tick() {
            frames.push(Frame::data(FrameKind::KeepAlive, &super::vendor_note()));
        }
    }
    let mut last = fragment(asked, &json!([]), Some(finish_reason(answer)));
    last.insert("usageMetadata".into(), usage(answer));
    frames.push(Frame::data(FrameKind::Proof, &Value::Object(last)));
    frames
}

pub(crate) fn whole(asked: &Asked, answer: &Answer) -> Value {
    let parts = Value::Array(parts(asked, answer, true));
    let mut body = fragment(asked, &parts, Some(finish_reason(answer)));
    body.insert("usageMetadata".into(), usage(answer));
    Value::Object(body)
}

/// The parts of the answer: word by word, or each text in one piece.
fn parts(asked: &Asked, answer: &Answer, whole: bool) -> Vec<Value> {
    let texts = |words: &[String]| -> Vec<String> {
        if whole && !words.is_empty() {
            vec![words.concat()]
        } else {
            words.to_vec()
        }
    };
    let mut parts = Vec::new();
    for text in texts(answer.reasoning.deltas()) {
        parts.push(json!({"text": text, "thought": true}));
    }
    let said: Vec<String> = answer
        .text
        .deltas()
        .iter()
        .chain(answer.refusal_words())
        .cloned()
        .collect();
    for text in texts(&said) {
        parts.push(json!({"text": text}));
    }
    for (index, tool) in answer.tools.iter().enumerate() {
        let arguments: Value = serde_json::from_str(&tool.arguments).unwrap_or_default();
        parts.push(json!({"functionCall": {
            "id": format!("call_{}_{}", asked.number, index.saturating_add(1)),
            "name": tool.name,
            "args": arguments,
        }}));
    }
    parts
}

fn fragment(asked: &Asked, parts: &Value, finish_reason: Option<&str>) -> Map<String, Value> {
    let mut candidate = Map::new();
    candidate.insert("index".into(), json!(0));
    candidate.insert("content".into(), json!({"role": "model", "parts": parts}));
    if let Some(reason) = finish_reason {
        candidate.insert("finishReason".into(), json!(reason));
    }
    let mut chunk = Map::new();
    chunk.insert("candidates".into(), json!([candidate]));
    chunk.insert("modelVersion".into(), json!(asked.model));
    chunk.insert("responseId".into(), json!(format!("gem-{}", asked.number)));
    chunk
}

fn finish_reason(answer: &Answer) -> &'static str {
    match answer.ending {
        Ending::Length => "MAX_TOKENS",
        Ending::ContentFilter => "SAFETY",
        Ending::Stop if answer.refusal_text().is_some() => "SAFETY",
        Ending::Stop => "STOP",
    }
}

fn usage(answer: &Answer) -> Value {
    let thoughts = answer.reasoning_tokens();
    json!({
        "promptTokenCount": answer.input_tokens,
        "candidatesTokenCount": answer.output_tokens().saturating_sub(thoughts),
        "thoughtsTokenCount": thoughts,
        "totalTokenCount": answer.total_tokens(),
    })
}
