//! The client: starts operations, follows them, recovers them by key. Floor 4.
//!
//! One small driver per operation owns the socket, the store and the clock; what
//! to do is decided by the machine in [`proto::operation`](crate::proto::operation).
//! Readers have no queue of their own: they read pages of the journal, so a slow
//! one costs nothing and cannot slow the answer.

mod builder;
mod call;
mod clock;
mod credential;
mod driver;
mod gate;
mod handle;
mod live;
mod mask;
mod recover;
mod sending;
mod subscription;
pub mod telling;
mod upstream;
mod whole;

pub use builder::ClientBuilder;
pub use call::Call;
pub use credential::{Credential, CredentialProvider};
pub use gate::{Gate, Permit, Refused};
pub use handle::{Attached, Handle};
pub use subscription::Subscription;
pub use whole::Unfinished;

pub(crate) use clock::wall_clock;

use crate::error::Result;
use crate::proto::cost::PriceTable;
use crate::proto::dialect::Request;
use crate::proto::guards::GuardsSnapshot;
use crate::proto::model::Key;
use crate::store::{Collected, JournalState, Store};
use crate::transport::Transport;
use builder::Defaults;
use clock::Clock;
use credential::Credentials;
use live::Registry;
use std::sync::Arc;
use std::time::Duration;

/// Starts, follows and recovers operations. Cheap to clone.
///
/// ```no_run
/// # #[cfg(all(feature = "reqwest", feature = "sled"))]
/// # async fn example() -> streamkeep::Result<()> {
/// use streamkeep::{Client, Credential, Dialect, Request};
///
/// let client = Client::builder()
///     .store(streamkeep::store::SledStore::open("answers").await?)
///     .credential(Credential::api_key(std::env::var("OPENAI_API_KEY").unwrap_or_default()))
///     .build()?;
/// let body = r#"{"model": "gpt-5", "messages": [{"role": "user", "content": "Hello!"}]}"#;
/// let url = "https://api.openai.com/v1/chat/completions";
/// let handle = client.call(Request::new(Dialect::OpenAiChat, url, body)?).start().await?;
/// let mut answer = handle.subscribe();
/// while let Some(text) = answer.next_text().await? {
///     print!("{text}");
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Client {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    store: Arc<dyn Store>,
    transport: Arc<dyn Transport>,
    credentials: Arc<Credentials>,
    lease_for: Duration,
    keep_for: Duration,
    defaults: Defaults,
    clock: Clock,
    gate: Gate,
    live: Registry,
    prices: Option<Arc<PriceTable>>,
}

impl Client {
    /// A client in the making.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// A call in the making: what to ask, under which key, with which limits.
    pub fn call(&self, request: Request) -> Call {
        Call::new(self.clone(), request)
    }

    /// Where a journal stands.
    ///
    /// # Errors
    ///
    /// [`NotFound`](crate::ErrorKind::NotFound), [`Expired`](crate::ErrorKind::Expired),
    /// or a storage kind.
    pub async fn state(&self, key: &Key) -> Result<JournalState> {
        self.inner.store.state(key).await
    }

    /// Journals in the order of their keys, after this one, at most `limit`.
    pub async fn list(&self, after: Option<&Key>, limit: usize) -> Result<Vec<JournalState>> {
        self.inner.store.list(after, limit).await
    }

    /// Removes journals past their time.
    pub async fn collect(&self) -> Result<Collected> {
        self.inner.store.collect(wall_clock()).await
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner.store
    }

    /// Where the guards stand that all operations of this client share: budgets,
    /// circuits, limits.
    pub fn guards(&self) -> GuardsSnapshot {
        self.inner.gate.snapshot()
    }

    /// Waits until no operation of this client is running, and every provider
    /// that had to be told to stop has been told, or 10 s have passed over it.
    /// A process that ends before that leaves a background response running.
    ///
    /// After it, none of the client's own tasks holds the store any more: a
    /// store that only this client had is closed when the client, its handles
    /// and its subscriptions are dropped.
    ///
    /// # Cancel safety
    ///
    /// Safe: it only looks.
    pub async fn idle(&self) {
        self.inner.live.idle().await;
    }
}
