//! What a case looks like in the fixtures' words: its first exchange, or the
//! whole call.

use crate::fixtures::{Class, Phase, Retry};
use crate::play::{Played, attempt_end};
use crate::words::{class_of, retry_of};
use streamkeep::Dialect;
use streamkeep::proto::journal::{Body, Control, End, FailureNote, Record};
use streamkeep::proto::model::{Answer, Choice, StopReason, Usage};
use streamkeep::proto::operation::{Outcome, Recovered};

/// What was seen.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) class: Class,
    pub(crate) phase: Phase,
    pub(crate) failure: Option<FailureNote>,
    pub(crate) end: Option<End>,
    pub(crate) stop: Option<StopReason>,
    pub(crate) warnings: Vec<String>,
    pub(crate) answer: Answer,
    pub(crate) usage: Usage,
    pub(crate) retry: Retry,
    /// Start events that were delivered.
    pub(crate) starts: usize,
    /// Errors that the reader was told.
    pub(crate) errors: usize,
}

impl View {
    /// The first exchange, and what the reader had by then.
    pub(crate) fn of_first_exchange(played: &Played) -> Self {
        let at = played
            .records
            .iter()
            .position(|record| attempt_end(record).is_some())
            .expect("a journal tells how the first exchange ended");
        let ended = attempt_end(&played.records[at]).unwrap().clone();
        let finished = ended.decision == "finish";
        let upto = if finished {
            played.records.len()
        } else {
            at + 1
        };
        let records = &played.records[..upto];
        let answer = fold(records).answer().clone();
        let delivered = delivers(&answer);
        let class = match (&ended.failure, delivered) {
            (None, _) if finished => Class::Ok,
            (_, true) => Class::MidStream,
            (_, false) => Class::PreStream,
        };
        let final_record = records.iter().find_map(ended_record).filter(|_| finished);
        Self {
            class,
            phase: phase(class, played, 0, ended.failure.as_ref()),
            end: final_record.as_ref().map(|ended| ended.end),
            stop: final_record.as_ref().and_then(|ended| ended.stop.clone()),
            warnings: final_record.map_or_else(Vec::new, |ended| ended.warnings),
            retry: retry_of(&ended),
            failure: ended.failure,
            usage: answer.usage,
            starts: starts(records),
            errors: errors(&played.records),
            answer,
        }
    }

    /// The whole call.
    pub(crate) fn of_call(played: &Played, max_attempts: Option<u32>) -> Self {
        let records = &played.records;
        let answer = fold(records).answer().clone();
        let (class, end, stop, failure, warnings) = match &played.outcome {
            Outcome::Ended(ended) => (
                class_of(ended.end),
                Some(ended.end),
                ended.stop.clone(),
                ended.failure.clone(),
                ended.warnings.clone(),
            ),
            Outcome::Interrupted(interrupted) => (
                Class::MidStream,
                None,
                None,
                Some(interrupted.failure.clone()),
                Vec::new(),
            ),
            other => panic!("expected an end or an interruption, but found {other:?}"),
        };
        let ends: Vec<_> = records.iter().filter_map(attempt_end).collect();
        let last = ends.last().expect("a call has an exchange");
        // The last one of several is stopped because it is the last one; the one
        // before it tells what was right for such a failure.
        let spent = max_attempts.and_then(|max| usize::try_from(max).ok()) == Some(ends.len());
        let same = |before: &&_| kind_of(before) == kind_of(last);
        let decisive = match ends.iter().nth_back(1).filter(|b| spent && same(b)) {
            Some(before) if class == Class::PreStream => before,
            _ => last,
        };
        Self {
            class,
            phase: phase(class, played, ends.len() - 1, failure.as_ref()),
            failure,
            end,
            stop,
            warnings,
            usage: answer.usage,
            retry: retry_of(decisive),
            starts: starts(records),
            errors: errors(records),
            answer,
        }
    }

    pub(crate) fn choice(&self, index: u32) -> Choice {
        self.answer.choices.get(&index).cloned().unwrap_or_default()
    }
}

fn kind_of(ended: &streamkeep::proto::journal::AttemptEnded) -> Option<&str> {
    ended.failure.as_ref().map(|failure| failure.kind.as_str())
}

/// Where the exchange of this number had come to. A response whose head is
/// refused (its status, or what it announces) has come no further than that.
fn phase(class: Class, played: &Played, number: usize, failure: Option<&FailureNote>) -> Phase {
    let exchange = played.exchanges.get(number).copied().unwrap_or_default();
    let by_its_head = match exchange.status {
        None => true,
        Some(200..=299) => exchange.said == 0 && failure.is_some_and(|f| f.status.is_some()),
        Some(_) => true,
    };
    match class {
        Class::Ok => Phase::Done,
        Class::MidStream => Phase::BodyAfterContent,
        Class::PreStream | Class::Cancelled if by_its_head => Phase::Headers,
        Class::PreStream | Class::Cancelled => Phase::BodyBeforeContent,
    }
}

fn fold(records: &[Record]) -> Recovered {
    Recovered::fold(records).expect("every prefix of a journal is one")
}

/// Whether there is anything of a model in it.
fn delivers(answer: &Answer) -> bool {
    answer.choices.values().any(|choice| {
        let texts = [&choice.text, &choice.reasoning, &choice.refusal];
        texts.iter().any(|text| !text.is_empty())
            || !choice.tool_calls.is_empty()
            || choice.ambiguous_tool_calls
            || choice.parts.values().any(|part| part.opaque)
    })
}

fn control(record: &Record) -> Option<&Control> {
    match &record.body {
        Body::Control(control) => Some(control),
        _ => None,
    }
}

fn ended_record(record: &Record) -> Option<streamkeep::proto::journal::Ended> {
    match control(record) {
        Some(Control::Ended(ended)) => Some(ended.clone()),
        _ => None,
    }
}

fn errors(records: &[Record]) -> usize {
    let tells = |record: &&Record| match control(record) {
        Some(Control::Interrupted(_)) => true,
        Some(Control::Ended(ended)) => ended.failure.is_some(),
        _ => false,
    };
    records.iter().filter(tells).count()
}

fn has_event(records: &[Record]) -> bool {
    records
        .iter()
        .any(|record| matches!(record.body, Body::Event(_)))
}

/// Events that begin an answer, as a reader of its dialect knows them.
fn starts(records: &[Record]) -> usize {
    let recovered = fold(records);
    let mark = match recovered.opened().dialect {
        Dialect::OpenAiChat => r#""role":"assistant""#,
        Dialect::OpenAiResponses => r#""type":"response.created""#,
        Dialect::AnthropicMessages => r#""type":"message_start""#,
        // It has no event that begins: its chunks are all alike.
        Dialect::GeminiGenerate => return usize::from(has_event(records)),
        other => panic!("no start is known for {other}"),
    };
    records
        .iter()
        .filter(|record| matches!(&record.body, Body::Event(event) if event.data.contains(mark)))
        .count()
}
