//! Continuation: a new request that asks the model to go on with a broken answer,
//! and the splice of its answer onto what was there. Anthropic Messages only.
//!
//! The rules are docs/providers.md#anthropic-messages/continuation.

mod model_name;
mod seam;
mod splicer;

pub use model_name::preferred_form;
pub use splicer::{SpliceError, Splicer};

use super::wire::Members;
use crate::proto::model::{Answer, PartKind, ProviderError, StopReason};
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// How a model is asked to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ContinuationForm {
    /// The partial text is a trailing assistant message, and the model writes the
    /// rest of that message. For Claude up to 4.5; later models answer 400.
    Prefill,
    /// A user message holds the partial text and an instruction to go on.
    UserMessage,
}

impl ContinuationForm {
    /// The form to try once when a model refuses this one.
    pub const fn other(self) -> Self {
        match self {
            Self::Prefill => Self::UserMessage,
            Self::UserMessage => Self::Prefill,
        }
    }
}

/// What a user message says after the partial text, unless the caller says it
/// differently. It asks for the bare rest, because whatever else the model writes
/// would stand in the middle of the answer.
pub const DEFAULT_INSTRUCTION: &str = "The text in <partial_answer> is the beginning of your answer \
to my last message; the connection broke there. Go on from exactly where it stops, even in the \
middle of a word. Write only what comes next: do not repeat or rephrase any of it, do not mention \
the interruption, and add no introduction.";

/// A request body that asks to go on, and what the splice needs to know of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Continuation {
    /// The body. Everything but `messages` is as in the original.
    pub body: String,
    /// The form it has.
    pub form: ContinuationForm,
    /// The text that the reader has.
    pub captured: String,
    /// How many bytes of white space at the end of `captured` were left out of the
    /// request.
    ///
    /// The API refuses a trailing assistant message that ends with white space
    /// (`final assistant content cannot end with trailing whitespace`; seen by
    /// users, for example in tailcallhq/forgecode issue 1872; no official page was
    /// found). The reader has that white space already, so the splicer takes it
    /// off the continuation again where the model repeats it.
    pub trimmed: usize,
}

/// Why an answer cannot be continued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum NotContinuable {
    /// No text came.
    #[error("expected captured text, but found none")]
    NothingCaptured,
    /// Only reasoning came, and an unfinished thinking block cannot be sent back:
    /// its signature comes last.
    #[error("expected captured text, but found only reasoning")]
    OnlyReasoning,
    /// A tool call started. It may have been run, and half of one cannot be sent
    /// back.
    #[error("expected only text, but found that a tool call had started")]
    ToolCallStarted,
    /// A block that the provider filled (a tool it ran, its result) came. Without
    /// it the text around it has no ground.
    #[error("expected only text, but found a block that cannot be sent back")]
    OpaqueContent,
    /// The output is bound to a JSON form, which a splice cannot keep.
    #[error("expected free text, but found that the request constrains the output")]
    ConstrainedOutput,
    /// The model refused or was stopped by a filter.
    #[error("expected an interruption, but found that the answer was refused")]
    Refused,
    /// The request turns thinking on, and then a trailing assistant message has to
    /// start with a thinking block (seen by users, for example in Aider-AI/aider
    /// issue 3820). The other form works.
    #[error("expected a request without thinking for a prefill, but found it turned on")]
    PrefillWithThinking,
    /// The original body is not one of this dialect.
    #[error("expected a body with a list of messages, but found another shape")]
    UnknownBody,
}

/// Builds the body that asks to go on with `answer`.
///
/// `body` is the original request's. What goes back is the text of the answer up
/// to its last text block; unfinished thinking behind it is dropped. In
/// [`ContinuationForm::Prefill`] it becomes a trailing assistant message, joined
/// to one that the caller had put there. In [`ContinuationForm::UserMessage`] it
/// stands in a `<partial_answer>` element of a user message, followed by
/// `instruction` (see [`DEFAULT_INSTRUCTION`]).
///
/// # Errors
///
/// [`NotContinuable`], by name.
pub fn continuation(
    body: &str,
    answer: &Answer,
    form: ContinuationForm,
    instruction: &str,
) -> Result<Continuation, NotContinuable> {
    let blocks = captured_blocks(answer)?;
    let mut members: Members<'_> =
        serde_json::from_str(body).map_err(|_| NotContinuable::UnknownBody)?;
    check_constraints(&members, form)?;
    let messages: Vec<&RawValue> = members
        .get("messages")
        .and_then(|messages| serde_json::from_str(messages).ok())
        .ok_or(NotContinuable::UnknownBody)?;
    let mut messages: Vec<String> = messages.iter().map(|raw| raw.get().to_owned()).collect();
    let captured = blocks.concat();
    let trimmed = match form {
        ContinuationForm::Prefill => {
            let (blocks, trimmed) = without_trailing_space(&blocks);
            match messages.last_mut() {
                Some(last) if is_assistant(last) => {
                    *last = joined(last, &blocks).ok_or(NotContinuable::UnknownBody)?;
                }
                _ => messages.push(assistant(&blocks).to_string()),
            }
            trimmed
        }
        ContinuationForm::UserMessage => {
            let text = format!("<partial_answer>\n{captured}\n</partial_answer>\n\n{instruction}");
            messages.push(json!({"role": "user", "content": text}).to_string());
            0
        }
    };
    members.set("messages", format!("[{}]", messages.join(",")));
    Ok(Continuation {
        body: members.to_json(),
        form,
        captured,
        trimmed,
    })
}

