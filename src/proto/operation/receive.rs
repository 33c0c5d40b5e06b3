//! What the upstream sends: head, body, events.

use super::conclude::unended;
use super::exchange::{BodyState, EventBody, Exchange, with_status};
use super::whole::{begins_a_stream, begins_an_event, is_no_json};
use super::{Fact, Note, Now, Operation, Output, State};
use crate::error::ErrorKind;
use crate::proto::classify::Failure;
use crate::proto::dialect::{
    EventKind, SpliceError, is_whole_payload, response_id_of, sequence_of,
};
use crate::proto::journal::{Anchored, AttemptKind, Control, Delivered, Spliced};
use crate::proto::model::{Completion, Delta, ResponseHead};
use crate::proto::retry::RetryHints;
use crate::proto::sse::{EndOfInput, Event, Item};
use bytes::Bytes;

/// What follows after an event.
pub(super) enum Step {
    /// More is expected.
    Go,
    /// The dialect's end marker came.
    End,
}

impl Operation {
    pub(super) fn receive(&mut self, now: Now, mut exchange: Box<Exchange>, fact: Fact) -> State {
        exchange.last_byte = now.moment;
        match fact {
            Fact::Queued => {
                exchange.is_queued();
                State::Exchanging(exchange)
            }
            Fact::Admitted => {
                exchange.is_sent(now.moment);
                State::Exchanging(exchange)
            }
            Fact::Refused(refusal) => {
                let failure = Failure {
                    sent: false,
                    hints: RetryHints {
                        after: refusal.retry_after,
                        should_retry: None,
                    },
                    ..Failure::new(refusal.kind, refusal.message)
                };
                self.failed(now, &exchange, &failure)
            }
            Fact::Head(head) => self.head(now, exchange, head),
            Fact::Chunk(bytes) => self.chunk(now, exchange, bytes),
            Fact::EndOfBody => self.end_of_body(now, exchange),
            Fact::Failed(failure) => {
                if matches!(exchange.body, BodyState::Refusal(..)) {
                    return self.refused(now, exchange);
                }
                // What was written before the connection broke says more.
                let failure = self
                    .stray_failure(&exchange)
                    .unwrap_or_else(|| Failure::from_transport(&failure));
                self.failed(now, &exchange, &failure)
            }
        }
    }

    fn head(&mut self, now: Now, mut exchange: Box<Exchange>, head: ResponseHead) -> State {
        exchange.request_id = [
            "x-request-id",
            "request-id",
            "x-oai-request-id",
            "apim-request-id",
        ]
        .into_iter()
        .find_map(|name| head.header(name))
        .map(|id| id.chars().take(128).collect());
        let document = exchange.kind == AttemptKind::Poll;
        match BodyState::from_head(head, &self.plan.limits, now.moment, document) {
            Ok(body) => {
                exchange.body = body;
                State::Exchanging(exchange)
            }
            Err(failure) => self.failed(now, &exchange, &failure),
        }
    }

    fn chunk(&mut self, now: Now, mut exchange: Box<Exchange>, bytes: Bytes) -> State {
        let limits = self.plan.limits;
        match &mut exchange.body {
            // A body without a head cannot be; a transport that sends one is broken.
            BodyState::AwaitingHead => {
                let failure = Failure::new(ErrorKind::Internal, "a body came before its head");
                self.failed(now, &exchange, &failure)
            }
            BodyState::Refusal(_, body, _) => {
                let room = limits.max_error_body.saturating_sub(body.len());
                body.extend(bytes.iter().take(room));
                if body.len() >= limits.max_error_body {
                    return self.refused(now, exchange);
                }
                State::Exchanging(exchange)
            }
            BodyState::Document(head, body) => {
                if body.len().saturating_add(bytes.len()) > limits.max_event_bytes {
                    let failure = Failure::new(
                        ErrorKind::EventTooLarge,
                        format!(
                            "expected a JSON answer of at most {} bytes",
                            limits.max_event_bytes
                        ),
                    );
                    let failure = with_status(failure, head);
                    return self.failed(now, &exchange, &failure);
                }
                body.extend_from_slice(&bytes);
                if exchange.kind != AttemptKind::Poll && is_no_json(body) {
                    let (head, body) = (std::mem::take(head), std::mem::take(body));
                    exchange.body = BodyState::Events(Box::new(EventBody::new(head, &limits)));
                    return self.chunk(now, exchange, body.into());
                }
                State::Exchanging(exchange)
            }
            BodyState::Events(events) => {
                if let Some(prefix) = &mut events.prefix {
                    if prefix.len().saturating_add(bytes.len()) <= limits.max_event_bytes {
                        prefix.extend_from_slice(&bytes);
                    } else {
                        events.prefix = None;
                    }
                }
                events.decoder.push(bytes);
                self.decode(now, exchange)
            }
        }
    }

