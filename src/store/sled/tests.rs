//! What can be seen only from inside: values that are damaged, missing, or written
//! and not flushed.

use super::layout::{Run, value_key};
use super::*;
use crate::proto::journal::{Body, Delivered, End, Record, Status};
use crate::proto::model::{Fingerprint, Generation};
use crate::store::{Intent, StoreExt};
use std::time::Duration;
use tempfile::TempDir;

const START: WallTime = WallTime::from_millis(1_000_000);
const KEEP: Duration = Duration::from_secs(100);

fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

fn record(seq: u64) -> Record {
    Record {
        seq: Seq::new(seq),
        at: START,
        body: Body::Event(Delivered {
            name: "".into(),
            data: format!("record {seq}").into(),
            provider_seq: None,
        }),
    }
}

fn batch(numbers: std::ops::RangeInclusive<u64>, status: Status) -> Batch {
    Batch {
        records: numbers.map(record).collect(),
        status,
        now: START,
    }
}

fn claim(name: &str, intent: Intent, now: WallTime) -> Claim {
    Claim {
        key: key(name),
        fingerprint: Fingerprint::from_bytes([1; 32]),
        intent,
        now,
        lease_for: Duration::from_secs(1),
        keep_for: KEEP,
    }
}

async fn create(store: &SledStore, name: &str) -> Lease {
    match store.claim(claim(name, Intent::Create, START)).await {
        Ok(Claimed::Granted(lease, _)) => lease,
        other => panic!("expected a grant, but found {other:?}"),
    }
}

async fn open(folder: &TempDir) -> SledStore {
    SledStore::builder(folder.path())
        .cache_bytes(1 << 20)
        .open()
        .await
        .unwrap()
}

/// A store with one journal of four appends: 1-3, 4, 5-6, 7-9.
async fn with_four_appends(folder: &TempDir) -> (SledStore, Lease) {
    let store = open(folder).await;
    let lease = create(&store, "a").await;
    for numbers in [1..=3, 4..=4, 5..=6, 7..=9] {
        store
            .append(&lease, batch(numbers, Status::Running))
            .await
            .unwrap();
    }
    (store, lease)
}

fn db<T>(store: &SledStore, work: impl FnOnce(&Db) -> T) -> T {
    match &*store.shared.db.read().unwrap() {
        State::Open(db) => work(db),
        State::Down(failure) => panic!("expected an open database, but found {failure:?}"),
    }
}

fn run_of(store: &SledStore, name: &str) -> Run {
    db(store, |db| {
        db.load(&key(name))
            .unwrap()
            .unwrap()
            .stored
            .current()
            .unwrap()
    })
}

/// Changes the value that begins with this record.
fn change(store: &SledStore, first: u64, change: impl FnOnce(Vec<u8>) -> Option<Vec<u8>>) {
    let run = run_of(store, "a");
    db(store, |db| {
        let tree = db.records(run.bucket).unwrap();
        let at = value_key(run.id, Seq::new(first));
        match change(tree.get(at).unwrap().unwrap().to_vec()) {
            Some(value) => drop(tree.insert(at, value).unwrap()),
            None => drop(tree.remove(at).unwrap()),
        }
        db.flush_bucket(run.bucket).unwrap();
    });
}

async fn readable(store: &SledStore) -> (u64, Option<Error>) {
    let mut seen = 0;
    loop {
        let at = Cursor::new(Generation::FIRST, Seq::new(seen));
        match store.read(&key("a"), at, PageLimit::default()).await {
            Ok(page) if page.records.is_empty() => return (seen, None),
            Ok(page) => {
                for found in page.records {
                    seen += 1;
                    assert_eq!(found, record(seen));
                }
            }
            Err(error) => return (seen, Some(error)),
        }
    }
}

fn flip(at: usize) -> impl FnOnce(Vec<u8>) -> Option<Vec<u8>> {
    move |mut value| {
        value[at] ^= 4;
        Some(value)
    }
}

