//! The one thread that writes.
//!
//! It takes everything that waits, applies it in order, flushes once, and only
//! then answers: what arrives while a flush is running goes into the next one, so
//! groups size themselves. Being alone, it checks a lease and writes the records
//! without anything in between, and of racing claims the first one wins.

use super::cache::{Cache, Hot};
use super::command::{Append, Command, Reply};
use super::db::{Db, failed, guarded, is_panic, no_bucket, no_run};
use super::layout::{self, Run, Stored};
use super::numbers::Numbers;
use super::reader::missing;
use super::upkeep::{CurrentBucket, close};
use super::{Failure, Shared, SledStoreBuilder, State};
use crate::error::{Error, ErrorKind, Result};
use crate::proto::model::{Key, Seq, WallTime};
use crate::store::entry::{Decision, Footing, Gone, Known, decide, removed};
use crate::store::{Claim, Claimed, Lease};
use std::collections::{BTreeSet, HashSet};
use std::fs::File;
use std::sync::{Arc, PoisonError};
use std::time::Instant;
use tokio::sync::mpsc;

/// Requests that one flush acknowledges at most, so that none waits behind an
/// endless group.
const MAX_GROUP: usize = 4096;
/// Encoded bytes after which a group is closed.
const MAX_GROUP_BYTES: usize = 8 << 20;
/// What the thread works with.
pub(super) struct Writer {
    pub(super) shared: Arc<Shared>,
    pub(super) settings: SledStoreBuilder,
    commands: mpsc::Receiver<Command>,
    pub(super) cache: Cache,
    pub(super) numbers: Numbers,
    pub(super) current: Option<CurrentBucket>,
    /// A bucket was made: an older one may need its large cache no more.
    pub(super) cool_down: bool,
    /// Buckets that new runs were put into since the collection began.
    pub(super) touched: HashSet<u64>,
    pub(super) failed_at: Option<Instant>,
    /// Held for as long as the store is open.
    _lock: File,
}

/// What a group has done so far.
#[derive(Default)]
struct Group {
    replies: Vec<Reply>,
    wake: Vec<Key>,
    failure: Option<Failure>,
    /// The journals' database was written to.
    wrote: bool,
    /// Buckets that were written to.
    dirty: BTreeSet<u64>,
}

impl Writer {
    pub(super) fn new(
        shared: Arc<Shared>,
        settings: SledStoreBuilder,
        commands: mpsc::Receiver<Command>,
        lock: File,
    ) -> Result<Self> {
        let mut writer = Self {
            shared,
            settings,
            commands,
            cache: Cache::default(),
            numbers: Numbers::default(),
            current: None,
            cool_down: false,
            touched: HashSet::new(),
            failed_at: None,
            _lock: lock,
        };
        let shared = Arc::clone(&writer.shared);
        if let State::Open(db) = &*shared.db.read().unwrap_or_else(PoisonError::into_inner) {
            writer.numbers = guarded(|| Numbers::read(db))?;
        }
        Ok(writer)
    }

    /// Until every handle of the store is gone and all they asked for is done.
    pub(super) fn run(mut self) {
        while let Some(first) = self.commands.blocking_recv() {
            let mut bytes = first.bytes();
            let mut commands = vec![first];
            while commands.len() < MAX_GROUP && bytes < MAX_GROUP_BYTES {
                let Ok(next) = self.commands.try_recv() else {
                    break;
                };
                bytes = bytes.saturating_add(next.bytes());
                commands.push(next);
            }
            self.commit(commands);
        }
        let shared = Arc::clone(&self.shared);
        let mut state = shared.db.write().unwrap_or_else(PoisonError::into_inner);
        let last = std::mem::replace(&mut *state, State::Down(Failure::closed()));
        close(last);
    }

    fn commit(&mut self, commands: Vec<Command>) {
        self.reopen_if_down();
        let shared = Arc::clone(&self.shared);
        let mut group = Group::default();
        let mut drops = Vec::new();
        let state = shared.db.read().unwrap_or_else(PoisonError::into_inner);
        match &*state {
            State::Down(failure) => {
                for command in commands {
                    command.refuse(failure);
                }
                return;
            }
            State::Open(db) => {
                let done = guarded(|| {
                    for command in commands {
                        match command {
                            Command::DropBuckets { keep, reply } => drops.push((keep, reply)),
                            command => self.apply(db, command, &mut group),
                        }
                    }
                    if group.failure.is_none() {
                        group.flush(db)?;
                    }
                    Ok(())
                });
                if let Err(error) = done {
                    group.failure = Some(Failure::of(&error));
                }
            }
        }
        drop(state);
        if let Some(failure) = group.failure.take() {
            self.fail(&failure);
            for reply in group.replies {
                reply.fail(&failure);
            }
            for (_, reply) in drops {
                let _ = reply.send(Err(failure.to_error()));
            }
            return;
        }
        let mut pending = shared
            .pending
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        pending.clear();
        drop(pending);
        for reply in group.replies {
            reply.send();
        }
        for key in group.wake {
            shared.heads.wake(&key);
        }
        for (keep, reply) in drops {
            let result = self.drop_buckets(&keep);
            if let Err(error) = &result {
                self.fail(&Failure::of(error));
            }
            let _ = reply.send(result);
        }
        if std::mem::take(&mut self.cool_down)
            && let Err(error) = self.cool_down()
        {
            self.fail(&Failure::of(&error));
        }
    }

