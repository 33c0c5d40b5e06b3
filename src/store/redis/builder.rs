//! Settings of the store in Redis, and how it is opened.

use super::fault::config;
use super::layout::{KIND, LAYOUT, Names};
use super::line::{self, Dialing};
use super::link::{Link, Replicas};
use super::read::odd;
use super::route::{Routes, text};
use super::scripts::{OPEN, Request};
use super::target::{self, Target};
use super::{Acknowledged, RedisStore, Shared, survey};
use crate::error::{Error, ErrorKind, Result};
use crate::store::{Durability, Heads};
use redis::{ProtocolVersion, RedisConnectionInfo, Value};
use secrecy::{ExposeSecret, SecretString};
use std::collections::HashSet;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use tracing::warn;

/// How a [`RedisStore`] is opened.
///
/// | URL | means |
/// |---|---|
/// | `redis://host:6379/0` | one server, and a database of it |
/// | `unix:///run/redis.sock?db=0` | the same through a socket of this machine |
/// | `redis-sentinel://host:26379,host/name?db=0` | the primary that these sentinels know by this name |
/// | `redis-cluster://host:6379,host` | a cluster, found through any of these nodes |
///
/// `rediss` in place of `redis` is TLS to every server. A user and a password may
/// stand before the host, as `user:password@`, percent-encoded; in code they are
/// better given by [`username`](Self::username) and [`password`](Self::password).
/// `wait_replicas=N` behind the question mark is [`wait_replicas`](Self::wait_replicas)
/// with a limit of 1 s.
///
/// | setting | default | why |
/// |---|---|---|
/// | [`prefix`](Self::prefix) | `streamkeep` | says whose keys they are |
/// | [`wait_replicas`](Self::wait_replicas) | none | one server has none; set it where a failover may happen |
/// | [`patience`](Self::patience) | 20 s | longer than a failover takes, shorter than a client waits for its store |
/// | [`connect_timeout`](Self::connect_timeout) | 3 s | a server in reach answers in milliseconds |
/// | [`response_timeout`](Self::response_timeout) | 3 s | the same; a server that stalls is asked again through another connection |
/// | [`grace`](Self::grace) | 1 h | clocks differ, and a collection should come first |
/// | [`buckets`](Self::buckets) | 64 | spreads evenly over the nodes of a cluster, and is still listed in one go |
/// | [`durability`](Self::durability) | `Buffered` | the only one there is |
#[derive(Clone)]
pub struct RedisStoreBuilder {
    url: SecretString,
    username: Option<String>,
    password: Option<SecretString>,
    sentinel_username: Option<String>,
    sentinel_password: Option<SecretString>,
    root_certificates: Vec<Vec<u8>>,
    client_certificate: Option<(Vec<u8>, SecretString)>,
    prefix: String,
    /// Set in code, a count of 0 included; else the URL's counts.
    replicas: Option<Replicas>,
    patience: Duration,
    connect_timeout: Duration,
    response_timeout: Duration,
    grace: Duration,
    buckets: u32,
    durability: Durability,
}

/// How long an opening is tried: somebody waits for it, and a wrong host should not
/// take as long to tell as a failover.
const OPENING: Duration = Duration::from_secs(5);

/// How long replicas may take where only their number is said: they are on the same
/// network.
const REPLICAS_LIMIT: Duration = Duration::from_secs(1);

impl RedisStoreBuilder {
    pub(super) fn new(url: String) -> Self {
        Self {
            url: url.into(),
            username: None,
            password: None,
            sentinel_username: None,
            sentinel_password: None,
            root_certificates: Vec::new(),
            client_certificate: None,
            prefix: "streamkeep".to_owned(),
            replicas: None,
            patience: Duration::from_secs(20),
            connect_timeout: Duration::from_secs(3),
            response_timeout: Duration::from_secs(3),
            grace: Duration::from_secs(3600),
            buckets: 64,
            durability: Durability::Buffered,
        }
    }

    /// The user, in place of the URL's.
    pub fn username(mut self, username: impl Into<String>) -> Self {
        self.username = Some(username.into());
        self
    }

