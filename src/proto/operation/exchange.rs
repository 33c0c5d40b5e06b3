//! One upstream exchange, from its request to the end of its body.

use super::held::passed;
use super::plan::Limits;
use super::tally::Tally;
use crate::error::ErrorKind;
use crate::proto::classify::Failure;
use crate::proto::dialect::{ContinuationForm, Splicer, stray_error};
use crate::proto::journal::{AttemptKind, AttemptStarted};
use crate::proto::model::{Moment, ResponseHead, Text};
use crate::proto::sse::{Decoder, DecoderConfig};
use crate::proto::timeouts::Timeouts;
use std::time::Duration;

/// One upstream exchange.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) number: u32,
    pub(super) kind: AttemptKind,
    /// How its record began.
    pub(super) record: AttemptStarted,
    way: Way,
    /// When the request was handed to the transport.
    pub(super) started: Moment,
    pub(super) first_output: Option<Moment>,
    pub(super) last_byte: Moment,
    pub(super) last_output: Moment,
    /// When the proof of completion came.
    pub(super) finished: Option<Moment>,
    /// Whether any event of substance came: lifecycle or output.
    pub(super) substance: bool,
    pub(super) request_id: Option<String>,
    pub(super) tally: Tally,
    pub(super) body: BodyState,
    /// Rewrites a continuation's events so that they fit what was there before.
    pub(super) splicer: Option<Splicer>,
    /// The form of a continuation.
    pub(super) form: Option<ContinuationForm>,
    /// The provider's cursor after which it goes on.
    pub(super) after: Option<u64>,
    /// Whether the splice has been recorded.
    pub(super) spliced: bool,
}

/// How far a request has come on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Its record is with the store.
    Recorded,
    /// It waits for its turn at the endpoint.
    Queued,
    /// It was handed to the transport.
    Out,
}

/// What is expected from the other side, and what of it has arrived.
#[derive(Debug)]
pub(super) enum BodyState {
    /// The head.
    AwaitingHead,
    /// An event stream.
    Events(Box<EventBody>),
    /// One JSON document: the server did not stream, or was asked not to.
    Document(ResponseHead, Vec<u8>),
    /// The body of a response that is not the answer.
    Refusal(ResponseHead, Vec<u8>, Moment),
}

/// An event stream, and what may show that it is none, or not only one.
#[derive(Debug)]
pub(super) struct EventBody {
    pub(super) decoder: Decoder,
    pub(super) head: ResponseHead,
    /// Lines outside the events that are no error by themselves; together they
    /// may be one.
    stray: String,
    /// The bytes so far, kept until the first event: a body without one may be
    /// something else. `None` once an event came or it grew too long.
    pub(super) prefix: Option<Vec<u8>>,
}

impl EventBody {
    pub(super) fn new(head: ResponseHead, limits: &Limits) -> Self {
        let config = DecoderConfig::new()
            .max_event_bytes(limits.max_event_bytes)
            .last_event_id(Text::default())
            .unknown_lines(true);
        Self {
            decoder: Decoder::new(config),
            head,
            stray: String::new(),
            prefix: Some(Vec::new()),
        }
    }

    /// Takes a line outside the events; the failure that it is, if it is one.
    pub(super) fn stray_line(&mut self, line: &str, limit: usize) -> Option<Failure> {
        if let Some(error) = stray_error(line) {
            return Some(Failure::in_band(error));
        }
        if self.stray.len().saturating_add(line.len()) < limit {
            self.stray.push_str(line);
            self.stray.push('\n');
        }
        None
    }

    /// The failure that the lines outside the events are, if they are one, at
    /// the end of the body: with the line that has no end.
    pub(super) fn stray_failure(&self) -> Option<Failure> {
        let rest = String::from_utf8_lossy(self.decoder.unfinished_line());
        stray_error(&rest)
            .or_else(|| stray_error(&format!("{}{rest}", self.stray)))
            .map(Failure::in_band)
    }
}

/// How long an error body may take once its head is there.
const ERROR_BODY_TIME: Duration = Duration::from_secs(5);

impl Exchange {
    pub(super) fn new(number: u32, kind: AttemptKind, now: Moment) -> Self {
        Self {
            number,
            kind,
            record: AttemptStarted::new(number, kind),
            way: Way::Recorded,
            started: now,
            first_output: None,
            last_byte: now,
            last_output: now,
            finished: None,
            substance: false,
            request_id: None,
            tally: Tally::default(),
            body: BodyState::AwaitingHead,
            splicer: None,
            form: None,
            after: None,
            spliced: false,
        }
    }

    /// Its request is handed to the transport now: the clocks begin.
    pub(super) fn is_sent(&mut self, now: Moment) {
        self.way = Way::Out;
        self.started = now;
        self.last_byte = now;
        self.last_output = now;
    }

    /// It waits for its turn: no clock runs until it is admitted.
    pub(super) fn is_queued(&mut self) {
        self.way = Way::Queued;
    }

    /// Whether its request is on its way.
    pub(super) fn is_out(&self) -> bool {
        self.way == Way::Out
    }

