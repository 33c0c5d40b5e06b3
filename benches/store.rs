//! Stores beside a plain append log, in one run, under a minute.
//!
//! `cargo bench --bench store --features sled,redis`
//!
//! A thousand journals, 200 bytes an event, sixteen events an append, one append
//! of each journal in flight. The log is the bound: one file, one `write` for each
//! append, a checksum over it, nothing else; `bare` is sled with no store around
//! it. Figures are medians of interleaved repetitions; only the ratios mean
//! anything on a machine that others use too.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a bench prints figures, and fails by panicking"
)]

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use streamkeep::proto::journal::{Body, Delivered, End, Record, Status, encode};
use streamkeep::proto::model::{Cursor, Fingerprint, Generation, Key, Seq, WallTime};
use streamkeep::store::{
    Batch, Claim, Claimed, Intent, Lease, MemoryStore, PageLimit, SledStore, Store, StoreExt,
};

#[cfg(all(unix, feature = "redis"))]
#[path = "store/redis.rs"]
mod in_redis;
#[cfg(all(unix, feature = "redis"))]
#[expect(
    dead_code,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "the tests use the rest"
)]
#[path = "../tests/support/redis.rs"]
mod server;

const JOURNALS: u64 = 1000;
const PACK: u64 = 16;
const APPENDS: u64 = 13;
const REPEATS: usize = 5;
const NOW: WallTime = WallTime::from_millis(1_000_000);

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let events = JOURNALS * PACK * APPENDS;
    let mut log = Timing::default();
    let mut memory = Timing::default();
    let mut bare = Timing::default();
    let mut sled = Timing::default();
    #[cfg(all(unix, feature = "redis"))]
    let (server, mut redis) = (in_redis::server(), Timing::default());
    for _ in 0..REPEATS {
        let folder = tempfile::tempdir().unwrap();
        log.add(|| append_log(&folder.path().join("log")));
        memory.add(|| {
            runtime.block_on(async {
                let store = Arc::new(MemoryStore::with_max_bytes(u64::MAX));
                append_all(store, APPENDS).await
            })
        });
        bare.add(|| bare_sled(&folder.path().join("bare")));
        sled.add(|| {
            runtime.block_on(async {
                let store = Arc::new(SledStore::open(folder.path().join("sled")).await.unwrap());
                let took = append_all(Arc::clone(&store) as _, APPENDS).await;
                store.close().await;
                took
            })
        });
        #[cfg(all(unix, feature = "redis"))]
        if let Some(server) = &server {
            in_redis::append(&runtime, server, APPENDS, &mut redis);
        }
    }
    let bound = rate(events, median(&mut log.wall));
    println!("append, {JOURNALS} journals, {PACK} x 200 bytes, {events} events:");
    let rows = vec![
        ("log", &mut log),
        ("memory", &mut memory),
        ("bare", &mut bare),
        ("sled", &mut sled),
    ];
    #[cfg(all(unix, feature = "redis"))]
    let rows = rows
        .into_iter()
        .chain(server.is_some().then_some(("redis", &mut redis)));
    for (name, timing) in rows {
        let rate = rate(events, median(&mut timing.wall));
        let cpu = timing.cpu.as_secs_f64() * 1e6 / (events * REPEATS as u64) as f64;
        println!(
            "  {name:8} {rate:>12.0} events/s  {:.3} x log  {cpu:.2} us of CPU/event",
            rate / bound
        );
    }
    #[cfg(all(unix, feature = "redis"))]
    if let Some(server) = &server {
        println!("tail in redis, from the append to a reader elsewhere:");
        for (journals, events) in [(200, 4000), (1000, 10_000)] {
            runtime.block_on(in_redis::tail(server, journals, events));
        }
        let store = runtime.block_on(in_redis::open(server, "replay"));
        runtime.block_on(replay("redis", Arc::new(store)));
    }
    runtime.block_on(async {
        let folder = tempfile::tempdir().unwrap();
        replay("memory", Arc::new(MemoryStore::new())).await;
        let sled = SledStore::open(folder.path()).await.unwrap();
        replay("sled", Arc::new(sled)).await;
    });
    runtime.block_on(reopen());
}

#[derive(Default)]
struct Timing {
    wall: Vec<Duration>,
    /// Of all threads, opening and closing included.
    cpu: Duration,
}

impl Timing {
    fn add(&mut self, work: impl FnOnce() -> Duration) {
        let before = cpu();
        self.wall.push(work());
        self.cpu += cpu().saturating_sub(before);
    }
}

/// CPU time of this process, where `/proc` tells (in hundredths of a second).
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks: u64 = fields
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<u64>().ok())
        .sum();
    Duration::from_millis(ticks * 10)
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap()
}

fn rate(events: u64, took: Duration) -> f64 {
    events as f64 / took.as_secs_f64()
}

fn batch(first: u64, status: Status) -> Batch {
    let event = |seq| Record {
        seq: Seq::new(seq),
        at: NOW,
        body: Body::Event(Delivered {
            name: "".into(),
            data: "x".repeat(200).into(),
            provider_seq: None,
        }),
    };
    Batch {
        records: (first..first + PACK).map(event).collect(),
        status,
        now: NOW,
    }
}

/// What every journal is given. Clones share the texts, so that what is measured
/// is the store and not the making of events.
fn batches(appends: u64) -> Arc<Vec<Batch>> {
    let batches = (0..appends).map(|append| batch(append * PACK + 1, Status::Running));
    Arc::new(batches.collect())
}

