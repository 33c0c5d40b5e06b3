//! Appends.

use super::*;
use crate::store::PageLimit;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// Contract line 1, seen from a reader beside the writer.
pub async fn line_01_an_append_is_seen_whole_or_not_at_all(factory: &dyn StoreFactory) {
    const SIZE: u64 = 7;
    const LAST: u64 = SIZE * 40;
    let store = factory.open().await;
    let lease = create(&*store, "atomic").await;
    let reader = factory.another(&store);
    let reading = tokio::spawn(async move {
        loop {
            let everything = PageLimit {
                records: usize::MAX,
                bytes: usize::MAX,
            };
            let page = reader
                .read(&key("atomic"), Cursor::START, everything)
                .await
                .unwrap();
            let seen = page.records.len() as u64;
            assert_eq!(seen % SIZE, 0, "a part of an append was seen");
            assert_eq!(page.head.get() % SIZE, 0, "a head within an append");
            assert_eq!(page.state.head.get() % SIZE, 0, "a head within an append");
            if seen == LAST {
                return;
            }
            tokio::task::yield_now().await;
        }
    });
    for first in (1..LAST).step_by(7) {
        let batch = batch(first..first + SIZE, RUNNING, START);
        store.append(&lease, batch).await.unwrap();
    }
    soon(reading).await.unwrap();
}

/// Contract line 1, when it is refused.
pub async fn line_01_a_refused_append_leaves_nothing(factory: &dyn StoreFactory) {
    let store = factory.open().await;
    let lease = create(&*store, "refused").await;
    for hole in [vec![1, 2, 4], vec![1, 1], vec![2, 1], vec![1, 2, 3, 2]] {
        let answer = store.append(&lease, batch(hole, COMPLETE, START)).await;
        refused(answer, ErrorKind::WrongSequence);
    }
    let state = store.state(&key("refused")).await.unwrap();
    assert_eq!((state.head, state.status), (Seq::ZERO, RUNNING));
    assert_eq!(all(&*store, "refused", Generation::FIRST).await, []);
}

/// Contract line 2.
pub async fn line_02_numbers_are_dense_in_each_generation(factory: &dyn StoreFactory) {
    let store = factory.open().await;
    let first = create(&*store, "dense").await;
    for (from, to) in [(1, 1), (2, 9), (10, 10)] {
        let head = store
            .append(&first, batch(from..=to, RUNNING, START))
            .await
            .unwrap();
        assert_eq!(head, Seq::new(to));
    }
    store.release(&first).await.unwrap();
    let (second, state) = granted(store.claim(claim("dense", Intent::Regenerate, START)).await);
    assert_eq!(state.generation, Generation::FIRST.next());
    assert_eq!(state.head, Seq::ZERO);
    let answer = store.append(&second, batch([11], RUNNING, START)).await;
    refused(answer, ErrorKind::WrongSequence);
    let head = store
        .append(&second, batch([1, 2], RUNNING, START))
        .await
        .unwrap();
    assert_eq!(head, Seq::new(2));
    assert_eq!(
        all(&*store, "dense", Generation::FIRST).await,
        records(1..=10)
    );
    assert_eq!(
        all(&*store, "dense", second.generation).await,
        records(1..=2)
    );
}

/// Contract line 3.
pub async fn line_03_a_wrong_number_changes_nothing(factory: &dyn StoreFactory) {
    let store = factory.open().await;
    let lease = create(&*store, "wrong").await;
    for wrong in [vec![0], vec![2], vec![]] {
        let answer = store.append(&lease, batch(wrong, COMPLETE, after(1))).await;
        refused(answer, ErrorKind::WrongSequence);
    }
    let head = store.append(&lease, batch(1..=3, RUNNING, START)).await;
    assert_eq!(head.unwrap(), Seq::new(3));
    let before = store.state(&key("wrong")).await.unwrap();
    for wrong in [
        vec![1],
        vec![3],
        vec![3, 4],
        vec![5],
        vec![u64::MAX],
        vec![],
    ] {
        let answer = store.append(&lease, batch(wrong, COMPLETE, after(1))).await;
        refused(answer, ErrorKind::WrongSequence);
    }
    assert_eq!(store.state(&key("wrong")).await.unwrap(), before);
    store
        .append(&lease, batch([4], RUNNING, START))
        .await
        .unwrap();
    assert_eq!(
        all(&*store, "wrong", Generation::FIRST).await,
        records(1..=4)
    );
}

