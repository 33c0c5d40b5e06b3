//! What a [`MemoryTransport`](super::MemoryTransport) does with a request.

use crate::error::ErrorKind;
use crate::proto::model::{ResponseHead, TransportFailure};
use bytes::Bytes;
use std::collections::VecDeque;
use std::fmt;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// The script of one request: what the other side does, step by step.
///
/// Steps before the head delay or break the opening, later ones the body. A
/// script that never states a head and sends a chunk has the usual one: status
/// 200, `content-type: text/event-stream`. A script that is over ends the body
/// cleanly; one that is over before a head closes the connection without an
/// answer.
#[derive(Clone, Default)]
pub struct Exchange {
    steps: VecDeque<Step>,
}

impl fmt::Debug for Exchange {
    /// How many steps are left; what they say is a model's text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange")
            .field("steps", &self.steps.len())
            .finish_non_exhaustive()
    }
}

#[derive(Clone, Debug)]
enum Step {
    Head(ResponseHead),
    Chunk(Bytes),
    Wait(Duration),
    Gate(Gate),
    Fail(TransportFailure),
    Hang,
}

impl Exchange {
    /// A script without steps.
    pub fn new() -> Self {
        Self::default()
    }

    /// The head, with a status and no headers. A second one is passed over.
    pub fn status(self, status: u16) -> Self {
        self.head(ResponseHead {
            status,
            headers: Vec::new(),
        })
    }

    /// The head. A second one is passed over.
    pub fn head(self, head: ResponseHead) -> Self {
        self.step(Step::Head(head))
    }

    /// A piece of the body. An empty one is passed over, since a body yields none.
    pub fn chunk(self, bytes: impl Into<Bytes>) -> Self {
        self.step(Step::Chunk(bytes.into()))
    }

    /// Silence for this long on tokio's clock, from when the step is reached.
    pub fn wait(self, time: Duration) -> Self {
        self.step(Step::Wait(time))
    }

    /// Silence until the gate is opened.
    pub fn gate(self, gate: &Gate) -> Self {
        self.step(Step::Gate(gate.clone()))
    }

    /// Silence for ever.
    pub fn hang(self) -> Self {
        self.step(Step::Hang)
    }

    /// A failure; nothing comes after it.
    pub fn fail(self, failure: TransportFailure) -> Self {
        self.step(Step::Fail(failure))
    }

    /// A failure of this kind after the request was sent; nothing comes after it.
    pub fn breaks(self, kind: ErrorKind) -> Self {
        self.fail(scripted(kind, true))
    }

    /// A failure of this kind with the proof that nothing was sent; nothing comes
    /// after it.
    pub fn breaks_unsent(self, kind: ErrorKind) -> Self {
        self.fail(scripted(kind, false))
    }

    fn step(mut self, step: Step) -> Self {
        self.steps.push_back(step);
        self
    }
}

fn scripted(kind: ErrorKind, sent: bool) -> TransportFailure {
    TransportFailure {
        kind,
        sent,
        message: format!("the script broke the exchange: {kind}"),
    }
}

/// A point where a script waits for the test, and the test for the script.
///
/// Clones are the same gate. Once open it stays open.
#[derive(Clone, Debug)]
pub struct Gate {
    state: Arc<watch::Sender<GateState>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct GateState {
    reached: bool,
    open: bool,
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

impl Gate {
    /// A closed gate.
    pub fn new() -> Self {
        Self {
            state: Arc::new(watch::Sender::new(GateState::default())),
        }
    }

    /// Lets every script through, those that come later too.
    pub fn open(&self) {
        self.state.send_modify(|state| state.open = true);
    }

    /// Waits until a script stands, or has stood, at the gate. It does so only
    /// while somebody reads it: a script runs inside the calls of its reader.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost by dropping the future.
    pub async fn reached(&self) {
        self.until(|state| state.reached).await;
    }

    async fn pass(&self) {
        self.state.send_modify(|state| state.reached = true);
        self.until(|state| state.open).await;
    }

    async fn until(&self, done: impl FnMut(&GateState) -> bool) {
        // It cannot fail: the sender lives in `self`.
        let _ = self.state.subscribe().wait_for(done).await.is_ok();
    }
}

/// A script being played.
#[derive(Debug)]
pub(super) struct Player {
    steps: VecDeque<Step>,
    /// When the wait at the front is over, once it was begun: kept here so that a
    /// reader that is dropped and comes again does not wait from the start.
    until: Option<Instant>,
}

/// What comes next in a body.
pub(super) enum Next {
    Piece(Bytes),
    End,
    Broken(TransportFailure),
}

impl Player {
    pub(super) fn new(exchange: Exchange) -> Self {
        Self {
            steps: exchange.steps,
            until: None,
        }
    }

    /// Plays up to the head.
    pub(super) async fn head(&mut self) -> Result<ResponseHead, TransportFailure> {
        self.pause().await;
        match self.steps.front() {
            Some(Step::Chunk(_)) => Ok(ResponseHead {
                status: 200,
                headers: vec![("content-type".to_owned(), "text/event-stream".to_owned())],
            }),
            _ => match self.steps.pop_front() {
                Some(Step::Head(head)) => Ok(head),
                Some(Step::Fail(failure)) => Err(failure),
                _ => Err(scripted(ErrorKind::ConnectionClosed, true)),
            },
        }
    }

    /// Plays up to the next piece of the body.
    pub(super) async fn next(&mut self) -> Next {
        loop {
            self.pause().await;
            match self.steps.pop_front() {
                Some(Step::Chunk(piece)) if !piece.is_empty() => return Next::Piece(piece),
                Some(Step::Fail(failure)) => return Next::Broken(failure),
                None => return Next::End,
                Some(_) => {}
            }
        }
    }

    /// Plays the steps at the front that only take time. A step leaves the script
    /// after it was waited for, so that a dropped future loses none.
    async fn pause(&mut self) {
        loop {
            match self.steps.front() {
                Some(Step::Wait(time)) => {
                    if self.until.is_none() {
                        self.until = Instant::now().checked_add(*time);
                    }
                    match self.until {
                        Some(until) => sleep_until(until).await,
                        // Longer than the clock can count.
                        None => pending().await,
                    }
                    self.until = None;
                }
                Some(Step::Gate(gate)) => gate.pass().await,
                Some(Step::Hang) => pending::<()>().await,
                _ => return,
            }
            self.steps.pop_front();
        }
    }
}
