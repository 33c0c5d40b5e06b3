//! The request side: what is sent to a provider, as plain values.

mod canonical;
mod gemini;
mod headers;
mod members;
mod url;

use crate::error::{Error, ErrorKind};
use crate::proto::model::{Dialect, Fingerprint, HttpRequest, Method};
use bytes::Bytes;
pub(super) use members::Members;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::fmt;

/// One request to a provider, checked, without its credential.
///
/// The credential is added above the waterline, at the last moment. So a URL or
/// a header that carries one is refused here: it would end in journals and logs.
///
/// The crate always streams upstream. A body that does not ask for a stream gets
/// `"stream": true`, and a chat body that says nothing about `stream_options`
/// (or says `null`) gets `"stream_options": {"include_usage": true}`, because
/// without it a chat stream has no token counts (docs/providers.md#openai-chat/request). A caller
/// who does not want that says `"stream_options": {}`. Nothing else changes: the
/// other members keep their order and their exact text, and a body that needs
/// neither addition is sent byte for byte.
#[derive(Clone)]
pub struct Request {
    dialect: Dialect,
    url: String,
    headers: Vec<(String, String)>,
    body: Bytes,
    fingerprint: Fingerprint,
    model: Option<String>,
    wanted_stream: bool,
    background: bool,
}

