//! Where journals are kept. Floor 3.
//!
//! The trait and its contract stand here; each backend has a file of its own.

mod entry;
mod ext;
mod heads;
mod memory;
mod pages;

#[cfg(feature = "conformance")]
pub mod conformance;
#[cfg(feature = "conformance")]
mod faulty;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "sled")]
mod sled;

pub use ext::StoreExt;
#[cfg(feature = "conformance")]
pub use faulty::{AppendGate, Fault, FaultyStore};
pub use heads::{HeadWatch, Heads};
pub use memory::MemoryStore;
#[cfg(feature = "redis")]
pub use redis::{RedisStore, RedisStoreBuilder};
#[cfg(feature = "sled")]
pub use sled::{SledStore, SledStoreBuilder};

use crate::error::Result;
use crate::proto::journal::{Record, Status};
use crate::proto::model::{Cursor, Fingerprint, Generation, Key, Seq, WallTime};
use futures_core::future::BoxFuture;
use std::fmt;
use std::time::Duration;

/// What an acknowledged record survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Durability {
    /// Nothing: it is gone with the process.
    Volatile,
    /// The death of the process (`kill -9`), not of the machine.
    Buffered,
    /// Power loss.
    Synced,
}

/// The right to append to one generation of a journal.
///
/// The token rises with every claim of the key; an append with an older one is
/// refused ([`StaleLease`](crate::ErrorKind::StaleLease)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The journal.
    pub key: Key,
    /// The generation it may append to.
    pub generation: Generation,
    /// The fencing token.
    pub token: u64,
}

/// A wish to write.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The journal.
    pub key: Key,
    /// The fingerprint of the request.
    pub fingerprint: Fingerprint,
    /// What for.
    pub intent: Intent,
    /// The wall clock of the claimant.
    pub now: WallTime,
    /// How long the lease is good without being renewed.
    pub lease_for: Duration,
    /// How long the journal is kept after its last append.
    pub keep_for: Duration,
}

/// What a claim is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// Begin generation 1, if there is no journal of this key.
    Create,
    /// Go on with the current generation, if nobody holds it and it has no
    /// final record.
    TakeOver,
    /// Begin the next generation, if nobody holds the current one. Older
    /// generations stay readable.
    Regenerate,
}

/// The answer to a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// The claim was granted. The state's head is where to append.
    Granted(Lease, JournalState),
    /// It was not: this is how the journal stands.
    Existing(JournalState),
}

/// Where a journal stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalState {
    /// The journal.
    pub key: Key,
    /// The fingerprint of its request.
    pub fingerprint: Fingerprint,
    /// The current generation.
    pub generation: Generation,
    /// The last record of the current generation; zero when there is none.
    pub head: Seq,
    /// As the last append that said something about it left it.
    pub status: Status,
    /// Until when the current lease is good; `None` when nobody holds one.
    pub leased_until: Option<WallTime>,
    /// When the key was first claimed.
    pub created_at: WallTime,
    /// When the last record was appended.
    pub updated_at: WallTime,
    /// When it may be collected, unless somebody holds it.
    pub expires_at: WallTime,
    /// Bytes its records take, all generations together, as encoded.
    pub bytes: u64,
}

impl JournalState {
    /// Whether a writer holds it at this time.
    pub fn is_held(&self, now: WallTime) -> bool {
        self.leased_until.is_some_and(|until| now < until)
    }
}

/// Records to append, all or nothing.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The records; the first one's number must be the head's successor, and
    /// they must be dense.
    pub records: Vec<Record>,
    /// What the journal's status is after it.
    pub status: Status,
    /// The wall clock of the writer.
    pub now: WallTime,
}

/// Some records, and where the journal stood when they were read.
#[derive(Clone, Debug)]
pub struct Page {
    /// The records strictly after the cursor, in order, without holes.
    pub records: Vec<Record>,
    /// Where the journal stood. Its generation may be newer than the cursor's:
    /// then the reader's answer has been superseded.
    pub state: JournalState,
    /// The last record of the cursor's generation; more to read while the last
    /// record of this page is before it.
    pub head: Seq,
}

/// How much one page may hold.
#[derive(Clone, Copy, Debug)]
pub struct PageLimit {
    /// At most this many records (at least one is returned if there is one).
    pub records: usize,
    /// Stop after the record that reaches this many encoded bytes.
    pub bytes: usize,
}

impl Default for PageLimit {
    /// 1,024 records or 1 MiB: large enough that a replay is not dominated by
    /// round trips, small enough that a thousand readers fit in memory.
    fn default() -> Self {
        Self {
            records: 1024,
            bytes: 1 << 20,
        }
    }
}

/// What a collection did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Journals removed.
    pub journals: u64,
    /// Journals past their time that somebody holds, and were left.
    pub held: u64,
}