    fn decode(&mut self, now: Now, mut exchange: Box<Exchange>) -> State {
        loop {
            let BodyState::Events(events) = &mut exchange.body else {
                return State::Exchanging(exchange);
            };
            match events.decoder.next() {
                Ok(None) => {
                    self.commit_if_due(now, &mut exchange);
                    return State::Exchanging(exchange);
                }
                Ok(Some(Item::Comment(_))) => {
                    self.counts.comments = self.counts.comments.saturating_add(1);
                }
                Ok(Some(Item::Line(line))) => {
                    let limit = self.plan.limits.max_error_body;
                    let stray = events.stray_line(&line, limit);
                    if let Some(failure) = stray.filter(|_| !self.is_proven()) {
                        return self.failed(now, &exchange, &failure);
                    }
                }
                Ok(Some(Item::Event(event))) => {
                    events.prefix = None;
                    match self.event(now, &mut exchange, &event) {
                        Ok(Step::Go) => {}
                        Ok(Step::End) => return self.complete(now, &exchange),
                        Err(failure) => return self.failed(now, &exchange, &failure),
                    }
                }
                Err(error) => {
                    let failure = Failure::new(ErrorKind::EventTooLarge, error.to_string());
                    return self.failed(now, &exchange, &failure);
                }
            }
        }
    }

    /// One event of the upstream; a continuation's is rewritten first.
    pub(super) fn event(
        &mut self,
        now: Now,
        exchange: &mut Exchange,
        event: &Event,
    ) -> Result<Step, Failure> {
        let Some(splicer) = &mut exchange.splicer else {
            return self.read(now, exchange, event);
        };
        let mut rewritten = Vec::new();
        let result = splicer.push(event, &mut rewritten);
        self.read_rewritten(now, exchange, &rewritten, result)
    }

    /// What a continuation held back at its seam, when its stream has ended.
    fn rest_of_splice(&mut self, now: Now, exchange: &mut Exchange) -> Result<Step, Failure> {
        let Some(splicer) = &mut exchange.splicer else {
            return Ok(Step::Go);
        };
        let mut rewritten = Vec::new();
        let result = splicer.finish(&mut rewritten);
        self.read_rewritten(now, exchange, &rewritten, result)
    }

    fn read_rewritten(
        &mut self,
        now: Now,
        exchange: &mut Exchange,
        events: &[Event],
        result: Result<(), SpliceError>,
    ) -> Result<Step, Failure> {
        for event in events {
            if let Step::End = self.read(now, exchange, event)? {
                return Ok(Step::End);
            }
        }
        result.map(|()| Step::Go).map_err(|error| match error {
            SpliceError::Malformed(malformed) => {
                Failure::new(ErrorKind::Protocol, malformed.to_string())
            }
            error => Failure::new(ErrorKind::ContinuationMismatch, error.to_string()),
        })
    }

