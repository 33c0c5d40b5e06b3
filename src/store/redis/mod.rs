//! Journals in Redis, for many machines. `docs/journal-format.md` has the layout.

mod builder;
mod fault;
mod layout;
mod line;
mod link;
mod list;
mod read;
mod route;
mod scripts;
mod survey;
mod tail;
mod target;
mod write;

pub use builder::RedisStoreBuilder;

use self::layout::Names;
use self::link::{Link, Replicas};
use super::{
    Batch, Claim, Claimed, Collected, Durability, HeadWatch, Heads, JournalState, Lease, Page,
    PageLimit, Store,
};
use crate::error::Result;
use crate::proto::journal::Status;
use crate::proto::model::{Cursor, Key, Seq, WallTime};
use futures_core::future::BoxFuture;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::task::JoinHandle;

/// A store in Redis, for any number of processes on any number of machines.
///
/// One server, a primary that sentinels watch over, or a cluster; version 6.2 or
/// later. One connection to each server carries everything that is asked, and one
/// more carries wake-ups, however many readers there are.
///
/// An acknowledged record survives the death of this process
/// ([`Durability::Buffered`]). What it survives beyond that is Redis's to say:
/// nothing, if Redis keeps no append-only file; the death of the Redis process, with
/// `appendfsync always`; the loss of the primary, if the store waits for replicas
/// ([`wait_replicas`](RedisStoreBuilder::wait_replicas)). Without that, a failover
/// can lose records that were acknowledged and shown.
///
/// When a connection breaks, a server is away, or a replica takes over, requests are
/// sent again for as long as the store has
/// [`patience`](RedisStoreBuilder::patience). None takes effect twice.
///
/// Redis must not evict: with a `maxmemory-policy` other than `noeviction` a full
/// server throws journals away. A journal that was evicted or trimmed answers with
/// [`StoreCorrupt`](crate::ErrorKind::StoreCorrupt), never as one that has ended.
pub struct RedisStore {
    shared: Arc<Shared>,
    listening: JoinHandle<()>,
}

/// What the handle and the listening task share.
struct Shared {
    link: Link,
    names: Names,
    heads: Heads,
    replicas: Option<Replicas>,
    grace: Duration,
    /// Tells this store's own wake-ups from others'.
    instance: String,
    calls: AtomicU64,
    /// Calls whose future was dropped: their wake-ups are not this store's own to
    /// give any more.
    left: Mutex<HashSet<String>>,
    acknowledged: Acknowledged,
}

/// Calls that were dropped and of which no wake-up came yet; beyond it all of them
/// are forgotten, and readers look by themselves.
const MOST_LEFT: usize = 4096;

/// Leases whose last record is kept in mind; beyond it all of them are forgotten.
const MOST_ACKNOWLEDGED: usize = 65_536;

impl RedisStore {
    /// Opens the store at this URL with the defaults of [`RedisStoreBuilder`].
    ///
    /// # Errors
    ///
    /// Those of [`RedisStoreBuilder::open`].
    ///
    /// # Cancel safety
    ///
    /// Dropped early, nothing is left but the key that says what is under the
    /// prefix.
    pub async fn open(url: impl Into<String>) -> Result<Self> {
        Self::builder(url).open().await
    }

    /// Settings for the store at this URL; see
    /// [`RedisStoreBuilder`] for what it may say.
    pub fn builder(url: impl Into<String>) -> RedisStoreBuilder {
        RedisStoreBuilder::new(url.into())
    }

    fn start(shared: Shared) -> Self {
        let shared = Arc::new(shared);
        let listening = tokio::spawn(tail::listen(Arc::clone(&shared)));
        Self { shared, listening }
    }
}

impl Drop for RedisStore {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore")
            .field("heads", &self.shared.heads)
            .field("replicas", &self.shared.replicas)
            .finish_non_exhaustive()
    }
}

