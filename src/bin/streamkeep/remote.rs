//! A store in Redis, as the command line and the environment name it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use streamkeep::store::{RedisStore, RedisStoreBuilder, Store};
use streamkeep::{Error, ErrorKind, Result};

/// The environment variable with the URL, which may hold a password; and the one with
/// the name of a file that holds the URL.
const VARIABLE: &str = "STREAMKEEP_REDIS_URL";
const FILE_VARIABLE: &str = "STREAMKEEP_REDIS_URL_FILE";

/// The environment variable with the name of a file of certificates to trust.
const CA_VARIABLE: &str = "STREAMKEEP_REDIS_CA";

/// What URLs of Redis begin with.
const SCHEMES: [&str; 8] = [
    "redis://",
    "rediss://",
    "redis+unix://",
    "unix://",
    "redis-sentinel://",
    "rediss-sentinel://",
    "redis-cluster://",
    "rediss-cluster://",
];

/// A store in Redis.
#[derive(Clone)]
pub(crate) struct Remote {
    source: Source,
    /// What is shown of it.
    shown: PathBuf,
}

#[derive(Clone)]
enum Source {
    /// From the command line, where others on the machine can read it.
    Open(String),
    /// From the environment.
    Private(String),
    /// In this file.
    File(PathBuf),
}

/// Without the URL.
impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Remote").field(&self.shown).finish()
    }
}

impl Remote {
    /// Whether a store of this name is one in Redis.
    pub(crate) fn is_meant(name: &str) -> bool {
        SCHEMES.iter().any(|scheme| name.starts_with(scheme))
    }

    /// The one at this URL.
    pub(crate) fn named(url: &str, by_flag: bool) -> Self {
        let source = if by_flag {
            Source::Open(url.to_owned())
        } else {
            Source::Private(url.to_owned())
        };
        Self {
            source,
            shown: without_user(url).into(),
        }
    }

    /// The one that the environment names, if it does.
    pub(crate) fn in_environment() -> Option<Self> {
        if let Some(url) = std::env::var(VARIABLE).ok().filter(|url| !url.is_empty()) {
            return Some(Self::named(&url, false));
        }
        let file = std::env::var_os(FILE_VARIABLE).filter(|file| !file.is_empty())?;
        Some(Self {
            source: Source::File(file.into()),
            shown: format!("the Redis of ${FILE_VARIABLE}").into(),
        })
    }

    /// What is shown of it: never a password.
    pub(crate) fn shown(&self) -> &Path {
        &self.shown
    }

    pub(crate) async fn open(&self) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(self.builder()?.open().await?))
    }

    fn builder(&self) -> Result<RedisStoreBuilder> {
        let mut builder = match &self.source {
            Source::Open(url) => {
                let builder = RedisStore::builder(url);
                if builder.has_password_in_url() {
                    return Err(Error::new(
                        ErrorKind::Config,
                        format!(
                            "expected a URL without a password on the command line, where others on this machine can read it, but found one with: put the whole URL into ${VARIABLE}, or into a file that ${FILE_VARIABLE} names, and leave --store away"
                        ),
                    ));
                }
                builder
            }
            Source::Private(url) => RedisStore::builder(url),
            Source::File(file) => {
                let url = std::fs::read_to_string(file);
                let url = url.map_err(|error| unread(FILE_VARIABLE, error))?;
                RedisStore::builder(url.trim())
            }
        };
        if let Some(file) = std::env::var_os(CA_VARIABLE).filter(|file| !file.is_empty()) {
            let pem = std::fs::read(file).map_err(|error| unread(CA_VARIABLE, error))?;
            builder = builder.root_certificates(pem);
        }
        Ok(builder)
    }
}

fn unread(variable: &str, error: std::io::Error) -> Error {
    Error::new(
        ErrorKind::Config,
        format!("expected a file that can be read in ${variable}, but found none"),
    )
    .with_source(error)
}

/// The URL without what stands before its hosts.
fn without_user(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return "a Redis".to_owned();
    };
    // A password may hold anything, if it was not encoded as it should be.
    let rest = rest.rsplit_once('@').map_or(rest, |(_, hosts)| hosts);
    format!("{scheme}://{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_before_the_hosts_is_shown() {
        for (url, shown) in [
            ("redis://host:1/2", "redis://host:1/2"),
            ("redis://user:secret@host", "redis://host"),
            ("redis-cluster://:se/cr@et@a,b", "redis-cluster://a,b"),
        ] {
            let remote = Remote::named(url, false);
            assert_eq!(remote.shown(), Path::new(shown));
            assert!(!format!("{remote:?}").contains("secret"));
        }
    }

    #[test]
    fn a_password_on_the_command_line_is_refused_with_what_to_do() {
        let error = Remote::named("redis://:secret@host", true)
            .builder()
            .err()
            .unwrap();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.message().contains(VARIABLE), "{error}");
        assert!(!format!("{error:?}").contains("secret"), "{error:?}");
        assert!(
            Remote::named("redis://:secret@host", false)
                .builder()
                .is_ok()
        );
    }

    #[test]
    fn a_folder_is_no_redis() {
        for folder in ["redis", "./redis:", "redis:/x", "http://x"] {
            assert!(!Remote::is_meant(folder), "{folder}");
        }
    }
}
