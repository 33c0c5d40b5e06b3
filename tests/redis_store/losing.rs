//! Redis without memory, and Redis that lost what it had: told apart from an answer
//! that has ended.

use crate::server::RedisServer;
use crate::support::*;
use std::time::Duration;
use streamkeep::ErrorKind;
use streamkeep::proto::model::{Generation, Seq, WallTime};
use streamkeep::store::{Claim, Intent, PageLimit, RedisStore, Store};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_server_refuses_whole_appends_and_goes_on_when_there_is_room() {
    let Some(server) = RedisServer::start(&[]) else {
        return;
    };
    let store = open(&server.url()).await;
    let lease = create(&store, "full").await;
    let mut written = batch(1..=4, RUNNING).records;
    let first = streamkeep::store::Batch {
        records: written.clone(),
        status: RUNNING,
        now: START,
    };
    store.append(&lease, first).await.unwrap();
    let before = store.state(&key("full")).await.unwrap();
    let _: String = server.ask("CONFIG SET maxmemory 1");
    refused(
        store.append(&lease, batch(5..=6, COMPLETE)).await,
        ErrorKind::StoreFull,
    );
    let claimed = store.claim(claim("another", Intent::Create, START)).await;
    refused(claimed, ErrorKind::StoreFull);
    // What is there can be read, and is as it was.
    assert_eq!(all(&store, "full").await.unwrap(), written);
    assert_eq!(store.state(&key("full")).await.unwrap(), before);
    refused(store.state(&key("another")).await, ErrorKind::NotFound);
    refused(
        settings(&server.url()).prefix("new").open().await,
        ErrorKind::StoreFull,
    );
    let _: String = server.ask("CONFIG SET maxmemory 0");
    let rest = batch(5..=6, COMPLETE);
    written.extend(rest.records.clone());
    store.append(&lease, rest).await.unwrap();
    assert_eq!(all(&store, "full").await.unwrap(), written);
    create(&store, "another").await;
}

/// The names of the store's keys that contain this.
fn keys(server: &RedisServer, part: &str) -> Vec<String> {
    server.ask(&format!("KEYS *{part}*"))
}