impl Shared {
    /// A number that no other call has.
    fn next_call(&self) -> String {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        format!("{}-{call}", self.instance)
    }

    /// For as long as a call is under way.
    fn leaving<'a>(&'a self, key: &'a Key, call: &'a str) -> Leaving<'a> {
        Leaving {
            shared: self,
            key,
            call,
            stays: false,
        }
    }

    /// Whether the readers beside it were woken already for what this call did.
    fn has_woken(&self, call: &str) -> bool {
        call.starts_with(&self.instance) && !lock(&self.left).remove(call)
    }
}

/// A call that may be dropped before it knows what became of it.
struct Leaving<'a> {
    shared: &'a Shared,
    key: &'a Key,
    call: &'a str,
    stays: bool,
}

impl Leaving<'_> {
    /// It knows, and wakes the readers itself.
    fn stay(&mut self) {
        self.stays = true;
    }
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if self.stays {
            return;
        }
        let mut left = lock(&self.shared.left);
        if left.len() >= MOST_LEFT {
            left.clear();
        }
        left.insert(self.call.to_owned());
        drop(left);
        // It may have taken effect before.
        self.shared.heads.wake(self.key);
    }
}

/// The last record that was acknowledged under each lease of this store, so that a
/// server that has lost some is found out.
#[derive(Default)]
struct Acknowledged(Mutex<HashMap<Key, (u64, Seq)>>);

impl Acknowledged {
    fn note(&self, lease: &Lease, last: Seq, status: Status) {
        let mut leases = lock(&self.0);
        if status != Status::Running {
            leases.remove(&lease.key);
            return;
        }
        if let Some(known) = leases.get_mut(&lease.key) {
            *known = (lease.token, last);
            return;
        }
        if leases.len() >= MOST_ACKNOWLEDGED {
            leases.clear();
        }
        leases.insert(lease.key.clone(), (lease.token, last));
    }

    fn of(&self, lease: &Lease) -> Option<Seq> {
        let leases = lock(&self.0);
        let (token, last) = leases.get(&lease.key)?;
        (*token == lease.token).then_some(*last)
    }

    fn forget(&self, lease: &Lease) {
        let mut leases = lock(&self.0);
        if leases
            .get(&lease.key)
            .is_some_and(|(token, _)| *token <= lease.token)
        {
            leases.remove(&lease.key);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that runs under these locks can leave them half changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Store for RedisStore {
    fn claim(&self, claim: Claim) -> BoxFuture<'_, Result<Claimed>> {
        Box::pin(async move { self.shared.claim(&claim).await })
    }

    fn renew<'a>(&'a self, lease: &'a Lease, until: WallTime) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.shared.renew(lease, until))
    }

    fn release<'a>(&'a self, lease: &'a Lease) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.shared.release(lease))
    }

    fn append<'a>(&'a self, lease: &'a Lease, batch: Batch) -> BoxFuture<'a, Result<Seq>> {
        Box::pin(async move { self.shared.append(lease, &batch).await })
    }

    fn read<'a>(
        &'a self,
        key: &'a Key,
        after: Cursor,
        limit: PageLimit,
    ) -> BoxFuture<'a, Result<Page>> {
        Box::pin(self.shared.page(key, after, limit))
    }

    fn state<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<JournalState>> {
        Box::pin(self.shared.state_of(key))
    }

    fn list<'a>(
        &'a self,
        after: Option<&'a Key>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<JournalState>>> {
        Box::pin(self.shared.list(after, limit))
    }

    fn collect(&self, now: WallTime) -> BoxFuture<'_, Result<Collected>> {
        Box::pin(self.shared.collect(now))
    }

    fn delete<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<bool>> {
        Box::pin(self.shared.delete(key))
    }

    fn watch(&self, key: &Key) -> HeadWatch {
        self.shared.heads.watch(key)
    }

    fn durability(&self) -> Durability {
        Durability::Buffered
    }
}
