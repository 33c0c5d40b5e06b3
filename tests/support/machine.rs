//! Drives one operation machine with invented time.

use bytes::Bytes;
use std::time::Duration;
use streamkeep::proto::journal::{Body, Control, Record, Status};
use streamkeep::proto::model::{
    HttpRequest, Moment, ResponseHead, Seq, TransportFailure, WallTime,
};
use streamkeep::proto::operation::{
    Fact, Input, Note, Now, Operation, Outcome, Output, Plan, Question, Reply,
};
use streamkeep::{Dialect, ErrorKind, Key, Request};

/// 2026-12-01T00:00:00Z
pub(crate) const EPOCH: WallTime = WallTime::from_millis(1_796_083_200_000);

/// A machine, the world around it, and everything it ordered. Every order is
/// checked against the invariants as it comes.
pub(crate) struct World {
    pub(crate) machine: Operation,
    pub(crate) at: Duration,
    /// Requests that went out, with their attempts.
    pub(crate) sent: Vec<(u32, HttpRequest)>,
    pub(crate) told: Vec<HttpRequest>,
    /// The exchange that was opened last, if it is still open.
    pub(crate) open: Option<u32>,
    /// The exchange that a hedge runs beside.
    pub(crate) rival: Option<u32>,
    /// Questions that wait for a reply, with their numbers.
    pub(crate) asked: Vec<(u32, Question)>,
    /// What every question is answered with at once; `None` leaves them waiting.
    pub(crate) auto_reply: Option<Reply>,
    /// The route of each request that went out.
    pub(crate) routes: Vec<usize>,
    pub(crate) notes: Vec<Note>,
    /// Records handed to the store.
    pub(crate) records: Vec<Record>,
    pub(crate) status: Status,
    /// The append that is out.
    pub(crate) in_flight: Option<Seq>,
    pub(crate) appended: Seq,
    pub(crate) announced: Seq,
    pub(crate) outcome: Option<Outcome>,
    /// Whether appends are acknowledged at once.
    pub(crate) auto_ack: bool,
    committed_before: bool,
}

impl World {
    pub(crate) fn new(plan: Plan) -> Self {
        Self::with(|now| Operation::new(plan, now, 42), Seq::ZERO)
    }

    pub(crate) fn with(make: impl FnOnce(Now) -> Operation, head: Seq) -> Self {
        let mut world = Self {
            machine: make(Now {
                moment: Moment::ORIGIN,
                wall: EPOCH,
            }),
            at: Duration::ZERO,
            sent: Vec::new(),
            told: Vec::new(),
            open: None,
            rival: None,
            asked: Vec::new(),
            auto_reply: Some(Reply::Yes),
            routes: Vec::new(),
            notes: Vec::new(),
            records: Vec::new(),
            status: Status::Running,
            in_flight: None,
            appended: head,
            announced: head,
            outcome: None,
            auto_ack: true,
            committed_before: false,
        };
        world.drain();
        world
    }

    pub(crate) fn now(&self) -> Now {
        Now {
            moment: Moment::from_origin(self.at),
            wall: EPOCH.after(self.at),
        }
    }

    pub(crate) fn input(&mut self, input: Input) {
        self.machine.handle(self.now(), input);
        self.drain();
    }

    /// A fact about the exchange that is open, or about the last one.
    pub(crate) fn fact(&mut self, fact: Fact) {
        let attempt = self
            .open
            .or_else(|| self.sent.last().map(|(n, _)| *n))
            .unwrap_or(0);
        self.input(Input::Upstream { attempt, fact });
    }

