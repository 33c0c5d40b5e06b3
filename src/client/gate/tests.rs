use super::*;
use crate::proto::breaker::{BreakerConfig, BreakerState};
use crate::proto::limits::LimitConfig;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

fn gate(max: usize, max_queue: usize) -> Gate {
    let config = GuardConfig {
        limit: LimitConfig {
            max,
            max_queue,
            ..LimitConfig::DEFAULT
        },
        breaker: BreakerConfig {
            run_within: Duration::ZERO,
            jitter_percent: 0,
            ..BreakerConfig::DEFAULT
        },
        ..GuardConfig::DEFAULT
    };
    Gate::seeded(config, 1)
}

fn endpoint() -> EndpointId {
    EndpointId::new("provider")
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(5)
}

async fn enter(gate: &Gate) -> Result<Permit, Refused> {
    gate.enter(&endpoint(), AttemptClass::First, soon()).await
}

/// An arrival that has been polled, and is therefore in the queue.
fn queued(gate: &Gate) -> tokio::task::JoinHandle<Result<Permit, Refused>> {
    let gate = gate.clone();
    tokio::spawn(async move { enter(&gate).await })
}

/// Lets every task run until it waits.
async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

fn in_flight(gate: &Gate) -> (usize, usize) {
    let snapshot = gate.snapshot();
    let limit = snapshot.endpoints[0].limit;
    (limit.in_flight, limit.queued)
}

fn broken() -> Report {
    Report::failure(ErrorKind::Connect)
}

/// Opens the circuit with the fifth.
async fn fail(gate: &Gate, times: usize) {
    for _ in 0..times {
        enter(gate).await.unwrap().done(&broken());
    }
}

#[tokio::test(start_paused = true)]
async fn those_who_wait_get_their_turn_in_the_order_of_their_arrival() {
    let gate = gate(1, 10);
    let first = enter(&gate).await.unwrap();
    let (second, third) = (queued(&gate), queued(&gate));
    settle().await;
    assert_eq!(in_flight(&gate), (1, 2));
    first.done(&Report::success());
    let second = second.await.unwrap().unwrap();
    settle().await;
    assert!(!third.is_finished());
    drop(second);
    drop(third.await.unwrap().unwrap());
    assert_eq!(in_flight(&gate), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_refuses_at_once() {
    let gate = gate(1, 1);
    let _first = enter(&gate).await.unwrap();
    let _second = queued(&gate);
    settle().await;
    assert_eq!(enter(&gate).await.unwrap_err(), Refused::QueueFull);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_ends_the_wait_and_leaves_nothing_behind() {
    let gate = gate(1, 10);
    let first = enter(&gate).await.unwrap();
    let began = Instant::now();
    assert_eq!(enter(&gate).await.unwrap_err(), Refused::TooLate);
    assert_eq!(began.elapsed(), Duration::from_secs(5));
    assert_eq!(in_flight(&gate), (1, 0));
    drop(first);
    assert!(enter(&gate).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_future_that_is_dropped_while_it_waits_gives_up_its_place() {
    let gate = gate(1, 10);
    let first = enter(&gate).await.unwrap();
    let (gone, next) = (queued(&gate), queued(&gate));
    settle().await;
    gone.abort();
    settle().await;
    assert_eq!(in_flight(&gate), (1, 1));
    drop(first);
    assert!(next.await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_had_come_when_its_future_was_dropped_goes_to_the_next() {
    let gate = gate(1, 10);
    let first = enter(&gate).await.unwrap();
    let mut gone = Box::pin(enter(&gate));
    let mut context = Context::from_waker(std::task::Waker::noop());
    assert!(gone.as_mut().poll(&mut context).is_pending());
    let next = queued(&gate);
    settle().await;
    // The turn comes, and nobody looks.
    drop(first);
    assert_eq!(in_flight(&gate), (1, 1));
    drop(gone);
    assert!(next.await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_hears_at_once_that_the_circuit_opened() {
    let gate = gate(1, 10);
    fail(&gate, 4).await;
    let last = enter(&gate).await.unwrap();
    let waiting: Vec<_> = (0..3).map(|_| queued(&gate)).collect();
    settle().await;
    last.done(&broken());
    for waiting in waiting {
        let refused = waiting.await.unwrap().unwrap_err();
        let wait = Duration::from_secs(30);
        assert_eq!(refused, Refused::CircuitOpen { wait });
        assert_eq!(refused.to_error().kind(), ErrorKind::CircuitOpen);
        assert_eq!(refused.to_error().retry_after(), Some(wait));
    }
    assert_eq!(in_flight(&gate), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_permit_that_nobody_reports_says_nothing_about_the_endpoint() {
    let gate = gate(5, 10);
    for _ in 0..100 {
        drop(enter(&gate).await.unwrap());
    }
    let snapshot = gate.snapshot();
    let breaker = snapshot.endpoints[0].breaker;
    assert_eq!((breaker.successes, breaker.failures), (0, 0));
    assert_eq!(snapshot.endpoints[0].limit.limit, 5);
    assert_eq!(in_flight(&gate), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_is_dropped_makes_room_for_the_next_one() {
    let gate = gate(5, 10);
    fail(&gate, 5).await;
    tokio::time::advance(Duration::from_secs(30)).await;
    let probe = enter(&gate).await.unwrap();
    assert!(probe.is_probe());
    assert!(enter(&gate).await.is_err());
    drop(probe);
    let probe = enter(&gate).await.unwrap();
    assert!(probe.is_probe());
    probe.first_token(Duration::from_millis(300));
    // Decided at the first token: the others need not wait for its end.
    let next = enter(&gate).await.unwrap();
    assert!(!next.is_probe());
    assert_eq!(in_flight(&gate), (2, 0));
    let state = gate.snapshot().endpoints[0].breaker.state;
    assert_eq!(state, BreakerState::Closed);
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_is_let_in_when_the_limit_grows_by_itself() {
    let gate = gate(2, 10);
    let first = enter(&gate).await.unwrap();
    let throttled = enter(&gate).await.unwrap();
    throttled.done(&Report::failure(ErrorKind::RateLimited));
    let later = Instant::now() + Duration::from_secs(600);
    let second = gate.enter(&endpoint(), AttemptClass::Again, later).await;
    assert!(second.is_ok());
    assert_eq!(in_flight(&gate), (2, 0));
    drop(first);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_is_lost_when_many_come_and_go_at_once() {
    let gate = gate(3, 1000);
    let inside = Arc::new(AtomicUsize::new(0));
    let crowd: Vec<_> = (0..64_u32)
        .map(|n| {
            let (gate, inside) = (gate.clone(), Arc::clone(&inside));
            tokio::spawn(async move {
                for round in 0..50 {
                    let mut entering = Box::pin(enter(&gate));
                    if (n + round) % 3 == 0 {
                        // Looks once and goes away.
                        let once = std::future::poll_fn(|context| {
                            Poll::Ready(entering.as_mut().poll(context).is_ready())
                        });
                        once.await;
                        continue;
                    }
                    let permit = entering.await.unwrap();
                    let now = inside.fetch_add(1, Ordering::SeqCst) + 1;
                    assert!(now <= 3, "{now} are inside");
                    tokio::task::yield_now().await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                    if round % 2 == 0 {
                        permit.done(&Report::success());
                    }
                }
            })
        })
        .collect();
    for one in crowd {
        one.await.unwrap();
    }
    assert_eq!(in_flight(&gate), (0, 0));
    assert!(gate.lock().waiting.is_empty());
}
