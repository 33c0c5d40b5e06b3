//! `kill -9` in the middle of an answer, twenty times, at twenty places.
//!
//! A child process streams a background response into a sled store and prints
//! every event it shows a reader, with its cursor. It is killed after so many of
//! them. What it had shown must be in the journal, record for record; a reader of
//! the dead writer's journal is told, not left to wait; and the answer is finished
//! through the provider's cursor, once and whole.
//!
//! The test is its own child: with `KILL_CHILD` set it is the one that streams.

#![cfg(all(unix, feature = "reqwest", feature = "sled", feature = "testkit"))]
#![cfg(test)] // else the lints take the helpers for production code

#[path = "support/background.rs"]
mod background;

use background::{WORDS, key, request};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use streamkeep::client::Attached;
use streamkeep::proto::model::{Cursor, Generation, Seq};
use streamkeep::proto::operation::Outcome;
use streamkeep::store::SledStore;
use streamkeep::testkit::{Gate, Scenario, Upstream, Words};
use streamkeep::{Client, ErrorKind};

async fn client(folder: &Path) -> Client {
    let store = SledStore::open(folder).await.unwrap();
    Client::builder()
        .store(store)
        .lease(Duration::from_secs(1))
        .build()
        .unwrap()
}

/// The child: shows a reader the answer, one line per event.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    let Ok(folder) = std::env::var("KILL_CHILD") else {
        return;
    };
    let base = std::env::var("KILL_UPSTREAM").unwrap();
    let client = client(Path::new(&folder)).await;
    let handle = client
        .call(request(&base))
        .key(key())
        .start()
        .await
        .unwrap();
    let mut reader = handle.subscribe();
    while let Some((cursor, event)) = reader.next_event().await.unwrap() {
        println!("shown {cursor} {}", event.data);
    }
    // Never by itself: the parent kills it first.
    std::future::pending::<()>().await;
}

/// Runs the child until it has shown `events`, and kills it there. The upstream
/// lets one event through for each that was shown, so the kill falls into the
/// middle of the answer every time.
async fn shown_before_death(
    folder: &Path,
    base: &str,
    gate: &Gate,
    events: usize,
) -> Vec<(Cursor, String)> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture"])
        .env("KILL_CHILD", folder)
        .env("KILL_UPSTREAM", base)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let stdout = child.stdout.take().unwrap();
    // The preamble is shown with the first output: a few events at once.
    gate.permit(8);
    let gate = gate.clone();
    tokio::task::spawn_blocking(move || {
        let mut shown = Vec::new();
        for line in BufReader::new(stdout).lines() {
            let line = line.unwrap();
            let Some(rest) = line.split("shown ").nth(1) else {
                continue;
            };
            let (cursor, data) = rest.split_once(' ').unwrap();
            shown.push((cursor.parse().unwrap(), data.to_owned()));
            gate.permit(1);
            if shown.len() == events {
                child.kill().unwrap();
                break;
            }
        }
        child.wait().unwrap();
        shown
    })
    .await
    .unwrap()
}

async fn killed_after(events: usize) {
    let folder = tempfile::tempdir().unwrap();
    let gate = Gate::new();
    let scenario = Scenario::openai_responses().words(WORDS).gate(&gate);
    let upstream = Upstream::start(scenario).await.unwrap();
    let shown = shown_before_death(folder.path(), &upstream.url(), &gate, events).await;
    assert_eq!(shown.len(), events);

    // The journal, opened by another process: everything that was shown is there.
    let client = client(folder.path()).await;
    let dead = client.attach(&key()).await.unwrap();
    let mut reader = dead.subscribe();
    let mut kept = Vec::new();
    let told = loop {
        match reader.next_event().await {
            Ok(Some((cursor, event))) => kept.push((cursor, event.data.as_str().to_owned())),
            Ok(None) => panic!("a reader of a dead writer was told that all is well"),
            Err(error) => break error,
        }
    };
    assert_eq!(told.kind(), ErrorKind::Truncated);
    assert_eq!(
        kept.get(..events).unwrap(),
        shown,
        "an event that was shown is not in the journal"
    );

    // The same call again finishes it through the provider's cursor.
    gate.open();
    let handle = client
        .call(request(&upstream.url()))
        .key(key())
        .start()
        .await
        .unwrap();
    assert_eq!(handle.attached(), Attached::TookOver);
    assert!(matches!(handle.outcome().await.unwrap(), Outcome::Ended(_)));
    let answer = handle.complete().await.unwrap();
    assert_eq!(
        Words::numbered(WORDS).count_in(answer.text()),
        Ok(WORDS),
        "a gap or a duplicate"
    );
    let posts = upstream
        .requests()
        .iter()
        .filter(|request| request.method == "POST")
        .count();
    assert_eq!(posts, 1, "nothing was generated twice");

    // A reader that stood in the middle before the kill gets exactly the rest.
    let mut all = Vec::new();
    let mut from_start = handle.subscribe_after(Cursor::new(Generation::FIRST, Seq::ZERO));
    while let Some((cursor, event)) = from_start.next_event().await.unwrap() {
        all.push((cursor, event.data.as_str().to_owned()));
    }
    let (last_shown, _) = shown[events - 1];
    let mut from_there = handle.subscribe_after(last_shown);
    let mut rest = Vec::new();
    while let Some((cursor, event)) = from_there.next_event().await.unwrap() {
        rest.push((cursor, event.data.as_str().to_owned()));
    }
    assert_eq!(
        all.get(..events).unwrap(),
        shown,
        "a cursor names another payload now"
    );
    assert_eq!(all.get(events..).unwrap(), rest);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_kills_in_the_middle_of_an_answer_lose_nothing_that_was_shown() {
    // Five at a time: each waits a second for the dead writer's lease.
    for batch in (1..=20).collect::<Vec<usize>>().chunks(5) {
        let kills: Vec<_> = batch
            .iter()
            .map(|n| tokio::spawn(killed_after(n * 3)))
            .collect();
        for kill in kills {
            kill.await.unwrap();
        }
    }
}
