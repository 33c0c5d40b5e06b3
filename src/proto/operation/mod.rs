//! The states of one operation, as a machine without IO. Floor 2.
//!
//! Facts go in ([`Operation::handle`], [`Operation::handle_timeout`]); orders come
//! out ([`Operation::poll`]). After every call of a `handle` method, `poll` until
//! it is empty and ask [`Operation::next_timeout`] and [`Operation::wants_body`]
//! again. The machine reads no clock: every call brings the time with it.
//!
//! ```text
//!  Opening ──ack──▶ Exchanging ──▶ Asking ──yes──▶ BackingOff ──▶ Opening …
//!                       │             │
//!                       ▼             ▼ no
//!                  Concluding ──ack──▶ Finished
//! ```
//!
//! What must hold, in any order of inputs (`tests/operation_properties.rs`):
//!
//! - no request leaves before its record is acknowledged under the current lease;
//! - `Announce` never runs ahead of `Appended`; record numbers are dense;
//! - once output was committed the original request is never sent again;
//! - `Finish` comes once, and last.

mod anchor;
mod ask;
mod conclude;
mod continuing;
mod decide;
mod exchange;
mod gaps;
mod held;
mod outbox;
mod plan;
mod receive;
mod recovered;
mod rival;
mod route;
mod start;
mod tally;
mod whole;

pub use ask::{Answer as Reply, Question};
pub use gaps::Gaps;
pub use outbox::Append;
pub use plan::{Hold, Limits, Plan, ResumePolicy};
pub use recovered::Recovered;
pub use route::Route;
pub use start::Recovery;

use crate::error::ErrorKind;
use crate::proto::classify::Failure;
use crate::proto::dialect::{ContinuationForm, Interpreter};
use crate::proto::journal::{
    AttemptEnded, AttemptKind, AttemptStarted, Ended, FailureNote, Interrupted,
};
use crate::proto::model::{
    Answer, HttpRequest, Moment, ResponseHead, Seq, TransportFailure, WallTime,
};
use crate::proto::retry::Schedule;
use anchor::Anchor;
use ask::Asking;
use bytes::Bytes;
use exchange::Exchange;
use held::Held;
use outbox::Outbox;
use rival::{Hedge, Rival};
use std::collections::VecDeque;
use std::mem;
use std::time::Duration;

/// The time of a call, on both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// The monotonic clock, for everything that is measured.
    pub moment: Moment,
    /// The wall clock, for records and `Retry-After` dates.
    pub wall: WallTime,
}

/// A fact that happened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Input {
    /// Something about the upstream exchange of this attempt. Facts about any
    /// other attempt than the current one are ignored: they are late.
    Upstream {
        /// The attempt, as in [`Output::Open`].
        attempt: u32,
        /// What happened.
        fact: Fact,
    },
    /// The store acknowledged the append that ends with this record.
    Appended(Seq),
    /// The store refused or lost the append in flight.
    AppendFailed {
        /// One of the storage kinds.
        kind: ErrorKind,
        /// One line for people.
        message: String,
    },
    /// The reply to a question. A reply to any other question than the one that
    /// waits is late, and ignored.
    Replied {
        /// The question's number, as in [`Output::Ask`].
        id: u32,
        /// What was said.
        reply: Reply,
    },
    /// The caller wants it to stop.
    Cancel,
}

/// What happened to an upstream exchange.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Fact {
    /// The request waits for its turn at the endpoint. No clock of the upstream
    /// runs until [`Fact::Admitted`].
    Queued,
    /// Its turn has come: it goes out now, and the clocks begin.
    Admitted,
    /// It was not let through, and did not go out.
    Refused(Refusal),
    /// The response's head arrived.
    Head(ResponseHead),
    /// A piece of the body arrived.
    Chunk(Bytes),
    /// The body ended as HTTP says it should.
    EndOfBody,
    /// It broke below HTTP.
    Failed(TransportFailure),
}

