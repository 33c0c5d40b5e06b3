//! Journals in sled, the embedded default. `docs/journal-format.md` has the layout.

mod bucket;
mod builder;
mod cache;
mod collect;
mod command;
mod db;
mod layout;
mod numbers;
mod reader;
mod upkeep;
mod writer;

pub use builder::SledStoreBuilder;

use self::command::{Append, Command, ReplyTo};
use self::db::Db;
use self::layout::VALUE_HEADER;
use self::reader::closed;
use self::writer::Writer;
use super::entry::{Tail, first_of};
use super::memory::too_large;
use super::{
    Batch, Claim, Claimed, Collected, Durability, HeadWatch, Heads, JournalState, Lease, Page,
    PageLimit, Store,
};
use crate::error::{Error, ErrorKind, Result};
use crate::proto::journal::encode;
use crate::proto::model::{Cursor, Key, Seq, WallTime};
use bytes::BytesMut;
use futures_core::future::BoxFuture;
use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, RwLock};
use std::thread::JoinHandle;
use tokio::sync::{Semaphore, mpsc, oneshot};

/// A store in a folder of this machine, for one process at a time.
///
/// An acknowledged record survives the death of the process
/// ([`Durability::Buffered`]), not power loss. One thread writes; what arrives
/// while it flushes goes into the next flush, so a busy store makes few of them.
///
/// When sled fails (a full disk, an I/O error) requests fail with a typed error,
/// nothing is half written, and the database is opened again when the next request
/// comes; journals are as they were acknowledged.
///
/// Dropping the store finishes what was asked for and waits for the thread, so
/// that the folder is free afterwards. On an async thread, drop it in
/// `spawn_blocking`, or call [`close`](Self::close) first.
pub struct SledStore {
    shared: Arc<Shared>,
    /// `None` once it is closed.
    commands: Mutex<Option<mpsc::Sender<Command>>>,
    writer: Mutex<Option<JoinHandle<()>>>,
    collecting: tokio::sync::Mutex<()>,
    set_aside: Vec<PathBuf>,
}

/// What the handle, the readers and the writing thread share.
struct Shared {
    db: RwLock<State>,
    /// How far the runs had come that are being appended to: from before their
    /// values are written until they are flushed.
    pending: Mutex<HashMap<u64, Tail>>,
    heads: Heads,
    readers: Arc<Semaphore>,
}

enum State {
    Open(Db),
    Down(Failure),
}

/// Why the database is not open.
#[derive(Clone, Debug)]
struct Failure {
    kind: ErrorKind,
    message: String,
    panicked: bool,
}

impl Failure {
    fn closed() -> Self {
        Self {
            kind: ErrorKind::StoreUnavailable,
            message: "expected the store to be open, but found that it was closed".to_owned(),
            panicked: false,
        }
    }

    fn to_error(&self) -> Error {
        Error::new(self.kind, self.message.clone())
    }
}

/// Reads at a time. More than there are cores, since some wait for the disk; few
/// enough that a thousand readers do not make a thousand threads.
const READERS: usize = 16;

impl SledStore {
    /// Opens the store in this folder with the defaults of [`SledStoreBuilder`],
    /// and creates it if the folder is empty or not there.
    ///
    /// # Errors
    ///
    /// Those of [`SledStoreBuilder::open`].
    ///
    /// # Cancel safety
    ///
    /// Dropped early, the store is opened and closed again in the background.
    pub async fn open(folder: impl AsRef<Path>) -> Result<Self> {
        Self::builder(folder).open().await
    }

    /// Settings for the store in this folder.
    pub fn builder(folder: impl AsRef<Path>) -> SledStoreBuilder {
        SledStoreBuilder::new(folder.as_ref().to_owned())
    }

    fn start(
        settings: SledStoreBuilder,
        db: Db,
        lock: File,
        set_aside: Vec<PathBuf>,
    ) -> Result<Self> {
        let shared = Arc::new(Shared {
            db: RwLock::new(State::Open(db)),
            pending: Mutex::default(),
            heads: Heads::new(),
            readers: Arc::new(Semaphore::new(READERS)),
        });
        let (commands, requests) = mpsc::channel(settings.queue);
        let writer = Writer::new(Arc::clone(&shared), settings, requests, lock)?;
        let writer = std::thread::Builder::new()
            .name("streamkeep-store".to_owned())
            .spawn(move || writer.run())
            .map_err(|error| {
                Error::new(
                    ErrorKind::StoreUnavailable,
                    "expected a thread for the store, but found that none can be started",
                )
                .with_source(error)
            })?;
        Ok(Self {
            shared,
            commands: Mutex::new(Some(commands)),
            writer: Mutex::new(Some(writer)),
            collecting: tokio::sync::Mutex::default(),
            set_aside,
        })
    }

