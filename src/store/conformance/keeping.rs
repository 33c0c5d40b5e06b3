//! Expiry, collection, deletion, and what a list says.

use super::*;
use crate::store::PageLimit;

/// Contract line 13.
pub async fn line_13_expired_is_not_never_existed(factory: &dyn StoreFactory) {
    let store = factory.open().await;
    let lease = create(&*store, "was").await;
    store
        .append(&lease, batch(1..=2, COMPLETE, START))
        .await
        .unwrap();
    refused(store.state(&key("never")).await, ErrorKind::NotFound);
    let never = store
        .read(&key("never"), Cursor::START, PageLimit::default())
        .await;
    refused(never, ErrorKind::NotFound);
    // Past its time, and not collected yet: it can still be read.
    assert_eq!(
        store
            .collect(START.after(KEEP - LEASE))
            .await
            .unwrap()
            .journals,
        0
    );
    assert_eq!(all(&*store, "was", Generation::FIRST).await.len(), 2);
    let end = START.after(KEEP);
    assert_eq!(store.collect(end).await.unwrap().journals, 1);
    // For as long again as it was kept, whoever asks and whatever is collected.
    for now in [end, end.after(KEEP - Duration::from_millis(1))] {
        store.collect(now).await.unwrap();
        refused(store.state(&key("was")).await, ErrorKind::Expired);
        let read = store
            .read(&key("was"), Cursor::START, PageLimit::default())
            .await;
        refused(read, ErrorKind::Expired);
        for intent in [Intent::TakeOver, Intent::Regenerate] {
            refused(
                store.claim(claim("was", intent, now)).await,
                ErrorKind::Expired,
            );
        }
    }
    assert_eq!(store.list(None, 10).await.unwrap(), []);
    // And not for ever.
    store.collect(end.after(KEEP * 3)).await.unwrap();
    refused(store.state(&key("was")).await, ErrorKind::NotFound);
}

/// Contract line 13: a generation is never used twice, whether a collection came
/// between or not, and the key is free for any request.
pub async fn line_13_an_expired_key_begins_a_new_generation(factory: &dyn StoreFactory) {
    let store = factory.open().await;
    for collects in [true, false] {
        let name = if collects { "collected" } else { "left" };
        let old = create(&*store, name).await;
        store
            .append(&old, batch(1..=2, RUNNING, START))
            .await
            .unwrap();
        let end = START.after(KEEP);
        if collects {
            assert_eq!(store.collect(end).await.unwrap().journals, 1);
        }
        let other_request = Claim {
            fingerprint: Fingerprint::from_bytes([9; 32]),
            ..claim(name, Intent::Create, end)
        };
        let (new, state) = granted(store.claim(other_request).await);
        assert!(new.generation > old.generation, "a generation used twice");
        assert!(new.token > old.token, "the token rises");
        assert_eq!((state.head, state.bytes), (Seq::ZERO, 0));
        assert_eq!(state.created_at, end);
        let answer = store.append(&old, batch([3], RUNNING, end)).await;
        refused(answer, ErrorKind::StaleLease);
        store.append(&new, batch([1], RUNNING, end)).await.unwrap();
        assert_eq!(all(&*store, name, new.generation).await, records([1]));
        // The old answer is gone, and is not mistaken for the new one.
        let at = cursor(old.generation, 1);
        let read = store.read(&key(name), at, PageLimit::default()).await;
        refused(read, ErrorKind::Expired);
        store.delete(&key(name)).await.unwrap();
    }
}

/// Contract line 13, for a deletion.
pub async fn line_13_a_deleted_key_begins_a_new_generation(factory: &dyn StoreFactory) {
    let store = factory.open().await;
    assert!(!store.delete(&key("deleted")).await.unwrap());
    let old = create(&*store, "deleted").await;
    store
        .append(&old, batch(1..=20, RUNNING, START))
        .await
        .unwrap();
    assert!(store.delete(&key("deleted")).await.unwrap(), "held or not");
    assert!(!store.delete(&key("deleted")).await.unwrap());
    refused(store.state(&key("deleted")).await, ErrorKind::NotFound);
    let answer = store.append(&old, batch([21], RUNNING, START)).await;
    refused(answer, ErrorKind::StaleLease);
    let (new, _) = granted(store.claim(claim("deleted", Intent::Create, START)).await);
    assert!(new.generation > old.generation, "a generation used twice");
    assert!(new.token > old.token, "the token rises");
    store
        .append(&new, batch([1], RUNNING, START))
        .await
        .unwrap();
    assert_eq!(all(&*store, "deleted", new.generation).await, records([1]));
}