    fn apply(&mut self, db: &Db, command: Command, group: &mut Group) {
        if let Some(failure) = &group.failure {
            command.refuse(failure);
            return;
        }
        match command {
            Command::Claim { claim, reply } => {
                let result = self.claim(db, &claim, group);
                self.note(group, &result);
                group.replies.push(Reply::Claim(reply, result));
            }
            Command::Renew {
                lease,
                until,
                reply,
            } => {
                let result = self.change(db, &lease, group, |hot| {
                    hot.stored.entry.renew(&lease, until).map(|()| true)
                });
                self.note(group, &result);
                group.replies.push(Reply::Unit(reply, result));
            }
            Command::Release { lease, reply } => {
                let result = self.change(db, &lease, group, |hot| hot.stored.entry.release(&lease));
                self.note(group, &result);
                group.replies.push(Reply::Unit(reply, result));
            }
            Command::Append(mut append) => {
                let result = self.append(db, &mut append, group);
                self.note(group, &result);
                if result.is_ok() {
                    group.wake.push(append.lease.key);
                }
                group.replies.push(Reply::Append(append.reply, result));
            }
            Command::Delete { key, reply } => {
                let result = self.delete(db, &key, group);
                self.note(group, &result);
                group.wake.push(key);
                group.replies.push(Reply::Delete(reply, result));
            }
            Command::BeginCollection { reply } => {
                self.touched.clear();
                group.replies.push(Reply::Unit(reply, Ok(())));
            }
            Command::Expire { keys, now, reply } => {
                let result = keys
                    .into_iter()
                    .map(|key| self.expire(db, key, now, group))
                    .collect();
                self.note(group, &result);
                group.replies.push(Reply::Expired(reply, result));
            }
            Command::Forget { keys, now, reply } => {
                let result = keys.iter().try_for_each(|key| forget(db, key, now, group));
                self.note(group, &result);
                group.replies.push(Reply::Unit(reply, result));
            }
            // Taken out of the group: it needs the readers to be away.
            Command::DropBuckets { reply, .. } => {
                let _ = reply.send(Ok(()));
            }
        }
    }

    fn claim(&mut self, db: &Db, claim: &Claim, group: &mut Group) -> Result<Claimed> {
        let gone = db.gone(&claim.key)?;
        let hot = self.cache.get(db, &claim.key)?;
        let known = match (&hot, &gone) {
            (Some(hot), _) => Known::Live(&hot.stored.entry),
            (None, Some(gone)) => Known::Gone(gone),
            (None, None) => Known::Nothing,
        };
        let (footing, entry) = match (decide(known, claim)?, &hot) {
            (Decision::Grant(footing, entry), _) => (footing, entry),
            (Decision::Existing, Some(hot)) => {
                return Ok(Claimed::Existing(hot.stored.entry.state(&claim.key)));
            }
            (Decision::Existing, None) => return Err(missing(db, &claim.key)),
        };
        let mut runs = match (footing, hot) {
            (Footing::Same, Some(hot)) => {
                hot.check_whole()?;
                hot.stored.runs.clone()
            }
            (Footing::Next, Some(hot)) => hot.stored.runs.clone(),
            _ => Vec::new(),
        };
        if footing != Footing::Same {
            runs.push(Run {
                generation: entry.generation,
                id: self.numbers.take_run(db)?,
                bucket: self.bucket_for(db, claim)?,
            });
        }
        let stored = Stored { entry, runs };
        write_entry(db, &claim.key, &stored, group)?;
        if gone.is_some() {
            db.gone.remove(claim.key.as_str()).map_err(failed)?;
        }
        group.wake.push(claim.key.clone());
        let granted = Claimed::Granted(
            stored.entry.lease(&claim.key),
            stored.entry.state(&claim.key),
        );
        self.cache.put(claim.key.clone(), Hot::new(db, stored));
        Ok(granted)
    }

