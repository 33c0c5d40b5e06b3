//! What follows from a failure: again, on, or the truth.

use super::ask::{Next, millis};
use super::exchange::Exchange;
use super::{Attempt, Now, Operation, Route, State};
use crate::error::ErrorKind;
use crate::proto::classify::{Elsewhere, Failure, Verdict, elsewhere, judge};
use crate::proto::dialect::{ContinuationForm, is_prefill_refusal};
use crate::proto::journal::{AttemptEnded, AttemptKind};
use crate::proto::model::{Completion, Phase};
use std::time::Duration;

impl Operation {
    /// The exchange failed. Decides what follows and records both.
    pub(super) fn failed(&mut self, now: Now, exchange: &Exchange, failure: &Failure) -> State {
        // Nothing that happens to the connection can turn a finished answer
        // into an unfinished one. What the provider says itself can.
        if self.interpreter.completion() == Completion::Proven && failure.provider.is_none() {
            return self.complete(now, exchange);
        }
        self.close(exchange);
        if failure.kind != ErrorKind::DeadlineExceeded
            && let Some(rival) = self.rival.take()
        {
            // The other of the two is still under way.
            self.note_end(now, exchange, Some(failure), "lost", Duration::ZERO);
            return self.rival_takes_over(*rival);
        }
        if failure.kind == ErrorKind::DeadlineExceeded {
            return self.give_up(now, Some(exchange), failure);
        }
        match exchange.kind {
            AttemptKind::Resume | AttemptKind::Poll => self.join_failed(now, exchange, failure),
            AttemptKind::Continue => self.continuation_failed(now, exchange, failure),
            _ if self.anchor.is_resumable()
                && failure.provider.is_none()
                && is_cut(failure.kind) =>
            {
                self.resume_or(now, exchange, failure)
            }
            _ => self.send_failed(now, exchange, failure),
        }
    }

    /// How far this exchange had come.
    pub(super) fn phase(&self, exchange: &Exchange, failure: &Failure) -> Phase {
        let shown = match exchange.kind {
            AttemptKind::Continue => exchange.first_output.is_some(),
            _ => self.committed,
        };
        if shown {
            Phase::MidStream
        } else if failure.sent && exchange.is_out() {
            Phase::PreStream
        } else {
            Phase::PreSend
        }
    }

    fn send_failed(&mut self, now: Now, exchange: &Exchange, failure: &Failure) -> State {
        let verdict = judge(failure, self.phase(exchange, failure));
        match verdict {
            Verdict::Interrupt => return self.give_up(now, Some(exchange), failure),
            Verdict::RetryIfKeyed if !self.plan.retry_unknown => {
                return self.give_up(now, Some(exchange), failure);
            }
            Verdict::RefreshCredential if !self.refreshed => {
                let next = Next {
                    kind: self.kind_of_repetition(exchange),
                    route: self.route,
                    delay: self.plan.retry.min_delay,
                };
                return self.ask_to_refresh(now, exchange, failure, next);
            }
            _ => {}
        }
        let again = self.again(now, exchange, failure, verdict);
        let next = match self.elsewhere(now, exchange, failure) {
            Some((next, true)) => Some(next),
            Some((next, false)) => again.or(Some(next)),
            None => again,
        };
        match next {
            None => self.give_up(now, Some(exchange), failure),
            Some(next) => {
                let attempt = self.attempt(now, exchange, Some(failure));
                // What was not let through was never sent: going elsewhere with
                // it repeats nothing.
                if is_refused(failure.kind) && next.kind == AttemptKind::Failover {
                    return self.follow(now, attempt, next);
                }
                self.ask_to_spend(attempt, failure, next)
            }
        }
    }

    fn kind_of_repetition(&self, exchange: &Exchange) -> AttemptKind {
        match exchange.kind {
            AttemptKind::Continue => AttemptKind::Continue,
            _ if self.held.has_output() => AttemptKind::Rerun,
            _ => AttemptKind::Retry,
        }
    }

    /// The same request to the same route, if there is time for it and it has
    /// not had all its attempts.
    fn again(
        &mut self,
        now: Now,
        exchange: &Exchange,
        failure: &Failure,
        verdict: Verdict,
    ) -> Option<Next> {
        let (at_once, stretch) = match verdict {
            Verdict::Retry { at_once, stretch } => (at_once, stretch),
            Verdict::RetryIfKeyed => (false, 1),
            Verdict::RefreshCredential | Verdict::Stop | Verdict::Interrupt => return None,
        };
        let retry = self.sends.saturating_sub(1);
        let delay = match failure.hints.after {
            Some(hint) => self.schedule.after_hint(hint),
            None if at_once && retry == 0 => self.plan.retry.min_delay,
            None => self.schedule.delay(retry, stretch),
        };
        let policy = &self.plan.retry;
        let delay = delay.max(policy.min_delay);
        let too_long = failure
            .hints
            .after
            .is_some_and(|wait| wait > policy.max_retry_after);
        let too_late = policy
            .within
            .is_some_and(|within| now.moment.since(self.started).saturating_add(delay) > within);
        if self.sends >= policy.max_attempts
            || too_long
            || too_late
            || self.is_past_deadline(now, delay)
        {
            return None;
        }
        Some(Next {
            kind: self.kind_of_repetition(exchange),
            route: self.route,
            delay,
        })
    }

