//! An operation as its journal tells it: the fold of the records.

use super::anchor::Anchor;
use super::continuing::Continuing;
use super::plan::Plan;
use super::route::{route, route_named};
use super::{Outcome, Recovery, Route};
use crate::error::{Error, ErrorKind};
use crate::proto::dialect::{Interpreter, Request, interpreter};
use crate::proto::journal::{
    Body, Control, Delivered, Ended, Interrupted, Opened, Record, RecoveryOption,
};
use crate::proto::model::{Answer, Completion, Seq};
use crate::proto::sse::Event;
use std::collections::BTreeMap;

/// What is known of an operation from its records alone.
///
/// Everything a process that never saw the upstream needs to go on: what was
/// asked, what has arrived, and where the provider's cursor stands.
#[derive(Debug)]
pub struct Recovered {
    pub(super) opened: Opened,
    pub(super) first: Route,
    pub(super) fallbacks: Vec<Route>,
    /// The route that was asked last, or whose answer it is.
    pub(super) route: usize,
    /// Attempts that have begun and not ended, with their routes.
    under_way: BTreeMap<u32, usize>,
    pub(super) head: Seq,
    pub(super) answer: Answer,
    pub(super) interpreter: Box<dyn Interpreter>,
    pub(super) anchor: Anchor,
    pub(super) committed: bool,
    pub(super) attempts: u32,
    pub(super) bytes: usize,
    pub(super) ended: Option<Ended>,
    pub(super) interrupted: Option<Interrupted>,
}

impl Recovered {
    /// Folds the records of one generation, from the first on.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::StoreCorrupt`] when the first record is not `Opened`, the
    /// numbers are not dense, or the stored request is not a valid one.
    pub fn fold<'a>(records: impl IntoIterator<Item = &'a Record>) -> Result<Self, Error> {
        let mut records = records.into_iter();
        let first = records.next();
        let opened = match first.map(|record| &record.body) {
            Some(Body::Control(control)) => match control.as_ref() {
                Control::Opened(opened) => opened.clone(),
                _ => return Err(corrupt("expected the first record to open the journal")),
            },
            _ => {
                return Err(corrupt(
                    "expected a record that opens the journal, but found none",
                ));
            }
        };
        let (first, fallbacks) = asked(&opened).map_err(|error| {
            corrupt("expected a valid request in the first record").with_source(error)
        })?;
        let mut recovered = Self {
            interpreter: interpreter(opened.dialect),
            anchor: Anchor::new(first.request().is_background()),
            opened,
            first,
            fallbacks,
            route: 0,
            under_way: BTreeMap::new(),
            head: Seq::new(1),
            answer: Answer::default(),
            committed: false,
            attempts: 0,
            bytes: 0,
            ended: None,
            interrupted: None,
        };
        for record in records {
            if record.seq != recovered.head.next() {
                return Err(corrupt("expected dense record numbers, but found a hole"));
            }
            recovered.head = record.seq;
            recovered.push(&record.body)?;
        }
        Ok(recovered)
    }

    fn push(&mut self, body: &Body) -> Result<(), Error> {
        match body {
            Body::Event(event) => self.event(event),
            Body::Control(control) => {
                match control.as_ref() {
                    Control::AttemptStarted(attempt) => {
                        self.attempts = self.attempts.max(attempt.attempt);
                        self.interrupted = None;
                        if attempt.kind.is_send() {
                            let route = self.route_named(&attempt.route);
                            self.under_way.insert(attempt.attempt, route);
                            self.follow(route);
                        }
                    }
                    Control::Anchored(anchored) => self.anchor.restore(&anchored.response_id),
                    Control::Interrupted(interrupted) => {
                        self.interrupted = Some(interrupted.clone());
                    }
                    Control::Ended(ended) => self.ended = Some(ended.clone()),
                    Control::AttemptEnded(attempt) => {
                        self.under_way.remove(&attempt.attempt);
                        if let Some((_, route)) = self.under_way.first_key_value() {
                            self.follow(*route);
                        }
                    }
                    Control::Opened(_) | Control::Spliced(_) | Control::Unknown => {}
                }
                Ok(())
            }
        }
    }

    fn route_named(&self, name: &str) -> usize {
        route_named(&self.first, &self.fallbacks, name)
    }

    /// Reads on as the stream of this route, unless an answer stands already.
    fn follow(&mut self, route: usize) {
        if self.committed || self.route == route {
            return;
        }
        self.route = route;
        self.interpreter = interpreter(self.request().dialect());
        self.anchor = Anchor::new(self.request().is_background());
    }

    fn event(&mut self, delivered: &Delivered) -> Result<(), Error> {
        let event = Event::synthetic(delivered.event_name(), delivered.data.clone());
        let mut deltas = Vec::new();
        self.interpreter
            .read(&event, &mut deltas)
            .map_err(|error| {
                corrupt("expected events of the journal's dialect").with_source(error)
            })?;
        for delta in &deltas {
            self.answer.apply(delta);
        }
        self.committed = true;
        self.bytes = self.bytes.saturating_add(delivered.data.len());
        self.anchor.advance(delivered.provider_seq);
        Ok(())
    }

    /// How it ended, or where it rests; `None` when its records say neither.
    pub fn outcome(&self) -> Option<Outcome> {
        match (&self.ended, &self.interrupted) {
            (Some(ended), _) => Some(Outcome::Ended(ended.clone())),
            (None, Some(interrupted)) => Some(Outcome::Interrupted(interrupted.clone())),
            (None, None) => None,
        }
    }

    /// What can be done about it now, if it has not ended.
    pub fn options(&self) -> Vec<RecoveryOption> {
        if self.ended.is_some() {
            return vec![RecoveryOption::Regenerate];
        }
        options(self.request(), &self.answer, self.anchor.is_resumable())
    }

    /// Whether it can be recovered this way.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotPossible`]; the message says why, and what can be done
    /// instead.
    pub fn check(&self, recovery: Recovery) -> Result<(), Error> {
        if let Some(ended) = &self.ended {
            return Err(not_possible(format!(
                "this answer has ended ({}); regenerate makes a new one",
                ended.end.as_str()
            )));
        }
        match recovery {
            Recovery::Resume if !self.anchor.is_resumable() => Err(not_possible(
                "the provider offered no cursor for this answer; continue or regenerate it",
            )),
            Recovery::Restart if self.committed => Err(not_possible(
                "output of this answer was shown, so the request is not sent again; \
                 resume, continue or regenerate it",
            )),
            Recovery::Continue(form) => Continuing::new(self.request(), &self.answer, form)
                .map(drop)
                .map_err(|reason| {
                    not_possible(format!("this answer cannot be continued: {reason}"))
                }),
            Recovery::Resume | Recovery::Restart | Recovery::Settle | Recovery::Cancel => Ok(()),
        }
    }

    /// What is right for an operation whose writer died: through the provider's
    /// cursor where there is one, from the start where nothing was shown, else
    /// the truth. `retry_unknown` says whether a request whose outcome is unknown
    /// may be sent again; what a dead writer sent is one.
    pub fn best_recovery(&self, retry_unknown: bool) -> Recovery {
        if self.completion() == Completion::Proven {
            Recovery::Settle
        } else if self.anchor.is_resumable() {
            Recovery::Resume
        } else if self.committed || !retry_unknown {
            Recovery::Settle
        } else {
            Recovery::Restart
        }
    }

    /// What was asked.
    pub fn opened(&self) -> &Opened {
        &self.opened
    }

    /// What was asked of the route whose answer it is, or that was asked last.
    pub fn request(&self) -> &Request {
        route(&self.first, &self.fallbacks, self.route).request()
    }

    /// A plan for this operation: its key and its routes, with the defaults of
    /// every other part.
    pub fn plan(&self) -> Plan {
        Plan {
            route: self.first.clone(),
            fallbacks: self.fallbacks.clone(),
            prompt_version: self.opened.prompt_version.clone(),
            ..Plan::new(self.opened.key.clone(), self.first.request().clone())
        }
    }

    /// The last record.
    pub fn head(&self) -> Seq {
        self.head
    }

    /// What has arrived.
    pub fn answer(&self) -> &Answer {
        &self.answer
    }

    /// How sure it is that the answer is whole.
    pub fn completion(&self) -> Completion {
        self.interpreter.completion()
    }

    /// Whether output was committed.
    pub fn is_committed(&self) -> bool {
        self.committed
    }

    /// The final record, if there is one.
    pub fn ended(&self) -> Option<&Ended> {
        self.ended.as_ref()
    }

    /// The interruption it rests at, if nothing has been tried since.
    pub fn interrupted(&self) -> Option<&Interrupted> {
        self.interrupted.as_ref()
    }

    /// Upstream exchanges begun.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }
}