    /// The clock that has run out, as a failure.
    pub(super) fn timed_out(&self, now: Moment, timeouts: &Timeouts) -> Option<Failure> {
        if self.way == Way::Queued {
            return None;
        }
        let fired = |kind, clock: &str, limit: Duration, since: Moment| {
            Some(Failure::new(
                kind,
                format!(
                    "{clock} clock: nothing for {} ms, the limit is {} ms ({})",
                    now.since(since).as_millis(),
                    limit.as_millis(),
                    self.arrived(),
                ),
            ))
        };
        if self.first_output.is_none() {
            let limit = passed(now, self.started, timeouts.first_token)?;
            return fired(
                ErrorKind::FirstTokenTimeout,
                "first token",
                limit,
                self.started,
            );
        }
        if let Some(limit) = passed(now, self.last_byte, timeouts.idle) {
            return fired(
                ErrorKind::IdleTimeout,
                "transport idle",
                limit,
                self.last_byte,
            );
        }
        let limit = passed(now, self.last_output, timeouts.progress)?;
        fired(
            ErrorKind::ProgressTimeout,
            "progress idle",
            limit,
            self.last_output,
        )
    }

    /// The next moment at which [`timed_out`](Self::timed_out) or a grace period
    /// may have something to say.
    pub(super) fn next_timeout(&self, timeouts: &Timeouts) -> Option<Moment> {
        if self.way == Way::Queued {
            return None;
        }
        if let BodyState::Refusal(_, _, since) = self.body {
            return Some(since.after(ERROR_BODY_TIME));
        }
        let clocks = if self.first_output.is_none() {
            [
                timeouts.first_token.map(|limit| self.started.after(limit)),
                None,
            ]
        } else {
            [
                timeouts.idle.map(|limit| self.last_byte.after(limit)),
                timeouts.progress.map(|limit| self.last_output.after(limit)),
            ]
        };
        let grace = self.finished.map(|at| at.after(timeouts.finish_grace));
        clocks.into_iter().chain([grace]).flatten().min()
    }

    /// Whether the grace for usage and end marker is over.
    pub(super) fn grace_is_over(&self, now: Moment, timeouts: &Timeouts) -> bool {
        self.finished
            .is_some_and(|at| now.since(at) >= timeouts.finish_grace)
    }

    /// Whether an error body has taken too long.
    pub(super) fn refusal_is_late(&self, now: Moment) -> bool {
        matches!(self.body, BodyState::Refusal(_, _, since) if now.since(since) >= ERROR_BODY_TIME)
    }

    /// What had arrived, for the message of a timeout.
    fn arrived(&self) -> &'static str {
        match (&self.body, self.first_output, self.substance) {
            (BodyState::AwaitingHead, ..) => "no response had arrived",
            (_, Some(_), _) => "output had arrived",
            (_, None, true) => "lifecycle events had arrived, but no output",
            (_, None, false) => "a response head had arrived, but no event",
        }
    }
}

impl BodyState {
    /// What a head announces.
    ///
    /// # Errors
    ///
    /// A failure when the response cannot be an answer in any form.
    pub(super) fn from_head(
        head: ResponseHead,
        limits: &Limits,
        now: Moment,
        document_expected: bool,
    ) -> Result<Self, Failure> {
        if !(200..300).contains(&head.status) {
            return Ok(Self::Refusal(head, Vec::new(), now));
        }
        if head.status == 204 {
            return Err(with_status(
                Failure::new(
                    ErrorKind::EmptyResponse,
                    "expected an answer, but found status 204",
                ),
                &head,
            ));
        }
        if let Some(coding) = coding(&head) {
            return Err(with_status(
                Failure::new(
                    ErrorKind::Protocol,
                    format!(
                        "expected the content coding identity or gzip, but found `{}`",
                        shown(coding)
                    ),
                ),
                &head,
            ));
        }
        let media_type = head
            .header("content-type")
            .map(|value| {
                let (essence, _) = value.split_once(';').unwrap_or((value, ""));
                essence.trim().to_ascii_lowercase()
            })
            .unwrap_or_default();
        let is_json = media_type == "application/json"
            || (media_type.starts_with("application/") && media_type.ends_with("+json"));
        if is_json {
            return Ok(Self::Document(head, Vec::new()));
        }
        match media_type.as_str() {
            "text/event-stream" | "" | "text/plain" if !document_expected => {
                Ok(Self::Events(Box::new(EventBody::new(head, limits))))
            }
            "" | "text/plain" => Ok(Self::Document(head, Vec::new())),
            other => Err(with_status(
                Failure::new(
                    ErrorKind::Protocol,
                    format!(
                        "expected an event stream, but found content type `{}`",
                        shown(other)
                    ),
                ),
                &head,
            )),
        }
    }
}

/// The content coding in which the body still is, after the transport has decoded
/// what it can.
fn coding(head: &ResponseHead) -> Option<&str> {
    head.headers
        .iter()
        .filter(|(name, _)| name == "content-encoding")
        .flat_map(|(_, value)| value.split(','))
        .map(str::trim)
        .find(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case("identity"))
}

/// A header's value as a message may show it.
fn shown(value: &str) -> String {
    value
        .chars()
        .filter(char::is_ascii_graphic)
        .take(80)
        .collect()
}

/// The failure, with the status of the response it concerns.
pub(super) fn with_status(failure: Failure, head: &ResponseHead) -> Failure {
    Failure {
        status: Some(head.status),
        ..failure
    }
}
