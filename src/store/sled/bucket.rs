//! One database of records: those of the generations that were claimed while it
//! was the newest.
//!
//! sled gives a file's space to new data but never back to the disk, however much
//! is removed from it (measured: 178 MiB for 0 of data). A folder that is removed
//! does. So records live in databases of their own, and go with them.

use super::db::{check_layout, failed, io_failed};
use crate::error::{Error, ErrorKind, Result};
use crate::proto::model::WallTime;
use ::sled::Tree;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What the default tree of a bucket says it is.
const KIND: &[u8] = b"streamkeep records";
/// A file that is written when a bucket is made and removed before the rest of it:
/// a folder without it is half made, or half removed.
const READY: &str = "ready";

/// An open bucket.
#[derive(Debug)]
pub(super) struct Bucket {
    pub(super) sled: ::sled::Db,
    pub(super) records: Tree,
    /// When it became the newest.
    pub(super) since: WallTime,
    /// Whether it has the large cache of one that is written to.
    pub(super) warm: bool,
    folder: PathBuf,
}

/// How a bucket's database is opened.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tuning {
    pub(super) cache_bytes: u64,
    pub(super) background: Duration,
    pub(super) warm: bool,
}

impl Tuning {
    pub(super) fn open(&self, folder: &Path) -> Result<::sled::Db> {
        let background = u64::try_from(self.background.as_millis()).unwrap_or(u64::MAX);
        let config = ::sled::Config::new()
            .path(folder)
            .cache_capacity(self.cache_bytes)
            .flush_every_ms(Some(background.clamp(1, 3_600_000)));
        // The store's own lock is held, so whoever holds sled's is a thread of sled
        // that has not yet noticed that the database was closed.
        let mut patience = 200;
        loop {
            match config.open() {
                Err(error) if is_locked(&error) && patience > 0 => {
                    patience -= 1;
                    std::thread::sleep(Duration::from_millis(10));
                }
                other => return other.map_err(failed),
            }
        }
    }
}

/// sled gives this no kind of its own.
fn is_locked(error: &::sled::Error) -> bool {
    matches!(error, ::sled::Error::Io(io)
        if io.kind() == io::ErrorKind::Other && io.to_string().contains("could not acquire lock"))
}

impl Bucket {
    /// Makes one in a folder that is not there.
    pub(super) fn create(folder: &Path, since: WallTime, tuning: Tuning) -> Result<Self> {
        let bucket = Self::open_database(folder, since, tuning)?;
        bucket.sled.flush().map_err(failed)?;
        fs::write(folder.join(READY), since.as_millis().to_string()).map_err(io)?;
        Ok(bucket)
    }

    /// Opens one that was made. `None`, and the folder removed, when it was not
    /// made to the end or not removed to the end: then nothing refers to it.
    pub(super) fn open(folder: &Path, tuning: Tuning) -> Result<Option<Self>> {
        let since = match fs::read_to_string(folder.join(READY)) {
            Ok(since) => since,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::remove_dir_all(folder).map_err(io)?;
                return Ok(None);
            }
            Err(error) => return Err(io(error)),
        };
        // It only says when to begin the next one.
        let since = WallTime::from_millis(since.trim().parse().unwrap_or(0));
        Self::open_database(folder, since, tuning).map(Some)
    }

    fn open_database(folder: &Path, since: WallTime, tuning: Tuning) -> Result<Self> {
        let sled = tuning.open(folder)?;
        check_layout(&sled, KIND)?;
        Ok(Self {
            records: sled.open_tree("records").map_err(failed)?,
            sled,
            since,
            warm: tuning.warm,
            folder: folder.to_owned(),
        })
    }

    /// Closes it and opens it again, with another cache.
    pub(super) fn reopen(self, tuning: Tuning) -> Result<Self> {
        let Self {
            sled,
            records,
            since,
            folder,
            ..
        } = self;
        sled.flush().map_err(failed)?;
        drop((records, sled));
        Self::open_database(&folder, since, tuning)
    }

    /// Gives its space back.
    pub(super) fn remove(self) -> Result<()> {
        let folder = self.folder.clone();
        fs::remove_file(folder.join(READY)).map_err(io)?;
        drop(self);
        fs::remove_dir_all(&folder).map_err(io)
    }
}

fn io(error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::NotFound => Error::new(
            ErrorKind::StoreCorrupt,
            "expected a folder of records, but found that it is not there",
        ),
        kind => io_failed(kind, "the store's folder"),
    }
    .with_source(error)
}