/// What can be done about an answer that stopped here.
pub(super) fn options(request: &Request, answer: &Answer, resumable: bool) -> Vec<RecoveryOption> {
    let mut options = Vec::with_capacity(3);
    if resumable {
        options.push(RecoveryOption::Resume);
    }
    if Continuing::new(request, answer, None).is_ok() {
        options.push(RecoveryOption::Continue);
    }
    options.push(RecoveryOption::Regenerate);
    options
}

/// What was asked, as the first record of a journal keeps it.
pub(super) fn opened(plan: &Plan) -> Opened {
    let request = plan.request();
    Opened {
        key: plan.key.clone(),
        fingerprint: request.fingerprint(),
        dialect: request.dialect(),
        url: request.url().to_owned(),
        headers: request.headers().to_vec(),
        // A request is made of text, so nothing is replaced here.
        body: String::from_utf8_lossy(request.body()).into_owned(),
        route: plan.route.name().to_owned(),
        fallbacks: plan
            .fallbacks
            .iter()
            .map(|route| route.note(request))
            .collect(),
        prompt_version: plan.prompt_version.clone(),
    }
}

/// The routes that a first record keeps.
fn asked(opened: &Opened) -> Result<(Route, Vec<Route>), Error> {
    let request = opened.headers.iter().try_fold(
        Request::new(opened.dialect, opened.url.clone(), opened.body.clone())?,
        |request, (name, value)| request.with_header(name, value),
    )?;
    let fallbacks = opened
        .fallbacks
        .iter()
        .map(|note| Route::from_note(note, &request))
        .collect::<Result<_, _>>()?;
    // Records of before there were routes name none.
    let first = if opened.route.is_empty() {
        Route::unnamed(request)
    } else {
        Route::new(opened.route.clone(), request)
    };
    Ok((first, fallbacks))
}

fn not_possible(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::NotPossible, message)
}

fn corrupt(message: &str) -> Error {
    Error::new(ErrorKind::StoreCorrupt, message)
}
