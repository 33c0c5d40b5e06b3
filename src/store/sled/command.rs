//! What the writer is asked, and what it answers.

use super::Failure;
use crate::error::Result;
use crate::proto::journal::Status;
use crate::proto::model::{Key, Seq, WallTime};
use crate::store::{Claim, Claimed, Lease};
use bytes::BytesMut;
use std::collections::HashSet;
use tokio::sync::oneshot;

pub(super) type ReplyTo<T> = oneshot::Sender<Result<T>>;

/// A request to the writer.
pub(super) enum Command {
    Claim {
        claim: Box<Claim>,
        reply: ReplyTo<Claimed>,
    },
    Renew {
        lease: Lease,
        until: WallTime,
        reply: ReplyTo<()>,
    },
    Release {
        lease: Lease,
        reply: ReplyTo<()>,
    },
    Append(Append),
    Delete {
        key: Key,
        reply: ReplyTo<bool>,
    },
    /// From here on, note where new runs go.
    BeginCollection {
        reply: ReplyTo<()>,
    },
    /// Remove those of these journals that are past their time and not held; tells
    /// of each whether it was.
    Expire {
        keys: Vec<Key>,
        now: WallTime,
        reply: ReplyTo<Vec<bool>>,
    },
    /// Forget removed journals that were remembered for long enough.
    Forget {
        keys: Vec<Key>,
        now: WallTime,
        reply: ReplyTo<()>,
    },
    /// Drop the buckets but these, and but those noted since the collection
    /// began.
    DropBuckets {
        keep: HashSet<u64>,
        reply: ReplyTo<()>,
    },
}

/// Records to append, encoded by whoever asked.
pub(super) struct Append {
    pub(super) lease: Lease,
    pub(super) first: Seq,
    pub(super) count: u32,
    pub(super) status: Status,
    pub(super) now: WallTime,
    /// Room for the header, then the frames.
    pub(super) value: BytesMut,
    pub(super) reply: ReplyTo<Seq>,
}

impl Command {
    /// What it adds to a group.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Append(append) => append.value.len(),
            _ => 0,
        }
    }

    /// Answers with a failure of the database.
    pub(super) fn refuse(self, failure: &Failure) {
        fn refuse<T>(reply: ReplyTo<T>, failure: &Failure) {
            // Nobody waits for the answer: then nobody needs it.
            let _ = reply.send(Err(failure.to_error()));
        }
        match self {
            Self::Claim { reply, .. } => refuse(reply, failure),
            Self::Renew { reply, .. }
            | Self::Release { reply, .. }
            | Self::BeginCollection { reply }
            | Self::Forget { reply, .. }
            | Self::DropBuckets { reply, .. } => refuse(reply, failure),
            Self::Append(append) => refuse(append.reply, failure),
            Self::Delete { reply, .. } => refuse(reply, failure),
            Self::Expire { reply, .. } => refuse(reply, failure),
        }
    }
}

/// An answer that waits for the flush.
pub(super) enum Reply {
    Claim(ReplyTo<Claimed>, Result<Claimed>),
    Unit(ReplyTo<()>, Result<()>),
    Append(ReplyTo<Seq>, Result<Seq>),
    Delete(ReplyTo<bool>, Result<bool>),
    Expired(ReplyTo<Vec<bool>>, Result<Vec<bool>>),
}

impl Reply {
    pub(super) fn send(self) {
        match self {
            Self::Claim(reply, result) => drop(reply.send(result)),
            Self::Unit(reply, result) => drop(reply.send(result)),
            Self::Append(reply, result) => drop(reply.send(result)),
            Self::Delete(reply, result) => drop(reply.send(result)),
            Self::Expired(reply, result) => drop(reply.send(result)),
        }
    }

    /// The flush failed: what would have been a yes is not.
    pub(super) fn fail(self, failure: &Failure) {
        fn fail<T>(result: Result<T>, failure: &Failure) -> Result<T> {
            result.and_then(|_| Err(failure.to_error()))
        }
        match self {
            Self::Claim(reply, result) => drop(reply.send(fail(result, failure))),
            Self::Unit(reply, result) => drop(reply.send(fail(result, failure))),
            Self::Append(reply, result) => drop(reply.send(fail(result, failure))),
            Self::Delete(reply, result) => drop(reply.send(fail(result, failure))),
            Self::Expired(reply, result) => drop(reply.send(fail(result, failure))),
        }
    }
}
