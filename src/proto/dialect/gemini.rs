//! Google Gemini, `streamGenerateContent` with `alt=sse`.
//!
//! Facts: docs/providers.md#gemini-generate.

use super::lenient::{List, Num, Obj, Str, Truthy};
use super::payload::{Payload, malformed, unexpected_list};
use super::{EventKind, Interpreter, Malformed, Reading, errors};
use crate::proto::model::{Answer, Completion, Delta, Dialect, StopReason, Usage};
use crate::proto::sse::Event;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

const DIALECT: Dialect = Dialect::GeminiGenerate;

/// Reads fragments of a `GenerateContentResponse`.
///
/// - There is no end marker. Completion is proven by a `finishReason` of every
///   candidate that was seen, and only the end of the body says that nothing
///   follows: chunks with text come behind a `STOP`, around the tools that the
///   provider runs and from servers that send empty ones first.
/// - A prompt that was blocked has no candidate: it is stopped by a filter.
/// - A function call comes whole in one part. One that comes in pieces, by paths
///   into its arguments, is output whose arguments are not known here.
#[derive(Debug, Default)]
pub(super) struct Gemini {
    id: String,
    model: String,
    candidates: BTreeMap<u32, Candidate>,
}

#[derive(Debug, Default)]
struct Candidate {
    finished: bool,
    calls: u32,
}

impl Gemini {
    /// An interpreter that goes on after `seen`.
    pub(super) fn after(seen: &Answer) -> Self {
        Self {
            id: seen.response_id.clone().unwrap_or_default(),
            model: seen.model.clone().unwrap_or_default(),
            candidates: seen
                .choices
                .iter()
                .map(|(index, choice)| {
                    let next = choice.tool_calls.keys().next_back();
                    let candidate = Candidate {
                        finished: choice.stop.is_some(),
                        calls: next.map_or(0, |last| last.saturating_add(1)),
                    };
                    (*index, candidate)
                })
                .collect(),
        }
    }

    fn chunk(&mut self, chunk: Chunk<'_>, deltas: &mut Vec<Delta>) -> Reading {
        if let Some(id) = chunk.response_id.said()
            && id != self.id
        {
            id.clone_into(&mut self.id);
            deltas.push(Delta::ResponseId(self.id.clone()));
        }
        if let Some(model) = chunk.model_version.said()
            && model != self.model
        {
            model.clone_into(&mut self.model);
            deltas.push(Delta::Model(self.model.clone()));
        }
        let is_chunk = matches!(chunk.candidates, List::Items(_))
            || chunk.usage_metadata.0.is_some()
            || chunk.prompt_feedback.0.is_some()
            || chunk.response_id.said().is_some();
        let before = deltas.len();
        for (position, candidate) in chunk.candidates.items().into_iter().enumerate() {
            let index = candidate
                .index
                .index()
                .or_else(|| u32::try_from(position).ok())
                .unwrap_or_default();
            self.candidates
                .entry(index)
                .or_default()
                .read(index, candidate, deltas);
        }
        let blocked = chunk
            .prompt_feedback
            .0
            .is_some_and(|feedback| feedback.block_reason.said().is_some());
        if blocked && self.candidates.is_empty() {
            self.candidates.entry(0).or_default().finished = true;
            deltas.push(Delta::Stop {
                choice: 0,
                reason: StopReason::ContentFilter,
            });
        }
        let has_output = deltas.iter().skip(before).any(Delta::is_output);
        let usage = chunk.usage_metadata.0.map(|usage| usage.usage());
        deltas.extend(usage.filter(|usage| !usage.is_empty()).map(Delta::Usage));
        Reading::of(if has_output {
            EventKind::Output
        } else if is_chunk {
            EventKind::Lifecycle
        } else {
            EventKind::Unknown
        })
    }
}

impl Interpreter for Gemini {
    fn read(&mut self, event: &Event, deltas: &mut Vec<Delta>) -> Result<Reading, Malformed> {
        let data = match Payload::of(event) {
            Payload::Empty => return Ok(Reading::of(EventKind::KeepAlive)),
            Payload::Noise => return Ok(Reading::of(EventKind::Noise)),
            Payload::Error(text) => return Ok(Reading::failed(errors::of_data(text))),
            // No marker of this dialect; some gateways add it all the same.
            Payload::Done => return Ok(Reading::of(EventKind::End)),
            Payload::List(data) => {
                return errors::in_band(&parse(data)?, &event.name)
                    .map(Reading::failed)
                    .ok_or_else(|| unexpected_list(DIALECT));
            }
            Payload::Object(data) => data,
        };
        match serde_json::from_str::<Chunk<'_>>(data) {
            Ok(chunk) if !chunk.error.0 && event.name != "error" => Ok(self.chunk(chunk, deltas)),
            // An error, or a key that occurs twice.
            Ok(_) | Err(_) => {
                let root = parse(data)?;
                if let Some(error) = errors::in_band(&root, &event.name) {
                    return Ok(Reading::failed(error));
                }
                let chunk =
                    Chunk::deserialize(&root).map_err(|error| malformed(DIALECT, &error))?;
                Ok(self.chunk(chunk, deltas))
            }
        }
    }

    fn completion(&self) -> Completion {
        let proven = !self.candidates.is_empty()
            && self.candidates.values().all(|candidate| candidate.finished);
        if proven {
            Completion::Proven
        } else {
            Completion::Open
        }
    }

    fn ends_with_its_body(&self) -> bool {
        true
    }
}

