//! The store contract as public async functions, for store authors.
//!
//! **Unstable**: functions are added and sharpened in any release. Each panics,
//! with a sentence on what was expected, when a store breaks the line of the
//! contract ([`Store`]) that its name begins with. They make and
//! remove journals, and need a multi-threaded tokio runtime with its clock on.
//!
//! ```
//! # use std::sync::Arc;
//! # use futures_core::future::BoxFuture;
//! use streamkeep::store::conformance::{Capabilities, StoreFactory, run_all};
//! use streamkeep::store::{MemoryStore, Store};
//!
//! struct Memory;
//!
//! impl StoreFactory for Memory {
//!     fn capabilities(&self) -> Capabilities {
//!         Capabilities { survives_reopen: false }
//!     }
//!     fn open(&self) -> BoxFuture<'_, Arc<dyn Store>> {
//!         Box::pin(async { Arc::new(MemoryStore::new()) as Arc<dyn Store> })
//!     }
//!     fn reopen(&self, store: Arc<dyn Store>) -> BoxFuture<'_, Arc<dyn Store>> {
//!         Box::pin(async { store })
//!     }
//! }
//!
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! run_all(&Memory).await;
//! # });
//! ```
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::unchecked_time_subtraction,
    clippy::missing_panics_doc,
    reason = "to panic is how these functions report: the module's documentation says so"
)]
#![cfg_attr(
    not(test),
    expect(
        clippy::wildcard_imports,
        reason = "the files are one list of functions over one set of helpers"
    )
)]

mod claiming;
mod keeping;
mod reading;
mod writing;

pub use claiming::{
    line_08_of_racing_claims_one_is_granted, line_08_of_racing_takeovers_one_is_granted,
    line_09_another_request_under_the_key_is_a_conflict, line_10_a_held_journal_is_left_alone,
    line_10_a_journal_can_be_taken_when_its_lease_is_over,
    line_11_an_old_writer_cannot_slip_in_after_a_takeover, line_11_an_older_token_changes_nothing,
};
pub use keeping::{
    journals_are_listed_in_order, line_13_a_deleted_key_begins_a_new_generation,
    line_13_an_expired_key_begins_a_new_generation, line_13_expired_is_not_never_existed,
    line_14_a_collection_leaves_what_is_held, line_14_time_is_counted_from_the_last_append,
    sizes_are_those_of_the_encoded_records,
};
pub use reading::{
    line_05_a_cursor_that_is_ahead_is_told_so, line_05_a_page_holds_what_follows_the_cursor,
    line_05_older_generations_stay_readable, line_05_records_of_any_size_read_back,
    line_06_an_acknowledged_record_is_there_for_every_handle,
    line_07_what_is_acknowledged_survives_a_reopen, line_16_a_follower_sees_every_record_once,
    line_16_a_watcher_is_woken,
};
pub use writing::{
    line_01_a_refused_append_leaves_nothing, line_01_an_append_is_seen_whole_or_not_at_all,
    line_02_numbers_are_dense_in_each_generation, line_03_a_wrong_number_changes_nothing,
    line_04_an_interruption_is_not_final, line_04_nothing_follows_a_final_record,
    line_12_only_a_renewal_moves_the_lease, line_15_a_dropped_append_is_whole_or_nothing,
};

use super::{Batch, Claim, Claimed, Intent, JournalState, Lease, Store, StoreExt};
use crate::error::{ErrorKind, Result};
use crate::proto::journal::{Body, Control, Delivered, End, Record, Status};
use crate::proto::model::{Cursor, Fingerprint, Generation, Key, Seq, WallTime};
use futures_core::future::BoxFuture;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

/// Makes the stores that are tested.
pub trait StoreFactory: Send + Sync {
    /// What to expect of them.
    fn capabilities(&self) -> Capabilities;

    /// A new store with nothing in it.
    fn open(&self) -> BoxFuture<'_, Arc<dyn Store>>;

    /// Closes this store, whose only handle is given, and opens it again. Not
    /// called where [`survives_reopen`](Capabilities::survives_reopen) is false.
    fn reopen(&self, store: Arc<dyn Store>) -> BoxFuture<'_, Arc<dyn Store>>;

    /// Another handle of the same store: another connection, where there are any.
    fn another(&self, store: &Arc<dyn Store>) -> Arc<dyn Store> {
        Arc::clone(store)
    }
}

/// Where stores may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// What was acknowledged is there after the store was closed and opened again.
    pub survives_reopen: bool,
}

macro_rules! lines {
    ($($line:ident),* $(,)?) => {
        /// Every line, one after the other, each on a new store.
        pub async fn run_all(factory: &dyn StoreFactory) {
            $($line(factory).await;)*
        }

        /// The names of the lines, in the order in which they run.
        pub const LINES: &[&str] = &[$(stringify!($line)),*];
    };
}