    /// The password, in place of the URL's.
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into().into());
        self
    }

    /// User and password for the sentinels, which do not share the servers'.
    pub fn sentinel_credentials(
        mut self,
        username: Option<String>,
        password: impl Into<String>,
    ) -> Self {
        self.sentinel_username = username;
        self.sentinel_password = Some(password.into().into());
        self
    }

    /// Certificates to trust beside Mozilla's roots, for `rediss`: one PEM text with
    /// one or more of them. May be called more than once.
    pub fn root_certificates(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.root_certificates.push(pem.into());
        self
    }

    /// The client's own certificate with its chain, and its key, both PEM, for a
    /// server that asks for one.
    pub fn client_certificate(
        mut self,
        certificate: impl Into<Vec<u8>>,
        key: impl Into<String>,
    ) -> Self {
        self.client_certificate = Some((certificate.into(), key.into().into()));
        self
    }

    /// What the names of all keys begin with; anything without braces. Stores with
    /// different prefixes do not know of each other.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Waits until this many replicas have an append before it is acknowledged, and
    /// before any reader sees it. With as many as there are that could take the
    /// primary's place, whatever was acknowledged survives the loss of the primary,
    /// and one that was cut off can acknowledge nothing; with fewer, a replica that
    /// was behind may take its place. Costs a round trip to the replicas and one more
    /// to the primary for each append.
    ///
    /// When fewer have it within the limit, the append is tried again until the
    /// store's patience is over, and then fails as
    /// [`StoreUnavailable`](ErrorKind::StoreUnavailable). 0 replicas wait for none.
    pub fn wait_replicas(mut self, count: u32, limit: Duration) -> Self {
        self.replicas = Some(Replicas { count, limit });
        self
    }

    /// How long a request is tried through broken connections, restarts and
    /// failovers, at least 100 ms. A client gives up on its store after 30 s, so
    /// more than that helps nobody.
    pub fn patience(mut self, limit: Duration) -> Self {
        self.patience = limit.max(Duration::from_millis(100));
        self
    }

    /// How long connecting to a server may take, TLS and login included.
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connect_timeout = limit;
        self
    }

    /// How long a server may take for one answer, before it is asked again through
    /// a new connection.
    pub fn response_timeout(mut self, limit: Duration) -> Self {
        self.response_timeout = limit;
        self
    }

    /// How long Redis keeps a journal that is past its time. Then it lets go of it by
    /// its own expiry, by its own clock, whether a collection came by or not.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Into how many parts the journals are divided, 1 to 4,096: the parts spread
    /// over the nodes of a cluster. Holds for a prefix that is not in use yet; in one
    /// that is, it stays as it was.
    pub fn buckets(mut self, buckets: u32) -> Self {
        self.buckets = buckets.clamp(1, 4096);
        self
    }

    /// What an acknowledgement must survive. [`Durability::Buffered`] is the only
    /// one offered; asking for another is an error when the store is opened.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Whether a password stands in the URL. Where a URL comes from a command line,
    /// others on the machine can read it there.
    pub fn has_password_in_url(&self) -> bool {
        let url = self.url.expose_secret();
        match target::parse(url) {
            Ok(target) => target.password.is_some(),
            // What cannot be read may hold one all the same.
            Err(_) => url.contains('@'),
        }
    }

    /// Opens the store, and writes what it is under the prefix if nothing is there.
    ///
    /// # Errors
    ///
    /// [`Config`](ErrorKind::Config) for a URL that cannot be read, a password or a
    /// permission that Redis refuses, a prefix under which something else stands,
    /// and a durability that is not offered;
    /// [`StoreUnavailable`](ErrorKind::StoreUnavailable) when no server answers
    /// within 5 s, or a later version wrote what is there;
    /// [`StoreFull`](ErrorKind::StoreFull) when Redis has no memory left.
    ///
    /// # Cancel safety
    ///
    /// Dropped early, nothing is left but the key that says what is under the
    /// prefix.
    pub async fn open(self) -> Result<RedisStore> {
        self.check()?;
        let target = target::parse(self.url.expose_secret())?;
        let in_url = target.wait_replicas.map(|count| Replicas {
            count,
            limit: REPLICAS_LIMIT,
        });
        let replicas = self.replicas.or(in_url).filter(|wanted| wanted.count > 0);
        let mut link = Link {
            routes: self.routes(target)?,
            patience: self.patience.min(OPENING),
        };
        let buckets = self.settle_layout(&link).await?;
        survey::look(&link).await;
        if link.routes.is_replicated() && replicas.is_none() {
            warn!(
                "records are acknowledged before replicas have them: a failover can lose some; see wait_replicas"
            );
        }
        link.patience = self.patience;
        Ok(RedisStore::start(Shared {
            link,
            names: Names::new(&self.prefix, buckets),
            heads: Heads::with_changes(),
            replicas,
            grace: self.grace,
            instance: uuid::Uuid::now_v7().simple().to_string(),
            calls: AtomicU64::new(1),
            left: Mutex::new(HashSet::new()),
            acknowledged: Acknowledged::default(),
        }))
    }

    fn check(&self) -> Result<()> {
        if self.prefix.is_empty() || self.prefix.contains(['{', '}']) {
            return Err(config(
                "expected a prefix of at least one character and without braces, but found another one",
            ));
        }
        let why = match self.durability {
            Durability::Buffered => return Ok(()),
            Durability::Volatile => "use the memory store for what need not be kept",
            Durability::Synced => {
                "what survives the loss of power is up to the server's own settings, which may change at any time, so it is not offered"
            }
        };
        Err(config(
            format!(
                "expected durability buffered for the store in Redis, but found {:?}: {why}",
                self.durability
            )
            .to_lowercase(),
        ))
    }

    fn routes(&self, target: Target) -> Result<Routes> {
        let tls = if target.tls {
            let client = self.client_certificate.as_ref();
            let client = client
                .map(|(certificate, key)| (certificate.as_slice(), key.expose_secret().as_bytes()));
            Some(line::tls(&self.root_certificates, client)?)
        } else {
            None
        };
        let username = self.username.as_ref().or(target.username.as_ref());
        let password = self.password.as_ref().or(target.password.as_ref());
        let dialing = Dialing {
            login: login(username, password).set_db(target.database),
            tls,
            connect_timeout: self.connect_timeout,
            response_timeout: self.response_timeout,
        };
        let asking = Dialing {
            login: login(
                self.sentinel_username.as_ref(),
                self.sentinel_password.as_ref(),
            ),
            ..dialing.clone()
        };
        Ok(Routes::new(target.kind, dialing, asking))
    }

    /// Finds out what is under the prefix; how many buckets there are.
    async fn settle_layout(&self, link: &Link) -> Result<u32> {
        let (name, slot) = Names::layout(&self.prefix);
        let request = Request::script(slot, &OPEN, &[name])
            .with(KIND)
            .with(LAYOUT)
            .with(self.buckets);
        let Value::Array(parts) = link.run_one(&request).await? else {
            return Err(odd());
        };
        let part = |at: usize| parts.get(at).and_then(text);
        if part(0) != Some(KIND) {
            return Err(config(
                "expected the store's own keys under its prefix, but found others: choose another prefix",
            ));
        }
        match part(1) {
            Some(LAYOUT) => {}
            Some(other) if other.parse::<u32>().is_ok() => {
                return Err(Error::new(
                    ErrorKind::StoreUnavailable,
                    format!(
                        "expected a store of layout {LAYOUT}, but found layout {other}: it was written by another version of streamkeep; use that version, or give this one a prefix of its own"
                    ),
                ));
            }
            _ => return Err(odd()),
        }
        let buckets = part(2).and_then(|buckets| buckets.parse().ok());
        buckets
            .filter(|buckets| (1..=4096).contains(buckets))
            .ok_or_else(odd)
    }
}

