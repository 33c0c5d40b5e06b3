//! How an operation begins: from nothing, or from its journal.

use super::anchor::Anchor;
use super::continuing::Continuing;
use super::exchange::Exchange;
use super::held::Held;
use super::outbox::Outbox;
use super::plan::Plan;
use super::recovered::{Recovered, opened};
use super::rival::Hedge;
use super::{Continuation, Counts, Now, Operation, State};
use crate::error::{Error, ErrorKind};
use crate::proto::classify::Failure;
use crate::proto::dialect::{ContinuationForm, Request, interpreter, interpreter_after};
use crate::proto::journal::{AttemptKind, AttemptStarted, Control};
use crate::proto::model::{Answer, HttpRequest, Seq};
use crate::proto::retry::Schedule;
use std::collections::VecDeque;

/// How to go on with an operation that a journal tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Recovery {
    /// Through the provider's own cursor.
    Resume,
    /// By a request that asks the model to go on; `None` chooses the form by the
    /// model's name.
    Continue(Option<ContinuationForm>),
    /// From the start, because nothing was ever shown: its writer died before
    /// the commit point.
    Restart,
    /// Not at all: its writer died, and the journal is told the truth. Complete
    /// if the proof had come, else interrupted.
    Settle,
    /// Not at all: the caller wants it to stop.
    Cancel,
}

impl Operation {
    /// A new operation. Its first order is to append what was asked.
    ///
    /// `seed` seeds the jitter; it comes from a source of randomness above.
    pub fn new(plan: Plan, now: Now, seed: u64) -> Self {
        let opened = opened(&plan);
        let mut operation = Self {
            started: now.moment,
            state: State::Finished,
            outputs: VecDeque::new(),
            outbox: Outbox::new(Seq::ZERO),
            schedule: Schedule::new(plan.retry, seed),
            answer: Answer::default(),
            interpreter: interpreter(plan.request().dialect()),
            anchor: Anchor::new(plan.request().is_background()),
            held: Held::new(plan.hold),
            committed: false,
            bytes: 0,
            attempts: 0,
            route: 0,
            sends: 0,
            refreshed: false,
            questions: 0,
            hedge: hedge(&plan),
            rival: None,
            resumes: 0,
            in_vain: 0,
            polling_since: None,
            polls: 0,
            continuation: None,
            counts: Counts::default(),
            plan,
        };
        operation.outbox.control(now.wall, Control::Opened(opened));
        operation.state = operation.begin(now, AttemptKind::First);
        operation.advance(now);
        operation
    }

    /// Goes on with an operation from its journal, under a new lease, on the
    /// routes that the journal tells.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotPossible`] when the journal has its final record, or the
    /// answer cannot be recovered this way; the message says why and what can
    /// be done instead.
    pub fn recover(
        mut plan: Plan,
        recovered: Recovered,
        recovery: Recovery,
        now: Now,
        seed: u64,
    ) -> Result<Self, Error> {
        recovered.check(recovery)?;
        // The answer is one of the routes that it began with, whatever routes a
        // later caller has.
        plan.route = recovered.first;
        plan.fallbacks = recovered.fallbacks;
        let continuation = match recovery {
            Recovery::Continue(form) => Some(Continuation {
                form,
                switched: false,
                base: recovered.answer.clone(),
            }),
            _ => None,
        };
        let mut operation = Self {
            started: now.moment,
            state: State::Finished,
            outputs: VecDeque::new(),
            outbox: Outbox::new(recovered.head),
            schedule: Schedule::new(plan.retry, seed),
            answer: recovered.answer,
            interpreter: recovered.interpreter,
            anchor: recovered.anchor,
            held: Held::new(plan.hold),
            committed: recovered.committed,
            bytes: recovered.bytes,
            attempts: recovered.attempts,
            route: recovered.route,
            sends: 0,
            refreshed: false,
            questions: 0,
            hedge: hedge(&plan),
            rival: None,
            resumes: 0,
            in_vain: 0,
            polling_since: None,
            polls: 0,
            continuation,
            counts: Counts::default(),
            plan,
        };
        operation.state = match recovery {
            Recovery::Resume => operation.begin(now, AttemptKind::Resume),
            Recovery::Continue(_) => operation.begin(now, AttemptKind::Continue),
            Recovery::Restart => {
                operation.route = 0;
                operation.forget();
                operation.begin(now, AttemptKind::Rerun)
            }
            Recovery::Settle => operation.settle(now),
            Recovery::Cancel => {
                let failure = Failure::new(
                    ErrorKind::Cancelled,
                    "the caller cancelled the operation after its writer had ended",
                );
                operation.stopped(now, None, &failure)
            }
        };
        operation.advance(now);
        Ok(operation)
    }

