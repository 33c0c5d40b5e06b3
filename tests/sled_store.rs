//! Opening the sled store: who may, what it finds, and what it makes of damage.

#![cfg(feature = "sled")]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test's helpers fail as the test does"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use streamkeep::ErrorKind;
use streamkeep::proto::journal::{Body, Delivered, Record, Status};
use streamkeep::proto::model::{Cursor, Fingerprint, Generation, Key, Seq, WallTime};
use streamkeep::store::{
    Batch, Claim, Claimed, Durability, Intent, Lease, PageLimit, SledStore, SledStoreBuilder, Store,
};
use streamkeep::{Error, Result};

const START: WallTime = WallTime::from_millis(1_000_000);
const JOURNALS: u64 = 6;
const APPENDS: u64 = 50;
const EACH: u64 = 4;

fn key(journal: u64) -> Key {
    Key::new(format!("journal-{journal}")).unwrap()
}

fn record(journal: u64, seq: u64) -> Record {
    Record {
        seq: Seq::new(seq),
        at: START,
        body: Body::Event(Delivered {
            name: "delta".into(),
            data: format!("{journal}/{seq}").repeat(150).into(),
            provider_seq: None,
        }),
    }
}

fn settings(folder: &Path) -> SledStoreBuilder {
    SledStore::builder(folder).cache_bytes(4 << 20)
}

async fn create(store: &SledStore, journal: u64) -> Result<Lease> {
    let claim = Claim {
        key: key(journal),
        fingerprint: Fingerprint::from_bytes([1; 32]),
        intent: Intent::Create,
        now: START,
        lease_for: Duration::from_secs(10),
        keep_for: Duration::from_secs(1000),
    };
    match store.claim(claim).await? {
        Claimed::Granted(lease, _) => Ok(lease),
        other @ Claimed::Existing(_) => panic!("expected a grant, but found {other:?}"),
    }
}

async fn append(store: &SledStore, lease: &Lease, journal: u64, first: u64) -> Result<Seq> {
    let batch = Batch {
        records: (first..first + EACH)
            .map(|seq| record(journal, seq))
            .collect(),
        status: Status::Running,
        now: START,
    };
    store.append(lease, batch).await
}

/// The records of a journal that can be read, compared with what was written, and
/// the error that stands behind them.
async fn readable(store: &SledStore, journal: u64) -> (u64, Option<Error>) {
    let mut seen = 0;
    loop {
        let at = Cursor::new(Generation::FIRST, Seq::new(seen));
        match store.read(&key(journal), at, PageLimit::default()).await {
            Ok(page) if page.records.is_empty() => return (seen, None),
            Ok(page) => {
                for found in page.records {
                    seen += 1;
                    assert_eq!(found, record(journal, seen), "a wrong record");
                }
            }
            Err(error) => return (seen, Some(error)),
        }
    }
}

async fn filled(folder: &Path) {
    let store = settings(folder).open().await.unwrap();
    let mut leases = Vec::new();
    for journal in 0..JOURNALS {
        leases.push(create(&store, journal).await.unwrap());
    }
    for append_number in 0..APPENDS {
        for (journal, lease) in (0..).zip(&leases) {
            append(&store, lease, journal, 1 + append_number * EACH)
                .await
                .unwrap();
        }
    }
    store.close().await;
}

#[tokio::test]
async fn a_second_opening_is_told_that_the_store_is_open() {
    let folder = tempfile::tempdir().unwrap();
    let first = settings(folder.path()).open().await.unwrap();
    for _ in 0..2 {
        let error = settings(folder.path()).open().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StoreUnavailable);
        assert!(error.message().contains("open already"), "{error}");
    }
    create(&first, 1).await.unwrap();
    first.close().await;
    settings(folder.path()).open().await.unwrap();
}

#[tokio::test]
async fn a_closed_store_says_that_it_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let store = settings(folder.path()).open().await.unwrap();
    let lease = create(&store, 1).await.unwrap();
    store.close().await;
    store.close().await;
    let errors = [
        append(&store, &lease, 1, 1).await.unwrap_err(),
        store.state(&key(1)).await.unwrap_err(),
        store.collect(START).await.unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::StoreUnavailable);
    }
}

#[tokio::test]
async fn a_durability_that_is_not_offered_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    for (durability, reason) in [
        (Durability::Synced, "power loss"),
        (Durability::Volatile, "memory store"),
    ] {
        let asked = settings(folder.path()).durability(durability);
        let error = asked.open().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.message().contains(reason), "{error}");
    }
    let store = settings(folder.path()).open().await.unwrap();
    assert_eq!(store.durability(), Durability::Buffered);
}

