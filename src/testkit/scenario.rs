//! What an upstream does, request by request.

use super::answer::{Answer, Ending, ToolCall};
use super::background::Pace;
use super::fault::{Fault, Kind};
use super::gate::Gate;
use super::http::Limits;
use super::words::Words;
use crate::proto::model::Dialect;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// What an [`Upstream`](super::Upstream) does.
///
/// | setting | default |
/// |---|---|
/// | answer | 20 numbered words, no reasoning, no tool calls |
/// | faults | none |
/// | pace | as fast as the socket takes it |
/// | connections | closed after each response |
/// | background responses | replayed after the cursor |
/// | requests recorded | 10,000 |
/// | request head, body | at most 64 KiB, 16 MiB |
///
/// Requests are numbered from 1 in order of arrival, whatever their path.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub(crate) dialect: Option<Dialect>,
    pub(crate) answer: Answer,
    pub(crate) answers: BTreeMap<usize, Words>,
    pub(crate) pace: Pace,
    pub(crate) replay: Replay,
    pub(crate) stays_queued: bool,
    pub(crate) keep_alive: bool,
    pub(crate) continues: bool,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) max_requests: usize,
    pub(crate) limits: Limits,
    plan: BTreeMap<usize, Vec<Fault>>,
    otherwise: Vec<Fault>,
}

/// How `GET /v1/responses/{id}?stream=true` treats a background response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Replay {
    /// Everything after `starting_after`, as the provider documents it.
    #[default]
    AfterCursor,
    /// Everything from the first event on, whatever the cursor says.
    FromStart,
    /// Status 400: too old to be streamed. Polling still works.
    WindowClosed,
    /// Status 400: cannot be streamed at all. Polling works.
    PollOnly,
    /// Status 404, for streaming, polling and cancelling alike.
    Unknown,
}

impl Scenario {
    /// Speaks all dialects, each on its own routes.
    pub fn any_dialect() -> Self {
        Self {
            dialect: None,
            answer: Answer::default(),
            answers: BTreeMap::new(),
            pace: Pace::Free,
            replay: Replay::default(),
            stays_queued: false,
            keep_alive: false,
            continues: false,
            headers: Vec::new(),
            max_requests: 10_000,
            limits: Limits::default(),
            plan: BTreeMap::new(),
            otherwise: Vec::new(),
        }
    }

    /// Speaks one dialect; the routes of the others are 404.
    pub fn of(dialect: Dialect) -> Self {
        Self {
            dialect: Some(dialect),
            ..Self::any_dialect()
        }
    }

    /// OpenAI Chat Completions only.
    pub fn openai_chat() -> Self {
        Self::of(Dialect::OpenAiChat)
    }

    /// OpenAI Responses only.
    pub fn openai_responses() -> Self {
        Self::of(Dialect::OpenAiResponses)
    }

    /// Anthropic Messages only.
    pub fn anthropic() -> Self {
        Self::of(Dialect::AnthropicMessages)
    }

    /// Google Gemini only.
    pub fn gemini() -> Self {
        Self::of(Dialect::GeminiGenerate)
    }

    // The answer.

    /// The answer is `n` numbered words: see [`Words::numbered`].
    pub fn words(self, n: usize) -> Self {
        self.text(Words::numbered(n))
    }

    /// The answer is this text. `""` is an answer without text.
    pub fn text(mut self, text: impl Into<Words>) -> Self {
        self.answer.text = text.into();
        self
    }

    /// Request `n` gets another text.
    pub fn text_on(mut self, n: usize, text: impl Into<Words>) -> Self {
        self.answers.insert(n, text.into());
        self
    }

    /// Reasoning before the answer.
    pub fn reasoning(mut self, text: impl Into<Words>) -> Self {
        self.answer.reasoning = text.into();
        self
    }

    /// A tool call after the text. Several are parallel calls; where the dialect
    /// allows it their arguments come interleaved.
    pub fn tool_call(mut self, name: &str, arguments: &Value) -> Self {
        self.answer.tools.push(ToolCall::new(name, arguments));
        self
    }

    /// The model refuses with these words instead of the answer's text.
    pub fn refusal(mut self, text: impl Into<Words>) -> Self {
        self.answer.text = Words::default();
        self.answer.refusal = Some(text.into());
        self
    }

    /// How the answer ends.
    pub fn ending(mut self, ending: Ending) -> Self {
        self.answer.ending = ending;
        self
    }

    /// Input tokens the usage reports. Output tokens are counted: one for each
    /// delta of text, reasoning, refusal and tool arguments.
    pub fn input_tokens(mut self, n: u64) -> Self {
        self.answer.input_tokens = n;
        self
    }

    /// A sign of life after each `n` output events: Chat a comment, Anthropic a
    /// `ping`, Responses a `keepalive` event, which takes a sequence number. 0
    /// turns them off.
    pub fn keepalive_every(mut self, n: usize) -> Self {
        self.answer.keepalive_every = n;
        self
    }

    /// An event no document lists after each `n` output events; in Responses it
    /// has no sequence number, in Chat it is a chunk with `choices: null`. 0
    /// turns them off.
    pub fn vendor_note_every(mut self, n: usize) -> Self {
        self.answer.vendor_note_every = n;
        self
    }

    /// A request that holds the beginning of the answer (as a trailing assistant
    /// message, or quoted in a user message) gets the rest of it: the model of a
    /// continuation. Nothing else in the prompt may look like the answer's
    /// beginning.
    pub fn continues_partial_answers(mut self) -> Self {
        self.continues = true;
        self
    }

    // The pace.

    /// Time before each event.
    pub fn pace(mut self, time: Duration) -> Self {
        self.pace = Pace::Every(time);
        self
    }

    /// Each event waits at the gate. The head does not. A background response
    /// waits there while it is generated, once an event, however many read it. An
    /// answer without `stream` does not wait.
    pub fn gate(mut self, gate: &Gate) -> Self {
        self.pace = Pace::Gate(gate.clone());
        self
    }

    // Background responses.

    /// How background responses are replayed.
    pub fn replay(mut self, replay: Replay) -> Self {
        self.replay = replay;
        self
    }

    /// Background responses stay `queued` for ever and send nothing after
    /// `response.queued`.
    pub fn stays_queued(mut self) -> Self {
        self.stays_queued = true;
        self
    }

    // HTTP.

    /// Connections stay open after a response that ended well.
    pub fn keep_alive(mut self) -> Self {
        self.keep_alive = true;
        self
    }

    /// A header of every response (rate limits, for example).
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Most requests that are recorded; later ones are served and counted.
    pub fn max_recorded(mut self, n: usize) -> Self {
        self.max_requests = n;
        self
    }

    /// Most bytes of a request's head and of its body; more is answered with 431
    /// or 413.
    pub fn max_request(mut self, head: usize, body: usize) -> Self {
        self.limits = Limits { head, body };
        self
    }

    // Faults.

    /// A fault of request `n`, from 1. Called again for the same request, both
    /// faults happen.
    pub fn on(mut self, n: usize, fault: Fault) -> Self {
        self.plan.entry(n).or_default().push(fault);
        self
    }

    /// A fault of every request that [`on`](Self::on) says nothing about.
    pub fn otherwise(mut self, fault: Fault) -> Self {
        self.otherwise.push(fault);
        self
    }

    pub(crate) fn faults(&self, n: usize) -> &[Fault] {
        self.plan.get(&n).unwrap_or(&self.otherwise)
    }

    pub(crate) fn refuses(&self, n: usize) -> bool {
        self.faults(n)
            .iter()
            .any(|fault| matches!(fault.kind, Kind::Refuse))
    }
}
