//! Runs one operation machine: its sockets, its store, its clock.

use super::Credential;
use super::clock::Clock;
use super::live::Registry;
use crate::error::{Error, ErrorKind};
use crate::proto::model::{Dialect, HttpRequest, TransportFailure};
use crate::proto::operation::{Append, Fact, Input, Operation, Outcome, Output};
use crate::store::{Batch, Lease, Store};
use crate::transport::{Body, Outgoing, Response, Transport};
use futures_core::future::BoxFuture;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{debug, info, warn};

/// What a driver works with.
#[derive(Clone, Debug)]
pub(super) struct Means {
    pub(super) store: Arc<dyn Store>,
    pub(super) transport: Arc<dyn Transport>,
    pub(super) credential: Option<Credential>,
    pub(super) dialect: Dialect,
    pub(super) lease_for: Duration,
    pub(super) clock: Clock,
    pub(super) live: Registry,
}

/// How long the store may take for one append before the operation counts it as
/// lost. Long enough for a disk that is busy, short enough that nobody waits
/// for one that is gone.
const STORE_LIMIT: Duration = Duration::from_secs(30);

/// How long a cancel message to the provider may take.
const TELL_LIMIT: Duration = Duration::from_secs(10);

/// Runs the machine to its outcome.
///
/// Not cancel safe on purpose: it is spawned, and a caller that wants it to stop
/// says so through `cancel`.
pub(super) async fn run(
    mut operation: Operation,
    means: Means,
    lease: Lease,
    mut cancel: watch::Receiver<bool>,
) -> Outcome {
    let mut upstream = Upstream::Closed;
    let mut append: Option<BoxFuture<'static, Input>> = None;
    let mut renew_at = Instant::now() + means.lease_for / 3;
    let mut renewal: Option<BoxFuture<'static, Result<(), Error>>> = None;
    let mut cancelled = false;

    let outcome = loop {
        // Orders first.
        let mut finished = None;
        while let Some(output) = operation.poll() {
            match output {
                Output::Open { attempt, request } => {
                    debug!(key = %lease.key, attempt, url = %request.url, "open");
                    upstream = Upstream::Opening(attempt, open(&means, request));
                }
                Output::Close { attempt } => {
                    if upstream.is(attempt) {
                        upstream = Upstream::Closed;
                    }
                }
                Output::Tell(request) => tell(&means, request),
                Output::Append(batch) => append = Some(write(&means, &lease, batch)),
                // The store wakes its watchers when it acknowledges; what is
                // announced is exactly what can be read there.
                Output::Announce(seq) => debug!(key = %lease.key, %seq, "announce"),
                Output::Finish(outcome) => finished = Some(outcome),
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
            (attempt, fact) = upstream.next(), if wants_body || !upstream.is_body() => {
                Some(Input::Upstream { attempt, fact })
            }
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
    let counts = operation.counts();
    info!(
        key = %lease.key,
        generation = %lease.generation,
        outcome = word(&outcome),
        unknown_events = counts.unknown,
        noise_events = counts.noise,
        duplicates_dropped = counts.duplicates,
        "operation ended"
    );
    outcome
}

/// The upstream exchange, as far as it has come.
enum Upstream {
    Closed,
    Opening(u32, BoxFuture<'static, Result<Response, TransportFailure>>),
    Body(u32, Box<dyn Body>),
}

impl Upstream {
    fn is(&self, attempt: u32) -> bool {
        matches!(self, Self::Opening(own, _) | Self::Body(own, _) if *own == attempt)
    }

    fn is_body(&self) -> bool {
        matches!(self, Self::Body(..))
    }

    /// The next fact; waits for ever when there is no exchange.
    ///
    /// Cancel safe: a response is taken out of its future in the same step in
    /// which it is returned, and [`Body::chunk`] is cancel safe by contract.
    async fn next(&mut self) -> (u32, Fact) {
        match self {
            Self::Closed => pending().await,
            Self::Opening(attempt, opening) => {
                let attempt = *attempt;
                match opening.await {
                    Ok(Response { head, body }) => {
                        *self = Self::Body(attempt, body);
                        (attempt, Fact::Head(head))
                    }
                    Err(failure) => {
                        *self = Self::Closed;
                        (attempt, Fact::Failed(failure))
                    }
                }
            }
            Self::Body(attempt, body) => {
                let attempt = *attempt;
                let fact = match body.chunk().await {
                    Ok(Some(bytes)) => return (attempt, Fact::Chunk(bytes)),
                    Ok(None) => Fact::EndOfBody,
                    Err(failure) => Fact::Failed(failure),
                };
                *self = Self::Closed;
                (attempt, fact)
            }
        }
    }
}

fn outgoing(means: &Means, request: HttpRequest) -> Outgoing {
    let secret_headers = means
        .credential
        .as_ref()
        .map(|credential| credential.headers(means.dialect))
        .unwrap_or_default();
    Outgoing {
        request,
        secret_headers,
    }
}

fn open(
    means: &Means,
    request: HttpRequest,
) -> BoxFuture<'static, Result<Response, TransportFailure>> {
    let transport = Arc::clone(&means.transport);
    let outgoing = outgoing(means, request);
    Box::pin(async move { transport.open(outgoing).await })
}

/// Tells the provider to stop, without waiting for it. The client is not idle
/// until that is done.
fn tell(means: &Means, request: HttpRequest) {
    let told = open(means, request);
    let errand = means.live.errand();
    tokio::spawn(async move {
        let _errand = errand;
        match timeout(TELL_LIMIT, told).await {
            Ok(Ok(response)) => debug!(status = response.head.status, "provider was told to stop"),
            Ok(Err(failure)) => warn!(kind = %failure.kind, "provider could not be told to stop"),
            Err(_) => warn!("provider did not answer when told to stop"),
        }
    });
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

async fn maybe_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => pending().await,
    }
}

fn word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Ended(ended) => ended.end.as_str(),
        Outcome::Interrupted(_) => "interrupted",
        Outcome::StoreFailed(_) => "store_failed",
    }
}
