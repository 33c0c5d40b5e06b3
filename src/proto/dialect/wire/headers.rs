//! Which headers of a caller may go upstream.

use super::invalid;
use crate::error::Error;

/// Carries a credential, or is known to.
const CREDENTIALS: &[&str] = &[
    "authorization",
    "proxy-authorization",
    "x-api-key",
    "api-key",
    "x-goog-api-key",
    "x-auth-token",
    "x-amz-security-token",
    "ocp-apim-subscription-key",
    "cookie",
    "set-cookie",
];

/// Belongs to one connection (RFC 9110 section 7.6.1) or frames the message.
const HOP_BY_HOP: &[&str] = &[
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "http2-settings",
    "host",
    "content-length",
    "content-encoding",
    "expect",
];

/// Set by this crate.
const OURS: &[&str] = &["accept", "accept-encoding", "content-type"];

/// The headers with lower-case names and without those that are ours; or what is
/// wrong with one of them, without its value.
pub(super) fn checked(headers: Vec<(String, String)>) -> Result<Vec<(String, String)>, Error> {
    let mut kept = Vec::with_capacity(headers.len());
    for (name, value) in headers {
        if name.is_empty() || !name.bytes().all(is_token) {
            // What stands in its place may be a secret.
            return Err(invalid(
                "expected a header name, but found none or other text",
            ));
        }
        let name = name.to_ascii_lowercase();
        if CREDENTIALS.contains(&name.as_str()) {
            return Err(invalid(format!(
                "expected no credential among the headers, but found `{name}`: hand it over as a credential instead"
            )));
        }
        if HOP_BY_HOP.contains(&name.as_str()) {
            return Err(invalid(format!(
                "expected no header of a connection or of framing, but found `{name}`"
            )));
        }
        if OURS.contains(&name.as_str()) {
            continue;
        }
        if !value
            .bytes()
            .all(|byte| byte == b'\t' || (byte >= b' ' && byte != 0x7f))
        {
            return Err(invalid(format!(
                "expected a value of visible characters for header `{name}`, but found a control character"
            )));
        }
        kept.push((name, value));
    }
    Ok(kept)
}

/// A character of a token (RFC 9110 section 5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
