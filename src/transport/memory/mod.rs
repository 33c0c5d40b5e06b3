//! A transport without a network: plays scripts and records what was asked.
//!
//! For tests of whatever stands on a [`Transport`], ours and yours. It waits on
//! tokio's clock and on gates only, so it runs under a paused clock.
//!
//! ```
//! use std::time::Duration;
//! use streamkeep::transport::memory::{Exchange, Gate, MemoryTransport};
//!
//! let transport = MemoryTransport::new();
//! let gate = Gate::new();
//! transport.push(Exchange::new().status(503));
//! transport.push(
//!     Exchange::new()
//!         .wait(Duration::from_secs(3))
//!         .chunk("data: {\"n\":1}\n\n")
//!         .gate(&gate)
//!         .chunk("data: [DONE]\n\n"),
//! );
//! ```

mod script;

pub use script::{Exchange, Gate};

use super::{Body, Outgoing, Response, Transport};
use crate::error::ErrorKind;
use crate::proto::model::TransportFailure;
use bytes::Bytes;
use futures_core::future::BoxFuture;
use script::{Next, Player};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// A transport that plays one [`Exchange`] per request, in order: those for the
/// request's own place first ([`push_for`](Self::push_for)), then those for any
/// ([`push`](Self::push)), then what its place always does
/// ([`repeat_for`](Self::repeat_for)).
///
/// Cheap to clone; clones share scripts and records. A request for which no
/// script is left fails with [`ErrorKind::Config`], which no policy tries again,
/// and is recorded like any other.
#[derive(Clone, Debug)]
pub struct MemoryTransport {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    since: Instant,
    state: watch::Sender<State>,
}

#[derive(Debug, Default)]
struct State {
    scripts: VecDeque<Exchange>,
    places: Vec<Place>,
    calls: Vec<Call>,
}

/// What the URLs with one beginning do.
#[derive(Debug)]
struct Place {
    prefix: String,
    scripts: VecDeque<Exchange>,
    always: Option<Exchange>,
}

impl State {
    fn place(&mut self, prefix: String) -> &mut Place {
        let position = self
            .places
            .iter()
            .position(|place| place.prefix == prefix)
            .unwrap_or_else(|| {
                self.places.push(Place {
                    prefix,
                    scripts: VecDeque::new(),
                    always: None,
                });
                self.places.len().saturating_sub(1)
            });
        #[expect(
            clippy::indexing_slicing,
            reason = "the position was found or made above"
        )]
        &mut self.places[position]
    }

    fn script(&mut self, url: &str) -> Option<Exchange> {
        let place = self
            .places
            .iter_mut()
            .find(|place| url.starts_with(&place.prefix));
        let (own, always) = match place {
            Some(place) => (place.scripts.pop_front(), place.always.clone()),
            None => (None, None),
        };
        own.or_else(|| self.scripts.pop_front()).or(always)
    }
}

/// One request that a [`MemoryTransport`] was asked to send.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Call {
    /// What was to be sent.
    pub outgoing: Outgoing,
    /// When, on tokio's clock, counted from when the transport was made.
    pub after: Duration,
    /// How far it has come.
    pub fate: Fate,
}

/// How far a [`Call`] has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fate {
    /// It waits for its head.
    Opening,
    /// The head was given out; the body is being read.
    Streaming,
    /// The body was read to a clean end.
    Ended,
    /// A failure was given out.
    Failed,
    /// The caller dropped it before it was over: over a network, this is when the
    /// connection closes and the upstream may stop.
    Dropped,
}

impl Default for MemoryTransport {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryTransport {
    /// A transport without scripts.
    pub fn new() -> Self {
        Self {
            shared: Arc::new(Shared {
                since: Instant::now(),
                state: watch::Sender::new(State::default()),
            }),
        }
    }

    /// Adds the script for the next request that has none.
    pub fn push(&self, exchange: Exchange) {
        self.shared
            .state
            .send_modify(|state| state.scripts.push_back(exchange));
    }

    /// Adds the script for the next request without one whose URL begins so.
    pub fn push_for(&self, prefix: impl Into<String>, exchange: Exchange) {
        self.shared
            .state
            .send_modify(|state| state.place(prefix.into()).scripts.push_back(exchange));
    }