#[tokio::test]
async fn a_folder_that_is_something_else_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("photos");
    fs::create_dir(&inside).unwrap();
    fs::write(inside.join("cat.jpg"), "meow").unwrap();
    for path in [inside.clone(), inside.join("cat.jpg")] {
        let error = settings(&path).open().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    }
    assert_eq!(fs::read_dir(&inside).unwrap().count(), 1);

    // Somebody's own sled database.
    let theirs = folder.path().join("theirs");
    filled(&theirs).await;
    fs::remove_dir_all(theirs.join("journals")).unwrap();
    let db = sled::open(theirs.join("journals")).unwrap();
    db.insert("their", "data").unwrap();
    drop(db);
    let error = settings(&theirs)
        .set_aside_damaged(true)
        .open()
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    let db = sled::open(theirs.join("journals")).unwrap();
    assert_eq!(db.get("their").unwrap().unwrap(), "data");
}

#[tokio::test]
async fn a_later_layout_is_named_and_not_touched() {
    let folder = tempfile::tempdir().unwrap();
    filled(folder.path()).await;
    let set = |layout: &str| {
        let db = sled::open(folder.path().join("journals")).unwrap();
        db.insert("layout", layout).unwrap();
    };
    set("2");
    let error = settings(folder.path()).open().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StoreUnavailable);
    assert!(error.message().contains("layout 2"), "{error}");
    set("1");
    let store = settings(folder.path()).open().await.unwrap();
    assert_eq!(readable(&store, 0).await.0, APPENDS * EACH);
}

/// Copies a folder; what is damaged is the copy.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// The files of all databases, as paths within the store's folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    fn visit(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                visit(&path, found);
            } else if !path.ends_with("lock") {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    visit(folder, &mut found);
    found.sort();
    found
        .iter()
        .map(|path| path.strip_prefix(folder).unwrap().to_owned())
        .collect()
}

/// ST-01. A store was once left with a damaged file by a container's stop, and the
/// next start panicked. Here every file is cut and has bits flipped at many places:
/// it opens or says why not, what can be read is what was written, and with the
/// setting for it there is always a store to go on with.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_file_is_an_error_or_a_clean_prefix_and_never_a_panic() {
    let folder = tempfile::tempdir().unwrap();
    let good = folder.path().join("good");
    filled(&good).await;
    let (mut refused, mut set_aside) = (0, 0);
    let mut whole = 0;
    let mut number = 0_u64;
    for file in files(&good) {
        let length = fs::metadata(good.join(&file)).unwrap().len();
        let places = if length > 1000 { 16 } else { 4 };
        for place in 0..places {
            for cut in [false, true] {
                number += 1;
                let bad = folder.path().join(format!("bad-{number}"));
                copy(&good, &bad);
                let target = bad.join(&file);
                let at = (length * place / places + number * 37) % length.max(1);
                let mut bytes = fs::read(&target).unwrap();
                let at = usize::try_from(at).unwrap();
                if cut {
                    bytes.truncate(at);
                } else if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << (number % 8);
                }
                fs::write(&target, bytes).unwrap();
                match settings(&bad).open().await {
                    Ok(store) => {
                        for journal in 0..JOURNALS {
                            let (seen, error) = readable(&store, journal).await;
                            whole += u64::from(seen == APPENDS * EACH && error.is_none());
                        }
                        // And it can be written to, or says why not.
                        if let Ok(lease) = create(&store, 99).await {
                            append(&store, &lease, 99, 1).await.unwrap();
                        }
                        store.close().await;
                    }
                    Err(error) => {
                        refused += 1;
                        assert!(
                            matches!(
                                error.kind(),
                                ErrorKind::StoreCorrupt
                                    | ErrorKind::StoreUnavailable
                                    | ErrorKind::Config
                            ),
                            "{error:?}"
                        );
                        if error.kind() == ErrorKind::StoreCorrupt {
                            let asked = settings(&bad).set_aside_damaged(true);
                            let store = asked.open().await.unwrap();
                            // The first attempt may have mended it: sled cuts off
                            // what it cannot read.
                            for aside in store.set_aside() {
                                set_aside += 1;
                                assert!(!files(aside).is_empty(), "what is damaged is kept");
                            }
                            let lease = create(&store, 99).await.unwrap();
                            append(&store, &lease, 99, 1).await.unwrap();
                        }
                    }
                }
                fs::remove_dir_all(&bad).unwrap();
            }
        }
    }
    println!(
        "{number} damaged stores: {refused} refused, {set_aside} put aside, {whole} journals whole"
    );
    assert!(number > 0);
}

fn bytes_of(folder: &Path) -> u64 {
    files(folder)
        .iter()
        .map(|file| fs::metadata(folder.join(file)).unwrap().len())
        .sum()
}