#[tokio::test]
async fn damage_in_the_middle_leaves_what_comes_before_it() {
    // In the header of a value, in a frame of it, cut short, and gone; each with
    // how far one can read, the damaged value being 5-6.
    type Change = Box<dyn FnOnce(Vec<u8>) -> Option<Vec<u8>>>;
    let cases: [(Change, u64); 5] = [
        (Box::new(flip(9)), 4),
        (Box::new(flip(VALUE_HEADER + 30)), 4),
        (
            Box::new(|mut value: Vec<u8>| {
                let last = value.len() - 1;
                value[last] ^= 1;
                Some(value)
            }),
            5,
        ),
        (
            Box::new(|value: Vec<u8>| Some(value[..value.len() - 3].to_vec())),
            5,
        ),
        (Box::new(|_| None), 4),
    ];
    for (damage, whole) in cases {
        let folder = tempfile::tempdir().unwrap();
        let (store, _) = with_four_appends(&folder).await;
        change(&store, 5, damage);
        let (seen, error) = readable(&store).await;
        assert_eq!(seen, whole);
        let error = error.unwrap();
        assert_eq!(error.kind(), ErrorKind::StoreCorrupt);
        assert!(
            error.message().contains(&format!("record {}", whole + 1)),
            "{error} says where"
        );
    }
}

#[tokio::test]
async fn a_journal_with_a_damaged_end_is_read_up_to_there_and_not_written_on() {
    for gone in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let (store, lease) = with_four_appends(&folder).await;
        // So that the entry says how far the journal had come.
        store.release(&lease).await.unwrap();
        let later = START.after(Duration::from_secs(2));
        store
            .claim(claim("a", Intent::TakeOver, later))
            .await
            .unwrap();
        change(&store, 7, |mut value| {
            value[0] ^= 1;
            (!gone).then_some(value)
        });
        store.close().await;
        let store = open(&folder).await;

        let state = store.state(&key("a")).await.unwrap();
        assert_eq!(state.head, Seq::new(6));
        assert_eq!(store.list(None, 9).await.unwrap(), [state]);
        let (seen, error) = readable(&store).await;
        assert_eq!(seen, 6);
        assert_eq!(error.unwrap().kind(), ErrorKind::StoreCorrupt);

        // Record 7 was given out: the number must not come to name another one.
        let later = later.after(Duration::from_secs(2));
        let answer = store.claim(claim("a", Intent::TakeOver, later)).await;
        assert_eq!(answer.unwrap_err().kind(), ErrorKind::StoreCorrupt);
        let answer = store.claim(claim("a", Intent::Regenerate, later)).await;
        let Ok(Claimed::Granted(lease, _)) = answer else {
            panic!("expected a new generation, but found {answer:?}");
        };
        let ended = batch(1..=2, Status::Ended(End::Complete));
        store.append(&lease, ended).await.unwrap();
        let at = Cursor::new(lease.generation, Seq::ZERO);
        assert_eq!(store.read_all(&key("a"), at).await.unwrap().len(), 2);
        // And the others are not held up by it.
        let other = create(&store, "b").await;
        store
            .append(&other, batch(1..=2, Status::Running))
            .await
            .unwrap();
        let collected = store.collect(later.after(KEEP * 2)).await.unwrap();
        assert_eq!(collected.journals, 2);
    }
}

#[tokio::test]
async fn a_damaged_entry_is_told_to_who_asks_and_hides_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let (store, lease) = with_four_appends(&folder).await;
    create(&store, "b").await;
    db(&store, |db| {
        let mut entry = db.keys.get("a").unwrap().unwrap().to_vec();
        entry[20] ^= 1;
        db.keys.insert("a", entry).unwrap();
    });
    store.close().await;
    let store = open(&folder).await;
    let kinds = [
        store.state(&key("a")).await.unwrap_err().kind(),
        readable(&store).await.1.unwrap().kind(),
        store.renew(&lease, START).await.unwrap_err().kind(),
        store.delete(&key("a")).await.unwrap_err().kind(),
        store
            .claim(claim("a", Intent::Create, START))
            .await
            .unwrap_err()
            .kind(),
    ];
    assert_eq!(kinds, [ErrorKind::StoreCorrupt; 5]);
    let listed = store.list(None, 9).await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].key, key("b"));
    let collected = store.collect(START.after(KEEP * 2)).await.unwrap();
    assert_eq!(collected.journals, 1);
}

#[tokio::test]
async fn what_is_written_and_not_flushed_is_shown_to_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let (store, lease) = with_four_appends(&folder).await;
    let before = store.state(&key("a")).await.unwrap();
    let tail = db(&store, |db| {
        db.tail(run_of(&store, "a")).unwrap().0.unwrap()
    });
    store
        .append(&lease, batch(10..=12, Status::Ended(End::Complete)))
        .await
        .unwrap();
    let after = store.state(&key("a")).await.unwrap();
    assert_ne!(before, after);
    // As it is between the write and the flush.
    let run = run_of(&store, "a");
    store.shared.pending.lock().unwrap().insert(run.id, tail);
    assert_eq!(store.state(&key("a")).await.unwrap(), before);
    assert_eq!(
        store.list(None, 9).await.unwrap(),
        std::slice::from_ref(&before)
    );
    for from in [0, 8, 9] {
        let at = Cursor::new(Generation::FIRST, Seq::new(from));
        let page = store
            .read(&key("a"), at, PageLimit::default())
            .await
            .unwrap();
        let expected: Vec<Record> = (from + 1..=9).map(record).collect();
        assert_eq!(page.records, expected);
        assert_eq!((page.head, page.state), (Seq::new(9), before.clone()));
    }
    store.shared.pending.lock().unwrap().clear();
    assert_eq!(store.state(&key("a")).await.unwrap(), after);
}