/// Whether this is the answer of a model that does not take a prefill: the
/// 400 that users see (docs/providers.md#anthropic-messages/continuation). The
/// other form may be tried once.
pub fn is_prefill_refusal(error: &ProviderError) -> bool {
    let message = error.message.to_ascii_lowercase();
    error.http_equivalent.is_none_or(|status| status == 400)
        && error
            .error_type
            .as_deref()
            .is_none_or(|word| word == "invalid_request_error")
        && message.contains("assistant message prefill")
}

/// The texts that can be sent back, without empty ones.
fn captured_blocks(answer: &Answer) -> Result<Vec<&str>, NotContinuable> {
    if answer.has_tool_calls() {
        return Err(NotContinuable::ToolCallStarted);
    }
    if matches!(
        answer.stop(),
        Some(StopReason::Refusal | StopReason::ContentFilter)
    ) {
        return Err(NotContinuable::Refused);
    }
    let choice = answer
        .choices
        .get(&0)
        .ok_or(NotContinuable::NothingCaptured)?;
    let kind = |kind: PartKind| choice.parts.values().any(|part| part.kind == Some(kind));
    if kind(PartKind::ToolCall) {
        return Err(NotContinuable::ToolCallStarted);
    }
    if kind(PartKind::Opaque) {
        return Err(NotContinuable::OpaqueContent);
    }
    let blocks: Vec<&str> = choice
        .parts
        .values()
        .map(|part| part.text.as_str())
        .filter(|text| !text.is_empty())
        .collect();
    if blocks.iter().any(|text| !text.trim().is_empty()) {
        Ok(blocks)
    } else if kind(PartKind::Reasoning) {
        Err(NotContinuable::OnlyReasoning)
    } else {
        Err(NotContinuable::NothingCaptured)
    }
}

fn check_constraints(members: &Members<'_>, form: ContinuationForm) -> Result<(), NotContinuable> {
    let member = |name: &str| {
        members
            .get(name)
            .and_then(|json| serde_json::from_str::<Value>(json).ok())
            .filter(|value| !value.is_null())
    };
    let word = |value: &Value| value.get("type").and_then(Value::as_str).map(str::to_owned);
    let formatted = member("output_config")
        .and_then(|config| config.get("format").cloned())
        .is_some_and(|format| !format.is_null());
    let forced = member("tool_choice")
        .and_then(|choice| word(&choice))
        .is_some_and(|word| word == "any" || word == "tool");
    if formatted
        || forced
        || member("output_format").is_some()
        || member("response_format").is_some()
    {
        return Err(NotContinuable::ConstrainedOutput);
    }
    let thinks = member("thinking")
        .and_then(|thinking| word(&thinking))
        .is_some_and(|word| word != "disabled");
    if thinks && form == ContinuationForm::Prefill {
        return Err(NotContinuable::PrefillWithThinking);
    }
    Ok(())
}

/// The blocks without white space at the end, and how many bytes that took off.
fn without_trailing_space<'a>(blocks: &[&'a str]) -> (Vec<&'a str>, usize) {
    let mut kept = blocks.to_vec();
    let mut trimmed = 0_usize;
    while let Some(last) = kept.pop() {
        let text = last.trim_end();
        trimmed = trimmed.saturating_add(last.len().saturating_sub(text.len()));
        if !text.is_empty() {
            kept.push(text);
            break;
        }
    }
    (kept, trimmed)
}

fn assistant(blocks: &[&str]) -> Value {
    match blocks {
        [only] => json!({"role": "assistant", "content": only}),
        _ => json!({"role": "assistant", "content": text_blocks(blocks)}),
    }
}

fn text_blocks(blocks: &[&str]) -> Vec<Value> {
    blocks
        .iter()
        .map(|text| json!({"type": "text", "text": text}))
        .collect()
}

fn is_assistant(message: &str) -> bool {
    serde_json::from_str::<Value>(message)
        .is_ok_and(|message| message.get("role").and_then(Value::as_str) == Some("assistant"))
}

/// The caller's own prefill with the captured text behind it. The first captured
/// block goes on where the prefill stops, so the two are one text.
fn joined(message: &str, blocks: &[&str]) -> Option<String> {
    let mut message: Value = serde_json::from_str(message).ok()?;
    let (first, rest) = blocks.split_first()?;
    match message.get_mut("content")? {
        Value::String(text) => {
            if rest.is_empty() {
                text.push_str(first);
            } else {
                let first = format!("{text}{first}");
                let mut content = text_blocks(&[&first]);
                content.extend(text_blocks(rest));
                *message.get_mut("content")? = content.into();
            }
        }
        Value::Array(content) => {
            let mut rest = blocks;
            if let Some(Value::String(text)) = content
                .last_mut()
                .filter(|block| block.get("type").and_then(Value::as_str) == Some("text"))
                .and_then(|block| block.get_mut("text"))
            {
                text.push_str(first);
                (_, rest) = blocks.split_first()?;
            }
            content.extend(text_blocks(rest));
        }
        _ => return None,
    }
    Some(message.to_string())
}

#[cfg(test)]
mod tests;
