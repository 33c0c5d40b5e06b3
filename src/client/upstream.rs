//! The upstream exchanges of one operation: one, or two while a hedge runs.

use super::Credential;
use super::gate::Permit;
use super::mask::Mask;
use crate::error::ErrorKind;
use crate::proto::guards::Report;
use crate::proto::journal::AttemptEnded;
use crate::proto::model::TransportFailure;
use crate::proto::operation::{Fact, Note, Refusal};
use crate::transport::{Body, Outgoing, Response, Transport};
use futures_core::future::BoxFuture;
use std::future::{pending, poll_fn};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// A request on its way to its turn.
pub(super) type Entering = BoxFuture<'static, Result<Entered, Refusal>>;

/// A request whose turn it is.
pub(super) struct Entered {
    pub(super) outgoing: Outgoing,
    /// The credential that goes with it.
    pub(super) credential: Option<Credential>,
    /// Its right to be in flight.
    pub(super) permit: Permit,
}

/// The exchanges that are open.
pub(super) struct Upstreams {
    transport: Arc<dyn Transport>,
    one: Option<Upstream>,
    /// The other, while there is a hedge.
    other: Option<Upstream>,
    /// The credential that went out last on each route.
    used: Vec<(usize, Credential)>,
    /// The permits of those that are closed and not told of yet.
    closed: Vec<(u32, Permit)>,
    /// Whether any request was let through.
    let_through: bool,
}

struct Upstream {
    attempt: u32,
    route: usize,
    transport: Arc<dyn Transport>,
    credential: Option<Credential>,
    permit: Option<Permit>,
    state: State,
}

enum State {
    /// It was not asked yet whether its turn has come.
    New(Entering),
    /// Its turn has not come.
    Queued(Entering),
    Opening(BoxFuture<'static, Result<Response, TransportFailure>>),
    Body(Box<dyn Body>),
    /// Its last fact was told.
    Over,
}

impl Upstreams {
    pub(super) fn new(transport: Arc<dyn Transport>) -> Self {
        Self {
            transport,
            one: None,
            other: None,
            used: Vec::new(),
            closed: Vec::new(),
            let_through: false,
        }
    }

    /// Opens an exchange. The machine has two at most; a third would take the
    /// place of the second.
    pub(super) fn open(&mut self, attempt: u32, route: usize, entering: Entering) {
        let place = if self.one.is_none() {
            &mut self.one
        } else {
            &mut self.other
        };
        *place = Some(Upstream {
            attempt,
            route,
            transport: Arc::clone(&self.transport),
            credential: None,
            permit: None,
            state: State::New(entering),
        });
    }

    pub(super) fn close(&mut self, attempt: u32) {
        for place in [&mut self.one, &mut self.other] {
            let Some(upstream) = place.take_if(|upstream| upstream.attempt == attempt) else {
                continue;
            };
            self.let_through |= upstream.permit.is_some();
            if let Some(credential) = upstream.credential {
                self.used.retain(|(route, _)| *route != upstream.route);
                self.used.push((upstream.route, credential));
            }
            if let Some(permit) = upstream.permit {
                self.closed.push((attempt, permit));
            }
        }
    }

    /// Whether any request was let through: what follows one repeats it, and what
    /// goes elsewhere because none was does not.
    pub(super) fn let_through(&self) -> bool {
        self.let_through
    }

    /// Something of an attempt is known: its permit tells the guards.
    pub(super) fn told(&mut self, note: &Note) {
        match note {
            Note::FirstOutput { attempt, after } => {
                for upstream in [&self.one, &self.other].into_iter().flatten() {
                    if upstream.attempt == *attempt
                        && let Some(permit) = &upstream.permit
                    {
                        permit.first_token(*after);
                    }
                }
            }
            Note::Ended(attempt) => self.ended(&attempt.ended),
        }
    }

