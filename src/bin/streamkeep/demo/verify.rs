//! Whether a story ended well, from the journal and from what its readers saw.
//!
//! Nothing is taken on trust: what should have arrived is the text the provider was
//! told to give ([`Words`]), what did arrive is what each reader wrote down, and the
//! journal is read again from the store.

use super::lost::lost_ms;
use super::words::{Counted, compare};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use streamkeep::proto::dialect::{Interpreter, interpreter};
use streamkeep::proto::journal::{Body, Control, Delivered, End, Record};
use streamkeep::proto::model::Delta;
use streamkeep::proto::operation::{Outcome, Recovered};
use streamkeep::proto::sse::Event;
use streamkeep::testkit::Words;

/// One record as a reader got it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Seen {
    /// Its number.
    pub(super) seq: u64,
    /// The text it brought, if it brought any.
    pub(super) text: String,
}

/// What one reader saw, in the order in which it saw it.
#[derive(Clone, Debug)]
pub(super) struct Transcript {
    pub(super) reader: &'static str,
    /// After which record it began.
    pub(super) after: u64,
    pub(super) seen: Vec<Seen>,
    /// Whether it read to the end. One that died on the way did not.
    pub(super) to_the_end: bool,
}

/// What a story left behind to be checked.
#[derive(Clone, Debug)]
pub(super) struct Evidence {
    /// The journal as it stands in the store.
    pub(super) journal: Vec<Record>,
    /// The text that should have arrived; `None` when only the provider knows.
    pub(super) words: Option<Words>,
    /// The readers; the first one's tokens are the ones counted.
    pub(super) readers: Vec<Transcript>,
    /// Requests the provider saw, where it can be asked.
    pub(super) requests: Option<usize>,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Findings {
    /// Upstream exchanges.
    pub(super) attempts: u32,
    /// Tokens the first reader got.
    pub(super) tokens: usize,
    /// Tokens and records that came more than once, all readers together.
    pub(super) duplicates: usize,
    /// Tokens and records that are missing, all readers together.
    pub(super) gaps: usize,
    /// How long failures kept the reader waiting.
    pub(super) time_lost_ms: u64,
    /// How the answer ended, in the journal's word.
    pub(super) end: String,
    /// What is not as it should be.
    pub(super) problems: Vec<String>,
}

impl Findings {
    /// Whether everything is as it should be.
    pub(super) fn is_healed(&self) -> bool {
        self.problems.is_empty() && self.duplicates == 0 && self.gaps == 0
    }

