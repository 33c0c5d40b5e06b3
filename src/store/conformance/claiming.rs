//! Claims, leases and fencing.

use super::*;

const RACERS: usize = 200;

/// Contract line 8.
pub async fn line_08_of_racing_claims_one_is_granted(factory: &dyn StoreFactory) {
    let store = factory.open().await;
    let wins = race(factory, &store, || claim("raced", Intent::Create, START)).await;
    assert_eq!(wins.len(), 1, "claims granted");
    let again = store
        .claim(claim("raced", Intent::Create, after(500)))
        .await;
    assert_eq!(existing(again), wins[0].1);
}

/// Contract lines 8 and 10: whoever takes over holds it.
pub async fn line_08_of_racing_takeovers_one_is_granted(factory: &dyn StoreFactory) {
    let store = factory.open().await;
    let mut last = create(&*store, "taken").await;
    for (round, intent) in [(1, Intent::TakeOver), (2, Intent::Regenerate)] {
        let now = after(round * 100);
        let wins = race(factory, &store, || claim("taken", intent, now)).await;
        assert_eq!(wins.len(), 1, "claims granted");
        let lease = wins[0].0.clone();
        assert!(lease.token > last.token, "the token rises");
        last = lease;
    }
}

async fn race(
    factory: &dyn StoreFactory,
    store: &Arc<dyn Store>,
    claim: impl Fn() -> Claim,
) -> Vec<(Lease, JournalState)> {
    let racing: Vec<_> = (0..RACERS)
        .map(|_| {
            let store = factory.another(store);
            let claim = claim();
            tokio::spawn(async move { store.claim(claim).await.unwrap() })
        })
        .collect();
    let mut wins = Vec::new();
    for racer in racing {
        if let Claimed::Granted(lease, state) = soon(racer).await.unwrap() {
            wins.push((lease, state));
        }
    }
    wins
}

/// Contract line 9.
pub async fn line_09_another_request_under_the_key_is_a_conflict(factory: &dyn StoreFactory) {
    let store = factory.open().await;
    let lease = create(&*store, "conflict").await;
    let other = |intent, now| Claim {
        fingerprint: Fingerprint::from_bytes([8; 32]),
        ..claim("conflict", intent, now)
    };
    // Held, free, and ended; the answer does not depend on it.
    for now in [after(1), after(100), after(101)] {
        for intent in [Intent::Create, Intent::TakeOver, Intent::Regenerate] {
            let answer = store.claim(other(intent, now)).await;
            refused(answer, ErrorKind::KeyConflict);
        }
        if now == after(100) {
            store
                .append(&lease, batch([1], COMPLETE, now))
                .await
                .unwrap();
        }
    }
    let state = existing(
        store
            .claim(claim("conflict", Intent::Create, after(1)))
            .await,
    );
    assert_eq!(state.fingerprint, Fingerprint::from_bytes([7; 32]));
}

/// Contract line 10, while it is held.
pub async fn line_10_a_held_journal_is_left_alone(factory: &dyn StoreFactory) {
    let store = factory.open().await;
    let lease = create(&*store, "held").await;
    store
        .append(&lease, batch(1..=2, RUNNING, START))
        .await
        .unwrap();
    let state = store.state(&key("held")).await.unwrap();
    for intent in [Intent::Create, Intent::TakeOver, Intent::Regenerate] {
        for now in [START, after(9)] {
            let answer = store.claim(claim("held", intent, now)).await;
            assert_eq!(existing(answer), state);
        }
    }
    store.renew(&lease, after(50)).await.unwrap();
    let answer = store
        .claim(claim("held", Intent::TakeOver, after(49)))
        .await;
    assert_eq!(existing(answer).leased_until, Some(after(50)));
}

