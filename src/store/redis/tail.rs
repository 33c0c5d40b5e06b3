//! Wake-ups from other machines: one connection, subscribed to the channels of the
//! journals that somebody here watches.
//!
//! A channel is a hint and may lose messages, so whoever could have missed one is
//! woken: the watchers of a key once its channel is subscribed, all of them once a
//! connection was made anew.

use super::Shared;
use super::fault::Fault;
use crate::proto::model::Key;
use futures_core::Stream as _;
use redis::aio::{PubSubSink, PubSubStream};
use redis::{Msg, RedisResult};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};
use tracing::debug;

/// How often the other end is asked whether it is still there. A reader looks at
/// the store every second anyway; this is for the connection's sake.
const PING_EVERY: Duration = Duration::from_secs(5);

/// Channels that are subscribed at once.
const CHANNELS: usize = 256;

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Listens for as long as the store is open.
pub(super) async fn listen(shared: Arc<Shared>) {
    let mut pause = FIRST_PAUSE;
    let mut attempt = 0_usize;
    loop {
        if shared.heads.is_empty() {
            // Nobody watches: nothing to listen for.
            shared.heads.changed().await;
        }
        match hear(&shared, attempt).await {
            Ok(()) => pause = FIRST_PAUSE,
            Err(fault) => debug!(?fault, "no wake-ups from Redis for now"),
        }
        attempt = attempt.wrapping_add(1);
        shared.link.routes.doubt_all();
        sleep(pause).await;
        pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
    }
}

/// Makes a connection and listens until it breaks; `Ok` when it was one for a while.
async fn hear(shared: &Shared, attempt: usize) -> Result<(), Fault> {
    let endpoint = shared.link.routes.any(attempt).await?;
    let ear = shared.link.routes.dialing().ear(&endpoint).await?;
    let (sink, stream) = ear.split();
    let steering = async {
        let begun = begin(shared, sink.clone()).await;
        match begun {
            Some(()) => steer(shared, sink, attempt, &endpoint).await,
            None => None,
        }
    };
    tokio::select! {
        () = wake_all(shared, stream) => {}
        _ = steering => {}
    }
    Ok(())
}

/// Hands every message on.
async fn wake_all(shared: &Shared, mut stream: PubSubStream) {
    while let Some(message) = poll_fn(|context| Pin::new(&mut stream).poll_next(context)).await {
        wake(shared, &message);
    }
}

fn wake(shared: &Shared, message: &Msg) {
    let call = std::str::from_utf8(message.get_payload_bytes()).unwrap_or_default();
    if shared.has_woken(call) {
        return;
    }
    if let Some(key) = shared.names.key_of_channel(message.get_channel_name()) {
        shared.heads.wake(&key);
    }
}

/// Subscribes to all that is watched. `None` when the connection does not answer.
async fn begin(shared: &Shared, mut sink: PubSubSink) -> Option<()> {
    // What changed so far is in the keys.
    drop(shared.heads.take_changes());
    let keys = shared.heads.keys();
    for some in keys.chunks(CHANNELS) {
        subscribe(shared, &mut sink, some).await?;
    }
    Some(())
}

async fn subscribe(shared: &Shared, sink: &mut PubSubSink, keys: &[Key]) -> Option<()> {
    let channels: Vec<String> = keys.iter().map(|key| shared.names.channel(key)).collect();
    answered(shared, sink.subscribe(channels)).await?;
    for key in keys {
        shared.heads.wake(key);
    }
    Some(())
}

/// Follows who comes and goes. Returns when the connection does not answer, or is
/// to the wrong server.
async fn steer(
    shared: &Shared,
    mut sink: PubSubSink,
    attempt: usize,
    endpoint: &super::target::Endpoint,
) -> Option<()> {
    loop {
        if timeout(PING_EVERY, shared.heads.changed()).await.is_err() {
            answered(shared, sink.ping::<redis::Value>()).await?;
            let current = shared.link.routes.any(attempt).await.ok()?;
            if current != *endpoint {
                return None;
            }
            continue;
        }
        let changes = shared.heads.take_changes();
        let (come, gone): (Vec<_>, Vec<_>) = changes.into_iter().partition(|(_, watched)| *watched);
        let come: Vec<Key> = come.into_iter().map(|(key, _)| key).collect();
        for some in come.chunks(CHANNELS) {
            subscribe(shared, &mut sink, some).await?;
        }
        for some in gone.chunks(CHANNELS) {
            let channels: Vec<String> = some
                .iter()
                .map(|(key, _)| shared.names.channel(key))
                .collect();
            answered(shared, sink.unsubscribe(channels)).await?;
        }
    }
}

async fn answered<T>(shared: &Shared, asking: impl Future<Output = RedisResult<T>>) -> Option<T> {
    let limit = shared.link.routes.dialing().response_timeout;
    match timeout(limit, asking).await {
        Ok(Ok(answer)) => Some(answer),
        Ok(Err(error)) => {
            debug!(fault = ?Fault::of(&error), "wake-ups from Redis broke off");
            None
        }
        Err(_) => None,
    }
}