impl Request {
    /// Checks and takes a request. `url` is the dialect's endpoint for new
    /// answers (`.../chat/completions`, `.../responses`, `.../messages`,
    /// `.../models/{model}:streamGenerateContent`); `body` is a JSON object.
    ///
    /// Gemini says by the URL what others say in the body: `:generateContent`
    /// becomes `:streamGenerateContent`, `alt=sse` is added, and the body stays as
    /// it is.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidRequest`]:
    /// - the URL is not absolute, not http or https, holds user information, a
    ///   fragment, a character that does not belong, or a query parameter that
    ///   looks like a credential (`key`, `api_key`, `access_token`, ...);
    /// - the body is not a JSON object, or is nested more than 127 levels deep.
    pub fn new(
        dialect: Dialect,
        url: impl Into<String>,
        body: impl Into<Vec<u8>>,
    ) -> Result<Self, Error> {
        let mut url = url.into();
        url::check(&url)?;
        let gemini = (dialect == Dialect::GeminiGenerate)
            .then(|| gemini::endpoint(&mut url))
            .transpose()?;
        let body = Bytes::from(body.into());
        let text = std::str::from_utf8(&body)
            .map_err(|_| invalid("expected a body of UTF-8 text, but found other bytes"))?;
        let Value::Object(object) = serde_json::from_str(text).map_err(|error| not_json(&error))?
        else {
            return Err(invalid(
                "expected a JSON object as the body, but found another JSON value",
            ));
        };
        let fingerprint = fingerprint(dialect, &url, &object);
        let wanted_stream = match &gemini {
            Some(endpoint) => endpoint.streams,
            None => object.get("stream") == Some(&Value::Bool(true)),
        };
        let needs_usage = dialect == Dialect::OpenAiChat
            && object.get("stream_options").is_none_or(Value::is_null);
        let rewritten = if gemini.is_some() || (wanted_stream && !needs_usage) {
            None
        } else {
            let mut members: Members<'_> =
                serde_json::from_str(text).map_err(|error| not_json(&error))?;
            members.set("stream", "true");
            if needs_usage {
                members.set("stream_options", r#"{"include_usage":true}"#);
            }
            Some(members.to_json())
        };
        Ok(Self {
            dialect,
            url,
            headers: Vec::new(),
            fingerprint,
            model: match gemini {
                Some(endpoint) => Some(endpoint.model),
                None => object
                    .get("model")
                    .and_then(Value::as_str)
                    .map(str::to_owned),
            },
            wanted_stream,
            background: dialect == Dialect::OpenAiResponses
                && object.get("background") == Some(&Value::Bool(true)),
            body: rewritten.map_or(body, Bytes::from),
        })
    }

    /// The same request with one more header. The name becomes lower-case.
    /// `accept`, `accept-encoding` and `content-type` are this crate's to set, and
    /// what the caller says about them is dropped.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidRequest`] when the header carries a credential
    /// (`authorization`, `x-api-key`, `cookie`, ...), belongs to one connection
    /// (RFC 9110 section 7.6.1), frames the body (`host`, `content-length`,
    /// `transfer-encoding`), or is not a header.
    pub fn with_header(
        mut self,
        name: impl Into<String>,
        value: impl Into<String>,
    ) -> Result<Self, Error> {
        let headers = vec![(name.into(), value.into())];
        self.headers.extend(headers::checked(headers)?);
        Ok(self)
    }

    /// The dialect.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// The endpoint.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The caller's headers; names are lower-case.
    pub fn headers(&self) -> &[(String, String)] {
        &self.headers
    }

    /// The body as it is sent.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// The model that the body names, if it names one.
    pub fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    /// Whether the caller asked for a stream. The upstream always streams; this
    /// says in which form the answer is wanted.
    pub fn wanted_stream(&self) -> bool {
        self.wanted_stream
    }

    /// Whether it runs in the background of the provider (`background: true` of
    /// the Responses API), so that its stream can be resumed by a cursor.
    pub fn is_background(&self) -> bool {
        self.background
    }

    /// What makes two requests the same: dialect, URL and the canonical form of
    /// the body (members sorted, no white space, numbers by value, strings by
    /// content). Headers do not count. Neither do `stream` and the usage option
    /// that this type adds, so a body has the same fingerprint before and after.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// The same request with another body: a continuation. The new body is
    /// checked and completed as in [`Request::new`].
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidRequest`] when the body is not a JSON object.
    pub fn with_body(&self, body: impl Into<Vec<u8>>) -> Result<Self, Error> {
        let headers = self.headers.clone();
        let request = Self::new(self.dialect, self.url.clone(), body)?;
        Ok(Self { headers, ..request })
    }

    /// The same question at another endpoint of the same dialect: headers and
    /// body stay, except for the model, where one is given.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidRequest`] when the URL is not one, as in
    /// [`Request::new`].
    pub fn at(&self, url: impl Into<String>, model: Option<&str>) -> Result<Self, Error> {
        let body = match model {
            // Gemini's stands in the URL.
            Some(model) if self.dialect != Dialect::GeminiGenerate => {
                let mut members: Members<'_> =
                    serde_json::from_slice(&self.body).map_err(|error| not_json(&error))?;
                members.set("model", Value::from(model).to_string());
                members.to_json().into_bytes()
            }
            _ => self.body.to_vec(),
        };
        let headers = self.headers.clone();
        let request = Self::new(self.dialect, url, body)?;
        Ok(Self { headers, ..request })
    }

    /// Where it goes, as far as it may be told: scheme, host and path, without
    /// the query.
    pub fn endpoint(&self) -> &str {
        self.url.split('?').next().unwrap_or_default()
    }

    /// The host and port that it goes to.
    pub fn host(&self) -> &str {
        let rest = self.url.split_once("://").map_or("", |(_, rest)| rest);
        rest.split(['/', '?']).next().unwrap_or_default()
    }

    /// The request that starts an answer.
    pub fn send(&self) -> HttpRequest {
        let mut headers = self.common_headers(EVENT_STREAM);
        headers.push(("content-type".to_owned(), "application/json".to_owned()));
        HttpRequest {
            method: Method::Post,
            url: self.url.clone(),
            headers,
            body: self.body.clone(),
        }
    }

