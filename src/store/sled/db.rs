//! The open databases: their trees, what is read from them, and sled's errors in
//! the crate's words.

use super::SledStoreBuilder;
use super::bucket::Bucket;
use super::builder::{JOURNALS, RECORDS, Warmth};
use super::layout::{self, KIND, LAYOUT, Run, Stored, VALUE_HEADER};
use crate::error::{Error, ErrorKind, Result};
use crate::proto::model::{Key, Seq, WallTime};
use crate::store::entry::{Gone, Tail};
use ::sled::{IVec, Tree};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The open databases: the journals', and one for each bucket of records.
#[derive(Debug)]
pub(super) struct Db {
    pub(super) sled: ::sled::Db,
    pub(super) keys: Tree,
    pub(super) gone: Tree,
    buckets: RwLock<BTreeMap<u64, Bucket>>,
    folder: PathBuf,
    settings: SledStoreBuilder,
}

/// A journal, and how far it has come.
#[derive(Clone, Debug)]
pub(super) struct Loaded {
    pub(super) stored: Stored,
    /// The last of its values cannot be read: it can be read up to there, and
    /// nothing can be appended.
    pub(super) damaged: bool,
}

impl Db {
    /// Opens, or creates, the databases in this folder. Buckets that are damaged go
    /// to `put_aside`, which says whether to go on without them.
    pub(super) fn open(
        folder: &Path,
        settings: &SledStoreBuilder,
        mut put_aside: impl FnMut(&Path, Error) -> Result<()>,
    ) -> Result<Self> {
        let db = guarded(|| {
            let tuning = settings.tuning(Warmth::Journals);
            let sled = tuning.open(&folder.join(JOURNALS))?;
            check_layout(&sled, KIND)?;
            Ok(Self {
                keys: sled.open_tree("keys").map_err(failed)?,
                gone: sled.open_tree("gone").map_err(failed)?,
                buckets: RwLock::default(),
                folder: folder.join(RECORDS),
                settings: settings.clone(),
                sled,
            })
        })?;
        let serials = db.serials_on_disk()?;
        let newest = serials.iter().max().copied();
        for serial in serials {
            let folder = db.bucket_folder(serial);
            let warmth = if newest == Some(serial) {
                Warmth::Warm
            } else {
                Warmth::Cold
            };
            match guarded(|| Bucket::open(&folder, settings.tuning(warmth))) {
                Ok(Some(bucket)) => db.put_bucket(serial, bucket),
                Ok(None) => {}
                Err(error) if error.kind() == ErrorKind::StoreCorrupt => {
                    put_aside(&folder, error)?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(db)
    }

    /// The tree that holds a bucket's records.
    pub(super) fn records(&self, serial: u64) -> Option<Tree> {
        self.read_buckets()
            .get(&serial)
            .map(|bucket| bucket.records.clone())
    }

    /// The numbers of the buckets, ascending.
    pub(super) fn serials(&self) -> Vec<u64> {
        self.read_buckets().keys().copied().collect()
    }

    /// The newest bucket: its number, since when it is, and about how many bytes
    /// it takes.
    pub(super) fn newest(&self) -> Result<Option<(u64, WallTime, u64)>> {
        match self.read_buckets().last_key_value() {
            Some((serial, bucket)) => {
                let bytes = bucket.sled.size_on_disk().map_err(failed)?;
                Ok(Some((*serial, bucket.since, bytes)))
            }
            None => Ok(None),
        }
    }

    pub(super) fn add_bucket(&self, serial: u64, since: WallTime) -> Result<()> {
        let tuning = self.settings.tuning(Warmth::Warm);
        let bucket = Bucket::create(&self.bucket_folder(serial), since, tuning)?;
        self.put_bucket(serial, bucket);
        Ok(())
    }

    /// Flushes a bucket.
    pub(super) fn flush_bucket(&self, serial: u64) -> Result<()> {
        if let Some(bucket) = self.read_buckets().get(&serial) {
            bucket.sled.flush().map_err(failed)?;
        }
        Ok(())
    }

    /// Gives the space of a bucket back. Nobody may be reading it.
    pub(super) fn drop_bucket(&self, serial: u64) -> Result<()> {
        match self.write_buckets().remove(&serial) {
            Some(bucket) => bucket.remove(),
            None => Ok(()),
        }
    }

    /// Opens those buckets with a small cache that have a large one and are not
    /// among the two newest. Nobody may be reading.
    pub(super) fn cool_down(&self) -> Result<()> {
        let mut buckets = self.write_buckets();
        let warm: Vec<u64> = buckets
            .iter()
            .rev()
            .skip(2)
            .filter(|(_, bucket)| bucket.warm)
            .map(|(serial, _)| *serial)
            .collect();
        for serial in warm {
            if let Some(bucket) = buckets.remove(&serial) {
                let bucket = bucket.reopen(self.settings.tuning(Warmth::Cold))?;
                buckets.insert(serial, bucket);
            }
        }
        Ok(())
    }

    fn put_bucket(&self, serial: u64, bucket: Bucket) {
        self.write_buckets().insert(serial, bucket);
    }

    fn bucket_folder(&self, serial: u64) -> PathBuf {
        self.folder.join(layout::bucket_name(serial))
    }

    fn serials_on_disk(&self) -> Result<Vec<u64>> {
        let io =
            |error: io::Error| io_failed(error.kind(), "the store's folder").with_source(error);
        let mut serials = Vec::new();
        fs::create_dir_all(&self.folder).map_err(io)?;
        for entry in fs::read_dir(&self.folder).map_err(io)? {
            let name = entry.map_err(io)?.file_name();
            serials.extend(name.to_str().and_then(layout::bucket_serial));
        }
        Ok(serials)
    }

    fn read_buckets(&self) -> RwLockReadGuard<'_, BTreeMap<u64, Bucket>> {
        self.buckets.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_buckets(&self) -> RwLockWriteGuard<'_, BTreeMap<u64, Bucket>> {
        self.buckets.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where a journal stands, as far as it is written.
    pub(super) fn load(&self, key: &Key) -> Result<Option<Loaded>> {
        match self.keys.get(key.as_str()).map_err(failed)? {
            Some(bytes) => self.settle(&bytes, |_| None).map(Some),
            None => Ok(None),
        }
    }

    /// An entry of the tree `keys`, brought up to date from the records, but not
    /// beyond what `limit` gives once they were read.
    pub(super) fn settle(
        &self,
        bytes: &[u8],
        limit: impl FnOnce(Run) -> Option<Tail>,
    ) -> Result<Loaded> {
        let stored: Stored = layout::unpack(bytes)?;
        let Some(run) = stored.current() else {
            return Err(no_run());
        };
        let (tail, damaged) = self.tail(run)?;
        let tail = earlier(tail, limit(run));
        Ok(Loaded::new(stored, tail, damaged))
    }

    pub(super) fn gone(&self, key: &Key) -> Result<Option<Gone>> {
        match self.gone.get(key.as_str()).map_err(failed)? {
            Some(bytes) => layout::unpack(&bytes).map(Some),
            None => Ok(None),
        }
    }

    /// How far a run has come, by its last whole value; and whether there are
    /// values after that one which are not whole.
    pub(super) fn tail(&self, run: Run) -> Result<(Option<Tail>, bool)> {
        let Some(tree) = self.records(run.bucket) else {
            return Ok((None, true));
        };
        let mut damaged = false;
        let all = layout::value_key(run.id, Seq::ZERO)..=layout::value_key(run.id, MAX_SEQ);
        for item in tree.range(all).rev() {
            let (key, value) = item.map_err(failed)?;
            if let Some(tail) = layout::unseal(&key, &value) {
                return Ok((Some(tail), damaged));
            }
            damaged = true;
        }
        Ok((None, damaged))
    }

    /// Visits the values of a run in order, from the one that holds the record
    /// `from`, until the visitor says `false`.
    pub(super) fn visit(
        &self,
        run: Run,
        from: Seq,
        mut visitor: impl FnMut(Seq, Option<&[u8]>) -> bool,
    ) -> Result<Visited> {
        let tree = self.records(run.bucket).ok_or_else(no_bucket)?;
        let exact = layout::value_key(run.id, from);
        // A reader that follows along asks for the beginning of a value: found
        // without looking back. Otherwise the value before has it.
        let start = if tree.contains_key(exact).map_err(failed)? {
            IVec::from(&exact)
        } else {
            let before = layout::value_key(run.id, Seq::ZERO)..=exact;
            match tree.range(before).next_back() {
                Some(item) => item.map_err(failed)?.0,
                None => IVec::from(&exact),
            }
        };
        let end = IVec::from(&layout::value_key(run.id, MAX_SEQ));
        let mut tail = None;
        for item in tree.range(start..=end) {
            let (key, value) = item.map_err(failed)?;
            tail = layout::unseal(&key, &value);
            let first = layout::first_of_key(&key).unwrap_or(MAX_SEQ);
            let frames = tail.and_then(|_| value.get(VALUE_HEADER..));
            if !visitor(first, frames) {
                return Ok(Visited::Some);
            }
        }
        Ok(Visited::All(tail))
    }

    /// Removes the values of a run one by one.
    pub(super) fn remove_run(&self, run: Run) -> Result<()> {
        let Some(tree) = self.records(run.bucket) else {
            return Ok(());
        };
        let all = layout::value_key(run.id, Seq::ZERO)..=layout::value_key(run.id, MAX_SEQ);
        for key in tree.range(all).keys() {
            tree.remove(key.map_err(failed)?).map_err(failed)?;
        }
        Ok(())
    }
}

/// How a visit to the values of a run ended.
#[derive(Clone, Copy, Debug)]
pub(super) enum Visited {
    /// The visitor wanted no more.
    Some,
    /// There were no more: how far the run had come with the last one, if there
    /// was any.
    All(Option<Tail>),
}

/// Whichever of the two came first. A reader finds out in two steps how far a run
/// has come and what of it is not acknowledged, and the writer goes on in between:
/// then the limit is beyond what was read.
pub(super) fn earlier(read: Option<Tail>, limit: Option<Tail>) -> Option<Tail> {
    match (read, limit) {
        (Some(read), Some(limit)) if limit.head < read.head => Some(limit),
        (read, _) => read,
    }
}

impl Loaded {
    /// A journal whose current run has come this far.
    pub(super) fn new(mut stored: Stored, tail: Option<Tail>, damaged: bool) -> Self {
        // The entry was written when the run had come at least as far as it says.
        // Fewer records than that means that some are lost.
        let noted = stored.entry.tail;
        let tail = tail.unwrap_or(Tail {
            head: Seq::ZERO,
            bytes: 0,
            ..noted
        });
        let lost = tail.head < noted.head;
        stored.entry.advance(tail);
        Self {
            stored,
            damaged: damaged || lost,
        }
    }
}

const MAX_SEQ: Seq = Seq::new(u64::MAX);

/// Checks what a database says it is; says it, if the database is new.
pub(super) fn check_layout(sled: &::sled::Db, expected: &[u8]) -> Result<()> {
    let kind = sled.get("kind").map_err(failed)?;
    let layout = sled.get("layout").map_err(failed)?;
    let (Some(kind), Some(layout)) = (kind, layout) else {
        // The default tree is always there; anything else is somebody's.
        if sled.tree_names().len() > 1 || !sled.is_empty() {
            return Err(not_a_store());
        }
        sled.insert("kind", expected).map_err(failed)?;
        sled.insert("layout", LAYOUT.to_string().as_bytes())
            .map_err(failed)?;
        sled.flush().map_err(failed)?;
        return Ok(());
    };
    if kind != expected {
        return Err(not_a_store());
    }
    let found = std::str::from_utf8(&layout)
        .ok()
        .and_then(|text| text.parse::<u32>().ok());
    match found {
        Some(LAYOUT) => Ok(()),
        Some(found) => Err(Error::new(
            ErrorKind::StoreUnavailable,
            format!(
                "expected a store of layout {LAYOUT}, but found layout {found}: it was written by another version of streamkeep; use that version, or give this one a folder of its own"
            ),
        )),
        None => Err(Error::new(
            ErrorKind::StoreCorrupt,
            "expected the number of a layout, but found something else",
        )),
    }
}

/// The answer to an entry that names no generation.
pub(super) fn no_run() -> Error {
    Error::new(
        ErrorKind::StoreCorrupt,
        "expected the entry of a journal to name its generations, but found none",
    )
}

/// The answer to a journal whose bucket is not there.
pub(super) fn no_bucket() -> Error {
    Error::new(
        ErrorKind::StoreCorrupt,
        "expected the records of the journal, but found that they were put aside with a damaged database",
    )
}

/// The answer to a folder that is somebody else's.
pub(super) fn not_a_store() -> Error {
    Error::new(
        ErrorKind::Config,
        "expected an empty folder or a streamkeep store, but found something else in it",
    )
}

/// sled's error in the crate's words.
pub(super) fn failed(error: ::sled::Error) -> Error {
    let (kind, message) = match &error {
        ::sled::Error::Io(io) => {
            return io_failed(io.kind(), "the store's database").with_source(error);
        }
        ::sled::Error::Corruption { .. } => (
            ErrorKind::StoreCorrupt,
            "expected the store's database to be whole, but found damage in its file",
        ),
        ::sled::Error::ReportableBug(_) => (
            ErrorKind::StoreCorrupt,
            "expected the store's database to be whole, but found a state it cannot be in",
        ),
        ::sled::Error::CollectionNotFound(_) => (
            ErrorKind::StoreUnavailable,
            "expected a tree of the store's database, but found that it was dropped",
        ),
        ::sled::Error::Unsupported(_) => (
            ErrorKind::StoreUnavailable,
            "expected a database that this version can use, but found another one",
        ),
    };
    Error::new(kind, message).with_source(error)
}

/// An I/O error in the crate's words.
pub(super) fn io_failed(kind: io::ErrorKind, what: &str) -> Error {
    match kind {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            Error::new(
                ErrorKind::StoreFull,
                format!("expected room for {what}, but found none: free some, and it goes on"),
            )
        }
        _ => Error::new(
            ErrorKind::StoreUnavailable,
            format!("expected {what} to answer, but found an I/O error"),
        ),
    }
}

/// Runs what calls sled. The one place where a panic is caught: sled 0.34 asserts
/// what it reads from its file, so a damaged file can make it panic where an error
/// would do.
pub(super) fn guarded<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(panicked()))
}

fn panicked() -> Error {
    Error::new(
        ErrorKind::StoreCorrupt,
        "expected the store's database to be whole, but found that it stopped on what is in its file",
    )
    .with_source(Panicked)
}

/// Whether this error stands for a panic of sled's.
pub(super) fn is_panic(error: &Error) -> bool {
    std::error::Error::source(error).is_some_and(<dyn std::error::Error>::is::<Panicked>)
}

#[derive(Debug, thiserror::Error)]
#[error("the database panicked")]
struct Panicked;
