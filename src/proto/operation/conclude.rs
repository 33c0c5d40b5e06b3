//! The ways an operation ends.

use super::exchange::Exchange;
use super::recovered::options;
use super::{Now, Operation, Outcome, Output, State};
use crate::error::ErrorKind;
use crate::proto::classify::Failure;
use crate::proto::journal::{Control, End, Ended, Interrupted, Status};
use crate::proto::model::{Answer, Completion, StopReason};
use std::mem;
use std::time::Duration;

impl Operation {
    /// The dialect's proof of completion came, or its end marker without one.
    pub(super) fn complete(&mut self, now: Now, exchange: &Exchange) -> State {
        let proven = self.interpreter.completion() == Completion::Proven;
        if let Some(failure) = self.stray_failure(exchange) {
            return self.failed(now, exchange, &failure);
        }
        if !proven && exchange.first_output.is_none() {
            // Servers whose engine broke send the end marker all the same: a
            // claim about nothing is no answer.
            return self.failed(now, exchange, &unended(exchange));
        }
        if !proven && !self.answer.tool_calls_are_json() {
            // A claim is enough for text, but a tool call that is not whole
            // JSON must not be run.
            let failure = Failure::new(
                ErrorKind::Truncated,
                "an end marker came without a stop reason, and a tool call is not whole",
            );
            self.close(exchange);
            return self.give_up(now, Some(exchange), &failure);
        }
        self.close(exchange);
        self.commit(now);
        self.note_end(now, exchange, None, "finish", Duration::ZERO);
        let (end, warnings) = if proven { how(&self.answer) } else { claimed() };
        self.finish(now, end, None, warnings)
    }

    /// The writer of this journal died. Tells how the answer stands.
    pub(super) fn settle(&mut self, now: Now) -> State {
        if self.interpreter.completion() == Completion::Proven {
            let (end, warnings) = how(&self.answer);
            return self.finish(now, end, None, warnings);
        }
        let failure = Failure::new(
            ErrorKind::Truncated,
            "the process that wrote this answer ended before the answer did",
        );
        if !self.committed {
            return self.finish(now, End::Failed, Some(&failure), Vec::new());
        }
        self.interrupt(now, None, &failure, true)
    }

    /// Nothing more can be done by us: a failure if there is no output, else an
    /// interruption. Output that was held back is committed then: what was paid
    /// for is kept, and can be resumed or continued.
    pub(super) fn give_up(
        &mut self,
        now: Now,
        exchange: Option<&Exchange>,
        failure: &Failure,
    ) -> State {
        if self.committed || self.held.has_output() {
            return self.interrupt(now, exchange, failure, true);
        }
        if let Some(exchange) = exchange {
            self.note_end(now, exchange, Some(failure), "stop", Duration::ZERO);
        }
        self.held.take();
        self.finish(now, End::Failed, Some(failure), Vec::new())
    }

    /// The answer stopped after the commit point.
    pub(super) fn interrupt(
        &mut self,
        now: Now,
        exchange: Option<&Exchange>,
        failure: &Failure,
        cursor_still_good: bool,
    ) -> State {
        if let Some(exchange) = exchange {
            self.note_end(now, exchange, Some(failure), "interrupt", Duration::ZERO);
        }
        self.drop_rival(now);
        // What arrived is kept, even if it was waiting for more.
        self.commit(now);
        let interrupted = Interrupted {
            failure: failure.note(),
            options: options(
                self.request(),
                &self.answer,
                cursor_still_good && self.anchor.is_resumable(),
            ),
        };
        self.outbox
            .control(now.wall, Control::Interrupted(interrupted.clone()));
        self.outbox.set_status(Status::Interrupted);
        State::Concluding(Box::new(Outcome::Interrupted(interrupted)))
    }

    /// The caller wants it to stop.
    pub(super) fn cancel(&mut self, now: Now) {
        let failure = Failure::new(ErrorKind::Cancelled, "the caller cancelled the operation");
        self.state = match mem::replace(&mut self.state, State::Finished) {
            State::Exchanging(exchange) => {
                if self.interpreter.completion() == Completion::Proven {
                    self.complete(now, &exchange)
                } else {
                    self.close(&exchange);
                    self.stopped(now, Some(&exchange), &failure)
                }
            }
            State::Opening(exchange, _) => self.stopped(now, Some(&exchange), &failure),
            State::BackingOff { .. } => self.stopped(now, None, &failure),
            State::Asking(asking) => {
                self.attempt_ended(now, asking.attempt, "stop", Duration::ZERO);
                self.stopped(now, None, &failure)
            }
            other => other,
        };
    }

    pub(super) fn stopped(
        &mut self,
        now: Now,
        exchange: Option<&Exchange>,
        failure: &Failure,
    ) -> State {
        if let Some(id) = self.anchor.resumable_id()
            && let Ok(request) = self.request().cancel(id)
        {
            self.outputs.push_back(Output::Tell {
                route: self.route,
                request,
            });
        }
        if let Some(exchange) = exchange {
            self.note_end(now, exchange, Some(failure), "stop", Duration::ZERO);
        }
        // What arrived is kept.
        self.commit(now);
        self.finish(now, End::Cancelled, Some(failure), Vec::new())
    }

    fn finish(
        &mut self,
        now: Now,
        end: End,
        failure: Option<&Failure>,
        warnings: Vec<String>,
    ) -> State {
        self.drop_rival(now);
        let ended = Ended {
            end,
            stop: self.answer.stop().cloned(),
            failure: failure.map(Failure::note),
            usage: self.answer.usage,
            attempts: self.attempts,
            warnings,
        };
        self.outbox.control(now.wall, Control::Ended(ended.clone()));
        self.outbox.set_status(Status::Ended(end));
        State::Concluding(Box::new(Outcome::Ended(ended)))
    }
}

/// The failure of an exchange that ended without saying that the answer did.
pub(super) fn unended(exchange: &Exchange) -> Failure {
    if exchange.substance {
        Failure::new(
            ErrorKind::Truncated,
            "the stream ended without the dialect's proof of completion",
        )
    } else {
        Failure::new(
            ErrorKind::EmptyResponse,
            "the response ended without a single event of substance",
        )
    }
}

fn claimed() -> (End, Vec<String>) {
    (End::Claimed, vec!["missing_stop_reason".to_owned()])
}

/// How a proven answer ended: the gravest stop reason of its candidates.
fn how(answer: &Answer) -> (End, Vec<String>) {
    let mut end = End::Complete;
    let mut warnings = Vec::new();
    let gravity = |end: End| match end {
        End::Complete => 0,
        End::Claimed => 1,
        End::Truncated => 2,
        End::Filtered => 3,
        End::Refused => 4,
        End::Failed | End::Cancelled => 5,
    };
    for choice in answer.choices.values() {
        let this = match &choice.stop {
            Some(StopReason::Stop | StopReason::ToolCalls) => End::Complete,
            Some(StopReason::Length | StopReason::Paused) => End::Truncated,
            Some(StopReason::ContentFilter) => End::Filtered,
            Some(StopReason::Refusal) => End::Refused,
            Some(StopReason::Other(_)) => {
                // It stopped for a reason of its own: an end, but no proof.
                warnings.push("unknown_stop_reason".to_owned());
                End::Claimed
            }
            None => End::Complete,
        };
        if gravity(this) > gravity(end) {
            end = this;
        }
    }
    (end, warnings)
}
