//! A second request beside one that is silent for too long: a hedge.
//!
//! The two are equals: whatever happens to either is handled by the same code,
//! with the one it happened to in the operation's own place. The first output
//! wins, and the other is closed and told of as lost.

use super::anchor::Anchor;
use super::ask::Question;
use super::exchange::Exchange;
use super::held::Held;
use super::{Now, Operation, Output, State};
use crate::proto::dialect::{Interpreter, interpreter};
use crate::proto::journal::AttemptKind;
use crate::proto::model::{Answer, HttpRequest, Moment};
use std::mem;
use std::time::Duration;

/// Whether there is to be a hedge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hedge {
    /// When the first output has not come by then.
    After(Duration),
    /// The question of this number says whether it may be.
    Asked(u32),
    /// There was one, or may be none.
    Over,
}

/// An exchange that races the one in the operation's own place.
#[derive(Debug)]
pub(super) struct Rival {
    pub(super) exchange: Box<Exchange>,
    /// Its request, until the store has acknowledged its record.
    waiting: Option<HttpRequest>,
    answer: Answer,
    interpreter: Box<dyn Interpreter>,
    anchor: Anchor,
    held: Held,
    bytes: usize,
}

impl Operation {
    /// When the hedge is due, or a clock of the rival fires.
    pub(super) fn rival_timeout(&self, exchange: &Exchange) -> Option<Moment> {
        let due = match self.hedge {
            Hedge::After(delay) if self.may_hedge(exchange) => Some(exchange.started.after(delay)),
            _ => None,
        };
        let rival = self
            .rival
            .as_ref()
            .filter(|rival| rival.waiting.is_none())
            .and_then(|rival| rival.exchange.next_timeout(&self.plan.timeouts));
        due.into_iter().chain(rival).min()
    }

    /// Whether a hedge could still help this exchange.
    fn may_hedge(&self, exchange: &Exchange) -> bool {
        exchange.kind.is_send()
            && exchange.is_out()
            && exchange.first_output.is_none()
            && !self.committed
    }

    /// The clocks of the rival, and the time of the hedge.
    pub(super) fn rival_clocks(&mut self, now: Now) {
        if let State::Exchanging(exchange) = &self.state
            && let Hedge::After(delay) = self.hedge
            && self.may_hedge(exchange)
            && now.moment.since(exchange.started) >= delay
        {
            let question = Question::Spend {
                kind: AttemptKind::Hedge,
                route: self.route,
                failure: None,
            };
            self.hedge = Hedge::Asked(self.ask(question));
        }
        let racing = matches!(self.state, State::Exchanging(_))
            && self
                .rival
                .as_ref()
                .is_some_and(|rival| rival.waiting.is_none());
        if racing {
            self.swap_rival();
            if let State::Exchanging(exchange) = mem::replace(&mut self.state, State::Finished) {
                self.state = self.exchange_clocks(now, exchange, None);
            }
            self.settle_race(now);
        }
    }

    /// Records the hedge; it goes out when the store has acknowledged that.
    pub(super) fn begin_hedge(&mut self, now: Now) {
        let still = matches!(&self.state, State::Exchanging(exchange) if self.may_hedge(exchange));
        if !still {
            return;
        }
        let exchange = Exchange::new(
            self.attempts.saturating_add(1),
            AttemptKind::Hedge,
            now.moment,
        );
        let request = self.plan.route(self.route).request();
        let mut http = request.send();
        // Another request for whoever looks at keys, or it would be held back
        // as a duplicate of the one it is to overtake.
        http.headers.push((
            "idempotency-key".to_owned(),
            format!("{}-hedge", self.plan.upstream_key()),
        ));
        let rival = Rival {
            waiting: Some(http),
            answer: Answer::default(),
            interpreter: interpreter(request.dialect()),
            anchor: Anchor::new(request.is_background()),
            held: Held::new(self.plan.hold),
            bytes: 0,
            exchange: Box::new(exchange),
        };
        let rival = self.rival.insert(Box::new(rival));
        self.attempts = rival.exchange.number;
        let started = Self::started(&self.plan, self.route, &mut rival.exchange);
        self.outbox.control(now.wall, started);
    }

    /// Sends the hedge, if it waits for nothing but that.
    pub(super) fn open_rival(&mut self, now: Now) {
        if let Some(rival) = &mut self.rival
            && let Some(request) = rival.waiting.take()
        {
            rival.exchange.is_sent(now.moment);
            self.outputs.push_back(Output::Open {
                attempt: rival.exchange.number,
                route: self.route,
                request,
            });
        }
    }

    pub(super) fn is_rival(&self, attempt: u32) -> bool {
        self.rival
            .as_ref()
            .is_some_and(|rival| rival.waiting.is_none() && rival.exchange.number == attempt)
    }

    /// Puts the rival in the operation's own place, and what was there in its.
    pub(super) fn swap_rival(&mut self) {
        let (Some(rival), State::Exchanging(exchange)) = (&mut self.rival, &mut self.state) else {
            return;
        };
        mem::swap(&mut rival.exchange, exchange);
        mem::swap(&mut rival.answer, &mut self.answer);
        mem::swap(&mut rival.interpreter, &mut self.interpreter);
        mem::swap(&mut rival.anchor, &mut self.anchor);
        mem::swap(&mut rival.held, &mut self.held);
        mem::swap(&mut rival.bytes, &mut self.bytes);
    }

    /// The rival takes the place of an exchange that is over.
    pub(super) fn rival_takes_over(&mut self, rival: Rival) -> State {
        self.answer = rival.answer;
        self.interpreter = rival.interpreter;
        self.anchor = rival.anchor;
        self.held = rival.held;
        self.bytes = rival.bytes;
        match rival.waiting {
            Some(request) => State::Opening(rival.exchange, request),
            None => State::Exchanging(rival.exchange),
        }
    }

    /// Ends the race if one of the two has output.
    pub(super) fn settle_race(&mut self, now: Now) {
        let won =
            matches!(&self.state, State::Exchanging(exchange) if exchange.first_output.is_some());
        if won {
            self.drop_rival(now);
        }
    }

    /// Closes the rival. What it cost is told; what it brought is not kept.
    pub(super) fn drop_rival(&mut self, now: Now) {
        self.hedge = Hedge::Over;
        if let Some(mut rival) = self.rival.take() {
            self.close(&rival.exchange);
            rival.exchange.tally.was_left = true;
            let attempt = self.attempt(now, &rival.exchange, None);
            self.attempt_ended(now, attempt, "lost", Duration::ZERO);
        }
    }
}
