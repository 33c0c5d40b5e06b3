//! A reader of one answer, who writes down what it sees.

use super::verify::{Seen, Transcript, text_of};
use std::time::Duration;
use streamkeep::client::{Handle, Subscription};
use streamkeep::proto::dialect::Interpreter;
use streamkeep::proto::journal::{Body, Control, Record};
use streamkeep::proto::model::{Generation, Seq};
use streamkeep::{Cursor, Error, ErrorKind, Result};
use tokio::time::timeout;

/// The longest wait for one record of the test kit. No failure it plays takes nearly as
/// long, so more means that something hangs.
const LIMIT: Duration = Duration::from_secs(30);

/// The longest wait for one record of a real server: an answer that is held back may
/// take minutes, and the operation has its own clocks.
const PATIENT_LIMIT: Duration = Duration::from_secs(30 * 60);

/// A reader of one answer, who writes down what it sees.
pub(super) struct Reader {
    subscription: Subscription,
    state: Option<Box<dyn Interpreter>>,
    transcript: Transcript,
    generation: Generation,
    /// The longest wait for one record.
    limit: Duration,
    /// Whether the text is numbered words; else a piece of text counts as a token.
    counts_words: bool,
}

/// One record, as far as a person is interested.
pub(super) enum Step {
    Control(Box<Control>),
    /// Text, if the event brought any.
    Text(String),
}

impl Reader {
    /// One that begins at the first record.
    pub(super) fn new(name: &'static str, handle: &Handle) -> Self {
        Self {
            subscription: handle.subscribe(),
            state: None,
            transcript: Transcript {
                reader: name,
                after: 0,
                seen: Vec::new(),
                to_the_end: false,
            },
            generation: handle.generation(),
            limit: LIMIT,
            counts_words: true,
        }
    }

    /// One that reads the answer of a real server.
    pub(super) fn of_a_real_server(mut self) -> Self {
        self.limit = PATIENT_LIMIT;
        self.counts_words = false;
        self
    }

    /// One that saw this much of these records elsewhere, and comes back with the
    /// cursor behind the last of it.
    pub(super) fn back(
        name: &'static str,
        handle: &Handle,
        had: Vec<Seen>,
        journal: &[Record],
    ) -> Self {
        let mut reader = Self::new(name, handle);
        let last = had.last().map_or(0, |seen| seen.seq);
        for record in journal.iter().filter(|record| record.seq.get() <= last) {
            text_of(record, &mut reader.state);
        }
        reader.transcript.seen = had;
        reader.reconnect(handle);
        reader
    }

    /// Follows again from where it stands, on a connection of its own.
    pub(super) fn reconnect(&mut self, handle: &Handle) {
        self.transcript.to_the_end = false;
        self.subscription = handle.subscribe_after(self.cursor());
    }

    /// Behind which record it stands.
    pub(super) fn cursor(&self) -> Cursor {
        let last = self.transcript.seen.last().map_or(0, |seen| seen.seq);
        Cursor::new(self.generation, Seq::new(last))
    }

    /// The next record; `None` after the last one for now.
    ///
    /// # Errors
    ///
    /// Those of the subscription; [`ErrorKind::Internal`] when nothing comes for long.
    ///
    /// # Cancel safety
    ///
    /// A future dropped before it was ready loses nothing.
    pub(super) async fn next(&mut self) -> Result<Option<Step>> {
        let next = timeout(self.limit, self.subscription.next()).await;
        let Some(record) = next.unwrap_or_else(|_| Err(self.hangs()))? else {
            self.transcript.to_the_end = true;
            return Ok(None);
        };
        let text = self.write_down(&record);
        Ok(Some(match record.body {
            Body::Control(control) => Step::Control(control),
            _ => Step::Text(text),
        }))
    }

    /// Tokens so far.
    pub(super) fn tokens(&self) -> usize {
        let texts = self.transcript.seen.iter().map(|seen| seen.text.as_str());
        if self.counts_words {
            texts.map(|text| text.split_whitespace().count()).sum()
        } else {
            texts.filter(|text| !text.is_empty()).count()
        }
    }

    pub(super) fn into_transcript(self) -> Transcript {
        self.transcript
    }

    fn hangs(&self) -> Error {
        let message = format!(
            "expected a record within {} s, but none came",
            self.limit.as_secs()
        );
        Error::new(ErrorKind::Internal, message)
    }

    fn write_down(&mut self, record: &Record) -> String {
        let text = text_of(record, &mut self.state);
        self.transcript.seen.push(Seen {
            seq: record.seq.get(),
            text: text.clone(),
        });
        text
    }
}
