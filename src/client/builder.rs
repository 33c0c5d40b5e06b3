//! A client in the making.

use super::clock::Clock;
use super::live::Registry;
use super::{Client, Credential, Inner};
use crate::error::{Error, ErrorKind, Result};
use crate::store::{MemoryStore, Store};
use crate::transport::Transport;
use std::sync::Arc;
use std::time::Duration;

/// A client in the making.
///
/// | setting | default | why |
/// |---|---|---|
/// | `store` | [`MemoryStore`] | works everywhere; keeps nothing beyond the process |
/// | `transport` | HTTP by reqwest, where the feature is on | |
/// | `credential` | none | local servers need none |
/// | `lease` | 30 s | a dead writer is noticed within it; renewed every third |
/// | `keep_for` | 24 h | longer than a person stays away from an answer |
#[derive(Debug)]
pub struct ClientBuilder {
    store: Option<Arc<dyn Store>>,
    transport: Option<Arc<dyn Transport>>,
    credential: Option<Credential>,
    lease_for: Duration,
    keep_for: Duration,
}

impl Default for ClientBuilder {
    fn default() -> Self {
        Self {
            store: None,
            transport: None,
            credential: None,
            lease_for: Duration::from_secs(30),
            keep_for: Duration::from_secs(24 * 3600),
        }
    }
}

impl ClientBuilder {
    /// Where journals are kept.
    pub fn store(self, store: impl Store) -> Self {
        self.shared_store(Arc::new(store))
    }

    /// Where journals are kept, shared with others.
    pub fn shared_store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = Some(store);
        self
    }

    /// How requests leave the process.
    pub fn transport(mut self, transport: impl Transport) -> Self {
        self.transport = Some(Arc::new(transport));
        self
    }

    /// The credential for every request.
    pub fn credential(mut self, credential: Credential) -> Self {
        self.credential = Some(credential);
        self
    }

    /// How long a writer's claim is good without being renewed; at least 1 s.
    pub fn lease(mut self, lease_for: Duration) -> Self {
        self.lease_for = lease_for;
        self
    }

    /// How long a journal is kept after its last record.
    pub fn keep_for(mut self, keep_for: Duration) -> Self {
        self.keep_for = keep_for;
        self
    }

    /// The client.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] when the lease is under a second, or no transport
    /// was given and none is built in.
    pub fn build(self) -> Result<Client> {
        if self.lease_for < Duration::from_secs(1) {
            return Err(Error::new(
                ErrorKind::Config,
                format!(
                    "expected a lease of at least 1 s, but found {:?}",
                    self.lease_for
                ),
            ));
        }
        let transport = match self.transport {
            Some(transport) => transport,
            None => default_transport()?,
        };
        Ok(Client {
            inner: Arc::new(Inner {
                store: self.store.unwrap_or_else(|| Arc::new(MemoryStore::new())),
                transport,
                credential: self.credential,
                lease_for: self.lease_for,
                keep_for: self.keep_for,
                clock: Clock::new(),
                live: Registry::default(),
            }),
        })
    }
}

#[cfg(feature = "reqwest")]
fn default_transport() -> Result<Arc<dyn Transport>> {
    Ok(Arc::new(crate::transport::ReqwestTransport::new()?))
}

#[cfg(not(feature = "reqwest"))]
fn default_transport() -> Result<Arc<dyn Transport>> {
    Err(Error::new(
        ErrorKind::Config,
        "expected a transport, but none was given and the feature `reqwest` is off",
    ))
}
