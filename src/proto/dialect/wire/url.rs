//! Absolute URLs of providers, as text (RFC 3986).

use super::invalid;
use crate::error::{Error, ErrorKind};

/// Query parameters that carry a credential: what providers and
/// gateways call it. Compared in lower-case, with `-` for `_`.
const CREDENTIALS: &[&str] = &[
    "key",
    "api-key",
    "apikey",
    "x-api-key",
    "access-token",
    "auth",
    "authorization",
    "token",
    "secret",
    "client-secret",
    "password",
    "sig",
    "signature",
    "subscription-key",
    "x-amz-signature",
    "x-amz-security-token",
];

/// Checks a URL; the error names no value of it.
pub(super) fn check(url: &str) -> Result<(), Error> {
    let (scheme, rest) = url
        .split_once("://")
        .ok_or_else(|| invalid("expected an absolute URL, but found one without a scheme"))?;
    if !scheme.eq_ignore_ascii_case("https") && !scheme.eq_ignore_ascii_case("http") {
        return Err(invalid(
            "expected an http or https URL, but found another scheme",
        ));
    }
    let end = rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len());
    let (authority, behind) = rest.split_at(end);
    if authority.contains('@') {
        return Err(invalid(
            "expected a URL without user information, but found some: hand it over as a credential instead",
        ));
    }
    check_authority(authority)?;
    if behind.contains('#') {
        return Err(invalid("expected a URL without a fragment, but found one"));
    }
    let mut bytes = behind.bytes();
    while let Some(byte) = bytes.next() {
        let fits = if byte == b'%' {
            let digit = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_hexdigit());
            digit(bytes.next()) && digit(bytes.next())
        } else {
            byte.is_ascii_alphanumeric() || b"-._~:/?[]@!$&'()*+,;=".contains(&byte)
        };
        if !fits {
            return Err(invalid(
                "expected a percent-encoded URL, but found a character that does not belong",
            ));
        }
    }
    let query = behind.split_once('?').map_or("", |(_, query)| query);
    for parameter in query.split(['&', ';']) {
        let name = parameter
            .split_once('=')
            .map_or(parameter, |(name, _)| name);
        let plain = decoded(name).to_ascii_lowercase().replace('_', "-");
        if CREDENTIALS.contains(&plain.as_str()) {
            return Err(invalid(format!(
                "expected no credential in the URL, but found parameter `{plain}`: hand it over as a credential instead"
            )));
        }
    }
    Ok(())
}

fn check_authority(authority: &str) -> Result<(), Error> {
    let (host, port) = if let Some(rest) = authority.strip_prefix('[') {
        let (address, port) = rest
            .split_once(']')
            .ok_or_else(|| invalid("expected a host, but found an unclosed bracket"))?;
        if address.parse::<std::net::Ipv6Addr>().is_err() {
            return Err(invalid(
                "expected an IPv6 address in brackets, but found other text",
            ));
        }
        (address, port)
    } else {
        let end = authority.find(':').unwrap_or(authority.len());
        authority.split_at(end)
    };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
    if host.is_empty() || !host.bytes().all(plain) {
        return Err(invalid("expected a host, but found none or other text"));
    }
    let fits = port.is_empty()
        || port.strip_prefix(':').is_some_and(|port| {
            port.bytes().all(|b| b.is_ascii_digit())
                && port.parse::<u16>().is_ok_and(|port| port > 0)
        });
    if fits {
        Ok(())
    } else {
        Err(invalid(
            "expected a port of 1 to 65535, but found other text",
        ))
    }
}

/// The id of a response as one segment of a path.
///
/// An id comes from the provider, and a hostile one must not lead anywhere else:
/// what separates or ends a path, escapes, and the two dot segments are refused;
/// anything else that is not plain is percent-encoded.
pub(super) fn path_segment(id: &str) -> Result<String, Error> {
    let breaks_out = id.is_empty()
        || id.len() > MAX_ID
        || id == "."
        || id == ".."
        || id
            .chars()
            .any(|c| c.is_control() || c.is_whitespace() || "/\\?#%".contains(c));
    if breaks_out {
        return Err(Error::new(
            ErrorKind::NotPossible,
            "expected an id that fits one segment of a path, but found other text",
        ));
    }
    let mut segment = String::with_capacity(id.len());
    for byte in id.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            segment.push(char::from(byte));
        } else {
            segment.push('%');
            for digit in [byte >> 4, byte & 15] {
                let digit = char::from_digit(u32::from(digit), 16).unwrap_or_default();
                segment.push(digit.to_ascii_uppercase());
            }
        }
    }
    Ok(segment)
}

/// A URL with more path and more query; its own query comes first.
pub(super) fn join(base: &str, path: &str, query: &str) -> String {
    let (base, own) = base.split_once('?').unwrap_or((base, ""));
    let base = base.trim_end_matches('/');
    let between = if own.is_empty() || query.is_empty() {
        ""
    } else {
        "&"
    };
    let mark = if own.is_empty() && query.is_empty() {
        ""
    } else {
        "?"
    };
    format!("{base}{path}{mark}{own}{between}{query}")
}

/// Longer than any id of a provider.
const MAX_ID: usize = 512;

/// Percent-decoding, as far as it gives ASCII: enough to know a name again.
fn decoded(text: &str) -> String {
    let mut out = String::new();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(char::from(byte));
            continue;
        }
        let digits = [bytes.next(), bytes.next()];
        let value = digits.iter().try_fold(0_u32, |value, digit| {
            char::from((*digit)?)
                .to_digit(16)
                .map(|digit| value * 16 + digit)
        });
        out.extend(value.and_then(char::from_u32));
    }
    out
}
