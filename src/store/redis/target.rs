//! Where Redis is, as a URL says it.

use super::fault::config;
use crate::error::Result;
use secrecy::SecretString;
use std::fmt;
use std::path::PathBuf;

/// One server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Endpoint {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// How the servers belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Single(Endpoint),
    /// The sentinels, and the name they know the primary by.
    Sentinel(Vec<Endpoint>, String),
    /// Some nodes of the cluster.
    Cluster(Vec<Endpoint>),
}

/// What a URL says.
pub(super) struct Target {
    pub(super) kind: Kind,
    pub(super) tls: bool,
    pub(super) database: i64,
    pub(super) username: Option<String>,
    pub(super) password: Option<SecretString>,
    /// How many replicas are waited for, if it says so.
    pub(super) wait_replicas: Option<u32>,
}

const REDIS_PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

/// Reads a URL. Its text is in no error: it may hold a password.
pub(super) fn parse(url: &str) -> Result<Target> {
    let (scheme, rest) = url
        .split_once("://")
        .ok_or_else(|| bad("no scheme such as redis://"))?;
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = match rest.split_once('/') {
        Some((authority, path)) => (authority, Some(path)),
        None => (rest, None),
    };
    let (user_info, hosts) = match authority.rsplit_once('@') {
        Some((user_info, hosts)) => (Some(user_info), hosts),
        None => (None, authority),
    };
    let (username, password) = match user_info {
        Some(user_info) => credentials(user_info)?,
        None => (None, None),
    };
    let (mut database, wait_replicas) = parameters(query)?;
    let tls = scheme.starts_with("rediss");
    let kind = match scheme {
        "redis" | "rediss" => {
            if let Some(path) = path.filter(|path| !path.is_empty()) {
                database = Some(number(path)?);
            }
            let [endpoint] = <[Endpoint; 1]>::try_from(endpoints(hosts, REDIS_PORT)?)
                .map_err(|_| bad("more than one host: say redis-sentinel or redis-cluster"))?;
            Kind::Single(endpoint)
        }
        "redis+unix" | "unix" => {
            let path = path.filter(|path| !path.is_empty() && hosts.is_empty());
            let path = path.ok_or_else(|| bad("no path of a socket behind unix://"))?;
            Kind::Single(Endpoint::Unix(PathBuf::from(format!("/{}", decode(path)?))))
        }
        "redis-sentinel" | "rediss-sentinel" => {
            let name = path.filter(|path| !path.is_empty());
            let name = name.ok_or_else(|| bad("no name of a primary behind the sentinels"))?;
            Kind::Sentinel(endpoints(hosts, SENTINEL_PORT)?, decode(name)?)
        }
        "redis-cluster" | "rediss-cluster" => {
            if path.is_some_and(|path| !path.is_empty()) || database.unwrap_or(0) != 0 {
                return Err(bad("a database: a cluster has but one"));
            }
            Kind::Cluster(endpoints(hosts, REDIS_PORT)?)
        }
        _ => return Err(bad("another scheme")),
    };
    Ok(Target {
        kind,
        tls,
        database: database.unwrap_or(0),
        username,
        password,
        wait_replicas,
    })
}

fn bad(what: &str) -> crate::error::Error {
    config(format!(
        "expected a URL such as redis://host:6379/0, rediss://host, unix:///path, redis-sentinel://host:26379,host/name or redis-cluster://host,host, but found {what}"
    ))
}

fn credentials(user_info: &str) -> Result<(Option<String>, Option<SecretString>)> {
    let (username, password) = match user_info.split_once(':') {
        Some((username, password)) => (username, Some(password)),
        None => (user_info, None),
    };
    let username = Some(decode(username)?).filter(|name| !name.is_empty());
    let password = password.map(decode).transpose()?.map(SecretString::from);
    Ok((username, password))
}

/// The database, and the replicas to wait for.
fn parameters(query: &str) -> Result<(Option<i64>, Option<u32>)> {
    let (mut database, mut replicas) = (None, None);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("db", value)) => database = Some(number(value)?),
            Some(("wait_replicas", value)) => {
                let count = value.parse();
                replicas = Some(count.map_err(|_| bad("a count of replicas that is no number"))?);
            }
            _ => return Err(bad("a parameter other than db and wait_replicas")),
        }
    }
    Ok((database, replicas))
}

