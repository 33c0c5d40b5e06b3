//! Answers in the words of each dialect.
//!
//! The wire shapes are those of the providers' own documents: the OpenAI
//! OpenAPI description
//! (<https://github.com/openai/openai-openapi/blob/f85dbe223d40e1a31cba812ab2d755c7e98a92a3/openapi.yaml>)
//! and Anthropic's streaming page
//! (<https://platform.claude.com/docs/en/build-with-claude/streaming.md>).

pub(crate) mod anthropic;
pub(crate) mod chat;
pub(crate) mod failure;
pub(crate) mod gemini;
pub(crate) mod responses;

use super::answer::Answer;
use super::frame::Frame;
use crate::proto::model::Dialect;
use serde_json::{Value, json};

/// What a request says that shows in the response.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// Number of the request; ids are made of it, so they are the same each run.
    pub(crate) number: usize,
    pub(crate) model: String,
    /// Chat: `stream_options.include_usage`.
    pub(crate) include_usage: bool,
    /// Responses: `background`.
    pub(crate) background: bool,
}

/// The moment every answer says it was created at: constant, so that bytes are
/// the same each run.
pub(crate) const CREATED: u64 = 1_700_000_000;

/// A sign of life in the dialect's own shape.
pub(crate) fn keepalive(dialect: Dialect, sequence: u64) -> Frame {
    match dialect {
        Dialect::OpenAiChat => chat::keepalive(),
        Dialect::OpenAiResponses => responses::keepalive(sequence),
        Dialect::AnthropicMessages => anthropic::keepalive(),
        // It documents none; a comment is legal in any event stream.
        Dialect::GeminiGenerate => chat::keepalive(),
    }
}

/// The answer's events.
pub(crate) fn frames(dialect: Dialect, asked: &Asked, answer: &Answer) -> Vec<Frame> {
    super::frame::numbered(match dialect {
        Dialect::OpenAiChat => chat::frames(asked, answer),
        Dialect::OpenAiResponses => responses::frames(asked, answer),
        Dialect::AnthropicMessages => anthropic::frames(asked, answer),
        Dialect::GeminiGenerate => gemini::frames(asked, answer),
    })
}

/// The answer as the one JSON document a request without `stream` gets.
pub(crate) fn whole(dialect: Dialect, asked: &Asked, answer: &Answer) -> Value {
    match dialect {
        Dialect::OpenAiChat => chat::whole(asked, answer),
        Dialect::OpenAiResponses => responses::finished(asked, answer),
        Dialect::AnthropicMessages => anthropic::whole(asked, answer),
        Dialect::GeminiGenerate => gemini::whole(asked, answer),
    }
}

/// The name of the header that carries the request's id.
pub(crate) fn request_id_header(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::OpenAiChat | Dialect::OpenAiResponses | Dialect::GeminiGenerate => "x-request-id",
        Dialect::AnthropicMessages => "request-id",
    }
}

/// Counts output events and says when something stands between them.
#[derive(Debug)]
pub(crate) struct Beat {
    every: usize,
    count: usize,
}

impl Beat {
    pub(crate) fn new(every: usize) -> Self {
        Self { every, count: 0 }
    }

    /// Counts one; true at each `every`th.
    pub(crate) fn tick(&mut self) -> bool {
        self.count = self.count.saturating_add(1);
        self.every > 0 && self.count.is_multiple_of(self.every)
    }
}

/// A payload every dialect's readers have to pass over: an event type that no
/// document lists.
pub(crate) fn vendor_note() -> Value {
    json!({"type": "response.vendor_note", "note": "x"})
}
