//! What an error object says, under every name its parts are known by.

use super::super::hint;
use super::{Object, of_text, sole};
use crate::proto::model::ProviderError;
use crate::proto::retry::{wait_of_seconds, wait_of_text};
use serde_json::Value;
use std::time::Duration;

/// An error value of any shape; `around` is the object it was found in.
pub(super) fn build(error: &Value, around: &Object) -> ProviderError {
    match sole(error) {
        Value::String(message) => {
            if let Some(object) = quoted(message) {
                return fields(&object, around);
            }
            let mut built = of_text(message);
            // The string may be a bare code, such as `rate_limit_exceeded`.
            let http = status_in(around).or_else(|| documented_status(message));
            built.http_equivalent = http;
            built
        }
        Value::Object(object) => fields(object, around),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
            ProviderError::default()
        }
    }
}

/// The fields of an error object.
///
/// Gateways put the error they got into the message of their own, as text
/// (docs/providers.md#rules/error-bodies): that one then knows more.
pub(super) fn fields(object: &Object, around: &Object) -> ProviderError {
    let outer = plain_fields(object, around);
    let Some(quoted) = text(object.get("message")).and_then(quoted) else {
        return outer;
    };
    let inner = plain_fields(&quoted, &Object::new());
    ProviderError {
        error_type: inner.error_type.or(outer.error_type),
        code: inner.code.or(outer.code),
        http_equivalent: inner.http_equivalent.or(outer.http_equivalent),
        message: if inner.message.is_empty() {
            outer.message
        } else {
            inner.message
        },
        retry_after: inner.retry_after.or(outer.retry_after),
    }
}

/// The error object that a text is, if it is one.
fn quoted(message: &str) -> Option<Object> {
    let message = message.trim();
    if message.len() > MAX_QUOTED || !message.starts_with(['{', '[']) {
        return None;
    }
    let mut root = serde_json::from_str::<Value>(message).ok()?;
    if let Value::Array(items) = &mut root {
        root = (items.len() == 1).then(|| items.remove(0))?;
    }
    let Value::Object(mut object) = root else {
        return None;
    };
    match object.remove("error") {
        Some(Value::Object(error)) => Some(error),
        Some(error) => {
            object.insert("error".to_owned(), error);
            Some(object)
        }
        None => Some(object),
    }
}

fn plain_fields(object: &Object, around: &Object) -> ProviderError {
    let details = object.get("details");
    let metadata = object.get("metadata");
    let error_type = text(object.get("type"))
        .filter(|word| !matches!(*word, "error" | "response.failed" | "None"))
        .or_else(|| text(object.get("__type")).map(without_namespace))
        .or_else(|| text(object.get("status")))
        .or_else(|| text(metadata.and_then(|metadata| metadata.get("error_type"))));
    let code = code_of(object);
    let message = text(object.get("message"))
        .or_else(|| text(object.get("Message")))
        .or_else(|| text(details))
        .or_else(|| text(object.get("detail")))
        .or_else(|| text(object.get("error")))
        .or_else(|| text(object.get("msg")))
        .or_else(|| text(object.get("error_description")))
        .or_else(|| text(around.get("message")))
        .map(str::to_owned)
        .or_else(|| object.get("detail").map(validation_messages))
        .or_else(|| object.get("message").map(message_of_object))
        .unwrap_or_default();
    let http_equivalent = status_in(object)
        .or_else(|| status_in(around))
        .or_else(|| code.as_deref().and_then(documented_status))
        .or_else(|| error_type.and_then(documented_status));
    let retry_after = wait_in_fields(object)
        .or_else(|| metadata.and_then(Value::as_object).and_then(wait_in_fields))
        .or_else(|| wait_in_fields(around))
        .or_else(|| details.and_then(retry_info))
        .or_else(|| hint::wait_in_prose(&message));
    ProviderError {
        error_type: error_type.map(|word| hint::clean(word, MAX_WORD)),
        code: code.map(|word| hint::clean(&word, MAX_WORD)),
        http_equivalent,
        message: hint::clean(&message, ProviderError::MAX_MESSAGE),
        retry_after,
    }
}

/// The code, or the finer word beside it: a number in its place only repeats the
/// status, and Anthropic's detail and Google's quota say more than any code.
fn code_of(object: &Object) -> Option<String> {
    let details = object.get("details");
    let part = |name: &str, word: &str| text(object.get(name).and_then(|part| part.get(word)));
    let code = scalar(object.get("code")).filter(|code| code != "None");
    let is_word = |code: &String| !code.bytes().all(|b| b.is_ascii_digit());
    scalar(details.and_then(|details| details.get("error_code")))
        .or_else(|| details.and_then(quota_of_a_day).map(str::to_owned))
        .or_else(|| code.clone().filter(is_word))
        .or_else(|| details.and_then(error_reason).map(str::to_owned))
        .or_else(|| part("metadata", "limit_source").map(str::to_owned))
        .or_else(|| part("innererror", "code").map(str::to_owned))
        .or(code)
        .or_else(|| scalar(object.get("error_code")))
}

/// The name of a quota by the day that is used up, from Google's details: a
/// `QuotaFailure`, or the `quota_limit` of an `ErrorInfo`
/// (docs/providers.md#gemini-generate/quotas).
fn quota_of_a_day(details: &Value) -> Option<&str> {
    details
        .as_array()?
        .iter()
        .take(MAX_DETAILS)
        .flat_map(|detail| {
            let violations = detail.get("violations").and_then(Value::as_array);
            let of_violations = violations
                .into_iter()
                .flatten()
                .take(MAX_DETAILS)
                .flat_map(|violation| [violation.get("quotaId"), violation.get("quotaMetric")]);
            let metadata = detail.get("metadata");
            of_violations.chain([metadata.and_then(|metadata| metadata.get("quota_limit"))])
        })
        .filter_map(text)
        .find(|name| is_by_the_day(name))
}