/// Contract line 14.
pub async fn line_14_a_collection_leaves_what_is_held(factory: &dyn StoreFactory) {
    let store = factory.open().await;
    let held = create(&*store, "held").await;
    create(&*store, "free").await;
    let past = START.after(KEEP * 2);
    store.renew(&held, past.after(LEASE)).await.unwrap();
    let collected = store.collect(past).await.unwrap();
    assert_eq!((collected.journals, collected.held), (1, 1));
    refused(store.state(&key("free")).await, ErrorKind::Expired);
    // A writer that was silent for long finds its journal as it left it.
    store
        .append(&held, batch(1..=2, RUNNING, past))
        .await
        .unwrap();
    assert_eq!(
        all(&*store, "held", Generation::FIRST).await,
        records(1..=2)
    );
    // Let go, it is kept from its last append on, and no longer.
    store.release(&held).await.unwrap();
    let collected = store.collect(past.after(KEEP - LEASE)).await.unwrap();
    assert_eq!((collected.journals, collected.held), (0, 0));
    let collected = store.collect(past.after(KEEP)).await.unwrap();
    assert_eq!((collected.journals, collected.held), (1, 0));
}

/// What [`Claim::keep_for`] counts from.
pub async fn line_14_time_is_counted_from_the_last_append(factory: &dyn StoreFactory) {
    let store = factory.open().await;
    let lease = create(&*store, "counted").await;
    let expires = || async { store.state(&key("counted")).await.unwrap().expires_at };
    assert_eq!(expires().await, START.after(KEEP));
    store
        .append(&lease, batch(1..=2, RUNNING, after(100)))
        .await
        .unwrap();
    assert_eq!(expires().await, after(100).after(KEEP));
    // A writer whose clock is behind does not shorten it.
    store
        .append(&lease, batch([3], RUNNING, after(50)))
        .await
        .unwrap();
    assert_eq!(expires().await, after(100).after(KEEP));
    store.renew(&lease, after(999)).await.unwrap();
    assert_eq!(expires().await, after(100).after(KEEP));
}

/// What [`Store::list`] gives.
pub async fn journals_are_listed_in_order(factory: &dyn StoreFactory) {
    let store = factory.open().await;
    assert_eq!(store.list(None, 10).await.unwrap(), []);
    let names = ["a", "B", "a-1", "~", "!", "a10", "a2"];
    for name in names {
        create(&*store, name).await;
    }
    let mut sorted = names.map(key);
    sorted.sort();
    let mut seen = Vec::new();
    loop {
        let after = seen.last().cloned();
        let page = store.list(after.as_ref(), 3).await.unwrap();
        assert!(page.len() <= 3, "over the limit");
        if page.is_empty() {
            break;
        }
        for state in page {
            assert_eq!(store.state(&state.key).await.unwrap(), state);
            seen.push(state.key);
        }
    }
    assert_eq!(seen, sorted);
    let from_between = store.list(Some(&key("a1")), 1).await.unwrap();
    assert_eq!(from_between[0].key, key("a10"));
    assert_eq!(store.list(None, 0).await.unwrap(), []);
}

/// What [`JournalState::bytes`] counts.
pub async fn sizes_are_those_of_the_encoded_records(factory: &dyn StoreFactory) {
    let store = factory.open().await;
    let size = |numbers| {
        let mut out = bytes::BytesMut::new();
        crate::proto::journal::encode(&records(numbers), &mut out).unwrap();
        out.len() as u64
    };
    let first = create(&*store, "sized").await;
    for (from, to) in [(1, 10), (11, 12)] {
        store
            .append(&first, batch(from..=to, RUNNING, START))
            .await
            .unwrap();
        let state = store.state(&key("sized")).await.unwrap();
        assert_eq!(state.bytes, size(1..=to));
    }
    store.release(&first).await.unwrap();
    let (second, state) = granted(store.claim(claim("sized", Intent::Regenerate, START)).await);
    assert_eq!(state.bytes, size(1..=12));
    store
        .append(&second, batch(1..=3, COMPLETE, START))
        .await
        .unwrap();
    let state = store.state(&key("sized")).await.unwrap();
    assert_eq!(state.bytes, size(1..=12) + size(1..=3));
}
