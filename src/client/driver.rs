//! Runs one operation machine: its sockets, its store, its clock.

use super::clock::Clock;
use super::credential::Credentials;
use super::gate::Gate;
use super::live::Registry;
use super::sending::{Sending, credential_of, refresh};
use super::telling::Telling;
use super::upstream::Upstreams;
use crate::error::{Error, ErrorKind};
use crate::proto::budget::Cost;
use crate::proto::guards::AttemptClass;
use crate::proto::journal::AttemptKind;
use crate::proto::operation::{Append, Input, Operation, Outcome, Output, Question, Reply};
use crate::store::{Batch, Lease, Store};
use crate::transport::Transport;
use futures_core::future::BoxFuture;
use std::future::{pending, poll_fn, ready};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::warn;

/// What a driver works with.
#[derive(Clone, Debug)]
pub(super) struct Means {
    pub(super) store: Arc<dyn Store>,
    pub(super) transport: Arc<dyn Transport>,
    pub(super) credentials: Arc<Credentials>,
    pub(super) lease_for: Duration,
    pub(super) clock: Clock,
    pub(super) gate: Gate,
    pub(super) live: Registry,
}

/// How long the store may take for one append before the operation counts it as
/// lost. Long enough for a disk that is busy, short enough that nobody waits
/// for one that is gone.
const STORE_LIMIT: Duration = Duration::from_secs(30);

/// Runs the machine to its outcome.
///
/// Not cancel safe on purpose: it is spawned, and a caller that wants it to stop
/// says so through `cancel`.
pub(super) async fn run(
    mut operation: Operation,
    means: Means,
    mut telling: Telling,
    lease: Lease,
    mut cancel: watch::Receiver<bool>,
) -> Outcome {
    let mut upstreams = Upstreams::new(Arc::clone(&means.transport));
    let mut replies: Vec<BoxFuture<'static, Input>> = Vec::new();
    let mut append: Option<BoxFuture<'static, Input>> = None;
    let mut renew_at = Instant::now() + means.lease_for / 3;
    let mut renewal: Option<BoxFuture<'static, Result<(), Error>>> = None;
    let mut cancelled = false;

    let outcome = loop {
        // Orders first.
        let mut finished = None;
        while let Some(output) = operation.poll() {
            match output {
                Output::Open {
                    attempt,
                    route,
                    request,
                } => {
                    telling.opened(&operation, attempt, route);
                    let sending = Sending::new(&means, &operation, route, request);
                    let class = match operation.kind_of(attempt) {
                        Some(AttemptKind::Hedge) => AttemptClass::Hedge,
                        Some(_) if upstreams.let_through() => AttemptClass::Again,
                        _ => AttemptClass::First,
                    };
                    upstreams.open(attempt, route, sending.in_turn(&means.gate, class));
                }
                Output::Close { attempt } => upstreams.close(attempt),
                Output::Tell { route, request } => {
                    let sending = Sending::new(&means, &operation, route, request);
                    sending.run_errand(&means.live);
                }
                Output::Append(mut batch) => {
                    upstreams.mask().append(&mut batch);
                    append = Some(write(&means, &lease, batch));
                }
                // The store wakes its watchers when it acknowledges; what is
                // announced is exactly what can be read there.
                Output::Announce(seq) => telling.announced(seq),
                Output::Ask { id, question } => {
                    let reply = reply(&means, &operation, &upstreams, question);
                    replies.push(Box::pin(async move {
                        Input::Replied {
                            id,
                            reply: reply.await,
                        }
                    }));
                }
                Output::Note(mut note) => {
                    upstreams.mask().note(&mut note);
                    telling.note(&operation, &note);
                    upstreams.told(&note);
                }
                Output::Finish(mut outcome) => {
                    upstreams.mask().outcome(&mut outcome);
                    finished = Some(outcome);
                }
            }
        }
        if let Some(outcome) = finished {
            break outcome;
        }

        // Then the next fact.
        let deadline = operation.next_timeout().map(|at| means.clock.instant(at));
        let wants_body = operation.wants_body();
        let input = tokio::select! {
            biased;
            () = wait_for_cancel(&mut cancel), if !cancelled => {
                cancelled = true;
                Some(Input::Cancel)
            }
            input = maybe(&mut append) => {
                append = None;
                Some(input)
            }
            input = any(&mut replies) => Some(input),
            renewed = maybe(&mut renewal) => {
                renewal = None;
                match renewed {
                    Ok(()) => None,
                    Err(error) if error.kind() == ErrorKind::StaleLease => Some(failed(&error)),
                    Err(error) => {
                        // The lease is good for a while yet, and the next
                        // append tells whether it is lost.
                        warn!(key = %lease.key, kind = %error.kind(), "lease not renewed");
                        None
                    }
                }
            }
            () = sleep_until(renew_at), if renewal.is_none() => {
                renew_at = Instant::now() + means.lease_for / 3;
                renewal = Some(renew(&means, &lease));
                None
            }
            () = maybe_until(deadline) => {
                operation.handle_timeout(means.clock.now());
                None
            }
            (attempt, fact) = upstreams.next(wants_body) => Some(Input::Upstream { attempt, fact }),
        };
        if let Some(input) = input {
            operation.handle(means.clock.now(), input);
        }
    };

    // Any other outcome's last append gave the lease back.
    if matches!(outcome, Outcome::StoreFailed(_))
        && let Err(error) = means.store.release(&lease).await
        && error.kind() != ErrorKind::StaleLease
    {
        warn!(key = %lease.key, kind = %error.kind(), "lease not given back; it runs out by itself");
    }
    telling.ended(&operation, &outcome);
    outcome
}

