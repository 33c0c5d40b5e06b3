//! Settings of the sled store, and how it is opened.

use super::SledStore;
use super::db::{self, Db};
use crate::error::{Error, ErrorKind, Result};
use crate::store::Durability;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How a [`SledStore`] is opened.
///
/// | setting | default | why |
/// |---|---|---|
/// | [`cache_bytes`](Self::cache_bytes) | 64 MiB | sled's own default is 1 GiB, too much beside a server |
/// | [`queue`](Self::queue) | 1,024 | one place for each of a thousand busy journals |
/// | [`tree_span`](Self::tree_span) | 1 h | with the usual 24 h of keeping, 4 % more disk than is live |
/// | [`tree_bytes`](Self::tree_bytes) | 128 MiB | so that a busy hour is not one lump |
/// | [`background_sync`](Self::background_sync) | 500 ms | sled's own |
/// | [`set_aside_damaged`](Self::set_aside_damaged) | no | a caller should know before data is put away |
/// | [`durability`](Self::durability) | `Buffered` | the only one there is |
#[derive(Clone, Debug)]
pub struct SledStoreBuilder {
    path: PathBuf,
    pub(super) cache_bytes: u64,
    pub(super) queue: usize,
    pub(super) tree_span: Duration,
    pub(super) tree_bytes: u64,
    background_sync: Duration,
    set_aside_damaged: bool,
    durability: Durability,
}

/// What is in the store's folder: the lock, and sled's own folder. sled's is a
/// folder below so that a damaged one can be put aside under the lock.
const LOCK_FILE: &str = "lock";
const SLED_FOLDER: &str = "sled";
const ASIDE_PREFIX: &str = "damaged-";

impl SledStoreBuilder {
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            path,
            cache_bytes: 64 << 20,
            queue: 1024,
            tree_span: Duration::from_secs(60 * 60),
            tree_bytes: 128 << 20,
            background_sync: Duration::from_millis(500),
            set_aside_damaged: false,
            durability: Durability::Buffered,
        }
    }

    /// Memory that sled's page cache takes, in bytes, about. At least 1 MiB.
    pub fn cache_bytes(mut self, bytes: u64) -> Self {
        self.cache_bytes = bytes.max(1 << 20);
        self
    }

    /// Requests that may wait for the writing thread; further ones wait for a
    /// place. At least 1.
    pub fn queue(mut self, requests: usize) -> Self {
        self.queue = requests.clamp(1, 1 << 20);
        self
    }

    /// How long new journals go into the same tree. Space comes back a tree at a
    /// time, so this is how much longer than necessary it can be held.
    pub fn tree_span(mut self, span: Duration) -> Self {
        self.tree_span = span;
        self
    }

    /// After how many bytes new journals go into another tree.
    pub fn tree_bytes(mut self, bytes: u64) -> Self {
        self.tree_bytes = bytes;
        self
    }

    /// How often sled syncs its file and tidies its segments on its own, 1 ms to 1 h. Appends do not wait for it: they are flushed by the
    /// store before they are acknowledged.
    pub fn background_sync(mut self, every: Duration) -> Self {
        self.background_sync = every;
        self
    }

    /// Whether a database that cannot be opened because it is damaged is put
    /// aside, and an empty one begun. See [`SledStore::set_aside`].
    pub fn set_aside_damaged(mut self, yes: bool) -> Self {
        self.set_aside_damaged = yes;
        self
    }

    /// What an acknowledgement must survive. [`Durability::Buffered`] is the only
    /// one offered; asking for another is an error when the store is opened.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    pub(super) fn background_ms(&self) -> u64 {
        u64::try_from(self.background_sync.as_millis())
            .unwrap_or(u64::MAX)
            .clamp(1, 3_600_000)
    }

    /// Opens the store, and creates it if the folder is empty or not there.
    ///
    /// # Errors
    ///
    /// [`Config`](ErrorKind::Config) for a durability that is not offered, and for
    /// a folder that holds something else;
    /// [`StoreUnavailable`](ErrorKind::StoreUnavailable) when another process has
    /// it open, when a later version wrote it, and for I/O errors;
    /// [`StoreFull`](ErrorKind::StoreFull); and
    /// [`StoreCorrupt`](ErrorKind::StoreCorrupt) for a damaged database.
    ///
    /// # Cancel safety
    ///
    /// Dropped early, the store is opened and closed again in the background.
    pub async fn open(self) -> Result<SledStore> {
        tokio::task::spawn_blocking(move || self.open_blocking())
            .await
            .unwrap_or_else(|error| {
                Err(Error::new(
                    ErrorKind::StoreUnavailable,
                    "expected the store to open, but found that the runtime is shutting down",
                )
                .with_source(error))
            })
    }

    fn open_blocking(self) -> Result<SledStore> {
        self.check_durability()?;
        let lock = self.take_lock()?;
        let mut set_aside = None;
        let db = match self.open_db() {
            Err(error) if self.set_aside_damaged && error.kind() == ErrorKind::StoreCorrupt => {
                let aside = self.put_aside()?;
                tracing::warn!(
                    %error,
                    aside = %aside.display(),
                    "the journal store was damaged and is put aside; an empty one is begun"
                );
                set_aside = Some(aside);
                self.open_db()?
            }
            other => other?,
        };
        SledStore::start(self, db, lock, set_aside)
    }

    pub(super) fn open_db(&self) -> Result<Db> {
        Db::open(&self.path.join(SLED_FOLDER), self)
    }

    fn check_durability(&self) -> Result<()> {
        let why = match self.durability {
            Durability::Buffered => return Ok(()),
            Durability::Volatile => "use the memory store for what need not be kept",
            Durability::Synced => {
                "on power loss its flush was measured to lose records that it had acknowledged, so it is not offered"
            }
        };
        Err(Error::new(
            ErrorKind::Config,
            format!(
                "expected durability buffered for the sled store, but found {:?}: {why}",
                self.durability
            )
            .to_lowercase(),
        ))
    }

    fn take_lock(&self) -> Result<File> {
        let io = |error: std::io::Error| {
            db::io_failed(error.kind(), "the store's folder").with_source(error)
        };
        if self.path.exists() && !self.path.is_dir() {
            return Err(db::not_a_store());
        }
        fs::create_dir_all(&self.path).map_err(io)?;
        let lock_path = self.path.join(LOCK_FILE);
        if !lock_path.exists() && !is_empty(&self.path).map_err(io)? {
            return Err(db::not_a_store());
        }
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&lock_path)
            .map_err(io)?;
        match lock.try_lock() {
            Ok(()) => Ok(lock),
            Err(TryLockError::WouldBlock) => Err(Error::new(
                ErrorKind::StoreUnavailable,
                format!(
                    "expected to be alone with the store in {}, but found that it is open already: stop the other process, or give each a folder of its own",
                    self.path.display()
                ),
            )),
            Err(TryLockError::Error(error)) => Err(io(error)),
        }
    }

    /// Moves sled's folder out of the way; gives where it is now.
    fn put_aside(&self) -> Result<PathBuf> {
        let aside = (1..=u32::MAX)
            .map(|number| self.path.join(format!("{ASIDE_PREFIX}{number}")))
            .find(|aside| !aside.exists())
            .unwrap_or_else(|| self.path.join(ASIDE_PREFIX));
        fs::rename(self.path.join(SLED_FOLDER), &aside).map_err(|error| {
            db::io_failed(error.kind(), "the store's folder").with_source(error)
        })?;
        Ok(aside)
    }
}

fn is_empty(folder: &Path) -> std::io::Result<bool> {
    Ok(fs::read_dir(folder)?.next().is_none())
}
