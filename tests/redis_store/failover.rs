//! A primary that dies, or stands still, and the replica that takes its place.

use crate::server::RedisServer;
use crate::support::*;
use std::sync::Arc;
use std::time::Duration;
use streamkeep::ErrorKind;
use streamkeep::store::{RedisStoreBuilder, Store};

/// A primary, the one replica that may take its place, and three sentinels that look
/// after them.
struct Watched {
    servers: Vec<RedisServer>,
    sentinels: Vec<RedisServer>,
}

impl Watched {
    fn start() -> Option<Self> {
        let primary = RedisServer::start(&[])?;
        let of = format!("127.0.0.1 {}", primary.port);
        let replica = ["--replicaof", &of, "--repl-diskless-sync-delay", "0"];
        let replica = RedisServer::start(&replica)?;
        replica.until_in_sync();
        let servers = vec![primary, replica];
        let port = servers[0].port;
        let settings = format!(
            "sentinel monitor main 127.0.0.1 {port} 2\n\
             sentinel down-after-milliseconds main 1000\n\
             sentinel failover-timeout main 3000\n\
             sentinel parallel-syncs main 2\n"
        );
        let mut sentinels = Vec::new();
        for _ in 0..3 {
            sentinels.push(RedisServer::start_sentinel(&settings)?);
        }
        let watched = Self { servers, sentinels };
        // Each has to know the others and the replicas before it can do anything.
        for sentinel in &watched.sentinels {
            loop {
                let known: Vec<String> = sentinel.ask("SENTINEL MASTER main");
                let is = |name: &str, value: &str| {
                    known
                        .windows(2)
                        .any(|pair| pair[0] == name && pair[1] == value)
                };
                if is("num-slaves", "1") && is("num-other-sentinels", "2") {
                    break;
                }
                std::thread::yield_now();
            }
        }
        Some(watched)
    }

    fn builder(&self) -> RedisStoreBuilder {
        let sentinels: Vec<String> = self.sentinels.iter().map(RedisServer::address).collect();
        settings(&format!("redis-sentinel://{}/main", sentinels.join(",")))
            .response_timeout(Duration::from_millis(500))
            .connect_timeout(Duration::from_millis(500))
            .patience(Duration::from_secs(200))
    }

    /// The port of the primary, as the sentinels know it.
    fn primary(&self) -> usize {
        let address: Vec<String> = self.sentinels[0].ask("SENTINEL GET-MASTER-ADDR-BY-NAME main");
        let port: u16 = address[1].parse().unwrap();
        self.servers
            .iter()
            .position(|server| server.port == port)
            .unwrap()
    }

    async fn until_replaced(&self, old: usize) -> usize {
        until(|| async { self.primary() }, |primary| *primary != old).await
    }
}