/// The reply to a question.
fn reply(
    means: &Means,
    operation: &Operation,
    upstreams: &Upstreams,
    question: Question,
) -> BoxFuture<'static, Reply> {
    match question {
        Question::Refresh { route } => {
            let provider = credential_of(means, operation, route);
            Box::pin(refresh(provider, upstreams.credential(route).cloned()))
        }
        Question::Spend { route, failure, .. } => {
            let endpoint = operation.route(route).guarded_as();
            let cost = failure.map_or(Cost::Hedge, Cost::of);
            Box::pin(ready(match means.gate.spend(&endpoint, cost) {
                Ok(()) => Reply::Yes,
                Err(exhausted) => Reply::No {
                    message: exhausted.to_string(),
                    retry_after: exhausted.retry_after,
                },
            }))
        }
    }
}

fn write(means: &Means, lease: &Lease, append: Append) -> BoxFuture<'static, Input> {
    let store = Arc::clone(&means.store);
    let lease = lease.clone();
    let batch = Batch {
        records: append.records,
        status: append.status,
        now: means.clock.now().wall,
    };
    Box::pin(async move {
        match timeout(STORE_LIMIT, store.append(&lease, batch)).await {
            Ok(Ok(head)) => Input::Appended(head),
            Ok(Err(error)) => failed(&error),
            Err(_) => Input::AppendFailed {
                kind: ErrorKind::StoreUnavailable,
                message: format!(
                    "the store did not answer within {} s",
                    STORE_LIMIT.as_secs()
                ),
            },
        }
    })
}

fn renew(means: &Means, lease: &Lease) -> BoxFuture<'static, Result<(), Error>> {
    let store = Arc::clone(&means.store);
    let lease = lease.clone();
    let until = means.clock.now().wall.after(means.lease_for);
    Box::pin(async move {
        timeout(STORE_LIMIT, store.renew(&lease, until))
            .await
            .unwrap_or_else(|_| {
                Err(Error::new(
                    ErrorKind::StoreUnavailable,
                    "the store did not answer",
                ))
            })
    })
}

fn failed(error: &Error) -> Input {
    Input::AppendFailed {
        kind: error.kind(),
        message: error.message().to_owned(),
    }
}

async fn wait_for_cancel(cancel: &mut watch::Receiver<bool>) {
    // The sender lives as long as somebody could cancel; when nobody can, wait
    // for ever.
    if cancel.wait_for(|wanted| *wanted).await.is_err() {
        pending::<()>().await;
    }
}

async fn maybe<T>(slot: &mut Option<BoxFuture<'static, T>>) -> T {
    match slot {
        Some(future) => future.await,
        None => pending().await,
    }
}

/// The first of these that is ready; it is taken out.
async fn any<T>(futures: &mut Vec<BoxFuture<'static, T>>) -> T {
    poll_fn(|context| {
        for position in 0..futures.len() {
            let ready = futures
                .get_mut(position)
                .map(|future| future.as_mut().poll(context));
            if let Some(Poll::Ready(value)) = ready {
                drop(futures.swap_remove(position));
                return Poll::Ready(value);
            }
        }
        Poll::Pending
    })
    .await
}

async fn maybe_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => pending().await,
    }
}
