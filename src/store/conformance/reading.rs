//! Pages, handles, reopening and watching.

use super::*;
use crate::store::PageLimit;

/// Contract line 5: every cursor, with limits from tiny to ample.
pub async fn line_05_a_page_holds_what_follows_the_cursor(factory: &dyn StoreFactory) {
    const LAST: u64 = 23;
    let store = factory.open().await;
    let lease = create(&*store, "pages").await;
    for (from, to) in [(1, 1), (2, 2), (3, 12), (13, 14), (15, 23)] {
        store
            .append(&lease, batch(from..=to, RUNNING, START))
            .await
            .unwrap();
    }
    for limit in [
        (0, 0),
        (1, usize::MAX),
        (3, usize::MAX),
        (usize::MAX, 1),
        (usize::MAX, 200),
        (usize::MAX, usize::MAX),
    ] {
        let limit = PageLimit {
            records: limit.0,
            bytes: limit.1,
        };
        for from in 0..=LAST {
            let page = store
                .read(&key("pages"), cursor(Generation::FIRST, from), limit)
                .await
                .unwrap();
            assert_eq!(page.head, Seq::new(LAST));
            assert_eq!(page.state.head, Seq::new(LAST));
            let count = page.records.len() as u64;
            assert_eq!(page.records, records(from + 1..=from + count));
            assert!(count <= limit.records.max(1) as u64, "over the limit");
            assert_eq!(count == 0, from == LAST, "an empty page before the end");
            assert!(limit.bytes > 1 || count <= 1, "over the limit");
            if limit.records == usize::MAX && limit.bytes == usize::MAX {
                assert_eq!(from + count, LAST, "a page ended early without a limit");
            }
        }
    }
}

/// Contract line 5, for a cursor that no record has.
pub async fn line_05_a_cursor_that_is_ahead_is_told_so(factory: &dyn StoreFactory) {
    let store = factory.open().await;
    let lease = create(&*store, "ahead").await;
    let read = |at| {
        let store = &store;
        async move { store.read(&key("ahead"), at, PageLimit::default()).await }
    };
    refused(
        read(cursor(Generation::FIRST, 1)).await,
        ErrorKind::CursorAhead,
    );
    store
        .append(&lease, batch(1..=2, RUNNING, START))
        .await
        .unwrap();
    for at in [3, 4, u64::MAX] {
        let at = cursor(Generation::FIRST, at);
        refused(read(at).await, ErrorKind::CursorAhead);
    }
    let next = Generation::FIRST.next();
    refused(read(cursor(next, 0)).await, ErrorKind::CursorAhead);
    assert!(
        read(cursor(Generation::FIRST, 2))
            .await
            .unwrap()
            .records
            .is_empty()
    );
}

/// Contract line 5, across a regeneration.
pub async fn line_05_older_generations_stay_readable(factory: &dyn StoreFactory) {
    let store = factory.open().await;
    let first = create(&*store, "older").await;
    store
        .append(&first, batch(1..=4, COMPLETE, START))
        .await
        .unwrap();
    let again = store
        .claim(claim("older", Intent::Regenerate, after(1)))
        .await;
    let (second, _) = granted(again);
    assert!(second.token > first.token);
    store
        .append(&second, batch(1..=2, RUNNING, after(1)))
        .await
        .unwrap();
    let page = store
        .read(
            &key("older"),
            cursor(Generation::FIRST, 1),
            PageLimit::default(),
        )
        .await
        .unwrap();
    assert_eq!(page.records, records(2..=4));
    assert_eq!(page.head, Seq::new(4));
    assert_eq!(page.state.generation, second.generation);
    assert_eq!((page.state.head, page.state.status), (Seq::new(2), RUNNING));
    let beyond = store
        .read(
            &key("older"),
            cursor(Generation::FIRST, 5),
            PageLimit::default(),
        )
        .await;
    refused(beyond, ErrorKind::CursorAhead);
    assert_eq!(
        all(&*store, "older", second.generation).await,
        records(1..=2)
    );
}

/// Contract line 5, for records far larger than a token.
pub async fn line_05_records_of_any_size_read_back(factory: &dyn StoreFactory) {
    let store = factory.open().await;
    let lease = create(&*store, "sizes").await;
    let mut expected = Vec::new();
    let sizes = [0, 1, 4_000, 40_000, 140_000, 600_000, 3 << 20];
    for (seq, size) in (1..).zip(sizes) {
        let data: String = "aé日🦀".chars().cycle().take(size).collect();
        let body = Body::Event(Delivered {
            name: "large".into(),
            data: data.into(),
            provider_seq: None,
        });
        let record = Record {
            seq: Seq::new(seq),
            at: START,
            body,
        };
        expected.push(record.clone());
        let batch = Batch {
            records: vec![record],
            status: RUNNING,
            now: START,
        };
        store.append(&lease, batch).await.unwrap();
    }
    // And some thousand small ones at once.
    let many = batch(8..=6000, RUNNING, START);
    expected.extend(many.records.clone());
    store.append(&lease, many).await.unwrap();
    assert!(
        all(&*store, "sizes", Generation::FIRST).await == expected,
        "expected the records that were appended, but found others"
    );
}

/// Contract line 6.
pub async fn line_06_an_acknowledged_record_is_there_for_every_handle(factory: &dyn StoreFactory) {
    let store = factory.open().await;
    let other = factory.another(&store);
    let lease = create(&*store, "handles").await;
    for seq in 1..=50 {
        store
            .append(&lease, batch([seq], RUNNING, START))
            .await
            .unwrap();
        let at = cursor(Generation::FIRST, seq - 1);
        let page = other
            .read(&key("handles"), at, PageLimit::default())
            .await
            .unwrap();
        assert_eq!(page.records, records([seq]));
        let state = other.state(&key("handles")).await.unwrap();
        assert_eq!(state.head, Seq::new(seq));
    }
}

