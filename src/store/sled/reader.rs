//! What readers see: acknowledged records, from a thread that may block.

use super::db::{Db, Loaded, Visited, earlier, failed, guarded, no_run};
use super::layout::{self, Run, Stored};
use super::{Shared, State};
use crate::error::{Error, ErrorKind, Result};
use crate::proto::model::{Cursor, Key, Seq};
use crate::store::entry::{Tail, expired, generation_ahead, never_existed, seq_ahead};
use crate::store::pages::{Damage, PageBuilder};
use crate::store::{JournalState, Page, PageLimit};
use bytes::Bytes;
use std::ops::Bound;
use std::sync::{Arc, PoisonError};

impl Shared {
    /// Runs a read on a thread that may block; at most as many at a time as there
    /// are permits. The permit goes with the work, not with the caller.
    pub(super) async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self, &Db) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let shared = Arc::clone(self);
        let permit = Arc::clone(&self.readers)
            .acquire_owned()
            .await
            .map_err(|_| closed())?;
        tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let state = shared.db.read().unwrap_or_else(PoisonError::into_inner);
            match &*state {
                State::Open(db) => guarded(|| work(&shared, db)),
                State::Down(error) => Err(error.to_error()),
            }
        })
        .await
        .unwrap_or_else(|error| Err(closed().with_source(error)))
    }

    /// What an append that is not acknowledged yet started from. To be asked
    /// *after* the database was read: the writer notes it before it writes.
    fn unacknowledged(&self, run: Run) -> Option<Tail> {
        let pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        pending.get(&run.id).copied()
    }

    pub(super) fn state_of(&self, db: &Db, key: &Key) -> Result<JournalState> {
        let bytes = db.keys.get(key.as_str()).map_err(failed)?;
        let bytes = bytes.ok_or_else(|| missing(db, key))?;
        let loaded = db.settle(&bytes, |run| self.unacknowledged(run))?;
        Ok(loaded.stored.entry.state(key))
    }

    pub(super) fn list(
        &self,
        db: &Db,
        after: Option<&Key>,
        limit: usize,
    ) -> Result<Vec<JournalState>> {
        let from = after.map_or(Bound::Unbounded, |key| {
            Bound::Excluded(key.as_str().as_bytes())
        });
        let mut states = Vec::new();
        for item in db.keys.range::<&[u8], _>((from, Bound::Unbounded)) {
            if states.len() >= limit {
                break;
            }
            let (key, bytes) = item.map_err(failed)?;
            let key = key_of(&key)?;
            // One damaged entry must not hide the others; whoever asks for it by
            // its key is told.
            match db.settle(&bytes, |run| self.unacknowledged(run)) {
                Ok(loaded) => states.push(loaded.stored.entry.state(&key)),
                Err(error) if error.kind() == ErrorKind::StoreCorrupt => {
                    tracing::warn!(%error, "a journal of the store is damaged and not listed");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(states)
    }

    pub(super) fn page(&self, db: &Db, key: &Key, after: Cursor, limit: PageLimit) -> Result<Page> {
        loop {
            let bytes = db.keys.get(key.as_str()).map_err(failed)?;
            let Some(bytes) = bytes else {
                return Err(missing(db, key));
            };
            let stored: Stored = layout::unpack(&bytes)?;
            match self.page_of(db, key, stored, after, limit) {
                Ok(page) => return Ok(page),
                Err(error) => {
                    // Between the two reads the journal may have been removed, or
                    // claimed anew: then the error is about what is no more.
                    if db.keys.get(key.as_str()).map_err(failed)? == Some(bytes) {
                        return Err(error);
                    }
                }
            }
        }
    }

    fn page_of(
        &self,
        db: &Db,
        key: &Key,
        stored: Stored,
        after: Cursor,
        limit: PageLimit,
    ) -> Result<Page> {
        let current = stored.entry.generation;
        if after.generation > current {
            return Err(generation_ahead(current, after.generation));
        }
        let run = stored.run(after.generation).ok_or_else(expired)?;
        let mut page = PageBuilder::new(after.seq, limit);
        let visited = db.visit(run, after.seq.next(), |first, frames| match frames {
            // One buffer for the records of an append, owned by the page alone.
            Some(frames) => page.add(first, Bytes::copy_from_slice(frames)),
            None => page.damaged(None),
        })?;
        let (tail, damaged) = match visited {
            Visited::All(tail) => (tail, false),
            Visited::Some => db.tail(run)?,
        };
        let tail = earlier(tail, self.unacknowledged(run));
        let (head, lost, entry) = if after.generation == current {
            let loaded = Loaded::new(stored, tail, damaged);
            let entry = loaded.stored.entry;
            (entry.tail.head, loaded.damaged, entry)
        } else {
            let latest = stored.current().ok_or_else(no_run)?;
            let (latest_tail, _) = db.tail(latest)?;
            let latest_tail = earlier(latest_tail, self.unacknowledged(latest));
            let entry = Loaded::new(stored, latest_tail, false).stored.entry;
            (tail.map_or(Seq::ZERO, |tail| tail.head), damaged, entry)
        };
        if after.seq > head {
            return Err(seq_ahead(head, after.seq));
        }
        let records = page.finish(head, lost).map_err(Damage::into_error)?;
        Ok(Page {
            records,
            state: entry.state(key),
            head,
        })
    }
}

/// The answer for a key without a journal.
pub(super) fn missing(db: &Db, key: &Key) -> Error {
    match db.gone(key) {
        Ok(Some(gone)) => gone.error(),
        Ok(None) => never_existed(),
        Err(error) => error,
    }
}

pub(super) fn key_of(bytes: &[u8]) -> Result<Key> {
    std::str::from_utf8(bytes)
        .ok()
        .and_then(|text| Key::new(text).ok())
        .ok_or_else(|| {
            Error::new(
                ErrorKind::StoreCorrupt,
                "expected the key of a journal, but found other bytes",
            )
        })
}

pub(super) fn closed() -> Error {
    Error::new(
        ErrorKind::StoreUnavailable,
        "expected the store to be open, but found that it was closed",
    )
}