fn number(text: &str) -> Result<i64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse()
        .ok()
        .filter(|_| digits)
        .ok_or_else(|| bad("a database that is no number"))
}

fn endpoints(hosts: &str, default_port: u16) -> Result<Vec<Endpoint>> {
    hosts
        .split(',')
        .map(|host| endpoint(host, default_port))
        .collect()
}

fn endpoint(text: &str, default_port: u16) -> Result<Endpoint> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or_else(|| bad("an open ["))?;
            (host, port.strip_prefix(':'))
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    if host.is_empty() {
        return Err(bad("no host"));
    }
    let port = match port {
        Some(port) => port.parse().map_err(|_| bad("a port that is no number"))?,
        None => default_port,
    };
    let host = decode(host)?;
    Ok(Endpoint::Tcp { host, port })
}

/// Undoes `%xx`.
fn decode(text: &str) -> Result<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        if first != b'%' {
            bytes.push(first);
            rest = after;
            continue;
        }
        let byte = after
            .get(..2)
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.ok_or_else(|| bad("a % without two digits"))?);
        rest = after.get(2..).unwrap_or_default();
    }
    String::from_utf8(bytes).map_err(|_| bad("bytes that are no UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use secrecy::ExposeSecret as _;

    fn tcp(host: &str, port: u16) -> Endpoint {
        Endpoint::Tcp {
            host: host.to_owned(),
            port,
        }
    }

    #[test]
    fn a_url_says_where_the_servers_are() {
        for (url, kind, tls, database) in [
            ("redis://a", Kind::Single(tcp("a", 6379)), false, 0),
            ("redis://a:1/3", Kind::Single(tcp("a", 1)), false, 3),
            ("redis://a:1/?db=4", Kind::Single(tcp("a", 1)), false, 4),
            ("rediss://[::1]:7/", Kind::Single(tcp("::1", 7)), true, 0),
            (
                "unix:///run/a%20b.sock?db=2",
                Kind::Single(Endpoint::Unix("/run/a b.sock".into())),
                false,
                2,
            ),
            (
                "redis-sentinel://a,b:5/main?db=1&wait_replicas=2",
                Kind::Sentinel(vec![tcp("a", 26379), tcp("b", 5)], "main".to_owned()),
                false,
                1,
            ),
            (
                "rediss-cluster://a:1,b",
                Kind::Cluster(vec![tcp("a", 1), tcp("b", 6379)]),
                true,
                0,
            ),
        ] {
            let target = parse(url).unwrap_or_else(|error| panic!("{url}: {error}"));
            assert_eq!(
                (target.kind, target.tls, target.database),
                (kind, tls, database),
                "{url}"
            );
            assert!(target.password.is_none() && target.username.is_none());
            let waits = url.contains("wait_replicas").then_some(2);
            assert_eq!(target.wait_replicas, waits, "{url}");
        }
    }

    #[test]
    fn a_password_is_read_and_is_in_no_error() {
        let target = parse("redis://me:s%3Acret%40@host").unwrap();
        assert_eq!(target.username.as_deref(), Some("me"));
        assert_eq!(target.password.unwrap().expose_secret(), "s:cret@");
        let target = parse("redis://:secret@host").unwrap();
        assert_eq!(target.username, None);
        assert_eq!(target.password.unwrap().expose_secret(), "secret");
        for url in [
            "redis://:secret@host:port",
            "redis://:secret%zz@host",
            "redis://:secret@",
            "redis://:secret@host/x",
            "redis://:secret@host?secret=1",
            "redis://:secret@a,b",
            "redis://:secret@a?wait_replicas=secret",
            "secret://:secret@host",
            "redis-sentinel://:secret@host",
            "redis-cluster://:secret@host/1",
            "redis-cluster://:secret@host?db=1",
            "unix://secret",
            "redis://:secret@[::1",
            "redis:secret",
        ] {
            let error = parse(url).err().unwrap();
            assert_eq!(error.kind(), crate::ErrorKind::Config, "{url}");
            assert!(!format!("{error:?}").contains("secret"), "{error:?}");
        }
    }
}