    /// One that was not let through has no permit, and tells nothing.
    fn ended(&mut self, ended: &AttemptEnded) {
        self.close(ended.attempt);
        let Some(position) = self
            .closed
            .iter()
            .position(|(closed, _)| *closed == ended.attempt)
        else {
            return;
        };
        let (_, permit) = self.closed.swap_remove(position);
        let report = match &ended.failure {
            Some(failure) => {
                let kind = ErrorKind::from_code(&failure.kind).unwrap_or(ErrorKind::Internal);
                let wait = failure.retry_after_ms.map(Duration::from_millis);
                Report::failure(kind).with_retry_after(wait)
            }
            // It lost a race: nothing is to be learnt from it.
            None if ended.decision == "lost" => Report::cancelled(),
            None => Report::success(),
        };
        permit.done(&report);
    }

    /// The credential that went out last on this route, of those that are closed.
    pub(super) fn credential(&self, route: usize) -> Option<&Credential> {
        self.used
            .iter()
            .find(|(used, _)| *used == route)
            .map(|(_, credential)| credential)
    }

    /// What must not be told: the credentials of the open exchanges, and of the
    /// last one on each route.
    pub(super) fn mask(&self) -> Mask<'_> {
        let open = [&self.one, &self.other].into_iter().flatten();
        let open = open.filter_map(|upstream| upstream.credential.as_ref());
        Mask::new(open.chain(self.used.iter().map(|(_, credential)| credential)))
    }

    /// The next fact of any exchange; waits for ever when there is none. Without
    /// `wants_body`, bodies are left alone.
    ///
    /// Cancel safe: what a future gave is kept in the same step in which it is
    /// told, and [`Body::chunk`] is cancel safe by contract.
    pub(super) async fn next(&mut self, wants_body: bool) -> (u32, Fact) {
        tokio::select! {
            biased;
            told = next_of(&mut self.one, wants_body) => told,
            told = next_of(&mut self.other, wants_body) => told,
        }
    }
}

async fn next_of(place: &mut Option<Upstream>, wants_body: bool) -> (u32, Fact) {
    match place {
        Some(upstream) if wants_body || !matches!(upstream.state, State::Body(_)) => {
            (upstream.attempt, upstream.next().await)
        }
        _ => pending().await,
    }
}

impl Upstream {
    async fn next(&mut self) -> Fact {
        let fact = match &mut self.state {
            State::New(entering) => {
                let first = poll_fn(|context| Poll::Ready(entering.as_mut().poll(context))).await;
                match first {
                    Poll::Ready(entered) => return self.entered(entered),
                    Poll::Pending => {
                        if let State::New(entering) =
                            std::mem::replace(&mut self.state, State::Over)
                        {
                            self.state = State::Queued(entering);
                        }
                        return Fact::Queued;
                    }
                }
            }
            State::Queued(entering) => {
                let entered = entering.await;
                return self.entered(entered);
            }
            State::Opening(opening) => match opening.await {
                Ok(Response { head, body }) => {
                    self.state = State::Body(body);
                    return Fact::Head(head);
                }
                Err(failure) => Fact::Failed(failure),
            },
            State::Body(body) => match body.chunk().await {
                Ok(Some(bytes)) => return Fact::Chunk(bytes),
                Ok(None) => Fact::EndOfBody,
                Err(failure) => Fact::Failed(failure),
            },
            State::Over => pending().await,
        };
        self.state = State::Over;
        fact
    }

    fn entered(&mut self, entered: Result<Entered, Refusal>) -> Fact {
        match entered {
            Ok(Entered {
                outgoing,
                credential,
                permit,
            }) => {
                self.credential = credential;
                self.permit = Some(permit);
                let transport = Arc::clone(&self.transport);
                self.state =
                    State::Opening(Box::pin(async move { transport.open(outgoing).await }));
                Fact::Admitted
            }
            Err(refusal) => {
                self.state = State::Over;
                Fact::Refused(refusal)
            }
        }
    }
}
