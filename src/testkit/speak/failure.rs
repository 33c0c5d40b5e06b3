//! Failures in the words of each dialect, as a status and in band.

use super::{Asked, chat, responses};
use crate::proto::model::Dialect;
use crate::testkit::frame::{Frame, FrameKind, with};
use serde_json::{Value, json};

/// A failure the provider reports. Codes and types are those of each provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Failure {
    /// More work than the provider can do (503, Anthropic 529).
    Overloaded,
    /// Too many requests; passes by itself (429).
    RateLimited,
    /// The provider failed inside (500).
    ServerError,
    /// A billing limit; waiting does not help (429, Anthropic 402).
    Quota,
    /// The input does not fit the model (400).
    ContextLength,
    /// The request is wrong (400).
    InvalidRequest,
    /// The credential is wrong (401).
    Auth,
    /// The thing asked for does not exist (404).
    NotFound,
    /// The prompt is against a policy (403 or 400).
    Policy,
}

struct Shape {
    status: u16,
    openai_type: &'static str,
    openai_code: Option<&'static str>,
    /// The code inside `response.error`.
    responses_code: &'static str,
    anthropic_status: u16,
    anthropic_type: &'static str,
    message: &'static str,
}

impl Failure {
    /// Every failure, for tables and tests.
    pub const ALL: &'static [Self] = &[
        Self::Overloaded,
        Self::RateLimited,
        Self::ServerError,
        Self::Quota,
        Self::ContextLength,
        Self::InvalidRequest,
        Self::Auth,
        Self::NotFound,
        Self::Policy,
    ];

    /// The failure a status stands for when nothing else is said.
    pub(crate) fn of_status(status: u16) -> Self {
        match status {
            401 => Self::Auth,
            402 => Self::Quota,
            403 => Self::Policy,
            404 => Self::NotFound,
            429 => Self::RateLimited,
            503 | 529 => Self::Overloaded,
            400..=499 => Self::InvalidRequest,
            _ => Self::ServerError,
        }
    }

    /// The status this provider would send.
    pub(crate) fn status(self, dialect: Dialect) -> u16 {
        match dialect {
            Dialect::AnthropicMessages => self.shape().anthropic_status,
            Dialect::OpenAiChat | Dialect::OpenAiResponses | Dialect::GeminiGenerate => {
                self.shape().status
            }
        }
    }

    /// The body of a response with an error status, or of a JSON error on 200.
    pub(crate) fn body(self, dialect: Dialect, number: usize, message: Option<&str>) -> Value {
        let shape = self.shape();
        let message = message.unwrap_or(shape.message);
        match dialect {
            Dialect::OpenAiChat | Dialect::OpenAiResponses => json!({"error": {
                "message": message,
                "type": shape.openai_type,
                "param": null,
                "code": shape.openai_code,
            }}),
            Dialect::AnthropicMessages => json!({
                "type": "error",
                "error": {"type": shape.anthropic_type, "message": message},
                "request_id": format!("req_{number}"),
            }),
            Dialect::GeminiGenerate => json!({"error": self.google(message)}),
        }
    }

    /// The envelope of Google's services. A quota that no waiting lifts is told by
    /// its name, which counts days.
    fn google(self, message: &str) -> Value {
        let status = match self {
            Self::Overloaded => "UNAVAILABLE",
            Self::RateLimited | Self::Quota => "RESOURCE_EXHAUSTED",
            Self::ServerError => "INTERNAL",
            Self::ContextLength | Self::InvalidRequest => "INVALID_ARGUMENT",
            Self::Auth => "UNAUTHENTICATED",
            Self::NotFound => "NOT_FOUND",
            Self::Policy => "PERMISSION_DENIED",
        };
        let mut error = json!({
            "code": self.shape().status,
            "message": message,
            "status": status,
        });
        if self == Self::Quota {
            error = with(
                error,
                "details",
                json!([{
                    "@type": "type.googleapis.com/google.rpc.QuotaFailure",
                    "violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel"}],
                }]),
            );
        }
        error
    }

    /// The events by which a provider says it in a stream that has begun.
    ///
    /// Chat: an `error` object, then `[DONE]` all the same. Responses: for an
    /// overload a flat `error` event and then `response.failed`, two events for
    /// one failure; otherwise `response.failed`. Anthropic: `event: error`.
    pub(crate) fn in_band(self, dialect: Dialect, asked: &Asked, next: u64) -> Vec<Frame> {
        let shape = self.shape();
        match dialect {
            Dialect::OpenAiChat => vec![
                Frame::data(
                    FrameKind::Lifecycle,
                    &self.body(dialect, asked.number, None),
                ),
                chat::done(),
            ],
            Dialect::GeminiGenerate => vec![Frame::data(
                FrameKind::Lifecycle,
                &self.body(dialect, asked.number, None),
            )],
            Dialect::AnthropicMessages => vec![Frame::named(
                FrameKind::Lifecycle,
                &json!({
                    "type": "error",
                    "error": {"type": shape.anthropic_type, "message": shape.message},
                }),
            )],
            Dialect::OpenAiResponses => {
                let mut frames = Vec::new();
                let mut push = |payload: Value| {
                    let sequence =
                        next.saturating_add(u64::try_from(frames.len()).unwrap_or(u64::MAX));
                    let payload = with(payload, "sequence_number", json!(sequence));
                    frames.push(Frame {
                        sequence: Some(sequence),
                        ..Frame::named(FrameKind::Lifecycle, &payload)
                    });
                };
                if self == Self::Overloaded {
                    push(json!({
                        "type": "error",
                        "code": shape.responses_code,
                        "message": shape.message,
                        "param": null,
                    }));
                }
                let error = json!({"code": shape.responses_code, "message": shape.message});
                let response = responses::snapshot(asked, "failed");
                let response = with(response, "error", error);
                push(json!({"type": "response.failed", "response": response}));
                frames
            }
        }
    }

    fn shape(self) -> Shape {
        match self {
            Self::Overloaded => Shape {
                status: 503,
                openai_type: "service_unavailable_error",
                openai_code: Some("server_is_overloaded"),
                responses_code: "server_is_overloaded",
                anthropic_status: 529,
                anthropic_type: "overloaded_error",
                message: "Overloaded",
            },
            Self::RateLimited => Shape {
                status: 429,
                openai_type: "rate_limit_error",
                openai_code: Some("rate_limit_exceeded"),
                responses_code: "rate_limit_exceeded",
                anthropic_status: 429,
                anthropic_type: "rate_limit_error",
                message: "Rate limit reached",
            },
            Self::ServerError => Shape {
                status: 500,
                openai_type: "server_error",
                openai_code: Some("server_error"),
                responses_code: "server_error",
                anthropic_status: 500,
                anthropic_type: "api_error",
                message: "Internal server error",
            },
            Self::Quota => Shape {
                status: 429,
                openai_type: "insufficient_quota",
                openai_code: Some("credit_balance_exhausted"),
                responses_code: "insufficient_quota",
                anthropic_status: 402,
                anthropic_type: "billing_error",
                message: "The balance is used up",
            },
            Self::ContextLength => Shape {
                status: 400,
                openai_type: "invalid_request_error",
                openai_code: Some("context_length_exceeded"),
                responses_code: "context_length_exceeded",
                anthropic_status: 400,
                anthropic_type: "invalid_request_error",
                message: "prompt is too long: 210000 tokens > 200000 maximum",
            },
            Self::InvalidRequest => Shape {
                status: 400,
                openai_type: "invalid_request_error",
                openai_code: Some("invalid_value"),
                responses_code: "invalid_prompt",
                anthropic_status: 400,
                anthropic_type: "invalid_request_error",
                message: "The request is not valid",
            },
            Self::Auth => Shape {
                status: 401,
                openai_type: "invalid_request_error",
                openai_code: Some("invalid_api_key"),
                responses_code: "invalid_api_key",
                anthropic_status: 401,
                anthropic_type: "authentication_error",
                message: "The credential is not valid",
            },
            Self::NotFound => Shape {
                status: 404,
                openai_type: "invalid_request_error",
                openai_code: None,
                responses_code: "not_found",
                anthropic_status: 404,
                anthropic_type: "not_found_error",
                message: "Not found",
            },
            Self::Policy => Shape {
                status: 403,
                openai_type: "invalid_request_error",
                openai_code: Some("unsupported_country"),
                responses_code: "bio_policy",
                anthropic_status: 403,
                anthropic_type: "permission_error",
                message: "Not permitted",
            },
        }
    }
}
