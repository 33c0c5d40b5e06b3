//! Journals whose records say who wrote them, and a checker of what readers saw.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use streamkeep::proto::journal::{Body, Delivered, End, Record, Status};
use streamkeep::proto::model::{Cursor, Fingerprint, Generation, Key, Seq, WallTime};
use streamkeep::store::{
    Batch, Claim, Claimed, Intent, JournalState, Lease, PageLimit, RedisStore, RedisStoreBuilder,
    Store, StoreExt as _,
};
use streamkeep::{Error, ErrorKind, Result};

pub(crate) const START: WallTime = WallTime::from_millis(1_000_000);
pub(crate) const RUNNING: Status = Status::Running;
pub(crate) const COMPLETE: Status = Status::Ended(End::Complete);

/// Far longer than anything takes, so that what hangs fails. A sentinel that was not
/// let run for two seconds does nothing for the next thirty.
const FOREVER: Duration = Duration::from_secs(240);

pub(crate) fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

/// A store that is patient, but not for as long as a person would be.
pub(crate) fn settings(url: &str) -> RedisStoreBuilder {
    RedisStore::builder(url).response_timeout(Duration::from_secs(2))
}

pub(crate) async fn open(url: &str) -> RedisStore {
    settings(url).open().await.unwrap()
}

pub(crate) fn claim(name: &str, intent: Intent, now: WallTime) -> Claim {
    Claim {
        key: key(name),
        fingerprint: Fingerprint::from_bytes([1; 32]),
        intent,
        now,
        lease_for: Duration::from_secs(10),
        keep_for: Duration::from_secs(1000),
    }
}

#[track_caller]
pub(crate) fn granted(claimed: Claimed) -> (Lease, JournalState) {
    match claimed {
        Claimed::Granted(lease, state) => (lease, state),
        Claimed::Existing(state) => panic!("expected a grant, but found {state:?}"),
    }
}

pub(crate) async fn create(store: &dyn Store, name: &str) -> Lease {
    granted(
        store
            .claim(claim(name, Intent::Create, START))
            .await
            .unwrap(),
    )
    .0
}

/// A record that no other append makes, also not one of the same number.
pub(crate) fn record(seq: u64) -> Record {
    static UNIQUE: AtomicU64 = AtomicU64::new(0);
    let unique = UNIQUE.fetch_add(1, Ordering::Relaxed);
    Record {
        seq: Seq::new(seq),
        at: START,
        body: Body::Event(Delivered {
            name: "delta".into(),
            data: format!("{seq}/{unique}").into(),
            provider_seq: None,
        }),
    }
}

pub(crate) fn batch(numbers: impl IntoIterator<Item = u64>, status: Status) -> Batch {
    Batch {
        records: numbers.into_iter().map(record).collect(),
        status,
        now: START,
    }
}

pub(crate) async fn all(store: &dyn Store, name: &str) -> Result<Vec<Record>> {
    let start = Cursor::new(Generation::FIRST, Seq::ZERO);
    store.read_all(&key(name), start).await
}

pub(crate) fn after(seq: u64) -> Cursor {
    Cursor::new(Generation::FIRST, Seq::new(seq))
}

#[track_caller]
pub(crate) fn refused<T: std::fmt::Debug>(answer: Result<T>, kind: ErrorKind) -> Error {
    match answer {
        Err(error) if error.kind() == kind => error,
        other => panic!("expected {kind}, but found {other:?}"),
    }
}

pub(crate) async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(FOREVER, future)
        .await
        .expect("expected an end, but found that it waits for ever")
}

/// Asks again and again until the answer is the one that is waited for.
pub(crate) async fn until<T, F: Future<Output = T>>(
    mut ask: impl FnMut() -> F,
    mut is_it: impl FnMut(&T) -> bool,
) -> T {
    soon(async {
        loop {
            let answer = ask().await;
            if is_it(&answer) {
                return answer;
            }
            tokio::task::yield_now().await;
        }
    })
    .await
}

