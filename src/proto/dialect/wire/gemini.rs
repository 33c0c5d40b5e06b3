//! Gemini's endpoint: model, verb and framing stand in the URL.

use super::invalid;
use crate::error::Error;

/// What the URL says.
pub(super) struct Endpoint {
    pub(super) model: String,
    /// Whether the caller asked for a stream.
    pub(super) streams: bool,
}

const STREAM: &str = "streamGenerateContent";
const WHOLE: &str = "generateContent";

/// Reads the URL and makes it ask for an event stream: without `alt=sse` the
/// answer is one JSON list (docs/providers.md#gemini-generate/request).
///
/// # Errors
///
/// [`InvalidRequest`](crate::ErrorKind::InvalidRequest) when it names no model
/// and verb.
pub(super) fn endpoint(url: &mut String) -> Result<Endpoint, Error> {
    let (path, query) = url.split_once('?').unwrap_or((url, ""));
    let (before, last) = path.rsplit_once('/').unwrap_or(("", path));
    let (model, verb) = last.rsplit_once(':').unwrap_or((last, ""));
    let streams = verb == STREAM;
    if model.is_empty() || !(streams || verb == WHOLE) {
        return Err(invalid(
            "expected a URL that ends in /models/{model}:streamGenerateContent or :generateContent, but found another",
        ));
    }
    let others: String = query
        .split('&')
        .filter(|parameter| !parameter.is_empty() && !parameter.starts_with("alt="))
        .flat_map(|parameter| ["&", parameter])
        .collect();
    let endpoint = Endpoint {
        model: model.to_owned(),
        streams,
    };
    *url = format!("{before}/{model}:{STREAM}?alt=sse{others}");
    Ok(endpoint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_asks_for_an_event_stream_whatever_it_asked_for() {
        let base = "https://h/v1beta/models/gemini-x";
        for (given, streams, expected) in [
            (":streamGenerateContent", true, "?alt=sse"),
            (":streamGenerateContent?alt=sse", true, "?alt=sse"),
            (":generateContent?x=1", false, "?alt=sse&x=1"),
            (
                ":streamGenerateContent?alt=json&a=b&c",
                true,
                "?alt=sse&a=b&c",
            ),
        ] {
            let mut url = format!("{base}{given}");
            let endpoint = endpoint(&mut url).unwrap();
            assert_eq!(endpoint.model, "gemini-x");
            assert_eq!(endpoint.streams, streams);
            assert_eq!(url, format!("{base}:streamGenerateContent{expected}"));
        }
        for wrong in [
            "https://h/v1beta/models/m",
            "https://h/m:countTokens",
            "https://h/:generateContent",
        ] {
            assert!(endpoint(&mut wrong.to_owned()).is_err(), "{wrong}");
        }
    }
}
