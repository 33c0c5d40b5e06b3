//! Journals in the memory of the process.

use super::entry::{Decision, Entry, Footing, Gone, Known, Tail};
use super::entry::{
    decide, expired, first_of, generation_ahead, never_existed, removed, seq_ahead,
};
use super::pages::PageBuilder;
use super::{
    Batch, Claim, Claimed, Collected, Durability, HeadWatch, Heads, JournalState, Lease, Page,
    PageLimit, Store,
};
use crate::error::{Error, ErrorKind, Result};
use crate::proto::journal::encode;
use crate::proto::model::{Cursor, Generation, Key, Seq, WallTime};
use bytes::{Bytes, BytesMut};
use futures_core::future::BoxFuture;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A store that is gone with its process: for tests, and for callers that want
/// reconnects without a disk.
///
/// Keeps what it is given as encoded bytes, one buffer for each append, so that a
/// small event does not keep the chunk alive that it came in. Bounded: see
/// [`MemoryStore::with_max_bytes`].
pub struct MemoryStore {
    vault: Mutex<Vault>,
    heads: Heads,
    max_bytes: u64,
}

#[derive(Default)]
struct Vault {
    live: BTreeMap<Key, Journal>,
    gone: BTreeMap<Key, Gone>,
    /// What all of it is taken to cost.
    bytes: u64,
}

struct Journal {
    entry: Entry,
    /// By generation, ascending; the last is the current one. Never empty.
    runs: Vec<Run>,
}

struct Run {
    generation: Generation,
    /// Of an older generation as it was left; of the current one it stands in
    /// the entry.
    tail: Tail,
    values: Vec<Value>,
}

#[derive(Clone)]
struct Value {
    first: Seq,
    frames: Bytes,
}

/// What a generation, a remembered journal, and an append are taken to cost beside
/// the bytes of the records: their structs and places in the maps, rounded up.
const RUN_COST: u64 = 512;
const GONE_COST: u64 = 384;
const APPEND_COST: u64 = 64;

impl fmt::Debug for MemoryStore {
    /// How much it holds; what it holds are prompts and answers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let vault = self.vault.lock().unwrap_or_else(PoisonError::into_inner);
        f.debug_struct("MemoryStore")
            .field("journals", &vault.live.len())
            .field("bytes", &vault.bytes)
            .field("max_bytes", &self.max_bytes)
            .finish_non_exhaustive()
    }
}

impl MemoryStore {
    /// 256 MiB: a thousand answers of 250 KiB, and still a small part of a
    /// server's memory.
    pub const DEFAULT_MAX_BYTES: u64 = 256 << 20;

    /// With [`DEFAULT_MAX_BYTES`](Self::DEFAULT_MAX_BYTES).
    pub fn new() -> Self {
        Self::with_max_bytes(Self::DEFAULT_MAX_BYTES)
    }

