//! What a store knows of one key beside its records, and what the contract says
//! about it. Plain values: each backend brings the locking and the writing.

use super::{Batch, Claim, Intent, JournalState, Lease};
use crate::error::{Error, ErrorKind, Result};
use crate::proto::journal::Status;
use crate::proto::model::{Fingerprint, Generation, Key, Seq, WallTime};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A journal that is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) fingerprint: Fingerprint,
    /// The current generation.
    pub(super) generation: Generation,
    /// The last one that was given out for the key.
    pub(super) token: u64,
    pub(super) leased_until: Option<WallTime>,
    keep_ms: u64,
    created_at: WallTime,
    /// Of the current generation.
    pub(super) tail: Tail,
    /// Bytes of the generations before the current one.
    earlier_bytes: u64,
}

/// How far one generation has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Tail {
    pub(super) head: Seq,
    pub(super) status: Status,
    pub(super) updated_at: WallTime,
    pub(super) bytes: u64,
}

impl Tail {
    const fn fresh(now: WallTime) -> Self {
        Self {
            head: Seq::ZERO,
            status: Status::Running,
            updated_at: now,
            bytes: 0,
        }
    }

    /// After an append of `count` records that take `bytes`.
    ///
    /// Time does not run backwards here: a writer whose clock is behind the last
    /// one's must not make the journal expire earlier.
    pub(super) fn after(self, count: u64, bytes: u64, status: Status, now: WallTime) -> Self {
        Self {
            head: self.head.plus(count),
            status,
            updated_at: self.updated_at.max(now),
            bytes: self.bytes.saturating_add(bytes),
        }
    }
}

/// A journal that was there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Gone {
    /// Its last generation, so that none is used twice.
    generation: Generation,
    token: u64,
    /// Until when it is remembered.
    pub(super) until: WallTime,
    /// Deleted on request, as opposed to expired.
    deleted: bool,
}

/// What is known of a key.
#[derive(Clone, Copy, Debug)]
pub(super) enum Known<'a> {
    Nothing,
    Gone(&'a Gone),
    Live(&'a Entry),
}

/// The answer to a claim.
#[derive(Clone, Debug)]
pub(super) enum Decision {
    /// It goes to the claimant: the entry as it is from now on.
    Grant(Footing, Entry),
    /// Somebody holds it, or it has its end.
    Existing,
}

/// What a granted claim begins from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Footing {
    /// A first generation; whatever was there before is dropped.
    Anew,
    /// The generation that was there.
    Same,
    /// A next generation beside the older ones.
    Next,
}

/// Contract lines 8, 9, 10 and 13.
pub(super) fn decide(known: Known<'_>, claim: &Claim) -> Result<Decision> {
    let entry = match (known, claim.intent) {
        (Known::Nothing, Intent::Create) => {
            return Ok(Decision::Grant(
                Footing::Anew,
                Entry::created(claim, Generation::FIRST, 1),
            ));
        }
        (Known::Gone(gone), Intent::Create) => {
            let generation = after(gone.generation)?;
            return Ok(Decision::Grant(
                Footing::Anew,
                Entry::created(claim, generation, gone.token.saturating_add(1)),
            ));
        }
        (Known::Nothing, _) => return Err(never_existed()),
        (Known::Gone(gone), _) => return Err(gone.error()),
        (Known::Live(entry), _) => entry,
    };
    // Past its time it is gone, whether a collection came by yet or not: what a
    // new request gets must not depend on when the collector runs.
    if claim.intent == Intent::Create && entry.is_over(claim.now) {
        let generation = after(entry.generation)?;
        return Ok(Decision::Grant(
            Footing::Anew,
            Entry::created(claim, generation, entry.token.saturating_add(1)),
        ));
    }
    if entry.fingerprint != claim.fingerprint {
        return Err(conflict());
    }
    let held = entry.leased_until.is_some_and(|until| claim.now < until);
    match claim.intent {
        Intent::Create => Ok(Decision::Existing),
        Intent::TakeOver | Intent::Regenerate if held => Ok(Decision::Existing),
        Intent::TakeOver if entry.tail.status.is_final() => Ok(Decision::Existing),
        Intent::TakeOver => Ok(Decision::Grant(Footing::Same, entry.claimed(claim))),
        Intent::Regenerate => {
            let mut next = entry.claimed(claim);
            next.generation = after(entry.generation)?;
            next.earlier_bytes = entry.bytes();
            next.tail = Tail::fresh(claim.now);
            Ok(Decision::Grant(Footing::Next, next))
        }
    }
}

