//! From a request of ours to one of the client's, checked.

use crate::error::ErrorKind;
use crate::proto::model::{Method, TransportFailure};
use crate::transport::Outgoing;
use ::reqwest::Url;
use ::reqwest::header::{ACCEPT_ENCODING, HeaderMap, HeaderName, HeaderValue};
use secrecy::ExposeSecret;

/// Headers that say how a message is framed or routed between two hops (RFC 9110
/// section 7.6.1, RFC 9112 section 6). The client writes them itself; a second
/// opinion beside its own is how requests are smuggled.
const FRAMING: [&str; 9] = [
    "connection",
    "content-length",
    "expect",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Builds the client's request.
///
/// # Errors
///
/// [`ErrorKind::Config`]; nothing was sent. The message names a header at most,
/// never a value.
pub(super) fn build(outgoing: Outgoing) -> Result<::reqwest::Request, TransportFailure> {
    let Outgoing {
        request,
        secret_headers,
    } = outgoing;
    let url = parse_url(&request.url)?;
    let mut headers = HeaderMap::with_capacity(request.headers.len() + secret_headers.len() + 1);
    for (name, value) in &request.headers {
        let name = parse_name(name)?;
        let value = HeaderValue::from_bytes(value.as_bytes()).map_err(|_| bad_value(&name))?;
        headers.append(name, value);
    }
    let mut secrets = HeaderMap::with_capacity(secret_headers.len());
    for (name, value) in &secret_headers {
        let name = parse_name(name)?;
        let mut value = HeaderValue::from_bytes(value.expose_secret().as_bytes())
            .map_err(|_| bad_value(&name))?;
        // Kept out of the client's Debug output and of HPACK's shared table.
        value.set_sensitive(true);
        secrets.append(name, value);
    }
    // `extend` replaces: a name among the secrets drops the ordinary ones.
    headers.extend(secrets);
    if !headers.contains_key(ACCEPT_ENCODING) {
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    }

    let method = match request.method {
        Method::Get => ::reqwest::Method::GET,
        Method::Post => ::reqwest::Method::POST,
    };
    let mut built = ::reqwest::Request::new(method, url);
    *built.headers_mut() = headers;
    if request.method == Method::Post || !request.body.is_empty() {
        *built.body_mut() = Some(request.body.into());
    }
    Ok(built)
}

fn parse_url(url: &str) -> Result<Url, TransportFailure> {
    // The text of the URL stays out of the message: it may hold a key.
    let url = Url::parse(url)
        .map_err(|error| config(format!("expected an absolute url, but found: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(config(
            "expected an http or https url, but found another scheme",
        ));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(config(
            "expected a url without user information, but found some: put the credential in a secret header",
        ));
    }
    Ok(url)
}

fn parse_name(name: &str) -> Result<HeaderName, TransportFailure> {
    let parsed = HeaderName::from_bytes(name.as_bytes()).map_err(|_| {
        config(format!(
            "expected a header name of token characters, but found other ones in {} bytes",
            name.len()
        ))
    })?;
    if FRAMING.contains(&parsed.as_str()) {
        return Err(config(format!(
            "expected no framing header, but found {parsed}: the transport frames the request itself"
        )));
    }
    Ok(parsed)
}

fn bad_value(name: &HeaderName) -> TransportFailure {
    config(format!(
        "expected a value without control characters in the header {name}, but found one"
    ))
}

fn config(message: impl Into<String>) -> TransportFailure {
    TransportFailure {
        kind: ErrorKind::Config,
        sent: false,
        message: message.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::model::HttpRequest;
    use bytes::Bytes;

    fn outgoing(url: &str, headers: &[(&str, &str)], secrets: &[(&str, &str)]) -> Outgoing {
        Outgoing {
            request: HttpRequest {
                method: Method::Post,
                url: url.to_owned(),
                headers: headers
                    .iter()
                    .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()))
                    .collect(),
                body: Bytes::from_static(b"{}"),
            },
            secret_headers: secrets
                .iter()
                .map(|(n, v)| ((*n).to_owned(), (*v).into()))
                .collect(),
        }
    }

    #[track_caller]
    fn refused(outgoing: Outgoing, why: &str) {
        let failure = build(outgoing).unwrap_err();
        assert_eq!((failure.kind, failure.sent), (ErrorKind::Config, false));
        assert!(failure.message.contains(why), "{}", failure.message);
        assert!(!failure.message.contains("hush"), "{}", failure.message);
    }

    #[test]
    fn what_cannot_be_sent_is_refused_without_showing_it() {
        refused(outgoing("hush", &[], &[]), "absolute url");
        refused(outgoing("/v1?key=hush", &[], &[]), "absolute url");
        refused(outgoing("http://[hush", &[], &[]), "absolute url");
        refused(outgoing("file:///hush", &[], &[]), "http or https");
        refused(outgoing("ws://h/?hush", &[], &[]), "http or https");
        refused(outgoing("http://u:hush@h/", &[], &[]), "user information");
        refused(outgoing("http://hush@h/", &[], &[]), "user information");
        let url = "http://h/?key=hush";
        refused(outgoing(url, &[("bad name hush", "v")], &[]), "header name");
        refused(outgoing(url, &[("", "v")], &[]), "header name");
        refused(outgoing(url, &[("x-a", "hush\r\nx-b: c")], &[]), "x-a");
        refused(outgoing(url, &[], &[("x-api-key", "hush\n")]), "x-api-key");
        refused(
            outgoing(url, &[("Content-Length", "9")], &[]),
            "content-length",
        );
        refused(
            outgoing(url, &[], &[("transfer-encoding", "hush")]),
            "transfer-encoding",
        );
    }

    #[test]
    fn a_secret_takes_the_place_of_an_ordinary_header_and_is_marked() {
        let built = build(outgoing(
            "https://h/v1",
            &[("authorization", "Bearer mine"), ("x-a", "1"), ("x-a", "2")],
            &[("Authorization", "Bearer hush")],
        ))
        .unwrap();
        let values: Vec<_> = built.headers().get_all("authorization").iter().collect();
        assert_eq!(values, ["Bearer hush"]);
        assert!(values[0].is_sensitive());
        assert_eq!(built.headers().get_all("x-a").iter().count(), 2);
        assert_eq!(built.headers()["accept-encoding"], "identity");
        assert!(!format!("{built:?}").contains("hush"));
    }

    #[test]
    fn the_callers_accept_encoding_stays() {
        let built = build(outgoing("http://h/", &[("Accept-Encoding", "gzip")], &[])).unwrap();
        assert_eq!(built.headers()["accept-encoding"], "gzip");
    }
}
