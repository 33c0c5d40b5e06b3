//! Comfort on top of the trait.

use super::{Page, PageLimit, Store};
use crate::error::Result;
use crate::proto::journal::Record;
use crate::proto::model::{Cursor, Key, Seq};

/// What can be done with any store. Implemented for all of them; not meant to be
/// implemented.
pub trait StoreExt: Store {
    /// Every record after a cursor, up to where the journal stands when the last
    /// page is read. Takes as much memory as the answer is long.
    ///
    /// # Errors
    ///
    /// Those of [`Store::read`].
    ///
    /// # Cancel safety
    ///
    /// Reads only.
    fn read_all(
        &self,
        key: &Key,
        after: Cursor,
    ) -> impl Future<Output = Result<Vec<Record>>> + Send {
        async move {
            let mut records: Vec<Record> = Vec::new();
            let mut cursor = after;
            loop {
                let page = self.read(key, cursor, PageLimit::default()).await?;
                let Some(last) = page.records.last().map(|record| record.seq) else {
                    return Ok(records);
                };
                cursor.seq = last;
                records.extend(page.records);
                if last >= page.head {
                    return Ok(records);
                }
            }
        }
    }
}

impl<S: Store + ?Sized> StoreExt for S {}

impl Page {
    /// Where to read on.
    pub fn last(&self) -> Option<Seq> {
        self.records.last().map(|record| record.seq)
    }

    /// Whether the journal held more when this page was read.
    pub fn has_more(&self) -> bool {
        self.last().is_some_and(|last| last < self.head)
    }
}