    fn count(&mut self, whose: &str, counted: &Counted) {
        self.duplicates = self.duplicates.saturating_add(counted.duplicates);
        self.gaps = self.gaps.saturating_add(counted.gaps);
        self.problems.extend(
            counted
                .problems()
                .into_iter()
                .map(|what| format!("{whose}: {what}")),
        );
    }
}

/// Checks all there is to check.
pub(super) fn verify(evidence: &Evidence) -> Findings {
    let mut findings = Findings::default();
    let journal = &evidence.journal;
    findings.time_lost_ms = lost_ms(journal);
    check_numbers(journal, &mut findings);
    check_end(journal, &mut findings);
    if let Some(requests) = evidence.requests
        && usize::try_from(findings.attempts) != Ok(requests)
    {
        findings.problems.push(format!(
            "the journal tells of {} attempts, and the provider saw {requests} requests",
            findings.attempts
        ));
    }
    let texts = texts(journal);
    if let Some(words) = &evidence.words {
        let text: String = texts.values().map(String::as_str).collect();
        findings.count("journal", &compare(words, 0, true, &text));
    }
    if evidence.readers.is_empty() {
        findings.problems.push("nobody read the answer".to_owned());
    }
    for (number, reader) in evidence.readers.iter().enumerate() {
        check_records(&texts, reader, &mut findings);
        let text: String = reader.seen.iter().map(|seen| seen.text.as_str()).collect();
        let tokens = match &evidence.words {
            Some(words) => {
                let before: String = texts
                    .range(..=reader.after)
                    .map(|(_, text)| text.as_str())
                    .collect();
                let had = compare(words, 0, false, &before).known;
                let counted = compare(words, had, reader.to_the_end, &text);
                findings.count(reader.reader, &counted);
                counted.known
            }
            None => reader
                .seen
                .iter()
                .filter(|seen| !seen.text.is_empty())
                .count(),
        };
        if number == 0 {
            findings.tokens = tokens;
            if tokens == 0 {
                let nothing = format!("{}: not a single token arrived", reader.reader);
                findings.problems.push(nothing);
            }
        }
    }
    findings
}

/// Records are numbered from 1 without a hole, and the provider's own numbers rise.
fn check_numbers(journal: &[Record], findings: &mut Findings) {
    let mut counted = Counted::default();
    for (expected, record) in (1_u64..).zip(journal) {
        let found = record.seq.get();
        if found < expected {
            counted.duplicates = counted.duplicates.saturating_add(1);
        } else if found > expected {
            counted.gaps = counted.gaps.saturating_add(1);
        }
    }
    let mut last = None;
    for record in journal {
        let Body::Event(event) = &record.body else {
            continue;
        };
        let Some(number) = event.provider_seq else {
            continue;
        };
        if last.is_some_and(|last| number <= last) {
            counted.duplicates = counted.duplicates.saturating_add(1);
        }
        last = Some(number);
    }
    findings.count("numbers in the journal", &counted);
}

/// The answer ended whole, by the fold of its journal.
fn check_end(journal: &[Record], findings: &mut Findings) {
    "unknown".clone_into(&mut findings.end);
    let recovered = match Recovered::fold(journal) {
        Ok(recovered) => recovered,
        Err(error) => {
            return findings
                .problems
                .push(format!("journal: {}", error.message()));
        }
    };
    findings.attempts = recovered.attempts();
    match recovered.outcome() {
        Some(Outcome::Ended(ended)) => {
            ended.end.as_str().clone_into(&mut findings.end);
            if ended.end != End::Complete {
                let message = ended
                    .failure
                    .map(|failure| format!(": {}", failure.message));
                findings.problems.push(format!(
                    "the answer ended as {}{}",
                    ended.end.as_str(),
                    message.unwrap_or_default()
                ));
            }
        }
        Some(Outcome::Interrupted(interrupted)) => {
            "interrupted".clone_into(&mut findings.end);
            let message = interrupted.failure.message;
            findings
                .problems
                .push(format!("the answer rests interrupted: {message}"));
        }
        _ => findings.problems.push("the answer has no end".to_owned()),
    }
    let events = journal.iter().filter_map(|record| match &record.body {
        Body::Event(event) => Some(event.name.as_str()),
        _ => None,
    });
    let starts = events.filter(|name| *name == "message_start").count();
    if starts > 1 {
        findings
            .problems
            .push(format!("one message began {starts} times"));
    }
}

/// The reader got exactly the records of the journal after its cursor.
fn check_records(texts: &BTreeMap<u64, String>, reader: &Transcript, findings: &mut Findings) {
    let mut counted = Counted::default();
    let mut expected = reader.after.saturating_add(1);
    for seen in &reader.seen {
        if seen.seq < expected {
            counted.duplicates = counted.duplicates.saturating_add(1);
        } else {
            let missing = usize::try_from(seen.seq.saturating_sub(expected)).unwrap_or(usize::MAX);
            counted.gaps = counted.gaps.saturating_add(missing);
            expected = seen.seq.saturating_add(1);
        }
        match texts.get(&seen.seq) {
            None => counted.foreign = counted.foreign.saturating_add(1),
            Some(text) if *text != seen.text => counted.changed = true,
            Some(_) => {}
        }
    }
    if reader.to_the_end {
        let missing = texts.range(expected..).count();
        counted.gaps = counted.gaps.saturating_add(missing);
    }
    findings.count(&format!("records of the {}", reader.reader), &counted);
}

/// The text that each record brought, by its number; empty for most.
fn texts(journal: &[Record]) -> BTreeMap<u64, String> {
    let mut interpreter = None;
    let mut texts = BTreeMap::new();
    for record in journal {
        let text = text_of(record, &mut interpreter);
        // A number that comes twice is counted elsewhere; the first one stands.
        texts.entry(record.seq.get()).or_insert(text);
    }
    texts
}

/// The text a record brings to a reader that has read all before it. The reader's
/// state begins with the record that names the dialect.
pub(super) fn text_of(record: &Record, state: &mut Option<Box<dyn Interpreter>>) -> String {
    match &record.body {
        Body::Control(control) => {
            if let Control::Opened(opened) = control.as_ref() {
                *state = Some(interpreter(opened.dialect));
            }
            String::new()
        }
        Body::Event(event) => state
            .as_mut()
            .map(|state| text_of_event(event, state.as_mut()))
            .unwrap_or_default(),
        _ => String::new(),
    }
}

fn text_of_event(delivered: &Delivered, state: &mut dyn Interpreter) -> String {
    let event = Event::synthetic(delivered.event_name(), delivered.data.clone());
    let mut deltas = Vec::new();
    // A payload that does not read brings no text, and then the words do not fit.
    let _ = state.read(&event, &mut deltas);
    let mut text = String::new();
    for delta in deltas {
        if let Delta::Text {
            choice: 0,
            text: piece,
            ..
        } = delta
        {
            text.push_str(&piece);
        }
    }
    text
}

#[cfg(test)]
mod tests;
