//! Numbers that are given out once and never again.

use super::db::{Db, failed};
use crate::error::{Error, ErrorKind, Result};

/// How many run numbers are reserved at a time.
const RUN_BLOCK: u64 = 4096;
const NEXT_RUN: &str = "next_run";
const LAST_BUCKET: &str = "last_bucket";

/// Of runs and buckets.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Numbers {
    next_run: u64,
    /// Up to which they are noted on disk as used.
    reserved: u64,
    /// The largest number that a bucket was given.
    last_bucket: u64,
}

impl Numbers {
    pub(super) fn read(db: &Db) -> Result<Self> {
        let number = |key: &str| match db.sled.get(key).map_err(failed)? {
            None => Ok(None),
            Some(bytes) => (*bytes)
                .try_into()
                .map(|bytes| Some(u64::from_be_bytes(bytes)))
                .map_err(|_| {
                    Error::new(
                        ErrorKind::StoreCorrupt,
                        "expected a number that was noted, but found other bytes",
                    )
                }),
        };
        let next_run = number(NEXT_RUN)?.unwrap_or(1);
        let newest = db.serials().last().copied().unwrap_or(0);
        Ok(Self {
            next_run,
            reserved: next_run,
            last_bucket: number(LAST_BUCKET)?.unwrap_or(0).max(newest),
        })
    }

    /// A number that no run has had. Numbers are reserved in the database before
    /// they are used, and flushed no later than what uses them; those left over at
    /// a restart are skipped.
    pub(super) fn take_run(&mut self, db: &Db) -> Result<u64> {
        if self.next_run >= self.reserved {
            let reserved = self.next_run.saturating_add(RUN_BLOCK);
            db.sled
                .insert(NEXT_RUN, &reserved.to_be_bytes())
                .map_err(failed)?;
            self.reserved = reserved;
        }
        let number = self.next_run;
        self.next_run = number.saturating_add(1);
        Ok(number)
    }

    /// A number that no bucket has had. It is on disk before it is used: when a
    /// bucket is damaged and put aside, no other may come to have its number.
    pub(super) fn take_bucket(&mut self, db: &Db) -> Result<u64> {
        let number = self.last_bucket.saturating_add(1);
        db.sled
            .insert(LAST_BUCKET, &number.to_be_bytes())
            .map_err(failed)?;
        db.sled.flush().map_err(failed)?;
        self.last_bucket = number;
        Ok(number)
    }
}
