//! Settings of the sled store, and how it is opened.

use super::SledStore;
use super::bucket::Tuning;
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
/// | [`bucket_span`](Self::bucket_span) | a 16th of the keeping | some 6 % more disk than is live |
/// | [`bucket_bytes`](Self::bucket_bytes) | 1 GiB | so that a busy hour is not one lump |
/// | [`background_sync`](Self::background_sync) | 500 ms | sled's own |
/// | [`set_aside_damaged`](Self::set_aside_damaged) | no | a caller should know before data is put away |
/// | [`durability`](Self::durability) | `Buffered` | the only one there is |
#[derive(Clone, Debug)]
pub struct SledStoreBuilder {
    path: PathBuf,
    pub(super) cache_bytes: u64,
    pub(super) queue: usize,
    pub(super) bucket_span: Option<Duration>,
    pub(super) bucket_bytes: u64,
    background_sync: Duration,
    set_aside_damaged: bool,
    durability: Durability,
}

/// What is in the store's folder: the lock, the journals' database, the buckets of
/// records, and what was damaged. The databases are folders below, so that a
/// damaged one can be put aside under the lock.
const LOCK_FILE: &str = "lock";
pub(super) const JOURNALS: &str = "journals";
pub(super) const RECORDS: &str = "records";
const ASIDE_PREFIX: &str = "damaged-";

impl SledStoreBuilder {
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            path,
            cache_bytes: 64 << 20,
            queue: 1024,
            bucket_span: None,
            bucket_bytes: 1 << 30,
            background_sync: Duration::from_millis(500),
            set_aside_damaged: false,
            durability: Durability::Buffered,
        }
    }

    /// Memory for sled's page caches, in bytes, about. At least 1 MiB. Each of the
    /// two newest buckets takes this much, the journals' database an 8th, and each
    /// older bucket a 32nd, once they are read or written that much.
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

    /// How long new generations go into the same bucket. Space comes back a bucket
    /// at a time, so this is how much longer than necessary it can be held. By
    /// default a 16th of what the claim at hand wants to be kept
    /// ([`Claim::keep_for`](crate::store::Claim::keep_for)), and at least a minute.
    /// There are at most 64 buckets; at that number the newest is kept on.
    pub fn bucket_span(mut self, span: Duration) -> Self {
        self.bucket_span = Some(span);
        self
    }

    /// After about how many bytes new generations go into another bucket.
    pub fn bucket_bytes(mut self, bytes: u64) -> Self {
        self.bucket_bytes = bytes;
        self
    }

    /// How often sled syncs its file and tidies its segments on its own, 1 ms to 1 h. Appends do not wait for it: they are flushed by the
    /// store before they are acknowledged.
    pub fn background_sync(mut self, every: Duration) -> Self {
        self.background_sync = every;
        self
    }

    /// Whether a database that cannot be opened because it is damaged is put
    /// aside. If it is a bucket, its journals answer with
    /// [`StoreCorrupt`](ErrorKind::StoreCorrupt) and all others go on; if it is the
    /// journals' own, an empty store is begun. See [`SledStore::set_aside`].
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

    pub(super) fn tuning(&self, warmth: Warmth) -> Tuning {
        let cache_bytes = match warmth {
            Warmth::Warm => self.cache_bytes,
            Warmth::Journals => self.cache_bytes / 8,
            Warmth::Cold => self.cache_bytes / 32,
        };
        Tuning {
            cache_bytes: cache_bytes.max(256 << 10),
            background: self.background_sync,
            warm: warmth == Warmth::Warm,
        }
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
        let mut set_aside = Vec::new();
        let db = match self.open_db(&mut set_aside) {
            Err(error) if self.set_aside_damaged && error.kind() == ErrorKind::StoreCorrupt => {
                // The journals' own database: without it nobody knows what the
                // records belong to, so they go with it.
                let aside = self.new_folder_aside()?;
                tracing::warn!(
                    %error,
                    aside = %aside.display(),
                    "the journal store is damaged and put aside; an empty one is begun"
                );
                for part in [JOURNALS, RECORDS] {
                    let from = self.path.join(part);
                    if from.exists() {
                        fs::rename(from, aside.join(part)).map_err(folder_failed)?;
                    }
                }
                set_aside = vec![aside];
                self.open_db(&mut Vec::new())?
            }
            other => other?,
        };
        SledStore::start(self, db, lock, set_aside)
    }

    /// Opens the databases. Buckets that are damaged are put aside if that is
    /// wanted, and listed.
    pub(super) fn open_db(&self, set_aside: &mut Vec<PathBuf>) -> Result<Db> {
        Db::open(&self.path, self, |bucket, error| {
            if !self.set_aside_damaged {
                return Err(error);
            }
            let aside = self.new_folder_aside()?;
            tracing::warn!(
                %error,
                aside = %aside.display(),
                "a bucket of the journal store is damaged and put aside; its journals cannot be read"
            );
            let name = bucket.file_name().unwrap_or_default();
            fs::rename(bucket, aside.join(name)).map_err(folder_failed)?;
            set_aside.push(aside);
            Ok(())
        })
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
        if self.path.exists() && !self.path.is_dir() {
            return Err(db::not_a_store());
        }
        fs::create_dir_all(&self.path).map_err(folder_failed)?;
        let lock_path = self.path.join(LOCK_FILE);
        if !lock_path.exists() && !is_empty(&self.path).map_err(folder_failed)? {
            return Err(db::not_a_store());
        }
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&lock_path)
            .map_err(folder_failed)?;
        match lock.try_lock() {
            Ok(()) => Ok(lock),
            Err(TryLockError::WouldBlock) => Err(Error::new(
                ErrorKind::StoreUnavailable,
                format!(
                    "expected to be alone with the store in {}, but found that it is open already: stop the other process, or give each a folder of its own",
                    self.path.display()
                ),
            )),
            Err(TryLockError::Error(error)) => Err(folder_failed(error)),
        }
    }

    /// A new folder to put something damaged into.
    fn new_folder_aside(&self) -> Result<PathBuf> {
        let aside = (1..=u32::MAX)
            .map(|number| self.path.join(format!("{ASIDE_PREFIX}{number}")))
            .find(|aside| !aside.exists())
            .unwrap_or_else(|| self.path.join(ASIDE_PREFIX));
        fs::create_dir_all(&aside).map_err(folder_failed)?;
        Ok(aside)
    }
}

/// Which cache a database gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Warmth {
    Journals,
    Warm,
    Cold,
}

fn folder_failed(error: std::io::Error) -> Error {
    db::io_failed(error.kind(), "the store's folder").with_source(error)
}

fn is_empty(folder: &Path) -> std::io::Result<bool> {
    Ok(fs::read_dir(folder)?.next().is_none())
}
