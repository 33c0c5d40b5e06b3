//! Bodies that are no event stream: what a provider, or something before it, says
//! instead of an answer.

use super::{errors, hint};
use crate::proto::model::ProviderError;
use serde_json::Value;

/// The error that a JSON body is, if it is one.
///
/// Reads the shapes of OpenAI, Anthropic (with `error.details.error_code`),
/// Google (an envelope, or a list of one), OpenRouter (numeric codes), FastAPI
/// (`detail`), LM Studio, and plain strings: docs/providers.md#rules/error-bodies. An
/// answer of one of the dialects is not an error, whatever fields it has, unless
/// it is a failed response.
pub fn provider_error(json: &str) -> Option<ProviderError> {
    errors::whole(&serde_json::from_str::<Value>(json).ok()?)
}

/// The error that stands in an event stream outside its events, if this is one.
///
/// Two kinds are seen (docs/providers.md#rules/error-search): a
/// bare JSON error where a connection is given up, and a field `error:` with one,
/// which no standard knows. `text` is one line, or several.
pub fn stray_error(text: &str) -> Option<ProviderError> {
    let text = text.trim();
    if let Some(value) = text.strip_prefix("error:") {
        let error = serde_json::from_str::<Value>(value).ok()?;
        return Some(errors::of_value(&error));
    }
    // Anything else that looks like prose or like a cut field is none.
    if !text.starts_with(['{', '[']) {
        return None;
    }
    errors::in_band(&serde_json::from_str::<Value>(text).ok()?, "")
}

/// What the body of a failed exchange says, whatever it is.
///
/// A page of HTML is summarised by its title and never shown; other text is
/// shown up to the limit of [`ProviderError::message`]; what is no text is named
/// by its content type. The result is empty only when the body is.
pub fn provider_error_from_body(body: &[u8], content_type: Option<&str>) -> ProviderError {
    let body = body.strip_prefix(BOM).unwrap_or(body);
    let text = String::from_utf8_lossy(body.get(..LOOKED_AT).unwrap_or(body));
    let text = text.trim();
    if text.is_empty() {
        return ProviderError::default();
    }
    if let Ok(whole) = std::str::from_utf8(body)
        && let Some(error) = provider_error(whole)
    {
        return error;
    }
    let kind = content_type
        .and_then(|value| value.split(';').next())
        .map(|value| value.trim().to_ascii_lowercase())
        .unwrap_or_default();
    let message = if kind.contains("html") || looks_like_html(text) {
        html_summary(text, body.len())
    } else if looks_binary(text) {
        let kind = if kind.is_empty() {
            "an unknown type"
        } else {
            kind.as_str()
        };
        format!("a body of {} bytes of {kind}", body.len())
    } else {
        return errors::of_text(text);
    };
    ProviderError {
        message: hint::clean(&message, ProviderError::MAX_MESSAGE),
        ..ProviderError::default()
    }
}

/// U+FEFF, which some servers send before a JSON text.
const BOM: &[u8] = b"\xEF\xBB\xBF";

/// How much of a body is looked at for a summary, in bytes: a page's title comes
/// in its first lines.
const LOOKED_AT: usize = 16 * 1024;

/// The longest title that is shown, in characters.
const MAX_TITLE: usize = 120;

fn looks_like_html(text: &str) -> bool {
    let start: String = text.chars().take(15).collect();
    let start = start.to_ascii_lowercase();
    ["<!doctype html", "<html", "<head", "<body"]
        .iter()
        .any(|tag| start.starts_with(tag))
}

/// Control characters that no text has, or too much that did not decode.
fn looks_binary(text: &str) -> bool {
    let looked_at = text.chars().take(1024);
    let odd = looked_at
        .filter(|c| *c == '\u{fffd}' || (c.is_control() && !c.is_whitespace()))
        .count();
    odd > 4
}

fn html_summary(text: &str, length: usize) -> String {
    let lower = text.to_ascii_lowercase();
    let title = ["title", "h1"].iter().find_map(|tag| {
        let opens = lower.find(&format!("<{tag}"))?;
        let start = lower
            .get(opens..)?
            .find('>')?
            .checked_add(opens)?
            .checked_add(1)?;
        let end = lower.get(start..)?.find('<')?.checked_add(start)?;
        // ASCII lower-casing keeps every byte offset.
        let title = hint::clean(&entities(text.get(start..end)?), MAX_TITLE);
        (!title.is_empty()).then_some(title)
    });
    title.map_or_else(
        || format!("an HTML page of {length} bytes without a title"),
        |title| format!("an HTML page titled `{title}`"),
    )
}

