//! Bodies that are no event stream: a whole answer, or a refusal.

use super::exchange::{BodyState, Exchange, with_status};
use super::receive::Step;
use super::{Now, Operation, State};
use crate::error::ErrorKind;
use crate::proto::classify::Failure;
use crate::proto::dialect::{
    ExpandError, ResponseStatus, expand, is_cut_payload, provider_error, provider_error_from_body,
    response_status,
};
use crate::proto::journal::AttemptKind;
use crate::proto::model::ResponseHead;
use crate::proto::retry::RetryHints;

impl Operation {
    /// A body under the name of a stream that held no event and is none: a whole
    /// JSON document, or something that has no place there.
    pub(super) fn no_stream(
        &mut self,
        now: Now,
        exchange: Box<Exchange>,
        head: &ResponseHead,
        body: &[u8],
    ) -> State {
        let body = trimmed(body);
        if body.starts_with(b"{") || body.starts_with(b"[") || body.starts_with(b"\"") {
            return self.document(now, exchange, head, body);
        }
        // The same request will find the same page.
        let failure = Failure::new(
            ErrorKind::Protocol,
            format!(
                "expected an event stream, but found {} bytes that are none",
                body.len()
            ),
        );
        self.failed(now, &exchange, &with_status(failure, head))
    }

    /// A whole JSON document in the place of a stream.
    pub(super) fn document(
        &mut self,
        now: Now,
        mut exchange: Box<Exchange>,
        head: &ResponseHead,
        body: &[u8],
    ) -> State {
        let body = trimmed(body);
        if body.is_empty() {
            let failure = Failure::new(
                ErrorKind::EmptyResponse,
                "expected a JSON answer, but found an empty body",
            );
            return self.failed(now, &exchange, &with_status(failure, head));
        }
        let text = String::from_utf8_lossy(body);
        if let Some(error) = provider_error(&text) {
            return self.failed(now, &exchange, &Failure::in_band(error));
        }
        if is_cut_payload(&text) {
            let failure = Failure::new(
                ErrorKind::Truncated,
                "expected a whole JSON answer, but found the beginning of one",
            );
            return self.failed(now, &exchange, &failure);
        }
        match response_status(&text) {
            Some(ResponseStatus::Running) if exchange.kind == AttemptKind::Poll => {
                return self.poll_again(now, &exchange);
            }
            Some(ResponseStatus::Running) => {
                let failure = Failure::new(
                    ErrorKind::Protocol,
                    "expected an answer, but found a response that is still running",
                );
                return self.failed(now, &exchange, &with_status(failure, head));
            }
            Some(ResponseStatus::Cancelled) => {
                let failure = Failure::new(
                    ErrorKind::ContinuationMismatch,
                    "expected an answer, but found that the provider's run was cancelled",
                );
                return self.failed(now, &exchange, &with_status(failure, head));
            }
            _ => {}
        }
        let events = match expand(self.request().dialect(), &text, &self.answer) {
            Ok(events) => events,
            Err(error) => {
                let kind = match error {
                    ExpandError::Mismatch { .. } => ErrorKind::ContinuationMismatch,
                    _ => ErrorKind::Protocol,
                };
                let failure = Failure::new(kind, error.to_string());
                return self.failed(now, &exchange, &with_status(failure, head));
            }
        };
        for event in events {
            match self.event(now, &mut exchange, &event) {
                Ok(Step::Go) => {}
                Ok(Step::End) => return self.complete(now, &exchange),
                Err(failure) => return self.failed(now, &exchange, &failure),
            }
        }
        self.ended_without_marker(now, &exchange)
    }

    /// A response that is not the answer has said what it had to say.
    pub(super) fn refused(&mut self, now: Now, mut exchange: Box<Exchange>) -> State {
        let BodyState::Refusal(head, body, _) = &mut exchange.body else {
            return State::Exchanging(exchange);
        };
        let (head, body) = (std::mem::take(head), std::mem::take(body));
        let provider = provider_error_from_body(&body, head.header("content-type"));
        let hints = RetryHints::from_head(&head, now.wall);
        let failure = Failure::from_response(&head, provider, hints);
        self.failed(now, &exchange, &failure)
    }
}

/// A body without the white space around it and the mark before it.
fn trimmed(body: &[u8]) -> &[u8] {
    let body = body.trim_ascii();
    body.strip_prefix(BOM).unwrap_or(body).trim_ascii()
}

/// U+FEFF, which is no part of a JSON text (RFC 8259 section 8.1) but is sent.
const BOM: &[u8] = b"\xEF\xBB\xBF";

/// Whether a body may be an event stream: its first line that is not blank is a
/// field of one or a comment, or begins like one. Nothing at all may be one, too.
pub(super) fn begins_a_stream(body: &[u8]) -> bool {
    let line = first_line(body);
    line.is_empty() || line.starts_with(b":") || begins_an_event(body)
}

/// Whether the first line of a body that is not blank is a field of an event, or
/// may have been going to be one.
pub(super) fn begins_an_event(body: &[u8]) -> bool {
    let line = first_line(body);
    !line.is_empty()
        && ["data:", "event:", "id:", "retry:"]
            .iter()
            .any(|field| line.starts_with(field.as_bytes()) || field.as_bytes().starts_with(line))
}

/// Whether what has come of a body under the name of JSON begins as an event
/// stream does, with a letter of a field's name or a comment: no JSON text does.
pub(super) fn is_no_json(body: &[u8]) -> bool {
    matches!(
        trimmed(body).first(),
        Some(b'd' | b'e' | b'i' | b'r' | b':')
    )
}

fn first_line(body: &[u8]) -> &[u8] {
    trimmed(body)
        .split(|byte| matches!(byte, b'\n' | b'\r'))
        .next()
        .unwrap_or_default()
}