impl Entry {
    fn created(claim: &Claim, generation: Generation, token: u64) -> Self {
        Self {
            fingerprint: claim.fingerprint,
            generation,
            token,
            leased_until: Some(claim.now.after(claim.lease_for)),
            keep_ms: millis(claim.keep_for),
            created_at: claim.now,
            tail: Tail::fresh(claim.now),
            earlier_bytes: 0,
        }
    }

    fn claimed(&self, claim: &Claim) -> Self {
        Self {
            token: self.token.saturating_add(1),
            leased_until: Some(claim.now.after(claim.lease_for)),
            keep_ms: millis(claim.keep_for),
            ..self.clone()
        }
    }

    pub(super) fn lease(&self, key: &Key) -> Lease {
        Lease {
            key: key.clone(),
            generation: self.generation,
            token: self.token,
        }
    }

    pub(super) fn state(&self, key: &Key) -> JournalState {
        JournalState {
            key: key.clone(),
            fingerprint: self.fingerprint,
            generation: self.generation,
            head: self.tail.head,
            status: self.tail.status,
            leased_until: self.leased_until,
            created_at: self.created_at,
            updated_at: self.tail.updated_at,
            expires_at: self.expires_at(),
            bytes: self.bytes(),
        }
    }

    pub(super) fn expires_at(&self) -> WallTime {
        self.tail
            .updated_at
            .after(Duration::from_millis(self.keep_ms))
    }

    fn bytes(&self) -> u64 {
        self.earlier_bytes.saturating_add(self.tail.bytes)
    }

    /// Whether it may be collected.
    pub(super) fn is_over(&self, now: WallTime) -> bool {
        self.is_due(now) && self.leased_until.is_none_or(|until| until <= now)
    }

    /// Whether its time is past, held or not.
    pub(super) fn is_due(&self, now: WallTime) -> bool {
        self.expires_at() <= now
    }

    /// Contract line 11.
    fn check_token(&self, lease: &Lease) -> Result<()> {
        if lease.token == self.token && lease.generation == self.generation {
            Ok(())
        } else {
            Err(stale(self.generation, self.token, lease))
        }
    }

    /// The lease must be the current one, and not given back.
    fn check_lease(&self, lease: &Lease) -> Result<()> {
        self.check_token(lease)?;
        if self.leased_until.is_none() {
            return Err(given_back());
        }
        Ok(())
    }

    pub(super) fn renew(&mut self, lease: &Lease, until: WallTime) -> Result<()> {
        self.check_lease(lease)?;
        self.leased_until = Some(until);
        Ok(())
    }

    /// Giving back what was given back is fine: a final append does it too, and
    /// a caller that tidies up after it has done nothing wrong. `false` when
    /// there was nothing to do.
    pub(super) fn release(&mut self, lease: &Lease) -> Result<bool> {
        self.check_token(lease)?;
        Ok(self.leased_until.take().is_some())
    }

    /// Contract lines 3, 4 and 11.
    pub(super) fn check_append(&self, lease: &Lease, first: Seq) -> Result<()> {
        self.check_lease(lease)?;
        if first == self.tail.head.next() {
            Ok(())
        } else {
            Err(wrong_sequence(self.tail.head.next(), first))
        }
    }

    /// Takes over how far the current generation has come. Records that came since
    /// the entry was written, and left the journal at rest, gave the lease back;
    /// records that stood already say nothing about a lease that was granted after
    /// them.
    pub(super) fn advance(&mut self, tail: Tail) {
        let came = tail.head > self.tail.head;
        self.tail = tail;
        if came && tail.status != Status::Running {
            self.leased_until = None;
        }
    }

