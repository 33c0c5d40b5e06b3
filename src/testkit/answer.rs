//! What the pretended model says, before any dialect has a word for it.

use super::words::Words;
use serde_json::Value;

/// How an answer ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ending {
    /// The model was done. With tool calls, the dialect's word for those.
    #[default]
    Stop,
    /// The token limit cut the answer: `length`, `max_tokens`, `incomplete`.
    Length,
    /// A content filter stopped the answer: `content_filter`, in Anthropic's
    /// words a `refusal`.
    ContentFilter,
}

/// One answer.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) reasoning: Words,
    pub(crate) text: Words,
    pub(crate) refusal: Option<Words>,
    pub(crate) tools: Vec<ToolCall>,
    pub(crate) ending: Ending,
    pub(crate) input_tokens: u64,
    /// A sign of life after each so many output events; 0 means never.
    pub(crate) keepalive_every: usize,
    /// An event without a sequence number after each so many output events.
    pub(crate) vendor_note_every: usize,
}

/// A call of a tool.
#[derive(Clone, Debug)]
pub(crate) struct ToolCall {
    pub(crate) name: String,
    /// The arguments as JSON text.
    pub(crate) arguments: String,
}

impl ToolCall {
    pub(crate) fn new(name: &str, arguments: &Value) -> Self {
        Self {
            name: name.to_owned(),
            arguments: arguments.to_string(),
        }
    }

    /// The arguments in pieces of at most eight characters, as models send them:
    /// borders fall anywhere, but not inside a character.
    pub(crate) fn fragments(&self) -> Vec<String> {
        let chars: Vec<char> = self.arguments.chars().collect();
        chars.chunks(8).map(|c| c.iter().collect()).collect()
    }
}

impl Default for Answer {
    fn default() -> Self {
        Self {
            reasoning: Words::default(),
            text: Words::numbered(20),
            refusal: None,
            tools: Vec::new(),
            ending: Ending::Stop,
            input_tokens: 12,
            keepalive_every: 0,
            vendor_note_every: 0,
        }
    }
}

impl Answer {
    pub(crate) fn refusal_words(&self) -> &[String] {
        self.refusal.as_ref().map(Words::deltas).unwrap_or_default()
    }

    pub(crate) fn refusal_text(&self) -> Option<String> {
        self.refusal.as_ref().map(Words::text)
    }

    /// One token a delta, so that the figures can be checked against what came.
    pub(crate) fn reasoning_tokens(&self) -> usize {
        self.reasoning.len()
    }

    pub(crate) fn output_tokens(&self) -> usize {
        let tools: usize = self.tools.iter().map(|t| t.fragments().len()).sum();
        self.reasoning
            .len()
            .saturating_add(self.text.len())
            .saturating_add(self.refusal_words().len())
            .saturating_add(tools)
    }

    pub(crate) fn total_tokens(&self) -> u64 {
        self.input_tokens
            .saturating_add(u64::try_from(self.output_tokens()).unwrap_or(u64::MAX))
    }
}

/// The calls' fragments in turns (first of each, second of each, ...), with the
/// call's position: parallel calls as they really come.
pub(crate) fn interleaved(tools: &[ToolCall]) -> Vec<(usize, String)> {
    let fragments: Vec<Vec<String>> = tools.iter().map(ToolCall::fragments).collect();
    let longest = fragments.iter().map(Vec::len).max().unwrap_or(0);
    (0..longest)
        .flat_map(|round| {
            fragments
                .iter()
                .enumerate()
                .filter_map(move |(call, f)| f.get(round).map(|piece| (call, piece.clone())))
        })
        .collect()
}
