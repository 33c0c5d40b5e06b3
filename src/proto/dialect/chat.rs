//! OpenAI Chat Completions, and the many servers that speak it.
//!
//! Facts: docs/providers.md#openai-chat, docs/providers.md#compatible and
//! docs/providers.md#rules.

use super::head::Head;
use super::lenient::{List, Num, Obj, Str, TextOr, Truthy};
use super::payload::{Payload, TokenUsage, malformed, unexpected_list};
use super::tool_router::ToolRouter;
use super::{EventKind, Interpreter, Malformed, Reading, errors};
use crate::proto::model::{Answer, Completion, Delta, Dialect, ProviderError, StopReason};
use crate::proto::sse::Event;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

const DIALECT: Dialect = Dialect::OpenAiChat;

/// Reads `chat.completion.chunk` events.
///
/// - A chunk's delta is read before its finish reason.
/// - An empty finish reason is none. `error`, `abort` and
///   `insufficient_system_resource` are errors, never finishes.
/// - A chunk that carries an error yields that error and its usage, but no
///   output: it is not delivered, so what it says must not count as delivered.
/// - Text under `delta.refusal` that ends with `stop`, without any answer text,
///   is [`StopReason::Refusal`]: the provider has no finish reason for it. Where
///   answer text came as well, the reason stays what the provider said, and the
///   refusal is kept beside the text.
/// - Completion is proven when every candidate that was seen has a finish
///   reason. How many were asked for (`n`) is not known here, so a candidate that
///   never appeared is not missed.
#[derive(Debug, Default)]
pub(super) struct Chat {
    id: String,
    model: String,
    choices: BTreeMap<u32, ChoiceState>,
    head: Head,
    done: bool,
    failed: bool,
}

#[derive(Debug, Default)]
struct ChoiceState {
    finished: bool,
    has_text: bool,
    has_refusal: bool,
    tools: ToolRouter,
}

impl Chat {
    /// An interpreter that goes on after `seen`.
    pub(super) fn after(seen: &Answer) -> Self {
        Self {
            id: seen.response_id.clone().unwrap_or_default(),
            model: seen.model.clone().unwrap_or_default(),
            choices: seen
                .choices
                .iter()
                .map(|(index, choice)| {
                    let state = ChoiceState {
                        finished: choice.stop.is_some(),
                        has_text: !choice.text.is_empty(),
                        has_refusal: !choice.refusal.is_empty(),
                        tools: ToolRouter::after(&choice.tool_calls),
                    };
                    (*index, state)
                })
                .collect(),
            ..Self::default()
        }
    }

    /// Reads a chunk whose head is known; `None` when it has to be read whole.
    fn behind_head(
        &mut self,
        data: &str,
        event: &Event,
        deltas: &mut Vec<Delta>,
    ) -> Option<Reading> {
        let rest = self.head.strip(data)?;
        let reading = match serde_json::from_str::<Chunk<'_>>(&rest) {
            Ok(chunk) if !chunk.may_be_error(event) => Some(self.chunk(chunk, event, deltas)),
            Ok(_) | Err(_) => None,
        };
        self.head.give_back(rest);
        reading
    }

    fn chunk(&mut self, chunk: Chunk<'_>, event: &Event, deltas: &mut Vec<Delta>) -> Reading {
        if let Some(id) = chunk.id.said()
            && id != self.id
        {
            id.clone_into(&mut self.id);
            deltas.push(Delta::ResponseId(self.id.clone()));
        }
        if let Some(model) = chunk.model.said()
            && model != self.model
        {
            model.clone_into(&mut self.model);
            deltas.push(Delta::Model(self.model.clone()));
        }
        let groq_usage = chunk.x_groq.0.and_then(|groq| groq.usage.0);
        let usage = chunk.usage.0.or(groq_usage).map(|usage| usage.usage());
        let usage = usage.filter(|usage| !usage.is_empty());

        let is_chunk = usage.is_some()
            || matches!(chunk.choices, List::Items(_))
            || chunk.object.said() == Some("chat.completion.chunk");
        let is_alive = matches!(chunk.choices, List::Null)
            || matches!(chunk.kind.said(), Some("ping" | "keepalive"))
            || matches!(event.name.as_str(), "ping" | "keepalive");

        let before = deltas.len();
        for (position, choice) in chunk.choices.items().into_iter().enumerate() {
            // A server that leaves the index out sends its candidates in order.
            let index = choice
                .index
                .index()
                .or_else(|| u32::try_from(position).ok())
                .unwrap_or_default();
            self.choices
                .entry(index)
                .or_default()
                .read(index, choice, deltas);
        }
        let has_output = deltas.iter().skip(before).any(Delta::is_output);
        let kind = if has_output {
            EventKind::Output
        } else if usage.is_none() && is_alive {
            EventKind::KeepAlive
        } else if is_chunk {
            EventKind::Lifecycle
        } else {
            EventKind::Unknown
        };
        deltas.extend(usage.map(Delta::Usage));
        Reading::of(kind)
    }

    /// Reads an error, and the usage beside it: a broken answer is billed too.
    fn failure(&mut self, error: ProviderError, root: &Value, deltas: &mut Vec<Delta>) -> Reading {
        self.failed = true;
        let usage = root
            .get("usage")
            .or_else(|| root.get("x_groq").and_then(|groq| groq.get("usage")))
            .and_then(|usage| Obj::<TokenUsage>::deserialize(usage).ok())
            .and_then(|usage| usage.0)
            .map(|usage| usage.usage())
            .filter(|usage| !usage.is_empty());
        deltas.extend(usage.map(Delta::Usage));
        Reading::failed(error)
    }
}