/// Contract line 10, when it is not held any more.
pub async fn line_10_a_journal_can_be_taken_when_its_lease_is_over(factory: &dyn StoreFactory) {
    let store = factory.open().await;
    for intent in [Intent::TakeOver, Intent::Regenerate] {
        refused(
            store.claim(claim("nobody", intent, START)).await,
            ErrorKind::NotFound,
        );
    }
    let first = create(&*store, "over").await;
    store
        .append(&first, batch(1..=3, RUNNING, START))
        .await
        .unwrap();
    // It ran out, to the millisecond.
    let ran_out = store
        .claim(claim("over", Intent::TakeOver, after(10)))
        .await;
    let (second, state) = granted(ran_out);
    assert!(second.token > first.token);
    assert_eq!(
        (state.generation, state.head),
        (Generation::FIRST, Seq::new(3))
    );
    assert_eq!(state.leased_until, Some(after(10).after(LEASE)));
    assert_eq!(state.created_at, START);
    // It was given back.
    store.release(&second).await.unwrap();
    assert_eq!(store.state(&key("over")).await.unwrap().leased_until, None);
    let given_back = store
        .claim(claim("over", Intent::TakeOver, after(11)))
        .await;
    let (third, _) = granted(given_back);
    assert!(third.token > second.token);
    store
        .append(&third, batch([4], RUNNING, after(11)))
        .await
        .unwrap();
    assert_eq!(
        all(&*store, "over", Generation::FIRST).await,
        records(1..=4)
    );
}

/// Contract line 11.
pub async fn line_11_an_older_token_changes_nothing(factory: &dyn StoreFactory) {
    let store = factory.open().await;
    let old = create(&*store, "fenced").await;
    store
        .append(&old, batch(1..=2, RUNNING, START))
        .await
        .unwrap();
    let (new, before) = granted(
        store
            .claim(claim("fenced", Intent::TakeOver, after(10)))
            .await,
    );
    let unknown = Lease {
        token: new.token + 1,
        ..new.clone()
    };
    let elsewhere = Lease {
        generation: new.generation.next(),
        ..new.clone()
    };
    let nowhere = Lease {
        key: key("nowhere"),
        ..new.clone()
    };
    for lease in [&old, &unknown, &elsewhere, &nowhere] {
        let answer = store.append(lease, batch([3], COMPLETE, after(11))).await;
        refused(answer, ErrorKind::StaleLease);
        refused(store.renew(lease, after(99)).await, ErrorKind::StaleLease);
        refused(store.release(lease).await, ErrorKind::StaleLease);
    }
    assert_eq!(store.state(&key("fenced")).await.unwrap(), before);
    store
        .append(&new, batch([3], RUNNING, after(11)))
        .await
        .unwrap();
    // Given back is given back.
    store.release(&new).await.unwrap();
    store.release(&new).await.unwrap();
    let answer = store.append(&new, batch([4], RUNNING, after(11))).await;
    refused(answer, ErrorKind::StaleLease);
    refused(store.renew(&new, after(99)).await, ErrorKind::StaleLease);
    // A writer whose lease ran out and whom nobody fenced may go on.
    let (third, _) = granted(
        store
            .claim(claim("fenced", Intent::TakeOver, after(12)))
            .await,
    );
    store
        .append(&third, batch([4], RUNNING, after(500)))
        .await
        .unwrap();
    // A writer whose journal was removed may not.
    store.delete(&key("fenced")).await.unwrap();
    let answer = store.append(&third, batch([5], RUNNING, after(501))).await;
    refused(answer, ErrorKind::StaleLease);
}

/// Contract line 11 under a race: what a takeover was told is what is there, until
/// the new writer writes.
pub async fn line_11_an_old_writer_cannot_slip_in_after_a_takeover(factory: &dyn StoreFactory) {
    let store = factory.open().await;
    for round in 0..40_u64 {
        let name = format!("slip-{round}");
        let old = create(&*store, &name).await;
        let writer = factory.another(&store);
        let writing = tokio::spawn(async move {
            let mut acknowledged = 0;
            loop {
                let next = batch([acknowledged + 1], RUNNING, after(10));
                match writer.append(&old, next).await {
                    Ok(head) => acknowledged = head.get(),
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::StaleLease);
                        return acknowledged;
                    }
                }
            }
        });
        for _ in 0..round % 7 {
            tokio::task::yield_now().await;
        }
        let took = store.claim(claim(&name, Intent::TakeOver, after(10))).await;
        let (new, state) = granted(took);
        let head = state.head.get();
        store
            .append(&new, batch([head + 1, head + 2], COMPLETE, after(10)))
            .await
            .unwrap();
        assert_eq!(soon(writing).await.unwrap(), head);
        assert_eq!(
            all(&*store, &name, Generation::FIRST).await,
            records(1..=head + 2)
        );
    }
}
