//! HTTP as the core sees it: plain values, no client library.

use crate::error::ErrorKind;
use bytes::Bytes;
use std::fmt;

/// The method of an upstream request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// GET.
    Get,
    /// POST.
    Post,
}

/// One upstream request, without its credential: that is added above the
/// waterline, at the last moment, and is never part of this value.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpRequest {
    /// The method.
    pub method: Method,
    /// The absolute URL.
    pub url: String,
    /// The headers, credentials excepted.
    pub headers: Vec<(String, String)>,
    /// The body; empty for GET.
    pub body: Bytes,
}

impl fmt::Debug for HttpRequest {
    /// The size of the body, not the body: it is a prompt, and not for logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpRequest")
            .field("method", &self.method)
            .field("url", &self.url)
            .field("headers", &self.headers)
            .field("body_len", &self.body.len())
            .finish()
    }
}

/// Status and headers of a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponseHead {
    /// The status code.
    pub status: u16,
    /// The headers in order. Names are lower-case; values are text (bytes that
    /// are not UTF-8 are replaced).
    pub headers: Vec<(String, String)>,
}

impl ResponseHead {
    /// The first value of a header; `name` is lower-case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(header, _)| header == name)
            .map(|(_, value)| value.as_str())
    }
}

/// How an exchange broke below HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransportFailure {
    /// One of the network kinds, [`ErrorKind::Tls`], [`ErrorKind::ConnectTimeout`]
    /// or [`ErrorKind::Config`].
    pub kind: ErrorKind,
    /// Whether any byte of the request may have left this machine. `false` only
    /// when provably none did.
    pub sent: bool,
    /// What happened, in one lower-case line without secrets.
    pub message: String,
}