    fn read(&mut self, now: Now, exchange: &mut Exchange, event: &Event) -> Result<Step, Failure> {
        if exchange.kind == AttemptKind::Resume {
            let sequence = sequence_of(event);
            if self.anchor.has_seen(sequence) {
                // Another response has numbers of its own, which say nothing
                // about this one.
                if let Some(id) = response_id_of(event) {
                    self.named(now, exchange, &id)?;
                }
                self.counts.duplicates = self.counts.duplicates.saturating_add(1);
                return Ok(Step::Go);
            }
        }
        let mut deltas = Vec::new();
        let reading = self.interpreter.read(event, &mut deltas).map_err(|error| {
            Failure::new(
                ErrorKind::Protocol,
                format!("{error}, before byte {} of the body", event.end_offset),
            )
        })?;
        self.anchor.advance(reading.sequence);
        match reading.kind {
            EventKind::Error => {
                // A broken answer is billed too.
                exchange.tally.take(&deltas, true);
                return Err(Failure::in_band(reading.error.unwrap_or_default()));
            }
            EventKind::KeepAlive => {
                self.counts.keep_alives = self.counts.keep_alives.saturating_add(1);
                return Ok(Step::Go);
            }
            EventKind::Noise => {
                self.counts.noise = self.counts.noise.saturating_add(1);
                return Ok(Step::Go);
            }
            EventKind::Unknown => self.counts.unknown = self.counts.unknown.saturating_add(1),
            EventKind::Output | EventKind::Lifecycle | EventKind::End => {}
        }
        self.bytes = self.bytes.saturating_add(event.data.len());
        if self.bytes > self.plan.limits.max_answer_bytes {
            return Err(Failure::new(
                ErrorKind::JournalFull,
                format!(
                    "expected an answer of at most {} bytes",
                    self.plan.limits.max_answer_bytes
                ),
            ));
        }
        // An end marker says nothing by itself.
        exchange.substance |= reading.kind != EventKind::End || !deltas.is_empty();
        self.take_deltas(now, exchange, &deltas)?;
        self.join_on(now, exchange);
        self.held.push(
            now.moment,
            Delivered::from_event(event, reading.sequence),
            &deltas,
        );
        // After the commit point nothing waits, except for the first output of
        // a continuation: until it comes, that can still be tried again.
        let waits = !self.committed
            || (exchange.kind == AttemptKind::Continue && exchange.first_output.is_none());
        if !waits || self.held.is_over(now.moment) {
            self.commit(now);
        }
        if reading.kind == EventKind::End {
            return Ok(Step::End);
        }
        // The grace begins at the proof, and again at whatever output follows it;
        // another candidate that begins takes the proof back.
        // Where only the end of the body is final, there is none.
        let settles = !self.interpreter.ends_with_its_body();
        if !self.is_proven() {
            exchange.finished = None;
        } else if settles && (exchange.finished.is_none() || deltas.iter().any(Delta::is_output)) {
            exchange.finished = Some(now.moment);
        }
        Ok(Step::Go)
    }

    fn take_deltas(
        &mut self,
        now: Now,
        exchange: &mut Exchange,
        deltas: &[Delta],
    ) -> Result<(), Failure> {
        exchange.tally.take(deltas, false);
        for delta in deltas {
            if delta.is_output() {
                if exchange.first_output.is_none() {
                    exchange.first_output = Some(now.moment);
                    self.outputs.push_back(Output::Note(Note::FirstOutput {
                        attempt: exchange.number,
                        after: now.moment.since(exchange.started),
                    }));
                } else {
                    let gap = now.moment.since(exchange.last_output);
                    exchange.tally.gaps.record(gap);
                }
                exchange.last_output = now.moment;
                self.in_vain = 0;
            }
            if let Delta::ResponseId(id) = delta {
                self.named(now, exchange, id)?;
            }
            self.answer.apply(delta);
        }
        Ok(())
    }

    /// The provider named the answer. A stream that a resume brought must be of
    /// the same answer: a splice needs proof of identity.
    fn named(&mut self, now: Now, exchange: &Exchange, id: &str) -> Result<(), Failure> {
        let joins = matches!(exchange.kind, AttemptKind::Resume | AttemptKind::Poll);
        if joins && self.anchor.resumable_id().is_some_and(|known| known != id) {
            return Err(Failure::new(
                ErrorKind::ContinuationMismatch,
                "expected the response that was cut, but the provider sent another one",
            ));
        }
        if self.anchor.name(id) && self.anchor.is_resumable() {
            self.outbox.control(
                now.wall,
                Control::Anchored(Anchored {
                    attempt: exchange.number,
                    response_id: id.to_owned(),
                    resumable: true,
                }),
            );
        }
        Ok(())
    }