/// Kills or freezes the primary, again and again, under writers and readers.
async fn failovers(watched: &Watched, how: [bool; 2]) {
    let builder = || watched.builder().wait_replicas(1, Duration::from_secs(1));
    let store = Arc::new(builder().open().await.unwrap());
    let other = Arc::new(builder().open().await.unwrap());
    let names = ["a", "b", "c", "d"];
    let writers = names.map(|name| Writer::start(Arc::clone(&store), name));
    let mut readers: Vec<_> = names
        .iter()
        .map(|name| (*name, 0, follow(Arc::clone(&other), name, 0)))
        .collect();
    for writer in &writers {
        writer.goes_on(10).await;
    }
    for freezes in how {
        let old = watched.primary();
        if freezes {
            watched.servers[old].freeze();
        } else {
            watched.servers[old].kill();
        }
        watched.until_replaced(old).await;
        // The old one comes back, and believes to be in charge for a moment.
        if freezes {
            watched.servers[old].thaw();
        } else {
            watched.servers[old].revive();
        }
        // Whoever comes now reads from somewhere in the middle.
        for name in names {
            let late = Arc::new(builder().open().await.unwrap());
            let from = late.state(&key(name)).await.unwrap().head.get() / 2;
            readers.push((name, from, follow(late, name, from)));
        }
        for writer in &writers {
            writer.goes_on(10).await;
        }
        until(
            || async { watched.servers[old].replication() },
            |info: &String| info.contains("master_link_status:up"),
        )
        .await;
    }
    let mut answers = Vec::new();
    for (name, writer) in names.into_iter().zip(writers) {
        answers.push((name, writer.end().await));
    }
    let mut seen = Vec::new();
    for (name, from, reader) in readers {
        seen.push((name, from, soon(reader).await.unwrap()));
    }
    for (name, acknowledged) in answers {
        let stored = all(&*other, name).await.unwrap();
        let seen: Vec<_> = seen
            .iter()
            .filter(|(of, ..)| *of == name)
            .map(|(_, from, seen)| (*from, seen.clone()))
            .collect();
        assert_eq!(seen.len(), 3);
        check_history(&acknowledged, &stored, &seen);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_dies_or_stands_still_loses_and_doubles_nothing() {
    let Some(watched) = Watched::start() else {
        return;
    };
    failovers(&watched, [false, true]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_without_replicas_in_reach_acknowledges_nothing_and_shows_nothing() {
    let Some(primary) = RedisServer::start(&[]) else {
        return;
    };
    let of = format!("127.0.0.1 {}", primary.port);
    let replica = RedisServer::start(&["--replicaof", &of]).unwrap();
    replica.until_in_sync();
    let waiting = || {
        settings(&primary.url())
            .wait_replicas(1, Duration::from_millis(200))
            .patience(Duration::from_secs(1))
    };
    let (store, other) = (
        waiting().open().await.unwrap(),
        waiting().open().await.unwrap(),
    );
    let lease = create(&store, "cut").await;
    store.append(&lease, batch(1..=2, RUNNING)).await.unwrap();
    replica.freeze();
    let rest = batch(3..=5, COMPLETE);
    let error = refused(
        store.append(&lease, rest.clone()).await,
        ErrorKind::StoreUnavailable,
    );
    assert!(error.message().contains("0 of 1 replicas"), "{error}");
    // Nobody sees it, and nobody takes it for an end.
    for store in [&store, &other] {
        let state = store.state(&key("cut")).await.unwrap();
        assert_eq!((state.head.get(), state.status), (2, RUNNING));
        assert!(state.leased_until.is_some());
        assert_eq!(all(store, "cut").await.unwrap().len(), 2);
    }
    // Another writer cannot settle it either, as long as nobody else has it.
    let later = START.after(Duration::from_secs(60));
    let take = || claim("cut", streamkeep::store::Intent::TakeOver, later);
    refused(other.claim(take()).await, ErrorKind::StoreUnavailable);
    assert_eq!(other.state(&key("cut")).await.unwrap().head.get(), 2);
    replica.thaw();
    // Now it counts: it has its end, and there is nothing left to take over.
    let claimed = other.claim(take()).await.unwrap();
    let streamkeep::store::Claimed::Existing(state) = claimed else {
        panic!("expected the end, but found {claimed:?}");
    };
    assert_eq!((state.head.get(), state.status), (5, COMPLETE));
    assert_eq!(all(&store, "cut").await.unwrap()[2..], rest.records);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_that_do_not_know_the_name_say_so() {
    let Some(watched) = Watched::start() else {
        return;
    };
    let address = watched.sentinels[0].address();
    let unknown = settings(&format!("redis-sentinel://{address}/other")).open();
    refused(unknown.await, ErrorKind::Config);
    let no_sentinel = settings(&format!(
        "redis-sentinel://{}/main",
        watched.servers[0].address()
    ));
    refused(no_sentinel.open().await, ErrorKind::Config);
    let no_cluster = settings(&format!("redis-cluster://{}", watched.servers[0].address()));
    refused(no_cluster.open().await, ErrorKind::Config);
    // One that is away is passed over.
    let away = format!("127.0.0.1:{}", crate::server::free_port());
    let store = settings(&format!("redis-sentinel://{away},{address}/main"));
    create(&store.open().await.unwrap(), "k").await;
}