/// A place where journals are kept.
///
/// # Contract
///
/// Each line is a test of the conformance suite.
///
/// 1. An append is atomic: all of its records can be read, or none.
/// 2. Sequence numbers are dense from 1 in each generation.
/// 3. An append whose first number is not the head's successor changes nothing
///    ([`WrongSequence`](crate::ErrorKind::WrongSequence)).
/// 4. An append with a status other than `Running` gives the lease back in the same
///    step, so that no reader takes a journal at rest for one that is written.
///    Nothing can be appended with it then
///    ([`StaleLease`](crate::ErrorKind::StaleLease)), and after a final status
///    nothing by anybody.
/// 5. A page holds exactly the records after the cursor, in order; it may end
///    early, never with a hole.
/// 6. An acknowledged record can be read at once, through any handle.
/// 7. An acknowledged record survives what [`durability`](Store::durability) says.
/// 8. A key that is claimed cannot be created again: of any number of racing
///    claims exactly one is granted.
/// 9. The same key with another fingerprint is
///    [`KeyConflict`](crate::ErrorKind::KeyConflict), whatever the intent.
/// 10. A held journal cannot be taken over or regenerated; after its lease ran
///     out, or was released, it can, with a higher token.
/// 11. An append, renewal or release with an older token is
///     [`StaleLease`](crate::ErrorKind::StaleLease) and changes nothing.
/// 12. An append also renews nothing: only `renew` moves the lease.
/// 13. Expired is told apart from never existed
///     ([`Expired`](crate::ErrorKind::Expired) / [`NotFound`](crate::ErrorKind::NotFound))
///     for at least as long again as the journal was kept, and an expired key
///     can be created anew, with a generation that was never used before.
/// 14. A collection never touches a journal that is held.
/// 15. Dropping the future of an append leaves all of it or nothing of it.
/// 16. A watcher is woken after every append, seal and removal that follows its
///     creation; wake-ups may be merged, and may come without cause.
///
/// What follows from the lines, and is tested with them:
///
/// - A journal past its time can be read, taken over and regenerated until a
///   collection removes it; a [`Create`](Intent::Create) begins it anew from that
///   moment on, for any request, so that what a new request gets does not depend
///   on when the collector runs. Then cursors of the old generations are
///   [`Expired`](crate::ErrorKind::Expired).
/// - A lease that ran out is good until somebody else claims the journal: it is the
///   token that fences, not the clock.
/// - Giving a lease back twice, or after a final append, is no error. An append or
///   a renewal after it is [`StaleLease`](crate::ErrorKind::StaleLease), as it is
///   when the journal was removed.
/// - A deleted journal is [`NotFound`](crate::ErrorKind::NotFound), not expired; its
///   generations are not used again either, for as long as an expired one's.
/// - An append without records is [`WrongSequence`](crate::ErrorKind::WrongSequence).
/// - A cursor that names a record or a generation that is not there yet is
///   [`CursorAhead`](crate::ErrorKind::CursorAhead).
/// - A writer whose clock is behind an earlier one's does not make a journal expire
///   earlier.
///
/// # Errors
///
/// Beside those named: [`StoreUnavailable`](crate::ErrorKind::StoreUnavailable),
/// [`StoreFull`](crate::ErrorKind::StoreFull) and
/// [`StoreCorrupt`](crate::ErrorKind::StoreCorrupt), from any call. After one of the
/// first two from an append, nothing but the store can say whether it took effect:
/// ask for the state.
///
/// # Cancel safety
///
/// A call that changes something and is dropped has done all of it, does all of it
/// yet, or does nothing of it. A claim that is dropped may have been granted: its
/// lease then runs out by itself. What only reads can be dropped freely.
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// Asks for the right to write.
    fn claim(&self, claim: Claim) -> BoxFuture<'_, Result<Claimed>>;

    /// Moves the end of a lease to `until`.
    fn renew<'a>(&'a self, lease: &'a Lease, until: WallTime) -> BoxFuture<'a, Result<()>>;

    /// Gives a lease back.
    fn release<'a>(&'a self, lease: &'a Lease) -> BoxFuture<'a, Result<()>>;

    /// Appends; returns the new head once it is as durable as promised.
    fn append<'a>(&'a self, lease: &'a Lease, batch: Batch) -> BoxFuture<'a, Result<Seq>>;

    /// The records after a cursor.
    fn read<'a>(
        &'a self,
        key: &'a Key,
        after: Cursor,
        limit: PageLimit,
    ) -> BoxFuture<'a, Result<Page>>;

    /// Where a journal stands.
    fn state<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<JournalState>>;

    /// Journals in the order of their keys, after this one, at most `limit`.
    fn list<'a>(
        &'a self,
        after: Option<&'a Key>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<JournalState>>>;

    /// Removes journals past their time.
    fn collect(&self, now: WallTime) -> BoxFuture<'_, Result<Collected>>;

    /// Removes one journal, held or not. `false` when there was none.
    fn delete<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<bool>>;

    /// A watcher of one journal's head. The journal need not exist yet.
    fn watch(&self, key: &Key) -> HeadWatch;

    /// What an acknowledged record survives.
    fn durability(&self) -> Durability;
}