/// Contract line 4.
pub async fn line_04_nothing_follows_a_final_record(factory: &dyn StoreFactory) {
    let store = factory.open().await;
    for end in [
        End::Complete,
        End::Claimed,
        End::Truncated,
        End::Refused,
        End::Filtered,
        End::Failed,
        End::Cancelled,
    ] {
        let name = end.as_str();
        let lease = create(&*store, name).await;
        store
            .append(&lease, batch(1..=2, Status::Ended(end), after(1)))
            .await
            .unwrap();
        let state = store.state(&key(name)).await.unwrap();
        assert_eq!(state.status, Status::Ended(end));
        assert_eq!(
            state.leased_until, None,
            "a final append gives the lease back"
        );
        let answer = store.append(&lease, batch([3], RUNNING, after(1))).await;
        refused(answer, ErrorKind::StaleLease);
        refused(store.renew(&lease, after(99)).await, ErrorKind::StaleLease);
        // Tidying up after it is no mistake.
        store.release(&lease).await.unwrap();
        let taken = store.claim(claim(name, Intent::TakeOver, after(999))).await;
        assert_eq!(existing(taken), state);
        assert_eq!(all(&*store, name, Generation::FIRST).await, records(1..=2));
    }
}

/// Contract line 4, the other way about.
pub async fn line_04_an_interruption_is_not_final(factory: &dyn StoreFactory) {
    let store = factory.open().await;
    let lease = create(&*store, "rests").await;
    let rest = batch(1..=2, Status::Interrupted, START);
    store.append(&lease, rest).await.unwrap();
    let state = store.state(&key("rests")).await.unwrap();
    assert_eq!(state.status, Status::Interrupted);
    assert_eq!(
        state.leased_until, None,
        "an append at rest gives the lease back"
    );
    let late = store.append(&lease, batch([3], RUNNING, START)).await;
    refused(late, ErrorKind::StaleLease);
    let again = store
        .claim(claim("rests", Intent::TakeOver, after(1)))
        .await;
    let (second, _) = granted(again);
    store
        .append(&second, batch([3], RUNNING, after(1)))
        .await
        .unwrap();
    assert_eq!(store.state(&key("rests")).await.unwrap().status, RUNNING);
}

/// Contract line 12.
pub async fn line_12_only_a_renewal_moves_the_lease(factory: &dyn StoreFactory) {
    let store = factory.open().await;
    let lease = create(&*store, "renewed").await;
    let until = || async { store.state(&key("renewed")).await.unwrap().leased_until };
    assert_eq!(until().await, Some(START.after(LEASE)));
    store
        .append(&lease, batch(1..=2, RUNNING, after(5)))
        .await
        .unwrap();
    assert_eq!(until().await, Some(START.after(LEASE)));
    store.renew(&lease, after(30)).await.unwrap();
    assert_eq!(until().await, Some(after(30)));
    store
        .append(&lease, batch([3], RUNNING, after(29)))
        .await
        .unwrap();
    assert_eq!(until().await, Some(after(30)));
}

/// Contract line 15: the future is polled a few times and dropped, at every count
/// up to its end.
pub async fn line_15_a_dropped_append_is_whole_or_nothing(factory: &dyn StoreFactory) {
    let store = factory.open().await;
    for polls in 0..24 {
        let name = format!("dropped-{polls}");
        let lease = create(&*store, &name).await;
        store
            .append(&lease, batch(1..=2, RUNNING, START))
            .await
            .unwrap();
        {
            let mut appending = pin!(store.append(&lease, batch(3..=9, RUNNING, START)));
            let mut context = Context::from_waker(Waker::noop());
            for _ in 0..polls {
                if let Poll::Ready(answer) = appending.as_mut().poll(&mut context) {
                    answer.unwrap();
                    break;
                }
                tokio::task::yield_now().await;
            }
        }
        // Whatever of it is still under way is fenced by the next writer's token.
        let took = store.claim(claim(&name, Intent::TakeOver, after(11))).await;
        let (next, state) = granted(took);
        let head = state.head.get();
        assert!(head == 2 || head == 9, "a part of an append: {head}");
        store
            .append(&next, batch([head + 1], COMPLETE, after(11)))
            .await
            .unwrap();
        assert_eq!(
            all(&*store, &name, Generation::FIRST).await,
            records(1..=head + 1)
        );
    }
}