async fn ended(store: &RedisStore, name: &str) {
    let lease = create(store, name).await;
    for (numbers, status) in [(1..=3, RUNNING), (4..=6, RUNNING), (7..=9, COMPLETE)] {
        store.append(&lease, batch(numbers, status)).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_was_trimmed_is_no_answer_that_has_ended() {
    let Some(server) = RedisServer::start(&[]) else {
        return;
    };
    let store = open(&server.url()).await;
    let read = |name: &'static str, from: u64| {
        let store = &store;
        async move {
            let page = store
                .read(&key(name), after(from), PageLimit::default())
                .await;
            page.map(|page| page.records.len())
        }
    };
    // From the front: what is left can be read, and only that.
    ended(&store, "front").await;
    let stream = &keys(&server, ":r:front")[0];
    let _: i64 = server.ask(&format!("XTRIM {stream} MAXLEN 2"));
    let error = refused(read("front", 0).await, ErrorKind::StoreCorrupt);
    assert!(error.message().contains("trimmed"), "{error}");
    refused(read("front", 2).await, ErrorKind::StoreCorrupt);
    assert_eq!(read("front", 3).await.unwrap(), 6);
    // In the middle: up to there, and then the truth.
    ended(&store, "middle").await;
    let stream = &keys(&server, ":r:middle")[0];
    let _: i64 = server.ask(&format!("XDEL {stream} 1-6"));
    assert_eq!(read("middle", 0).await.unwrap(), 3);
    refused(read("middle", 3).await, ErrorKind::StoreCorrupt);
    // The end.
    ended(&store, "end").await;
    let stream = &keys(&server, ":r:end")[0];
    let _: i64 = server.ask(&format!("XDEL {stream} 1-9"));
    assert_eq!(read("end", 0).await.unwrap(), 6);
    refused(read("end", 6).await, ErrorKind::StoreCorrupt);
    // All of it.
    ended(&store, "all").await;
    let stream = &keys(&server, ":r:all")[0];
    let _: i64 = server.ask(&format!("DEL {stream}"));
    refused(read("all", 0).await, ErrorKind::StoreCorrupt);
    assert_eq!(store.state(&key("all")).await.unwrap().status, COMPLETE);
    // Another entry in its place.
    ended(&store, "changed").await;
    let stream = &keys(&server, ":r:changed")[0];
    let _: String = server.ask(&format!("XADD {stream} 1-10 r junk"));
    let _: i64 = server.ask(&format!("XDEL {stream} 1-9"));
    refused(read("changed", 6).await, ErrorKind::StoreCorrupt);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_whose_stream_was_evicted_is_told_and_leaves_no_hole() {
    let Some(server) = RedisServer::start(&[]) else {
        return;
    };
    let store = open(&server.url()).await;
    let lease = create(&store, "evicted").await;
    store.append(&lease, batch(1..=3, RUNNING)).await.unwrap();
    let stream = &keys(&server, ":r:evicted")[0];
    let _: i64 = server.ask(&format!("DEL {stream}"));
    refused(
        store.append(&lease, batch(4..=4, RUNNING)).await,
        ErrorKind::StoreCorrupt,
    );
    let there: i64 = server.ask(&format!("EXISTS {stream}"));
    assert_eq!(there, 0, "records behind a hole");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_journal_that_was_evicted_whole_is_not_one_that_never_existed() {
    let Some(server) = RedisServer::start(&[]) else {
        return;
    };
    let store = open(&server.url()).await;
    ended(&store, "gone").await;
    ended(&store, "kept").await;
    for name in keys(&server, ":gone") {
        let _: i64 = server.ask(&format!("DEL {name}"));
    }
    refused(store.state(&key("gone")).await, ErrorKind::StoreCorrupt);
    let read = store
        .read(&key("gone"), after(0), PageLimit::default())
        .await;
    refused(read, ErrorKind::StoreCorrupt);
    for intent in [Intent::Create, Intent::TakeOver, Intent::Regenerate] {
        // A new generation could be an old one's number.
        let claimed = store.claim(claim("gone", intent, START)).await;
        refused(claimed, ErrorKind::StoreCorrupt);
    }
    refused(store.state(&key("never")).await, ErrorKind::NotFound);
    // It hides no other, and can be removed.
    let listed = store.list(None, 10).await.unwrap();
    assert_eq!(listed.len(), 1);
    assert!(store.delete(&key("gone")).await.unwrap());
    refused(store.state(&key("gone")).await, ErrorKind::NotFound);
    create(&store, "gone").await;
}

const JOURNALS: usize = 200;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_evicts_at_random_never_makes_an_answer_look_ended_early() {
    let Some(server) = RedisServer::start(&["--maxmemory-policy", "allkeys-random"]) else {
        return;
    };
    let store = open(&server.url()).await;
    for number in 0..JOURNALS {
        ended(&store, &format!("j{number}")).await;
    }
    let used: String = server.ask("INFO memory");
    let used = used
        .lines()
        .find_map(|line| line.strip_prefix("used_memory:"));
    let used: u64 = used.unwrap().trim().parse().unwrap();
    let _: String = server.ask(&format!("CONFIG SET maxmemory {}", used - 60_000));
    // It evicts when it is next asked for something.
    let _: String = server.ask("PING");
    let (mut whole, mut told) = (0, 0);
    for number in 0..JOURNALS {
        let name = format!("j{number}");
        match all(&store, &name).await {
            Ok(records) => {
                assert_eq!(records.len(), 9, "{name} ended early");
                whole += 1;
            }
            Err(error) => {
                let kinds = [ErrorKind::StoreCorrupt, ErrorKind::NotFound];
                assert!(kinds.contains(&error.kind()), "{error}");
                told += 1;
            }
        }
    }
    assert!(whole > 0 && told > 0, "{whole} whole, {told} told");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flushed_server_knows_no_journal_and_takes_no_old_writer() {
    let Some(server) = RedisServer::start(&[]) else {
        return;
    };
    let store = open(&server.url()).await;
    let old = create(&store, "flushed").await;
    store.append(&old, batch(1..=3, RUNNING)).await.unwrap();
    let _: String = server.ask("FLUSHALL");
    refused(
        store.append(&old, batch(4..=4, RUNNING)).await,
        ErrorKind::StaleLease,
    );
    refused(all(&store, "flushed").await, ErrorKind::NotFound);
    // Nothing is left of the old lease, and yet nobody gets it a second time.
    let new = create(&store, "flushed").await;
    assert!(new.token > old.token);
    refused(
        store.append(&old, batch(1..=1, RUNNING)).await,
        ErrorKind::StaleLease,
    );
    store.append(&new, batch(1..=1, RUNNING)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_records_that_a_server_has_lost_are_told_to_their_writer() {
    let Some(server) = RedisServer::start(&[]) else {
        return;
    };
    let store = open(&server.url()).await;
    let lease = create(&store, "short").await;
    store.append(&lease, batch(1..=3, RUNNING)).await.unwrap();
    store.append(&lease, batch(4..=6, RUNNING)).await.unwrap();
    // As a replica that was behind when it took over.
    let hash = &keys(&server, ":j:short")[0];
    let stream = &keys(&server, ":r:short")[0];
    let _: i64 = server.ask(&format!("HSET {hash} head 3"));
    let _: i64 = server.ask(&format!("XDEL {stream} 1-6"));
    let error = refused(
        store.append(&lease, batch(7..=7, RUNNING)).await,
        ErrorKind::StoreCorrupt,
    );
    assert!(error.message().contains("acknowledged"), "{error}");
}

fn wall_clock() -> WallTime {
    let since = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    WallTime::from_millis(0).after(since)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_journal_that_redis_let_go_at_its_time_is_expired_and_its_memory_comes_back() {
    let Some(server) = RedisServer::start(&[]) else {
        return;
    };
    let store = settings(&server.url())
        .grace(Duration::ZERO)
        .open()
        .await
        .unwrap();
    let short = |name: &str, lease_for| Claim {
        now: wall_clock(),
        lease_for,
        keep_for: Duration::from_millis(700),
        ..claim(name, Intent::Create, START)
    };
    let at_rest = |numbers| streamkeep::store::Batch {
        now: wall_clock(),
        ..batch(numbers, COMPLETE)
    };
    let hour = Duration::from_secs(3600);
    let (held, _) = granted(store.claim(short("held", hour)).await.unwrap());
    store.append(&held, batch(1..=2, RUNNING)).await.unwrap();
    let (lease, _) = granted(store.claim(short("was", hour / 3600)).await.unwrap());
    store.append(&lease, at_rest(1..=3)).await.unwrap();
    let was = key("was");
    let gone = until(|| store.state(&was), Result::is_err).await;
    refused(gone, ErrorKind::Expired);
    let read = store
        .read(&key("was"), after(0), PageLimit::default())
        .await;
    refused(read, ErrorKind::Expired);
    refused(
        store
            .claim(claim("was", Intent::TakeOver, wall_clock()))
            .await,
        ErrorKind::Expired,
    );
    // A writer that is silent for longer than its journal is kept finds it.
    let listed = store.list(None, 10).await.unwrap();
    let listed: Vec<&str> = listed.iter().map(|state| state.key.as_str()).collect();
    assert_eq!(listed, ["held"]);
    store.append(&held, batch(3..=3, RUNNING)).await.unwrap();
    // A new generation in its place, as after a collection.
    let (again, state) = granted(store.claim(short("was", hour / 3600)).await.unwrap());
    assert!(again.generation > Generation::FIRST && again.token > lease.token);
    assert_eq!(state.head, Seq::ZERO);
    store.append(&again, at_rest(1..=3)).await.unwrap();
    // And in the end there is nothing left but the one that is held.
    until(
        || async { keys(&server, ":was") },
        |keys: &Vec<String>| keys.is_empty(),
    )
    .await;
    refused(store.state(&key("was")).await, ErrorKind::NotFound);
    store.collect(wall_clock()).await.unwrap();
    let vanish: Vec<String> = keys(&server, ":vanish")
        .iter()
        .flat_map(|name| server.ask::<Vec<String>>(&format!("ZRANGE {name} 0 -1")))
        .collect();
    assert_eq!(vanish, ["held"]);
}
