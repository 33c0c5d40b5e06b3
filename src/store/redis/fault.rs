//! What can be wrong with a request to Redis, and what is made of it.
//!
//! Redis's own texts are never passed on: some quote the arguments of a command.

use super::target::Endpoint;
use crate::error::{Error, ErrorKind};
use redis::{RedisError, ServerErrorKind};
use std::io;

/// Why there is no answer yet.
#[derive(Clone, Debug)]
pub(super) enum Fault {
    /// The connection is of no use any more, or there is none. Whether the request
    /// took effect cannot be told.
    Broken(String),
    /// The server answers, and will do better later.
    NotNow(String),
    /// The server is not in charge any more.
    Demoted,
    /// Another node has the slot, for good or for this once. Without a host it is
    /// the one of the node that said so.
    Elsewhere { to: Endpoint, once: bool },
    /// The server does not know the script.
    NoScript,
    /// Asking again would not help.
    Refused(ErrorKind, String),
}

impl Fault {
    pub(super) fn of(error: &RedisError) -> Self {
        use redis::ErrorKind as Kind;
        match error.kind() {
            Kind::Io => Self::Broken(io_words(error).to_owned()),
            Kind::AuthenticationFailed => Self::Refused(
                ErrorKind::Config,
                "expected Redis to take the user name and password, but it refused them".to_owned(),
            ),
            // So ends also an answer that was cut off in its middle.
            Kind::Parse | Kind::UnexpectedReturnType | Kind::Client => {
                Self::Broken("something else, or half of one".to_owned())
            }
            Kind::InvalidClientConfig => Self::Refused(
                ErrorKind::Config,
                "expected settings for Redis that can be used together, but found others"
                    .to_owned(),
            ),
            Kind::Server(ServerErrorKind::Ask | ServerErrorKind::Moved) => {
                let once = error.kind() == Kind::Server(ServerErrorKind::Ask);
                match error.redirect_node() {
                    Some((node, _slot)) => Self::redirected(node, once),
                    None => Self::NotNow("MOVED without an address".to_owned()),
                }
            }
            _ => Self::of_code(error.code().unwrap_or("ERR"), error.detail().unwrap_or("")),
        }
    }

    fn redirected(node: &str, once: bool) -> Self {
        match node.rsplit_once(':') {
            Some((host, port)) => match port.parse() {
                Ok(port) => Self::Elsewhere {
                    to: Endpoint::Tcp {
                        host: host.to_owned(),
                        port,
                    },
                    once,
                },
                Err(_) => Self::NotNow("MOVED without a port".to_owned()),
            },
            None => Self::NotNow("MOVED without a port".to_owned()),
        }
    }

    fn of_code(code: &str, detail: &str) -> Self {
        // Before version 7 a script's error wraps the one of its command.
        let code = match detail.split(": -").nth(1) {
            Some(inner) if code == "ERR" => inner.split(' ').next().unwrap_or(code),
            _ => code,
        };
        let refused = |kind, message: &str| Self::Refused(kind, message.to_owned());
        match code {
            "NOSCRIPT" => Self::NoScript,
            "LOADING" | "BUSY" | "TRYAGAIN" | "CLUSTERDOWN" | "MASTERDOWN" | "NOREPLICAS"
            | "NOMASTERLINK" | "NOQUORUM" | "INPROG" | "NOGOODSLAVE" => {
                Self::NotNow(code.to_owned())
            }
            "READONLY" => Self::Demoted,
            "OOM" => refused(
                ErrorKind::StoreFull,
                "expected room in Redis's memory, but found none (maxmemory): give it more, or collect what has expired",
            ),
            "MISCONF" => refused(
                ErrorKind::StoreUnavailable,
                "expected Redis to take writes, but it refuses them until it can save to its disk again",
            ),
            "NOAUTH" | "WRONGPASS" => refused(
                ErrorKind::Config,
                "expected Redis to take the user name and password, but it refused them or wants some",
            ),
            "DENIED" => refused(
                ErrorKind::Config,
                "expected Redis to talk to this machine, but its protected mode refuses that",
            ),
            "NOPERM" => refused(
                ErrorKind::Config,
                "expected the user to have every permission that the store needs, but Redis refused one",
            ),
            "WRONGTYPE" => refused(
                ErrorKind::Config,
                "expected the store's own keys under its prefix, but found others: choose another prefix",
            ),
            "CROSSSLOT" => refused(
                ErrorKind::Internal,
                "expected the keys of a journal in one slot, but found several",
            ),
            "ERR" if detail.contains("cluster support disabled") => refused(
                ErrorKind::Config,
                "expected nodes of a cluster, but found a server by itself: say redis:// in its URL",
            ),
            "ERR" if detail.contains("No such master") => refused(
                ErrorKind::Config,
                "expected the sentinels to know the primary's name, but they do not",
            ),
            "ERR" if detail.contains("invalid DB") || detail.contains("DB index") => refused(
                ErrorKind::Config,
                "expected a database that the server has, but found another number",
            ),
            "ERR" if detail.contains("max number of clients") => Self::NotNow(code.to_owned()),
            "ERR" if detail.contains("unknown command") => refused(
                ErrorKind::Config,
                "expected a server with the commands that the store needs, but found one without",
            ),
            code => Self::Refused(
                ErrorKind::StoreUnavailable,
                format!(
                    "expected Redis to do as it was asked, but found its error {}",
                    word(code)
                ),
            ),
        }
    }