/// A read has two steps; between them the writer finished one append and began
/// another. The page then once seemed to lack records that it had not looked for.
#[tokio::test]
async fn an_append_begun_between_the_two_steps_of_a_read_is_not_taken_for_damage() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = with_four_appends(&folder).await;
    let run = run_of(&store, "a");
    let beyond = Tail {
        head: Seq::new(20),
        status: Status::Running,
        updated_at: START,
        bytes: 9999,
    };
    store.shared.pending.lock().unwrap().insert(run.id, beyond);
    let (seen, error) = readable(&store).await;
    assert_eq!(seen, 9);
    assert!(error.is_none(), "{error:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collection_beside_claims_drops_no_bucket_that_is_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let store = SledStore::builder(folder.path())
        .cache_bytes(1 << 20)
        .bucket_bytes(1)
        .open()
        .await
        .unwrap();
    let store = Arc::new(store);
    let collecting = tokio::spawn({
        let store = Arc::clone(&store);
        async move {
            let mut removed = 0;
            while removed < 60 {
                removed += store.collect(START.after(KEEP * 2)).await.unwrap().journals;
            }
        }
    });
    for number in 0..60 {
        let name = format!("n{number}");
        let lease = create(&store, &name).await;
        // Held, so that it is not collected while it is looked at.
        store
            .renew(&lease, START.after(KEEP * 3))
            .await
            .or_else(|error| match error.kind() {
                // Collected before it was held.
                ErrorKind::StaleLease => Ok(()),
                _ => Err(error),
            })
            .unwrap();
        for seq in 1..=3 {
            match store
                .append(&lease, batch(seq..=seq, Status::Running))
                .await
            {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::StaleLease => break,
                Err(error) => panic!("expected the append to be taken, but found {error}"),
            }
            let at = Cursor::new(Generation::FIRST, Seq::ZERO);
            let found = store.read_all(&key(&name), at).await.unwrap();
            assert_eq!(found.len() as u64, seq);
        }
        drop(store.release(&lease).await);
    }
    collecting.await.unwrap();
    store.collect(START.after(KEEP * 2)).await.unwrap();
    let buckets = db(&store, Db::serials);
    assert!(buckets.is_empty(), "buckets are left: {buckets:?}");
}

#[tokio::test]
async fn a_bucket_goes_with_its_last_journal() {
    let folder = tempfile::tempdir().unwrap();
    let store = SledStore::builder(folder.path())
        .cache_bytes(1 << 20)
        .bucket_span(Duration::from_secs(10))
        .open()
        .await
        .unwrap();
    for second in 0..40 {
        let mut claim = claim(&format!("n{second}"), Intent::Create, START);
        claim.now = START.after(Duration::from_secs(second));
        store.claim(claim).await.unwrap();
    }
    assert_eq!(db(&store, Db::serials), [1, 2, 3, 4]);
    // Those of the first 15 seconds are over: one bucket and a half.
    let now = START.after(KEEP + Duration::from_secs(14));
    assert_eq!(store.collect(now).await.unwrap().journals, 15);
    assert_eq!(db(&store, Db::serials), [2, 3, 4]);
    // What is left is as it was after a reopening, and numbers go on.
    store.close().await;
    let store = open(&folder).await;
    assert_eq!(store.list(None, 99).await.unwrap().len(), 25);
    // START is before the newest bucket's time, so it is not for it.
    create(&store, "next").await;
    assert_eq!(db(&store, Db::serials), [2, 3, 4, 5]);
}

#[tokio::test]
async fn a_run_number_is_never_used_twice() {
    let folder = tempfile::tempdir().unwrap();
    let mut last = 0;
    for round in 0..3 {
        let store = open(&folder).await;
        for number in 0..3 {
            let name = format!("n{round}-{number}");
            create(&store, &name).await;
            let run = run_of(&store, &name).id;
            assert!(run > last, "run {run} after {last}");
            last = run;
        }
        store.close().await;
    }
}
