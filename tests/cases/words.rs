//! The fixtures' words, and what this crate calls the same.

use crate::fixtures::{Class, Protocol, Retry};
use streamkeep::proto::journal::{AttemptEnded, End};
use streamkeep::proto::model::{StopReason, Usage};
use streamkeep::{Dialect, ErrorKind};

/// `error_type` in a fixture, and the kind that has to come out.
const KINDS: &[(&str, ErrorKind)] = &[
    ("truncated", ErrorKind::Truncated),
    ("body_framing", ErrorKind::BodyFraming),
    ("transport_reset", ErrorKind::Reset),
    ("connection_closed", ErrorKind::ConnectionClosed),
    ("decode_error", ErrorKind::Decode),
    ("protocol_error", ErrorKind::Protocol),
    ("empty_response", ErrorKind::EmptyResponse),
    ("event_too_large", ErrorKind::EventTooLarge),
    ("first_token_timeout", ErrorKind::FirstTokenTimeout),
    ("idle_timeout", ErrorKind::IdleTimeout),
    ("progress_timeout", ErrorKind::ProgressTimeout),
    ("rate_limited", ErrorKind::RateLimited),
    ("quota_exhausted", ErrorKind::QuotaExhausted),
    ("overloaded", ErrorKind::Overloaded),
    ("server_error", ErrorKind::ServerError),
    ("upstream_timeout", ErrorKind::UpstreamTimeout),
    ("invalid_request", ErrorKind::Rejected),
    ("content_policy", ErrorKind::ContentPolicy),
    ("context_length", ErrorKind::ContextLength),
    ("auth", ErrorKind::Auth),
    ("continuation_mismatch", ErrorKind::ContinuationMismatch),
    ("cancelled", ErrorKind::Cancelled),
];

/// The code that a failure of this `error_type` has in a journal.
#[track_caller]
pub(crate) fn code_of(error_type: &str) -> &'static str {
    KINDS
        .iter()
        .find(|(word, _)| *word == error_type)
        .unwrap_or_else(|| panic!("no kind is known for error_type {error_type}"))
        .1
        .code()
}

pub(crate) fn dialect_of(protocol: Protocol) -> Option<Dialect> {
    match protocol {
        Protocol::OpenaiChat => Some(Dialect::OpenAiChat),
        Protocol::OpenaiResponses => Some(Dialect::OpenAiResponses),
        Protocol::Anthropic => Some(Dialect::AnthropicMessages),
        Protocol::Gemini => Some(Dialect::GeminiGenerate),
        Protocol::OllamaNdjson | Protocol::Sse | Protocol::Gateway => None,
    }
}

/// `finish` in a fixture.
pub(crate) fn finish_of(reason: &StopReason) -> String {
    reason.as_str().to_owned()
}

/// How an answer ended, in the fixtures' classes.
pub(crate) fn class_of(end: End) -> Class {
    match end {
        End::Complete | End::Claimed | End::Truncated | End::Refused | End::Filtered => Class::Ok,
        End::Failed => Class::PreStream,
        End::Cancelled => Class::Cancelled,
        other => panic!("no class is known for the end {}", other.as_str()),
    }
}

/// What was decided after an exchange.
#[track_caller]
pub(crate) fn retry_of(ended: &AttemptEnded) -> Retry {
    match ended.decision.as_str() {
        "retry" | "rerun" => Retry::SameRequest,
        "resume" | "poll" | "continue" | "interrupt" => Retry::ContinueOnly,
        "finish" | "stop" => Retry::None,
        other => panic!("no retry is known for the decision {other}"),
    }
}

/// One of the counts of `usage`, under the names that the providers give it.
#[track_caller]
pub(crate) fn count_of(usage: &Usage, name: &str) -> Option<u64> {
    match name {
        "prompt_tokens" | "input_tokens" => usage.input,
        "completion_tokens" | "output_tokens" => usage.output,
        "cached_tokens" | "cache_read_input_tokens" => usage.cached_input,
        "cache_creation_input_tokens" => usage.cache_write,
        "reasoning_tokens" => usage.reasoning,
        other => panic!("no count is known for {other}"),
    }
}
