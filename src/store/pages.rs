//! From packed values to the page a reader gets. Shared by every backend.

use super::PageLimit;
use crate::error::{Error, ErrorKind};
use crate::proto::journal::{CodecError, Record, decode};
use crate::proto::model::Seq;
use bytes::Bytes;

/// Gathers the records after a cursor, up to a limit.
#[derive(Debug)]
pub(super) struct PageBuilder {
    records: Vec<Record>,
    bytes: usize,
    limit: PageLimit,
    after: Seq,
    next: Seq,
    damage: Option<Damage>,
}

/// Where a journal cannot be read on.
#[derive(Clone, Debug)]
pub(super) struct Damage {
    /// The record that should be there.
    pub(super) seq: Seq,
    /// What the codec says, if the bytes are there.
    pub(super) source: Option<CodecError>,
}

impl PageBuilder {
    pub(super) const fn new(after: Seq, limit: PageLimit) -> Self {
        Self {
            records: Vec::new(),
            bytes: 0,
            limit,
            after,
            next: after.next(),
            damage: None,
        }
    }

    /// Takes the records of one value, whose first is `first`; `false` when the
    /// page has ended: it is full, or what is there cannot be read.
    pub(super) fn add(&mut self, first: Seq, frames: Bytes) -> bool {
        let mut expected = first;
        if expected > self.next {
            return self.damaged(None);
        }
        let mut decoder = decode(frames);
        let mut begun = 0;
        while let Some(item) = decoder.next() {
            let record = match item {
                Ok(record) if record.seq == expected => record,
                Ok(_) => return self.damaged(None),
                Err(error) => return self.damaged(Some(error)),
            };
            expected = expected.next();
            let end = decoder.offset();
            if record.seq > self.after {
                self.next = expected;
                self.records.push(record);
                let size = end.saturating_sub(begun);
                self.bytes = self
                    .bytes
                    .saturating_add(usize::try_from(size).unwrap_or(usize::MAX));
                if self.is_full() {
                    return false;
                }
            }
            begun = end;
        }
        true
    }

    pub(super) fn is_full(&self) -> bool {
        !self.records.is_empty()
            && (self.records.len() >= self.limit.records || self.bytes >= self.limit.bytes)
    }

    /// Notes that the next record is not there, or not whole.
    pub(super) fn damaged(&mut self, source: Option<CodecError>) -> bool {
        self.damage = Some(Damage {
            seq: self.next,
            source,
        });
        false
    }

    /// The records up to `head`. What stands behind it is not acknowledged yet.
    /// `lost` says that there were records behind it which cannot be read.
    ///
    /// # Errors
    ///
    /// The damage, if it comes before any record. Otherwise the page just ends
    /// there, and the next one begins with it.
    pub(super) fn finish(self, head: Seq, lost: bool) -> Result<Vec<Record>, Damage> {
        let mut records = self.records;
        records.truncate(
            usize::try_from(head.get().saturating_sub(self.after.get())).unwrap_or(usize::MAX),
        );
        if records.is_empty() && (self.after < head || lost) {
            return Err(self.damage.unwrap_or(Damage {
                seq: self.next,
                source: None,
            }));
        }
        Ok(records)
    }
}

impl Damage {
    pub(super) fn into_error(self) -> Error {
        let error = Error::new(
            ErrorKind::StoreCorrupt,
            format!(
                "expected record {}, but found damaged bytes or none",
                self.seq
            ),
        );
        match self.source {
            Some(source) => error.with_source(source),
            None => error,
        }
    }
}
