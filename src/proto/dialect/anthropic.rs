//! Anthropic Messages.
//!
//! Facts: docs/providers.md#anthropic-messages and docs/providers.md#rules.

use super::lenient::{Num, Obj, Str, TextOr, Truthy};
use super::payload::{Payload, TokenUsage, malformed, unexpected_list};
use super::{EventKind, Interpreter, Malformed, Reading, errors};
use crate::proto::model::{Answer, Completion, Delta, Dialect, PartKind, StopReason};
use crate::proto::sse::Event;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

const DIALECT: Dialect = Dialect::AnthropicMessages;

/// Reads the events of a message.
///
/// - A block's number, and that of a tool call, is the content block index.
/// - Usage in `message_delta` is cumulative; the input side comes with
///   `message_start`.
/// - Completion is proven by a stop reason with every block closed, or by
///   `message_stop` behind a stop reason. `message_stop` without one only claims.
/// - A tool that the provider runs (`server_tool_use`, MCP) is opaque output, as
///   are its results, signatures, citations, redacted thinking and every block or
///   delta type that is not known.
#[derive(Debug, Default)]
pub(super) struct Anthropic {
    id: String,
    model: String,
    blocks: BTreeMap<u32, Block>,
    open: usize,
    stop_seen: bool,
    stopped: bool,
    failed: bool,
}

#[derive(Debug)]
struct Block {
    kind: PartKind,
    open: bool,
    /// Input that came whole with the block's start, held until it is clear that
    /// no fragments follow.
    input: Option<String>,
}

impl Anthropic {
    /// An interpreter that goes on after `seen`.
    pub(super) fn after(seen: &Answer) -> Self {
        let parts = seen.choices.get(&0).map(|choice| &choice.parts);
        let blocks: BTreeMap<u32, Block> = parts
            .into_iter()
            .flatten()
            .map(|(index, part)| {
                let block = Block {
                    kind: part.kind.unwrap_or(PartKind::Text),
                    open: !part.closed,
                    input: None,
                };
                (*index, block)
            })
            .collect();
        Self {
            id: seen.response_id.clone().unwrap_or_default(),
            model: seen.model.clone().unwrap_or_default(),
            open: blocks.values().filter(|block| block.open).count(),
            blocks,
            stop_seen: seen.stop().is_some(),
            ..Self::default()
        }
    }

    fn payload(&mut self, payload: Ev<'_>, event: &Event, deltas: &mut Vec<Delta>) -> EventKind {
        let index = payload.index.index().unwrap_or_default();
        let before = deltas.len();
        match payload.kind.said().unwrap_or(&event.name) {
            "content_block_delta" => {
                if let Some(delta) = payload.delta.0 {
                    self.block_delta(index, delta, deltas);
                }
            }
            "content_block_start" => {
                if let Some(block) = payload.content_block.0 {
                    self.block_start(index, *block, deltas);
                }
            }
            "content_block_stop" => self.block_stop(index, deltas),
            "message_start" => {
                if let Some(message) = payload.message.0 {
                    self.message_start(*message, deltas);
                }
            }
            "message_delta" => {
                report(payload.usage.0.as_deref(), deltas);
                let reason = payload.delta.0.and_then(|delta| delta.stop_reason.take());
                if let Some(word) = reason {
                    self.stop_seen = true;
                    deltas.push(Delta::Stop {
                        choice: 0,
                        reason: stop_reason(word),
                    });
                }
            }
            "message_stop" => {
                self.stopped = true;
                return EventKind::End;
            }
            "ping" | "keepalive" => return EventKind::KeepAlive,
            _ => return EventKind::Unknown,
        }
        if deltas.iter().skip(before).any(Delta::is_output) {
            EventKind::Output
        } else {
            EventKind::Lifecycle
        }
    }

    fn message_start(&mut self, message: MessageObject<'_>, deltas: &mut Vec<Delta>) {
        if let Some(id) = message.id.take()
            && id != self.id
        {
            self.id.clone_from(&id);
            deltas.push(Delta::ResponseId(id));
        }
        if let Some(model) = message.model.take()
            && model != self.model
        {
            self.model.clone_from(&model);
            deltas.push(Delta::Model(model));
        }
        report(message.usage.0.as_ref(), deltas);
    }