    /// What is remembered of it when a collection removes it.
    pub(super) fn expired(&self, now: WallTime) -> Gone {
        let lived = now.since(self.created_at);
        self.gone(
            now.after(lived.max(Duration::from_millis(self.keep_ms))),
            false,
        )
    }

    /// What is remembered of it when it is deleted. There is no clock in a
    /// deletion, so its own times are taken.
    pub(super) fn deleted(&self) -> Gone {
        let until = self
            .expires_at()
            .after(self.expires_at().since(self.created_at));
        self.gone(until, true)
    }

    fn gone(&self, until: WallTime, deleted: bool) -> Gone {
        Gone {
            generation: self.generation,
            token: self.token,
            until,
            deleted,
        }
    }
}

impl Gone {
    /// The answer to whoever asks for it.
    pub(super) fn error(&self) -> Error {
        if self.deleted { deleted() } else { expired() }
    }
}

/// The number of a batch's first record.
///
/// # Errors
///
/// [`ErrorKind::WrongSequence`] when there is none, or the others do not follow it.
pub(super) fn first_of(batch: &Batch) -> Result<Seq> {
    let Some(first) = batch.records.first() else {
        return Err(Error::new(
            ErrorKind::WrongSequence,
            "expected at least one record to append, but found none",
        ));
    };
    let mut expected = first.seq;
    for record in &batch.records {
        if record.seq != expected {
            return Err(wrong_sequence(expected, record.seq));
        }
        expected = expected.next();
    }
    Ok(first.seq)
}

pub(super) fn wrong_sequence(expected: Seq, found: Seq) -> Error {
    Error::new(
        ErrorKind::WrongSequence,
        format!("expected record {expected}, but found record {found}"),
    )
}

pub(super) fn never_existed() -> Error {
    Error::new(
        ErrorKind::NotFound,
        "expected a journal with this key, but found none",
    )
}

pub(super) fn expired() -> Error {
    Error::new(
        ErrorKind::Expired,
        "expected a journal, but found that it has expired",
    )
}

pub(super) fn deleted() -> Error {
    Error::new(
        ErrorKind::NotFound,
        "expected a journal, but found that it was deleted",
    )
}

pub(super) fn conflict() -> Error {
    Error::new(
        ErrorKind::KeyConflict,
        "expected the request that this key was first used with, but found another one",
    )
}

/// The answer to a lease that is not the current one.
pub(super) fn stale(
    generation: impl std::fmt::Display,
    token: impl std::fmt::Display,
    lease: &Lease,
) -> Error {
    Error::new(
        ErrorKind::StaleLease,
        format!(
            "expected the lease of generation {generation} with token {token}, but found generation {} with token {}",
            lease.generation, lease.token
        ),
    )
}

/// The answer to a lease that was given back.
pub(super) fn given_back() -> Error {
    Error::new(
        ErrorKind::StaleLease,
        "expected a lease, but found that it was given back",
    )
}

/// The answer when no generation can follow.
pub(super) fn spent() -> Error {
    Error::new(
        ErrorKind::NotPossible,
        "expected a generation that was not used yet, but all numbers are used up",
    )
}

/// The answer to a writer whose journal was removed under it.
pub(super) fn removed() -> Error {
    Error::new(
        ErrorKind::StaleLease,
        "expected the journal of this lease, but found that it is gone",
    )
}

/// The answer to a cursor that names a generation that is not there yet.
pub(super) fn generation_ahead(current: Generation, found: Generation) -> Error {
    Error::new(
        ErrorKind::CursorAhead,
        format!("expected a cursor of generation {current} or before, but found {found}"),
    )
}

/// The answer to a cursor that names a record that is not there yet.
pub(super) fn seq_ahead(head: Seq, found: Seq) -> Error {
    Error::new(
        ErrorKind::CursorAhead,
        format!("expected a cursor at record {head} or before, but found {found}"),
    )
}

fn after(generation: Generation) -> Result<Generation> {
    let next = generation.next();
    if next == generation {
        return Err(spent());
    }
    Ok(next)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
