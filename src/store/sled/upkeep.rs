//! What the writer does between groups: buckets come and go, and a database that
//! failed is opened again.

use super::cache::Cache;
use super::db::{Db, guarded};
use super::numbers::Numbers;
use super::writer::Writer;
use super::{Failure, State};
use crate::error::Result;
use crate::proto::model::WallTime;
use crate::store::Claim;
use std::collections::HashSet;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// Buckets at most: each is an open database with a thread of its own.
const MAX_BUCKETS: usize = 64;
/// A claim's keeping is cut into this many spans, unless the settings say.
const SPANS: u32 = 16;
/// The shortest of them.
const MIN_SPAN: Duration = Duration::from_secs(60);
/// How long a database that failed is left alone before it is opened again.
const REOPEN_AFTER: Duration = Duration::from_millis(250);

/// The bucket that new runs go into.

#[derive(Clone, Copy, Debug)]
pub(super) struct CurrentBucket {
    pub(super) serial: u64,
    since: WallTime,
    pub(super) bytes: u64,
}

impl Writer {
    /// Where a new run goes: into the newest bucket, or into a new one when that is
    /// old or large.
    pub(super) fn bucket_for(&mut self, db: &Db, claim: &Claim) -> Result<u64> {
        if self.current.is_none() {
            self.current = db.newest()?.map(|(serial, since, bytes)| CurrentBucket {
                serial,
                since,
                bytes,
            });
        }
        let span = self
            .settings
            .bucket_span
            .unwrap_or_else(|| (claim.keep_for / SPANS).max(MIN_SPAN));
        let serial = match self.current {
            Some(current)
                if db.serials().len() >= MAX_BUCKETS
                    || (current.bytes < self.settings.bucket_bytes
                        && current.since <= claim.now
                        && claim.now < current.since.after(span)) =>
            {
                current.serial
            }
            _ => {
                let serial = self.numbers.take_bucket(db)?;
                db.add_bucket(serial, claim.now)?;
                self.cool_down = true;
                self.current = Some(CurrentBucket {
                    serial,
                    since: claim.now,
                    bytes: 0,
                });
                serial
            }
        };
        self.touched.insert(serial);
        Ok(serial)
    }

    /// Drops the buckets that no journal refers to.
    pub(super) fn drop_buckets(&mut self, keep: &HashSet<u64>) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        // Readers are kept away: sled does not say what one meets whose database is
        // closed, and a folder is not removed under it. So are the handles here.
        let state = shared.db.write().unwrap_or_else(PoisonError::into_inner);
        let State::Open(db) = &*state else {
            return Ok(());
        };
        let mut unused = db.serials();
        unused.retain(|serial| !keep.contains(serial) && !self.touched.contains(serial));
        if unused.is_empty() {
            return Ok(());
        }
        self.cache = Cache::default();
        guarded(|| {
            for serial in unused {
                if self.current.is_some_and(|current| current.serial == serial) {
                    self.current = None;
                }
                db.drop_bucket(serial)?;
            }
            Ok(())
        })
    }

    /// Gives the large cache of a bucket back that is not written to much any more.
    pub(super) fn cool_down(&mut self) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let state = shared.db.write().unwrap_or_else(PoisonError::into_inner);
        let State::Open(db) = &*state else {
            return Ok(());
        };
        self.cache = Cache::default();
        guarded(|| db.cool_down())
    }

    /// sled stays failed once it has failed: it is closed, and opened again when
    /// the next request comes. What was acknowledged is on disk.
    pub(super) fn fail(&mut self, failure: &Failure) {
        tracing::warn!(error = %failure.to_error(), "the journal store failed and is closed");
        self.cache = Cache::default();
        self.current = None;
        self.failed_at = Some(Instant::now());
        let shared = Arc::clone(&self.shared);
        let mut state = shared.db.write().unwrap_or_else(PoisonError::into_inner);
        let last = std::mem::replace(&mut *state, State::Down(failure.clone()));
        if failure.panicked {
            // After a panic its threads and locks may be in any state, and closing
            // it could wait for ever. It stays as it is until the process ends.
            std::mem::forget(last);
        } else {
            close(last);
        }
    }

    pub(super) fn reopen_if_down(&mut self) {
        let shared = Arc::clone(&self.shared);
        let state = shared.db.read().unwrap_or_else(PoisonError::into_inner);
        let wait = match &*state {
            State::Open(_) => return,
            State::Down(failure) => {
                failure.panicked || self.failed_at.is_some_and(|at| at.elapsed() < REOPEN_AFTER)
            }
        };
        drop(state);
        if wait {
            return;
        }
        let opened = self
            .settings
            .open_db(&mut Vec::new())
            .and_then(|db| Ok((guarded(|| Numbers::read(&db))?, db)));
        let mut state = shared.db.write().unwrap_or_else(PoisonError::into_inner);
        match opened {
            Ok((numbers, db)) => {
                self.numbers = numbers;
                let mut pending = shared
                    .pending
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                pending.clear();
                *state = State::Open(db);
                tracing::info!("the journal store is open again");
            }
            Err(error) => {
                self.failed_at = Some(Instant::now());
                *state = State::Down(Failure::of(&error));
            }
        }
    }
}

pub(super) fn close(state: State) {
    // Closing flushes, and can meet the same damage as any other call.
    if let Err(error) = guarded(|| {
        drop(state);
        Ok(())
    }) {
        tracing::warn!(%error, "the journal store did not close cleanly");
    }
}
