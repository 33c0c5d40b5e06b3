//! OpenAI Responses: the dialect with a cursor of its own.
//!
//! Facts: docs/providers.md#openai-responses, docs/providers.md#compatible and
//! docs/providers.md#rules.

mod items;
mod kind;

use super::lenient::{List, Num, Obj, Str, Truthy};
use super::payload::{Payload, TokenUsage, malformed, unexpected_list};
use super::{EventKind, Interpreter, Malformed, Reading, errors};
use crate::proto::model::{Answer, Completion, Delta, Dialect, ProviderError, StopReason};
use crate::proto::sse::Event;
use items::{Item, ItemObject, PartObject};
use kind::Kind;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

const DIALECT: Dialect = Dialect::OpenAiResponses;

/// Reads the events of a response.
///
/// - A block is an output item; its number, and that of a tool call, is the
///   output index. Texts of one item are one text, in the order of its parts.
/// - `done` events and the terminal event repeat what came in deltas. Only what
///   is missing, compared by content, becomes a delta. What does not begin with
///   what came is left alone: the event itself still carries it.
/// - `error` followed by `response.failed` is one failure: the second is
///   lifecycle.
/// - The stop reason of a completed response is `ToolCalls` if a call that the
///   caller has to run is in the output, `Refusal` if its only content is a
///   refusal, else `Stop`.
/// - A tool that the provider runs (MCP, web search, code interpreter, ...) gives
///   opaque output, not a tool call: nobody has to run it.
#[derive(Debug, Default)]
pub(super) struct Responses {
    id: String,
    model: String,
    items: BTreeMap<u32, Item>,
    finished: bool,
    done: bool,
    failed: bool,
}

impl Responses {
    /// An interpreter that goes on after `seen`.
    pub(super) fn after(seen: &Answer) -> Self {
        let choice = seen.choices.get(&0);
        let mut items: BTreeMap<u32, Item> = BTreeMap::new();
        for (index, part) in choice.into_iter().flat_map(|choice| &choice.parts) {
            items.insert(*index, Item::after_part(part));
        }
        for (index, call) in choice.into_iter().flat_map(|choice| &choice.tool_calls) {
            items.entry(*index).or_default().after_call(call);
        }
        Self {
            id: seen.response_id.clone().unwrap_or_default(),
            model: seen.model.clone().unwrap_or_default(),
            items,
            ..Self::default()
        }
    }

