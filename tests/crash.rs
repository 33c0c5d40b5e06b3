//! A process that appends as fast as it can is killed, again and again. What it
//! was told is kept must be there, whole and in order, and writing goes on.
//!
//! The test is its own child: with `CRASH_CHILD` set, `child` appends and prints
//! each acknowledgement; the other test starts it, kills it after so many of them,
//! and looks at what is left.

#![cfg(all(unix, feature = "sled"))]
#![cfg(test)] // else the lints take the helpers for production code

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use streamkeep::ErrorKind;
use streamkeep::proto::journal::{Body, Control, Delivered, Record, Status};
use streamkeep::proto::model::{Cursor, Fingerprint, Generation, Key, Seq, WallTime};
use streamkeep::store::{Batch, Claim, Claimed, Intent, Lease, SledStore, Store, StoreExt};

const JOURNALS: u64 = 8;
/// After how many acknowledgements the child is killed, for each store in turn. A
/// zero kills it while it opens the store.
const KILLS: [&[usize]; 4] = [
    &[0, 1, 2, 200, 40],
    &[3, 0, 500, 17, 1],
    &[1500, 9, 0, 90, 333],
    &[60, 2500, 5, 0, 25],
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    if let Some(folder) = std::env::var_os("CRASH_CHILD") {
        let round = std::env::var("CRASH_ROUND").unwrap().parse().unwrap();
        append_for_ever(Path::new(&folder), round).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_kills_lose_nothing_that_was_acknowledged() {
    let mut runs = 0;
    for kills in KILLS {
        let folder = tempfile::tempdir().unwrap();
        let mut heads = BTreeMap::new();
        for (round, kill_after) in (1..).zip(kills) {
            let acknowledged = kill_child(folder.path(), round, *kill_after);
            heads = look(folder.path(), round, &heads, &acknowledged).await;
            runs += 1;
        }
    }
    assert_eq!(runs, 20);
}

/// When the writers of a round say it is: far enough from the last round's that its
/// leases are over.
fn clock(round: u64) -> WallTime {
    WallTime::from_millis(round * 1_000_000)
}

fn key(journal: u64) -> Key {
    Key::new(format!("journal-{journal}")).unwrap()
}

/// The record follows from its journal and number, so that nothing but the record
/// itself has to be compared.
fn record(journal: u64, seq: u64) -> Record {
    let mix = (journal * 7919 + seq * 104_729) % 1009;
    let body = if mix.is_multiple_of(97) {
        Body::Control(Box::new(Control::Unknown))
    } else {
        // One in some hundred is far larger than what sled keeps in its log.
        let length = if mix == 500 { 150_000 } else { mix % 300 };
        let text = format!("{journal}/{seq}:");
        let data: String = text
            .chars()
            .cycle()
            .take(usize::try_from(length).unwrap())
            .collect();
        Body::Event(Delivered {
            name: "delta".into(),
            data: data.into(),
            provider_seq: Some(seq),
        })
    };
    Record {
        seq: Seq::new(seq),
        at: WallTime::from_millis(seq),
        body,
    }
}

fn batch(journal: u64, first: u64, now: WallTime) -> Batch {
    let count = 1 + (journal + first) % 5;
    Batch {
        records: (first..first + count)
            .map(|seq| record(journal, seq))
            .collect(),
        status: Status::Running,
        now,
    }
}

/// The right to go on with a journal, and its head.
async fn claim(store: &dyn Store, journal: u64, now: WallTime) -> (Lease, u64) {
    let mut claim = Claim {
        key: key(journal),
        fingerprint: Fingerprint::from_bytes([1; 32]),
        intent: Intent::TakeOver,
        now,
        lease_for: Duration::from_secs(1),
        keep_for: Duration::from_secs(1_000_000),
    };
    let claimed = match store.claim(claim.clone()).await {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            claim.intent = Intent::Create;
            store.claim(claim).await
        }
        other => other,
    };
    match claimed.unwrap() {
        Claimed::Granted(lease, state) => (lease, state.head.get()),
        other @ Claimed::Existing(_) => panic!("expected a grant, but found {other:?}"),
    }
}

/// Every other store begins a bucket for each journal, so that some die at that.
async fn open(folder: &Path) -> SledStore {
    let settings = SledStore::builder(folder);
    if folder.ends_with("small-buckets") {
        settings.bucket_bytes(1).open().await.unwrap()
    } else {
        settings.open().await.unwrap()
    }
}

async fn append_for_ever(folder: &Path, round: u64) -> ! {
    let store = Arc::new(open(folder).await);
    for journal in 0..JOURNALS {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            let now = clock(round);
            let (lease, mut head) = claim(&*store, journal, now).await;
            loop {
                let batch = batch(journal, head + 1, now);
                head = store.append(&lease, batch).await.unwrap().get();
                // One write for the line: it is there whole, or not at all.
                let line = format!("ack {journal} {head}\n");
                std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
                std::io::stdout().lock().flush().unwrap();
            }
        });
    }
    std::future::pending().await
}

