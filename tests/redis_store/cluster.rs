//! A cluster of the tests' own.

use crate::server::RedisServer;
use crate::support::*;
use std::sync::Arc;
use std::time::Duration;
use streamkeep::store::Store;

/// Some primaries, each with as many replicas. The first nodes are the primaries.
pub(crate) struct Cluster {
    pub(crate) nodes: Vec<RedisServer>,
    primaries: usize,
}

impl Cluster {
    /// Starts it, or says why there is none.
    pub(crate) fn start(primaries: usize, replicas: usize) -> Option<Self> {
        let mut nodes = Vec::new();
        for _ in 0..primaries * (1 + replicas) {
            // A second port for the nodes among themselves.
            let bus = crate::server::free_port().to_string();
            nodes.push(RedisServer::start(&[
                "--cluster-enabled",
                "yes",
                "--cluster-port",
                &bus,
                "--cluster-node-timeout",
                "1000",
                "--cluster-replica-validity-factor",
                "0",
                "--repl-diskless-sync-delay",
                "0",
            ])?);
        }
        let cluster = Self { nodes, primaries };
        let first = &cluster.nodes[0];
        for node in &cluster.nodes[1..] {
            let bus: Vec<String> = node.ask("CONFIG GET cluster-port");
            let _: String = first.ask(&format!("CLUSTER MEET 127.0.0.1 {} {}", node.port, bus[1]));
        }
        let share = 16_384_usize.div_ceil(primaries);
        for (number, node) in cluster.nodes[..primaries].iter().enumerate() {
            let (from, to) = (number * share, ((number + 1) * share).min(16_384) - 1);
            let _: String = node.ask(&format!("CLUSTER ADDSLOTSRANGE {from} {to}"));
            // Else the nodes may all believe to be of the same age, and quarrel.
            let _: redis::Value = node.ask("CLUSTER INFO");
        }
        cluster.until_agreed();
        for (number, node) in cluster.nodes[primaries..].iter().enumerate() {
            let id: String = cluster.nodes[number % primaries].ask("CLUSTER MYID");
            // The node may not have heard of the other one yet.
            while redis::cmd("CLUSTER")
                .arg("REPLICATE")
                .arg(&id)
                .query::<String>(&mut node.connection())
                .is_err()
            {
                std::thread::yield_now();
            }
        }
        for node in &cluster.nodes[primaries..] {
            node.until_in_sync();
        }
        cluster.until_agreed();
        Some(cluster)
    }

    /// Waits until every node that runs knows all slots and all nodes.
    pub(crate) fn until_agreed(&self) {
        let size = format!("cluster_known_nodes:{}", self.nodes.len());
        for node in self.nodes.iter().filter(|node| node.is_running()) {
            loop {
                let info: String = node.ask("CLUSTER INFO");
                if info.contains("cluster_state:ok") && info.contains(&size) {
                    break;
                }
                std::thread::yield_now();
            }
        }
    }

