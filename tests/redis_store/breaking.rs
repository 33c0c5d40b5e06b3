//! Connections that break and servers that are away.

use crate::server::RedisServer;
use crate::support::*;
use std::sync::Arc;
use std::time::Duration;
use streamkeep::ErrorKind;
use streamkeep::proto::model::Seq;
use streamkeep::store::{Intent, Store};
use streamkeep::testkit::{ByteProxy, Cut, ProxyPlan};

fn url_of(proxy: &ByteProxy) -> String {
    format!("redis://{}", proxy.address())
}

/// One writer's day, each step of which must come out as if nothing had broken.
async fn a_day(url: &str, name: &str, response_timeout: Duration) {
    let store = settings(url)
        .response_timeout(response_timeout)
        .open()
        .await
        .unwrap();
    let lease = create(&store, name).await;
    let mut written = Vec::new();
    for (numbers, status) in [(1..=3, RUNNING), (4..=4, RUNNING), (5..=9, COMPLETE)] {
        let batch = batch(numbers.clone(), status);
        written.extend(batch.records.clone());
        let head = store.append(&lease, batch).await.unwrap();
        assert_eq!(head, Seq::new(*numbers.end()));
    }
    assert_eq!(all(&store, name).await.unwrap(), written);
    assert!(store.delete(&key(name)).await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_cut_at_any_byte_of_an_answer_costs_nothing_and_doubles_nothing() {
    let Some(server) = RedisServer::start(&["--appendfsync", "no"]) else {
        return;
    };
    // Whatever the scripts are told from is known to the server from here on.
    a_day(&server.url(), "first", Duration::from_secs(2)).await;
    let whole = {
        let proxy = ByteProxy::start(&server.address(), ProxyPlan::new())
            .await
            .unwrap();
        a_day(&url_of(&proxy), "whole", Duration::from_secs(2)).await;
        proxy.connections()[0].to_client
    };
    assert!(whole > 200, "{whole} bytes of answers");
    for bytes in (0..whole).step_by(3) {
        let cut = if bytes % 2 == 0 {
            Cut::Rst(bytes)
        } else {
            Cut::Fin(bytes)
        };
        let plan = ProxyPlan::new().on(1, cut.clone()).on(2, cut);
        let proxy = ByteProxy::start(&server.address(), plan).await.unwrap();
        a_day(
            &url_of(&proxy),
            &format!("cut-{bytes}"),
            Duration::from_secs(2),
        )
        .await;
        assert!(proxy.connections().len() > 1, "nothing was cut at {bytes}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_falls_silent_is_given_up_and_nothing_is_doubled() {
    let Some(server) = RedisServer::start(&["--appendfsync", "no"]) else {
        return;
    };
    let whole = {
        let proxy = ByteProxy::start(&server.address(), ProxyPlan::new())
            .await
            .unwrap();
        a_day(&url_of(&proxy), "whole", Duration::from_secs(2)).await;
        proxy.connections()[0].to_client
    };
    let days = (0..whole).step_by(29).map(|bytes| {
        let address = server.address();
        tokio::spawn(async move {
            let plan = ProxyPlan::new().on(1, Cut::Stall(bytes));
            let proxy = ByteProxy::start(&address, plan).await.unwrap();
            a_day(
                &url_of(&proxy),
                &format!("stall-{bytes}"),
                Duration::from_millis(300),
            )
            .await;
        })
    });
    for day in days.collect::<Vec<_>>() {
        soon(day).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_killed_by_the_server_under_load_lose_and_double_nothing() {
    let Some(server) = RedisServer::start(&["--appendfsync", "no"]) else {
        return;
    };
    let (store, other) = (
        Arc::new(open(&server.url()).await),
        Arc::new(open(&server.url()).await),
    );
    let names = ["a", "b", "c", "d"];
    let writers = names.map(|name| Writer::start(Arc::clone(&store), name));
    let readers = names.map(|name| follow(Arc::clone(&other), name, 0));
    for round in 0..20 {
        writers[round % 4].goes_on(5).await;
        for kind in ["normal", "pubsub"] {
            let _: i64 = server.ask(&format!("CLIENT KILL TYPE {kind}"));
        }
    }
    for ((name, writer), reader) in names.into_iter().zip(writers).zip(readers) {
        let acknowledged = writer.end().await;
        let seen = soon(reader).await.unwrap();
        let stored = all(&*other, name).await.unwrap();
        check_history(&acknowledged, &stored, &[(0, seen)]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_killed_under_load_loses_nothing_that_it_acknowledged() {
    let Some(server) = RedisServer::start(&[]) else {
        return;
    };
    let (store, other) = (
        Arc::new(open(&server.url()).await),
        Arc::new(open(&server.url()).await),
    );
    let names = ["a", "b", "c", "d"];
    let writers = names.map(|name| Writer::start(Arc::clone(&store), name));
    let readers = names.map(|name| follow(Arc::clone(&other), name, 0));
    for round in 0..5 {
        writers[round % 4].goes_on(10).await;
        server.kill();
        server.revive();
    }
    for ((name, writer), reader) in names.into_iter().zip(writers).zip(readers) {
        writer.goes_on(1).await;
        let acknowledged = writer.end().await;
        let seen = soon(reader).await.unwrap();
        let stored = all(&*other, name).await.unwrap();
        check_history(&acknowledged, &stored, &[(0, seen)]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_append_to_a_server_that_stands_still_is_there_once_when_it_goes_on() {
    let Some(server) = RedisServer::start(&[]) else {
        return;
    };
    let proxy = ByteProxy::start(&server.address(), ProxyPlan::new())
        .await
        .unwrap();
    let store = settings(&url_of(&proxy))
        .response_timeout(Duration::from_millis(300))
        .open()
        .await
        .unwrap();
    let lease = create(&store, "frozen").await;
    let before = proxy.connections().len();
    server.freeze();
    let batch = batch(1..=3, RUNNING);
    let records = batch.records.clone();
    let appending = tokio::spawn(async move {
        let head = store.append(&lease, batch).await;
        (store, head)
    });
    // It was given up once, and asked again through another connection.
    soon(proxy.wait_for_connections(before + 2)).await;
    server.thaw();
    let (store, head) = soon(appending).await.unwrap();
    assert_eq!(head.unwrap(), Seq::new(3));
    assert_eq!(all(&store, "frozen").await.unwrap(), records);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stays_away_is_told_in_bounded_time_and_taken_back_later() {
    let Some(server) = RedisServer::start(&[]) else {
        return;
    };
    let store = settings(&server.url())
        .patience(Duration::from_millis(300))
        .open()
        .await
        .unwrap();
    let lease = create(&store, "away").await;
    store.append(&lease, batch(1..=1, RUNNING)).await.unwrap();
    server.kill();
    refused(store.state(&key("away")).await, ErrorKind::StoreUnavailable);
    let error = refused(
        store.append(&lease, batch(2..=2, RUNNING)).await,
        ErrorKind::StoreUnavailable,
    );
    assert!(error.message().contains("refused"), "{error}");
    refused(
        settings(&server.url())
            .patience(Duration::from_millis(300))
            .open()
            .await,
        ErrorKind::StoreUnavailable,
    );
    server.revive();
    let head = store.append(&lease, batch(2..=2, RUNNING)).await.unwrap();
    assert_eq!(head, Seq::new(2));
}

/// The scripts that the server has run, oldest first, each with its arguments as it
/// was sent. Its slow log holds them, if everything is slow.
fn scripts_run(server: &RedisServer) -> Vec<Vec<Vec<u8>>> {
    type Entry = (i64, i64, i64, Vec<Vec<u8>>);
    let log: Vec<redis::Value> = server.ask("SLOWLOG GET -1");
    let entries = log.into_iter().rev().map(|entry| {
        let redis::Value::Array(mut parts) = entry else {
            panic!("expected an entry, but found {entry:?}");
        };
        parts.truncate(4);
        let entry: Entry = redis::from_redis_value(redis::Value::Array(parts)).unwrap();
        entry.3
    });
    entries
        .filter(|words| words[0].starts_with(b"EVAL"))
        .collect()
}

fn run_again(server: &RedisServer, words: &[Vec<u8>]) {
    let mut command = redis::cmd(std::str::from_utf8(&words[0]).unwrap());
    for word in &words[1..] {
        command.arg(&word[..]);
    }
    let _: redis::Value = command.query(&mut server.connection()).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_arrives_a_second_time_and_late_changes_nothing() {
    let slow = [
        "--slowlog-log-slower-than",
        "0",
        "--slowlog-max-len",
        "1000",
    ];
    let Some(server) = RedisServer::start(&slow) else {
        return;
    };
    let store = open(&server.url()).await;
    // So that the server knows the scripts, and their texts are not in the log.
    a_day(&server.url(), "first", Duration::from_secs(2)).await;
    let _: String = server.ask("SLOWLOG RESET");
    let now = |seconds| START.after(Duration::from_secs(seconds));
    let old = create(&store, "late").await;
    store.append(&old, batch(1..=2, RUNNING)).await.unwrap();
    store.append(&old, batch(3..=3, RUNNING)).await.unwrap();
    store.renew(&old, now(10)).await.unwrap();
    store.release(&old).await.unwrap();
    let taken = store.claim(claim("late", Intent::TakeOver, now(11))).await;
    let (new, _) = granted(taken.unwrap());
    store.append(&new, batch(4..=4, RUNNING)).await.unwrap();
    let look = || async {
        let state = store.state(&key("late")).await.unwrap();
        (state, all(&store, "late").await.unwrap())
    };
    let before = look().await;
    let scripts = scripts_run(&server);
    assert!(scripts.len() >= 7, "{} scripts", scripts.len());
    for script in &scripts {
        run_again(&server, script);
        assert_eq!(look().await, before, "{script:?}");
    }
    // Neither does it when the journal is gone, and when another is in its place.
    assert!(store.delete(&key("late")).await.unwrap());
    let new = create(&store, "late").await;
    let before = store.state(&key("late")).await.unwrap();
    // (A late claim is a claim like any other: its lease runs out by itself.)
    let is_claim = |script: &&Vec<Vec<u8>>| script.iter().any(|word| word == b"takeover");
    for script in scripts.iter().filter(|script| !is_claim(script)) {
        run_again(&server, script);
        assert_eq!(store.state(&key("late")).await.unwrap(), before);
    }
    store.append(&new, batch(1..=1, RUNNING)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_call_with_the_same_records_is_a_mistake_of_its_own() {
    let Some(server) = RedisServer::start(&[]) else {
        return;
    };
    let store = open(&server.url()).await;
    let lease = create(&store, "again").await;
    let first = batch(1..=2, RUNNING);
    store.append(&lease, first.clone()).await.unwrap();
    refused(store.append(&lease, first).await, ErrorKind::WrongSequence);
    assert_eq!(all(&store, "again").await.unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_that_the_server_forgot_are_sent_again() {
    let Some(server) = RedisServer::start(&[]) else {
        return;
    };
    let store = open(&server.url()).await;
    let lease = create(&store, "forgot").await;
    for number in 1..=3 {
        let _: String = server.ask("SCRIPT FLUSH");
        store
            .append(&lease, batch([number], RUNNING))
            .await
            .unwrap();
    }
    assert_eq!(all(&store, "forgot").await.unwrap().len(), 3);
}
