//! The store contract, for every store and decorator there is.

#![cfg(feature = "conformance")]

use futures_core::future::BoxFuture;
use std::sync::Arc;
use streamkeep::store::conformance::{Capabilities, StoreFactory, run_all};
use streamkeep::store::{FaultyStore, MemoryStore, Store};

struct Memory;

impl StoreFactory for Memory {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            survives_reopen: false,
        }
    }

    fn open(&self) -> BoxFuture<'_, Arc<dyn Store>> {
        Box::pin(async { Arc::new(MemoryStore::new()) as _ })
    }

    fn reopen(&self, _: Arc<dyn Store>) -> BoxFuture<'_, Arc<dyn Store>> {
        unreachable!("a memory store does not survive a reopen")
    }
}

/// Calls that take their time, as to a store far away.
struct Yielding;

impl StoreFactory for Yielding {
    fn capabilities(&self) -> Capabilities {
        Memory.capabilities()
    }

    fn open(&self) -> BoxFuture<'_, Arc<dyn Store>> {
        Box::pin(async {
            let store = FaultyStore::new(Arc::new(MemoryStore::new())).yielding(3);
            Arc::new(store) as _
        })
    }

    fn reopen(&self, store: Arc<dyn Store>) -> BoxFuture<'_, Arc<dyn Store>> {
        Memory.reopen(store)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_memory_store_keeps_the_contract() {
    run_all(&Memory).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_far_away_keeps_the_contract() {
    run_all(&Yielding).await;
}

mod faults {
    #![expect(
        clippy::unwrap_used,
        clippy::panic,
        reason = "a test's helpers fail as the test does"
    )]

    use super::*;
    use std::time::Duration;
    use streamkeep::ErrorKind;
    use streamkeep::proto::journal::{Body, Delivered, Record, Status};
    use streamkeep::proto::model::{Fingerprint, Key, Seq, WallTime};
    use streamkeep::store::{Batch, Claim, Claimed, Fault, Intent, Lease};

    const NOW: WallTime = WallTime::from_millis(1_000_000);

    fn key() -> Key {
        Key::new("faulty").unwrap()
    }

    async fn made() -> (Arc<FaultyStore>, Lease) {
        let store = FaultyStore::new(Arc::new(MemoryStore::new()));
        let claim = Claim {
            key: key(),
            fingerprint: Fingerprint::from_bytes([1; 32]),
            intent: Intent::Create,
            now: NOW,
            lease_for: Duration::from_secs(10),
            keep_for: Duration::from_secs(100),
        };
        match store.claim(claim).await.unwrap() {
            Claimed::Granted(lease, _) => (Arc::new(store), lease),
            other @ Claimed::Existing(_) => panic!("expected a grant, but found {other:?}"),
        }
    }

    fn batch(seq: u64) -> Batch {
        let body = Body::Event(Delivered {
            name: "".into(),
            data: "data".into(),
            provider_seq: None,
        });
        Batch {
            records: vec![Record {
                seq: Seq::new(seq),
                at: NOW,
                body,
            }],
            status: Status::Running,
            now: NOW,
        }
    }

    async fn head(store: &FaultyStore) -> u64 {
        store.state(&key()).await.unwrap().head.get()
    }

    #[tokio::test]
    async fn a_refused_append_is_not_there_and_one_whose_answer_is_lost_is() {
        let (store, lease) = made().await;
        store.fail_append(2, Fault::Refused(ErrorKind::StoreFull));
        store.fail_append(4, Fault::AnswerLost(ErrorKind::StoreUnavailable));
        store.append(&lease, batch(1)).await.unwrap();
        let error = store.append(&lease, batch(2)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StoreFull);
        assert_eq!(head(&store).await, 1);
        store.append(&lease, batch(2)).await.unwrap();
        let error = store.append(&lease, batch(3)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StoreUnavailable);
        assert_eq!(head(&store).await, 3);
        // The writer that tries it again learns that it is there.
        let error = store.append(&lease, batch(3)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WrongSequence);
        store.append(&lease, batch(4)).await.unwrap();
        assert_eq!(store.appends(), 6);
    }

    #[tokio::test]
    async fn a_gate_holds_appends_before_or_after_they_took_effect() {
        for after in [false, true] {
            let (store, lease) = made().await;
            let mut gate = if after {
                store.hold_answers()
            } else {
                store.hold_appends()
            };
            let appending = tokio::spawn({
                let store = Arc::clone(&store);
                async move { store.append(&lease, batch(1)).await }
            });
            gate.arrived(1).await;
            assert_eq!(head(&store).await, u64::from(after));
            assert!(!appending.is_finished());
            gate.open();
            appending.await.unwrap().unwrap();
            assert_eq!(head(&store).await, 1);
        }
    }
}

#[cfg(feature = "sled")]
mod sled {
    #![expect(clippy::unwrap_used, reason = "a test's helpers fail as the test does")]

    use super::*;
    use std::sync::Mutex;
    use streamkeep::store::{SledStore, SledStoreBuilder};
    use tempfile::TempDir;

    /// Each store in a folder of its own; a reopened one in its old folder.
    #[derive(Default)]
    struct Sled {
        folders: Mutex<Vec<TempDir>>,
        tiny_buckets: bool,
    }

    impl Sled {
        fn settings(&self, folder: &std::path::Path) -> SledStoreBuilder {
            let settings = SledStore::builder(folder).cache_bytes(8 << 20);
            if self.tiny_buckets {
                settings.bucket_bytes(1).queue(1)
            } else {
                settings
            }
        }
    }

    impl StoreFactory for Sled {
        fn capabilities(&self) -> Capabilities {
            Capabilities {
                survives_reopen: true,
            }
        }

        fn open(&self) -> BoxFuture<'_, Arc<dyn Store>> {
            let folder = tempfile::tempdir().unwrap();
            let settings = self.settings(folder.path());
            self.folders.lock().unwrap().push(folder);
            Box::pin(async { Arc::new(settings.open().await.unwrap()) as _ })
        }

        fn reopen(&self, store: Arc<dyn Store>) -> BoxFuture<'_, Arc<dyn Store>> {
            let settings = {
                let folders = self.folders.lock().unwrap();
                self.settings(folders.last().unwrap().path())
            };
            Box::pin(async move {
                assert_eq!(Arc::strong_count(&store), 1, "the only handle");
                tokio::task::spawn_blocking(|| drop(store)).await.unwrap();
                Arc::new(settings.open().await.unwrap()) as _
            })
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_sled_store_keeps_the_contract() {
        run_all(&Sled::default()).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_sled_store_keeps_the_contract_with_a_bucket_for_every_generation() {
        let factory = Sled {
            tiny_buckets: true,
            ..Sled::default()
        };
        run_all(&factory).await;
    }
}