    /// Records that another stream is joined on, once, before its first event.
    fn join_on(&mut self, now: Now, exchange: &mut Exchange) {
        let joins = matches!(
            exchange.kind,
            AttemptKind::Resume | AttemptKind::Poll | AttemptKind::Continue
        );
        if joins && !exchange.spliced && self.committed {
            exchange.spliced = true;
            self.outbox.control(
                now.wall,
                Control::Spliced(Spliced {
                    attempt: exchange.number,
                    kind: exchange.kind,
                    after: exchange.after,
                }),
            );
        }
    }

    /// Commits what is held if the hold has ended by time.
    pub(super) fn commit_if_due(&mut self, now: Now, _exchange: &mut Exchange) {
        if self.held.is_over(now.moment) {
            self.commit(now);
        }
    }

    /// The commit point, or one more step behind it.
    pub(super) fn commit(&mut self, now: Now) {
        self.committed = true;
        for event in self.held.take() {
            self.outbox.event(now.wall, event);
        }
    }

    fn end_of_body(&mut self, now: Now, mut exchange: Box<Exchange>) -> State {
        match &mut exchange.body {
            BodyState::AwaitingHead => {
                let failure = Failure::new(
                    ErrorKind::ConnectionClosed,
                    "the connection was closed before a response",
                );
                self.failed(now, &exchange, &failure)
            }
            BodyState::Refusal(..) => self.refused(now, exchange),
            BodyState::Document(head, body) => {
                let (head, body) = (std::mem::take(head), std::mem::take(body));
                self.document(now, exchange, &head, &body)
            }
            BodyState::Events(events) => {
                let stray = events.stray_failure();
                let last = events.decoder.finish(EndOfInput::Flush);
                let (head, prefix) = (std::mem::take(&mut events.head), events.prefix.take());
                // An unterminated event counts only if it is whole.
                let whole = last
                    .ok()
                    .flatten()
                    .filter(|event| is_whole_payload(&event.data));
                if let Some(event) = whole {
                    match self.event(now, &mut exchange, &event) {
                        Ok(Step::Go) => {}
                        Ok(Step::End) => return self.complete(now, &exchange),
                        Err(failure) => return self.failed(now, &exchange, &failure),
                    }
                }
                if let Some(failure) = stray.filter(|_| !self.is_proven()) {
                    return self.failed(now, &exchange, &failure);
                }
                match self.rest_of_splice(now, &mut exchange) {
                    Ok(Step::Go) => {}
                    Ok(Step::End) => return self.complete(now, &exchange),
                    Err(failure) => return self.failed(now, &exchange, &failure),
                }
                match prefix {
                    Some(bytes) if !begins_a_stream(&bytes) => {
                        self.no_stream(now, exchange, &head, &bytes)
                    }
                    prefix => {
                        // The first event began, or nothing but comments came.
                        exchange.substance |= prefix.is_some_and(|bytes| begins_an_event(&bytes));
                        self.ended_without_marker(now, &exchange)
                    }
                }
            }
        }
    }

    pub(super) fn ended_without_marker(&mut self, now: Now, exchange: &Exchange) -> State {
        if self.interpreter.completion() == Completion::Open {
            self.failed(now, exchange, &unended(exchange))
        } else {
            self.complete(now, exchange)
        }
    }

    /// The failure that stands in the body outside its events, if there is one.
    /// Behind the proof of completion it changes nothing: it is no event of the
    /// dialect, and the proof is.
    pub(super) fn stray_failure(&self, exchange: &Exchange) -> Option<Failure> {
        match &exchange.body {
            BodyState::Events(events) if !self.is_proven() => events.stray_failure(),
            _ => None,
        }
    }

    fn is_proven(&self) -> bool {
        self.interpreter.completion() == Completion::Proven
    }

    pub(super) fn close(&mut self, exchange: &Exchange) {
        self.outputs.push_back(Output::Close {
            attempt: exchange.number,
        });
    }
}