/// Why a request was not let through to its endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// [`ErrorKind::CircuitOpen`], [`ErrorKind::Saturated`], or
    /// [`ErrorKind::Auth`] when there is no credential for it.
    pub kind: ErrorKind,
    /// One line for people.
    pub message: String,
    /// When it may be let through.
    pub retry_after: Option<Duration>,
}

/// An order.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Output {
    /// Send this request, and report what becomes of it as facts of this attempt.
    Open {
        /// The number of the attempt.
        attempt: u32,
        /// The route it takes; 0 is the first.
        route: usize,
        /// What to send. The credential is not in it.
        request: HttpRequest,
    },
    /// Close the exchange of this attempt at once, if it is still open.
    Close {
        /// The number of the attempt.
        attempt: u32,
    },
    /// Tell the provider to stop a run that outlives its connection. Best
    /// effort: send it, bounded in time, and forget the answer.
    Tell {
        /// The route whose provider it is; 0 is the first.
        route: usize,
        /// What to send.
        request: HttpRequest,
    },
    /// Find out, and answer with [`Input::Replied`]. Nothing else is waited for
    /// but the deadline, so the reply should not take long.
    Ask {
        /// The number to reply to.
        id: u32,
        /// What.
        question: Question,
    },
    /// Something worth counting happened. Decides nothing.
    Note(Note),
    /// Append these records. One append is out at a time.
    Append(Append),
    /// Readers may be shown every record up to this one.
    Announce(Seq),
    /// The end, once and last.
    Finish(Outcome),
}

/// What a [`Output::Note`] tells.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Note {
    /// The first output of an attempt came.
    FirstOutput {
        /// The number of the attempt.
        attempt: u32,
        /// Since its request was sent.
        after: Duration,
    },
    /// An attempt ended; the same as its records say.
    Ended(Box<Attempt>),
}

/// One upstream exchange, as its two records tell it.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    /// How it began.
    pub started: AttemptStarted,
    /// How it ended.
    pub ended: AttemptEnded,
    /// How long its reader waited between two arrivals of output. Not in the
    /// records, but for the longest.
    pub gaps: Gaps,
}

/// How an operation ended, as far as this machine is concerned.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Outcome {
    /// The journal has its final record.
    Ended(Ended),
    /// The answer rests after an interruption; its options are in the record.
    Interrupted(Interrupted),
    /// The store failed. What it acknowledged is safe; what became of the
    /// append in flight is not known.
    StoreFailed(FailureNote),
}

/// What was counted on the way; for logs and metrics, not for decisions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Events of a type the dialect does not know. They were delivered.
    pub unknown: u64,
    /// Payloads that are not JSON at all. They were skipped.
    pub noise: u64,
    /// Pings, keep-alives and empty events. They were skipped.
    pub keep_alives: u64,
    /// Comment lines.
    pub comments: u64,
    /// Events that a resume brought a second time. They were dropped.
    pub duplicates: u64,
}

/// One operation, from its claim to its outcome.
#[derive(Debug)]
pub struct Operation {
    plan: Plan,
    started: Moment,
    state: State,
    outputs: VecDeque<Output>,
    outbox: Outbox,
    schedule: Schedule,

    answer: Answer,
    interpreter: Box<dyn Interpreter>,
    anchor: Anchor,
    held: Held,
    /// Whether output was committed: from here on there is no replay.
    committed: bool,
    /// Bytes of event data, committed and held.
    bytes: usize,

    attempts: u32,
    /// The number of the route that is asked.
    route: usize,
    /// Whole requests sent to this route.
    sends: u32,
    /// Whether the credential of this route was refreshed already.
    refreshed: bool,
    questions: u32,
    hedge: Hedge,
    rival: Option<Box<Rival>>,
    resumes: u32,
    /// Resumes in a row that brought nothing.
    in_vain: u32,
    polling_since: Option<Moment>,
    polls: u32,
    continuation: Option<Continuation>,
    counts: Counts,
}

