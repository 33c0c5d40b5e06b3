//! What providers say went wrong, in all the shapes they say it.
//!
//! The order of the search is docs/providers.md#rules/error-search. The functions
//! here read [`Value`]s: an error is rare, and its shape is anybody's guess.

use super::hint;
use crate::proto::model::ProviderError;
use crate::proto::retry::{wait_of_seconds, wait_of_text};
use serde_json::{Map, Value};
use std::time::Duration;

type Object = Map<String, Value>;

/// The error in one event of a stream, if it is one.
pub(super) fn in_band(root: &Value, event_name: &str) -> Option<ProviderError> {
    let object = sole(root).as_object()?;
    if let Some(error) = object.get("error").filter(|error| is_truthy(error)) {
        return Some(build(error, object));
    }
    let choices = object.get("choices").and_then(Value::as_array);
    for choice in choices.into_iter().flatten() {
        if let Some(error) = choice.get("error").filter(|error| is_truthy(error)) {
            return Some(build(error, object));
        }
        if let Some(error) = text(choice.get("finish_reason")).and_then(failed_finish) {
            return Some(error);
        }
    }
    let groq = object.get("x_groq").and_then(|groq| groq.get("error"));
    if let Some(error) = groq.filter(|error| is_truthy(error)) {
        return Some(build(error, object));
    }
    let kind = text(object.get("type")).or(Some(event_name));
    let response = object.get("response").and_then(Value::as_object);
    if let Some(response) = response
        && (kind == Some("response.failed") || is_failed(response))
    {
        return Some(of_response(response));
    }
    let says_error = kind == Some("error")
        || kind == Some("response.failed")
        || text(object.get("object")) == Some("error")
        || event_name == "error";
    says_error.then(|| fields(object, object))
}

/// The error that a whole body is, if it is one: of a non-200 response, or of a
/// 200 that is no stream. An answer of any of the dialects is not an error.
pub(super) fn whole(root: &Value) -> Option<ProviderError> {
    let root = sole(root);
    if let Value::String(message) = root {
        return Some(of_text(message));
    }
    let object = root.as_object()?;
    if let Some(error) = in_band(root, "") {
        return Some(error);
    }
    if text(object.get("object")) == Some("response") && is_failed(object) {
        return Some(of_response(object));
    }
    let is_answer = matches!(
        text(object.get("object")),
        Some("chat.completion" | "chat.completion.chunk" | "response")
    ) || text(object.get("type")) == Some("message")
        || object.get("choices").is_some_and(Value::is_array);
    if is_answer {
        return None;
    }
    if let Some(first) = object
        .get("errors")
        .and_then(Value::as_array)
        .and_then(|e| e.first())
    {
        return Some(build(first, object));
    }
    let says_something = ["message", "detail", "details", "msg", "error_description"]
        .iter()
        .any(|name| object.get(*name).is_some_and(is_truthy));
    says_something.then(|| fields(object, object))
}

/// The error behind a finish reason that is none, if it is such a one.
///
/// `error` (OpenRouter, Mistral) and `abort` (vLLM) say that the answer broke
/// off; `insufficient_system_resource` (DeepSeek) that the provider ran out of
/// capacity, which is what 503 stands for
/// (docs/providers.md#openai-chat/in-band-errors).
pub(super) fn failed_finish(reason: &str) -> Option<ProviderError> {
    let http_equivalent = match reason {
        "error" | "abort" => None,
        "insufficient_system_resource" => Some(503),
        _ => return None,
    };
    Some(ProviderError {
        code: Some(reason.to_owned()),
        http_equivalent,
        message: format!("the provider ended the answer with finish reason `{reason}`"),
        ..ProviderError::default()
    })
}

/// An error that is only text.
pub(super) fn of_text(message: &str) -> ProviderError {
    ProviderError {
        retry_after: hint::wait_in_prose(message),
        message: hint::clean(message, ProviderError::MAX_MESSAGE),
        ..ProviderError::default()
    }
}

/// The error that a value is, which is known to be one.
pub(super) fn of_value(error: &Value) -> ProviderError {
    build(error, &Object::new())
}

/// The error that the data of an error event is, when that is neither an object
/// nor a list: a JSON string, or bare text.
pub(super) fn of_data(data: &str) -> ProviderError {
    let text = serde_json::from_str::<String>(data);
    of_text(text.as_deref().unwrap_or(data))
}