impl fmt::Debug for RedisStoreBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStoreBuilder")
            .field("prefix", &self.prefix)
            .field("replicas", &self.replicas)
            .field("patience", &self.patience)
            .field("buckets", &self.buckets)
            .finish_non_exhaustive()
    }
}

fn login(username: Option<&String>, password: Option<&SecretString>) -> RedisConnectionInfo {
    // The second version of the protocol: all servers speak it, and the answers that
    // are read here look the same in both.
    let mut login = RedisConnectionInfo::default()
        .set_protocol(ProtocolVersion::RESP2)
        .set_lib_name("streamkeep", env!("CARGO_PKG_VERSION"));
    if let Some(username) = username {
        login = login.set_username(username);
    }
    if let Some(password) = password {
        login = login.set_password(password.expose_secret());
    }
    login
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn settings_that_cannot_be_used_are_refused_before_anything_is_sent() {
        let new = || RedisStoreBuilder::new("redis://127.0.0.1:1".to_owned());
        for (builder, says) in [
            (new().prefix(""), "prefix"),
            (new().prefix("a{b"), "braces"),
            (new().durability(Durability::Synced), "power"),
            (new().durability(Durability::Volatile), "memory store"),
            (RedisStoreBuilder::new("http://x".to_owned()), "url"),
            (
                RedisStoreBuilder::new("rediss://x".to_owned()).root_certificates("x"),
                "certificates",
            ),
        ] {
            let error = builder.open().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config, "{error}");
            assert!(error.message().to_lowercase().contains(says), "{error}");
        }
    }

    #[test]
    fn nothing_secret_is_in_what_is_printed() {
        let builder = RedisStoreBuilder::new("redis://:topsecret@host".to_owned())
            .password("topsecret")
            .client_certificate("topsecret", "topsecret")
            .sentinel_credentials(None, "topsecret");
        assert!(builder.has_password_in_url());
        assert!(!format!("{builder:?}").contains("topsecret"));
        let target = target::parse("redis://:topsecret@host").unwrap();
        let builder = RedisStoreBuilder::new("redis://host".to_owned());
        assert!(!builder.has_password_in_url());
        let routes = builder.routes(target).unwrap();
        assert!(!format!("{routes:?}").contains("topsecret"));
    }
}
