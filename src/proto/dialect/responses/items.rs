//! One output item, and what came of it.

use crate::proto::dialect::lenient::{List, Str, TextOr};
use crate::proto::dialect::track::Track;
use crate::proto::model::{Delta, Part, PartKind, ToolCall};
use serde::Deserialize;

/// What is known of an output item.
#[derive(Debug, Default)]
pub(super) struct Item {
    kind: Option<PartKind>,
    text: Track,
    refusal: Track,
    reasoning: Track,
    summary: Track,
    arguments: Track,
    /// The call that the item is, if it is one.
    call: Progress,
    block: Progress,
    opaque_given: bool,
}

/// How far something of an item came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Progress {
    #[default]
    Unseen,
    Open,
    Done,
}

impl Progress {
    fn of(done: bool) -> Self {
        if done { Self::Done } else { Self::Open }
    }

    /// Moves on; says whether that was a move.
    fn reach(&mut self, to: Self) -> bool {
        let moves = *self < to;
        if moves {
            *self = to;
        }
        moves
    }
}

impl Item {
    /// The item as it is after this block.
    pub(super) fn after_part(part: &Part) -> Self {
        Self {
            kind: part.kind,
            text: Track::seeded(&part.text),
            refusal: Track::seeded(&part.refusal),
            // Which of the two it was is not kept; the comparison tells.
            reasoning: Track::seeded(&part.reasoning),
            summary: Track::seeded(&part.reasoning),
            opaque_given: part.opaque,
            block: Progress::of(part.closed),
            ..Self::default()
        }
    }

    /// Adds a call that came already.
    pub(super) fn after_call(&mut self, call: &ToolCall) {
        self.kind = Some(PartKind::ToolCall);
        self.arguments = Track::seeded(&call.arguments);
        self.call = Progress::of(call.done);
    }

    /// Whether the caller has to run it.
    pub(super) fn is_call(&self) -> bool {
        self.call > Progress::Unseen
    }

    /// Whether it holds a refusal.
    pub(super) fn refuses(&self) -> bool {
        !self.refusal.is_empty()
    }

    /// Whether it holds answer text.
    pub(super) fn answers(&self) -> bool {
        !self.text.is_empty()
    }

    pub(super) fn add_text(&mut self, part: u32, piece: u32, text: String, out: &mut Vec<Delta>) {
        self.text.push(piece, &text);
        out.push(text_delta(part, text));
    }

    pub(super) fn end_text(&mut self, part: u32, piece: u32, whole: &str, out: &mut Vec<Delta>) {
        let rest = self.text.complete_piece(piece, whole);
        out.extend(rest.map(|text| text_delta(part, text)));
    }

    pub(super) fn add_refusal(
        &mut self,
        part: u32,
        piece: u32,
        text: String,
        out: &mut Vec<Delta>,
    ) {
        self.refusal.push(piece, &text);
        out.push(refusal_delta(part, text));
    }

    pub(super) fn end_refusal(&mut self, part: u32, piece: u32, whole: &str, out: &mut Vec<Delta>) {
        let rest = self.refusal.complete_piece(piece, whole);
        out.extend(rest.map(|text| refusal_delta(part, text)));
    }

    pub(super) fn add_reasoning(
        &mut self,
        part: u32,
        piece: u32,
        text: String,
        out: &mut Vec<Delta>,
    ) {
        self.reasoning.push(piece, &text);
        out.push(reasoning_delta(part, text));
    }

    pub(super) fn end_reasoning(
        &mut self,
        part: u32,
        piece: u32,
        whole: &str,
        out: &mut Vec<Delta>,
    ) {
        let rest = self.reasoning.complete_piece(piece, whole);
        out.extend(rest.map(|text| reasoning_delta(part, text)));
    }

    pub(super) fn add_summary(
        &mut self,
        part: u32,
        piece: u32,
        text: String,
        out: &mut Vec<Delta>,
    ) {
        self.summary.push(piece, &text);
        out.push(reasoning_delta(part, text));
    }

    pub(super) fn end_summary(&mut self, part: u32, piece: u32, whole: &str, out: &mut Vec<Delta>) {
        let rest = self.summary.complete_piece(piece, whole);
        out.extend(rest.map(|text| reasoning_delta(part, text)));
    }

    pub(super) fn add_arguments(&mut self, index: u32, fragment: String, out: &mut Vec<Delta>) {
        self.arguments.push(0, &fragment);
        self.call.reach(Progress::Open);
        out.push(Delta::ToolArguments {
            choice: 0,
            index,
            fragment,
        });
    }

    pub(super) fn end_arguments(&mut self, index: u32, whole: &str, out: &mut Vec<Delta>) {
        if let Some(fragment) = self.arguments.complete_piece(0, whole) {
            self.call.reach(Progress::Open);
            out.push(Delta::ToolArguments {
                choice: 0,
                index,
                fragment,
            });
        }
        self.end_call(index, out);
    }

    /// A content part was added or is done: it holds nothing, or all of it.
    pub(super) fn part(
        &mut self,
        part: u32,
        piece: u32,
        content: &PartObject<'_>,
        out: &mut Vec<Delta>,
    ) {
        match content.kind.or_empty() {
            "output_text" => self.end_text(part, piece, content.text.or_empty(), out),
            "refusal" => self.end_refusal(part, piece, content.refusal.or_empty(), out),
            "reasoning_text" => self.end_reasoning(part, piece, content.text.or_empty(), out),
            _ => {}
        }
    }

