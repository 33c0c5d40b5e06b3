//! Removing journals past their time, and giving their space back.

use super::command::Command;
use super::db::{Db, failed};
use super::layout;
use super::reader::key_of;
use super::{Shared, SledStore};
use crate::error::{ErrorKind, Result};
use crate::proto::model::{Key, WallTime};
use crate::store::Collected;
use crate::store::entry::Gone;
use ::sled::Tree;
use std::collections::HashSet;
use std::ops::Bound;

/// Entries that are looked at in one go, between which others get their turn.
const CHUNK: usize = 1024;

/// What was seen of a chunk of the tree `keys`.
#[derive(Default)]
struct Survey {
    /// Past their time and held by nobody, with the buckets they are in.
    over: Vec<(Key, Vec<u64>)>,
    held: u64,
    /// Buckets that other journals are in.
    in_use: HashSet<u64>,
    /// An entry could not be read, so nobody knows which buckets it is in.
    unknown: bool,
    last: Option<Vec<u8>>,
}

impl SledStore {
    /// Looks at all journals in chunks beside the writer, has it remove those that
    /// are over, and then drop the buckets that nothing refers to any more. One
    /// collection at a time.
    pub(super) async fn collect_now(&self, now: WallTime) -> Result<Collected> {
        let _alone = self.collecting.lock().await;
        self.ask(|reply| Command::BeginCollection { reply }).await?;
        let mut collected = Collected::default();
        let mut in_use = HashSet::new();
        let mut unknown = false;
        let mut after = None;
        loop {
            let survey = self
                .shared
                .blocking(move |_: &Shared, db| survey(db, after.as_deref(), now))
                .await?;
            collected.held += survey.held;
            in_use.extend(survey.in_use);
            unknown |= survey.unknown;
            let (keys, buckets): (Vec<_>, Vec<_>) = survey.over.into_iter().unzip();
            if !keys.is_empty() {
                let removed = self
                    .ask(|reply| Command::Expire { keys, now, reply })
                    .await?;
                for (removed, buckets) in removed.into_iter().zip(buckets) {
                    if removed {
                        collected.journals += 1;
                    } else {
                        in_use.extend(buckets);
                    }
                }
            }
            after = survey.last;
            if after.is_none() {
                break;
            }
        }
        self.forget_old(now).await?;
        if !unknown {
            self.ask(|reply| Command::DropBuckets {
                keep: in_use,
                reply,
            })
            .await?;
        }
        Ok(collected)
    }

    /// Forgets removed journals that were remembered for long enough.
    async fn forget_old(&self, now: WallTime) -> Result<()> {
        let mut after = None;
        loop {
            let (keys, last) = self
                .shared
                .blocking(move |_: &Shared, db| old(db, after.as_deref(), now))
                .await?;
            if !keys.is_empty() {
                self.ask(|reply| Command::Forget { keys, now, reply })
                    .await?;
            }
            after = last;
            if after.is_none() {
                return Ok(());
            }
        }
    }
}

fn survey(db: &Db, after: Option<&[u8]>, now: WallTime) -> Result<Survey> {
    let mut seen = Survey::default();
    seen.last = visit(&db.keys, after, |key, bytes| {
        let stored: layout::Stored = match layout::unpack(bytes) {
            Ok(stored) => stored,
            Err(error) if error.kind() == ErrorKind::StoreCorrupt => {
                tracing::warn!(%error, "a journal of the store is damaged and not collected");
                seen.unknown = true;
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let buckets = stored.runs.iter().map(|run| run.bucket);
        // What stands in the entry is never later than the truth, so the records
        // need not be asked while even that is not past.
        if !stored.entry.is_due(now) {
            seen.in_use.extend(buckets);
            return Ok(());
        }
        let buckets: Vec<u64> = buckets.collect();
        let entry = db.settle(bytes, |_| None)?.stored.entry;
        if entry.is_over(now) {
            seen.over.push((key, buckets));
        } else {
            seen.held += u64::from(entry.is_due(now));
            seen.in_use.extend(buckets);
        }
        Ok(())
    })?;
    Ok(seen)
}

fn old(db: &Db, after: Option<&[u8]>, now: WallTime) -> Result<(Vec<Key>, Option<Vec<u8>>)> {
    let mut keys = Vec::new();
    let last = visit(&db.gone, after, |key, bytes| {
        let gone: Gone = layout::unpack(bytes)?;
        if gone.until <= now {
            keys.push(key);
        }
        Ok(())
    })?;
    Ok((keys, last))
}

/// Visits a chunk of a tree; gives the last key, if there may be more after it.
fn visit(
    tree: &Tree,
    after: Option<&[u8]>,
    mut visitor: impl FnMut(Key, &[u8]) -> Result<()>,
) -> Result<Option<Vec<u8>>> {
    let from = after.map_or(Bound::Unbounded, Bound::Excluded);
    let mut seen = 0;
    for item in tree.range::<&[u8], _>((from, Bound::Unbounded)) {
        let (key, bytes) = item.map_err(failed)?;
        visitor(key_of(&key)?, &bytes)?;
        seen += 1;
        if seen == CHUNK {
            return Ok(Some(key.to_vec()));
        }
    }
    Ok(None)
}
