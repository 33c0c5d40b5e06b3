//! Questions that decide whether there is another attempt.
//!
//! What is shared between operations (the retry budget) or lives outside the
//! core (a credential) cannot be looked up here, so the machine asks, and waits
//! for the reply before it sleeps.

use super::exchange::Exchange;
use super::rival::Hedge;
use super::{Attempt, Note, Now, Operation, Output, State};
use crate::error::ErrorKind;
use crate::proto::classify::Failure;
use crate::proto::journal::{AttemptKind, Control};
use crate::proto::retry::RetryHints;
use std::mem;
use std::time::Duration;

/// What the machine wants to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Question {
    /// Whether the retry budget carries this attempt. Asked before the sleep:
    /// an exhausted budget fails at once.
    Spend {
        /// The kind of the attempt.
        kind: AttemptKind,
        /// The route it would take.
        route: usize,
        /// The failure that led to it; `None` for a hedge.
        failure: Option<ErrorKind>,
    },
    /// Whether there is another credential for this route than the one that was
    /// refused.
    Refresh {
        /// The route.
        route: usize,
    },
}

/// The reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It does; there is.
    Yes,
    /// It does not; there is none.
    No {
        /// One line for people.
        message: String,
        /// When it may be otherwise.
        retry_after: Option<Duration>,
    },
}

/// The attempt that is to follow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Next {
    pub(super) kind: AttemptKind,
    pub(super) route: usize,
    pub(super) delay: Duration,
}

/// A failed attempt whose sequel waits for a reply.
#[derive(Debug)]
pub(super) struct Asking {
    id: u32,
    question: Question,
    pub(super) attempt: Attempt,
    failure: Failure,
    next: Next,
}

impl Operation {
    /// Asks whether the budget carries what is to follow.
    pub(super) fn ask_to_spend(
        &mut self,
        attempt: Attempt,
        failure: &Failure,
        next: Next,
    ) -> State {
        let question = Question::Spend {
            kind: next.kind,
            route: next.route,
            failure: Some(failure.kind),
        };
        self.asking(question, attempt, failure.clone(), next)
    }

    /// Asks for another credential than the one that was refused.
    pub(super) fn ask_to_refresh(
        &mut self,
        now: Now,
        exchange: &Exchange,
        failure: &Failure,
        next: Next,
    ) -> State {
        self.refreshed = true;
        let attempt = self.attempt(now, exchange, Some(failure));
        let question = Question::Refresh { route: self.route };
        self.asking(question, attempt, failure.clone(), next)
    }

    fn asking(
        &mut self,
        question: Question,
        attempt: Attempt,
        failure: Failure,
        next: Next,
    ) -> State {
        let id = self.ask(question);
        State::Asking(Box::new(Asking {
            id,
            question,
            attempt,
            failure,
            next,
        }))
    }

    /// Puts a question; its number.
    pub(super) fn ask(&mut self, question: Question) -> u32 {
        self.questions = self.questions.saturating_add(1);
        let id = self.questions;
        self.outputs.push_back(Output::Ask { id, question });
        id
    }

    pub(super) fn replied(&mut self, now: Now, id: u32, reply: Answer) {
        if self.hedge == Hedge::Asked(id) {
            self.hedge = Hedge::Over;
            if reply == Answer::Yes {
                self.begin_hedge(now);
            }
            return;
        }
        self.state = match mem::replace(&mut self.state, State::Finished) {
            State::Asking(asking) if asking.id == id => self.go_on(now, *asking, reply),
            other => other,
        };
    }

    fn go_on(&mut self, now: Now, asking: Asking, reply: Answer) -> State {
        let Asking {
            question,
            attempt,
            failure,
            next,
            ..
        } = asking;
        match (reply, question) {
            (Answer::Yes, Question::Refresh { .. }) => self.ask_to_spend(attempt, &failure, next),
            (Answer::Yes, Question::Spend { .. }) => self.follow(now, attempt, next),
            (Answer::No { .. }, Question::Refresh { .. }) => {
                self.give_up_after(now, attempt, &failure)
            }
            (
                Answer::No {
                    message,
                    retry_after,
                },
                Question::Spend { .. },
            ) => {
                let exhausted = Failure {
                    kind: ErrorKind::BudgetExhausted,
                    message: format!("{message}; not sent again after: {}", failure.message),
                    hints: RetryHints {
                        after: retry_after.max(failure.hints.after),
                        ..failure.hints
                    },
                    ..failure
                };
                self.give_up_after(now, attempt, &exhausted)
            }
        }
    }

    /// There is no other attempt after this one.
    pub(super) fn give_up_after(&mut self, now: Now, attempt: Attempt, failure: &Failure) -> State {
        let decision = if self.committed || self.held.has_output() {
            "interrupt"
        } else {
            "stop"
        };
        self.attempt_ended(now, attempt, decision, Duration::ZERO);
        self.give_up(now, None, failure)
    }

    /// Records how an attempt ended, and waits for the time of the next one.
    pub(super) fn follow(&mut self, now: Now, attempt: Attempt, next: Next) -> State {
        let Next { kind, route, delay } = next;
        self.attempt_ended(now, attempt, kind.as_str(), delay);
        if kind == AttemptKind::Continue {
            self.held.take();
        } else {
            if route != self.route {
                self.route = route;
                self.sends = 0;
                self.refreshed = false;
            }
            self.forget();
        }
        State::BackingOff {
            until: now.moment.after(delay),
            next: kind,
        }
    }

    /// Records how an attempt ended and what follows, and tells of it.
    pub(super) fn attempt_ended(
        &mut self,
        now: Now,
        mut attempt: Attempt,
        decision: &str,
        delay: Duration,
    ) {
        decision.clone_into(&mut attempt.ended.decision);
        attempt.ended.delay_ms = millis(delay);
        self.outbox
            .control(now.wall, Control::AttemptEnded(attempt.ended.clone()));
        self.outputs
            .push_back(Output::Note(Note::Ended(Box::new(attempt))));
    }
}

pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