    /// Where damaged databases were put when the store was opened; empty when none
    /// was damaged.
    pub fn set_aside(&self) -> &[PathBuf] {
        &self.set_aside
    }

    /// Finishes what was asked for, closes the database and frees the folder.
    /// Later requests fail with [`StoreUnavailable`](ErrorKind::StoreUnavailable).
    ///
    /// # Cancel safety
    ///
    /// Dropped early, the store closes in the background.
    pub async fn close(&self) {
        let Some(writer) = self.stop() else {
            return;
        };
        let joined = tokio::task::spawn_blocking(move || writer.join());
        // The writer catches what sled throws; there is nothing to hand on.
        let _ = joined.await;
    }

    fn stop(&self) -> Option<JoinHandle<()>> {
        drop(lock(&self.commands).take());
        lock(&self.writer).take()
    }

    /// Asks the writer, and waits for its answer.
    async fn ask<T>(&self, command: impl FnOnce(ReplyTo<T>) -> Command) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        let commands = lock(&self.commands).clone().ok_or_else(closed)?;
        commands.send(command(reply)).await.map_err(|_| closed())?;
        // Without an answer the writer met something while it worked on this
        // group; whether the request was done cannot be told.
        answer.await.map_err(|_| closed())?
    }
}

impl Drop for SledStore {
    fn drop(&mut self) {
        if let Some(writer) = self.stop() {
            let _ = writer.join();
        }
    }
}

impl fmt::Debug for SledStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SledStore")
            .field("heads", &self.shared.heads)
            .field("set_aside", &self.set_aside)
            .finish_non_exhaustive()
    }
}

impl Store for SledStore {
    fn claim(&self, claim: Claim) -> BoxFuture<'_, Result<Claimed>> {
        Box::pin(self.ask(|reply| Command::Claim {
            claim: Box::new(claim),
            reply,
        }))
    }

    fn renew<'a>(&'a self, lease: &'a Lease, until: WallTime) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.ask(move |reply| Command::Renew {
            lease: lease.clone(),
            until,
            reply,
        }))
    }

    fn release<'a>(&'a self, lease: &'a Lease) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.ask(move |reply| Command::Release {
            lease: lease.clone(),
            reply,
        }))
    }

    fn append<'a>(&'a self, lease: &'a Lease, batch: Batch) -> BoxFuture<'a, Result<Seq>> {
        Box::pin(async move {
            let first = first_of(&batch)?;
            let mut value = BytesMut::zeroed(VALUE_HEADER);
            encode(&batch.records, &mut value).map_err(too_large)?;
            let count = u32::try_from(batch.records.len()).map_err(|_| {
                Error::new(
                    ErrorKind::JournalFull,
                    "expected fewer records in one append",
                )
            })?;
            self.ask(|reply| {
                Command::Append(Append {
                    lease: lease.clone(),
                    first,
                    count,
                    status: batch.status,
                    now: batch.now,
                    value,
                    reply,
                })
            })
            .await
        })
    }

    fn read<'a>(
        &'a self,
        key: &'a Key,
        after: Cursor,
        limit: PageLimit,
    ) -> BoxFuture<'a, Result<Page>> {
        let key = key.clone();
        Box::pin(
            self.shared
                .blocking(move |shared, db| shared.page(db, &key, after, limit)),
        )
    }

    fn state<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<JournalState>> {
        let key = key.clone();
        Box::pin(
            self.shared
                .blocking(move |shared, db| shared.state_of(db, &key)),
        )
    }

    fn list<'a>(
        &'a self,
        after: Option<&'a Key>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<JournalState>>> {
        let after = after.cloned();
        Box::pin(
            self.shared
                .blocking(move |shared, db| shared.list(db, after.as_ref(), limit)),
        )
    }

    fn collect(&self, now: WallTime) -> BoxFuture<'_, Result<Collected>> {
        Box::pin(self.collect_now(now))
    }

    fn delete<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<bool>> {
        Box::pin(self.ask(|reply| Command::Delete {
            key: key.clone(),
            reply,
        }))
    }

    fn watch(&self, key: &Key) -> HeadWatch {
        self.shared.heads.watch(key)
    }

    fn durability(&self) -> Durability {
        Durability::Buffered
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
