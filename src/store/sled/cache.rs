//! The journals the writer worked on lately.

use super::db::{Db, Loaded};
use super::layout::Stored;
use crate::error::{Error, ErrorKind, Result};
use crate::proto::model::Key;
use ::sled::Tree;
use std::collections::HashMap;

/// Journals that are kept in each half. What falls out is read again: everything
/// in here is in the database too.
const HALF: usize = 8192;

/// A bounded map in two halves: what is used moves to the young half, and when
/// that is full the old half is dropped and the young one becomes old.
#[derive(Debug, Default)]
pub(super) struct Cache {
    young: HashMap<Key, Hot>,
    old: HashMap<Key, Hot>,
}

/// A journal, up to date with what was written, flushed or not.
#[derive(Debug)]
pub(super) struct Hot {
    pub(super) stored: Stored,
    /// Where its current run goes.
    pub(super) tree: Option<Tree>,
    damaged: bool,
}

impl Cache {
    /// The journal of this key; read from the database if it is not here.
    pub(super) fn get(&mut self, db: &Db, key: &Key) -> Result<Option<&mut Hot>> {
        if !self.young.contains_key(key) {
            let hot = match self.old.remove(key) {
                Some(hot) => hot,
                None => match db.load(key)? {
                    Some(loaded) => Hot::loaded(db, loaded),
                    None => return Ok(None),
                },
            };
            self.put(key.clone(), hot);
        }
        Ok(self.young.get_mut(key))
    }

    pub(super) fn put(&mut self, key: Key, hot: Hot) {
        if self.young.len() >= HALF {
            self.old = std::mem::take(&mut self.young);
        }
        self.old.remove(&key);
        self.young.insert(key, hot);
    }

    pub(super) fn remove(&mut self, key: &Key) {
        self.young.remove(key);
        self.old.remove(key);
    }
}

impl Hot {
    pub(super) fn new(db: &Db, stored: Stored) -> Self {
        Self::loaded(
            db,
            Loaded {
                stored,
                damaged: false,
            },
        )
    }

    fn loaded(db: &Db, loaded: Loaded) -> Self {
        let tree = loaded
            .stored
            .current()
            .and_then(|run| db.records(run.bucket));
        Self {
            stored: loaded.stored,
            tree,
            damaged: loaded.damaged,
        }
    }

    /// A journal whose last records are damaged is not written on: their numbers
    /// were given out, and must not come to name something else.
    pub(super) fn check_whole(&self) -> Result<()> {
        if self.damaged {
            return Err(Error::new(
                ErrorKind::StoreCorrupt,
                format!(
                    "expected record {}, but found damaged bytes: the journal can be read up to there, and regenerated",
                    self.stored.entry.tail.head.next()
                ),
            ));
        }
        Ok(())
    }
}