    /// For whoever has no more time to try again.
    pub(super) fn into_error(self) -> Error {
        let message = match self {
            Self::Refused(kind, message) => return Error::new(kind, message),
            Self::Broken(what) => format!("expected an answer from Redis, but found {what}"),
            Self::NotNow(code) => {
                format!("expected Redis to take requests, but it still answers {code}")
            }
            Self::Demoted => {
                "expected a primary of Redis, but found a replica in its place".to_owned()
            }
            Self::Elsewhere { .. } => {
                "expected a node to answer for its slots, but was sent from one to the next"
                    .to_owned()
            }
            Self::NoScript => "expected Redis to keep a script, but it forgets them".to_owned(),
        };
        Error::new(ErrorKind::StoreUnavailable, message)
    }
}

/// An error word as Redis writes them, and nothing else.
fn word(code: &str) -> &str {
    let plain = code.len() <= 32 && code.bytes().all(|byte| byte.is_ascii_uppercase());
    if plain { code } else { "ERR" }
}

fn io_words(error: &RedisError) -> &'static str {
    if error.is_timeout() {
        "none in time"
    } else if error.is_connection_refusal() {
        "that the connection was refused"
    } else {
        "that the connection was closed"
    }
}

/// An error of the socket before Redis has said anything.
pub(super) fn connecting(error: &io::Error) -> Fault {
    let what = match error.kind() {
        io::ErrorKind::ConnectionRefused => "that the connection was refused",
        io::ErrorKind::NotFound => "that there is no such socket",
        io::ErrorKind::PermissionDenied => "that the socket may not be used",
        io::ErrorKind::TimedOut => "no connection in time",
        // rustls puts its own errors into this kind.
        io::ErrorKind::InvalidData => {
            return Fault::Refused(
                ErrorKind::Config,
                "expected a TLS handshake with a certificate that is trusted for the host, but it failed"
                    .to_owned(),
            );
        }
        _ => "that no connection could be made",
    };
    Fault::Broken(what.to_owned())
}

pub(super) fn config(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Config, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(code: &str, detail: &str) -> ErrorKind {
        Fault::of_code(code, detail).into_error().kind()
    }

    #[test]
    fn each_word_of_redis_has_its_meaning() {
        for (code, detail, expected) in [
            ("OOM", "command not allowed", ErrorKind::StoreFull),
            (
                "ERR",
                "Error running script (call to f_1): @user_script:3: -OOM command not allowed",
                ErrorKind::StoreFull,
            ),
            ("WRONGPASS", "invalid", ErrorKind::Config),
            ("NOAUTH", "", ErrorKind::Config),
            ("NOPERM", "this user has no permissions", ErrorKind::Config),
            ("WRONGTYPE", "", ErrorKind::Config),
            ("LOADING", "", ErrorKind::StoreUnavailable),
            ("ERR", "something new", ErrorKind::StoreUnavailable),
        ] {
            assert_eq!(kind(code, detail), expected, "{code} {detail}");
        }
        assert!(matches!(Fault::of_code("READONLY", ""), Fault::Demoted));
        assert!(matches!(Fault::of_code("NOSCRIPT", ""), Fault::NoScript));
    }

    #[test]
    fn a_text_of_redis_is_never_passed_on() {
        for (code, detail) in [
            (
                "ERR",
                "unknown command 'x' with args beginning with: 'secret'",
            ),
            ("secret", "secret"),
            ("ERR", "Error running script: -SECRET secret"),
        ] {
            let error = Fault::of_code(code, detail).into_error();
            assert!(!error.message().contains("secret"), "{error}");
        }
    }

    #[test]
    fn a_redirection_names_a_node() {
        match Fault::redirected("::1:7001", true) {
            Fault::Elsewhere {
                to: Endpoint::Tcp { host, port },
                once,
            } => {
                assert_eq!((host.as_str(), port, once), ("::1", 7001, true));
            }
            other => panic!("expected a node, but found {other:?}"),
        }
        assert!(matches!(Fault::redirected("7001", false), Fault::NotNow(_)));
        assert!(matches!(Fault::redirected("a:b", false), Fault::NotNow(_)));
    }
}
