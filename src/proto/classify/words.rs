//! The providers' words for what went wrong.
//!
//! Where they come from, and which come from no source, says
//! docs/providers.md#rules/words. Words are
//! compared without case, and without the `Exception` some clouds append.

use super::prose;
use crate::error::ErrorKind;
use crate::proto::model::{ProviderError, ResponseHead};

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
    "budget_exceeded",
    "servicequotaexceeded",
    "openrouter_credits",
    "openrouter_key_limit",
    "openrouter_free_tier_daily",
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
    "image_content_policy_violation",
];

const AUTH: &[&str] = &[
    "authentication_error",
    "invalid_api_key",
    "ip_not_authorized",
    "unauthenticated",
    "unauthorized",
    "api_key_invalid",
    "authenticationerror",
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
    "openrouter_in_flight_budget",
    "ratelimitreached",
    "toomanyrequests",
    "ratelimiterror",
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
    "capacity_exceeded",
    "service_tier_capacity_exceeded",
    "model_capacity_exhausted",
    "serviceunavailableerror",
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
    "apierror",
    "apiconnectionerror",
];

const TIMEOUT: &[&str] = &[
    "timeout_error",
    "timeout",
    "request_timeout",
    "deadline_exceeded",
    "modeltimeout",
    "cancelled",
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
    "notfounderror",
    "permissiondeniederror",
    "unprocessableentityerror",
    "resourcenotfound",
    "deploymentnotfound",
    "invalid_image",
    "invalid_image_format",
    "invalid_base64_image",
    "invalid_image_url",
    "image_too_large",
    "image_too_small",
    "image_parse_error",
    "invalid_image_mode",
    "image_file_too_large",
    "unsupported_image_media_type",
    "empty_image_file",
    "failed_to_download_image",
    "image_file_not_found",
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

    if is(QUOTA) || words().any(|word| is_by_the_day(word)) {
        return (ErrorKind::QuotaExhausted, true);
    }
    if is(CONTEXT) {
        return (ErrorKind::ContextLength, true);
    }
    if is(CONTENT) {
        return (ErrorKind::ContentPolicy, true);
    }
    // Google's 400, where everybody else sends 401.
    if is(&["api_key_invalid"]) {
        return (ErrorKind::Auth, true);
    }
    if let Some(kind) = prose::kind_of(&provider.message, status) {
        return (kind, true);
    }
    // OpenRouter's 402 that passes by itself: what runs now fills the budget.
    // Without this word a 402 is a bill, even beside a `Retry-After`.
    if status == Some(402) && is(&["openrouter_in_flight_budget"]) {
        return (ErrorKind::RateLimited, true);
    }
    if let Some(kind) = status.and_then(by_status) {
        return (kind, true);
    }
    if matches!(status, Some(200..=299)) && is_nothing(provider) {
        return (ErrorKind::EmptyResponse, true);
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
        // 499: somebody between here and the model gave up; we did not.
        408 | 499 | 504 | 524 => ErrorKind::UpstreamTimeout,
        // Bedrock's ModelErrorException: the model failed, not the request. And
        // 425, which asks for the same once more (RFC 8470 section 5.2).
        424 | 425 => ErrorKind::ServerError,
        429 => ErrorKind::RateLimited,
        // Groq's 498: the flex tier has no capacity now.
        498 | 503 | 529 => ErrorKind::Overloaded,
        400..=499 => ErrorKind::Rejected,
        501 | 505 => ErrorKind::Rejected,
        500..=599 => ErrorKind::ServerError,
        _ => return None,
    })
}

/// A quota by the day, by Google's name for it or by OpenRouter's.
fn is_by_the_day(word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    word.contains("perday") || word.contains("per_day")
}

fn is_nothing(provider: &ProviderError) -> bool {
    *provider == ProviderError::default()
}

fn contains(list: &[&str], word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    let word = word.strip_suffix("exception").unwrap_or(&word);
    list.contains(&word)
}

/// The failure with the name that AWS gives it in a header, where its body has none:
/// `ThrottlingException:http://internal.amazon.com/coral/com.amazon.bedrock/`.
pub(super) fn named_by_header(head: &ResponseHead, provider: ProviderError) -> ProviderError {
    let name = head
        .header("x-amzn-errortype")
        .and_then(|value| value.split([':', ',']).next())
        .and_then(|value| value.rsplit('#').next())
        .map(str::trim)
        .filter(|name| (1..=100).contains(&name.len()))
        .filter(|name| name.bytes().all(|b| b.is_ascii_alphanumeric()));
    ProviderError {
        error_type: provider.error_type.or_else(|| name.map(str::to_owned)),
        ..provider
    }
}