fn is_by_the_day(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.contains("perday") || name.contains("per_day")
}

/// The `reason` of a `google.rpc.ErrorInfo` among the details.
fn error_reason(details: &Value) -> Option<&str> {
    details
        .as_array()?
        .iter()
        .take(MAX_DETAILS)
        .find_map(|detail| text(detail.get("reason")))
}

/// AWS writes `com.amazon.coral.service#ThrottlingException`.
fn without_namespace(word: &str) -> &str {
    word.rsplit_once('#').map_or(word, |(_, name)| name)
}

/// FastAPI's `detail`, when it is a list of what does not validate.
fn validation_messages(detail: &Value) -> String {
    match detail {
        Value::Array(items) => {
            let messages: Vec<&str> = items
                .iter()
                .take(MAX_VALIDATION_MESSAGES)
                .filter_map(|item| text(item.get("msg")))
                .collect();
            messages.join("; ")
        }
        _ => text(detail.get("message"))
            .or_else(|| text(detail.get("error")))
            .unwrap_or_default()
            .to_owned(),
    }
}

/// A `message` that is an object, in which Mistral puts FastAPI's `detail`.
fn message_of_object(message: &Value) -> String {
    match message.get("detail") {
        Some(Value::String(detail)) => detail.clone(),
        Some(detail) => validation_messages(detail),
        None => validation_messages(message),
    }
}

/// An HTTP status that an object names.
fn status_in(object: &Object) -> Option<u16> {
    [
        "code",
        "status_code",
        "statusCode",
        "status",
        "http_status",
        "raw_status_code",
    ]
    .iter()
    .filter_map(|name| object.get(*name))
    .find_map(|value| {
        let number = match value {
            Value::Number(number) => number.as_u64()?,
            Value::String(text) if text.len() == 3 => text.parse().ok()?,
            _ => return None,
        };
        u16::try_from(number)
            .ok()
            .filter(|status| (400..=599).contains(status))
    })
}

/// A wait that an object names in figures.
fn wait_in_fields(object: &Object) -> Option<Duration> {
    let number = |name: &str| object.get(name).and_then(Value::as_f64);
    number("resets_in_seconds")
        .or_else(|| number("retry_after_seconds"))
        .or_else(|| number("retry_after"))
        .or_else(|| number("retry_after_ms").map(|millis| millis / 1000.0))
        .and_then(wait_of_seconds)
}

/// The `retryDelay` of a `google.rpc.RetryInfo` among the details.
fn retry_info(details: &Value) -> Option<Duration> {
    details
        .as_array()?
        .iter()
        .take(MAX_DETAILS)
        .find_map(|detail| text(detail.get("retryDelay")))
        .and_then(wait_of_text)
}

/// The HTTP status that a provider documents for this word.
///
/// docs/providers.md#openai-chat/status-codes (OpenAI),
/// docs/providers.md#anthropic-messages/status-codes (Anthropic),
/// docs/providers.md#rules/error-bodies (Google). A word that
/// is documented under several statuses (`slow_down`) is left to the type.
fn documented_status(word: &str) -> Option<u16> {
    Some(match word {
        "invalid_request_error"
        | "invalid_prompt"
        | "context_length_exceeded"
        | "invalid_value"
        | "INVALID_ARGUMENT"
        | "FAILED_PRECONDITION" => 400,
        "authentication_error" | "invalid_api_key" | "UNAUTHENTICATED" => 401,
        "billing_error" => 402,
        "permission_error" | "unsupported_country" | "PERMISSION_DENIED" => 403,
        "not_found_error" | "NOT_FOUND" => 404,
        "conflict_error" => 409,
        "request_too_large" => 413,
        "rate_limit_error"
        | "rate_limit_exceeded"
        | "too_many_requests"
        | "insufficient_quota"
        | "credit_balance_exhausted"
        | "organization_spend_limit_exceeded"
        | "project_spend_limit_exceeded"
        | "organization_usage_limit_exceeded"
        | "usage_limit_reached"
        | "enforced_spend_limit_reached"
        | "RESOURCE_EXHAUSTED" => 429,
        "api_error" | "server_error" | "INTERNAL" => 500,
        "service_unavailable_error" | "server_is_overloaded" | "UNAVAILABLE" => 503,
        "timeout_error" | "DEADLINE_EXCEEDED" => 504,
        "overloaded_error" => 529,
        _ => return None,
    })
}

/// A text that is not empty.
pub(super) fn text(value: Option<&Value>) -> Option<&str> {
    value
        .and_then(Value::as_str)
        .filter(|text| !text.is_empty())
}

fn scalar(value: Option<&Value>) -> Option<String> {
    match value? {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Types and codes are words; a longer one is not a word of any provider.
const MAX_WORD: usize = 100;

/// Enough to see what is wrong with a request; a body of a thousand faults has
/// the same first ones.
const MAX_VALIDATION_MESSAGES: usize = 5;

/// Google sends a handful of details, and of violations in one.
const MAX_DETAILS: usize = 32;

/// The longest quoted error that is read, in bytes.
const MAX_QUOTED: usize = 64 * 1024;