/// Contract line 7, as far as closing and opening can show it.
pub async fn line_07_what_is_acknowledged_survives_a_reopen(factory: &dyn StoreFactory) {
    if !factory.capabilities().survives_reopen {
        return;
    }
    let mut store = factory.open().await;
    let lease = create(&*store, "kept").await;
    let ended = create(&*store, "ended").await;
    create(&*store, "empty").await;
    create(&*store, "over").await;
    store
        .append(&lease, batch(1..=9, RUNNING, after(1)))
        .await
        .unwrap();
    store
        .append(&ended, batch(1..=2, COMPLETE, after(1)))
        .await
        .unwrap();
    let again = store
        .claim(claim("ended", Intent::Regenerate, after(2)))
        .await;
    let (second, _) = granted(again);
    store
        .append(&second, batch(1..=3, Status::Interrupted, after(2)))
        .await
        .unwrap();
    store.release(&second).await.unwrap();
    store.renew(&lease, after(5000)).await.unwrap();
    assert!(store.delete(&key("over")).await.unwrap());
    let before = store.list(None, 10).await.unwrap();
    assert_eq!(before.len(), 3);
    for _ in 0..3 {
        store = factory.reopen(store).await;
        assert_eq!(store.list(None, 10).await.unwrap(), before);
        assert_eq!(
            all(&*store, "kept", Generation::FIRST).await,
            records(1..=9)
        );
        assert_eq!(
            all(&*store, "ended", Generation::FIRST).await,
            records(1..=2)
        );
        assert_eq!(
            all(&*store, "ended", second.generation).await,
            records(1..=3)
        );
        refused(store.state(&key("over")).await, ErrorKind::NotFound);
    }
    // The lease is good across it, and so is the fence.
    store
        .append(&lease, batch([10], RUNNING, after(3)))
        .await
        .unwrap();
    let answer = store.append(&second, batch([4], RUNNING, after(3))).await;
    refused(answer, ErrorKind::StaleLease);
    let next = store
        .claim(claim("ended", Intent::TakeOver, after(3)))
        .await;
    assert!(granted(next).0.token > second.token);
    let (anew, _) = granted(store.claim(claim("over", Intent::Create, after(3))).await);
    assert!(anew.generation > Generation::FIRST);
    // And what expired is remembered.
    let mut late = after(3);
    late = late.after(KEEP * 2);
    assert_eq!(store.collect(late).await.unwrap().journals, 3);
    store = factory.reopen(store).await;
    refused(store.state(&key("empty")).await, ErrorKind::Expired);
    refused(store.state(&key("never")).await, ErrorKind::NotFound);
}

/// Contract line 16.
pub async fn line_16_a_watcher_is_woken(factory: &dyn StoreFactory) {
    let store = factory.open().await;
    let other = factory.another(&store);
    let mut watch = other.watch(&key("watched"));
    let lease = create(&*store, "watched").await;
    // Whatever woke it so far: it is the next one that is asked about.
    for (number, status) in [(1, RUNNING), (2, RUNNING), (3, COMPLETE)] {
        let batch = batch([number], status, START);
        store.append(&lease, batch).await.unwrap();
        loop {
            soon(watch.changed()).await;
            let head = other.state(&key("watched")).await.unwrap().head;
            if head == Seq::new(number) {
                break;
            }
        }
    }
    let collected = store.collect(START.after(KEEP * 2)).await.unwrap();
    assert_eq!(collected.journals, 1);
    loop {
        soon(watch.changed()).await;
        if other.state(&key("watched")).await.is_err() {
            break;
        }
    }
    let mut watch = store.watch(&key("deleted"));
    create(&*store, "deleted").await;
    store.delete(&key("deleted")).await.unwrap();
    loop {
        soon(watch.changed()).await;
        if store.state(&key("deleted")).await.is_err() {
            break;
        }
    }
}

/// Contract lines 5, 6 and 16 together: the way a subscriber reads.
pub async fn line_16_a_follower_sees_every_record_once(factory: &dyn StoreFactory) {
    const LAST: u64 = 300;
    let store = factory.open().await;
    let mut followers = Vec::new();
    for _ in 0..4 {
        let other = factory.another(&store);
        followers.push(tokio::spawn(async move {
            // The watcher first, the page second: nothing falls between.
            let mut watch = other.watch(&key("followed"));
            let mut seen = Vec::new();
            while (seen.len() as u64) < LAST {
                let at = cursor(Generation::FIRST, seen.len() as u64);
                match other.read(&key("followed"), at, PageLimit::default()).await {
                    Ok(page) if page.records.is_empty() => watch.changed().await,
                    Ok(page) => seen.extend(page.records),
                    Err(error) if error.kind() == ErrorKind::NotFound => watch.changed().await,
                    Err(error) => panic!("expected a page, but found {error}"),
                }
            }
            assert_eq!(seen, records(1..=LAST));
        }));
    }
    let lease = create(&*store, "followed").await;
    let mut next = 1;
    while next <= LAST {
        let to = LAST.min(next + next % 4);
        let status = if to == LAST { COMPLETE } else { RUNNING };
        store
            .append(&lease, batch(next..=to, status, START))
            .await
            .unwrap();
        next = to + 1;
        tokio::task::yield_now().await;
    }
    for follower in followers {
        soon(follower).await.unwrap();
    }
}