/// A continuation under way.
#[derive(Debug)]
struct Continuation {
    /// The form it has to have; `None` for the one that the model takes.
    form: Option<ContinuationForm>,
    /// Whether this is the second form, tried because the first was refused.
    switched: bool,
    /// The answer it goes on with: what stands when an attempt at it fails
    /// before its first output.
    base: Answer,
}

/// What the machine is waiting for.
#[derive(Debug)]
enum State {
    /// For the store to acknowledge the record of the attempt; then it goes out.
    Opening(Box<Exchange>, HttpRequest),
    /// For the upstream.
    Exchanging(Box<Exchange>),
    /// For the reply that says whether there may be another attempt.
    Asking(Box<Asking>),
    /// For the time of the next attempt.
    BackingOff { until: Moment, next: AttemptKind },
    /// For the store to acknowledge the last records.
    Concluding(Box<Outcome>),
    /// For nothing.
    Finished,
}

impl Operation {
    /// Takes a fact.
    pub fn handle(&mut self, now: Now, input: Input) {
        match input {
            Input::Upstream { attempt, fact } => self.upstream(now, attempt, fact),
            Input::Appended(through) => {
                if let Some(head) = self.outbox.acknowledge(through) {
                    self.outputs.push_back(Output::Announce(head));
                }
            }
            Input::AppendFailed { kind, message } => self.store_failed(kind, message),
            Input::Replied { id, reply } => self.replied(now, id, reply),
            Input::Cancel => self.cancel(now),
        }
        self.advance(now);
    }

    /// Tells the time. Call it when [`Operation::next_timeout`] has come; calling
    /// it earlier does nothing.
    pub fn handle_timeout(&mut self, now: Now) {
        self.clocks(now);
        self.advance(now);
    }

    /// The next order, if there is one.
    pub fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When to call [`Operation::handle_timeout`] next, at the latest.
    pub fn next_timeout(&self) -> Option<Moment> {
        let own = match &self.state {
            State::Exchanging(exchange) => {
                let hold = self.held.ends_at();
                exchange
                    .next_timeout(&self.plan.timeouts)
                    .into_iter()
                    .chain(hold)
                    .chain(self.rival_timeout(exchange))
                    .min()
            }
            State::BackingOff { until, .. } => Some(*until),
            State::Opening(..) | State::Asking(_) => None,
            State::Concluding(_) | State::Finished => return None,
        };
        let overall = self
            .plan
            .timeouts
            .overall
            .map(|limit| self.started.after(limit));
        own.into_iter().chain(overall).min()
    }

    /// Whether more of the body should be read now. `false` while the store is
    /// so far behind that more would only pile up in memory.
    pub fn wants_body(&self) -> bool {
        self.outbox.waiting_bytes() < self.plan.limits.max_waiting_bytes
    }

    /// The answer so far, held-back output included.
    pub fn answer(&self) -> &Answer {
        &self.answer
    }

    /// The route with this number, as orders name them; the first is 0.
    pub fn route(&self, number: usize) -> &Route {
        self.plan.route(number)
    }

    /// The caller's own version of the prompt, if it named one.
    pub fn prompt_version(&self) -> Option<&str> {
        self.plan.prompt_version.as_deref()
    }

    /// What an exchange that is under way was made for.
    pub fn kind_of(&self, attempt: u32) -> Option<AttemptKind> {
        let own = match &self.state {
            State::Opening(exchange, _) | State::Exchanging(exchange) => Some(exchange),
            _ => None,
        };
        let rival = self.rival.as_ref().map(|rival| &rival.exchange);
        own.into_iter()
            .chain(rival)
            .find(|exchange| exchange.number == attempt)
            .map(|exchange| exchange.kind)
    }

    /// Whether output was committed.
    pub fn is_committed(&self) -> bool {
        self.committed
    }