    fn payload(&mut self, payload: Ev<'_>, kind: Kind, deltas: &mut Vec<Delta>) -> EventKind {
        let before = deltas.len();
        let output = payload.output_index.index().unwrap_or_default();
        let content = payload.content_index.index().unwrap_or_default();
        match kind {
            Kind::Text => {
                if let Some(text) = payload.delta.take() {
                    self.item(output).add_text(output, content, text, deltas);
                }
            }
            Kind::TextDone => {
                let whole = payload.text.or_empty();
                self.item(output).end_text(output, content, whole, deltas);
            }
            Kind::Refusal => {
                if let Some(text) = payload.delta.take() {
                    self.item(output).add_refusal(output, content, text, deltas);
                }
            }
            Kind::RefusalDone => {
                let whole = payload.refusal.or_empty();
                self.item(output)
                    .end_refusal(output, content, whole, deltas);
            }
            Kind::Reasoning => {
                if let Some(text) = payload.delta.take() {
                    self.item(output)
                        .add_reasoning(output, content, text, deltas);
                }
            }
            Kind::ReasoningDone => {
                let whole = payload.text.or_empty();
                self.item(output)
                    .end_reasoning(output, content, whole, deltas);
            }
            Kind::Summary => {
                let summary = payload.summary_index.index().unwrap_or_default();
                if let Some(text) = payload.delta.take() {
                    self.item(output).add_summary(output, summary, text, deltas);
                }
            }
            Kind::SummaryDone => {
                let summary = payload.summary_index.index().unwrap_or_default();
                let whole = payload.text.or_empty();
                self.item(output)
                    .end_summary(output, summary, whole, deltas);
            }
            Kind::Arguments => {
                if let Some(text) = payload.delta.take() {
                    self.item(output).add_arguments(output, text, deltas);
                }
            }
            Kind::ArgumentsDone => {
                let whole = payload.arguments.said().or_else(|| payload.input.said());
                let whole = whole.unwrap_or_default();
                self.item(output).end_arguments(output, whole, deltas);
            }
            Kind::PartAdded | Kind::PartDone => {
                if let Some(part) = payload.part.0 {
                    self.item(output).part(output, content, &part, deltas);
                }
            }
            Kind::ItemAdded => {
                if let Some(item) = payload.item.0 {
                    self.item(output).open(output, &item, deltas);
                }
            }
            Kind::ItemDone => {
                if let Some(item) = payload.item.0 {
                    self.item(output).close(output, &item, deltas);
                }
            }
            Kind::Opaque(kind) => deltas.push(Delta::Opaque {
                choice: 0,
                part: output,
                kind: kind.to_owned(),
            }),
            Kind::Lifecycle => {}
            Kind::KeepAlive => return EventKind::KeepAlive,
            Kind::Created => self.identify(payload.response.0.as_deref(), deltas),
            Kind::Completed | Kind::Incomplete => {
                self.finish(payload.response.0.map(|response| *response), kind, deltas);
                return EventKind::End;
            }
            Kind::Failed => return EventKind::Lifecycle,
            Kind::Unknown => return EventKind::Unknown,
        }
        if deltas.iter().skip(before).any(Delta::is_output) {
            EventKind::Output
        } else {
            EventKind::Lifecycle
        }
    }

    fn item(&mut self, output: u32) -> &mut Item {
        self.items.entry(output).or_default()
    }

    fn identify(&mut self, response: Option<&ResponseObject<'_>>, deltas: &mut Vec<Delta>) {
        let Some(response) = response else { return };
        if let Some(id) = response.id.said()
            && id != self.id
        {
            id.clone_into(&mut self.id);
            deltas.push(Delta::ResponseId(self.id.clone()));
        }
        if let Some(model) = response.model.said()
            && model != self.model
        {
            model.clone_into(&mut self.model);
            deltas.push(Delta::Model(self.model.clone()));
        }
    }

    fn finish(
        &mut self,
        response: Option<ResponseObject<'_>>,
        kind: Kind,
        deltas: &mut Vec<Delta>,
    ) {
        self.identify(response.as_ref(), deltas);
        let mut reason = None;
        if let Some(response) = response {
            let output = response.output.items();
            for (index, item) in (0_u32..).zip(&output) {
                self.item(index).close(index, item, deltas);
            }
            if let Some(usage) = response.usage.0.map(|usage| usage.usage())
                && !usage.is_empty()
            {
                deltas.push(Delta::Usage(usage));
            }
            reason = response
                .incomplete_details
                .0
                .and_then(|details| details.reason.take());
        }
        let reason = if kind == Kind::Completed {
            self.completed_reason()
        } else {
            match reason.as_deref() {
                Some("max_output_tokens" | "max_tokens") => StopReason::Length,
                Some("content_filter") => StopReason::ContentFilter,
                // Whatever the reason, the provider says that it is not whole.
                _ => StopReason::Length,
            }
        };
        self.finished = true;
        self.failed = false;
        deltas.push(Delta::Stop { choice: 0, reason });
    }

    fn completed_reason(&self) -> StopReason {
        if self.items.values().any(Item::is_call) {
            StopReason::ToolCalls
        } else if self.items.values().any(Item::refuses) && !self.items.values().any(Item::answers)
        {
            StopReason::Refusal
        } else {
            StopReason::Stop
        }
    }