/// What the child acknowledged before it died.
fn kill_child(folder: &Path, round: u64, kill_after: usize) -> Vec<(u64, u64)> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture"])
        .env("CRASH_CHILD", folder)
        .env("CRASH_ROUND", round.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut acknowledged = Vec::new();
    let mut line = String::new();
    loop {
        if acknowledged.len() == kill_after {
            child.kill().unwrap();
        }
        line.clear();
        lines.read_line(&mut line).unwrap();
        let Some(whole) = line.strip_suffix('\n') else {
            break;
        };
        // The harness of the child talks too.
        let Some(whole) = whole.split("ack ").nth(1) else {
            continue;
        };
        let (journal, seq) = whole.split_once(' ').unwrap();
        acknowledged.push((journal.parse().unwrap(), seq.parse().unwrap()));
    }
    let status = child.wait().unwrap();
    assert_eq!(
        status.code(),
        None,
        "the child was killed, and did not end by itself"
    );
    assert!(acknowledged.len() >= kill_after);
    acknowledged
}

/// Opens the store, compares it with what was acknowledged now and found before,
/// and goes on writing. Gives the heads.
async fn look(
    folder: &Path,
    round: u64,
    before: &BTreeMap<u64, u64>,
    acknowledged: &[(u64, u64)],
) -> BTreeMap<u64, u64> {
    let store = open(folder).await;
    let mut kept = before.clone();
    for (journal, seq) in acknowledged {
        let head = kept.entry(*journal).or_default();
        *head = (*head).max(*seq);
    }
    // A journal that was claimed and not written to may be there as well.
    let mut heads = BTreeMap::new();
    for journal in 0..JOURNALS {
        let at = Cursor::new(Generation::FIRST, Seq::ZERO);
        let records = match store.read_all(&key(journal), at).await {
            Ok(records) => records,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::NotFound);
                assert!(!kept.contains_key(&journal), "journal {journal} is gone");
                continue;
            }
        };
        let head = records.len() as u64;
        assert!(
            kept.get(&journal).is_none_or(|kept| *kept <= head),
            "journal {journal}: acknowledged up to {:?}, found {head}",
            kept.get(&journal)
        );
        for (seq, found) in (1..).zip(&records) {
            assert!(
                *found == record(journal, seq),
                "journal {journal}: record {seq} is another one"
            );
        }
        let state = store.state(&key(journal)).await.unwrap();
        assert_eq!(state.head.get(), head);
        // The dead writer is fenced, and the next one goes on where it stopped.
        let now = clock(round).after(Duration::from_secs(100));
        let (lease, from) = claim(&store, journal, now).await;
        assert_eq!(from, head);
        let dead = Lease {
            token: lease.token - 1,
            ..lease.clone()
        };
        let late = store.append(&dead, batch(journal, head + 1, now)).await;
        assert_eq!(late.unwrap_err().kind(), ErrorKind::StaleLease);
        let head = store
            .append(&lease, batch(journal, head + 1, now))
            .await
            .unwrap();
        heads.insert(journal, head.get());
    }
    store.close().await;
    heads
}
