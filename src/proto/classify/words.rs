//! The providers' words for what went wrong.
//!
//! Where they come from, and which come from no source, says
//! docs/providers.md#rules/words. Words are
//! compared without case, and without the `Exception` some clouds append.

use crate::error::ErrorKind;
use crate::proto::model::ProviderError;

/// Billing, spend and usage limits that waiting does not lift, whatever the
/// status: OpenAI's quota family, Anthropic's billing and tier caps, a plan's
/// usage limit.
const QUOTA: &[&str] = &[
    "insufficient_quota",
    "credit_balance_exhausted",
    "organization_spend_limit_exceeded",
    "project_spend_limit_exceeded",
    "organization_usage_limit_exceeded",
    "billing_hard_limit_reached",
    "billing_not_active",
    "billing_error",
    "enforced_spend_limit_reached",
    "usage_limit_reached",
    "usage_not_included",
    "quota_exceeded",
    "payment_required",
];

const CONTEXT: &[&str] = &[
    "context_length_exceeded",
    "context_window_exceeded",
    "model_context_window_exceeded",
    "exceed_context_size_error",
];

const CONTENT: &[&str] = &[
    "content_filter",
    "content_policy_violation",
    "responsibleaipolicyviolation",
    "cyber_policy",
    "bio_policy",
    "moderation_blocked",
    "data_inspection_failed",
];

const AUTH: &[&str] = &[
    "authentication_error",
    "invalid_api_key",
    "ip_not_authorized",
    "unauthenticated",
    "unauthorized",
];

const RATE: &[&str] = &[
    "rate_limit_error",
    "rate_limit_exceeded",
    "rate_limit_reached",
    "rate_limited",
    "too_many_requests",
    "resource_exhausted",
    "throttling",
    "throttling_error",
    "modelnotready",
];

const OVERLOAD: &[&str] = &[
    "overloaded_error",
    "overloaded",
    "server_is_overloaded",
    "service_unavailable",
    "service_unavailable_error",
    "serviceunavailable",
    "unavailable",
    "unavailable_error",
    "engine_overloaded",
    "insufficient_system_resource",
    "slow_down",
];

const SERVER: &[&str] = &[
    "server_error",
    "api_error",
    "internal",
    "internal_error",
    "internal_server_error",
    "internalserver",
    "internalservererror",
    "internalfailure",
    "modelstreamerror",
    "modelerror",
    "provider_unavailable",
    "upstream_error",
    "vector_store_timeout",
    "abort",
    "error",
];

const TIMEOUT: &[&str] = &[
    "timeout_error",
    "timeout",
    "request_timeout",
    "deadline_exceeded",
    "modeltimeout",
];

const REJECTED: &[&str] = &[
    "invalid_request_error",
    "invalid_request",
    "invalid_argument",
    "invalid_value",
    "invalid_prompt",
    "invalid_type",
    "bad_request",
    "badrequesterror",
    "validation",
    "failed_precondition",
    "unprocessable_entity",
    "unsupported_country",
    "unsupported_parameter",
    "unsupported_value",
    "not_found_error",
    "not_found",
    "model_not_found",
    "permission_error",
    "permission_denied",
    "accessdenied",
    "request_too_large",
    "conflict_error",
    "data_residency_mismatch",
    "usage_policy_violation",
    "not_supported_error",
];

/// The kind, and whether any word or status was one we know.
///
/// The code is read before the type: all of OpenAI's billing failures share one
/// type and differ by code. Words that no waiting lifts win over the status;
/// otherwise the status, where there is one, wins over the softer words: a 503
/// is an overload whatever the body calls it.
pub(super) fn kind_of(provider: &ProviderError, status: Option<u16>) -> (ErrorKind, bool) {
    let words = || [&provider.code, &provider.error_type].into_iter().flatten();
    let is = |list: &[&str]| words().any(|word| contains(list, word));

    if is(QUOTA) {
        return (ErrorKind::QuotaExhausted, true);
    }
    if is(CONTEXT) || too_long(&provider.message, status) {
        return (ErrorKind::ContextLength, true);
    }
    if is(CONTENT) {
        return (ErrorKind::ContentPolicy, true);
    }
    if status == Some(400) && spend_limit(&provider.message) {
        return (ErrorKind::QuotaExhausted, true);
    }
    if let Some(kind) = status.and_then(by_status) {
        return (kind, true);
    }
    let soft: [(&[&str], ErrorKind); 6] = [
        (AUTH, ErrorKind::Auth),
        (RATE, ErrorKind::RateLimited),
        (OVERLOAD, ErrorKind::Overloaded),
        (TIMEOUT, ErrorKind::UpstreamTimeout),
        (REJECTED, ErrorKind::Rejected),
        (SERVER, ErrorKind::ServerError),
    ];
    for word in words() {
        for (list, kind) in soft {
            if contains(list, word) {
                return (kind, true);
            }
        }
    }
    // A message and no word at all is what small servers send when they break
    // (LM Studio, Ollama, llama.cpp before 2025-09). A word we do not know is
    // something else: the provider meant something by it.
    let silent = words().next().is_none() && status.is_none();
    (ErrorKind::ServerError, silent)
}

/// What a status says by itself. `None` for one that says nothing.
fn by_status(status: u16) -> Option<ErrorKind> {
    Some(match status {
        300..=399 => ErrorKind::Rejected,
        401 => ErrorKind::Auth,
        402 => ErrorKind::QuotaExhausted,
        408 | 504 | 524 => ErrorKind::UpstreamTimeout,
        // Bedrock's ModelErrorException: the model failed, not the request.
        424 => ErrorKind::ServerError,
        429 => ErrorKind::RateLimited,
        503 | 529 => ErrorKind::Overloaded,
        400..=499 => ErrorKind::Rejected,
        501 | 505 => ErrorKind::Rejected,
        500..=599 => ErrorKind::ServerError,
        _ => return None,
    })
}

fn contains(list: &[&str], word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    let word = word.strip_suffix("exception").unwrap_or(&word);
    list.contains(&word)
}

/// A prompt that does not fit, told in prose only. Read for statuses that mean
/// "your request": elsewhere prose decides nothing.
fn too_long(message: &str, status: Option<u16>) -> bool {
    let requests_fault = matches!(status, Some(400 | 413 | 422));
    let message = message.to_ascii_lowercase();
    requests_fault
        && [
            "prompt is too long",
            "maximum context length",
            "context window",
            "context length",
            "exceeds the available context size",
            "input is too long",
        ]
        .iter()
        .any(|phrase| message.contains(phrase))
}

/// Anthropic's customer-set spend limit: a 400 that only its text tells apart.
fn spend_limit(message: &str) -> bool {
    message
        .to_ascii_lowercase()
        .contains("specified api usage limits")
}
