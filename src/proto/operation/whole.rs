//! Bodies that are no event stream: a whole answer, or a refusal.

use super::exchange::{BodyState, Exchange, with_status};
use super::receive::Step;
use super::{Now, Operation, State};
use crate::error::ErrorKind;
use crate::proto::classify::Failure;
use crate::proto::dialect::{
    ExpandError, ResponseStatus, expand, provider_error, provider_error_from_body, response_status,
};
use crate::proto::journal::AttemptKind;
use crate::proto::model::ResponseHead;
use crate::proto::retry::RetryHints;

impl Operation {
    /// A whole JSON document in the place of a stream.
    pub(super) fn document(
        &mut self,
        now: Now,
        mut exchange: Box<Exchange>,
        head: &ResponseHead,
        body: &[u8],
    ) -> State {
        if body.trim_ascii().is_empty() {
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
        let events = match expand(self.plan.request.dialect(), &text, &self.answer) {
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
        self.ended_without_marker(now, &exchange, None)
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
