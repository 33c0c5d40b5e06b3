//! Where the API key comes from.

use crate::args::CredentialArgs;
use crate::talk::Talk;
use std::env::{self, VarError};
use streamkeep::{Credential, Dialect, Error, ErrorKind, Result};

/// The credential for requests of this dialect to this URL.
///
/// A variable that was named must hold a key. The usual one is used if it is
/// set, but never in the clear to another machine: nobody asked for that.
///
/// # Errors
///
/// [`ErrorKind::Config`] when the named variable is not set, empty, or not text.
pub(crate) fn find(
    args: &CredentialArgs,
    dialect: Dialect,
    url: &str,
    talk: &Talk,
) -> Result<Option<Credential>> {
    if let Some(name) = &args.credential_env {
        let secret = match env::var(name) {
            Ok(secret) => secret.trim().to_owned(),
            Err(VarError::NotPresent) => return Err(missing(name, "it is not set")),
            Err(VarError::NotUnicode(_)) => return Err(missing(name, "it is not text")),
        };
        if secret.is_empty() {
            return Err(missing(name, "it is empty"));
        }
        return Ok(Some(match &args.credential_header {
            Some(header) => Credential::header(header, secret),
            None => Credential::api_key(secret),
        }));
    }
    let name = usual(dialect);
    let secret = env::var(name).unwrap_or_default();
    let secret = secret.trim();
    if secret.is_empty() {
        return Ok(None);
    }
    if !is_private(url) {
        talk.say(format_args!(
            "note: {name} is not sent over plain http; name it with --credential-env to send it"
        ));
        return Ok(None);
    }
    Ok(Some(Credential::api_key(secret)))
}

fn usual(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::AnthropicMessages => "ANTHROPIC_API_KEY",
        _ => "OPENAI_API_KEY",
    }
}

fn missing(name: &str, found: &str) -> Error {
    Error::new(
        ErrorKind::Config,
        format!("expected the environment variable {name:?} to hold an API key, but {found}"),
    )
}

/// Whether what is sent there stays between the two ends: TLS, or this machine.
fn is_private(url: &str) -> bool {
    let Some((scheme, rest)) = url.split_once("://") else {
        return false;
    };
    if !scheme.eq_ignore_ascii_case("http") {
        return true;
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = match authority.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    host.eq_ignore_ascii_case("localhost")
        || host
            .parse::<std::net::IpAddr>()
            .is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_key_goes_by_tls_or_stays_on_this_machine() {
        for url in [
            "https://a.example/v1",
            "http://127.0.0.1:8080/v1",
            "http://localhost/v1",
            "http://[::1]:1/v1",
        ] {
            assert!(is_private(url), "{url}");
        }
        for url in [
            "http://a.example/v1",
            "http://10.0.0.1/v1",
            "HTTP://a.example",
            "http://127.0.0.1.example/",
            "x",
        ] {
            assert!(!is_private(url), "{url}");
        }
    }
}