    /// Takes at most about this many bytes, the encoded records and a fixed
    /// charge for each journal and append. When that is reached it drops what has
    /// expired, and refuses ([`StoreFull`](ErrorKind::StoreFull)) if it was not
    /// enough; what it holds stays as it is.
    pub fn with_max_bytes(max_bytes: u64) -> Self {
        Self {
            vault: Mutex::default(),
            heads: Heads::new(),
            max_bytes,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vault> {
        // Every change under the lock is made in one go after all checks.
        self.vault.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops what has expired, if there is no room for `cost` more.
    fn make_room(&self, vault: &mut Vault, cost: u64, now: WallTime) {
        if vault.bytes.saturating_add(cost) > self.max_bytes {
            self.sweep(vault, now);
        }
    }

    fn check_room(&self, vault: &Vault, cost: u64) -> Result<()> {
        if vault.bytes.saturating_add(cost) <= self.max_bytes {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::StoreFull,
            format!(
                "expected at most {} bytes in the memory store, but found {} and {cost} more to take",
                self.max_bytes, vault.bytes
            ),
        ))
    }

    fn sweep(&self, vault: &mut Vault, now: WallTime) -> Collected {
        let mut collected = Collected::default();
        let mut over = Vec::new();
        for (key, journal) in &vault.live {
            if journal.entry.is_over(now) {
                over.push((key.clone(), journal.entry.expired(now)));
            } else if journal.entry.is_due(now) {
                collected.held += 1;
            }
        }
        for (key, gone) in over {
            collected.journals += 1;
            vault.remove(&key, gone);
            self.heads.wake(&key);
        }
        let before = vault.gone.len();
        vault.gone.retain(|_, gone| now < gone.until);
        let forgotten = before.saturating_sub(vault.gone.len()) as u64;
        vault.bytes = vault
            .bytes
            .saturating_sub(forgotten.saturating_mul(GONE_COST));
        collected
    }

    fn claim_now(&self, claim: &Claim) -> Result<Claimed> {
        let mut vault = self.lock();
        // Before the decision: what has expired may be this very key.
        self.make_room(&mut vault, RUN_COST, claim.now);
        let (footing, entry) = match decide(vault.known(&claim.key), claim)? {
            Decision::Existing => {
                return Ok(Claimed::Existing(
                    vault.journal(&claim.key)?.state(&claim.key),
                ));
            }
            Decision::Grant(footing, entry) => (footing, entry),
        };
        if footing != Footing::Same {
            self.check_room(&vault, RUN_COST)?;
            if footing == Footing::Anew {
                vault.forget(&claim.key);
            }
            vault.bytes = vault.bytes.saturating_add(RUN_COST);
        }
        let granted = Claimed::Granted(entry.lease(&claim.key), entry.state(&claim.key));
        let run = Run {
            generation: entry.generation,
            tail: entry.tail,
            values: Vec::new(),
        };
        if let Some(journal) = vault.live.get_mut(&claim.key) {
            if footing == Footing::Next {
                if let Some(older) = journal.runs.last_mut() {
                    older.tail = journal.entry.tail;
                }
                journal.runs.push(run);
            }
            journal.entry = entry;
        } else {
            let journal = Journal {
                entry,
                runs: vec![run],
            };
            vault.live.insert(claim.key.clone(), journal);
        }
        drop(vault);
        self.heads.wake(&claim.key);
        Ok(granted)
    }

    fn append_now(&self, lease: &Lease, batch: &Batch) -> Result<Seq> {
        let first = first_of(batch)?;
        let mut frames = BytesMut::new();
        encode(&batch.records, &mut frames).map_err(too_large)?;
        let frames = exact(frames);
        let size = frames.len() as u64;

        let mut vault = self.lock();
        let cost = size.saturating_add(APPEND_COST);
        self.make_room(&mut vault, cost, batch.now);
        let journal = vault.live.get(&lease.key).ok_or_else(removed)?;
        journal.entry.check_append(lease, first)?;
        self.check_room(&vault, cost)?;
        let journal = vault.live.get_mut(&lease.key).ok_or_else(removed)?;
        let run = journal.runs.last_mut().ok_or_else(removed)?;
        run.values.push(Value { first, frames });
        let count = batch.records.len() as u64;
        let tail = journal
            .entry
            .tail
            .after(count, size, batch.status, batch.now);
        journal.entry.advance(tail);
        vault.bytes = vault.bytes.saturating_add(cost);
        drop(vault);
        self.heads.wake(&lease.key);
        Ok(tail.head)
    }

    fn read_now(&self, key: &Key, after: Cursor, limit: PageLimit) -> Result<Page> {
        let vault = self.lock();
        let journal = vault.journal(key)?;
        let state = journal.state(key);
        let (run, head) = journal.run(after.generation)?;
        if after.seq > head {
            return Err(seq_ahead(head, after.seq));
        }
        // The value that holds the next record, and as many as can be wanted: a
        // handle each, so that decoding needs no lock.
        let start = run
            .values
            .partition_point(|value| value.first <= after.seq.next())
            .saturating_sub(1);
        let mut bytes = 0_usize;
        let values: Vec<Value> = run
            .values
            .iter()
            .skip(start)
            .take(limit.records.saturating_add(1))
            .take_while(|value| {
                // One value more than the limit: the first may lie before the cursor.
                let wanted = bytes <= limit.bytes.saturating_mul(2);
                bytes = bytes.saturating_add(value.frames.len());
                wanted
            })
            .cloned()
            .collect();
        drop(vault);
        let mut page = PageBuilder::new(after.seq, limit);
        for value in values {
            if !page.add(value.first, value.frames) {
                break;
            }
        }
        let records = page
            .finish(head, false)
            .map_err(super::pages::Damage::into_error)?;
        Ok(Page {
            records,
            state,
            head,
        })
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl Vault {
    fn known(&self, key: &Key) -> Known<'_> {
        if let Some(journal) = self.live.get(key) {
            Known::Live(&journal.entry)
        } else if let Some(gone) = self.gone.get(key) {
            Known::Gone(gone)
        } else {
            Known::Nothing
        }
    }

    fn journal(&self, key: &Key) -> Result<&Journal> {
        self.live
            .get(key)
            .ok_or_else(|| self.gone.get(key).map_or_else(never_existed, Gone::error))
    }

    fn journal_mut(&mut self, lease: &Lease) -> Result<&mut Journal> {
        self.live.get_mut(&lease.key).ok_or_else(removed)
    }

    /// Takes a journal away and remembers that it was there.
    fn remove(&mut self, key: &Key, gone: Gone) {
        self.forget(key);
        self.bytes = self.bytes.saturating_add(GONE_COST);
        self.gone.insert(key.clone(), gone);
    }

    /// Takes away all that is known of a key.
    fn forget(&mut self, key: &Key) {
        if let Some(journal) = self.live.remove(key) {
            let appends: u64 = journal.runs.iter().map(|run| run.values.len() as u64).sum();
            let runs = journal.runs.len() as u64;
            let cost = journal
                .state(key)
                .bytes
                .saturating_add(appends.saturating_mul(APPEND_COST))
                .saturating_add(runs.saturating_mul(RUN_COST));
            self.bytes = self.bytes.saturating_sub(cost);
        }
        if self.gone.remove(key).is_some() {
            self.bytes = self.bytes.saturating_sub(GONE_COST);
        }
    }
}

impl Journal {
    fn state(&self, key: &Key) -> JournalState {
        self.entry.state(key)
    }

    /// A generation, and its last record.
    fn run(&self, generation: Generation) -> Result<(&Run, Seq)> {
        let current = self.entry.generation;
        if generation > current {
            return Err(generation_ahead(current, generation));
        }
        let run = self
            .runs
            .iter()
            .find(|run| run.generation == generation)
            .ok_or_else(expired)?;
        let head = if generation == current {
            self.entry.tail.head
        } else {
            run.tail.head
        };
        Ok((run, head))
    }
}

impl Store for MemoryStore {
    fn claim(&self, claim: Claim) -> BoxFuture<'_, Result<Claimed>> {
        Box::pin(async move { self.claim_now(&claim) })
    }

    fn renew<'a>(&'a self, lease: &'a Lease, until: WallTime) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move { self.lock().journal_mut(lease)?.entry.renew(lease, until) })
    }

    fn release<'a>(&'a self, lease: &'a Lease) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            self.lock().journal_mut(lease)?.entry.release(lease)?;
            Ok(())
        })
    }

    fn append<'a>(&'a self, lease: &'a Lease, batch: Batch) -> BoxFuture<'a, Result<Seq>> {
        Box::pin(async move { self.append_now(lease, &batch) })
    }

    fn read<'a>(
        &'a self,
        key: &'a Key,
        after: Cursor,
        limit: PageLimit,
    ) -> BoxFuture<'a, Result<Page>> {
        Box::pin(async move { self.read_now(key, after, limit) })
    }

    fn state<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<JournalState>> {
        Box::pin(async move { Ok(self.lock().journal(key)?.state(key)) })
    }

    fn list<'a>(
        &'a self,
        after: Option<&'a Key>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<JournalState>>> {
        Box::pin(async move {
            let from = after.map_or(Bound::Unbounded, Bound::Excluded);
            Ok(self
                .lock()
                .live
                .range::<Key, _>((from, Bound::Unbounded))
                .take(limit)
                .map(|(key, journal)| journal.state(key))
                .collect())
        })
    }

    fn collect(&self, now: WallTime) -> BoxFuture<'_, Result<Collected>> {
        Box::pin(async move { Ok(self.sweep(&mut self.lock(), now)) })
    }

    fn delete<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async move {
            let mut vault = self.lock();
            let Some(gone) = vault.live.get(key).map(|journal| journal.entry.deleted()) else {
                return Ok(false);
            };
            vault.remove(key, gone);
            drop(vault);
            self.heads.wake(key);
            Ok(true)
        })
    }

    fn watch(&self, key: &Key) -> HeadWatch {
        self.heads.watch(key)
    }

    fn durability(&self) -> Durability {
        Durability::Volatile
    }
}

/// A buffer of exactly this size: what was reserved for growth would be kept for
/// as long as the journal is.
fn exact(frames: BytesMut) -> Bytes {
    if frames.capacity() == frames.len() {
        frames.freeze()
    } else {
        Bytes::copy_from_slice(&frames)
    }
}

/// The answer to a record that no frame can hold.
pub(super) fn too_large(error: crate::proto::journal::CodecError) -> Error {
    Error::new(
        ErrorKind::JournalFull,
        "expected records that fit a frame, but found one that does not",
    )
    .with_source(error)
}

#[cfg(test)]
mod tests;
