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