/// The few entities that titles of error pages hold.
fn entities(text: &str) -> String {
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&#39;", "'")
        .replace("&nbsp;", " ")
        .replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(body: &[u8], content_type: Option<&str>) -> String {
        provider_error_from_body(body, content_type).message
    }

    #[test]
    fn an_error_outside_the_events_is_found() {
        let found = |text| {
            let error = stray_error(text)?;
            Some((error.error_type, error.http_equivalent, error.message))
        };
        let error = |word: Option<&str>, status, message: &str| {
            Some((word.map(str::to_owned), status, message.to_owned()))
        };
        assert_eq!(
            found(r#"{"error":{"code":503,"status":"UNAVAILABLE","message":"m"}}"#),
            error(Some("UNAVAILABLE"), Some(503), "m")
        );
        assert_eq!(
            found("[{\n \"error\": {\"code\": 503, \"message\": \"m\"}\n}]\n"),
            error(None, Some(503), "m")
        );
        assert_eq!(
            found(r#"error: {"code":500,"message":"m","type":"server_error"}"#),
            error(Some("server_error"), Some(500), "m")
        );
        assert_eq!(found(r#"error:"m""#), error(None, None, "m"));
        for none in [
            "",
            "error",
            "error: something",
            "errors: {}",
            "{\"error\":",
            "{\"error\":null}",
            "{\"choices\":[]}",
            "foo: bar",
            "null",
        ] {
            assert_eq!(found(none), None, "{none:?}");
        }
    }

    #[test]
    fn a_page_is_told_by_its_title_and_never_shown() {
        let page = b"<html><head><title>502 Bad Gateway</title></head><body><center>\
            <h1>502 Bad Gateway</h1></center><hr><center>nginx/1.27.4</center></body></html>";
        assert_eq!(
            message(page, Some("text/html; charset=utf-8")),
            "an HTML page titled `502 Bad Gateway`"
        );
        assert_eq!(message(page, None), "an HTML page titled `502 Bad Gateway`");
        assert_eq!(
            message(b"<!DOCTYPE html><html><body>Sign in</body></html>", None),
            "an HTML page of 48 bytes without a title"
        );
        assert_eq!(
            message(
                b"<HTML><TITLE lang=en>\n Host | 524: A &amp; B </TITLE>",
                None
            ),
            "an HTML page titled `Host | 524: A & B`"
        );
        assert_eq!(
            message(b"<html><title>unfinished", None),
            "an HTML page of 23 bytes without a title"
        );
        let long = format!("<html><title>{}</title>", "x".repeat(5000));
        assert!(message(long.as_bytes(), None).len() < 200);
    }

    #[test]
    fn other_bodies() {
        assert_eq!(message(b"", Some("text/html")), "");
        assert_eq!(message(b" \n", None), "");
        assert_eq!(
            message(
                b"upstream connect error, reset reason: overflow",
                Some("text/plain")
            ),
            "upstream connect error, reset reason: overflow"
        );
        assert_eq!(
            message(
                b"\0\0\0\x7f\x01\x02\x03\x04\x05",
                Some("application/vnd.amazon.eventstream")
            ),
            "a body of 9 bytes of application/vnd.amazon.eventstream"
        );
        assert_eq!(message(b"{\"error\":\"text\"}", Some("text/html")), "text");
        assert_eq!(
            message(b"no title here", Some("text/html")),
            "an HTML page of 13 bytes without a title"
        );
    }

    #[test]
    fn a_wait_in_plain_text_is_found() {
        let error = provider_error_from_body(b"slow down, try again in 2s", None);
        assert_eq!(error.retry_after, Some(std::time::Duration::from_secs(2)));
    }

    #[test]
    fn bodies_of_reported_failures() {
        let error = provider_error(
            r#"{"error":{"type":"invalid_request_error","message":"unknown model"}}"#,
        );
        let error = error.unwrap();
        assert_eq!(error.error_type.as_deref(), Some("invalid_request_error"));
        assert_eq!(error.http_equivalent, Some(400));
        let error = provider_error(
            r#"{"error":{"message":"No quota left on this account, see billing.",
            "type":"insufficient_quota","param":null,"code":"insufficient_quota"}}"#,
        );
        assert_eq!(error.unwrap().code.as_deref(), Some("insufficient_quota"));
        assert_eq!(provider_error("<html>"), None);
        assert_eq!(
            provider_error(r#"{"id":"c1","object":"chat.completion","choices":[]}"#),
            None
        );
    }
}