fn append_log(path: &Path) -> Duration {
    let batches = batches(APPENDS);
    let mut file = File::create(path).unwrap();
    let begun = Instant::now();
    let mut out = bytes::BytesMut::new();
    for batch in batches.iter() {
        for _ in 0..JOURNALS {
            out.clear();
            encode(&batch.records, &mut out).unwrap();
            file.write_all(&out).unwrap();
        }
    }
    begun.elapsed()
}

async fn create(store: &dyn Store, journal: u64) -> Lease {
    let claim = Claim {
        key: Key::new(format!("journal-{journal}")).unwrap(),
        fingerprint: Fingerprint::from_bytes([1; 32]),
        intent: Intent::Create,
        now: NOW,
        lease_for: Duration::from_secs(60),
        keep_for: Duration::from_secs(86_400),
    };
    match store.claim(claim).await.unwrap() {
        Claimed::Granted(lease, _) => lease,
        Claimed::Existing(_) => unreachable!("the store is new"),
    }
}

/// sled itself, with the same keys and values and a flush for each thousand: what a
/// store on it cannot be faster than with one thread.
fn bare_sled(path: &Path) -> Duration {
    let batches = batches(APPENDS);
    let db = sled::Config::new()
        .path(path)
        .cache_capacity(64 << 20)
        .open()
        .unwrap();
    let tree = db.open_tree("records").unwrap();
    let begun = Instant::now();
    let mut out = bytes::BytesMut::new();
    for (number, batch) in (0_u64..).zip(batches.iter()) {
        for journal in 0..JOURNALS {
            out.clear();
            encode(&batch.records, &mut out).unwrap();
            let key = [journal.to_be_bytes(), number.to_be_bytes()].concat();
            tree.insert(key, &*out).unwrap();
        }
        db.flush().unwrap();
    }
    begun.elapsed()
}

/// One task for each journal, as in life.
async fn append_all(store: Arc<dyn Store>, appends: u64) -> Duration {
    let mut claiming = Vec::new();
    for journal in 0..JOURNALS {
        let store = Arc::clone(&store);
        claiming.push(tokio::spawn(async move { create(&*store, journal).await }));
    }
    let mut leases = Vec::new();
    for claim in claiming {
        leases.push(claim.await.unwrap());
    }
    let batches = batches(appends);
    let begun = Instant::now();
    let mut writing = Vec::new();
    for lease in leases {
        let store = Arc::clone(&store);
        let batches = Arc::clone(&batches);
        writing.push(tokio::spawn(async move {
            for batch in batches.iter() {
                store.append(&lease, batch.clone()).await.unwrap();
            }
        }));
    }
    for writer in writing {
        writer.await.unwrap();
    }
    begun.elapsed()
}

/// One journal of 4,000 events, read again and again.
async fn replay(name: &str, store: Arc<dyn Store>) {
    const EVENTS: u64 = 4000;
    println!("replay of a journal of {EVENTS} events:");
    let lease = create(&*store, 0).await;
    for append in 0..EVENTS / PACK {
        let batch = batch(append * PACK + 1, Status::Ended(End::Complete));
        let status = if append + 1 == EVENTS / PACK {
            batch.status
        } else {
            Status::Running
        };
        store
            .append(&lease, Batch { status, ..batch })
            .await
            .unwrap();
    }
    let mut times = Vec::new();
    let mut first_page = Vec::new();
    for _ in 0..200 {
        let begun = Instant::now();
        let read = store.read_all(&lease.key, Cursor::START).await.unwrap();
        times.push(begun.elapsed());
        assert_eq!(read.len() as u64, EVENTS);
        let at = Cursor::new(Generation::FIRST, Seq::new(EVENTS - 20));
        let begun = Instant::now();
        let page = store.read(&lease.key, at, PageLimit::default()).await;
        first_page.push(begun.elapsed());
        assert_eq!(page.unwrap().records.len(), 20);
    }
    let took = median(&mut times);
    let bytes = EVENTS as f64 * 200.0;
    println!(
        "  {name:8} {:>12.0} events/s  {:.0} MB/s  last 20 records in {:?}",
        rate(EVENTS, took),
        bytes / took.as_secs_f64() / 1e6,
        median(&mut first_page)
    );
}

/// A store of a million records, opened again.
async fn reopen() {
    const EACH: u64 = 63;
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(SledStore::open(folder.path()).await.unwrap());
    append_all(Arc::clone(&store) as _, EACH).await;
    store.close().await;
    drop(store);
    let records = JOURNALS * PACK * EACH;
    let mut times = Vec::new();
    for _ in 0..3 {
        let begun = Instant::now();
        let store = SledStore::open(folder.path()).await.unwrap();
        times.push(begun.elapsed());
        let begun = Instant::now();
        let listed = store.list(None, usize::MAX).await.unwrap();
        assert_eq!(
            listed.iter().map(|state| state.head.get()).sum::<u64>(),
            records
        );
        println!(
            "  (states of {} journals read in {:?})",
            listed.len(),
            begun.elapsed()
        );
        store.close().await;
    }
    let size: u64 = walk(folder.path());
    println!(
        "reopen of {records} records: {:?}; on disk {:.2} bytes per byte of data",
        median(&mut times),
        size as f64 / (records * 200) as f64
    );
}

fn walk(folder: &Path) -> u64 {
    std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            let meta = entry.metadata().unwrap();
            if meta.is_dir() {
                walk(&entry.path())
            } else {
                meta.len()
            }
        })
        .sum()
}