    /// Changes an entry and writes it, if the change says that it did.
    fn change(
        &mut self,
        db: &Db,
        lease: &Lease,
        group: &mut Group,
        change: impl FnOnce(&mut Hot) -> Result<bool>,
    ) -> Result<()> {
        let hot = self.cache.get(db, &lease.key)?.ok_or_else(removed)?;
        if change(hot)? {
            write_entry(db, &lease.key, &hot.stored, group)?;
        }
        Ok(())
    }

    fn append(&mut self, db: &Db, append: &mut Append, group: &mut Group) -> Result<Seq> {
        let hot = self.cache.get(db, &append.lease.key)?.ok_or_else(removed)?;
        hot.stored.entry.check_append(&append.lease, append.first)?;
        hot.check_whole()?;
        let run = hot.stored.current().ok_or_else(no_run)?;
        let tree = hot.tree.as_ref().ok_or_else(no_bucket)?;
        let before = hot.stored.entry.tail;
        let bytes = append.value.len().saturating_sub(layout::VALUE_HEADER) as u64;
        let tail = before.after(u64::from(append.count), bytes, append.status, append.now);
        let key = layout::value_key(run.id, append.first);
        layout::seal(&key, &mut append.value, append.count, &tail);
        // Noted before it is written: a reader reads first and asks then.
        let mut pending = self
            .shared
            .pending
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        pending.entry(run.id).or_insert(before);
        drop(pending);
        group.dirty.insert(run.bucket);
        tree.insert(key, &*append.value).map_err(failed)?;
        if let Some(current) = &mut self.current
            && current.serial == run.bucket
        {
            current.bytes = current.bytes.saturating_add(append.value.len() as u64);
        }
        hot.stored.entry.advance(tail);
        Ok(tail.head)
    }

    fn delete(&mut self, db: &Db, key: &Key, group: &mut Group) -> Result<bool> {
        let Some(hot) = self.cache.get(db, key)? else {
            return Ok(false);
        };
        let runs = hot.stored.runs.clone();
        let gone = hot.stored.entry.deleted();
        self.remove(db, key, &gone, group)?;
        for run in runs {
            group.dirty.insert(run.bucket);
            db.remove_run(run)?;
        }
        Ok(true)
    }

    /// Whether the journal was removed.
    fn expire(&mut self, db: &Db, key: Key, now: WallTime, group: &mut Group) -> Result<bool> {
        let Some(hot) = self.cache.get(db, &key)? else {
            return Ok(false);
        };
        if !hot.stored.entry.is_over(now) {
            return Ok(false);
        }
        let gone = hot.stored.entry.expired(now);
        self.remove(db, &key, &gone, group)?;
        group.wake.push(key);
        Ok(true)
    }

    fn remove(&mut self, db: &Db, key: &Key, gone: &Gone, group: &mut Group) -> Result<()> {
        group.wrote = true;
        // In this order: between the two the journal is still there.
        db.gone
            .insert(key.as_str(), layout::pack(gone)?)
            .map_err(failed)?;
        db.keys.remove(key.as_str()).map_err(failed)?;
        self.cache.remove(key);
        Ok(())
    }

    /// An error of the database, as opposed to a refusal by the contract, ends the
    /// group: what it wrote before cannot be relied on either. Damage is of one
    /// journal; but a request that met it may have stopped half way, so what is
    /// remembered is read again.
    fn note<T>(&mut self, group: &mut Group, result: &Result<T>) {
        let Err(error) = result else {
            return;
        };
        match error.kind() {
            ErrorKind::StoreUnavailable | ErrorKind::StoreFull => {
                group.failure = Some(Failure::of(error));
            }
            ErrorKind::StoreCorrupt => self.cache = Cache::default(),
            _ => {}
        }
    }
}

impl Group {
    fn flush(&self, db: &Db) -> Result<()> {
        for serial in &self.dirty {
            db.flush_bucket(*serial)?;
        }
        if self.wrote {
            db.sled.flush().map_err(failed)?;
        }
        Ok(())
    }
}

fn write_entry(db: &Db, key: &Key, stored: &Stored, group: &mut Group) -> Result<()> {
    group.wrote = true;
    db.keys
        .insert(key.as_str(), layout::pack(stored)?)
        .map_err(failed)?;
    Ok(())
}

fn forget(db: &Db, key: &Key, now: WallTime, group: &mut Group) -> Result<()> {
    // It may have been claimed and removed again since it was looked at.
    if db.gone(key)?.is_some_and(|gone| gone.until <= now) {
        group.wrote = true;
        db.gone.remove(key.as_str()).map_err(failed)?;
    }
    Ok(())
}

impl Failure {
    pub(super) fn of(error: &Error) -> Self {
        Self {
            kind: error.kind(),
            message: error.message().to_owned(),
            panicked: is_panic(error),
        }
    }
}