    fn block_start(&mut self, part: u32, block: BlockObject<'_>, deltas: &mut Vec<Delta>) {
        let word = block.kind.or_empty();
        let kind = match word {
            "text" => PartKind::Text,
            "thinking" | "redacted_thinking" => PartKind::Reasoning,
            "tool_use" => PartKind::ToolCall,
            _ => PartKind::Opaque,
        };
        let opened = Block {
            kind,
            open: true,
            input: None,
        };
        let was_open = self.blocks.insert(part, opened).is_some_and(|old| old.open);
        if !was_open {
            self.open = self.open.saturating_add(1);
        }
        deltas.push(Delta::Part {
            choice: 0,
            part,
            kind,
            open: true,
        });
        match word {
            "text" => {
                if let Some(text) = block.text.take() {
                    deltas.push(Delta::Text {
                        choice: 0,
                        part,
                        text,
                    });
                }
            }
            "thinking" => {
                if let Some(text) = block.thinking.take() {
                    deltas.push(Delta::Reasoning {
                        choice: 0,
                        part,
                        text,
                    });
                }
            }
            "tool_use" => {
                deltas.push(Delta::ToolCall {
                    choice: 0,
                    index: part,
                    id: block.id.take(),
                    name: block.name.take(),
                });
                let input = match block.input {
                    TextOr::Json(Value::Object(input)) if input.is_empty() => None,
                    TextOr::Json(input) => Some(input.to_string()),
                    TextOr::Nothing | TextOr::Text(_) => None,
                };
                if let Some(block) = self.blocks.get_mut(&part) {
                    block.input = input;
                }
            }
            other => deltas.push(opaque(part, other)),
        }
    }

    fn block_delta(&mut self, part: u32, delta: DeltaObject<'_>, deltas: &mut Vec<Delta>) {
        match delta.kind.or_empty() {
            "text_delta" => {
                if let Some(text) = delta.text.take() {
                    deltas.push(Delta::Text {
                        choice: 0,
                        part,
                        text,
                    });
                }
            }
            "thinking_delta" => {
                if let Some(text) = delta.thinking.take() {
                    deltas.push(Delta::Reasoning {
                        choice: 0,
                        part,
                        text,
                    });
                }
            }
            "input_json_delta" => {
                let Some(fragment) = delta.partial_json.take() else {
                    return;
                };
                let block = self.blocks.get_mut(&part);
                let provider_runs_it = block
                    .as_ref()
                    .is_some_and(|block| block.kind != PartKind::ToolCall);
                if provider_runs_it {
                    deltas.push(opaque(part, "input_json_delta"));
                    return;
                }
                if let Some(block) = block {
                    block.input = None;
                }
                deltas.push(Delta::ToolArguments {
                    choice: 0,
                    index: part,
                    fragment,
                });
            }
            "" => {}
            // Signatures, citations, compaction, and what is not known yet.
            other => deltas.push(opaque(part, other)),
        }
    }

    fn block_stop(&mut self, part: u32, deltas: &mut Vec<Delta>) {
        let Some(block) = self.blocks.get_mut(&part).filter(|block| block.open) else {
            return;
        };
        block.open = false;
        self.open = self.open.saturating_sub(1);
        if block.kind == PartKind::ToolCall {
            if let Some(fragment) = block.input.take() {
                deltas.push(Delta::ToolArguments {
                    choice: 0,
                    index: part,
                    fragment,
                });
            }
            deltas.push(Delta::ToolCallDone {
                choice: 0,
                index: part,
            });
        }
        deltas.push(Delta::Part {
            choice: 0,
            part,
            kind: block.kind,
            open: false,
        });
    }
}

