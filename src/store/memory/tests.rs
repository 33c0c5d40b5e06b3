use super::*;
use crate::proto::journal::{Body, Delivered, Record, Status};
use crate::proto::model::{Fingerprint, Text};
use crate::store::Intent;
use std::time::Duration;

const START: WallTime = WallTime::from_millis(1_000_000);
const KEEP: Duration = Duration::from_secs(100);

fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

fn claim(name: &str, intent: Intent, now: WallTime) -> Claim {
    Claim {
        key: key(name),
        fingerprint: Fingerprint::from_bytes([1; 32]),
        intent,
        now,
        lease_for: Duration::from_secs(1),
        keep_for: KEEP,
    }
}

async fn claimed(store: &MemoryStore, name: &str, intent: Intent, now: WallTime) -> Result<Lease> {
    match store.claim(claim(name, intent, now)).await? {
        Claimed::Granted(lease, _) => Ok(lease),
        other @ Claimed::Existing(_) => panic!("expected a grant, but found {other:?}"),
    }
}

fn batch(seq: u64, data: Text, now: WallTime) -> Batch {
    let record = Record {
        seq: Seq::new(seq),
        at: now,
        body: Body::Event(Delivered {
            name: "".into(),
            data,
            provider_seq: None,
        }),
    };
    Batch {
        records: vec![record],
        status: Status::Running,
        now,
    }
}

#[tokio::test]
async fn a_full_store_refuses_and_keeps_what_it_has() {
    let store = MemoryStore::with_max_bytes(8700);
    let lease = claimed(&store, "a", Intent::Create, START).await.unwrap();
    let data = Text::from("x".repeat(1000));
    let mut head = 0;
    let error = loop {
        let next = batch(head + 1, data.clone(), START);
        match store.append(&lease, next).await {
            Ok(seq) => head = seq.get(),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::StoreFull);
    // 512 for the generation, and 1,000 + 32 + 64 for each append.
    assert_eq!(head, 7);
    assert_eq!(store.state(&key("a")).await.unwrap().head, Seq::new(7));
    // A small one still fits, and the number is the one that was refused.
    store
        .append(&lease, batch(8, "x".into(), START))
        .await
        .unwrap();
    // Keys are not free either.
    let mut keys = 0;
    let error = loop {
        match claimed(&store, &format!("k{keys}"), Intent::Create, START).await {
            Ok(_) => keys += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::StoreFull);
    assert!(keys < 16);
}

#[tokio::test]
async fn what_has_expired_makes_room_without_a_collection() {
    let store = MemoryStore::with_max_bytes(8 << 10);
    let data = Text::from("x".repeat(5000));
    for round in 0..20_u32 {
        let now = START.after(KEEP * 3 * round);
        let name = format!("r{round}");
        let lease = claimed(&store, &name, Intent::Create, now).await.unwrap();
        let next = batch(1, data.clone(), now);
        store.append(&lease, next).await.unwrap();
    }
}

#[tokio::test]
async fn nothing_is_left_on_the_bill_of_what_is_gone() {
    let store = MemoryStore::new();
    let bill = || store.lock().bytes;
    for name in ["a", "b", "c"] {
        let first = claimed(&store, name, Intent::Create, START).await.unwrap();
        for seq in 1..=5 {
            store
                .append(&first, batch(seq, "data".into(), START))
                .await
                .unwrap();
        }
        store.release(&first).await.unwrap();
        let second = claimed(&store, name, Intent::Regenerate, START)
            .await
            .unwrap();
        store
            .append(&second, batch(1, "data".into(), START))
            .await
            .unwrap();
    }
    assert!(bill() > 0);
    store.delete(&key("a")).await.unwrap();
    // Claimed anew once it is over, without a collection between.
    let over = START.after(KEEP * 2);
    let third = claimed(&store, "b", Intent::Create, over).await.unwrap();
    store
        .append(&third, batch(1, "data".into(), over))
        .await
        .unwrap();
    store.collect(over.after(KEEP * 10)).await.unwrap();
    store.collect(over.after(KEEP * 100)).await.unwrap();
    assert_eq!(bill(), 0);
}

/// An event of 200 bytes once came in a chunk of 16 KiB, and kept it.
#[tokio::test]
async fn a_small_event_does_not_keep_the_chunk_it_came_in() {
    let store = MemoryStore::new();
    let lease = claimed(&store, "a", Intent::Create, START).await.unwrap();
    let chunk = Bytes::from(vec![b'x'; 16 << 10]);
    let data = Text::from_utf8(chunk.slice(100..300)).unwrap();
    store.append(&lease, batch(1, data, START)).await.unwrap();
    assert!(chunk.is_unique(), "the chunk is still referred to");
    let kept: usize = store.lock().live[&key("a")].runs[0].values[0].frames.len();
    assert!(kept < 300);
}