/// The value, or the only member of a list: Google wraps errors so.
fn sole(value: &Value) -> &Value {
    match value {
        Value::Array(items) => match items.as_slice() {
            [only] => only,
            _ => value,
        },
        _ => value,
    }
}

fn is_truthy(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(object) => !object.is_empty(),
    }
}

fn is_failed(response: &Object) -> bool {
    text(response.get("status")) == Some("failed")
}

fn of_response(response: &Object) -> ProviderError {
    response
        .get("error")
        .filter(|error| is_truthy(error))
        .map_or_else(ProviderError::default, |error| build(error, response))
}

/// An error value of any shape; `around` is the object it was found in.
fn build(error: &Value, around: &Object) -> ProviderError {
    match sole(error) {
        Value::String(message) => {
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

/// The fields of an error object, under every name they are known by.
fn fields(object: &Object, around: &Object) -> ProviderError {
    let details = object.get("details");
    let metadata = object.get("metadata");
    let error_type = text(object.get("type"))
        .filter(|word| *word != "error" && *word != "response.failed")
        .or_else(|| text(object.get("status")))
        .or_else(|| text(metadata.and_then(|metadata| metadata.get("error_type"))));
    let code = scalar(details.and_then(|details| details.get("error_code")))
        .or_else(|| scalar(object.get("code")))
        .or_else(|| scalar(object.get("error_code")));
    let message = text(object.get("message"))
        .or_else(|| text(details))
        .or_else(|| text(object.get("detail")))
        .or_else(|| text(object.get("error")))
        .or_else(|| text(object.get("msg")))
        .or_else(|| text(object.get("error_description")))
        .or_else(|| text(around.get("message")))
        .map(str::to_owned)
        .or_else(|| object.get("detail").map(validation_messages))
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

/// An HTTP status that an object names.
fn status_in(object: &Object) -> Option<u16> {
    ["code", "status_code", "statusCode", "status", "http_status"]
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

fn text(value: Option<&Value>) -> Option<&str> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Type, code, status and message.
    type Fields<'a> = (Option<&'a str>, Option<&'a str>, Option<u16>, &'a str);

    #[track_caller]
    fn check(root: &Value, name: &str, expected: Option<Fields<'_>>) {
        let found = in_band(root, name);
        let found = found.as_ref().map(|error| {
            (
                error.error_type.as_deref(),
                error.code.as_deref(),
                error.http_equivalent,
                error.message.as_str(),
            )
        });
        assert_eq!(found, expected, "{root}");
    }

    #[test]
    fn every_in_band_shape_is_found() {
        check(
            &json!({"error":{"message":"m","type":"service_unavailable","code":503}}),
            "message",
            Some((Some("service_unavailable"), Some("503"), Some(503), "m")),
        );
        check(
            &json!({"error":"plain"}),
            "message",
            Some((None, None, None, "plain")),
        );
        check(
            &json!([{"error":{"code":503,"status":"UNAVAILABLE","message":"m"}}]),
            "message",
            Some((Some("UNAVAILABLE"), Some("503"), Some(503), "m")),
        );
        check(
            &json!({"error":[{"code":429,"message":"m"}]}),
            "message",
            Some((None, Some("429"), Some(429), "m")),
        );
        check(
            &json!({"choices":[{"error":{"code":502,"message":"m"},"finish_reason":"stop"}]}),
            "message",
            Some((None, Some("502"), Some(502), "m")),
        );
        check(
            &json!({"choices":[{"finish_reason":"abort"}]}),
            "message",
            Some((
                None,
                Some("abort"),
                None,
                "the provider ended the answer with finish reason `abort`",
            )),
        );
        check(
            &json!({"x_groq":{"id":"r","error":"over capacity"},"choices":[]}),
            "message",
            Some((None, None, None, "over capacity")),
        );
        check(
            &json!({"type":"error","code":"server_error","message":"m","param":null}),
            "error",
            Some((None, Some("server_error"), Some(500), "m")),
        );
        check(
            &json!({"type":"error","error":{"type":"overloaded_error","message":"m"}}),
            "error",
            Some((Some("overloaded_error"), None, Some(529), "m")),
        );
        check(
            &json!({"type":"response.failed","response":{"status":"failed",
                "error":{"code":"rate_limit_exceeded","message":"m"}}}),
            "response.failed",
            Some((None, Some("rate_limit_exceeded"), Some(429), "m")),
        );
        check(
            &json!({"type":"response.completed","response":{"status":"failed","error":null}}),
            "x",
            Some((None, None, None, "")),
        );
        check(
            &json!({"code":400,"details":"too many"}),
            "error",
            Some((None, Some("400"), Some(400), "too many")),
        );
        check(
            &json!({"object":"error","message":"m","type":"BadRequestError","code":400}),
            "message",
            Some((Some("BadRequestError"), Some("400"), Some(400), "m")),
        );
        check(
            &json!({"error":{"message":"Compute error."},"message":"Compute error."}),
            "message",
            Some((None, None, None, "Compute error.")),
        );
    }

    #[test]
    fn what_says_nothing_is_not_an_error() {
        for root in [
            json!({"error":null,"choices":[]}),
            json!({"error":{},"choices":[]}),
            json!({"error":"","choices":[]}),
            json!({"error":false}),
            json!({"choices":[{"finish_reason":"stop","error":null}]}),
            json!({"type":"response.completed","response":{"status":"completed","error":null}}),
            json!([1, 2]),
            json!([]),
            json!("text"),
        ] {
            check(&root, "message", None);
        }
    }

    #[test]
    fn a_number_is_a_status_only_if_it_is_one() {
        for (code, status) in [
            (json!(400), Some(400)),
            (json!("599"), Some(599)),
            (json!(399), None),
            (json!(600), None),
            (json!(1302), None),
            (json!(-503), None),
            (json!("50x"), None),
        ] {
            let error = in_band(&json!({"error":{"code":code}}), "message").unwrap();
            assert_eq!(error.http_equivalent, status, "{code}");
        }
    }

    #[test]
    fn waits_are_found_in_figures_and_in_prose() {
        for (root, millis) in [
            (json!({"error":{"resets_in_seconds":9568}}), 9_568_000),
            (
                json!({"error":{"message":"Please try again in 1.3s."}}),
                1_300,
            ),
            (
                json!({"error":{"message":"Try again in 35 seconds"}}),
                35_000,
            ),
            (
                json!({"error":{"details":[{"@type":"x"},{"retryDelay":"46s"}]}}),
                46_000,
            ),
            (json!({"error":{"metadata":{"retry_after_ms":250}}}), 250),
            (json!({"error":"please try again in 28ms"}), 28),
        ] {
            let error = in_band(&root, "message").unwrap();
            assert_eq!(
                error.retry_after,
                Some(Duration::from_millis(millis)),
                "{root}"
            );
        }
    }

    #[test]
    fn a_spend_limit_of_anthropic_is_told_by_its_code() {
        let body = json!({"type":"error","request_id":"req_1","error":{"type":"rate_limit_error",
            "message":"m","details":{"error_code":"enforced_spend_limit_reached"}}});
        let error = whole(&body).unwrap();
        assert_eq!(error.code.as_deref(), Some("enforced_spend_limit_reached"));
        assert_eq!(error.http_equivalent, Some(429));
    }

    #[test]
    fn whole_bodies_that_are_errors() {
        for (body, message) in [
            (json!({"detail":"Not Found"}), "Not Found"),
            (
                json!({"detail":[{"loc":["body"],"msg":"field required"},{"msg":"too long"}]}),
                "field required; too long",
            ),
            (
                json!({"statusCode":401,"message":"Access denied"}),
                "Access denied",
            ),
            (json!("plain"), "plain"),
            (json!([{"error":{"message":"wrapped"}}]), "wrapped"),
            (json!({"errors":[{"message":"first"}]}), "first"),
            (
                json!({"object":"response","status":"failed","error":{"message":"m"}}),
                "m",
            ),
        ] {
            assert_eq!(whole(&body).unwrap().message, message, "{body}");
        }
    }

    #[test]
    fn whole_bodies_that_are_answers() {
        for body in [
            json!({"object":"chat.completion","choices":[{"message":{}}],"error":null}),
            json!({"object":"response","status":"completed","error":null,"message":"x"}),
            json!({"type":"message","content":[]}),
            json!({}),
            json!(1),
        ] {
            assert_eq!(whole(&body), None, "{body}");
        }
    }
}
