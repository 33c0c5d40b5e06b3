//! What providers say went wrong, in all the shapes they say it.
//!
//! The order of the search is docs/providers.md#rules/error-search. The functions
//! here read [`Value`]s: an error is rare, and its shape is anybody's guess.

mod fields;

use super::hint;
use crate::proto::model::ProviderError;
use fields::{build, fields, text};
use serde_json::{Map, Value};

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
    if let Some((name, exception)) = exception(object) {
        return Some(ProviderError {
            error_type: Some(hint::clean(name, MAX_NAME)),
            ..build(exception, object)
        });
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

/// The exception that an event of Bedrock is, in the JSON of its SDKs: a union
/// with the exception's name as its only member
/// (docs/providers.md#not-read-yet/bedrock).
fn exception(object: &Object) -> Option<(&str, &Value)> {
    let (name, value) = object.iter().next().filter(|_| object.len() == 1)?;
    (name.ends_with("Exception") && value.is_object()).then_some((name, value))
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
    let says_something = [
        "message",
        "Message",
        "detail",
        "details",
        "msg",
        "error_description",
        "__type",
    ]
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

/// The longest name of an exception that is told, in characters.
const MAX_NAME: usize = 100;

#[cfg(test)]
mod tests;