    /// Only the last primary is named; the others are found.
    pub(crate) fn url(&self) -> String {
        format!(
            "redis-cluster://{}",
            self.nodes[self.primaries - 1].address()
        )
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn journals_are_spread_over_the_nodes_and_listed_as_one() {
    let Some(cluster) = Cluster::start(3, 0) else {
        return;
    };
    let store = open(&cluster.url()).await;
    let mut names: Vec<String> = (0..100).map(|number| format!("j{number}")).collect();
    for name in &names {
        let lease = create(&store, name).await;
        store.append(&lease, batch(1..=2, COMPLETE)).await.unwrap();
    }
    for node in &cluster.nodes {
        let journals: Vec<String> = node.ask("KEYS *:j:*");
        assert!(journals.len() > 5, "{} on one node", journals.len());
    }
    names.sort();
    let other = open(&cluster.url()).await;
    let listed = other.list(None, 1000).await.unwrap();
    let listed: Vec<&str> = listed.iter().map(|state| state.key.as_str()).collect();
    assert_eq!(listed, names);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_that_move_while_journals_are_written_lose_and_double_nothing() {
    let Some(cluster) = Cluster::start(2, 0) else {
        return;
    };
    // One bucket, so that all of it moves; its tag is 0.
    let builder = || settings(&cluster.url()).buckets(1);
    let store = Arc::new(builder().open().await.unwrap());
    let other = Arc::new(builder().open().await.unwrap());
    let names = ["a", "b", "c"];
    let writers = names.map(|name| Writer::start(Arc::clone(&store), name));
    let readers = names.map(|name| follow(Arc::clone(&other), name, 0));
    for writer in &writers {
        writer.goes_on(10).await;
    }
    let slot: u16 = cluster.nodes[0].ask("CLUSTER KEYSLOT {0}");
    let ids: Vec<String> = cluster
        .nodes
        .iter()
        .map(|node| node.ask("CLUSTER MYID"))
        .collect();
    for round in 0..6 {
        let has = |node: &RedisServer| {
            let count: i64 = node.ask(&format!("CLUSTER COUNTKEYSINSLOT {slot}"));
            count > 0
        };
        let from = usize::from(!has(&cluster.nodes[0]));
        let to = 1 - from;
        let (source, target) = (&cluster.nodes[from], &cluster.nodes[to]);
        let _: String = target.ask(&format!("CLUSTER SETSLOT {slot} IMPORTING {}", ids[from]));
        let _: String = source.ask(&format!("CLUSTER SETSLOT {slot} MIGRATING {}", ids[to]));
        // One key after the other, with writers at work in between.
        loop {
            let keys: Vec<String> = source.ask(&format!("CLUSTER GETKEYSINSLOT {slot} 1"));
            let Some(key) = keys.first() else { break };
            let moved = format!("MIGRATE 127.0.0.1 {} {key} 0 5000", target.port);
            let _: String = source.ask(&moved);
            tokio::task::yield_now().await;
        }
        for node in [target, source] {
            let _: String = node.ask(&format!("CLUSTER SETSLOT {slot} NODE {}", ids[to]));
        }
        writers[round % 3].goes_on(5).await;
    }
    for ((name, writer), reader) in names.into_iter().zip(writers).zip(readers) {
        let acknowledged = writer.end().await;
        let seen = soon(reader).await.unwrap();
        let stored = all(&*other, name).await.unwrap();
        check_history(&acknowledged, &stored, &[(0, seen)]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_of_a_cluster_that_dies_loses_nothing_that_was_acknowledged() {
    let Some(cluster) = Cluster::start(3, 1) else {
        return;
    };
    let builder = || settings(&cluster.url()).wait_replicas(1, Duration::from_secs(1));
    let store = Arc::new(
        builder()
            .patience(Duration::from_secs(200))
            .open()
            .await
            .unwrap(),
    );
    let other = Arc::new(
        builder()
            .patience(Duration::from_secs(200))
            .open()
            .await
            .unwrap(),
    );
    let names = ["a", "b", "c", "d", "e", "f"];
    let writers = names.map(|name| Writer::start(Arc::clone(&store), name));
    let readers = names.map(|name| follow(Arc::clone(&other), name, 0));
    for writer in &writers {
        writer.goes_on(5).await;
    }
    // Without its replica nothing could be acknowledged there, so another one is
    // given to it later: what dies is the first primary, and comes back as one.
    cluster.nodes[0].kill();
    until(
        || async { cluster.nodes[3].replication() },
        |info: &String| info.contains("role:master"),
    )
    .await;
    cluster.nodes[0].revive();
    for writer in &writers {
        writer.goes_on(5).await;
    }
    for ((name, writer), reader) in names.into_iter().zip(writers).zip(readers) {
        let acknowledged = writer.end().await;
        let seen = soon(reader).await.unwrap();
        let stored = all(&*other, name).await.unwrap();
        check_history(&acknowledged, &stored, &[(0, seen)]);
    }
}
