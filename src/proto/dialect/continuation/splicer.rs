//! Two streams, one message.

use super::Continuation;
use super::seam::{Restarted, Seam};
use crate::proto::dialect::Malformed;
use crate::proto::dialect::payload::{Payload, TokenUsage, malformed};
use crate::proto::dialect::wire::Members;
use crate::proto::model::{Answer, Dialect, PartKind, Usage};
use crate::proto::sse::Event;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Why a continuation cannot be spliced on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpliceError {
    /// It begins the answer anew. The caller gives up the continuation: the answer
    /// stays as it was.
    #[error("expected the rest of the answer, but found its beginning again")]
    Restarted,
    /// A payload that should be JSON is not.
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

impl From<Restarted> for SpliceError {
    fn from(_: Restarted) -> Self {
        Self::Restarted
    }
}

/// Rewrites the events of a continuation so that, behind the events the reader
/// has, they make one well-formed message.
///
/// - Its `message_start` is dropped.
/// - Its first block, if that is text and the reader's last block is open text, is
///   that block: its start is dropped. Otherwise the open block is closed first.
/// - Every other block gets the next free index.
/// - Usage in `message_delta` is the sum over both attempts, input included: both
///   are billed. What an interrupted attempt reported is all there is to add, and
///   its output count is the placeholder of `message_start`.
/// - Every other event passes as it is.
///
/// Feed the events that come out, not those that went in, to an interpreter made
/// by [`interpreter_after`](crate::proto::dialect::interpreter_after).
#[derive(Debug)]
pub struct Splicer {
    seam: Seam,
    /// The reader's last block while it is open.
    open: Option<OpenBlock>,
    /// The index for the next block that opens.
    next: u32,
    /// The reader's index of each block of the continuation.
    blocks: BTreeMap<u32, u32>,
    /// The reader's index of the block that goes through the seam.
    seam_block: Option<u32>,
    before: Usage,
    now: Usage,
}

#[derive(Clone, Copy, Debug)]
struct OpenBlock {
    index: u32,
    is_text: bool,
}

impl Splicer {
    /// A splicer for the answer that `seen` is so far.
    pub fn new(continuation: &Continuation, seen: &Answer) -> Self {
        let parts = seen.choices.get(&0).map(|choice| &choice.parts);
        let last = parts.and_then(BTreeMap::last_key_value);
        Self {
            seam: Seam::of(continuation),
            open: last
                .filter(|(_, part)| !part.closed)
                .map(|(index, part)| OpenBlock {
                    index: *index,
                    is_text: part.kind.unwrap_or(PartKind::Text) == PartKind::Text,
                }),
            next: last.map_or(0, |(index, _)| index.saturating_add(1)),
            blocks: BTreeMap::new(),
            seam_block: None,
            before: seen.usage,
            now: Usage::default(),
        }
    }

    /// Takes the next event of the continuation; appends what the reader gets.
    ///
    /// # Errors
    ///
    /// [`SpliceError`]; nothing more may be delivered from this continuation then.
    pub fn push(&mut self, event: &Event, out: &mut Vec<Event>) -> Result<(), SpliceError> {
        let Payload::Object(data) = Payload::of(event) else {
            out.push(event.clone());
            return Ok(());
        };
        let mut members: Members<'_> = serde_json::from_str(data)
            .map_err(|error| malformed(Dialect::AnthropicMessages, &error))?;
        let kind = string(members.get("type")).unwrap_or_else(|| event.name.to_string());
        match kind.as_str() {
            "message_start" => {
                self.now.update(&usage_of(
                    members
                        .get("message")
                        .and_then(|message| member(message, "usage")),
                ));
            }
            "content_block_start" => self.block_start(event, members, out)?,
            "content_block_delta" => self.block_delta(event, members, out)?,
            "content_block_stop" => {
                let index = self.index_of(&members);
                self.settle(out)?;
                if self.open.is_some_and(|open| open.index == index) {
                    self.open = None;
                }
                members.set("index", index.to_string());
                out.push(rewritten(event, &members));
            }
            "message_delta" => {
                self.settle(out)?;
                self.close_open_block(out);
                self.sum_usage(&mut members);
                out.push(rewritten(event, &members));
            }
            "message_stop" => {
                self.settle(out)?;
                self.close_open_block(out);
                out.push(event.clone());
            }
            "ping" => out.push(event.clone()),
            _ => {
                self.settle(out)?;
                out.push(event.clone());
            }
        }
        Ok(())
    }

    /// The continuation ended; appends text that is still held back.
    ///
    /// # Errors
    ///
    /// As [`Splicer::push`].
    pub fn finish(&mut self, out: &mut Vec<Event>) -> Result<(), SpliceError> {
        self.settle(out)
    }

    fn block_start(
        &mut self,
        event: &Event,
        mut members: Members<'_>,
        out: &mut Vec<Event>,
    ) -> Result<(), SpliceError> {
        let wire = index(&members);
        let block = members.get("content_block").unwrap_or_default().to_owned();
        let is_text = member(&block, "type").as_ref().and_then(Value::as_str) == Some("text");
        if let Some(open) = self.open
            && open.is_text
            && is_text
            && self.blocks.is_empty()
        {
            self.blocks.insert(wire, open.index);
            self.seam_block = Some(open.index);
            let text = member(&block, "text");
            return self.text(open.index, text.as_ref().and_then(Value::as_str), out);
        }
        self.settle(out)?;
        self.close_open_block(out);
        let index = self.next;
        self.next = self.next.saturating_add(1);
        self.blocks.insert(wire, index);
        members.set("index", index.to_string());
        let first_text = is_text && self.seam_block.is_none();
        if !first_text {
            out.push(rewritten(event, &members));
            return Ok(());
        }
        // Its text goes through the seam like every other.
        self.seam_block = Some(index);
        let text = member(&block, "text");
        if let Ok(mut block) = serde_json::from_str::<Members<'_>>(&block) {
            block.set("text", "\"\"");
            members.set("content_block", block.to_json());
        }
        out.push(rewritten(event, &members));
        self.text(index, text.as_ref().and_then(Value::as_str), out)
    }

    fn block_delta(
        &mut self,
        event: &Event,
        mut members: Members<'_>,
        out: &mut Vec<Event>,
    ) -> Result<(), SpliceError> {
        let index = self.index_of(&members);
        members.set("index", index.to_string());
        let delta = members.get("delta").unwrap_or_default().to_owned();
        let text = member(&delta, "text");
        let is_text = member(&delta, "type").as_ref().and_then(Value::as_str) == Some("text_delta");
        if self.seam_block != Some(index) || !is_text {
            if self.seam_block == Some(index) {
                // A citation of text that is held back must come after it.
                self.settle(out)?;
            }
            out.push(rewritten(event, &members));
            return Ok(());
        }
        let text = text.as_ref().and_then(Value::as_str).unwrap_or_default();
        let new = self.seam.push(text)?;
        if new == text {
            out.push(rewritten(event, &members));
        } else {
            out.extend(text_event(index, &new));
        }
        Ok(())
    }

    /// Text that comes with the start of the block at the seam.
    fn text(
        &mut self,
        index: u32,
        text: Option<&str>,
        out: &mut Vec<Event>,
    ) -> Result<(), SpliceError> {
        let new = self.seam.push(text.unwrap_or_default())?;
        out.extend(text_event(index, &new));
        Ok(())
    }

    /// Gives out what the seam holds back.
    fn settle(&mut self, out: &mut Vec<Event>) -> Result<(), SpliceError> {
        if let Some(index) = self.seam_block {
            let rest = self.seam.close()?;
            out.extend(text_event(index, &rest));
        }
        Ok(())
    }

    fn close_open_block(&mut self, out: &mut Vec<Event>) {
        if let Some(open) = self.open.take() {
            let data = json!({"type": "content_block_stop", "index": open.index});
            out.push(Event::synthetic("content_block_stop", data.to_string()));
        }
    }

    /// The reader's index of the block that an event names.
    fn index_of(&mut self, members: &Members<'_>) -> u32 {
        let next = &mut self.next;
        *self.blocks.entry(index(members)).or_insert_with(|| {
            let index = *next;
            *next = next.saturating_add(1);
            index
        })
    }

    fn sum_usage(&mut self, members: &mut Members<'_>) {
        let Some(json) = members.get("usage").map(str::to_owned) else {
            return;
        };
        let Ok(mut usage) = serde_json::from_str::<Members<'_>>(&json) else {
            return;
        };
        self.now.update(&usage_of(serde_json::from_str(&json).ok()));
        let mut sum = self.before;
        sum.add(&self.now);
        for (name, count) in [
            ("input_tokens", sum.input),
            ("output_tokens", sum.output),
            ("cache_read_input_tokens", sum.cached_input),
            ("cache_creation_input_tokens", sum.cache_write),
        ] {
            if let Some(count) = count {
                usage.set(name, count.to_string());
            }
        }
        members.set("usage", usage.to_json());
    }
}

fn rewritten(event: &Event, members: &Members<'_>) -> Event {
    Event {
        data: members.to_json().into(),
        ..event.clone()
    }
}

fn text_event(index: u32, text: &str) -> Option<Event> {
    let data = json!({
        "type": "content_block_delta",
        "index": index,
        "delta": {"type": "text_delta", "text": text},
    });
    (!text.is_empty()).then(|| Event::synthetic("content_block_delta", data.to_string()))
}

fn index(members: &Members<'_>) -> u32 {
    members
        .get("index")
        .and_then(|json| json.trim().parse().ok())
        .unwrap_or_default()
}

fn string(json: Option<&str>) -> Option<String> {
    json.and_then(|json| serde_json::from_str(json).ok())
}

fn member(json: &str, name: &str) -> Option<Value> {
    let members: Members<'_> = serde_json::from_str(json).ok()?;
    serde_json::from_str(members.get(name)?).ok()
}

fn usage_of(json: Option<Value>) -> Usage {
    json.and_then(|json| serde_json::from_value::<TokenUsage>(json).ok())
        .map(|usage| usage.usage())
        .unwrap_or_default()
}