    /// Records an attempt and makes its request ready; it goes out when the
    /// store has acknowledged the record.
    pub(super) fn begin(&mut self, now: Now, kind: AttemptKind) -> State {
        if kind.is_send() && self.committed {
            // The first invariant, checked where every request passes.
            let failure = Failure::new(
                ErrorKind::Internal,
                "the request was about to be sent again after output was shown",
            );
            return self.interrupt(now, None, &failure, true);
        }
        if let (AttemptKind::Continue, Some(continuation)) = (kind, &self.continuation) {
            self.answer = continuation.base.clone();
            self.interpreter = interpreter_after(self.request().dialect(), &self.answer);
        }
        let mut exchange = Exchange::new(self.attempts.saturating_add(1), kind, now.moment);
        let request = match self.request_for(&mut exchange) {
            Ok(request) => request,
            // A continuation that cannot be built, or a response id that cannot
            // be asked for.
            Err(failure) => return self.give_up(now, None, &failure),
        };
        self.attempts = exchange.number;
        match kind {
            AttemptKind::Resume => self.resumes = self.resumes.saturating_add(1),
            AttemptKind::Poll => self.polls = self.polls.saturating_add(1),
            _ => self.sends = self.sends.saturating_add(1),
        }
        let after = match kind {
            AttemptKind::Resume => self.anchor.last(),
            _ => None,
        };
        exchange.after = after;
        let started = Self::started(&self.plan, self.route, &mut exchange);
        self.outbox.control(now.wall, started);
        State::Opening(Box::new(exchange), request)
    }

    /// The record that an exchange begins on this route.
    pub(super) fn started(plan: &Plan, route: usize, exchange: &mut Exchange) -> Control {
        let route = plan.route(route);
        exchange.record = AttemptStarted {
            attempt: exchange.number,
            kind: exchange.kind,
            after: exchange.after,
            route: route.name().to_owned(),
            endpoint: route.request().endpoint().to_owned(),
            model: route.request().model().map(str::to_owned),
        };
        Control::AttemptStarted(exchange.record.clone())
    }

    /// What is asked of the route that is asked.
    pub(super) fn request(&self) -> &Request {
        self.plan.route(self.route).request()
    }

    fn request_for(&self, exchange: &mut Exchange) -> Result<HttpRequest, Failure> {
        let request = self.request();
        let id = self.anchor.resumable_id().unwrap_or_default();
        let mut http = match exchange.kind {
            AttemptKind::First
            | AttemptKind::Retry
            | AttemptKind::Rerun
            | AttemptKind::Failover
            | AttemptKind::Hedge => request.send(),
            AttemptKind::Resume => request
                .resume(id, self.anchor.last())
                .map_err(|error| unusable(&error))?,
            AttemptKind::Poll => request.poll(id).map_err(|error| unusable(&error))?,
            AttemptKind::Continue => {
                let form = self
                    .continuation
                    .as_ref()
                    .and_then(|continuation| continuation.form);
                let continuing =
                    Continuing::new(request, &self.answer, form).map_err(|reason| {
                        Failure::new(
                            ErrorKind::NotPossible,
                            format!("this answer cannot be continued: {reason}"),
                        )
                    })?;
                exchange.splicer = Some(continuing.splicer);
                exchange.form = Some(continuing.form);
                continuing.request
            }
        };
        // A continuation is another request: under the same key it would be a
        // conflict for a provider that looks at keys.
        if exchange.kind.is_send() {
            http.headers
                .push(("idempotency-key".to_owned(), self.plan.upstream_key()));
        }
        Ok(http)
    }

    /// Forgets what arrived and was shown to nobody, so that the whole request
    /// can go out again.
    pub(super) fn forget(&mut self) {
        self.held.take();
        self.answer = Answer::default();
        self.interpreter = interpreter(self.request().dialect());
        self.anchor = Anchor::new(self.request().is_background());
        self.bytes = 0;
        self.in_vain = 0;
        self.polling_since = None;
        self.polls = 0;
    }
}

/// The provider's name for the answer cannot be put in a URL: a hostile or a
/// broken provider. The answer then has no cursor.
fn unusable(error: &Error) -> Failure {
    Failure::new(ErrorKind::NotPossible, error.message())
}

fn hedge(plan: &Plan) -> Hedge {
    match plan.hedge_after {
        Some(delay) if plan.may_hedge() => Hedge::After(delay),
        _ => Hedge::Over,
    }
}