    /// The same question to the next route that may take it, and whether that
    /// comes before the same route is asked again.
    fn elsewhere(&self, now: Now, exchange: &Exchange, failure: &Failure) -> Option<(Next, bool)> {
        let delay = self.plan.retry.min_delay;
        if exchange.kind == AttemptKind::Continue
            || self.committed
            || self.is_past_deadline(now, delay)
        {
            return None;
        }
        let mode = elsewhere(failure, self.plan.retry.failover_on_500);
        let fits = |route: &Route| match mode {
            Elsewhere::Never => false,
            Elsewhere::AtOnce | Elsewhere::WhenSpent => true,
            Elsewhere::IfLarger => route.takes_larger_context(),
        };
        let (position, _) = self
            .plan
            .fallbacks
            .iter()
            .enumerate()
            .skip(self.route)
            .find(|(_, route)| fits(route))?;
        let next = Next {
            kind: AttemptKind::Failover,
            route: position.saturating_add(1),
            delay,
        };
        Some((next, mode == Elsewhere::AtOnce))
    }

    fn is_past_deadline(&self, now: Now, delay: Duration) -> bool {
        self.plan
            .timeouts
            .overall
            .is_some_and(|limit| now.moment.since(self.started).saturating_add(delay) >= limit)
    }

    /// The stream was cut and the provider has a cursor: go on there, if there
    /// is a resume left.
    fn resume_or(&mut self, now: Now, exchange: &Exchange, failure: &Failure) -> State {
        let policy = self.plan.resume;
        if self.in_vain >= policy.max_in_vain || self.resumes >= policy.max_total {
            return self.cursor_is_lost(now, exchange, failure, true);
        }
        let delay = match failure.hints.after {
            Some(hint) => self.schedule.after_hint(hint),
            None => self.schedule.delay(self.in_vain, 1),
        };
        let too_long = failure
            .hints
            .after
            .is_some_and(|wait| wait > self.plan.retry.max_retry_after);
        if too_long || self.is_past_deadline(now, delay) {
            return self.cursor_is_lost(now, exchange, failure, true);
        }
        self.in_vain = self.in_vain.saturating_add(1);
        self.note_end(
            now,
            exchange,
            Some(failure),
            AttemptKind::Resume.as_str(),
            delay,
        );
        State::BackingOff {
            until: now.moment.after(delay),
            next: AttemptKind::Resume,
        }
    }

    fn join_failed(&mut self, now: Now, exchange: &Exchange, failure: &Failure) -> State {
        let window_closed = matches!(failure.status, Some(400 | 404 | 410));
        if exchange.kind == AttemptKind::Resume && window_closed {
            self.note_end(
                now,
                exchange,
                Some(failure),
                AttemptKind::Poll.as_str(),
                Duration::ZERO,
            );
            return self.begin(now, AttemptKind::Poll);
        }
        if exchange.kind == AttemptKind::Poll && window_closed {
            return self.cursor_is_lost(now, exchange, failure, false);
        }
        let passes = is_cut(failure.kind)
            || matches!(
                judge(failure, Phase::PreStream),
                Verdict::Retry { .. } | Verdict::RetryIfKeyed
            );
        let answered = failure.status.is_none() && failure.provider.is_some();
        if passes && !answered {
            if exchange.kind == AttemptKind::Poll {
                return self.poll_again_after(now, exchange, Some(failure));
            }
            return self.resume_or(now, exchange, failure);
        }
        self.cursor_is_lost(now, exchange, failure, !answered)
    }

    /// The provider's cursor leads no further. What was shown stays; what was
    /// not shown may be asked for again.
    fn cursor_is_lost(
        &mut self,
        now: Now,
        exchange: &Exchange,
        failure: &Failure,
        still_good: bool,
    ) -> State {
        if self.committed {
            self.interrupt(now, Some(exchange), failure, still_good)
        } else {
            self.send_failed(now, exchange, failure)
        }
    }

    /// The stored response is not ready: ask again later.
    pub(super) fn poll_again(&mut self, now: Now, exchange: &Exchange) -> State {
        self.close(exchange);
        self.poll_again_after(now, exchange, None)
    }