    pub(crate) fn head(&mut self, status: u16, headers: &[(&str, &str)]) {
        let headers = headers
            .iter()
            .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()))
            .collect();
        self.fact(Fact::Head(ResponseHead { status, headers }));
    }

    pub(crate) fn stream(&mut self) {
        self.head(200, &[("content-type", "text/event-stream")]);
    }

    pub(crate) fn chunk(&mut self, text: impl Into<Bytes>) {
        self.fact(Fact::Chunk(text.into()));
    }

    pub(crate) fn end(&mut self) {
        self.fact(Fact::EndOfBody);
    }

    pub(crate) fn fail(&mut self, kind: ErrorKind, sent: bool) {
        self.fact(Fact::Failed(TransportFailure {
            kind,
            sent,
            message: "scripted".to_owned(),
        }));
    }

    /// Acknowledges the append that is out.
    pub(crate) fn ack(&mut self) {
        if let Some(seq) = self.in_flight.take() {
            self.appended = seq;
            self.input(Input::Appended(seq));
        }
    }

    /// Lets time pass; timers fire as they come due.
    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.at + time;
        while let Some(next) = self.machine.next_timeout() {
            let next = next.since_origin();
            if next > end {
                break;
            }
            self.at = self.at.max(next);
            let before = (
                self.sent.len(),
                self.records.len(),
                self.machine.next_timeout(),
            );
            self.machine.handle_timeout(self.now());
            self.drain();
            let after = (
                self.sent.len(),
                self.records.len(),
                self.machine.next_timeout(),
            );
            assert_ne!(before, after, "a timer that fires must move something");
        }
        self.at = end;
    }

    /// Lets time pass until the next request goes out; returns how long it took.
    pub(crate) fn until_next_request(&mut self) -> Duration {
        let (count, start) = (self.sent.len(), self.at);
        for _ in 0..100_000 {
            if self.sent.len() > count || self.outcome.is_some() {
                break;
            }
            self.pass(Duration::from_millis(1));
        }
        self.at.saturating_sub(start)
    }

    fn drain(&mut self) {
        while let Some(output) = self.machine.poll() {
            assert!(
                self.outcome.is_none(),
                "nothing comes after Finish: {output:?}"
            );
            match output {
                Output::Open {
                    attempt,
                    route,
                    request,
                } => {
                    assert!(
                        self.in_flight.is_none(),
                        "a request left before its record was acknowledged"
                    );
                    if self.kind_of(attempt) == Some("hedge") {
                        assert!(self.rival.is_none(), "three exchanges are open");
                        self.rival = self.open.take();
                    }
                    assert!(self.open.is_none(), "two exchanges are open");
                    self.open = Some(attempt);
                    self.routes.push(route);
                    self.sent.push((attempt, request));
                }
                Output::Close { attempt } => {
                    if self.open == Some(attempt) {
                        self.open = self.rival.take();
                    }
                    if self.rival == Some(attempt) {
                        self.rival = None;
                    }
                }
                Output::Tell { request, .. } => self.told.push(request),
                Output::Ask { id, question } => match self.auto_reply.clone() {
                    Some(reply) => {
                        self.machine
                            .handle(self.now(), Input::Replied { id, reply });
                    }
                    None => self.asked.push((id, question)),
                },
                Output::Note(note) => self.notes.push(note),
                Output::Append(append) => {
                    assert!(self.in_flight.is_none(), "two appends are in flight");
                    let mut expected = self.records.last().map_or(self.appended, |r| r.seq);
                    for record in &append.records {
                        expected = expected.next();
                        assert_eq!(record.seq, expected, "record numbers are dense");
                    }
                    self.in_flight = append.records.last().map(|r| r.seq);
                    assert!(self.in_flight.is_some(), "an append is never empty");
                    self.records.extend(append.records);
                    self.status = append.status;
                    if self.auto_ack {
                        let seq = self.in_flight.take().unwrap();
                        self.appended = seq;
                        self.machine.handle(self.now(), Input::Appended(seq));
                    }
                }
                Output::Announce(seq) => {
                    assert!(
                        seq <= self.appended,
                        "announced {seq} before it was appended"
                    );
                    assert!(seq > self.announced, "announced {seq} twice");
                    self.announced = seq;
                }
                Output::Finish(outcome) => self.outcome = Some(outcome),
                other => panic!("an order this harness does not know: {other:?}"),
            }
            self.check_replay();
        }
    }

    /// I1: once output was committed, the original request never goes out.
    fn check_replay(&mut self) {
        if self.committed_before {
            let originals = self.originals();
            assert_eq!(
                originals,
                self.originals_at_commit(),
                "the request was replayed"
            );
        }
        self.committed_before = self.machine.is_committed();
    }

    fn originals(&self) -> usize {
        self.controls()
            .filter(|c| matches!(c, Control::AttemptStarted(a) if a.kind.is_send()))
            .count()
    }

    fn originals_at_commit(&self) -> usize {
        let first_event = self
            .records
            .iter()
            .position(|r| matches!(r.body, Body::Event(_)));
        let Some(first_event) = first_event else {
            return self.originals();
        };
        self.records[..first_event]
            .iter()
            .filter(|r| match &r.body {
                Body::Control(c) => {
                    matches!(c.as_ref(), Control::AttemptStarted(a) if a.kind.is_send())
                }
                _ => false,
            })
            .count()
    }

    pub(crate) fn controls(&self) -> impl Iterator<Item = &Control> {
        self.records.iter().filter_map(|record| match &record.body {
            Body::Control(control) => Some(control.as_ref()),
            _ => None,
        })
    }

    /// Replies to the question that waits longest.
    pub(crate) fn reply(&mut self, reply: Reply) -> Question {
        let (id, question) = self.asked.remove(0);
        self.input(Input::Replied { id, reply });
        question
    }

    fn kind_of(&self, number: u32) -> Option<&'static str> {
        self.controls().find_map(|control| match control {
            Control::AttemptStarted(attempt) if attempt.attempt == number => {
                Some(attempt.kind.as_str())
            }
            _ => None,
        })
    }

    /// The kinds of the attempts, in order.
    pub(crate) fn attempts(&self) -> Vec<&'static str> {
        self.controls()
            .filter_map(|control| match control {
                Control::AttemptStarted(attempt) => Some(attempt.kind.as_str()),
                _ => None,
            })
            .collect()
    }

    /// The code of the failure that ended the operation or interrupted it.
    pub(crate) fn failure(&self) -> Option<&str> {
        match self.outcome.as_ref()? {
            Outcome::Ended(ended) => ended.failure.as_ref().map(|f| f.kind.as_str()),
            Outcome::Interrupted(interrupted) => Some(interrupted.failure.kind.as_str()),
            Outcome::StoreFailed(failure) => Some(failure.kind.as_str()),
            other => panic!("an outcome this harness does not know: {other:?}"),
        }
    }

    /// The word of the status the journal was left with.
    pub(crate) fn ended(&self) -> &'static str {
        assert!(self.outcome.is_some(), "the operation has not finished");
        self.status.as_str()
    }

    pub(crate) fn text(&self) -> &str {
        self.machine.answer().text()
    }

    /// The data of the delivered events.
    pub(crate) fn delivered(&self) -> Vec<String> {
        self.records
            .iter()
            .filter_map(|record| match &record.body {
                Body::Event(event) => Some(event.data.as_str().to_owned()),
                _ => None,
            })
            .collect()
    }
}

pub(crate) fn key() -> Key {
    Key::new("k-1").unwrap()
}

pub(crate) fn chat() -> Plan {
    let body = r#"{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true}"#;
    let url = "http://127.0.0.1:9/v1/chat/completions";
    Plan::new(key(), Request::new(Dialect::OpenAiChat, url, body).unwrap())
}

pub(crate) fn background() -> Plan {
    let body = r#"{"model":"m","input":"hi","background":true,"stream":true}"#;
    let url = "http://127.0.0.1:9/v1/responses";
    Plan::new(
        key(),
        Request::new(Dialect::OpenAiResponses, url, body).unwrap(),
    )
}

pub(crate) fn messages(model: &str) -> Plan {
    let body = format!(
        r#"{{"model":"{model}","max_tokens":64,"messages":[{{"role":"user","content":"hi"}}],"stream":true}}"#
    );
    let url = "http://127.0.0.1:9/v1/messages";
    Plan::new(
        key(),
        Request::new(Dialect::AnthropicMessages, url, body).unwrap(),
    )
}