    fn failure(&mut self, error: ProviderError, root: &Value, deltas: &mut Vec<Delta>) -> Reading {
        if let Some(usage) = root
            .get("response")
            .and_then(|response| Obj::<ResponseObject<'_>>::deserialize(response).ok())
            .and_then(|response| response.0)
            .and_then(|response| response.usage.0)
            .map(|usage| usage.usage())
            .filter(|usage| !usage.is_empty())
        {
            deltas.push(Delta::Usage(usage));
        }
        if self.failed {
            return Reading::of(EventKind::Lifecycle);
        }
        self.failed = true;
        Reading::failed(error)
    }
}

impl Interpreter for Responses {
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
        match serde_json::from_str::<Ev<'_>>(data) {
            Ok(payload) if !payload.may_be_error(event) => {
                let sequence = payload.sequence_number.0;
                let kind = payload.kind(event);
                let kind = self.payload(payload, kind, deltas);
                Ok(Reading {
                    sequence,
                    ..Reading::of(kind)
                })
            }
            Ok(_) | Err(_) => {
                let root = parse(data)?;
                let payload = Ev::deserialize(&root).map_err(|error| malformed(DIALECT, &error))?;
                let sequence = payload.sequence_number.0;
                let reading = if let Some(error) = errors::in_band(&root, &event.name) {
                    self.failure(error, &root, deltas)
                } else {
                    let kind = payload.kind(event);
                    Reading::of(self.payload(payload, kind, deltas))
                };
                Ok(Reading {
                    sequence,
                    ..reading
                })
            }
        }
    }

    fn completion(&self) -> Completion {
        if self.finished {
            Completion::Proven
        } else if self.done && !self.failed {
            Completion::Claimed
        } else {
            Completion::Open
        }
    }
}

fn parse(data: &str) -> Result<Value, Malformed> {
    serde_json::from_str(data).map_err(|error| malformed(DIALECT, &error))
}

/// One event. The fields of all types are one flat struct: which are there
/// depends on the type, and reading it first would mean parsing twice.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Ev<'a> {
    #[serde(borrow, rename = "type")]
    kind: Str<'a>,
    sequence_number: Num,
    output_index: Num,
    content_index: Num,
    summary_index: Num,
    #[serde(borrow)]
    delta: Str<'a>,
    #[serde(borrow)]
    text: Str<'a>,
    #[serde(borrow)]
    refusal: Str<'a>,
    #[serde(borrow)]
    arguments: Str<'a>,
    #[serde(borrow)]
    input: Str<'a>,
    #[serde(borrow)]
    item: Obj<Box<ItemObject<'a>>>,
    #[serde(borrow)]
    part: Obj<Box<PartObject<'a>>>,
    #[serde(borrow)]
    response: Obj<Box<ResponseObject<'a>>>,
    error: Truthy,
}

impl Ev<'_> {
    /// The type in the payload; a server that leaves it out names the event.
    fn kind(&self, event: &Event) -> Kind {
        Kind::of(self.kind.said().unwrap_or(&event.name))
    }

    fn may_be_error(&self, event: &Event) -> bool {
        let failed = |response: &ResponseObject<'_>| response.status.said() == Some("failed");
        self.error.0
            || event.name == "error"
            || matches!(self.kind.said(), Some("error" | "response.failed"))
            || event.name == "response.failed"
            || self.response.0.as_deref().is_some_and(failed)
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ResponseObject<'a> {
    #[serde(borrow)]
    id: Str<'a>,
    #[serde(borrow)]
    model: Str<'a>,
    #[serde(borrow)]
    status: Str<'a>,
    #[serde(borrow)]
    output: List<ItemObject<'a>>,
    usage: Obj<TokenUsage>,
    #[serde(borrow)]
    incomplete_details: Obj<IncompleteDetails<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct IncompleteDetails<'a> {
    #[serde(borrow)]
    reason: Str<'a>,
}