    fn poll_again_after(
        &mut self,
        now: Now,
        exchange: &Exchange,
        failure: Option<&Failure>,
    ) -> State {
        let policy = self.plan.resume;
        let since = *self.polling_since.get_or_insert(exchange.started);
        let doubled = 1_u32 << self.polls.saturating_sub(1).min(3);
        let pause = policy.poll_interval.saturating_mul(doubled);
        // A hint is never shortened, and never makes a hot loop.
        let delay = failure
            .and_then(|failure| failure.hints.after)
            .map_or(pause, |hint| hint.max(policy.poll_interval));
        let polled_for = now.moment.since(since).saturating_add(delay);
        if polled_for > policy.poll_for || self.is_past_deadline(now, delay) {
            let stuck = Failure::new(
                ErrorKind::UpstreamTimeout,
                format!(
                    "the stored response was not done after {} ms of asking",
                    now.moment.since(since).as_millis()
                ),
            );
            return self.cursor_is_lost(now, exchange, failure.unwrap_or(&stuck), true);
        }
        self.note_end(now, exchange, failure, AttemptKind::Poll.as_str(), delay);
        State::BackingOff {
            until: now.moment.after(delay),
            next: AttemptKind::Poll,
        }
    }

    fn continuation_failed(&mut self, now: Now, exchange: &Exchange, failure: &Failure) -> State {
        let refused = failure.provider.as_deref().is_some_and(is_prefill_refusal);
        if let Some(continuation) = &mut self.continuation
            && refused
            && !continuation.switched
        {
            continuation.form = exchange.form.map(ContinuationForm::other);
            continuation.switched = true;
            self.held.take();
            self.note_end(
                now,
                exchange,
                Some(failure),
                AttemptKind::Continue.as_str(),
                Duration::ZERO,
            );
            return self.begin(now, AttemptKind::Continue);
        }
        if self.phase(exchange, failure) == Phase::MidStream {
            return self.interrupt(now, Some(exchange), failure, false);
        }
        self.send_failed(now, exchange, failure)
    }

    /// Records how an exchange ended and what follows.
    pub(super) fn note_end(
        &mut self,
        now: Now,
        exchange: &Exchange,
        failure: Option<&Failure>,
        decision: &str,
        delay: Duration,
    ) {
        let attempt = self.attempt(now, exchange, failure);
        self.attempt_ended(now, attempt, decision, delay);
    }

    /// An exchange that is over, as its records tell it; what follows is open.
    pub(super) fn attempt(
        &self,
        now: Now,
        exchange: &Exchange,
        failure: Option<&Failure>,
    ) -> Attempt {
        let phase = match failure {
            Some(failure) => self.phase(exchange, failure),
            None if self.committed => Phase::MidStream,
            None => Phase::PreStream,
        };
        // A continuation's events carry the usage of the whole answer; a record of
        // an attempt says what that attempt cost.
        let before = self
            .continuation
            .as_ref()
            .filter(|_| exchange.kind == AttemptKind::Continue)
            .map(|continuation| &continuation.base.usage);
        let tally = &exchange.tally;
        let (usage, usage_basis) = tally.cost(failure.is_some(), before);
        Attempt {
            started: exchange.record.clone(),
            ended: AttemptEnded {
                attempt: exchange.number,
                failure: failure.map(Failure::note),
                class: failure.map(|failure| failure.kind.class().as_str().to_owned()),
                phase,
                decision: String::new(),
                delay_ms: 0,
                took_ms: millis(now.moment.since(exchange.started)),
                first_output_ms: exchange
                    .first_output
                    .map(|at| millis(at.since(exchange.started))),
                usage,
                usage_basis,
                output_chars: tally.output_chars,
                longest_gap_ms: tally.gaps.longest().map(millis),
                model: tally.model.clone(),
                request_id: exchange.request_id.clone(),
            },
            gaps: tally.gaps,
        }
    }
}

/// Whether the request was stopped on this side, before it was sent.
fn is_refused(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::CircuitOpen | ErrorKind::Saturated)
}

/// Whether a failure of this kind says nothing about the provider's run, only
/// about the way to it: the run goes on behind it.
fn is_cut(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::Dns
            | ErrorKind::Connect
            | ErrorKind::Tls
            | ErrorKind::ConnectTimeout
            | ErrorKind::ConnectionClosed
            | ErrorKind::Reset
            | ErrorKind::BodyFraming
            | ErrorKind::Decode
            | ErrorKind::Truncated
            | ErrorKind::EmptyResponse
            | ErrorKind::FirstTokenTimeout
            | ErrorKind::IdleTimeout
            | ErrorKind::ProgressTimeout
            | ErrorKind::UpstreamTimeout
            | ErrorKind::Protocol
    )
}
