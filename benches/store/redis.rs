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
use tokio::sync::mpsc::unbounded_channel;
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
    let cpu = (super::cpu(), redis_cpu(server));
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
    // One writer for each journal: what comes while its append is under way goes into
    // the next one.
    let mut senders = Vec::new();
    let mut writing = Vec::new();
    for lease in leases {
        let (sender, mut sent) = unbounded_channel::<Duration>();
        senders.push(sender);
        let writer = Arc::clone(&writer);
        writing.push(tokio::spawn(async move {
            let mut seq = 0;
            let mut at = Vec::new();
            while sent.recv_many(&mut at, 64).await > 0 {
                let records = at.drain(..).map(|at| {
                    seq += 1;
                    let data = format!("{} {}", at.as_nanos(), "x".repeat(188)).into();
                    Record {
                        seq: Seq::new(seq),
                        at: super::NOW,
                        body: Body::Event(Delivered {
                            name: "".into(),
                            data,
                            provider_seq: None,
                        }),
                    }
                });
                let batch = Batch {
                    records: records.collect(),
                    status: Status::Running,
                    now: super::NOW,
                };
                writer.append(&lease, batch).await.unwrap();
            }
        }));
    }
    let mut ticks = interval(Duration::from_millis(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut next = 0_u64;
    while next < each * journals {
        ticks.tick().await;
        for _ in 0..events / 1000 {
            let journal = usize::try_from(next % journals).unwrap();
            next += 1;
            senders.get(journal).unwrap().send(begun.elapsed()).unwrap();
        }
    }
    drop(senders);
    for writer in writing {
        writer.await.unwrap();
    }
    let mut waits = Vec::new();
    for reader in readers {
        waits.extend(reader.await.unwrap());
    }
    waits.sort();
    let at = |share: usize| waits.get(waits.len() * share / 100).copied().unwrap();
    let spent = |cpu: Duration| cpu.as_secs_f64() * 1e6 / (each * journals) as f64;
    let (here, there) = (
        super::cpu().saturating_sub(cpu.0),
        redis_cpu(server).saturating_sub(cpu.1),
    );
    println!(
        "  {journals:>5} journals, {events} events/s: p50 {:?}, p99 {:?}; CPU/event {:.0} us here, {:.0} us in Redis; connected clients {}",
        median(&mut waits.clone()),
        at(99),
        spent(here),
        spent(there),
        info(server, "clients", "connected_clients:")
    );
}

/// CPU time of the server.
fn redis_cpu(server: &RedisServer) -> Duration {
    ["used_cpu_user:", "used_cpu_sys:"]
        .map(|field| info(server, "cpu", field).parse().unwrap_or(0.0))
        .map(Duration::from_secs_f64)
        .iter()
        .sum()
}

/// One field of what the server says of itself.
fn info(server: &RedisServer, section: &str, field: &str) -> String {
    let info: String = server.ask(&format!("INFO {section}"));
    let line = info.lines().find_map(|line| line.strip_prefix(field));
    line.unwrap_or_default().to_owned()
}
