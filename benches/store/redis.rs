//! The store in Redis: one server with an append-only file that is synced every
//! second, one connection. Left out where there is no `redis-server`.

use super::server::RedisServer;
use super::{Timing, append_all, create, median};
use std::sync::Arc;
use std::time::{Duration, Instant};
use streamkeep::proto::journal::{Body, Delivered, Record, Status};
use streamkeep::proto::model::{Cursor, Generation, Seq};
use streamkeep::store::{Batch, PageLimit, RedisStore, Store};
use tokio::runtime::Runtime;
use tokio::time::{MissedTickBehavior, interval};

pub(crate) fn server() -> Option<RedisServer> {
    RedisServer::start(&["--appendfsync", "everysec"])
}

pub(crate) async fn open(server: &RedisServer, prefix: &str) -> RedisStore {
    let builder = RedisStore::builder(server.url()).prefix(prefix);
    builder.open().await.unwrap()
}

/// Appends as fast as it goes.
pub(crate) fn append(runtime: &Runtime, server: &RedisServer, appends: u64, timing: &mut Timing) {
    timing.add(|| {
        runtime.block_on(async {
            let _: String = server.ask("FLUSHALL");
            let store = Arc::new(open(server, "append").await);
            append_all(store, appends).await
        })
    });
}

/// From before an append to its record at a reader on another connection: so many
/// journals, each with a reader, and so many events a second in all.
pub(crate) async fn tail(server: &RedisServer, journals: u64, events: u64) {
    const SECONDS: u64 = 5;
    let _: String = server.ask("FLUSHALL");
    let writer = Arc::new(open(server, "tail").await);
    let reader = Arc::new(open(server, "tail").await);
    let begun = Instant::now();
    let each = events * SECONDS / journals;
    let mut leases = Vec::new();
    let mut readers = Vec::new();
    for journal in 0..journals {
        let lease = create(&*writer, journal).await;
        let (reader, key) = (Arc::clone(&reader), lease.key.clone());
        leases.push(lease);
        readers.push(tokio::spawn(async move {
            let mut watch = reader.watch(&key);
            let mut waits = Vec::new();
            while (waits.len() as u64) < each {
                let at = Cursor::new(Generation::FIRST, Seq::new(waits.len() as u64));
                let page = reader.read(&key, at, PageLimit::default()).await.unwrap();
                if page.records.is_empty() {
                    watch.changed().await;
                    continue;
                }
                for record in page.records {
                    let Body::Event(event) = record.body else {
                        unreachable!("only events were appended");
                    };
                    let sent: u64 = event.data.split(' ').next().unwrap().parse().unwrap();
                    let now = u64::try_from(begun.elapsed().as_nanos()).unwrap();
                    waits.push(Duration::from_nanos(now.saturating_sub(sent)));
                }
            }
            waits
        }));
    }
    let per_tick = events / 100;
    let mut ticks = interval(Duration::from_millis(10));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut next = 0_u64;
    let mut writing = Vec::new();
    while next < each * journals {
        ticks.tick().await;
        for _ in 0..per_tick {
            let journal = usize::try_from(next % journals).unwrap();
            let seq = next / journals + 1;
            next += 1;
            let (writer, lease) = (Arc::clone(&writer), leases.get(journal).cloned().unwrap());
            writing.push(tokio::spawn(async move {
                let sent = begun.elapsed().as_nanos();
                let body = Body::Event(Delivered {
                    name: "".into(),
                    data: format!("{sent} {}", "x".repeat(188)).into(),
                    provider_seq: None,
                });
                let batch = Batch {
                    records: vec![Record {
                        seq: Seq::new(seq),
                        at: super::NOW,
                        body,
                    }],
                    status: Status::Running,
                    now: super::NOW,
                };
                writer.append(&lease, batch).await.unwrap();
            }));
        }
    }
    for appending in writing {
        appending.await.unwrap();
    }
    let mut waits = Vec::new();
    for reader in readers {
        waits.extend(reader.await.unwrap());
    }
    waits.sort();
    let at = |share: usize| waits.get(waits.len() * share / 100).copied().unwrap();
    let clients: String = server.ask("INFO clients");
    let clients = clients.lines().find(|line| line.starts_with("connected"));
    println!(
        "  {journals:>5} journals, {events} events/s: p50 {:?}, p99 {:?}; {}",
        median(&mut waits.clone()),
        at(99),
        clients.unwrap_or_default()
    );
}
