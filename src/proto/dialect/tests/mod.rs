//! Tests of the interpreters as a whole: recorded failures, whole streams, the
//! vocabularies, and arbitrary input.

mod cases;
mod properties;
mod streams;
mod vocabulary;

use super::{EventKind, Interpreter, Malformed, Reading, interpreter};
use crate::proto::model::{Answer, Completion, Dialect};
use crate::proto::sse::Event;

/// What an interpreter made of a stream.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) answer: Answer,
    pub(super) readings: Vec<Reading>,
    pub(super) completion: Completion,
    pub(super) malformed: Option<Malformed>,
}

impl Run {
    pub(super) fn of(dialect: Dialect, events: &[Event]) -> Self {
        Self::with(interpreter(dialect), Answer::default(), events)
    }

    /// Goes on with `answer`; stops at the first malformed payload.
    pub(super) fn with(
        mut interpreter: Box<dyn Interpreter>,
        mut answer: Answer,
        events: &[Event],
    ) -> Self {
        let mut readings = Vec::new();
        let mut malformed = None;
        for event in events {
            let mut deltas = Vec::new();
            match interpreter.read(event, &mut deltas) {
                Ok(reading) => readings.push(reading),
                Err(error) => {
                    malformed = Some(error);
                    break;
                }
            }
            for delta in &deltas {
                answer.apply(delta);
            }
        }
        Self {
            answer,
            readings,
            completion: interpreter.completion(),
            malformed,
        }
    }

    pub(super) fn count(&self, kind: EventKind) -> usize {
        self.readings.iter().filter(|r| r.kind == kind).count()
    }
}

/// A small decoder for fixtures: lines, fields, blank lines (WHATWG 9.2.6). At
/// the end of input it keeps a pending event only if its data is one whole JSON
/// value or the end marker.
pub(super) fn events(stream: &str) -> Vec<Event> {
    let stream = stream.strip_prefix('\u{feff}').unwrap_or(stream);
    let stream = stream.replace("\r\n", "\n").replace('\r', "\n");
    let mut events = Vec::new();
    let (mut name, mut data) = (String::new(), None::<String>);
    let mut flush = |name: &mut String, data: &mut Option<String>| {
        let named = std::mem::take(name);
        let named = if named.is_empty() { "message" } else { &named };
        if let Some(data) = data.take() {
            events.push(Event::synthetic(named, data));
        }
    };
    for line in stream.split('\n') {
        if line.is_empty() {
            flush(&mut name, &mut data);
            continue;
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut name),
            "data" => match &mut data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => data = Some(value.to_owned()),
            },
            _ => {}
        }
    }
    let whole = data.as_ref().is_some_and(|data| {
        data.starts_with("[DONE]") || serde_json::from_str::<serde::de::IgnoredAny>(data).is_ok()
    });
    if whole {
        flush(&mut name, &mut data);
    }
    events
}
