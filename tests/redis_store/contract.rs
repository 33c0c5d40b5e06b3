//! The contract, line by line.

use crate::cluster::Cluster;
use crate::server::RedisServer;
use futures_core::future::BoxFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use streamkeep::store::conformance::{Capabilities, StoreFactory, run_all};
use streamkeep::store::{RedisStore, RedisStoreBuilder, Store};

/// Each store under a prefix of its own; each handle with connections of its own.
struct Redis {
    url: String,
    stores: AtomicU32,
    shape: fn(RedisStoreBuilder) -> RedisStoreBuilder,
}

impl Redis {
    fn new(url: String, shape: fn(RedisStoreBuilder) -> RedisStoreBuilder) -> Self {
        Self {
            url,
            stores: AtomicU32::new(0),
            shape,
        }
    }

    async fn connect(&self) -> Arc<dyn Store> {
        let number = self.stores.load(Ordering::Relaxed);
        let builder = RedisStore::builder(&self.url).prefix(format!("store-{number}"));
        Arc::new((self.shape)(builder).open().await.unwrap())
    }
}

impl StoreFactory for Redis {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            survives_reopen: true,
        }
    }

    fn open(&self) -> BoxFuture<'_, Arc<dyn Store>> {
        self.stores.fetch_add(1, Ordering::Relaxed);
        Box::pin(self.connect())
    }

    fn reopen(&self, store: Arc<dyn Store>) -> BoxFuture<'_, Arc<dyn Store>> {
        drop(store);
        Box::pin(self.connect())
    }

    fn another(&self, _: &Arc<dyn Store>) -> Arc<dyn Store> {
        let connecting = self.connect();
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(connecting))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_in_one_server_keeps_the_contract() {
    let Some(server) = RedisServer::start(&[]) else {
        return;
    };
    run_all(&Redis::new(server.url(), |builder| builder)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_with_one_bucket_keeps_the_contract() {
    let Some(server) = RedisServer::start(&[]) else {
        return;
    };
    run_all(&Redis::new(server.url(), |builder| builder.buckets(1))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_that_waits_for_a_replica_keeps_the_contract() {
    let Some(primary) = RedisServer::start(&[]) else {
        return;
    };
    let port = primary.port.to_string();
    let replica = RedisServer::start(&["--replicaof", &format!("127.0.0.1 {port}")]).unwrap();
    replica.until_in_sync();
    let waiting = |builder: RedisStoreBuilder| builder.wait_replicas(1, Duration::from_secs(5));
    run_all(&Redis::new(primary.url(), waiting)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_in_a_cluster_keeps_the_contract() {
    let Some(cluster) = Cluster::start(3, 0) else {
        return;
    };
    run_all(&Redis::new(cluster.url(), |builder| builder)).await;
}
