//! ST-04. A disk that is full once ended the process and left a store that did not
//! start, even when there was room again. Here: a typed error, nothing half
//! written, readers served, and writing goes on once there is room, in the same
//! process.
//!
//! The test starts itself in a mount namespace of its own with a small file system
//! in memory. Where that is not allowed it says so.

#![cfg(all(target_os = "linux", feature = "sled"))]
#![cfg(test)] // else the lints take the helpers for production code

use std::path::Path;
use std::process::Command;
use std::time::Duration;
use streamkeep::ErrorKind;
use streamkeep::proto::journal::{Body, Delivered, Record, Status};
use streamkeep::proto::model::{Cursor, Fingerprint, Generation, Key, Seq, WallTime};
use streamkeep::store::{Batch, Claim, Claimed, Intent, Lease, SledStore, Store, StoreExt};

const START: WallTime = WallTime::from_millis(1_000_000);

/// The child, in the small file system.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    if let Some(folder) = std::env::var_os("FULL_CHILD") {
        fill(Path::new(&folder)).await;
    }
}

#[test]
fn a_full_disk_is_a_typed_error_and_writing_goes_on_when_there_is_room() {
    let folder = tempfile::tempdir().unwrap();
    let mount = r#"mount -t tmpfs -o size=16m tmpfs "$FULL_CHILD" 2>/dev/null || exit 77; exec "$FULL_SELF" --exact child --nocapture"#;
    let status = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", mount])
        .env("FULL_CHILD", folder.path())
        .env("FULL_SELF", std::env::current_exe().unwrap())
        .status();
    match status.map(|status| status.code()) {
        Ok(Some(0)) => {}
        // unshare's own failure is 1, the child's panic 101.
        Ok(Some(1 | 77)) | Err(_) => {
            assert!(
                std::env::var_os("CI").is_none_or(|ci| ci != "true"),
                "expected a mount namespace of its own, but none can be made here"
            );
            eprintln!("SKIPPED: no mount namespace can be made here");
        }
        other => panic!("expected the child to pass, but found {other:?}"),
    }
}

fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

fn record(seq: u64) -> Record {
    Record {
        seq: Seq::new(seq),
        at: START,
        body: Body::Event(Delivered {
            name: "delta".into(),
            data: format!("{seq} ").repeat(300).into(),
            provider_seq: None,
        }),
    }
}

fn batch(first: u64) -> Batch {
    Batch {
        records: (first..first + 8).map(record).collect(),
        status: Status::Running,
        now: START,
    }
}

fn claim(name: &str, intent: Intent, seconds: u64) -> Claim {
    Claim {
        key: key(name),
        fingerprint: Fingerprint::from_bytes([1; 32]),
        intent,
        now: START.after(Duration::from_secs(seconds)),
        lease_for: Duration::from_secs(1),
        keep_for: Duration::from_secs(1000),
    }
}

fn granted(claimed: Claimed) -> (Lease, u64) {
    match claimed {
        Claimed::Granted(lease, state) => (lease, state.head.get()),
        other @ Claimed::Existing(_) => panic!("expected a grant, but found {other:?}"),
    }
}

async fn check(store: &SledStore, at_least: u64) -> u64 {
    let at = Cursor::new(Generation::FIRST, Seq::ZERO);
    let records = store.read_all(&key("a"), at).await.unwrap();
    let head = records.len() as u64;
    assert!(head >= at_least, "acknowledged {at_least}, found {head}");
    assert_eq!(head % 8, 0, "a part of an append");
    assert!(records == (1..=head).map(record).collect::<Vec<_>>());
    head
}

async fn fill(folder: &Path) {
    let ballast = folder.join("ballast");
    std::fs::write(&ballast, vec![1; 6 << 20]).unwrap();
    let open = || {
        SledStore::builder(folder.join("store"))
            .cache_bytes(4 << 20)
            .open()
    };
    let store = open().await.unwrap();
    let (lease, _) = granted(store.claim(claim("a", Intent::Create, 0)).await.unwrap());
    let mut acknowledged = 0;
    let error = loop {
        match store.append(&lease, batch(acknowledged + 1)).await {
            Ok(head) => acknowledged = head.get(),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::StoreFull, "{error:?}");
    assert!(acknowledged > 100, "it was not full at once");

    // Full stays full: a typed error each time, the process lives.
    for _ in 0..3 {
        let answer = store.append(&lease, batch(acknowledged + 1)).await;
        let kind = answer.unwrap_err().kind();
        assert!(
            matches!(kind, ErrorKind::StoreFull | ErrorKind::StoreUnavailable),
            "{kind}"
        );
    }

    // There is room again: the same store goes on, without being told.
    std::fs::remove_file(&ballast).unwrap();
    let mut patience = 0;
    let (lease, head) = loop {
        match store.claim(claim("a", Intent::TakeOver, 10)).await {
            Ok(claimed) => break granted(claimed),
            Err(error) => {
                assert!(
                    matches!(
                        error.kind(),
                        ErrorKind::StoreFull | ErrorKind::StoreUnavailable
                    ),
                    "{error:?}"
                );
                patience += 1;
                assert!(patience < 10_000_000, "it never opens again: {error:?}");
                tokio::task::yield_now().await;
            }
        }
    };
    assert_eq!(check(&store, acknowledged).await, head);
    for number in 0..10 {
        let batch = batch(head + 1 + number * 8);
        store.append(&lease, batch).await.unwrap();
    }
    assert_eq!(check(&store, head + 80).await, head + 80);
    let (other, _) = granted(store.claim(claim("b", Intent::Create, 10)).await.unwrap());
    store.append(&other, batch(1)).await.unwrap();
    store.close().await;
    let store = open().await.unwrap();
    check(&store, head + 80).await;
    store.close().await;
}