    /// The item was added.
    pub(super) fn open(&mut self, part: u32, item: &ItemObject<'_>, out: &mut Vec<Delta>) {
        let kind = item.part_kind();
        self.kind = Some(kind);
        if self.block.reach(Progress::Open) {
            out.push(part_delta(part, kind, true));
        }
        if kind == PartKind::ToolCall && self.call.reach(Progress::Open) {
            out.push(Delta::ToolCall {
                choice: 0,
                index: part,
                id: item.call_id().map(str::to_owned),
                name: item.name.said().map(str::to_owned),
            });
        }
        self.contents(part, item, out);
    }

    /// The item is done, in its own event or in the terminal one.
    pub(super) fn close(&mut self, part: u32, item: &ItemObject<'_>, out: &mut Vec<Delta>) {
        self.open(part, item, out);
        // An item that a token limit cut is repeated as it is, not as done.
        if item.status.said() == Some("incomplete") {
            return;
        }
        if self.kind == Some(PartKind::ToolCall) {
            self.end_call(part, out);
        }
        if !self.opaque_given && self.kind == Some(PartKind::Opaque) {
            self.opaque_given = true;
            out.push(Delta::Opaque {
                choice: 0,
                part,
                kind: item.kind.or_empty().to_owned(),
            });
        }
        if self.block.reach(Progress::Done) {
            out.push(part_delta(
                part,
                self.kind.unwrap_or(PartKind::Opaque),
                false,
            ));
        }
    }

    fn contents(&mut self, part: u32, item: &ItemObject<'_>, out: &mut Vec<Delta>) {
        let contents = item.content.as_slice();
        let of = |kind: &'static str| {
            contents
                .iter()
                .filter(move |content| content.kind.said() == Some(kind))
        };
        match self.kind {
            Some(PartKind::Text) => {
                let texts = of("output_text").map(|content| content.text.or_empty());
                out.extend(self.text.complete(texts).map(|text| text_delta(part, text)));
                let refusals = of("refusal").map(|content| content.refusal.or_empty());
                let rest = self.refusal.complete(refusals);
                out.extend(rest.map(|text| refusal_delta(part, text)));
            }
            Some(PartKind::Reasoning) => {
                let summaries = item.summary.as_slice().iter();
                let summaries = summaries.map(|summary| summary.text.or_empty());
                let rest = self.summary.complete(summaries);
                out.extend(rest.map(|text| reasoning_delta(part, text)));
                let texts = of("reasoning_text").map(|content| content.text.or_empty());
                let rest = self.reasoning.complete(texts);
                out.extend(rest.map(|text| reasoning_delta(part, text)));
                if item.encrypted_content.said().is_some() && !self.opaque_given {
                    self.opaque_given = true;
                    out.push(Delta::Opaque {
                        choice: 0,
                        part,
                        kind: "encrypted_reasoning".to_owned(),
                    });
                }
            }
            Some(PartKind::ToolCall) => {
                let arguments = item.arguments();
                let rest = self.arguments.complete(std::iter::once(&*arguments));
                out.extend(rest.map(|fragment| Delta::ToolArguments {
                    choice: 0,
                    index: part,
                    fragment,
                }));
            }
            Some(PartKind::Opaque) | None => {}
        }
    }

    fn end_call(&mut self, index: u32, out: &mut Vec<Delta>) {
        if self.is_call() && self.call.reach(Progress::Done) {
            out.push(Delta::ToolCallDone { choice: 0, index });
        }
    }
}

/// An output item as the provider writes it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ItemObject<'a> {
    #[serde(borrow, rename = "type")]
    kind: Str<'a>,
    #[serde(borrow)]
    id: Str<'a>,
    #[serde(borrow)]
    call_id: Str<'a>,
    #[serde(borrow)]
    name: Str<'a>,
    #[serde(borrow)]
    status: Str<'a>,
    #[serde(borrow)]
    arguments: TextOr<'a>,
    #[serde(borrow)]
    input: TextOr<'a>,
    #[serde(borrow)]
    content: List<PartObject<'a>>,
    #[serde(borrow)]
    summary: List<PartObject<'a>>,
    #[serde(borrow)]
    encrypted_content: Str<'a>,
}

impl ItemObject<'_> {
    fn part_kind(&self) -> PartKind {
        match self.kind.or_empty() {
            "message" => PartKind::Text,
            "reasoning" => PartKind::Reasoning,
            "function_call" | "custom_tool_call" => PartKind::ToolCall,
            _ => PartKind::Opaque,
        }
    }

    /// The id that the tool's output has to name.
    fn call_id(&self) -> Option<&str> {
        self.call_id.said().or_else(|| self.id.said())
    }

    fn arguments(&self) -> std::borrow::Cow<'_, str> {
        match (&self.arguments, &self.input) {
            (TextOr::Text(text), _) | (TextOr::Nothing, TextOr::Text(text)) => text.as_ref().into(),
            (TextOr::Json(value), _) | (TextOr::Nothing, TextOr::Json(value)) => {
                value.to_string().into()
            }
            (TextOr::Nothing, TextOr::Nothing) => "".into(),
        }
    }
}

/// A content part, or a part of a reasoning summary.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PartObject<'a> {
    #[serde(borrow, rename = "type")]
    kind: Str<'a>,
    #[serde(borrow)]
    text: Str<'a>,
    #[serde(borrow)]
    refusal: Str<'a>,
}

fn text_delta(part: u32, text: String) -> Delta {
    Delta::Text {
        choice: 0,
        part,
        text,
    }
}

fn refusal_delta(part: u32, text: String) -> Delta {
    Delta::Refusal {
        choice: 0,
        part,
        text,
    }
}

fn reasoning_delta(part: u32, text: String) -> Delta {
    Delta::Reasoning {
        choice: 0,
        part,
        text,
    }
}

fn part_delta(part: u32, kind: PartKind, open: bool) -> Delta {
    Delta::Part {
        choice: 0,
        part,
        kind,
        open,
    }
}