impl Interpreter for Chat {
    fn read(&mut self, event: &Event, deltas: &mut Vec<Delta>) -> Result<Reading, Malformed> {
        let data = match Payload::of(event) {
            Payload::Empty => return Ok(Reading::of(EventKind::KeepAlive)),
            Payload::Noise => return Ok(Reading::of(EventKind::Noise)),
            Payload::Error(text) => {
                let error = errors::of_data(text);
                return Ok(self.failure(error, &Value::Null, deltas));
            }
            Payload::Done => {
                self.done = true;
                return Ok(Reading::of(EventKind::End));
            }
            Payload::List(data) => {
                let root = parse(data)?;
                return errors::in_band(&root, &event.name)
                    .map(|error| self.failure(error, &root, deltas))
                    .ok_or_else(|| unexpected_list(DIALECT));
            }
            Payload::Object(data) => data,
        };
        if let Some(reading) = self.behind_head(data, event, deltas) {
            return Ok(reading);
        }
        match serde_json::from_str::<Chunk<'_>>(data) {
            Ok(chunk) if !chunk.may_be_error(event) => {
                let reading = self.chunk(chunk, event, deltas);
                self.head.learn(data, Chunk::is_plain_head);
                Ok(reading)
            }
            // The slow path: an error, or a key that occurs twice.
            Ok(_) | Err(_) => {
                let root = parse(data)?;
                if let Some(error) = errors::in_band(&root, &event.name) {
                    return Ok(self.failure(error, &root, deltas));
                }
                let chunk =
                    Chunk::deserialize(&root).map_err(|error| malformed(DIALECT, &error))?;
                Ok(self.chunk(chunk, event, deltas))
            }
        }
    }

    fn completion(&self) -> Completion {
        let proven =
            !self.choices.is_empty() && self.choices.values().all(|choice| choice.finished);
        if proven {
            Completion::Proven
        } else if self.done && !self.failed {
            Completion::Claimed
        } else {
            Completion::Open
        }
    }
}

impl ChoiceState {
    fn read(&mut self, choice: u32, chunk: ChunkChoice<'_>, deltas: &mut Vec<Delta>) {
        // Servers that only pretend to stream send a whole `message` at once.
        if let Some(delta) = chunk
            .delta
            .0
            .or_else(|| chunk.message.0.map(|message| *message))
        {
            self.delta(choice, delta, deltas);
        }
        let Some(word) = chunk.finish_reason.said() else {
            return;
        };
        let reason = match word {
            "stop" if self.has_refusal && !self.has_text => StopReason::Refusal,
            "stop" => StopReason::Stop,
            "length" | "model_length" => StopReason::Length,
            "tool_calls" | "function_call" => StopReason::ToolCalls,
            "content_filter" => StopReason::ContentFilter,
            other => StopReason::Other(other.to_owned()),
        };
        if reason.is_whole() && !self.finished {
            self.tools.close(choice, deltas);
        }
        self.finished = true;
        deltas.push(Delta::Stop { choice, reason });
    }