impl Interpreter for Anthropic {
    fn read(&mut self, event: &Event, deltas: &mut Vec<Delta>) -> Result<Reading, Malformed> {
        let data = match Payload::of(event) {
            Payload::Empty => return Ok(Reading::of(EventKind::KeepAlive)),
            Payload::Noise => return Ok(Reading::of(EventKind::Noise)),
            Payload::Error(text) => {
                self.failed = true;
                return Ok(Reading::failed(errors::of_data(text)));
            }
            // Not of this dialect, but proxies append it.
            Payload::Done => {
                self.stopped = true;
                return Ok(Reading::of(EventKind::End));
            }
            Payload::List(data) => {
                let error = errors::in_band(&parse(data)?, &event.name)
                    .ok_or_else(|| unexpected_list(DIALECT))?;
                self.failed = true;
                return Ok(Reading::failed(error));
            }
            Payload::Object(data) => data,
        };
        match serde_json::from_str::<Ev<'_>>(data) {
            Ok(payload) if !payload.may_be_error(event) => {
                Ok(Reading::of(self.payload(payload, event, deltas)))
            }
            // The slow path: an error, or a key that occurs twice.
            Ok(_) | Err(_) => {
                let root = parse(data)?;
                if let Some(error) = errors::in_band(&root, &event.name) {
                    self.failed = true;
                    return Ok(Reading::failed(error));
                }
                let payload = Ev::deserialize(&root).map_err(|error| malformed(DIALECT, &error))?;
                Ok(Reading::of(self.payload(payload, event, deltas)))
            }
        }
    }

    fn completion(&self) -> Completion {
        if self.stop_seen && (self.stopped || self.open == 0) {
            Completion::Proven
        } else if self.stopped && !self.failed {
            Completion::Claimed
        } else {
            Completion::Open
        }
    }
}

/// The stop reasons of docs/providers.md#anthropic-messages/stop-reasons.
fn stop_reason(word: String) -> StopReason {
    match word.as_str() {
        "end_turn" | "stop_sequence" => StopReason::Stop,
        "max_tokens" | "model_context_window_exceeded" => StopReason::Length,
        "tool_use" => StopReason::ToolCalls,
        "pause_turn" => StopReason::Paused,
        "refusal" => StopReason::Refusal,
        _ => StopReason::Other(word),
    }
}

fn report(usage: Option<&TokenUsage>, deltas: &mut Vec<Delta>) {
    if let Some(usage) = usage.map(TokenUsage::usage)
        && !usage.is_empty()
    {
        deltas.push(Delta::Usage(usage));
    }
}

fn opaque(part: u32, kind: &str) -> Delta {
    Delta::Opaque {
        choice: 0,
        part,
        kind: kind.to_owned(),
    }
}

fn parse(data: &str) -> Result<Value, Malformed> {
    serde_json::from_str(data).map_err(|error| malformed(DIALECT, &error))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Ev<'a> {
    #[serde(borrow, rename = "type")]
    kind: Str<'a>,
    index: Num,
    #[serde(borrow)]
    delta: Obj<DeltaObject<'a>>,
    #[serde(borrow)]
    content_block: Obj<Box<BlockObject<'a>>>,
    #[serde(borrow)]
    message: Obj<Box<MessageObject<'a>>>,
    usage: Obj<Box<TokenUsage>>,
    error: Truthy,
}

impl Ev<'_> {
    fn may_be_error(&self, event: &Event) -> bool {
        self.error.0 || event.name == "error" || self.kind.said() == Some("error")
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct DeltaObject<'a> {
    #[serde(borrow, rename = "type")]
    kind: Str<'a>,
    #[serde(borrow)]
    text: Str<'a>,
    #[serde(borrow)]
    thinking: Str<'a>,
    #[serde(borrow)]
    partial_json: Str<'a>,
    #[serde(borrow)]
    stop_reason: Str<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct BlockObject<'a> {
    #[serde(borrow, rename = "type")]
    kind: Str<'a>,
    #[serde(borrow)]
    text: Str<'a>,
    #[serde(borrow)]
    thinking: Str<'a>,
    #[serde(borrow)]
    id: Str<'a>,
    #[serde(borrow)]
    name: Str<'a>,
    #[serde(borrow)]
    input: TextOr<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct MessageObject<'a> {
    #[serde(borrow)]
    id: Str<'a>,
    #[serde(borrow)]
    model: Str<'a>,
    usage: Obj<TokenUsage>,
}