    /// What was counted so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Moves on whatever can move without another fact.
    fn advance(&mut self, now: Now) {
        if let Some(append) = self.outbox.take() {
            self.outputs.push_back(Output::Append(append));
        }
        if !self.outbox.is_empty() {
            return;
        }
        match mem::replace(&mut self.state, State::Finished) {
            State::Opening(mut exchange, request) => {
                exchange.is_sent(now.moment);
                let (attempt, route) = (exchange.number, self.route);
                self.state = State::Exchanging(exchange);
                self.outputs.push_back(Output::Open {
                    attempt,
                    route,
                    request,
                });
            }
            State::Concluding(outcome) => self.outputs.push_back(Output::Finish(*outcome)),
            other => self.state = other,
        }
        self.open_rival(now);
    }

    fn upstream(&mut self, now: Now, attempt: u32, fact: Fact) {
        match mem::replace(&mut self.state, State::Finished) {
            State::Exchanging(exchange) if exchange.number == attempt => {
                self.state = self.receive(now, exchange, fact);
                self.settle_race(now);
            }
            State::Exchanging(exchange) if self.is_rival(attempt) => {
                self.state = State::Exchanging(exchange);
                self.swap_rival();
                self.upstream(now, attempt, fact);
            }
            other => self.state = other,
        }
    }

    fn clocks(&mut self, now: Now) {
        let late = held::passed(now.moment, self.started, self.plan.timeouts.overall);
        match mem::replace(&mut self.state, State::Finished) {
            State::Exchanging(exchange) => {
                self.state = self.exchange_clocks(now, exchange, late);
                self.settle_race(now);
                self.rival_clocks(now);
            }
            State::Opening(exchange, _) if late.is_some() => {
                self.state = self.give_up(now, Some(&exchange), &self.past_deadline(now));
            }
            State::Asking(asking) if late.is_some() => {
                let failure = self.past_deadline(now);
                self.state = self.give_up_after(now, asking.attempt, &failure);
            }
            State::BackingOff { until, next } => {
                self.state = if late.is_some() {
                    self.give_up(now, None, &self.past_deadline(now))
                } else if now.moment >= until {
                    self.begin(now, next)
                } else {
                    State::BackingOff { until, next }
                };
            }
            other => self.state = other,
        }
    }

    fn exchange_clocks(
        &mut self,
        now: Now,
        mut exchange: Box<Exchange>,
        late: Option<Duration>,
    ) -> State {
        if exchange.grace_is_over(now.moment, &self.plan.timeouts) {
            return self.complete(now, &exchange);
        }
        if late.is_some() {
            let failure = self.past_deadline(now);
            return self.failed(now, &exchange, &failure);
        }
        if exchange.refusal_is_late(now.moment) {
            return self.refused(now, exchange);
        }
        if let Some(failure) = exchange.timed_out(now.moment, &self.plan.timeouts) {
            return self.failed(now, &exchange, &failure);
        }
        self.commit_if_due(now, &mut exchange);
        State::Exchanging(exchange)
    }

    fn past_deadline(&self, now: Now) -> Failure {
        let limit = self.plan.timeouts.overall.unwrap_or_default();
        Failure::new(
            ErrorKind::DeadlineExceeded,
            format!(
                "the deadline of {} ms passed after {} ms and {} attempts",
                limit.as_millis(),
                now.moment.since(self.started).as_millis(),
                self.attempts,
            ),
        )
    }

    fn store_failed(&mut self, kind: ErrorKind, message: String) {
        match mem::replace(&mut self.state, State::Finished) {
            State::Finished => {}
            state => {
                if let State::Exchanging(exchange) = state {
                    self.close(&exchange);
                }
                if let Some(rival) = self.rival.take() {
                    self.close(&rival.exchange);
                }
                self.outbox = Outbox::new(Seq::ZERO);
                self.outputs.push_back(Output::Finish(Outcome::StoreFailed(
                    Failure::new(kind, message).note(),
                )));
            }
        }
    }
}