/// ST-03. A store whose journals all expire once grew without bound: sled gives a
/// file's space to new data and never back to the disk. Here buckets go as folders.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_disk_is_given_back() {
    const MIB: u64 = 1 << 20;
    let folder = tempfile::tempdir().unwrap();
    let store = settings(folder.path())
        .bucket_span(Duration::from_secs(9))
        .open()
        .await
        .unwrap();
    let mut written = 0;
    let mut most = 0;
    let mut now = START;
    for round in 0..10 {
        let mut live = 0;
        for journal in round * 8..round * 8 + 8 {
            let claim = Claim {
                key: key(journal),
                fingerprint: Fingerprint::from_bytes([1; 32]),
                intent: Intent::Create,
                now,
                lease_for: Duration::from_secs(1),
                keep_for: Duration::from_secs(15),
            };
            let Claimed::Granted(lease, _) = store.claim(claim).await.unwrap() else {
                panic!("expected a grant");
            };
            for append_number in 0..200 {
                let first = 1 + append_number * EACH;
                let batch = Batch {
                    records: (first..first + EACH)
                        .map(|seq| record(journal, seq))
                        .collect(),
                    status: Status::Running,
                    now,
                };
                store.append(&lease, batch).await.unwrap();
            }
            live += store.state(&key(journal)).await.unwrap().bytes;
        }
        written += live;
        now = now.after(Duration::from_secs(10));
        store.collect(now).await.unwrap();
        most = most.max(bytes_of(folder.path()));
    }
    // Two rounds are kept at a time; ten were written.
    assert!(most < written, "{most} bytes for {} kept", written / 5);
    store
        .collect(now.after(Duration::from_secs(60)))
        .await
        .unwrap();
    assert_eq!(store.list(None, 1).await.unwrap(), []);
    let left = bytes_of(folder.path());
    assert!(left < 10 * MIB, "{left} bytes for nothing");
    store.close().await;
}

/// What is left of a crash while a bucket was made or removed.
#[tokio::test]
async fn a_bucket_that_is_half_made_or_half_removed_is_cleared_away() {
    let folder = tempfile::tempdir().unwrap();
    filled(folder.path()).await;
    let records = folder.path().join("records");
    for (name, file) in [("0000000000000002", "db"), ("0000000000000003", "conf")] {
        fs::create_dir(records.join(name)).unwrap();
        fs::write(records.join(name).join(file), "half").unwrap();
    }
    fs::create_dir(records.join("somebody's")).unwrap();
    let store = settings(folder.path()).open().await.unwrap();
    assert_eq!(readable(&store, 0).await.0, APPENDS * EACH);
    store.close().await;
    let mut left: Vec<_> = fs::read_dir(&records)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    left.sort();
    assert_eq!(left, ["0000000000000001", "somebody's"]);
}

/// ST-01, for one of several buckets: the journals of the others are not touched by
/// it, and those of the bad one say what happened.
#[tokio::test]
async fn a_damaged_bucket_costs_its_own_journals_only() {
    let folder = tempfile::tempdir().unwrap();
    let open = |aside| {
        settings(folder.path())
            .bucket_bytes(1)
            .set_aside_damaged(aside)
            .open()
    };
    let store = open(false).await.unwrap();
    for journal in 0..3 {
        let lease = create(&store, journal).await.unwrap();
        append(&store, &lease, journal, 1).await.unwrap();
    }
    store.close().await;
    let bad = folder.path().join("records").join("0000000000000003");
    // Its configuration lacks a line.
    let conf = fs::read(bad.join("conf")).unwrap();
    let without: Vec<u8> = conf
        .split_inclusive(|byte| *byte == b'\n')
        .filter(|line| !line.starts_with(b"version"))
        .flatten()
        .copied()
        .collect();
    assert_ne!(conf, without);
    fs::write(bad.join("conf"), without).unwrap();
    let error = open(false).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StoreCorrupt, "{error:?}");

    let store = open(true).await.unwrap();
    assert_eq!(store.set_aside().len(), 1);
    for journal in 0..2 {
        assert!(matches!(readable(&store, journal).await, (EACH, None)));
    }
    let (seen, error) = readable(&store, 2).await;
    assert_eq!((seen, error.unwrap().kind()), (0, ErrorKind::StoreCorrupt));
    assert_eq!(store.list(None, 9).await.unwrap().len(), 3);
    // The number of the bad bucket is not used again: its journals must not come to
    // look empty.
    let lease = create(&store, 99).await.unwrap();
    append(&store, &lease, 99, 1).await.unwrap();
    assert!(!bad.exists());
    let (_, error) = readable(&store, 2).await;
    assert_eq!(error.unwrap().kind(), ErrorKind::StoreCorrupt);
    assert!(store.delete(&key(2)).await.unwrap());
    store.close().await;
}