    /// What every further request does whose URL begins so, when no script is
    /// left for it.
    pub fn repeat_for(&self, prefix: impl Into<String>, exchange: Exchange) {
        self.shared
            .state
            .send_modify(|state| state.place(prefix.into()).always = Some(exchange));
    }

    /// What was asked so far, in order.
    pub fn calls(&self) -> Vec<Call> {
        self.shared.state.borrow().calls.clone()
    }

    /// How many scripts no request has taken yet.
    pub fn scripts_left(&self) -> usize {
        self.shared.state.borrow().scripts.len()
    }

    /// Waits until `count` requests have been asked for, ever.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost by dropping the future.
    pub async fn asked(&self, count: usize) {
        self.until(|state| state.calls.len() >= count).await;
    }

    /// Waits until the call with this index, from 0, is over, and says how.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost by dropping the future.
    pub async fn over(&self, call: usize) -> Fate {
        let mut fate = Fate::Opening;
        self.until(|state| {
            let Some(call) = state.calls.get(call) else {
                return false;
            };
            fate = call.fate;
            !matches!(fate, Fate::Opening | Fate::Streaming)
        })
        .await;
        fate
    }

    async fn until(&self, done: impl FnMut(&State) -> bool) {
        // It cannot fail: the sender lives in `self`.
        let _ = self.shared.state.subscribe().wait_for(done).await.is_ok();
    }
}

impl Transport for MemoryTransport {
    fn open(&self, outgoing: Outgoing) -> BoxFuture<'_, Result<Response, TransportFailure>> {
        let mut script = None;
        let mut index = 0;
        self.shared.state.send_modify(|state| {
            script = state.script(&outgoing.request.url);
            index = state.calls.len();
            state.calls.push(Call {
                outgoing,
                after: self.shared.since.elapsed(),
                fate: Fate::Opening,
            });
        });
        // Made here and not in the future, so that a future dropped before its
        // first poll is recorded too.
        let mut watched = Watched {
            shared: Arc::clone(&self.shared),
            index,
            over: false,
        };
        Box::pin(async move {
            let Some(script) = script else {
                watched.end(Fate::Failed);
                return Err(TransportFailure {
                    kind: ErrorKind::Config,
                    sent: false,
                    message: format!(
                        "expected a script for request {}, but found none",
                        index.saturating_add(1)
                    ),
                });
            };
            let mut player = Player::new(script);
            match player.head().await {
                Ok(head) => {
                    watched.set(Fate::Streaming);
                    Ok(Response {
                        head,
                        body: Box::new(MemoryBody {
                            player: Some(player),
                            watched,
                        }),
                    })
                }
                Err(failure) => {
                    watched.end(Fate::Failed);
                    Err(failure)
                }
            }
        })
    }
}

#[derive(Debug)]
struct MemoryBody {
    player: Option<Player>,
    watched: Watched,
}

impl Body for MemoryBody {
    fn chunk(&mut self) -> BoxFuture<'_, Result<Option<Bytes>, TransportFailure>> {
        Box::pin(async move {
            let Some(player) = &mut self.player else {
                return Ok(None);
            };
            let (fate, last) = match player.next().await {
                Next::Piece(piece) => return Ok(Some(piece)),
                Next::End => (Fate::Ended, Ok(None)),
                Next::Broken(failure) => (Fate::Failed, Err(failure)),
            };
            self.player = None;
            self.watched.end(fate);
            last
        })
    }
}

/// Writes a call's fate, and notices when the caller lets go of it.
#[derive(Debug)]
struct Watched {
    shared: Arc<Shared>,
    index: usize,
    over: bool,
}

impl Watched {
    fn end(&mut self, fate: Fate) {
        self.over = true;
        self.set(fate);
    }

    fn set(&self, fate: Fate) {
        self.shared.state.send_modify(|state| {
            if let Some(call) = state.calls.get_mut(self.index) {
                call.fate = fate;
            }
        });
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if !self.over {
            self.set(Fate::Dropped);
        }
    }
}

#[cfg(test)]
mod tests;
