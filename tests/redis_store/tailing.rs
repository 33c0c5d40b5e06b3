//! Readers on other machines, and what they cost.

use crate::server::RedisServer;
use crate::support::*;
use std::sync::Arc;
use streamkeep::ErrorKind;
use streamkeep::store::{HeadWatch, Store};

const MANY: usize = 1000;

fn clients(server: &RedisServer) -> Vec<String> {
    let list: String = server.ask("CLIENT LIST");
    let ours = list
        .lines()
        .filter(|line| line.contains("lib-name=streamkeep") || !line.contains("cmd=client"));
    ours.map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_readers_cost_one_connection_and_each_is_woken() {
    let Some(server) = RedisServer::start(&["--appendfsync", "no"]) else {
        return;
    };
    let writer = open(&server.url()).await;
    let reader = open(&server.url()).await;
    let names: Vec<String> = (0..MANY).map(|number| format!("j{number}")).collect();
    let mut watches: Vec<HeadWatch> = names.iter().map(|name| reader.watch(&key(name))).collect();
    // The first wake-up says that it is subscribed.
    for watch in &mut watches {
        soon(watch.changed()).await;
    }
    let connections = clients(&server);
    assert!(connections.len() <= 3, "{connections:#?}");
    for name in &names {
        let lease = create(&writer, name).await;
        writer.append(&lease, batch(1..=1, COMPLETE)).await.unwrap();
    }
    for (name, watch) in names.iter().zip(&mut watches) {
        loop {
            soon(watch.changed()).await;
            let state = reader.state(&key(name)).await;
            if state.is_ok_and(|state| state.status == COMPLETE) {
                break;
            }
        }
    }
    let connections = clients(&server);
    assert!(connections.len() <= 3, "{connections:#?}");
    // Whoever leaves is not told any more.
    drop(watches);
    until(
        || async { server.ask::<Vec<String>>("PUBSUB CHANNELS *") },
        |channels: &Vec<String>| channels.is_empty(),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wake_ups_go_on_after_their_connection_was_killed() {
    let Some(server) = RedisServer::start(&["--appendfsync", "no"]) else {
        return;
    };
    let writer = open(&server.url()).await;
    let reader = open(&server.url()).await;
    let lease = create(&writer, "k").await;
    let mut watch = reader.watch(&key("k"));
    soon(watch.changed()).await;
    for number in 1..=10 {
        let _: i64 = server.ask("CLIENT KILL TYPE pubsub");
        // What is appended while nobody listens is not missed either.
        writer
            .append(&lease, batch([number], RUNNING))
            .await
            .unwrap();
        while reader.state(&key("k")).await.unwrap().head.get() < number {
            soon(watch.changed()).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_beside_a_writer_that_was_dropped_are_woken_all_the_same() {
    let Some(server) = RedisServer::start(&["--appendfsync", "no"]) else {
        return;
    };
    let store = Arc::new(open(&server.url()).await);
    let lease = create(&*store, "k").await;
    // The server knows the script from here on.
    store.append(&lease, batch(1..=1, RUNNING)).await.unwrap();
    let mut watch = store.watch(&key("k"));
    soon(watch.changed()).await;
    // The server stands still, so the append is on its way when it is dropped.
    server.freeze();
    let appending = tokio::spawn({
        let store = Arc::clone(&store);
        let lease = lease.clone();
        async move { store.append(&lease, batch(2..=2, RUNNING)).await }
    });
    tokio::task::yield_now().await;
    until(|| async { tokio::task::yield_now().await }, {
        let mut rounds = 0;
        move |()| {
            rounds += 1;
            rounds > 10_000
        }
    })
    .await;
    appending.abort();
    let aborted = soon(appending).await;
    assert!(aborted.is_err_and(|error| error.is_cancelled()));
    soon(watch.changed()).await;
    server.thaw();
    loop {
        soon(watch.changed()).await;
        if store.state(&key("k")).await.unwrap().head.get() == 2 {
            break;
        }
    }
    // And the writer finds out by asking.
    refused(
        store.append(&lease, batch(2..=2, RUNNING)).await,
        ErrorKind::WrongSequence,
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_is_in_order_across_the_buckets_and_skips_nobody() {
    let Some(server) = RedisServer::start(&["--appendfsync", "no"]) else {
        return;
    };
    let store = Arc::new(settings(&server.url()).buckets(13).open().await.unwrap());
    let mut names: Vec<String> = (0..300)
        .map(|n| format!("{:03}-{{x}}", n * 7919 % 1000))
        .collect();
    // Some buckets have many in a row.
    names.extend((0..100).map(|n| format!("500-{n:03}")));
    for name in &names {
        create(&*store, name).await;
    }
    names.sort();
    for limit in [1, 7, 64, 399, 400, 1000] {
        let mut listed: Vec<String> = Vec::new();
        loop {
            let after = listed.last().map(|last| key(last));
            let page = store.list(after.as_ref(), limit).await.unwrap();
            assert!(page.len() <= limit);
            if page.is_empty() {
                break;
            }
            listed.extend(page.iter().map(|state| state.key.as_str().to_owned()));
        }
        assert!(listed == names, "pages of {limit}");
    }
}