impl Candidate {
    fn read(&mut self, choice: u32, chunk: ChunkCandidate<'_>, deltas: &mut Vec<Delta>) {
        let before = deltas.len();
        let content = chunk.content.0.unwrap_or_default();
        for part in content.parts.items() {
            self.part(choice, &part, deltas);
        }
        if deltas.iter().skip(before).any(Delta::is_output) {
            // What was said of an end before is taken back by what follows it.
            self.finished = false;
        }
        let reason = match chunk.finish_reason.said() {
            None | Some("FINISH_REASON_UNSPECIFIED") => return,
            Some("STOP") if self.calls > 0 => StopReason::ToolCalls,
            Some("STOP") => StopReason::Stop,
            Some("MAX_TOKENS") => StopReason::Length,
            Some(
                "SAFETY"
                | "RECITATION"
                | "BLOCKLIST"
                | "PROHIBITED_CONTENT"
                | "SPII"
                | "IMAGE_SAFETY"
                | "IMAGE_PROHIBITED_CONTENT"
                | "IMAGE_RECITATION",
            ) => StopReason::ContentFilter,
            Some(other) => StopReason::Other(other.to_owned()),
        };
        self.finished = true;
        deltas.push(Delta::Stop { choice, reason });
    }

    fn part(&mut self, choice: u32, part: &Map<String, Value>, deltas: &mut Vec<Delta>) {
        if let Some(call) = part.get("functionCall").and_then(Value::as_object) {
            self.call(choice, call, deltas);
            return;
        }
        if let Some(text) = part.get("text").and_then(Value::as_str) {
            if text.is_empty() {
                return;
            }
            let text = text.to_owned();
            let part_number = 0;
            deltas.push(if part.get("thought") == Some(&Value::Bool(true)) {
                Delta::Reasoning {
                    choice,
                    part: part_number,
                    text,
                }
            } else {
                Delta::Text {
                    choice,
                    part: part_number,
                    text,
                }
            });
            return;
        }
        // An image, code that the provider runs, its result: the first member
        // that is not about thinking names it.
        let kind = part
            .keys()
            .find(|name| !matches!(name.as_str(), "thought" | "thoughtSignature"));
        if let Some(kind) = kind {
            deltas.push(Delta::Opaque {
                choice,
                part: 0,
                kind: kind.chars().take(64).collect(),
            });
        }
    }

    fn call(&mut self, choice: u32, call: &Map<String, Value>, deltas: &mut Vec<Delta>) {
        let text = |name: &str| {
            call.get(name)
                .and_then(Value::as_str)
                .filter(|text| !text.is_empty())
                .map(str::to_owned)
        };
        let in_pieces = call.contains_key("partialArgs")
            || call.get("willContinue") == Some(&Value::Bool(true));
        if in_pieces {
            deltas.push(Delta::ToolCallsAmbiguous { choice });
            self.calls = self.calls.max(1);
            return;
        }
        let index = self.calls;
        self.calls = self.calls.saturating_add(1);
        deltas.push(Delta::ToolCall {
            choice,
            index,
            id: text("id"),
            name: text("name"),
        });
        if let Some(arguments) = call.get("args").filter(|args| !args.is_null()) {
            deltas.push(Delta::ToolArguments {
                choice,
                index,
                fragment: arguments.to_string(),
            });
        }
        deltas.push(Delta::ToolCallDone { choice, index });
    }
}

fn parse(data: &str) -> Result<Value, Malformed> {
    serde_json::from_str(data).map_err(|error| malformed(DIALECT, &error))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Chunk<'a> {
    #[serde(borrow)]
    response_id: Str<'a>,
    #[serde(borrow)]
    model_version: Str<'a>,
    #[serde(borrow)]
    candidates: List<ChunkCandidate<'a>>,
    usage_metadata: Obj<Box<UsageMetadata>>,
    #[serde(borrow)]
    prompt_feedback: Obj<PromptFeedback<'a>>,
    error: Truthy,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ChunkCandidate<'a> {
    index: Num,
    content: Obj<Content>,
    #[serde(borrow)]
    finish_reason: Str<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Content {
    parts: List<Map<String, Value>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PromptFeedback<'a> {
    #[serde(borrow)]
    block_reason: Str<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct UsageMetadata {
    #[serde(rename = "promptTokenCount")]
    prompt: Num,
    #[serde(rename = "candidatesTokenCount")]
    candidates: Num,
    #[serde(rename = "thoughtsTokenCount")]
    thoughts: Num,
    #[serde(rename = "cachedContentTokenCount")]
    cached: Num,
}

impl UsageMetadata {
    /// As the crate counts: thinking is part of the answer here, and is counted
    /// beside it there.
    fn usage(&self) -> Usage {
        let thoughts = self.thoughts.0;
        let output = match (self.candidates.0, thoughts) {
            (None, None) => None,
            (answer, thoughts) => Some(answer.unwrap_or(0).saturating_add(thoughts.unwrap_or(0))),
        };
        Usage {
            input: self.prompt.0,
            output,
            cached_input: self.cached.0,
            cache_write: None,
            reasoning: thoughts,
        }
    }
}

/// The events that a stream of this whole answer would have had: the body may be
/// one response, or the list of fragments that comes without `alt=sse`.
pub(super) fn expand(root: &Value) -> Option<Vec<Event>> {
    let event = |value: &Value| Event::synthetic("message", value.to_string());
    match root {
        Value::Object(_) => Some(vec![event(root)]),
        Value::Array(fragments) if fragments.iter().all(Value::is_object) => {
            Some(fragments.iter().map(event).collect())
        }
        _ => None,
    }
}