    /// The request that goes on with a response after event number `after`; from
    /// its beginning when that is `None` (docs/providers.md#openai-responses/cursor).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotPossible`] when the dialect has no such request or the id
    /// cannot be one.
    pub fn resume(&self, response_id: &str, after: Option<u64>) -> Result<HttpRequest, Error> {
        let cursor = after.map(|after| format!("&starting_after={after}"));
        let query = format!("stream=true{}", cursor.unwrap_or_default());
        self.of_response(Method::Get, response_id, "", &query, EVENT_STREAM)
    }

    /// The request that asks for a response as it is now.
    ///
    /// # Errors
    ///
    /// As [`Request::resume`].
    pub fn poll(&self, response_id: &str) -> Result<HttpRequest, Error> {
        self.of_response(Method::Get, response_id, "", "", JSON)
    }

    /// The request that stops a background response. Stopping twice is harmless
    /// (docs/providers.md#openai-responses/cursor).
    ///
    /// # Errors
    ///
    /// As [`Request::resume`].
    pub fn cancel(&self, response_id: &str) -> Result<HttpRequest, Error> {
        self.of_response(Method::Post, response_id, "/cancel", "", JSON)
    }

    fn of_response(
        &self,
        method: Method,
        response_id: &str,
        verb: &str,
        query: &str,
        accept: &str,
    ) -> Result<HttpRequest, Error> {
        if self.dialect != Dialect::OpenAiResponses {
            return Err(Error::new(
                ErrorKind::NotPossible,
                format!(
                    "expected a dialect that names its responses, but found {}",
                    self.dialect
                ),
            ));
        }
        let id = url::path_segment(response_id)?;
        Ok(HttpRequest {
            method,
            url: url::join(&self.url, &format!("/{id}{verb}"), query),
            headers: self.common_headers(accept),
            body: Bytes::new(),
        })
    }

    fn common_headers(&self, accept: &str) -> Vec<(String, String)> {
        let mut headers = self.headers.clone();
        let versioned = headers.iter().any(|(name, _)| name == "anthropic-version");
        if self.dialect == Dialect::AnthropicMessages && !versioned {
            headers.push(("anthropic-version".to_owned(), ANTHROPIC_VERSION.to_owned()));
        }
        headers.push(("accept".to_owned(), accept.to_owned()));
        // A compressed stream is held back by whoever compresses it.
        headers.push(("accept-encoding".to_owned(), "identity".to_owned()));
        headers
    }
}

impl fmt::Debug for Request {
    /// Names of headers and the size of the body: neither is for a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Request")
            .field("dialect", &self.dialect)
            .field("url", &self.url)
            .field("headers", &names)
            .field("body_len", &self.body.len())
            .field("fingerprint", &self.fingerprint)
            .finish_non_exhaustive()
    }
}

/// Anthropic's clients name it in every request
/// (docs/providers.md#anthropic-messages/request).
const ANTHROPIC_VERSION: &str = "2023-06-01";
const EVENT_STREAM: &str = "text/event-stream";
const JSON: &str = "application/json";

fn fingerprint(dialect: Dialect, url: &str, body: &serde_json::Map<String, Value>) -> Fingerprint {
    let canonical = canonical::object(body, |name, value| {
        let is_ours = match name {
            "stream" => value.is_boolean() || value.is_null(),
            "stream_options" if dialect == Dialect::OpenAiChat => {
                value.is_null() || *value == serde_json::json!({"include_usage": true})
            }
            _ => false,
        };
        !is_ours
    });
    let mut digest = Sha256::new();
    // A zero byte is in none of the three, so no two lists run together alike.
    for field in [dialect.name(), url, &canonical] {
        digest.update(field.as_bytes());
        digest.update([0]);
    }
    Fingerprint::from_bytes(digest.finalize().into())
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidRequest, message)
}

/// Without the parser's own words: they may quote the body.
fn not_json(error: &serde_json::Error) -> Error {
    invalid(format!(
        "expected a JSON object as the body, but found a fault at line {} column {}",
        error.line(),
        error.column()
    ))
}

#[cfg(test)]
mod tests;
