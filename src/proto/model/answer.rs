//! The answer so far: the fold of its deltas.

use super::{Delta, PartKind, StopReason, Usage};
use std::collections::BTreeMap;

/// How sure it is that an answer is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Completion {
    /// No sign of an end yet. End of input now is a truncation.
    Open,
    /// An end marker came (`[DONE]`) but no stop reason and no error.
    Claimed,
    /// The dialect's proof of completion came.
    Proven,
}

/// One tool call as it was streamed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolCall {
    /// The provider's id for the call; empty when none came.
    pub id: String,
    /// The tool's name; empty when none came.
    pub name: String,
    /// The arguments as they came. Only JSON if the call is whole.
    pub arguments: String,
    /// Whether the provider said that this call is done.
    pub done: bool,
}

impl ToolCall {
    /// The arguments as one JSON document: `{}` when nothing was streamed
    /// (a call without arguments is legal), else what came.
    pub fn arguments_or_empty_object(&self) -> &str {
        if self.arguments.is_empty() {
            "{}"
        } else {
            &self.arguments
        }
    }

    /// Whether the arguments are one whole JSON value.
    pub fn arguments_are_json(&self) -> bool {
        serde_json::from_str::<serde::de::IgnoredAny>(self.arguments_or_empty_object()).is_ok()
    }
}

/// One candidate of an answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Choice {
    /// Answer text.
    pub text: String,
    /// Reasoning text.
    pub reasoning: String,
    /// Refusal text.
    pub refusal: String,
    /// Tool calls by index.
    pub tool_calls: BTreeMap<u32, ToolCall>,
    /// Whether fragments came that could not be assigned to one call.
    pub ambiguous_tool_calls: bool,
    /// Why it stopped; the last reason wins.
    pub stop: Option<StopReason>,
    /// Text by block, for continuations: which blocks there are, of which kind,
    /// and whether they were closed.
    pub parts: BTreeMap<u32, Part>,
}

/// One block of a candidate.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Part {
    /// What it holds, where the dialect says so.
    pub kind: Option<PartKind>,
    /// Its text, when it is a text block.
    pub text: String,
    /// Its reasoning, when it is a reasoning block.
    pub reasoning: String,
    /// Its refusal, when it refuses.
    pub refusal: String,
    /// Whether something without text belongs to it.
    pub opaque: bool,
    /// Whether it was closed.
    pub closed: bool,
}

/// The answer so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// The provider's name for it.
    pub response_id: Option<String>,
    /// The model that gave it.
    pub model: Option<String>,
    /// Its candidates by index.
    pub choices: BTreeMap<u32, Choice>,
    /// Token counts.
    pub usage: Usage,
}

impl Answer {
    /// Takes one delta.
    pub fn apply(&mut self, delta: &Delta) {
        match delta {
            Delta::ResponseId(id) => self.response_id = Some(id.clone()),
            Delta::Model(model) => self.model = Some(model.clone()),
            Delta::Text { choice, part, text } => {
                let choice = self.choice(*choice);
                choice.text.push_str(text);
                choice.part(*part).text.push_str(text);
            }
            Delta::Reasoning { choice, part, text } => {
                let choice = self.choice(*choice);
                choice.reasoning.push_str(text);
                choice.part(*part).reasoning.push_str(text);
            }
            Delta::Refusal { choice, part, text } => {
                let choice = self.choice(*choice);
                choice.refusal.push_str(text);
                choice.part(*part).refusal.push_str(text);
            }
            Delta::ToolCall {
                choice,
                index,
                id,
                name,
            } => {
                let call = self.choice(*choice).tool_calls.entry(*index).or_default();
                if let Some(id) = id {
                    call.id.clone_from(id);
                }
                if let Some(name) = name {
                    call.name.clone_from(name);
                }
            }
            Delta::ToolArguments {
                choice,
                index,
                fragment,
            } => self
                .choice(*choice)
                .tool_calls
                .entry(*index)
                .or_default()
                .arguments
                .push_str(fragment),
            Delta::ToolCallDone { choice, index } => {
                self.choice(*choice)
                    .tool_calls
                    .entry(*index)
                    .or_default()
                    .done = true;
            }
            Delta::ToolCallsAmbiguous { choice } => {
                self.choice(*choice).ambiguous_tool_calls = true;
            }
            Delta::Opaque { choice, part, .. } => self.choice(*choice).part(*part).opaque = true,
            Delta::Part {
                choice,
                part,
                kind,
                open,
            } => {
                let part = self.choice(*choice).part(*part);
                part.kind = Some(*kind);
                part.closed = !open;
            }
            Delta::Usage(usage) => self.usage.update(usage),
            Delta::Stop { choice, reason } => self.choice(*choice).stop = Some(reason.clone()),
        }
    }

    /// The text of the first candidate.
    pub fn text(&self) -> &str {
        self.choices
            .get(&0)
            .map_or("", |choice| choice.text.as_str())
    }

    /// The stop reason of the first candidate.
    pub fn stop(&self) -> Option<&StopReason> {
        self.choices.get(&0).and_then(|choice| choice.stop.as_ref())
    }

    /// Whether a tool call has started in any candidate.
    pub fn has_tool_calls(&self) -> bool {
        self.choices
            .values()
            .any(|choice| !choice.tool_calls.is_empty() || choice.ambiguous_tool_calls)
    }

    /// Whether every tool call of every candidate is one whole JSON document
    /// and none is ambiguous.
    pub fn tool_calls_are_json(&self) -> bool {
        self.choices.values().all(|choice| {
            !choice.ambiguous_tool_calls
                && choice.tool_calls.values().all(ToolCall::arguments_are_json)
        })
    }

    fn choice(&mut self, index: u32) -> &mut Choice {
        self.choices.entry(index).or_default()
    }
}

impl Choice {
    fn part(&mut self, index: u32) -> &mut Part {
        self.parts.entry(index).or_default()
    }
}