lines![
    line_01_an_append_is_seen_whole_or_not_at_all,
    line_01_a_refused_append_leaves_nothing,
    line_02_numbers_are_dense_in_each_generation,
    line_03_a_wrong_number_changes_nothing,
    line_04_nothing_follows_a_final_record,
    line_04_an_interruption_is_not_final,
    line_05_a_page_holds_what_follows_the_cursor,
    line_05_a_cursor_that_is_ahead_is_told_so,
    line_05_older_generations_stay_readable,
    line_05_records_of_any_size_read_back,
    line_06_an_acknowledged_record_is_there_for_every_handle,
    line_07_what_is_acknowledged_survives_a_reopen,
    line_08_of_racing_claims_one_is_granted,
    line_08_of_racing_takeovers_one_is_granted,
    line_09_another_request_under_the_key_is_a_conflict,
    line_10_a_held_journal_is_left_alone,
    line_10_a_journal_can_be_taken_when_its_lease_is_over,
    line_11_an_older_token_changes_nothing,
    line_11_an_old_writer_cannot_slip_in_after_a_takeover,
    line_12_only_a_renewal_moves_the_lease,
    line_13_expired_is_not_never_existed,
    line_13_an_expired_key_begins_a_new_generation,
    line_13_a_deleted_key_begins_a_new_generation,
    line_14_a_collection_leaves_what_is_held,
    line_14_time_is_counted_from_the_last_append,
    line_15_a_dropped_append_is_whole_or_nothing,
    line_16_a_watcher_is_woken,
    line_16_a_follower_sees_every_record_once,
    journals_are_listed_in_order,
    sizes_are_those_of_the_encoded_records,
];

/// How long a lease of the suite is good.
const LEASE: Duration = Duration::from_secs(10);
/// How long a journal of the suite is kept.
const KEEP: Duration = Duration::from_secs(1000);
/// When the suite begins.
const START: WallTime = WallTime::from_millis(1_000_000);

fn after(seconds: u64) -> WallTime {
    START.after(Duration::from_secs(seconds))
}

fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

fn claim(name: &str, intent: Intent, now: WallTime) -> Claim {
    Claim {
        key: key(name),
        fingerprint: Fingerprint::from_bytes([7; 32]),
        intent,
        now,
        lease_for: LEASE,
        keep_for: KEEP,
    }
}

fn cursor(generation: Generation, seq: u64) -> Cursor {
    Cursor::new(generation, Seq::new(seq))
}

/// A record that says its own number.
fn record(seq: u64) -> Record {
    let body = if seq.is_multiple_of(5) {
        Body::Control(Box::new(Control::Unknown))
    } else {
        Body::Event(Delivered {
            name: if seq.is_multiple_of(2) { "delta" } else { "" }.into(),
            data: format!("record {seq} 🦀").into(),
            provider_seq: seq.is_multiple_of(3).then_some(seq),
        })
    };
    Record {
        seq: Seq::new(seq),
        at: WallTime::from_millis(seq),
        body,
    }
}

fn records(numbers: impl IntoIterator<Item = u64>) -> Vec<Record> {
    numbers.into_iter().map(record).collect()
}

fn batch(numbers: impl IntoIterator<Item = u64>, status: Status, now: WallTime) -> Batch {
    Batch {
        records: records(numbers),
        status,
        now,
    }
}

const RUNNING: Status = Status::Running;
const COMPLETE: Status = Status::Ended(End::Complete);

/// The lease and the state of a claim that must be granted.
#[track_caller]
fn granted(claimed: Result<Claimed>) -> (Lease, JournalState) {
    match claimed {
        Ok(Claimed::Granted(lease, state)) => (lease, state),
        other => panic!("expected the claim to be granted, but found {other:?}"),
    }
}

#[track_caller]
fn existing(claimed: Result<Claimed>) -> JournalState {
    match claimed {
        Ok(Claimed::Existing(state)) => state,
        other => panic!("expected an existing journal, but found {other:?}"),
    }
}

#[track_caller]
fn refused<T: Debug>(result: Result<T>, kind: ErrorKind) {
    match result {
        Err(error) if error.kind() == kind => {}
        other => panic!("expected {kind}, but found {other:?}"),
    }
}

async fn create(store: &dyn Store, name: &str) -> Lease {
    granted(store.claim(claim(name, Intent::Create, START)).await).0
}

/// All records of a generation.
async fn all(store: &dyn Store, name: &str, generation: Generation) -> Vec<Record> {
    store
        .read_all(&key(name), cursor(generation, 0))
        .await
        .unwrap()
}

/// So that a store that breaks a line fails, and does not hang. No line is about
/// how long anything takes.
async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(120), future)
        .await
        .unwrap_or_else(|_| panic!("expected an end, but found that it waits for ever"))
}