    fn delta(&mut self, choice: u32, delta: ChunkDelta<'_>, deltas: &mut Vec<Delta>) {
        // Servers in transition send the same reasoning under both names.
        if let Some(text) = delta
            .reasoning_content
            .take()
            .or_else(|| delta.reasoning.take())
        {
            deltas.push(Delta::Reasoning {
                choice,
                part: 0,
                text,
            });
        }
        match delta.content {
            TextOr::Nothing => {}
            TextOr::Text(text) => {
                if !text.is_empty() {
                    self.has_text = true;
                    deltas.push(Delta::Text {
                        choice,
                        part: 0,
                        text: text.into_owned(),
                    });
                }
            }
            // Output in a form that is not documented for this dialect. The
            // event carries it; that it is output must not be missed.
            TextOr::Json(_) => deltas.push(Delta::Opaque {
                choice,
                part: 0,
                kind: "content".to_owned(),
            }),
        }
        if let Some(text) = delta.refusal.take() {
            self.has_refusal = true;
            deltas.push(Delta::Refusal {
                choice,
                part: 0,
                text,
            });
        }
        for fragment in delta.tool_calls.items() {
            let function = fragment.function.0.unwrap_or_default();
            self.tools.route(
                choice,
                fragment.index.index(),
                fragment.id.take(),
                function.name.take(),
                arguments(function.arguments),
                deltas,
            );
        }
        // The deprecated form knows one call, and it has no id.
        if let Some(function) = delta.function_call.0 {
            self.tools.route(
                choice,
                Some(0),
                None,
                function.name.take(),
                arguments(function.arguments),
                deltas,
            );
        }
    }
}

/// Arguments as text. Some servers send the object itself.
fn arguments(arguments: TextOr<'_>) -> String {
    match arguments {
        TextOr::Nothing => String::new(),
        TextOr::Text(text) => text.into_owned(),
        TextOr::Json(value) => value.to_string(),
    }
}

fn parse(data: &str) -> Result<Value, Malformed> {
    serde_json::from_str(data).map_err(|error| malformed(DIALECT, &error))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Chunk<'a> {
    #[serde(borrow)]
    id: Str<'a>,
    #[serde(borrow)]
    object: Str<'a>,
    #[serde(borrow)]
    model: Str<'a>,
    #[serde(borrow, rename = "type")]
    kind: Str<'a>,
    #[serde(borrow)]
    choices: List<ChunkChoice<'a>>,
    usage: Obj<Box<TokenUsage>>,
    x_groq: Obj<Box<Groq>>,
    error: Truthy,
}

impl Chunk<'_> {
    /// Whether a head, read as a chunk, says nothing but who answers.
    fn is_plain_head(head: &str) -> bool {
        serde_json::from_str::<Chunk<'_>>(head).is_ok_and(|chunk| {
            chunk.usage.0.is_none()
                && chunk.x_groq.0.is_none()
                && chunk.kind.said().is_none()
                && chunk.object.said() != Some("error")
                && !chunk.error.0
        })
    }

    /// Whether [`errors::in_band`] may find an error in this chunk.
    fn may_be_error(&self, event: &Event) -> bool {
        self.error.0
            || event.name == "error"
            || self.kind.said() == Some("error")
            || self.object.said() == Some("error")
            || self.x_groq.0.as_ref().is_some_and(|groq| groq.error.0)
            || self.choices.as_slice().iter().any(|choice| {
                let reason = choice.finish_reason.said();
                choice.error.0 || reason.is_some_and(|word| errors::failed_finish(word).is_some())
            })
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ChunkChoice<'a> {
    index: Num,
    #[serde(borrow)]
    delta: Obj<ChunkDelta<'a>>,
    #[serde(borrow)]
    message: Obj<Box<ChunkDelta<'a>>>,
    #[serde(borrow)]
    finish_reason: Str<'a>,
    error: Truthy,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ChunkDelta<'a> {
    #[serde(borrow)]
    content: TextOr<'a>,
    #[serde(borrow)]
    reasoning_content: Str<'a>,
    #[serde(borrow)]
    reasoning: Str<'a>,
    #[serde(borrow)]
    refusal: Str<'a>,
    #[serde(borrow)]
    tool_calls: List<ToolFragment<'a>>,
    #[serde(borrow)]
    function_call: Obj<Box<Function<'a>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ToolFragment<'a> {
    index: Num,
    #[serde(borrow)]
    id: Str<'a>,
    #[serde(borrow)]
    function: Obj<Function<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Function<'a> {
    #[serde(borrow)]
    name: Str<'a>,
    #[serde(borrow)]
    arguments: TextOr<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Groq {
    usage: Obj<Box<TokenUsage>>,
    error: Truthy,
}