/// Writes one journal until it is told to stop, and keeps what was acknowledged.
pub(crate) struct Writer {
    pub(crate) appends: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    writing: tokio::task::JoinHandle<Vec<Record>>,
}

impl Writer {
    /// Appends batches of one to four records.
    pub(crate) fn start(store: Arc<RedisStore>, name: &str) -> Self {
        let (appends, stop) = (
            Arc::new(AtomicU64::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        let writing = tokio::spawn({
            let (appends, stop, name) = (Arc::clone(&appends), Arc::clone(&stop), name.to_owned());
            async move {
                let lease = create(&*store, &name).await;
                let mut acknowledged = Vec::new();
                loop {
                    let first = acknowledged.len() as u64 + 1;
                    let is_last = stop.load(Ordering::SeqCst);
                    let status = if is_last { COMPLETE } else { RUNNING };
                    let batch = batch(first..=first + first % 4, status);
                    let records = batch.records.clone();
                    let head = store.append(&lease, batch).await.unwrap();
                    assert_eq!(head, records.last().unwrap().seq);
                    acknowledged.extend(records);
                    appends.fetch_add(1, Ordering::SeqCst);
                    if is_last {
                        return acknowledged;
                    }
                }
            }
        });
        Self {
            appends,
            stop,
            writing,
        }
    }

    /// Waits until so many more appends were acknowledged.
    pub(crate) async fn goes_on(&self, appends: u64) {
        let wanted = self.appends.load(Ordering::SeqCst) + appends;
        until(
            || async { self.appends.load(Ordering::SeqCst) },
            |found| *found >= wanted || self.writing.is_finished(),
        )
        .await;
    }

    /// Ends the journal; everything that was acknowledged.
    pub(crate) async fn end(self) -> Vec<Record> {
        self.stop.store(true, Ordering::SeqCst);
        soon(self.writing).await.unwrap()
    }
}

/// Follows a journal to its end as a subscriber does, through whatever happens: the
/// watcher first, pages second, delivery by number third. What it saw.
pub(crate) fn follow(
    store: Arc<RedisStore>,
    name: &str,
    from: u64,
) -> tokio::task::JoinHandle<Vec<Record>> {
    let key = key(name);
    tokio::spawn(async move {
        let mut watch = store.watch(&key);
        let mut seen: Vec<Record> = Vec::new();
        loop {
            let at = after(from + seen.len() as u64);
            match store.read(&key, at, PageLimit::default()).await {
                Ok(page) if page.records.is_empty() && page.state.status == COMPLETE => {
                    return seen;
                }
                Ok(page) if page.records.is_empty() => {
                    let recheck = Duration::from_secs(1);
                    let _ = tokio::time::timeout(recheck, watch.changed()).await;
                }
                Ok(page) => seen.extend(page.records),
                Err(error)
                    if [
                        ErrorKind::NotFound,
                        ErrorKind::CursorAhead,
                        ErrorKind::StoreUnavailable,
                    ]
                    .contains(&error.kind()) =>
                {
                    let recheck = Duration::from_secs(1);
                    let _ = tokio::time::timeout(recheck, watch.changed()).await;
                }
                Err(error) => panic!("expected a page, but found {error}"),
            }
        }
    })
}

/// Every reader saw a gapless piece, without a duplicate, of the one answer that was
/// acknowledged to its writer.
#[track_caller]
pub(crate) fn check_history(
    acknowledged: &[Record],
    stored: &[Record],
    seen: &[(u64, Vec<Record>)],
) {
    let numbers: Vec<u64> = acknowledged.iter().map(|record| record.seq.get()).collect();
    let dense: Vec<u64> = (1..=acknowledged.len() as u64).collect();
    assert_eq!(numbers, dense, "what was acknowledged is not dense");
    assert_eq!(
        stored, acknowledged,
        "the journal is not what was acknowledged"
    );
    for (from, seen) in seen {
        let from = usize::try_from(*from).unwrap();
        assert_eq!(
            seen.as_slice(),
            &acknowledged[from..],
            "a reader from {from} saw something else"
        );
    }
}
